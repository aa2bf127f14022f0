"""One game as the oracle reads it: the log's lines, what was asked of it, and who said what of that."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EVIL = {"assassin", "morgana", "mordred", "oberon", "minion"}
_CATALOGUE = json.loads((Path(__file__).parents[4] / "engine" / "intentions.json").read_text())["intentions"]
CATEGORY: dict[str, str] = {one["id"]: one["category"] for one in _CATALOGUE}
SIDES = ("loyal", "evil")
PARTS = ("think", "speak")


def side_of(role: str) -> str:
    return "evil" if role in EVIL else "loyal"


@dataclass
class Turn:
    """A speaking turn that something was asked about: no default was played for it."""

    request_id: str
    round: int
    seat: int
    first: set[str] | None = None
    """None: the seat recorded no first selection."""
    final: set[str] = field(default_factory=set)
    changed: bool = False
    """Whether the final selection is asked about apart from the first."""
    modified: bool = False
    """Whether the seat recorded a final selection of its own."""

    def asked(self, stage: str) -> set[str]:
        return (self.first or set()) if stage == "first" else self.final


class OneGame:
    """``seats``: whose turns, answers and beliefs count; ``whole``: they are all."""

    def __init__(
        self, told: Mapping[str, Any], judges: Iterable[str], seats: Iterable[int] | None = None
    ) -> None:
        self.told = told
        self.id: str = told["id"]
        self.events: list[dict[str, Any]] = told["events"]
        dealt = next(one for one in self.events if one["type"] == "roles_dealt")
        self.roles = {int(seat): role for seat, role in dealt["roles"].items()}
        self.side = {seat: side_of(role) for seat, role in self.roles.items()}
        self.winner: str = self.events[-1]["winner"]
        self.seats = set(self.roles) if seats is None else set(seats)
        self.whole = self.seats == set(self.roles)
        self.results = {
            one["round"]: "loyal" if one["succeeded"] else "evil" for one in self.of("quest_resolved")
        }
        self.all_turns = self._read_turns()
        self.turns = {id_: turn for id_, turn in self.all_turns.items() if turn.seat in self.seats}
        self.judges = set(judges)
        rows: list[dict[str, Any]] = told["judgements"]
        self.rows = rows
        self.people = [row for row in rows if row["rater"] not in self.judges]
        self.said = self.people or rows
        """What stands for what was followed: people's word, or the judges' where no person judged."""
        self.followed = follow_means(self.said)

    def of(self, type_: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["type"] == type_]

    def _read_turns(self) -> dict[str, Turn]:
        turns: dict[str, Turn] = {}
        for item in self.told["asked"]["following"]:
            turn = turns.setdefault(
                item["request_id"], Turn(item["request_id"], item["round"], item["speaker"])
            )
            if item["stage"] == "final":
                turn.final = set(item["asked"])
        for item in self.told["asked"]["selection"]:
            turn = turns[item["request_id"]]
            if item["stage"] == "first":
                turn.first = set(item["asked"])
        for item in self.told["asked"]["selection"]:
            turn = turns[item["request_id"]]
            if item["stage"] == "final":
                turn.changed = turn.first is not None
        self._find_modified(turns)
        return turns

    def _find_modified(self, turns: Mapping[str, Turn]) -> None:
        chosen: set[int] = set()
        for one in self.events:
            if one["type"] == "proposal_opened":
                attempt = f"{one['round']}.{one['attempt']}"
                chosen = set()
            elif one["type"] == "intentions_selected" and one["stage"] == "final":
                chosen.add(one["seat"])
            elif one["type"] == "utterance_made" and one["phase"] == "discuss" and one["seat"] in chosen:
                for kind in ("speak", "propose_team"):
                    if (turn := turns.get(f"{attempt}.{kind}.{one['seat']}")) is not None:
                        turn.modified = True

    def opens(self, turn: Turn) -> bool:
        """Whether nobody spoke before in the attempt."""
        attempt = turn.request_id.rsplit(".", 2)[0]
        spoken = [
            one["seat"]
            for one in self.of("utterance_made")
            if one["phase"] == "discuss" and f"{one['round']}.{one['attempt']}" == attempt
        ]
        return spoken[0] == turn.seat

    def by(self, turn: Turn) -> list[tuple[str, str]]:
        """The groups that a turn belongs to."""
        role = self.roles[turn.seat]
        return [("all", "all"), ("side", side_of(role)), ("role", role), ("round", str(turn.round))]

    def judged(self, rows: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Turn]]:
        """The rows about what a seat selected there, each beside its turn."""
        return [
            (row, turn)
            for row in rows
            if (turn := self.turns.get(row["request_id"])) is not None
            and row["intention"] in turn.asked(row["stage"])
        ]


def follow_means(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], dict[str, float | None]]:
    """The mean scores of each intention of a stage, over whoever scored it."""
    given: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for row in rows:
        held = given.setdefault(
            (row["request_id"], row["stage"], row["intention"]), {part: [] for part in PARTS}
        )
        for part in PARTS:
            if row[part] is not None:
                held[part].append(row[part])
    return {
        place: {part: sum(scores) / len(scores) if scores else None for part, scores in held.items()}
        for place, held in given.items()
    }
