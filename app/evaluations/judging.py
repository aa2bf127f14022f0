"""Model judges at work: asked in the background, every answer stored before it counts.

A game's judgements are committed together with how far the judge is, in the order of the games. So a
process that dies costs the answers that were on their way to it: what was answered stands among the
calls, what was judged among the judgements, and the next process goes on behind them.

A game that cannot be judged is left out and named with the reason; the others are judged. While the
database does not answer, a judge waits longer and longer, five minutes at most, and says so.
"""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agents.llm.session import CallKey, ModelSession
from agents.model.model import Message, ModelUnavailable
from app.base import metrics
from app.base.clock import now_ms, random_name
from app.base.errors import BudgetSpent
from app.evaluations.games import FinishedGames, Turn
from app.evaluations.items import SHOWING
from app.evaluations.judge_scores import judged_scores
from app.evaluations.judge_work import JudgeWork, QuestionResult, plain, work_of
from app.models.account import Account
from app.models.registry import ModelRegistry, budget_of
from app.runner.claims import Claims
from app.store.call import BUDGET_SPENT, Call
from app.store.db import PASSING, Database, is_ours
from app.store.evaluations import EvaluationStore
from app.store.rows import Damaged, EvaluationRow
from engine.errors import AvalonError
from evaluators.judges.asking import JudgeMessage

__all__ = ["KEPT", "Judges", "Waiting", "beginning", "retry_after_s"]

log = structlog.get_logger()

_AHEAD: Final = 8
"""Games asked about at once: one slow answer must not hold up the others, nor fill the memory."""

_LOOK_S: Final = 2.0
"""How often to look for work that another process was given."""

_RETRY_FIRST_S: Final = 1.0
_RETRY_LAST_S: Final = 300.0
"""A database may be away for a night: nobody is helped by giving up, or by asking it every second."""

KEPT: Final = 50
"""Unusable answers, and games left out, kept with the result; the answers all stand among the calls."""


class _Ended(Exception):
    """Somebody has ended the evaluation: nothing more is to be judged."""


class _Faulty(Exception):
    """One game cannot be judged; the message says why."""


class Waiting(NamedTuple):
    """A judge that waits for the database."""

    since: int
    """UTC, milliseconds since 1970: of the first fault in a row."""
    faults: int
    """Faults in a row."""
    cause: str
    again_at: int
    """UTC, milliseconds since 1970: when it tries again."""


@dataclass(slots=True)
class _Progress:
    """How far a judge is; written with every game."""

    games: int
    games_done: int = 0
    items: int = 0
    judged: int = 0
    unusable: int = 0
    unanswered: int = 0
    not_asked: int = 0
    left_out: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    """The first unusable answers."""
    missing: list[dict[str, str]] = field(default_factory=list)
    """The first games left out, each with its reason."""

    @property
    def counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if isinstance(value, int)}

    @property
    def result(self) -> dict[str, Any]:
        """As the evaluation's row holds it."""
        return {
            "progress": self.counts,
            "unusable": self.samples,
            "left_out": self.missing,
            "items": self.judged,
        }


def retry_after_s(faults: int) -> float:
    """How long to wait after so many faults in a row, one at least."""
    return min(_RETRY_FIRST_S * 2.0 ** min(faults - 1, 30), _RETRY_LAST_S)


