"""Who calls, and what that caller may do.

Without a configured key every caller is the researcher, and the service listens on loopback only.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from app.errors import Forbidden, Unauthenticated
from app.settings import Settings

__all__ = ["SCOPES", "Caller", "Keys"]

SCOPES: Final = frozenset(
    {
        "games:create",
        "games:read",
        "games:step",
        "games:cancel",
        "tokens:mint",
        "eval:submit",
        "eval:read",
        "annotate",
        "export:full",
        "metrics:read",
        "admin",
    }
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A checked credential."""

    name: str
    """Stable and not secret: scopes idempotency keys."""
    scopes: frozenset[str]

    def needs(self, scope: str) -> None:
        """Raises Forbidden when the credential lacks the scope."""
        if scope not in self.scopes:
            raise Forbidden(f"this needs the scope {scope}")

    @property
    def sees_all(self) -> bool:
        """Whether the caller's viewer is ``full``."""
        return "export:full" in self.scopes


_RESEARCHER: Final = Caller("researcher", SCOPES)


class Keys:
    """The keys there are. Only a hash is compared, in constant time."""

    def __init__(self, settings: Settings) -> None:
        key = settings.api_key
        self._hash = None if key is None else hashlib.sha256(key.get_secret_value().encode()).digest()

    @property
    def configured(self) -> bool:
        """Whether a caller must show a credential."""
        return self._hash is not None

    def caller(self, token: str | None) -> Caller:
        """The caller with this credential. Raises Unauthenticated."""
        if self._hash is None:
            return _RESEARCHER
        if token is None:
            raise Unauthenticated("send the header Authorization: Bearer <key>")
        if not hmac.compare_digest(hashlib.sha256(token.encode("utf-8", "replace")).digest(), self._hash):
            raise Unauthenticated("this key is not known")
        return _RESEARCHER
