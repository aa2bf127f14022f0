"""Sealed sets: items that raters are compared on, drawn by the server and sealed until a date.

Whoever may read some games in full may seal items of them. Everybody may read the items of a set, and answer
it until its date. Until then nobody sees anything of the answers; a rater gets a receipt for its own.
Answers are stored as they come and are not looked at: no gold is read before the date, so no answer, error or
delay can depend on it. After the date the set is opened, the last answers of each rater are scored once, and
scores, gold and each item's results are open to all.

A set shows each of its games through the eyes of one seat: guessing asks what the others meant, summarisation
what that seat itself selected. So whoever reads whole sets knows no more of a game than one player did.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms, random_bits, settled_ms, timestamp
from app.base.errors import (
    AlreadyOver,
    AlreadySeen,
    DamagedEntry,
    InvalidRequest,
    NotFound,
    RateLimited,
    SetClosed,
    SetSealed,
    TooManyRaters,
)
from app.base.off_loop import off_loop, whose
from app.base.tasks import end_tasks
from app.edge.auth import Caller
from app.edge.idempotency import RequestKey
from app.edge.quotas import EXEMPT, Quotas
from app.evaluations.gold import Gold
from app.evaluations.items import (
    DAMAGED,
    FinishedGames,
    ScoreCount,
    check_answers,
    scored_item,
    why_excluded,
)
from app.evaluations.schemas import AnswerSpec, RaterView, ScoredItem
from app.evaluations.set_schemas import (
    EntryView,
    GivenAnswer,
    GoldPage,
    GoldView,
    NewAnswers,
    NewSet,
    OwnReceipt,
    OwnReceipts,
    Receipt,
    SetPage,
    SetVariantView,
    SetView,
)
from app.models.leases import Leases
from app.store.audit import Audit
from app.store.db import Database
from app.store.games import GameStore, new_id, still_there
from app.store.rows import (
    AnswerRow,
    SetAnswersRow,
    SetEntryRow,
    SetItemRow,
    SetRow,
    left_out_if_damaged,
    reading,
    whole,
)
from app.store.sets import SetStore
from engine.chance import draw, pick
from engine.errors import AvalonError, CorruptLog
from engine.terms import Seat
from evaluators.ground.answers import Guess, guesses_of
from evaluators.ground.items import Dimension, Item, Variant, items
from evaluators.ground.turns import Game

__all__ = ["RATERS", "EvaluationSets"]

log = structlog.get_logger()

RATERS: Final = 3
"""The most raters under whose names an owner answers a set."""

LONGEST_MS: Final = 400 * 24 * 3600 * 1000
"""The longest time for which a set may be sealed: its games are kept that long."""

_AT_ONCE: Final = 50
"""Games that are looked at together, and entries whose answers are in memory at a time."""

_PLENTY: Final = 10
"""How many times as many items as are drawn are looked at, of batches that have so many. Reading on would
take 20 ms a game and spread the items over few more games.
"""

_DRAWING_S: Final = 5.0
"""What Retry-After says while another set of the owner's is being drawn."""

PLAYING: Final = "playing"
"""The reason that is given for items of a game whose deal the caller plays in an open fork."""

INVALID: Final = "invalid"
"""The reason that is given for items of a game that was marked as invalid."""


class _Candidate(NamedTuple):
    """An item that may be drawn."""

    lineage: tuple[str, ...]
    """Its game, and the games from which that was forked, nearest first."""
    request_id: str
    item_id: str
    seat: Seat

    @property
    def game_id(self) -> str:
        return self.lineage[0]

    @property
    def origin(self) -> str:
        return self.lineage[-1]


