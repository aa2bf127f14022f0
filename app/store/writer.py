"""The one writer of a database, and whether the database works.

SQLite takes one writer at a time, so all writing passes one writer, and the appends of many games share a
commit. PostgreSQL gains from the grouping too; the code is the same. Owners take turns (ADR 0051). How a
commit is executed is behind ``Commits``: ``sqlite.py`` and ``postgres.py`` each do it in their own way.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar, cast

import structlog
from sqlalchemy import Dialect, Executable
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base import metrics
from app.base.clock import now_ms
from app.base.off_loop import fail, settle, whose
from app.store.trouble import DatabaseAway, DatabaseTrouble, is_worth_repeating, trouble_of

__all__ = [
    "LOCK_WITHIN_S",
    "Append",
    "Commits",
    "Conflict",
    "DatabaseHealth",
    "PreparedStatements",
    "Statements",
    "Unfounded",
    "Work",
    "Write",
    "Writer",
    "answering",
    "working",
    "working_alone",
]

log = structlog.get_logger()

T = TypeVar("T")

GROUP: Final = 50
"""The most appends that share a commit (10 to 17 times more appends a second than one by one)."""

LOCK_WITHIN_S: Final = 10
"""Seconds that a write waits for a lock of somebody else's, before it fails with words that say so."""

COMMIT_WITHIN_S: Final = 30.0
"""Seconds after which a commit, or a small question, without an answer from PostgreSQL counts as failed."""

WORK_WITHIN_S: Final = 60.0
"""The same for a query, and for other work in a transaction."""

LATE_S: Final = 5.0
"""Seconds after which a write that still waits counts as trouble."""

PAUSES_S: Final = (0.01, 0.05, 0.2)
"""Seconds before each further try of a transaction that is worth repeating. The other one of a deadlock goes
first if it wakes up in time.
"""

PREPARED: Final = 100
"""The most compiled statements to keep. There are a handful, each the same object at every commit."""


@asynccontextmanager
async def answering(within_s: float | None = None) -> AsyncIterator[None]:
    """Raises DatabaseAway if the block, which asks PostgreSQL, takes longer than this many seconds
    (COMMIT_WITHIN_S): its connection may swallow everything, and say nothing for ever.
    """
    try:
        async with asyncio.timeout(COMMIT_WITHIN_S if within_s is None else within_s):
            yield
    except TimeoutError as fault:
        raise DatabaseAway("no answer in time") from fault


def working() -> AbstractAsyncContextManager[None]:
    """As ``answering``, for a query and for work in a transaction, which may take longer."""
    return answering(WORK_WITHIN_S)


class Conflict(Exception):
    """Another writer was first: this writer's view of the game is out of date."""


class Unfounded(Conflict):
    """An append that this one builds on was not committed."""


Write = Callable[[int], Sequence[tuple[Any, Any]]]
"""Commit time → (statement, list of parameter sets), in order. Equal statements of a group are executed
together, so they must be the same object.
"""


