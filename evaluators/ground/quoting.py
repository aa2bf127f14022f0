"""Quotes text that seats wrote so that it is safe in a prompt, and finds quotes in texts."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

__all__ = ["listed", "positions_of", "quoted", "words_of"]

# Chat templates mark roles and turns with brackets, and some servers interpret them inside the content.
_BRACKETS: Final = re.compile(r"[<>\[\]]")


@lru_cache(4096)
def quoted(text: str) -> str:
    """The text as a JSON string on one line.

    Invisible characters and the brackets of chat templates are escaped, so that no speech can close its
    quotes, begin a line or imitate a turn of the conversation.
    """
    shown = json.dumps(text, ensure_ascii=False)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in shown)
    return _BRACKETS.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)


def listed(seats: tuple[int, ...]) -> str:
    """The numbers of the seats, separated by spaces; ``nobody`` if there are none."""
    return " ".join(map(str, seats)) or "nobody"


def words_of(text: str) -> str:
    """The words of a text in lower case, separated by single spaces, for the comparison with a quote."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def positions_of(quote: str, text: str) -> Iterator[tuple[int, int]]:
    """Every occurrence of the quote in the text, as start and end, in order. Case, punctuation and white
    space do not matter. A quote without a word occurs nowhere.
    """
    wanted = [word for word, _, _ in _placed(quote)]
    if not wanted:
        return
    words = _placed(text)
    borders = _borders(wanted)
    matched = 0
    for index, (word, _, end) in enumerate(words):
        while matched and (matched == len(wanted) or word != wanted[matched]):
            matched = borders[matched - 1]
        matched += word == wanted[matched]
        if matched == len(wanted):
            yield words[index + 1 - matched][1], end


def _borders(words: list[str]) -> list[int]:
    """For each prefix of the words, the length of its longest proper suffix that is also a prefix: a failed
    search continues there. Source: Knuth, Morris and Pratt, SIAM Journal on Computing 6 (1977).
    """
    borders = [0]
    for word in words[1:]:
        length = borders[-1]
        while length and word != words[length]:
            length = borders[length - 1]
        borders.append(length + (word == words[length]))
    return borders


def _placed(text: str) -> list[tuple[str, int, int]]:
    """Each word of a text in lower case with its start and end."""
    return [(match[0].casefold(), *match.span()) for match in re.finditer(r"[^\W_]+", text)]
