"""Which models of `transformers` does a practitioner bring? One row each: tiny, with more activations than weights.

A row is the model's class, its configuration's class, what the configuration says, and the name of its inputs.
"""

import importlib
import logging

import torch

WORDS, N, T = 100, 4, 48  # words, sequences, tokens
TOKENS = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64}
BASE = TOKENS | SIZES | {"max_position_embeddings": 64, "attn_implementation": "eager"}
BOTH = TOKENS | {"d_model": 32, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4}
BOTH |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_start_token_id": 1}
T5 = TOKENS | {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 3, "num_heads": 4, "decoder_start_token_id": 0}
VIT = SIZES | {"image_size": 64, "patch_size": 8, "attn_implementation": "eager"}
SWIN = {"image_size": 64, "patch_size": 2, "embed_dim": 8, "depths": [2, 2, 4], "num_heads": [1, 2, 4]}
CLIP = {
    "text_config": BASE,
    "vision_config": VIT,
    "projection_dim": 16,
}
AUDIO = {"num_mel_bins": 8, "max_source_positions": 64, "max_target_positions": 64}
NEXT = {"hidden_sizes": [8, 16, 32], "depths": [2, 4, 2], "num_stages": 3, "patch_size": 4}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16, 32], "depths": [3, 4, 3], "layer_type": "basic"}
MOE = BASE | {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}

MODELS = {
    "bert": ("BertForMaskedLM", "BertConfig", BASE, "text"),
    "albert": ("AlbertForMaskedLM", "AlbertConfig", BASE | {"embedding_size": 16}, "text"),
    "opt": ("OPTForCausalLM", "OPTConfig", BASE | {"ffn_dim": 64, "word_embed_proj_dim": 32}, "text"),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", MOE, "text"),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5, "text"),
    "bart": ("BartForConditionalGeneration", "BartConfig", BOTH | {"max_position_embeddings": 64}, "text"),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", BOTH | AUDIO, "spectrum"),
    "clip": ("CLIPModel", "CLIPConfig", CLIP, "pair"),
    "vit": ("ViTForImageClassification", "ViTConfig", VIT, "image"),
    "swin": ("SwinForImageClassification", "SwinConfig", SWIN | {"window_size": 4}, "image"),
    "convnext": ("ConvNextForImageClassification", "ConvNextConfig", NEXT, "image"),
    "resnet": ("ResNetForImageClassification", "ResNetConfig", RESNET, "image"),
}
# The rows of blocks that are planned together, as one finds them by reading the models. The others are planned module
# by module: ALBERT has one block that runs four times.
CHAINS = {
    "t5": [3, 3],
    "bart": [3, 3],
    "whisper": [3, 3],
    "clip": [4, 4],
    "swin": [2, 2, 4],
    "convnext": [2, 4, 2],
    "resnet": [10],  # nothing is between its stages
    "opt": [4],
    "vit": [4],
}


def build(name):
    """A function that builds the model with its inputs, the same each time."""

    def built():
        torch.manual_seed(0)
        logging.getLogger("transformers").setLevel(logging.ERROR)
        transformers = importlib.import_module("transformers")
        model, config, options, kind = MODELS[name]
        made = getattr(transformers, model)(getattr(transformers, config)(**options)).train()
        return made, inputs(kind)

    return built


def inputs(kind):
    ids = torch.randint(3, WORDS, (N, T))
    if kind == "text":
        return {"input_ids": ids, "labels": ids}
    if kind == "spectrum":
        return {"input_features": torch.randn(N, AUDIO["num_mel_bins"], 128), "labels": ids}
    images = torch.randn(N, 3, 64, 64)
    if kind == "pair":
        return {"input_ids": ids, "pixel_values": images, "return_loss": True}
    return {"pixel_values": images, "labels": torch.arange(N) % 2}
