"""Rows of watchers: live events to many sockets, append to delivery, idle sockets, reconnects, resuming.

``python -m bench.watchers`` prints them all (about five minutes on two idle cores), ``python -m
bench.watchers delivery idle`` some of them; ``--database-url postgresql://…`` uses that empty database
instead of SQLite. The service and the baseline run in processes of their own, the sockets are held by this
one; everything stays on 127.0.0.1.

An event counts once for every socket that got it, and a round ends when every socket has exactly all of them.
The service may send several events in a frame when it is behind its log; the baseline sends one per frame. So
the CPU per frame, which does not depend on that, is shown too.
"""

import argparse
import contextlib
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, Final

from bench.errands import Helper
from bench.onlookers import Crowd, Onlooker, identify
from bench.row import Row
from bench.steps import public_events

__all__ = ["PARTS", "TooFewFiles", "watcher_rows"]

ROUNDS: Final = 3
WITHIN_S: Final = 120.0
"""Seconds; no wait of any part is longer."""

SPARE_FILES: Final = 200
"""Files a process has open beside its sockets."""


class TooFewFiles(Exception):
    """The limit of open files is too low; the message says what to do."""


def allow_files(sockets: int) -> None:
    """Raises this process's limit of open files as far as needed, for processes started later, too.

    Raises TooFewFiles if the hard limit is lower.
    """
    needed = sockets + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise TooFewFiles(
            f"{sockets:,} sockets take {needed:,} open files, and the hard limit here is {hard:,}: raise it "
            f"(ulimit -Hn {needed} as root) or ask for fewer with --most"
        )
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Fed:
    """The service under test, seen from outside."""

    def __init__(self, helper: Helper) -> None:
        self.helper = helper
        self.port = helper.port

    def call(self, method: str, path: str, body: Any = None) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text[:200]!r}")
        return text

    def games(self, count: int) -> list[str]:
        """New games that nobody drives."""
        found: list[str] = []
        while len(found) < count:
            order = {
                "count": min(100, count - len(found)),
                "drive": "manual",
                "seats": [{"agent": "scripted"}],
            }
            found += [game["game_id"] for game in json.loads(self.call("POST", "/games", order))["games"]]
        return found

    def head(self, game: str) -> int:
        """Events that a spectator has been shown so far."""
        return self.call("GET", f"/games/{game}/events?viewer=public").count(b'{"seq":')

    def metric(self, name: str) -> float:
        """A counter or gauge without labels."""
        text = self.call("GET", "/metrics").decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.split(" ")[0] == name)


@contextlib.contextmanager
def fed_service(database_url: str | None) -> Iterator[Fed]:
    """The service while the block lasts, on an empty SQLite file unless a database is given."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Helper("bench.fed_service", [database_url or f"sqlite:///{folder}/bench.db"]) as helper,
    ):
        yield Fed(helper)


# --- live events ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Round:
    """The cost of sending events to sockets."""

    seconds: float
    cpu_s: float
    """Of the server."""
    events: int
    """Delivered, over all sockets."""
    frames: int

    @property
    def speed(self) -> float:
        return self.events / self.seconds

    @property
    def us_a_frame(self) -> float:
        return self.cpu_s / self.frames * 1e6

    @property
    def us_an_event(self) -> float:
        return self.cpu_s / self.events * 1e6


def measured(helper: Helper, crowd: Crowd, members: Sequence[Onlooker], more: int, **errand: Any) -> Round:
    """Runs one errand until each member has received ``more`` further events."""
    wanted = members[0].events + more
    frames = sum(one.frames for one in members)
    used, started = helper.cpu_s(), time.monotonic()
    helper.tell(**errand)
    crowd.until_events(wanted, WITHIN_S, members)
    seconds = time.monotonic() - started
    helper.answer()
    spent = helper.cpu_s() - used
    return Round(seconds, spent, more * len(members), sum(one.frames for one in members) - frames)


def delivery(fed: Fed, bare: Helper, games: int, watchers: int, appends: int, label: str) -> list[Row]:
    """Speed of live events, appended as fast as the log takes them, beside the bare broadcast."""
    more = public_events(appends)
    ids = fed.games(games)
    head = fed.head(ids[0])
    ours, theirs = [], []
    with contextlib.closing(Crowd()) as crowd:
        members = crowd.join(fed.port, [("/ws", identify(ids[n % games])) for n in range(watchers)])
        crowd.until_events(head, WITHIN_S, members)
        others = crowd.join(bare.port, [(f"/{n % games}", b"") for n in range(watchers)])
        for _ in range(ROUNDS):
            ours.append(measured(fed.helper, crowd, members, more, games=ids, appends=appends))
            theirs.append(measured(bare, crowd, others, more, groups=games, events=more))
    speed, bare_speed = (statistics.median(one.speed for one in rounds) for rounds in (ours, theirs))
    cost, bare_cost = (statistics.median(one.us_a_frame for one in rounds) for rounds in (ours, theirs))
    an_event, bare_event = (statistics.median(one.us_an_event for one in rounds) for rounds in (ours, theirs))
    page = sum(one.events for one in ours) / sum(one.frames for one in ours)
    where = f"{watchers:,} watchers of {'one game' if games == 1 else f'{games} games'}"
    return [
        Row(
            f"live events to {where}{label}",
            speed,
            "events/s",
            f"bare {bare_speed:,.0f}",
            speed / bare_speed,
            "0.5" if games == 1 else "",
        ),
        Row(
            f"    server CPU per frame ({page:.1f} events; appends included)",
            cost,
            "µs",
            f"bare {bare_cost:.1f}, an event {an_event:.1f} / {bare_event:.1f}",
            bare_cost / cost,
        ),
    ]


DELIVERIES: Final = (
    # games, watchers, appends to each game a round
    (1, 100, 600),
    (1, 1_000, 120),
    (1, 5_000, 40),
    (100, 100, 8),
    (100, 1_000, 8),
    (100, 5_000, 8),
)


def delivery_rows(scale: float, most: int, database_url: str | None) -> list[Row]:
    rows: list[Row] = []
    longest = public_events(max(appends for _, _, appends in DELIVERIES))
    with fed_service(database_url) as fed, Helper("bench.broadcast", [str(longest)]) as bare:
        for games, watchers, appends in DELIVERIES:
            if watchers <= most:
                rows += delivery(
                    fed, bare, games, watchers, max(4, int(appends * scale)), _label(database_url)
                )
    return rows


def _label(database_url: str | None) -> str:
    return "" if database_url is None else f", {database_url.partition(':')[0]}"


# --- append to delivery ---------------------------------------------------------------------------


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed, to the nearest rank."""
    return sorted(values)[max(0, round(share * len(values)) - 1)]


