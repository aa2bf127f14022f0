"""Simulates games with model seats: in one process, many games at the same time."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from agents.llm.session import ModelSession
from agents.llm.templates import Templates
from agents.model.model import Sampling
from agents.table import MemoryJournal, play
from app.base.errors import BudgetSpent
from app.base.schemas import OnUnusable
from app.base.tasks import end_tasks
from app.models.account import Account, Budget
from app.models.endpoints import Endpoints
from app.models.recording import UNUSED_SESSION, AnswersFile, RecordedSession, Recording
from app.models.sessions import Answers, Flights, GameSessions
from app.models.stops import Stop
from app.runner.simulate import Plan, Result, game_hash, game_id, lines_of, provenance_in
from app.seats.seating import AskedModel, ModelSeats, seat_agents
from app.settings import EndpointSettings
from app.store.call import Use, UseKey, use_of
from engine.profile import profile_from_settings
from engine.rules import create
from engine.seated import SeatedAgent
from engine.terms import Seat

__all__ = ["ModelRun"]

AHEAD = 4
"""Games started before the first unfinished game is done, as a multiple of the games played at once:
results come in order, and one slow game must not hold up the others."""

LAND_S = 10.0
"""Seconds that calls in flight, which are paid for, may take to finish when a run stops early."""


class ModelRun:
    """One run of ``interintent simulate`` with ``llm`` seats."""

    def __init__(
        self,
        plan: Plan,
        endpoint: tuple[str, EndpointSettings] | None,
        answers: AnswersFile | Recording,
        budget: Budget,
        parallel: int,
        on_unusable: OnUnusable | None = None,
        prompts: Mapping[str, Templates] | None = None,
    ) -> None:
        """``endpoint``: its name and settings; None for a run that only repeats recorded answers.
        ``on_unusable``: as in ``GameSessions``. ``prompts``: sets that seats may choose, by name.
        """
        self._plan = plan
        self._profile = profile_from_settings(plan.profile)
        settings = {} if endpoint is None else {endpoint[0]: endpoint[1]}
        self._endpoints = Endpoints(lambda: settings)
        self._name = None if endpoint is None else endpoint[0]
        self._asked = AskedModel(None, None) if endpoint is None else self._endpoints.asked(endpoint[0])
        priced = None if endpoint is None else endpoint[1].prices
        self._prices = (
            {} if endpoint is None or priced is None else {endpoint[0]: priced.model_dump(exclude_none=True)}
        )
        self._answers: Answers = answers
        self._recording = answers.recording if isinstance(answers, AnswersFile) else answers
        self._parallel = parallel
        self._on_unusable = on_unusable
        self._prompts = prompts or {}
        self._flights = Flights()
        self._budget = budget
        self._account: Account | None = None
        self.stopped: BudgetSpent | Stop | None = None
        """Why the run ended before all games were played."""

    @property
    def uses(self) -> Mapping[UseKey, Use]:
        """The model usage of the games, earlier runs with the same answers included."""
        return {} if self._account is None else self._account.uses

    def seated(self, index: int) -> tuple[SeatedAgent, ...]:
        """What the log of game ``index`` says of its agents."""
        return self._plan.seated(index, self._profile, self._seats(lambda *_: UNUSED_SESSION))

    def _seats(self, session: Callable[[str, Sampling], ModelSession]) -> ModelSeats:
        return ModelSeats(session, asked=lambda _: self._asked, prompts=self._prompts)

    def run(self, games: int, *, first: int = 0, keep: bool = False) -> Iterator[Result]:
        """Yields the results of games ``first`` to ``games`` - 1, in order. ``keep``: with their logs.

        Ends early when the budget is spent, or where a model stops a game (see ``stopped``). Raises
        MissingAnswer where a recording lacks an answer.
        """
        self._account = Account(self._budget, self._uses(first, games))
        with asyncio.Runner() as runner:
            results = self._results(self._account, first, games, keep)

            async def next_result() -> Result | None:
                return await anext(results, None)

            try:
                while (result := runner.run(next_result())) is not None:
                    yield result
            finally:
                runner.run(self._close(results))

    async def _close(self, results: AsyncIterator[Result]) -> None:
        await results.aclose()  # type: ignore[attr-defined]
        await self._flights.land(LAND_S)
        await self._endpoints.aclose()
        self.close()

    def close(self) -> None:
        """Closes the file of answers. ``run`` does so itself; this is for a run that does not take place."""
        if isinstance(self._answers, AnswersFile):
            self._answers.close()

    def _uses(self, first: int, games: int) -> dict[UseKey, Use]:
        uses: dict[UseKey, Use] = {}
        for index in range(first, games):
            for call in self._recording.calls(str(self._plan.seed + index)).values():
                key = UseKey(call.endpoint, call.model, call.key.step)
                uses.setdefault(key, Use()).add(use_of(call))
        return uses

    async def _results(self, account: Account, first: int, games: int, keep: bool) -> AsyncIterator[Result]:
        slots = asyncio.Semaphore(self._parallel)
        started: deque[asyncio.Task[Result]] = deque()
        indices = iter(range(first, games))
        try:
            while True:
                while len(started) < self._parallel * AHEAD and (index := next(indices, None)) is not None:
                    started.append(asyncio.create_task(self._game(account, slots, index, keep)))
                if not started:
                    return
                try:
                    result = await started[0]
                except (BudgetSpent, Stop) as why:
                    self.stopped = why
                    return
                started.popleft()
                yield result
        finally:
            await end_tasks(*started)
            for task in started:
                if not task.cancelled():
                    task.exception()  # the run raises the first exception; the others are alike

    async def _game(self, account: Account, slots: asyncio.Semaphore, index: int, keep: bool) -> Result:
        seed = self._plan.seed + index
        async with slots:
            sessions = GameSessions(
                str(seed),
                str(seed),
                await self._answers.of_game(str(seed)),
                self._answers,
                account,
                self._flights,
                keep_messages=False,
                strict=True,
                on_unusable=self._on_unusable,
            )
            models = self._seats(lambda _, sampling: self._session(sessions, str(seed), sampling))
            log = create(self._profile, seed, agents=self._plan.seated(index, self._profile, models))
            agents = seat_agents(self._plan.seats_of(index), str(seed), models)
            state = await play(log, agents, MemoryJournal())
        result = Result(games=1, events=len(state.log))
        served = self._served(str(seed))
        name = game_id(seed, game_hash(state.log, self._plan.labels, served))
        result.figures.add(name, state)
        if keep:
            result.lines = lines_of(
                state,
                name,
                provenance_in(self._plan, name, state, served, self._prices),
            )
        return result

    def _served(self, seed: str) -> dict[Seat, set[str]]:
        """By seat, the models that answered in a game."""
        served: dict[Seat, set[str]] = {}
        for call in self._recording.calls(seed).values():
            if call.text is not None:
                served.setdefault(call.seat, set()).add(call.model)
        return served

    def _session(self, sessions: GameSessions, seed: str, sampling: Sampling) -> ModelSession:
        if self._name is None:
            return RecordedSession(self._recording, seed)
        return sessions.session(self._endpoints.source(self._name), sampling)
