"""What the commands of a study share: its folder, its endpoints, and what its games are expected to take."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from app.base.clock import now_ms, timestamp
from app.cli.database import read_settings
from app.cli.terminal import fail
from app.evaluations.study_raters import rater_key
from app.models.game_costs import GAMES, PLAYERS, GamePlan
from app.runner.study_folder import (
    Frozen,
    GameRecord,
    StudyFault,
    StudyFolder,
    differences,
    prompts_of,
)
from app.runner.study_games import preset_of
from app.settings import EndpointSettings, InvalidEndpoints, read_endpoints
from evaluators.report.columns import UnknownColumn, read_conditions, read_contrasts
from evaluators.study.design import Design, PlannedGame, StudyCell
from evaluators.study.file import EvaluationAsked, Study
from evaluators.study.plan import QUANTITIES, Range, SeatCosts, measured_costs

__all__ = [
    "MODELS_FILE",
    "CellState",
    "Expectation",
    "StudyState",
    "deviations",
    "endpoints_of",
    "expectation",
    "folder_of",
    "freeze",
    "left_of",
    "note_deviations",
    "opened",
    "pilot_study",
    "state_of",
]

MODELS_FILE: Final = "models.toml"

_PILOT_SEED: Final = 2**40
"""Pilot games play the deals from here on, so that none of them is a game of the study."""

_ANSWER_TOKENS: Final = (80, 320)
"""Tokens of an answer, where nothing was measured: as the fake model writes, and four times as much."""

_CALL_S: Final = (2.0, 10.0)
"""Seconds of a call, where nothing was measured."""

_RATER_TOKENS: Final = (2_000, 8_000)
"""Tokens of a rater's question with its answer, where nothing was measured."""


def folder_of(path: Path, *, pilot: bool = False) -> StudyFolder:
    """The study's folder; a study file stands for the folder that it is in."""
    return StudyFolder(path.parent if path.is_file() else path, pilot=pilot)


def opened(folder: StudyFolder) -> tuple[Study, Design]:
    """The study and its design. Ends the command for a file with faults."""
    try:
        study = folder.study()
        design = folder.design(study)
        _check_questions(design)
    except StudyFault as fault:
        fail(str(fault).replace("\n", "; "))
    return study, design


def pilot_study(study: Study, games: int) -> Study:
    """The study with so many pilot games of each cell in place of its games."""
    own = study.design.model_copy(update={"games": games, "seed": study.design.seed + _PILOT_SEED})
    return study.model_copy(update={"design": own})


def _check_questions(design: Design) -> None:
    """Raises StudyFault for a question that no report could answer."""
    for index, asked in enumerate(design.study.questions):
        try:
            contrasts = read_contrasts([asked.contrast])
            read_conditions([] if asked.where is None else re.split(r"\s+and\s+", asked.where))
        except UnknownColumn as fault:
            raise StudyFault(f"/questions/{index}: {fault}") from None
        for contrast in contrasts:
            for factor in (contrast.factor, contrast.by):
                values = {cell.labels.get(factor.column) for cell in design.cells} if factor else {None}
                if factor is None or values == {None} or factor.column == "steps":
                    continue
                for level in (factor.first, factor.second):
                    if level not in values:
                        known = ", ".join(sorted(str(value) for value in values))
                        words = f"no cell has {factor.column}={level}; they have {known}"
                        raise StudyFault(f"/questions/{index}/contrast: {words}")


def endpoints_of(folder: StudyFolder) -> dict[str, EndpointSettings]:
    """The endpoints of the settings, and those of the study's own models file. Ends the command if they
    cannot be read.
    """
    own = folder.path / MODELS_FILE
    try:
        configured = read_settings().endpoints()
        return configured | (read_endpoints({}, own) if own.exists() else {})
    except InvalidEndpoints as fault:
        fail(str(fault))


# --- frozen -------------------------------------------------------------------------------------------


def freeze(folder: StudyFolder, design: Design) -> Frozen:
    """Freezes the study now. Raises StudyFault."""
    return folder.freeze(design, timestamp(now_ms()), version("interintent-server"))


