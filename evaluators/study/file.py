"""The study file: what is played, how often, what is asked of the games, and what it may cost.

    study = read_study(Path("study.toml").read_text("utf-8"))

The file is TOML. Every fault is named with a JSON pointer into it and with what is allowed there. Which
options a seat takes is not known here: whoever makes the seats checks them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from math import prod
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from engine.errors import InvalidProfile
from engine.profile import PROFILES, RULES, Profile, make_profile
from engine.terms import Role, Side

__all__ = [
    "DIMENSIONS_OF",
    "FACTORS_OF_RULES",
    "ContrastAsked",
    "EvaluationAsked",
    "InvalidStudy",
    "Seating",
    "Study",
    "StudyModel",
    "Value",
    "label_of",
    "read_study",
    "schema",
    "study_from",
    "target_of",
]

Seating = Literal["fixed", "rotated", "mirrored"]

FACTORS_OF_RULES: Final = ("profile", "players", "roles", *RULES)
"""The factors that change the rules; all others change seats."""

_TARGETS: Final = (*(side.value for side in Side), *(role.value for role in Role))

_MOST_CELLS: Final = 1000
_MOST_CROSSED: Final = 100_000
"""Combinations, before some are excluded."""
_MOST_GAMES: Final = 1_000_000
"""Of all cells together."""

_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_FACTOR: Final = r"^([a-z][a-z0-9_]{0,31}\.)?[a-z][a-z0-9_]{0,31}$"

Name = Annotated[str, StringConstraints(pattern=_NAME)]
Factor = Annotated[str, StringConstraints(pattern=_FACTOR)]

Value = bool | int | float | str | list[Any] | dict[str, Any]
"""A value of a factor. Lists are values themselves: steps, seats, roles."""

Seats = Name | list[Name] | dict[str, Name]
"""One model for all seats, one for each seat, or one by side, role or ``others``."""

DIMENSIONS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "judge": ("selection", "following", "statements"),
    "guesser": ("guessing", "summarisation"),
    "raters": ("selection", "following"),
}
"""The dimensions of each kind of evaluation."""


class InvalidStudy(ValueError):
    """A study file that cannot be used."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        """``faults``: a JSON pointer and a sentence for each."""
        super().__init__("\n".join(f"{pointer or '/'}: {what}" for pointer, what in faults))
        self.faults = faults


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class StudyModel(_Part):
    """A player: a language model behind an endpoint, or one of the scripted agents."""

    agent: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")] = Field(
        "llm", description="`llm`, or another kind of agent: `scripted`, `random`, a package's."
    )
    endpoint: Name | None = Field(
        None, description="The endpoint in the models file. If omitted: the name of this table."
    )
    model: str | None = Field(
        None,
        description="The model's name at its provider. Given, the run checks that the endpoint asks this "
        "model, and cells are identified by this name and not by the endpoint's.",
    )
    preset: str | None = Field(None, description="`llm` only. A condition `preset` overrides it.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Options of a seat, e.g. `temperature`. Conditions override them."
    )


class StudyTable(_Part):
    """What all games have in common. Conditions override it."""

    profile: Literal["interintent", "official"] = "interintent"
    players: int = Field(5, ge=5, le=10)
    roles: list[str] | None = Field(None, description="The deck. If omitted: the profile's.")
    rules: dict[str, Any] = Field(
        default_factory=dict, description="Rules that differ from the profile's, e.g. `discussion`."
    )
    seats: Seats = Field(
        description="Who sits where: one model for all seats; a list with one for each seat; or by side or "
        'role, e.g. `{ loyal = "small", evil = "large" }`, where `others` takes the rest.'
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of every model's seat.")


class StudyDesign(_Part):
    """How many games there are, and who sits where in each."""

    games: int = Field(ge=1, le=100_000, description="Games of each cell. More games later reuse the first.")
    seed: int = Field(
        1, ge=0, le=2**63 - 1, description="The first seed. All cells play the same deals: games are paired."
    )
    seating: Seating = Field(
        "mirrored",
        description="`mirrored`: each deal is played once for every model of the table, and the models pass "
        "on their seats, so that each holds every seat, role and side equally often. `rotated`: from game "
        "to game everybody moves by one seat. `fixed`: nobody moves, as in every cell in which a condition "
        "gives a side or a role its model.",
    )


class StudyBudget(_Part):
    """The most that may be spent, evaluations included. Changes no result, so it may change at any time."""

    max_cost: float | None = Field(None, gt=0, description="In the currency of the endpoints' prices.")
    max_tokens: int | None = Field(None, ge=1, description="Prompts and answers together.")
    max_cost_per_game: float | None = Field(None, gt=0)
    max_tokens_per_game: int | None = Field(None, ge=1)
    parallel: int = Field(16, ge=1, le=10_000, description="Games at the same time.")


class StudyExclusions(_Part):
    """What does not count."""

    defaults_above: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Games whose models defaulted a larger share of their decisions do not count. "
        "The report shows the figures with them, too.",
    )
    cells: list[dict[Factor, Value]] = Field(
        default_factory=list,
        description="Combinations of crossed conditions that are not played: each names some values.",
    )


class EvaluationAsked(_Part):
    """Who judges or answers items of the games."""

    kind: Literal["judge", "guesser", "raters"] = Field(
        description="`judge`: a model judges selections, how speeches follow them, or what speeches state "
        "about the record. `guesser`: a model answers guessing or summarisation items. `raters`: people's "
        "judgements from a file."
    )
    dimension: Literal["selection", "following", "statements", "guessing", "summarisation"] | None = None
    model: Name | None = Field(None, description="An endpoint of the models file.")
    name: str | None = Field(
        None, description="The rater's name in the report. If omitted: from the model's."
    )
    attempts: int = Field(3, ge=1, le=5, description="Attempts per question, until an answer is usable.")
    temperature: float = Field(0.0, ge=0, le=2)
    max_output_tokens: int = Field(2048, ge=16, le=1_000_000)
    samples: int = Field(1, ge=1, le=5, description="Guessers: replies per item, joined by majority.")
    options: Literal["impactful", "roles"] = Field(
        "impactful", description="Guessers: which intentions may be named."
    )
    planted: int = Field(
        1,
        ge=0,
        le=10,
        description="Judges of statements: control speeches of each game, whose statements are made from the "
        "record and known to be true or false. They measure the judge and count in no rate.",
    )
    file: str | None = Field(
        None, description="Raters: CSV or JSON of judgements, beside the study file. May come later."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind == "raters":
            if self.file is None:
                raise ValueError("raters need the file of their judgements: file = …")
            if self.model is not None or self.dimension is not None:
                raise ValueError("raters take a file, no model and no dimension")
            return self
        if self.file is not None:
            raise ValueError(f"a {self.kind} has no file; that is for raters")
        if self.model is None:
            raise ValueError(f"a {self.kind} needs a model: an endpoint of the models file")
        if self.dimension not in DIMENSIONS_OF[self.kind]:
            *others, last = DIMENSIONS_OF[self.kind]
            raise ValueError(
                f"a {self.kind} takes the dimension {', '.join(others)} or {last}, "
                f"got {self.dimension or 'none'}"
            )
        return self

    @property
    def rater(self) -> str:
        """The rater's name in the report."""
        return self.name or f"{self.kind} {self.model}"


