"""A client and the server it talks to, for a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from agents.model.client import Attempt, OpenAIModel
from agents.model.model import Endpoint, Form, Message, Reply
from app.instruments.fake_model import Brain, FakeModel, FakeOptions, read_fault

KEY: Final = "sk-a-key-that-must-not-show"

VOTE: Final = Form(
    "vote",
    {
        "type": "object",
        "properties": {
            "approve": {"type": "boolean"},
            "reason": {"type": "string", "maxLength": 80},
            "seats": {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "maximum": 5},
                "minItems": 1,
                "maxItems": 3,
                "uniqueItems": True,
            },
        },
        "required": ["approve", "reason", "seats"],
        "additionalProperties": False,
    },
)

ASKED: Final = (Message("system", "You play a game."), Message("user", "Do you approve of the team?"))


@dataclass
class Table:
    """A fake model, a client of it, and what the client told of its requests."""

    server: FakeModel
    model: OpenAIModel
    attempts: list[Attempt] = field(default_factory=list)

    async def ask(self, text: str = "Do you approve of the team?", form: Form = VOTE) -> Reply:
        messages = [ASKED[0], Message("user", text)]
        return await self.model.complete(messages, form, temperature=0.8, max_tokens=400)

    @property
    def outcomes(self) -> list[str]:
        return [one.outcome for one in self.attempts]


async def until(happened: Callable[[], bool]) -> None:
    """Waits for what nobody announces. Raises TimeoutError when it does not happen."""
    async with asyncio.timeout(200):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def table(
    *faults: str, jitter: float = 0.01, brain: Brain | None = None, latency: Any = None, **more: Any
) -> AsyncIterator[Table]:
    """A server with these faults, and a client that hardly pauses between attempts.

    ``more`` goes to the endpoint: a shorter ``timeout_s`` where a fault is silence, which otherwise lasts.
    """
    options = FakeOptions(brain=brain, faults=tuple(read_fault(one) for one in faults), seed=1)
    if latency is not None:
        options = FakeOptions(brain=brain, faults=options.faults, seed=1, latency=latency)
    async with FakeModel(options).serving() as server:
        settings = {"timeout_s": 30.0, "total_s": 60.0, "retry_after_s": 1.5, "api_key": KEY} | more
        endpoint = Endpoint("here", f"{server.url}/v1", "some-model", **settings)
        attempts: list[Attempt] = []
        model = OpenAIModel(endpoint, attempts.append, jitter=lambda: jitter)
        try:
            yield Table(server, model, attempts)
        finally:
            await model.aclose()
