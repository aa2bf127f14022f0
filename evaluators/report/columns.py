"""Columns: what games and seats can be told apart by, for ``--group-by``, ``--where`` and ``--contrast``.

    columns = columns_of(game, file="a.ndjson")
    columns.seats("role")["merlin"]       # {3}
    columns.seats("profile")["official"]  # all seats, since the whole game has that profile

Columns of seats come from the log's last record of agents (``AgentsSeated``) and from the deal. Columns of
games come from the log, from where the game was found, and from the labels of its batch: every label is a
column of its name (``label:NAME`` if a column has that name already).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from engine.events import AgentsSeated, RolesDealt
from engine.profile import PROFILES, RULES, Profile, make_profile
from engine.seated import SeatedAgent
from engine.terms import Role, Seat, Side, side_of
from evaluators.ground.provenance import AgentProvenance
from evaluators.ground.turns import Game

__all__ = [
    "GAME_COLUMNS",
    "NOT_KNOWN",
    "SEAT_COLUMNS",
    "Condition",
    "Contrast",
    "Factor",
    "GameColumns",
    "Split",
    "UnknownColumn",
    "agent_names",
    "column_name",
    "columns_of",
    "model_seats",
    "no_column",
    "pieces",
    "planned_columns",
    "pooled",
    "read_conditions",
    "read_contrasts",
    "rule_set",
    "seated_agents",
    "selected",
]

GAME_COLUMNS: Final = ("profile", "rules", "players", "batch", "file", "agents", "seating", "seed")
SEAT_COLUMNS: Final = (
    "agent",
    "model",
    "served",
    "preset",
    "steps",
    "prompts",
    "memory",
    "timing",
    "role",
    "side",
)

NOT_KNOWN: Final = "not known"
"""What served a model's seat, where nobody recorded it."""

_AND: Final = " + "
"""Joins the versions that served one seat in one game."""

_OTHER_NAMES: Final = {"mechanism": "preset"}
_NAME: Final = re.compile(r"(label:)?[a-z][a-z0-9_]{0,63}")
_QUOTED: Final = r'"(?:[^"]|"")*"'

_LEVELS: Final = 6
"""The most levels of one contrast: more make over 15 pairs."""


class UnknownColumn(ValueError):
    """A column, condition or contrast that cannot be read, or that no game has."""


@dataclass(frozen=True, slots=True)
class GameColumns:
    """The columns of one game."""

    players: int
    of_game: Mapping[str, str]
    """The value of each column of the whole game."""
    of_seats: Mapping[str, tuple[str, ...]]
    """By column the value of each seat, seat 1 first."""

    def seats(self, column: str) -> dict[str, frozenset[Seat]]:
        """The seats by their value of a column, values sorted; empty if the game has no such column."""
        if column in self.of_game:
            return {self.of_game[column]: frozenset(range(1, self.players + 1))}
        values: dict[str, set[Seat]] = {}
        for seat, value in enumerate(self.of_seats.get(column, ()), 1):
            values.setdefault(value, set()).add(seat)
        return {value: frozenset(seats) for value, seats in sorted(values.items())}

    def versions(self, seats: Collection[Seat]) -> Iterator[tuple[str, str]]:
        """The models of these seats as asked, each with every version that answered, as far as is known."""
        asked, served = self.of_seats.get("model", ()), self.of_seats.get("served", ())
        for seat, (model, versions) in enumerate(zip(asked, served, strict=False), 1):
            if seat in seats and versions != NOT_KNOWN:
                for version in versions.split(_AND):
                    yield model, version

    @property
    def deal(self) -> str:
        """The name that games of one deal share, however they are seated and whatever else differs: profile,
        players and seed. Without a seed: empty.
        """
        seed = self.of_game.get("seed")
        return "" if seed is None else f"{self.of_game['profile']} {self.players} {seed}"

    @property
    def trial(self) -> str:
        """The name that games of one deal share if only their seating differs, as in a mirrored study: what
        they have in common is no evidence twice. Without a seed: empty.
        """
        # A server plays each seating of a study's cell in a batch of its own.
        apart = {"seating", "batch", "file"} if "cell" in self.of_game else {"seating"}
        values = (f"{column}={value}" for column, value in self.of_game.items() if column not in apart)
        return "\n".join(values) if self.deal else ""


def agent_names(game: Game, stored: Sequence[SeatedAgent] = ()) -> tuple[str, ...] | None:
    """The agent of each seat, such as ``llm gpt-x@main paper``; None if neither the game's log nor its line
    of provenance says. ``stored``: the agents where the log names none, as logs of early versions do.
    """
    seated = seated_agents(game, stored)
    return None if seated is None else tuple(AgentProvenance.of(0, agent).name for agent in seated)