def beginning(games: int, left_out: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The result of an evaluation that begins; ``left_out``: games and why they cannot be judged."""
    missing = [{"game_id": game, "reason": reason} for game, reason in left_out[:KEPT]]
    return _Progress(games, left_out=len(left_out), missing=missing).result


@dataclass(slots=True)
class _Outcome:
    """What came of asking about one game."""

    game_id: str
    judged: list[QuestionResult] = field(default_factory=list)
    items: int = 0
    unanswered: int = 0
    not_asked: int = 0
    left_out: str = ""
    """Why the game cannot be judged; empty: it can."""


class Judges:
    """The judges of one process."""

    def __init__(
        self,
        database: Database,
        games: FinishedGames,
        store: EvaluationStore,
        models: ModelRegistry,
        claims: Claims,
    ) -> None:
        self._database = database
        self._claims = claims
        self._games = games
        self._store = store
        self._models = models
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._closing: set[str] = set()
        """Cancelled, and broken off here: what is left is to score them."""
        self._waiting: dict[str, Waiting] = {}
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes up every evaluation that is being judged, now and whenever there is a new one."""
        self._claims.on_lost.append(self._give_up)
        self._looking = asyncio.create_task(self._look(), name="judges")
        await self._take_up()

    def submit(self, evaluation_id: str) -> None:
        """Begins to judge, where this process judges and has not begun."""
        if self._looking is not None and evaluation_id not in self._at_work:
            task = asyncio.create_task(self._claimed(evaluation_id), name=f"judge {evaluation_id}")
            self._at_work[evaluation_id] = task
            task.add_done_callback(lambda _: self._at_work.pop(evaluation_id, None))

    async def _claimed(self, evaluation_id: str) -> None:
        """Judges if nobody else does; another process may have been faster, and goes on with it."""
        try:
            if await self._claims.take([evaluation_id]):
                await self.run(evaluation_id)
        finally:
            self._closing.discard(evaluation_id)
            # A process that stops keeps its claims until its last calls are stored.
            if self._looking is not None:
                await self._claims.give_back(evaluation_id)

    def _give_up(self, evaluation_id: str) -> None:
        task = self._at_work.get(evaluation_id)
        if task is not None:
            log.warning("another process has taken a judge over", evaluation=evaluation_id)
            task.cancel()

    def waiting(self, evaluation_id: str) -> Waiting | None:
        """Whether the judge waits for the database, as far as this process knows."""
        return self._waiting.get(evaluation_id)

    async def break_off(self, evaluation_id: str) -> None:
        """Stops judging what was cancelled, and scores what was judged by then. Calls that are under way
        are let finish and stored: they are paid for.
        """
        task = self._at_work.get(evaluation_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._at_work.pop(evaluation_id, None)
        self.submit(evaluation_id)
        if evaluation_id in self._at_work:
            self._closing.add(evaluation_id)

    async def stop(self) -> None:
        """Stops between two answers; the next start goes on from there."""
        looking, self._looking = self._looking, None
        tasks = [*self._at_work.values(), *([] if looking is None else [looking])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(*PASSING):
                await self._take_up()

    async def _take_up(self) -> None:
        for row in await self._store.judging():
            evaluation_id = row.evaluation_id
            if isinstance(row.spec, Damaged):
                # Nobody can go on with it: not at the next look either.
                log.error("an evaluation is damaged", evaluation=evaluation_id)
                await self._store.finish(evaluation_id, "failed", {"reason": "it cannot be read"}, now_ms())
            elif row.status == "cancelled":
                # Perhaps by another process, while this one waits for slow answers.
                if evaluation_id not in self._closing:
                    await self.break_off(evaluation_id)
            # What a command judges, it goes on with itself: two at it would pay twice.
            elif not row.spec.get("by_command"):
                self.submit(evaluation_id)

    async def run(self, evaluation_id: str) -> None:
        """Judges until the evaluation is over; while the database is away, it waits."""
        try:
            while not await self._tried(evaluation_id):
                pass
        finally:
            self._heard(evaluation_id)

    async def _tried(self, evaluation_id: str) -> bool:
        """Whether there is nothing more to do."""
        try:
            await self._judge(evaluation_id)
        except _Ended:
            return False  # cancelled: what was judged is to be scored
        except Exception as fault:
            if isinstance(fault, PASSING) and not is_ours(fault):
                await self._wait(evaluation_id, fault)
                return False
            if isinstance(fault, AvalonError):
                reason = str(fault)
            else:
                trace = random_name()
                log.exception("a judge failed", evaluation=evaluation_id, trace_id=trace)
                reason = f"something broke on our side, trace {trace}"
            try:
                await self._fail(evaluation_id, reason)
            except PASSING as away:
                await self._wait(evaluation_id, away)
                return False
        return True

    async def _wait(self, evaluation_id: str, fault: Exception) -> None:
        known = self._waiting.get(evaluation_id)
        faults = 1 if known is None else known.faults + 1
        delay_s = retry_after_s(faults)
        cause = type(fault).__name__
        now = now_ms()
        since = now if known is None else known.since
        self._waiting[evaluation_id] = Waiting(since, faults, cause, now + int(1000 * delay_s))
        metrics.judges_waiting.set(len(self._waiting))
        metrics.judge_faults.labels(cause).inc()
        log.warning("the database is away", evaluation=evaluation_id, again_in_s=delay_s, cause=cause)
        await asyncio.sleep(delay_s)

    def _heard(self, evaluation_id: str) -> None:
        """The database answers again, or nobody waits for it any more."""
        self._waiting.pop(evaluation_id, None)
        metrics.judges_waiting.set(len(self._waiting))

    async def _fail(self, evaluation_id: str, reason: str) -> None:
        row = await self._store.evaluation(evaluation_id)
        if row is None:
            return
        result: dict[str, Any] = {"reason": reason}
        try:
            progress = _progress_of(row)
            result |= {**progress.result, "reason": reason}
            await self._end(row, progress, reason)
        except PASSING:
            raise
        except Exception:
            log.exception("what was judged could not be scored", evaluation=evaluation_id)
            await self._store.finish(evaluation_id, "failed", result, now_ms())

    async def _end(
        self, row: EvaluationRow, progress: _Progress, reason: str | None, status: str = "failed"
    ) -> None:
        """Scores what was judged, and closes the evaluation."""
        told = await judged_scores(
            row.evaluation_id, row.dimension, row.spec["games"], self._games, self._store
        )
        result = {**progress.result, **told, **({} if reason is None else {"reason": reason})}
        status = "scored" if reason is None else status
        await self._store.finish(row.evaluation_id, status, result, now_ms())

    # --- one evaluation ---------------------------------------------------------------------

    async def _judge(self, evaluation_id: str) -> None:
        row = await self._store.evaluation(evaluation_id)
        if row is None or row.finished_at is not None:
            return
        progress = _progress_of(row)
        if row.status == "cancelled":
            await self._end(row, progress, "cancelled", "cancelled")
            return
        work = work_of(row.dimension)
        left = row.spec["games"][progress.games_done :]
        calls = self._models.calls
        account = Account(budget_of(row.spec), await calls.uses_of(evaluation_id))
        stored = await self._stored(evaluation_id, left)
        begun: deque[asyncio.Task[_Outcome]] = deque()
        waiting = iter(left)
        try:
            while True:
                while len(begun) < _AHEAD and (game_id := next(waiting, None)) is not None:
                    known = stored.pop(game_id, {})
                    begun.append(asyncio.create_task(self._ask_about(row, work, game_id, known, account)))
                if not begun:
                    break
                outcome = await begun[0]
                begun.popleft()
                await self._keep(row, work, progress, outcome)
                self._heard(evaluation_id)
        finally:
            for task in begun:
                task.cancel()
            if begun:
                await asyncio.wait(begun)
        reason = None
        if progress.not_asked:
            reason = BUDGET_SPENT
        elif progress.items and not progress.judged:
            reason = "no answer of the judge could be used"
        elif not progress.items:
            reason = "none of these games could be judged"
        await self._end(row, progress, reason)

    async def _stored(self, evaluation_id: str, left: Sequence[str]) -> dict[str, dict[CallKey, Call]]:
        """The answers that are there already, of games that are not done: few are begun at a time."""
        found: dict[str, dict[CallKey, Call]] = defaultdict(dict)
        wanted = set(left)
        async for call in self._models.calls.one_by_one(evaluation_id):
            game_id = call.key.about.partition("/")[0]
            if game_id in wanted:
                found[game_id][call.key] = call
        return found

    async def _ask_about(
        self,
        row: EvaluationRow,
        work: JudgeWork,
        game_id: str,
        stored: Mapping[CallKey, Call],
        account: Account,
    ) -> _Outcome:
        session = self._models.judge_session(row.evaluation_id, row.spec["judge"]["model"], stored, account)
        outcome = _Outcome(game_id)
        try:
            found = await self._questions(work, game_id, row.spec["judge"])
        except _Faulty as reason:
            outcome.left_out = str(reason)
            return outcome
        outcome.items = len(found)
        tasks = [asyncio.create_task(_asked(work, one, session, row, outcome)) for one in found]
        try:
            outcome.judged = [one for one in await asyncio.gather(*tasks) if one is not None]
        finally:
            for task in tasks:
                task.cancel()
        return outcome

    async def _questions(self, work: JudgeWork, game_id: str, spec: Mapping[str, Any]) -> Sequence[Any]:
        """What is asked about a game. Raises _Faulty where it cannot be read or there is nothing to ask."""
        try:
            game = await self._games.by_id(game_id)
            found = await asyncio.to_thread(work.questions, game, spec)
            nothing = "" if found else work.nothing(game)
        except PASSING:
            raise
        except AvalonError as fault:
            raise _Faulty(str(fault)) from None
        except Exception:
            trace = random_name()
            log.exception("a game cannot be judged", game=game_id, trace_id=trace)
            raise _Faulty(f"it cannot be read, trace {trace}") from None
        if nothing:
            raise _Faulty(nothing)
        return found

    async def _keep(
        self, row: EvaluationRow, work: JudgeWork, progress: _Progress, outcome: _Outcome
    ) -> None:
        """Commits one game's judgements, and that it is done."""
        judged = [one for one in outcome.judged if one.usable]
        unusable = [one for one in outcome.judged if not one.usable]
        samples = [
            {"item_id": one.item_id, "faults": list(one.faults), "answer": plain(one.answer)}
            for one in unusable
        ]
        missing = [{"game_id": outcome.game_id, "reason": outcome.left_out}] if outcome.left_out else []
        after = _Progress(
            progress.games,
            progress.games_done + 1,
            progress.items + outcome.items,
            progress.judged + len(judged),
            progress.unusable + len(unusable),
            progress.unanswered + outcome.unanswered,
            progress.not_asked + outcome.not_asked,
            progress.left_out + len(missing),
            [*progress.samples, *samples][:KEPT],
            [*progress.missing, *missing][:KEPT],
        )
        rows = [one for found in judged for one in found.rows]

        shown: set[Turn] = set()
        if row.dimension in SHOWING and not row.spec["sees_all"]:
            # The judgements tell their owner what was chosen: it may not guess that any more.
            turns = await self._games.first_played(
                {(judged_row.game_id, judged_row.request_id) for judged_row in rows}
            )
            shown = set(turns.values())

        async def write(connection: AsyncConnection) -> None:
            if not await self._store.advance(connection, row.evaluation_id, after.result):
                raise _Ended
            await self._store.lock_rater(connection, row.caller, row.rater)
            at = self._database.writer.stamp()
            await work.store(connection, self._store, row, outcome.game_id, rows, at)
            await self._store.mark_seen_in(connection, row.caller, shown)

        await self._database.writer.run(write)
        for name in _Progress.__slots__:
            setattr(progress, name, getattr(after, name))


def _progress_of(row: EvaluationRow) -> _Progress:
    result = row.result or {}
    known = result.get("progress") or {"games": len(row.spec["games"])}
    return _Progress(**known, samples=result.get("unusable", []), missing=result.get("left_out", []))


async def _asked(
    work: JudgeWork, question: Any, session: ModelSession, row: EvaluationRow, outcome: _Outcome
) -> QuestionResult | None:
    """What the judge says to one question; None where it could not be asked."""
    asked = 0
    spec = row.spec["judge"]
    form = work.form(question)

    async def ask(conversation: Sequence[JudgeMessage]) -> str:
        nonlocal asked
        asked += 1
        reply = await session.ask(
            work.key(question, asked),
            [Message(one.role, one.content) for one in conversation],
            form,
            temperature=spec["temperature"],
            max_tokens=spec["max_output_tokens"],
        )
        return reply.text

    try:
        return await work.judge(question, ask, row)
    except ModelUnavailable:
        outcome.unanswered += 1
    except BudgetSpent:
        outcome.not_asked += 1
    return None