def latency_rows(scale: float, most: int, database_url: str | None) -> list[Row]:
    """Rows of the time from handing a step to the journal to each client's read; it includes the commit."""
    rows: list[Row] = []
    games, watchers = 200, min(1_000, most)
    with fed_service(database_url) as fed:
        for rate in (100, 400):
            ids = fed.games(games)
            head = fed.head(ids[0])
            with contextlib.closing(Crowd()) as crowd:
                members = crowd.join(
                    fed.port, [("/ws", identify(ids[n % games], head)) for n in range(watchers)], timed=True
                )
                seconds = max(2.0, 15 * scale)
                used = fed.helper.cpu_s()
                fed.helper.tell(games=ids, rate=rate, seconds=seconds)
                give_up = time.monotonic() + seconds + 1
                while time.monotonic() < give_up:
                    crowd.turn(0.02)
                spent = fed.helper.cpu_s() - used
                answer = fed.helper.answer()
                for n, one in enumerate(members):
                    crowd.until_events(len(answer["handed"][ids[n % games]]), WITHIN_S, [one])
            waits = [
                came - handed
                for n, one in enumerate(members)
                for came, handed in zip(one.times or (), answer["handed"][ids[n % games]], strict=True)
            ]
            rows += latency_of(
                waits, answer["committed"], rate, seconds, spent, f"{watchers:,}", _label(database_url)
            )
    return rows


def latency_of(
    waits: Sequence[float],
    committed: Sequence[float],
    rate: int,
    seconds: float,
    spent: float,
    watchers: str,
    label: str,
) -> list[Row]:
    what = f"append to delivery, 200 games, {watchers} watchers, {rate} appends/s{label}"
    beside = (
        f"{len(waits) / seconds:,.0f} deliveries/s; commit {percentile(committed, 0.5) * 1000:.1f} / "
        f"{percentile(committed, 0.99) * 1000:.1f}; CPU {spent / seconds:.0%}"
    )
    return [
        Row(f"{what}, p50", percentile(waits, 0.5) * 1000, "ms", beside),
        Row("    p99", percentile(waits, 0.99) * 1000, "ms", aim="50 ms"),
    ]


# --- idle sockets ---------------------------------------------------------------------------------


def idle_rows(scale: float, most: int, database_url: str | None) -> list[Row]:
    """Memory of sockets that watch and get nothing, and whether others are still served among them."""
    rows: list[Row] = []
    with fed_service(database_url) as fed:
        ids = fed.games(100)
        head = fed.head(ids[0])
        fed.call("POST", "/games", {})
        before = fed.helper.rss()
        with contextlib.closing(Crowd()) as crowd:
            for count in (int(scale * whole) for whole in (1_000, 5_000, 10_000)):
                if count > most:
                    break
                more = count - len(crowd.members)
                joined = crowd.join(fed.port, [("/ws", identify(ids[n % len(ids)])) for n in range(more)])
                crowd.until_events(head, WITHIN_S, joined)
                rows.append(
                    Row(
                        f"memory per idle socket, {count:,} sockets{_label(database_url)}",
                        (fed.helper.rss() - before) / count / 1024,
                        "KiB",
                        f"service {before / 2**20:.0f} MiB before",
                    )
                )
            count = len(crowd.members)
            started = time.monotonic()
            batch = json.loads(fed.call("POST", "/games", {}))["batch_id"]
            fed.call("GET", f"/batches/{batch}/events?follow=true")
            rows.append(
                Row(
                    f"    a game played and followed beside {count:,} of them",
                    time.monotonic() - started,
                    "s",
                )
            )
            assert len(crowd.members) == count, "idle sockets were closed"
        first = fed.helper.rss()
        give_up = time.monotonic() + WITHIN_S
        while fed.metric("interintent_sockets_open") > 0:
            assert time.monotonic() < give_up, "sockets are left over"
            time.sleep(0.1)
        with contextlib.closing(Crowd()) as crowd:
            crowd.join(fed.port, [("/ws", identify(ids[n % len(ids)])) for n in range(count)])
            again = fed.helper.rss()
        beside = f"{first / 2**20:.0f} MiB the first time"
        what = f"    memory of the service with {count:,} of them, the second time"
        rows.append(Row(what, again / 2**20, "MiB", beside, again / first))
    return rows