def model_seats(game: Game) -> frozenset[Seat] | None:
    """The seats that models held; None if neither the game's log nor its line of provenance says."""
    seated = seated_agents(game)
    if seated is None:
        return None
    return frozenset(seat for seat, agent in enumerate(seated, 1) if agent.agent == "llm")


def seated_agents(game: Game, stored: Sequence[SeatedAgent] = ()) -> Sequence[SeatedAgent] | None:
    """The agents that the log names last; else ``stored``; else those of the game's line of provenance. None
    if there are none, or not one for each seat.
    """
    agents: Sequence[SeatedAgent] = ()
    for event in game.log:
        if isinstance(event, AgentsSeated):
            agents = event.agents
    agents = agents or stored
    if not agents and game.provenance is not None:
        agents = [
            SeatedAgent(agent.agent, agent.endpoint, agent.model, agent.parameters)
            for agent in game.provenance.agents
        ]
    return agents if len(agents) == len(game.roles) else None


_OF_RECORDS: Final = (
    "team_sizes",
    "fails_needed",
    "approval",
    "max_rejections",
    "on_max_rejections",
    "assassination",
    "leader_step",
)
"""The rules that records of other systems state. Of the others, some are read from how a game went."""

_NAMED: Final = 12
"""The most rule sets that are named where they are pooled."""


@lru_cache(64)
def rule_set(profile: Profile) -> str:
    """The name of a rule set: profile and players, with every rule and role that differs from them. Records
    of other systems differ from ``official``.
    """
    is_ours = profile.name in PROFILES
    usual = make_profile(profile.name if is_ours else "official", profile.players)
    changed = [
        f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name in ("roles", *(RULES if is_ours else _OF_RECORDS))
        if (value := getattr(profile, name)) != getattr(usual, name)
    ]
    return ", ".join([f"{profile.name}, {profile.players} players", *changed])


def pooled(sets: Mapping[str, int]) -> str:
    """Rule sets with their numbers of games, the most frequent ones by name."""
    named = sorted(sets, key=lambda name: (-sets[name], name))[:_NAMED]
    words = [f"{name}: {sets[name]:,}" for name in sorted(named)]
    if len(sets) > _NAMED:
        others = sum(sets.values()) - sum(sets[name] for name in named)
        words.append(f"{len(sets) - _NAMED} others: {others:,}")
    return "; ".join(words)


def columns_of(
    game: Game,
    *,
    file: str = "",
    batch: str = "",
    labels: Mapping[str, str] | None = None,
    agents: Sequence[str] | None = None,
    stored: Sequence[SeatedAgent] = (),
    served: Mapping[Seat, Collection[str]] | None = None,
) -> GameColumns:
    """The columns of a finished game.

    ``agents``: what the seats are called, seat 1 first; left out: as in the log. ``stored``: the agents where
    the log names none. ``served``: the models that answered, by seat; left out: as the line of provenance
    says.
    """
    players = len(game.roles)
    of_game = {
        "profile": game.profile.name,
        "rules": rule_set(game.profile),
        "players": f"{players} players",
    }
    if file:
        of_game["file"] = PurePath(file).name
    seed = next((event.seed for event in game.log if isinstance(event, RolesDealt)), None)
    if seed is not None:
        of_game["seed"] = str(seed)
    if served is None and game.provenance is not None:
        served = {agent.seat: agent.served for agent in game.provenance.agents}
    of_seats = _of_agents(seated_agents(game, stored) or (), served or {})
    names = tuple(agents) if agents is not None else agent_names(game, stored)
    if names:
        if len(names) == players:
            of_seats["agent"] = names
        of_game["agents"] = ", ".join(sorted(set(names)))
        of_game["seating"] = ", ".join(names)
    known = game.provenance
    if known is not None:
        labels = {**known.labels, **(labels or {})}
        batch = batch or known.batch_id or ""
    of_game |= _of_labels(labels or {})
    if batch:
        of_game["batch"] = batch
    return GameColumns(players, of_game, {**of_seats, **_of_roles(game.roles)})


def planned_columns(
    profile: Profile, roles: Sequence[Role], agents: Sequence[SeatedAgent], labels: Mapping[str, str]
) -> GameColumns:
    """The columns of a game before it is played; what will serve its models is not known."""
    of_game = {"profile": profile.name, "rules": rule_set(profile), "players": f"{len(roles)} players"}
    return GameColumns(
        len(roles), {**of_game, **_of_labels(labels)}, {**_of_agents(agents, {}), **_of_roles(roles)}
    )


def _of_labels(labels: Mapping[str, str]) -> dict[str, str]:
    taken = {*GAME_COLUMNS, *SEAT_COLUMNS, *_OTHER_NAMES}
    return {f"label:{name}" if name in taken else name: value for name, value in labels.items()}


