"""Still more training programs: what none of the other tables has, with sizes that are odd."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable
from typing import Any

import programs
import torch
import torch.nn.functional as F
from families import BASE, D_MODEL, EXPERTS, GROUPED, HEAD, IMAGES, SIZES, T5, TOKENS, inputs
from programs import adamw, classes, conv, loop, mlp, two_steps, without_cudnn
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts


def program(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return programs.program(f"third: {name}")


# ---- transformers ---------------------------------------------------------------------------------------------------
SPEECH = SIZES | {"vocab_size": 40, "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8)}
SPEECH |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
SPEECH |= {"mask_time_prob": 0.0, "layerdrop": 0.0}
SERIES = {
    "prediction_length": 8,
    "context_length": 24,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 1,
}

MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "apertus": ("ApertusForCausalLM", "ApertusConfig", GROUPED, "causal"),
    "arcee": ("ArceeForCausalLM", "ArceeConfig", GROUPED, "causal"),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", GROUPED, "causal"),
    "persimmon": ("PersimmonForCausalLM", "PersimmonConfig", BASE, "causal"),
    "exaone4": ("Exaone4ForCausalLM", "Exaone4Config", GROUPED | {"sliding_window": 16}, "causal"),
    "helium": ("HeliumForCausalLM", "HeliumConfig", GROUPED | HEAD, "causal"),
    "gpt oss": (
        "GptOssForCausalLM",
        "GptOssConfig",
        GROUPED | HEAD | EXPERTS | {"num_local_experts": 4, "sliding_window": 16},
        "causal",
    ),
    "granite moe": (
        "GraniteMoeForCausalLM",
        "GraniteMoeConfig",
        GROUPED | EXPERTS | {"num_local_experts": 4},
        "causal",
    ),
    "olmo3": ("Olmo3ForCausalLM", "Olmo3Config", GROUPED | {"sliding_window": 16}, "causal"),
    "diffllama": ("DiffLlamaForCausalLM", "DiffLlamaConfig", GROUPED, "causal"),
    "cohere2": ("Cohere2ForCausalLM", "Cohere2Config", GROUPED | {"sliding_window": 16}, "causal"),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", GROUPED | HEAD, "causal"),
    "minimax": (
        "MiniMaxForCausalLM",
        "MiniMaxConfig",
        GROUPED | HEAD | EXPERTS | {"num_local_experts": 4, "block_size": 8},
        "causal",
    ),
    "qwen2 moe": (
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        GROUPED | EXPERTS | {"num_experts": 4, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 48},
        "causal",
    ),
    "doge": ("DogeForCausalLM", "DogeConfig", GROUPED, "causal"),
    "bitnet": ("BitNetForCausalLM", "BitNetConfig", GROUPED, "causal"),
    "rwkv": (
        "RwkvForCausalLM",
        "RwkvConfig",
        {
            "vocab_size": 500,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "attention_hidden_size": 64,
            "intermediate_size": 96,
            "context_length": 64,
        },
        "causal",
    ),
    "recurrent gemma": (
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        GROUPED | {"num_hidden_layers": 3, "lru_width": 64, "attention_window_size": 16},
        "causal",
    ),
    "openai gpt": (
        "OpenAIGPTLMHeadModel",
        "OpenAIGPTConfig",
        {"vocab_size": 500, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
        "causal",
    ),
    "lfm2": ("Lfm2ForCausalLM", "Lfm2Config", GROUPED | {"layer_types": ["conv", "full_attention"]}, "causal"),
    "qwen3 next": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        GROUPED
        | HEAD
        | EXPERTS
        | {
            "num_experts": 4,
            "moe_intermediate_size": 48,
            "shared_expert_intermediate_size": 48,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "layer_types": ["linear_attention", "full_attention"],
        },
        "causal",
    ),
    "llama4": (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        GROUPED | HEAD | {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 160},
        "causal",
    ),
    "bamba": (
        "BambaForCausalLM",
        "BambaConfig",
        GROUPED
        | {
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_d_state": 8,
            "mamba_n_groups": 1,
            "mamba_expand": 2,
            "mamba_chunk_size": 16,
            "attn_layer_indices": [1],
        },
        "causal",
    ),
    "mamba2": (
        "Mamba2ForCausalLM",
        "Mamba2Config",
        TOKENS
        | {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 8,
            "num_heads": 8,
            "head_dim": 8,
            "n_groups": 1,
            "chunk_size": 16,
        },
        "causal",
    ),
    "roformer causal": ("RoFormerForCausalLM", "RoFormerConfig", BASE | {"is_decoder": True}, "causal"),
    "big bird": ("BigBirdForMaskedLM", "BigBirdConfig", BASE | {"attention_type": "original_full"}, "causal"),
    "deberta v2": (
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        BASE | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16},
        "causal",
    ),
    "nystromformer": (
        "NystromformerForMaskedLM",
        "NystromformerConfig",
        BASE | {"num_landmarks": 8, "segment_means_seq_len": 40},
        "causal",
    ),
    "eurobert": ("EuroBertForMaskedLM", "EuroBertConfig", GROUPED | {"mask_token_id": 3}, "causal"),
    "megatron bert": ("MegatronBertForMaskedLM", "MegatronBertConfig", BASE, "causal"),
    "rembert": (
        "RemBertForMaskedLM",
        "RemBertConfig",
        BASE | {"input_embedding_size": 48, "output_embedding_size": 56},
        "causal",
    ),
    "xmod": ("XmodForMaskedLM", "XmodConfig", BASE | {"languages": ["en_XX"], "default_language": "en_XX"}, "causal"),
    "canine": (
        "CanineForSequenceClassification",
        "CanineConfig",
        SIZES
        | {
            "max_position_embeddings": 64,
            "num_hash_buckets": 100,
            "local_transformer_stride": 8,
            "downsampling_rate": 4,
        },
        "classify",
    ),
    "xlnet classes": (
        "XLNetForSequenceClassification",
        "XLNetConfig",
        {"vocab_size": 500, "d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 96},
        "classify",
    ),
    "mobilebert classes": (
        "MobileBertForSequenceClassification",
        "MobileBertConfig",
        BASE | {"embedding_size": 32, "intra_bottleneck_size": 32, "hidden_size": 64},
        "classify",
    ),
    "funnel classes": (
        "FunnelForSequenceClassification",
        "FunnelConfig",
        {
            "vocab_size": 500,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
            "d_model": 32,
            "n_head": 4,
            "d_head": 8,
            "d_inner": 64,
        },
        "classify",
    ),
    "layoutlm": ("LayoutLMForMaskedLM", "LayoutLMConfig", BASE, "causal"),
    "umt5": ("UMT5ForConditionalGeneration", "UMT5Config", T5, "causal"),
    "switch": (
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformersConfig",
        T5 | {"num_experts": 4, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
        "causal",
    ),
    "mvp": ("MvpForConditionalGeneration", "MvpConfig", D_MODEL, "causal"),
    "plbart": ("PLBartForConditionalGeneration", "PLBartConfig", D_MODEL, "causal"),
    "pegasus x": (
        "PegasusXForConditionalGeneration",
        "PegasusXConfig",
        D_MODEL | {"num_global_tokens": 8, "block_size": 16},
        "causal",
    ),
    "deit": ("DeiTForImageClassification", "DeiTConfig", SIZES | IMAGES, "image"),
    "siglip": ("SiglipForImageClassification", "SiglipConfig", {"vision_config": SIZES | IMAGES}, "image"),
    "dinov2 registers": (
        "Dinov2WithRegistersForImageClassification",
        "Dinov2WithRegistersConfig",
        SIZES | IMAGES,
        "image",
    ),
    "hiera": (
        "HieraForImageClassification",
        "HieraConfig",
        {
            "image_size": [32, 32],
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [1, 2],
            "embed_dim_multiplier": 2.0,
            "num_query_pool": 1,
            "query_stride": [2, 2],
            "masked_unit_size": [4, 4],
            "masked_unit_attention": [True, False],
        },
        "image",
    ),
    "mobilevit": (
        "MobileViTForImageClassification",
        "MobileViTConfig",
        {"image_size": 32, "hidden_sizes": [24, 32, 40], "neck_hidden_sizes": [8, 8, 12, 16, 20, 24, 64]},
        "image",
    ),
    "mobilevit v2": (
        "MobileViTV2ForImageClassification",
        "MobileViTV2Config",
        {"image_size": 64, "width_multiplier": 0.25},
        "large image",
    ),
    "pvt": (
        "PvtForImageClassification",
        "PvtConfig",
        {
            "image_size": 32,
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 16, 32],
            "num_attention_heads": [1, 2, 2, 4],
            "sequence_reduction_ratios": [4, 2, 1, 1],
        },
        "image",
    ),
    "swiftformer": (
        "SwiftFormerForImageClassification",
        "SwiftFormerConfig",
        {"image_size": 64, "depths": [1, 1, 1, 1], "embed_dims": [8, 16, 24, 32]},
        "image",
    ),
    "levit": (
        "LevitForImageClassification",
        "LevitConfig",
        {
            "image_size": 64,
            "hidden_sizes": [16, 32, 48],
            "num_attention_heads": [1, 2, 3],
            "depths": [1, 1, 1],
            "key_dim": [8, 8, 8],
        },
        "large image",
    ),
    "mobilenet v1": (
        "MobileNetV1ForImageClassification",
        "MobileNetV1Config",
        {"image_size": 32, "depth_multiplier": 0.25},
        "image",
    ),
    "data2vec vision": (
        "Data2VecVisionForImageClassification",
        "Data2VecVisionConfig",
        SIZES | IMAGES | {"use_relative_position_bias": True},
        "image",
    ),
    "segformer pixels": (
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 16, 24, 32],
            "num_attention_heads": [1, 2, 3, 4],
            "decoder_hidden_size": 24,
        },
        "pixels",
    ),
    "unispeech": ("UniSpeechForSequenceClassification", "UniSpeechConfig", SPEECH, "sound"),
    "sew": ("SEWForSequenceClassification", "SEWConfig", SPEECH | {"squeeze_factor": 2}, "sound"),
    "wav2vec2 conformer": (
        "Wav2Vec2ConformerForSequenceClassification",
        "Wav2Vec2ConformerConfig",
        SPEECH | {"conv_depthwise_kernel_size": 7},
        "sound",
    ),
    "time series": ("TimeSeriesTransformerForPrediction", "TimeSeriesTransformerConfig", SERIES, "seasons"),
    "informer": ("InformerForPrediction", "InformerConfig", SERIES, "seasons"),
    "esm": ("EsmForMaskedLM", "EsmConfig", BASE | {"mask_token_id": 3, "position_embedding_type": "rotary"}, "causal"),
    "bert tokens": ("BertForTokenClassification", "BertConfig", BASE, "tokens"),
    "electra questions": ("ElectraForQuestionAnswering", "ElectraConfig", BASE | {"embedding_size": 48}, "questions"),
    "roberta choices": ("RobertaForMultipleChoice", "RobertaConfig", BASE, "choices"),
    "gpt2 classes": (
        "GPT2ForSequenceClassification",
        "GPT2Config",
        TOKENS | {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
        "classify",
    ),
    "siglip pairs": (
        "SiglipModel",
        "SiglipConfig",
        {"text_config": BASE | {"projection_size": 64}, "vision_config": SIZES | IMAGES},
        "pair",
    ),
    "swin2sr": (
        "Swin2SRForImageSuperResolution",
        "Swin2SRConfig",
        {
            "image_size": 16,
            "patch_size": 1,
            "embed_dim": 24,
            "depths": [2],
            "num_heads": [3],
            "window_size": 4,
            "upscale": 2,
        },
        "small image",
    ),
}


def given(kind: str, device: str) -> dict[str, Any]:
    """What the model is called with: as in `families`, and a few that are not there."""
    ids = torch.randint(3, 500, (3, 40), device=device)
    if kind == "large image":
        return {"pixel_values": torch.randn(2, 3, 64, 64, device=device), "labels": classes(2, 2, device)}
    if kind == "small image":
        return {"pixel_values": torch.randn(2, 3, 16, 16, device=device)}
    if kind == "pixels":
        labels = torch.randint(2, (2, 32, 32), device=device)
        return {"pixel_values": torch.randn(2, 3, 32, 32, device=device), "labels": labels}
    if kind == "tokens":
        return {"input_ids": ids, "labels": torch.randint(2, (3, 40), device=device)}
    if kind == "questions":
        places = classes(3, 40, device)
        return {"input_ids": ids, "start_positions": places, "end_positions": places}
    if kind == "choices":
        return {"input_ids": torch.stack((ids, ids), 1), "labels": classes(3, 2, device)}
    if kind == "seasons":
        past, future = torch.randn(3, 27, device=device), torch.randn(3, 8, device=device)
        more = {"past_observed_mask": torch.ones_like(past), "future_observed_mask": torch.ones_like(future)}
        times = {"past_time_features": past[..., None], "future_time_features": future[..., None]}
        return {"past_values": past, "future_values": future} | more | times
    return inputs(kind, device)


def transformer(name: str, device: str, **more: Any) -> tuple[nn.Module, Callable[[], Tensor]]:
    kind, config, options, called = MODELS[name]
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers = importlib.import_module("transformers")
    model = getattr(transformers, kind)(getattr(transformers, config)(**options | more)).train().to(device)
    ready = given(called, device)

    def loss() -> Tensor:
        out = model(**ready)
        return out.loss if out.get("loss") is not None else out[0].square().mean()

    return model, loss


def add_transformer(name: str) -> None:
    @program(f"transformers: {name}")
    def _(device: str) -> Any:
        model, loss = transformer(name, device)
        return loss, adamw(model)


for family in MODELS:
    add_transformer(family)


@program("transformers: olmo3 in bfloat16 with checkpoints")
def _(device: str) -> Any:
    model, loss = transformer("olmo3", device, use_cache=False)
    model.to(torch.bfloat16).gradient_checkpointing_enable()
    return loss, torch.optim.AdamW(model.parameters(), fused=True)


@program("transformers: gpt oss under autocast")
def _(device: str) -> Any:
    model, loss = transformer("gpt oss", device)

    def under() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return loss()

    return under, adamw(model)


@program("transformers: deit under autocast, eager attention")
def _(device: str) -> Any:
    model, loss = transformer("deit", device, attn_implementation="eager")

    def under() -> Tensor:
        with torch.autocast("cuda", torch.float16):
            return loss()

    return under, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


# ---- images ---------------------------------------------------------------------------------------------------------
class Separable(nn.Module):
    def __init__(self, a: int, b: int, stride: int = 1):
        super().__init__()
        self.depth = nn.Conv2d(a, a, 3, stride, 1, groups=a, bias=False)
        self.norm, self.point = nn.BatchNorm2d(a), nn.Conv2d(a, b, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(self.point(F.relu6(self.norm(self.depth(x)))))


class Squeeze(nn.Module):
    def __init__(self, c: int):
        super().__init__()
        self.gates = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 4, 1), nn.SiLU(), nn.Conv2d(c // 4, c, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gates(x).sigmoid()


@program("separable convolutions with gates, without cuDNN")
def _(device: str) -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, 2, 1),
        Separable(12, 20, 2),
        Squeeze(20),
        Separable(20, 36),
        nn.Flatten(),
        nn.Linear(36 * 9 * 13, 7),
    ).to(device)
    x, y = torch.randn(5, 3, 33, 51, device=device), classes(5, 7, device)
    return without_cudnn(two_steps(lambda: F.cross_entropy(model(x), y), torch.optim.RMSprop(model.parameters())))


@program("separable convolutions with gates, channels last, half")
def _(device: str) -> Any:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1),
        Separable(16, 24, 2),
        Squeeze(24),
        Separable(24, 40),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(40, 7),
    ).to(device)
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(5, 3, 65, 49, device=device).to(memory_format=torch.channels_last)
    y = classes(5, 7, device)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.float16):
            return F.cross_entropy(model(x), y)

    scaler = torch.amp.GradScaler("cuda", init_scale=1.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    return loop(
        loss, optimizer, lambda v: scaler.scale(v).backward(), lambda: (scaler.step(optimizer), scaler.update())
    )


class DenseLayer(nn.Module):
    def __init__(self, a: int, grow: int):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(a), nn.Conv2d(a, grow, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.conv(F.relu(self.norm(x)))), 1)


def dense(device: str, again: bool) -> Any:
    layers = nn.ModuleList(DenseLayer(8 + 6 * i, 6) for i in range(5)).to(device)
    head = nn.Linear(38, 10).to(device)
    x, y = torch.randn(7, 8, 29, 31, device=device), classes(7, 10, device)

    def loss() -> Tensor:
        h = x
        for layer in layers:
            h = checkpoint(layer, h, use_reentrant=False) if again else layer(h)
        return F.cross_entropy(head(h.mean((2, 3))), y)

    return loss, torch.optim.NAdam([*layers.parameters(), *head.parameters()])


@program("dense connections")
def _(device: str) -> Any:
    return dense(device, False)


@program("dense connections, recomputed")
def _(device: str) -> Any:
    return dense(device, True)


@program("3D U-Net with group norm, without cuDNN")
def _(device: str) -> Any:
    down = nn.Sequential(nn.Conv3d(1, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU())
    mid = nn.Sequential(nn.Conv3d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.SiLU(), nn.ConvTranspose3d(16, 8, 2, 2))
    top = nn.Conv3d(16, 3, 1)
    model = nn.ModuleList((down, mid, top)).to(device)
    x, y = torch.randn(2, 1, 12, 20, 16, device=device), torch.randint(3, (2, 12, 20, 16), device=device)

    def loss() -> Tensor:
        a = model[0](x)
        scores = model[2](torch.cat((a, model[1](a)), 1))
        p, one = scores.softmax(1), F.one_hot(y, 3).movedim(-1, 1)
        dice = 2 * (p * one).sum((2, 3, 4)) / (p + one).sum((2, 3, 4))
        return F.cross_entropy(scores, y) + 1 - dice.mean()

    return without_cudnn(two_steps(loss, adamw(model)))


@program("spatial transformer")
def _(device: str) -> Any:
    where = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 11 * 13, 6))
    what = nn.Sequential(nn.Conv2d(1, 10, 5), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(10 * 8 * 9, 10))
    model = nn.ModuleList((where, what)).to(device)
    x, y = torch.randn(9, 1, 28, 33, device=device), classes(9, 10, device)

    def loss() -> Tensor:
        grid = F.affine_grid(model[0](x).view(-1, 2, 3), list(x.shape), align_corners=False)
        return F.cross_entropy(model[1](F.grid_sample(x, grid, align_corners=False)), y)

    return loss, torch.optim.Adam(model.parameters())


@program("super resolution with a perceptual loss")
def _(device: str) -> Any:
    model = nn.Sequential(conv(3, 20), nn.PReLU(), conv(20, 27), nn.PixelShuffle(3)).to(device)
    eye = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2)).to(device).requires_grad_(False)
    x, y = torch.randn(3, 3, 15, 17, device=device), torch.randn(3, 3, 45, 51, device=device)

    def loss() -> Tensor:
        made = model(x)
        return F.l1_loss(made, y) + 0.1 * F.mse_loss(eye(made), eye(y))

    return loss, adamw(model)


@program("detection: boxes, generalized IoU and focal loss")
def _(device: str) -> Any:
    body = nn.Sequential(conv(3, 16), nn.MaxPool2d(2), conv(16, 24), nn.MaxPool2d(2)).to(device)
    head = nn.Conv2d(24, 4 + 5, 1).to(device)
    x = torch.randn(3, 3, 44, 60, device=device)
    target = torch.rand(3, 165, 4, device=device)
    kind = torch.rand(3, 165, 5, device=device)

    def loss() -> Tensor:
        out = head(body(x)).flatten(2).transpose(1, 2)
        low, size = out[..., :2].sigmoid(), out[..., 2:4].exp()
        box = torch.cat((low, low + size), -1)
        inner = (torch.minimum(box[..., 2:], target[..., 2:]) - torch.maximum(box[..., :2], target[..., :2])).clamp(
            min=0
        )
        outer = torch.maximum(box[..., 2:], target[..., 2:]) - torch.minimum(box[..., :2], target[..., :2])
        area = inner.prod(-1)
        union = size.prod(-1) + (target[..., 2:] - target[..., :2]).prod(-1) - area
        giou = area / union - (outer.prod(-1) - union) / outer.prod(-1)
        bce = F.binary_cross_entropy_with_logits(out[..., 4:], kind, reduction="none")
        return (1 - giou).mean() + ((1 - (-bce).exp()) ** 2 * bce).mean()

    return loss, torch.optim.AdamW([*body.parameters(), *head.parameters()], fused=True)


@program("mixer of odd patches in float64")
def _(device: str) -> Any:
    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(33) for _ in range(2))
            self.tokens, self.channels = mlp(35, 50, 35, activation=nn.GELU), mlp(33, 70, 33, activation=nn.GELU)

        def forward(self, x: Tensor) -> Tensor:
            x = x + self.tokens(self.norms[0](x).mT).mT
            return x + self.channels(self.norms[1](x))

    model = nn.Sequential(nn.Linear(3 * 49, 33), Mixer(), Mixer(), nn.LayerNorm(33)).double().to(device)
    x = torch.randn(4, 35, 147, device=device, dtype=torch.float64)
    return lambda: model(x).mean(1).square().sum(), torch.optim.Adagrad(model.parameters())


@program("capsules with routing")
def _(device: str) -> Any:
    w = nn.Parameter(torch.randn(72, 10, 8, 16, device=device))
    body = nn.Conv2d(1, 32, 9, 3).to(device)
    x, y = torch.randn(11, 1, 17, 17, device=device), classes(11, 10, device)

    def squash(s: Tensor) -> Tensor:
        n = s.square().sum(-1, keepdim=True)
        return n / (1 + n) * s / (n + 1e-8).sqrt()

    def loss() -> Tensor:
        u = squash(body(x).reshape(11, -1, 8)[:, :36].repeat(1, 2, 1))
        votes = torch.einsum("bid,ijde->bije", u, w)
        logits = torch.zeros(11, 72, 10, device=x.device)
        for _ in range(3):
            v = squash((logits.softmax(2)[..., None] * votes).sum(1))
            logits = logits + (votes * v[:, None]).sum(-1)
        length, one = v.norm(dim=-1), F.one_hot(y, 10)
        return (one * F.relu(0.9 - length) ** 2 + 0.5 * (1 - one) * F.relu(length - 0.1) ** 2).sum(1).mean()

    return loss, torch.optim.Adam([w, *body.parameters()])


# ---- generators -----------------------------------------------------------------------------------------------------
class Noisy(nn.Module):
    """A small U-Net that is told the time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = mlp(32, 48, 24, activation=nn.SiLU)
        self.first, self.down = nn.Conv2d(3, 24, 3, 1, 1), nn.Conv2d(24, 24, 3, 2, 1)
        self.norm, self.heads = nn.GroupNorm(6, 24), nn.MultiheadAttention(24, 4, batch_first=True)
        self.up, self.last = nn.ConvTranspose2d(24, 24, 4, 2, 1), nn.Conv2d(48, 3, 3, 1, 1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        half = torch.exp(torch.arange(16, device=x.device) * (-math.log(1e4) / 16)) * t[:, None]
        a = F.silu(self.first(x) + self.time(torch.cat((half.sin(), half.cos()), 1))[:, :, None, None])
        b = F.silu(self.norm(self.down(a)))
        tokens = b.flatten(2).transpose(1, 2)
        b = b + self.heads(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).view_as(b)
        return self.last(torch.cat((a, self.up(b)), 1))


def diffusion(device: str) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = Noisy().to(device)
    x = torch.randn(6, 3, 18, 26, device=device)

    def loss() -> Tensor:
        t = torch.rand(6, device=device)
        noise = torch.randn_like(x)
        angle = (t * math.pi / 2)[:, None, None, None]
        return F.mse_loss(model(x * angle.cos() + noise * angle.sin(), t), noise)

    return model, loss


@program("diffusion with attention and an average of weights")
def _(device: str) -> Any:
    model, loss = diffusion(device)
    optimizer = adamw(model)
    average = [p.detach().clone() for p in model.parameters()]

    def update() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch._foreach_lerp_(average, [p.detach() for p in model.parameters()], 0.01)

    return loop(loss, optimizer, update=update)


@program("diffusion in bfloat16, without cuDNN, gradients accumulated")
def _(device: str) -> Any:
    model, loss = diffusion(device)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):
            optimizer.zero_grad()
            for _ in range(2):
                with torch.autocast("cuda", torch.bfloat16):
                    value = loss()
                (value / 2).backward()
            value = loss()
            mark(f"forward {step}")
            value.backward()
            mark(f"backward {step}")
            optimizer.step()
            mark(f"optimizer {step}")
        return value

    return without_cudnn(run)


