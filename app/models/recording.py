"""Recorded answers: their file, and a session that answers from that file.

The file has one JSON object on each line, in ASCII. An answer is looked up by the seed of its game and by its
key, since ids differ from run to run; the hash of the messages shows whether the question is the same.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from io import FileIO
from pathlib import Path
from typing import Any, Final

from agents.llm.session import CallKey
from agents.model.model import SAMPLING, Form, Message, Reply, Sampling, Usage
from app.base.errors import MissingAnswer
from app.store.call import Call, besides_of, hash_of
from engine.terms import Seat

__all__ = [
    "END",
    "UNUSED_SESSION",
    "AnswersFile",
    "CannotStore",
    "InvalidAnswers",
    "RecordedSession",
    "Recording",
    "Signature",
    "another_question",
    "line_of",
]

END: Final = "answers.end"
"""The type of the last line, which counts and signs the others."""


class InvalidAnswers(ValueError):
    """A file that holds no answers, or that is cut off or altered."""


class CannotStore(Exception):
    """A file that keeps what was paid for cannot be written. It still holds all that was written before."""

    def __init__(self, file: Path, fault: OSError) -> None:
        super().__init__(f"cannot write {file}: {fault.strerror or type(fault).__name__}")


def line_of(seed: str, call: Call, about_game: Mapping[str, Any] | None = None) -> bytes:
    """One answer as a line of the file. ``about_game``: fields for human readers, which are not read back."""
    key, usage = call.key, call.usage
    values = {
        "seed": seed,
        **(about_game or {}),
        "request_id": key.request_id,
        "step": key.step,
        "about": key.about,
        "attempt": key.attempt,
        "endpoint": call.endpoint,
        "model": call.model,
        "messages_sha256": call.messages_sha256,
        "messages": None if call.messages is None else json.loads(call.messages),
        "asked": {
            "temperature": call.asked_temperature,
            "max_tokens": call.asked_max_tokens,
            **({} if call.asked is None else json.loads(call.asked)),
        },
        "temperature": call.temperature,
        "max_tokens": call.max_tokens,
        "parameters": None if call.parameters is None else json.loads(call.parameters),
        "text": None if call.text is None else json.loads(call.text),
        "parsed": call.value is not None,
        "value": None if call.value is None else json.loads(call.value),
        "failure": call.failure,
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "completion_tokens": usage.completion,
        "tokens_known": usage.known,
        "reasoning_tokens": usage.reasoning,
        "cost": call.cost,
        "reported_cost": usage.cost,
        "latency_s": call.latency_s,
        "finish": call.finish,
        "http_calls": call.http_calls,
        "provider": call.provider,
        "fingerprint": call.fingerprint,
        "reasoning": None if call.reasoning is None else json.loads(call.reasoning),
    }
    return _json(values).encode("ascii") + b"\n"


def _read_line(values: Mapping[str, Any]) -> tuple[str, Call]:
    # Earlier versions recorded only what was asked for.
    asked = values.get("asked", values)
    sent = values.get("parameters")
    besides = {name: value for name, value in asked.items() if name in SAMPLING and "asked" in values}
    # Files of earlier versions lack the following values.
    reasoning = values.get("reasoning")
    call = Call(
        key=CallKey(values["request_id"], values["step"], values["about"], values["attempt"]),
        endpoint=values["endpoint"],
        model=values["model"],
        messages_sha256=values["messages_sha256"],
        messages=None if values["messages"] is None else _json(values["messages"]),
        asked_temperature=asked["temperature"],
        asked_max_tokens=asked["max_tokens"],
        temperature=values["temperature"],
        max_tokens=values["max_tokens"],
        parameters=None if sent is None else _json(sent),
        text=None if values["text"] is None else _json(values["text"]),
        value=_json(values["value"]) if values["parsed"] else None,
        failure=values["failure"],
        usage=Usage(
            values["prompt_tokens"],
            values["cached_tokens"],
            values["completion_tokens"],
            values["tokens_known"],
            values.get("reasoning_tokens"),
            values.get("reported_cost"),
        ),
        cost=values["cost"],
        latency_s=values["latency_s"],
        finish=values["finish"],
        http_calls=values["http_calls"],
        asked=besides_of(Sampling(**besides)),
        provider=values.get("provider"),
        fingerprint=values.get("fingerprint"),
        reasoning=None if reasoning is None else _json(reasoning),
    )
    return values["seed"], call


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


class Signature:
    """Counts and hashes the lines of a file, and makes its last line, which shows whether any is missing."""

    def __init__(self) -> None:
        self.count = 0
        self._digest = hashlib.sha256()

    def add(self, line: bytes) -> bytes:
        """Adds a line, and returns it."""
        self.count += 1
        self._digest.update(line)
        return line

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether these values of a last line agree with the lines that were added."""
        return (values.get("answers"), values.get("sha256")) == (self.count, self._digest.hexdigest())

    def line(self) -> bytes:
        """The last line."""
        values = {"t": END, "answers": self.count, "sha256": self._digest.hexdigest()}
        return _json(values).encode() + b"\n"