def deviations(folder: StudyFolder, study: Study, frozen: Frozen | None) -> list[dict[str, Any]]:
    """Where the study is no longer as it was frozen: pointer, what it was, what it is."""
    if frozen is None:
        return []
    found = list(differences(frozen.study, study.model_dump(mode="json", exclude_unset=True)))
    found += differences(dict(frozen.prompts), prompts_of(folder.path, study), "/prompts (their words)")
    return [{"pointer": at, "frozen": before, "found": after} for at, before, after in found]


def note_deviations(folder: StudyFolder, study: Study, frozen: Frozen | None) -> list[dict[str, Any]]:
    """Notes new deviations for the report. Returns all that were ever found, those taken back too."""
    known = folder.notes("deviation")
    for one in deviations(folder, study, frozen):
        if not any(all(old.get(name) == value for name, value in one.items()) for old in known):
            folder.note("deviation", at=timestamp(now_ms()), **one)
    return folder.notes("deviation")


# --- what there is ------------------------------------------------------------------------------------


@dataclass(slots=True)
class CellState:
    """What is there of one cell."""

    cell: StudyCell
    planned: int
    records: list[GameRecord] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Its finished games that the plan asks for."""
        return len(self.records)

    @property
    def decisions(self) -> tuple[int, int]:
        """Of model seats: played by default, and all."""
        return sum(one.defaulted for one in self.records), sum(one.decisions for one in self.records)

    @property
    def asked(self) -> dict[str, list[str]]:
        """By endpoint: the models that its games asked; more than one must not be pooled."""
        found: dict[str, set[str]] = {}
        for record in self.records:
            for name, model in record.asked.items():
                found.setdefault(name, set()).add(model or "recorded answers")
        return {name: sorted(models) for name, models in sorted(found.items())}

    @property
    def served(self) -> dict[str, list[str]]:
        """By endpoint: the models that providers say they served."""
        found: dict[str, set[str]] = {}
        for record in self.records:
            for name, models in record.served.items():
                found.setdefault(name, set()).update(models)
        return {name: sorted(models) for name, models in sorted(found.items())}


@dataclass(slots=True)
class StudyState:
    """What is there of a study."""

    design: Design
    cells: list[CellState]
    rated: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By rater's folder: what it said of each game, without the rows."""

    @property
    def done(self) -> int:
        """Finished games of the plan."""
        return sum(one.done for one in self.cells)

    @property
    def raters(self) -> list[EvaluationAsked]:
        """The evaluations that models make."""
        return [one for one in self.design.study.evaluations if one.kind != "raters"]

    @property
    def complete(self) -> bool:
        """Whether every planned game is there, and judged."""
        return self.done == self.design.size and all(
            len(self.rated[rater_key(one)]) == self.design.size for one in self.raters
        )

    @property
    def calls(self) -> int:
        """Calls of finished games and of raters."""
        return sum(one.calls for cell in self.cells for one in cell.records) + sum(
            int(one["calls"]) for said in self.rated.values() for one in said
        )

    @property
    def tokens(self) -> int:
        """The same in tokens."""
        return sum(one.tokens for cell in self.cells for one in cell.records) + sum(
            int(one["tokens"]) for said in self.rated.values() for one in said
        )

    @property
    def cost(self) -> float:
        """The same in money."""
        return sum(one.cost for cell in self.cells for one in cell.records) + sum(
            float(one["cost"]) for said in self.rated.values() for one in said
        )


def state_of(folder: StudyFolder, design: Design) -> StudyState:
    """What is there of the study's planned games. Raises StudyFault for altered files."""
    cells = []
    rated: dict[str, list[dict[str, Any]]] = {
        rater_key(one): [] for one in design.study.evaluations if one.kind != "raters"
    }
    for cell in design.cells:
        state = CellState(cell, design.study.design.games)
        for game in design.games(cell):
            record = folder.record(cell.id, game.id)
            if record is None:
                continue
            state.records.append(record)
            for key, said in rated.items():
                if (one := folder.rated(key, game.id)) is not None:
                    said.append({name: value for name, value in one.items() if name != "rows"})
        cells.append(state)
    return StudyState(design, cells, rated)


