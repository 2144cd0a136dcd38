"""The byte-level BPE tokenizer of the tiny dLLM, and its chat template.

Two choices make a small model's life easier:

- A capitalised word or a digit never carries the space before it, so a name or a number
  has the same tokens in a text (``by Ada Falk``) as in JSON (``"Ada Falk"``), and copying
  a value is copying tokens.
- A run of punctuation may become one token across grammar boundaries (``{"``, ``":``,
  ``",``), as in the vocabularies of large models. A demo of constrained decoding needs
  such tokens, since they are what makes it hard.

All 256 bytes are tokens, so every text has an encoding.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY_SIZE = 1536
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|MASK|>"]
PAD_ID, START_ID, END_ID, MASK_ID = range(4)

# The alternatives in order: "JSON" whole, and SQL's keywords with their space; a lower-case word
# with its space; a capitalised word or a digit without; a newline with the next line's indentation;
# a run of punctuation with its space; other spaces.
SQL_KEYWORDS = (
    "SELECT|DISTINCT|FROM|JOIN|ON|WHERE|BETWEEN|AND|OR|GROUP|ORDER|BY|DESC|LIMIT|"
    "COUNT|MAX|MIN|AVG|SUM"
)
WORD_PATTERN = rf"JSON| ?(?:{SQL_KEYWORDS})\b| ?[a-z]+|[A-Z][a-z]*|[0-9]|\n *| ?[^\sA-Za-z0-9]+|\s+"

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def chat(prompt: str) -> str:
    """What CHAT_TEMPLATE makes of one user message."""
    return f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learn VOCABULARY_SIZE tokens from texts; ids 0 to 3 are SPECIAL_TOKENS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json as transformers expects them."""
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL_TOKENS[END_ID],
        "pad_token": SPECIAL_TOKENS[PAD_ID],
        "mask_token": SPECIAL_TOKENS[MASK_ID],
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")


def load_tokenizer(directory: Path) -> Tokenizer:
    return Tokenizer.from_file(str(directory / "tokenizer.json"))
