"""Two questions in one answer: what is asked, what is remembered, and what is asked again."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.llm.session import CallKey
from agents.model.model import Form, Message, Reply
from agents.table import MemoryJournal, play, step
from engine.chance import secret
from engine.events import ActionDefaulted, ReplyUnusable, RoundSummarised, UtteranceMade, VoteCast
from engine.profile import Profile, make_profile
from engine.rules import create, decide, pending
from engine.state import State, apply, fold
from engine.terms import Kind, Seat
from engine.view import observe
from tests.agents.llm.models import FunctionModel, WatchedSession, llm_seats, noise, played, prose

FIVE = make_profile("interintent", 5)
COMPACT = {"mechanism": "one_pass"}
NO_TALK = make_profile("official", 5, rules={"discussion": "none"})
TALK_FIRST = make_profile("official", 5)
SUMMED_UP = make_profile("official", 5, rules={"summaries": True})


def steps(sessions: dict[Seat, WatchedSession], kind: str) -> set[str]:
    return {
        one.key.step
        for session in sessions.values()
        for one in session.sent
        if f".{kind}." in one.key.request_id
    }


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Sequence[Message], Form], object]:
    """Noise whose joined answers have another second part."""

    def answer(messages: Sequence[Message], form: Form) -> object:
        values = noise()(messages, form)
        assert isinstance(values, dict)
        return {**values, "then": change(values["then"])} if "then" in values else values

    return answer


async def test_the_leaders_vote_is_in_the_answer_of_its_reconsideration() -> None:
    state, sessions = await played(FIVE, 3, noise(), COMPACT)
    assert steps(sessions, "reconsider") == {"reconsideration+vote"}
    checked = 0
    for tally in state.table.tallies:
        where = f"{tally.round}.{tally.attempt}"
        asked = [one.key.request_id for one in sessions[tally.leader].sent]
        assert f"{where}.vote.{tally.leader}" not in asked
        stored = sessions[tally.leader].stored
        (both,) = (key for key in stored if key.request_id == f"{where}.reconsider.{tally.leader}")
        said = stored[both].value
        assert isinstance(said, dict)
        assert tally.votes[tally.leader - 1] is (said["then"]["vote"] == "agree")
        checked += 1
    assert checked


async def test_the_next_leaders_opening_turn_is_in_the_answer_of_its_summary() -> None:
    state, sessions = await played(FIVE, 3, noise(), COMPACT)
    openings = [tally for tally in state.table.tallies if (tally.round, tally.attempt) != (1, 1)]
    assert any(tally.attempt == 2 for tally in openings), "after a rejection as well"
    for tally in openings:
        request = f"{tally.round}.{tally.attempt}.propose_team.{tally.leader}"
        assert request not in {one.key.request_id for one in sessions[tally.leader].sent}
    assert steps(sessions, "summarise") == {"summary", "summary+one_pass"}


@pytest.mark.parametrize(
    ("profile", "kinds"),
    [
        (NO_TALK, {"propose_team": {"proposal+vote"}}),
        (TALK_FIRST, {"propose_team": {"proposal+vote"}, "speak": {"one_pass"}}),
        (SUMMED_UP, {"propose_team": {"proposal+vote"}, "summarise": {"summary", "summary+one_pass"}}),
        (
            make_profile("official", 5, rules={"reconsideration": True}),
            {"propose_team": {"proposal"}, "reconsider": {"reconsideration+vote"}},
        ),
    ],
    ids=["no talk", "talk first", "summaries", "reconsideration"],
)
async def test_questions_are_joined_where_nothing_is_said_between_them(
    profile: Profile, kinds: dict[str, set[str]]
) -> None:
    state, sessions = await played(profile, 3, noise(), COMPACT)
    assert {kind: steps(sessions, kind) for kind in kinds} == kinds
    assert not [event for event in state.log if isinstance(event, ActionDefaulted | ReplyUnusable)]


async def test_a_team_that_goes_without_a_vote_is_not_voted_on_in_its_proposal() -> None:
    profile = make_profile("official", 5, rules={"on_max_rejections": "forced_team", "max_rejections": 1})
    _, sessions = await played(profile, 3, noise(), COMPACT)
    assert steps(sessions, "propose_team") == {"proposal"}


@pytest.mark.parametrize("mechanism", ["paper", "contemplation", "direct"])
async def test_the_other_presets_join_nothing(mechanism: str) -> None:
    _, sessions = await played(FIVE, 3, noise(), {"mechanism": mechanism})
    assert not [one.key.step for session in sessions.values() for one in session.sent if "+" in one.key.step]


async def test_an_answer_that_could_be_cut_off_is_not_joined() -> None:
    _, sessions = await played(FIVE, 3, noise(), {**COMPACT, "max_output_tokens": 3000})
    assert steps(sessions, "summarise") == {"summary"}
    assert steps(sessions, "reconsider") == {"reconsideration+vote"}


async def test_a_seat_made_anew_for_every_request_asks_nothing_twice() -> None:
    log = create(FIVE, 3)
    agents, sessions = llm_seats(5, FunctionModel(noise()), COMPACT)
    whole = await play(log, agents, MemoryJournal())
    state = fold(log)
    _, others = llm_seats(5, FunctionModel(noise()), COMPACT)
    while pending(state):
        anew = {
            seat: LlmAgent(Setup(seat, secret(1, seat), COMPACT), session) for seat, session in others.items()
        }
        await step(state, anew, MemoryJournal(), alone=True)
    assert state.log == whole.log
    for seat, session in sessions.items():
        assert {one.key: one.text for one in session.sent} == {one.key: one.text for one in others[seat].sent}
        assert len({one.key for one in others[seat].sent}) == len(others[seat].sent)


@pytest.mark.parametrize("second", [None, "agree", {}, {"vote": "perhaps", "explanation": "", "draft": 1}])
async def test_a_second_part_that_cannot_be_used_is_asked_for_by_itself(second: object) -> None:
    state, sessions = await played(FIVE, 3, changed(lambda _: second), COMPACT)
    assert not [event for event in state.log if isinstance(event, ActionDefaulted)]
    unusable = [event for event in state.log if isinstance(event, ReplyUnusable)]
    assert {event.step for event in unusable} == {"reconsideration+vote", "summary+one_pass"}
    asked = {one.key.request_id for session in sessions.values() for one in session.sent}
    # What was wrong is recorded for the request that it was to answer, which was asked then.
    assert {event.request_id for event in unusable} <= asked
    assert {event.request_id.split(".")[2] for event in unusable} == {"vote", "propose_team"}


async def test_an_illegal_second_part_is_asked_for_by_itself() -> None:
    def own_role(then: dict[str, Any]) -> dict[str, Any]:
        return {**then, "final": {**then["final"], "team": "1 1 1"}} if "final" in then else then

    state, _ = await played(FIVE, 3, changed(own_role), COMPACT)
    unusable = [event for event in state.log if isinstance(event, ReplyUnusable)]
    assert {event.step for event in unusable} == {"summary+one_pass"}
    assert not [event for event in state.log if isinstance(event, ActionDefaulted)]


async def test_a_first_part_that_cannot_be_used_leaves_the_second_to_be_asked() -> None:
    def answer(messages: Sequence[Message], form: Form) -> object:
        return prose(messages, form) if form.name.startswith("reconsideration") else noise()(messages, form)

    state, sessions = await played(FIVE, 3, answer, COMPACT)
    for tally in state.table.tallies:
        request = f"{tally.round}.{tally.attempt}.vote.{tally.leader}"
        assert request in {one.key.request_id for one in sessions[tally.leader].sent}
    defaulted = [event for event in state.log if isinstance(event, ActionDefaulted)]
    assert {event.request_id.split(".")[2] for event in defaulted} == {"reconsider"}


async def up_to(kind: Kind, agents: dict[Seat, LlmAgent]) -> State:
    state = fold(create(FIVE, 3))
    while pending(state)[0].kind is not kind:
        await step(state, agents, MemoryJournal())
    return state


async def test_where_somebody_else_has_acted_for_the_seat_it_is_asked() -> None:
    agents, sessions = llm_seats(5, FunctionModel(noise()), COMPACT)
    state = await up_to(Kind.RECONSIDER, agents)
    (request,) = pending(state)
    leader = request.seat
    action = await agents[leader].act(observe(state, request))
    # Its answer is stored; in the log stands another speech.
    apply(state, decide(state, [(leader, type(action)(action.team, "I was not asked."))]))  # type: ignore[attr-defined, call-arg]
    await agents[leader].act(observe(state, pending(state)[leader - 1]))
    assert [one.key.step for one in sessions[leader].sent][-2:] == ["reconsideration+vote", "vote"]


async def test_a_desk_that_has_forgotten_the_answer_is_asked_for_the_second_part_alone() -> None:
    agents, sessions = llm_seats(5, FunctionModel(noise()), COMPACT)
    state = await up_to(Kind.VOTE, agents)
    leader = state.table.leader
    sessions[leader].stored.clear()
    await agents[leader].act(observe(state, pending(state)[leader - 1]))
    assert [one.key.step for one in sessions[leader].sent][-2:] == ["reconsideration+vote", "vote"]


async def test_a_refused_second_part_is_asked_for() -> None:
    agents, sessions = llm_seats(5, FunctionModel(noise()), COMPACT)
    state = await up_to(Kind.VOTE, agents)
    leader = state.table.leader
    await agents[leader].act(observe(state, pending(state)[leader - 1], ("no",)))
    assert sessions[leader].sent[-1].key.step == "vote"


async def test_the_records_of_a_joined_turn_are_those_of_a_turn() -> None:
    apart, _ = await played(FIVE, 3, noise(), {**COMPACT, "max_output_tokens": 3000})
    joined, _ = await played(FIVE, 3, noise(), COMPACT)

    def kinds(state: State) -> list[type]:
        """Up to the second round's discussion: further on the answers differ."""
        spoken = [(i, e) for i, e in enumerate(state.log) if isinstance(e, UtteranceMade)]
        end = next(i for i, e in spoken if (e.round, e.attempt) > (1, 1))
        start = max(i for i, e in enumerate(state.log[:end]) if isinstance(e, RoundSummarised))
        return [type(event) for event in state.log[start : end + 1]]

    assert kinds(apart) == kinds(joined)
    assert any(isinstance(event, VoteCast) for event in joined.log)


