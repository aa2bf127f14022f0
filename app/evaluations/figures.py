"""The figures of evaluations in responses: what evaluators count, by name.

Figures that a caller may not see are left out. Figures of a later version pass through unchecked.
"""

from typing import (
    Annotated,
    NotRequired,  # Pydantic reads those of typing from Python 3.12 on.
)

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

__all__ = ["AgreementFigures", "ComparedPart", "CorrectedFigures", "RoleFigures", "TotalsView"]


class _Figures(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]


class ShareView(_Figures):
    """A share with its counts."""

    num: int
    den: int
    rate: Annotated[float | None, Field(description="Null if `den` is 0.")]


class EstimateView(_Figures):
    """A value with its interval."""

    value: float | None
    low: float | None
    high: float | None
    confidence: Annotated[float, Field(description="Of the interval, e.g. 0.95.")]
    method: str
    games: NotRequired[Annotated[int, Field(description="Games that the interval is computed from.")]]
    design_effect: NotRequired[
        Annotated[
            float | None,
            Field(
                description="For a share: its variance over games as a multiple of that of as many "
                "independent items. Null where no game has several items."
            ),
        ]
    ]
    icc: NotRequired[
        Annotated[
            float | None,
            Field(
                description="For a share: the intraclass correlation, what items of one game have in common."
            ),
        ]
    ]


class CountedShare(EstimateView):
    """A share with its counts and its interval."""

    num: int
    den: int


class F1View(_Figures):
    """Precision, recall and F1, with the counts of intentions behind them."""

    precision: float | None
    recall: float | None
    f1: float | None
    matched: int
    predicted: int
    gold: int


class IntervalF1(_Figures):
    """Precision, recall and F1 with intervals over games."""

    precision: EstimateView
    recall: EstimateView
    f1: EstimateView
    matched: int
    predicted: int
    gold: int


class GroupF1(IntervalF1):
    """Precision, recall and F1 of one group of items."""

    items: int
    games: int


class ConfusionView(_Figures):
    """How often one intention was missed and another one named."""

    missed: str
    named: str
    items: int


class UnmappedTexts(_Figures):
    """Answers that name no intention."""

    counted: Annotated[bool, Field(description="Whether they count as predicted.")]
    texts: int
    different: int
    most: NotRequired[dict[str, int]]


class AnswerTotals(_Figures):
    """Totals of guesses and summaries."""

    items: int
    games: int
    silent: Annotated[
        int,
        Field(
            description="Items without an answer: they count as if nothing had been named. An answer that "
            "names nothing is not counted here."
        ),
    ]
    roles_public: NotRequired[
        Annotated[
            int,
            Field(
                description="Items of games whose end told everybody the roles: a rater that looked the "
                "speaker's role up guesses better. Not told by earlier versions."
            ),
        ]
    ]
    micro: IntervalF1
    macro: float | None
    chance: Annotated[float | None, Field(description="F1 of the same number of intentions named at random.")]
    by_round: dict[str, GroupF1]
    by_role: dict[str, GroupF1]
    by_side: dict[str, GroupF1]
    by_stage: dict[str, GroupF1]
    by_category: dict[str, GroupF1]
    mean_item: NotRequired[float | None]
    by_intention: NotRequired[dict[str, F1View]]
    confusion: NotRequired[list[ConfusionView]]
    unmapped: NotRequired[UnmappedTexts]


class SelectionTotals(_Figures):
    """Totals of a model judge of selections: the share that it calls reasonable."""

    games: int
    accuracy: CountedShare
    by_stage: NotRequired[dict[str, ShareView]]
    by_role: NotRequired[dict[str, ShareView]]
    by_side: NotRequired[dict[str, ShareView]]
    by_round: NotRequired[dict[str, ShareView]]
    by_category: NotRequired[dict[str, ShareView]]
    by_intention: NotRequired[dict[str, ShareView]]
    left_out: NotRequired[dict[str, int]]


class RefusedView(_Figures):
    """How often an intention was selected, and how often each rule refused it."""

    selected: int
    role: int
    fact: int
    contradiction: int


class RuleTotals(_Figures):
    """Totals of the rules, which refuse selections and never approve one."""

    games: int
    selected: int
    refused: int
    accuracy_at_most: CountedShare
    by_rule: NotRequired[dict[str, int]]
    by_intention: NotRequired[dict[str, RefusedView]]


class HistogramView(_Figures):
    """Scores of 1 to 5."""

    counts: dict[str, int]
    scored: int
    good: ShareView
    flawed: ShareView
    mean: float | None


class ByWho(_Figures):
    all: HistogramView
    by_side: dict[str, HistogramView]
    by_role: dict[str, HistogramView]


