"""Reads a response of status 200 as it arrives: a stream of events or a JSON body, whatever its type says."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from agents.model.answer import clean
from agents.model.model import Usage
from agents.model.usage import read_charge, read_usage

__all__ = ["CUT", "RUNAWAY", "Broken", "Completion", "CompletionReader", "TooMuch", "estimate", "is_cut"]

_LONGEST_NAME: Final = 200

_DECODER: Final = json.JSONDecoder()

_BOM: Final = b"\xef\xbb\xbf"
_BEGIN: Final = 4000
_FIELDS: Final = (b"data:", b":", b"event:", b"id:", b"retry:", b"error:")
"""The beginnings of lines of a stream; ``error:`` is llama.cpp's own."""

CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
"""Finish reasons of answers that used all their tokens."""

RUNAWAY: Final = "runaway"
"""The ``finish`` of an answer that we cut, because it would never have ended."""

_BROKEN_OFF: Final = frozenset({"error", "abort", "aborted", "cancelled", "insufficient_system_resource"})
"""Finish reasons of a server that could not go on."""

_REPEATED: Final = 2048
"""If this many characters at the end of an answer only repeat one phrase, nothing new will follow."""

_PHRASE: Final = 512
_PROBE: Final = 64

_FEW: Final = 2
"""So few pieces may begin alike by chance; more do where a server repeats with each all that came before."""

_EXCESS: Final = 16
"""A server has ignored the token limit if its answer has more than this many characters for each token."""

_MOST_PENDING: Final = 65_536
"""The longest value that spreads over several lines: it is looked at again with each of them."""

_STREAM_FACTOR: Final = 64
"""How many bytes a stream may have for each byte of an answer, since every event repeats its frame."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion, as the server reports it."""

    text: str
    finish: str
    model: str
    usage: Usage | None
    """The tokens that the server counted; None if it gave no counts."""
    written: int
    """An estimate of the tokens written, including the reasoning."""
    reasoning: str | None = None
    """The thoughts that the model wrote beside its answer; None if the server returned none."""
    provider: str | None = None
    """The provider that served the completion, if a router names it."""
    fingerprint: str | None = None
    """``system_fingerprint``, the server's name for the state of its system."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The finding that a body holds no answer."""

    cause: str
    error: Any = None
    """The body if it reports an error although the status is 200, else None."""
    status: int | None = None
    """The status that such an error names."""
    usage: Usage | None = None
    """The tokens that the server counted nevertheless."""


class TooMuch(Exception):
    """The body is longer than ``max_bytes``."""


