"""Plays the games of a study in this process, without a server.

Every answer of a model is stored before it is used, in a file for each game. A run that is killed goes on
where it was, and asks nothing again. A game that fails does not stop the others, and an endpoint that refuses
stops only the cells that need it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from agents.llm.session import ModelSession
from agents.llm.templates import Templates
from agents.model.model import Sampling
from agents.table import MemoryJournal, play
from app.base.errors import BudgetSpent
from app.base.schemas import OnUnusable
from app.base.tasks import run_together
from app.models.account import Account
from app.models.endpoints import Endpoints
from app.models.recording import UNUSED_SESSION, AnswersFile, CannotStore
from app.models.sessions import Flights, GameSessions
from app.models.stops import BatchStops, Stop
from app.runner.simulate import lines_of
from app.runner.study_folder import GameRecord, NotWritten, StudyFault, StudyFolder, use_by_seat
from app.seats.seating import LLM, ModelSeats, has_models, seat_agents, seated
from app.store.call import Call, Use
from engine.errors import AvalonError
from engine.rules import create
from engine.seated import SeatedAgent
from engine.state import State
from engine.terms import Seat
from evaluators.ground.provenance import Provenance, catalogue_digest, package_version, provenance_of
from evaluators.measures.defaults import DecisionCounter
from evaluators.study.design import PlannedGame, StudyCell

__all__ = ["LAND_S", "Failure", "StudyGames", "Work"]

log = structlog.get_logger()

LAND_S = 10.0
"""Seconds that calls in flight, which are paid for, may take to finish when a run stops early."""

Work = Iterable[tuple[StudyCell, PlannedGame]]


@dataclass(frozen=True, slots=True)
class Failure:
    """A game that could not be finished, and why."""

    cell: str
    game: str
    reason: str


@dataclass(slots=True)
class StudyGames:
    """The games of one run."""

    folder: StudyFolder
    title: str
    """The study's, a label of each game."""
    endpoints: Endpoints
    account: Account
    prompts: Mapping[str, Templates]
    parallel: int
    on_unusable: OnUnusable | None = None
    strict: bool = True
    """Whether a stored answer must belong to exactly the question that is asked."""
    failures: list[Failure] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """The endpoints that answer nothing until somebody changes something, with their words."""
    spent: bool = False
    """Whether the budget is spent."""

    def check(self, work: Work) -> None:
        """Raises InvalidAgent for a seat that cannot be made, with a pointer into the game's seats."""
        known: list[Any] = []
        for _, game in work:
            if list(game.seats) not in known:
                known.append(list(game.seats))
                seat_agents(game.seats, "check", self._seats(None))

    def seated(self, cell: StudyCell, game: PlannedGame) -> tuple[SeatedAgent, ...]:
        """What the game's log will say of its agents."""
        return seated(game.seats, str(game.seed), cell.profile, self._seats(None))

    async def run(self, work: Work, on_game: Callable[[GameRecord], None]) -> None:
        """Plays the games that are not finished, ``parallel`` at the same time. ``on_game``: called with each
        game that ends. Raises NotWritten.
        """
        left = iter(work)
        await run_together(self._work(left, on_game) for _ in range(self.parallel))

    async def _work(
        self, left: Iterator[tuple[StudyCell, PlannedGame]], on_game: Callable[[GameRecord], None]
    ) -> None:
        for cell, game in left:
            if self.spent:
                return
            if self.folder.has(cell.id, game.id):
                continue
            needs = {spec["model"] for spec in game.seats if spec["agent"] == LLM}
            if held_up := sorted(needs & self.refused.keys()):
                self._fail(game, self.refused[held_up[0]])
                continue
            try:
                record = await self._game(cell, game)
            except BudgetSpent:
                if self.account.is_spent:
                    self.spent = True
                    return
                self._fail(game, "its own budget is spent")
            except BatchStops as stop:
                self.refused[stop.endpoint] = str(stop)
                self._fail(game, str(stop))
            except CannotStore as fault:
                raise NotWritten(str(fault)) from None
            except NotWritten:
                raise
            except (Stop, AvalonError, StudyFault) as fault:
                self._fail(game, str(fault))
            except Exception as fault:
                # The message may quote players; the log has the place.
                log.exception("a game broke", game=game.id)
                self._fail(game, f"something broke on our side: {type(fault).__name__}")
            else:
                on_game(record)

    def _fail(self, game: PlannedGame, reason: str) -> None:
        self.failures.append(Failure(game.cell, game.id, reason))

    async def _game(self, cell: StudyCell, game: PlannedGame) -> GameRecord:
        if not has_models(game.seats):
            return self._keep(cell, game, await self._played(cell, game, None), None, None)
        began = time.monotonic()
        answers, flights = self.folder.answers(cell.id, game.id), Flights()
        try:
            anew = not len(answers.recording)
            sessions = GameSessions(
                game.id,
                str(game.seed),
                answers.recording.calls(game.id),
                answers,
                self.account,
                flights,
                keep_messages=False,
                strict=self.strict,
                on_unusable=self.on_unusable,
            )
            state = await self._played(cell, game, sessions)
            seconds = time.monotonic() - began if anew else None
            return self._keep(cell, game, state, answers, seconds)
        finally:
            # Calls that were sent are paid for: they are stored before the file is closed.
            await flights.land(LAND_S)
            answers.close()

    async def _played(self, cell: StudyCell, game: PlannedGame, sessions: GameSessions | None) -> State:
        models = self._seats(sessions)
        agents = seated(game.seats, str(game.seed), cell.profile, models)
        begin = create(cell.profile, game.seed, agents=agents)
        return await play(begin, seat_agents(game.seats, str(game.seed), models), MemoryJournal())

    def _seats(self, sessions: GameSessions | None) -> ModelSeats:
        def session(name: str, sampling: Sampling) -> ModelSession:
            source = self.endpoints.source(name)
            source.check(sampling)
            if sessions is None:
                return UNUSED_SESSION
            return sessions.session(source, sampling)

        return ModelSeats(session, asked=self.endpoints.asked, prompts=self.prompts)

    def _keep(
        self,
        cell: StudyCell,
        game: PlannedGame,
        state: State,
        answers: AnswersFile | None,
        seconds: float | None,
    ) -> GameRecord:
        calls = {} if answers is None else answers.recording.calls(game.id)
        uses = use_by_seat(iter(calls.values()))
        seats = []
        for seat, (spec, name) in enumerate(zip(game.seats, game.models, strict=True), 1):
            use = uses.get(seat, Use())
            seats.append(
                {
                    "model": name,
                    "endpoint": spec.get("model"),
                    "preset": preset_of(spec),
                    "calls": use.calls,
                    "failed": use.failed,
                    "prompt_tokens": use.prompt_tokens,
                    "cached_tokens": use.cached_tokens,
                    "completion_tokens": use.completion_tokens,
                    "reasoning_tokens": use.reasoning_tokens,
                    "cost": use.cost,
                    "waiting_s": round(use.waiting_s, 3),
                }
            )
        served: dict[str, set[str]] = {}
        for call in calls.values():
            if call.text is not None:
                served.setdefault(call.endpoint, set()).add(call.model)
        decisions = DecisionCounter(state.log).of_models(
            [seat for seat, spec in enumerate(game.seats, 1) if spec["agent"] == LLM]
        )
        names = {spec["model"] for spec in game.seats if "model" in spec}
        asked = {name: self.endpoints.asked(name).model for name in sorted(names)}
        record = GameRecord(
            game=game.id,
            cell=cell.id,
            seed=game.seed,
            index=game.index,
            events=len(state.log),
            seconds=None if seconds is None else round(seconds, 3),
            seats=seats,
            asked=asked,
            served={name: sorted(models) for name, models in sorted(served.items())},
            decisions=decisions.den,
            defaulted=decisions.num,
        )
        self.folder.keep(
            record, lines_of(state, game.id, self._provenance(cell, game, state, calls.values()))
        )
        return record

    def _provenance(
        self, cell: StudyCell, game: PlannedGame, state: State, calls: Iterable[Call]
    ) -> Provenance:
        served: dict[Seat, set[str]] = {}
        for call in calls:
            if call.text is not None:
                served.setdefault(call.seat, set()).add(call.model)
        prices = {
            name: settings.prices.model_dump(exclude_none=True)
            for name in sorted({str(spec["model"]) for spec in game.seats if "model" in spec})
            if (settings := self.endpoints.settings[name]).prices is not None
        }
        return provenance_of(
            game.id,
            state.log,
            served=served,
            server=package_version(),
            labels={"study": self.title, "cell": cell.id, **cell.labels},
            catalogue=catalogue_digest(),
            prices=prices,
        )


def preset_of(spec: Mapping[str, Any]) -> str | None:
    """The preset of a seat, or its steps joined by ``+``; None for a seat without a model."""
    if spec["agent"] != LLM:
        return None
    from agents.llm.options import mechanism_name

    return mechanism_name(spec)
