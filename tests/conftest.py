import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laying_out import lay_out, migrate
from tests.postgres import PostgresServer, fresh_database

LONGEST_FIRST = (
    *(
        "app/test_schemathesis.py",
        "app/instruments/test_bot_check.py",
        "app/test_kill.py",
        "engine/test_twins.py",
    ),
    *(
        "agents/llm/test_agent.py",
        "app/test_twins.py",
        "app/test_models_answers.py",
        "app/test_seats_kill.py",
    ),
    *("app/test_keys.py", "app/test_socket.py", "app/test_games_api.py", "app/test_models_api.py"),
    *("test_docs.py", "examples/test_examples.py", "faults/test_faults.py", "app/test_models_kill.py"),
)
"""Files that take longest, in falling order: begun last, one of them would keep a single process busy while
the others have nothing left to do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {str(Path(__file__).parent / name): place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(str(item.path), len(places)))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()


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
