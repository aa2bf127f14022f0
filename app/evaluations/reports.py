"""Reports on the finished games of one or several batches, with the judgements and answers about them.

For the same state of its batches, a report is made only once, however often and in whichever format it is
requested. Until it is done, callers get its progress. A small report does not wait for a large one.
"""

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from agents.kinds import asks_model
from app.base.errors import Forbidden, InvalidRequest, NotFound, RateLimited
from app.base.off_loop import off_loop
from app.base.tasks import end_tasks
from app.edge.auth import Caller, Keys
from app.edge.quotas import EXEMPT
from app.evaluations.counting import (
    CountingProcess,
    Format,
    StoredGame,
    add_stored,
    add_to,
    begin,
    forget,
    rendered,
    report_of,
)
from app.evaluations.gold import Gold
from app.evaluations.rater_work import RaterWork, RaterWorkReader
from app.models.provenance import stored_agents
from app.models.registry import ModelRegistry
from app.store.evaluations import EvaluationStore, Whose
from app.store.games import OPEN, GameStore
from app.store.log import LogReader
from app.store.rows import BatchRow, whole
from engine.errors import UNREADABLE, CorruptLog
from engine.terms import Seat
from evaluators.measures.defaults import EXCLUDE_ABOVE
from evaluators.report.builder import ReportBuilder, SeatUse
from evaluators.report.columns import (
    GAME_COLUMNS,
    SEAT_COLUMNS,
    Split,
    UnknownColumn,
    column_name,
    pieces,
    read_conditions,
    read_contrasts,
)
from evaluators.report.tables import Report

__all__ = ["RATERS_OF", "Format", "Making", "Rendering", "Reports", "read_split"]

log = structlog.get_logger()

T = TypeVar("T")

_AT_ONCE: Final = 20
"""How many games' logs, judgements and answers are in memory at a time."""

_HERE: Final = 40
"""Reports of at most this many games are counted in a thread. That takes about a second, and the separate
process would take longer to start.
"""

_NUMBERS: Final = count()
"""Numbers of reports, which tell reports of the same batches apart that this process counts."""

_TOGETHER: Final = 4
"""How many reports are made at a time; others wait."""

_OF_AN_OWNER: Final = 2
"""How many reports are made for one owner, by all processes together. Each lets no more than that wait."""

_LOOK_S: Final = 0.5
"""Seconds between two checks whether the credential is still valid of a caller who waits for a report."""

_AGAIN_S: Final = 5.0
"""What Retry-After says to an owner with as many."""

_REPORTS: Final = 4
_RENDERINGS: Final = 12
"""How many reports and renderings are kept, since readers come back to a report or ask for other formats."""


RATERS_OF: Final = (
    "what other owners' raters handed in is shown on games that you may read in full: not all are"
)

_WHOLE: Final = Split()
"""Neither split nor restricted."""


def read_split(group_by: str | None, where: str | None, contrast: str | None) -> Split:
    """The query parameters as read; conditions and contrasts are separated by semicolons. Raises
    InvalidRequest with a pointer to the parameter.
    """
    return Split(
        None if group_by is None else _read("group_by", column_name, group_by),
        () if where is None else _read("where", read_conditions, pieces(where, ";")),
        () if contrast is None else _read("contrast", read_contrasts, pieces(contrast, ";")),
    )


def _read(parameter: str, reader: Callable[[Any], T], given: Any) -> T:
    try:
        return reader(given)
    except UnknownColumn as fault:
        raise InvalidRequest(str(fault), f"/{parameter}") from None


class _Key(NamedTuple):
    """Identifies a report."""

    batches: tuple[str, ...]
    in_full: bool
    """Whether it is for callers who may read the games in full; else it shows only what is public."""
    split: Split
    exclude_above: float
    whose: Whose | None
    """Whose judgements and answers it reads; None: anybody's."""


class _State(NamedTuple):
    """How much is stored about one batch. When any of these numbers changes, the report is made again."""

    games: tuple[tuple[str, int], ...]
    """The number of games for each status."""
    judgements: int
    answers: int
    invalid: tuple[tuple[str, str], ...]
    """Invalid games: when, by whom and why."""

    @property
    def finished(self) -> int:
        return dict(self.games).get("finished", 0)


class Rendering(NamedTuple):
    """A report in one format."""

    content: bytes
    etag: str
    """The tag of exactly the content that this caller may see."""


