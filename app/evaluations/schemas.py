"""What passes through the routes of evaluations: checked here once, plain values inside."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, JsonValue, StringConstraints, Tag, model_validator

from app.base.schemas import AS_WHOLE, Cost, ModelName, RoleName, Shown, Strict, Tokens
from app.evaluations.figures import AgreementFigures, ComparedPart, RoleFigures, TotalsView
from engine.intentions import IMPACTFUL_RELEASE, IntentionId
from engine.thoughts import SelectionStage
from evaluators.ground.contexts import History, View
from evaluators.ground.items import Dimension, Options

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
RaterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:@/+-]{0,79}$")]
RaterKind = Literal["model", "human", "program"]
KINDS = "`model`: a language model, `human`: a person, `program`: anything else."
Score = Annotated[int, Field(ge=1, le=5), AS_WHOLE]


class RaterSpec(Strict):
    """Who answers. A name is the rater's own within the credential that hands the answers in."""

    name: RaterName
    kind: RaterKind = Field("program", description=KINDS)


class JudgingRaterSpec(RaterSpec):
    """Who judges. Only what people say is pooled; models and programs stand by themselves."""

    kind: RaterKind = Field("human", description=KINDS)


class VariantSpec(Strict):
    """How the items were made that are answered; echoed with the scores, which differ by it. The `variant` of
    a page of items is one.
    """

    options: Options = "impactful"
    history: History = "all"
    context: View = "seat"
    followed: bool = Field(
        False, description="Score only what was followed, by the judgements stored by now (PAPER 3)."
    )
    unmapped: Literal["count", "discard"] = Field(
        "count",
        description="Text that names no intention counts as predicted; `discard` is the authors' way.",
    )
    reader: Annotated[str, StringConstraints(pattern=r"^(drawn|all|[1-9]|10)$")] | None = Field(
        None, exclude=True, description="Who guesses says the item's id: taken, and not looked at."
    )
    seed: Annotated[str, StringConstraints(max_length=64)] | None = Field(
        None, exclude=True, description="What readers were drawn by: taken, and not looked at."
    )
    impactful: Annotated[list[IntentionId], Field(max_length=100)] | None = Field(
        None, exclude=True, description="The impactful set; no other than the items give is scored."
    )

    @model_validator(mode="after")
    def _no_other_set(self) -> Self:
        if self.impactful is not None and frozenset(self.impactful) != IMPACTFUL_RELEASE:
            raise ValueError("impactful is the set that items give, or left out")
        return self


class VariantView(Shown):
    """How the items of an evaluation were made, and how they are scored."""

    options: Options
    history: History
    context: View
    followed: bool = Field(description="Only what was followed was scored.")
    unmapped: Literal["count", "discard"]


class ItemsVariant(Shown):
    """How items are made. `POST /evaluations` takes it as it stands here."""

    reader: str = Field(description="`drawn` by `seed`, `all`, or a seat.")
    seed: str
    history: History
    options: Options
    impactful: list[IntentionId] | None = Field(
        None, description="What a guesser chooses from, where it is that."
    )
    context: View
    followed: bool


class RaterView(Shown):
    name: str
    kind: RaterKind = Field(description=KINDS)


class AnswerSpec(Strict):
    """What the rater says of one item."""

    item_id: ItemName = Field(description=ITEM_ID)
    sample: Annotated[int, Field(ge=1, le=5), AS_WHOLE] = Field(
        1, description="Which of up to five answers to the item this is. They are joined by majority."
    )
    intentions: Annotated[list[Annotated[str, StringConstraints(max_length=300)]], Field(max_length=20)] = (
        Field(description="Ids, labels or free text. Empty: the rater sees none.")
    )
    role: RoleName | None = Field(None, description="Guessing only: what the speaker is taken for.")
    confidence: Annotated[int, Field(ge=0, le=5), AS_WHOLE] | None = Field(
        None, description="How sure of the role."
    )

    @model_validator(mode="after")
    def _sure_of_something(self) -> Self:
        if self.confidence is not None and self.role is None:
            raise ValueError("a confidence goes with a role")
        return self