def _of_roles(roles: Sequence[Role]) -> dict[str, tuple[str, ...]]:
    return {
        "role": tuple(role.value for role in roles),
        "side": tuple(side_of(role).value for role in roles),
    }


def _of_agents(
    agents: Sequence[SeatedAgent], served: Mapping[Seat, Collection[str]]
) -> dict[str, tuple[str, ...]]:
    """The columns of these agents; empty without agents. A seat that has no value of a column, as scripts
    have no model, is named by its kind of agent.
    """
    if not agents:
        return {}
    rows: list[Mapping[str, Any]] = [
        {
            "agent": agent.agent,
            "model": agent.model or agent.endpoint,
            "preset": agent.parameters.get("mechanism"),
            "steps": None if (steps := agent.parameters.get("steps")) is None else "+".join(steps) or "none",
            **{name: agent.parameters.get(name) for name in ("prompts", "memory", "timing")},
        }
        for agent in agents
    ]
    columns = ("agent", "model", "preset", "steps", "prompts", "memory", "timing")
    of_seats = {column: tuple(str(row.get(column) or row["agent"]) for row in rows) for column in columns}
    of_seats["served"] = tuple(
        (_AND.join(sorted(served.get(seat, ()))) or NOT_KNOWN) if row["agent"] == "llm" else str(row["agent"])
        for seat, row in enumerate(rows, 1)
    )
    return of_seats


# --- conditions and contrasts -----------------------------------------------------------------------


class Condition(NamedTuple):
    """One condition of ``--where``: the column has one of the values."""

    column: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        values = (f'"{value}"' if "," in value else value for value in self.values)
        return f"{self.column}={','.join(values)}"


_LONG: Final = 30
"""The most letters of a level's name that is repeated in every sentence."""


class Factor(NamedTuple):
    """Two levels of a column."""

    column: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.name}: {self.first} − {self.second}"

    @property
    def name(self) -> str:
        """The column's, without what sets a label apart from other columns."""
        return self.column.removeprefix("label:")

    @property
    def levels(self) -> tuple[str, str]:
        """The levels in a sentence that follows one with their names: long ones by their place."""
        long = max(len(self.first), len(self.second)) > _LONG
        return ("first", "second") if long else (self.first, self.second)


