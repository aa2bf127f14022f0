"""Plays a game: ask every seat with an open request, decide, append, fold, until nobody is asked."""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from agents.agent import Agent, Attentive, Journal
from engine.actions import ACTION_OF, SeatAction
from engine.errors import IllegalAction
from engine.events import ActionDefaulted, ActionRefused, Event, Note
from engine.rules import Answers, Request, check, decide, default, pending
from engine.state import State, Table, apply, fold
from engine.terms import Kind, Phase, Seat
from engine.view import Observation, observe

__all__ = ["ATTEMPTS", "MemoryJournal", "play", "settled", "step"]

_ONE_SHORT: Final = 2
"""Quests a side has won when the next may end the game."""

ATTEMPTS: Final = 3
"""Answers a seat may give to one request before the default is played for it."""

_ACTIONS: Final = frozenset(ACTION_OF.values())


class MemoryJournal:
    """Keeps nothing: the state holds the log already. For games that live in one process."""

    async def append(self, events: Sequence[Event]) -> None:
        return None


async def play(log: Iterable[Event], agents: Mapping[Seat, Agent], journal: Journal) -> State:
    """Plays a game on from ``log`` to its end and returns its state.

    Seats that are asked together answer concurrently; the log never shows in which order.
    Whatever ``journal.append`` raises ends the play with nothing half done.
    """
    state = fold(log)
    # hasattr, since an isinstance check against a protocol takes as long as a step of the rules.
    attentive = {seat: cast(Attentive, agent) for seat, agent in agents.items() if hasattr(agent, "notice")}
    try:
        while True:
            if attentive:
                _notify(state, attentive)
            if not await step(state, agents, journal):
                break
    finally:
        for agent in attentive.values():
            agent.leave()
    return state


def _notify(state: State, attentive: Mapping[Seat, Attentive]) -> None:
    """Shows the table to every attentive agent whose seat is certain to speak next, before it is asked."""
    for speech in _coming(state.table):
        if speech.seat in attentive:
            attentive[speech.seat].notice(observe(state, speech))


def _coming(table: Table) -> Iterator[Request]:
    """The speeches that are still to come in this attempt; while it is voted on, played for or summed up, the
    one that opens the next, if there surely is one.
    """
    discussion = table.profile.discussion
    opening = table.phase is Phase.PROPOSE and discussion == "after_proposal"
    if opening or table.phase is Phase.DISCUSS:
        # Who opens with a team is asked for it at once.
        for turn in range(max(table.turn, opening), table.players):
            seat = (table.leader - 1 + turn) % table.players + 1
            yield Request(seat, Kind.SPEAK, table.round, table.attempt, None)
    elif discussion != "none" and (_goes_on(table) or table.phase is Phase.SUMMARY):
        ends = table.phase is Phase.QUEST or len(table.quests) == table.round
        round_, attempt = (table.round + 1, 1) if ends else (table.round, table.attempt + 1)
        if discussion == "after_proposal":
            size = table.profile.team_sizes[round_ - 1]
            yield Request(table.next_leader(), Kind.PROPOSE_TEAM, round_, attempt, size)
        else:
            yield Request(table.next_leader(), Kind.SPEAK, round_, attempt, None)


def _goes_on(table: Table) -> bool:
    """Whether a quest is played for, and the game goes on after it whatever comes of it."""
    shot = table.profile.assassination == "after_any_quest"
    return table.phase is Phase.QUEST and max(table.succeeded, table.failed) < _ONE_SHORT and not shot


async def step(
    state: State, agents: Mapping[Seat, Agent], journal: Journal, *, alone: bool = False
) -> tuple[Event, ...]:
    """One step: every open request answered, one append. Returns what was appended; empty at the end.

    ``alone``: only the first open request, in seat order, is answered; the log comes out the same.
    """
    requests = pending(state)[:1] if alone else pending(state)
    if not requests:
        return ()
    # The same as ``observe``, with one call less for every answer.
    public, table, hands = state.public, state.table, state.hands
    answered = [
        (request.seat, agents[request.seat].act(Observation(request, public, table, hands[request.seat - 1])))
        for request in requests
    ]
    # Most agents answer at once: a task for each would cost more than the rules do.
    for _, answer in answered:
        if type(answer) not in _ACTIONS:
            answers = await _all_of(answered)
            break
    else:
        answers = answered  # type: ignore[assignment]
    try:
        events = decide(state, answers)
    except IllegalAction:
        events = decide(state, await _ask_again(state, requests, answers, agents))
    await journal.append(events)
    apply(state, events)
    return events


async def _all_of(answers: Sequence[tuple[Seat, SeatAction | Awaitable[SeatAction]]]) -> Answers:
    """The answers in their order, which is that of the seats: the log must not depend on who answered
    first.
    """
    if len(answers) == 1:
        ((seat, answer),) = answers
        return [(seat, await settled(answer))]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [(seat, group.create_task(settled(answer))) for seat, answer in answers]
    except ExceptionGroup as faults:
        # The same exception as if the agent had been asked alone.
        raise faults.exceptions[0] from None
    return [(seat, task.result()) for seat, task in tasks]


async def settled(answer: SeatAction | Awaitable[SeatAction]) -> SeatAction:
    """The action that an agent gave, awaited where need be. Raises TypeError for anything else."""
    return _action(await answer if isinstance(answer, Awaitable) else answer)


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
        action = await settled(agent.act(observe(state, request, refusals)))
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