class NewEvaluation(Strict):
    """Answers of one rater to guessing or summarisation items."""

    dimension: Literal["guessing", "summarisation"]
    rater: RaterSpec
    variant: VariantSpec = VariantSpec()
    answers: Annotated[list[AnswerSpec], Field(min_length=1, max_length=2000)]
    regrade_of: EvaluationId | None = Field(
        None, description="An evaluation of the same rater whose items are answered anew; it stays as it is."
    )


class ModelJudge(Strict):
    """A model that is asked about every item by our rubric, and has to quote its evidence."""

    kind: Literal["model"]
    model: ModelName = Field(description="An endpoint of this server.")
    name: RaterName | None = Field(
        None, description="The rater's name of its judgements. Left out: `judge` and the endpoint's name."
    )
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0.0
    max_output_tokens: Annotated[int, Field(ge=16, le=1_000_000), AS_WHOLE] = 2000
    attempts: Annotated[int, Field(ge=1, le=5), AS_WHOLE] = Field(
        3, description="Answers asked for at most, where one cannot be used."
    )
    planted: Annotated[int, Field(ge=0, le=10), AS_WHOLE] = Field(
        1,
        description="Of statements: speeches a game of statements of known truth, made of its record, that "
        "measure the judge and count in no rate.",
    )


class RuleJudge(Strict):
    """The rules alone: they refuse what contradicts role, record or another selection, and leave the rest."""

    kind: Literal["rule"]


JudgeSpec = Annotated[ModelJudge | RuleJudge, Field(discriminator="kind")]


class JudgeBudget(Strict):
    """Where to stop asking. What was judged by then stays."""

    max_tokens: Tokens | None = Field(None, description="Prompt and completion together.")
    max_cost: Cost | None = Field(None, description="In the currency of the configured prices.")
    max_parallel: Annotated[int, Field(ge=1, le=10_000), AS_WHOLE] | None = Field(
        None, description="Calls in flight at once; the endpoint's own limits hold too."
    )


