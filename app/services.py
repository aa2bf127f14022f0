"""Everything one service holds, made once at its start."""

import structlog

from app import metrics
from app.auth import Keys
from app.evaluations.service import Evaluations
from app.games.service import Games
from app.models.endpoints import Endpoints
from app.models.house import ModelHouse
from app.play.feed import Feed
from app.play.limits import Doorstep
from app.play.pages import Pages
from app.play.places import Places
from app.play.pulse import Bell, Pulse
from app.play.relay import Relays
from app.play.seats import Seats
from app.play.shared import Shared
from app.runner.claims import claims_of
from app.runner.inboxes import Inboxes
from app.runner.local import LocalRunner
from app.runner.pickup import Pickup
from app.settings import Settings
from app.store.db import Database
from app.store.games import GameStore, Row
from app.store.inbox import InboxStore
from app.store.keys import KeyStore
from app.store.log import LogReader
from app.store.model_calls import CallStore

__all__ = ["Services"]

log = structlog.get_logger()


class Services:
    """The parts and their order of starting and stopping."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings)
        self.store = GameStore(self.database)
        self.keys = Keys(settings, KeyStore(self.database), self.store)
        self.reader = LogReader(self.database)
        self.feed = Feed()
        self.inbox = InboxStore(self.database)
        # Another process may write too on PostgreSQL, and where this one does not drive the games.
        shared = not self.database.is_sqlite or not settings.runner
        self.pulse = Pulse(self.feed, self.store, self.inbox, everything=shared)
        self.bell = None if self.database.is_sqlite else Bell(self.database.url, self.feed)
        self.rows: Shared[str, Row | None] = Shared(self.store.game, "row")
        self.places = Places(self.reader)
        self.pages = Pages(self.reader, self.feed.tails, self.places)
        self.relays = Relays(self.pages, self.feed)
        self.models = ModelHouse(
            Endpoints(settings.endpoints()), CallStore(self.database), keep_messages=settings.store_prompts
        )
        inboxes = Inboxes(self.inbox, self.store, self.reader, self.feed)
        self.runner = LocalRunner(
            self.database,
            self.store,
            self.reader,
            self.feed,
            self.models,
            inboxes,
            settings.parallel_games,
        )
        claims = claims_of(settings.database_url)
        self.pickup = Pickup(claims, self.store, lambda: self.runner.has_room)
        self.evaluations = Evaluations(self.database, self.store, self.reader, self.models, claims)
        self.games = Games(
            self.database,
            self.store,
            self.reader,
            self.feed,
            self.models,
            inboxes,
            self.runner,
            self.pickup,
        )
        self.seats = Seats(self.store, self.reader, self.inbox, self.feed)
        self.doorstep = Doorstep()
        self.draining = False
        self.ready = False

    async def start(self) -> None:
        """Migrates, takes up what an earlier process left, and is ready."""
        await self.database.start()
        self.keys.on_change = self.feed.ring_all
        await self.keys.start()
        await self.models.endpoints.open()
        self.database.writer.on_commit = _observe_commit
        self.pulse.start()
        if self.bell is not None:
            self.bell.start()
        if self.settings.runner:
            unfinished = await self.pickup.start(self.games.see_through)
            await self.evaluations.judges.start()
            if unfinished:
                log.info("taking up unfinished batches", batches=unfinished)
        self.ready = True

    async def stop(self) -> None:
        """Stops between two steps; the next start goes on from there."""
        self.drain()
        await self.pickup.stop()
        await self.games.stop()
        await self.evaluations.judges.stop()
        await self.evaluations.reports.stop()
        await self.runner.stop()
        await self.models.stop(self.settings.drain_s)
        await self.pickup.release()
        await self.relays.stop()
        if self.bell is not None:
            await self.bell.stop()
        await self.pulse.stop()
        await self.keys.stop()
        await self.database.stop()

    def drain(self) -> None:
        """No new work; those who follow a stream are let go."""
        self.draining = True
        self.ready = False
        self.feed.ring_all()


def _observe_commit(seconds: float, appends: int) -> None:
    metrics.append_seconds.observe(seconds)
    metrics.append_group.observe(appends)