@program("flow: affine couplings and 1x1 convolutions")
def _(device: str) -> Any:
    nets = nn.ModuleList(mlp(10, 64, 22, activation=nn.Tanh) for _ in range(4)).to(device)
    turns = nn.ParameterList(torch.randn(21, 21) for _ in range(4)).to(device)
    x = torch.randn(301, 21, device=device)

    def loss() -> Tensor:
        z, det = x, torch.zeros((), device=device)
        for net, turn in zip(nets, turns, strict=True):
            z = z @ turn
            a, b = z[:, :10], z[:, 10:]
            s, t = net(a).chunk(2, 1)
            z = torch.cat((a, b * s.tanh().exp() + t), 1)
            det = det + s.tanh().sum(1)
        return (0.5 * z.square().sum(1) - det).mean()

    return loss, torch.optim.Adamax([*nets.parameters(), *turns.parameters()])


@program("quantized autoencoder, straight through")
def _(device: str) -> Any:
    enc = nn.Sequential(nn.Conv1d(2, 16, 8, 4), nn.GELU(), nn.Conv1d(16, 24, 4, 2)).to(device)
    dec = nn.Sequential(nn.ConvTranspose1d(24, 16, 4, 2), nn.GELU(), nn.ConvTranspose1d(16, 2, 8, 4)).to(device)
    book = nn.Embedding(77, 24).to(device)
    x = torch.randn(5, 2, 404, device=device)

    def loss() -> Tensor:
        z = enc(x).transpose(1, 2)
        flat = z.reshape(-1, 24)
        codes = (flat.square().sum(1, True) - 2 * flat @ book.weight.T + book.weight.square().sum(1)).argmin(1)
        q = book(codes).view_as(z)
        commit = F.mse_loss(q.detach(), z) * 0.25 + F.mse_loss(q, z.detach())
        return F.mse_loss(dec((z + (q - z).detach()).transpose(1, 2)), x) + commit

    return loss, adamw(nn.ModuleList((enc, dec, book)))


