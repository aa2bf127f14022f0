"""The service's log: readable text on a terminal, JSON lines elsewhere. It never holds what players say."""

import logging
import sys
from typing import TextIO, cast

import structlog
import structlog.tracebacks

__all__ = ["configure"]


class _StandardError:
    """The current ``sys.stderr``, which a program may replace."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether to log this record. Records about invalid UTF-8 from clients are left out, since anybody could
    fill the log with them; a metric counts them.
    """
    return record.msg != "Invalid UTF-8 sequence received from client."


def configure(level: int = logging.INFO) -> None:
    """Sends structlog from ``level`` on, and the standard library's warnings, to stderr in one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    stderr = _StandardError()
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
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, stderr)),
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
