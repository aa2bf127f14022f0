"""Counting stored games for reports, here or in a process beside the service.

A report is minutes of arithmetic for a large batch. In a thread of the service it would slow down
everybody who plays or watches, so large ones are counted by one process of their own, with the lowest
claim on the processor. It takes some games at a time, from whoever asks: a small report is not held up
by a large one.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, Literal, TypeVar

import orjson

from app.store.evaluations import DamagedRow
from engine.errors import UNREADABLE, AvalonError
from engine.events import read_event
from engine.terms import Seat
from evaluators.errors import Unmeasurable
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import read_game
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.report.builder import Answered, ReportBuilder, ReportedGame
from evaluators.report.page import as_html
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, as_csv, limited

__all__ = [
    "Beside",
    "Format",
    "StoredGame",
    "add_stored",
    "add_to",
    "begin",
    "forget",
    "made",
    "rendered",
    "report_of",
]

Format = Literal["json", "html", "csv"]

T = TypeVar("T")

_IDLE_S: Final = 120.0
"""The process beside is let go when nobody has asked for so long: it keeps 100 MB."""


@dataclass(frozen=True, slots=True)
class StoredGame:
    """One game as the store has it, with what is known of it."""

    game_id: str
    log: Sequence[tuple[str, bytes | str]]
    """Type and payload of every event, in order."""
    judgements: Sequence[Judgement]
    answers: Sequence[Answered]
    statements: Sequence[SpeechJudgement]
    agents: tuple[str, ...] | None
    groups: Mapping[str, Collection[Seat]]
    judges: frozenset[str]
    damaged: Sequence[DamagedRow] = ()
    """What was said of it and does not read any more."""


def add_stored(builder: ReportBuilder, games: Sequence[StoredGame]) -> None:
    """Counts stored games. One that cannot be read or measured is left out and listed."""
    for one in games:
        for lost in one.damaged:
            builder.lose(_SAID[lost.table], lost.name, lost.game_id)
        try:
            log = [read_event(type_, orjson.loads(text)) for type_, text in one.log]
            game = read_game(one.game_id, log)
        except Unmeasurable as reason:
            builder.leave_out(one.game_id, str(reason).replace(one.game_id, "it"))
        except (AvalonError, *UNREADABLE):
            builder.leave_out(one.game_id, "its log does not read")
        else:
            builder.add(
                ReportedGame(
                    game,
                    one.judgements,
                    one.answers,
                    one.agents,
                    one.groups,
                    one.judges,
                    one.statements,
                )
            )


_SAID: Final = {
    "judgements": "judgements",
    "answers": "answers",
    "statement_judgements": "judgements of statements",
}
"""What the rows of a table are called in a report."""


def made(builder: ReportBuilder, *, sees_all: bool) -> Report:
    """The report of what was counted, as far as it may be told."""
    report = make_report(builder)
    return report if sees_all else limited(report)


def rendered(report: Report, format_: Format) -> bytes:
    """A report in one of its forms; equal reports give equal bytes."""
    if format_ == "html":
        return as_html(report).encode()
    if format_ == "csv":
        return as_csv(report).encode()
    return orjson.dumps(report.as_json(), option=orjson.OPT_NON_STR_KEYS)


# --- in the process beside ------------------------------------------------------------------------

_builders: dict[str, ReportBuilder] = {}
"""What the process is counting, by the name that the service gave it."""


def _start() -> None:
    os.nice(10)


def begin(name: str, builder: ReportBuilder) -> None:
    """The process counts on what this builder holds."""
    _builders[name] = builder


def add_to(name: str, games: Sequence[StoredGame]) -> None:
    """``add_stored`` to what the process counts by this name. Raises KeyError where it is another process."""
    add_stored(_builders[name], games)


def report_of(name: str, *, sees_all: bool) -> Report:
    """The report of what was counted by this name; the process forgets it."""
    return made(_builders.pop(name), sees_all=sees_all)


def forget(name: str) -> None:
    """Lets go what was counted by this name, if anything."""
    _builders.pop(name, None)


class Beside:
    """One process that counts. Started when it is first needed, let go when it has nothing to do."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._letting_go: asyncio.TimerHandle | None = None
        self._users = 0

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Does it there. Raises BrokenProcessPool when the process has died; the next call starts another."""
        if self._pool is None:
            # Not forked: the service has threads and open connections.
            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_start)
        pool = self._pool
        self._keep()
        self._users += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, *given)
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            raise
        finally:
            self._users -= 1
            self._keep()

    def _keep(self) -> None:
        if self._letting_go is not None:
            self._letting_go.cancel()
        self._letting_go = asyncio.get_running_loop().call_later(_IDLE_S, self._let_go)

    def _let_go(self) -> None:
        if self._users:
            self._keep()
        else:
            self.stop()

    def stop(self) -> None:
        """Ends the process; what it was counting is lost."""
        if self._letting_go is not None:
            self._letting_go.cancel()
            self._letting_go = None
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