@program("score matching by slices")
def _(device: str) -> Any:
    model = mlp(23, 130, 130, 23, activation=nn.Softplus).to(device)
    x = torch.randn(205, 23, device=device)

    def loss() -> Tensor:
        y = x.clone().requires_grad_()
        v = torch.randn_like(y)
        score = model(y)
        slope = torch.autograd.grad((score * v).sum(), y, create_graph=True)[0]
        return ((slope * v).sum(1) + 0.5 * score.square().sum(1)).mean()

    return loss, torch.optim.Adam(model.parameters())


@program("adversaries with hinge loss and spectral norm")
def _(device: str) -> Any:
    maker = nn.Sequential(
        mlp(16, 90, 3 * 8 * 8), nn.Unflatten(1, (3, 8, 8)), nn.Upsample(scale_factor=2), nn.Conv2d(3, 3, 3, 1, 1)
    )
    norm = nn.utils.parametrizations.spectral_norm
    judge = nn.Sequential(norm(nn.Conv2d(3, 12, 4, 2, 1)), nn.LeakyReLU(0.2), nn.Flatten(), norm(nn.Linear(12 * 64, 1)))
    maker, judge = maker.to(device), judge.to(device)
    first, second = (torch.optim.Adam(m.parameters(), betas=(0.0, 0.9)) for m in (maker, judge))
    real = torch.randn(10, 3, 16, 16, device=device)

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):
            z = torch.randn(10, 16, device=device)
            second.zero_grad()
            value = F.relu(1 - judge(real)).mean() + F.relu(1 + judge(maker(z).detach())).mean()
            value.backward()
            second.step()
            first.zero_grad()
            value = -judge(maker(z)).mean()
            mark(f"forward {step}")
            value.backward()
            mark(f"backward {step}")
            first.step()
            mark(f"optimizer {step}")
        return value

    return run