class EvaluationSets:
    """Makes sets, takes answers to them, and opens them."""

    def __init__(
        self,
        database: Database,
        rows: GameStore,
        games: FinishedGames,
        sets: SetStore,
        gold: Gold,
        quotas: Quotas,
        leases: Leases,
    ) -> None:
        self._database = database
        self._rows = rows
        self._games = games
        self._sets = sets
        self._gold = gold
        self._quotas = quotas
        self._leases = leases
        self._audit = Audit(database)
        self._scoring: dict[str, asyncio.Task[None]] = {}
        self._drawing: set[str] = set()
        """Owners for whom this process draws a set, or waits until another has drawn one."""

    async def stop(self) -> None:
        """Ends the scoring that goes on; whoever looks at the set next begins it again."""
        await end_tasks(*self._scoring.values())

    # --- making -----------------------------------------------------------------------------

    async def make(self, new: NewSet, caller: Caller, key: RequestKey | None = None) -> SetView:
        """Draws a set and seals it. Raises InvalidRequest for a date that is past or too far off, and if the
        games hold too few items; NotFound for batches whose gold the caller may not read; QuotaExceeded;
        RateLimited while another set of the owner's is being drawn.
        """
        now = now_ms()
        closes_at = _moment(new.closes_at)
        if not now < closes_at <= now + LONGEST_MS:
            raise InvalidRequest(
                f"a set is sealed until a date in the next 400 days; now it is {timestamp(now)}",
                "/closes_at",
                "closes_at",
            )
        for place, batch_id in enumerate(new.batches):
            batch = await self._rows.batch(batch_id)
            if batch is None or not caller.may("export:full", batch.owner):
                raise NotFound(
                    "a set publishes gold at its date, so only callers who may read the gold can make it: "
                    f"/batches/{place} is no batch of yours"
                )
        owner = caller.owner

        async def count(connection: AsyncConnection) -> None:
            if key is not None:
                await key.check_new(connection)
            # Drawing may read many games, so it counts even if it finds too few items.
            await self._quotas.take(connection, owner, "submissions_a_day")

        if owner in self._drawing and owner not in EXEMPT:
            raise RateLimited("another set of yours is being drawn: wait until it is made", _DRAWING_S)
        self._drawing.add(owner)
        try:
            async with AsyncExitStack() as stack:
                if owner not in EXEMPT:
                    await stack.enter_async_context(self._leases.works("sets", owner, 1).calls.turn())
                await self._database.writer.run(count)
                return await self._draw(new, caller, closes_at, key)
        finally:
            self._drawing.discard(owner)

    async def _draw(self, new: NewSet, caller: Caller, closes_at: int, key: RequestKey | None) -> SetView:
        games: list[str] = []
        for batch_id in new.batches:
            games += await self._rows.ids(batch_id, status=("finished",), invalid=False)
        seed = str(random_bits(128))
        candidates = await self._candidates(
            sorted(dict.fromkeys(games), key=lambda game: draw(seed, "games", game)), new, closes_at
        )
        row = SetRow(
            set_id=new_id("s"),
            created_at=self._database.writer.stamp(),
            closes_at=closes_at,
            owner=caller.owner,
            name=new.name,
            dimension=new.dimension,
            variant=new.variant.model_dump(mode="json"),
            items=new.items,
            guessable_seeds=new.guessable_seeds,
        )

        async def work(connection: AsyncConnection) -> SetView:
            # Two sets that are drawn at once may not divide a game between two dates.
            await self._sets.lock(connection, "drawing")
            there = await still_there(connection, {game for one in candidates for game in one.lineage})
            taken = await self._sets.dates_of({one.origin for one in candidates}, connection)
            free = [
                one
                for one in candidates
                if there.issuperset(one.lineage) and _is_free(taken, one.origin, closes_at)
            ]
            if len(free) < new.items:
                raise InvalidRequest(
                    f"these batches have {len(free)} items to draw from, {new.items} are needed. A game "
                    "counts if it has finished, its gold is not public, it is not marked as invalid, no set "
                    "of another date has it, it carries no turns of a deleted game, and the server drew its "
                    "seed: games with given seeds, and forks of them, only count with guessable_seeds, since "
                    "anyone who guesses a seed can find the items with their gold. Of each game, the items "
                    "that one seat sees count",
                    "/items",
                    "too_few_items",
                )
            drawn = set(sorted(free, key=lambda one: draw(seed, "items", one.item_id))[: new.items])
            chosen = [one for one in free if one in drawn]
            await self._sets.insert(
                connection,
                row,
                [
                    SetItemRow(
                        set_id=row.set_id,
                        position=position,
                        item_id=one.item_id,
                        game_id=one.game_id,
                        origin=one.origin,
                        request_id=one.request_id,
                        seat=one.seat,
                    )
                    for position, one in enumerate(chosen)
                ],
            )
            await self._audit.add(connection, caller, "seal", row.set_id, items=row.items)
            view = _view(row, games=len({one.game_id for one in chosen}))
            if key is not None:
                await key.keep(connection, 201, view)
            return view

        return await self._database.writer.run(work)

    async def _candidates(self, game_ids: Sequence[str], new: NewSet, closes_at: int) -> list[_Candidate]:
        """The items that may be drawn, from as many games, in their order, as give plenty of them. They
        depend on no gold. In the result they are by game, in the order of the logs.

        The seat through whose eyes a game is shown is drawn by the game, so that it is the same in every set,
        and the same for games with a common past. A turn that several forks share is drawn once.
        """
        variant = new.variant.model_dump(mode="json")
        found: list[_Candidate] = []
        turns: set[tuple[str, str]] = set()
        for first in range(0, len(game_ids), _AT_ONCE):
            some = game_ids[first : first + _AT_ONCE]
            if len(found) >= _PLENTY * new.items:
                break
            # A fork shows its source's past to everybody: not while the source is played.
            ahead = await self._rows.ahead(some)
            lineages = {game_id: await self._games.lineage(game_id) for game_id in some}
            origins = {lineage[-1] for lineage in lineages.values()}
            taken = await self._sets.dates_of(origins)
            allowed = origins if new.guessable_seeds else await self._with_secret_seeds(origins)
            for game_id, lineage in lineages.items():
                origin = lineage[-1]
                if game_id in ahead or origin not in allowed or not _is_free(taken, origin, closes_at):
                    continue
                # Otherwise nobody knows any more who has played or read its past, nor which other games
                # share it.
                if len(lineage) > 1 and not await self._games.has_all_sources(game_id):
                    continue
                try:
                    game = await self._games.by_id(game_id)
                except AvalonError as fault:
                    log.warning("a game is left out of a set", game=game_id, cause=str(fault))
                    continue
                if game.profile.reveal == "all":
                    continue
                seat = pick(range(1, game.profile.players + 1), "the seat of sets", origin)
                ids = await off_loop(_seen_by, game, new.dimension, seat, variant)
                played = await self._games.first_played({(game_id, request) for request, _ in ids})
                fresh = set(played.values()) - turns
                turns |= fresh
                found += [
                    _Candidate(lineage, request_id, item_id, seat)
                    for request_id, item_id in ids
                    if played[game_id, request_id] in fresh
                ]
        return found

    async def _with_secret_seeds(self, origins: Collection[str]) -> set[str]:
        """Those of these games, 100 at most and no forks, whose seeds no request gave: the server drew them,
        or, of an imported game, there is none. Without games of which the request cannot be read.
        """
        rows = await self._rows.games_of(origins)
        requests = await self._rows.specs(list({row.batch_id for row in rows.values()}))
        secret = {batch_id for batch_id, request in requests.items() if request.get("seeds") is None}
        return {game_id for game_id, row in rows.items() if row.batch_id in secret}

    async def withdraw(self, set_id: str, reason: str, caller: Caller) -> SetView:
        """Takes a set back, for good. Raises NotFound for an unknown set and another's, SetClosed from its
        date on, AlreadyOver for one that was withdrawn.
        """
        row = await self._row(set_id)
        caller.needs("export:full", row.owner)

        async def work(connection: AsyncConnection) -> None:
            # Not a stamp: stamps stay ahead of a clock that was set back, and the date is by the clock.
            at = now_ms()
            if await self._sets.withdraw(connection, set_id, at, reason):
                await self._audit.add(connection, caller, "withdraw", set_id, reason=reason)
                return
            now = await self._sets.find_in(connection, set_id)
            if now is not None and now.withdrawn_at is not None:
                raise AlreadyOver("this set was withdrawn already")
            self._refuse_closed(now, at)

        await self._database.writer.run(work)
        return await self.view(set_id, caller)

    # --- what everybody sees ----------------------------------------------------------------

    async def page(self, caller: Caller, limit: int, cursor: str | None) -> SetPage:
        """Sets, newest first."""
        rows, following = await self._sets.page(limit, cursor)
        playing = await self._gold.sets_playing(caller)
        shown = []
        for row in rows:
            with left_out_if_damaged():
                now = await self._looked_at(row.set_id) if row.closes_at <= now_ms() else row
                games = await self._sets.games_of(row.set_id)
                shown.append(_view(now, games=games, playing=row.set_id in playing))
        return SetPage(sets=shown, next=following)

    async def view(self, set_id: str, caller: Caller) -> SetView:
        """A set; after its date with the leaderboard, as soon as all answers are scored, unless the caller
        plays in an open fork of one of its games, even a deleted one: all scores together, less those item by
        item, are the scores of that game. Raises NotFound.
        """
        row = await self._looked_at(set_id)
        playing = set_id in await self._gold.sets_playing(caller)
        view = _view(row, games=await self._sets.games_of(set_id), playing=playing)
        if row.scored_at is None or playing:
            return view
        entries = []
        for entry in await self._sets.entries_of(set_id):
            with left_out_if_damaged():
                entries.append(_entry_view(entry))
        entries.sort(key=_rank)
        return view.model_copy(update={"leaderboard": entries})

    async def _row(self, set_id: str) -> SetRow:
        row = await self._sets.find(set_id)
        if row is None:
            raise NotFound("no such set")
        with reading(row):
            SetVariantView(**whole(row.variant))
            whole(row.invalid)
        return row

    async def _looked_at(self, set_id: str) -> SetRow:
        """The set's row. A set whose date has surely passed is opened, and its scoring begun."""
        row = await self._row(set_id)
        if row.opened_at is None and row.withdrawn_at is None and row.closes_at <= (at := settled_ms()):
            await self._sets.open_due(at)
            row = await self._row(set_id)
        if row.opened_at is not None and row.scored_at is None and set_id not in self._scoring:
            task = asyncio.create_task(self._score(row), name=f"scoring {set_id}")
            self._scoring[set_id] = task
            task.add_done_callback(lambda done: self._scored(set_id, done))
        return row

    async def _opened(self, set_id: str) -> SetRow:
        row = await self._looked_at(set_id)
        _refuse_withdrawn(row)
        if row.opened_at is None:
            raise SetSealed(
                f"this set is sealed until {timestamp(row.closes_at)}; it shows scores and gold then"
            )
        return row

    async def items(
        self, set_id: str, caller: Caller, *, limit: int, cursor: int
    ) -> tuple[SetRow, list[Item], dict[str, int], int | None]:
        """The items from position ``cursor`` on, what was left out of the page by reason, and the position
        of the next page. The caller is recorded as having seen each game as the set's seat did.
        """
        row = await self._row(set_id)
        _refuse_withdrawn(row)
        rows = await self._sets.items_of(set_id, after=cursor - 1, limit=limit + 1)
        following = rows[limit].position if len(rows) > limit else None
        page, excluded = await self._not_playing(caller, rows[:limit])
        shown: list[Item] = []
        for game_id, of_game in groupby(page, key=lambda item: item.game_id):
            wanted = {item.item_id: item.seat for item in of_game}
            try:
                game = await self._games.by_id(game_id)
            except AvalonError:
                excluded[DAMAGED] += len(wanted)
                continue
            cut = await off_loop(_cut, game, row, wanted, False)
            shown += cut.values()
            excluded.update({"missing": len(wanted) - len(cut)} if len(cut) < len(wanted) else {})
        await self._gold.show(caller, _dimension(row), shown)
        return row, shown, dict(excluded), following

    async def _not_playing(
        self, caller: Caller, rows: Sequence[SetItemRow]
    ) -> tuple[list[SetItemRow], Counter[str]]:
        """These items without those of games whose deal the caller plays, and how many were left out, by
        reason.
        """
        playing = await self._gold.playing(caller, {item.game_id for item in rows})
        shown = [item for item in rows if item.game_id not in playing]
        return shown, Counter(PLAYING for item in rows if item.game_id in playing)

    async def all_items(self, set_id: str, caller: Caller) -> AsyncIterator[Item]:
        """Every item of the set, some at a time."""
        following: int | None = 0
        while following is not None:
            _, shown, _, following = await self.items(set_id, caller, limit=50, cursor=following)
            for item in shown:
                yield item

    # --- answers ----------------------------------------------------------------------------

    async def hand_in(
        self, set_id: str, new: NewAnswers, caller: Caller, key: RequestKey | None = None
    ) -> Receipt:
        """Stores a rater's answers, in the place of those that it handed in before. Reads no gold.

        Raises NotFound; SetClosed from the set's date on; InvalidRequest for an answer to something else than
        an item of the set; AlreadySeen for an item that the caller's owner knows too much about;
        TooManyRaters for another rater than the owner's three.
        """
        row = await self._row(set_id)
        self._refuse_closed(row, now_ms())
        check_answers(_dimension(row), new.answers)
        by_id = {item.item_id: item for item in await self._sets.items_of(set_id)}
        for place, answer in enumerate(new.answers):
            if answer.item_id not in by_id:
                raise InvalidRequest(
                    f"the set has no such item; GET /evaluations/sets/{set_id}/items lists them",
                    f"/answers/{place}/item_id",
                    "unknown_item",
                )
        await self._refuse_seen(row, new.answers, by_id, caller)
        entry = SetEntryRow(
            set_id=set_id,
            owner=caller.owner,
            rater=new.rater.name,
            entry_id=new_id("r"),
            kind=new.rater.kind,
            at=self._database.writer.stamp(),
            answers=len(new.answers),
            items=len({answer.item_id for answer in new.answers}),
        )
        answers = [
            SetAnswersRow(entry_id=entry.entry_id, game_id=game_id, given=given)
            for game_id, given in _by_game(new.answers).items()
        ]

        async def work(connection: AsyncConnection) -> Receipt:
            await self._sets.lock(connection, f"{set_id}/{caller.owner}")
            # Nobody opens the set before this transaction ends.
            now = await self._sets.find_in(connection, set_id)
            self._refuse_closed(now, now_ms())
            raters = await self._sets.raters_of(connection, set_id, caller.owner)
            if entry.rater not in raters and len(raters) >= RATERS:
                raise TooManyRaters(
                    f"an owner answers a set as {RATERS} raters at most. Answer again as one of yours "
                    f"({', '.join(sorted(raters))}), in the place of its earlier answers",
                    "/rater/name",
                )
            await self._sets.hand_in(connection, entry, answers)
            await self._quotas.take(connection, caller.owner, "submissions_a_day")
            await self._audit.add(connection, caller, "evaluate", set_id, answers=entry.answers)
            receipt = _receipt(entry)
            if key is not None:
                await key.keep(connection, 201, receipt)
            return receipt

        return await self._database.writer.run(work)

    def _refuse_closed(self, row: SetRow | None, at: int) -> None:
        if row is None:
            raise NotFound("no such set")
        _refuse_withdrawn(row)
        if row.opened_at is not None or row.closes_at <= at:
            raise SetClosed(
                f"this set closed at {timestamp(row.closes_at)}: score answers to its items for practice, "
                "with POST /evaluations"
            )

    async def _refuse_seen(
        self, row: SetRow, answers: Sequence[AnswerSpec], by_id: Mapping[str, SetItemRow], caller: Caller
    ) -> None:
        answered = [by_id[answer.item_id] for answer in answers]
        seen = await self._gold.seen(caller, list({item.item_id: item for item in answered}.values()))
        for place, item in enumerate(answered):
            if (why := seen.why_refused(item, _dimension(row))) is not None:
                raise AlreadySeen(
                    f"{why}; an item that is left out counts as silence", f"/answers/{place}/item_id"
                )

    async def receipts(self, set_id: str, caller: Caller, *, with_answers: bool = False) -> OwnReceipts:
        """The receipts of the caller's owner: of each of its raters, the last answers. Raises NotFound."""
        await self._row(set_id)
        receipts = []
        for entry in await self._sets.entries_of(set_id, caller.owner):
            given = None
            if with_answers:
                with left_out_if_damaged():
                    rows = await self._sets.answers_of(entry.entry_id)
                    answers = [answer for row in rows for answer in _answers(row)]
                    given = [GivenAnswer(**answer.model_dump(mode="json")) for answer in answers]
            receipts.append(OwnReceipt(**_receipt(entry).model_dump(), given=given))
        return OwnReceipts(receipts=receipts)

    # --- after the date ---------------------------------------------------------------------

    async def gold(self, set_id: str, caller: Caller, *, limit: int, cursor: int) -> GoldPage:
        """The set's items with their gold, from position ``cursor`` on, and what was left out of the page by
        reason. Raises NotFound, SetSealed.
        """
        row = await self._opened(set_id)
        rows = await self._sets.items_of(set_id, after=cursor - 1, limit=limit + 1)
        following = rows[limit].position if len(rows) > limit else None
        page, excluded = await self._not_playing(caller, rows[:limit])
        marked = await self._marked(row, page, {})
        return GoldPage(
            items=[GoldView(**item.model_dump(include=set(GoldView.model_fields))) for item in marked],
            excluded=dict(excluded),
            next=None if following is None else str(following),
        )

    async def entry(self, set_id: str, entry_id: str, caller: Caller) -> EntryView:
        """One rater's answers, item by item, beside the gold; without scores and some items if the caller
        plays in an open fork of one of the games, deleted ones included. Raises NotFound, SetSealed,
        DamagedEntry.
        """
        row = await self._opened(set_id)
        try:
            entry = await self._sets.entry(set_id, entry_id)
            if entry is None:
                raise NotFound("no such entry of this set")
            guesses = await off_loop(guesses_of, _answer_rows(await self._sets.answers_of(entry_id)))
            view = _entry_view(entry)
        except CorruptLog as fault:
            raise DamagedEntry(
                f"what is stored of the entry {entry_id} is damaged, so its answers cannot be shown; the set "
                "and its other entries are not affected. Its owner may score the answers again for practice, "
                "with POST /evaluations; whoever runs this service may have them in a backup"
            ) from fault
        rows, excluded = await self._not_playing(caller, await self._sets.items_of(set_id))
        of_items = {"per_item": await self._marked(row, rows, guesses), "excluded": dict(excluded)}
        playing = excluded or set_id in await self._gold.sets_playing(caller)
        scores = dict.fromkeys(("totals", "roles", "open_book")) if playing else {}
        return view.model_copy(update={**of_items, **scores})

    async def _marked(
        self, row: SetRow, rows: Sequence[SetItemRow], guesses: Mapping[str, Guess]
    ) -> list[ScoredItem]:
        variant = _scored_as(whole(row.variant))
        marked: list[ScoredItem] = []
        async for keys in self._keys_of(row, rows):
            marked += await off_loop(_mark, keys, guesses, variant)
        return marked

    async def _keys_of(self, row: SetRow, rows: Sequence[SetItemRow]) -> AsyncIterator[list["_Right"]]:
        """Each item with its gold, or why it does not count, game by game: for all entries of a set alike.
        Items of games that were deleted are gone.
        """
        invalid = whole(row.invalid)
        for game_id, of_game in groupby(rows, key=lambda item: item.game_id):
            wanted = {item.item_id: item.seat for item in of_game}
            try:
                game = await self._games.by_id(game_id)
                if invalid is None:
                    stored = await self._rows.game(game_id)
                    counts = stored is None or stored.invalid is None
                else:
                    counts = game_id not in invalid
            except AvalonError as fault:
                log.error("a game of a set is left out", game=game_id, cause=str(fault))
                yield [_Right(item_id, None, None, DAMAGED) for item_id in wanted]
                continue
            if not counts:
                yield [_Right(item_id, game, None, INVALID) for item_id in wanted]
                continue
            cut = await off_loop(_cut, game, row, wanted, True)
            yield [_Right(item_id, game, cut.get(item_id), None) for item_id in wanted]

    async def _score(self, row: SetRow) -> None:
        """Scores every entry that has no scores yet, and writes that the set is scored."""
        whose.set(row.owner)
        rows = await self._sets.items_of(row.set_id)
        variant = whole(row.variant)
        excluded: Counter[str] = Counter()
        async for keys in self._keys_of(row, rows):
            excluded.update(await off_loop(_left_out, keys, _scored_as(variant)))
        entries = [one for one in await self._sets.entries_of(row.set_id) if one.result is None]
        for first in range(0, len(entries), _AT_ONCE):
            counts: list[tuple[SetEntryRow, ScoreCount, Mapping[str, Guess]]] = []
            for entry in entries[first : first + _AT_ONCE]:
                # An entry that cannot be read is not scored: silence would be a finding about the rater.
                with left_out_if_damaged():
                    given = _answer_rows(await self._sets.answers_of(entry.entry_id))
                    guesses = await off_loop(guesses_of, given)
                    counts.append((entry, ScoreCount(variant["unmapped"]), guesses))
            async for keys in self._keys_of(row, rows):
                await off_loop(_count, keys, counts)
            for entry, count, _ in counts:
                scores = await off_loop(count.as_json)
                del scores["excluded"]
                await self._sets.keep_score(entry, scores)
        await self._sets.finish(row.set_id, self._database.writer.stamp(), dict(sorted(excluded.items())))
        log.info("a set is open", set=row.set_id, entries=len(entries))

    def _scored(self, set_id: str, task: asyncio.Task[None]) -> None:
        del self._scoring[set_id]
        if not task.cancelled() and task.exception() is not None:
            # Whoever looks next begins again.
            log.error("a set could not be scored", set=set_id, exc_info=task.exception())


