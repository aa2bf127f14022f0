import asyncio
import faulthandler
import functools
import gc
import inspect
import os
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.laying_out import lay_out, migrate
from tests.postgres import Databases, PostgresServer, fresh_database

if TYPE_CHECKING:
    from tests.app.real_server import Served

# Until all tests are collected nothing is garbage, and looking for it takes a third of the time.
gc.disable()

# How long an example takes, or making one, says how busy the machine is.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")

# structlog's own tracebacks show every local variable, and take up to ten seconds each.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)
LOGS = structlog.get_config()

STDERR = pytest.StashKey[int]()

LONG_S = 900.0
"""Seconds after which a test of the long tier hangs. Machines differ, and share their cores: what takes
seconds here takes minutes there.
"""

# For the same reason callers are patient; httpx gives up after five seconds unless it is told otherwise.
_patience = inspect.signature(httpx.Client).parameters["timeout"].default
_patience.connect = _patience.read = _patience.write = _patience.pool = 200.0

LONGEST_FIRST = (
    *(
        "bench/test_bench.py",
        "app/test_schemathesis.py",
        "app/instruments/test_bot_check.py",
        "app/runner/test_kill.py",
        "app/models/test_models_api.py",
    ),
    *(
        "test_docs.py",
        "app/games/test_games_api.py",
        "agents/llm/test_mechanism.py",
        "app/seats/test_answers.py",
    ),
    *(
        "app/games/test_fork.py",
        "app/play/test_socket.py",
        "app/evaluations/test_evaluations_api.py",
        "app/models/test_models_answers.py",
    ),
    *(
        "app/store/test_damaged_words.py",
        "app/cli/test_cli.py",
        "engine/test_twins.py",
        "agents/llm/test_agent.py",
    ),
    *(
        "app/test_twins.py",
        "app/seats/test_seats_kill.py",
        "app/models/test_models_kill.py",
        "examples/test_examples.py",
        "faults/test_faults.py",
    ),
)
"""The files that take longest, longest first. If one of them started last, a single process would work on it
while the others have nothing left to do.
"""


POSTGRES_IN_QUICK_TIER = (
    "tests/app/store/test_store.py",
    "tests/app/store/test_schema.py",
    "tests/app/store/test_backup.py",
    "tests/app/store/test_trouble.py",
    "tests/app/runner/",
    "tests/app/games/test_games_api.py",
    "tests/app/play/test_socket.py",
)
"""Where tests run on both databases in the quick tier. Everywhere else they run on PostgreSQL in the long
tier, since nearly every statement that they execute has been tried here.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if on_postgres(item) and not item.nodeid.startswith(POSTGRES_IN_QUICK_TIER):
            item.add_marker(pytest.mark.long)
    places = {str(Path(__file__).parent / name): place for place, name in enumerate(LONGEST_FIRST)}
    assert all(Path(path).exists() for path in places), "a file of LONGEST_FIRST has moved"
    items.sort(key=lambda item: places.get(str(item.path), len(places)))
    for item in items:
        if item.get_closest_marker("long") and seconds_of(item) < LONG_S:
            item.add_marker(pytest.mark.timeout(LONG_S), append=False)


def on_postgres(item: pytest.Item) -> bool:
    """Whether this is a test of both databases, on PostgreSQL."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return "postgresql" in (given.get("database_url"), given.get("empty_database_url"))


def pytest_collection_finish() -> None:
    """Excludes everything loaded so far from garbage collection, since it stays loaded anyway."""
    gc.freeze()
    gc.enable()


def seconds_of(item: pytest.Item) -> float:
    """Seconds that the test may take."""
    marked = item.get_closest_marker("timeout")
    return float(marked.args[0] if marked else item.config.getini("timeout"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Cancels an async test a little before its time-out, so that it shows what it waits for and its fixtures
    end in order. The time-out's alarm would leave the task of its fixtures blocked.
    """
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or hasattr(test, "hypothesis"):
        return

    @functools.wraps(test)
    async def timed(**given: Any) -> None:
        loop = asyncio.get_running_loop()
        running = asyncio.ensure_future(test(**given))
        is_late = threading.Event()

        def ring() -> None:
            is_late.set()
            loop.call_soon_threadsafe(running.cancel)

        # Not the loop's own clock, which some tests let jump.
        alarm = threading.Timer(seconds_of(pyfuncitem) - 10, ring)
        alarm.daemon = True
        alarm.start()
        try:
            await running
        except asyncio.CancelledError as cancelled:
            if not is_late.is_set():
                raise
            raise TimeoutError("the test is beyond its time-out") from cancelled
        finally:
            alarm.cancel()

    pyfuncitem.obj = timed


def pytest_configure(config: pytest.Config) -> None:
    # Before a test's output is caught.
    config.stash[STDERR] = os.dup(2)


@pytest.fixture(autouse=True)
def _logs_as_they_begin() -> Iterator[None]:
    """What a command does to the log of its process is over with its test."""
    yield
    structlog.configure(**LOGS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends the process if a test exceeds its time-out and cannot be interrupted (a thread that never ends),
    and shows where each thread was.
    """
    faulthandler.dump_traceback_later(seconds_of(item) + 60, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


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


@pytest.fixture(scope="session")
def postgres_databases(postgres: PostgresServer, laid_out_postgres: str) -> Databases:
    """Databases with the newest schema, to be lent."""
    return Databases(postgres, laid_out_postgres)


@pytest.fixture
def postgres_url(postgres_databases: Databases) -> Iterator[str]:
    """An empty PostgreSQL database with the newest schema, for this test alone."""
    with postgres_databases.lend() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database with the newest schema, for this test alone. The test runs on SQLite and
    PostgreSQL.
    """
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
        lay_out(url)
        yield url
    else:
        with request.getfixturevalue("postgres_databases").lend() as url:
            yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    else:
        with fresh_database(request.getfixturevalue("postgres")) as url:
            yield url


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator["Served"]:
    """A service on a real socket, with a SQLite database of its own and no keys."""
    from tests.app.real_server import local_settings, running_server  # the tests of rules need no service

    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as server:
        yield server
