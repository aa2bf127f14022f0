"""Items, evaluations and annotations over HTTP."""

import math
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import IntegrityError

from app.base.errors import KeyInUse
from app.base.off_loop import off_loop
from app.base.problems import documented, in_text
from app.base.schemas import IS_NAME, Cancelled
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, IdempotencyKey, OnceDep, matches, needs, service
from app.edge.headers import REPORT_POLICY
from app.edge.idempotency import KeptAnswer
from app.edge.lines import NDJSON, Lines
from app.edge.queries import comma_list, link_next, listed
from app.evaluations.reports import Format, Making, read_split
from app.evaluations.schemas import (
    ComparisonView,
    EvaluationPage,
    EvaluationView,
    ItemsPage,
    ItemsVariant,
    ItemView,
    JudgementsPage,
    JudgementSpec,
    JudgementView,
    NewJudgements,
    NewJudging,
    ReportProgress,
    SpeechPage,
    Stored,
    Submission,
    TasksView,
)
from app.evaluations.service import Evaluations
from app.evaluations.sheet import FIELDS, write_sheet
from app.store.rows import JudgementRow
from engine.terms import Seat
from evaluators.ground.contexts import History, View
from evaluators.ground.items import DIMENSIONS, Dimension, Item, Options, Readers, Variant
from evaluators.ground.rows import jsonl, row
from evaluators.measures.defaults import EXCLUDE_ABOVE

__all__ = [
    "BatchOf",
    "Cursor",
    "EvaluationsDep",
    "GameOf",
    "Limit",
    "OwnersOf",
    "item_lines",
    "item_views",
    "router",
]

router = APIRouter(route_class=BodyRoute)


EvaluationsDep = Annotated[Evaluations, service("evaluations")]