class _Right(NamedTuple):
    """The right answer to an item."""

    item_id: str
    game: Game | None
    """None: it cannot be read."""
    item: Item | None
    """With gold; None: the item does not count."""
    why: str | None
    """Why it does not count, if that is not a matter of its turn."""


def _is_free(taken: Mapping[str, Sequence[tuple[int, int | None]]], origin: str, closes_at: int) -> bool:
    """Whether games of this origin are in no set of another date, and in none that is open."""
    return all(date == (closes_at, None) for date in taken.get(origin, ()))


def _refuse_withdrawn(row: SetRow) -> None:
    """Raises SetClosed for a set that was withdrawn."""
    if row.withdrawn_at is not None:
        raise SetClosed(
            f"this set was withdrawn by its owner at {timestamp(row.withdrawn_at)}: {row.withdrawn}"
        )


def _dimension(row: SetRow) -> Dimension:
    return row.dimension  # type: ignore[return-value]  # the column is checked as it is read


def _moment(text: str) -> int:
    """The time in ms. Raises InvalidRequest."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidRequest("a date is written as 2030-01-31T12:00:00Z", "/closes_at", "closes_at") from None


def _variant(row_variant: Mapping[str, Any], seat: Seat) -> Variant:
    return Variant(reader=seat, options=row_variant["options"], history=row_variant["history"])


def _scored_as(variant: Mapping[str, Any]) -> Variant:
    return Variant.scored({**variant, "context": "seat"})


def _own(game: Game, dimension: Dimension, seat: Seat) -> Game:
    """The turns that the set asks about: the seat's own for summaries, else all (a reader reads others')."""
    return game.of({seat}) if dimension == "summarisation" else game


def _seen_by(
    game: Game, dimension: Dimension, seat: Seat, variant: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """The items that this seat's view shows, as (request, item), without gold."""
    cut = items(_own(game, dimension, seat), dimension, _variant(variant, seat))
    return [(item.request_id, item.id) for item in cut]