class ContrastAsked(_Part):
    """A question that the study answers."""

    text: str = Field(min_length=1, description="The question in words, as the report shows it.")
    contrast: str = Field(
        pattern=r'^[a-z][a-z0-9_]*=( *"|[^,=]+,( *"|[^,=]+))',
        description="A column and the values compared, e.g. `preset=paper,direct`. The condition "
        "`evil.preset` is the column `evil_preset`.",
    )
    where: str | None = Field(
        None, pattern=r"^[a-z][a-z0-9_]*=[^=]+", description="Only these, e.g. `role=merlin`."
    )
    measure: str | None = Field(
        None, description="The one figure that decides. If omitted: every figure is contrasted."
    )

    @field_validator("contrast", "where", mode="before")
    @classmethod
    def _as_label(cls, value: Any) -> Any:
        # A condition's name may be written as in the file.
        return re.sub(r"\b([a-z]\w*)\.(\w+=)", r"\1_\2", value) if isinstance(value, str) else value


class Study(_Part):
    """A study file."""

    title: str = Field(min_length=1, max_length=200)
    about: str = Field("", description="Anything worth knowing; the report shows it.")
    models: dict[Name, StudyModel] = Field(min_length=1, description="Who plays, by name.")
    prompts: dict[Name, str] = Field(
        default_factory=dict, description="Directories of templates, by the name that `prompts` takes."
    )
    table: StudyTable
    design: StudyDesign
    conditions: dict[Factor, Annotated[list[Value], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Factors that are crossed: every combination of their values is a cell. A factor is "
        "`model`, `preset`, any option of a seat, `profile`, `players`, `roles` or a rule. Before a dot "
        "stands whose seats it changes: a side, a role or a model, e.g. `evil.preset`.",
    )
    cells: list[dict[Factor, Value]] = Field(
        default_factory=list, description="Listed in place of `conditions`: the factors of each cell."
    )
    budget: StudyBudget = Field(default_factory=StudyBudget)
    exclusions: StudyExclusions = Field(default_factory=StudyExclusions)
    evaluations: list[EvaluationAsked] = Field(default_factory=list)
    questions: list[ContrastAsked] = Field(default_factory=list)

    def settings(self) -> list[dict[str, Any]]:
        """The factors' values of every cell, in the order of the file; one empty cell without conditions."""
        if self.cells:
            return [dict(cell) for cell in self.cells]
        crossed: list[dict[str, Any]] = [{}]
        for factor, values in self.conditions.items():
            crossed = [{**cell, factor: value} for cell in crossed for value in values]
        left_out = self.exclusions.cells
        return [
            cell
            for cell in crossed
            if not any(all(cell.get(name) == value for name, value in out.items()) for out in left_out)
        ]

    def seating(self, cell: Mapping[str, Any]) -> Seating:
        """How seats are passed on in the cell with these factors: not at all where a factor gives a side or a
        role its model, for that would take it away again.
        """
        given = any(
            what == "model" and (target in _TARGETS or isinstance(value, dict))
            for factor, value in cell.items()
            for target, what in [target_of(factor)]
        )
        return "fixed" if given else self.design.seating

    def questions_asked(self) -> list[dict[str, Any]]:
        """The questions as reports take them. Where ``model`` is a condition, a question about models means
        their names in the study, which games carry as a label, not what their endpoints call them.
        """
        by_name = any("model" in cell for cell in self.settings())
        return [
            {
                name: _MODEL.sub("label:model=", value) if by_name and name in _COLUMNS and value else value
                for name, value in question.model_dump(mode="json").items()
            }
            for question in self.questions
        ]

    def profile(self, cell: Mapping[str, Any]) -> Profile:
        """The rules of the cell with these factors. Raises InvalidProfile."""
        table = self.table
        rules = {**table.rules, **{name: cell[name] for name in RULES if name in cell}}
        players = cell.get("players", table.players)
        return make_profile(
            cell.get("profile", table.profile), players, roles=cell.get("roles", table.roles), rules=rules
        )


_COLUMNS: Final = ("contrast", "where")
"""The parts of a question that name columns."""

_MODEL: Final = re.compile(r"(?<![\w:.])model=")


def target_of(factor: str) -> tuple[str | None, str]:
    """Whose seats a factor changes (None: all), and what it changes."""
    target, dot, what = factor.rpartition(".")
    return (target if dot else None), what


def label_of(value: Any) -> str:
    """A factor's value as a label: at most 128 characters, the same for equal values."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "+".join(label_of(one) for one in value) or "none"
    if isinstance(value, dict):
        return "+".join(f"{name}:{label_of(one)}" for name, one in value.items()) or "none"
    return str(value)


def read_study(text: str) -> Study:
    """The study in the text of a file. Raises InvalidStudy."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InvalidStudy([("", f"this is not TOML: {fault}")]) from None
    except RecursionError:
        raise InvalidStudy([("", "this is nested too deeply")]) from None
    return study_from(values)


def study_from(values: Mapping[str, Any]) -> Study:
    """The study in these plain values. Raises InvalidStudy."""
    try:
        study = Study.model_validate(values)
    except ValidationError as fault:
        raise InvalidStudy(_faults(fault)) from None
    if faults := list(dict.fromkeys(_senseless(study))):
        raise InvalidStudy(faults)
    return study


def schema() -> dict[str, Any]:
    """The file's JSON Schema, for editors and other programs."""
    made = Study.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "Study"}


