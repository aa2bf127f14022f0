"""The command line, typed in this process."""

from typer.testing import CliRunner, Result

from app.cli.main import command_line

__all__ = ["interintent"]


def interintent(*words: object, stdin: bytes | str | None = None) -> Result:
    """What ``interintent`` with these words does. No exception leaves a command but an exit."""
    typed = [str(word) for word in words]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(command_line(typed[0]), typed, input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result
