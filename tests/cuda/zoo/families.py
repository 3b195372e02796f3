"""Models of `transformers`, one row each: tiny, with random weights, and nothing is downloaded.

A row is the model's class, its configuration's class, what the configuration says, and the name of its inputs.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

V, N, T = 500, 3, 40  # words, sequences, tokens
TOKENS = {"vocab_size": V, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 160}
BASE = TOKENS | SIZES | {"max_position_embeddings": 64}
GROUPED = BASE | {"num_key_value_heads": 2}
HEAD = {"head_dim": 16}
D_MODEL = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
D_MODEL |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128} | TOKENS
D_MODEL |= {"decoder_start_token_id": 1, "max_position_embeddings": 64}
T5 = TOKENS | {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
GPT = TOKENS | {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
IMAGES = {"image_size": 32, "patch_size": 8, "num_channels": 3}
EXPERTS = {"num_experts_per_tok": 2}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}
AUDIO = SIZES | {"vocab_size": 40, "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8)}
AUDIO |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
AUDIO |= {"mask_time_prob": 0.0, "layerdrop": 0.0}
CLIP_TEXT = BASE | {"projection_dim": 32}
CLIP_IMAGE = SIZES | IMAGES | {"projection_dim": 32}
CLIP = {"text_config": CLIP_TEXT, "vision_config": CLIP_IMAGE, "projection_dim": 32}

FAMILIES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    # decoders
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT, "causal"),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED, "causal"),
    "mistral": ("MistralForCausalLM", "MistralConfig", GROUPED | {"sliding_window": 16}, "causal"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GROUPED, "causal"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED | HEAD, "causal"),
    "qwen3 moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
                  GROUPED | HEAD | EXPERTS | {"num_experts": 4, "moe_intermediate_size": 48}, "causal"),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", GROUPED | EXPERTS | {"num_local_experts": 4}, "causal"),
    "opt": ("OPTForCausalLM", "OPTConfig", BASE | {"ffn_dim": 128, "word_embed_proj_dim": 64}, "causal"),
    "bloom": ("BloomForCausalLM", "BloomConfig", TOKENS | {"hidden_size": 64, "n_layer": 2, "n_head": 4}, "causal"),
    "gpt neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", BASE, "causal"),
    "gpt neo": ("GPTNeoForCausalLM", "GPTNeoConfig", TOKENS | {"hidden_size": 64, "num_layers": 2, "num_heads": 4,
                "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64, "window_size": 16},
                "causal"),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", GPT | {"rotary_dim": 8}, "causal"),
    "falcon": ("FalconForCausalLM", "FalconConfig", BASE, "causal"),
    "phi": ("PhiForCausalLM", "PhiConfig", BASE, "causal"),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", GROUPED, "causal"),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", GROUPED | HEAD, "causal"),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", GROUPED | HEAD | {"sliding_window": 16}, "causal"),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", GROUPED | HEAD | {"sliding_window": 16}, "causal"),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", GROUPED, "causal"),
    "olmo": ("OlmoForCausalLM", "OlmoConfig", GROUPED, "causal"),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GROUPED, "causal"),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", GROUPED, "causal"),
    "cohere": ("CohereForCausalLM", "CohereConfig", GROUPED, "causal"),
    "granite": ("GraniteForCausalLM", "GraniteConfig", GROUPED, "causal"),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", GROUPED, "causal"),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", GPT | {"rotary_dim": 8}, "causal"),
    "biogpt": ("BioGptForCausalLM", "BioGptConfig", BASE, "causal"),
    "xglm": ("XGLMForCausalLM", "XGLMConfig", TOKENS | {"d_model": 64, "num_layers": 2, "attention_heads": 4,
             "ffn_dim": 128, "max_position_embeddings": 64}, "causal"),
    "mpt": ("MptForCausalLM", "MptConfig", TOKENS | {"d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
            "causal"),
    "mamba": ("MambaForCausalLM", "MambaConfig",
              TOKENS | {"hidden_size": 32, "num_hidden_layers": 1, "state_size": 8}, "causal"),
    "deepseek v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", BASE | EXPERTS | {"num_key_value_heads": 4,
        "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 48,
        "first_k_dense_replace": 1, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 16}, "causal"),
    # encoders
    "bert": ("BertForMaskedLM", "BertConfig", BASE, "causal"),
    "bert classifier": ("BertForSequenceClassification", "BertConfig", BASE, "classify"),
    "bert masked": ("BertForTokenClassification", "BertConfig", BASE, "masked"),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig", BASE, "causal"),
    "xlm roberta": ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", BASE, "classify"),
    "distilbert": ("DistilBertForMaskedLM", "DistilBertConfig", TOKENS | {"dim": 64, "n_layers": 2, "n_heads": 4,
                   "hidden_dim": 128, "max_position_embeddings": 64}, "causal"),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", BASE | {"embedding_size": 32}, "causal"),
    "electra": ("ElectraForMaskedLM", "ElectraConfig", BASE | {"embedding_size": 32}, "causal"),
    "deberta": ("DebertaForMaskedLM", "DebertaConfig", BASE | {"relative_attention": True,
                "pos_att_type": ["p2c", "c2p"]}, "causal"),
    "deberta v2": ("DebertaV2ForSequenceClassification", "DebertaV2Config",
                   BASE | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "classify"),
    "mpnet": ("MPNetForMaskedLM", "MPNetConfig", BASE, "causal"),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertConfig", BASE | {"local_attention": 16,
                   "cls_token_id": 1, "sep_token_id": 2}, "causal"),
    "convbert": ("ConvBertForMaskedLM", "ConvBertConfig", BASE | {"embedding_size": 64}, "causal"),
    "squeezebert": ("SqueezeBertForMaskedLM", "SqueezeBertConfig", BASE | {"embedding_size": 64}, "causal"),
    "mobilebert": ("MobileBertForMaskedLM", "MobileBertConfig", BASE | {"embedding_size": 32,
                   "intra_bottleneck_size": 32, "true_hidden_size": 32, "num_feedforward_networks": 2}, "causal"),
    "fnet": ("FNetForMaskedLM", "FNetConfig", BASE, "causal"),
    "layoutlm": ("LayoutLMForSequenceClassification", "LayoutLMConfig", BASE, "classify"),
    # encoders with decoders
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, "causal"),
    "t5 gated": ("T5ForConditionalGeneration", "T5Config", T5 | {"feed_forward_proj": "gated-gelu"}, "causal"),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config", T5, "causal"),
    "bart": ("BartForConditionalGeneration", "BartConfig", D_MODEL, "causal"),
    "mbart": ("MBartForConditionalGeneration", "MBartConfig", D_MODEL, "causal"),
    "marian": ("MarianMTModel", "MarianConfig", D_MODEL, "causal"),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", D_MODEL, "causal"),
    "blenderbot": ("BlenderbotForConditionalGeneration", "BlenderbotConfig", D_MODEL, "causal"),
    # images
    "vit": ("ViTForImageClassification", "ViTConfig", SIZES | IMAGES, "image"),
    "deit": ("DeiTForImageClassification", "DeiTConfig", SIZES | IMAGES, "image"),
    "beit": ("BeitForImageClassification", "BeitConfig", SIZES | IMAGES, "image"),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Config", SIZES | IMAGES, "image"),
    "swin": ("SwinForImageClassification", "SwinConfig", SWIN, "image"),
    "swin v2": ("Swinv2ForImageClassification", "Swinv2Config", SWIN, "image"),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig",
                 {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 4}, "image"),
    "resnet": ("ResNetForImageClassification", "ResNetConfig",
               {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}, "image"),
    "regnet": ("RegNetForImageClassification", "RegNetConfig",
               {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8}, "image"),
    "mobilenet v2": ("MobileNetV2ForImageClassification", "MobileNetV2Config", {"depth_multiplier": 0.35}, "image"),
    "segformer": ("SegformerForImageClassification", "SegformerConfig", {"hidden_sizes": [16, 32, 32, 64],
                  "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}, "image"),
    "poolformer": ("PoolFormerForImageClassification", "PoolFormerConfig",
                   {"hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}, "image"),
    "clip": ("CLIPModel", "CLIPConfig", CLIP, "pair"),
    "siglip": ("SiglipModel", "SiglipConfig", CLIP, "pair"),
    # sound
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", D_MODEL | {"num_mel_bins": 16,
                "max_source_positions": 40, "max_target_positions": 64}, "spectrum"),
    "wav2vec2": ("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", AUDIO, "sound"),
    "hubert": ("HubertForSequenceClassification", "HubertConfig", AUDIO, "sound"),
    "audio spectrogram": ("ASTForAudioClassification", "ASTConfig", SIZES | {"num_mel_bins": 32, "max_length": 64,
                          "patch_size": 16}, "spectrogram"),
    # more of all kinds, which came when the rules were done
    "gpt bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", GPT, "causal"),
    "glm": ("GlmForCausalLM", "GlmConfig", GROUPED | HEAD, "causal"),
    "diffllama": ("DiffLlamaForCausalLM", "DiffLlamaConfig", GROUPED, "causal"),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", GROUPED | EXPERTS | {"num_experts": 4}, "causal"),
    "mamba2": ("Mamba2ForCausalLM", "Mamba2Config", TOKENS | {"hidden_size": 32, "num_hidden_layers": 1, "num_heads": 4,
               "head_dim": 16, "state_size": 8, "n_groups": 1, "chunk_size": 16}, "causal"),
    "recurrent gemma": ("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig",
                        BASE | {"lru_width": 64, "attention_window_size": 16, "num_hidden_layers": 3}, "causal"),
    "ctrl": ("CTRLLMHeadModel", "CTRLConfig", GPT | {"dff": 128}, "causal"),
    "xlnet": ("XLNetLMHeadModel", "XLNetConfig", TOKENS | {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 128},
              "causal"),
    "roformer": ("RoFormerForMaskedLM", "RoFormerConfig", BASE | {"embedding_size": 64}, "causal"),
    "funnel": ("FunnelForMaskedLM", "FunnelConfig", TOKENS | {"d_model": 64, "n_head": 4, "d_head": 16, "d_inner": 128,
               "block_sizes": [1, 1], "num_decoder_layers": 1}, "causal"),
    "esm": ("EsmForMaskedLM", "EsmConfig", BASE | {"mask_token_id": 3, "position_embedding_type": "rotary"}, "causal"),
    "longt5": ("LongT5ForConditionalGeneration", "LongT5Config", T5 | {"local_radius": 8}, "causal"),
    "m2m 100": (
        "M2M100ForConditionalGeneration",
        "M2M100Config",
        D_MODEL | {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
        "causal",
    ),
    "prophetnet": ("ProphetNetForConditionalGeneration", "ProphetNetConfig", TOKENS | {"hidden_size": 64,
        "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "num_encoder_layers": 2, "num_decoder_layers": 2,
        "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "ngram": 2, "num_buckets": 8,
        "decoder_start_token_id": 1}, "causal"),
    "efficientnet": ("EfficientNetForImageClassification", "EfficientNetConfig", {"image_size": 32,
        "width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320, "kernel_sizes": [3, 3, 5],
        "in_channels": [32, 16, 24], "out_channels": [16, 24, 40], "strides": [1, 2, 2], "num_block_repeats": [1, 1, 1],
        "expand_ratios": [1, 6, 6], "depthwise_padding": []}, "image"),
    "focalnet": ("FocalNetForImageClassification", "FocalNetConfig", {"image_size": 32, "patch_size": 4,
        "embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32], "focal_levels": [2, 2],
        "focal_windows": [3, 3]}, "image"),
    "pvt v2": ("PvtV2ForImageClassification", "PvtV2Config", {"image_size": 32, "hidden_sizes": [16, 32, 32, 64],
        "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}, "image"),
    "vit mae": ("ViTMAEForPreTraining", "ViTMAEConfig", SIZES | IMAGES | {"decoder_hidden_size": 32,
        "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
        "decoder_intermediate_size": 64}, "unlabelled image"),
    "bit": ("BitForImageClassification", "BitConfig", {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 1],
            "num_groups": 8}, "image"),
    "convnext v2": ("ConvNextV2ForImageClassification", "ConvNextV2Config",
                    {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 4}, "image"),
    "imagegpt": ("ImageGPTForCausalImageModeling", "ImageGPTConfig", GPT | {"vocab_size": 501}, "causal"),
    "wavlm": ("WavLMForSequenceClassification", "WavLMConfig", AUDIO, "sound"),
    "videomae": ("VideoMAEForVideoClassification", "VideoMAEConfig", SIZES | IMAGES | {"num_frames": 4}, "video"),
    "timesformer": ("TimesformerForVideoClassification", "TimesformerConfig",
        SIZES | IMAGES | {"num_frames": 4}, "video"),
    "vivit": ("VivitForVideoClassification", "VivitConfig", SIZES | {"image_size": 32, "num_frames": 4,
              "tubelet_size": [2, 8, 8]}, "video"),
    "patchtst": ("PatchTSTForPrediction", "PatchTSTConfig", {"num_input_channels": 3, "context_length": 64,
        "patch_length": 8, "patch_stride": 8, "d_model": 32, "num_attention_heads": 4,
        "num_hidden_layers": 2, "ffn_dim": 64,
        "prediction_length": 16}, "series"),
    "patchtsmixer": ("PatchTSMixerForPrediction", "PatchTSMixerConfig", {"num_input_channels": 3, "context_length": 64,
        "patch_length": 8, "patch_stride": 8, "d_model": 32, "num_layers": 2, "prediction_length": 16}, "series"),
}  # fmt: skip


def inputs(kind: str, device: str) -> dict[str, Tensor]:
    """What the model is called with, made on the device."""
    if kind == "video":
        return {
            "pixel_values": torch.randn(2, 4, 3, 32, 32, device=device),
            "labels": torch.randint(2, (2,), device=device),
        }
    if kind == "unlabelled image":
        return {"pixel_values": torch.randn(2, 3, 32, 32, device=device)}
    if kind == "series":
        past, future = torch.randn(4, 64, 3, device=device), torch.randn(4, 16, 3, device=device)
        return {"past_values": past, "future_values": future}
    if kind in ("image", "sound", "spectrogram"):
        shape = {"image": (2, 3, 32, 32), "sound": (2, 2000), "spectrogram": (2, 64, 32)}[kind]
        values = torch.randn(shape, device=device)
        labels = torch.randint(2, (2,), device=device)
        return {"pixel_values" if kind == "image" else "input_values": values, "labels": labels}
    if kind == "spectrum":
        return {
            "input_features": torch.randn(2, 16, 80, device=device),
            "labels": torch.randint(V, (2, 20), device=device),
        }
    ids = torch.randint(3, V, (N, T), device=device)
    if kind == "classify":
        return {"input_ids": ids, "labels": torch.randint(2, (N,), device=device)}
    if kind == "masked":
        mask = torch.ones(N, T, dtype=torch.long, device=device)
        return {"input_ids": ids, "labels": torch.randint(2, (N, T), device=device), "attention_mask": mask}
    if kind == "pair":
        return {"input_ids": ids, "pixel_values": torch.randn(N, 3, 32, 32, device=device), "return_loss": True}  # type: ignore[dict-item]
    return {"input_ids": ids, "labels": ids}


def build(family: str, device: str, **more: Any) -> tuple[nn.Module, Callable[[], Tensor]]:
    """The model on the device, and a function that returns its loss."""
    name, config_name, options, kind = FAMILIES[family]
    logging.getLogger("transformers").setLevel(logging.ERROR)
    transformers = importlib.import_module("transformers")
    model = getattr(transformers, name)(getattr(transformers, config_name)(**options | more))
    model = model.train().to(device)
    given = inputs(kind, device)
    return model, lambda: model(**given).loss


def preload() -> None:
    """Import every model's module, so that a forked process finds it."""
    transformers = importlib.import_module("transformers")
    for name, config, _, _ in FAMILIES.values():
        getattr(transformers, name), getattr(transformers, config)
