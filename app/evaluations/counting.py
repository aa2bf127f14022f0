"""Counts stored games for reports, in this process or in a separate one.

The report of a large batch takes minutes of arithmetic. In a thread of the service, this work would slow down
everybody who plays or watches, so large reports are counted in one separate process of low priority. That
process counts some games of a report at a time, so that a large report does not hold up a small one.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Final, Literal, TypeVar

import orjson

from app.base.workers import end_with_parent
from app.store.evaluations import DamagedRow
from engine.errors import UNREADABLE, AvalonError
from engine.events import read_event
from engine.seated import SeatedAgent
from engine.terms import Seat
from evaluators.errors import Unmeasurable
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import read_game
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.report.builder import Answered, ReportBuilder, ReportedGame
from evaluators.report.columns import agent_names, columns_of
from evaluators.report.latex import as_latex
from evaluators.report.page import as_html
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, as_csv, public_part

__all__ = [
    "CountingProcess",
    "Format",
    "StoredGame",
    "add_stored",
    "add_to",
    "begin",
    "forget",
    "rendered",
    "report_of",
]

Format = Literal["json", "html", "csv", "latex"]

T = TypeVar("T")

_IDLE_S: Final = 120.0
"""After this much idle time the separate process is stopped, since it holds 100 MB."""


@dataclass(frozen=True, slots=True)
class StoredGame:
    """One game as it is stored, with everything known about it."""

    game_id: str
    log: Sequence[tuple[str, bytes | str]]
    """Type and payload of every event, in order."""
    judgements: Sequence[Judgement]
    answers: Sequence[Answered]
    statements: Sequence[SpeechJudgement]
    agents: Sequence[SeatedAgent]
    """Those of its seats if its log names none."""
    judges: frozenset[str]
    group_by: str | None = None
    """The column whose values are set side by side."""
    batch: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    models: Collection[Seat] = ()
    """The seats that language models hold."""
    invalid: bool = False
    forked_from: str | None = None
    """The game whose log this one begins with."""
    served: Mapping[Seat, Collection[str]] = field(default_factory=dict)
    """The models that answered, by seat."""
    public_alone: bool = False
    """Whether the report is for callers who may not read the games in full."""
    damaged: Sequence[DamagedRow] = ()
    """Judgements and answers about the game that can no longer be read."""


def add_stored(builder: ReportBuilder, games: Sequence[StoredGame]) -> None:
    """Counts stored games. A game that cannot be read or measured is left out and listed."""
    for stored in games:
        for damaged in stored.damaged:
            builder.lose(_NAMES[damaged.table], damaged.name, damaged.game_id)
        try:
            log = [read_event(type_, orjson.loads(text)) for type_, text in stored.log]
            game = read_game(stored.game_id, log)
        except Unmeasurable as reason:
            builder.leave_out(stored.game_id, str(reason).replace(stored.game_id, "it"))
        except (AvalonError, *UNREADABLE):
            builder.leave_out(stored.game_id, "its log cannot be read")
        else:
            if stored.public_alone and not game.tells_roles:
                builder.leave_out(stored.game_id, "its roles are not public")
                continue
            columns = columns_of(
                game, batch=stored.batch, labels=stored.labels, stored=stored.agents, served=stored.served
            )
            builder.add(
                ReportedGame(
                    game,
                    stored.judgements,
                    stored.answers,
                    agent_names(game, stored.agents),
                    {} if stored.group_by is None else columns.seats(stored.group_by),
                    stored.judges,
                    stored.statements,
                    stored.models,
                    stored.invalid,
                    columns,
                    stored.batch,
                    stored.forked_from,
                )
            )


_NAMES: Final = {
    "judgements": "judgements",
    "answers": "answers",
    "statement_judgements": "judgements of statements",
}
"""What a report calls the rows of each table."""


def rendered(report: Report, format_: Format) -> bytes:
    """A report in one of its formats; equal reports give equal bytes."""
    if format_ == "html":
        return as_html(report).encode()
    if format_ == "csv":
        return as_csv(report).encode()
    if format_ == "latex":
        return as_latex(report).encode()
    return orjson.dumps(report.as_json(), option=orjson.OPT_NON_STR_KEYS)


# --- by name, in the process that counts ------------------------------------------------------------

_builders: dict[str, ReportBuilder] = {}
"""The builders of the reports that this process is counting, by the report's name."""


def _start() -> None:
    os.nice(10)
    end_with_parent()


def begin(name: str, builder: ReportBuilder) -> None:
    """Starts to count a report with a builder without counts."""
    _builders[name] = builder


def add_to(name: str, games: Sequence[StoredGame]) -> None:
    """Adds games to the report of this name. Raises KeyError if this process is not counting that report."""
    add_stored(_builders[name], games)


def report_of(name: str, beside: ReportBuilder, *, in_full: bool) -> Report:
    """Returns the report of this name, or its public part, and forgets it. ``beside``: what was counted
    besides the games.
    """
    builder = _builders.pop(name)
    builder.merge(beside)
    report = make_report(builder)
    return report if in_full else public_part(report)


def forget(name: str) -> None:
    """Forgets the report of this name, if there is one."""
    _builders.pop(name, None)


class CountingProcess:
    """One process that counts. It starts when it is first needed, and stops after a long idle time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._users = 0

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Runs ``work`` in the counting process. Raises BrokenProcessPool if that process has died; the next
        call then starts another one.
        """
        if self._pool is None:
            # Not forked, because the service has threads and open connections.
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_start)
        pool = self._pool
        self._restart_timer()
        self._users += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, *given)
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            raise
        finally:
            self._users -= 1
            self._restart_timer()

    def _restart_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_S, self._on_idle)

    def _on_idle(self) -> None:
        if self._users:
            self._restart_timer()
        else:
            self.stop()

    def stop(self) -> None:
        """Stops the process. The reports that it was counting are lost."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
