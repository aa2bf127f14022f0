"""Callers and their permissions.

Credentials are API keys (the operator's in the settings, others in the database), seat tokens and watch
tokens. As long as no key is configured, a caller without a credential has every scope, and the service
listens on loopback only.
"""

import asyncio
import hashlib
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from starlette.types import Scope

from agents.model.hosts import is_loopback
from app.base.clock import now_ms
from app.base.errors import Forbidden, NotFound, Unauthenticated
from app.base.off_loop import whose
from app.base.tasks import end_tasks, keep_going
from app.edge.tokens import Grant, Secrets
from app.settings import Settings
from app.store.games import GameStore
from app.store.keys import KEY, PROJECT, KeyStore
from app.store.rows import ApiKey, Damaged, GameRow, TokenSecret
from engine.errors import CorruptLog
from engine.terms import PUBLIC, Seat, Viewer
from engine.view import viewer_name

__all__ = [
    "ANY",
    "ANYBODY",
    "EVERY_SCOPE",
    "FRESH_S",
    "KEY",
    "KEYLESS",
    "OPERATOR",
    "SCOPES",
    "SERVER",
    "TRUSTED",
    "Caller",
    "Keys",
    "epoch_of",
    "hash_of",
    "new_key",
    "new_secret",
    "owner_of",
]

log = structlog.get_logger()

SCOPES: Final = frozenset(
    {
        "games:create",
        "games:read",
        "games:step",
        "games:cancel",
        "bots:play",
        "tokens:mint",
        "eval:submit",
        "eval:read",
        "annotate",
        "export:full",
        "metrics:read",
        "admin",
    }
)
"""What a credential may do with what belongs to its owner; with ``:any`` behind it, with everybody's."""

ANY: Final = ":any"

EVERY_SCOPE: Final = SCOPES | {scope + ANY for scope in SCOPES}

SERVER: Final = "server"
"""The owner of games that the server pairs itself. No credential has it."""

TRUSTED: Final = frozenset({"operator", "keyless", ""})
"""Owners whose own seats and those of others need no telling apart: they may see everything anyway."""

FRESH_S: Final = 2.0
"""Seconds for which a key may still be accepted after it was revoked, here or in another process."""

HOUR_MS: Final = 3_600_000

ENDED: Final = (
    "this token is not valid any more: there is a newer one, or its seat was absent and a stand-in plays it"
)

REMEMBERED: Final = 10_000
"""Ended seat tokens that are refused without a look at the database."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A checked credential."""

    name: str
    """A name that is stable and not secret. Idempotency keys belong to this name."""
    scopes: frozenset[str] = frozenset()
    """Whoever has a scope's ``:any`` form also has the scope."""
    owner: str = ""
    """The owner of what it makes: ``project:NAME`` or ``key:ID`` for a key, ``operator``, ``keyless``. A
    token has the owner of the key that it came from; empty: unknown, and then nothing is its own.
    """
    key_id: str | None = None
    """The id of a key in the database; None for other credentials."""
    expires_at: int | None = None
    """When that key expires, in ms since 1970; None: never, and for other credentials."""
    grant: Grant | None = None
    """What a token grants: no scopes, but one viewer of one game or batch. None for other credentials."""
    row: GameRow | None = field(default=None, compare=False, repr=False)
    """The game of a seat's token, as it was when the token was checked. None for other credentials."""

    def may(self, scope: str, owner: str) -> bool:
        """Whether the scope reaches what belongs to this owner; an empty owner is nobody's own."""
        return self.has_any(scope) or (scope in self.scopes and owner == self.owner != "")

    def has_any(self, scope: str) -> bool:
        """Whether the scope reaches everybody's."""
        return scope + ANY in self.scopes

    def needs(self, scope: str, owner: str | None = None) -> None:
        """Raises Forbidden if the credential lacks the scope; with ``owner``, NotFound if the scope does not
        reach what belongs to this owner: it must look unknown.
        """
        if scope not in self.scopes:
            raise Forbidden(f"this needs the scope {scope}")
        if owner is not None and not self.may(scope, owner):
            raise NotFound("there is no such thing for this caller")

    @property
    def sees_all(self) -> bool:
        """Whether the caller sees everybody's games in full."""
        return self.has_any("export:full")

    @property
    def seat(self) -> Seat | None:
        """The seat that this caller answers for; None for a spectator."""
        return None if self.grant is None or self.grant.viewer == PUBLIC else self.grant.viewer

    def reaches(self, game: GameRow) -> bool:
        """Whether the credential covers this game. A game that it does not cover must look unknown."""
        grant = self.grant
        return grant is None or grant.game == game.game_id or grant.batch == game.batch_id

    def reaches_batch(self, batch_id: str) -> bool:
        """Whether the credential covers this whole batch."""
        return self.grant is None or self.grant.batch == batch_id

    def is_current(self, epochs: Mapping[str, int] | Damaged | None) -> bool:
        """Whether the seat token has the seat's current epoch. True for a caller without a seat."""
        grant = self.grant
        return grant is None or grant.viewer == PUBLIC or grant.epoch == epoch_of(epochs, grant.viewer)


