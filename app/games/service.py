"""The operations behind the routes of games and batches."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog
from pydantic import JsonValue
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from agents.kinds import asks_model
from app.base import metrics
from app.base.clock import now_ms, random_bits
from app.base.errors import (
    AlreadyOver,
    Forbidden,
    InvalidRequest,
    NotFound,
    NotSuspended,
    Stale,
)
from app.base.names import check_name, check_note
from app.base.off_loop import off_loop, whose
from app.base.pace import Pace
from app.base.schemas import MAX_NAME, OnUnusable
from app.base.sums import Sums
from app.base.tasks import end_tasks
from app.edge.auth import ANYBODY, Caller, Keys
from app.edge.idempotency import RequestKey
from app.edge.quotas import Quotas
from app.games.access import Sight, known_batch, known_game
from app.games.cancelling import Canceller
from app.games.dealing import (
    Dealer,
    dealt,
    look_alike,
    new_batch,
    new_game,
    shown_seats,
    spread,
    stored_request,
    stored_seats,
)
from app.games.defaults import batch_defaults, is_excluded
from app.games.exporting import Exporter
from app.games.forking import (
    continued,
    cut_after_phase,
    cut_after_request,
    cut_before_default,
    fork_spec,
    is_public,
    seated_last,
)
from app.games.schemas import (
    OVER,
    AfterRequest,
    BatchCreated,
    BatchDefaults,
    DeletedView,
    ForkedFrom,
    ForkGame,
    GameCreatedView,
    GameForked,
    GameImported,
    NewBudget,
    NewGames,
    PlayedAnew,
)
from app.games.status import batch_status
from app.games.stepping import Stepper
from app.models.registry import ModelRegistry, Spending
from app.runner.local import Ended, LocalRunner
from app.runner.pickup import Driver
from app.seats.inboxes import Inboxes, NoInbox
from app.seats.seating import (
    ModelSeats,
    has_models,
    has_only_scripts,
    model_seats,
    remote_seats,
    seat_agents,
    seated,
)
from app.store.audit import Audit, Doer
from app.store.call import Use
from app.store.db import Database
from app.store.deleting import Deleted, Deleting
from app.store.games import (
    OPEN,
    GameStore,
    Invalidation,
    NewGame,
    Retry,
    Suspension,
    Tallied,
    new_id,
    row_of,
    still_there,
)
from app.store.keys import KEY, KeyStore
from app.store.log import LogReader
from app.store.rows import BatchRow, Damaged, GameRow, whole
from app.stream.feed import Feed, over_name
from engine.errors import CorruptLog, InvalidRecord
from engine.events import AgentsSeated, Event
from engine.foreign.record import SCHEMA, Record, read_record
from engine.foreign.replay import replay
from engine.state import State, fold
from engine.terms import FULL, Seat
from engine.view import project
from evaluators.measures.defaults import EXCLUDE_ABOVE

__all__ = ["Games", "Laid"]

log = structlog.get_logger()

CHUNK: Final = 200
"""Games created in one transaction: few enough that nobody else waits long for the writer."""

DEALT_AT_ONCE: Final = 5
"""Games that are dealt at one turn: a few milliseconds."""

LEFT_S: Final = 0.1
LEFT_LAST_S: Final = 10.0
"""Seconds before this process retries games that somebody else wrote to: the first delay, the longest."""

SHOWN: Final = 100
"""The most games that the answer to their creation lists."""


PAUSED: Final = "paused"
"""The cause of a suspension that somebody asked for."""


@dataclass(frozen=True, slots=True)
class Laid:
    """A batch of one game, laid out to be stored."""

    batch: BatchRow
    game: NewGame


class Games:
    """Creates, imports, forks and deletes games; pauses, resumes and cancels batches."""

    def __init__(
        self,
        database: Database,
        store: GameStore,
        reader: LogReader,
        feed: Feed,
        models: ModelRegistry,
        inboxes: Inboxes,
        runner: LocalRunner,
        pickup: Driver,
        quotas: Quotas,
        pace: Pace,
        keys: Keys,
    ) -> None:
        self._database = database
        self._store = store
        self._reader = reader
        self._feed = feed
        self._models = models
        self.dealer = Dealer(models)
        self._runner = runner
        self._pickup = pickup
        self._quotas = quotas
        self._pace = pace
        self._deleting = Deleting(database)
        self._stored_keys = KeyStore(database)
        self._audit = Audit(database)
        self._defaults = Sums(self._count_defaults)
        self.canceller = Canceller(database, store, reader, feed, inboxes, runner, models)
        self.exporter = Exporter(store, reader, models)
        self.stepper = Stepper(database, store, reader, feed, models, inboxes, pace, keys, self.canceller)
        self._background: set[asyncio.Task[None]] = set()
        self._resting: dict[str, Collection[str]] = {}
        """By batch that `see_through` has nothing to do for now, its games that are driven here."""

    # --- creating ---------------------------------------------------------------------------

    async def create(
        self, new: NewGames, key: RequestKey | None = None, by: Caller = ANYBODY
    ) -> BatchCreated:
        """Creates a batch of ``by``: every game of a small one, the first games of a large one.

        Raises InvalidProfile, InvalidAgent, InvalidRequest or QuotaExceeded; then nothing is written.
        """
        owner = by.owner
        self._quotas.check_batch(owner, new.count)
        new = self.dealer.with_models(new)
        self.dealer.check(new)
        await self.check_models_quota(owner, (spec.agent for spec in new.seats))
        batch_id = new_id("b")
        seed = random_bits(128)
        models = self.dealer.model_seats(new)
        first = await self._new_games(new, seed, range(min(new.count, CHUNK)), models, owner)
        at = self._database.writer.stamp()
        created = BatchCreated(
            batch_id=batch_id,
            status="queued",
            count=new.count,
            games=[
                GameCreatedView(game_id=game.game_id, seats=shown_seats(game.seats)) for game in first[:SHOWN]
            ],
        )

        async def work(connection: AsyncConnection) -> None:
            await self._store.insert_batch(connection, new_batch(batch_id, at, new, seed, owner))
            await self._store.insert_games(connection, batch_id, first, at)
            if self._store.jobs is not None and len(first) < new.count:
                await self._store.jobs.lay_out(connection, batch_id)
            await self._quotas.take_games(connection, owner, new.count)
            await self._audit.add(connection, by, "create", batch_id, games=new.count)
            if key is not None:
                await key.keep(connection, 201 if len(first) == new.count else 202, created)

        await self._database.writer.run(work)
        self._stored(batch_id, first, at)
        log.info("a batch is created", batch=batch_id, games=new.count)
        complete = len(first) == new.count
        if new.drive == "auto" or not complete:
            await self._pickup.offer(batch_id, [game.game_id for game in first] if complete else None)
        return created

    async def _new_games(
        self, new: NewGames, seed: int, positions: Sequence[int], models: ModelSeats, owner: str
    ) -> list[NewGame]:
        """Deals games, a few at a time: others go on in between."""
        games: list[NewGame] = []
        for first in range(0, len(positions), DEALT_AT_ONCE):
            await self._pace.turn(owner)
            some = positions[first : first + DEALT_AT_ONCE]
            games += [new_game(new, seed, position, models) for position in some]
        return games

    async def check_models_quota(self, owner: str, agents: Iterable[str]) -> None:
        if any(map(asks_model, agents)):
            await self._quotas.check_models(owner)

    def lay(
        self,
        new: NewGames,
        owner: str,
        *,
        game_id: str | None = None,
        rated: bool = False,
        unrated: str | None = None,
    ) -> Laid:
        """A batch of one game that is not stored yet; ``game_id``: the game's id, if it was promised before.
        Raises as ``create``.
        """
        new = self.dealer.with_models(new)
        self.dealer.check(new)
        batch_id, seed = new_id("b"), random_bits(128)
        game = new_game(new, seed, 0, self.dealer.model_seats(new))
        game = replace(game, game_id=game_id or game.game_id, rated=rated, unrated=unrated)
        return Laid(new_batch(batch_id, self._database.writer.stamp(), new, seed, owner), game)

    async def insert(self, connection: AsyncConnection, laid: Laid) -> None:
        """Stores a game in the caller's transaction; after its commit, call ``begin``. If nobody does, the
        game begins when its batch is found.
        """
        await self._store.insert_batch(connection, laid.batch)
        await self._store.insert_games(connection, laid.batch.batch_id, [laid.game], laid.batch.created_at)

    async def begin(self, laid: Laid) -> None:
        """Begins a game that was stored by ``insert``."""
        _count("paired", [laid.game])
        log.info("a game is paired", batch=laid.batch.batch_id, game=laid.game.game_id)
        await self._pickup.offer(laid.batch.batch_id, [laid.game.game_id])

    async def see_through(self, batch_id: str, game_ids: Sequence[str] | None, again: asyncio.Event) -> None:
        """Creates and drives the games of a batch, or cancels them if it is cancelled; returns when none of
        them is open any more.

        ``game_ids``: all of its games; None to read them from the database. ``again``: set when the batch was
        cancelled, or further games of it are to be driven.
        """
        driven: dict[str, asyncio.Future[Ended]] = {}
        left = False
        owner = (await self.batch_row(batch_id)).owner

        def drive(ids: Iterable[str]) -> None:
            for game_id, over in self._runner.submit(ids, owner=owner).items():
                if driven.get(game_id) is not over:
                    driven[game_id] = over
                    over.add_done_callback(partial(ended, game_id))

        def ended(game_id: str, over: asyncio.Future[Ended]) -> None:
            nonlocal left
            if driven.get(game_id) is over:
                del driven[game_id]
            left = left or not over.result()
            if left or not driven:
                again.set()

        try:
            if game_ids is None:
                await self._lay_out(batch_id, drive)
            else:
                drive(game_ids)
            delay_s = 0.0
            while driven or left:
                self._resting[batch_id] = driven
                try:
                    await again.wait()
                finally:
                    del self._resting[batch_id]
                again.clear()
                if not driven and not left:
                    break  # what is offered from now on is found by the next look
                if left:
                    # The runner leaves a game that somebody else wrote to; it goes on from the log as it is
                    # now, while the others are driven.
                    left, delay_s = False, min(2 * delay_s + LEFT_S, LEFT_LAST_S)
                    await asyncio.sleep(delay_s)
                await self._lay_out(batch_id, drive)
            self._feed.ring(over_name(batch_id))
        finally:
            for game_id, over in list(driven.items()):
                if not over.done():
                    await self._runner.release(game_id)

    def all_wait(self, batch_id: str, patience_s: float) -> bool:
        """Whether all open games of a batch that is seen through wait, as ``LocalRunner.waits`` says."""
        driven = self._resting.get(batch_id)
        return driven is not None and all(self._runner.waits(game_id, patience_s) for game_id in driven)

    async def lay_out(self, batch_id: str) -> None:
        """Creates the rest of a batch's games, each with its job, or cancels the open ones of a cancelled
        batch. Several processes may do it at the same time.
        """
        while True:
            try:
                await self._lay_out(batch_id, lambda ids: None)
            except IntegrityError:
                continue  # somebody else has just created the same games: go on after them
            break

    async def _lay_out(self, batch_id: str, queue: Callable[[Iterable[str]], None]) -> None:
        """Creates the rest of a batch's games, chunk by chunk, and queues all of its games.

        Cancels the open games instead when the batch was cancelled.
        """
        row = await self._store.batch(batch_id)
        if row is None:
            return  # deleted meanwhile
        if row.cancelled:
            await self._cancel_games(batch_id)
            return
        if row.suspended is not None:
            return
        whose.set(row.owner)
        spec = whole(row.spec)
        # A fork's seats are in its game's row alone.
        if has_models(spec.get("seats") or ()) or spec.get("origin") == "fork":
            await self._models.endpoints.read_again()
        queue(await self._store.to_drive(batch_id))
        laid = await self._store.laid(batch_id)
        if laid >= row.count:
            return
        new = stored_request(row)
        models = self.dealer.model_seats(new)
        while laid < new.count:
            positions = range(laid, min(new.count, laid + CHUNK))
            chunk = await self._new_games(new, int(row.seed), positions, models, row.owner)
            at = self._database.writer.stamp()

            async def work(
                connection: AsyncConnection, chunk: Sequence[NewGame] = chunk, at: int = at
            ) -> bool:
                # Inside the transaction: a cancellation lists open games after its own commit, and so sees
                # this whole chunk or none of it.
                if await self._store.is_cancelled(connection, batch_id):
                    return False
                await self._store.insert_games(connection, batch_id, chunk, at)
                return True

            if not await self._database.writer.run(work):
                return
            self._stored(batch_id, chunk, at)
            if new.drive == "auto":
                queue(game.game_id for game in chunk)
            laid += len(chunk)

    def _stored(self, batch_id: str, new: Sequence[NewGame], at: int) -> None:
        _count("created", new)
        for game in new:
            if game.drive == "auto":
                row = row_of(batch_id, game, at) if has_only_scripts(game.seats) else None
                self._reader.stored_now(game.game_id, game.log, row)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work broke; whoever drives games takes it up", exc_info=task.exception())

    async def stop(self) -> None:
        await end_tasks(*self._background)

    async def import_record(
        self, data: object, key: RequestKey | None = None, by: Caller = ANYBODY
    ) -> GameImported:
        """Stores a foreign record as a finished game of ``by``.

        Raises InvalidRecord, IllegalRecord or QuotaExceeded; then nothing is written.
        """
        record, state = await off_loop(_replayed, data)
        game_id, batch_id, at = new_id("g"), new_id("b"), self._database.writer.stamp()
        table = state.table
        assert table.winner is not None
        assert table.ending is not None
        game = NewGame(
            game_id,
            0,
            "manual",
            str(random_bits(128)),
            [],
            state.log,
            imported_from={"format": SCHEMA, "id": record.id},
            status="finished",
            winner=table.winner.value,
            ending=table.ending.value,
        )
        imported = GameImported(
            game_id=game_id,
            batch_id=batch_id,
            winner=table.winner,
            ending=table.ending,
            events=len(state.log),
        )

        async def work(connection: AsyncConnection) -> None:
            batch = BatchRow(batch_id, at, 1, "0", {"origin": "import"}, owner=by.owner)
            await self._store.insert_batch(connection, batch)
            await self._store.insert_games(connection, batch_id, [game], at)
            await self._quotas.take_games(connection, by.owner, 1, opened=False)
            await self._audit.add(connection, by, "import", game_id)
            if key is not None:
                await key.keep(connection, 201, imported)

        await self._database.writer.run(work)
        _count("imported", [game])
        log.info("a game is imported", batch=batch_id, game=game.game_id)
        return imported

    async def fork(self, game_id: str, fork: ForkGame, caller: Caller, sight: Sight) -> GameForked:
        """Creates a game with the same log up to a point; the answer counts only events that ``caller`` sees.
        ``sight``: what it sees of the game.

        Raises Forbidden for an owner who may not see the whole log, NotFound for anybody else who may not,
        InvalidRequest for a point that the log does not have or for missing seats, InvalidAgent for a seat
        that cannot play.
        """
        row = await self.row(game_id)
        events = await self._reader.events(game_id)
        fold(events)  # refuses a log that does not fold
        batch = await self.batch_row(row.batch_id)
        is_own = caller.may("games:create", batch.owner)
        if sight.viewer != FULL and not is_public(row, events):
            if not is_own:
                raise NotFound("no such game for this caller")
            caller.needs("export:full")
            raise Forbidden(sight.why_not)
        if isinstance(fork.after, AfterRequest):
            taken = await off_loop(cut_after_request, events, fork.after.request)
        else:
            after = fork.after
            taken = await off_loop(cut_after_phase, events, after.round, after.attempt, after.phase)
        source = whole(batch.spec)
        if not is_own:  # what the log tells, and not how its owner has it paid
            seated_models = {seat.get("model") for seat in stored_seats(row)}
            models = source.get("models") or {}
            source = {"models": {name: models[name] for name in models if name in seated_models}}
        spec = fork_spec(game_id, source, fork, is_own=is_own)
        labels = {**(whole(batch.labels) if is_own else {}), **fork.labels}
        seat_specs = [seat.model_dump(exclude_none=True) for seat in fork.seats or []]
        for seat_spec in seat_specs:
            if asks_model(seat_spec["agent"]):
                seat_spec.setdefault("model", self.dealer.only_model(spec["models"]))
        seats = spread(seat_specs, row.players) or stored_seats(row)
        if not seats:
            raise InvalidRequest(
                "an imported game has no agents to continue with: name them in seats", "/seats", "missing"
            )
        self.dealer.check_models(seats, spec["models"], fork.budget)
        await self.check_models_quota(caller.owner, (seat["agent"] for seat in seats))
        models = self._models.check(spec["models"])
        seat_agents(seats, "check", models, NoInbox())
        state = fold(events[:taken])
        table = state.table
        agents = AgentsSeated(seated(seats, row.seed, table.profile, models))
        past = events[:taken] if table.over else continued(events[:taken], agents)
        origin: dict[str, JsonValue] = {"game_id": game_id, "events": taken}
        fork_id, batch_id, at = new_id("g"), new_id("b"), self._database.writer.stamp()
        game = NewGame(
            fork_id,
            0,
            fork.drive,
            row.seed,
            seats,
            past,
            forked_from=origin,
            status="finished" if table.over else "created",
            winner=table.winner and table.winner.value,
            ending=table.ending and table.ending.value,
        )

        async def work(connection: AsyncConnection) -> None:
            # Its source's deletion passes its descent on, and is refused while it repeats answers.
            if game_id not in await still_there(connection, {game_id, *spec["repeats"]}):
                raise NotFound("no such game for this caller")
            forked = BatchRow(
                batch_id, at, 1, "0", {**spec, "seats": list(seats)}, labels, owner=caller.owner
            )
            await self._store.insert_batch(connection, forked)
            await self._store.insert_games(connection, batch_id, [game], at)
            await self._quotas.take_games(connection, caller.owner, 1, opened=not table.over)

        await self._database.writer.run(work)
        _count("forked", [game])
        log.info("a game is forked", batch=batch_id, game=fork_id, source=game_id)
        if fork.drive == "auto" and not table.over:
            await self._pickup.offer(batch_id, [fork_id])
        return GameForked(
            game_id=fork_id,
            batch_id=batch_id,
            # Not `origin`: the length of the whole log tells how often others have thought.
            forked_from=ForkedFrom(game_id=game_id, events=len(project(events[:taken], sight.viewer))),
            seats=shown_seats(seats),
        )

    # --- reading ----------------------------------------------------------------------------

    async def row(self, game_id: str) -> GameRow:
        """The game's row. Raises NotFound."""
        return known_game(await self._store.game(game_id))

    async def batch_row(self, batch_id: str) -> BatchRow:
        """The batch's row. Raises NotFound."""
        return known_batch(await self._store.batch(batch_id))

    async def state(self, game_id: str) -> State:
        """The full state of a game. To show one viewer's part, callers must fold that part themselves."""
        return fold(await self._reader.events(game_id))

    async def uses(self, row: GameRow) -> Mapping[Seat, Use]:
        """What the models of a game took so far, by seat."""
        return await self._models.calls.uses_by_seat(row.game_id) if has_models(row.seats) else {}

    async def tally(self, batch_id: str) -> Tallied:
        return await self._store.tally(batch_id)

    async def spending(self, row: BatchRow, tallied: Tallied) -> Spending:
        """What the batch has spent; while a large one is not over, the use of models may be that of a moment
        ago.
        """
        return await self._models.spending(row, over=batch_status(row, tallied) in OVER)

    async def defaults(self, row: BatchRow, tallied: Tallied) -> BatchDefaults:
        """The decisions and defaults of the batch's games that are over; of a large batch that is not over,
        perhaps those of a moment ago.
        """
        over = batch_status(row, tallied) in OVER
        return await self._defaults.get(row.batch_id, row.count, over=over)

    async def _count_defaults(self, batch_id: str) -> BatchDefaults:
        return await off_loop(batch_defaults, await self._store.defaults(batch_id))

    # --- excluding and deleting --------------------------------------------------------------

    async def invalidate(self, game_id: str, reason: str | None, *, by: Doer) -> GameRow:
        """Excludes a game from reports and items, or, without a reason, takes it in again. Returns its row.
        Raises NotFound.
        """
        why = None if reason is None else Invalidation(now_ms(), by.name, reason)
        action = "take in again" if why is None else "invalidate"
        async with self._audit.noted(by, action, game_id, reason=reason):
            await self._store.invalidate(game_id, why)
            row = await self.row(game_id)
        log.info("a game is taken in again" if why is None else "a game is marked as invalid", game=game_id)
        return row

    async def delete(self, game_id: str, *, by: Caller) -> DeletedView:
        """Deletes a game for good. What strangers said of it is not told to its owner. Raises NotFound,
        StillNeeded.
        """
        row = await self.row(game_id)
        return await self._delete([game_id], row.batch_id, by)

    async def refuse_needed(self, batch_id: str) -> None:
        """Raises StillNeeded for a batch that cannot be deleted now."""
        await self._deleting.check(await self._deleting.games_of(batch_id))

    async def delete_batch(self, batch_id: str, *, by: Caller) -> DeletedView:
        """Deletes a batch with all its games for good, as ``delete`` does. Raises NotFound, StillNeeded."""
        await self.batch_row(batch_id)
        return await self._delete(await self._deleting.games_of(batch_id), batch_id, by)

    async def _delete(self, game_ids: Sequence[str], batch_id: str, by: Caller) -> DeletedView:
        own = None
        if not by.has_any("admin"):
            own = [f"{KEY}{key.key_id}" for key in await self._stored_keys.keys([by.owner])]
        total = Deleted()
        async for deleted in self._deleting.delete(game_ids, by.name, own):
            total.add(deleted)
        for name in (*game_ids, batch_id):
            self._feed.hint(name)
        shown = total.for_owner
        return DeletedView(games=shown.games, events=shown.events, said=shown.from_raters, bytes=shown.bytes)

    # --- a batch as a whole ------------------------------------------------------------------

    async def cancel_batch(self, batch_id: str) -> None:
        """Ends every open game of a batch, and creates no more of its games. Raises AlreadyOver."""
        await self._refuse_over(batch_id)
        await self._store.mark_cancelled(batch_id)
        log.info("a batch is cancelled", batch=batch_id)
        self._spawn(self._cancel_games(batch_id))

    async def pause(self, batch_id: str, *, by: Doer) -> None:
        """Stops the games of a batch between two steps until it is resumed. A batch that is suspended stays
        as it is. Raises AlreadyOver.
        """
        await self._refuse_over(batch_id)
        async with self._audit.noted(by, "pause", batch_id):
            paused = Suspension(now_ms(), "", PAUSED, f"paused by {by.name}")
            if await self._store.suspend(batch_id, paused):
                log.info("a batch is paused", batch=batch_id, by=by.name)
                self._pickup.let_go(batch_id)
                self._feed.hint(batch_id)

    async def resume(self, batch_id: str, on_unusable: OnUnusable | None = None, *, by: Doer) -> None:
        """Resumes a suspended batch: reads its keys and endpoints again and repeats the questions that were
        not answered. ``on_unusable``: the setting from now on; None keeps the present one. Raises
        NotSuspended, AlreadyOver, QuotaExceeded if its models may cost the owner nothing more today.
        """
        await self._may_go_on(batch_id)
        async with self._audit.noted(by, "resume", batch_id):
            if not await self._store.resume(batch_id, _changed(on_unusable)):
                raise NotSuspended(
                    "neither this batch nor any of its games is suspended; while it waits for a model, pause "
                    "it and resume it to have its keys and endpoints read anew"
                )
        await self._go_on(batch_id)

    async def retry(
        self,
        batch_id: str,
        on_unusable: OnUnusable | None = None,
        *,
        exclude_above: float = EXCLUDE_ABOVE,
        by: Doer,
    ) -> list[PlayedAnew]:
        """As ``resume``, and failed games go on, too; each excluded game that has not been played anew yet is
        played anew, as a further game of the batch with the same deal and the same agents: from where its
        models first defaulted, or if somebody marked it as invalid from the deal. Returns those. Raises
        NotSuspended, AlreadyOver, QuotaExceeded.

        ``exclude_above``: as reports have it. Nothing is played anew while games of the batch are still to be
        created, in forks and imports, and where remote seats know the deal.
        """
        row = await self._may_go_on(batch_id)
        excluded = [
            game
            for game in await self._store.to_play_anew(batch_id)
            if is_excluded(game, exclude_above) and not remote_seats(game.seats)
        ]
        free = await self._store.free_position(batch_id)
        anew = await self._anew(row, free, excluded) if excluded else []

        async def allowed(connection: AsyncConnection) -> None:
            await self._quotas.take_games(connection, row.owner, len(anew))

        retry = Retry(row.count, anew, self._database.writer.stamp(), allowed)
        async with self._audit.noted(by, "retry", batch_id, anew=len(anew)):
            if not await self._store.resume(batch_id, _changed(on_unusable), retry):
                raise NotSuspended(
                    "nothing of this batch can be played on or anew: no game is suspended, failed or excluded"
                )
        _count("created", anew)
        await self._go_on(batch_id)
        return [
            PlayedAnew(game_id=game.game_id, instead_of=old.game_id)
            for old, game in zip(excluded, anew, strict=True)
        ]

    async def _anew(self, row: BatchRow, free: int, excluded: Sequence[GameRow]) -> list[NewGame]:
        new = stored_request(row)
        models = self.dealer.model_seats(new)
        games = []
        for position, old in enumerate(excluded, free):
            try:
                events = [] if old.invalid is not None else await self._reader.events(old.game_id)
            except CorruptLog:
                events = []
            games.append(await off_loop(_anew, new, position, old, events, models))
        return games

    async def _may_go_on(self, batch_id: str) -> BatchRow:
        """The batch's row. Raises AlreadyOver, QuotaExceeded."""
        row = await self.batch_row(batch_id)
        if row.cancelled:
            raise AlreadyOver("this batch was cancelled")
        seats = () if isinstance(row.spec, Damaged) else row.spec.get("seats") or ()
        await self.check_models_quota(row.owner, (str(seat.get("agent")) for seat in seats))
        return row

    async def _go_on(self, batch_id: str) -> None:
        log.info("a batch goes on", batch=batch_id)
        self._feed.hint(batch_id)
        await self._pickup.offer(batch_id, None)

    async def limit(self, batch_id: str, limits: NewBudget, *, by: Doer) -> None:
        """Changes the named limits of a batch's budget, even while the batch runs; None lifts a limit.

        Raises AlreadyOver.
        """
        await self._refuse_over(batch_id)
        changed = limits.model_dump(mode="json", exclude_unset=True)
        said = {name: "none" if limit is None else limit for name, limit in changed.items()}
        async with self._audit.noted(by, "change limits", batch_id, **said):
            await self._store.limit(batch_id, changed)

    async def _refuse_over(self, batch_id: str) -> None:
        """Raises NotFound, and AlreadyOver for a batch that has ended."""
        status = batch_status(await self.batch_row(batch_id), await self.tally(batch_id))
        if status in OVER:
            raise AlreadyOver(f"this batch is {status} already")

    async def _cancel_games(self, batch_id: str) -> None:
        open_ = await self._store.ids(batch_id, status=OPEN)
        faults: list[CorruptLog | Stale] = []
        # At once: until its turn came, each would go on asking its models.
        await asyncio.gather(*map(self._runner.release, open_))
        for game_id in open_:
            self._models.hang_up(game_id)
        for game_id in open_:
            if game_id in self.canceller.under_way:
                continue  # the driver of the batch and whoever cancelled it share its games
            try:
                await self.canceller.cancel(game_id)
            except (AlreadyOver, NotFound):
                continue  # it ended by itself in the meantime, or was deleted
            except (CorruptLog, Stale) as fault:
                faults.append(fault)
        self._feed.hint(batch_id)
        if faults:
            raise faults[0]


