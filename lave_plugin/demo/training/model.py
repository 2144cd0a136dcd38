"""SDAR's architecture (Qwen3's, with block-causal attention) at about two million parameters.

Modules carry the names of a Hugging Face Qwen3 checkpoint, so that saving is writing the
state dict. Embedding and output weights are one tensor here and two in the file, since
SGLang's SDAR loader knows no tied embeddings.

Shapes: B rows, T tokens, H hidden, N query heads, G key-value heads, D head size.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lave_plugin.demo.training.tokenizer import (
    END_ID,
    MASK_ID,
    PAD_ID,
    START_ID,
    VOCABULARY_SIZE,
)

NORM_EPSILON = 1e-6
ROPE_THETA = 10000.0
# Longest sequence that training or evaluation lays out.
MAX_POSITIONS = 512
NEVER_SAID = [PAD_ID, START_ID, MASK_ID]
"""No answer has these, so nothing teaches the model not to say them. Where it is lost it may like
the mask best, and SGLang would fill the mask with the mask for ever. In a checkpoint they score 0.
"""
SOFTENING = 1.2
"""What a checkpoint's logits are divided by. A model that is as sure as it is right of each masked
token is too sure of several: they are committed at once, and not one of them has seen the others.
"""


@dataclass(frozen=True)
class ModelSize:
    hidden: int = 192
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 48
    mlp: int = 512
    vocabulary: int = VOCABULARY_SIZE
    block_size: int = 8


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, NORM_EPSILON)


def rotary_tables(positions: int, head_dim: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each (positions, D), of rotary embedding in its half-split form."""
    frequencies = ROPE_THETA ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.arange(positions).float()[:, None] * frequencies
    return torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Attention(nn.Module):
    def __init__(self, size: ModelSize):
        super().__init__()
        self.size = size
        self.q_proj = nn.Linear(size.hidden, size.heads * size.head_dim, bias=False)
        self.k_proj = nn.Linear(size.hidden, size.kv_heads * size.head_dim, bias=False)
        self.v_proj = nn.Linear(size.hidden, size.kv_heads * size.head_dim, bias=False)
        self.o_proj = nn.Linear(size.heads * size.head_dim, size.hidden, bias=False)
        self.q_norm = RMSNorm(size.head_dim)
        self.k_norm = RMSNorm(size.head_dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor, start: int) -> Tensor:
        """Mix (B, T, H) into (B, T - start, H), the tokens before `start` being keys only."""
        rows, length, _ = x.shape
        size = self.size
        value = self.v_proj(x).view(rows, length, size.kv_heads, -1).transpose(1, 2)
        key = self.k_norm(self.k_proj(x).view(rows, length, size.kv_heads, -1)).transpose(1, 2)
        query = self.q_proj(x[:, start:]).view(rows, length - start, size.heads, -1)
        query = self.q_norm(query).transpose(1, 2) * size.head_dim**-0.5
        query = rotate(query, cos[:, :, start:], sin[:, :, start:]).to(value.dtype)
        key = rotate(key, cos, sin).to(value.dtype)
        group = size.heads // size.kv_heads
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        # Written out: on a CPU the backward pass of torch's fused attention takes five
        # times as long as this in bfloat16.
        weights = (query @ key.mT + bias[:, :, start:]).softmax(-1)
        mixed = weights @ value
        return self.o_proj(mixed.transpose(1, 2).reshape(rows, length - start, -1))


class MLP(nn.Module):
    def __init__(self, size: ModelSize):
        super().__init__()
        self.gate_proj = nn.Linear(size.hidden, size.mlp, bias=False)
        self.up_proj = nn.Linear(size.hidden, size.mlp, bias=False)
        self.down_proj = nn.Linear(size.mlp, size.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, size: ModelSize):
        super().__init__()
        self.self_attn = Attention(size)
        self.mlp = MLP(size)
        self.input_layernorm = RMSNorm(size.hidden)
        self.post_attention_layernorm = RMSNorm(size.hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, bias: Tensor, start: int) -> Tensor:
        """(B, T, H) to (B, T - start, H). The residual stream stays in float32."""
        normed = self.input_layernorm(x).to(bias.dtype)
        x = x[:, start:] + self.self_attn(normed, cos, sin, bias, start).float()
        return x + self.mlp(self.post_attention_layernorm(x).to(bias.dtype)).float()