@program("radiance field")
def _(device: str) -> Any:
    model = mlp(63, 96, 96, 4).to(device)
    rays, goal = torch.randn(37, 6, device=device), torch.rand(37, 3, device=device)

    def loss() -> Tensor:
        t = torch.linspace(0.1, 2, 24, device=device)
        points = rays[:, None, :3] + t[:, None] * rays[:, None, 3:]
        waves = [f(points * 2**i) for i in range(10) for f in (torch.sin, torch.cos)]
        out = model(torch.cat((points, *waves), -1))
        alpha = 1 - torch.exp(-F.relu(out[..., 3]) * 0.08)
        through = torch.cumprod(torch.cat((torch.ones(37, 1, device=device), 1 - alpha[:, :-1] + 1e-10), 1), 1)
        return F.mse_loss((torch.sigmoid(out[..., :3]) * (alpha * through)[..., None]).sum(1), goal)

    return loss, torch.optim.RAdam(model.parameters())


# ---- graphs and sets ------------------------------------------------------------------------------------------------
@program("graph attention by edges")
def _(device: str) -> Any:
    lin, score = nn.Linear(19, 4 * 8).to(device), nn.Parameter(torch.randn(4, 16, device=device))
    head = nn.Linear(32, 5).to(device)
    x, y = torch.randn(203, 19, device=device), classes(203, 5, device)
    a, b = torch.randint(203, (2, 1501), device=device)

    def loss() -> Tensor:
        h = lin(x).view(203, 4, 8)
        e = F.leaky_relu((torch.cat((h[a], h[b]), -1) * score).sum(-1), 0.2)
        top = torch.full((203, 4), -1e9, device=device).scatter_reduce(0, b[:, None].expand(-1, 4), e, "amax")
        w = (e - top[b]).exp()
        total = torch.zeros(203, 4, device=device).index_add(0, b, w)
        out = torch.zeros(203, 4, 8, device=device).index_add(0, b, h[a] * (w / (total[b] + 1e-9))[..., None])
        return F.cross_entropy(head(F.elu(out.flatten(1))), y)

    return loss, adamw(nn.ModuleList((lin, head)))