# --- faults -------------------------------------------------------------------------------------------


_PARTS: Final[Mapping[str, type[_Part]]] = {
    "models": StudyModel,
    "table": StudyTable,
    "design": StudyDesign,
    "budget": StudyBudget,
    "exclusions": StudyExclusions,
    "evaluations": EvaluationAsked,
    "questions": ContrastAsked,
}


def _faults(fault: ValidationError) -> list[tuple[str, str]]:
    """One fault for each place. A place with several kinds of values has one for each kind: the first says
    what is wrong, the others what else would be allowed.
    """
    found: dict[str, list[str]] = {}
    for error in fault.errors(include_url=False, include_context=False):
        loc = [part for part in error["loc"] if not _is_branch(part)]
        pointer = "".join(f"/{part}" for part in loc)
        if error["type"] == "extra_forbidden":
            part = _PARTS.get(str(loc[0])) if len(loc) > 1 else Study
            known = ", ".join(Study.model_fields if part is None else part.model_fields)
            words = f"there is no such field; allowed are {known}"
        elif error["type"] == "missing":
            words = "this is missing"
        elif error["type"] == "list_type" and loc[:1] == ["conditions"] and isinstance(error["input"], dict):
            words = f'a name with a dot is quoted: "{loc[1]}.{next(iter(error["input"]), "preset")}" = […]'
        elif error["type"] == "string_pattern_mismatch" and loc[-1] == "contrast":
            words = "takes a column and the values compared, such as preset=paper,direct"
        elif error["type"] == "string_pattern_mismatch" and loc[-1] == "where":
            words = "takes a column and a value, such as role=merlin"
        elif error["type"] == "string_pattern_mismatch" and error["loc"][-1] == "[key]":
            pointer = pointer.removesuffix("/[key]")
            words = "not a name: letters, digits, dots, dashes and underscores, at most 64"
        else:
            words = error["msg"].removeprefix("Value error, ").replace("Input should be", "should be")
        if words not in found.setdefault(pointer, []):
            found[pointer].append(words)
    return [(pointer, "; or ".join(words)) for pointer, words in found.items()]


