"""Plays a game to its end: asks every seat with an open request, decides, appends and applies."""

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
"""The number of quests a side has won when the next one may end the game."""

ATTEMPTS: Final = 3
"""The number of answers a seat may give to one request before the default is played."""

_ACTIONS: Final = frozenset(ACTION_OF.values())


class MemoryJournal:
    """A journal for games in one process. It stores nothing, since the state has the log."""

    async def append(self, events: Sequence[Event]) -> None:
        return None


async def play(log: Iterable[Event], agents: Mapping[Seat, Agent], journal: Journal) -> State:
    """Plays a game from the end of ``log`` to the end of the game and returns its state.

    Seats that are asked together answer concurrently; the log does not depend on their order. An exception of
    ``journal.append`` or of an agent ends the play, and nothing of that step is applied.
    """
    state = fold(log)
    # We use hasattr, since an isinstance check against a protocol takes as long as a step of the rules.
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
    """Shows the table to every attentive agent whose seat will certainly speak soon, before it is asked."""
    for speech in _coming(state.table):
        if speech.seat in attentive:
            attentive[speech.seat].notice(observe(state, speech))


def _coming(table: Table) -> Iterator[Request]:
    """The remaining speeches of this attempt. During its quest or summary, the opening speech of the next
    attempt, if there certainly is one.
    """
    discussion = table.profile.discussion
    opening = table.phase is Phase.PROPOSE and discussion == "after_proposal"
    if opening or table.phase is Phase.DISCUSS:
        # A leader that opens with a proposal is already being asked for it, so its turn is left out.
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
    """Whether a quest is being played and the game continues after it with either result."""
    shot = table.profile.assassination == "after_any_quest"
    return table.phase is Phase.QUEST and max(table.succeeded, table.failed) < _ONE_SHORT and not shot


async def step(
    state: State, agents: Mapping[Seat, Agent], journal: Journal, *, alone: bool = False
) -> tuple[Event, ...]:
    """Plays one step: gets an answer to every open request and appends once. Returns the new events; none
    when the game is over.

    ``alone``: only the first open request, in seat order, is answered; the log is the same.
    """
    requests = pending(state)[:1] if alone else pending(state)
    if not requests:
        return ()
    # Does the same as ``observe``, with one call fewer per answer.
    public, table, hands = state.public, state.table, state.hands
    answered = [
        (request.seat, agents[request.seat].act(Observation(request, public, table, hands[request.seat - 1])))
        for request in requests
    ]
    # Most agents answer directly: a task for each would cost more than the rules.
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
    """The answers in seat order, so that the log does not depend on which agent answered first."""
    if len(answers) == 1:
        ((seat, answer),) = answers
        return [(seat, await settled(answer))]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [(seat, group.create_task(settled(answer))) for seat, answer in answers]
    except ExceptionGroup as faults:
        # The same exception as if only this agent had been asked.
        raise faults.exceptions[0] from None
    return [(seat, task.result()) for seat, task in tasks]


async def settled(answer: SeatAction | Awaitable[SeatAction]) -> SeatAction:
    """The action of an agent, awaited if necessary. Raises TypeError for anything else."""
    action = await answer if isinstance(answer, Awaitable) else answer
    if type(action) not in _ACTIONS:
        raise TypeError(f"an agent answers with an action, got {type(action).__name__}")
    return action


async def _ask_again(
    state: State, requests: Sequence[Request], answers: Answers, agents: Mapping[Seat, Agent]
) -> Answers:
    """The same answers, except that the seat of an illegal one is asked again, and in the end gets the
    default.
    """
    return [
        (seat, await _until_legal(state, request, action, agents[seat]))  # type: ignore[arg-type]
        for request, (seat, action) in zip(requests, answers, strict=True)
    ]


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
    """The thoughts of the refused answer, if they are legal."""
    kept = replace(default(state.table, request), thoughts=refused.thoughts)
    try:
        check(state.table, state.hand(request.seat), kept)
    except IllegalAction:
        return ()
    return refused.thoughts
