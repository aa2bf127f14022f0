"""The mock server over HTTP: the same game, with the situations that can occur over HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from agents.table import ATTEMPTS
from app.base.errors import (
    AlreadyAnswered,
    Forbidden,
    NotFound,
    RateLimited,
    TooLate,
    Unauthenticated,
    UnknownRequest,
)
from app.base.json_reader import MAX_ANSWER_DEPTH, read_json
from app.base.problems import problem_response
from app.instruments.bot_check.game import TEXT_FAULT, THOUGHT_FAULT
from app.instruments.bot_check.session import (
    ANY,
    REFUSED_ONCE,
    SLOW_S,
    SPEAK,
    SPEAKING,
    UNKNOWN_FIELDS,
    WITH_CHOICE,
    Session,
)
from app.protocol.actions import RefusedThought
from app.protocol.messages import read_answer
from engine.actions import SeatAction
from engine.errors import IllegalAction, InvalidAction, InvalidInput
from engine.terms import Kind

__all__ = ["serve_call"]

RETRY_S: Final = 1
LONGEST_WAIT_S: Final = 5.0

SITUATIONS: Final[tuple[tuple[str, Sequence[Kind]], ...]] = (
    ("plain", ANY),
    ("unknown", ANY),
    ("refused", WITH_CHOICE),
    ("text-refused", SPEAKING),
    ("thought-refused", ANY),
    ("answer-lost", ANY),
    ("answer-lost", SPEAK),
    ("ack-lost", ANY),
    ("ack-lost", SPEAK),
    ("too-late", ANY),
    ("half-a-reply", ANY),
    ("rate", ANY),
    ("already-answered", ANY),
    ("slow", ANY),
    ("unavailable", ANY),
    ("quiet", ANY),
)
"""The situations in the order in which they are tried, each on the first request of one of its kinds."""


async def serve_call(session: Session, request: Request) -> Response:
    """Answers one call of the bot."""
    session.count_message()
    session.connected()
    if (ending := _ending(session, request)) is not None:
        return ending
    path = request.url.path.removeprefix(f"/games/{session.game.id}")
    parts = path.strip("/").split("/")
    if request.method == "GET" and path == "/requests":
        return await _requests(session, request)
    if request.method == "POST" and len(parts) == 3 and (parts[0], parts[2]) == ("requests", "action"):
        return await _action(session, request, parts[1])
    if request.method == "GET" and path == "/events":
        return _events(session, request)
    if request.method == "GET" and path == "":
        return JSONResponse(session.game.view())
    session.findings.wrong(
        "frames", f"called {request.method} {request.url.path}, which a bot has no use for"
    )
    return problem_response(NotFound("nothing here"))


def _ending(session: Session, request: Request) -> Response | None:
    if request.headers.get("authorization") != f"Bearer {session.token}":
        session.findings.wrong("credential", "called without Authorization: Bearer and its token")
        return problem_response(Unauthenticated("send the header Authorization: Bearer <token>"))
    session.findings.ok("credential")
    if session.ends_with is not None and session.answered_once:
        name, error = (
            ("unauthenticated", Unauthenticated("this token was revoked"))
            if session.ends_with == 401
            else ("not-found", NotFound("no such game for this caller"))
        )
        if session.due is None:
            session.disconnect(name, stays=True)
            session.forgiving = True
        return problem_response(error)
    return None


def _shown(session: Session) -> dict[str, Any]:
    return session.game.shown(session.refused) | (UNKNOWN_FIELDS if session.situation == "unknown" else {})


def _situation(session: Session) -> str:
    """The situation of the open request; it is chosen when the request is first shown."""
    request = session.game.request
    assert request is not None
    if session.situation_of != request.id:
        session.situation_of = request.id
        session.step = 0
        untried = (
            (name, kinds)
            for name, kinds in SITUATIONS
            if session.ends_with is None and (name, kinds) not in session.tried and request.kind in kinds
        )
        situation = next(untried, ("plain", ANY))
        session.tried.add(situation)
        session.situation = situation[0]
        session.doing = "answers" if session.situation == "plain" else session.situation
        if session.situation == "unknown":
            session.game.invent()
    return session.situation


async def _requests(session: Session, request: Request) -> Response:
    if session.game.over:
        _is_over(session)
        return JSONResponse({"status": "finished", "requests": []})
    situation = _situation(session)
    if session.asked_since is None:
        session.asked_since = time.monotonic()
    if situation == "quiet" and session.step < 2:
        # Do not ask the bot for a while, as if other seats were thinking.
        session.step += 1
        wait = min(float(request.query_params.get("wait_s", 0) or 0), LONGEST_WAIT_S, 0.5)
        await asyncio.sleep(wait)
        return JSONResponse({"status": "created" if session.step == 1 else "running", "requests": []})
    if situation == "unavailable" and session.step == 0:
        session.step = 1
        session.disconnect("unavailable", not_before=RETRY_S)
        session.expect("unavailable")
        body = {"status": 503, "code": "not-ready", "detail": "in a moment", "title": "Later"}
        return JSONResponse(body, 503, {"Retry-After": str(RETRY_S)}, media_type="application/problem+json")
    # Two messages: the bot's answer, and its call for the next request.
    session.invite(2)
    text = json.dumps({"status": "running", "requests": [_shown(session)]}, ensure_ascii=False)
    if situation == "half-a-reply" and session.step == 0:
        session.step = 1
        session.expect("half-a-reply")
        session.cut("half-a-reply", after=300)
    return Response(text, media_type="application/json")


async def _action(session: Session, request: Request, request_id: str) -> Response:
    asked = session.game.request
    try:
        answer = read_answer(read_json(await request.body(), max_depth=MAX_ANSWER_DEPTH, check_text=False))
    except InvalidInput as fault:
        session.findings.wrong("frames", f"{request_id}: {fault}")
        return problem_response(fault, attempts_left=None, request=_shown(session) if asked else None)
    session.findings.ok("frames")
    known = session.accepted_same(request_id, answer.action)
    if known is not None:
        if known:
            return JSONResponse(session.ack(None, request_id, duplicate=True).model_dump())
        return problem_response(AlreadyAnswered("another answer was accepted before"))
    if asked is None or asked.id != request_id:
        if request_id not in session.closed:
            session.findings.wrong("what-is-asked", f"answered {request_id}, which is not open")
        return problem_response(UnknownRequest("no such request is open for this seat"))
    try:
        action, left_out = session.game.read(answer)
    except (InvalidAction, IllegalAction) as fault:
        session.findings.wrong("legal", f"{request_id}: {fault.pointer or '/'}: {fault}")
        return _refused(session, fault)
    session.judge_repetition(request_id, answer.action)
    session.judge_thoughts(request_id, left_out)
    session.findings.ok("legal")
    session.findings.ok("answers")
    return await _legal(session, request_id, answer.action, action, left_out)


async def _legal(
    session: Session, request_id: str, sent: Any, action: SeatAction, left_out: Sequence[RefusedThought]
) -> Response:
    """The response to a legal answer, as the situation requires."""
    situation, first = _situation(session), session.step == 0
    session.asked_since = None
    session.pass_expected()
    session.step += 1
    if situation == "refused" and first:
        session.expect("refused")
        seat = session.game.request.seat if session.game.request else 0
        return _refused(session, IllegalAction(seat, REFUSED_ONCE))
    if situation == "text-refused" and first:
        session.expect("text-refused")
        return _refused(session, InvalidAction(TEXT_FAULT, "/text"))
    if situation == "answer-lost" and first:
        session.lose(request_id, sent)
        session.expect("answer-lost")
        session.cut("answer-lost")
        return Response(status_code=500)
    if situation == "rate" and first:
        session.expect("rate")
        session.disconnect("rate", not_before=RETRY_S)
        return problem_response(RateLimited("at most 10 answers a second", float(RETRY_S)))
    if situation in ("too-late", "already-answered"):
        session.closed.add(request_id)
        session.game.play_default()
        session.expect(situation)
        if situation == "too-late":
            return problem_response(TooLate("its deadline has passed"))
        return problem_response(AlreadyAnswered("another answer was accepted before"))
    if situation == "slow":
        await asyncio.sleep(SLOW_S)
    if situation == "thought-refused":
        left_out = (THOUGHT_FAULT,)
    if situation in ("slow", "unknown", "quiet", "thought-refused"):
        session.expect(situation)
    session.remember(request_id, sent, left_out)
    session.game.accept(action)
    session.answered_once = True
    if situation == "ack-lost":
        session.expect("ack-lost")
        session.cut("ack-lost")
    if session.game.over:
        session.pass_expected()
    return JSONResponse(session.ack(None, request_id, duplicate=False).model_dump())


def _refused(session: Session, fault: InvalidAction | IllegalAction) -> Response:
    asked = session.game.request
    if session.refuse():
        if asked is not None:
            session.closed.add(asked.id)
        return problem_response(fault, attempts_left=0, request=None)
    return problem_response(fault, attempts_left=ATTEMPTS - session.refused, request=_shown(session))


def _events(session: Session, request: Request) -> Response:
    after = request.query_params.get("after", "0")
    if not after.isdigit() or (int(after) > session.events_sent and int(after) > len(session.game.items)):
        session.findings.wrong(
            "frames", f"asked for events after={after}, there are {len(session.game.items)}"
        )
        return problem_response(Forbidden("after is beyond the head"))
    follow = request.query_params.get("follow", "") in ("true", "1")

    async def lines() -> AsyncIterator[bytes]:
        seq, last = int(after), time.monotonic()
        while True:
            for item in session.game.items[seq:]:
                yield json.dumps(item, ensure_ascii=False).encode() + b"\n"
                seq += 1
            if not follow or session.game.over:
                if session.game.over:
                    _is_over(session)
                return
            if time.monotonic() - last > 1:
                last = time.monotonic()
                yield b"\n"
            await asyncio.sleep(0.05)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


def _is_over(session: Session) -> None:
    """Notes that the bot has been sent the end of the game."""
    session.expect("runs")
    session.pass_expected()
    if session.due is None:
        session.disconnect("over", stays=True)
        session.forgiving = True