@program("dynamic graph of nearest neighbours")
def _(device: str) -> Any:
    model = mlp(6, 40, 28).to(device)
    head = nn.Linear(28, 9).to(device)
    x, y = torch.randn(3, 111, 3, device=device), classes(3, 9, device)

    def loss() -> Tensor:
        near = torch.cdist(x, x).topk(7, largest=False)[1]
        around = x[torch.arange(3, device=device)[:, None, None], near]
        edges = torch.cat((x[:, :, None].expand_as(around), around - x[:, :, None]), -1)
        return F.cross_entropy(head(model(edges).amax(2).amax(1)), y)

    return loss, adamw(nn.ModuleList((model, head)))


@program("messages with a GRU cell, mean of neighbours")
def _(device: str) -> Any:
    send, cell = mlp(33, 33).to(device), nn.GRUCell(33, 33).to(device)
    x = torch.randn(130, 33, device=device)
    a, b = torch.randint(130, (2, 700), device=device)

    def loss() -> Tensor:
        h = x
        for _ in range(3):
            pulled = torch.zeros_like(h).scatter_reduce(
                0, b[:, None].expand(-1, 33), send(h)[a], "mean", include_self=False
            )
            h = cell(pulled, h)
        return h.logsumexp(1).mean()

    return loss, torch.optim.Adadelta([*send.parameters(), *cell.parameters()])


@program("set transformer with induced points")
def _(device: str) -> Any:
    seeds = nn.Parameter(torch.randn(1, 11, 32, device=device))
    near, far = (nn.MultiheadAttention(32, 4, batch_first=True).to(device) for _ in range(2))
    x = torch.randn(5, 83, 32, device=device)

    def loss() -> Tensor:
        h = near(seeds.expand(5, -1, -1), x, x)[0]
        return far(x, h, h)[0].square().mean()

    return loss, torch.optim.Adam([seeds, *near.parameters(), *far.parameters()])


@program("recommender with bags and factors")
def _(device: str) -> Any:
    bags = nn.ModuleList(nn.EmbeddingBag(n, 24, mode="sum") for n in (101, 57, 333)).to(device)
    top, bottom = mlp(24 + 6, 50, 1).to(device), mlp(13, 40, 24).to(device)
    numbers, clicks = torch.randn(130, 13, device=device), torch.rand(130, 1, device=device)
    ids = [torch.randint(n, (130, 3), device=device) for n in (101, 57, 333)]

    def loss() -> Tensor:
        dense_part = bottom(numbers)
        all_of = torch.stack([dense_part, *(bag(i) for bag, i in zip(bags, ids, strict=True))], 1)
        i, j = torch.tril_indices(4, 4, -1, device=device)
        crossed = (all_of @ all_of.mT)[:, i, j]
        return F.binary_cross_entropy_with_logits(top(torch.cat((dense_part, crossed), 1)), clicks)

    return loss, torch.optim.Adagrad([*bags.parameters(), *top.parameters(), *bottom.parameters()])


