"""What the commands of a study share: its folder, its endpoints, and what there is of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from agents.errors import InvalidAgent
from agents.llm.options import read_options
from agents.model.model import read_sampling
from app.base.clock import now_ms, timestamp
from app.cli.database import read_settings
from app.cli.study_server import beyond_games
from app.cli.terminal import fail, note
from app.evaluations.study_raters import rater_key
from app.files.games import Unusable, bundles, games_in
from app.runner.study_folder import (
    Frozen,
    GameRecord,
    StudyFault,
    StudyFolder,
    differences,
    inside,
    prompts_of,
)
from app.settings import EndpointSettings, InvalidEndpoints, read_endpoints
from app.store.call import Use
from evaluators.ground.turns import Game
from evaluators.report.columns import (
    GAME_COLUMNS,
    SEAT_COLUMNS,
    Contrast,
    UnknownColumn,
    pieces,
    read_conditions,
    read_contrasts,
)
from evaluators.report.contrasts import figure_names, range_of
from evaluators.study.design import Design, StudyCell
from evaluators.study.file import FACTORS_OF_RULES, EvaluationAsked, Study, target_of

__all__ = [
    "MODELS_FILE",
    "RECORDED",
    "CellState",
    "StudyState",
    "cells_of",
    "deviations",
    "endpoints_of",
    "folder_of",
    "freeze",
    "note_deviations",
    "note_hosts",
    "opened",
    "pilot_study",
    "read_finished",
    "state_of",
]

MODELS_FILE: Final = "models.toml"

RECORDED: Final = "recorded answers"
"""What an endpoint without a model asks."""

_PILOT_SEED: Final = 2**40
"""Pilot games play the deals from here on, so that none of them is a game of the study."""


def folder_of(path: Path, *, pilot: bool = False) -> StudyFolder:
    """The study's folder; a study file stands for the folder that it is in."""
    return StudyFolder(path.parent if path.is_file() else path, pilot=pilot)


def opened(folder: StudyFolder) -> tuple[Study, Design]:
    """The study and its design. Ends the command for a file with faults."""
    try:
        study = folder.study()
        design = folder.design(study)
        _check_files(folder, study)
        _check_conditions(study)
        _check_questions(folder, design)
    except StudyFault as fault:
        fail(str(fault).replace(":\n", ": ").replace("\n", "; "))
    return study, design


def pilot_study(study: Study, games: int) -> Study:
    """The study with so many pilot games of each cell in place of its games."""
    own = study.design.model_copy(update={"games": games, "seed": study.design.seed + _PILOT_SEED})
    return study.model_copy(update={"design": own})


def _check_files(folder: StudyFolder, study: Study) -> None:
    """Raises StudyFault for a file of judgements that is not in the study's folder."""
    for one in study.evaluations:
        if one.file is not None:
            inside(folder.path, one.file)


def _check_conditions(study: Study) -> None:
    """Raises StudyFault for a condition that is no option of seats, before a question is blamed for it."""
    for index, cell in enumerate(study.settings()):
        for factor, value in cell.items():
            _, what = target_of(factor)
            if what == "model" or what in FACTORS_OF_RULES:
                continue
            try:
                read_options(read_sampling({"mechanism" if what == "preset" else what: value})[1])
            except InvalidAgent as fault:
                at = f"/cells/{index}" if study.cells else "/conditions"
                raise StudyFault(f"{at}/{factor}: {fault}") from None


def _check_questions(folder: StudyFolder, design: Design) -> None:
    """Raises StudyFault for a question that no report could answer."""
    for index, asked in enumerate(design.study.questions_asked()):
        try:
            contrasts = read_contrasts([asked["contrast"]])
            where = read_conditions([] if asked["where"] is None else pieces(asked["where"], r"\s+and\s+"))
        except UnknownColumn as fault:
            raise StudyFault(f"/questions/{index}: {fault}") from None
        if asked["measure"] is not None and range_of(asked["measure"]) is None:
            _refuse_figure(f"/questions/{index}/measure", asked["measure"])
        for condition in where:
            _check_levels(folder, design, f"/questions/{index}/where", condition.column, condition.values)
        for contrast in contrasts:
            at = f"/questions/{index}/contrast"
            for condition in contrast.where:
                _check_levels(folder, design, at, condition.column, condition.values)
            for factor in (contrast.factor, contrast.by):
                if factor is not None:
                    _check_levels(folder, design, at, factor.column, (factor.first, factor.second))
            _check_cells(design, at, contrast._replace(where=(*where, *contrast.where)))


def _refuse_figure(at: str, name: str) -> NoReturn:
    """Ends the command for a figure that no report has: first what may be meant, then all there are."""
    wrong = f"{at}: no figure is called {name!r}"
    there = f"there are {'; '.join(figure_names())}. Of seats won, name a side: seats won, evil"
    sides = [figure.replace("…", side) for figure in figure_names() for side in ("evil", "loyal")]
    near = get_close_matches(name, dict.fromkeys(sides), n=2, cutoff=0.5)
    if not near:
        fail(f"{wrong}; {there}")
    note(f"interintent: {wrong}; did you mean {' or '.join(map(repr, near))}?")
    fail(there, named=False)


