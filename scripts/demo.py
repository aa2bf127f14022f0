"""Starts the service, plays a batch of games on it over HTTP, and shows the results.

make demo              and keeps serving
make demo ARGS=--exit  and stops after the table
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.tables import print_metrics
from engine.events import Event, read_event
from evaluators.ground.provenance import PROVENANCE
from evaluators.ground.thought_places import without_place
from evaluators.measures.play import PlayFigures

console = Console(highlight=False)
WAIT_S = 60


class Client:
    """Plain HTTP calls to one address, with the key from the environment if there is one."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        key = os.environ.get("INTERINTENT_API_KEY")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def send(self, method: str, path: str, body: Any = None) -> HTTPResponse:
        connection = HTTPConnection(*self._address, timeout=WAIT_S)
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, path, sent, {**self._headers, "Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status >= 400:
            raise SystemExit(f"{method} {path} answered {response.status}: {response.read().decode()}")
        return response

    def json(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self.send(method, path, body).read())

    def lines(self, path: str) -> Iterator[Any]:
        for line in self.send("GET", path):
            if line.strip():
                yield json.loads(line)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A free port, if possible not one that the system may give to the next connection of a program."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 20):
        if is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(client: Client, service: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        if service.poll() is not None:
            raise SystemExit(f"the service stopped with status {service.returncode}; its output is above")
        try:
            client.send("GET", "/readyz")
        except (OSError, SystemExit):
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"the service was not ready within {WAIT_S} s")


def follow(client: Client, batch: str, count: int) -> Any:
    """Shows the batch's progress until it is over and returns its last state."""
    view: Any = None
    with Progress(
        TextColumn("games"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    ) as bar:
        task = bar.add_task("games", total=count)
        for view in client.lines(f"/batches/{batch}/events?follow=true"):
            games = view["games"]
            bar.update(task, completed=games["finished"] + games["cancelled"] + games["failed"])
    return view


def measure(client: Client, batch: str) -> PlayFigures:
    """The paper's game metrics over the batch, from its export."""
    figures = PlayFigures()
    log: list[Event] = []
    game: str | None = None
    for line in client.lines(f"/batches/{batch}/export?view=full"):
        if line.get("type") == PROVENANCE:
            continue
        if line.get("game") != game:
            if log:
                figures.add(str(game), log)
            log, game = [], line.get("game")
        if game is not None:
            values = {k: v for k, v in line.items() if k not in ("seq", "at", "type", "game")}
            log.append(read_event(line["type"], without_place(line["type"], values)))
    return figures


def show_llm_game(client: Client) -> None:
    """One game of language-model seats, every answer by the fake model; and what it took."""
    order = {"seats": [{"agent": "llm", "model": "fake"}], "labels": {"experiment": "demo, fake model"}}
    created = client.json("POST", "/games", order)
    *_, view = client.lines(f"/batches/{created['batch_id']}/events?follow=true")
    if view["status"] != "done":
        raise SystemExit("the game of language-model seats did not end; the service's output is above")
    used = client.json("GET", f"/batches/{created['batch_id']}")["models"][0]
    cached = 100 * used["cached_tokens"] / used["prompt_tokens"]
    console.print(
        f"\none game of llm seats, mechanism paper, answered by a fake model (a test instrument): "
        f"{next(iter(view['winners']))} wins after {used['calls']} calls, "
        f"{used['prompt_tokens']:,} prompt tokens ({cached:.0f} % cached), "
        f"{used['completion_tokens']:,} completion tokens",
        soft_wrap=True,
    )


def start(*words: str, **more: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", *words],
        env={**os.environ, **more},
        # Ctrl-C reaches them through us, once.
        start_new_session=True,
    )
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def stop_like_ctrl_c() -> None:
    """SIGTERM, and SIGHUP of a closed terminal, stop the demo as Ctrl-C does. nohup still works."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def show_where_to_look(url: str, batch: str, game: str) -> None:
    socket_url = url.replace("http", "ws", 1)
    here = Path(sys.executable).parent
    console.print(
        f"""
[bold]Where to look[/]
  the games at a table, in a browser {url}/ui/
  the routes, to try in a browser   {url}/docs
  one more game                     curl -X POST {url}/games -d '{{}}'
  this batch                        curl {url}/batches/{batch}
  one game, as everybody saw it     curl '{url}/games/{game}/events?viewer=public'
  the same with every thought       curl {url}/games/{game}/events
  as a playthrough                  curl -s {url}/games/{game}/events | {here}/interintent replay show -
  live, over WebSocket              (echo '{{"t":"identify","v":1,"game":"{game}"}}'; sleep 2) | \\
                                      {here}/python -m websockets {socket_url}/ws
  metrics for Prometheus            curl {url}/metrics
""",
        soft_wrap=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--exit", action="store_true", help="stop after the table")
    parser.add_argument("--games", type=int, default=20, help="games in the batch (20)")
    parser.add_argument("--port", type=int, default=8000, help="port; a free one when it is taken (8000)")
    arguments = parser.parse_args()
    port = arguments.port if is_free(arguments.port) else free_port()
    if port != arguments.port:
        console.print(f"port {arguments.port} is taken, serving on {port}")
    own_models = bool(os.environ.get("INTERINTENT_MODELS") or os.environ.get("INTERINTENT_MODELS_FILE"))
    fake_port = free_port()
    endpoint = {"fake": {"base_url": f"http://127.0.0.1:{fake_port}/v1", "model": "fake"}}
    models = {} if own_models else {"INTERINTENT_MODELS": json.dumps(endpoint)}
    stop_like_ctrl_c()
    started = []
    try:
        started.append(
            start("fake-model", "--brain", "sensible", "--host", "127.0.0.1", "--port", str(fake_port))
        )
        service = start("serve", "--host", "127.0.0.1", "--port", str(port), **models)
        started.append(service)
        client = Client("127.0.0.1", port)
        wait_until_ready(client, service)
        created = client.json("POST", "/games", {"count": arguments.games, "labels": {"experiment": "demo"}})
        batch, game = created["batch_id"], created["games"][0]["game_id"]
        view = follow(client, batch, arguments.games)
        if view["status"] != "done":
            raise SystemExit(f"the batch ended as {view['status']}: {view['games']}")
        title = f"{arguments.games} games of scripted seats, profile interintent"
        print_metrics(measure(client, batch), f"{title} ({view['games_per_second']:.0f} games/s)", console)
        if not own_models:
            show_llm_game(client)
        show_where_to_look(f"http://localhost:{port}", batch, game)
        if not arguments.exit:
            console.print("serving until Ctrl-C")
            service.wait()
    except KeyboardInterrupt:
        console.print("stopping")
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(WAIT_S)


if __name__ == "__main__":
    main()
