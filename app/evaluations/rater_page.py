"""What a page for raters shows beside its tasks: guidelines, how far everybody is, and agreement so far."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Final

from fastapi import APIRouter, Depends
from pydantic import Field

from app.base.off_loop import off_loop
from app.base.problems import documented
from app.base.schemas import Shown
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, needs
from app.edge.queries import listed
from app.evaluations.routes import BatchOf, EvaluationsDep, GameOf, OwnersOf
from app.store.rows import JudgementRow
from engine.intentions import BY_ID
from evaluators.judges.rubric import (
    SELECTION,
    SPEAKING,
    THINKING,
    Example,
    following_text,
    selection_text,
)
from evaluators.measures.judged import ASPECTS, Aspect
from evaluators.statistics.agreement import alpha_of, pairwise

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

ENOUGH: Final = 20
"""Fewer shared items would tell a rater what another one answered."""


class ScoredExample(Shown):
    """A text with its score for one intention."""

    intention: str = Field(description="The intention in words.")
    text: str
    score: int = Field(description="1 to 5; for `reasonable` 1 (yes) or 0 (no).")
    why: str


class GuidelinesView(Shown):
    """How to judge: the rubric that model judges get as well."""

    selection: str = Field(description="Is an intention reasonable? With examples.")
    following: str = Field(description="How well is it acted on, in thinking and in speaking? With examples.")
    examples: dict[Aspect, list[ScoredExample]] = Field(description="The same examples, by what is scored.")


class RaterProgress(Shown):
    rater: str
    dealt: int = Field(description="Speaking turns that were dealt to the rater, or judged without.")
    judged: int = Field(description="Those of them with a judgement.")
    judgements: int


class AgreementView(Shown):
    judged: Aspect
    raters: int = Field(description="Raters with at least one item that another one judged, too.")
    items: int = Field(description="Intentions of stages that two or more people judged.")
    kappa: float | None = Field(
        description=f"Mean of Fleiss' kappa over pairs of raters. Null: undefined, or fewer than {ENOUGH} "
        "items for a caller without `export:full`."
    )
    alpha: float | None = Field(description="Krippendorff's alpha, ordinal; null as `kappa`.")


class RatingProgress(Shown):
    raters: list[RaterProgress] = Field(
        description="People under the caller's key; on games that the caller sees in full, those of their "
        "owners and its own, and of the owners that `raters_of` names."
    )
    agreement: list[AgreementView]


@router.get(
    "/annotations/guidelines",
    summary="How to judge",
    response_model=GuidelinesView,
    dependencies=[Depends(needs("annotate"))],
    responses=documented(),
)
async def show_guidelines() -> GuidelinesView:
    """The guidelines for people, with an example of each score."""
    return GuidelinesView(
        selection=selection_text(),
        following=following_text(),
        examples={
            "reasonable": _examples(SELECTION),
            "think": _examples(THINKING),
            "speak": _examples(SPEAKING),
        },
    )


def _examples(examples: Iterable[Example]) -> list[ScoredExample]:
    return [
        ScoredExample(intention=BY_ID[one.intention].label, text=one.text, score=one.score, why=one.why)
        for one in examples
    ]


@router.get(
    "/annotations/progress",
    summary="How far raters are, and how well they agree",
    response_model=RatingProgress,
    dependencies=[Depends(needs("annotate"))],
    responses=documented(404, 409),
)
async def show_rating_progress(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    game: GameOf = None,
    batch: BatchOf = None,
    raters_of: OwnersOf = None,
) -> RatingProgress:
    """Covers these finished games, and people only: reports compare models with people."""
    games = await evaluations.chosen(listed(game, "game"), listed(batch, "batch"), caller, "annotate")
    whose = await evaluations.whose(caller, games, listed(raters_of, "raters_of"))
    rows = await evaluations.store.judgements_of(games, whose=whose, kind="human")
    dealt = await evaluations.store.dealt_to(games, whose)
    return await off_loop(_progress, list(rows), dealt, await evaluations.in_full(caller, games))


def _progress(
    rows: Sequence[JudgementRow], dealt: Mapping[tuple[str, str], set[tuple[str, str]]], sees_all: bool
) -> RatingProgress:
    judged: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    rated: dict[Aspect, dict[str, dict[str, int]]] = {part: defaultdict(dict) for part in ASPECTS}
    for row in rows:
        who = (row.caller, row.rater)
        judged[who].add((row.game_id, row.request_id))
        counts[who] += 1
        item = f"{row.game_id}/{row.request_id}/{row.stage}/{row.intention}"
        for part in ASPECTS:
            if (value := getattr(row, part)) is not None:
                rated[part]["/".join(who)][item] = int(value)
    return RatingProgress(
        raters=[
            RaterProgress(
                rater=who[1],
                dealt=len(dealt.get(who, set()) | judged[who]),
                judged=len(judged[who]),
                judgements=counts[who],
            )
            for who in sorted(dealt.keys() | judged.keys(), key=lambda who: (who[1], who[0]))
        ],
        agreement=[_agreement(part, rated[part], sees_all) for part in ASPECTS],
    )


def _agreement(part: Aspect, ratings: Mapping[str, Mapping[str, int]], sees_all: bool) -> AgreementView:
    by_item: dict[str, int] = defaultdict(int)
    for items in ratings.values():
        for item in items:
            by_item[item] += 1
    shared = {item for item, raters in by_item.items() if raters > 1}
    common = {
        rater: {item: value for item, value in items.items() if item in shared}
        for rater, items in ratings.items()
    }
    common = {rater: items for rater, items in common.items() if items}
    shown = len(shared) >= ENOUGH or (sees_all and shared)
    return AgreementView(
        judged=part,
        raters=len(common),
        items=len(shared),
        kappa=_number(pairwise(common).mean) if shown else None,
        alpha=_number(alpha_of(common, "ordinal")) if shown else None,
    )


def _number(value: float) -> float | None:
    return None if isnan(value) else value
