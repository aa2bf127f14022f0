"""The service's log: readable text on a terminal, JSON lines elsewhere. It never holds what players say.

A log that nobody reads (a full pipe, a stopped terminal, a full disk) stops nothing: its lines are lost, and
the first line that gets through again says how many.
"""

import io
import logging
import select
import sys
import threading
from typing import Final, TextIO, cast

import structlog
import structlog.tracebacks

__all__ = ["configure"]

PATIENCE_MS: Final = 1000
"""How long a line waits for its reader. While lines are being lost the next ones do not wait."""
AT_ONCE: Final = 1024
"""Characters, at most 4,096 bytes: what a pipe takes whole when it takes anything (``PIPE_BUF``)."""


class _StandardError:
    """The current ``sys.stderr``, which a program may replace."""

    def __init__(self) -> None:
        self._lost = 0
        self._writing = threading.Lock()

    def write(self, line: str) -> int:
        with self._writing:
            try:
                room = _Room(0 if self._lost else PATIENCE_MS)
                text = f"\n{line}" if self._lost else line  # the last one may have broken off
                for start in range(0, len(text), AT_ONCE):
                    room.wait()
                    sys.stderr.write(text[start : start + AT_ONCE])
                    sys.stderr.flush()
                self._lost = 0
            except (OSError, ValueError):  # ValueError: closed
                self._lost += 1
        return len(line)

    def flush(self) -> None:
        """Each line is flushed as it is written."""

    def add_lost(
        self, logger: object, method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        """A processor: a line that follows lost ones says how many."""
        if self._lost:
            event["lines_lost_before"] = self._lost
        return event


class _Room:
    """Whether the standard error takes more."""

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._poll = select.poll()
        try:
            self._poll.register(sys.stderr.fileno(), select.POLLOUT)
            self._known = True
        except io.UnsupportedOperation:  # what a program put in its place takes everything
            self._known = False

    def wait(self) -> None:
        """Raises TimeoutError when nobody makes room."""
        if self._known and not self._poll.poll(self._patience_ms):
            raise TimeoutError


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether to log this record. Records about invalid UTF-8 from clients are left out, since anybody could
    fill the log with them; a metric counts them.
    """
    return record.msg != "Invalid UTF-8 sequence received from client."


def configure(level: int = logging.INFO) -> None:
    """Sends structlog from ``level`` on, and the standard library's warnings, to stderr in one format."""
    stderr = _StandardError()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        stderr.add_lost,
    ]
    # Tracebacks never show local variables, which hold tokens, seeds and roles.
    if sys.stderr.isatty():
        render: list[structlog.typing.Processor] = [
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        ]
    else:
        plain = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        render = [structlog.processors.ExceptionRenderer(plain), structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared, *render],
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, stderr)),
        # What every game says of an outage is logged once, for all of them.
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    handler = logging.StreamHandler(stderr)
    own = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(processors=[own, *render], foreign_pre_chain=shared)
    )
    handler.addFilter(_is_ours)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