def _cut(game: Game, row: SetRow, wanted: Mapping[str, Seat], with_gold: bool) -> dict[str, Item]:
    """Those of the wanted items that there are, or that count if ``with_gold``, in order."""
    seat = next(iter(wanted.values()))
    dimension = _dimension(row)
    cut = items(
        _own(game, dimension, seat), dimension, _variant(whole(row.variant), seat), with_gold=with_gold
    )
    return {item.id: item for item in cut if item.id in wanted}


def _left_out(keys: Sequence[_Right], variant: Variant) -> Counter[str]:
    """The items that do not count, by reason."""
    return Counter(
        why for key in keys if (why := key.why or (None if key.item else _why(key, variant))) is not None
    )


def _why(key: _Right, variant: Variant) -> str:
    return DAMAGED if key.game is None else why_excluded(key.game, key.item_id, variant)


def _mark(keys: Sequence[_Right], guesses: Mapping[str, Guess], variant: Variant) -> list[ScoredItem]:
    """Each answer beside the gold; an item without an answer has an empty one."""
    marked = []
    for key in keys:
        guess = guesses.get(key.item_id) or Guess(key.item_id, frozenset())
        if key.game is None:
            marked.append(
                ScoredItem(
                    item_id=key.item_id,
                    counted=False,
                    excluded=key.why,
                    gold=[],
                    predicted=sorted(guess.intentions),
                    matched=[],
                    unmapped=list(guess.unmapped),
                    role=None if guess.role is None else guess.role.value,
                    true_role=None,
                    confidence=guess.confidence,
                )
            )
            continue
        item = scored_item(key.game, key.item_id, guess, key.item, variant)
        marked.append(item if key.why is None else item.model_copy(update={"excluded": key.why}))
    return marked