# ---- sequences ------------------------------------------------------------------------------------------------------
@program("linear attention by running sums")
def _(device: str) -> Any:
    qkv, out = nn.Linear(48, 144).to(device), nn.Linear(48, 48).to(device)
    x = torch.randn(3, 57, 48, device=device)

    def loss() -> Tensor:
        q, k, v = (t.view(3, 57, 4, 12) for t in qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bthd,bthe->bthde", k, v).cumsum(1)
        z = 1 / (torch.einsum("bthd,bthd->bth", q, k.cumsum(1)) + 1e-6)
        return out(torch.einsum("bthd,bthde,bth->bthe", q, kv, z).flatten(2)).square().mean()

    return loss, adamw(nn.ModuleList((qkv, out)))


@program("state space by a scan, recomputed")
def _(device: str) -> Any:
    a, b = nn.Parameter(torch.randn(36, 8, device=device)), nn.Linear(36, 8 + 8 + 1).to(device)
    x = torch.randn(3, 41, 36, device=device)

    def scan(u: Tensor) -> Tensor:
        into, from_, dt = b(u).split((8, 8, 1), -1)
        dt = F.softplus(dt)
        h, ys = torch.zeros(3, 36, 8, device=device), []
        for t in range(41):
            h = h * (-dt[:, t, :, None] * a.exp()).exp() + (dt * u)[:, t, :, None] * into[:, t, None]
            ys.append((h * from_[:, t, None]).sum(-1))
        return torch.stack(ys, 1)

    return lambda: checkpoint(scan, x.requires_grad_(), use_reentrant=True).square().mean(), torch.optim.SGD(
        [a, *b.parameters()], 0.1, momentum=0.9, nesterov=True
    )


@program("sequence to sequence with attention cells")
def _(device: str) -> Any:
    words, cell, look = (
        nn.Embedding(90, 28).to(device),
        nn.LSTMCell(28 + 28, 28).to(device),
        nn.Linear(28, 28).to(device),
    )
    head = nn.Linear(28, 90).to(device)
    source, target = torch.randint(90, (7, 13), device=device), torch.randint(90, (7, 9), device=device)

    def loss() -> Tensor:
        memory = words(source)
        h = c = torch.zeros(7, 28, device=device)
        total = torch.zeros((), device=device)
        for t in range(8):
            w = (memory @ look(h)[..., None]).squeeze(-1).softmax(1)
            h, c = cell(torch.cat((words(target[:, t]), (w[:, None] @ memory).squeeze(1)), 1), (h, c))
            total = total + F.cross_entropy(head(h), target[:, t + 1], label_smoothing=0.1)
        return total

    return loss, adamw(nn.ModuleList((words, cell, look, head)))


@program("experts with capacity and a balance loss, bfloat16")
def _(device: str) -> Any:
    gate = nn.Linear(40, 6, bias=False).to(device)
    w1, w2 = (nn.Parameter(torch.randn(6, a, b, device=device, dtype=torch.bfloat16)) for a, b in ((40, 96), (96, 40)))
    x = torch.randn(256, 40, device=device)

    def loss() -> Tensor:
        p = gate(x).softmax(-1)
        top, which = p.topk(2, -1)
        one = F.one_hot(which, 6)
        place = one.view(-1, 6).cumsum(0).view(256, 2, 6) - 1
        keep = (place < 90) & (one > 0)
        send = (F.one_hot(place.clamp(0, 89), 90) * keep[..., None]).to(torch.bfloat16)
        packed = torch.einsum("tkec,td->ecd", send, x.bfloat16())
        made = F.gelu(packed @ w1) @ w2
        back = torch.einsum("tkec,tk,ecd->td", send, top.bfloat16(), made)
        return back.float().square().mean() + 0.01 * 6 * (p.mean(0) * one.float().sum(1).mean(0)).sum()

    return loss, torch.optim.AdamW([gate.weight, w1, w2])


@program("alibi attention with a window, half, grouped heads")
def _(device: str) -> Any:
    q, kv, out = nn.Linear(64, 64), nn.Linear(64, 32), nn.Linear(64, 64)
    model = nn.ModuleList((q, kv, out)).to(device)
    x = torch.randn(2, 70, 64, device=device)
    place = torch.arange(70, device=device)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.float16):
            far = (place[:, None] - place).float()
            bias = torch.where((far >= 0) & (far < 20), -far.abs() * 0.1, float("-inf"))[None, None]
            a = q(x).view(2, 70, 8, 8).transpose(1, 2)
            b, c = (t.view(2, 70, 2, 8).transpose(1, 2) for t in kv(x).chunk(2, -1))
            y = F.scaled_dot_product_attention(a, b, c, bias.half(), enable_gqa=True)
            return out(y.transpose(1, 2).flatten(2)).float().square().mean()

    return loss, torch.optim.AdamW(model.parameters(), fused=True)


@program("speech: mel features by products, CTC")
def _(device: str) -> Any:
    model = nn.Sequential(nn.Linear(40, 50), nn.GELU(), nn.Linear(50, 21)).to(device)
    mel, window = torch.rand(129, 40, device=device), torch.hann_window(256, device=device)
    wave = torch.randn(4, 6000, device=device)
    turn = torch.randn(256, 129, device=device)
    labels = torch.randint(1, 21, (4, 12), device=device)

    def loss() -> Tensor:
        frames = wave.unfold(1, 256, 100) * window
        logits = model(((frames @ turn).square() @ mel + 1e-6).log())
        sizes = torch.full((4,), logits.shape[1]), torch.full((4,), 12)
        return F.ctc_loss(logits.log_softmax(-1).transpose(0, 1), labels, *sizes)

    return without_cudnn(two_steps(loss, torch.optim.Adam(model.parameters())))


# ---- loops, optimizers, derivatives ---------------------------------------------------------------------------------
def plain(device: str, width: int = 131) -> tuple[nn.Module, Callable[[], Tensor]]:
    model = mlp(67, width, width, 9, activation=nn.SiLU).to(device)
    x, y = torch.randn(203, 67, device=device), classes(203, 9, device)
    return model, lambda: F.cross_entropy(model(x), y)


@program("sharpness-aware, two backwards")
def _(device: str) -> Any:
    model, loss = plain(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)

    def backward(value: Tensor) -> None:
        value.backward()
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()  # type: ignore[union-attr]
        with torch.no_grad():
            shifts = [p.grad * (0.05 / (norm + 1e-12)) for p in model.parameters()]
            torch._foreach_add_(list(model.parameters()), shifts)
        optimizer.zero_grad()
        loss().backward()
        with torch.no_grad():
            torch._foreach_sub_(list(model.parameters()), shifts)

    return loop(loss, optimizer, backward)