KEYLESS: Final = Caller("keyless", EVERY_SCOPE, "keyless")
OPERATOR: Final = Caller("operator", EVERY_SCOPE, "operator")


ANYBODY: Final = Caller("anybody")
"""Whoever exchanges a code: it needs no credential."""


def owner_of(key: ApiKey) -> str:
    """The owner of what is made with this key: its project, or the key itself."""
    return f"{KEY}{key.key_id}" if key.project is None else f"{PROJECT}{key.project}"


def epoch_of(epochs: Mapping[str, int] | Damaged | None, seat: Seat) -> int:
    """The epoch of the seat's valid tokens, from 1. Raises CorruptLog."""
    epoch = (epochs or {}).get(str(seat), 1)
    if type(epoch) is not int:
        raise CorruptLog("the token epochs of this game cannot be read")
    return epoch


def _scopes(key: ApiKey) -> frozenset[str]:
    """What the key allows; scopes that this release does not know are left out."""
    scopes = EVERY_SCOPE.intersection(key.scopes)
    return scopes | {scope.removesuffix(ANY) for scope in scopes}


def new_key() -> str:
    """A new API key: ``ik_`` and 43 characters, with 256 random bits."""
    return f"ik_{secrets.token_urlsafe(32)}"


def new_secret() -> str:
    return secrets.token_urlsafe(48)


def hash_of(credential: str) -> str:
    """The stored form of a key. SHA-256 is enough: 256 random bits cannot be guessed."""
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).hexdigest()