class Contrast(NamedTuple):
    """A difference of two levels; with a second factor, how the difference changes between its levels."""

    factor: Factor
    by: Factor | None = None
    where: tuple[Condition, ...] = ()
    """Only seats that meet these conditions are contrasted."""
    question: str = ""
    """The question in words, if somebody has put it."""
    measure: str = ""
    """The name of the one figure that decides the question; empty: none does alone."""

    def __str__(self) -> str:
        return self._named(str(self.factor), "" if self.by is None else str(self.by))

    @property
    def short(self) -> str:
        """The contrast, in a sentence that follows one with its whole name."""
        names = [f"{one.name}: {' − '.join(one.levels)}" for one in (self.factor, self.by) if one is not None]
        return self._named(names[0], names[1] if self.by is not None else "")

    def _named(self, factor: str, by: str) -> str:
        words = f"{factor} × {by}" if by else factor
        return f"{words}, {' and '.join(map(str, self.where))}" if self.where else words

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose levels are contrasted."""
        return (self.factor.column,) if self.by is None else (self.factor.column, self.by.column)

    @property
    def levels(self) -> dict[str, tuple[str, str]]:
        """By column the two levels that are contrasted."""
        return {one.column: (one.first, one.second) for one in (self.factor, self.by) if one is not None}

    @property
    def cells(self) -> tuple[str, ...]:
        """What sentences call the two or four cells, in the order of ``statistics.contrasts``."""
        return self._cells(self.factor.levels, () if self.by is None else self.by.levels)

    @property
    def whole_cells(self) -> tuple[str, ...]:
        """The same with the levels' whole names."""
        by = () if self.by is None else (self.by.first, self.by.second)
        return self._cells((self.factor.first, self.factor.second), by)

    @staticmethod
    def _cells(ours: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{level}, {other}" for other in others for level in ours) or ours

    def seats(self, columns: GameColumns) -> tuple[frozenset[Seat], ...]:
        """The seats of the game in each cell."""
        kept = selected(columns, self.where)
        of_factor = columns.seats(self.factor.column)
        ours = [of_factor.get(level, frozenset()) & kept for level in (self.factor.first, self.factor.second)]
        if self.by is None:
            return tuple(ours)
        of_other = columns.seats(self.by.column)
        others = [of_other.get(level, frozenset()) for level in (self.by.first, self.by.second)]
        return tuple(seats & other for other in others for seats in ours)


class Split(NamedTuple):
    """By what the figures of a report are split, restricted and contrasted."""

    group_by: str | None = None
    where: tuple[Condition, ...] = ()
    contrasts: tuple[Contrast, ...] = ()

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that are used, each with what names it: ``contrast``, ``where`` or ``group_by``."""
        return {
            **{
                column: "contrast"
                for contrast in self.contrasts
                for column in (*contrast.columns, *(condition.column for condition in contrast.where))
            },
            **{condition.column: "where" for condition in self.where},
            **({} if self.group_by is None else {self.group_by: "group_by"}),
        }


def column_name(text: str) -> str:
    """The column called ``text``. Raises UnknownColumn if no column can be called so."""
    name = _OTHER_NAMES.get(text, text)
    if not _NAME.fullmatch(name):
        raise UnknownColumn(f"no column is called {text!r}; {_COLUMNS}")
    return name


_COLUMNS: Final = f"columns are {', '.join((*GAME_COLUMNS, *SEAT_COLUMNS))} and the labels of batches"


def no_column(name: str, purpose: str = "group by") -> str:
    """Says that no game has a column of this name, and which there are."""
    return f"no game has a column {name!r} to {purpose}; {_COLUMNS}"


def pieces(text: str, separator: str) -> list[str]:
    """``text`` cut at each ``separator``, a regular expression, but not within a value in double quotes. At
    least one piece, which may be empty.
    """
    found, begin = [], 0
    for match in re.finditer(rf"(?:^|(?<=[=,])) *{_QUOTED}|(?P<cut>{separator})", text):
        if match["cut"] is not None:
            found.append(text[begin : match.start()])
            begin = match.end()
    return [*found, text[begin:]]


def _value(text: str) -> str:
    """The value without the quotes around it; empty if a quote is not closed."""
    value = text.strip()
    if not value.startswith('"'):
        return value
    return value[1:-1].replace('""', '"') if re.fullmatch(_QUOTED, value) else ""


def _read_one(text: str, what: str) -> Condition:
    name, equals, values = text.partition("=")
    listed = tuple(dict.fromkeys(map(_value, pieces(values, ","))))
    if not equals or not all(listed):
        raise UnknownColumn(f"{what} is column=value,value, such as preset=paper,direct; got {text!r}")
    column = column_name(name.strip())
    known = {"role": [role.value for role in Role], "side": [side.value for side in Side]}.get(column)
    wrong = [value for value in listed if known is not None and value not in known]
    if wrong and known:
        raise UnknownColumn(f"no {column} is called {wrong[0]!r}; there are {', '.join(known)}")
    if column == "players":
        listed = tuple(f"{value} players" if value.isdigit() else value for value in listed)
    return Condition(column, listed)


def read_conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    """Conditions such as ``role=merlin,percival``. A value may hold commas itself, as names of rule sets do;
    in double quotes it is one value for certain. Raises UnknownColumn.
    """
    return tuple(_read_one(text, "a condition") for text in texts)


def read_contrasts(texts: Iterable[str]) -> tuple[Contrast, ...]:
    """Contrasts such as ``preset=paper,direct`` or, as an interaction, ``preset=paper,direct x model=a,b``;
    more than two levels give every pair. In double quotes, a quote written twice, a level may be any text.
    ``… where side=evil and model=a`` restricts a contrast. Raises UnknownColumn.
    """
    found: list[Contrast] = []
    for text in texts:
        asked, *conditions = pieces(text.strip(), r"\s+where\s+")
        where = read_conditions(one for some in conditions for one in pieces(some, r"\s+and\s+"))
        parts = [_read_one(part, "a contrast") for part in pieces(asked, r"\s+[x×]\s+")]
        if len(parts) > 2:
            raise UnknownColumn(f"a contrast crosses two columns at most, got {text!r}")
        if len(parts) == 2 and parts[0].column == parts[1].column:
            raise UnknownColumn(f"a contrast crosses two different columns, got {text!r}")
        factors = []
        for part in parts:
            if not 2 <= len(part.values) <= _LEVELS:
                raise UnknownColumn(
                    f"a contrast needs two to {_LEVELS} levels of a column, got {len(part.values)}: {part}"
                )
            factors.append([Factor(part.column, *pair) for pair in combinations(part.values, 2)])
        if len(factors) == 1:
            found += [Contrast(factor, None, where) for factor in factors[0]]
        else:
            found += [Contrast(factor, other, where) for factor in factors[0] for other in factors[1]]
    return tuple(dict.fromkeys(found))


def selected(columns: GameColumns, where: Iterable[Condition]) -> frozenset[Seat]:
    """The seats that meet every condition; none if the game as a whole fails one."""
    seats = frozenset(range(1, columns.players + 1))
    for condition in where:
        by_value = columns.seats(condition.column)
        values = {*condition.values, ", ".join(condition.values)}
        seats &= frozenset().union(*(by_value.get(value, frozenset()) for value in values))
    return seats