class Recording:
    """Recorded answers, by the seed of their game and by their key."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[CallKey, Call]] = {}

    def __len__(self) -> int:
        return sum(len(calls) for calls in self._calls.values())

    def add(self, seed: str, call: Call) -> None:
        """Adds a call. Raises InvalidAnswers if there is a different one for the same key."""
        known = self._calls.setdefault(seed, {}).setdefault(call.key, call)
        if known != call:
            raise InvalidAnswers(f"two answers for seed {seed}, {_place(call.key)}")

    def move(self, seed: str, key: CallKey) -> None:
        """Puts a game's call aside: its attempt becomes the next unused negative number."""
        moved = replace(self._calls[seed].pop(key), key=self._beyond(seed, key))
        self._calls[seed][moved.key] = moved

    def _beyond(self, seed: str, key: CallKey) -> CallKey:
        lowest = min((other.attempt for other in self.calls(seed)), default=0)
        return replace(key, attempt=min(0, lowest) - 1)

    def calls(self, seed: str) -> Mapping[CallKey, Call]:
        """A game's calls by key."""
        return self._calls.get(seed, {})

    async def of_game(self, game: str) -> Mapping[CallKey, Call]:
        """A game's calls by key; ``game`` is its seed."""
        return self.calls(game)

    async def keep(self, game: str, call: Call, owner: str = "") -> Call:
        """Adds a call in memory, and returns it."""
        self.add(game, call)
        return call

    async def key_of_try(self, game: str, key: CallKey, job: int | None = None) -> CallKey:
        """The key to keep a try at this question under."""
        return self._beyond(game, key)

    async def put_aside(self, game: str, keys: Sequence[CallKey], job: int | None = None) -> None:
        """Puts calls of the game with this seed aside, in memory."""
        for key in keys:
            self.move(game, key)

    @classmethod
    def read(cls, file: Path) -> "Recording":
        """The answers of a file. Raises InvalidAnswers for a file of another kind, or an altered one."""
        return read_whole(file)[0]


def read_whole(file: Path) -> tuple[Recording, Signature, int]:
    """The answers of a file, their signature, and the size of their lines in bytes.

    An incomplete last line is ignored: the process was killed while it wrote that line. Raises
    InvalidAnswers, also for lines after the signature: whoever goes on writing would remove them.
    """
    recording, signature, whole = Recording(), Signature(), 0
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    values = json.loads(line)
                    if values.get("t") == END:
                        if not signature.fits(values):
                            raise InvalidAnswers(
                                f"{file} was altered: its last line does not match the others"
                            )
                        if any(map(bytes.strip, lines)):
                            raise InvalidAnswers(
                                f"{file} goes on after its end, line {number}: several files were joined. "
                                f"Keep them apart: head -n {number} gives the first, tail -n +{number + 1} "
                                "the rest"
                            )
                        break
                    if "aside" in values:
                        recording.move(values["seed"], CallKey(**values["aside"]))
                    else:
                        recording.add(*_read_line(values))
                except InvalidAnswers:
                    raise
                except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
                    raise InvalidAnswers(f"line {number} of {file} is not a recorded answer") from None
                signature.add(line)
                whole += len(line)
    except OSError as fault:
        raise InvalidAnswers(f"{file} cannot be read: {fault.strerror}") from None
    return recording, signature, whole


