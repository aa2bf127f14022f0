"""The service's own log says what broke and where, and holds no secret."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from tests.app.calling import Process

PROGRAM = """
import structlog
from app.base.logs import configure
configure()
def check(token):
    local = "sw" + "ordfish"
    raise ValueError("broken")
try:
    check("tok" + "en-1234")
except ValueError as fault:
    structlog.get_logger().error("it broke", exc_info=fault)
import logging
try:
    check("tok" + "en-1234")
except ValueError:
    logging.getLogger("uvicorn.error").exception("it broke there")
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_a_traceback_in_the_log_holds_no_local_variables(terminal: bool) -> None:
    program = f"import sys; sys.stderr.isatty = lambda: {terminal}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("broken") >= 2
    assert "check" in done.stderr
    assert "swordfish" not in done.stderr
    assert "token-1234" not in done.stderr


def test_json_lines_hold_what_happened_and_nothing_of_the_logging_underneath() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    ours, theirs = map(json.loads, done.stderr.splitlines())
    assert set(ours) == set(theirs) == {"event", "level", "timestamp", "exception"}


async def test_text_that_is_not_utf_8_closes_the_socket_and_logs_nothing(tmp_path: Path) -> None:
    process = await asyncio.to_thread(Process, f"sqlite:///{tmp_path / 'games.sqlite'}", tmp_path)
    try:
        async with connect(process.url.replace("http", "ws") + "/ws", proxy=None, open_timeout=60) as socket:
            await socket.recv()
            before = list(process.said)
            socket.transport.write(Frame(Opcode.TEXT, b"\xff\xfe").serialize(mask=True))
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1007
        await asyncio.sleep(0.2)
        assert process.said == before
    finally:
        await asyncio.to_thread(process.kill)


UNREAD = """
import sys
import structlog
from app.base.logs import configure
configure()
for number in range(3000):
    structlog.get_logger().info("a line", number=number, text="x" * 100)
print("all written", flush=True)
sys.stdin.readline()
structlog.get_logger().info("the last line")
print("ended", flush=True)
"""


@contextmanager
def unread() -> Iterator[tuple[IO[str], IO[str], IO[str]]]:
    """Standard input, output and error of a process that logs more than a pipe holds."""
    program = [sys.executable, "-c", UNREAD]
    with subprocess.Popen(program, stdin=-1, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        yield process.stdin, process.stdout, process.stderr


def test_a_log_that_nobody_reads_stops_nothing_and_says_how_many_lines_were_lost() -> None:
    with unread() as (stdin, stdout, stderr):
        assert stdout.readline() == "all written\n"  # a full pipe holds some hundred of them
        read = [stderr.readline()]  # takes 8 kB out of it
        stdin.write("\n")
        stdin.flush()
        read += stderr.read().splitlines()
    *lines, last = [json.loads(line) for line in read if line.strip()]
    assert [line["number"] for line in lines] == list(range(len(lines)))
    assert last["event"] == "the last line"
    assert last["lines_lost_before"] == 3000 - len(lines) > 0


def test_a_log_whose_reader_went_away_stops_nothing() -> None:
    with unread() as (stdin, stdout, stderr):
        stderr.close()
        stdin.write("\n")
        stdin.close()
        assert stdout.read() == "all written\nended\n"