class Backbone(nn.Module):
    def __init__(self, size: ModelSize):
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocabulary, size.hidden)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = RMSNorm(size.hidden)


class TinyDLLM(nn.Module):
    """The network; who may see whom is the caller's to say, by a mask."""

    def __init__(self, size: ModelSize | None = None):
        super().__init__()
        self.size = size or ModelSize()
        self.model = Backbone(self.size)
        cos, sin = rotary_tables(MAX_POSITIONS, self.size.head_dim)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.initialise()

    def initialise(self) -> None:
        """Every layer starts as the identity: what writes to the residual stream is zero."""
        for name, parameter in self.named_parameters():
            if "embed_tokens" in name:
                nn.init.normal_(parameter, std=0.05)
            elif name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[1]))

    @property
    def device(self) -> torch.device:
        return self.cos.device

    def hidden(
        self, token_ids: Tensor, positions: Tensor, visible: Tensor, start: int = 0
    ) -> Tensor:
        """Hidden states before the last norm, of the tokens from `start` on.

        token_ids, positions: int64 (B, T). visible: bool, broadcastable to (B, T, T), true
        where a query (dim 1) sees a key (dim 2). Returns float32 (B, T - start, H).
        """
        autocast = torch.is_autocast_enabled(token_ids.device.type)
        dtype = torch.bfloat16 if autocast else torch.float32
        bias = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        bias = bias.masked_fill_(~visible, float("-inf")).unsqueeze(1)
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        x = self.model.embed_tokens(token_ids)
        *below, last = self.model.layers
        for layer in below:
            x = layer(x, cos, sin, bias, 0)
        return last(x, cos, sin, bias, start)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., H) to (..., vocabulary)."""
        return F.linear(self.model.norm(hidden), self.model.embed_tokens.weight)


def block_causal(length: int, block_size: int) -> Tensor:
    """Bool (1, T, T): a token sees its own block whole and every block before it."""
    block = torch.arange(length) // block_size
    return (block[None, :] <= block[:, None])[None]


def save_checkpoint(
    model: TinyDLLM,
    directory: Path,
    dtype: torch.dtype = torch.float16,
    softening: float = SOFTENING,
) -> None:
    """Write model.safetensors, config.json and generation_config.json for SGLang's SDAR.

    The logits of what is written are the model's divided by ``softening``, which the gain of the
    last norm brings about, and 0 for ``NEVER_SAID``.
    """
    size = model.size
    weights = dict(model.state_dict())
    head = weights["model.embed_tokens.weight"].clone()
    head[NEVER_SAID] = 0.0
    weights["lm_head.weight"] = head
    weights["model.norm.weight"] = weights["model.norm.weight"] / softening
    save_file(
        {name: weight.to("cpu", dtype).clone().contiguous() for name, weight in weights.items()},
        directory / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = {
        "architectures": ["SDARForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "intermediate_size": size.mlp,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": 2048,
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": ROPE_THETA,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "bos_token_id": PAD_ID,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
        "mask_token_id": MASK_ID,
        "block_size": size.block_size,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    generation = {"eos_token_id": END_ID}
    (directory / "generation_config.json").write_text(json.dumps(generation) + "\n")


def load_checkpoint(directory: Path) -> TinyDLLM:
    """The model that `save_checkpoint` wrote, computing in float32."""
    config = json.loads((directory / "config.json").read_text())
    model = TinyDLLM(
        ModelSize(
            hidden=config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            mlp=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            block_size=config["block_size"],
        )
    )
    weights = load_file(directory / "model.safetensors")
    del weights["lm_head.weight"]
    model.load_state_dict({name: weight.float() for name, weight in weights.items()})
    return model.eval()
