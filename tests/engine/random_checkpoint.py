"""A tiny SDAR with random weights: it says nothing sensible and takes a second to write."""

import json
from collections.abc import Sequence
from pathlib import Path

MASK_ID = 151669  # SGLang's own for this architecture, so that it serves without the plugin
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>")
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Enough for tokens that cross JSON's boundaries.
CORPUS = ('{"name": "Ada", "age": 36, "tags": ["one", "two"], "ok": true, "none": null}',) * 4

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 32, 2, 4, 2, 8, 64


def write_random_checkpoint(
    folder: Path, seed: int = 0, *, small: bool = False, liked: Sequence[str] = ()
) -> Path:
    """Write model, tokenizer and configuration and return the folder.

    small: the vocabulary is the tokenizer's 400 ids, with a mask id that only the
    checkpoint names; else it reaches up to the engine's own mask id (20 MB).
    liked: tokens to add, which the model likes to say.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spoken = write_tokenizer(folder, liked)
    mask_id = SPECIAL.index("<|MASK|>") if small else MASK_ID
    vocab_size = spoken if small else MASK_ID + 1
    config = {
        "architectures": ["SDARForCausalLM"],
        "model_type": "qwen3",  # known to transformers, so no remote code
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "intermediate_size": INTERMEDIATE,
        "vocab_size": vocab_size,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "bos_token_id": SPECIAL.index("<|endoftext|>"),
        "eos_token_id": SPECIAL.index("<|im_end|>"),
        "pad_token_id": SPECIAL.index("<|endoftext|>"),
        "mask_token_id": mask_id,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    write_weights(folder, vocab_size, spoken, seed, len(liked))
    return folder


def write_tokenizer(folder: Path, added: Sequence[str] = ()) -> int:
    """Write a byte-level BPE tokenizer and return its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens(list(added))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return tokenizer.get_vocab_size()


def write_weights(folder: Path, vocab_size: int, spoken: int, seed: int, liked: int) -> None:
    """Write random weights; tokens beyond ``spoken`` get the logit 0 and so are never best.

    The last ``liked`` of the others get larger logits than most, up or down.
    """
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)

    def random(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 0.2

    head = torch.zeros(vocab_size, HIDDEN)
    head[:spoken] = random(spoken, HIDDEN)
    head[spoken - liked : spoken] *= 2
    weights = {
        "model.embed_tokens.weight": random(vocab_size, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": head,
    }
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        weights |= {
            f"{name}.input_layernorm.weight": torch.ones(HIDDEN),
            f"{name}.post_attention_layernorm.weight": torch.ones(HIDDEN),
            f"{name}.self_attn.q_proj.weight": random(HEADS * HEAD_DIM, HIDDEN),
            f"{name}.self_attn.k_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{name}.self_attn.v_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{name}.self_attn.o_proj.weight": random(HIDDEN, HEADS * HEAD_DIM),
            f"{name}.self_attn.q_norm.weight": torch.ones(HEAD_DIM),
            f"{name}.self_attn.k_norm.weight": torch.ones(HEAD_DIM),
            f"{name}.mlp.gate_proj.weight": random(INTERMEDIATE, HIDDEN),
            f"{name}.mlp.up_proj.weight": random(INTERMEDIATE, HIDDEN),
            f"{name}.mlp.down_proj.weight": random(HIDDEN, INTERMEDIATE),
        }
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
