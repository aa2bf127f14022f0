"""Batches of one service, each with a faulty endpoint of its own."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal
from unittest.mock import patch

from structlog.testing import capture_logs

from agents.model.capability import PROBES
from app.instruments.fake_model import FakeModel, FakeOptions, Fault, noise
from app.models import health
from app.store.call import Call
from engine.events import ActionDefaulted, GameEnded
from engine.state import fold
from tests.app.calling import Caller, Line, calling, read_log, read_ndjson
from tests.faults.groups import DIRECT, GROUPS, RULES_ALONE, WAITED_FOR, Group

__all__ = ["Shown", "Trial", "shown", "table", "trials"]

WITHIN_S: Final = 3_600.0
"""The seconds for all batches of a run, in one process."""

TOLD_EVERY_S: Final = 10.0

Delay = Literal["outage", "stop"]
"""Why a batch did not go on by itself: it waited for its endpoint, or it was suspended or failed."""

SLACK_S: Final = 60.0
"""Seconds that a call may take beyond its ``total_s``: enough for a slow machine, not for a call that hangs.
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """Games with one fault."""

    name: str
    group: Group
    fault: str
    rate: float
    games: int


@dataclass(frozen=True, slots=True)
class Shown:
    """The results of a trial."""

    trial: Trial
    requests: int
    """Over all seats of all games."""
    defaulted: int
    calls: int
    http_calls: int
    tokens: int