# --- what is expected ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Expectation:
    """What the rest of a study takes."""

    games: int = 0
    of: dict[str, Range] = field(default_factory=lambda: dict.fromkeys(QUANTITIES, Range()))
    rating: Range = field(default_factory=Range)
    """Of the calls, those of raters."""
    hours: Range = field(default_factory=Range)
    priced: bool = True
    bases: list[str] = field(default_factory=list)
    """Where the figures come from, by model and preset."""
    cells: dict[str, dict[str, Range]] = field(default_factory=dict)
    """By cell: calls, tokens and cost."""

    @property
    def tokens(self) -> Range:
        """Of prompts and answers."""
        return self.of["prompt_tokens"] + self.of["completion_tokens"]

    @property
    def calls(self) -> int:
        """Calls, in the middle of their range."""
        return round(self.of["calls"].middle)


def expectation(
    folder: StudyFolder,
    state: StudyState,
    endpoints: Mapping[str, EndpointSettings],
    left: list[tuple[StudyCell, PlannedGame]],
) -> Expectation:
    """What these games take, and the raters' work on them and on games that are there."""
    found = Expectation(games=len(left))
    costs = _costs(folder, state)
    seats: dict[tuple[str, str, str], int] = {}
    for cell, game in left:
        for spec, name in zip(game.seats, game.models, strict=True):
            preset = preset_of(spec)
            if preset is not None:
                seats[cell.id, name, preset] = seats.get((cell.id, name, preset), 0) + 1
    study = state.design.study
    for (cell_id, name, preset), count in sorted(seats.items()):
        endpoint = study.models[name].endpoint or name
        known = costs.get((name, preset)) or _tried(folder, endpoint, preset)
        if known is None:
            known = _assumed(preset, endpoints.get(endpoint))
        basis = f"{name}, {preset}: {known.basis}"
        if basis not in found.bases:
            found.bases.append(basis)
        found.priced &= known.priced
        of_cell = found.cells.setdefault(cell_id, dict.fromkeys(QUANTITIES, Range()))
        for quantity in QUANTITIES:
            taken = known.total(quantity, count)
            of_cell[quantity] += taken
            found.of[quantity] += taken
    found.hours = _hours(folder, state, found, seats, len(left))
    _add_raters(found, state)
    return found


def _costs(folder: StudyFolder, state: StudyState) -> dict[tuple[str, str], SeatCosts]:
    """The measured costs of seats: from this study's games, and else from its pilots."""
    pilots = StudyFolder(folder.path, pilot=True)
    played = [record.seats for cell in state.cells for record in cell.records]
    piloted = [
        record.seats for cell, game in pilots.games() if (record := pilots.record(cell, game)) is not None
    ]
    return measured_costs(piloted) | measured_costs(played)


def _tried(folder: StudyFolder, endpoint: str, preset: str) -> SeatCosts | None:
    """From a trial of the endpoint, if there was one: three rounds to five."""
    trial = StudyFolder(folder.path).read(f"trials/{endpoint}.json")
    if trial is None:
        return None
    for game in trial["games"]:
        if game["preset"] == preset and game["timing"] == "exact":
            values = {
                quantity: [game[quantity]["low"] / PLAYERS, game[quantity]["high"] / PLAYERS]
                for quantity in QUANTITIES
                if game[quantity] is not None
            }
            basis = f"from {len(trial['forms'])} questions that {trial['model']} was tried with"
            return SeatCosts(basis, values, measured=False, priced=game["cost"] is not None)
    return None


def _plan_of(preset: str) -> tuple[GamePlan, GamePlan]:
    """The plans of a preset's games, the cheapest and the dearest that it may be."""
    plans = {plan.preset: plan for plan in reversed(GAMES)}
    if preset in plans:
        return plans[preset], plans[preset]
    # Steps of one's own: no fewer questions than none, no more than all.
    return plans["direct"], plans["paper"]