class FollowingTotals(_Figures):
    """Totals of a model judge of following."""

    games: int
    shares: Annotated[
        dict[str, dict[str, CountedShare]],
        Field(description="By part (`think`, `speak`): the share of `good` scores, and of each score."),
    ]
    total: NotRequired[HistogramView]
    think: NotRequired[Annotated[dict[str, ByWho], Field(description="`all`, and by stage.")]]
    speak: NotRequired[Annotated[dict[str, ByWho], Field(description="`all`, and by stage.")]]
    left_out: NotRequired[dict[str, int]]


class SpokenRecord(_Figures):
    """Statements of speeches about the record, by the rules alone."""

    speeches: ShareView
    statements: ShareView
    unparsed: int
    refuted_per_speech: float | None


class RecordTotals(_Figures):
    """Totals of the rules that read statements: of all speeches, by side and by role."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    all: SpokenRecord
    loyal: NotRequired[SpokenRecord]
    evil: NotRequired[SpokenRecord]


class RefutedSpeeches(_Figures):
    refuted: int
    speeches: ShareView
    refuted_per_speech: EstimateView | float | None


class ReadBy(_Figures):
    """Refuted speeches: by the rules, by the judge, and by both together."""

    rules: RefutedSpeeches
    judge: RefutedSpeeches
    together: RefutedSpeeches


class StatementTotals(ReadBy):
    """Totals of a model judge of statements."""

    games: int
    by_side: NotRequired[dict[str, ReadBy]]
    by_role: NotRequired[dict[str, ReadBy]]


TotalsView = AnswerTotals | SelectionTotals | RuleTotals | FollowingTotals | RecordTotals | StatementTotals
"""One of these, depending on dimension and judge."""


class Confidence(ShareView):
    """The guesses of one stated confidence."""

    confidence: int
    stated: Annotated[float | None, Field(description="Their mean confidence as a probability.")]


class RoleConfusion(_Figures):
    true: str
    guessed: str
    guesses: int


class RoleFigures(_Figures):
    """Guesses of the speaker's role."""

    accuracy: ShareView
    brier: float | None
    by_role: NotRequired[dict[str, ShareView]]
    confusion: NotRequired[list[RoleConfusion]]
    stated: NotRequired[float | None]
    calibration_error: NotRequired[float | None]
    curve: NotRequired[list[Confidence]]


class BarView(_Figures):
    """The agreement that a judge has to reach."""

    items: int
    kappa: float


class MajorityKappa(_Figures):
    kappa: float | None
    items: int
    agreed: int


class PartAgreement(_Figures):
    """A judge's agreement with people."""

    items: int
    people: int
    kappa: float | None
    kappa_among_people: float | None
    with_majority: MajorityKappa
    lacking: list[str]


class RuleAgreement(_Figures):
    """A judge of statements, compared with the rules."""

    items: int
    precision: ShareView
    recall: ShareView
    kappa: float | None
    lacking: list[str]


class AgreementFigures(_Figures):
    """Agreement by part."""

    bar: BarView
    reasonable: NotRequired[PartAgreement]
    think: NotRequired[PartAgreement]
    speak: NotRequired[PartAgreement]
    statements: NotRequired[RuleAgreement]


class CorrectedPart(_Figures):
    """A judge's share, corrected by the items that people judged too; without enough of them null, and
    `lacking` says why."""

    corrected: Annotated[
        EstimateView | None,
        Field(
            description="What people would say of all the judge's items (prediction-powered inference): the "
            "share of reasonable selections, or of scores of 4 and 5. The interval covers both samples."
        ),
    ]
    sensitivity: Annotated[
        EstimateView | None, Field(description="Of what people call good, how much the judge does.")
    ]
    specificity: Annotated[
        EstimateView | None, Field(description="Of what people do not call good, how much it does not.")
    ]
    rogan_gladen: Annotated[
        float | None, Field(description="The share from sensitivity and specificity alone; no interval.")
    ]
    items: Annotated[int, Field(description="Items of both.")]
    games: Annotated[int, Field(description="Games with items of both.")]
    lacking: str


class CorrectedFigures(_Figures):
    """Corrected shares by part."""

    reasonable: NotRequired[CorrectedPart]
    think: NotRequired[CorrectedPart]
    speak: NotRequired[CorrectedPart]


class ComparedMeasure(_Figures):
    """One measure of both raters."""

    first: EstimateView
    second: EstimateView
    difference: Annotated[EstimateView, Field(description="The first minus the second.")]
    p_value: float | None
    exact: Annotated[bool, Field(description="All exchanges were tried, not a sample.")]


class ComparedPart(_Figures):
    items: int
    units: int
    games: int
    measures: dict[str, ComparedMeasure]
