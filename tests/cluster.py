"""The topology of `deploy/` as plain processes on this machine (`make cluster`).

PostgreSQL, two APIs, workers, nginx with TLS in front, and Prometheus: with the very files of `deploy/`, but
for addresses and paths. Everything is in one temporary directory and listens on 127.0.0.1.
"""

import argparse
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from rich.console import Console

from tests.ports import steady_port
from tests.postgres import PostgresServer

__all__ = ["DEPLOY", "Cluster", "MissingProgram", "nginx_files", "program", "prometheus_files"]

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"

WITHIN_S = 400
ANSWERS_S = 100
STOPS_S = 100

_HERE = {
    "user nginx;": "daemon off;",
    "worker_processes auto;": "worker_processes 1;",
    "worker_rlimit_nofile 65536;\n": "",
    "error_log /dev/stderr": "error_log stderr",
    "pid /run": "pid {folder}",
    "include /etc/nginx/conf.d/*.conf;": "include {folder}/interintent.conf;\n"
    + "\n".join(f"{part}_temp_path {{folder}}/{part};" for part in ("client_body", "proxy", "fastcgi"))
    + "\nuwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;",
}
"""What is otherwise in nginx's main file, on a machine whose user may be anybody."""


class MissingProgram(RuntimeError):
    """A program of the system is not installed; the message says what to do."""


