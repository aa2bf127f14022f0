"""Runs a study: its games, then its raters, with what they have cost and how long they still take."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from agents.model.request import parameters
from app.cli.study_costs import expectation
from app.cli.study_parts import RECORDED, StudyState, read_finished, state_of
from app.cli.study_server import StudyServer
from app.cli.terminal import waiting_words, work_bar
from app.evaluations.study_raters import StudyRaters, rater_key
from app.models.account import Account, Budget, SpendingLimits
from app.models.endpoints import Endpoints
from app.runner.study_folder import GameRecord, StudyFault, StudyFolder, prompt_folders
from app.runner.study_games import Failure, StudyGames
from app.seats.seating import LLM
from app.settings import EndpointSettings, read_prompts
from app.store.call import Use, UseKey, total, use_of
from app.store.rows import Outage
from evaluators.study.design import Design, PlannedGame, StudyCell
from evaluators.study.file import Study

__all__ = ["RunProgress", "RunResult", "Shard", "check_endpoints", "run_study"]

_LOOK_S: Final = 0.5
"""Seconds between checks of what was used."""

_EARLIER: Final = UseKey("", "", "earlier")
_ON_SERVER: Final = UseKey("", "", "server")


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a study's games: every ``of``-th, beginning with number ``number``, from 1."""

    number: int = 1
    of: int = 1

    def part(self, design: Design) -> list[tuple[StudyCell, PlannedGame]]:
        """Its games. Games of one index, which are compared with each other, are in one shard."""
        return [(cell, game) for cell, game in design.all_games() if game.index % self.of == self.number - 1]


@dataclass(slots=True)
class RunResult:
    """What came of a run."""

    played: int = 0
    damaged: dict[str, Path] = field(default_factory=dict)
    """Games whose files could not be used, and where these files are now."""
    failures: list[Failure] = field(default_factory=list)
    unrated: list[tuple[str, str]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    spent: bool = False
    cost: float = 0.0
    tokens: int = 0


def check_endpoints(
    folder: StudyFolder,
    design: Design,
    state: StudyState,
    endpoints: Mapping[str, EndpointSettings],
    *,
    plays: bool = True,
) -> None:
    """Raises StudyFault for a model whose endpoint is unknown, or that is asked otherwise than the study says
    or than for the answers that are stored. ``plays``: whether the games are played here, not on a server.
    """
    study = design.study
    known = ", ".join(sorted(endpoints)) or "none"
    used = {name for cell in design.cells for game in design.games(cell) for name in game.models}
    for name in study.models:
        model = study.models[name]
        endpoint = model.endpoint or name
        if model.agent != LLM or name not in used or not plays:
            continue
        if endpoint not in endpoints:
            raise StudyFault(
                f"/models/{name}: no endpoint is called {endpoint}; known are {known}. Name it in "
                "models.toml beside the study file, or in the file of INTERINTENT_MODELS_FILE"
            )
        asks = endpoints[endpoint].model
        if model.model is not None and model.model != asks and endpoints[endpoint].recorded is None:
            raise StudyFault(
                f"/models/{name}/model: the study names {model.model}, the endpoint {endpoint} asks {asks}"
            )
        for cell in state.cells:
            before = [one for one in cell.asked.get(endpoint, []) if one != (asks or RECORDED)]
            if before:
                raise StudyFault(
                    f"{cell.cell.name}: {cell.done} games are there in which {endpoint} asked {before[0]}; "
                    f"now it asks {asks}. Models are not mixed in a cell: give the new one a name of its own"
                )
    for index, one in enumerate(study.evaluations):
        if one.kind != "raters" and one.model not in endpoints:
            raise StudyFault(
                f"/evaluations/{index}/model: no endpoint is called {one.model}; known are {known}"
            )
    for asking in _asking(design, endpoints, plays=plays):
        for endpoint, before in folder.asked(asking.whose).items():
            now = asking.asked.get(endpoint, before)
            if now != before:
                raise StudyFault(
                    f"{asking.words}: answers are there for which {endpoint} was asked with "
                    f"{_words(before)}, and now with {_words(now)}. The two are not mixed: put the "
                    "settings back, or give the changed endpoint a name of its own in the models file "
                    "and in the study"
                )
    prices = [
        endpoints[one.endpoint or name].prices
        for name, one in study.models.items()
        if plays and one.agent == LLM and name in used
    ]
    if plays and study.budget.max_cost is not None and prices and not any(prices):
        raise StudyFault("/budget/max_cost needs prices: give the endpoints in the models file prices")


class _Asking(NamedTuple):
    """What a cell or a rater asks."""

    whose: str
    """Its name in the study's folder."""
    words: str
    asked: dict[str, Any]
    """By endpoint, what changes its answers. The address does not: the nodes of a cluster have their own."""


def _asking(design: Design, endpoints: Mapping[str, EndpointSettings], *, plays: bool) -> Iterator[_Asking]:
    for cell in design.cells if plays else ():
        names = {spec["model"] for game in design.games(cell) for spec in game.seats if "model" in spec}
        yield _Asking(cell.id, cell.name, {name: _how(endpoints[name]) for name in sorted(names)})
    for one in design.study.evaluations:
        if one.kind != "raters":
            name = str(one.model)
            yield _Asking(rater_key(one), f"{one.rater}, {one.dimension}", {name: _how(endpoints[name])})


def _how(settings: EndpointSettings) -> dict[str, Any]:
    if settings.recorded is not None:
        return {"model": RECORDED}
    sent = parameters(settings.extra_body)
    further = {"upstream": settings.upstream, "extra_body": sent or None}
    return {"model": settings.model, **{name: value for name, value in further.items() if value is not None}}


def _words(how: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value if isinstance(value, str) else orjson.dumps(value).decode()}"
        for name, value in how.items()
    )


