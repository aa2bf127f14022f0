"""Fixtures of the tests that call a service."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.calling import Caller, calling
from tests.app.real_server import Served, local_settings, running_server


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    """A caller of a service on a SQLite database of its own."""
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as one:
        yield one


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A service on a real socket, with a SQLite database of its own."""
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as server:
        yield server