def _place(key: CallKey) -> str:
    about = f" ({key.about})" if key.about else ""
    return f"request {key.request_id}, step {key.step}{about}, attempt {key.attempt}"


def another_question(seed: str, key: CallKey) -> MissingAnswer:
    """The error for a recorded answer that belongs to another question."""
    return MissingAnswer(
        f"the answer recorded for seed {seed}, {_place(key)} belongs to another question: "
        "the recorded run had other settings, agents or templates"
    )


class RecordedSession:
    """Answers one game from a recording, without any model."""

    def __init__(self, recording: Recording, seed: str) -> None:
        self._calls = recording.calls(seed)
        self._seed = seed

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        """The recorded answer. Raises MissingAnswer if there is none, and ModelUnavailable if it was recorded
        that the model did not answer.
        """
        call = self._calls.get(key)
        if call is None:
            raise MissingAnswer(f"no answer is recorded for seed {self._seed}, {_place(key)}")
        if call.messages_sha256 != hash_of(messages):
            raise another_question(self._seed, key)
        return call.answer()

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        """The recorded answer if it belongs to exactly this question, else None."""
        call = self._calls.get(key)
        return None if call is None or call.messages_sha256 != hash_of(messages) else call.answer()

    async def linger(self, seat: Seat) -> None:
        """Returns immediately: a repeated game need not take as long as the first."""

    def read(self, key: CallKey, *, usable: bool) -> None:
        """Does nothing."""

    async def unanswered(self, request_id: str) -> None:
        """Does nothing: the default was played in the recorded game."""


UNUSED_SESSION: Final = RecordedSession(Recording(), "")
"""A session without answers, for agents that are made only to check whether they can be made."""


class AnswersFile:
    """Answers that one process keeps in a file. Each answer is written before it is used."""

    def __init__(self, path: Path) -> None:
        """Opens the file with the answers of earlier runs, or creates the file. Raises InvalidAnswers."""
        exists = path.exists()
        self.recording, self._signature, self._size = (
            read_whole(path) if exists else (Recording(), Signature(), 0)
        )
        self._path = path
        # It has no buffer, which would keep what could not be written and try once more.
        self._file = FileIO(path, "r+" if exists else "w+")
        self._cut()

    async def of_game(self, game: str) -> Mapping[CallKey, Call]:
        """A game's calls; ``game`` is its seed."""
        return self.recording.calls(game)

    async def keep(self, game: str, call: Call, owner: str = "") -> Call:
        """Writes a call to the file, unless it is there, and returns it. Raises CannotStore, and
        InvalidAnswers if there is a different call for the same key.
        """
        if call.key not in self.recording.calls(game):
            self._add(line_of(game, call))
        self.recording.add(game, call)
        return call

    async def key_of_try(self, game: str, key: CallKey, job: int | None = None) -> CallKey:
        """The key to keep a try at this question under."""
        return await self.recording.key_of_try(game, key)

    async def put_aside(self, game: str, keys: Sequence[CallKey], job: int | None = None) -> None:
        """Writes that these answers were put aside. Raises CannotStore."""
        self._add(*(_json({"seed": game, "aside": asdict(key)}).encode("ascii") + b"\n" for key in keys))
        await self.recording.put_aside(game, keys)

    def close(self) -> None:
        """Signs the file and closes it. Raises CannotStore if there is no room for the signature."""
        with self._file:
            self._write(self._signature.line())

    def _add(self, *lines: bytes) -> None:
        """Writes all of these lines or none, and signs them once they are written."""
        self._write(b"".join(lines))
        for line in lines:
            self._size += len(self._signature.add(line))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            self._cut()
            while left:
                left = left[self._file.write(left) :]
        except OSError as fault:
            with suppress(OSError):
                self._cut()
            raise CannotStore(self._path, fault) from None

    def _cut(self) -> None:
        """Removes what follows the last answer: an earlier run's signature, or an incomplete line."""
        self._file.seek(self._size)
        self._file.truncate()
