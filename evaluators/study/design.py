"""What a study file comes to: cells, their games, and who sits where in each.

    design = designed(read_study(text), {})
    for cell in design.cells:
        for game in design.games(cell): ...

A cell is one condition. Its id is a hash of what changes results, and of nothing else, so stored games are
found again after prices, limits, titles or the number of games have changed (docs/adr/0028).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from engine.events import RolesDealt
from engine.profile import RULES, Profile, default_roles, make_profile
from engine.rules import create
from engine.terms import Role, Seat, side_of
from evaluators.study.file import FACTORS_OF_RULES, InvalidStudy, Study, label_of, target_of

__all__ = [
    "IDENTITY",
    "Design",
    "Imbalance",
    "PlannedGame",
    "StudyCell",
    "designed",
    "imbalances",
    "unpaired",
]

IDENTITY: Final = 1
"""The version of what identifies a cell. Other fields in ``_identity``, or another meaning of one, take
another version."""


@dataclass(frozen=True, slots=True)
class PlannedGame:
    """One game of a cell."""

    id: str
    """``g_CELL_SEED``, with ``m1``, ``r1``, … where seats were passed on."""
    cell: str
    index: int
    seed: int
    seats: Sequence[Mapping[str, Any]]
    """The specs of the seats, seat 1 first, as ``POST /games`` takes them; ``model`` is an endpoint."""
    models: tuple[str, ...]
    """Each seat's model by its name in the study."""
    roles: tuple[Role, ...]
    """The deal, which the seed decides."""


@dataclass(frozen=True, slots=True)
class StudyCell:
    """One condition of a study."""

    id: str
    """Twelve hexadecimal digits."""
    factors: Mapping[str, Any]
    """As the file gives them."""
    profile: Profile

    @property
    def labels(self) -> dict[str, str]:
        """The factors as labels of games: names without dots, values as text."""
        return {factor.replace(".", "_"): label_of(value) for factor, value in self.factors.items()}

    @property
    def name(self) -> str:
        """The cell in words: ``preset=paper memory=speeches``; ``all games`` without conditions."""
        return " ".join(f"{name}={value}" for name, value in self.labels.items()) or "all games"