def _is_branch(part: int | str) -> bool:
    """Whether this part of a place is only pydantic's name for one of several kinds of values."""
    return isinstance(part, str) and (
        part in ("bool", "int", "float", "str") or part.startswith(("list[", "dict[", "constrained-"))
    )


def _senseless(study: Study) -> Iterator[tuple[str, str]]:
    """The faults that show only when parts are read together."""
    if study.cells and study.conditions:
        yield "/cells", "give either cells (listed) or conditions (crossed), not both"
        return
    for name in study.models:
        if name in (*_TARGETS, "others", "all"):
            yield f"/models/{name}", f"{name} is the name of a side, a role or all seats; take another one"
    for name, model in study.models.items():
        if model.agent != "llm" and (model.endpoint or model.model or model.preset):
            yield f"/models/{name}", f"endpoint, model and preset are for llm, this one is {model.agent}"
    yield from _table_faults(study)
    if (crossed := prod(map(len, study.conditions.values()))) > _MOST_CROSSED:
        yield "/conditions", f"{crossed:,} combinations; at most {_MOST_CROSSED:,} are crossed in one study"
        return
    settings = study.settings()
    if not settings:
        yield "/exclusions/cells", "every combination of the conditions is excluded: nothing is left to play"
    if len(settings) > _MOST_CELLS:
        yield "/conditions", f"{len(settings):,} cells; at most {_MOST_CELLS:,} are played in one study"
        return
    if (games := len(settings) * study.design.games) > _MOST_GAMES:
        yield (
            "/design/games",
            f"{games:,} games of all cells; at most {_MOST_GAMES:,} are played in one study",
        )
        return
    for out, cell in enumerate(study.exclusions.cells):
        for factor, value in cell.items():
            if value not in study.conditions.get(factor, ()):
                yield f"/exclusions/cells/{out}/{factor}", "no condition has this factor with this value"
    for index, cell in enumerate(settings):
        yield from _cell_faults(study, f"/cells/{index}" if study.cells else "/conditions", cell)
    if study.cells and len({frozenset(cell) for cell in study.cells}) > 1:
        yield (
            "/cells",
            "every listed cell gives the same factors; write the usual value where nothing changes",
        )
    passed_on = study.design.seating if "seating" in study.design.model_fields_set else "fixed"
    if passed_on != "fixed" and any(study.seating(cell) == "fixed" for cell in settings):
        yield (
            "/design/seating",
            f"a condition gives a side or role its model; {passed_on} seats would take it away: write fixed",
        )
    raters = [evaluation.rater for evaluation in study.evaluations if evaluation.kind != "raters"]
    asked = [(one.rater, one.dimension) for one in study.evaluations if one.kind != "raters"]
    for index, (rater, dimension) in enumerate(asked):
        if (rater, dimension) in asked[:index]:
            yield f"/evaluations/{index}", f"{raters[index]} does this twice; give one of the two a name"