def run_study(
    folder: StudyFolder,
    design: Design,
    endpoints: Mapping[str, EndpointSettings],
    shard: Shard = Shard(),  # frozen
    *,
    parallel: int | None = None,
    server: StudyServer | None = None,
) -> RunResult:
    """Plays and rates what is missing. Raises StudyFault and InvalidAgent before anything is asked.
    ``server``: plays the games; raters are asked from here.
    """
    state = state_of(folder, design)
    check_endpoints(folder, design, state, endpoints, plays=server is None)
    if server is not None:
        server.look(folder)
        state = state_of(folder, design)
    return asyncio.run(_run(folder, design, state, endpoints, shard, parallel, server))


async def _run(
    folder: StudyFolder,
    design: Design,
    state: StudyState,
    settings: Mapping[str, EndpointSettings],
    shard: Shard,
    parallel: int | None,
    server: StudyServer | None,
) -> RunResult:
    study, result = design.study, RunResult()
    limits = study.budget
    earlier = Use(calls=state.calls, prompt_tokens=state.tokens, cost=state.cost)
    for call in (*folder.unfinished_calls(), *folder.unfinished_ratings()):
        earlier.add(use_of(call))
    own = SpendingLimits(limits.max_tokens_per_game, limits.max_cost_per_game)
    account = Account(Budget(_share(limits.max_tokens, limits.max_cost, shard), own), {_EARLIER: earlier})
    endpoints = Endpoints(lambda: settings)
    prompts = read_prompts(prompt_folders(folder.path, study))
    games = StudyGames(folder, study.title[:128], endpoints, account, prompts, parallel or limits.parallel)
    raters = StudyRaters(folder, endpoints, account)
    work = shard.part(design)
    for cell, game in work:
        for name in folder.versions(cell.id, game.id):
            if folder.damage(cell.id, name) is not None:
                result.damaged[name] = folder.put_aside(cell.id, name)
    left = [(cell, game) for cell, game in work if not folder.has(cell.id, game.id)]
    if server is None:
        games.check(left)
    for asking in _asking(design, settings, plays=server is None):
        folder.note_asked(asking.whose, asking.asked)
    expected = expectation(folder, state, settings, work)
    progress = RunProgress(
        account,
        earlier.calls,
        expected.calls,
        round(expected.rating.middle),
        len(work),
        len(work) - len(left),
        limits.max_cost,
        lambda: endpoints.outages(settings),
    )
    try:
        with work_bar("study") as show:
            shown = asyncio.create_task(progress.follow(show))
            try:
                if server is None:
                    await games.run(work, progress.on_game)
                else:
                    await _on_server(server, folder, study, work, progress, result)
                await _rate(folder, design, work, raters, progress, stop=games.spent)
            finally:
                shown.cancel()
                with suppress(asyncio.CancelledError):
                    await shown
    finally:
        await endpoints.aclose()
    used = total(account.uses.values())
    result.played = progress.games - (len(work) - len(left))
    result.failures += games.failures
    result.refused |= games.refused | raters.refused
    result.unrated = raters.failures
    result.spent |= games.spent or raters.spent
    result.cost, result.tokens = used.cost, used.tokens
    return result