class NewJudging(Strict):
    """A judge's work on the finished games of a batch, or on one game."""

    dimension: Literal["selection", "following", "statements"] = Field(
        description="`statements`: what speeches say about the record, and whether it is so."
    )
    judge: JudgeSpec
    game: Annotated[str, StringConstraints(pattern=r"^g_[a-z0-9]{1,32}$")] | None = None
    batch: Annotated[str, StringConstraints(pattern=r"^b_[a-z0-9]{1,32}$")] | None = None
    budget: JudgeBudget | None = None
    regrade_of: EvaluationId | None = Field(
        None, description="An evaluation of the same judge whose items are judged anew; it stays as it is."
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
    """One item of an evaluation, for callers with `export:full`."""

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
    """How far a model judge is. Items (of statements: speeches, planted ones too) are of the games done."""

    games: int
    games_done: int = Field(description="Games whose judgements are stored, or that were left out.")
    items: int
    judged: int
    unusable: int = Field(description="Items to which no answer could be used. They get no score.")
    unanswered: int = Field(description="Items to which no model answered.")
    not_asked: int = Field(description="Items that the budget did not reach.")
    left_out: int = Field(description="Games that cannot be judged; `left_out` names them.")


class LeftOutView(Shown):
    """A game that cannot be judged."""

    game_id: str
    reason: str


class WaitingView(Shown):
    """A judge whose database does not answer: it waits twice as long after each fault, 5 minutes at most."""

    since: str
    faults: int = Field(description="Faults in a row.")
    cause: str
    again_at: str = Field(description="When it tries again.")


class UnusableView(Shown):
    """An answer that could not be used, as it came."""

    item_id: str = Field(description=ITEM_ID)
    faults: list[str]
    answer: str


class EvaluationView(Shown):
    evaluation_id: str
    status: Literal["scored", "judging", "cancelled", "failed"]
    dimension: EvaluationDimension
    rater: RaterView
    variant: VariantView | None = Field(description="Null: of a judge.")
    created_at: str
    grade: int = Field(description="1; of a re-grade one more than of what it grades again.")
    regrade_of: str | None
    answers: int = Field(description="Answers handed in, samples counted each.")
    items: int = Field(description="Items they are about.")
    totals: TotalsView | None = Field(
        description="Precision, recall and F1 with 95 % intervals, whole and by round, role, side, stage and "
        "category. Null, and without the smaller groups, where less than 20 items stand behind it and the "
        "caller has no `export:full`."
    )
    roles: RoleFigures | None = Field(
        None, description="Role guesses: accuracy, Brier score, reliability curve. As `totals`."
    )
    excluded: dict[str, int] | None = Field(
        None, description="Items that do not count, by reason. For `export:full` only."
    )
    per_item: list[ScoredItem] | None = Field(
        None, description="With `?per_item=true`, for `export:full` only."
    )
    damaged: list[str] | None = Field(
        None, description="Answers whose row does not read; with `?per_item=true`."
    )
    judge: JudgeSpec | None = Field(None, description="The judge that was named.")
    reason: str | None = Field(None, description="Why it failed, or that it was cancelled.")
    progress: ProgressView | None = Field(None, description="Of a model judge.")
    left_out: list[LeftOutView] | None = Field(
        None, description="Of a judge: games that cannot be judged, the first 50, with the reason."
    )
    waiting: WaitingView | None = Field(
        None, description="Of a judge that this process runs: the database does not answer."
    )
    agreement: AgreementFigures | None = Field(
        None,
        description="The judge against people who judged in the same games, by part, with the bar; a judge "
        "of statements against the rules, where both read the same. In `GET /evaluations/{e}`. Null where "
        "too few items stand behind it.",
    )
    fit_to_show: bool | None = Field(
        None,
        description="Whether the judge agrees with people well enough for its scores to stand beside "
        "theirs; of a judge only, in `GET /evaluations/{e}`.",
    )
    unusable: list[UnusableView] | None = Field(
        None, description="The first answers that could not be used; with `?per_item=true`."
    )


class StatementView(Shown):
    """One statement about the record, as a judge reads it."""

    start: int
    end: int = Field(description="It is these characters of the speech.")
    quote: str
    verdict: Literal["supported", "refuted", "uncheckable"]
    record: str = Field(description="The line of the public record that decides it; empty: none does.")
    reason: str


class SpeechView(Shown):
    """A speech that a judge read."""

    game_id: str
    request_id: str
    turn: int = Field(description="Utterances before it in the attempt.")
    seat: int
    statements: list[StatementView] = Field(description="Empty: it states nothing about the record.")


class SpeechPage(Shown):
    speeches: list[SpeechView]
    damaged: list[str] = Field([], description="The page's rows that do not read, by the ids in their keys.")
    next: str | None = Field(None, description="The cursor of the next page; also in `Link`.")


class ComparedRater(Shown):
    """One of two raters that are compared."""

    rater: str
    kind: RaterKind | None = Field(None, description="Null where answers of several evaluations stand.")
    evaluation_id: str | None = None
    grade: int | None = None
    variant: VariantView | None = Field(None, description="How the items were made. Null: of a judge.")
    judge: JudgeSpec | None = None


class ComparisonView(Shown):
    """Two raters on what both have answered or judged."""

    dimension: Dimension
    first: ComparedRater
    second: ComparedRater
    unit: Literal["item", "intention"] = Field(
        description="What one answer or one judgement is about: an item, or an intention of a stage."
    )
    shared: int = Field(description="Units that both have answered or judged, whether or not they count.")
    first_only: int = Field(description="Units that the first alone has. They tell nothing here.")
    second_only: int
    items: int | None = Field(
        description="Shared items that count: all that the totals rest on. Null with fewer than 20 of them "
        "and no `export:full`."
    )
    games: int | None = Field(description="The games these are of.")
    totals: dict[str, ComparedPart] | None = Field(
        description="By part (`guessing`, `summarisation`, `reasonable`, `think`, `speak`) and measure: each "
        "rater's figure and the difference, first less second, with 95 % intervals over games, and the p "
        "value. Null as `items` is, and where a judge may not stand beside people."
    )
    test: str = Field(description="How the p values are made.")
    lacking: list[str] = Field(description="What a judge's agreement with people lacks.")


class EvaluationPage(Shown):
    evaluations: list[EvaluationView]
    damaged: list[str] = Field([], description="Ids of the page's evaluations whose row does not read.")
    next: str | None


class ReportProgress(Shown):
    """A report that is being made."""

    status: Literal["making"] = "making"
    games: int
    games_done: int
    eta_s: float | None = Field(description="Seconds it takes yet, as far as can be told.")


class OptionView(Shown):
    id: str
    label: str


class AskedView(OptionView):
    reason: str


class ItemView(Shown):
    """One question to a rater. It never holds gold."""

    id: str
    game_id: str
    position: int = Field(description="`seq` of the utterance in the stream of the seat that looks.")
    dimension: Dimension
    request_id: str
    round: int
    attempt: int
    stage: SelectionStage
    speaker: int
    reader: int = Field(description="The seat that guesses; 0: nobody does.")
    context: str = Field(description="What that seat saw, as text. Player text stands quoted.")
    question: str = Field(description="What is asked. With `context` it is a whole prompt for a model.")
    view: dict[str, JsonValue] = Field(description="The context as data.")
    think: str
    speech: str
    options: list[OptionView] | None = Field(None, description="What to choose from.")
    asked: list[AskedView] | None = Field(None, description="What is to be judged.")
    reason: str | None = Field(None, description="Of that selection as a whole; empty: none was given.")


class ItemsPage(Shown):
    variant: ItemsVariant
    items: list[ItemView]
    excluded: dict[str, int] = Field(
        description="Stages of turns that gave no item, by reason; of this page."
    )
    next: str | None = Field(None, description="The cursor of the next page; also in `Link`.")


class JudgementSpec(Strict):
    """One rater's word on one intention of a selection or following item."""

    item_id: ItemName = Field(description=ITEM_ID)
    intention: Annotated[str, StringConstraints(min_length=1, max_length=300)] = Field(
        description="Id or label of one of the item's intentions."
    )
    reasonable: bool | None = Field(None, description="Of a selection item, and only there.")
    think: Score | None = Field(None, description="Of a following item: how the thinking follows it.")
    speak: Score | None = Field(None, description="Of a following item: how the speech follows it.")
    comment: Annotated[str, StringConstraints(max_length=2000)] | None = None


class NewJudgements(Strict):
    rater: JudgingRaterSpec
    judgements: Annotated[list[JudgementSpec], Field(min_length=1, max_length=2000)]
    revise: bool = Field(
        False, description="Judge anew what this rater has judged already; the earlier word stays stored."
    )


class Stored(Shown):
    stored: int
    revised: int = Field(description="Of these: judgements that replace an earlier one of the same rater.")


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
    damaged: list[str] = Field([], description="The rows that do not read, by the ids in their keys.")


class TaskStage(Shown):
    stage: SelectionStage
    selection_item: str | None = Field(
        description="Judge each intention as reasonable or not. Null: not asked."
    )
    following_item: str | None = Field(description="Score think and speak of each 1 to 5. Null: not asked.")
    intentions: list[AskedView]
    reason: str = Field(description="Of the selection as a whole; empty: none was given.")
    without: Literal["", "speech", "summary"] = Field(
        description="What of the record it had not heard when it selected these: the last `speech`, and "
        "the team proposed with it; its own `summary` of the attempt before. Empty: it had heard all."
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
    left: int = Field(description="Of these, turns that the rater was dealt earlier and has not judged.")
