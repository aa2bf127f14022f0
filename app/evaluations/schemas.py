"""The bodies of the routes of evaluations. They are checked here once; everything behind them uses plain
values.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, JsonValue, StringConstraints, Tag, model_validator

from app.base.schemas import (
    AS_WHOLE,
    FEW,
    IS_NAME,
    Cost,
    ModelName,
    RoleName,
    Shown,
    Strict,
    Tokens,
    in_pieces,
)
from app.evaluations.figures import AgreementFigures, ComparedPart, CorrectedFigures, RoleFigures, TotalsView
from app.store.rows import RaterKind
from engine.intentions import IMPACTFUL_RELEASE, IntentionId
from engine.thoughts import SelectionStage
from evaluators.ground.contexts import History, View
from evaluators.ground.items import AnsweredDimension, Dimension, Options

__all__ = [
    "ComparedRater",
    "ComparisonView",
    "EvaluationDimension",
    "EvaluationId",
    "EvaluationPage",
    "EvaluationView",
    "ItemView",
    "ItemsPage",
    "ItemsVariant",
    "JudgementView",
    "JudgementsPage",
    "JudgingRaterSpec",
    "LeftOutView",
    "ModelJudge",
    "NewEvaluation",
    "NewJudgements",
    "NewJudging",
    "ProgressView",
    "RaterKind",
    "RaterSpec",
    "RaterView",
    "ReportProgress",
    "RuleJudge",
    "ScoredItem",
    "SpeechPage",
    "SpeechView",
    "StatementView",
    "Stored",
    "Submission",
    "TaskView",
    "TasksView",
    "UnusableView",
    "VariantSpec",
    "VariantView",
    "WaitingView",
]

EvaluationDimension = Dimension | Literal["statements"]
EvaluationId = Annotated[str, StringConstraints(pattern=r"^e_[a-z0-9]{1,32}$")]
ItemName = Annotated[str, StringConstraints(min_length=1, max_length=160)]
ITEM_ID = "The item's `id`: `{game}/{dimension}/{request}/{stage}/{reader or -}`."
RaterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:@/+-]{0,79}$"), IS_NAME]
KINDS = "`model`: a language model, `human`: a person, `program`: anything else."
Score = Annotated[int, Field(ge=1, le=5), AS_WHOLE]


class RaterSpec(Strict):
    """Who answers. Under each credential, a name means one rater."""

    name: RaterName
    kind: RaterKind = Field("program", description=KINDS)


class JudgingRaterSpec(RaterSpec):
    """Who judges. Only people's judgements are pooled; those of models and programs are kept apart."""

    kind: RaterKind = Field("human", description=KINDS)


class VariantSpec(Strict):
    """How the answered items were made. Scores depend on it, and repeat it. The `variant` of a page of items
    can be sent as it is.
    """

    options: Options = "impactful"
    history: History = "all"
    context: View = "seat"
    followed: bool = Field(
        False,
        description="Score only what was followed, according to the judgements that are stored.",
    )
    unmapped: Literal["count", "discard"] = Field(
        "count",
        description="`count`: text that names no intention counts as predicted. `discard`: it is "
        "discarded, as by the authors' scripts.",
    )
    reader: Annotated[str, StringConstraints(pattern=r"^(drawn|all|[1-9]|10)$")] | None = Field(
        None, exclude=True, description="Accepted and ignored: the item's id says who guesses."
    )
    seed: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None, exclude=True, description="Accepted and ignored: the seed by which readers were drawn."
    )
    impactful: Annotated[list[IntentionId], Field(max_length=100), FEW] | None = Field(
        None, exclude=True, description="The impactful set as the items have it; no other set is scored."
    )

    @model_validator(mode="after")
    def _no_other_set(self) -> Self:
        if self.impactful is not None and frozenset(self.impactful) != IMPACTFUL_RELEASE:
            raise ValueError("impactful must be the set that the items have, or be left out")
        return self


