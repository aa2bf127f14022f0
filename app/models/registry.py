"""The models of one service: its endpoints, what batches paid them, and sessions for games."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from agents.llm.session import CallKey, ModelSession
from agents.model.model import Form, Message, Reply
from app.models.account import Account, Budget, SpendingLimits
from app.models.endpoints import Endpoints
from app.models.sessions import Flights, GameSessions
from app.seats.seating import ModelSeats
from app.store.call import Call, Use, UseKey
from app.store.model_calls import CallStore
from app.store.rows import BatchRow, GameRow, whole
from engine.terms import Seat

__all__ = ["ModelRegistry", "UnusedSession", "budget_of"]


def budget_of(spec: Mapping[str, Any]) -> Budget:
    """The budget that a batch's stored spec names; without one: no limits."""
    given = spec.get("budget") or {}
    own = given.get("per_game") or {}
    return Budget(
        SpendingLimits(given.get("max_tokens"), given.get("max_cost")),
        SpendingLimits(own.get("max_tokens"), own.get("max_cost")),
        given.get("max_parallel"),
    )


class UnusedSession:
    """For agents that are made to see whether they can be."""

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        raise AssertionError("nobody is asked while a spec is checked")

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        raise AssertionError("nobody is asked while a spec is checked")

    async def linger(self, seat: Seat) -> None:
        raise AssertionError("nobody plays while a spec is checked")


class ModelRegistry:
    """Hands out sessions, and knows what was paid."""

    def __init__(self, endpoints: Endpoints, calls: CallStore, *, keep_messages: bool) -> None:
        self.endpoints = endpoints
        self.calls = calls
        self._keep_messages = keep_messages
        self._flights = Flights()
        # As long as somebody plays on one; then the stored calls are its memory.
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._opening = asyncio.Lock()

    def check(self, models: Mapping[str, Mapping[str, Any]]) -> ModelSeats:
        """For making agents only to see whether they can be made."""

        def session(name: str) -> ModelSession:
            if name not in self.endpoints.settings:
                raise self.endpoints.none_such()
            return UnusedSession()

        return ModelSeats(session, models)

    async def seats(self, game: GameRow, batch: BatchRow) -> ModelSeats:
        """What the model seats of a stored game need, the answers it has paid for included."""
        spec = whole(batch.spec)
        account = await self._account(batch.batch_id, budget_of(spec))
        stored = await self.calls.of_game(game.game_id)
        sessions = GameSessions(
            game.game_id,
            game.seed,
            stored,
            self.calls,
            account,
            self._flights,
            keep_messages=self._keep_messages,
            lent=await self._lent(spec.get("repeats") or ()),
            pause=asyncio.sleep,
        )
        return ModelSeats(
            lambda name: sessions.session(self.endpoints.source(name)), spec.get("models") or {}
        )

    def judge_session(
        self, evaluation_id: str, name: str, stored: Mapping[CallKey, Call], account: Account
    ) -> ModelSession:
        """Where a judge asks about one game: its calls stand under the evaluation's id.

        Raises InvalidAgent for an endpoint that is not there, or no longer.
        """
        source = self.endpoints.source(name)
        sessions = GameSessions(
            evaluation_id,
            evaluation_id,
            stored,
            self.calls,
            account,
            self._flights,
            keep_messages=self._keep_messages,
        )
        return sessions.session(source)

    async def _lent(self, games: Sequence[str]) -> dict[CallKey, Call]:
        """The answers of the games that a fork repeats, the nearest first."""
        lent: dict[CallKey, Call] = {}
        for game in games:
            lent = {**await self.calls.of_game(game), **lent}
        return lent

    async def _account(self, batch_id: str, budget: Budget) -> Account:
        # One after the other: two accounts of one batch would both be wrong.
        async with self._opening:
            account = self._accounts.get(batch_id)
            if account is None:
                account = Account(budget, await self.calls.uses(batch_id))
                self._accounts[batch_id] = account
            return account

    async def uses(self, batch_id: str) -> Mapping[UseKey, Use]:
        """What a batch's models were used for so far."""
        account = self._accounts.get(batch_id)
        return await self.calls.uses(batch_id) if account is None else account.uses

    async def stop(self, within_s: float) -> None:
        """Lets what was sent come back and be stored, for so long, and closes every connection."""
        await self._flights.land(within_s)
        await self.endpoints.aclose()
