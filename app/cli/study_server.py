"""Plays a study's games on a running server: batches are made there, and their games fetched from there.

Games of a cell with the same agents and seeds in a row are one batch, with the study's labels. A request for
one is written down before it is sent, under a key that no other folder has, and one that a kill cut off is
repeated as it was: no game is paid for twice. What a batch has taken is written down, too: it counts towards
the study's budget even if none of its games was finished.
"""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import orjson

from app.games.schemas import OVER
from app.models.account import SpendingLimits
from app.runner.study_folder import ANEW, GameRecord, StudyFault, StudyFolder
from app.runner.study_games import Failure, preset_of
from app.seats.seating import LLM
from app.store.call import Use
from engine.profile import RULES, make_profile
from engine.terms import Seat
from evaluators.ground.provenance import PROVENANCE, AgentProvenance
from evaluators.study.design import PlannedGame, StudyCell
from evaluators.study.file import Study

__all__ = ["ServerRun", "StudyServer", "beyond_games"]

_LOOK_S: Final = 1.0
_MOST: Final = 10_000
"""Games of one batch."""

_BATCHES: Final = "batches.json"
"""The batches that were made, by the key of the request: each with its server, its games, and the tokens and
cost that it has taken. One that may not have been made yet has its ``request`` in place of its ``batch``.
"""


Planned = Sequence[tuple[StudyCell, PlannedGame]]


@dataclass(slots=True)
class ServerRun:
    """What came of the games on a server."""

    played: int = 0
    """Planned games that were not in the folder before."""
    failures: list[Failure] = field(default_factory=list)
    suspended: dict[str, str] = field(default_factory=dict)
    """By batch: why it waits until somebody resumes it."""
    used: Use = field(default_factory=Use)
    """What the server took for this run."""
    spent: bool = False
    """Whether games are missing for which no money was left."""


class _NotMade(StudyFault):
    """A request that had no effect on the server."""