class VariantView(Shown):
    """How the items of an evaluation were made and scored."""

    options: Options
    history: History
    context: View
    followed: bool = Field(description="Whether only what was followed was scored.")
    unmapped: Literal["count", "discard"]


class ItemsVariant(Shown):
    """How items are made. `POST /evaluations` accepts it as it is."""

    reader: str = Field(description="`drawn` by `seed`, `all`, or a seat.")
    seed: str
    history: History
    options: Options
    impactful: list[IntentionId] | None = Field(
        None, description="The set that guessers choose from, with `options=impactful`."
    )
    context: View
    followed: bool


class RaterView(Shown):
    name: str
    kind: RaterKind = Field(description=KINDS)


class AnswerSpec(Strict):
    """One answer to one item."""

    item_id: ItemName = Field(description=ITEM_ID)
    sample: Annotated[int, Field(ge=1, le=5), AS_WHOLE] = Field(
        1, description="The number of this answer among up to five to the item, joined by majority."
    )
    intentions: Annotated[
        list[Annotated[str, StringConstraints(max_length=300)]], Field(max_length=20), FEW
    ] = Field(description="Ids, labels or free text. Empty: the rater sees no intention.")
    role: RoleName | None = Field(
        None, description="Guessing only: the role that the rater takes the speaker for."
    )
    confidence: Annotated[int, Field(ge=0, le=5), AS_WHOLE] | None = Field(
        None, description="How sure the rater is of the role, from 0 to 5."
    )

    @model_validator(mode="after")
    def _sure_of_something(self) -> Self:
        if self.confidence is not None and self.role is None:
            raise ValueError("a confidence needs a role")
        return self


class NewEvaluation(Strict):
    """Answers of one rater to guessing or summarisation items whose gold the caller may read."""

    dimension: AnsweredDimension
    rater: RaterSpec
    variant: VariantSpec = VariantSpec()
    answers: Annotated[list[AnswerSpec], Field(min_length=1, max_length=2000), in_pieces(2000)]
    regrade_of: EvaluationId | None = Field(
        None, description="An evaluation of the same rater that this one is linked to. It is not changed."
    )


class ModelJudge(Strict):
    """A model that is asked about every item by our rubric, and has to quote its evidence."""

    kind: Literal["model"]
    model: ModelName = Field(description="An endpoint of this server.")
    name: RaterName | None = Field(
        None, description="The rater of its judgements. If omitted: `judge` and the endpoint's name."
    )
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0.0
    max_output_tokens: Annotated[int, Field(ge=16, le=1_000_000), AS_WHOLE] = 2000
    attempts: Annotated[int, Field(ge=1, le=5), AS_WHOLE] = Field(
        3, description="The most answers that are asked for, until one can be used."
    )
    planted: Annotated[int, Field(ge=0, le=10), AS_WHOLE] = Field(
        1,
        description="For a judge of statements: the number of control speeches for each game. Their "
        "statements are made from its record and known to be true or false; they measure the judge and count "
        "in no rate.",
    )


class RuleJudge(Strict):
    """The rules alone: they refuse what contradicts role, record or another selection, and do not decide
    about the rest.
    """

    kind: Literal["rule"]


JudgeSpec = Annotated[ModelJudge | RuleJudge, Field(discriminator="kind")]


class JudgeBudget(Strict):
    """When to stop asking. What was judged by then is kept."""

    max_tokens: Tokens | None = Field(None, description="Prompt and completion together.")
    max_cost: Cost | None = Field(None, description="In the currency of the configured prices.")
    max_parallel: Annotated[int, Field(ge=1, le=10_000), AS_WHOLE] | None = Field(
        None, description="Calls in flight at once; the endpoint's own limits apply too."
    )