@dataclass(frozen=True, slots=True)
class Design:
    """The cells of a study."""

    study: Study
    cells: tuple[StudyCell, ...]

    def games(self, cell: StudyCell, count: int | None = None) -> Iterator[PlannedGame]:
        """The games of a cell in their order; ``count``: so many in place of the study's."""
        for index in range(self.study.design.games if count is None else count):
            yield self._game(cell, index)

    def all_games(self) -> Iterator[tuple[StudyCell, PlannedGame]]:
        """The games of all cells, the first of each cell first: a run that ends early leaves whole pairs."""
        for index in range(self.study.design.games):
            for cell in self.cells:
                yield cell, self._game(cell, index)

    @property
    def size(self) -> int:
        """The number of games."""
        return len(self.cells) * self.study.design.games

    def turns(self, cell: StudyCell) -> int:
        """How many games a deal, or a full circle of seats, takes in this cell: 1 with fixed seats."""
        seating = self.study.seating(cell.factors)
        if seating == "rotated":
            return cell.profile.players
        if seating == "mirrored":
            return len(_models_of(self.study, cell.factors))
        return 1

    def _game(self, cell: StudyCell, index: int) -> PlannedGame:
        design, turns = self.study.design, self.turns(cell)
        turn = index % turns
        seating = self.study.seating(cell.factors)
        mirrored = seating == "mirrored"
        seed = design.seed + (index // turns if mirrored else index)
        roles = _dealt(cell.profile, seed)
        names = [_seat_model(self.study, cell.factors, seat, roles) for seat in range(1, len(roles) + 1)]
        if mirrored:
            order = _models_of(self.study, cell.factors)
            names = [order[(order.index(name) + turn) % len(order)] for name in names]
        elif turn:
            names = [*names[-turn:], *names[:-turn]]
        specs = [_spec(self.study, cell.factors, name, role) for name, role in zip(names, roles, strict=True)]
        suffix = f"{seating[0]}{turn}" if turn else ""
        return PlannedGame(f"g_{cell.id}_{seed}{suffix}", cell.id, index, seed, specs, tuple(names), roles)


def designed(study: Study, prompts: Mapping[str, str]) -> Design:
    """The cells of a study. ``prompts``: the hash of each set of prompts that the study brings, by name.

    Raises InvalidStudy for two cells that play the same games.
    """
    cells: dict[str, StudyCell] = {}
    for index, factors in enumerate(study.settings()):
        cell = StudyCell(_identity(study, factors, prompts), factors, study.profile(factors))
        if cell.id in cells:
            at = f"/cells/{index}" if study.cells else "/conditions"
            same = f"{cells[cell.id].name!r} and {cell.name!r}"
            raise InvalidStudy([(at, f"the cells {same} play the same games: leave out one")])
        cells[cell.id] = cell
    design = Design(study, tuple(cells.values()))
    played: dict[str, str] = {}
    for cell in design.cells:
        seats = [game.seats for game in design.games(cell, design.turns(cell))]  # all roles and models
        same = json.dumps([cell.profile.name, cell.profile.settings(), seats], sort_keys=True, default=str)
        if same in played:
            words = f"the cells {played[same]!r} and {cell.name!r} play the same games: what they differ in"
            raise InvalidStudy([("/conditions", f"{words} changes no seat and no rule")])
        played[same] = cell.name
    return design


# --- who sits where -----------------------------------------------------------------------------------


@lru_cache(100_000)
def _dealt(profile: Profile, seed: int) -> tuple[Role, ...]:
    deal = next(event for event in create(profile, seed) if isinstance(event, RolesDealt))
    return deal.roles


def _models_of(study: Study, factors: Mapping[str, Any]) -> tuple[str, ...]:
    """The models of a cell's table, in the order of the file: they pass on their seats in this order."""
    seats = factors.get("model", study.table.seats)
    named = {seats} if isinstance(seats, str) else set(seats.values() if isinstance(seats, dict) else seats)
    named |= {value for factor, value in factors.items() if target_of(factor)[1] == "model" and "." in factor}
    return tuple(name for name in study.models if name in named)


def _seat_model(study: Study, factors: Mapping[str, Any], seat: Seat, roles: Sequence[Role]) -> str:
    seats = factors.get("model", study.table.seats)
    role = roles[seat - 1]
    if isinstance(seats, str):
        name = seats
    elif isinstance(seats, dict):
        candidates = (role.value, side_of(role).value, "others")
        name = next(seats[place] for place in candidates if place in seats)
    else:
        name = seats[seat - 1]
    for factor, value in factors.items():
        target, what = target_of(factor)
        if what == "model" and target in (role.value, side_of(role).value, name):
            return str(value)
    return str(name)


def _spec(study: Study, factors: Mapping[str, Any], name: str, role: Role) -> dict[str, Any]:
    """The spec of a seat: a model's own settings, then the table's, then the conditions for all seats, for
    the model, the side and the role; the last one counts.
    """
    model = study.models[name]
    if model.agent != "llm":
        return {"agent": model.agent, "options": dict(model.options)}
    options = {**study.table.options, **model.options}
    preset = model.preset
    for of in (None, name, side_of(role).value, role.value):
        for factor, value in factors.items():
            target, what = target_of(factor)
            if target != of or what == "model" or what in FACTORS_OF_RULES:
                continue
            if what == "preset":
                preset = value
            else:
                options[what] = value
    spec: dict[str, Any] = {"agent": "llm", "model": model.endpoint or name, "options": options}
    if "steps" in options:
        # A list of steps is a mechanism of its own.
        if preset is not None and preset != "paper":
            raise InvalidStudy([("/conditions", f"{preset} has its own steps: give a preset or steps")])
    else:
        spec["mechanism"] = preset or "paper"
    return spec


# --- identity -----------------------------------------------------------------------------------------


def _identity(study: Study, factors: Mapping[str, Any], prompts: Mapping[str, str]) -> str:
    """The first twelve digits of a hash of the rules that differ from the profile's, the table's models with
    all their settings, and the conditions of seats.
    """
    profile = study.profile(factors)
    usual = make_profile(profile.name, profile.players)
    settings, defaults = profile.settings(), usual.settings()
    deck = None if profile.roles == default_roles(profile.players) else settings["roles"]
    names = _models_of(study, factors)
    place = {name: f"model {index}" for index, name in enumerate(names)}
    conditions = {}
    for factor, value in factors.items():
        target, what = target_of(factor)
        if what not in FACTORS_OF_RULES and factor != "model":
            whose = "" if target is None else place.get(target, target)
            conditions[f"{whose}.{what}"] = place.get(value, value) if what == "model" else value
    sets = [study.table.options, *(study.models[name].options for name in names)]
    used = [options["prompts"] for options in sets if "prompts" in options]
    used += [value for factor, value in conditions.items() if factor.endswith(".prompts")]
    values = {
        "identity": IDENTITY,
        "profile": profile.name,
        "players": profile.players,
        "roles": deck,
        "rules": {name: settings[name] for name in RULES if settings[name] != defaults[name]},
        "seats": _renamed(factors.get("model", study.table.seats), place),
        "models": [_model_identity(study, name) for name in names],
        "options": study.table.options,
        "conditions": conditions,
        "prompts": {name: prompts[name] for name in sorted(set(used)) if name in prompts},
    }
    text = json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _renamed(seats: Any, place: Mapping[str, str]) -> Any:
    """The seats with the models' places in place of their names in the study, which change nothing."""
    if isinstance(seats, dict):
        return {where: place[name] for where, name in seats.items()}
    return [place[name] for name in seats] if isinstance(seats, list) else place[seats]


def _model_identity(study: Study, name: str) -> dict[str, Any]:
    model = study.models[name]
    if model.agent != "llm":
        return {"agent": model.agent, "options": model.options}
    asked = model.model or model.endpoint or name
    return {"agent": "llm", "model": asked, "preset": model.preset, "options": model.options}


# --- balance ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imbalance:
    """A place that the models of a cell do not hold equally often."""

    cell: StudyCell
    place: str
    """A side or a role."""
    counts: Mapping[str, int]
    """Seats of that place over all games, by model."""

    def __str__(self) -> str:
        held = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return f"{self.cell.name}: {self.place} is held unequally often ({held})"


def imbalances(design: Design) -> list[Imbalance]:
    """Where models that share a table do not hold each side and role equally often over a cell's games. A
    design that gives a model its side on purpose (seats by side or role, fixed) is unbalanced, too.
    """
    found = []
    for cell in design.cells:
        models = _models_of(design.study, cell.factors)
        if len(models) < 2:
            continue
        counts: dict[str, Counter[str]] = {}
        for game in design.games(cell):
            for name, role in zip(game.models, game.roles, strict=True):
                for place in (side_of(role).value, role.value):
                    counts.setdefault(place, Counter())[name] += 1
        for place in sorted(counts, key=lambda one: (one not in ("loyal", "evil"), one)):
            held = {name: counts[place][name] for name in models}
            if len(set(held.values())) > 1:
                found.append(Imbalance(cell, place, held))
    return found


def unpaired(design: Design) -> str:
    """How many deals only some of the cells play, in words; empty if all play the same. It happens where
    models pass on their seats in some cells, and in others there is one model.
    """
    deals = [{game.seed for game in design.games(cell)} for cell in design.cells]
    every, common = set().union(*deals), set.intersection(*deals)
    if every == common:
        return ""
    return (
        f"{len(common)} of {len(every)} deals are played in every cell, for models pass on their seats in "
        'some cells alone: with seating = "fixed" all games would be compared in pairs'
    )