def _count(
    keys: Sequence[_Right], counts: Sequence[tuple[SetEntryRow, ScoreCount, Mapping[str, Guess]]]
) -> None:
    """Counts each entry's answers to these items; what an entry left out counts as silence."""
    for key in keys:
        if key.item is not None and key.game is not None:
            for _, count, guesses in counts:
                count.add(key.game, key.item, guesses.get(key.item_id))


def _by_game(answers: Sequence[AnswerSpec]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for answer in answers:
        found.setdefault(answer.item_id.partition("/")[0], []).append(answer.model_dump(mode="json"))
    return found


def _answer_rows(rows: Iterable[SetAnswersRow]) -> list[AnswerRow]:
    """Raises CorruptLog for answers that cannot be read."""
    found = []
    for row in rows:
        with reading(row):
            found += [
                AnswerRow(
                    item_id=answer.item_id,
                    sample=answer.sample,
                    game_id=row.game_id,
                    dimension=answer.item_id.split("/")[1],
                    named=answer.intentions,
                    role=answer.role,
                    confidence=answer.confidence,
                )
                for answer in _answers(row)
            ]
    return found


def _answers(row: SetAnswersRow) -> list[AnswerSpec]:
    """The answers as they were handed in. Raises CorruptLog."""
    with reading(row):
        return [AnswerSpec.model_validate(one) for one in whole(row.given)]


def _view(row: SetRow, *, games: int, playing: bool = False) -> SetView:
    """``playing``: whether it is for somebody who plays in an open fork of a game. Raises CorruptLog."""
    with reading(row):
        return SetView(
            set_id=row.set_id,
            name=row.name,
            owner=row.owner,
            status=_status(row),
            dimension=_dimension(row),  # type: ignore[arg-type]
            variant=SetVariantView(**whole(row.variant)),
            guessable_seeds=row.guessable_seeds,
            created_at=timestamp(row.created_at),
            closes_at=timestamp(row.closes_at),
            items=row.items,
            games=games,
            excluded=None if row.excluded is None or playing else dict(whole(row.excluded)),
            withdrawn_at=None if row.withdrawn_at is None else timestamp(row.withdrawn_at),
            reason=row.withdrawn,
        )


def _status(row: SetRow) -> Literal["sealed", "scoring", "open", "withdrawn"]:
    if row.withdrawn_at is not None:
        return "withdrawn"
    if row.opened_at is None:
        return "sealed"
    return "scoring" if row.scored_at is None else "open"


def _receipt(entry: SetEntryRow) -> Receipt:
    return Receipt(
        entry_id=entry.entry_id,
        set_id=entry.set_id,
        rater=RaterView(name=entry.rater, kind=entry.kind),
        at=timestamp(entry.at),
        answers=entry.answers,
        items=entry.items,
    )


def _entry_view(entry: SetEntryRow) -> EntryView:
    """Raises CorruptLog."""
    with reading(entry):
        result: Mapping[str, Any] = {} if entry.result is None else whole(entry.result)
        return EntryView(
            **_receipt(entry).model_dump(),
            owner=entry.owner,
            totals=result.get("totals"),
            roles=result.get("roles"),
            open_book=result.get("open_book"),
        )


def _rank(entry: EntryView) -> tuple[bool, float, str, str]:
    """The best F1 first; last, entries without one."""
    totals: Any = entry.totals
    value = None if totals is None else totals["micro"]["f1"]["value"]
    return value is None, -(value or 0.0), entry.owner, entry.rater.name
