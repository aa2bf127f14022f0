"""Model judges at work: asked in the background, every answer stored before it counts.

A game's judgements are committed together with how far the judge is, in the order of the games. So a
process that dies costs the answers that were on their way to it: what was answered stands among the
calls, what was judged among the judgements, and the next process goes on behind them.
"""

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from agents.errors import ModelUnavailable
from agents.llm.desk import CallKey, Desk
from agents.llm.model import Form
from agents.llm.model import Message as Asked
from app.errors import BudgetSpent
from app.evaluations.games import FinishedGames
from app.evaluations.judge_scores import judged_scores
from app.models.account import BUDGET_SPENT, Account
from app.models.call import Call
from app.models.house import ModelHouse, budget_of
from app.outside import now_ms, random_name
from app.store.db import Database
from app.store.evaluations import EvaluationStore
from app.store.faults import PASSING, is_ours
from app.store.games import Row
from engine.errors import AvalonError
from evaluators.asking import Message
from evaluators.items import Item, items
from evaluators.judge import Evidence, Verdict, judge

__all__ = ["Judges"]

log = structlog.get_logger()

_AHEAD: Final = 8
"""Games asked about at once: one slow answer must not hold up the others, nor fill the memory."""

_LOOK_S: Final = 2.0
"""How often to look for work that another process was given."""

_RETRY_S: Final = 1.0

_KEPT: Final = 50
"""Unusable answers kept with the result; all stand among the calls."""

_MOST: Final = 2000
"""Characters of an answer or a comment that are kept there."""


class _Ended(Exception):
    """Somebody has ended the evaluation: nothing more is to be written."""


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
    samples: list[dict[str, Any]] = field(default_factory=list)
    """The first unusable answers."""

    @property
    def counts(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if name != "samples"}

    @property
    def result(self) -> dict[str, Any]:
        """As the evaluation's row holds it."""
        return {"progress": self.counts, "unusable": self.samples, "items": self.judged}


@dataclass(slots=True)
class _Outcome:
    """What came of asking about one game."""

    game_id: str
    verdicts: list[Verdict] = field(default_factory=list)
    items: int = 0
    unanswered: int = 0
    not_asked: int = 0


class Judges:
    """The judges of one process."""

    def __init__(
        self, database: Database, games: FinishedGames, store: EvaluationStore, models: ModelHouse
    ) -> None:
        self._database = database
        self._games = games
        self._store = store
        self._models = models
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes up every evaluation that is being judged, now and whenever there is a new one."""
        await self._take_up()
        self._looking = asyncio.create_task(self._look(), name="judges")

    def submit(self, evaluation_id: str) -> None:
        """Begins to judge, where this process judges and has not begun."""
        if self._looking is not None and evaluation_id not in self._at_work:
            task = asyncio.create_task(self._guarded(evaluation_id), name=f"judge {evaluation_id}")
            self._at_work[evaluation_id] = task
            task.add_done_callback(lambda _: self._at_work.pop(evaluation_id, None))

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
        for evaluation_id in await self._store.judging():
            self.submit(evaluation_id)

    async def _guarded(self, evaluation_id: str) -> None:
        while True:
            try:
                await self._judge(evaluation_id)
            except _Ended:
                pass
            except AvalonError as fault:
                await self._fail(evaluation_id, str(fault))
            except Exception as fault:
                if isinstance(fault, PASSING) and not is_ours(fault):
                    cause = type(fault).__name__
                    log.warning("the database is away", evaluation=evaluation_id, cause=cause)
                    await asyncio.sleep(_RETRY_S)
                    continue
                trace = random_name()
                log.exception("a judge failed", evaluation=evaluation_id, trace_id=trace)
                await self._fail(evaluation_id, f"something broke on our side, trace {trace}")
            return

    async def _fail(self, evaluation_id: str, reason: str) -> None:
        row = await self._store.evaluation(evaluation_id)
        if row is not None:
            await self._end(row, _progress_of(row), reason)

    async def _end(self, row: Row, progress: _Progress, reason: str | None) -> None:
        """Scores what was judged, and closes the evaluation."""
        told = await judged_scores(
            row["evaluation_id"], row["dimension"], row["wish"]["games"], self._games, self._store
        )
        result = {**progress.result, **told, **({} if reason is None else {"reason": reason})}
        status = "scored" if reason is None else "failed"
        await self._store.finish(row["evaluation_id"], status, result, now_ms())

    # --- one evaluation ---------------------------------------------------------------------

    async def _judge(self, evaluation_id: str) -> None:
        row = await self._store.evaluation(evaluation_id)
        if row is None or row["status"] != "judging":
            return
        progress = _progress_of(row)
        left = row["wish"]["games"][progress.games_done :]
        calls = self._models.calls
        account = Account(budget_of(row["wish"]), await calls.uses_of(evaluation_id))
        stored = await self._stored(evaluation_id, left)
        begun: deque[asyncio.Task[_Outcome]] = deque()
        waiting = iter(left)
        try:
            while True:
                while len(begun) < _AHEAD and (game_id := next(waiting, None)) is not None:
                    known = stored.pop(game_id, {})
                    begun.append(asyncio.create_task(self._ask_about(row, game_id, known, account)))
                if not begun:
                    break
                outcome = await begun[0]
                begun.popleft()
                await self._keep(row, progress, outcome)
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
        self, row: Row, game_id: str, stored: Mapping[CallKey, Call], account: Account
    ) -> _Outcome:
        game = await self._games.by_id(game_id)
        spec = row["wish"]["judge"]
        desk = self._models.judge_desk(row["evaluation_id"], spec["model"], stored, account)
        outcome = _Outcome(game_id)
        found = list(items(game, row["dimension"]))
        outcome.items = len(found)
        tasks = [asyncio.create_task(_verdict(item, desk, row["rater"], spec, outcome)) for item in found]
        try:
            outcome.verdicts = [one for one in await asyncio.gather(*tasks) if one is not None]
        finally:
            for task in tasks:
                task.cancel()
        return outcome

    async def _keep(self, row: Row, progress: _Progress, outcome: _Outcome) -> None:
        """Commits one game's judgements, and that it is done."""
        judged = [one for one in outcome.verdicts if one.judgements]
        unusable = [one for one in outcome.verdicts if not one.judgements]
        samples = [
            {"item_id": one.item_id, "faults": list(one.faults), "answer": _plain(one.answers[-1])}
            for one in unusable
        ]
        after = _Progress(
            progress.games,
            progress.games_done + 1,
            progress.items + outcome.items,
            progress.judged + len(judged),
            progress.unusable + len(unusable),
            progress.unanswered + outcome.unanswered,
            progress.not_asked + outcome.not_asked,
            [*progress.samples, *samples][:_KEPT],
        )
        rows = [one for verdict in judged for one in _rows(row, verdict)]

        async def work(connection: AsyncConnection) -> None:
            if not await self._store.advance(connection, row["evaluation_id"], after.result):
                raise _Ended
            await self._store.lock_rater(connection, row["caller"], row["rater"])
            held = await self._store.grades(connection, row["caller"], row["rater"], [outcome.game_id])
            at = self._database.writer.stamp()
            for one in rows:
                key = (one["game_id"], one["request_id"], one["stage"], one["intention"], one["dimension"])
                one |= {"grade": held.get(key, 0) + 1, "at": at}
            await self._store.insert_judgements(connection, rows)
            # The judgements tell their owner what was chosen: it may not guess that any more.
            turns = {(one["game_id"], one["request_id"]) for one in rows}
            if turns and not row["wish"]["sees_all"]:
                await self._store.mark_seen_in(connection, row["caller"], turns)

        await self._database.writer.run(work)
        for name in _Progress.__slots__:
            setattr(progress, name, getattr(after, name))


