"""The records that raters and judges exchange with the evaluation routes.

Records are read from the server's answers; fields that this version does not know stay in ``raw``.
``as_json`` writes the records that a client sends, without the fields that were not given.
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
    "ItemSet",
    "ItemSettings",
    "Judged",
    "Judgement",
    "Rater",
    "RaterKind",
    "Receipt",
    "Scored",
    "StoredJudgement",
    "Task",
    "TaskStage",
    "Tasks",
]

Dimension = Literal["selection", "following", "summarisation", "guessing"]
Guessed = Literal["guessing", "summarisation"]
"""Dimensions whose answers are scored against the seats' own choices."""
Judged = Literal["selection", "following", "statements"]
"""The dimensions that judges can judge. People can judge the first two as well."""
Scored = Dimension | Literal["statements"]
"""The possible subjects of an evaluation."""
RaterKind = Literal["model", "human", "program"]


class ItemSettings(TypedDict, total=False):
    """How items are made. The server's defaults apply to settings that are left out."""

    reader: str | int
    """``drawn`` (by ``seed``), ``all``, or the number of a seat."""
    seed: str
    options: Literal["impactful", "roles"]
    history: Literal["all", "round"]
    context: Literal["seat", "release"]
    followed: bool


@dataclass(frozen=True, slots=True)
class Rater:
    """The rater who answers or judges. Under each credential, a name means one rater."""

    name: str
    kind: RaterKind = "program"

    def as_json(self) -> Json:
        return {"name": self.name, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class Answer:
    """A rater's answer to one guessing or summarisation item."""

    item_id: str
    intentions: Sequence[str]
    """Ids, labels or free text; empty if the rater sees no intention."""
    role: str | None = None
    """Guessing only: the guessed role of the speaker."""
    confidence: int | None = None
    """0 to 5: how sure the rater is of the role."""
    sample: int = 1
    """1 to 5; several samples of an item are joined by majority."""

    def as_json(self) -> Json:
        return {**_given(self), "intentions": list(self.intentions)}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rater's judgement of one intention of a selection or following item."""

    item_id: str
    intention: str
    reasonable: bool | None = None
    """For selection items only."""
    think: int | None = None
    """For following items only, 1 to 5."""
    speak: int | None = None
    """For following items only, 1 to 5."""
    comment: str | None = None

    def as_json(self) -> Json:
        return _given(self)


def _given(record: Answer | Judgement) -> dict[str, Any]:
    values = {field_.name: getattr(record, field_.name) for field_ in fields(record)}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Asked:
    """An intention to choose or to judge."""

    id: str
    label: str
    reason: str | None
    """The seat's own reason, when the intention is to be judged."""

    @classmethod
    def read(cls, raw: Json) -> "Asked":
        return cls(raw["id"], raw["label"], raw.get("reason"))


@dataclass(frozen=True, slots=True)
class Item:
    """One question about one speech. It never holds the gold answer."""

    id: str
    game: str
    dimension: Dimension
    request_id: str
    round: int
    attempt: int
    stage: Literal["first", "final"]
    speaker: int
    reader: int | None
    """The seat that guesses; None where no seat does."""
    context: str
    """Everything that the reader may know. Together with ``question``, it makes a whole prompt."""
    question: str
    think: str
    speech: str
    options: Sequence[Asked]
    """The intentions to choose from; empty where intentions are judged."""
    asked: Sequence[Asked]
    """The intentions to judge; empty where intentions are chosen."""
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
        """An answer to this guessing or summarisation item."""
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
        """A judgement of one of the intentions in ``asked`` of this selection or following item."""
        return Judgement(self.id, intention, reasonable, think, speak, comment)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scored answers, or the work of a judge."""

    id: str
    status: Literal["scored", "judging", "cancelled", "failed"]
    dimension: Scored
    rater: Mapping[str, str]
    items: int
    answers: int
    totals: Mapping[str, Any] | None
    """The scores in total. None if no item is judged yet, or for a judge of games that the caller may not
    read in full.
    """
    regrade_of: str | None
    reason: str | None
    """The reason why the evaluation failed, or a note that it was cancelled; None for any other status."""
    progress: Mapping[str, int] | None
    """The counts of a model judge: games, games_done, items, judged, unusable, unanswered, not_asked."""
    per_item: Sequence[Json] | None
    """Every item with its gold answer; None if this was not requested."""
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
class ItemSet:
    """A set of items on which raters are compared: sealed until its date, then open to all."""

    id: str
    name: str
    dimension: Guessed
    status: Literal["sealed", "scoring", "open", "withdrawn"]
    closes_at: str
    items: int
    games: int
    leaderboard: Sequence[Json] | None
    """Every rater's scores, the best first; None until the set is open, and while the caller plays an open
    fork of a game of it.
    """
    reason: str | None
    """Why its owner withdrew it; None: it was not withdrawn."""
    guessable_seeds: bool
    """Whether games with given seeds could be drawn; raters who played them again may know the gold."""
    raw: Json

    @classmethod
    def read(cls, raw: Json) -> "ItemSet":
        return cls(
            id=raw["set_id"],
            name=raw["name"],
            dimension=raw["dimension"],
            status=raw["status"],
            closes_at=raw["closes_at"],
            items=raw["items"],
            games=raw["games"],
            leaderboard=raw.get("leaderboard"),
            reason=raw.get("reason"),
            guessable_seeds=raw.get("guessable_seeds", True),  # a server that does not say draws them
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Receipt:
    """That a rater's answers to a set are stored."""

    entry_id: str
    set_id: str
    rater: Mapping[str, str]
    at: str
    answers: int
    items: int
    """Items that they answer. The others of the set count as silence."""
    raw: Json

    @classmethod
    def read(cls, raw: Json) -> "Receipt":
        names = ("entry_id", "set_id", "rater", "at", "answers", "items")
        return cls(**{name: raw[name] for name in names}, raw=raw)


@dataclass(frozen=True, slots=True)
class TaskStage:
    """A seat's intentions, thoughts and speech in one stage of a turn, to judge intention by intention."""

    stage: Literal["first", "final"]
    selection_item: str | None
    """The item to judge with ``reasonable``; None if there is nothing to judge."""
    following_item: str | None
    """The item to judge with ``think`` and ``speak``; None if there is nothing to judge."""
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
    """The speaking turns of a rater. Those left from earlier deals come first."""

    tasks: Sequence[Task]
    left: int
    """Number of these turns that were dealt earlier and are not judged yet."""
    without_tasks: Mapping[str, str]
    """Games that were looked at for new turns and have none, with the reason."""


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """A judgement in force."""

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