def estimate(text: str) -> int:
    """A rough count of the tokens of a text, at four bytes of UTF-8 for each token."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


class CompletionReader:
    """Takes the blocks of one body; ``end`` then returns what the body was.

    ``model`` is the name to use if the body gives none. ``room`` is the most tokens that were asked for.
    ``on_text`` is called with each piece of the answer's text as it comes, reasoning left out.
    """

    def __init__(
        self,
        model: str,
        *,
        room: int = 0,
        max_bytes: int = 512 * 1024,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self.ended = False
        """Whether the answer is complete or has failed: at most counts can follow."""
        self.finished = False
        """Whether the model has stopped; counts may follow."""
        self.cut = False
        """Whether we cut the answer, because it would go on for ever."""
        self.usage: Usage | None = None
        self.charge: float | None = None
        """What the provider says it charged, even if it gave no counts of tokens."""
        self.begin = b""
        """The first bytes of the body."""
        self._room = room
        self._on_text = on_text
        self._max_bytes = max_bytes
        self._closed = False
        """Whether nothing more is read, not even counts."""
        self._streams: bool | None = None
        self._line = bytearray()
        self._received = 0
        self._pending = ""
        self._unreadable = False
        self._error: Broken | None = None
        self._checked_at = 0
        self._length = 0
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._repeated = False
        """Whether the server repeats with each piece all that came before it."""
        self._refusal: list[str] = []
        self._arguments: list[str] = []
        self._finish = ""
        self._model = model
        self._provider: str | None = None
        self._fingerprint: str | None = None
        self._choices = 0
        self._messages = 0

    def feed(self, block: bytes) -> bool:
        """Takes the next block. Returns True if the body is a stream, the block ended a line, and the answer
        had not ended before. Raises TooMuch.
        """
        if self._closed:
            return False
        ended = self.ended
        self._received += len(block)
        if len(self.begin) < _BEGIN:
            self.begin += block[: _BEGIN - len(self.begin)]
        most = self._max_bytes * (_STREAM_FACTOR if self._streams else 1)
        if self._received > most or len(self._line) + len(block) > self._max_bytes:
            raise TooMuch
        self._line += block
        if self._streams is None:
            self._recognise()
        if not self._streams or b"\n" not in block:
            return False
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            self._read_line(line)
        return not ended

    @property
    def begun(self) -> bool:
        """Whether any text has come, reasoning included."""
        return self._length > 0

    def written(self) -> int:
        """An estimate of the tokens received so far, including the reasoning."""
        texts = ("".join(pieces) for pieces in (self._pieces, self._arguments, self._refusal, self._thoughts))
        parsed = sum(map(estimate, texts))
        return (
            parsed if self._streams or self._error is not None else parsed or math.ceil(len(self._line) / 4)
        )

    def end(self) -> Completion | Broken:
        """Returns what the body was, after its last block."""
        if not self._streams:
            read = self._whole()
            if read is not None:
                return read
        else:
            for line in bytes(self._line).splitlines():
                self._read_line(line)
            self._line.clear()
            if self._pending and not self.ended:
                self._unreadable = True
        if self._error is not None:
            return replace(self._error, usage=self.usage)
        if self._unreadable or not (self.finished or self.ended):
            return Broken("truncated", usage=self.usage)
        if not self._choices:
            return Broken("no_choices", usage=self.usage)
        if not self._messages:
            return Broken("no_message", usage=self.usage)
        return self._completion()

    # --- bytes to chunks ----------------------------------------------------------------------------------

    def _recognise(self) -> None:
        """Tells a stream from a JSON body by the first characters, since media types are often wrong."""
        if self._line.startswith(_BOM):
            del self._line[: len(_BOM)]
        if _BOM.startswith(self._line):
            return
        begin = bytes(self._line[:16]).lstrip()
        if begin.startswith(_FIELDS):
            self._streams = True
        elif begin and not any(field.startswith(begin) for field in _FIELDS):
            self._streams = False

    def _read_line(self, line: bytes) -> None:
        line = line.rstrip(b"\r").removeprefix(_BOM)
        if self._closed or line.startswith(b":"):
            return
        if line.startswith(b"data:"):
            data = line[5:].strip()
            while data.startswith(b"data:"):  # a gateway wrapped the event once more
                data = data[5:].strip()
        elif line.startswith(b"error:"):
            data = line[6:].strip()
        elif line.startswith(b"{"):
            data = line  # a body after the comments that kept the connection open
        else:
            if not line and self._pending:
                self._lose()
            return
        if data == b"[DONE]":
            self.ended = self._closed = True
            return
        if not data:
            return
        if not self._pending and not data.startswith((b"{", b"[")):
            return  # a word that keeps the connection open, such as ping or null
        chunk = None if self._pending else _read_fast(data)
        if chunk is None:
            if self.ended:
                return
            text = self._pending + data.decode("utf-8", "replace")
            try:
                chunk = json.loads(text) if text.endswith(("}", "]")) else None
            except (ValueError, RecursionError):
                chunk = None
            if chunk is None:
                # This may be one value that spreads over several lines.
                self._pending = text + "\n"
                if len(text) > _MOST_PENDING:
                    self._lose()
                return
            self._pending = ""
        if isinstance(chunk, list) and len(chunk) == 1:
            chunk = chunk[0]
        if isinstance(chunk, dict):
            self._take(chunk)
        else:
            self._lose()

    def _lose(self) -> None:
        """Gives up what could not be read. Once the answer has ended, nothing is lost with it."""
        self._pending = ""
        self._unreadable = self._unreadable or not self.ended

    def _whole(self) -> Broken | None:
        """Reads a body that is not a stream. Returns None if the body could be read, else what is wrong."""
        body = bytes(self._line).removeprefix(_BOM)
        text = body.decode("utf-8", "replace").strip()
        try:
            # A proxy may have added something of its own.
            read, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError) as fault:
            # An object without its end was cut off, whatever length the server stated.
            if not text or (text.startswith("{") and _lacks_its_end(text, fault)):
                return Broken("truncated")
            return Broken("malformed_json" if text.startswith("{") else "not_json")
        if end < len(text) and not (isinstance(read, dict) and "choices" in read):
            return Broken("malformed_json" if text.startswith("{") else "not_json")
        if isinstance(read, list) and len(read) == 1:
            read = read[0]
        if not isinstance(read, dict):
            return Broken("not_json")
        self._take(read)
        self.ended = True
        return None

    # --- chunks to a completion ---------------------------------------------------------------------------

    def _take(self, chunk: Mapping[str, Any]) -> None:
        """Takes one event of a stream, or a whole body."""
        choice = _first(chunk.get("choices"))
        self._count(chunk, choice)
        if self.ended:
            return
        error = chunk.get("error") or (chunk if _is_error(chunk) else None)
        if error and self.finished:
            self.ended = True  # it came after the answer, and changes nothing
            return
        if error:
            code = error.get("code") if isinstance(error, dict) else None
            self._fail(dict(chunk), code)
            return
        # Every event repeats them.
        if (model := chunk.get("model")) != self._model:
            self._model = _name(model) or self._model
        if (provider := chunk.get("provider")) != self._provider:
            self._provider = _name(provider) or self._provider
        if (fingerprint := chunk.get("system_fingerprint")) != self._fingerprint:
            self._fingerprint = _name(fingerprint) or self._fingerprint
        if choice is None:
            return
        self._choices += 1
        fault = choice.get("error")
        if isinstance(fault, dict):
            self._fail({"error": fault}, fault.get("code"))
            return
        message = choice.get("delta")
        if not isinstance(message, dict):
            message = choice.get("message")
            if isinstance(message, dict) and message.get("content"):
                # The server sends the whole message once more after its pieces.
                self._pieces.clear()
                self._on_text = None
        if isinstance(message, dict):
            self._messages += 1
            self._read_message(message)
        finish = choice.get("finish_reason")
        if isinstance(finish, dict):  # of SGLang's engine
            finish = finish.get("type")
        if isinstance(finish, str) and finish.lower() not in ("", "null", "none"):
            self._finish, self.finished = _name(finish) or "", True
            self._messages += 1  # it may have ended without a word
            if finish.lower() in _BROKEN_OFF:
                self._fail({"error": {"message": f"the provider broke the answer off: {finish}"}}, None)

    def _count(self, chunk: Mapping[str, Any], choice: Mapping[str, Any] | None) -> None:
        """Keeps the newest counts, since some servers send counts with every event."""
        router = chunk.get("x_groq")
        counts = (
            chunk.get("usage")
            or (router.get("usage") if isinstance(router, dict) else None)
            or (choice.get("usage") if choice is not None else None)
        )
        if not counts:
            return
        if (usage := read_usage(counts)) is not None:
            self.usage = usage
        if (charge := read_charge(counts)) is not None:
            self.charge = charge

    def _fail(self, error: Any, code: Any) -> None:
        if isinstance(code, str) and code.isascii() and code.isdecimal() and len(code) == 3:
            code = int(code)
        status = code if isinstance(code, int) and 400 <= code <= 599 else None
        self._error = Broken("error_body", error, status)
        self.ended = True

    def _read_message(self, message: Mapping[str, Any]) -> None:
        content = message.get("content")
        if isinstance(content, str):
            self._add(self._pieces, content)
            if len(message) == 1:
                return  # as most pieces are
        elif isinstance(content, list):
            self._read_parts(content)
        elif isinstance(content, dict):  # the JSON of the answer, read already
            self._add(self._pieces, json.dumps(content))
        self._add(self._thoughts, _thought(message))
        refusal = message.get("refusal")
        if isinstance(refusal, str):
            self._refusal.append(refusal)
        calls = message.get("tool_calls")
        call = _first(calls)
        function = message.get("function_call") if call is None else call.get("function")
        if isinstance(function, dict):
            arguments = function.get("arguments")
            whole = isinstance(arguments, dict | list)
            self._add(self._arguments, json.dumps(arguments) if whole else arguments)

    def _read_parts(self, parts: Sequence[Any]) -> None:
        for part in parts:
            if not isinstance(part, dict):
                continue
            thinks = part.get("type") in ("thinking", "reasoning")
            text = part.get("thinking", part.get("text")) if thinks else part.get("text")
            if isinstance(text, list):
                text = "".join(_texts(text))
            self._add(self._thoughts if thinks else self._pieces, text)

    def _add(self, pieces: list[str], text: Any) -> None:
        if not isinstance(text, str) or not text:
            return
        pieces.append(text)
        self._length += len(text)
        is_answer = pieces is self._pieces or pieces is self._arguments
        if self._on_text is not None and self._streams and is_answer:
            self._on_text(text)
        if self._streams and self._length - self._checked_at >= _REPEATED // 2:
            self._checked_at = self._length
            self._check(pieces)

    def _check(self, pieces: list[str]) -> None:
        """Ends an answer that would never end, because it repeats itself or is far beyond its room."""
        if len(pieces) > _FEW and _grows(pieces):
            self._repeated = True
            self._length -= sum(map(len, pieces[:-1]))
            self._checked_at = self._length
            del pieces[:-1]
        answered = sum(map(len, self._pieces)) if pieces is self._pieces else 0
        beyond = (self._room and answered > self._room * _EXCESS) or self._length > self._max_bytes
        if beyond or _repeats(pieces):
            self.cut = self.finished = self.ended = self._closed = True

    def _joined(self, pieces: Sequence[str]) -> str:
        repeated = len(pieces) > (1 if self._repeated else _FEW) and _grows(pieces)
        return pieces[-1] if repeated else "".join(pieces)

    def _completion(self) -> Completion:
        content, thoughts = self._joined(self._pieces), self._joined(self._thoughts) or None
        arguments, refusal = "".join(self._arguments), "".join(self._refusal)
        finish = RUNAWAY if self.cut else self._finish or "unknown"
        if arguments and "{" not in content:
            content = arguments  # what is said beside the call is no answer
        elif not content and refusal:
            content, finish = refusal, "refusal"
        written = estimate(content) + estimate(thoughts or "")
        return Completion(
            clean(content),
            finish,
            self._model,
            self.usage,
            written,
            None if thoughts is None else clean(thoughts),
            self._provider,
            self._fingerprint,
        )


def _read_fast(data: bytes) -> Any:
    """The value; None for what only the slower reader may read, such as a text with half a surrogate."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _lacks_its_end(text: str, fault: Exception) -> bool:
    if not text.endswith("}"):
        return True
    return isinstance(fault, json.JSONDecodeError) and (
        fault.pos >= len(text) or fault.msg.startswith("Unterminated")
    )


