"""What passes between raters, judges and the evaluation routes, with names.

What the server answers is read into records; fields this version does not know stay in ``raw``. What is
handed in is written by ``as_json``: fields that were not given are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from interintent_client.records import Json

__all__ = [
    "Answer",
    "Asked",
    "Dimension",
    "Evaluation",
    "Guessed",
    "Item",
    "ItemSettings",
    "Judged",
    "Judgement",
    "Rater",
    "RaterKind",
    "Scored",
    "StoredJudgement",
    "Task",
    "TaskStage",
    "Tasks",
]

Dimension = Literal["selection", "following", "summarisation", "guessing"]
Guessed = Literal["guessing", "summarisation"]
"""Dimensions that are answered, and scored against what the seats had chosen."""
Judged = Literal["selection", "following", "statements"]
"""What judges have a word on; of the first two people have, too."""
Scored = Dimension | Literal["statements"]
"""What an evaluation may be about."""
RaterKind = Literal["model", "human", "program"]


class ItemSettings(TypedDict, total=False):
    """How items are made; what is left out is as the server has it."""

    reader: str | int
    """``drawn`` by ``seed``, ``all``, or a seat."""
    seed: str
    options: Literal["impactful", "roles"]
    history: Literal["all", "round"]
    context: Literal["seat", "release"]
    followed: bool


@dataclass(frozen=True, slots=True)
class Rater:
    """Who answers or judges. The name is the rater's own within the credential."""

    name: str
    kind: RaterKind = "program"

    def as_json(self) -> Json:
        return {"name": self.name, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rater says of one guessing or summarisation item."""

    item_id: str
    intentions: Sequence[str]
    """Ids, labels or free text; empty: the rater sees none."""
    role: str | None = None
    """Guessing only: what the speaker is taken for."""
    confidence: int | None = None
    """0 to 5, how sure of the role."""
    sample: int = 1
    """1 to 5; several samples of an item are joined by majority."""

    def as_json(self) -> Json:
        return {**_given(self), "intentions": list(self.intentions)}


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rater says of one intention of a selection or following item."""

    item_id: str
    intention: str
    reasonable: bool | None = None
    """Of a selection item, and only there."""
    think: int | None = None
    """Of a following item, 1 to 5."""
    speak: int | None = None
    """Of a following item, 1 to 5."""
    comment: str | None = None

    def as_json(self) -> Json:
        return _given(self)


def _given(record: Answer | Judgement) -> dict[str, Any]:
    values = {field_.name: getattr(record, field_.name) for field_ in fields(record)}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Asked:
    """An intention to choose from, or one to be judged."""

    id: str
    label: str
    reason: str | None
    """The seat's own, where the intention is to be judged."""

    @classmethod
    def read(cls, raw: Json) -> "Asked":
        return cls(raw["id"], raw["label"], raw.get("reason"))


@dataclass(frozen=True, slots=True)
class Item:
    """One question about one speech. It never holds gold."""

    id: str
    game: str
    dimension: Dimension
    request_id: str
    round: int
    attempt: int
    stage: Literal["first", "final"]
    speaker: int
    reader: int | None
    """The seat that guesses; None where nobody does."""
    context: str
    """What that seat saw. Together with ``question`` it is a whole prompt."""
    question: str
    think: str
    speech: str
    options: Sequence[Asked]
    """What to choose from; empty where intentions are judged."""
    asked: Sequence[Asked]
    """What is to be judged; empty where intentions are chosen."""
    raw: Json

    @classmethod
    def read(cls, raw: Json) -> "Item":
        return cls(
            id=raw["id"],
            game=raw["game_id"],
            dimension=raw["dimension"],
            request_id=raw["request_id"],
            round=raw["round"],
            attempt=raw["attempt"],
            stage=raw["stage"],
            speaker=raw["speaker"],
            reader=raw["reader"] or None,
            context=raw["context"],
            question=raw["question"],
            think=raw["think"],
            speech=raw["speech"],
            options=tuple(Asked.read(intention) for intention in raw.get("options") or ()),
            asked=tuple(Asked.read(intention) for intention in raw.get("asked") or ()),
            raw=raw,
        )

    def answer(
        self,
        intentions: Sequence[str],
        *,
        role: str | None = None,
        confidence: int | None = None,
        sample: int = 1,
    ) -> Answer:
        """An answer to this item, of guessing or summarisation."""
        return Answer(self.id, intentions, role, confidence, sample)

    def judgement(
        self,
        intention: str,
        *,
        reasonable: bool | None = None,
        think: int | None = None,
        speak: int | None = None,
        comment: str | None = None,
    ) -> Judgement:
        """A word on one of ``asked``, of selection or following."""
        return Judgement(self.id, intention, reasonable, think, speak, comment)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Answers that were scored, or a judge at work."""

    id: str
    status: Literal["scored", "judging", "cancelled", "failed"]
    dimension: Scored
    rater: Mapping[str, str]
    items: int
    answers: int
    totals: Mapping[str, Any] | None
    """None where too few items are behind them for this caller to see them, or none was judged yet."""
    regrade_of: str | None
    reason: str | None
    """Why it failed."""
    progress: Mapping[str, int] | None
    """Of a model judge: games, games_done, items, judged, unusable, unanswered, not_asked."""
    per_item: Sequence[Json] | None
    """Every item beside its gold, where it was asked for."""
    raw: Json

    @classmethod
    def read(cls, raw: Json) -> "Evaluation":
        return cls(
            id=raw["evaluation_id"],
            status=raw["status"],
            dimension=raw["dimension"],
            rater=raw["rater"],
            items=raw["items"],
            answers=raw["answers"],
            totals=raw.get("totals"),
            regrade_of=raw.get("regrade_of"),
            reason=raw.get("reason"),
            progress=raw.get("progress"),
            per_item=raw.get("per_item"),
            raw=raw,
        )

    @property
    def f1(self) -> float | None:
        """Micro-averaged F1 of guesses or summaries; None where the server does not give it."""
        micro = (self.totals or {}).get("micro")
        return None if micro is None else micro["f1"]["value"]


@dataclass(frozen=True, slots=True)
class TaskStage:
    """What a seat chose, thought and said in one stage of a turn, to be judged intention by intention."""

    stage: Literal["first", "final"]
    selection_item: str | None
    """The item for ``reasonable``; None: not asked."""
    following_item: str | None
    """The item for ``think`` and ``speak``; None: not asked."""
    intentions: Sequence[Asked]
    think: str
    speech: str


@dataclass(frozen=True, slots=True)
class Task:
    """One speaking turn to judge, as the speaker's own seat saw it."""

    game: str
    request_id: str
    round: int
    attempt: int
    speaker: int
    context: str
    stages: Sequence[TaskStage]
    raw: Json

    @classmethod
    def read(cls, raw: Json) -> "Task":
        stages = tuple(
            TaskStage(
                stage=stage["stage"],
                selection_item=stage["selection_item"],
                following_item=stage["following_item"],
                intentions=tuple(Asked.read(choice) for choice in stage["intentions"]),
                think=stage["think"],
                speech=stage["speech"],
            )
            for stage in raw["stages"]
        )
        return cls(
            raw["game_id"],
            raw["request_id"],
            raw["round"],
            raw["attempt"],
            raw["speaker"],
            raw["context"],
            stages,
            raw,
        )


@dataclass(frozen=True, slots=True)
class Tasks:
    """A rater's turns: those left of earlier deals first."""

    tasks: Sequence[Task]
    left: int
    """Of these, dealt earlier and not judged yet."""


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """A judgement that stands."""

    game: str
    request_id: str
    stage: Literal["first", "final"]
    intention: str
    reasonable: bool | None
    think: int | None
    speak: int | None
    rater: str
    kind: RaterKind
    comment: str | None

    @classmethod
    def read(cls, raw: Json) -> "StoredJudgement":
        of_game = {"game": raw["game_id"]}
        return cls(
            **of_game, **{field_.name: raw[field_.name] for field_ in fields(cls) if field_.name != "game"}
        )