class Append:
    """Rows of one game that are committed together, and the outcome of that commit."""

    __slots__ = ("after", "done", "failed", "tell", "waits", "write")

    def __init__(
        self, write: Write, after: Sequence["Append"] = (), tell: Callable[[], None] | None = None
    ) -> None:
        self.write = write
        self.tell = tell
        """Called after the commit, even if nobody waits for it any more."""
        self.after = after
        """Earlier appends, which are never committed later than this one. If one of them fails, this one
        fails, too.
        """
        self.waits = True
        """Whether its commit has not begun."""
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Gives the commit time in ms, or raises why nothing was written."""
        self.failed = False

    def fail(self, fault: Exception) -> None:
        self.failed = True
        fail(self.done, fault)


Work = Callable[[AsyncConnection], Awaitable[Any]]
"""Work in a transaction. It waits for nothing but its connection, of which it may use ``execute``,
``run_sync`` and ``dialect``. It may be executed a second time, when the first time has written nothing.
"""


working_alone: Final = ContextVar("working_alone", default=False)
"""Whether this is ``Work``, which must not read over other connections: it would wait for itself."""


class _Alone:
    """Work in a transaction of its own, and its outcome."""

    __slots__ = ("done", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, fault: Exception) -> None:
        fail(self.done, fault)


class _Waiting:
    """What waits for the writer. Owners take turns, a transaction each; of one owner, what came first goes
    first. So however much of one owner waits, what another hands in waits for one transaction of it, besides
    the one that is being executed.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Append | _Alone]] = OrderedDict()
        """By owner; whose turn is next comes first. What was taken before its turn is still here."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, job: Append | _Alone, owner: str | None = None) -> None:
        """``owner``: None for the one of this task."""
        self._lines.setdefault(whose.get() if owner is None else owner, deque()).append(job)

    def take(self) -> _Alone | list[Append]:
        """What the next transaction executes: work, or appends that share a commit, of the owner whose turn
        it is and of all others who would append next. Raises StopIteration if nothing waits.
        """
        owner, line = next(iter(self._lines.items()))
        if isinstance(line[0], _Alone):
            return cast(_Alone, self._next_of(owner))
        group: list[Append] = []
        owners = deque(self._lines)
        while owners and len(group) < GROUP:
            owner = owners.popleft()
            if isinstance(self._lines[owner][0], Append):
                _take_with_earlier(cast(Append, self._next_of(owner)), group)
                if owner in self._lines:
                    owners.append(owner)
        return group

    def _next_of(self, owner: str) -> Append | _Alone:
        line = self._lines[owner]
        job = line.popleft()
        if line:
            self._lines.move_to_end(owner)
        else:
            del self._lines[owner]
        return job

    def take_all(self) -> list[Append | _Alone]:
        """Everything, by owner."""
        jobs = [job for line in self._lines.values() for job in line if isinstance(job, _Alone) or job.waits]
        self._lines.clear()
        return jobs


def _tells(append: Append) -> bool:
    return append.tell is not None


def _tell(tell: Callable[[], None]) -> None:
    try:
        tell()
    except Exception:
        log.exception("what is committed could not be told")


async def _repeated(transaction: Callable[[], Awaitable[T]]) -> T:
    """Its result, at the first try or, if that is worth repeating, at one of a few more."""
    for pause_s in PAUSES_S:
        try:
            return await transaction()
        except Exception as fault:
            if not is_worth_repeating(fault):
                raise
        await asyncio.sleep(pause_s)
    return await transaction()


def _take_with_earlier(append: Append, group: list[Append]) -> None:
    """Takes the append, and before it those that it builds on: perhaps others' turn is later."""
    if append.waits:
        for earlier in append.after:
            _take_with_earlier(earlier, group)
        append.waits = False
        group.append(append)


Statements = Sequence[tuple[Any, list[Any]]]
"""What is executed in one transaction: each statement with its parameter sets."""


class Commits(Protocol):
    """Executes the writer's transactions, one after the other."""

    async def commit(self, statements: Statements) -> None:
        """Returns when all of it is committed. Raises the database's error in SQLAlchemy's form; then nothing
        is committed, unless the database went away during the commit itself.
        """

    async def alone(self, work: Work) -> Any:
        """The result of the work, which is committed. Raises what the work raises; then nothing is committed,
        unless the database went away during the commit itself.
        """

    async def version(self) -> int | None:
        """A number that changes with every commit by another process or over another connection.

        None: the database has no such number.
        """

    async def stop(self) -> None: ...


class PreparedStatement:
    """A statement as the driver takes it: its text, and its values in the order of their placeholders."""

    __slots__ = ("_binders", "_fixed", "text", "values")

    def __init__(self, statement: Any, columns: Sequence[str] | None, dialect: Any) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        if compiled.prefetch:
            raise TypeError(f"defaults from Python cannot be filled in here: {compiled}")
        self.text = str(compiled)
        self._fixed: Mapping[str, Any] = compiled.params
        self._binders: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect))
            for name in compiled.positiontup
        ]
        self.values: Callable[[Mapping[str, Any]], Sequence[Any]] = self._values
        """The values of one set of parameters."""
        names = [name for name, _ in self._binders]
        plain = len(names) > 1 and not any(bind for _, bind in self._binders)
        if plain and columns is not None and set(names) <= set(columns):
            self.values = itemgetter(*names)

    def _values(self, row: Mapping[str, Any]) -> Sequence[Any]:
        values = [(row[name] if name in row else self._fixed[name], bind) for name, bind in self._binders]
        return [value if bind is None else bind(value) for value, bind in values]