def _check_levels(folder: StudyFolder, design: Design, at: str, column: str, levels: Sequence[str]) -> None:
    """Raises StudyFault for a column, or a value of it, that no game of the study will have."""
    labels = {name for cell in design.cells for name in cell.labels}
    name = column.removeprefix("label:")
    if name not in labels:
        if column not in (*GAME_COLUMNS, *SEAT_COLUMNS, "study", "cell"):
            conditions = (
                f"its conditions are {', '.join(sorted(labels))}" if labels else "it has no conditions"
            )
            columns = ", ".join((*GAME_COLUMNS, *SEAT_COLUMNS))
            raise StudyFault(
                f"{at}: no game of this study has {name!r}; {conditions}, other columns {columns}"
            )
        values = _models_asked(folder, design.study) if column == "model" else set()
    elif name == "steps":
        values = set()
    else:
        values = {cell.labels[name] for cell in design.cells if name in cell.labels}
        if name == "players":
            values = {f"{value} players" for value in values}
    for level in levels:
        if values and level not in values:
            whose = "cell" if name in labels else "seat"
            raise StudyFault(f"{at}: no {whose} has {name}={level}; they have {', '.join(sorted(values))}")


def _check_cells(design: Design, at: str, contrast: Contrast) -> None:
    """Raises StudyFault if a level has no cell that meets the conditions, since exclusions leave it out."""
    for words, cells in cells_of(design, contrast):
        if not cells:
            raise StudyFault(f"{at}: no cell has {words}, so there would be nothing to compare")


def cells_of(design: Design, contrast: Contrast) -> Iterator[tuple[str, list[StudyCell]]]:
    """Each combination of levels that is compared, with the contrast's conditions: in words, and the cells
    whose games may meet it, which are all cells where only seats differ in it.
    """
    for levels in product(*contrast.levels.values()):
        asked = [(column, (level,)) for column, level in zip(contrast.levels, levels, strict=True)]
        of_cells = [(column.removeprefix("label:"), values) for column, values in (*asked, *contrast.where)]
        words = " and ".join(f"{name}={','.join(values)}" for name, values in of_cells)
        yield words, [cell for cell in design.cells if all(_may_have(design, cell, *one) for one in of_cells)]


def _may_have(design: Design, cell: StudyCell, name: str, values: Sequence[str]) -> bool:
    """Whether games of the cell may have one of these values: always, of what is no condition."""
    known = {"cell": cell.id, **cell.labels}.get(name)
    if name == "steps" and all(one.labels.get(name) not in values for one in design.cells):
        # Seats have their steps in the order of a turn, whatever the file's order.
        return True
    return known is None or (f"{known} players" if name == "players" else known) in values


def _models_asked(folder: StudyFolder, study: Study) -> set[str]:
    """What the endpoints call the study's models, or the kind of agent of those that are none; empty if an
    endpoint is not known here, as on a server.
    """
    endpoints = endpoints_of(folder)
    names = set()
    for name, model in study.models.items():
        endpoint = endpoints.get(model.endpoint or name)
        if model.agent == "llm" and model.model is None and endpoint is None:
            return set()
        names.add(
            model.agent if model.agent != "llm" else model.model or (endpoint.model if endpoint else "")
        )
    return names


def endpoints_of(folder: StudyFolder) -> dict[str, EndpointSettings]:
    """The endpoints of the settings, and those of the study's own models file. Ends the command if they
    cannot be read, if the study's name a file that is not in its folder, or if one has the name of a
    configured one and another address: a study that was handed on sends no key of ours elsewhere.
    """
    own, settings = folder.path / MODELS_FILE, read_settings()
    try:
        configured = settings.endpoints()
        if not own.exists() or (settings.models_file is not None and own.samefile(settings.models_file)):
            return configured
        brought = read_endpoints({}, own, within=folder.path)
    except InvalidEndpoints as fault:
        fail(str(fault))
    for name in configured.keys() & brought.keys():
        if configured[name].base_url != brought[name].base_url:
            fail(
                f"endpoint {name!r}: {own} has another address ({_host(brought[name])}) than your settings "
                f"({_host(configured[name])}); give one of the two another name"
            )
    return configured | brought


def note_hosts(study: Study, endpoints: Mapping[str, EndpointSettings], *, plays: bool = True) -> None:
    """Says whom the study's models and raters ask, and with which key. ``plays``: here, not on a server."""
    players = (one.endpoint or name for name, one in study.models.items() if plays and one.agent == "llm")
    for name in sorted({*players, *(str(one.model) for one in study.evaluations if one.kind != "raters")}):
        if (endpoint := endpoints.get(name)) is None or endpoint.recorded is not None:
            continue
        if endpoint.api_key_env is not None:
            key = f"the key of the variable {endpoint.api_key_env}"
        elif endpoint.api_key_file is not None:
            key = f"the key in {endpoint.api_key_file}"
        else:
            key = "no key" if endpoint.api_key is None else "the key in its settings"
        note(f"{name} asks {_host(endpoint)} with {key}")