@program("meta-learning, two inner steps")
def _(device: str) -> Any:
    model, _ = plain(device, 45)
    xs, ys = torch.randn(4, 31, 67, device=device), torch.randint(9, (4, 31), device=device)

    def loss() -> Tensor:
        total = torch.zeros((), device=device)
        for x, y in zip(xs, ys, strict=True):
            now = dict(model.named_parameters())
            for _ in range(2):
                inner = F.cross_entropy(torch.func.functional_call(model, now, (x,)), y)
                grads = torch.autograd.grad(inner, list(now.values()), create_graph=True)
                now = {k: p - 0.1 * g for (k, p), g in zip(now.items(), grads, strict=True)}
            total = total + F.cross_entropy(torch.func.functional_call(model, now, (x,)), y)
        return total / 4

    return loss, torch.optim.Adam(model.parameters())


@program("gradients of each sample, clipped, with noise")
def _(device: str) -> Any:
    model, _ = plain(device, 45)
    x, y = torch.randn(31, 67, device=device), classes(31, 9, device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def one(params: dict[str, Tensor], a: Tensor, b: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(model, params, (a[None],)), b[None])

    def run(mark: Callable[[str], None]) -> object:
        mark("built")
        for step in (1, 2):
            optimizer.zero_grad()
            mark(f"forward {step}")
            params = {k: p.detach() for k, p in model.named_parameters()}
            grads = torch.func.vmap(torch.func.grad(one), (None, 0, 0))(params, x, y)
            size = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
            for k, p in model.named_parameters():
                clip = (1 / (size + 1e-6)).clamp(max=1).view(-1, *[1] * p.dim())
                p.grad = (grads[k] * clip).mean(0) + 0.01 * torch.randn_like(p)
            mark(f"backward {step}")
            optimizer.step()
            mark(f"optimizer {step}")
        return grads

    return run


@program("physics: the Laplacian of a network in its loss")
def _(device: str) -> Any:
    model = mlp(2, 70, 70, 1, activation=nn.Tanh).to(device)
    x = torch.rand(333, 2, device=device)

    def loss() -> Tensor:
        p = x.clone().requires_grad_()
        u = model(p)
        first = torch.autograd.grad(u.sum(), p, create_graph=True)[0]
        second = [torch.autograd.grad(first[:, i].sum(), p, create_graph=True)[0][:, i] for i in range(2)]
        return (second[0] + second[1] + p.prod(1)).square().mean() + u[:20].square().mean()

    return loss, torch.optim.Adam(model.parameters(), amsgrad=True)


@program("equilibrium by iteration, gradient at the end only")
def _(device: str) -> Any:
    cell, into = nn.Linear(90, 90).to(device), nn.Linear(33, 90).to(device)
    x = torch.randn(121, 33, device=device)

    def loss() -> Tensor:
        given = into(x)
        with torch.no_grad():
            z = torch.zeros(121, 90, device=device)
            for _ in range(6):
                z = torch.tanh(cell(z) + given)
        z = torch.tanh(cell(z) + given)
        return z.square().mean()

    return loss, torch.optim.ASGD([*cell.parameters(), *into.parameters()])


@program("ODE by Runge-Kutta, each step recomputed")
def _(device: str) -> Any:
    f = mlp(26, 80, 26, activation=nn.Tanh).to(device)
    x = torch.randn(77, 26, device=device)

    def step(z: Tensor) -> Tensor:
        a = f(z)
        b = f(z + 0.05 * a)
        c = f(z + 0.05 * b)
        return z + 0.1 / 6 * (a + 2 * b + 2 * c + f(z + 0.1 * c))

    def loss() -> Tensor:
        z = x
        for _ in range(5):
            z = checkpoint(step, z, use_reentrant=False, preserve_rng_state=False)
        return z.square().sum()

    optimizer = torch.optim.Adam(f.parameters(), fused=True)
    return loss, optimizer


@program("teacher and student, temperature, channels frozen")
def _(device: str) -> Any:
    teacher, student = mlp(67, 200, 9).to(device).eval(), mlp(67, 40, 9).to(device)
    student[0].weight.requires_grad_(False)
    x = torch.randn(203, 67, device=device)

    def loss() -> Tensor:
        with torch.inference_mode():
            goal = (teacher(x) / 4).softmax(-1)
        return F.kl_div((student(x) / 4).log_softmax(-1), goal.clone(), reduction="batchmean") * 16

    return loss, torch.optim.Adam([p for p in student.parameters() if p.requires_grad])


@program("policy gradient with clipping and entropy")
def _(device: str) -> Any:
    body, policy, value = (
        mlp(11, 64, 64, activation=nn.Tanh).to(device),
        nn.Linear(64, 5).to(device),
        nn.Linear(64, 1).to(device),
    )
    seen, acts, gain = torch.randn(401, 11, device=device), classes(401, 5, device), torch.randn(401, device=device)
    before = torch.randn(401, device=device)
    model = nn.ModuleList((body, policy, value))
    optimizer = torch.optim.Adam(model.parameters())

    def loss() -> Tensor:
        h = body(seen)
        now = torch.distributions.Categorical(logits=policy(h))
        ratio = (now.log_prob(acts) - before).exp()
        good = (gain - gain.mean()) / (gain.std() + 1e-8)
        gained = torch.min(ratio * good, ratio.clamp(0.8, 1.2) * good)
        return -gained.mean() + 0.5 * F.mse_loss(value(h).squeeze(-1), gain) - 0.01 * now.entropy().mean()

    return loop(loss, optimizer, update=lambda: (nn.utils.clip_grad_norm_(model.parameters(), 0.5), optimizer.step()))


@program("actor and critic with squashed normals")
def _(device: str) -> Any:
    actor, critic = mlp(11, 64, 8).to(device), mlp(15, 64, 1).to(device)
    target = mlp(15, 64, 1).to(device).requires_grad_(False)
    s = torch.randn(130, 11, device=device)

    def loss() -> Tensor:
        mean, log = actor(s).chunk(2, -1)
        law = torch.distributions.Normal(mean, log.clamp(-5, 2).exp(), validate_args=False)
        raw = law.rsample()
        act = raw.tanh()
        logp = (law.log_prob(raw) - (1 - act.square() + 1e-6).log()).sum(-1)
        both = torch.cat((s, act), -1)
        with torch.no_grad():
            goal = 0.99 * target(both) - logp[:, None]
        return F.mse_loss(critic(both.detach()), goal) + (0.2 * logp - critic(both).squeeze(-1)).mean()

    model = nn.ModuleList((actor, critic))
    optimizer = adamw(model)

    def update() -> None:
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(target.parameters(), critic.parameters(), strict=True):
                a.mul_(0.995).add_(b, alpha=0.005)

    return loop(loss, optimizer, update=update)


@program("low rank adapters on a frozen bfloat16 net")
def _(device: str) -> Any:
    frozen = mlp(130, 210, 130, 50).to(device, torch.bfloat16).requires_grad_(False)
    layers = [layer for layer in frozen if isinstance(layer, nn.Linear)]
    ups = nn.ParameterList(torch.zeros(layer.out_features, 4) for layer in layers).to(device)
    downs = nn.ParameterList(torch.randn(4, layer.in_features) for layer in layers).to(device)
    x, y = torch.randn(77, 130, device=device), classes(77, 50, device)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            h = x
            for layer, up, down in zip(layers, ups, downs, strict=True):
                h = F.relu(layer(h) + F.dropout(h, 0.1) @ down.T @ up.T * 2)
            return F.cross_entropy(h, y)

    return loss, torch.optim.AdamW([*ups, *downs])


@program("many checkpoints: in sequence, nested and chosen")
def _(device: str) -> Any:
    blocks = nn.Sequential(
        *(nn.Sequential(nn.LayerNorm(72), nn.Linear(72, 150), nn.GELU(), nn.Linear(150, 72)) for _ in range(6))
    )
    blocks = blocks.to(device)
    x = torch.randn(91, 72, device=device)

    def contexts() -> Any:
        return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])

    def loss() -> Tensor:
        h = checkpoint_sequential(blocks[:2], 2, x.requires_grad_(), use_reentrant=False)
        h = checkpoint(lambda t: checkpoint(blocks[3], blocks[2](t), use_reentrant=False), h, use_reentrant=False)
        h = checkpoint(blocks[4], h, use_reentrant=False, context_fn=contexts)
        return checkpoint(blocks[5], h, use_reentrant=True).square().mean()

    return loss, adamw(blocks)