def program(name: str) -> str:
    """The path of a program of the system. Raises MissingProgram."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        raise MissingProgram(f"{name} is not installed: run scripts/machine")
    return found


def make_certificate(folder: Path) -> None:
    """Writes a certificate for this machine, valid for a month, and its key."""
    subprocess.run(
        [
            *(program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "30", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")),
        ],
        check=True,
        capture_output=True,
    )


def nginx_files(folder: Path, apis: Sequence[str], https_port: int, http_port: int) -> Path:
    """Writes what nginx needs for deploy/nginx into the folder. Returns its main file."""
    make_certificate(folder)
    values = {
        "API_1": apis[0],
        "API_2": apis[1],
        "HTTP_PORT": f"127.0.0.1:{http_port}",
        "HTTPS_PORT": f"127.0.0.1:{https_port}",
        "HTTPS_SUFFIX": f":{https_port}",
        "SERVER_NAME": "localhost",
        "TLS_CERTIFICATE": str(folder / "fullchain.pem"),
        "TLS_KEY": str(folder / "privkey.pem"),
        "ACCESS_LOG": str(folder / "access.log"),
    }
    template = (DEPLOY / "nginx" / "interintent.conf.template").read_text("utf-8")
    # What is filled in is named `${...}`; as in the image, nginx's own variables stay.
    filled = re.sub(r"\$\{([A-Z0-9_]+)\}", lambda found: values[found[1]], template)
    (folder / "interintent.conf").write_text(filled)
    text = (DEPLOY / "nginx" / "nginx.conf").read_text("utf-8")
    for theirs, ours in _HERE.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours.format(folder=folder))
    main = folder / "nginx.conf"
    main.write_text(f"user root;\n{text}" if os.geteuid() == 0 else text)
    return main


def prometheus_files(folder: Path, key: str, apis: Sequence[str], workers: Sequence[str]) -> Path:
    """Writes what Prometheus needs of deploy/prometheus into the folder. Returns its main file."""
    for name in ("prometheus.yml", "alerts.yml"):
        shutil.copy(DEPLOY / "prometheus" / name, folder / name)
    for name, targets in (("api", apis), ("worker", workers)):
        (folder / f"targets-{name}.yml").write_text(json.dumps([{"targets": list(targets)}]))
    (folder / "metrics.key").write_text(key)
    return folder / "prometheus.yml"


class Cluster:
    """A running cluster, inside ``with``."""

    def __init__(
        self,
        *,
        workers: int = 4,
        models_file: Path | None = None,
        https_port: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``https_port``: 0 takes a free one. ``settings``: environment variables of our processes."""
        self.key = token_urlsafe(36)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By name: api-1, worker-1, nginx, …"""
        self.addresses: dict[str, str] = {}
        """Where each process of ours answers its probes, by name."""
        self._commands: dict[str, Sequence[str]] = {}
        self._workers = workers
        self._models_file = models_file
        self._more = settings or {}
        self._https_port = https_port or steady_port()
        self._cleanup = ExitStack()
        self._over = False
        # Whoever gives up in the middle of a restart stops the cluster in another thread than the restart's.
        self._changing = Lock()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for name in ("nginx", "prometheus", "openssl"):
                program(name)
            self.folder = Path(tempfile.mkdtemp(prefix="interintent-cluster-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.postgres = stack.enter_context(PostgresServer())
            stack.callback(self._stop)
            self.database_url = self.postgres.create_database()
            self._environment = self._settings(self.database_url)
            apis = [f"127.0.0.1:{steady_port()}" for _ in range(2)]
            workers = [f"127.0.0.1:{steady_port()}" for _ in range(self._workers)]
            for number, address in enumerate(apis, 1):
                port = address.partition(":")[2]
                self.addresses[f"api-{number}"] = address
                self._start(f"api-{number}", self._interintent("serve", "--no-runner", "--port", port))
            for number, address in enumerate(workers, 1):
                self.addresses[f"worker-{number}"] = address
                self._start(f"worker-{number}", self._worker(address))
            plain_port = steady_port()
            self.plain = f"http://127.0.0.1:{plain_port}"
            main = nginx_files(self.folder, apis, self._https_port, plain_port)
            self._start("nginx", [program("nginx"), "-p", str(self.folder), "-c", str(main)])
            watched = prometheus_files(self.folder, self.key, apis, workers)
            self.prometheus = f"http://127.0.0.1:{steady_port()}"
            self._start(
                "prometheus",
                [
                    program("prometheus"),
                    f"--config.file={watched}",
                    f"--storage.tsdb.path={self.folder / 'metrics'}",
                    f"--web.listen-address={self.prometheus.removeprefix('http://')}",
                    "--log.level=warn",
                ],
            )
            self.url = f"https://localhost:{self._https_port}"
            self.tls = ssl.create_default_context(cafile=str(self.folder / "fullchain.pem"))
            self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=self.tls))
            self._until(lambda: self.get("/readyz")["status"] == "ready", "the service")
            self._until(lambda: self.ask("up") is not None, "Prometheus")
            self._cleanup = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the service, through nginx. Raises HTTPError, URLError and OSError."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=ANSWERS_S) as answer:
                return json.loads(answer.read())
        except HTTPError as refusal:
            refusal.close()
            raise

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def played(self, **new: Any) -> Any:
        """Creates a batch, waits until it is over, and returns it."""
        batch = self.call("POST", "/games", new)["batch_id"]

        def over() -> bool:
            status: str = self.get(f"/batches/{batch}")["status"]
            return status in ("done", "cancelled", "suspended")

        self._until(over, f"batch {batch}")
        return self.get(f"/batches/{batch}")

    def ask(self, query: str) -> list[Any]:
        """What Prometheus answers to a query: its series."""
        request = Request(f"{self.prometheus}/api/v1/query", urlencode({"query": query}).encode())
        try:
            with self._opener.open(request, timeout=ANSWERS_S) as answer:
                found: list[Any] = json.loads(answer.read())["data"]["result"]
                return found
        except HTTPError as refusal:
            refusal.close()
            raise

    def kill(self, name: str) -> None:
        """Ends a process at once (SIGKILL)."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def restart(self, name: str) -> None:
        """Stops a process of ours as its supervisor does (SIGTERM), starts it again, and waits until it is
        ready. Raises RuntimeError if it did not end well.
        """
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        # uvicorn ends by the signal that stopped it.
        if (status := process.wait(STOPS_S)) not in (0, -signal.SIGTERM):
            raise RuntimeError(f"{name} has ended with {status}:\n{self.said(name)[-2000:]}")
        self._start(name, self._commands[name])
        self._until(lambda: self._is_ready(name), name)

    def _is_ready(self, name: str) -> bool:
        with build_opener(ProxyHandler({})).open(
            f"http://{self.addresses[name]}/readyz", timeout=ANSWERS_S
        ) as answer:
            return bool(json.loads(answer.read())["status"] == "ready")

    def said(self, name: str) -> str:
        """What a process has written so far."""
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def _settings(self, database_url: str) -> Mapping[str, str]:
        ours = {
            name: value for name, value in os.environ.items() if not name.startswith(("INTERINTENT_", "PG"))
        }
        ours |= {"DATABASE_URL": database_url, "INTERINTENT_API_KEY": self.key}
        if self._models_file is not None:
            ours["INTERINTENT_MODELS_FILE"] = str(self._models_file)
        return ours | self._more

    def _interintent(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "app.cli", *arguments]

    def _worker(self, address: str) -> list[str]:
        port = address.partition(":")[2]
        return self._interintent("work", "--drain", "10", "--metrics-port", port)

    def _start(self, name: str, command: Sequence[str]) -> None:
        self._commands[name] = command
        with self._changing, (self.folder / f"{name}.log").open("ab") as log:
            if self._over:
                raise RuntimeError(f"{name} is not started: the cluster is being stopped")
            self.processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={**self._environment},
                # Ctrl-C is ours: they are stopped in their order.
                start_new_session=True,
            )

    def _until(self, holds: Any, what: str) -> None:
        ends = time.monotonic() + WITHIN_S
        while True:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise RuntimeError(
                        f"{name} has ended with {process.returncode}:\n{self.said(name)[-2000:]}"
                    )
            with suppress(HTTPError, URLError, OSError):
                if holds():
                    return
            if time.monotonic() > ends:
                raise RuntimeError(f"{what} did not answer as hoped within {WITHIN_S} s")
            time.sleep(0.1)

    def _stop(self) -> None:
        with self._changing:
            self._over = True
            running = [*self.processes.values()]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(STOPS_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> None:
    """Runs a cluster until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="make cluster ARGS=…", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workers", type=int, default=4, help="how many workers (4)")
    parser.add_argument(
        "--port", type=int, default=8443, help="nginx listens on https://localhost:PORT (8443)"
    )
    parser.add_argument("--models-file", type=Path, help="model endpoints as TOML (docs/operating.md)")
    parser.add_argument("--exit", action="store_true", help="play 40 games of scripts and stop")
    options = parser.parse_args()
    models = options.models_file and options.models_file.resolve()
    console = Console(highlight=False, soft_wrap=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Cluster(workers=options.workers, models_file=models, https_port=options.port) as cluster:
            console.print(f"service:     {cluster.url}")
            console.print(f"key:         {cluster.key}")
            console.print(f"certificate: {cluster.folder / 'fullchain.pem'}")
            console.print(f"Prometheus:  {cluster.prometheus}")
            console.print(f"logs:        {cluster.folder}/*.log")
            if options.exit:
                batch = cluster.played(count=40)
                console.print(f"batch {batch['batch_id']}: {batch['games']['finished']} games finished")
            else:
                signal.pause()
    except MissingProgram as fault:
        sys.exit(f"cluster: {fault}")
    except KeyboardInterrupt:
        console.print("stopped")


if __name__ == "__main__":
    main()
