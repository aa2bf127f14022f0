"""Plays a study's games on a running server: batches are made there, and their games fetched from there.

Games of a cell with the same agents and seeds in a row are one batch, with the study's labels. Which games a
batch was made for is written down before the next one is made, and a request that a kill cut off is repeated
under its key: no game is paid for twice.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import orjson

from app.games.schemas import OVER
from app.runner.study_folder import ANEW, GameRecord, StudyFault, StudyFolder
from app.runner.study_games import Failure, preset_of
from app.seats.seating import LLM
from engine.profile import RULES, make_profile
from engine.terms import Seat
from evaluators.ground.provenance import PROVENANCE, AgentProvenance
from evaluators.study.design import PlannedGame, StudyCell
from evaluators.study.file import Study

__all__ = ["ServerRun", "StudyServer"]

_LOOK_S: Final = 1.0
_MOST: Final = 10_000
"""Games of one batch."""

_BATCHES: Final = "batches.json"
"""The batches that were made, each with its server and its games."""


Planned = Sequence[tuple[StudyCell, PlannedGame]]


@dataclass(slots=True)
class ServerRun:
    """What came of the games on a server."""

    played: int = 0
    """Planned games that were not in the folder before."""
    failures: list[Failure] = field(default_factory=list)
    suspended: dict[str, str] = field(default_factory=dict)
    """By batch: why it waits until somebody resumes it."""


class StudyServer:
    """A server as the study sees it."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._client = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=60.0)
        self._url = url
        self._asked: dict[str, dict[str, str | None]] = {}
        """By cell and endpoint, the model that its games asked."""

    def close(self) -> None:
        self._client.close()

    def run(
        self,
        folder: StudyFolder,
        study: Study,
        work: Planned,
        show: Callable[[int, str], None],
    ) -> ServerRun:
        """Plays these games, and takes what was played anew in place of those that are in the folder.

        ``show`` is told how many planned games are new, and words. Raises StudyFault where the server
        refuses, or cannot be reached.
        """
        found, by_id = ServerRun(), {game.id: (cell, game) for cell, game in work}
        missing = {name: one for name, one in by_id.items() if not folder.has(one[0].id, name)}
        left = len(missing)
        made: list[tuple[str, list[tuple[StudyCell, PlannedGame]]]] = []
        here = [known for known in (folder.read(_BATCHES) or {}).values() if known["server"] == self._url]
        # Of the whole study, what this server plays: here earlier, or now.
        planned = len(missing.keys() | {name for known in here for name in known["games"]})
        for known in here:
            games = [by_id[name] for name in known["games"] if name in by_id]
            if any(missing.pop(game.id, None) for _, game in games) or self._has_more(folder, known, games):
                made.append((known["batch"], games))
        for games in _batches(list(missing.values())):
            made.append((self._made(folder, study, games, left, planned), games))
        waiting = dict(enumerate(made))
        while waiting:
            done = tokens = 0
            cost = 0.0
            for place, (batch, games) in list(waiting.items()):
                view = self._json("GET", f"/batches/{batch}")
                there = sum(folder.has(cell.id, game.id) for cell, game in games)
                done += min(max(0, view["games"].get("finished", 0) - there), len(games) - there)
                tokens += view["tokens"] or 0
                cost += view["cost"] or 0.0
                if view["suspended"] is not None:
                    words = f"{view['suspended']['endpoint']}: {view['suspended']['words']}"
                    found.suspended[batch] = f"{words}; POST /batches/{batch}/resume there goes on"
                if view["status"] in OVER or view["suspended"] is not None:
                    self._fetch(folder, study, batch, games, view, found)
                    del waiting[place]
            show(found.played + done, f"games on {self._url}, {tokens:,} tokens, cost {cost:,.4g}")
            if waiting:
                time.sleep(_LOOK_S)
        return found

    def _has_more(self, folder: StudyFolder, known: Mapping[str, Any], games: Planned) -> bool:
        """Whether a batch whose planned games are all in the folder has more games, finished or still played:
        what was played anew. False if the server no longer has it.
        """
        if not games:
            return False
        try:
            view = self._json("GET", f"/batches/{known['batch']}")
        except StudyFault:
            return False
        here = sum(len(folder.finished(cell.id, game.id)) for cell, game in games)
        others = len(known["games"]) - len(games)
        return view["status"] not in OVER or view["games"].get("finished", 0) > here + others

    def _made(self, folder: StudyFolder, study: Study, games: Planned, total: int, planned: int) -> str:
        """Makes a batch of these games, once: a request that was cut off is repeated under its key."""
        text = orjson.dumps(_body(study, games, total, planned), option=orjson.OPT_SORT_KEYS)
        name = base = hashlib.sha256(self._url.encode() + b"\0" + text).hexdigest()[:32]
        known, again = folder.read(_BATCHES) or {}, 1
        while name in known:
            # Its games were given up, for instance because somebody cancelled it.
            again += 1
            name = f"{base}-{again}"
        answer = self._json("POST", "/games", content=text, key=f"study-{name}")
        known[name] = {
            "server": self._url,
            "batch": answer["batch_id"],
            "games": [game.id for _, game in games],
        }
        folder.write(_BATCHES, known)
        return str(answer["batch_id"])

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
        if lost and view["status"] in OVER and not view["games"].get("failed"):
            # Cancelled, for want of money or by somebody: the next run makes a batch of them anew.
            known = folder.read(_BATCHES)
            for entry in known.values():
                if entry["batch"] == batch:
                    entry["games"] = [name for name in entry["games"] if name not in lost]
            folder.write(_BATCHES, known)
        for cell, game in games:
            if not folder.has(cell.id, game.id):
                how = f"{view['status']}; POST /batches/{batch}/retry there plays failed games on"
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
            raise StudyFault(f"{self._url} cannot be reached: {str(fault) or type(fault).__name__}") from None
        if answer.status_code >= 400:
            raise StudyFault(f"{self._url} refuses {method} {path}: {_words(answer.content)}")
        return bytes(answer.content)


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


def _body(study: Study, games: Planned, total: int, planned: int) -> dict[str, Any]:
    """The body of ``POST /games``. A budget is shared out by games, since batches know nothing of each
    other. ``planned``: how many games of the study this server plays; whoever watches sees no result before.
    """
    cell, first = games[0]
    profile = cell.profile
    usual, own = make_profile(profile.name, profile.players).settings(), profile.settings()
    budget: dict[str, Any] = {}
    limits, part = study.budget, len(games) / total
    if limits.max_cost is not None:
        budget["max_cost"] = limits.max_cost * part
    if limits.max_tokens is not None:
        budget["max_tokens"] = max(1, round(limits.max_tokens * part))
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