GameOf = Annotated[str | None, comma_list("g_[a-z0-9]{1,32}", "Of this finished game.")]
BatchOf = Annotated[str | None, comma_list("b_[a-z0-9]{1,32}", "Of the finished games of this batch.")]
RATER = "[A-Za-z0-9][A-Za-z0-9 ._:@/+-]{0,79}"
RatersOf = Annotated[str | None, comma_list(RATER, "Only of this rater.")]
OwnersOf = Annotated[
    str | None,
    comma_list(
        "(project:[a-z0-9][a-z0-9._-]{0,63}|key:k_[a-z0-9]{1,32})",
        "Includes the work of this owner's raters, such as `project:lab`, on games that the caller may read "
        "in full. By default, strangers' work is left out.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[
    str | None, Query(max_length=200, pattern=r"^[A-Za-z0-9_-]+$", description="From `next` of a page.")
]


def _reader(name: str) -> Readers | Seat:
    return name if name in ("drawn", "all") else int(name)  # type: ignore[return-value]


@router.get(
    "/evaluations/items",
    summary="Items: what raters and models are asked",
    response_model=ItemsPage,
    response_model_exclude_none=True,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(
        404,
        409,
        also={
            200: {"content": in_text(NDJSON), "description": "A page, or with `format=ndjson` all of them."}
        },
    ),
)
async def list_items(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    dimension: Annotated[Dimension, Query(description="`selection` and `following` are for raters only.")],
    game: GameOf = None,
    batch: BatchOf = None,
    reader: Annotated[
        str,
        Query(
            pattern=r"^(drawn|all|[1-9]|10)$",
            description="Who guesses: one other seat that `seed` draws, every other seat, or this seat.",
        ),
    ] = "drawn",
    seed: Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")] = "0",
    options: Annotated[
        Options, Query(description="The intentions to choose from: the impactful set, or the role lists.")
    ] = "impactful",
    history: Annotated[History, Query(description="All earlier rounds, or this round only.")] = "all",
    context: Annotated[
        View, Query(description="`release`: as the authors' scripts build it, with later events in it.")
    ] = "seat",
    followed: Annotated[
        bool, Query(description="Only what was followed, according to the stored judgements.")
    ] = False,
    format_: Annotated[
        Literal["json", "ndjson"], Query(alias="format", description="`ndjson`: all items, one a line.")
    ] = "json",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Any:
    """Items of finished games. They hold only what the reader's seat saw, and never gold.

    Ids are `{game}/{dimension}/{request}/{stage}/{reader or -}`. The service remembers what it has shown each
    owner of games that the owner may not read in full: as which viewer, and which choices. An owner that has
    seen more than a sealed set shows may not answer those items there.
    """
    variant = Variant(reader=_reader(reader), seed=seed, history=history, options=options, context=context)
    games = await evaluations.chosen(listed(game, "game"), listed(batch, "batch"), caller)
    await evaluations.may_see(caller, games, dimension, variant, followed=followed)
    if format_ == "ndjson":
        every = evaluations.all_items(caller, games, dimension, variant, followed=followed)
        return Lines(item_lines(every), headers={"Cache-Control": "no-store"})
    page = await evaluations.page(
        caller, games, dimension, variant, followed=followed, limit=limit, cursor=cursor
    )
    link_next(request, response, page.next)
    response.headers["Cache-Control"] = "no-store"
    return ItemsPage(
        variant=ItemsVariant(**{**variant.as_json(), "followed": followed}),
        items=await off_loop(item_views, page.items),
        excluded={str(reason): n for reason, n in sorted(page.excluded.items())},
        next=page.next,
    )


def item_views(items: Sequence[Item]) -> list[ItemView]:
    return [ItemView(**row(item)) for item in items]


_WRITTEN_AT_ONCE: Final = 20
"""Items that are written together; one item takes up to 50 kB."""


async def item_lines(items: AsyncIterator[Item]) -> AsyncIterator[bytes]:
    some: list[Item] = []
    async for item in items:
        some.append(item)
        if len(some) == _WRITTEN_AT_ONCE:
            yield await off_loop(_written, some)
            some = []
    if some:
        yield await off_loop(_written, some)


def _written(items: Sequence[Item]) -> bytes:
    return "".join(f"{line}\n" for line in jsonl(items)).encode()


@router.post(
    "/evaluations",
    status_code=201,
    summary="Score answers",
    response_model=EvaluationView,
    dependencies=[Depends(needs("eval:submit", writes=True))],
    responses=documented(
        404,
        409,
        413,
        415,
        also={202: {"model": EvaluationView, "description": "A model judge has started: status `judging`."}},
    ),
)
async def create_evaluation(
    submission: Submission,
    evaluations: EvaluationsDep,
    once: OnceDep,
    caller: CallerDep,
    key: IdempotencyKey,
    response: Response,
) -> Any:
    """Scores a rater's guesses or summaries against what the seats had chosen, for practice: of games whose
    gold the caller may read (its own, with `export:full`, and games with `reveal: all`), and of items of sets
    that are open; not of games whose deal one plays in somebody else's open fork. They are scored in full and
    as often as you like; a rater's last answers to an item are the valid ones. Answers to other items are
    refused (403): hand them in to a sealed set, with `POST /evaluations/sets/{s}/answers`.

    Several samples (1 to 5) of an item are joined by majority. `regrade_of` links to the evaluation that is
    done again.

    With `judge`, the service judges selections, following or statements itself: immediately by rules, or in
    the background by a model (202). `GET /evaluations/{e}` shows the progress, and how well the judge agrees
    with people (for statements: with the rules).
    """
    made = await once(
        lambda: (
            evaluations.judge(submission, caller, key)
            if isinstance(submission, NewJudging)
            else evaluations.submit(submission, caller, key)
        ),
    )
    if isinstance(made, KeptAnswer):
        return made.response("/evaluations/{evaluation_id}")
    response.status_code = 202 if made.status == "judging" else 201
    response.headers["Location"] = f"/evaluations/{made.evaluation_id}"
    return made


@router.get(
    "/evaluations",
    summary="List evaluations",
    response_model=EvaluationPage,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(),
)
async def list_evaluations(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    dimension: Annotated[
        str | None, comma_list(f"({'|'.join(DIMENSIONS)}|statements)", "Only of this dimension.")
    ] = None,
    rater: RatersOf = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EvaluationPage:
    """The caller's own, newest first; everybody's with `eval:read:any`."""
    page = await evaluations.evaluations(
        caller,
        dimensions=listed(dimension, "dimension"),
        raters=listed(rater, "rater"),
        limit=limit,
        cursor=cursor,
    )
    link_next(request, response, page.next)
    return page


EvaluationOf = Annotated[str, Path(pattern=r"^e_[a-z0-9]{1,32}$")]
ExcludeAbove = Annotated[
    float,
    Query(
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Exclude games whose models defaulted a larger share of their decisions. 1: none.",
    ),
]
NamedRater = Annotated[
    str,
    Query(
        max_length=240,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:@/+(),-]*$",
        description="A rater, named as in reports: with the variant of its items unless that is the default, "
        "and with the credential if several use the name.",
    ),
]


@router.get(
    "/evaluations/compare",
    summary="Compare two raters on the same items",
    response_model=ComparisonView,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404, 409),
)
async def compare_raters(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    dimension: Annotated[Dimension, Query(description="`selection` and `following` are for raters only.")],
    first: NamedRater,
    second: NamedRater,
    game: GameOf = None,
    batch: BatchOf = None,
    followed: Annotated[
        bool, Query(description="Only what was followed, according to the stored judgements.")
    ] = False,
    exclude_above: ExcludeAbove = EXCLUDE_ABOVE,
    raters_of: OwnersOf = None,
) -> ComparisonView:
    """Compares all valid work of two raters on these games: answers of any number of evaluations, or
    judgements of people, models and programs. Answers are compared on games whose gold the caller may read.

    The difference is the first rater's figure minus the second's, on what both have, with an interval over
    games and the p value of a permutation test that exchanges the two raters within whole games. A judge is
    compared with a person only if it agrees with people; otherwise `lacking` says what is lacking.
    """
    games = await evaluations.chosen(listed(game, "game"), listed(batch, "batch"), caller)
    return await evaluations.compare_raters(
        games,
        dimension,
        first,
        second,
        caller,
        followed=followed,
        exclude_above=exclude_above,
        raters_of=listed(raters_of, "raters_of"),
    )


@router.get(
    "/evaluations/{evaluation_id}/compare/{other}",
    summary="Compare two evaluations on the same items",
    response_model=ComparisonView,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404, 409),
)
async def compare_evaluations(
    evaluation_id: EvaluationOf,
    other: EvaluationOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
    exclude_above: ExcludeAbove = EXCLUDE_ABOVE,
) -> ComparisonView:
    """Compares two evaluations of one dimension that the caller may read: answers with the same `options`,
    `followed` and `unmapped`, or judges. What raters were shown (`history`, `context`) may differ. Otherwise
    as `GET /evaluations/compare`.
    """
    return await evaluations.compare(evaluation_id, other, caller, exclude_above)