async def _on_server(
    server: StudyServer,
    folder: StudyFolder,
    study: Study,
    work: list[tuple[StudyCell, PlannedGame]],
    progress: "RunProgress",
    result: RunResult,
) -> None:
    before, account = progress.games, progress.account
    used = total(account.uses.values())
    left = account.budget.batch.after(used.tokens, used.cost)
    account.count(_ON_SERVER, Use())

    def show(done: int, words: str, taken: Use) -> None:
        progress.games = before + done
        progress.say(words)
        account.count(_ON_SERVER, taken)

    try:
        found = await asyncio.to_thread(server.run, folder, study, work, left, show)
    except asyncio.CancelledError:
        server.stop()
        raise
    progress.games = before + found.played
    account.count(_ON_SERVER, found.used)
    result.spent = found.spent or (bool(found.failures) and account.is_spent)
    result.failures += found.failures
    result.refused |= found.suspended


def _share(max_tokens: int | None, max_cost: float | None, shard: Shard) -> SpendingLimits:
    """A shard's share of the budget: shards know nothing of each other."""
    tokens = None if max_tokens is None else math.ceil(max_tokens / shard.of)
    return SpendingLimits(tokens, None if max_cost is None else max_cost / shard.of)


async def _rate(
    folder: StudyFolder,
    design: Design,
    work: list[tuple[StudyCell, PlannedGame]],
    raters: StudyRaters,
    progress: "RunProgress",
    *,
    stop: bool,
) -> None:
    cells = {name: cell.id for cell, game in work for name in folder.finished(cell.id, game.id)}
    for one in design.study.evaluations:
        if one.kind == "raters" or stop or raters.spent:
            continue
        key = rater_key(one)
        left = [game for game in cells if folder.rated(key, game) is None]
        progress.say(f"{one.rater}, {one.dimension}: {len(left)} games")
        await raters.run(one, left, lambda game: read_finished(folder, cells[game], game), progress.on_rated)


@dataclass(slots=True)
class RunProgress:
    """What is done of what is expected."""

    account: Account
    before: int
    """Calls of earlier runs."""
    expected: int
    """Calls that were expected of this run."""
    rating: int
    """Of these, raters' calls."""
    of: int
    games: int
    max_cost: float | None
    outages: Callable[[], Sequence[Outage]]
    """The endpoints that do not answer now: what asks them waits."""
    played: int = 0
    calls: int = 0
    """Calls of the games that this run finished."""
    words: str = ""
    began: float = field(default_factory=time.monotonic)

    def on_game(self, record: GameRecord) -> None:
        self.games += 1
        self.played += 1
        self.calls += record.calls

    def on_rated(self, game: str) -> None:
        pass

    def say(self, words: str) -> None:
        self.words = words

    async def follow(self, show: Callable[[int, int, str], None]) -> None:
        while True:
            show(*self.now())
            await asyncio.sleep(_LOOK_S)

    def now(self) -> tuple[int, int, str]:
        """Calls done, calls expected, and the rest in words."""
        used = total(self.account.uses.values())
        calls = used.calls - self.before
        expected = self.expected
        if self.played:
            # What games really took, for those that are left.
            expected = round(self.calls / self.played * (self.of - self.games)) + self.calls + self.rating
        expected = max(expected, calls)
        seconds = time.monotonic() - self.began
        left = seconds / calls * (expected - calls) if calls else None
        budget = "" if self.max_cost is None else f" of {self.max_cost:,.4g}"
        parts = [f"games {self.games:,} of {self.of:,}", f"cost {used.cost:,.4g}{budget}"]
        if waiting := waiting_words(self.outages()):
            parts.append(waiting)
        elif left:
            parts.append(f"about {_span(left)} left")
        if self.words:
            parts.append(self.words)
        return calls, expected, ", ".join(parts)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