@dataclass(slots=True)
class Making:
    """A report that is being made."""

    state: tuple[_State, ...]
    games: int
    owner: str
    """Who asked for it first."""
    games_done: int = 0
    started: float = field(default_factory=time.monotonic)
    waited_for: bool = False
    """Whether a caller was asked to come back for the report."""
    task: asyncio.Task[Report] | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def eta_s(self) -> float | None:
        """The seconds left; None before the first games are done."""
        if not self.games_done:
            return None
        return self.seconds / self.games_done * (self.games - self.games_done)


@dataclass(frozen=True, slots=True)
class _Made:
    state: tuple[_State, ...]
    report: Report
    valid_until: float
    """Until this time (monotonic), the report is given out even if its batches have changed, because a caller
    was asked to come back for it.
    """


class Reports:
    """Makes and keeps reports."""

    def __init__(
        self,
        games: GameStore,
        reader: LogReader,
        store: EvaluationStore,
        models: ModelRegistry,
        gold: Gold,
        keys: Keys,
    ) -> None:
        self._gold = gold
        self._keys = keys
        self._games = games
        self._reader = reader
        self._store = store
        self._models = models
        self._process = CountingProcess()
        self._slots = asyncio.Semaphore(_TOGETHER)
        self._making: dict[_Key, Making] = {}
        self._made: OrderedDict[_Key, _Made] = OrderedDict()
        self._rendered: OrderedDict[tuple[int, Format], tuple[Report, Rendering]] = OrderedDict()

    async def rendered(
        self,
        batches: tuple[str, ...],
        caller: Caller,
        format_: Format,
        split: Split = _WHOLE,
        wait_s: float = 60.0,
        exclude_above: float = EXCLUDE_ABOVE,
        raters_of: Collection[str] = (),
    ) -> Rendering | Making:
        """The report of these batches together, as this caller may see it, or its progress if the report
        takes longer than ``wait_s`` seconds. Raises NotFound, Forbidden for any ``split`` of games that the
        caller may not read in full, since it shows who sat where, and for ``raters_of``, whose raters count
        beside those of the batches' owners and the caller's; InvalidRequest for a column that none of the
        batches has, and for owners of whose raters nothing is known there; RateLimited while two others are
        made for the caller's owner; Unauthenticated if the caller's credential ends while it waits.
        """
        ends = time.monotonic() + wait_s
        key = await self._key(batches, caller, split, exclude_above, raters_of)
        while True:
            state = tuple([await self._state(batch_id, key.whose) for batch_id in batches])
            held = self._made.get(key)
            if held is not None and (held.state == state or time.monotonic() < held.valid_until):
                self._made.move_to_end(key)
                return await self._form(held.report, format_)
            making = self._making.get(key)
            if making is None:
                self._refuse_many(caller.owner)
                finished = sum(batch.finished for batch in state)
                making = self._making[key] = Making(state, finished, caller.owner)
                making.task = asyncio.create_task(self._make(key, making), name=f"report {_names(key)}")
                making.task.add_done_callback(partial(self._done, key))
            assert making.task is not None
            if not await self._is_done(making.task, ends, caller):
                making.waited_for = True
                return making
            waited_for, key = key, await self._key(batches, caller, split, exclude_above, raters_of)
            # Others may have come to the tables meanwhile, so that the caller may read less.
            if key.in_full or not waited_for.in_full:
                return await self._form(making.task.result(), format_)

    async def _is_done(self, task: asyncio.Task[Report], ends: float, caller: Caller) -> bool:
        """Waits for a report until it is done or the time has come. Raises Unauthenticated."""
        while True:
            left_s = ends - time.monotonic()
            done, _ = await asyncio.wait([task], timeout=max(min(left_s, _LOOK_S), 0))
            self._keys.check(caller)
            if done or left_s <= _LOOK_S:
                return bool(done)

    async def _key(
        self,
        batches: tuple[str, ...],
        caller: Caller,
        split: Split,
        exclude_above: float,
        raters_of: Collection[str],
    ) -> _Key:
        """Which report of these batches the caller may have now. Raises as ``rendered``."""
        if split != _WHOLE:
            caller.needs("export:full")
        labels: set[str] = set()
        owners = {caller.owner, *raters_of}
        is_bound = False
        for batch_id in batches:
            batch = await self._games.batch(batch_id)
            if (
                batch is None
                or not caller.may("eval:read", batch.owner)
                or (not caller.may("export:full", batch.owner) and await self._games.is_ahead(batch))
            ):
                raise NotFound("no such batch for this caller")
            labels |= whole(batch.labels).keys()
            owners.add(batch.owner)
            is_bound = is_bound or await self._is_bound(caller, batch)
        in_full = caller.sees_all and not is_bound
        if not in_full and not is_bound:
            games = [game for batch in batches for game in await self._games.ids(batch, status=("finished",))]
            in_full = not await self._gold.unread(caller, games)
        if split != _WHOLE and not in_full:
            raise Forbidden("you may not read all of these games in full, so you may not know who sat where")
        if raters_of and not in_full:
            raise Forbidden(RATERS_OF)
        _check_columns(split, labels)
        for owner in raters_of:
            await self._check_rated(owner, batches)
        whose = await self._gold.raters_of(owners)
        return _Key(batches, in_full, split, exclude_above, whose)

    async def _is_bound(self, caller: Caller, batch: BatchRow) -> bool:
        """Whether others have seats in open games of the batch, so that the caller may not know what models
        use there: it tells which seats they play. A key that sees everybody's games may, unless these are its
        own or it has seats in them.
        """
        if caller.key_id is None:
            return False
        return any(
            not caller.sees_all or caller.owner in (batch.owner, *(whole(game.taken) or {}).values())
            for game in await self._games.shared(batch.batch_id)
        )

    def _turn(self, owner: str) -> AbstractAsyncContextManager[None]:
        """Waits until a report may be made for this owner: all processes together make as many as one."""
        if owner in EXEMPT:
            return contextlib.nullcontext()
        return self._models.endpoints.leases.works("reports", owner, _OF_AN_OWNER).calls.turn()

    def _refuse_many(self, owner: str) -> None:
        of_owner = sum(making.owner == owner for making in self._making.values())
        if owner not in EXEMPT and of_owner >= _OF_AN_OWNER:
            raise RateLimited(
                f"{of_owner} reports of yours are being made, the most at a time: wait for one of them",
                _AGAIN_S,
            )

    async def _check_rated(self, owner: str, batches: Sequence[str]) -> None:
        """Raises InvalidRequest for an owner of whose raters nothing is stored about these batches."""
        its = await self._gold.keys_of(owner)
        for batch_id in batches:
            if any(await self._store.given(batch_id, its)):
                return
        raise InvalidRequest(
            f"no rater of {owner} has judged or answered anything about {', '.join(batches)}",
            "/raters_of",
            "owner",
        )

    async def _state(self, batch_id: str, whose: Whose | None) -> _State:
        tally = await self._games.tally(batch_id)
        invalid = tuple((await self._games.invalid(batch_id)).items())
        return _State(tuple(sorted(tally.status.items())), *await self._store.given(batch_id, whose), invalid)

    def _done(self, key: _Key, task: asyncio.Task[Report]) -> None:
        del self._making[key]
        # A caller who waits gets the error too.
        if not task.cancelled() and task.exception() is not None:
            log.error("report failed", batch=_names(key), exc_info=task.exception())

    async def stop(self) -> None:
        """Cancels the reports that are being made."""
        await end_tasks(*(making.task for making in self._making.values()))
        self._process.stop()

    async def _form(self, report: Report, format_: Format) -> Rendering:
        key = id(report), format_
        kept = self._rendered.get(key)
        if kept is not None and kept[0] is report:
            self._rendered.move_to_end(key)
            return kept[1]
        large = report.made_of["games"] > _HERE
        content = await self._work(large, rendered, report, format_)
        rendering = Rendering(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        self._rendered[key] = report, rendering
        if len(self._rendered) > _RENDERINGS:
            self._rendered.popitem(last=False)
        return rendering

    async def _work(self, beside: bool, work: Callable[..., T], *given: Any) -> T:
        return await (self._process.run(work, *given) if beside else off_loop(work, *given))

    # --- making -----------------------------------------------------------------------------

    async def _make(self, key: _Key, making: Making) -> Report:
        async with self._turn(making.owner), self._slots:
            batches = "batch" if len(key.batches) == 1 else "batches"
            new = partial(
                ReportBuilder,
                f"Report of {batches} {_names(key)}",
                exclude_above=key.exclude_above,
                where=key.split.where,
                contrasts=key.split.contrasts,
            )
            finished, beside = [], new()
            for batch_id in key.batches:
                finished += await self._games.ids(batch_id, status=("finished",))
                await self._count_beside_games(beside, batch_id)
            making.games = len(finished)
            name = f"{_names(key)} {next(_NUMBERS)}"
            large = len(finished) > _HERE
            await self._work(large, begin, name, new())
            try:
                group_by = key.split.group_by
                async for games in self._stored(finished, key.whose, group_by, in_full=key.in_full):
                    await self._work(large, add_to, name, games)
                    making.games_done += len(games)
                report = await self._work(large, partial(report_of, in_full=key.in_full), name, beside)
            except Exception:
                with contextlib.suppress(Exception):
                    await self._work(large, forget, name)
                raise
            valid_s = making.seconds if making.waited_for else 0.0
            self._made[key] = _Made(making.state, report, time.monotonic() + valid_s)
            self._made.move_to_end(key)
            if len(self._made) > _REPORTS:
                self._made.popitem(last=False)
            return report

    async def count(
        self,
        builder: ReportBuilder,
        batch_id: str,
        finished: Sequence[str],
        group_by: str | None = None,
        raters_of: Collection[str] = (),
    ) -> None:
        """Counts a batch's finished games in this process, with the judgements and answers of its owner's
        raters, and of those of ``raters_of``.
        """
        batch = await self._games.batch(batch_id)
        whose = await self._gold.raters_of({"" if batch is None else batch.owner, *raters_of})
        async for games in self._stored(finished, whose, group_by):
            await off_loop(add_stored, builder, games)
        await self._count_beside_games(builder, batch_id)

    async def _count_beside_games(self, builder: ReportBuilder, batch_id: str) -> None:
        """Counts everything else: games that are not finished, why games are invalid, calls to models."""
        builder.invalid |= await self._games.invalid(batch_id)
        tally = await self._games.tally(batch_id)
        for status, n in tally.status.items():
            if status != "finished":
                reason = "not finished" if status in OPEN else status
                ids = await self._games.ids(batch_id, status=(status,))
                for game_id in ids[:n]:
                    builder.leave_out(game_id, reason)
                if n > len(ids):  # damaged ones
                    builder.pass_over(reason, n - len(ids))
        builder.use(
            SeatUse(
                key.endpoint,
                key.model,
                use.calls,
                use.failed,
                use.prompt_tokens,
                use.cached_tokens,
                use.completion_tokens,
                use.reasoning_tokens,
                use.cost,
            )
            for key, use in (await self._models.uses(batch_id)).items()
        )

    async def _stored(
        self,
        finished: Sequence[str],
        whose: Whose | None,
        group_by: str | None,
        *,
        in_full: bool = True,
    ) -> AsyncIterator[list[StoredGame]]:
        """The games, some at a time; ``in_full``: with the judgements and answers about them."""
        reader = await RaterWorkReader.about(self._store, finished, whose)
        for first in range(0, len(finished), _AT_ONCE):
            ids = finished[first : first + _AT_ONCE]
            rows = await self._games.games_of(ids)
            work = await reader.read(ids) if in_full else RaterWork({}, {}, {}, {}, [])
            logs = await self._reader.stored(ids)
            stored = []
            labels: dict[str, Mapping[str, str]] = {}
            for game_id in ids:
                row, models = rows.get(game_id), frozenset[Seat]()
                served: Mapping[Seat, Collection[str]] = {}
                source: str | None = None
                try:
                    if row is None:
                        raise CorruptLog(f"the row of {game_id} cannot be read")
                    if row.batch_id not in labels:
                        batch = await self._games.batch(row.batch_id)
                        labels[row.batch_id] = {} if batch is None else whole(batch.labels)
                    agents = stored_agents(whole(row.seats))
                    if agents and len(agents) != row.players:
                        raise CorruptLog(f"the seats of {game_id} cannot be read")
                    models = frozenset(
                        seat for seat, spec in enumerate(row.seats, 1) if asks_model(spec["agent"])
                    )
                    if models:
                        served = await self._models.calls.served(game_id)
                    if row.forked_from is not None:
                        source = row.forked_from["game_id"]
                except (CorruptLog, *UNREADABLE):
                    # Without a log the game is left out and named, as if its log were unreadable.
                    logs[game_id], agents = [("", "")], ()
                stored.append(
                    StoredGame(
                        game_id,
                        logs[game_id],
                        work.judgements.get(game_id, ()),
                        work.answers.get(game_id, ()),
                        work.statements.get(game_id, ()),
                        agents,
                        work.judges,
                        group_by,
                        "" if row is None else row.batch_id,
                        {} if row is None else labels.get(row.batch_id, {}),
                        models,
                        row is not None and row.invalid is not None,
                        source,
                        served,
                        not in_full,
                        [damaged for damaged in work.damaged if damaged.game_id == game_id],
                    )
                )
            yield stored


def _names(key: _Key) -> str:
    return ", ".join(key.batches)


def _check_columns(split: Split, labels: Collection[str]) -> None:
    for column, parameter in split.columns.items():
        if column not in (*GAME_COLUMNS, *SEAT_COLUMNS) and column.removeprefix("label:") not in labels:
            known = ", ".join((*GAME_COLUMNS, *SEAT_COLUMNS, *sorted(labels)))
            raise InvalidRequest(
                f"no column of these batches is called {column!r}; they have {known}", f"/{parameter}"
            )