@router.get(
    "/evaluations/{evaluation_id}",
    summary="One evaluation",
    response_model=EvaluationView,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404),
)
async def show_evaluation(
    evaluation_id: EvaluationOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
    per_item: Annotated[bool, Query(description="Every item with its gold.")] = False,
) -> EvaluationView:
    """Scores never change after grading. They are null as long as one has a seat in somebody else's open fork
    with the deal of one of the games.
    """
    return await evaluations.evaluation(evaluation_id, caller, per_item=per_item)


@router.get(
    "/evaluations/{evaluation_id}/statements",
    summary="Statements that a judge found in speeches",
    response_model=SpeechPage,
    dependencies=[Depends(needs("eval:read"))],
    responses=documented(404),
)
async def list_statements(
    evaluation_id: EvaluationOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
    request: Request,
    response: Response,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> SpeechPage:
    """The statements of each speech that was judged so far, with the line of the record that decides each.

    Speeches and record are public: nothing hidden is in them.
    """
    page = await evaluations.statements(evaluation_id, caller, limit=limit, cursor=cursor)
    link_next(request, response, page.next)
    return page


@router.post(
    "/evaluations/{evaluation_id}/cancel",
    status_code=202,
    summary="Cancel a judge's work",
    response_model=Cancelled,
    dependencies=[Depends(needs("eval:submit"))],
    responses=documented(404, 409),
)
async def cancel_evaluation(
    evaluation_id: EvaluationOf,
    evaluations: EvaluationsDep,
    caller: CallerDep,
) -> Cancelled:
    """The judge asks its model no further questions. What was judged is kept and scored: status
    `cancelled`.
    """
    await evaluations.cancel(evaluation_id, caller)
    return Cancelled()


RaterOf = Annotated[str, Query(pattern=f"^{RATER}$", description="The rater's name."), IS_NAME]


@router.get(
    "/annotations/tasks",
    summary="Deal a rater speaking turns to judge",
    response_model=TasksView,
    dependencies=[Depends(needs("annotate"))],
    responses=documented(404, 409),
)
async def deal_tasks(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    response: Response,
    rater: RaterOf,
    game: GameOf = None,
    batch: BatchOf = None,
    limit: Annotated[
        int, Query(ge=1, le=50, description="Tasks in all, including those not yet judged.")
    ] = 8,
    shared: Annotated[
        int, Query(ge=0, le=200, description="Turns that go to every rater, to measure agreement.")
    ] = 2,
    overlap: Annotated[
        int, Query(ge=1, le=20, description="Raters that each of the other turns goes to.")
    ] = 1,
    seed: Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")] = "0",
) -> TasksView:
    """First the tasks that the rater was dealt and has not judged, then new ones, which count as one
    submission of the owner's day. Use the same `seed`, `shared` and `overlap` for all raters of a study.
    """
    games = await evaluations.chosen(listed(game, "game"), listed(batch, "batch"), caller, "annotate")
    response.headers["Cache-Control"] = "no-store"
    return await evaluations.tasks.deal(
        games, caller=caller, rater=rater, limit=limit, shared=shared, overlap=overlap, seed=seed
    )


@router.post(
    "/annotations",
    status_code=201,
    summary="Store judgements",
    response_model=Stored,
    dependencies=[Depends(needs("annotate", writes=True))],
    responses=documented(404, 409, 413, 415),
)
async def create_judgements(
    new: NewJudgements,
    evaluations: EvaluationsDep,
    once: OnceDep,
    caller: CallerDep,
    key: IdempotencyKey,
) -> Any:
    """Stores all judgements or none. A rater judges each intention of an item once, unless it revises. Each
    100 judgements, or fewer, count as one submission of the owner's day.
    """
    unreached = await evaluations.unreached(caller, _games_of(new.judgements), "annotate")
    try:
        stored = await once(
            lambda: evaluations.tasks.store(
                new.rater, new.judgements, unreached=unreached, caller=caller, revise=new.revise, key=key
            ),
        )
    except IntegrityError:
        raise KeyInUse("the same rater's judgements are being stored; send these again") from None
    return stored.response() if isinstance(stored, KeptAnswer) else stored


def _games_of(judgements: Sequence[JudgementSpec]) -> set[str]:
    return {judgement.item_id.partition("/")[0] for judgement in judgements}


@router.get(
    "/reports",
    summary="Report on a batch: tables and plots of its finished games",
    dependencies=[Depends(needs("eval:read"))],
    response_class=Response,
    responses=documented(
        404,
        also={
            200: {
                "content": {
                    "application/json": {"schema": {"type": "object"}},
                    **in_text("text/html", "text/csv", "application/x-latex"),
                },
                "description": "The report in the requested format.",
            },
            202: {"model": ReportProgress, "description": "Being made: ask again after `Retry-After`."},
            304: {"description": "The report is the one that `If-None-Match` names."},
        },
    ),
)
async def show_report(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    batch: Annotated[str, comma_list("b_[a-z0-9]{1,32}", "Of the finished games of this batch.")],
    format_: Annotated[
        Format,
        Query(
            alias="format",
            description="`html`: one self-contained page. `latex`: the paper's tables alone.",
        ),
    ] = "json",
    group_by: Annotated[
        str | None,
        Query(
            max_length=64,
            description="Shows the tables side by side, by a column of the seats (`agent`, `model`, "
            "`preset`, `steps`, `prompts`, `memory`, `timing`, `role`, `side`) or of the games (`profile`, "
            "`players`, `batch`, `agents`, `seating`, `seed`, any label of the batches). Needs "
            "`export:full`.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        Query(
            max_length=1000,
            description="Counts only the seats or games with these values of columns, such as "
            "`role=merlin,percival`. Several conditions are separated by `;`, and all must hold. A value in "
            "double quotes may be any text, a quote in it written twice. Needs `export:full`.",
        ),
    ] = None,
    contrast: Annotated[
        str | None,
        Query(
            max_length=4000,
            description="Tests the difference between levels of a column, such as `preset=paper,direct`, or "
            "how it differs: `preset=paper,direct x model=a,b`. Several contrasts are separated by `;`. "
            "A value in double quotes may be any text, a quote in it written twice. "
            "Needs `export:full`.",
        ),
    ] = None,
    exclude_above: ExcludeAbove = EXCLUDE_ABOVE,
    raters_of: OwnersOf = None,
    wait_s: Annotated[
        float,
        Query(
            ge=0,
            le=300,
            allow_inf_nan=False,
            description="Seconds to wait for the report; after that, 202 with its progress.",
        ),
    ] = 60,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The paper's tables for all finished games of the batches, beside the published figures, and our own
    tables. Every number comes with its count and its 95 % interval, or with the reason why it is missing.

    Games in which models defaulted too many decisions, and games that were marked as invalid, are excluded.
    Where that changes a figure, it stands a second time, with them in (`with_excluded`).

    Callers who may not read all these games in full get what public records say of games whose roles are
    public: results, rounds and roles. Judgements and answers are those of the batches' owners and the
    caller's, of keys that may rate everybody's games, and of the owners that `raters_of` names: what
    strangers hand in about public games and open sets changes nothing. A large batch takes about 20 ms a
    game, in a process of its own. A report is kept until more games finish, or more is judged or answered. If
    it takes longer than `wait_s`, the response is 202 with its progress: ask again.
    """
    report = await evaluations.reports.rendered(
        listed(batch, "batch"),
        caller,
        format_,
        read_split(group_by, where, contrast),
        wait_s=wait_s,
        exclude_above=exclude_above,
        raters_of=listed(raters_of, "raters_of"),
    )
    headers = {"Cache-Control": "private, no-cache"}
    if isinstance(report, Making):
        eta_s = report.eta_s
        progress = ReportProgress(games=report.games, games_done=report.games_done, eta_s=eta_s)
        headers["Retry-After"] = str(max(1, min(10, math.ceil(2 if eta_s is None else eta_s))))
        return JSONResponse(progress.model_dump(mode="json"), 202, headers)
    headers["ETag"] = report.etag
    if format_ == "html":
        headers["Content-Security-Policy"] = REPORT_POLICY
    if if_none_match is not None and matches(if_none_match, report.etag):
        return Response(status_code=304, headers=headers)
    return Response(report.content, media_type=_MEDIA[format_], headers=headers)


_MEDIA = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "latex": "application/x-latex; charset=utf-8",
}


@router.get(
    "/annotations",
    summary="Stored judgements",
    response_model=JudgementsPage,
    dependencies=[Depends(needs("annotate"))],
    responses=documented(
        404, 409, also={200: {"content": in_text("text/csv"), "description": "Judgements; as CSV on demand."}}
    ),
)
async def list_judgements(
    evaluations: EvaluationsDep,
    caller: CallerDep,
    game: GameOf = None,
    batch: BatchOf = None,
    rater: RatersOf = None,
    raters_of: OwnersOf = None,
    format_: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
) -> Any:
    """The valid judgements: the caller's own; on games that the caller sees in full, all of its owner, of the
    games' owners, and of those that `raters_of` names.

    Rows that are damaged in the store are left out: `damaged` names them; with CSV, the header `Damaged-Rows`
    counts them.
    """
    raters = listed(rater, "rater")
    games = await evaluations.chosen(
        listed(game, "game"), listed(batch, "batch"), caller, "annotate", invalid=True
    )
    whose = await evaluations.whose(caller, games, listed(raters_of, "raters_of"))
    rows = await evaluations.store.judgements_of(games, whose=whose, raters=raters)
    judgements = await off_loop(_judgement_views, rows)
    if format_ == "json":
        return JudgementsPage(judgements=judgements, damaged=[damaged.name for damaged in rows.damaged])
    # A CSV sheet has no place for damaged rows, so a header counts them.
    headers = {"Damaged-Rows": str(len(rows.damaged))} if rows.damaged else None
    sheet = await off_loop(write_sheet, judgements)
    return Response(sheet, headers=headers, media_type="text/csv; charset=utf-8")


def _judgement_views(rows: Sequence[JudgementRow]) -> list[JudgementView]:
    return [JudgementView(**{name: getattr(row, name) for name in FIELDS}) for row in rows]
