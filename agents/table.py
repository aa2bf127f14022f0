"""Play: ask who is open, decide, append, fold, until nobody is asked."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agents.agent import Agent, Journal
from engine.actions import ACTION_OF, Action, SeatAction
from engine.errors import IllegalAction
from engine.events import ActionDefaulted, ActionRefused, Event, Note
from engine.rules import Answers, Request, check, decide, default, pending
from engine.state import State, apply, fold
from engine.terms import Seat
from engine.view import observe

__all__ = ["ATTEMPTS", "MemoryJournal", "play", "step"]

ATTEMPTS: Final = 3
"""Answers a seat may give to one request before the default is played for it."""

_ACTIONS: Final = frozenset(ACTION_OF.values())


class MemoryJournal:
    """Keeps nothing: the state holds the log already. For games that live in one process."""

    async def append(self, events: Sequence[Event]) -> None:
        return None


async def play(log: Iterable[Event], agents: Mapping[Seat, Agent], journal: Journal) -> State:
    """Plays a game on from ``log`` to its end and returns its state.

    All that are asked at once answer at once; the order in which they do never shows in the log.
    Whatever ``journal.append`` raises ends the play with nothing half done.
    """
    state = fold(log)
    while pending(state):
        await step(state, agents, journal)
    return state


async def step(
    state: State, agents: Mapping[Seat, Agent], journal: Journal, *, alone: bool = False
) -> tuple[Event, ...]:
    """One step: every open request answered, one append. Returns what was appended; empty at the end.

    ``alone``: only the first open request, in seat order, is answered; the log comes out the same.
    """
    requests = pending(state)[:1] if alone else pending(state)
    if not requests:
        return ()
    answers = await _ask_all(state, requests, agents)
    try:
        events = decide(state, answers)
    except IllegalAction:
        events = decide(state, await _ask_again(state, requests, answers, agents))
    await journal.append(events)
    apply(state, events)
    return events


async def _ask_all(state: State, requests: Sequence[Request], agents: Mapping[Seat, Agent]) -> Answers:
    answers: list[tuple[Seat, Action]] = []
    waiting: list[tuple[int, Awaitable[SeatAction]]] = []
    for request in requests:
        answer = agents[request.seat].act(observe(state, request))
        # Most agents answer at once: a task for each would cost more than the rules do.
        if type(answer) in _ACTIONS:
            answers.append((request.seat, answer))  # type: ignore[arg-type]
        else:
            waiting.append((len(answers), answer))  # type: ignore[arg-type]
            answers.append((request.seat, _UNANSWERED))
    if len(waiting) == 1:
        place, answer = waiting[0]
        answers[place] = (requests[place].seat, _action(await answer))
    elif waiting:
        async with asyncio.TaskGroup() as group:
            tasks = [(place, group.create_task(_awaited(answer))) for place, answer in waiting]
        # In seat order, not in order of arrival: the log must not depend on who answered first.
        for place, task in tasks:
            answers[place] = (requests[place].seat, task.result())
    return answers


_UNANSWERED: Final = default  # never decided on: every waiting place is filled before


async def _awaited(answer: Awaitable[SeatAction]) -> SeatAction:
    return _action(await answer)


def _action(answer: object) -> SeatAction:
    if type(answer) not in _ACTIONS:
        raise TypeError(f"an agent answers with an action, got {type(answer).__name__}")
    return answer  # type: ignore[return-value]


async def _ask_again(
    state: State, requests: Sequence[Request], answers: Answers, agents: Mapping[Seat, Agent]
) -> Answers:
    """The same answers, with every illegal one asked for anew and in the end replaced by the default."""
    settled = []
    for request, (seat, action) in zip(requests, answers, strict=True):
        settled.append((seat, await _until_legal(state, request, action, agents[seat])))  # type: ignore[arg-type]
    return settled


async def _until_legal(state: State, request: Request, action: SeatAction, agent: Agent) -> SeatAction:
    hand = state.hand(request.seat)
    notes: list[Note] = []
    refusals: tuple[str, ...] = ()
    while True:
        try:
            check(state.table, hand, action)
        except IllegalAction as refusal:
            refusals = (*refusals, str(refusal))
            notes.append(ActionRefused(request.seat, request.id, str(refusal)))
        else:
            return replace(action, thoughts=(*notes, *action.thoughts))
        if len(refusals) == ATTEMPTS:
            break
        answer = agent.act(observe(state, request, refusals))
        action = _action(answer if type(answer) in _ACTIONS else await answer)  # type: ignore[misc]
    notes.append(ActionDefaulted(request.seat, request.id, "attempts"))
    return replace(default(state.table, request), thoughts=(*_kept(state, request, action), *notes))


def _kept(state: State, request: Request, refused: SeatAction) -> tuple[Note, ...]:
    """The refused answer's thoughts, where nothing is wrong with them."""
    kept = replace(default(state.table, request), thoughts=refused.thoughts)
    try:
        check(state.table, state.hand(request.seat), kept)
    except IllegalAction:
        return ()
    return refused.thoughts