class Lingering(WatchedSession):
    """Notes who let time pass."""

    lingered: list[Seat]

    async def linger(self, seat: Seat) -> None:
        self.lingered.append(seat)


async def test_who_is_not_asked_for_its_card_lets_time_pass_before_it_plays() -> None:
    session = Lingering(FunctionModel(noise()))
    session.lingered = []
    agents = {seat: LlmAgent(Setup(seat, secret(1, seat), COMPACT), session) for seat in range(1, 6)}
    state = await up_to(Kind.CARD, agents)
    requests = pending(state)
    loyal = [one.seat for one in requests if state.hand(one.seat).side == "loyal"]
    await step(state, agents, MemoryJournal())
    assert session.lingered == loyal
    assert {key.request_id for key in session.stored if ".card." in key.request_id} == {
        one.id for one in requests if one.seat not in loyal
    }


async def test_recalling_never_asks() -> None:
    session = WatchedSession(FunctionModel(noise()))
    key = CallKey("1.1.vote.1", "vote", "", 1)
    assert session.recall(key, [Message("user", "?")], temperature=0.8, max_tokens=50) is None
    assert not session.sent
    answered: Reply = await session.ask(
        key, [Message("user", "?")], Form("vote", {"enum": ["agree"]}), temperature=0.8, max_tokens=50
    )
    assert session.recall(key, [Message("user", "?")], temperature=0.8, max_tokens=50) is answered
