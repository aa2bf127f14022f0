"""Sealed sets over HTTP."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.base.json_reader import MAX_RECORD
from app.base.off_loop import off_loop
from app.base.problems import documented, in_text
from app.edge.bodies import BodyRoute, Bounds, takes
from app.edge.deps import CallerDep, IdempotencyKey, OnceDep, needs
from app.edge.idempotency import KeptAnswer
from app.edge.lines import NDJSON, Lines
from app.edge.queries import link_next
from app.evaluations.routes import Cursor, EvaluationsDep, Limit, item_lines, item_views
from app.evaluations.schemas import ItemsPage, ItemsVariant
from app.evaluations.set_schemas import (
    EntryView,
    GoldPage,
    NewAnswers,
    NewSet,
    OwnReceipts,
    Receipt,
    SetPage,
    SetView,
    WithdrawSet,
)
from evaluators.ground.items import Variant

__all__ = ["router"]

router = APIRouter(route_class=BodyRoute)

SetOf = Annotated[str, Path(pattern=r"^s_[a-z0-9]{1,32}$")]
Place = Annotated[int, Query(ge=0, le=1_000_000, description="From `next` of a page.")]


@router.post(
    "/evaluations/sets",
    status_code=201,
    summary="Draw a set of items and seal it until a date",
    response_model=SetView,
    dependencies=[Depends(needs("export:full", writes=True))],
    responses=documented(404, 413, 415),
)
async def create_set(
    new: NewSet,
    evaluations: EvaluationsDep,
    once: OnceDep,
    caller: CallerDep,
    key: IdempotencyKey,
    response: Response,
) -> Any:
    """The server draws the items from finished games that the caller may read in full. The set shows each
    game as one seat saw it. From now on everybody with `eval:read` may read the items, and everybody with
    `eval:submit` may answer; after the date, everybody may read gold, answers and scores. Neither the items
    nor the date can be changed, and the games cannot be deleted before the set is scored.
    """
    made = await once(lambda: evaluations.sets.make(new, caller, key))
    if isinstance(made, KeptAnswer):
        return made.response("/evaluations/sets/{set_id}")
    response.headers["Location"] = f"/evaluations/sets/{made.set_id}"
    return made


@router.get(
    "/evaluations/sets",
    summary="List sets",
    response_model=SetPage,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(),
)
async def list_sets(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> SetPage:
    """All sets, whoever made them; the newest first."""
    page = await evaluations.sets.page(caller, limit, cursor)
    link_next(request, response, page.next)
    return page


@router.get(
    "/evaluations/sets/{set_id}",
    summary="A set; after its date with the leaderboard",
    response_model=SetView,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404),
)
async def show_set(set_id: SetOf, evaluations: EvaluationsDep, caller: CallerDep) -> SetView:
    """Until the date, the answer is the same for everybody and does not depend on what was handed in. The
    first request after the date starts the scoring: `scoring`, and soon `open`. Whoever has a seat in an open
    fork of a game of the set is shown no scores until the fork has ended.
    """
    return await evaluations.sets.view(set_id, caller)


@router.post(
    "/evaluations/sets/{set_id}/withdraw",
    summary="Withdraw a set before its date",
    response_model=SetView,
    dependencies=[Depends(needs("export:full", writes=True))],
    responses=documented(404, 409, 410, 413, 415),
)
async def withdraw_set(
    set_id: SetOf, why: WithdrawSet, evaluations: EvaluationsDep, caller: CallerDep
) -> SetView:
    """Withdraws a set for good, whether or not somebody has answered. From now on it shows no items and takes
    no answers, and nobody ever sees its gold or a score. Its games may be deleted or drawn again. The set
    stays on the list with the reason, and raters keep their receipts. Only its owner may do this, and only
    before the date.
    """
    return await evaluations.sets.withdraw(set_id, why.reason, caller)


@router.get(
    "/evaluations/sets/{set_id}/items",
    summary="The items of a set",
    response_model=ItemsPage,
    response_model_exclude_none=True,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(
        404,
        410,
        also={
            200: {"content": in_text(NDJSON), "description": "A page, or with `format=ndjson` all of them."}
        },
    ),
)
async def list_set_items(
    set_id: SetOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    format_: Annotated[
        Literal["json", "ndjson"], Query(alias="format", description="`ndjson`: all items, one a line.")
    ] = "json",
    limit: Limit = 50,
    cursor: Place = 0,
) -> Any:
    """As `GET /evaluations/items`, without gold. All items of a game show what the same seat saw."""
    response.headers["Cache-Control"] = "no-store"
    row, items, excluded, following = await evaluations.sets.items(set_id, caller, limit=limit, cursor=cursor)
    if format_ == "ndjson":
        every = evaluations.sets.all_items(set_id, caller)
        return Lines(item_lines(every), headers={"Cache-Control": "no-store"})
    link_next(request, response, None if following is None else str(following))
    variant = Variant(options=row.variant["options"], history=row.variant["history"])
    return ItemsPage(
        variant=ItemsVariant(**{**variant.as_json(), "seed": "", "followed": False}),
        items=await off_loop(item_views, items),
        excluded=excluded,
        next=None if following is None else str(following),
    )


@router.post(
    "/evaluations/sets/{set_id}/answers",
    status_code=201,
    summary="Answer a sealed set",
    response_model=Receipt,
    dependencies=[Depends(needs("eval:submit", writes=True))],
    responses=documented(404, 409, 410, 413, 415),
)
@takes(Bounds(size=MAX_RECORD))
async def answer_set(
    set_id: SetOf,
    new: NewAnswers,
    evaluations: EvaluationsDep,
    once: OnceDep,
    caller: CallerDep,
    key: IdempotencyKey,
) -> Any:
    """Stores one rater's answers until the set's date, up to five samples of an item, and gives a receipt for
    them. What the rater handed in before is replaced. An owner answers as three raters at most.

    409 `already-seen`: a key of the same owner may read the game in full, has seen it as another viewer than
    the set's, or has seen what was chosen in that turn.
    """
    receipt = await once(lambda: evaluations.sets.hand_in(set_id, new, caller, key))
    return receipt.response() if isinstance(receipt, KeptAnswer) else receipt


@router.get(
    "/evaluations/sets/{set_id}/receipts",
    summary="One's own receipts",
    response_model=OwnReceipts,
    response_model_exclude_none=True,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404),
)
async def list_receipts(
    set_id: SetOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
    response: Response,
    answers: Annotated[bool, Query(description="Whether to give back the answers, too.")] = False,
) -> OwnReceipts:
    """The last answers of each rater of the caller's owner. Nobody else sees them before the date."""
    response.headers["Cache-Control"] = "no-store"
    return await evaluations.sets.receipts(set_id, caller, with_answers=answers)


