"""Builds the views of games and batches that callers receive."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.base.clock import now_ms, timestamp
from app.games.defaults import seat_defaults
from app.games.schemas import (
    OVER,
    BatchDefaults,
    BatchView,
    BudgetView,
    ForkedFrom,
    GameView,
    HandView,
    ImportedFrom,
    InvalidView,
    ModelUse,
    OpenRequest,
    OutageView,
    ProfileSettings,
    QuestView,
    SeatModelUse,
    SeatSpec,
    StepUse,
    SuspensionView,
    TallyView,
)
from app.games.status import batch_status, games_by_status
from app.models.registry import Spending
from app.store.call import Use, UseKey, total
from app.store.games import Tallied
from app.store.rows import BatchRow, GameRow, whole
from engine.errors import UNREADABLE, CorruptLog
from engine.events import GameCreated, GameEnded
from engine.rules import Request, pending
from engine.state import State, fold
from engine.terms import FULL, PUBLIC, Seat, Viewer
from engine.view import stream, viewer_name

__all__ = [
    "batch_view",
    "game_view",
    "invalid_view",
    "model_uses",
    "open_requests",
]


def open_requests(requests: Sequence[Request]) -> list[OpenRequest]:
    """The views of open requests."""
    return [
        OpenRequest(
            request_id=request.id,
            seat=request.seat,
            kind=request.kind,
            round=request.round,
            attempt=request.attempt,
            team_size=request.team_size,
        )
        for request in requests
    ]


def _by_seat(values: Sequence[Any]) -> dict[str, Any]:
    return {str(seat): value for seat, value in enumerate(values, 1)}


def game_view(row: GameRow, full: State, viewer: Viewer, uses: Mapping[Seat, Use] | None = None) -> GameView:
    """The game as one viewer sees it. It is folded from the viewer's own events, so it holds nothing else.
    ``uses``: what models took, by seat, for the full viewer. Raises CorruptLog if the row and the log do not
    make up a game.
    """
    try:
        return _game_view(row, full, viewer, uses or {})
    except UNREADABLE as fault:
        raise CorruptLog(f"{row.game_id} cannot be shown: {type(fault).__name__}") from None


def _game_view(row: GameRow, full: State, viewer: Viewer, uses: Mapping[Seat, Use]) -> GameView:
    seen = stream(full, viewer)
    state = full if viewer == FULL else fold(seen)
    table = state.table
    hand = None
    if viewer not in (PUBLIC, FULL):
        own = state.hand(viewer)
        assert own.role is not None
        assert own.side is not None
        hand = HandView(seat=viewer, role=own.role, side=own.side, sees=list(own.sees))
    ended = next((event for event in reversed(seen) if isinstance(event, GameEnded)), None)
    roles = state.roles or (ended.roles if ended is not None else None)
    created = seen[0]
    assert isinstance(created, GameCreated)
    is_full = viewer == FULL
    return GameView(
        game_id=row.game_id,
        batch_id=row.batch_id,
        status=row.status,
        viewer=viewer_name(viewer),
        head=len(seen),
        created_at=timestamp(row.created_at),
        profile=ProfileSettings(**created.profile.settings()),
        names=_by_seat(table.names),
        phase=table.phase,
        round=table.round,
        attempt=table.attempt,
        leader=table.leader,
        proposed=list(table.proposed),
        team=list(table.team),
        quests=[
            QuestView(round=quest.round, team=list(quest.team), fails=quest.fails, succeeded=quest.succeeded)
            for quest in table.quests
        ],
        proposals=[
            TallyView(
                round=tally.round,
                attempt=tally.attempt,
                leader=tally.leader,
                proposed=list(tally.proposed),
                team=list(tally.team),
                votes=_by_seat(tally.votes) if tally.votes else None,
                approved=tally.approved,
                forced=tally.forced,
            )
            for tally in table.tallies
        ],
        winner=table.winner,
        ending=table.ending,
        hand=hand,
        roles=None if roles is None else _by_seat(roles),
        seed=str(state.seed) if is_full and state.seed is not None else None,
        agents=[SeatSpec(**spec) for spec in row.seats] if is_full else None,
        requests=open_requests(pending(state)) if is_full else None,
        forked_from=ForkedFrom.model_validate(row.forked_from)
        if is_full and row.forked_from is not None
        else None,
        imported_from=None if row.imported_from is None else ImportedFrom.model_validate(row.imported_from),
        defaults=seat_defaults(row, full) if is_full else None,
        uses=[SeatModelUse(seat=seat, **_used(use)) for seat, use in uses.items()] if is_full else None,
        invalid=invalid_view(row) if is_full else None,
        fault=row.fault if is_full else None,
    )


def invalid_view(row: GameRow) -> InvalidView | None:
    """The mark of a game that is excluded from reports and items; None: it is not."""
    if row.invalid is None:
        return None
    why = whole(row.invalid)
    return InvalidView(at=timestamp(why["at"]), by=why["by"], reason=why["reason"])


def _used(use: Use) -> dict[str, Any]:
    return {**asdict(use), "cached_share": use.cached_share}


def model_uses(uses: Mapping[UseKey, Use]) -> list[ModelUse]:
    """Usage by model, and within a model by step; both in alphabetical order."""
    models: dict[tuple[str, str], list[tuple[str, Use]]] = {}
    for key in sorted(uses):
        models.setdefault((key.endpoint, key.model), []).append((key.step, uses[key]))
    return [
        ModelUse(
            endpoint=endpoint,
            model=model,
            steps=[StepUse(step=step, **_used(use)) for step, use in steps],
            **_used(total(use for _, use in steps)),
        )
        for (endpoint, model), steps in models.items()
    ]


def _suspension(row: BatchRow) -> SuspensionView | None:
    if row.suspended is None:
        return None
    why = whole(row.suspended)
    return SuspensionView(
        since=timestamp(why["at"]), endpoint=why["endpoint"], cause=why["cause"], words=why["words"]
    )


def batch_view(
    row: BatchRow,
    tallied: Tallied,
    spending: Spending | None,
    defaults: BatchDefaults | None,
    *,
    sees_all: bool,
) -> BatchView:
    """A batch's progress and results so far. ``sees_all``: include what each model used, step by step.
    Without ``spending`` it is the spectators' view: without labels, tokens, costs and budget.
    """
    status = batch_status(row, tallied)
    found = games_by_status(row, tallied)
    ended = sum(tallied.status.get(name, 0) for name in ("finished", "cancelled", "failed"))
    running = status not in OVER
    goes_on = running and status != "suspended"
    until = now_ms() if running else (tallied.last_finished or row.created_at)
    seconds = max(until - row.created_at, 1) / 1000
    speed = ended / seconds if ended else None
    return BatchView(
        batch_id=row.batch_id,
        status=status,  # type: ignore[arg-type]
        count=sum(found.values()),
        created_at=timestamp(row.created_at),
        finished_at=None if running or tallied.last_finished is None else timestamp(tallied.last_finished),
        labels={} if spending is None else dict(whole(row.labels)),
        games=found,  # type: ignore[arg-type]
        winners=dict(tallied.winners),  # type: ignore[arg-type]
        endings=dict(tallied.endings),  # type: ignore[arg-type]
        games_per_second=speed,
        eta_s=(row.count - ended) / speed if goes_on and speed else None,
        tokens=None if spending is None else spending.total.tokens,
        cost=None if spending is None else spending.total.cost,
        models=model_uses(spending.uses) if spending is not None and sees_all else [],
        defaults=defaults,
        budget=None
        if spending is None or spending.budget is None
        else BudgetView(**spending.budget, spent=spending.spent, games_stopped=spending.games_stopped),
        suspended=None if spending is None else _suspension(row),
        waiting=[
            OutageView(endpoint=outage.endpoint, since=timestamp(outage.since), cause=outage.cause)
            for outage in (spending.outages if spending is not None and goes_on else ())
        ],
    )
