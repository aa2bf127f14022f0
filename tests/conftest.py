from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laying_out import lay_out, migrate
from tests.postgres import PostgresServer, fresh_database


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run, started when the first test asks for it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def laid_out_postgres(postgres: PostgresServer) -> str:
    """A database with the newest schema, to be copied."""
    url = postgres.create_database()
    migrate(url)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of the test's own with the newest schema and nothing in it; the test runs on both kinds."""
    if request.param == "sqlite":
        file = tmp_path / "games.sqlite"
        lay_out(file)
        yield f"sqlite+aiosqlite:///{file}"
    else:
        like = request.getfixturevalue("laid_out_postgres")
        with fresh_database(request.getfixturevalue("postgres"), like) as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    else:
        with fresh_database(request.getfixturevalue("postgres")) as url:
            yield url
