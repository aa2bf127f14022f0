"""Runs our commands in processes of their own, without the second of imports that each would need.

One process has imported the command line and the service, and waits. Every command is a fork of it, with its
own arguments, environment, directory and streams. From then on it is an ordinary process, which can be
killed, stopped and waited for. Outside Linux, where forking is unreliable, each command is a new process.
"""

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

__all__ = ["Forked", "run", "start"]

PROJECT: Final = Path(__file__).parents[1]

READY_S: Final = 200.0

FIRST: Final = (
    "app.cli",
    "app.main",
    "app.serving.server",
    "app.runner.simulate",
    "app.files.replays",
    "agents.model.wire",
    "pgqueuer",
    "uvloop",
)
"""Modules that most commands import."""


class Forked:
    """One command, with the interface of ``subprocess.Popen``."""

    def __init__(self, link: socket.socket, pid: int, stderr: IO[str] | None) -> None:
        self.pid = pid
        self.stderr = stderr
        self.returncode: int | None = None
        self._link = link

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._link], [], [], 0)[0]:
            self._take()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises ``subprocess.TimeoutExpired``."""
        if self.returncode is None:
            if not select.select([self._link], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("interintent", timeout or 0)
            self._take()
        assert self.returncode is not None
        return self.returncode

    def _take(self) -> None:
        with self._link:
            said = self._link.recv(16)
        assert said, "the process that forks has died"
        self.returncode = int(said)

    def send_signal(self, number: int) -> None:
        """Sends the signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Mother:
    """The waiting process, as seen from this process."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                cwd=PROJECT,
                env=_clean({"PYTHONPATH": str(PROJECT), "COLUMNS": "200", "NO_COLOR": "1"}),
                stdin=subprocess.DEVNULL,
            )
        self._control.settimeout(READY_S)
        assert self._control.recv(16) == b"ready", "the process that forks did not come up"
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Ends the process and everything that it has started."""
        self._control.close()
        self.process.wait()

    def fork(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int]
    ) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            wish = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)})
            socket.send_fds(self._control, [wish.encode()], [theirs.fileno(), *streams])
            pid = int(self._control.recv(16))
        return ours, pid


_mother: _Mother | None = None


def _clean(more: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("INTERINTENT_", "DATABASE_URL"))}
    return {**kept, **more}


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
) -> "Forked | subprocess.Popen[str]":
    """Starts ``interintent`` with these arguments. Its standard error can be read from ``stderr``; ``stdin``
    and ``stdout`` are file descriptors. ``env`` is added to the environment of the tests.
    """
    environment = _clean({"PYTHONPATH": str(PROJECT), "COLUMNS": "200", "NO_COLOR": "1", **(env or {})})
    if sys.platform != "linux":
        return subprocess.Popen(
            [sys.executable, "-m", "app.cli", *arguments],
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
    global _mother
    if _mother is None:
        _mother = _Mother()
        atexit.register(_mother.stop)
    reads, writes = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        files = [nothing if one == subprocess.DEVNULL else one for one in (stdin, stdout)]
        link, pid = _mother.fork(arguments, cwd, environment, [*files, writes])
    except BaseException:
        os.close(reads)
        raise
    finally:
        os.close(writes)
        os.close(nothing)
    return Forked(link, pid, os.fdopen(reads, "r", encoding="utf-8"))


def run(
    arguments: Sequence[str], *, cwd: Path = PROJECT, env: Mapping[str, str] | None = None, given: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Runs ``interintent`` with these arguments to its end; ``given`` is its standard input."""
    with TemporaryFile("w+", encoding="utf-8", newline="") as into, TemporaryFile("w+b") as out:
        into.write(given)
        into.seek(0)
        process = start(arguments, cwd=cwd, env=env, stdin=into.fileno(), stdout=out.fileno())
        assert process.stderr is not None
        with process.stderr:
            said = process.stderr.read()
        status = process.wait(READY_S)
        out.seek(0)
        text = out.read().decode()
    return subprocess.CompletedProcess(list(arguments), status, text, said)


# --- the process that forks ----------------------------------------------------------------------


def _wait_and_fork(control: socket.socket) -> None:
    for name in FIRST:
        import_module(name)
    gc.collect()
    gc.freeze()
    links: dict[int, socket.socket] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    control.send(b"ready")
    while True:
        for ready in select.select([control, woken, *links.values()], [], [])[0]:
            if ready is control:
                wish, fds, _, _ = socket.recv_fds(control, 1 << 20, 4)
                if not wish:
                    for pid in links:
                        os.kill(pid, signal.SIGKILL)
                    return
                link = socket.socket(fileno=fds[0])
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    # Also where the tests run in the background of a shell, which has it ignored.
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                    for one in (control, link, *links.values()):
                        one.close()
                    os.close(woken)
                    os.close(wake)
                    _be(json.loads(wish), fds[1:])
                for fd in fds[1:]:
                    os.close(fd)
                links[pid] = link
                control.send(str(pid).encode())
            elif ready is woken:
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 4096)
                _bury(links)
            else:
                # Whoever started it has gone: nobody will stop it.
                for pid, link in links.items():
                    if link is ready:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                _bury(links, patiently=True)
                break


def _bury(links: dict[int, socket.socket], *, patiently: bool = False) -> None:
    for pid, link in list(links.items()):
        gone = bool(patiently and select.select([link], [], [], 0)[0])
        found, status = os.waitpid(pid, 0 if gone else os.WNOHANG)
        if found:
            del links[pid]
            with link, contextlib.suppress(BrokenPipeError):
                link.send(str(os.waitstatus_to_exitcode(status)).encode())


def _be(wish: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Becomes the command; does not return."""
    status = 1
    try:
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        for fd in streams:
            if fd > 2:
                os.close(fd)
        os.chdir(wish["cwd"])
        os.environ.clear()
        os.environ.update(wish["env"])
        sys.argv = ["interintent", *wish["arguments"]]
        from app.cli.main import main

        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as from_tests:
        _wait_and_fork(from_tests)
