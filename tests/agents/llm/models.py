"""Models for the tests: plain functions of what they are sent, and ways to watch them being asked."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from random import Random
from typing import Any

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.llm.session import CallKey, MemorySession
from agents.model.model import Form, Message, ModelUnavailable, Reply, Usage
from agents.table import MemoryJournal, play
from engine.chance import secret
from engine.profile import Profile
from engine.rules import create
from engine.state import State
from engine.terms import Role, Seat

Answer = Callable[[Sequence[Message], Form], object]
"""What a model makes of a prompt: a JSON value, or a text that is none."""


def reply(answer: object) -> Reply:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    value = None if isinstance(answer, str) else answer
    return Reply(text, value, Usage(0, 0, 0, False), 0.0, 0.0, "test", "stop", 1)


class FunctionModel:
    """Answers by a function; ``pace`` says how often it lets others go first."""

    def __init__(self, answer: Answer, pace: Callable[[Sequence[Message]], int] = lambda _: 0) -> None:
        self.answer = answer
        self.pace = pace

    async def complete(
        self, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        for _ in range(self.pace(messages)):
            await asyncio.sleep(0)
        return reply(self.answer(messages, form))


def digest(messages: Sequence[Message], salt: object = "") -> str:
    whole = json.dumps([str(salt), *([one.role, one.content] for one in messages)])
    return sha256(whole.encode()).hexdigest()


def noise(salt: object = "", duplicates: bool = False) -> Answer:
    """Fills every form at random: valid JSON of the asked schema, and no sense in it."""

    def answer(messages: Sequence[Message], form: Form) -> object:
        return filled(form.schema, form.schema, Random(digest(messages, salt)), duplicates)

    return answer


WORDS = ("so", "Platz", "—", '"', "\\", "\n", "===", "vote", "再见", "seat 2", "<b>", "\u200b", "{", "]")


def filled(schema: Mapping[str, Any], root: Mapping[str, Any], rng: Random, duplicates: bool) -> Any:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "object":
        return {name: filled(one, root, rng, duplicates) for name, one in schema["properties"].items()}
    if kind == "array":
        count = rng.randint(schema["minItems"], schema["maxItems"])
        return several(schema["items"], root, rng, count, duplicates)
    if kind == "boolean":
        return rng.random() < 0.5
    text = " ".join(["so", *(rng.choice(WORDS) for _ in range(rng.randint(0, 20)))])
    return text[: schema["maxLength"]]


def several(
    items: Mapping[str, Any], root: Mapping[str, Any], rng: Random, count: int, duplicates: bool
) -> list[Any]:
    """So many items; different in what the rules want different, unless ``duplicates``."""
    if duplicates:
        return [filled(items, root, rng, duplicates) for _ in range(count)]
    if "enum" in items:
        return rng.sample(items["enum"], count)
    found = [filled(items, root, rng, duplicates) for _ in range(count)]
    one = items.get("properties", {}).get("intention", {})
    if "enum" in one:
        for entry, id_ in zip(found, rng.sample(one["enum"], count), strict=True):
            entry["intention"] = id_
    return found


def prose(messages: Sequence[Message], form: Form) -> object:
    """Talks, and never answers."""
    rng = Random(digest(messages))
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, 60)))


def unavailable(messages: Sequence[Message], form: Form) -> object:
    raise ModelUnavailable("nobody is there", "timeout")


class Sent:
    """One question that was put."""

    def __init__(self, key: CallKey, messages: Sequence[Message], form: Form) -> None:
        self.key = key
        self.messages = tuple(messages)
        self.form = form

    @property
    def text(self) -> str:
        return "\n".join(f"[{one.role}]\n{one.content}" for one in self.messages)

    @property
    def question(self) -> str:
        """The last message from its header on."""
        content = self.messages[-1].content
        return content[max(content.rfind("=== QUESTION"), 0) :]


class WatchedSession(MemorySession):
    """Keeps what was sent, in the order of sending."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.sent: list[Sent] = []

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        if key not in self.stored:
            self.sent.append(Sent(key, messages, form))
        return await super().ask(key, messages, form, temperature=temperature, max_tokens=max_tokens)

    def steps(self) -> Counter[str]:
        return Counter(one.key.step for one in self.sent)


class Waves:
    """A model that answers everybody who waits at once: its waves are the depth of a chain of calls."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.waves = 0
        self.waiting: list[asyncio.Future[None]] = []
        self._ticker: asyncio.Task[None] | None = None

    async def complete(
        self, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(mine)
        if len(self.waiting) == 1:
            self._ticker = asyncio.create_task(self._tick())
        await mine
        return reply(self.answer(messages, form))

    async def _tick(self) -> None:
        # Long enough for everybody who can ask to have asked.
        for _ in range(50):
            await asyncio.sleep(0)
        self.waves += 1
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.set_result(None)


def llm_seats(
    players: int, model: Any, options: Mapping[str, Any] | None = None
) -> tuple[dict[Seat, LlmAgent], dict[Seat, WatchedSession]]:
    sessions = {seat: WatchedSession(model) for seat in range(1, players + 1)}
    agents = {
        seat: LlmAgent(Setup(seat, secret(1, seat), options or {}), session)
        for seat, session in sessions.items()
    }
    return agents, sessions


async def played(
    profile: Profile,
    seed: int,
    answer: Answer,
    options: Mapping[str, Any] | None = None,
    *,
    deal: Sequence[Role] | None = None,
    pace: Callable[[Sequence[Message]], int] = lambda _: 0,
) -> tuple[State, dict[Seat, WatchedSession]]:
    """A whole game of llm seats that share one function for a model."""
    agents, sessions = llm_seats(profile.players, FunctionModel(answer, pace), options)
    state = await play(create(profile, seed, deal=deal), agents, MemoryJournal())
    return state, sessions