# --- from a request to games -------------------------------------------------------------------


def _count(origin: str, stored: Sequence[NewGame]) -> None:
    """Counts games that were stored, and the events that were stored with them."""
    metrics.games_created.labels(origin).inc(len(stored))
    metrics.events_written.labels(origin).inc(sum(len(game.log) for game in stored))


def _replayed(data: object) -> tuple[Record, State]:
    record = read_record(data)
    _check_names(record)
    return record, replay(record)


def _check_names(record: Record) -> None:
    """Raises InvalidRecord for a name or an id that would mislead whoever reads it."""
    for at, name in enumerate(record.names):
        with _told_at(f"/players/{at}/name"):
            if not 1 <= len(name) <= MAX_NAME:
                raise ValueError(f"a name has 1 to {MAX_NAME} characters, got {len(name)}")
            check_name(name)
    if (alike := look_alike(record.names)) is not None:
        raise InvalidRecord(
            "two players cannot share a name: those of players {} and {} look alike".format(*alike),
            f"/players/{alike[1] - 1}/name",
        )
    with _told_at("/id"):
        check_note(record.id)


@contextmanager
def _told_at(pointer: str) -> Iterator[None]:
    """Makes InvalidRecord of a ValueError."""
    try:
        yield
    except ValueError as fault:
        raise InvalidRecord(str(fault), pointer) from None


def _changed(on_unusable: OnUnusable | None) -> dict[str, Any]:
    return {} if on_unusable is None else {"on_unusable": on_unusable}


def _anew(new: NewGames, position: int, old: GameRow, log: Sequence[Event], models: ModelSeats) -> NewGame:
    """The game that takes the place of an excluded one, with what is sound of that one's log. ``log``: empty
    to begin with the deal.
    """
    seats = stored_seats(old)
    game = dealt(new, position, int(old.seed), seats, models)
    taken = cut_before_default(log, model_seats(seats))
    if taken:
        agents = seated_last(game.log)
        assert agents is not None
        game = replace(game, log=continued(log[:taken], agents))
    return replace(game, forked_from={"game_id": old.game_id, "events": taken or len(game.log)})
