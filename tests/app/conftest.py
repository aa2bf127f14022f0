"""Fixtures of the tests that call a service."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.calling import Caller, calling


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    """A caller of a service on a SQLite database of its own."""
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as one:
        yield one