class StudyServer:
    """A server as the study sees it."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=60.0)
        self._url = url
        self._asked: dict[str, dict[str, str | None]] = {}
        """By cell and endpoint, the model that its games asked."""
        self._views: dict[str, Mapping[str, Any]] = {}
        """By batch: what the server last said of it."""
        self._stopped = threading.Event()

    def close(self) -> None:
        self._client.close()

    def stop(self) -> None:
        """Lets ``run`` end soon, from another thread. The batches go on at the server."""
        self._stopped.set()

    def look(self, folder: StudyFolder) -> None:
        """Writes down what the study's batches have taken by now. Those that the server does not tell of
        keep what was written before.
        """
        for known in self._known(folder).values():
            if "batch" in known:
                with suppress(StudyFault):
                    self._look_at(known["batch"])
        self._note(folder)

    def run(
        self,
        folder: StudyFolder,
        study: Study,
        work: Planned,
        limits: SpendingLimits,
        show: Callable[[int, str, Use], None],
    ) -> ServerRun:
        """Plays these games, and takes what was played anew in place of those that are in the folder. Call
        ``look`` before.

        ``limits``: what may still be spent. ``show`` is told how many planned games are new, words, and what
        the server took for this run. Raises StudyFault where the server refuses, or cannot be reached.
        """
        found, by_id = ServerRun(), {game.id: (cell, game) for cell, game in work}
        missing = {name: one for name, one in by_id.items() if not folder.has(one[0].id, name)}
        made: list[tuple[str, list[tuple[StudyCell, PlannedGame]]]] = []
        here = self._known(folder)
        before = {known["batch"]: _taken(known) for known in here.values() if "batch" in known}
        # Of the whole study, what this server plays: here earlier, or now.
        planned = len(missing.keys() | {name for known in here.values() for name in known["games"]})
        for key, known in here.items():
            games = [by_id[name] for name in known["games"] if name in by_id]
            lacks = [game.id for _, game in games if missing.pop(game.id, None) is not None]
            if "batch" not in known:
                if lacks:
                    made.append((self._make(folder, key, known["request"]), games))
                    self._look_at(made[-1][0])
            elif lacks or self._has_more(folder, known, games):
                made.append((known["batch"], games))
        limits = self._unpromised(limits)
        found.spent = bool(missing) and limits.reached(0, 0)
        for games in _batches([] if found.spent else list(missing.values())):
            if not self._stopped.is_set():
                body = _body(study, games, limits, len(games) / len(missing), planned)
                made.append((self._asked_for(folder, games, body), games))
        waiting = dict(enumerate(made))
        while waiting and not self._stopped.is_set():
            done = 0
            for place, (batch, games) in list(waiting.items()):
                if self._stopped.is_set():
                    break
                view = self._look_at(batch)
                there = sum(folder.has(cell.id, game.id) for cell, game in games)
                done += min(max(0, view["games"].get("finished", 0) - there), len(games) - there)
                if view["suspended"] is not None:
                    words = f"{view['suspended']['endpoint']}: {view['suspended']['words']}"
                    found.suspended[batch] = f"{words}; POST /batches/{batch}/resume there goes on"
                if view["status"] in OVER or view["suspended"] is not None:
                    self._fetch(folder, study, batch, games, view, found)
                    del waiting[place]
            self._note(folder)
            found.used = self._used({batch for batch, _ in made}, before)
            words = f"games on {self._url}, {found.used.tokens:,} tokens, cost {found.used.cost:,.4g}"
            show(found.played + done, words, found.used)
            if waiting:
                self._stopped.wait(_LOOK_S)
        return found

    def _known(self, folder: StudyFolder) -> dict[str, dict[str, Any]]:
        """The study's batches on this server, by key."""
        known: dict[str, dict[str, Any]] = folder.read(_BATCHES) or {}
        return {key: one for key, one in known.items() if one["server"] == self._url}

    def _look_at(self, batch: str) -> Mapping[str, Any]:
        view: Mapping[str, Any] = self._json("GET", f"/batches/{batch}")
        self._views[batch] = view
        return view

    def _note(self, folder: StudyFolder) -> None:
        """Writes down what the batches have taken, as far as the server said."""
        with folder.changing(_BATCHES) as known:
            for one in known.values():
                if one["server"] == self._url and one.get("batch") in self._views:
                    tokens, cost = _taken(self._views[one["batch"]])
                    one |= {"tokens": tokens, "cost": cost}

    def _used(self, batches: Set[str], before: Mapping[str, tuple[int, float]]) -> Use:
        """What these batches took since ``before``."""
        used = Use()
        for batch in batches & self._views.keys():
            tokens, cost = _taken(self._views[batch])
            tokens_before, cost_before = before.get(batch, (0, 0.0))
            used.add(Use(prompt_tokens=tokens - tokens_before, cost=cost - cost_before))
        return used

    def _unpromised(self, limits: SpendingLimits) -> SpendingLimits:
        """What of these limits is left when the batches that may still play have spent their budgets."""
        for view in self._views.values():
            budget = view["budget"]
            if budget is None or _gave_up(view) is not None:
                continue
            tokens, cost = _taken(view)
            limits = limits.after(
                max(0, (budget["max_tokens"] or 0) - tokens), max(0.0, (budget["max_cost"] or 0.0) - cost)
            )
        return limits

    def _has_more(self, folder: StudyFolder, known: Mapping[str, Any], games: Planned) -> bool:
        """Whether a batch whose planned games are all in the folder has more games, finished or still played:
        what was played anew. False if the server does not tell of it.
        """
        view = self._views.get(known["batch"])
        if not games or view is None:
            return False
        here = sum(len(folder.finished(cell.id, game.id)) for cell, game in games)
        others = len(known["games"]) - len(games)
        return view["status"] not in OVER or view["games"].get("finished", 0) > here + others

    def _asked_for(self, folder: StudyFolder, games: Planned, body: Mapping[str, Any]) -> str:
        """Makes a batch of these games, and returns its id."""
        key = secrets.token_hex(16)
        with folder.changing(_BATCHES) as known:
            known[key] = {"server": self._url, "games": [game.id for _, game in games], "request": body}
        try:
            return self._make(folder, key, body)
        except _NotMade:
            with folder.changing(_BATCHES) as known:
                del known[key]
            raise

    def _make(self, folder: StudyFolder, key: str, body: Mapping[str, Any]) -> str:
        """Makes a batch, once: a request that was cut off is repeated as it was, under its key."""
        # As the folder has it: a server refuses a key that comes with other bytes.
        text = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        batch = str(self._json("POST", "/games", content=text, key=f"study-{key}")["batch_id"])
        with folder.changing(_BATCHES) as known:
            del known[key]["request"]
            known[key]["batch"] = batch
        return batch

    def _fetch(
        self,
        folder: StudyFolder,
        study: Study,
        batch: str,
        games: Planned,
        view: Mapping[str, Any],
        found: ServerRun,
    ) -> None:
        """Stores the finished games of a batch, with those played anew in their place, and names the
        others.
        """
        by_seed = {str(game.seed): (cell, game) for cell, game in games}
        names: dict[str, str] = {}
        """By the server's name of a game, the study's."""
        versions: Counter[str] = Counter()
        text = self._text(f"/batches/{batch}/export?view=full&partial=true")
        foreign: dict[str, str] = {}
        for opening, lines in _games_of(text):
            cell, game = by_seed.get(str(opening["seed"]), (None, None))
            finished = any(line["type"] == "game_ended" for line in lines)
            if cell is None or game is None or not finished:
                continue
            # A server has what it plays anew after the game in whose place it is.
            number = versions[game.id]
            versions[game.id] += 1
            name = names[opening["game"]] = f"{game.id}{ANEW}{number}" if number else game.id
            place = versions.total() - 1
            record = _record(name, game, opening, lines, view, place)
            if other := self._other_model(folder, study, game, record):
                foreign[name] = other
                if number:
                    found.failures.append(Failure(cell.id, name, other))
                continue
            found.played += not number and not folder.has(cell.id, name)
            folder.keep(record, _renamed(names, opening, lines))
        lost = [
            game.id for cell, game in games if not folder.has(cell.id, game.id) and game.id not in foreign
        ]
        gave_up = _gave_up(view)
        if lost and gave_up is not None:
            # The next run makes a batch of them anew.
            with folder.changing(_BATCHES) as known:
                for entry in known.values():
                    if entry.get("batch") == batch:
                        entry["games"] = [name for name in entry["games"] if name not in lost]
        for cell, game in games:
            if not folder.has(cell.id, game.id):
                retry = f"{view['status']}; POST /batches/{batch}/retry there plays failed games on"
                anew = f"{gave_up}; the same command plays them in a new batch, if the study's budget allows"
                how = retry if gave_up is None else anew
                why = found.suspended.get(batch, f"not finished in batch {batch} ({how})")
                why = foreign.get(game.id, why)
                found.failures.append(Failure(cell.id, game.id, why))

    def _other_model(self, folder: StudyFolder, study: Study, game: PlannedGame, record: GameRecord) -> str:
        """Why a game must not be taken: its models are not the cell's; empty if they are."""
        known = self._asked.get(game.cell)
        if known is None:
            first = next((name for cell, name in folder.games() if cell == game.cell), None)
            before = None if first is None else folder.record(game.cell, first)
            known = self._asked[game.cell] = {} if before is None else dict(before.asked)
            named = {name: study.models[name] for name in game.models}
            known |= {one.endpoint or name: one.model for name, one in named.items() if one.model is not None}
        for endpoint, model in record.asked.items():
            if known.setdefault(endpoint, model) != model:
                return (
                    f"there {endpoint} asked {model}, and this cell asks {known[endpoint]}: the game is not "
                    "taken. Name the model in the study as the server asks it; or give the server's endpoint "
                    f"its model back and remove the game from {folder.store / _BATCHES}, to play it anew"
                )
        return ""

    def _json(self, method: str, path: str, *, content: bytes | None = None, key: str = "") -> Any:
        headers = {"Content-Type": "application/json"} if content is not None else {}
        if key:
            headers["Idempotency-Key"] = key
        return orjson.loads(self._answer(method, path, content, headers))

    def _text(self, path: str) -> bytes:
        return self._answer("GET", path, None, {})

    def _answer(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> bytes:
        try:
            answer = self._client.request(method, path, content=content, headers=headers)
        except httpx2.HTTPError as fault:
            family = _NotMade if isinstance(fault, httpx2.ConnectError) else StudyFault
            raise family(f"{self._url} cannot be reached: {str(fault) or type(fault).__name__}") from None
        if answer.status_code >= 400:
            family = _NotMade if answer.status_code < 500 else StudyFault
            raise family(f"{self._url} refuses {method} {path}: {_words(answer.content)}")
        return bytes(answer.content)


def _gave_up(view: Mapping[str, Any]) -> str | None:
    """Why the games that this batch has not finished never will be; None: they may be."""
    if view["status"] not in OVER or view["status"] == "failed":
        return None
    if view["budget"] is not None and view["budget"]["games_stopped"]:
        return "its part of the budget, or a game's own, is spent"
    return "they were cancelled"


def _taken(values: Mapping[str, Any]) -> tuple[int, float]:
    """Tokens and cost of a batch, as the server tells them or as they were written down; 0 if unknown."""
    return values.get("tokens") or 0, values.get("cost") or 0.0


def beyond_games(folder: StudyFolder) -> Use:
    """What the study's batches took beyond the games that the folder has of them: for games that did not
    finish, or have not been fetched.
    """
    known = folder.read(_BATCHES) or {}
    cells = {game: cell for cell, game in folder.games()} if known else {}
    found = Use()
    for one in known.values():
        tokens, cost = _taken(one)
        for game in one["games"]:
            for name in folder.finished(cells[game], game) if game in cells else ():
                if (record := folder.record(cells[game], name)) is not None:
                    tokens, cost = tokens - record.tokens, cost - record.cost
        found.add(Use(prompt_tokens=max(0, tokens), cost=max(0.0, cost)))
    return found


def _words(content: bytes) -> str:
    try:
        problem = orjson.loads(content)
        return f"{problem['title']}: {problem.get('detail', '')} {problem.get('pointer', '')}".strip()
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace")


def _batches(left: Planned) -> Iterator[list[tuple[StudyCell, PlannedGame]]]:
    """The games in batches: of one cell, with the same agents, seeds in a row."""
    chains: dict[tuple[str, bytes], list[list[tuple[StudyCell, PlannedGame]]]] = {}
    for cell, game in sorted(left, key=lambda one: (one[0].id, one[1].seed)):
        chain = chains.setdefault((cell.id, orjson.dumps(list(game.seats))), [])
        if chain and chain[-1][-1][1].seed + 1 == game.seed and len(chain[-1]) < _MOST:
            chain[-1].append((cell, game))
        else:
            chain.append([(cell, game)])
    for chain in chains.values():
        yield from chain


def _body(study: Study, games: Planned, left: SpendingLimits, part: float, planned: int) -> dict[str, Any]:
    """The body of ``POST /games``. ``part``: the batch's part of what is left of the budget, since batches
    know nothing of each other. ``planned``: how many games of the study this server plays; whoever watches
    sees no result before.
    """
    cell, first = games[0]
    profile = cell.profile
    usual, own = make_profile(profile.name, profile.players).settings(), profile.settings()
    budget: dict[str, Any] = {}
    limits = study.budget
    if left.max_cost is not None:
        budget["max_cost"] = left.max_cost * part
    if left.max_tokens is not None:
        budget["max_tokens"] = max(1, round(left.max_tokens * part))
    each = {"max_tokens": limits.max_tokens_per_game, "max_cost": limits.max_cost_per_game}
    if any(value is not None for value in each.values()):
        budget["per_game"] = {name: value for name, value in each.items() if value is not None}
    return {
        "count": len(games),
        "seeds": {"from": first.seed},
        "profile": profile.name,
        "players": profile.players,
        "roles": own["roles"],
        "rules": {name: own[name] for name in RULES if own[name] != usual[name]},
        "seats": [dict(spec) for spec in first.seats],
        "labels": {"study": study.title[:128], "cell": cell.id, "planned": str(planned), **cell.labels},
        **({"budget": budget} if budget else {}),
    }


def _games_of(text: bytes) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The opening line of each game of a full export, and its events."""
    opening: dict[str, Any] | None = None
    events: list[dict[str, Any]] = []
    for line in text.splitlines():
        values = orjson.loads(line)
        if values.get("type") == PROVENANCE or "t" in values:
            if opening is not None:
                yield opening, events
            opening, events = (values, []) if "t" not in values else (None, [])
        elif opening is not None:
            events.append(values)
    if opening is not None:
        yield opening, events


def _renamed(
    names: Mapping[str, str], opening: Mapping[str, Any], events: Sequence[Mapping[str, Any]]
) -> bytes:
    """The lines under the study's own names of the game and of the one in whose place it was played; the
    server's name of the game stays in the opening line. ``names``: the study's by the server's.
    """
    name, source = names[opening["game"]], opening.get("forked_from")
    first = {**opening, "game": name, "stored_as": opening["game"]}
    if source is not None:
        first["forked_from"] = {**source, "game_id": names.get(source["game_id"], source["game_id"])}
    return b"".join(orjson.dumps({**line, "game": name}) + b"\n" for line in (first, *events))


def _record(
    name: str,
    game: PlannedGame,
    opening: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    view: Mapping[str, Any],
    place: int,
) -> GameRecord:
    """What the game took. A server tells it by batch and model: each seat of a model has an equal share, and
    the shares of all finished games are the whole. ``place``: the game's among these, from 0.
    """
    agents = [AgentProvenance.read(values) for values in opening["agents"]]
    finished = max(1, view["games"].get("finished", 0))
    sitting = {name: sum(spec.get("model") == name for spec in game.seats) for name in _endpoints(game)}
    sat: Counter[Any] = Counter()
    seats = []
    for spec, model in zip(game.seats, game.models, strict=True):
        endpoint = spec.get("model")
        uses = [use for use in view["models"] if use["endpoint"] == endpoint]
        of_game = sitting.get(str(endpoint), 1)
        part, parts = place * of_game + sat[endpoint], finished * of_game
        sat[endpoint] += 1
        shared = {
            quantity: _part(sum(use[quantity] for use in uses), part, parts)
            for quantity in ("calls", "failed", "prompt_tokens", "cached_tokens", "completion_tokens")
        }
        cost = sum(use["cost"] for use in uses) / parts
        seats.append(
            {"model": model, "endpoint": endpoint, "preset": preset_of(spec), **shared, "cost": cost}
            | {"waiting_s": 0.0}
        )
    served: dict[str, set[str]] = {}
    asked: dict[str, str | None] = {}
    for agent in agents:
        if agent.agent == LLM and agent.endpoint is not None:
            asked[agent.endpoint] = agent.model
            served.setdefault(agent.endpoint, set()).update(agent.served)
    counted: Mapping[str, Any] = opening["defaults"]
    models: list[Seat] = [agent.seat for agent in agents if agent.agent == LLM]
    of_models = [counted[str(seat)] for seat in models if str(seat) in counted]
    return GameRecord(
        game=name,
        cell=game.cell,
        seed=game.seed,
        index=game.index,
        events=len(events),
        seconds=None,
        seats=seats,
        asked=asked,
        served={name: sorted(names) for name, names in sorted(served.items())},
        decisions=sum(one["decisions"] for one in of_models),
        defaulted=sum(sum(one["defaulted"].values()) for one in of_models),
    )


def _part(whole: int, part: int, parts: int) -> int:
    """One of nearly equal parts, from 0; all ``parts`` together are the whole."""
    return whole * (part + 1) // parts - whole * part // parts


def _endpoints(game: PlannedGame) -> set[str]:
    return {str(spec["model"]) for spec in game.seats if "model" in spec}
