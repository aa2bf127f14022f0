"""The judges and guessers of a study: models that judge or answer items or speeches of games in files.

What a rater says of a game is written when it has said everything; each of its answers is stored before it is
used. So a run that is killed asks nothing again. An item that gets no usable answer is counted, and left out.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import structlog

from agents.llm.session import CallKey, ModelSession
from agents.model.model import Form, Message, ModelUnavailable
from app.base.errors import BudgetSpent
from app.base.off_loop import off_loop
from app.base.tasks import end_tasks, run_together
from app.evaluations.judge_work import (
    JUDGEMENT_FIELDS,
    STATEMENTS,
    asking,
    plain,
    statements_as_json,
    work_of,
)
from app.models.account import Account
from app.models.endpoints import Endpoints
from app.models.recording import CannotStore
from app.models.sessions import Flights, GameSessions
from app.models.stops import BatchStops, GameFails, GameStops
from app.runner.study_folder import NotWritten, StudyFault, StudyFolder
from app.runner.study_games import LAND_S
from app.store.call import total, use_of
from engine.errors import AvalonError
from evaluators.ground.answers import read_reply
from evaluators.ground.items import Item, Variant, items
from evaluators.ground.rows import question
from evaluators.ground.turns import Game
from evaluators.judges.asking import Ask, object_schema
from evaluators.judges.control_speeches import control_speeches
from evaluators.judges.model import judge
from evaluators.judges.statements import judge_speech
from evaluators.measures.hallucination import Speech, speeches
from evaluators.study.file import EvaluationAsked

__all__ = ["GAMES_AT_ONCE", "StudyRaters", "questions_to", "rater_key"]

log = structlog.get_logger()

GAMES_AT_ONCE: Final = 8
"""Games that a rater is asked about at the same time; the questions of a game are asked together."""


def rater_key(asked: EvaluationAsked) -> str:
    """The name of the folder with a rater's work. Everything that changes its answers is part of it."""
    # What only judges of statements have is not in the names of other raters, which are older.
    others = set() if asked.dimension == STATEMENTS else {"planted"}
    values = asked.model_dump(mode="json", exclude={"name", *others})
    digest = hashlib.sha256(orjson.dumps(values, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    return f"{asked.kind}-{asked.dimension}-{digest}"


def questions_to(asked: EvaluationAsked, game: Game) -> Sequence[Item | Speech]:
    """What a rater is asked about in a game: items, or speeches for a judge of statements."""
    if asked.dimension == STATEMENTS:
        return [*speeches(game.id, game.log), *control_speeches(game.id, game.log, asked.planted)]
    assert asked.dimension is not None
    return list(items(game, asked.dimension, Variant(options=asked.options)))


@dataclass(slots=True)
class StudyRaters:
    """The raters of one run."""

    folder: StudyFolder
    endpoints: Endpoints
    account: Account
    spent: bool = False
    refused: dict[str, str] = field(default_factory=dict)
    """The endpoints that answer nothing until somebody changes something, with their words."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Games that a rater could not be asked about, and why."""

    async def run(
        self,
        asked: EvaluationAsked,
        games: Iterable[str],
        read: Callable[[str], Game],
        on_game: Callable[[str], None],
    ) -> None:
        """Asks one rater about the games that it has not done. ``read``: reads a game by its id. ``on_game``:
        called with each game that is done. Raises InvalidAgent for an unknown endpoint, and
        NotWritten.
        """
        self.endpoints.source(str(asked.model))
        left = iter(games)
        await run_together(self._work(asked, left, read, on_game) for _ in range(GAMES_AT_ONCE))

    async def _work(
        self,
        asked: EvaluationAsked,
        left: Any,
        read: Callable[[str], Game],
        on_game: Callable[[str], None],
    ) -> None:
        key = rater_key(asked)
        for game_id in left:
            if self.spent or asked.model in self.refused:
                return
            if self.folder.rated(key, game_id) is not None:
                continue
            try:
                await self._game(asked, key, await off_loop(read, game_id))
            except BudgetSpent:
                self.spent = True
                return
            except BatchStops as stop:
                self.refused[stop.endpoint] = str(stop)
                return
            except CannotStore as fault:
                raise NotWritten(str(fault)) from None
            except NotWritten:
                raise
            except (AvalonError, StudyFault) as fault:
                self.failures.append((game_id, str(fault)))
            except Exception as fault:
                log.exception("a game could not be judged", game=game_id)
                self.failures.append((game_id, f"something broke on our side: {type(fault).__name__}"))
            else:
                on_game(game_id)

    async def _game(self, asked: EvaluationAsked, key: str, game: Game) -> None:
        answers, flights = self.folder.rater_answers(key, game.id), Flights()
        began, anew = time.monotonic(), not len(answers.recording)
        try:
            sessions = GameSessions(
                game.id,
                game.id,
                answers.recording.calls(game.id),
                answers,
                self.account,
                flights,
                keep_messages=False,
            )
            session = sessions.session(self.endpoints.source(str(asked.model)))
            questions = questions_to(asked, game)
            tasks = [asyncio.create_task(_asked(asked, one, session)) for one in questions]
            try:
                replies = await asyncio.gather(*tasks)
            finally:
                await end_tasks(*tasks)
        finally:
            await flights.land(LAND_S)
            answers.close()
        seconds = time.monotonic() - began
        use = total(map(use_of, answers.recording.calls(game.id).values()))
        rows = [row for one in replies for row in one or ()]
        self.folder.write(
            f"{game.id}.json",
            {
                "game": game.id,
                "items": len(questions),
                "unusable": sum(one is not None and not one for one in replies),
                "unanswered": sum(one is None for one in replies),
                "calls": use.calls,
                "tokens": use.tokens,
                "cost": use.cost,
                # As with games, only where nothing interrupted it.
                "seconds": round(seconds, 3) if anew else None,
                "rows": rows,
            },
            at=self.folder.rated_file(key, game.id).parent,
        )


async def _asked(
    asked: EvaluationAsked, question: Item | Speech, session: ModelSession
) -> Sequence[Mapping[str, Any]] | None:
    """What the rater says, as rows of the files that ``--judgements`` and ``--answers`` take; none if no
    answer was usable, None if there was no answer.
    """
    try:
        if isinstance(question, Speech):
            return await _judged_speech(asked, question, session)
        if asked.kind == "judge":
            return await _judged(asked, question, session)
        return await _guessed(asked, question, session)
    except (ModelUnavailable, GameFails, GameStops):
        return None


def _asking(asked: EvaluationAsked, question: Any, session: ModelSession) -> Ask:
    """How a judge is asked about an item or a speech."""
    work = work_of(str(asked.dimension))
    return asking(work, question, session, temperature=asked.temperature, max_tokens=asked.max_output_tokens)


async def _judged_speech(
    asked: EvaluationAsked, speech: Speech, session: ModelSession
) -> Sequence[Mapping[str, Any]]:
    found = await judge_speech(speech, _asking(asked, speech, session), attempts=asked.attempts)
    if found.statements is None:
        return []
    judged = statements_as_json(speech, found.statements)
    return [{**speech.key._asdict(), **judged, "rater": asked.rater, "kind": "model"}]


async def _judged(asked: EvaluationAsked, item: Item, session: ModelSession) -> Sequence[Mapping[str, Any]]:
    verdict = await judge(item, _asking(asked, item, session), asked.rater, attempts=asked.attempts)
    return [
        {name: getattr(one, name) for name in (*JUDGEMENT_FIELDS, "rater")} | {"kind": "model"}
        for one in verdict.judgements
    ]


_REASON: Final = 600
"""The most characters of a guesser's reason: twice as many as it is asked for."""


async def _guessed(asked: EvaluationAsked, item: Item, session: ModelSession) -> Sequence[Mapping[str, Any]]:
    # An answer without a known intention is an answer.
    intention = {"type": "string", "enum": [option.id for option in item.options]}
    listed = {"type": "array", "items": intention}
    reason = {"type": "string", "maxLength": _REASON}
    form = Form(f"guess_{asked.dimension}", object_schema({"reason": reason, "intentions": listed}))
    messages = [Message("user", f"{item.context.text}\n\n{question(item)}")]
    rows = []
    for sample in range(1, asked.samples + 1):
        about = f"{item.stage}/{item.reader or 0}/{sample}"
        key = CallKey(item.request_id, f"guess_{asked.dimension}", about, 1)
        reply = await session.ask(
            key, messages, form, temperature=asked.temperature, max_tokens=asked.max_output_tokens
        )
        guess = read_reply(item.id, reply.text)
        rows.append(
            {
                "item_id": item.id,
                "rater": asked.rater,
                "sample": sample,
                "intentions": [*sorted(guess.intentions), *(plain(one)[:300] for one in guess.unmapped)][:20],
                "variant": {"options": asked.options},
            }
        )
    return rows
