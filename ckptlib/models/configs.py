"""Which transformers does the book count? Their published sizes, under the names that the literature uses."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CkptError


@dataclass(frozen=True)
class Config:
    """A GPT's sizes, under their usual names: `width` is h, `heads` a, `tokens` s of the literature."""

    layers: int
    width: int
    heads: int
    tokens: int
    vocabulary: int
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "dropout" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise CkptError(f"{name} is {value!r}, expected a whole number, 1 or more")
        if not isinstance(self.dropout, (int, float)) or not 0 <= self.dropout <= 1:
            raise CkptError(f"dropout is {self.dropout!r}, expected a probability, from 0 to 1. Is it in percent?")
        if self.width % self.heads:
            raise CkptError(
                f"width {self.width} and {self.heads} heads: expected a width that the heads can share, "
                f"such as {self.heads * (self.width // self.heads or 1)}. It is that of all heads together"
            )

    @property
    def parameters(self) -> int:
        """Per layer 12h² of weights and 13h of biases and norms; token and position tables; one last norm."""
        h = self.width
        return self.layers * (12 * h * h + 13 * h) + (self.vocabulary + self.tokens) * h + 2 * h

    def layer_nbytes(self, batch: int = 1) -> int:
        """One layer saves in half precision: sbh(34 + 5as/h), and 8 bytes per token for two LayerNorms' statistics.

        Korthikanti et al. 2022 leave the statistics out; on a GPU they are float32, and 16 bytes.
        """
        s, h, a = self.tokens, self.width, self.heads
        return batch * (34 * s * h + 5 * a * s * s + 8 * s)


@dataclass(frozen=True)
class LlamaConfig(Config):
    """A Llama's sizes: `kv_heads` heads of keys and values serve `heads` of queries; `ffn` is the SwiGLU's width."""

    dropout: float = 0.0
    kv_heads: int = 8
    ffn: int = 14336

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise CkptError(
                f"{self.heads} heads and kv_heads {self.kv_heads}: expected a kv_heads that divides the heads, "
                f"such as {self.heads}. Without a kv_heads of your own it is {LlamaConfig.kv_heads}"
            )
        if self.head_width % 2:
            raise CkptError(
                f"width {self.width} and {self.heads} heads: {self.head_width} features a head, expected an even "
                "number, since positions turn them in pairs"
            )

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        return self.head_width * self.kv_heads

    @property
    def parameters(self) -> int:
        """No biases, no positions to learn; the output has a table of its own."""
        h = self.width
        layer = 2 * h * h + 2 * h * self.kv_width + 3 * h * self.ffn + 2 * h
        return self.layers * layer + 2 * self.vocabulary * h + h


GPT2_XL = Config(layers=48, width=1600, heads=25, tokens=1024, vocabulary=50257)
GPT3_175B = Config(layers=96, width=12288, heads=96, tokens=2048, vocabulary=51200)
MT_NLG_530B = Config(layers=105, width=20480, heads=128, tokens=2048, vocabulary=51200)
# A GPT-2 XL in name and size only: the one whose memory a well-known explanation adds up. It is built like a Llama.
GPT2_XL_SWIGLU = LlamaConfig(
    layers=48, width=1600, heads=25, tokens=1024, vocabulary=50257, dropout=0.0, kv_heads=25, ffn=6400
)
LLAMA3_8B = LlamaConfig(layers=32, width=4096, heads=32, tokens=8192, vocabulary=128256, ffn=14336)
LLAMA3_70B = LlamaConfig(layers=80, width=8192, heads=64, tokens=8192, vocabulary=128256, ffn=28672)
LLAMA3_405B = LlamaConfig(layers=126, width=16384, heads=128, tokens=8192, vocabulary=128256, ffn=53248)

CONFIGS: dict[str, Config] = {
    "gpt2-xl": GPT2_XL,
    "gpt2-xl-swiglu": GPT2_XL_SWIGLU,
    "gpt3-175b": GPT3_175B,
    "mt-nlg-530b": MT_NLG_530B,
    "llama3-8b": LLAMA3_8B,
    "llama3-70b": LLAMA3_70B,
    "llama3-405b": LLAMA3_405B,
}


def named(config: str | Config) -> Config:
    """The config of that name; a Config is returned as it is."""
    if isinstance(config, Config):
        return config
    if str(config).lower() not in CONFIGS:
        raise CkptError(f"no model {config!r}: expected a Config or one of {', '.join(CONFIGS)}")
    return CONFIGS[str(config).lower()]