def _assumed(preset: str, settings: EndpointSettings | None) -> SeatCosts:
    few, many = _plan_of(preset)
    calls = [few.calls(3) / PLAYERS, many.calls(5) / PLAYERS]
    prompt = [few.prompt_tokens[3] / PLAYERS, many.prompt_tokens[5] / PLAYERS]
    written = [calls[0] * _ANSWER_TOKENS[0], calls[1] * _ANSWER_TOKENS[1]]
    values = {"calls": calls, "prompt_tokens": prompt, "completion_tokens": written}
    prices = None if settings is None else settings.prices
    if prices is not None:
        values["cost"] = [
            (sent * prices.prompt + answered * prices.completion) / 1e6
            for sent, answered in zip(prompt, written, strict=True)
        ]
    basis = (
        "ASSUMED: calls and prompts of three to five rounds, answers of "
        f"{_ANSWER_TOKENS[0]} to {_ANSWER_TOKENS[1]} tokens"
    )
    return SeatCosts(basis, values, measured=False, priced=prices is not None)


def _hours(
    folder: StudyFolder,
    state: StudyState,
    found: Expectation,
    seats: Mapping[tuple[str, str, str], int],
    games: int,
) -> Range:
    """Hours of the games that are left, so many at a time."""
    if not games:
        return Range()
    seconds = [one.seconds for cell in state.cells for one in cell.records if one.seconds is not None]
    at_once = max(1, min(state.design.study.budget.parallel, games))
    if seconds:
        usual = sum(seconds) / len(seconds)
        found.bases.append(f"hours: measured in {len(seconds)} games, {at_once} at a time")
        return Range(min(seconds), max(seconds)).times(games / at_once / 3600) if usual else Range()
    if not seats:
        return Range()
    lows, highs = [], []
    for _, name, preset in seats:
        few, many = _plan_of(preset)
        endpoint = state.design.study.models[name].endpoint or name
        trial = StudyFolder(folder.path).read(f"trials/{endpoint}.json")
        span = next(
            (
                one["hours"]
                for one in (trial or {"games": []})["games"]
                if one["preset"] == preset and one["timing"] == "exact"
            ),
            None,
        )
        lows.append(sum(few.in_a_row(3).values()) * _CALL_S[0] / 3600 if span is None else span["low"])
        highs.append(sum(many.in_a_row(5).values()) * _CALL_S[1] / 3600 if span is None else span["high"])
        if span is None and not any(basis.startswith("hours") for basis in found.bases):
            found.bases.append(f"hours: ASSUMED {_CALL_S[0]:g} to {_CALL_S[1]:g} seconds a call")
    return Range(min(lows), max(highs)).times(games / at_once)


def _add_raters(found: Expectation, state: StudyState) -> None:
    for one in state.raters:
        said = state.rated[rater_key(one)]
        left = state.design.size - len(said)
        if not left:
            continue
        if said:
            basis = f"measured in {len(said)} games"
            costs = SeatCosts(
                basis,
                {
                    "calls": [float(row["calls"]) for row in said],
                    "prompt_tokens": [float(row["tokens"]) for row in said],
                    "cost": [float(row["cost"]) for row in said],
                },
            )
        else:
            # One question for each stage of a speaking turn, in three to five rounds.
            turns = [2 * 3 * PLAYERS, 2 * 5 * PLAYERS]
            calls = [float(turns[0]), float(turns[1] * max(one.samples, 1))]
            tokens = [calls[0] * _RATER_TOKENS[0], calls[1] * _RATER_TOKENS[1]]
            basis = (
                f"ASSUMED {_RATER_TOKENS[0]:,} to {_RATER_TOKENS[1]:,} tokens a question; no cost reckoned"
            )
            costs = SeatCosts(basis, {"calls": calls, "prompt_tokens": tokens}, measured=False)
        found.bases.append(f"{one.rater}, {one.dimension}: {basis}")
        found.rating += costs.total("calls", left)
        for quantity in QUANTITIES:
            found.of[quantity] += costs.total(quantity, left)


def left_of(folder: StudyFolder, design: Design) -> Iterator[tuple[StudyCell, PlannedGame]]:
    """The games that are not finished."""
    for cell, game in design.all_games():
        if not folder.has(cell.id, game.id):
            yield cell, game
