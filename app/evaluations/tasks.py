"""Deals speaking turns to raters, and stores their judgements.

A task is one speaking turn as seen from the speaker's own seat: what the speaker chose in each stage, thought
and said. Turns are drawn over games, roles and conditions alike (``evaluators.ground.drawing``). Some turns
go to every rater, so that the raters' agreement can be measured; each of the others goes to as many raters as
requested. A rater sees only its own judgements.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.errors import AlreadyJudged, InvalidRequest, NotFound
from app.base.off_loop import off_loop
from app.edge.auth import Caller
from app.edge.idempotency import RequestKey
from app.edge.quotas import Quotas
from app.evaluations.gold import Gold
from app.evaluations.items import FinishedGames, Turn
from app.evaluations.schemas import (
    AskedView,
    JudgementSpec,
    LeftOutView,
    RaterSpec,
    Stored,
    TaskStage,
    TasksView,
    TaskView,
)
from app.store.audit import Doer
from app.store.db import Database
from app.store.evaluations import EvaluationStore, Whose
from app.store.games import GameStore, still_there
from app.store.rows import Damaged, JudgementRow
from engine.chance import draw
from engine.errors import CorruptLog
from engine.intentions import BY_ID, normalise
from engine.terms import Seat
from evaluators.errors import UnknownItem
from evaluators.ground.drawing import Drawing, candidates, why_nothing
from evaluators.ground.items import Item, items, parse_id

__all__ = ["Changes", "Prepared", "Tasks", "judgement_row", "overlaid"]

log = structlog.get_logger()

_AHEAD: Final = 20
"""How many turns are looked at for each new task: others may have been dealt to enough raters."""

_COUNTED_AS_ONE: Final = 100
"""So many judgements of one request, or fewer, count as one submission of their owner."""

_WITHOUT: Final = 200
"""How many games without a turn to judge are read for one deal, in batches whose games hold none."""


class Tasks:
    """Deals tasks and stores judgements."""

    def __init__(
        self,
        database: Database,
        games: FinishedGames,
        store: EvaluationStore,
        rows: GameStore,
        gold: Gold,
        quotas: Quotas,
    ) -> None:
        self._gold = gold
        self._quotas = quotas
        self._database = database
        self._games = games
        self._store = store
        self._rows = rows

    async def deal(
        self,
        games: Sequence[str],
        *,
        caller: Caller,
        rater: str,
        limit: int,
        shared: int,
        overlap: int,
        seed: str,
    ) -> TasksView:
        """The rater's tasks that are left from earlier deals, and new ones up to ``limit`` in all.

        ``seed`` fixes the order of turns. The first ``shared`` turns go to every rater; each of the others
        goes to ``overlap`` raters. New tasks count as one submission. Raises QuotaExceeded; then none are
        dealt.
        """
        name = caller.name
        judged = await self._store.judgements_of(games, whose=Whose.one(name), raters=(rater,))
        done = {(row.game_id, row.request_id) for row in judged}
        dealt_before = await self._store.tasks_of(name, rater, games)
        waiting = sorted(
            (turn for turn in dealt_before if turn not in done), key=lambda turn: _lot(seed, *turn)
        )
        left: list[TaskView] = []
        without: dict[str, LeftOutView] = {}
        for turn in waiting:
            if len(left) == limit:
                break
            if turn[0] not in without:
                try:
                    left.append(await self._task(turn))
                except CorruptLog as fault:
                    without[turn[0]] = _damaged(turn[0], fault)
        known = {*dealt_before, *done}
        new, others = await self._new(games, limit - len(left), shared, overlap, seed, caller, rater, known)
        without |= {one.game_id: one for one in others}
        shown = [*left, *[await self._task(turn) for turn in new]]
        await self._gold.show_tasks(caller, {(task.game_id, task.request_id): task.speaker for task in shown})
        return TasksView(rater=rater, tasks=shown, left=len(left), without_tasks=list(without.values()))

    async def _new(
        self,
        games: Sequence[str],
        wanted: int,
        shared: int,
        overlap: int,
        seed: str,
        caller: Caller,
        rater: str,
        known: set[Turn],
    ) -> tuple[list[Turn], list[LeftOutView]]:
        if wanted <= 0:
            return [], []
        # The turns are read before the transaction, which holds up every other writer.
        drawing = Drawing(await self.conditions(games), seed)
        turns: list[Turn] = []
        without: list[LeftOutView] = []
        while (game_id := drawing.game) is not None:
            if len(turns) >= shared + len(known) + _AHEAD * wanted or len(without) == _WITHOUT:
                break
            if not drawing.knows(game_id):
                try:
                    game = await self._games.by_id(game_id)
                except CorruptLog as fault:
                    drawing.hold(game_id, ())
                    without.append(_damaged(game_id, fault))
                else:
                    held = await off_loop(candidates, game)
                    drawing.hold(game_id, held)
                    if not held:
                        without.append(LeftOutView(game_id=game_id, reason=why_nothing(game)))
            if (drawn := drawing.draw()) is not None:
                turns.append(drawn)

        name = caller.name
        fellows = await self._gold.fellows(caller, {game_id for game_id, _ in turns})

        full: set[Turn] = set()

        async def choose(connection: AsyncConnection) -> list[Turn]:
            chosen: list[Turn] = []
            for place, turn in enumerate(turns):
                if len(chosen) == wanted:
                    break
                if turn in known or turn in full:
                    continue
                if place >= shared and await self._store.is_with(
                    connection, turn, fellows[turn[0]], (name, rater), overlap
                ):
                    full.add(turn)
                else:
                    chosen.append(turn)
            return chosen

        # Finds the turns that others have, so that the transaction looks at few.
        async with self._database.reading() as connection:
            await choose(connection)

        async def work(connection: AsyncConnection) -> list[Turn]:
            chosen = await choose(connection)
            if chosen:
                await self._quotas.take(connection, caller.owner, "submissions_a_day")
            at = self._database.writer.stamp()
            await self._store.deal(
                connection,
                [
                    {"game_id": game, "request_id": request, "caller": name, "rater": rater, "at": at}
                    for game, request in chosen
                ],
            )
            return chosen

        chosen = await self._database.writer.run(work)
        return sorted(chosen, key=lambda turn: _lot(seed, *turn)), without

    async def conditions(self, games: Sequence[str]) -> dict[str, str]:
        """The condition of each game, by which turns are drawn: the labels of its batch, or the batch if it
        has none.
        """
        of_batch: dict[str, str] = {}
        by_game = await self._rows.batches_of(games)
        for batch_id in sorted(set(by_game.values())):
            try:
                batch = await self._rows.batch(batch_id)
            except CorruptLog:
                batch = None
            labels: Any = {} if batch is None or isinstance(batch.labels, Damaged) else batch.labels
            named = ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
            of_batch[batch_id] = named or batch_id
        return {game_id: of_batch[batch_id] for game_id, batch_id in by_game.items()}

    async def _task(self, turn: Turn) -> TaskView:
        game = (await self._games.by_id(turn[0])).only(turn[1])
        selections = {item.stage: item for item in items(game, "selection")}
        followings = {item.stage: item for item in items(game, "following")}
        known = {**selections, **followings}
        if not known:
            raise CorruptLog(f"{game.id} has no such turn as one that was dealt to a rater")
        # The whole record is shown; each stage says which part of it was unknown to its selection.
        whole = [item for item in known.values() if item.context.without is None]
        first = (whole or list(known.values()))[0]
        return TaskView(
            game_id=game.id,
            request_id=turn[1],
            round=first.round,
            attempt=first.attempt,
            speaker=first.speaker,
            context=first.context.text,
            view=first.context.as_json(),
            stages=[
                _stage(known[name], selections.get(name), followings.get(name))
                for name in ("first", "final")
                if name in known
            ],
        )

    async def store(
        self,
        rater: RaterSpec,
        given: Sequence[JudgementSpec],
        *,
        caller: Caller,
        revise: bool,
        unreached: Collection[str] = (),
        key: RequestKey | None = None,
    ) -> Stored:
        """Stores all judgements, or none. ``unreached``: games that are out of the caller's reach. Raises
        InvalidRequest for a judgement of something that was not chosen, and AlreadyJudged for a second
        judgement by the same rater, unless ``revise``, and QuotaExceeded.

        Whether something in a turn can be judged reveals what was chosen there, so a caller who tries may no
        longer guess that turn.
        """
        await self._quotas.check(caller.owner, "submissions_a_day")
        prepared = Prepared(caller.name, sees_all=caller.sees_all, unreached=frozenset(unreached))
        try:
            for judgement in given:
                await self.prepare(prepared, rater, judgement)
        finally:
            # Record it even after a refusal, whose message shows what was chosen.
            await self._gold.show_tasks(caller, prepared.turns)

        async def work(connection: AsyncConnection) -> Stored:
            revised = await self.write(connection, prepared, revise=revise, by=caller)
            submissions = -(-len(given) // _COUNTED_AS_ONE)
            await self._quotas.take(connection, caller.owner, "submissions_a_day", submissions)
            stored = Stored(stored=len(given), revised=revised)
            if key is not None:
                await key.keep(connection, 201, stored)
            return stored

        return await self._database.writer.run(work)

    async def prepare(self, prepared: "Prepared", rater: RaterSpec, judgement: JudgementSpec) -> None:
        """Checks a judgement and adds it to the prepared ones. Raises InvalidRequest."""
        place = len(prepared.rows)
        row = await self._row(prepared, rater, judgement, place)
        key = (rater.name, *row.key)
        if key in prepared.keys:
            raise InvalidRequest("this was judged above", f"/judgements/{place}", "twice")
        prepared.keys.add(key)
        prepared.rows.append(row)

    async def write(
        self, connection: AsyncConnection, prepared: "Prepared", *, revise: bool, by: Doer
    ) -> int:
        """Stores the prepared judgements in the caller's transaction, and returns how many of them replace an
        earlier judgement. Unless ``revise``, raises AlreadyJudged if any of them does. Raises InvalidRequest
        for a game that was deleted since it was checked.
        """
        revised = 0
        raters = {row.rater for row in prepared.rows}
        games = {row.game_id for row in prepared.rows}
        there = await still_there(connection, games)
        grades = {
            rater: await self._store.grades(connection, prepared.caller, rater, games) for rater in raters
        }
        at = self._database.writer.stamp()
        graded = []
        for place, row in enumerate(prepared.rows):
            if row.game_id not in there:
                raise _no_such_item(f"/judgements/{place}")
            grade = grades[row.rater].get(row.key, 0)
            if grade and not revise:
                raise AlreadyJudged(
                    "this rater has judged it already; revise: true judges again", f"/judgements/{place}"
                )
            graded.append(replace(row, grade=grade + 1, at=at))
            revised += bool(grade)
        await self._store.insert_judgements(connection, graded, by=by)
        return revised

    async def changes(self, prepared: "Prepared") -> "Changes":
        """What the prepared judgements change in the stored ones."""
        games = {row.game_id for row in prepared.rows}
        raters = sorted({row.rater for row in prepared.rows})
        whose = Whose.one(prepared.caller)
        stored = await self._store.judgements_of(games, whose=whose, raters=raters)
        return overlaid(stored, prepared.rows)

    async def _row(
        self, prepared: "Prepared", rater: RaterSpec, judgement: JudgementSpec, place: int
    ) -> JudgementRow:
        pointer = f"/judgements/{place}"
        item = prepared.items.get(judgement.item_id)
        if item is None:
            item = prepared.items[judgement.item_id] = await self._item(prepared, judgement.item_id, pointer)
        intention = normalise(judgement.intention)
        if intention is None or all(choice.id != intention for choice in item.asked):
            asked = ", ".join(choice.id for choice in item.asked)
            raise InvalidRequest(f"the item asks about {asked}", f"{pointer}/intention", "intention")
        if item.dimension == "selection":
            if judgement.reasonable is None or judgement.think is not None or judgement.speak is not None:
                raise InvalidRequest(
                    "a selection item takes reasonable, true or false, and nothing else", pointer, "fields"
                )
        elif judgement.reasonable is not None or (judgement.think is None and judgement.speak is None):
            raise InvalidRequest("a following item takes think, speak, or both, 1 to 5", pointer, "fields")
        return replace(judgement_row(prepared.caller, rater, judgement), intention=intention)

    async def _item(self, prepared: "Prepared", item_id: str, pointer: str) -> Item:
        unknown = _no_such_item(pointer)
        try:
            parts = parse_id(item_id)
            if parts.game_id in prepared.unreached:
                raise unknown
            game = await self._games.by_id(parts.game_id, sees_all=prepared.sees_all)
        except (UnknownItem, NotFound):
            raise unknown from None
        if parts.dimension not in ("selection", "following"):
            raise unknown
        if any(turn.request_id == parts.request_id for turn in game.turns):
            prepared.turns[game.id, parts.request_id] = int(parts.request_id.rpartition(".")[2])
        for item in items(game.only(parts.request_id), parts.dimension):
            if item.id == item_id:
                return item
        raise unknown


@dataclass(slots=True)
class Prepared:
    """Judgements that were checked, but are not stored yet."""

    caller: str
    sees_all: bool = True
    unreached: frozenset[str] = frozenset()
    """Games that are out of the caller's reach."""
    rows: list[JudgementRow] = field(default_factory=list)
    keys: set[tuple[str, ...]] = field(default_factory=set)
    items: dict[str, Item] = field(default_factory=dict)
    turns: dict[Turn, Seat] = field(default_factory=dict)
    """The turns that were asked about, whether or not they could be judged, with their speakers."""


