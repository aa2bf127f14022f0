"""The bodies of the routes of sealed sets."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from app.base.schemas import AS_WHOLE, FEW, IS_NOTE, Shown, Strict, in_pieces
from app.evaluations.figures import AnswerTotals, RoleFigures
from app.evaluations.schemas import ITEM_ID, AnswerSpec, RaterName, RaterSpec, RaterView, ScoredItem
from evaluators.ground.contexts import History
from evaluators.ground.items import AnsweredDimension, Options

__all__ = [
    "LEAST_ITEMS",
    "MOST_ITEMS",
    "EntryView",
    "GivenAnswer",
    "GoldPage",
    "GoldView",
    "NewAnswers",
    "NewSet",
    "OwnReceipt",
    "OwnReceipts",
    "Receipt",
    "SetPage",
    "SetVariantView",
    "SetView",
    "WithdrawSet",
]

LEAST_ITEMS = 200
MOST_ITEMS = 1000
SAMPLES = 5
MOST_ANSWERS = MOST_ITEMS * SAMPLES

DATE = r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)$"


class SetVariant(Strict):
    """How the items of a set are made and scored. Each shows what one seat saw, and nothing later."""

    options: Options = "impactful"
    history: History = "all"
    unmapped: Literal["count", "discard"] = Field(
        "count", description="Whether text that names no intention counts as predicted."
    )


class NewSet(Strict):
    """A set that the server draws, and seals until a date."""

    name: RaterName = Field(description="What the set is called; other sets may have the same name.")
    dimension: AnsweredDimension
    batches: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^b_[a-z0-9]{1,32}$")]],
        Field(min_length=1, max_length=50, description="Its items are drawn from their finished games."),
        FEW,
    ]
    closes_at: Annotated[str, StringConstraints(max_length=40, pattern=DATE)] = Field(
        description="The date, such as `2030-01-31T12:00:00Z`; at most 400 days off. It cannot be changed."
    )
    items: Annotated[int, Field(ge=LEAST_ITEMS, le=MOST_ITEMS), AS_WHOLE] = Field(
        LEAST_ITEMS, description="How many items are drawn."
    )
    variant: SetVariant = SetVariant()
    guessable_seeds: bool = Field(
        False,
        description="Also draw from games with given `seeds`, and from their forks. Whoever guesses a seed "
        "has the same deal played again, and may find the items there with their gold. Everybody sees that "
        "the set was drawn so.",
    )


class WithdrawSet(Strict):
    """Why a set is withdrawn."""

    reason: Annotated[str, StringConstraints(min_length=1, max_length=500), IS_NOTE] = Field(
        description="What is wrong with the set. Everybody sees it."
    )


class SetVariantView(Shown):
    options: Options
    history: History
    unmapped: Literal["count", "discard"]


class NewAnswers(Strict):
    """All answers of one rater to a set. They take the place of those that it handed in before."""

    rater: RaterSpec
    answers: Annotated[
        list[AnswerSpec], Field(min_length=1, max_length=MOST_ANSWERS), in_pieces(MOST_ANSWERS)
    ]


class Receipt(Shown):
    """That a rater's answers are stored, and nothing else."""

    entry_id: str
    set_id: str
    rater: RaterView
    at: str
    answers: int = Field(description="Answers handed in; each sample counts.")
    items: int = Field(description="Items that they answer. Items that are left out count as silence.")


class GivenAnswer(Shown):
    """An answer as it was handed in."""

    item_id: str = Field(description=ITEM_ID)
    sample: int
    intentions: list[str]
    role: str | None = None
    confidence: int | None = None


class OwnReceipt(Receipt):
    given: list[GivenAnswer] | None = Field(
        None,
        description="What was handed in, with `answers=true`: whoever comes back goes on from there. Null "
        "where it is damaged.",
    )


class OwnReceipts(Shown):
    receipts: list[OwnReceipt]


class EntryView(Receipt):
    """A rater's scores, over all items of the set."""

    owner: str
    totals: AnswerTotals | None = Field(
        None,
        description="Precision, recall and F1 with 95 % intervals over games, whole and by group. Null: the "
        "stored answers are damaged, and could not be scored.",
    )
    roles: RoleFigures | None = Field(
        None, description="Guesses of roles in games whose roles were not public. Null: none were made."
    )
    open_book: RoleFigures | None = Field(
        None, description="Guesses of roles that the end of the game had told everybody."
    )
    per_item: list[ScoredItem] | None = Field(
        None, description="Every item with answer and gold; in `GET /evaluations/sets/{s}/entries/{r}`."
    )
    excluded: dict[str, int] | None = Field(
        None,
        description="Items left out of `per_item`, by reason. `playing`: the caller has a seat in an open "
        "fork of the game; until that has ended, the scores are null, too.",
    )


class SetView(Shown):
    """A set of items."""

    set_id: str
    name: str
    owner: str = Field(description="Who made it, and could read its gold from the beginning.")
    status: Literal["sealed", "scoring", "open", "withdrawn"] = Field(
        description="`sealed` until its date; then `scoring` for a moment, and `open`. `withdrawn`: its "
        "owner took "
        "it back before its date, and nothing is ever told of it."
    )
    dimension: AnsweredDimension
    variant: SetVariantView
    guessable_seeds: bool = Field(
        description="Whether games with given seeds could be drawn: whoever guesses a seed can have the same "
        "deal played again, and the scores may be those of raters who knew the gold. True for sets of "
        "earlier versions."
    )
    created_at: str
    closes_at: str
    items: int
    games: int
    excluded: dict[str, int] | None = Field(
        None,
        description="Items that do not count, by reason; once the set is open. Null for whoever has a seat "
        "in an open fork of a game of the set.",
    )
    withdrawn_at: str | None = Field(None, description="Null: it was not withdrawn.")
    reason: str | None = Field(None, description="Why it was withdrawn.")
    leaderboard: list[EntryView] | None = Field(
        None,
        description="Every rater's last answers, by F1, at the end those without; in "
        "`GET /evaluations/sets/{s}`, once it is open. "
        "Null for whoever has a seat in an open fork of a game of the set: it tells what was dealt.",
    )


class SetPage(Shown):
    sets: list[SetView]
    next: str | None = Field(description="The cursor of the next page; also in `Link`.")


class GoldView(Shown):
    """The right answer to an item of an open set."""

    item_id: str = Field(description=ITEM_ID)
    counted: bool = Field(description="False: the item does not count; `excluded` says why.")
    excluded: str | None
    gold: list[str]
    true_role: str | None


class GoldPage(Shown):
    items: list[GoldView]
    excluded: dict[str, int] = Field(
        description="Items left out of the page, by reason. `playing`: the caller has a seat in an open "
        "fork of the game."
    )
    next: str | None = Field(description="The cursor of the next page; also in `Link`.")