def _is_error(chunk: Mapping[str, Any]) -> bool:
    """Whether this is an error that has another name than ``error``."""
    status = chunk.get("base_resp")  # MiniMax
    if isinstance(status, dict) and status.get("status_code"):
        return True
    if "choices" in chunk:
        return False
    return (
        "error" in (chunk.get("object"), chunk.get("type"))
        or bool(chunk.get("detail") or chunk.get("errors"))
        or any(isinstance(chunk.get(name), str) for name in ("message", "msg"))
    )


def _first(several: Any) -> Mapping[str, Any] | None:
    """The choice, or the call of a tool, with the index 0 or without one."""
    for one in several if isinstance(several, list) else ():
        if isinstance(one, dict) and one.get("index") in (None, 0, "0"):
            return one
    return None


def _thought(message: Mapping[str, Any]) -> str | None:
    """The reasoning in a message. Some servers give the same text under several names; it is taken once."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(text := message.get(name), str) and text:
            return text
    details = message.get("reasoning_details")
    return "".join(_texts(details)) if isinstance(details, list) else None


def _texts(parts: Sequence[Any]) -> list[str]:
    texts = [part.get("text") or part.get("summary") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _name(value: Any) -> str | None:
    return clean(value)[:_LONGEST_NAME] if isinstance(value, str) and value else None


def _grows(pieces: Sequence[str]) -> bool:
    """Whether each piece repeats the one before it, and adds to it."""
    return len(pieces[0]) < len(pieces[-1]) and all(map(str.startswith, pieces[1:], pieces))


def _repeats(pieces: Sequence[str]) -> bool:
    """Whether the last ``_REPEATED`` characters are one phrase, again and again."""
    tail = ""
    for piece in reversed(pieces):
        tail = piece + tail
        if len(tail) >= _REPEATED:
            break
    if len(tail) < _REPEATED:
        return False
    tail = tail[-_REPEATED:]
    before = tail.rfind(tail[-_PROBE:], 0, -1)
    period = len(tail) - _PROBE - before
    return before >= 0 and period <= _PHRASE and tail[period:] == tail[:-period]


def is_cut(completion: Completion, sent: int | None) -> bool:
    """Whether the answer ended because it had used up its room: its finish reason says so or, whatever the
    reason, it has at least ``sent`` tokens.
    """
    if completion.finish.lower() in CUT:
        return True
    usage = completion.usage
    return sent is not None and usage is not None and usage.completion >= sent