def _host(endpoint: EndpointSettings) -> str:
    if endpoint.base_url is None:
        return RECORDED
    address = urlsplit(endpoint.base_url)
    return f"{address.scheme}://{address.netloc}"


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
    for one in deviations(folder, study, frozen):
        folder.note("deviation", known_by=list(one), at=timestamp(now_ms()), **one)
    return folder.notes("deviation")


# --- what there is ------------------------------------------------------------------------------------


@dataclass(slots=True)
class CellState:
    """What is there of one cell."""

    cell: StudyCell
    planned: int
    records: list[GameRecord] = field(default_factory=list)
    anew: list[GameRecord] = field(default_factory=list)
    """Of games that a server played anew in place of these."""
    damaged: list[str] = field(default_factory=list)
    """Files of games that cannot be used, and why; ``study run`` plays these games anew."""

    @property
    def done(self) -> int:
        """Its finished games that the plan asks for."""
        return len(self.records)

    @property
    def all_records(self) -> list[GameRecord]:
        """Of its games, and of those that were played anew."""
        return self.records + self.anew

    @property
    def calls(self) -> int:
        """Calls of all its games."""
        return sum(one.calls for one in self.all_records)

    @property
    def tokens(self) -> int:
        """The same in tokens."""
        return sum(one.tokens for one in self.all_records)

    @property
    def cost(self) -> float:
        """The same in money."""
        return sum(one.cost for one in self.all_records)

    @property
    def decisions(self) -> tuple[int, int]:
        """Of model seats of the games that the plan asks for: played by default, and all."""
        return sum(one.defaulted for one in self.records), sum(one.decisions for one in self.records)

    @property
    def asked(self) -> dict[str, list[str]]:
        """By endpoint: the models that its games asked; more than one must not be pooled."""
        found: dict[str, set[str]] = {}
        for record in self.all_records:
            for name, model in record.asked.items():
                found.setdefault(name, set()).add(model or RECORDED)
        return {name: sorted(models) for name, models in sorted(found.items())}

    @property
    def served(self) -> dict[str, list[str]]:
        """By endpoint: the models that providers say they served."""
        found: dict[str, set[str]] = {}
        for record in self.all_records:
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
    beyond: Use = field(default_factory=Use)
    """What servers took for games that did not finish, or that have not been fetched."""

    @property
    def done(self) -> int:
        """Finished games of the plan."""
        return sum(one.done for one in self.cells)

    @property
    def anew(self) -> int:
        """Games that a server played anew in place of others: raters are asked about both."""
        return sum(len(one.anew) for one in self.cells)

    @property
    def raters(self) -> list[EvaluationAsked]:
        """The evaluations that models make."""
        return [one for one in self.design.study.evaluations if one.kind != "raters"]

    @property
    def complete(self) -> bool:
        """Whether every planned game is there, and judged."""
        return self.done == self.design.size and all(
            len(self.rated[rater_key(one)]) == self.design.size + self.anew for one in self.raters
        )

    @property
    def damaged(self) -> list[str]:
        """Files of games that cannot be used, and why."""
        return [words for one in self.cells for words in one.damaged]

    @property
    def calls(self) -> int:
        """Calls of finished games and of raters."""
        return sum(one.calls for one in self.cells) + sum(
            int(one["calls"]) for games in self.rated.values() for one in games
        )

    @property
    def tokens(self) -> int:
        """The same in tokens, with what servers took beyond finished games."""
        rated = sum(int(one["tokens"]) for games in self.rated.values() for one in games)
        return sum(one.tokens for one in self.cells) + rated + self.beyond.tokens

    @property
    def cost(self) -> float:
        """The same in money."""
        rated = sum(float(one["cost"]) for games in self.rated.values() for one in games)
        return sum(one.cost for one in self.cells) + rated + self.beyond.cost


def state_of(folder: StudyFolder, design: Design) -> StudyState:
    """What is there of the study's planned games."""
    cells = []
    rated: dict[str, list[dict[str, Any]]] = {
        rater_key(one): [] for one in design.study.evaluations if one.kind != "raters"
    }
    for cell in design.cells:
        state = CellState(cell, design.study.design.games)
        state.damaged = folder.damaged(cell.id, (game.id for game in design.games(cell)))
        for game in design.games(cell):
            for name in folder.finished(cell.id, game.id):
                if (record := folder.record(cell.id, name)) is None:
                    continue
                (state.records if name == game.id else state.anew).append(record)
                for key, games in rated.items():
                    if (one := folder.rated(key, name)) is not None:
                        games.append({what: value for what, value in one.items() if what != "rows"})
        cells.append(state)
    return StudyState(design, cells, rated, beyond_games(folder))


def read_finished(folder: StudyFolder, cell: str, game: str) -> Game:
    """A finished game of the study. Raises StudyFault if its file is damaged."""
    file = folder.game_file(cell, game)
    for bundle in bundles([str(file)], lambda _: None):
        for found in games_in(bundle):
            if isinstance(found, Unusable):
                raise StudyFault(
                    f"{file}: {found.reason}; remove it, and the game is played from its answers"
                )
            return found
    raise StudyFault(f"{file} is empty; remove it, and the game is played again from its stored answers")