@program("saved tensors on the host and in 8 bits")
def _(device: str) -> Any:
    model, loss = plain(device, 260)

    def pack(t: Tensor) -> Any:
        if not t.is_floating_point() or t.numel() < 1000 or isinstance(t, nn.Parameter):
            return t
        scale = t.abs().amax() / 127
        return (t / scale).round().to(torch.int8), scale

    def unpack(kept: Any) -> Tensor:
        return kept if isinstance(kept, Tensor) else kept[0].to(torch.float32) * kept[1]

    def both() -> Tensor:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            first = loss()
        with torch.autograd.graph.save_on_cpu():
            return first + loss()

    return both, adamw(model)


@program("optimizer in backward, gradients freed at once")
def _(device: str) -> Any:
    model, loss = plain(device, 170)
    each = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}

    def update(p: Tensor) -> None:
        each[p].step()
        each[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    return loop(loss, each[next(model.parameters())], update=lambda: None, clear=lambda: None)


class Own(torch.autograd.Function):
    """A function of the program's own that keeps less than autograd would."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        y = F.linear(x, w).relu_()
        ctx.save_for_backward(x, w, y > 0)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Any:
        x, w, on = ctx.saved_tensors
        dy = dy * on
        return dy @ w, dy.T @ x


@program("own functions and gradients as views of one buffer")
def _(device: str) -> Any:
    ws = nn.ParameterList(torch.randn(95, 95) for _ in range(4)).to(device)
    flat = torch.zeros(4 * 95 * 95, device=device)
    for i, w in enumerate(ws):
        w.grad = flat[i * 9025 : (i + 1) * 9025].view(95, 95)
    x = torch.randn(155, 95, device=device)

    def loss() -> Tensor:
        h = x
        for w in ws:
            h = Own.apply(h, w)
        return h.norm()

    optimizer = torch.optim.SGD(ws, 0.01, momentum=0.9)
    return loop(loss, optimizer, clear=lambda: optimizer.zero_grad(set_to_none=False))


@program("wide softmax in chunks that are recomputed")
def _(device: str) -> Any:
    body, head = nn.Embedding(900, 40).to(device), nn.Linear(40, 900, bias=False).to(device)
    head.weight = body.weight
    ids = torch.randint(900, (4, 101), device=device)

    def part(h: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(head(h).float(), y, reduction="sum")

    def loss() -> Tensor:
        h = body(ids).tanh()[:, :-1].flatten(0, 1)
        y = ids[:, 1:].flatten()
        pieces = zip(h.split(130), y.split(130), strict=True)
        return sum(checkpoint(part, a, b, use_reentrant=False) for a, b in pieces) / y.numel()  # type: ignore[return-value]

    return loss, torch.optim.Adafactor(body.parameters())


@program("muon and AdamW, a schedule, weights averaged")
def _(device: str) -> Any:
    model, loss = plain(device, 96)
    wide = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    first, second = torch.optim.Muon(wide, lr=0.02), torch.optim.AdamW(rest)
    mean = torch.optim.swa_utils.AveragedModel(model)

    def update() -> None:
        first.step()
        second.step()
        mean.update_parameters(model)

    return loop(loss, first, update=update, clear=lambda: model.zero_grad(True))


@program("hypernetwork that makes another's weights")
def _(device: str) -> Any:
    maker = mlp(7, 30, 21 * 17 + 17, activation=nn.ELU).to(device)
    tasks, x = torch.randn(9, 7, device=device), torch.randn(9, 55, 21, device=device)

    def loss() -> Tensor:
        made = maker(tasks)
        w, b = made[:, : 21 * 17].view(9, 21, 17), made[:, 21 * 17 :]
        return torch.baddbmm(b[:, None], x, w).relu().var()

    return loss, torch.optim.Rprop(maker.parameters())


@program("contrast with a queue and a slow copy")
def _(device: str) -> Any:
    quick, slow = mlp(67, 100, 32).to(device), mlp(67, 100, 32).to(device).requires_grad_(False)
    queue = F.normalize(torch.randn(501, 32, device=device), dim=1)
    x = torch.randn(64, 67, device=device)

    def loss() -> Tensor:
        q = F.normalize(quick(x + 0.1 * torch.randn_like(x)), dim=1)
        with torch.no_grad():
            torch._foreach_lerp_(list(slow.parameters()), list(quick.parameters()), 0.01)
            k = F.normalize(slow(x), dim=1)
        logits = torch.cat(((q * k).sum(1, keepdim=True), q @ queue.clone().T), 1) / 0.2
        queue[:64] = k
        return F.cross_entropy(logits, torch.zeros(64, dtype=torch.long, device=device))

    return loss, torch.optim.SGD(quick.parameters(), 0.03, momentum=0.9)


@program("angular margin over many classes, half")
def _(device: str) -> Any:
    body, w = mlp(67, 120, 48).to(device), nn.Parameter(torch.randn(703, 48, device=device))
    x, y = torch.randn(99, 67, device=device), classes(99, 703, device)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.float16):
            cos = F.linear(F.normalize(body(x)), F.normalize(w)).float().clamp(-1 + 1e-6, 1 - 1e-6)
        margin = torch.zeros_like(cos).scatter(1, y[:, None], 0.5)
        return F.cross_entropy(30 * (cos.acos() + margin).cos(), y)

    return loss, torch.optim.SGD([*body.parameters(), w], 0.1)
