"""A language model of random weights: two layers, a vocabulary of words, about a megabyte.

It is written anew for every run, so no weights lie in the repository.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import gguf
import numpy as np

__all__ = ["write"]

SEED: Final = 1
WIDTH: Final = 32
INNER: Final = 64
LAYERS: Final = 2
CONTEXT: Final = 32_768
"""Tokens: a game of ten has long prompts."""

_WORDS: Final = 700
"""Of the prompts' own, the most frequent: a prompt then has a token for every four or five characters."""

_BLANK: Final = "\u2581"
_ENDING: Final = 300
"""Of the words, those with a second token that ends a text: texts are over by chance, after some five."""

_ENDS: Final = ('."', '",', '"}', '": "', '":', '{"', '."}', '!"', '?"', "...", "===")
"""As vocabularies have them."""

_CHAT: Final = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "


def write(path: Path) -> None:
    """Writes the model in the GGUF format."""
    tokens = list(_vocabulary())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH)
    writer.add_vocab_size(len(tokens))
    # The one kind of tokenizer that takes any list of words: it looks for the likeliest pieces.
    writer.add_tokenizer_model("t5")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([int(kind) for _, _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_remove_extra_whitespaces(False)
    writer.add_chat_template(_CHAT)
    for name, tensor in _weights(len(tokens)):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _vocabulary() -> Iterator[tuple[str, float, Any]]:
    """Text, score (log likelihood) and kind of each token."""
    yield "<unk>", 0.0, gguf.TokenType.UNKNOWN
    yield "<s>", 0.0, gguf.TokenType.CONTROL
    yield "</s>", 0.0, gguf.TokenType.CONTROL
    words = _words()
    letters = dict.fromkeys((_BLANK, "\n", *map(chr, range(33, 127))), -12.0)
    whole = dict.fromkeys((*words, *(_BLANK + one for one in words)), -9.0)
    ending = dict.fromkeys((*(f'{one}"' for one in words[:_ENDING]), *_ENDS), -9.5)
    for text, score in (letters | whole | ending).items():
        yield text, score, gguf.TokenType.NORMAL


def _words() -> list[str]:
    project = Path(__file__).parents[2]
    sources = [*sorted((project / "agents/llm/prompts").glob("*.jinja")), project / "engine/intentions.json"]
    found = Counter(
        word for path in sources for word in re.findall(r"[A-Za-z_]{2,}", path.read_text("utf-8"))
    )
    return [word for word, _ in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:_WORDS]]


def _weights(vocabulary: int) -> Iterable[tuple[str, Any]]:
    chance = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> Any:
        return (chance.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    yield "token_embd.weight", matrix(vocabulary, WIDTH)
    yield "output_norm.weight", ones
    yield "output.weight", matrix(vocabulary, WIDTH)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", ones
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}.weight", matrix(WIDTH, WIDTH)
        yield f"blk.{layer}.ffn_gate.weight", matrix(INNER, WIDTH)
        yield f"blk.{layer}.ffn_up.weight", matrix(INNER, WIDTH)
        yield f"blk.{layer}.ffn_down.weight", matrix(WIDTH, INNER)
