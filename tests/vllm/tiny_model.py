"""Makes a model that vLLM serves on a CPU with random weights.

Usage: tiny_model.py OUT_DIR SOURCE_DIR

The model is a two-layer Qwen3 of 128 dimensions for `--load-format dummy`: no weight
files. Its tokenizer is a byte-level BPE trained on the Python sources below
SOURCE_DIR, so that source code comes to some 3.5 bytes a token and a coding
agent's request to the tens of thousands of tokens it has in earnest. One id in
sixteen ends the turn: random weights then stop by themselves after about ten
tokens, and a client sees a normal end instead of one cut at its limit.
"""

import json
import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096
CONTEXT = 65536
CORPUS_BYTES = 3_000_000
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
END_OF_TURN = SPECIAL.index("<|im_end|>")

CHAT_TEMPLATE = """\
{%- if tools -%}
<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}
{%- elif message.content %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def corpus(source: pathlib.Path) -> list[str]:
    """Returns Python sources below a folder, in a stable order, CORPUS_BYTES in all."""
    texts, size = [], 0
    for path in sorted(source.glob("*.py")) + sorted(source.glob("*/*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        texts.append(text)
        size += len(text)
        if size >= CORPUS_BYTES:
            break
    if size < CORPUS_BYTES // 4:
        sys.exit(f"{source} holds only {size} bytes of Python sources; a standard library is needed")
    return texts


def tokenizer(texts: list[str]) -> Tokenizer:
    """Trains the tokenizer."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return bpe


def main() -> None:
    out, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer(corpus(source)).save(str(out / "tokenizer.json"))
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE)

    documents = {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
        },
        "generation_config.json": {
            "eos_token_id": [END_OF_TURN, *range(300, VOCABULARY, 16)],
            "pad_token_id": 0,
        },
        # config.json is written last: its presence says that the model is whole.
        "config.json": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "hidden_act": "silu",
            "attention_bias": False,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "bos_token_id": None,
            "eos_token_id": END_OF_TURN,
        },
    }
    for name, document in documents.items():
        (out / name).write_text(json.dumps(document, indent=1))


main()