class PreparedStatements:
    """Prepares statements, and keeps them."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._prepared: dict[tuple[Any, ...], PreparedStatement] = {}

    def prepare(self, statements: Statements) -> list[tuple[PreparedStatement, list[Any]]]:
        """Each statement, prepared, with its parameter sets."""
        return [(self._prepare(statement, rows[0]), rows) for statement, rows in statements]

    def _prepare(self, statement: Any, row: Mapping[str, Any]) -> PreparedStatement:
        # An INSERT has the columns of its rows.
        columns = tuple(row) if statement.is_insert else None
        key = (statement, columns)
        prepared = self._prepared.get(key)
        if prepared is None:
            if len(self._prepared) >= PREPARED:
                self._prepared.clear()
            prepared = self._prepared[key] = PreparedStatement(statement, columns, self._dialect)
        return prepared


class DatabaseHealth:
    """Whether the database worked when it was used last. Tells the log when that changes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[str, DatabaseTrouble] = {}
        """By what was tried: ``reading``, ``writing`` or ``schema``."""
        self._writing_since: float | None = None

    @property
    def trouble(self) -> DatabaseTrouble | None:
        """Why the database cannot be used; None if it can."""
        for what in ("schema", "writing", "reading"):
            if what in self._found:
                return self._found[what]
        if self._writing_since is not None and (waited := self._clock() - self._writing_since) >= LATE_S:
            words = (
                f"a write has been waiting for {waited:.0f} s: another program may hold the lock of the "
                "database, or its disk is very slow"
            )
            return DatabaseTrouble("slow", words)
        return None

    def begins_to_write(self) -> None:
        self._writing_since = self._clock()

    def stops_writing(self) -> None:
        self._writing_since = None

    def failed(self, what: str, fault: BaseException) -> DatabaseTrouble | None:
        """Notes what the fault says of the database, and returns it; None if it says nothing."""
        trouble = trouble_of(fault)
        if trouble is not None:
            known = {found.cause for found in self._found.values()}
            self._found[what] = trouble
            if trouble.cause not in known:
                said = {"said": trouble.said} if trouble.said else {}
                log.error(trouble.words, cause=trouble.cause, fault=type(fault).__name__, **said)
        return trouble

    def worked(self, what: str, *, tried: bool = False) -> None:
        """Notes that it worked. ``tried``: it was tried whether there is room for more; on a full disk small
        writes may succeed between others that fail.
        """
        if not self._found or what not in self._found:
            return
        before = self._found[what]
        if what != "writing" or before.cause != "full" or tried:
            del self._found[what]
            if not self._found:
                log.warning("the database works again", after=before.cause)