class Changes(NamedTuple):
    """What judgements change in earlier ones of the same raters."""

    rows: list[JudgementRow]
    """The judgements to store: new ones, and changed ones whole."""
    same: int
    """How many change nothing."""
    contrary: list[int]
    """Which ones, by place, contradict an earlier value."""


def judgement_row(caller: str, rater: RaterSpec, judgement: JudgementSpec) -> JudgementRow:
    """The judgement as it is stored. Raises UnknownItem if its item's id is none."""
    parts = parse_id(judgement.item_id)
    return JudgementRow(
        game_id=parts.game_id,
        request_id=parts.request_id,
        stage=parts.stage,
        intention=judgement.intention,
        dimension=parts.dimension,
        caller=caller,
        rater=rater.name,
        kind=rater.kind,
        reasonable=judgement.reasonable,
        think=judgement.think,
        speak=judgement.speak,
        comment=judgement.comment,
    )


def overlaid(before: Iterable[JudgementRow], given: Sequence[JudgementRow]) -> Changes:
    """Lays judgements over earlier ones of the same raters. A blank takes nothing back: what it leaves out
    stays as it was.
    """
    held = {(row.rater, *row.key): row for row in before}
    rows, contrary = [], []
    for place, row in enumerate(given):
        old = held.get((row.rater, *row.key))
        if old is None:
            rows.append(row)
            continue
        values = {name: getattr(row, name) for name in ("reasonable", "think", "speak", "comment")}
        whole = {name: getattr(old, name) if value is None else value for name, value in values.items()}
        new = replace(old, kind=row.kind, **whole)
        if new != old:
            rows.append(new)
        if any(
            None not in (getattr(old, name), whole[name]) and getattr(old, name) != whole[name]
            for name in ("reasonable", "think", "speak")
        ):
            contrary.append(place)
    return Changes(rows, len(given) - len(rows), contrary)


def _lot(seed: str, game_id: str, request_id: str) -> tuple[int, str, str]:
    """A sort key that shows a rater's tasks in an order of their own, mixed over games."""
    return draw(seed, "turns", game_id, request_id), game_id, request_id


def _no_such_item(pointer: str) -> InvalidRequest:
    return InvalidRequest(
        "there is no such selection or following item for this caller", f"{pointer}/item_id", "item_id"
    )


def _damaged(game_id: str, fault: CorruptLog) -> LeftOutView:
    log.error("a game is left out of tasks", game=game_id, cause=str(fault))
    return LeftOutView(game_id=game_id, reason="its log cannot be read")


def _stage(item: Item, selection: Item | None, following: Item | None) -> TaskStage:
    spoken = item if following is None else following
    return TaskStage(
        stage=item.stage,
        selection_item=None if selection is None else selection.id,
        following_item=None if following is None else following.id,
        intentions=[
            AskedView(id=choice.id, label=BY_ID[choice.id].label, reason=choice.reason)
            for choice in item.asked
        ],
        reason=item.reason,
        without="" if selection is None else selection.context.without or "",
        think=spoken.think,
        speech=spoken.speech,
    )
