"""A process of the bench and its errands: one JSON object a line, one answer each, over its pipes."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import IO, Any, Final, Self

import psutil

__all__ = ["Helper", "answer", "errands", "port_in", "read_on"]

_ADDRESS: Final = re.compile(rb"Server on http://[^/ ]*:(\d+)")


def port_in(log: IO[bytes]) -> int:
    """The port that a service names in its log, whose rest is read on. Raises StopIteration if it ends
    without serving.
    """
    [port] = next(found for line in log if (found := _ADDRESS.findall(line)))
    read_on(log)
    return int(port)


def read_on(log: IO[bytes] | IO[str]) -> None:
    """Reads a log to its end in the background: in a full pipe lines are lost, each after a second."""
    threading.Thread(target=log.read, daemon=True).start()


async def errands() -> AsyncIterator[dict[str, Any]]:
    """The errands of this process, until its parent closes the pipe or dies."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        yield json.loads(line)


def answer(value: Any) -> None:
    """Sends an answer to the parent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Helper:
    """A process of the bench, alive inside ``with``. Its first line is the port it listens on."""

    def __init__(self, module: str, arguments: Sequence[str] = ()) -> None:
        self._command = [sys.executable, "-m", module, *arguments]

    def __enter__(self) -> Self:
        env = {name: value for name, value in os.environ.items() if not name.startswith("INTERINTENT_")}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True
        )
        self._seen = psutil.Process(self._process.pid)
        self.port = int(self.answer())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tell(self, **errand: Any) -> None:
        """Sends an errand; the answer is taken later."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(errand) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Waits for the next answer. Raises RuntimeError when the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._command[2]} ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, **errand: Any) -> Any:
        self.tell(**errand)
        return self.answer()

    def cpu_s(self) -> float:
        """CPU-seconds of the process so far."""
        used = self._seen.cpu_times()
        return float(used.user + used.system)

    def rss(self) -> int:
        """Bytes in memory now."""
        return int(self._seen.memory_info().rss)