def _progress_of(row: Row) -> _Progress:
    result = row["result"] or {}
    known = result.get("progress") or {"games": len(row["wish"]["games"])}
    return _Progress(**known, samples=result.get("unusable", []))


async def _verdict(
    item: Item, desk: Desk, rater: str, spec: Mapping[str, Any], outcome: _Outcome
) -> Verdict | None:
    """What the judge says of one item; None where it could not be asked."""
    asked = 0

    async def ask(conversation: Sequence[Message]) -> str:
        nonlocal asked
        asked += 1
        key = CallKey(item.request_id, f"judge_{item.dimension}", f"{item.game_id}/{item.stage}", asked)
        reply = await desk.ask(
            key,
            [Asked(one.role, one.content) for one in conversation],
            _form(item),
            temperature=spec["temperature"],
            max_tokens=spec["max_output_tokens"],
        )
        return reply.text

    try:
        return await judge(item, ask, rater, attempts=spec["attempts"])
    except ModelUnavailable:
        outcome.unanswered += 1
    except BudgetSpent:
        outcome.not_asked += 1
    return None


def _form(item: Item) -> Form:
    """The form of an answer, for servers that hold a model to one; what counts is read by the judge."""
    text = {"type": "string"}
    if item.dimension == "selection":
        said: dict[str, Any] = {"reasonable": {"type": "boolean"}, "quote": text, "reason": text}
    else:
        score = {"type": "integer", "minimum": 1, "maximum": 5}
        part = _object({"score": score, "quote": text, "reason": text})
        said = dict.fromkeys(("think", "speak") if item.think.strip() else ("speak",), part)
    intention = {"type": "string", "enum": [choice.id for choice in item.asked]}
    entries = {"type": "array", "items": _object({"intention": intention, **said})}
    return Form(f"judge_{item.dimension}", _object({"judgements": entries}))


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _rows(row: Row, verdict: Verdict) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(one, name) for name in _FIELDS},
            "dimension": row["dimension"],
            "caller": row["caller"],
            "rater": row["rater"],
            "kind": "model",
            "evaluation_id": row["evaluation_id"],
            "comment": _comment([found for found in verdict.evidence if found.intention == one.intention]),
        }
        for one in verdict.judgements
    ]


_FIELDS: Final = ("game_id", "request_id", "stage", "intention", "reasonable", "think", "speak")


def _comment(evidence: Sequence[Evidence]) -> str:
    """The quotes and reasons of one intention as text."""
    return _plain("\n".join(f"{one.of}: “{one.quote}” {one.reason}" for one in evidence))


def _plain(text: str) -> str:
    """What any database and any reader takes: no U+0000, no half of a surrogate."""
    return text[:_MOST].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