def _table_faults(study: Study) -> Iterator[tuple[str, str]]:
    yield from _seats_faults(study, "/table/seats", study.table.seats, study.table.players)
    if fault := _rules_fault(study, {}):
        yield "/table" + fault[0], fault[1]


def _cell_faults(study: Study, at: str, cell: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    labels = [factor.replace(".", "_") for factor in cell]
    for factor, value in cell.items():
        target, what = target_of(factor)
        if labels.count(factor.replace(".", "_")) > 1:
            yield f"{at}/{factor}", f"two factors would have the label {factor.replace('.', '_')}"
        if len(factor) > 32:
            yield f"{at}/{factor}", "a factor's name has at most 32 characters, since it becomes a label"
        if factor in ("study", "cell"):
            yield f"{at}/{factor}", "this name labels every game already"
        if target is not None and target not in (*_TARGETS, *study.models):
            known = ", ".join((*_TARGETS, *study.models))
            yield f"{at}/{factor}", f"{target} is no side, role or model; known are {known}"
        if target is not None and what in FACTORS_OF_RULES:
            yield f"{at}/{factor}", f"{what} is a rule of the whole table, not of some seats"
        if len(label_of(value)) > 128:
            yield f"{at}/{factor}", "the value is too long for a label: more than 128 characters"
        if what == "model" and target is None:
            yield from _seats_faults(study, f"{at}/{factor}", value, cell.get("players", study.table.players))
        elif what == "model" and value not in study.models:
            yield f"{at}/{factor}", f"{value!r} is no model of this study; they are {', '.join(study.models)}"
        if what == "preset" and not isinstance(value, str):
            yield f"{at}/{factor}", "a preset is named by a word"
    if fault := _rules_fault(study, cell):
        pointer = fault[0].removeprefix("/rules")
        yield at + pointer, fault[1]


def _seats_faults(study: Study, at: str, seats: Any, players: Any) -> Iterator[tuple[str, str]]:
    known = ", ".join(study.models)
    if isinstance(seats, str):
        named = [seats]
    elif isinstance(seats, list):
        named = seats
        if len(seats) != players:
            yield at, f"{players} players take {players} seats, or one name for all; got {len(seats)}"
    elif isinstance(seats, dict):
        named = list(seats.values())
        for place in seats:
            if place not in (*_TARGETS, "others"):
                yield f"{at}/{place}", f"a place is one of {', '.join(_TARGETS)} or others"
        if "others" not in seats and not {"loyal", "evil"} <= seats.keys():
            yield at, "some seats have no model: name both sides, or add others"
    else:
        yield at, "a name, a list of names, or names by side or role"
        return
    for name in named:
        if name not in study.models:
            yield at, f"{name!r} is no model of this study; they are {known}"


def _rules_fault(study: Study, cell: Mapping[str, Any]) -> tuple[str, str] | None:
    if cell.get("profile", PROFILES[0]) not in PROFILES:
        return "/profile", f"profile must be one of {', '.join(PROFILES)}, got {cell['profile']!r}"
    try:
        study.profile(cell)
    except InvalidProfile as fault:
        return fault.pointer, str(fault)
    except TypeError:
        return "", "roles and rules take the values of the profile's settings"
    return None
