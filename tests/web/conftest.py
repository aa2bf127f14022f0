"""A real Chromium on the pages of a real service."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    WebSocket,
    async_playwright,
    expect,
)

from tests.chromium import launching

PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 800}
SCREEN = {"width": 1440, "height": 900}
WALL = {"width": 3840, "height": 2160}

PATIENCE_MS = 60_000
"""What a page is given for each thing that it is expected to show: machines are slow at times."""

expect.set_options(timeout=PATIENCE_MS)

Visits = Callable[..., AbstractAsyncContextManager[Page]]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A Chromium of this test's own."""
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(**launching())
        try:
            yield running
        finally:
            await running.close()


class Watchman:
    """Notes what no page may do: errors in the console, exceptions, requests to other hosts."""

    def __init__(self, context: BrowserContext, home: str) -> None:
        self.faults: list[str] = []
        self._home = urlsplit(home).netloc
        context.on("console", self._console)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        context.on("request", self._request)
        context.on("page", lambda page: page.on("websocket", self._socket))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        self._check(request.url)

    def _socket(self, socket: WebSocket) -> None:
        self._check(socket.url)

    def _check(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in ("data", "blob", "about") and address.netloc != self._home:
            self.faults.append(f"asked another host: {url}")


@pytest.fixture
def visit(browser: Browser) -> Visits:
    """``visit(url, viewport=DESK, faults=(), **more)``: a page at ``url`` in a context of its own, as another
    person's browser. ``more`` goes to the context, e.g. ``color_scheme="dark"``.

    When the block ends, the page must have logged no error, thrown nothing and asked no other host, but for
    faults that contain one of ``faults``: words that are expected, such as of a connection that was cut.
    """

    @contextlib.asynccontextmanager
    async def visited(
        url: str, *, viewport: Any = DESK, faults: tuple[str, ...] = (), **more: Any
    ) -> AsyncIterator[Page]:
        context = await browser.new_context(viewport=viewport, **more)
        try:
            context.set_default_timeout(PATIENCE_MS)
            watchman = Watchman(context, url)
            page = await context.new_page()
            await page.goto(url)
            yield page
            unexpected = [one for one in watchman.faults if not any(words in one for words in faults)]
            assert unexpected == []
        finally:
            await context.close()

    return visited
