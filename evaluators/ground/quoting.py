"""Quotes what seats wrote so that it is safe in a prompt, and finds quotes in texts."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

__all__ = ["listed", "places_of", "quoted", "words_of"]

# Chat templates write roles and turns with brackets, and some servers read them out of the content.
_BRACKETS: Final = re.compile(r"[<>\[\]]")


@lru_cache(4096)
def quoted(text: str) -> str:
    """The text as one JSON string on one line, which gives the text back when it is read.

    Invisible characters and the brackets of chat templates are escaped, so that no speech can close its
    quotes, begin a line or pass for a turn of the conversation.
    """
    shown = json.dumps(text, ensure_ascii=False)
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in shown)
    return _BRACKETS.sub(lambda match: f"\\u{ord(match[0]):04x}", shown)


def listed(seats: tuple[int, ...]) -> str:
    """Seats by number with blanks between them; ``nobody`` where there are none."""
    return " ".join(map(str, seats)) or "nobody"


def words_of(text: str) -> str:
    """The words of a text in lower case with single blanks between them: what a quote is compared by."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def places_of(quote: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the quote stands in the text, as start and end, in order; case, punctuation and white space
    apart. Nowhere where it holds no word.
    """
    wanted = [word for word, _, _ in _placed(quote)]
    if not wanted:
        return
    held = _placed(text)
    begins = _borders(wanted)
    met = 0
    for at, (word, _, end) in enumerate(held):
        while met and (met == len(wanted) or word != wanted[met]):
            met = begins[met - 1]
        met += word == wanted[met]
        if met == len(wanted):
            yield held[at + 1 - met][1], end


def _borders(words: list[str]) -> list[int]:
    """Of each beginning of the words, how many at its end are how it begins: where a search goes on that
    fails there. Source: Knuth, Morris and Pratt, SIAM Journal on Computing 6 (1977).
    """
    borders = [0]
    for word in words[1:]:
        met = borders[-1]
        while met and word != words[met]:
            met = borders[met - 1]
        borders.append(met + (word == words[met]))
    return borders


def _placed(text: str) -> list[tuple[str, int, int]]:
    return [(match[0].casefold(), *match.span()) for match in re.finditer(r"[^\W_]+", text)]