class NewJudging(Strict):
    """A judge's work on the finished games of a batch, or on one game."""

    dimension: Literal["selection", "following", "statements"] = Field(
        description="`statements`: what speeches say about the record, and whether that is true."
    )
    judge: JudgeSpec
    game: Annotated[str, StringConstraints(pattern=r"^g_[a-z0-9]{1,32}$")] | None = None
    batch: Annotated[str, StringConstraints(pattern=r"^b_[a-z0-9]{1,32}$")] | None = None
    budget: JudgeBudget | None = None
    regrade_of: EvaluationId | None = Field(
        None, description="An evaluation of the same judge, whose items are judged again. It is not changed."
    )


def _which(value: object) -> str:
    judged = "judge" in value if isinstance(value, dict) else isinstance(value, NewJudging)
    return "judged-by" if judged else "handed-in"


Submission = Annotated[
    Annotated[NewEvaluation, Tag("handed-in")] | Annotated[NewJudging, Tag("judged-by")],
    Discriminator(_which),
]
"""Answers to be scored, or a judge to be asked."""


class ScoredItem(Shown):
    """One item of an evaluation, with its gold."""

    item_id: str = Field(description=ITEM_ID)
    counted: bool = Field(description="False: the item does not count; `excluded` says why.")
    excluded: str | None
    gold: list[str]
    predicted: list[str]
    matched: list[str]
    unmapped: list[str]
    role: str | None
    true_role: str | None
    confidence: float | None


class ProgressView(Shown):
    """The progress of a model judge. Items (for statements: speeches, also planted ones) are those of
    finished games.
    """

    games: int
    games_done: int = Field(description="Games whose judgements are stored, and games that were left out.")
    items: int
    judged: int
    unusable: int = Field(description="Items without a usable answer. They get no score.")
    unanswered: int = Field(description="Items that the model did not answer.")
    not_asked: int = Field(description="Items that the budget did not reach.")
    left_out: int = Field(description="Games that cannot be judged; `left_out` names them.")


class LeftOutView(Shown):
    """A game that is left out."""

    game_id: str
    reason: str


class WaitingView(Shown):
    """A judge whose database does not answer. It waits twice as long after each fault, up to 5 minutes."""

    since: str
    faults: int = Field(description="Faults in a row.")
    cause: str
    again_at: str = Field(description="The time of the next try.")


class UnusableView(Shown):
    """An answer that could not be used, as it was received."""

    item_id: str = Field(description=ITEM_ID)
    faults: list[str]
    answer: str


class EvaluationView(Shown):
    evaluation_id: str
    status: Literal["scored", "judging", "cancelled", "failed"]
    dimension: EvaluationDimension
    rater: RaterView
    variant: VariantView | None = Field(description="Null for a judge.")
    created_at: str
    grade: int = Field(
        description="1, and one more each time that the rater answers or judges the same again."
    )
    regrade_of: str | None
    answers: int = Field(description="Answers handed in; each sample counts.")
    items: int = Field(
        description="Items that they answer. For somebody else's judge, 0 unless the caller may read its "
        "games in full; so for its own judges of selections and following, if it lacks the scope `annotate`."
    )
    totals: TotalsView | None = Field(
        description="Precision, recall and F1 with 95 % intervals, whole and by round, role, side, stage and "
        "category. Null for a judge of games that the caller may not read in full, and as long as its owner "
        "plays the deal of one of the games in somebody else's open fork."
    )
    roles: RoleFigures | None = Field(
        None,
        description="Guesses of roles in games whose roles were not public: accuracy, Brier score, "
        "reliability curve. Null: none were made.",
    )
    open_book: RoleFigures | None = Field(
        None, description="The same, in games whose roles everybody learned at the end."
    )
    excluded: dict[str, int] | None = Field(None, description="Items that do not count, by reason.")
    per_item: list[ScoredItem] | None = Field(None, description="With `?per_item=true`.")
    damaged: list[str] | None = Field(
        None,
        description="Stored answers that are damaged, and games whose items are left out, since they "
        "are; with `?per_item=true`.",
    )
    judge: JudgeSpec | None = Field(None, description="The judge of the request.")
    reason: str | None = Field(None, description="Why the evaluation failed, or that it was cancelled.")
    progress: ProgressView | None = Field(None, description="For a model judge.")
    left_out: list[LeftOutView] | None = Field(
        None, description="For a judge: the first 50 games that cannot be judged, with the reason."
    )
    waiting: WaitingView | None = Field(
        None, description="For a judge of this process, while the database does not answer."
    )
    agreement: AgreementFigures | None = Field(
        None,
        description="The judge's agreement with people who judged in the same games, by part, with the bar; "
        "for a judge of statements, its agreement with the rules. In `GET /evaluations/{e}`, for whoever may "
        "read the games in full.",
    )
    corrected: CorrectedFigures | None = Field(
        None,
        description="For a model judge of selection or following that is done: its shares, corrected by the "
        "items that people judged too. In `GET /evaluations/{e}`, for whoever may read the games in full.",
    )
    fit_to_show: bool | None = Field(
        None,
        description="For a judge: whether it agrees with people well enough for its scores to be shown "
        "beside theirs. In `GET /evaluations/{e}`.",
    )
    unusable: list[UnusableView] | None = Field(
        None, description="For a judge: the first answers that could not be used; with `?per_item=true`."
    )