class Keys:
    """Checks credentials against a copy of the stored keys. An unknown key is looked up in the database
    immediately, and a revoked key is noticed within FRESH_S seconds.

    A key is looked up by its hash, so the time that the lookup takes reveals nothing about the key.
    """

    def __init__(self, settings: Settings, store: KeyStore, games: GameStore) -> None:
        key = settings.api_key
        self._operator = None if key is None else hash_of(key.get_secret_value())
        self._configured_secrets = [secret.get_secret_value() for secret in settings.token_secrets]
        self._store = store
        self._games = games
        # Once True, it stays True while the process lives, since a service whose keys vanish must not become
        # open to everyone.
        self._configured = key is not None or not is_loopback(settings.host)
        self._by_hash: Mapping[str, ApiKey] = {}
        self._by_id: Mapping[str, ApiKey] = {}
        self._revoked: frozenset[str] = frozenset()
        self._secrets: Secrets | None = (
            Secrets(self._configured_secrets) if self._configured_secrets else None
        )
        self._ended: dict[tuple[str | None, Viewer, int], None] = {}
        """Game, seat and epoch of tokens that were refused since the seat has newer ones, or the game was
        deleted; the oldest first.
        """
        self._used: dict[str, int] = {}
        self._loop: asyncio.Task[None] | None = None
        self._one_read = asyncio.Lock()
        self._next_read: asyncio.Task[None] | None = None
        self._wants_revoked = False
        self._reads: set[asyncio.Task[None]] = set()
        self.on_change: Callable[[], None] = lambda: None
        """Called when a credential may have become invalid, so that open connections check theirs."""

    async def start(self) -> None:
        """Reads the keys, and makes the first token secret if there is none."""
        await self._read()
        self._loop = keep_going(self._keep_fresh, "keys")

    async def stop(self) -> None:
        await end_tasks(*self._reads)
        self._next_read = None
        if self._loop is not None:
            await end_tasks(self._loop)
            self._loop = None
            try:
                await self._mark_used()
            except Exception as fault:
                log.warning(
                    "cannot store when keys were last used; it is tried again", cause=type(fault).__name__
                )

    @property
    def configured(self) -> bool:
        """Whether callers need a credential. They do on any address but loopback, and always once there was
        a key.
        """
        return self._configured

    async def caller(self, credential: str | None) -> Caller:
        """The caller with this credential; ``credential`` is None if the caller sent none. Raises
        Unauthenticated. An invalid credential is refused even if none is needed.
        """
        if credential is None:
            if self._configured:
                raise Unauthenticated("send the header Authorization: Bearer <key or token>")
            return KEYLESS
        digest = hash_of(credential)
        if digest == self._operator:
            return OPERATOR
        if digest not in self._by_hash and self._may_be_stored(credential):
            await self._read(revoked=False)
        key = self._by_hash.get(digest)
        if key is not None:
            return self._by_key(key)
        return await self._by_token(credential)

    def known_owner(self, scope: Scope) -> tuple[str, bool] | None:
        """To whom the credential of an HTTP request belongs, and whether it is a token, without asking the
        database. None for requests without a credential, and with one that is not known or no longer valid:
        what is done with a revoked key is not counted for its owner. Of a seat token that has ended, what
        comes before it is first refused is counted.
        """
        for name, value in scope["headers"]:
            if name == b"authorization":
                credential = value[7:].decode("latin-1")
                digest = hash_of(credential)
                if digest == self._operator:
                    return OPERATOR.owner, False
                if (key := self._by_hash.get(digest)) is not None:
                    return (owner_of(key), False) if key.state(now_ms()) == "active" else None
                try:
                    assert self._secrets is not None
                    grant = self._secrets.read(credential, now_ms() / 1000)
                except Unauthenticated:
                    return None
                return (self._owner(grant.by), True) if self._fault(grant) is None else None
        return None

    def _may_be_stored(self, credential: str) -> bool:
        """Whether the database may hold this credential although our copy of it does not."""
        assert self._secrets is not None
        kid = self._secrets.kid_in(credential)
        return kid not in self._secrets.kids and not (kid and self._configured_secrets)

    def _by_key(self, key: ApiKey) -> Caller:
        now = now_ms()
        state = key.state(now)
        if state != "active":
            raise Unauthenticated("this key was revoked" if state == "revoked" else "this key has expired")
        hour = now - now % HOUR_MS
        if key.used_at is None or key.used_at < hour:
            self._used[key.key_id] = hour
        return Caller(f"{KEY}{key.key_id}", _scopes(key), owner_of(key), key.key_id, key.expires_at)

    async def _by_token(self, token: str) -> Caller:
        assert self._secrets is not None
        grant = self._secrets.read(token, now_ms() / 1000)
        if grant.by.startswith(KEY) and grant.by.removeprefix(KEY) not in self._by_id:
            await self._read(revoked=False)  # perhaps another process has just made the key
        if (fault := self._fault(grant)) is not None:
            raise Unauthenticated(fault)
        name = f"{viewer_name(grant.viewer)}@{grant.game or grant.batch}"
        caller = Caller(name, owner=self._owner(grant.by), grant=grant)
        whose.set(caller.owner)
        if caller.seat is not None and grant.game is not None:
            game = await self._games.game(grant.game)
            if game is None or not caller.is_current(game.epochs):
                # That lasts: only stored games have tokens, no id comes again, and epochs only rise.
                if game is None or grant.epoch < epoch_of(game.epochs, caller.seat):
                    self._remember_ended(grant)
                raise Unauthenticated(ENDED)
            return replace(caller, row=game)
        return caller

    def _remember_ended(self, grant: Grant) -> None:
        if len(self._ended) >= REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._ended[grant.game, grant.viewer, grant.epoch] = None

    def _owner(self, name: str) -> str:
        """The owner of what a credential of this name makes; empty: unknown."""
        if not name.startswith(KEY):
            return name
        key = self._by_id.get(name.removeprefix(KEY))
        return "" if key is None else owner_of(key)

    def is_compromised(self, name: str | None) -> bool:
        """Whether this is the name of a key that was revoked as compromised."""
        key = self._by_id.get((name or "").removeprefix(KEY))
        return key is not None and key.compromised_at is not None

    def _fault(self, grant: Grant) -> str | None:
        """Why a well-signed token is not valid; None: it is, as far as this process's copy of keys and tokens
        says.
        """
        if grant.id in self._revoked:
            return "this token was revoked"
        if self.is_compromised(grant.by) or self.is_compromised(grant.claimed_by):
            return "this token came from a key that was revoked as compromised"
        if (grant.game, grant.viewer, grant.epoch) in self._ended:
            return ENDED
        return None

    def is_valid(self, caller: Caller) -> bool:
        """Whether the caller's credential is still valid, according to this process's copy of the keys. A
        caller without a credential is valid as long as none is needed. Whether a seat token was replaced,
        ``Caller.is_current`` tells.
        """
        if caller.grant is not None:
            assert self._secrets is not None
            grant = caller.grant
            signed = grant.expires > now_ms() / 1000 and grant.kid in self._secrets.kids
            return signed and self._fault(grant) is None
        if caller.key_id is not None:
            key = self._by_id.get(caller.key_id)
            return key is not None and key.state(now_ms()) == "active" and caller.scopes <= _scopes(key)
        return caller is OPERATOR or not self._configured

    def check(self, caller: Caller) -> None:
        """Raises Unauthenticated if the caller's credential has ended, or lost a scope, since it was checked.
        Whoever waits for a caller calls this after each wait. It asks no database.
        """
        if not self.is_valid(caller):
            raise Unauthenticated("this credential was revoked or changed while the request waited")

    def left_s(self, caller: Caller) -> float:
        """Seconds until the caller's token expires, at least 0; infinity for a caller without a token, whose
        credential can only be revoked (see ``on_change``).
        """
        return math.inf if caller.grant is None else max(caller.grant.expires - now_ms() / 1000, 0.0)

    async def refresh(self) -> None:
        """Reads keys and revoked tokens again, and has open connections check their credentials."""
        await self._read()
        self.on_change()

    def mint(self, grant: Grant) -> str:
        """The signed token for this grant."""
        assert self._secrets is not None
        return self._secrets.mint(grant)

    async def raise_epoch(self, game_id: str, seat: Seat) -> int:
        """Revokes all of the seat's tokens, and returns the epoch of the next ones."""
        return await self._store.raise_epoch(game_id, seat)

    # --- refreshing --------------------------------------------------------------------------

    async def _read(self, *, revoked: bool = True) -> None:
        """Reads everything; without ``revoked``, the revoked tokens only if somebody else asks for them:
        there may be many, and anybody may send a credential that nobody knows. There is one read at a time.
        Whoever asks during a read shares the next one with all others who do, since the present one may have
        begun before a key was made.
        """
        self._wants_revoked |= revoked
        if self._next_read is None:
            self._next_read = task = asyncio.create_task(self._read_in_turn(), name="reading keys")
            self._reads.add(task)
            task.add_done_callback(self._reads.discard)
        # Who goes away takes no read from the others.
        await asyncio.shield(self._next_read)

    async def _read_in_turn(self) -> None:
        async with self._one_read:
            self._next_read = None
            revoked, self._wants_revoked = self._wants_revoked, False
            await self._read_all(revoked)

    async def _read_all(self, revoked: bool) -> None:
        keys = await self._store.keys()
        self._by_hash = {key.hash: key for key in keys}
        self._by_id = {key.key_id: key for key in keys}
        if revoked:
            self._revoked = await self._store.revoked_tokens(now_ms())
        # A damaged key opens nothing, but still counts as a key.
        self._configured = self._configured or bool(keys) or await self._store.has_keys()
        if not self._configured_secrets:
            # None is left if the only one was damaged or deleted.
            while not (kept := await self._store.secrets()):
                number = await self._store.last_secret() + 1
                await self._store.add_secret(TokenSecret(number, new_secret(), now_ms()))
            self._secrets = Secrets([secret.secret for secret in kept])

    def _valid(self) -> tuple[object, ...]:
        """Everything that decides whether a credential is valid, to be compared with an earlier state."""
        now = now_ms()
        keys = self._by_id.values()
        active = frozenset((key.key_id, *key.scopes) for key in keys if key.state(now) == "active")
        compromised = frozenset(key.key_id for key in keys if key.compromised_at is not None)
        kids = frozenset() if self._secrets is None else self._secrets.kids
        return self._configured, active, compromised, self._revoked, kids

    async def _keep_fresh(self) -> None:
        before = self._valid()
        while True:
            await asyncio.sleep(FRESH_S)
            try:
                await self._read()
                await self._mark_used()
            except Exception as fault:
                # Known keys stay valid, since nothing else works without the database anyway.
                log.warning(
                    "cannot read the keys: changes to them do not count in this process yet",
                    cause=type(fault).__name__,
                )
            before, previous = self._valid(), before
            if before != previous:
                self.on_change()

    async def _mark_used(self) -> None:
        if self._used:
            used, self._used = self._used, {}
            await self._store.mark_used(used)
