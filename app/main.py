"""The composition root: the only module that knows every room. It builds the services and the application."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Final

import structlog
from fastapi import Depends, FastAPI
from starlette.datastructures import State

from app.base import metrics, problems
from app.base.clock import random_name
from app.base.lifecycle import Lifecycle
from app.base.pace import Pace
from app.base.tasks import end_tasks, keep_going
from app.edge.application import DATABASE_ERRORS, Service, on_database_error, operation_id
from app.edge.auth import Keys
from app.edge.callers import CallerCheck
from app.edge.deps import known_query
from app.edge.idempotency import Repeats
from app.edge.me import router as me_router
from app.edge.quotas import QuotaCheck, Quotas
from app.evaluations.rater_page import router as rater_page_router
from app.evaluations.ratings import StoredRatings
from app.evaluations.ratings import router as ratings_router
from app.evaluations.routes import router as evaluations_router
from app.evaluations.service import Evaluations
from app.evaluations.set_routes import router as set_router
from app.games.access import Access
from app.games.bot_routes import router as bots_router
from app.games.bots import Bots
from app.games.following import Following
from app.games.listing import Lists
from app.games.listing import router as lists_router
from app.games.routes import router as games_router
from app.games.seat_tokens import SeatTokens
from app.games.service import Games
from app.games.tokens import router as tokens_router
from app.games.trials import router as trials_router
from app.models.endpoints import Endpoints
from app.models.leases import Leases
from app.models.registry import ModelRegistry
from app.models.trial import Trials
from app.pages.reference import router as reference_router
from app.pages.routes import router as pages_router
from app.pages.ui import router as ui_router
from app.play.meeting.routes import router as meeting_router
from app.play.meeting.service import Meeting
from app.play.meeting.socket import Lobby
from app.play.meeting.socket import router as lobby_router
from app.play.routes import router as seats_router
from app.play.socket import Sockets
from app.play.socket import router as socket_router
from app.runner.claims import Claims, FileClaims
from app.runner.local import LocalRunner
from app.runner.pickup import Pickup
from app.runner.queued import Queued
from app.seats.inboxes import Inboxes
from app.seats.limits import Unidentified
from app.seats.seats import Seats
from app.seats.wire import Handshakes
from app.settings import Settings
from app.store.audit import Audit
from app.store.bots import BotStore
from app.store.db import PASSING, Database
from app.store.games import GameStore
from app.store.gauges import DatabaseGauges
from app.store.inbox import InboxStore
from app.store.keys import KeyStore
from app.store.leases import LeaseStore
from app.store.listing import Listing
from app.store.log import LogReader
from app.store.model_calls import CallStore
from app.store.outages import OutageStore
from app.store.quotas import QuotaStore
from app.store.ratings import RatingStore
from app.store.rows import GameRow
from app.store.schema import UnknownSchema
from app.store.seeks import SeekStore
from app.store.sets import SetStore
from app.stream.feed import Feed
from app.stream.links import Links
from app.stream.live import Live
from app.stream.pages import Pages
from app.stream.positions import Positions
from app.stream.pulse import Bell, News, Pulse
from app.stream.relay import Relays
from app.stream.shared import Shared
from app.stream.turns import Turns

__all__ = ["Composition", "create_app"]

log = structlog.get_logger()

CLOCK_S: Final = 60.0
"""Seconds between two comparisons of this machine's clock with the database's."""

DESCRIPTION = """\
Plays Avalon with intentions, stores every game as a log of events, and shows each viewer what it may
see. `POST /games` with `{}` plays a whole game. Errors are problems (RFC 9457). A request may give each
query parameter of its route once, and no others; commas separate several values of one parameter.

Seats can be played over HTTP or over the socket at `/ws`, whose messages `/asyncapi.json` describes;
`/docs/bots.md` explains how to write a bot.
"""


ROUTERS: Final = (
    (games_router, "games"),
    (lists_router, "games"),
    (tokens_router, "tokens"),
    (bots_router, "bots"),
    (set_router, "evaluations"),
    (meeting_router, "meeting"),
    (evaluations_router, "evaluations"),
    (rater_page_router, "evaluations"),
    (ratings_router, "bots"),
    (seats_router, "seats"),
    (trials_router, "models"),
    (me_router, "reference"),
    (reference_router, "reference"),
    (pages_router, "pages"),
    (ui_router, "pages"),
    (lobby_router, "meeting"),
    (socket_router, "seats"),
)
"""Each room's routes, in the order in which paths are compared, and their heading in the document."""

