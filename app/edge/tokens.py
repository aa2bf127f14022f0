"""Seat and watch tokens: signed statements of what they grant (JWT, HS256).

A token names its secret by ``kid``, which is derived from the secret. The newest secret signs; older ones
verify until they are removed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import jwt

from app.base.errors import Unauthenticated
from engine.terms import PUBLIC, Seat, Viewer

__all__ = ["MAX_SEAT_S", "MAX_TOKEN", "MAX_WATCH_S", "SEAT_S", "Grant", "Secrets", "kid_of"]

ALGORITHM: Final = "HS256"

MAX_TOKEN: Final = 2048
"""The most characters of a token; ours have about 300."""

REMEMBERED: Final = 4096
"""Tokens whose signatures are not checked again."""

SEAT_S: Final = 7 * 24 * 3600
"""The default lifetime of a seat token: the longest game between people, and a weekend."""

MAX_SEAT_S: Final = 30 * 24 * 3600

MAX_WATCH_S: Final = 24 * 3600
"""The longest lifetime of a watch token."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows: one viewer of one game, or of every game of one batch."""

    viewer: Viewer
    """A seat, or public."""
    expires: int
    """The time from which the token is invalid, in seconds since 1970 (UTC)."""
    game: str | None = None
    batch: str | None = None
    """The batch. Either ``game`` or ``batch`` is set, never both; a seat's token has ``game``."""
    epoch: int = 0
    """The epoch of a seat token, which is invalid once the game has a later epoch for the seat."""
    by: str = ""
    """The public name of the credential that it came from; empty: unknown."""
    claimed_by: str = ""
    """The public name of the key that has used the code of ``by``; empty: it was used without a key."""
    id: str = ""
    """By which it can be revoked alone; empty for a token that has no row of its own."""
    kid: str = ""
    """The name of the secret that signed the token; set only when a token is read."""

    @classmethod
    def for_seat(cls, game: str, seat: Seat, epoch: int, expires: int, *, by: str = "") -> "Grant":
        return cls(seat, expires, game=game, epoch=epoch, by=by)

    @classmethod
    def to_watch(cls, expires: int, *, game: str | None = None, batch: str | None = None) -> "Grant":
        return cls(PUBLIC, expires, game=game, batch=batch)


def kid_of(secret: str) -> str:
    """The public name of a secret."""
    return hashlib.sha256(b"kid\0" + secret.encode()).hexdigest()[:16]


class Secrets:
    """All secrets, newest first; at least one."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._newest = kid_of(secrets[0])
        self._by_kid = {kid_of(secret): secret for secret in secrets}

    @property
    def kids(self) -> frozenset[str]:
        return frozenset(self._by_kid)

    def mint(self, grant: Grant) -> str:
        """The token for this grant, signed with the newest secret."""
        claims: dict[str, str | int] = {
            "sub": "public" if grant.viewer == PUBLIC else f"seat:{grant.viewer}",
            "exp": grant.expires,
        }
        if grant.game is not None:
            claims["game"] = grant.game
        if grant.batch is not None:
            claims["batch"] = grant.batch
        if grant.viewer != PUBLIC:
            claims["epoch"] = grant.epoch
        if grant.by:
            claims["by"] = grant.by
        if grant.claimed_by:
            claims["claimed_by"] = grant.claimed_by
        if grant.id:
            claims["jti"] = grant.id
        return jwt.encode(claims, self._by_kid[self._newest], ALGORITHM, headers={"kid": self._newest})

    def kid_in(self, token: str) -> str | None:
        """The ``kid`` of a text that looks like a token; None for any other text."""
        return None if len(token) > MAX_TOKEN else _kid_in(token)

    def read(self, token: str, now_s: float) -> Grant:
        """The grant of this token. Raises Unauthenticated for a foreign, altered or expired token."""
        kid = self.kid_in(token)
        if kid is None or kid not in self._by_kid:
            raise Unauthenticated("this key or token is not known")
        grant = _signed(token, kid, self._by_kid[kid])
        if grant is None:
            raise Unauthenticated("this key or token is not known")
        if grant.expires <= now_s:
            raise Unauthenticated("this token has expired; ask its issuer for a new one")
        return grant


# Over HTTP, every request brings its token. Whether it is revoked, replaced or expired is checked each time.


@lru_cache(REMEMBERED)
def _kid_in(token: str) -> str | None:
    try:
        # PyJWT refuses a kid that is not a string.
        kid: str | None = jwt.get_unverified_header(token).get("kid")
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return kid


@lru_cache(REMEMBERED)
def _signed(token: str, kid: str, secret: str) -> Grant | None:
    """What the token grants; None unless this secret has signed it."""
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            # exp is checked by the service's own clock.
            options={"require": ["exp", "sub"], "verify_exp": False},
        )
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return _grant(claims, kid)


def _grant(claims: dict[str, object], kid: str) -> Grant | None:
    # Other programs that have the secret may mint tokens too, so check the claims.
    sub, expires = claims["sub"], claims["exp"]
    game, batch, epoch = claims.get("game"), claims.get("batch"), claims.get("epoch", 0)
    by, claimed_by, token_id = claims.get("by", ""), claims.get("claimed_by", ""), claims.get("jti", "")
    if not isinstance(expires, int) or not isinstance(epoch, int):
        return None
    if not isinstance(by, str) or not isinstance(claimed_by, str) or not isinstance(token_id, str):
        return None
    if sub == "public":
        if isinstance(game, str) and batch is None:
            return Grant(PUBLIC, expires, game=game, by=by, id=token_id, kid=kid)
        if isinstance(batch, str) and game is None:
            return Grant(PUBLIC, expires, batch=batch, by=by, id=token_id, kid=kid)
        return None
    seats = {f"seat:{seat}": seat for seat in range(1, 11)}
    if isinstance(sub, str) and sub in seats and isinstance(game, str) and batch is None and epoch >= 1:
        return Grant(
            seats[sub], expires, game=game, epoch=epoch, by=by, claimed_by=claimed_by, id=token_id, kid=kid
        )
    return None
