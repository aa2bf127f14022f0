"""Runs the command line in this process."""

import logging

import structlog
from typer.testing import CliRunner, Result

from app.cli.main import command_line

__all__ = ["interintent"]


def interintent(*words: object, stdin: bytes | str | None = None) -> Result:
    """The result of ``interintent`` with these arguments. A command may raise nothing but an exit."""
    typed = [str(word) for word in words]
    logs = structlog.get_config()
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        result = CliRunner(env={"COLUMNS": "200"}).invoke(command_line(typed[0]), typed, input=stdin)
    finally:  # a command decides where its process logs to
        structlog.configure(**logs)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result