AGAIN_S: Final = 1.0
"""Seconds between two tries to start on a database that cannot be used."""

LISTEN_WITHIN_S: Final = 30.0
"""Seconds after which the service listens although it is still starting."""


def create_app(settings: Settings | None = None, on_hung: Callable[[], None] = lambda: None) -> FastAPI:
    """Builds one service. ``settings``: None for those of the environment. ``on_hung``: see Composition."""
    settings = settings or Settings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        composition = Composition(settings, on_hung)
        composition.offer(app.state)
        app.state.composition = composition
        try:
            await composition.start()
            yield
        finally:
            await composition.stop()

    app = Service(
        title="InterIntent Server",
        version=version("interintent-server"),
        description=DESCRIPTION,
        lifespan=lifespan,
        # The routes below serve the document and check the query, as every route does.
        openapi_url=None,
        dependencies=[Depends(known_query)],
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        responses=problems.documented(),
    )
    app.access_log = settings.access_log
    problems.install(app)
    for kind in DATABASE_ERRORS:
        app.add_exception_handler(kind, on_database_error)
    for router, tag in ROUTERS:
        app.include_router(router, tags=[tag])
    app.add_middleware(CallerCheck, keyless=lambda: not app.state.keys.configured, origins=settings.origins)
    app.add_middleware(QuotaCheck, state=app.state)
    return app


