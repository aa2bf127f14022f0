"""A seat that always answers: asked again, mapped, defaulted and marked, whatever its model does."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agents import conformance
from agents.agent import Setup
from agents.errors import InvalidAgent
from agents.llm.agent import LlmAgent
from agents.llm.options import OURS, STEPS, SeatOptions, mechanism_name, read_options
from agents.llm.session import CallKey, MemorySession
from agents.llm.talk import LONGEST_RAW
from agents.llm.templates import Templates, our_templates
from agents.llm.voices import VOICES
from agents.model.model import Form, Message, ModelUnavailable, Reply
from agents.table import MemoryJournal, play, step
from engine.actions import CastVote, ProposeTeam
from engine.chance import secret
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    ReplyUnusable,
    RoundSummarised,
    SpeechDrafted,
    UtteranceMade,
)
from engine.profile import make_profile
from engine.rules import check, create, pending
from engine.state import State, fold
from engine.terms import Role
from engine.view import observe
from tests.agents.llm.models import (
    Answer,
    FunctionModel,
    WatchedSession,
    digest,
    llm_seats,
    noise,
    played,
    prose,
    unavailable,
)

FIVE = make_profile("interintent", 5)
QUIET = make_profile("official", 5, rules={"discussion": "none", "first_leader": 1})
DEAL = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA)
PRESETS = ["paper", "one_pass", "contemplation", "direct"]


def count(state: State, kind: type) -> int:
    return sum(isinstance(event, kind) for event in state.log)


@pytest.mark.parametrize("mechanism", PRESETS)
@pytest.mark.parametrize("profile", ["interintent", "official"])
@pytest.mark.parametrize("players", range(5, 11))
async def test_valid_and_legal_noise_is_played_without_a_single_default(
    mechanism: str, profile: str, players: int
) -> None:
    state, _ = await played(make_profile(profile, players), 20, noise(), {"mechanism": mechanism})
    assert state.table.over
    assert not count(state, ActionDefaulted)
    assert not count(state, ActionRefused)
    assert not count(state, ReplyUnusable)


@pytest.mark.parametrize("mechanism", PRESETS)
async def test_valid_noise_with_doubles_in_its_lists_is_played_without_a_default(mechanism: str) -> None:
    # uniqueItems is not enforced by servers: doubles are asked again, and merged in the end. A team, where
    # nothing could be merged, is no list.
    state, _ = await played(FIVE, 2, noise(duplicates=True), {"mechanism": mechanism})
    assert state.table.over
    assert bool(count(state, ReplyUnusable)) is (mechanism in ("paper", "one_pass"))
    assert not count(state, ActionDefaulted)


@pytest.mark.parametrize("mechanism", PRESETS)
@pytest.mark.parametrize(("profile", "players"), [("interintent", 5), ("official", 10)])
async def test_a_model_that_only_talks_is_defaulted_everywhere_and_marked(
    mechanism: str, profile: str, players: int
) -> None:
    state, sessions = await played(make_profile(profile, players), 3, prose, {"mechanism": mechanism})
    assert state.table.over
    requests = {one.key.request_id for session in sessions.values() for one in session.sent}
    marked = [event for event in state.log if isinstance(event, ActionDefaulted)]
    assert sorted(event.request_id for event in marked) == sorted(requests)
    assert {event.cause for event in marked} == {"model_error"}
    # Every answer is on record as unusable, three of every question that was put.
    assert count(state, ReplyUnusable) == sum(len(session.sent) for session in sessions.values())
    assert not count(state, IntentionsSelected)
    assert {event.text for event in state.log if isinstance(event, UtteranceMade)} == {""}
    assert all(not event.answers for event in state.log if isinstance(event, RoundSummarised))


@pytest.mark.parametrize("mechanism", PRESETS)
async def test_without_a_model_every_action_is_defaulted_at_once(mechanism: str) -> None:
    state, sessions = await played(FIVE, 3, unavailable, {"mechanism": mechanism})
    assert state.table.over
    assert not count(state, ReplyUnusable)
    requests = {one.key.request_id for session in sessions.values() for one in session.sent}
    assert count(state, ActionDefaulted) == len(requests)
    # Siblings go out together; nothing else is asked twice.
    for session in sessions.values():
        keys = [one.key for one in session.sent]
        assert len(set(keys)) == len(keys)
        assert {key.attempt for key in keys} == {1}


async def first_vote(answer: Answer, options: dict[str, Any] | None = None) -> tuple[Any, WatchedSession]:
    state = fold(create(QUIET, 3, deal=DEAL))
    await step(state, llm_seats(5, FunctionModel(noise()))[0], MemoryJournal())
    session = WatchedSession(FunctionModel(answer))
    request = pending(state)[1]
    action = await LlmAgent(Setup(2, "1", options or {}), session).act(observe(state, request))
    check(state.table, state.hand(2), action)
    return action, session


def in_turn(*answers: object) -> Answer:
    left = list(answers)
    return lambda messages, form: left.pop(0)


GOOD = {"explanation": "It looks safe.", "vote": "agree"}


async def test_an_unusable_answer_is_asked_again_with_what_was_wrong() -> None:
    action, session = await first_vote(
        in_turn("I vote agree!", {"vote": "perhaps", "explanation": "?"}, GOOD)
    )
    unusable = [
        ReplyUnusable(2, "1.1.vote.2", "vote", raw) for raw in ("I vote agree!", session_raw(session, 2))
    ]
    assert action == CastVote(True, (*unusable, ChoiceExplained(2, "vote", "It looks safe.")))  # type: ignore[arg-type]
    assert [one.key.attempt for one in session.sent] == [1, 2, 3]
    last = session.sent[-1].messages
    assert [message.role for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert last[2].content == "I vote agree!"
    assert "What was wrong: The answer must be one JSON object" in last[3].content
    assert 'What was wrong: "vote" must be "agree" or "disagree", got "perhaps".' in last[5].content
    assert last[5].content.splitlines()[-1].startswith("Answer with this JSON: ")


def session_raw(session: WatchedSession, attempt: int) -> str:
    return next(reply.text for key, reply in session.stored.items() if key.attempt == attempt)


async def test_asking_again_is_bounded_by_the_options() -> None:
    for repairs in (0, 1, 4):
        action, session = await first_vote(prose, {"repairs": repairs})
        assert len(session.sent) == repairs + 1
        assert action.thoughts[-1] == ActionDefaulted(2, "1.1.vote.2", "model_error")
        assert action.approve is False


async def test_after_the_last_attempt_a_clear_meaning_is_taken() -> None:
    unclear = {"vote": "I would strongly agree", "explanation": "so"}
    action, session = await first_vote(in_turn(unclear, unclear, unclear))
    assert action.approve is True
    assert [type(note) for note in action.thoughts] == [ReplyUnusable] * 3 + [ChoiceExplained]
    assert len(session.sent) == 3


async def test_a_raw_answer_is_recorded_up_to_a_bound_and_stays_storable() -> None:
    action, _ = await first_vote(in_turn("\ud800\x00" + "x" * 1_000_000, prose([], Form("x", {})), GOOD))
    raw = action.thoughts[0].raw
    assert raw.startswith("\ufffd\ufffdxxx")
    assert raw.endswith("… (1000002 characters)")
    assert len(raw) < LONGEST_RAW + 40
    raw.encode()


async def test_a_huge_answer_does_not_make_a_huge_prompt() -> None:
    _, session = await first_vote(in_turn("x" * 1_000_000, {"vote": "y" * 1_000_000}, GOOD))
    assert len(session.sent[-1].text) < len(session.sent[0].text) + 3 * LONGEST_RAW


async def test_an_illegal_choice_is_asked_again_like_any_other() -> None:
    profile = make_profile("official", 5, rules={"discussion": "none", "first_leader": 1})

    def failing(messages: Sequence[Message], form: Form) -> object:
        if "card" in form.schema["properties"]:
            again = "THAT CANNOT BE USED" in messages[-1].content
            return {"explanation": "so", "card": "success" if again else "failure"}
        if "vote" in form.schema["properties"]:
            return GOOD
        if "team" in form.schema["properties"]:
            return {"explanation": "so", "team": [1, 2]}
        return noise()(messages, form)

    agents, sessions = llm_seats(5, FunctionModel(failing))
    state = fold(create(profile, 3, deal=DEAL))
    for _ in range(3):
        await step(state, agents, MemoryJournal())
    cards = [one for one in sessions[1].sent if one.key.step == "card"]
    assert [one.key.attempt for one in cards] == [1, 2]
    assert "a loyal seat plays success, got fail" in cards[1].messages[-1].content
    assert state.table.quests[0].succeeded
    assert not count(state, ActionDefaulted)


async def test_what_was_thought_before_a_step_failed_is_kept() -> None:
    def forgetful(messages: Sequence[Message], form: Form) -> object:
        return prose(messages, form) if form.name.startswith("refinement") else noise()(messages, form)

    state, _ = await played(FIVE, 3, forgetful)
    assert state.table.over
    assert count(state, BeliefsFormed)
    defaulted = [e for e in state.log if isinstance(e, ActionDefaulted)]
    assert count(state, IntentionsSelected) == 2 * len(defaulted)
    assert {e.stage for e in state.log if isinstance(e, SpeechDrafted)} == {"formulation"}
    assert {e.step for e in state.log if isinstance(e, ReplyUnusable)} == {"refinement"}


async def test_a_seat_about_which_no_answer_was_usable_is_left_out_and_the_turn_goes_on() -> None:
    def half(messages: Sequence[Message], form: Form) -> object:
        about_two = messages[-1].content.endswith("seat 2")
        asked_again = "THAT CANNOT" in messages[-1].content
        return "hm" if form.name == "first_order" and (about_two or asked_again) else noise()(messages, form)

    state, _ = await played(FIVE, 3, half)
    formed = [event for event in state.log if isinstance(event, BeliefsFormed)]
    assert formed
    assert all(belief.about != 2 for event in formed for belief in event.beliefs)
    assert not count(state, ActionDefaulted)


async def test_readings_that_fail_are_not_recorded_and_the_turn_goes_on() -> None:
    def unread(messages: Sequence[Message], form: Form) -> object:
        return "hm" if form.name == "second_order" else noise()(messages, form)

    state, sessions = await played(FIVE, 3, unread)
    assert not count(state, ActionDefaulted)
    assert all(
        message.content != "hm"
        for session in sessions.values()
        for one in session.sent
        if one.key.step == "modification"
        for message in one.messages
    )


async def test_one_unavailable_sibling_ends_the_turn_and_the_others_beliefs_are_kept() -> None:
    def partly(messages: Sequence[Message], form: Form) -> object:
        if messages[-1].content.endswith("This question is about: seat 1"):
            raise ModelUnavailable("the budget is spent", "budget")
        return noise()(messages, form)

    logs = []
    for pace in (0, 7):
        state, _ = await played(
            FIVE, 3, partly, pace=lambda m, p=pace: p if "seat 1" in m[-1].content[-8:] else 3
        )
        logs.append(state.log)
    assert logs[0] == logs[1]
    late = [e for e in state.log if isinstance(e, BeliefsFormed) and e.seat == 5]
    assert [b.about for b in late[0].beliefs] == [2, 3, 4]


async def test_a_refusal_from_outside_is_told_and_answered_anew() -> None:
    state = fold(create(QUIET, 3, deal=DEAL))
    (request,) = pending(state)
    session = WatchedSession(FunctionModel(noise()))
    agent = LlmAgent(Setup(1, "1"), session)
    await agent.act(observe(state, request))
    action = await agent.act(observe(state, request, ("seat 1 may not", "again")))
    assert isinstance(action, ProposeTeam)
    assert [one.key.attempt for one in session.sent] == [1, 7]
    assert "An earlier answer of yours was refused: seat 1 may not." in session.sent[1].question
    assert "An earlier answer of yours was refused: again." in session.sent[1].question


async def test_an_agent_made_anew_asks_no_stored_answer_again() -> None:
    log = create(FIVE, 4)
    agents, sessions = llm_seats(5, FunctionModel(noise()))
    whole = await play(log, agents, MemoryJournal())
    asked = sum(len(session.sent) for session in sessions.values())
    anew = {seat: LlmAgent(Setup(seat, secret(1, seat)), session) for seat, session in sessions.items()}
    again = await play(log, anew, MemoryJournal())
    assert again.log == whole.log
    assert sum(len(session.sent) for session in sessions.values()) == asked


@pytest.mark.timeout(600)
@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.long)])
def test_an_llm_seat_conforms(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The quick tier plays every sixth game of the suite.
    chosen = list(conformance.games())[::every]
    monkeypatch.setattr(conformance, "games", lambda: iter(chosen))
    # The preset with the fewest prompts to build: the other presets play whole games above. What a seat
    # made anew has answered before, its session still knows.
    session = ByQuestion(FunctionModel(noise()))
    conformance.check_agent_kind(lambda setup: LlmAgent(setup, session), options={"mechanism": "one_pass"})


class ByQuestion(MemorySession):
    """One session for many games: an answer is found again by what was asked."""

    def __init__(self, model: FunctionModel) -> None:
        super().__init__(model)
        self.model = model
        self.known: dict[str, Reply] = {}

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        question = digest(messages)
        if question not in self.known:
            self.known[question] = await self.model.complete(
                messages, form, temperature=temperature, max_tokens=max_tokens
            )
        return self.known[question]

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        return self.known.get(digest(messages))


async def test_a_summary_answers_the_fixed_questions_of_its_side() -> None:
    state, _ = await played(FIVE, 3, noise(), deal=DEAL)
    for event in state.log:
        if isinstance(event, RoundSummarised):
            side = ["protect", "merlin"] if event.seat > 3 else ["suspects"]
            questions = [question for question, _ in event.answers]
            first = ["leader", "team", "why_team", "disagreed", "result", "claims"]
            assert questions == [*first, *side, "open", "next"]


async def test_every_card_vote_and_shot_is_explained() -> None:
    state, _ = await played(FIVE, 3, noise())
    explained = {(e.seat, e.about) for e in state.log if isinstance(e, ChoiceExplained)}
    assert {(seat, "vote") for seat in range(1, 6)} <= explained
    assert {about for _, about in explained} >= {"propose_team", "reconsider", "vote", "card"}


def test_the_defaults_are_the_papers() -> None:
    assert read_options({}) == SeatOptions(
        mechanism="paper",
        steps=None,
        selection="catalogue",
        min_intentions=2,
        max_intentions=3,
        menu=None,
        temperature=0.8,
        max_output_tokens=4096,
        repairs=2,
        timing="exact",
        one_option="asked",
        instructions="once",
        prompts=OURS,
        voice="own",
        memory=None,
    )
    options = read_options({})
    assert (options.menu_in(FIVE), options.memory_in(FIVE)) == ("published", "summaries")
    official = make_profile("official", 5)
    assert (options.menu_in(official), options.memory_in(official)) == ("sensible", "speeches")
    assert read_options({"menu": "whole"}).menu == "published"


def test_prompts_of_an_unknown_name_are_refused() -> None:
    with pytest.raises(InvalidAgent, match="no prompts are called 'klingon'; there are second") as refused:
        seat({"prompts": "klingon"})
    assert refused.value.pointer == "/options/prompts"


def test_a_seat_tells_its_prompts_by_name_and_hash_and_all_parameters(tmp_path: Path) -> None:
    told = seat({"memory": "speeches"}).described(FIVE)
    assert set(told) == {*(field.name for field in fields(SeatOptions)), "prompts_hash"}
    assert (told["prompts"], told["prompts_hash"]) == (OURS, our_templates().digest)
    assert (told["mechanism"], told["steps"]) == ("paper", list(STEPS))
    assert (told["menu"], told["memory"], told["temperature"]) == ("published", "speeches", 0.8)
    json.dumps(told)
    # One other word is another version.
    (tmp_path / "vote.jinja").write_text("Aye or nay?", "utf-8")
    assert Templates(tmp_path).digest != our_templates().digest == Templates().digest


async def test_a_voice_is_drawn_from_the_seed_and_told_in_the_system_message() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"mechanism": "direct", "voice": "seeded"})
    told = {
        number: re.findall("^your voice: (.*)$", session.sent[0].messages[0].content, re.M)
        for number, session in sessions.items()
    }
    assert all(len(one) == 1 and one[0] in VOICES for one in told.values())
    assert len({one[0] for one in told.values()}) > 1
    _, again = await played(FIVE, 3, noise(), {"mechanism": "direct", "voice": "seeded"})
    assert all(again[number].sent[0].text == sessions[number].sent[0].text for number in told)
    _, silent = await played(FIVE, 3, noise(), {"mechanism": "direct"})
    assert "your voice" not in silent[1].sent[0].text


def seat(options: dict[str, Any]) -> LlmAgent:
    return LlmAgent(Setup(1, "1", options), MemorySession(FunctionModel(noise())))


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (["think"], "no step is called 'think'"),
        (["selection", "first_order", "formulation"], "in the order first_order, selection"),
        (["formulation", "formulation"], "once each"),
        (["first_order", "selection"], "no step of the list speaks"),
        (["selection", "refinement"], "no step of the list speaks"),
        (["formulation", "modification", "refinement"], "intentions that nobody selected"),
        (["formulation", "second_order"], "nothing follows from second_order"),
        (["selection", "formulation", "modification"], "nothing follows from modification"),
        ("formulation", "a list of steps"),
    ],
)
def test_a_list_of_steps_that_makes_no_sense_is_refused_in_words(steps: object, why: str) -> None:
    with pytest.raises(InvalidAgent, match=why) as refused:
        read_options({"steps": steps})
    assert refused.value.pointer == "/options/steps"


def test_steps_and_another_mechanism_exclude_each_other() -> None:
    with pytest.raises(InvalidAgent, match="one_pass has its own steps"):
        read_options({"mechanism": "one_pass", "steps": ["formulation"]})
    assert read_options({"mechanism": "paper", "steps": ["formulation"]}).name == "formulation"


def test_results_are_kept_apart_by_what_was_played() -> None:
    assert mechanism_name({"agent": "llm"}) == "paper"
    assert mechanism_name({"mechanism": "compact"}) == mechanism_name({"mechanism": "one_pass"}) == "one_pass"
    assert mechanism_name({"options": {"mechanism": "direct"}}) == "direct"
    assert mechanism_name({"options": {"steps": ["selection", "formulation"]}}) == "selection+formulation"
    assert mechanism_name({"options": {"steps": list(STEPS)}}) == "paper"


def test_one_pass_settles_a_single_option_unless_it_is_told_to_ask() -> None:
    assert read_options({"mechanism": "one_pass"}).one_option == "settled"
    assert read_options({"mechanism": "one_pass", "one_option": "asked"}).one_option == "asked"
    assert read_options({"one_option": "settled"}).one_option == "settled"


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"mechanism": "magic"}, "/options/mechanism"),
        ({"selection": 1}, "/options/selection"),
        ({"menu": None}, "/options/menu"),
        ({"timing": "soon"}, "/options/timing"),
        ({"one_option": True}, "/options/one_option"),
        ({"instructions": "twice"}, "/options/instructions"),
        ({"min_intentions": 0}, "/options/min_intentions"),
        ({"min_intentions": 4}, "/options/min_intentions"),
        ({"max_intentions": True}, "/options/max_intentions"),
        ({"temperature": "hot"}, "/options/temperature"),
        ({"temperature": float("nan")}, "/options/temperature"),
        ({"temperature": 2.1}, "/options/temperature"),
        ({"max_output_tokens": 0}, "/options/max_output_tokens"),
        ({"repairs": 99}, "/options/repairs"),
        ({"tempreature": 1}, "/options"),
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_stand(
    options: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidAgent) as refusal:
        LlmAgent(Setup(1, "1", options), MemorySession(FunctionModel(noise())))
    assert refusal.value.pointer == pointer


async def test_a_seat_that_is_cancelled_leaves_no_question_behind() -> None:
    before = asyncio.all_tasks()
    agents, _ = llm_seats(5, FunctionModel(noise(), lambda _: 10_000))
    game = asyncio.create_task(play(create(FIVE, 3), agents, MemoryJournal()))
    await asyncio.sleep(0.01)
    game.cancel()
    with pytest.raises(asyncio.CancelledError):
        await game
    assert asyncio.all_tasks() == before
