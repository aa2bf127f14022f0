"""What a model is saying, while it still says it: for people who watch, never for the game.

Whoever calls a model sets ``listening`` in the task that makes the call. Signatures of models stay as they
are, and nothing that is heard here reaches a seat.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, Protocol

__all__ = ["Listener", "SpokenText", "listening", "spoken_path"]

SPEAK: Final = "speak"
"""The field of an answer that is said aloud."""
FINAL: Final = "final"
"""In an answer with several drafts, the part whose speech is said aloud."""


class Listener(Protocol):
    """Hears the text of one answer, piece by piece."""

    def begin(self) -> None:
        """A request is sent. What was heard before belongs to one that broke off."""
        ...

    def hear(self, piece: str) -> None:
        """The next piece of the answer's text."""
        ...


listening: ContextVar[Listener | None] = ContextVar("listening", default=None)
"""Who hears the answer to the call that this task makes."""


def spoken_path(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Where in an answer of this form the speech stands that is said aloud, by names of fields. Empty: the
    answer holds no such speech.
    """
    fields = schema.get("properties", {})
    if SPEAK in fields.get(FINAL, {}).get("properties", {}):
        return (FINAL, SPEAK)
    return (SPEAK,) if SPEAK in fields else ()


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_THOUGHTS: Final = ("<think>", "</think>")


class SpokenText:
    """Reads one text out of a JSON object while the object is still being written.

    What stands before the object is skipped, thoughts in tags included. An answer in another form yields
    nothing, or the wrong text: it is for watching only.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self._path = tuple(path)
        self._before = ""
        """What came before the object, while that has not begun; at most a few thousand characters."""
        self._begun = False
        self._done = not path
        self._place: list[str | None] = []
        """The field that is being written at each depth; None inside an array."""
        self._in_text = False
        self._is_name = False
        """Whether the text that is being read is the name of a field."""
        self._awaits_name = False
        self._name: list[str] = []
        self._escape: str | None = None
        self._high = ""
        """The first half of a surrogate pair, which waits for its second."""

    def feed(self, piece: str) -> str:
        """What the piece adds to the text; often nothing."""
        if self._done:
            return ""
        if not self._begun:
            piece = self._skip(piece)
        return "".join(map(self._read, piece))

    def _skip(self, piece: str) -> str:
        """The part of the piece from the object's brace on; empty while it has not come."""
        self._before += piece
        opening, closing = _THOUGHTS
        rest = self._before.lstrip()
        if rest.startswith(opening[: len(rest)]) and rest:
            _, ended, rest = rest.partition(closing)
            if not ended:
                return ""
        brace = rest.find("{")
        if brace < 0:
            return ""
        self._begun, self._before = True, ""
        return rest[brace:]

    def _read(self, sign: str) -> str:
        if self._done:
            return ""
        if self._in_text:
            return self._read_text(sign)
        if sign == '"':
            self._in_text, self._is_name = True, self._awaits_name
            self._name.clear()
        elif sign == "{":
            self._place.append("")
            self._awaits_name = True
        elif sign == "[":
            self._place.append(None)
            self._awaits_name = False
        elif sign in "}]":
            if self._place:
                self._place.pop()
            self._awaits_name = False
            self._done = not self._place
        elif sign == ",":
            self._awaits_name = bool(self._place) and self._place[-1] is not None
        elif sign == ":":
            self._awaits_name = False
        return ""

    def _read_text(self, sign: str) -> str:
        if self._escape is not None:
            self._escape += sign
            if self._escape[0] == "u" and len(self._escape) < 5:
                return ""
            sign, self._escape = self._unescaped(self._escape), None
        elif sign == "\\":
            self._escape = ""
            return ""
        elif sign == '"':
            self._end_text()
            return ""
        if self._is_name:
            self._name.append(sign)
            return ""
        return sign if tuple(self._place) == self._path else ""

    def _end_text(self) -> None:
        self._in_text = False
        if self._is_name and self._place:
            self._place[-1] = "".join(self._name)
        elif tuple(self._place) == self._path:
            self._done = True

    def _unescaped(self, escape: str) -> str:
        if escape[0] != "u":
            return _ESCAPES.get(escape, escape)
        try:
            code = int(escape[1:], 16)
        except ValueError:
            return "\ufffd"
        high, self._high = self._high, ""
        if 0xD800 <= code < 0xDC00:
            self._high = chr(code)
            return ""
        if 0xDC00 <= code < 0xE000:
            pair = (high + chr(code)).encode("utf-16-le", "surrogatepass")
            return pair.decode("utf-16-le", "replace")
        return chr(code)