@router.get(
    "/evaluations/sets/{set_id}/gold",
    summary="The gold of an open set",
    response_model=GoldPage,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404, 409, 410),
)
async def list_gold(
    set_id: SetOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    limit: Limit = 50,
    cursor: Place = 0,
) -> GoldPage:
    """What the seats had chosen, and their roles. Before the date: 409 `set-sealed`; of a set that was
    withdrawn, 410 `set-closed`. Games are left out while the caller has a seat in an open fork of them
    (`excluded`: `playing`).
    """
    page = await evaluations.sets.gold(set_id, caller, limit=limit, cursor=cursor)
    link_next(request, response, page.next)
    return page


@router.get(
    "/evaluations/sets/{set_id}/entries/{entry_id}",
    summary="One rater's answers to an open set, item by item",
    response_model=EntryView,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404, 409, 410, 500),
)
async def show_entry(
    set_id: SetOf,
    entry_id: Annotated[str, Path(pattern=r"^r_[a-z0-9]{1,32}$")],
    evaluations: EvaluationsDep,
    caller: CallerDep,
) -> EntryView:
    """One rater's answers beside the gold; every caller may read them. Before the date: 409 `set-sealed`,
    even if there is no such entry. Scores, and the items of a game, are left out while the caller has a seat
    in an open fork of the game (`excluded`: `playing`). Where its answers are damaged: 500 `damaged-entry`.
    """
    return await evaluations.sets.entry(set_id, entry_id, caller)