class Writer:
    """Executes appends and other writes, one transaction after the other. Owners (``whose``) take turns; of
    one owner, what came first is executed first.
    """

    def __init__(self, commits: Commits, health: DatabaseHealth) -> None:
        self._commits = commits
        self._health = health
        self._waiting = _Waiting()
        self._changed = asyncio.Event()
        """Set when something waits, or the writer is to stop."""
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._last_ms = 0

    def start(self) -> None:
        """Starts the writer, unless it is running."""
        if self._task is None:
            self._stopping = False
            self._task = asyncio.create_task(self._run(), name="writer")

    async def stop(self) -> None:
        """Stops the writer after it has committed everything that waits."""
        if self._task is not None:
            self._stopping = True
            self._changed.set()
            await self._task
            self._task = None
            await self._commits.stop()

    async def append(
        self, write: Write, after: Sequence[Append] = (), tell: Callable[[], None] | None = None
    ) -> int:
        """Commits one append, perhaps together with others, and returns the commit time in ms. ``tell``:
        called after the commit, even if this task has been cancelled meanwhile.

        Raises Conflict if its rows exist already, and Unfounded if one of ``after`` failed. In both cases
        nothing was written.
        """
        return await self.submit(write, after, tell=tell).done

    def submit(
        self,
        write: Write,
        after: Sequence[Append] = (),
        owner: str | None = None,
        tell: Callable[[], None] | None = None,
    ) -> Append:
        """Queues an append; its ``done`` gives the outcome. ``owner``: None for the one of this task."""
        append = Append(write, after, tell)
        self._add(append, owner)
        return append

    def _add(self, job: Append | _Alone, owner: str | None = None) -> None:
        self._waiting.add(job, owner)
        self._changed.set()

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Runs ``work``, see ``Work``, in a transaction of its own and returns its result.

        Raises what ``work`` raises; then nothing was written.
        """
        job = _Alone(work)
        self._add(job)
        result: T = await job.done
        return result

    async def execute(self, statement: Executable) -> int:
        """Executes one statement in a transaction of its own, and returns how many rows it changed."""

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(statement)).rowcount

        return await self.run(work)

    async def version(self) -> int | None:
        """A number that changes whenever somebody else commits, in another process or past this writer.

        None: the database has no such number.
        """
        return await self._commits.version()

    def stamp(self) -> int:
        """Now, in ms, and never earlier than the last stamp."""
        # When the clock is set back, the times of a log must still follow its order.
        self._last_ms = max(self._last_ms, now_ms())
        return self._last_ms

    async def _run(self) -> None:
        while self._waiting or not self._stopping:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
            # One turn of the loop lets every game that is ready submit its step, and everything else go on.
            await asyncio.sleep(0)
            if not self._waiting:
                continue
            job = self._waiting.take()
            self._health.begins_to_write()
            if isinstance(job, _Alone):
                await self._run_alone(job)
            else:
                await self._commit(job)
            self._health.stops_writing()

    async def _run_alone(self, job: "_Alone") -> None:
        working_alone.set(True)
        try:
            result = await _repeated(lambda: self._commits.alone(job.work))
        except Exception as fault:
            self._failed(fault)
            fail(job.done, fault)
        else:
            self._health.worked("writing")
            settle(job.done, result)
        finally:
            working_alone.set(False)

    def _failed(self, fault: Exception) -> bool:
        """Notes the fault, and returns whether the database is in trouble. Then everything that waits fails
        with it: each would wait as long as this one did, one after the other.
        """
        if self._health.failed("writing", fault) is None:
            return False
        for job in self._waiting.take_all():
            job.fail(fault)
        return True

    async def _commit(self, group: Sequence[Append]) -> Exception | None:
        """Commits these appends. Returns the fault if the database is in trouble: they failed with it."""
        for append in group:
            if any(earlier.failed for earlier in append.after):
                append.fail(Unfounded("an append that it builds on was not committed"))
        group = [append for append in group if not append.failed]
        if not group:
            return None
        started = time.perf_counter()
        try:
            at = await (self._write(group) if len(group) > 1 else _repeated(lambda: self._write(group)))
        except IntegrityError:
            if len(group) == 1:
                group[0].fail(Conflict("another writer was first"))
                return None
            # One stale game must not cost the others their step.
            return await self._commit_each(group)
        except Exception as fault:
            if is_worth_repeating(fault) and len(group) > 1:
                # Perhaps another process locks the same rows in another order. One append alone locks few.
                return await self._commit_each(group)
            for append in group:
                append.fail(fault)
            return fault if self._failed(fault) else None
        self._health.worked("writing")
        # First answers are acknowledged, then all are told of what follows from them.
        loop = asyncio.get_running_loop()
        for append in sorted(group, key=_tells):
            if append.tell is not None:
                loop.call_soon(_tell, append.tell)
            settle(append.done, at)
        metrics.append_seconds.observe(time.perf_counter() - started)
        metrics.append_group.observe(len(group))
        return None

    async def _commit_each(self, group: Sequence[Append]) -> Exception | None:
        fault: Exception | None = None
        for append in group:
            if fault is None:
                fault = await self._commit([append])
            else:
                append.fail(fault)
        return fault

    async def _write(self, group: Sequence[Append]) -> int:
        at = self.stamp()
        together: dict[int, tuple[Any, list[Any]]] = {}
        for append in group:
            for statement, rows in append.write(at):
                together.setdefault(id(statement), (statement, []))[1].extend(rows)
        await self._commits.commit(list(together.values()))
        return at