class StatementView(Shown):
    """One statement about the record, as a judge reads it."""

    start: int
    end: int = Field(description="`start` and `end` are its place in the speech, in characters.")
    quote: str
    verdict: Literal["supported", "refuted", "uncheckable"]
    record: str = Field(description="The line of the public record that decides it; empty if none does.")
    reason: str


class SpeechView(Shown):
    """A speech that a judge read."""

    game_id: str
    request_id: str
    turn: int = Field(description="Utterances before it in the attempt.")
    seat: int
    statements: list[StatementView] = Field(description="Empty if it states nothing about the record.")


class SpeechPage(Shown):
    speeches: list[SpeechView]
    damaged: list[str] = Field([], description="Damaged rows of the page, by the ids in their keys.")
    next: str | None = Field(None, description="The cursor of the next page; also in `Link`.")


class ComparedRater(Shown):
    """One of two raters that are compared."""

    rater: str
    kind: RaterKind | None = Field(None, description="Null for answers of several evaluations.")
    evaluation_id: str | None = None
    grade: int | None = None
    variant: VariantView | None = Field(None, description="How the items were made. Null for a judge.")
    judge: JudgeSpec | None = None


class ComparisonView(Shown):
    """Two raters, compared on what both have answered or judged."""

    dimension: Dimension
    first: ComparedRater
    second: ComparedRater
    unit: Literal["item", "intention"] = Field(
        description="The subject of one answer or judgement: an item, or an intention of a stage."
    )
    shared: int = Field(
        description="Units that both have answered or judged, including those that do not count."
    )
    first_only: int = Field(description="Units of the first rater alone. They are not compared.")
    second_only: int
    items: int = Field(description="Shared items that count: the totals are made of them.")
    games: int = Field(description="The games of these items.")
    excluded_games: int = Field(
        description="Games that are left out, since their models defaulted too many decisions or since they "
        "were marked as invalid."
    )
    damaged: list[str] = Field(
        [],
        description="What cannot be read, and is left out: answers and judgements by the ids in their keys, "
        "whole games by their ids.",
    )
    totals: dict[str, ComparedPart] | None = Field(
        description="By part (`guessing`, `summarisation`, `reasonable`, `think`, `speak`) and measure: each "
        "rater's figure and the difference, first less second, with 95 % intervals over games, and the p "
        "value. Null if a judge may not be compared with people."
    )
    test: str = Field(description="How the p values are computed.")
    lacking: list[str] = Field(description="What a judge lacks in agreement with people.")


class EvaluationPage(Shown):
    evaluations: list[EvaluationView]
    damaged: list[str] = Field([], description="Ids of damaged evaluations of the page.")
    next: str | None


class ReportProgress(Shown):
    """A report that is being made."""

    status: Literal["making"] = "making"
    games: int
    games_done: int
    eta_s: float | None = Field(description="Estimated seconds left; null before the first games are done.")


