"""How a game is driven: who is asked, what is recorded, and what happens after a fault."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from agents.agent import Agent, Setup
from agents.scripted.agent import RandomAgent, ScriptedAgent
from agents.table import ATTEMPTS, MemoryJournal, play, step
from engine.actions import CastVote, PlayCard, ProposeTeam, SeatAction
from engine.chance import secret, unit
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    ChoiceExplained,
    Event,
    TeamProposed,
    UtteranceMade,
    VoteCast,
)
from engine.profile import make_profile
from engine.rules import create
from engine.state import fold
from engine.terms import Kind, Seat
from engine.view import Observation

OFFICIAL = make_profile("official", 5, rules={"first_leader": 1, "discussion": "none"})
INTERINTENT = make_profile("interintent", 5)


def randoms(players: int = 5) -> dict[Seat, Agent]:
    return {seat: RandomAgent(Setup(seat, secret(1, seat))) for seat in range(1, players + 1)}


def scripteds() -> dict[Seat, Agent]:
    return {seat: ScriptedAgent(Setup(seat, secret(1, seat))) for seat in range(1, 6)}


class Answers:
    """Gives what a function makes of the observation, and counts."""

    def __init__(self, choose: Callable[[Observation], SeatAction]) -> None:
        self.choose = choose
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def act(self, observation: Observation) -> SeatAction:
        self.asked.append((observation.request.id, observation.refusals))
        return self.choose(observation)


class Slow:
    """The same agent, awaited, and slower or faster from request to request."""

    def __init__(self, agent: RandomAgent | ScriptedAgent, pace: Callable[[str], int]) -> None:
        self.agent = agent
        self.pace = pace

    async def act(self, observation: Observation) -> SeatAction:
        for _ in range(self.pace(observation.request.id)):
            await asyncio.sleep(0)
        return self.agent.act(observation)


class Broken:
    """A journal whose store is gone after so many appends."""

    def __init__(self, appends: int) -> None:
        self.left = appends
        self.stored: list[Event] = []

    async def append(self, events: Sequence[Event]) -> None:
        if not self.left:
            raise OSError("the store is gone")
        self.left -= 1
        self.stored += events


async def test_a_game_is_played_to_its_end_and_then_nobody_is_asked() -> None:
    agents = randoms()
    state = await play(create(OFFICIAL, 1), agents, MemoryJournal())
    assert state.table.over
    assert await step(state, agents, MemoryJournal()) == ()


async def test_the_journal_holds_what_the_state_holds() -> None:
    journal = Broken(appends=10_000)
    log = create(INTERINTENT, 2)
    state = await play(log, scripteds(), journal)
    assert [*log, *journal.stored] == state.log


async def test_an_illegal_answer_is_asked_for_again_and_recorded() -> None:
    teams = [(1,), (1, 9), (2, 1)]
    leader = Answers(lambda observation: ProposeTeam(teams[len(observation.refusals)]))
    agents = {**randoms(), 1: leader}
    state = fold(create(OFFICIAL, 1))
    events = await step(state, agents, MemoryJournal())
    assert events == (
        ActionRefused(1, "1.1.propose_team.1", "round 1 takes 2 seats, got [1]"),
        ActionRefused(1, "1.1.propose_team.1", "seats are 1 to 5, got 9"),
        TeamProposed(1, (1, 2)),
    )
    assert [len(refusals) for _, refusals in leader.asked] == [0, 1, 2]
    assert leader.asked[-1][1] == ("round 1 takes 2 seats, got [1]", "seats are 1 to 5, got 9")


async def test_after_the_last_attempt_the_default_is_played_and_recorded() -> None:
    stubborn = Answers(lambda _: ProposeTeam((1, 1)))
    state = fold(create(OFFICIAL, 1))
    events = await step(state, {**randoms(), 1: stubborn}, MemoryJournal())
    assert len(stubborn.asked) == ATTEMPTS
    assert [type(event) for event in events] == [ActionRefused] * ATTEMPTS + [ActionDefaulted, TeamProposed]
    assert events[-2] == ActionDefaulted(1, "1.1.propose_team.1", "attempts")
    assert events[-1] == TeamProposed(1, (1, 2))  # the leader and the seats that follow


async def test_a_default_keeps_thoughts_that_are_in_order_and_no_others() -> None:
    mine = ChoiceExplained(1, Kind.PROPOSE_TEAM, "two of me are better than one")
    events = await step(
        fold(create(OFFICIAL, 1)),
        {**randoms(), 1: Answers(lambda _: ProposeTeam((1, 1), "", (mine,)))},
        MemoryJournal(),
    )
    assert mine in events
    theirs = ChoiceExplained(2, Kind.PROPOSE_TEAM, "not my thought")
    events = await step(
        fold(create(OFFICIAL, 1)),
        {**randoms(), 1: Answers(lambda _: ProposeTeam((1, 1), "", (theirs,)))},
        MemoryJournal(),
    )
    assert theirs not in events


async def test_one_illegal_answer_of_many_does_not_ask_the_others_again() -> None:
    state = fold(create(OFFICIAL, 1))
    agents: dict[Seat, Agent] = randoms()
    await step(state, agents, MemoryJournal())
    voters = {seat: Answers(lambda _: CastVote(True)) for seat in range(1, 6)}
    voters[3].choose = lambda observation: CastVote(True) if observation.refusals else PlayCard(True)
    events = await step(state, voters, MemoryJournal())
    assert [len(voters[seat].asked) for seat in range(1, 6)] == [1, 1, 2, 1, 1]
    votes = [event for event in events if isinstance(event, VoteCast)]
    assert [vote.seat for vote in votes] == [1, 2, 3, 4, 5]
    refused = [event for event in events if isinstance(event, ActionRefused)]
    assert [event.seat for event in refused] == [3]
    assert events.index(refused[0]) == events.index(votes[2]) - 1


@pytest.mark.parametrize(
    "pace",
    [
        lambda _: 0,
        lambda id_: 10 - int(id_[-1]),  # the last seat first
        lambda id_: int(unit("pace", id_) * 8),
    ],
)
@pytest.mark.parametrize("kind", [RandomAgent, ScriptedAgent])
async def test_the_order_of_arrival_never_shows_in_the_log(
    kind: type[RandomAgent] | type[ScriptedAgent], pace: Callable[[str], int]
) -> None:
    def seats() -> dict[Seat, RandomAgent | ScriptedAgent]:
        return {seat: kind(Setup(seat, secret(1, seat))) for seat in range(1, 6)}

    log = create(INTERINTENT, 4)
    at_once = await play(log, seats(), MemoryJournal())
    awaited = await play(log, {seat: Slow(agent, pace) for seat, agent in seats().items()}, MemoryJournal())
    mixed: Mapping[Seat, Agent] = {
        seat: Slow(agent, pace) if seat % 2 else agent for seat, agent in seats().items()
    }
    assert awaited.log == at_once.log
    assert (await play(log, mixed, MemoryJournal())).log == at_once.log


@pytest.mark.parametrize("appends", [0, 1, 7, 20])
async def test_a_journal_that_fails_leaves_the_state_as_it_was(appends: int) -> None:
    journal = Broken(appends)
    log = create(INTERINTENT, 3)
    state = fold(log)
    agents = scripteds()
    for _ in range(appends):
        await step(state, agents, journal)
    with pytest.raises(OSError, match="the store is gone"):
        await step(state, agents, journal)
    assert state == fold([*log, *journal.stored])


async def test_a_game_can_go_on_after_its_journal_failed() -> None:
    log = create(INTERINTENT, 3)
    undisturbed = await play(log, scripteds(), MemoryJournal())
    journal = Broken(appends=9)
    agents = scripteds()
    with pytest.raises(OSError, match="gone"):
        await play(log, agents, journal)
    assert (await play([*log, *journal.stored], agents, MemoryJournal())).log == undisturbed.log
    assert (await play([*log, *journal.stored], scripteds(), MemoryJournal())).log == undisturbed.log


async def test_an_agent_that_returns_no_action_raises_a_type_error() -> None:
    async def late() -> object:
        return "approve"

    class Talks:
        def act(self, observation: Observation) -> Awaitable[SeatAction]:
            return late()  # type: ignore[return-value]

    with pytest.raises(TypeError, match="an agent answers with an action, got str"):
        await step(fold(create(OFFICIAL, 1)), {**randoms(), 1: Talks()}, MemoryJournal())


async def test_a_fault_of_one_agent_among_many_reaches_the_caller_as_it_is() -> None:
    class Faulty:
        async def act(self, observation: Observation) -> SeatAction:
            await asyncio.sleep(0)
            raise ConnectionError("nobody there")

    state = fold(create(OFFICIAL, 1))
    await step(state, randoms(), MemoryJournal())
    before = fold(state.log)
    with pytest.raises(ConnectionError, match="nobody there"):
        await step(
            state,
            {**randoms(), 2: Faulty(), 4: Slow(RandomAgent(Setup(4, "s")), lambda _: 3)},
            MemoryJournal(),
        )
    assert state == before


async def test_the_thoughts_of_a_turn_stand_before_its_utterance() -> None:
    state = await play(create(INTERINTENT, 5), scripteds(), MemoryJournal())
    for place, event in enumerate(state.log):
        if isinstance(event, UtteranceMade) and event.phase == "discuss":
            before = state.log[place - 1]
            assert getattr(before, "seat", getattr(before, "leader", None)) == event.seat


@pytest.mark.parametrize("kind", [RandomAgent, ScriptedAgent])
async def test_asking_one_seat_at_a_time_comes_to_the_same_log(
    kind: type[RandomAgent] | type[ScriptedAgent],
) -> None:
    def seats() -> dict[Seat, Agent]:
        return {seat: kind(Setup(seat, secret(1, seat))) for seat in range(1, 6)}

    log = create(INTERINTENT, 6)
    whole = await play(log, seats(), MemoryJournal())
    state = fold(log)
    agents = seats()
    while await step(state, agents, MemoryJournal(), alone=True):
        pass
    assert state.log == whole.log
