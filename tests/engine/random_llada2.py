"""A tiny LLaDA2 (mixture of experts, blocks of 32) with random weights and three end tokens."""

from __future__ import annotations

import json
from pathlib import Path

from random_checkpoint import SPECIAL, write_tokenizer

MASK_ID = SPECIAL.index("<|MASK|>")
ENDS = ("<|im_end|>", "<|endoftext|>", "<|eom_id|>")
"""The tokenizer's own, another of the generation configuration, and one by its name
(``attach_additional_stop_token_ids``)."""

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 32, 2, 4, 2, 8, 64
EXPERTS, ACTIVE, EXPERT_INTERMEDIATE = 8, 2, 16

CONFIGURATION = """
from transformers.configuration_utils import PretrainedConfig


class LLaDA2MoeConfig(PretrainedConfig):
    model_type = "llada2_moe"

    def __init__(self, **settings):
        for name, value in settings.items():
            setattr(self, name, value)
        super().__init__(**settings)
"""


def write_random_llada2(folder: Path) -> Path:
    """Write model, tokenizer and configuration and return the folder.

    The configuration is code: serve it with ``--trust-remote-code``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spoken = write_tokenizer(folder, ENDS[2:])
    config = {
        "architectures": ["LLaDA2MoeModelLM"],
        "model_type": "llada2_moe",
        "auto_map": {"AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig"},
        "vocab_size": spoken,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "use_qkv_bias": False,
        "use_bias": False,
        "use_qk_norm": True,
        "rms_norm_eps": 1e-6,
        "norm_head": False,
        "tie_word_embeddings": False,
        "embedding_dropout": 0.0,
        "attention_dropout": 0.0,
        "output_dropout": 0.0,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "rope_scaling": None,
        "num_experts": EXPERTS,
        "num_shared_experts": 1,
        "num_experts_per_tok": ACTIVE,
        "n_group": 2,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,  # the engine's CPU path ignores any other, silently
        "score_function": "sigmoid",
        "moe_router_enable_expert_bias": True,
        "router_dtype": "fp32",
        "moe_intermediate_size": EXPERT_INTERMEDIATE,
        "first_k_dense_replace": 1,
        "bos_token_id": SPECIAL.index("<|endoftext|>"),
        "pad_token_id": SPECIAL.index("<|endoftext|>"),
        "eos_token_id": SPECIAL.index("<|im_end|>"),
        "mask_token_id": MASK_ID,
        "torch_dtype": "float32",
    }
    ends = [SPECIAL.index(end) for end in ENDS[:2]]
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    (folder / "configuration_llada2_moe.py").write_text(CONFIGURATION)
    write_weights(folder, spoken)
    return folder


def write_weights(folder: Path, vocab_size: int) -> None:
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(0)

    def random(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 0.2

    def gated(name: str, size: int) -> dict[str, torch.Tensor]:
        return {
            f"{name}.gate_proj.weight": random(size, HIDDEN),
            f"{name}.up_proj.weight": random(size, HIDDEN),
            f"{name}.down_proj.weight": random(HIDDEN, size),
        }

    weights = {
        "model.word_embeddings.weight": random(vocab_size, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": random(vocab_size, HIDDEN),
    }
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        attention = f"{name}.attention"
        rows = (HEADS + 2 * KV_HEADS) * HEAD_DIM
        weights |= {
            f"{name}.input_layernorm.weight": torch.ones(HIDDEN),
            f"{name}.post_attention_layernorm.weight": torch.ones(HIDDEN),
            f"{attention}.query_key_value.weight": random(rows, HIDDEN),
            f"{attention}.dense.weight": random(HIDDEN, HEADS * HEAD_DIM),
            f"{attention}.query_layernorm.weight": torch.ones(HEAD_DIM),
            f"{attention}.key_layernorm.weight": torch.ones(HEAD_DIM),
        }
        if layer == 0:
            weights |= gated(f"{name}.mlp", INTERMEDIATE)
            continue
        weights |= {
            f"{name}.mlp.gate.weight": random(EXPERTS, HIDDEN),
            f"{name}.mlp.gate.expert_bias": torch.zeros(EXPERTS),
        }
        for expert in [*(f"experts.{number}" for number in range(EXPERTS)), "shared_experts"]:
            weights |= gated(f"{name}.mlp.{expert}", EXPERT_INTERMEDIATE)
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
