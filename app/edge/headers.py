"""Security headers: what a browser may do with a response."""

from collections.abc import Mapping
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["DATA_POLICY", "HEADERS", "PAGE_POLICY", "REPORT_POLICY", "SCRIPT_POLICY", "SecurityHeaders"]

_ALONE: Final = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

DATA_POLICY: Final = f"default-src 'none'; {_ALONE}"
"""The policy for data: even a browser that takes the data for a page loads and runs nothing."""

PAGE_POLICY: Final = f"default-src 'none'; style-src 'self'; img-src 'self'; {_ALONE}"
"""The policy for our own pages, which have no scripts."""

REPORT_POLICY: Final = f"default-src 'none'; style-src 'unsafe-inline'; {_ALONE}"
"""The policy for reports, which contain their own styles and drawings."""

SCRIPT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    f"{_ALONE}"
)
"""The policy for pages with scripts: files of this service, and nothing from elsewhere."""

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": DATA_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_STARTS: Final = ("http.response.start", "websocket.http.response.start")


class SecurityHeaders:
    """Middleware that adds ``HEADERS`` to every response, except for those that the response has set. What a
    credential was shown is never stored: a browser would show it again to whoever goes back to a page without
    the credential.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] in _STARTS:
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if any(name == b"authorization" for name, _ in scope["headers"]):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await self._app(scope, receive, guarded)