def trials(games: int, *, brief: bool = False) -> Iterator[Trial]:
    """Trials of every fault: it always happens in half of the games, and sometimes in the other half.

    ``brief``: games without talk, whatever the fault.
    """
    for title, group in GROUPS.items():
        if brief:
            group = replace(group, game=RULES_ALONE, seat=DIRECT)
        for fault in group.faults:
            yield Trial(title, group, fault, 1.0, games - games // 2)
            if games > 1:
                yield Trial(title, group, fault, 0.3, games // 2)


def _silent(_: str) -> None: ...


async def shown(url: str, wanted: Sequence[Trial], tell: Callable[[str], None] = _silent) -> list[Shown]:
    """Plays the trials in one service and checks each. ``url`` names an empty database. ``tell`` is called
    with a line for each trial that is over, and while it takes long.
    """
    async with contextlib.AsyncExitStack() as stack:
        # Nobody waits for long: neither by the pauses nor because a fault asks for an hour.
        stack.enter_context(
            patch.multiple(health, FIRST_PAUSE_S=0.2, LONGEST_PAUSE_S=0.5, LONGEST_ASKED_S=0.5)
        )
        # In this process the log is collected as it is written; a trial stands for its endpoint by number.
        logged = stack.enter_context(capture_logs())
        others = stack.enter_context(_standard_log())
        fakes = [await stack.enter_async_context(_faulty(trial)) for trial in wanted]
        models = {
            f"m{i}": {"base_url": f"{fake.url}/v1", "model": "fake", **trial.group.endpoint}
            for i, (trial, fake) in enumerate(zip(wanted, fakes, strict=True))
        }
        caller = await stack.enter_async_context(calling(url, models=models))
        batches = []
        for i, trial in enumerate(wanted):
            seats = [{"agent": "llm", "model": f"m{i}", **trial.group.seat}]
            wish = {"seats": seats, "count": trial.games, "seeds": {"from": 100}, **trial.group.game}
            batches.append((await caller.create(**wish, on_unusable="default"))[0])
            tell(f"{i + 1:>3} of {len(wanted)}  {trial.fault} at {trial.rate}: {trial.games} games begin")
        found: list[Shown] = []
        for batch, trial, fake in zip(batches, wanted, fakes, strict=True):
            place = f"{len(found) + 1:>3} of {len(wanted)}  {trial.fault} at {trial.rate}"
            delays = await _over(caller, batch, fake, lambda words, place=place: tell(f"{place}: {words}"))  # type: ignore[misc]
            found.append(await _checked(caller, batch, trial, fake, delays))
            one = found[-1]
            tell(
                f"{place}: {trial.games} games, {one.requests} requests, {one.defaulted} by default"
                f"{', after '.join(['', *sorted(delays)])}"
            )
        broken = [one for one in logged if one["log_level"] in ("error", "critical")]
        assert not broken, broken[:3]
        assert not others, others[:3]
    return found


async def _over(caller: Caller, batch: str, fake: FakeModel, tell: Callable[[str], None]) -> set[Delay]:
    """Waits until the batch is over. Returns whether it waited for its endpoint, and whether it was suspended
    or failed; in these cases the faults are switched off, and the batch goes on.
    """
    delays: set[Delay] = set()
    told = asyncio.get_running_loop().time()
    async with asyncio.timeout(WITHIN_S):
        while True:
            view = (await caller.get(f"/batches/{batch}")).json()
            if view["status"] in ("suspended", "failed") and "stop" not in delays:
                delays.add("stop")
                fake.faults = ()
                # Games with many defaults are what this run is about: none is played anew.
                await caller.post(f"/batches/{batch}/retry", json={"exclude_above": 1})
                continue
            if view["status"] not in ("queued", "running"):
                return delays
            if view["waiting"]:
                delays.add("outage")
                fake.faults = ()
            if asyncio.get_running_loop().time() - told >= TOLD_EVERY_S:
                told = asyncio.get_running_loop().time()
                tell(f"{view['games']['finished']} of {view['count']} games are over")
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _faulty(trial: Trial) -> AsyncIterator[FakeModel]:
    options = FakeOptions(brain=noise(1), faults=(Fault(trial.fault, trial.rate),), seed=3)
    async with FakeModel(options).serving() as fake:
        yield fake


@contextlib.contextmanager
def _standard_log() -> Iterator[list[str]]:
    """Records of the standard library's log from warnings up, such as tasks that failed unnoticed."""
    lines: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Collecting(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)


async def _checked(
    caller: Caller, batch: str, trial: Trial, fake: FakeModel, delays: Collection[Delay]
) -> Shown:
    where = f"{trial.fault} at {trial.rate}"
    view = (await caller.get(f"/batches/{batch}")).json()
    assert view["games"]["finished"] == trial.games, (where, view["games"])
    games = await caller.services.store.ids(batch)
    kept = [await caller.services.models.calls.of_game(game) for game in games]
    stored = [call for calls in kept for call in calls.values()]
    # Whether a request finds its connection closed is a matter of moments.
    if trial.rate == 1.0 and trial.fault != "stale_connection":
        assert bool(delays) == (trial.fault in WAITED_FOR), where
    if not delays:
        _check_bounds(where, trial, stored)
    _check_account(where, view, stored, fake, delays)
    by_game: dict[str, list[Line]] = {}
    export = await caller.get(f"/batches/{batch}/export", params={"view": "full"})
    for line in read_ndjson(export.content):
        if "seq" in line:
            by_game.setdefault(line["game"], []).append(line)
    calls: dict[str, list[Call]] = {}
    async for game, call in caller.services.models.calls.of_batch(batch):
        if isinstance(call, Call) and call.key.attempt > 0:
            calls.setdefault(game.game_id, []).append(call)
    requests = defaulted = 0
    for name, lines in by_game.items():
        asked, defaults = _check_game(where, lines, calls[name])
        requests += asked
        defaulted += defaults
    if trial.fault in WAITED_FOR | {"stale_connection"} or (trial.group.read and trial.rate == 1.0):
        assert not defaulted, where
    http_calls = sum(call.http_calls for call in stored)
    return Shown(trial, requests, defaulted, len(stored), http_calls, view["tokens"])


def _check_bounds(where: str, trial: Trial, stored: Sequence[Call]) -> None:
    """Checks the number of attempts and the time."""
    attempts = trial.group.endpoint.get("attempts", 4)
    total_s = trial.group.endpoint.get("total_s", 180.0)
    for call in stored:
        assert 0 < call.http_calls <= attempts + PROBES or call.failure == "rate_limited", (where, call)
        assert call.latency_s <= total_s + SLACK_S, (where, call)


def _check_account(
    where: str, view: Line, stored: Sequence[Call], fake: FakeModel, delays: Collection[Delay]
) -> None:
    """Checks that the batch's figures are the sums of what is stored, and not less than what was served."""
    tokens = sum(call.usage.prompt + call.usage.completion for call in stored)
    assert view["tokens"] == tokens, where
    (model,) = view["models"]
    assert model["calls"] == len(stored), where
    unanswered = [(call.key, call.failure, call.http_calls) for call in stored if call.text is None]
    assert model["failed"] == len(unanswered), (where, model["failed"], unanswered)
    sent = sum(call.http_calls for call in stored)
    # A refused connection reaches nobody. Everything else that arrived is in some call's count, except a call
    # that stopped its game and cost nothing.
    if "stop" not in delays:
        assert fake.counts.calls <= sent, where
    # What a failed request cost nobody knows.
    if all(call.usage.known for call in stored) and not delays:
        assert sum(call.usage.prompt for call in stored) == fake.counts.prompt_tokens or any(
            call.text is None for call in stored
        ), where


def _check_game(where: str, lines: Sequence[Line], calls: Sequence[Call]) -> tuple[int, int]:
    """Checks that a game ended by the rules and that every default is marked. Returns requests and
    defaults.
    """
    log = read_log(lines)
    assert isinstance(log[-1], GameEnded), where
    assert fold(log).table.over, where
    marked = [event for event in log if isinstance(event, ActionDefaulted)]
    assert {event.cause for event in marked} <= {"model_error"}, where
    defaulted = {event.request_id for event in marked}
    assert len(defaulted) == len(marked), where
    last = {call.key.request_id: call for call in sorted(calls, key=lambda call: call.key.attempt)}
    assert defaulted <= last.keys(), where
    for request, call in last.items():
        # What was played without a default stands on an answer that could be read.
        assert request in defaulted or call.value is not None, (where, request)
        # One question a request: where it was not answered, the default was played.
        assert request in defaulted or call.text is not None, (where, request)
    return len(last), len(marked)


def table(found: Sequence[Shown]) -> str:
    """A table with one line for each group."""
    sums: dict[str, Counter[str]] = {}
    for one in found:
        total = sums.setdefault(one.trial.name, Counter())
        total["games"] += one.trial.games
        for name in ("requests", "defaulted", "calls", "http_calls", "tokens"):
            total[name] += getattr(one, name)
    heading = ("games", "requests", "defaulted", "calls", "http_calls", "tokens")
    lines = [f"{'fault':40}" + "".join(f"{name:>12}" for name in heading)]
    lines += [f"{name:40}" + "".join(f"{total[one]:>12,}" for one in heading) for name, total in sums.items()]
    return "\n".join(lines)