class Composition:
    """The parts of one service, and their order of starting and stopping."""

    def __init__(self, settings: Settings, on_hung: Callable[[], None] = lambda: None) -> None:
        """``on_hung``: called in a thread while the loop hangs."""
        self.settings = settings
        self.lifecycle = Lifecycle()
        self.database = Database(settings)
        self.store = GameStore(self.database)
        self.keys = Keys(settings, KeyStore(self.database), self.store)
        pace = Pace()
        self.quotas = Quotas(settings, QuotaStore(self.database))
        self.reader = LogReader(self.database)
        self.feed = Feed()
        self.inbox = InboxStore(self.database)
        links = Links(self.feed.tails, enabled=settings.links)
        news = News(self.feed, self.reader, links)
        self.pulse = Pulse(self.feed, self.store, self.inbox, news, self.database.writer.version)
        self.live = Live()
        self.bell = (
            None
            if self.database.is_sqlite
            else Bell(self.database.engine_beside, self.feed, news, self.live, links)
        )
        if self.bell is not None:
            self.pulse.hears = self.bell.hears
        self.rows: Shared[str, GameRow | None] = Shared(self.store.game, "row")
        self.positions = Positions(self.reader)
        self.pages = Pages(self.reader, self.feed.tails, self.positions)
        self.turns = Turns(self.reader, self.feed.tails)
        self.relays = Relays(self.pages, self.feed, self.turns)
        self.models = ModelRegistry(
            Endpoints(
                settings.endpoints,
                OutageStore(self.database),
                Leases(None if self.database.is_sqlite else LeaseStore(self.database, random_name())),
            ),
            CallStore(self.database),
            keep_messages=settings.store_prompts,
            prompts=settings.templates(),
            onlookers=self.live,
            over_quota=self.quotas.over_quota,
            surely_ours=None if self.store.jobs is None else self._surely_ours,
        )
        inboxes = Inboxes(
            self.inbox,
            self.store,
            self.reader,
            self.feed,
            links,
            None if self.store.jobs is None else settings.patience_s,
        )
        self.runner = LocalRunner(
            self.database,
            self.store,
            self.reader,
            self.feed,
            self.models,
            inboxes,
            settings.parallel_games,
            pace,
        )
        self.pickup: Pickup | Queued
        self.claims: Claims
        if self.store.jobs is None:
            self.claims = FileClaims.of(settings.database_url)
            self.pickup = Pickup(
                self.claims,
                self.store,
                lambda: self.runner.has_room,
                lambda batch_id: self.games.all_wait(batch_id, settings.patience_s),
            )
        else:
            self.pickup = Queued(
                self.database,
                self.store.jobs,
                self.store,
                self.runner,
                self.models,
                places=settings.parallel_games,
                stale_s=settings.stale_s,
                drain_s=settings.drain_s,
                on_hung=on_hung,
            )
            self.claims = self.pickup.claims
        self.runner.on_suspended = self.pickup.let_go
        self.evaluations = Evaluations(
            self.database, self.store, self.reader, self.models, self.claims, self.quotas, self.keys
        )
        self.games = Games(
            self.database,
            self.store,
            self.reader,
            self.feed,
            self.models,
            inboxes,
            self.runner,
            self.pickup,
            self.quotas,
            pace,
            self.keys,
        )
        self.seat_tokens = SeatTokens(self.keys, self.store, self.feed, self.database, self.quotas)
        bots = BotStore(self.database)
        self.bots = Bots(bots, self.store, self.games, self.seat_tokens)
        self.meeting = Meeting(
            self.database,
            SeekStore(self.database),
            self.store,
            bots,
            self.games,
            self.bots,
            self.seat_tokens,
            self.feed,
            self.quotas,
            self.keys,
            self.lifecycle,
        )
        self.seats = Seats(inboxes)
        self.access = Access(self.store, SetStore(self.database), KeyStore(self.database))
        self.limits: asyncio.Task[None] | None = None
        self.watching: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[object] | None = None
        self.clock: asyncio.Task[None] | None = None
        self._to_begin: list[Callable[[], Awaitable[object]]] = [
            self.database.answers,
            self.database.start,
            self.database.agree_on_time,
            self._read_keys,
            self.quotas.start,
            self.models.endpoints.open,
            self._begin_tasks,
            *([self._take_up, self.evaluations.judges.start] if settings.runner else []),
        ]
        """What is left to begin, in this order. Each waits for a database that cannot be used."""
        self.lifecycle.on_drain = self.feed.ring_all

    def offer(self, state: State) -> None:
        """Stores the services in the application's state, where the dependencies of routes find them."""
        state.settings = self.settings
        state.lifecycle = self.lifecycle
        state.database = self.database
        state.gauges = DatabaseGauges(self.database, lambda: self.runner.begun)
        state.repeats = Repeats(self.database)
        state.keys = self.keys
        state.quotas = self.quotas
        state.access = self.access
        state.audit = Audit(self.database)
        state.games = self.games
        state.lists = Lists(Listing(self.database), self.store)
        state.models = self.models
        state.trials = Trials(self.models.endpoints)
        state.following = Following(
            self.store,
            self.access,
            self.reader,
            self.positions,
            self.feed,
            self.keys,
            self.lifecycle,
            self.settings.follow_blank_s,
        )
        state.seat_tokens = self.seat_tokens
        state.bots = self.bots
        state.meeting = self.meeting
        state.ratings = StoredRatings(RatingStore(self.database))
        state.evaluations = self.evaluations
        state.feed = self.feed
        state.seats = self.seats
        handshakes = Handshakes(
            self.lifecycle,
            self.keys,
            self.settings.origins,
            self.settings.identify_within_s,
            Unidentified(),
        )
        state.sockets = Sockets(
            bots=self.bots,
            settings=self.settings,
            lifecycle=self.lifecycle,
            keys=self.keys,
            access=self.access,
            rows=self.rows,
            seats=self.seats,
            feed=self.feed,
            positions=self.positions,
            pages=self.pages,
            relays=self.relays,
            turns=self.turns,
            live=self.live,
            handshakes=handshakes,
        )
        state.lobby = Lobby(self.meeting, self.seats, self.feed, handshakes)

    async def start(self) -> None:
        """Migrates the database, takes over earlier processes' unfinished work (as a runner), and opens. If
        the database cannot be used, or a migration takes long, it returns, and goes on meanwhile.
        """
        self.watching = keep_going(metrics.watch_loop, "loop lag")
        self._starting = first = asyncio.create_task(self._begins(), name="start")
        await asyncio.wait({first}, timeout=LISTEN_WITHIN_S)
        if not first.done():
            self.lifecycle.reason = "it is still starting: it migrates its database, reads it or waits for it"
        if not first.done() or not first.result():
            self._starting = asyncio.create_task(self._begin_later(first), name="start")

    async def _begin_later(self, first: asyncio.Task[bool]) -> None:
        try:
            has_begun = await first
            while not has_begun:
                await asyncio.sleep(AGAIN_S)
                has_begun = await self._begins()
        except Exception as fault:
            log.exception("the service cannot start")
            self.lifecycle.fault = fault
            signal.raise_signal(signal.SIGTERM)

    async def _begins(self) -> bool:
        """Whether the service has begun its work; if not, it says why it is not ready. The next call goes on
        with what failed.
        """
        while self._to_begin:
            try:
                await self._to_begin[0]()
            except (*PASSING, UnknownSchema) as fault:
                trouble = self.database.health.failed("schema", fault)
                if trouble is None:
                    raise
                self.lifecycle.reason = trouble.words
                return False
            self.database.health.worked("schema")
            del self._to_begin[0]
        self.lifecycle.open()
        if self.lifecycle.ready:
            log.info("ready for requests")
        return True

    async def _read_keys(self) -> None:
        self.keys.on_change = self.feed.ring_all
        await self.keys.start()

    async def _begin_tasks(self) -> None:
        self.clock = keep_going(self._follow_clock, "clock")
        self.pulse.start()
        if self.bell is not None:
            await self.bell.start()
        self.live.start()
        self.meeting.start()
        if self.settings.runner:
            self.limits = keep_going(partial(self.models.follow_limits, self.store.specs), "limits")
            await self.claims.start()

    async def _take_up(self) -> None:
        if isinstance(self.pickup, Queued):
            unfinished = await self.pickup.start(self.games.lay_out)
        else:
            unfinished = await self.pickup.start(self.games.see_through)
        if unfinished:
            log.info("taking up unfinished batches", batches=unfinished)

    async def _surely_ours(self) -> None:
        assert isinstance(self.pickup, Queued)
        await self.pickup.surely_ours()

    async def _follow_clock(self) -> None:
        """Notices within a minute that a clock was set."""
        while True:
            await asyncio.sleep(CLOCK_S)
            try:
                await self.database.agree_on_time()
            except PASSING as fault:
                log.warning(
                    "cannot compare this machine's clock with the database's; it is tried again",
                    cause=type(fault).__name__,
                )

    async def is_idle(self) -> bool:
        """Whether no game and no judge could go on now, here or in another process."""
        if self.pickup.busy or self.evaluations.judges.busy:
            return False
        if self.store.jobs is None:
            return True
        assert isinstance(self.pickup, Queued)
        return await self.store.jobs.waiting() <= self.pickup.standing

    async def stop(self) -> None:
        """Stops between two steps; the next start continues after the last commit. If the database is silent,
        it gives nothing back, and ends soon after ``drain_s``.
        """
        if self.database.is_sqlite:
            return await self._stop()
        silent = asyncio.create_task(
            self.database.cut_if_silent(self.settings.drain_s), name="silent database"
        )
        try:
            await self._stop()
        finally:
            await end_tasks(silent)

    async def _stop(self) -> None:
        drained_at = time.monotonic() + self.settings.drain_s
        self.lifecycle.drain()
        log.info("stopping: calls to models may take up to this long", drain_s=self.settings.drain_s)
        await end_tasks(self._starting, self.limits, self.watching, self.clock)
        await self.meeting.stop()
        await self.pickup.stop()
        await self.games.stop()
        await self.evaluations.judges.stop()
        await self.evaluations.sets.stop()
        await self.evaluations.reports.stop()
        await self.runner.stop()
        await self.models.stop(max(0.0, drained_at - time.monotonic()))
        if isinstance(self.pickup, Queued):
            await self.pickup.close()
        else:
            await self.claims.stop()
        await self.relays.stop()
        if self.bell is not None:
            await self.bell.stop()
        await self.live.stop()
        await self.pulse.stop()
        await self.quotas.stop()
        await self.keys.stop()
        await self.database.stop()
        log.info("stopped: every game goes on from its last event")