class OptionView(Shown):
    id: str
    label: str


class AskedView(OptionView):
    reason: str


class ItemView(Shown):
    """One question to a rater. It never holds gold."""

    id: str
    game_id: str
    position: int = Field(description="`seq` of the utterance in the public stream.")
    dimension: Dimension
    request_id: str
    round: int
    attempt: int
    stage: SelectionStage
    speaker: int
    reader: int = Field(description="The seat that guesses; 0: no guess is asked for.")
    context: str = Field(description="What that seat saw, as text. Players' words are quoted.")
    question: str = Field(
        description="The question. Together with `context` it is a complete prompt for a model."
    )
    view: dict[str, JsonValue] = Field(description="The context as data.")
    think: str
    speech: str
    options: list[OptionView] | None = Field(None, description="The intentions to choose from.")
    asked: list[AskedView] | None = Field(None, description="The selected intentions to judge.")
    reason: str | None = Field(
        None, description="The reason for the selection as a whole; empty if none was given."
    )


class ItemsPage(Shown):
    variant: ItemsVariant
    items: list[ItemView]
    excluded: dict[str, int] = Field(
        description="How many stages of turns gave no item, by reason; on this page."
    )
    next: str | None = Field(None, description="The cursor of the next page; also in `Link`.")


class JudgementSpec(Strict):
    """One rater's judgement of one intention of a selection or following item."""

    item_id: ItemName = Field(description=ITEM_ID)
    intention: Annotated[str, StringConstraints(min_length=1, max_length=300)] = Field(
        description="The id or label of one of the item's intentions."
    )
    reasonable: bool | None = Field(None, description="For selection items only.")
    think: Score | None = Field(None, description="For following items: how well the thinking follows it.")
    speak: Score | None = Field(None, description="For following items: how well the speech follows it.")
    comment: Annotated[str, StringConstraints(max_length=2000)] | None = None


class NewJudgements(Strict):
    rater: JudgingRaterSpec
    judgements: Annotated[list[JudgementSpec], Field(min_length=1, max_length=2000), in_pieces(2000)]
    revise: bool = Field(
        False, description="Judge again what this rater has judged; the earlier judgement stays stored."
    )


class Stored(Shown):
    stored: int
    revised: int = Field(description="How many of them replace an earlier judgement of the same rater.")


class JudgementView(Shown):
    game_id: str
    request_id: str
    stage: SelectionStage
    intention: str
    reasonable: bool | None
    think: int | None
    speak: int | None
    rater: str
    kind: RaterKind
    comment: str | None


class JudgementsPage(Shown):
    judgements: list[JudgementView]
    damaged: list[str] = Field([], description="Damaged rows, by the ids in their keys.")


class TaskStage(Shown):
    stage: SelectionStage
    selection_item: str | None = Field(
        description="Judge each intention as reasonable or not. Null if not asked."
    )
    following_item: str | None = Field(
        description="Score think and speak of each, 1 to 5. Null if not asked."
    )
    intentions: list[AskedView]
    reason: str = Field(description="The reason for the selection as a whole; empty if none was given.")
    without: Literal["", "speech", "summary"] = Field(
        description="The part of the record that was missing when the seat selected these: the last "
        "`speech`, with the team proposed in it, or its own `summary` of the attempt before. Empty if "
        "nothing was missing."
    )
    think: str
    speech: str


class TaskView(Shown):
    """One speaking turn to judge, seen from the speaker's own seat."""

    game_id: str
    request_id: str
    round: int
    attempt: int
    speaker: int
    context: str
    view: dict[str, Any]
    stages: list[TaskStage]


class TasksView(Shown):
    rater: str
    tasks: list[TaskView]
    left: int = Field(description="How many of them were dealt earlier and are not judged yet.")
    without_tasks: list[LeftOutView] = Field(
        [], description="Games that were looked at and have no task for this rater, and why."
    )