# --- coming back ----------------------------------------------------------------------------------


def reconnect_rows(scale: float, most: int, database_url: str | None) -> list[Row]:
    """Sockets that reconnect all at once, each at its own position, about 450 events behind."""
    count = min(most, max(50, int(1_000 * scale)))
    games = min(100, count)
    took, used = [], []
    with fed_service(database_url) as fed:
        ids = fed.games(games)
        start = fed.head(ids[0])
        appends = 380
        fed.helper.ask(games=ids, appends=appends)
        head = start + public_events(appends)
        rnd = random.Random(1)
        for _ in range(ROUNDS):
            with contextlib.closing(Crowd()) as crowd:
                # Cut where they were live, so that the server has their ends to clear away as well.
                crowd.join(fed.port, [("/ws", identify(ids[n % games], head)) for n in range(count)])
                crowd.leave()
                afters = [head - 450 + rnd.randrange(-20, 21) for _ in range(count)]
                spent, started = fed.helper.cpu_s(), time.monotonic()
                members = crowd.join(
                    fed.port,
                    [("/ws", identify(ids[n % games], after)) for n, after in enumerate(afters)],
                    at_once=count,
                )
                for one, after in zip(members, afters, strict=True):
                    crowd.until_events(head - after, WITHIN_S, [one])
                took.append(time.monotonic() - started)
                used.append(fed.helper.cpu_s() - spent)
    cpu = statistics.median(used)
    return [
        Row(
            f"{count:,} reconnects at once, 450 events behind each, {games} games{_label(database_url)}",
            statistics.median(took),
            "s",
            f"server CPU {cpu:.1f} s",
            aim="10 s",
        )
    ]


def resume_rows(scale: float, most: int, database_url: str | None) -> list[Row]:
    """One socket, from its connect to the thousandth event."""
    took = []
    with fed_service(database_url) as fed:
        (game,) = fed.games(1)
        start = fed.head(game)
        appends = next(n for n in range(1, 2_000) if public_events(n) >= 1_000)
        fed.helper.ask(games=[game], appends=appends)
        head = start + public_events(appends)
        for _ in range(max(3, int(20 * scale))):
            with contextlib.closing(Crowd()) as crowd:
                started = time.monotonic()
                members = crowd.join(fed.port, [("/ws", identify(game, head - 1_000))])
                crowd.until_events(1_000, WITHIN_S, members)
                took.append(time.monotonic() - started)
    return [
        Row(
            f"resuming 1,000 events, median{_label(database_url)}",
            statistics.median(took) * 1000,
            "ms",
            f"longest of {len(took)}: {max(took) * 1000:.0f}",
            aim="200 ms",
        )
    ]


PARTS: Final[dict[str, Callable[[float, int, str | None], list[Row]]]] = {
    "delivery": delivery_rows,
    "latency": latency_rows,
    "idle": idle_rows,
    "reconnect": reconnect_rows,
    "resume": resume_rows,
}


def watcher_rows(
    scale: float, parts: Sequence[str] = tuple(PARTS), most: int = 10_000, *, database_url: str | None = None
) -> list[Row]:
    """The rows of these parts. Raises TooFewFiles before anything is started."""
    # In the delivery part this process holds two crowds of 5,000, each server one.
    allow_files(most)
    return [row for part in parts for row in PARTS[part](scale, most, database_url)]


def main() -> None:
    from bench.__main__ import show

    parser = argparse.ArgumentParser(
        prog="bench.watchers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all of them by default"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    parser.add_argument("--most", type=int, default=10_000, help="sockets at once, at most (10,000)")
    parser.add_argument("--database-url", help="an empty PostgreSQL database; left out: an SQLite file")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    try:
        rows = watcher_rows(
            0.1 if arguments.quick else 1.0,
            arguments.parts or tuple(PARTS),
            arguments.most,
            database_url=arguments.database_url,
        )
    except TooFewFiles as fault:
        sys.exit(f"bench.watchers: {fault}")
    show(rows)


if __name__ == "__main__":
    main()
