from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer, fresh_database


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run, started when the first test asks for it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the test's own, empty; the test runs on both kinds."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    else:
        with fresh_database(request.getfixturevalue("postgres")) as url:
            yield url
