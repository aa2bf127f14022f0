"""The six steps: who is asked what, in how many calls, how deep, and what is recorded."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest

from agents.agent import Setup
from agents.llm.options import PRESETS
from agents.llm.replies import whole
from agents.llm.talk import NOTES, UNUSABLE
from agents.model.model import Form, Message, ModelUnavailable
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play, step
from engine.chance import secret
from engine.events import (
    ActionDefaulted,
    BeliefsFormed,
    CardPlayed,
    Event,
    IntentionsSelected,
    ProposalOpened,
    ReplyUnusable,
    SelectionPrepared,
    SpeechDrafted,
)
from engine.intentions import BY_ID, IMPACTFUL_RELEASE
from engine.profile import make_profile
from engine.rules import create
from engine.state import fold
from engine.terms import Role, Seat
from tests.agents.llm.minds import Puppet
from tests.agents.llm.models import Answer, FunctionModel, Waves, digest, filled, llm_seats, noise, played
from tests.agents.llm.turns import ORDER, check_steps, check_turns
from tests.tiers import few_quickly

FIVE = make_profile("interintent", 5)
ABLATIONS = (
    ["formulation"],
    ["selection", "formulation"],
    ["first_order", "formulation"],
    ["first_order", "selection", "formulation"],
    ["first_order", "formulation", "second_order", "refinement"],
    ["selection", "formulation", "modification", "refinement"],
    ["first_order", "selection", "formulation", "second_order", "refinement"],
)
DEAL = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA)


@pytest.mark.parametrize("mechanism", ["paper", "one_pass", "two_pass"])
@pytest.mark.parametrize(("profile", "players"), [("interintent", 5), ("official", 5), ("interintent", 8)])
async def test_a_model_that_thinks_like_the_scripted_seat_leaves_the_scripted_log(
    mechanism: str, profile: str, players: int
) -> None:
    log = create(make_profile(profile, players), 5)
    scripted = {seat: ScriptedAgent(Setup(seat, secret(1, seat))) for seat in range(1, players + 1)}
    # The scripted seat quotes speeches of earlier rounds, too.
    options = {"mechanism": mechanism, "one_option": "asked", "memory": "speeches", "menu": "published"}
    puppets = {seat: Puppet(seat, options) for seat in range(1, players + 1)}
    assert (await play(log, puppets, MemoryJournal())).log == (await play(log, scripted, MemoryJournal())).log


async def test_the_first_speaker_of_a_game_starts_at_selection() -> None:
    _, sessions = await played(FIVE, 3, noise())
    steps = [one.key.step for one in sessions[1].sent if one.key.request_id == "1.1.propose_team.1"]
    assert steps == ["selection", "formulation", "second_order", "modification", "refinement"]


async def test_in_the_first_discussion_only_seats_that_spoke_are_analysed() -> None:
    _, sessions = await played(FIVE, 3, noise())
    for seat in range(2, 6):
        about = [
            one.key.about
            for one in sessions[seat].sent
            if one.key.step == "first_order" and one.key.request_id == f"1.1.speak.{seat}"
        ]
        assert about == [f"seat {other}" for other in range(1, seat)]


async def test_later_every_other_seat_is_analysed_in_a_question_of_its_own() -> None:
    _, sessions = await played(FIVE, 3, noise())
    about = [
        one.key.about
        for one in sessions[4].sent
        if one.key.step == "first_order" and one.key.request_id == "2.1.speak.4"
    ]
    assert about == ["seat 1", "seat 2", "seat 3", "seat 5"]


async def test_siblings_never_see_each_others_answers() -> None:
    _, sessions = await played(FIVE, 3, noise())
    siblings = [
        one
        for one in sessions[4].sent
        if one.key.step == "first_order"
        and one.key.request_id == "2.1.speak.4"
        # The others have not spoken yet in this round: about them it is asked without snippets.
        and one.key.about in ("seat 2", "seat 3")
    ]
    # The same bytes up to the last lines, which name the seat in question and what it may be.
    assert len({one.text.rpartition("The seat to think about now: ")[0] for one in siblings}) == 1
    assert [one.text.rpartition("\n")[2] for one in siblings] == [
        f"This question is about: seat {seat}" for seat in (2, 3)
    ]


async def test_merlin_is_not_asked_for_roles_and_others_are() -> None:
    _, sessions = await played(FIVE, 3, noise(), deal=DEAL)
    for seat, role in enumerate(DEAL, 1):
        forms = [one.form.schema for one in sessions[seat].sent if one.key.step == "first_order"]
        assert all(("role" in form["properties"]) == (role is not Role.MERLIN) for form in forms)


async def test_role_options_leave_out_the_own_role_unless_the_deal_holds_another() -> None:
    deal = (*DEAL, Role.SERVANT)
    _, sessions = await played(make_profile("interintent", 6), 3, noise(), deal=deal)

    def options(seat: Seat) -> list[str]:
        sent = next(
            one
            for one in sessions[seat].sent
            if one.key.step == "first_order" and one.key.request_id.startswith("2")
        )
        return list(sent.form.schema["properties"]["role"]["enum"])

    assert options(3) == ["merlin", "percival", "servant", "assassin", "morgana"]


async def test_role_options_are_those_that_fit_what_the_seat_was_shown() -> None:
    _, sessions = await played(FIVE, 3, noise(), deal=DEAL)

    def options(seat: Seat) -> dict[str, list[str]]:
        return {
            one.key.about: list(one.form.schema["properties"]["role"]["enum"])
            for one in sessions[seat].sent
            if one.key.step == "first_order" and one.key.request_id.startswith("2")
        }

    either, neither = ["merlin", "morgana"], ["servant", "assassin"]
    assert options(2) == {"seat 1": either, "seat 3": neither, "seat 4": neither, "seat 5": either}
    loyal = ["merlin", "percival", "servant"]
    # The assassin is not asked whether its partner may be Merlin.
    assert options(4) == {"seat 1": loyal, "seat 2": loyal, "seat 3": loyal, "seat 5": ["morgana"]}


async def test_a_turn_in_one_answer_asks_of_each_seat_what_fits_what_was_shown() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"mechanism": "one_pass"}, deal=DEAL)
    asked = next(one for one in sessions[4].sent if one.key.request_id == "2.1.speak.4")
    beliefs = whole(asked.form.schema)["properties"]["beliefs"]["properties"]
    roles = {seat: belief["properties"]["role"]["enum"] for seat, belief in beliefs.items()}
    loyal = ["merlin", "percival", "servant"]
    assert roles == {"seat_1": loyal, "seat_2": loyal, "seat_3": loyal, "seat_5": ["morgana"]}
    assert "seats 1 2 3: merlin, percival, servant; seat 5: morgana." in asked.question


async def test_intention_options_are_the_lists_of_every_role_the_other_may_be() -> None:
    _, sessions = await played(FIVE, 3, noise(), deal=DEAL)
    evil = {Role.ASSASSIN, Role.MORGANA}
    for about, others in (("seat 4", evil), ("seat 2", set(DEAL) - evil - {Role.MERLIN})):
        sent = next(
            one for one in sessions[1].sent if one.key.step == "first_order" and one.key.about == about
        )
        options = set(sent.form.schema["properties"]["intentions"]["items"]["enum"])
        assert options == {id_ for id_, one in BY_ID.items() if one.roles & others}


@pytest.mark.parametrize("mechanism", list(ORDER))
@pytest.mark.parametrize(
    ("profile", "players"), [("interintent", 5), ("interintent", 10), ("official", 6), ("official", 9)]
)
async def test_every_turn_leaves_its_records_in_order(mechanism: str, profile: str, players: int) -> None:
    state, _ = await played(make_profile(profile, players), 7, noise(mechanism), {"mechanism": mechanism})
    check_turns(state.log, mechanism, profile)
    assert not any(isinstance(event, ActionDefaulted) for event in state.log)


async def test_beliefs_are_in_the_order_of_the_seats_and_complete() -> None:
    state, _ = await played(FIVE, 3, noise())
    formed = [event for event in state.log if isinstance(event, BeliefsFormed)]
    assert formed
    for event in formed[4:]:
        assert [b.about for b in event.beliefs] == [seat for seat in range(1, 6) if seat != event.seat]


@pytest.mark.parametrize("mechanism", ["paper", "one_pass"])
async def test_changed_says_whether_the_final_selection_differs(mechanism: str) -> None:
    state, _ = await played(FIVE, 3, noise(), {"mechanism": mechanism})
    chosen = [event for event in state.log if isinstance(event, IntentionsSelected)]
    for first, final in zip(chosen[::2], chosen[1::2], strict=True):
        assert (first.stage, final.stage, first.changed) == ("first", "final", False)
        differs = {one.id for one in first.intentions} != {one.id for one in final.intentions}
        assert final.changed is differs


def agreeing(messages: Sequence[Message], form: object) -> object:
    """Noise that approves every team and fails none: rounds of one attempt, as many as there can be."""
    schema = form.schema  # type: ignore[attr-defined]
    values = filled(schema, schema, Random(digest(messages)), False)
    for part in (values, values.get("then", {})):
        part |= {name: word for name, word in (("vote", "agree"), ("card", "success")) if name in part}
    return values


async def rounds_of(
    mechanism: str, failed: Sequence[int] = (), **options: object
) -> tuple[Waves, dict[str, int]]:
    """The waves of a game of five in which loyal wins after the given quests failed, and calls by round."""
    waves = Waves(agreeing if not failed else losing(failed))
    agents, sessions = llm_seats(5, waves, {"mechanism": mechanism, **options})
    state = await play(create(FIVE, 3, deal=DEAL if failed else None), agents, MemoryJournal())
    rounds = 3 + len(failed)
    assert [quest.succeeded for quest in state.table.quests] == [r + 1 not in failed for r in range(rounds)]
    calls: dict[str, int] = {}
    for session in sessions.values():
        for one in session.sent:
            number = one.key.request_id.partition(".")[0]
            calls[number] = calls.get(number, 0) + 1
    return waves, calls


def losing(failed: Sequence[int]) -> Callable[[Sequence[Message], object], object]:
    """``agreeing``, with a fail card on these quests: an evil seat, the fourth, is on every team."""

    def answer(messages: Sequence[Message], form: object) -> object:
        values = agreeing(messages, form)
        properties = form.schema["properties"]  # type: ignore[attr-defined]
        if "enum" in properties.get("team", {}):
            values["team"] = next(team for team in properties["team"]["enum"] if "4" in team)  # type: ignore[index]
        question = messages[-1].content
        if "card" in properties and "failure" in properties["card"]["enum"]:
            lost = any(f"=== QUESTION {number}.1.card." in question for number in failed)
            values["card"] = "failure" if lost else "success"  # type: ignore[index]
        return values

    return answer


async def test_a_paper_turn_is_six_calls_deep() -> None:
    # A round: 5 turns of 6, reconsideration, vote, cards, summaries. The very first turn has no
    # first-order step; the last round has no summaries but the assassination: 33 + 34 + 34.
    waves, calls = await rounds_of("paper")
    assert waves.waves == 33 + 34 + 34
    # 5 turns of 4 + 5 questions, 1 reconsideration, 5 votes, 2 or 3 cards, 5 summaries. In round 1 seat n
    # is asked about n - 1 others: 10 questions less. In round 3 no summaries, one shot.
    assert calls == {"1": 35 + 1 + 5 + 2 + 5, "2": 45 + 1 + 5 + 3 + 5, "3": 45 + 1 + 5 + 2 + 1}


@pytest.mark.parametrize(
    ("failed", "deep"),
    [
        # A round: five turns of four calls, reconsideration, vote, cards, summaries; the very first turn has
        # a selection besides, the last round no summaries but the assassination.
        ((), 3 * 24 + 1),
        ((2,), 4 * 24 + 1),
        # After a quest that might have ended the game its opener is asked about the others one call later.
        ((3,), 4 * 24 + 2),
        ((1, 2), 5 * 24 + 3),
    ],
)
async def test_an_eager_turn_is_four_calls_deep(failed: tuple[int, ...], deep: int) -> None:
    waves, calls = await rounds_of("paper", failed, timing="eager")
    assert waves.waves == deep
    exact, asked = await rounds_of("paper", failed)
    assert exact.waves == (3 + len(failed)) * 34 - 1
    # Nothing is asked in vain.
    assert calls == asked


async def test_an_eager_draft_has_what_the_selection_had_not_heard() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"timing": "eager"})
    turns = 0
    for seat, session in sessions.items():
        sent = {one.key.step: one for one in session.sent if one.key.request_id == f"2.1.speak.{seat}"}
        if not sent:
            continue  # it opens
        before = (seat - 2) % 5 + 1
        selected = sent["selection"].messages[-1].content
        assert f"seat {before} says" not in selected.rpartition("round 2 attempt 1")[2]
        assert f'you believed {{"seat": {before},' not in selected.partition(NOTES)[2]
        drafted = sent["formulation"].messages[-1].content
        (told,) = re.findall(r"^=== THE RECORD GOES ON ===\n((?:.*\n)*?)=== END OF RECORD ===\n\n", drafted)
        lines = told.splitlines()
        assert lines[-1].startswith(f"seat {before} says ")
        # The first to respond hears of the team with the opener's speech.
        assert len(lines) == (2 if f"round 2 attempt 1: seat {before} leads" in selected else 1)
        assert (
            sent["second_order"].messages[-1].content.startswith(f'{NOTES}\nyou believed {{"seat": {before},')
        )
        turns += 1
    assert turns == 4


async def test_an_eager_opener_selects_before_it_has_summed_up_and_drafts_with_all() -> None:
    turns = 0
    for seed in (3, 4):
        state, sessions = await played(FIVE, seed, noise(), {"timing": "eager"}, deal=DEAL)
        for opened in (event for event in state.log if isinstance(event, ProposalOpened)):
            if (opened.round, opened.attempt) == (1, 1):
                continue
            request = f"{opened.round}.{opened.attempt}.propose_team.{opened.leader}"
            sent = [one for one in sessions[opened.leader].sent if one.key.request_id == request]
            (selection,) = (one.messages[-1].content for one in sent if one.key.step == "selection")
            (draft,) = (one.messages[-1].content for one in sent if one.key.step == "formulation")
            heard = selection.partition("\n=== END OF RECORD ===")[0].rpartition("\n")[2]
            assert heard.startswith(("quest ", "votes: "))
            goes_on = draft.splitlines()
            assert goes_on[0] == "=== THE RECORD GOES ON ==="
            assert goes_on[1].startswith("you summed up ")
            assert goes_on[2] == f"round {opened.round} attempt {opened.attempt}: seat {opened.leader} leads"
            assert goes_on[3] == "=== END OF RECORD ==="
            # Only those of the last quest, whose questions hold its result, come with the draft.
            team = re.findall(r"^quest \d: team ([\d ]+);", heard)
            late = set(map(int, team[0].split())) - {opened.leader} if team else set()
            believed = {
                name: set(
                    map(int, re.findall(r'^you believed {"seat": (\d)', text.partition(NOTES)[2], re.M))
                )
                for name, text in (("selection", selection), ("draft", draft))
            }
            assert believed["draft"] == late
            assert believed["selection"] == set(range(1, 6)) - late - {opened.leader}
            turns += 1
    assert turns > 3


async def test_the_log_says_what_an_eager_selection_had_not_heard() -> None:
    state, _ = await played(FIVE, 3, noise(), {"timing": "eager"})
    told: dict[str, list[str]] = {}
    for before, event in pairwise(state.log):
        if isinstance(event, IntentionsSelected) and event.stage == "first":
            opens = event.seat == fold(state.log[: state.log.index(event)]).table.leader
            kind = before.without if isinstance(before, SelectionPrepared) else "nothing"
            told.setdefault("opens" if opens else "responds", []).append(kind)
    assert set(told["responds"]) == {"speech"}
    assert told["opens"][0] == "nothing"
    assert set(told["opens"][1:]) == {"summary"}
    exact, _ = await played(FIVE, 3, noise())
    assert not any(isinstance(event, SelectionPrepared) for event in exact.log)


async def test_a_compact_turn_is_one_call() -> None:
    # A round: 5 turns, reconsideration with the leader's vote, 4 votes, cards of evil seats, 5 summaries;
    # the opening turns of rounds 2 and 3 are in the summaries before them.
    waves, calls = await rounds_of("one_pass", one_option="asked")
    assert waves.waves == 9 + 8 + 8
    assert calls == {"1": 5 + 1 + 4 + 2 + 5, "2": 4 + 1 + 4 + 3 + 5, "3": 4 + 1 + 4 + 2 + 1}


async def test_a_compact_seat_plays_its_only_card_without_a_call() -> None:
    state, sessions = await played(FIVE, 3, agreeing, {"mechanism": "one_pass"}, deal=DEAL)
    cards = [event for event in state.log if isinstance(event, CardPlayed)]
    asked = {
        one.key.request_id for session in sessions.values() for one in session.sent if one.key.step == "card"
    }
    evil = [event for event in cards if DEAL[event.seat - 1] in (Role.ASSASSIN, Role.MORGANA)]
    assert len(asked) == len(evil) < len(cards)
    assert all(event.success for event in cards if event not in evil)


@pytest.mark.parametrize("mechanism", ["contemplation", "direct"])
async def test_the_presets_without_intentions_name_none(mechanism: str) -> None:
    state, sessions = await played(FIVE, 3, noise(), {"mechanism": mechanism})
    assert not any(isinstance(event, IntentionsSelected | BeliefsFormed) for event in state.log)
    for session in sessions.values():
        assert not any("intention" in one.text.casefold() for one in session.sent)


@pytest.mark.parametrize("timing", ["exact", "eager"])
async def test_the_order_of_completion_never_changes_the_log(timing: str) -> None:
    logs = []
    for run in range(4):
        rng = Random(run)
        state, _ = await played(
            FIVE, 9, noise(), {"timing": timing}, pace=lambda _, rng=rng: rng.randint(0, 30)
        )
        logs.append(state.log)
    assert all(log == logs[0] for log in logs)


async def test_the_impactful_menu_offers_impactful_intentions_where_there_are_enough() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"menu": "impactful"})
    whole = 0
    for session in sessions.values():
        for one in session.sent:
            if one.key.step == "selection":
                menu = one.form.schema["properties"]["intentions"]["items"]["properties"]["intention"]["enum"]
                assert set(menu) <= IMPACTFUL_RELEASE or len(set(menu) & IMPACTFUL_RELEASE) < 2
                whole += not set(menu) <= IMPACTFUL_RELEASE
    assert whole < 3


@pytest.mark.parametrize(("profile", "sensible"), [("interintent", False), ("official", True)])
async def test_a_loyal_opener_need_not_contradict_itself_outside_the_papers_profile(
    profile: str, sensible: bool
) -> None:
    asked = 0
    for options in ({}, {"menu": "sensible"}, {"menu": "published"}):
        _, sessions = await played(make_profile(profile), 3, noise(), options)
        for session in sessions.values():
            for one in session.sent:
                if one.key.step != "selection" or "; you lead." not in one.question:
                    continue
                schema = one.form.schema["properties"]["intentions"]["items"]["properties"]
                menu = set(schema["intention"]["enum"])
                expected = options["menu"] == "sensible" if options else sensible
                assert ("convince_leader" not in menu) is ("defend_self" in menu) is expected
                asked += 1
    assert asked > 5


@pytest.mark.parametrize("timing", ["exact", "eager"])
@pytest.mark.parametrize(("menu", "about_team"), [("sensible", False), ("published", True)])
async def test_who_speaks_before_a_team_is_proposed_is_offered_nothing_about_that_team(
    timing: str, menu: str, about_team: bool
) -> None:
    _, sessions = await played(make_profile("official"), 3, noise(), {"menu": menu, "timing": timing})
    offered = [
        set(one.form.schema["properties"]["intentions"]["items"]["properties"]["intention"]["enum"])
        for session in sessions.values()
        for one in session.sent
        if one.key.step in ("selection", "modification") and "; you lead." not in one.text
    ]
    assert offered
    for menu_ in offered:
        assert ("support_proposal" in menu_) is ("counter_evil_on_team" in menu_) is about_team
        assert "convince_leader" in menu_


@pytest.mark.parametrize("timing", ["exact", "eager"])
@pytest.mark.parametrize("steps", ABLATIONS, ids="+".join)
async def test_a_turn_takes_the_steps_of_its_list_and_no_others(steps: list[str], timing: str) -> None:
    state, sessions = await played(FIVE, 3, noise(), {"steps": steps, "timing": timing})
    asked = {
        one.key.step
        for session in sessions.values()
        for one in session.sent
        if one.key.request_id.split(".")[2] in ("speak", "propose_team")
    }
    assert asked == set(steps)
    records = {
        "first_order": "beliefs",
        "selection": "first",
        "second_order": "readings",
        "modification": "final",
    }
    check_steps(state.log, [records.get(name, name) for name in steps])
    assert not any(isinstance(event, ActionDefaulted) for event in state.log)
    texts = [one.text for session in sessions.values() for one in session.sent]
    assert any("THE INTENTIONS" in text for text in texts) is bool({"first_order", "selection"} & set(steps))


async def test_an_eager_turn_of_any_steps_leaves_the_log_of_a_seat_made_anew() -> None:
    for steps in ABLATIONS:
        options = {"steps": steps, "timing": "eager"}
        log = create(FIVE, 3)
        agents, _ = llm_seats(5, FunctionModel(noise(), lambda m: Random(digest(m)).randint(0, 5)), options)
        whole = await play(log, agents, MemoryJournal())
        anew, _ = llm_seats(5, FunctionModel(noise()), options)
        state = fold(log)
        while await step(state, anew, MemoryJournal()):
            pass
        assert state.log == whole.log, steps


async def test_a_list_with_a_name_is_that_preset() -> None:
    for name, steps in PRESETS.items():
        by_name, by_list = {"mechanism": name}, {"steps": list(steps)}
        logs = [(await played(FIVE, 3, noise(), options))[0].log for options in (by_name, by_list)]
        assert logs[0] == logs[1], name


async def test_a_second_pass_sees_the_first() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"mechanism": "two_pass"})
    turns = 0
    for session in sessions.values():
        for before, one in pairwise(session.sent):
            if one.key.step == "second_pass":
                assert before.key.step == "first_pass"
                assert one.messages[: len(before.messages)] == before.messages
                assert one.messages[len(before.messages)].role == "assistant"
                assert '"draft": ' in one.messages[len(before.messages)].content
                turns += 1
    assert turns > 10


async def test_a_seat_that_is_told_the_earlier_name_plays_one_pass_under_that_name() -> None:
    _, by_new = await played(FIVE, 3, noise(), {"mechanism": "one_pass"})
    _, by_old = await played(FIVE, 3, noise(), {"mechanism": "compact"})
    # Its stored answers are found under the name that they were stored by.
    keys = [
        {key.step for session in sessions.values() for key in session.stored} for sessions in (by_new, by_old)
    ]
    assert {"one_pass", "summary+one_pass"} <= keys[0]
    assert {"compact", "summary+compact"} <= keys[1]
    assert not any("one_pass" in name for name in keys[1])
    assert by_old[1].sent[0].messages[0] == by_new[1].sent[0].messages[0]


async def test_the_limits_of_the_selection_are_those_of_the_options() -> None:
    state, _ = await played(FIVE, 3, noise(), {"min_intentions": 1, "max_intentions": 1})
    chosen = [event for event in state.log if isinstance(event, IntentionsSelected)]
    assert {len(event.intentions) for event in chosen} == {1}


async def test_generated_intentions_are_mapped_where_clear_and_else_kept_in_the_thinking() -> None:
    words = {
        "a": "Question the leader why he selected a particular player for the team",
        "b": "Sow a little doubt among those who have been silent since the very first quest",
    }

    def generating(messages: Sequence[Message], form: object) -> object:
        values = agreeing(messages, form)
        if "categories" in form.schema["properties"]:  # type: ignore[attr-defined]
            values["intentions"] = [  # type: ignore[index]
                {"category": "interrogation", "intention": text, "reason": "It helps."}
                for text in words.values()
            ]
        return values

    state, _ = await played(FIVE, 3, generating, {"selection": "generated"})
    chosen = [event for event in state.log if isinstance(event, IntentionsSelected)]
    assert {choice.id for event in chosen for choice in event.intentions} == {"question_leader_pick"}
    drafts = [event for event in state.log if isinstance(event, SpeechDrafted)]
    assert all(words["b"] in event.think for event in drafts)
    assert not any(isinstance(event, ActionDefaulted) for event in state.log)


# --- eager ------------------------------------------------------------------------------------------------


async def test_an_eager_question_holds_the_record_through_the_last_thing_its_seat_did() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"timing": "eager"})
    ends: Counter[str] = Counter()
    for session in sessions.values():
        for one in session.sent:
            if one.key.step == "first_order":
                last = one.text.split("\n=== END OF RECORD ===")[0].rpartition("\n")[2]
                number = one.key.about.removeprefix("seat ")
                if ".speak." in one.key.request_id:
                    # Who speaks later in this attempt has not spoken in it: the record ends at its opening.
                    assert last.startswith((f"seat {number} says ", "round "))
                else:
                    # An opener has heard the quest where the other seat was on it, else the vote.
                    on_quest = last.startswith("quest ") and number in last.partition(";")[0].split()
                    assert last.startswith("votes: ") or on_quest
                ends[last.split()[0]] += 1
    assert all(ends[word] > 3 for word in ("seat", "round", "quest", "votes:")), ends


async def test_eager_questions_go_out_while_others_speak() -> None:
    waves = Waves(agreeing)
    agents, sessions = llm_seats(5, waves, {"timing": "eager"})
    order: list[tuple[str, str, str]] = []
    for session in sessions.values():
        session.sent = order_keeper(order)  # type: ignore[assignment]
    await play(create(FIVE, 3), agents, MemoryJournal())
    # Seat 1 speaks last in round 2, seat 5 before it: about seat 2, its opener, seat 1 is asked first.
    assert order.index(("2.1.speak.1", "first_order", "seat 2")) < order.index(
        ("2.1.speak.5", "refinement", "")
    )


def order_keeper(order: list[tuple[str, str, str]]) -> list[object]:
    class Keeper(list):  # type: ignore[type-arg]
        def append(self, one):  # type: ignore[no-untyped-def]
            order.append((one.key.request_id, one.key.step, one.key.about))
            super().append(one)

    return Keeper()


async def test_an_eager_seat_made_anew_for_every_request_asks_the_same() -> None:
    log = create(FIVE, 3)
    well = noise()

    def stumbling(messages: Sequence[Message], form: object) -> object:
        return "Well." if Random(digest(messages, 1)).random() < 0.2 else well(messages, form)

    agents, sessions = llm_seats(5, Waves(stumbling), {"timing": "eager"})
    whole = await play(log, agents, MemoryJournal())
    # What could not be used is recorded alike, too, in steps that were begun before the turn and after.
    unusable = {event.step for event in whole.log if isinstance(event, ReplyUnusable)}
    assert unusable >= {
        "first_order",
        "selection",
        "formulation",
        "second_order",
        "modification",
        "refinement",
    }
    anew, others = llm_seats(5, Waves(stumbling), {"timing": "eager"})
    state = fold(log)
    while await step(state, anew, MemoryJournal()):
        pass  # nobody is told between the steps: every question waits for its turn
    assert state.log == whole.log
    for seat, session in sessions.items():
        asked = {one.key: one.text for one in session.sent}
        assert asked == {one.key: one.text for one in others[seat].sent}
        assert len(asked) == len(session.sent)


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": "paper"},
        {"mechanism": "paper", "timing": "eager"},
        {"mechanism": "paper", "timing": "eager", "selection": "generated"},
        {"mechanism": "one_pass"},
        {"mechanism": "two_pass"},
        {"steps": ["first_order", "selection", "formulation"], "timing": "eager"},
        {"mechanism": "contemplation"},
        {"mechanism": "direct"},
    ],
)
@pytest.mark.parametrize("seed", few_quickly([1, 2], 1))
async def test_a_model_that_stumbles_gives_one_log_whatever_its_pace_and_whoever_remembers(
    options: dict[str, str], seed: int
) -> None:
    well = noise(seed)

    def stumbling(messages: Sequence[Message], form: object) -> object:
        return "Well." if Random(digest(messages, seed)).random() < 0.25 else well(messages, form)

    log = create(FIVE, seed)
    logs = []
    for pace in (0, 7):
        model = FunctionModel(stumbling, lambda m, pace=pace: Random(digest(m, pace)).randint(0, pace))
        agents, _ = llm_seats(5, model, options)
        logs.append((await play(log, agents, MemoryJournal())).log)
    anew, _ = llm_seats(5, FunctionModel(stumbling), options)
    state = fold(log)
    while await step(state, anew, MemoryJournal()):
        pass
    assert logs[0] == logs[1] == state.log
    assert any(isinstance(event, ReplyUnusable) for event in state.log)


async def test_a_game_that_is_broken_off_leaves_no_eager_question_behind() -> None:
    before = asyncio.all_tasks()
    agents, _ = llm_seats(5, FunctionModel(noise(), lambda _: 3), {"timing": "eager"})

    class Full(Exception):
        pass

    class Journal(MemoryJournal):
        appends = 0

        async def append(self, events: Sequence[Event]) -> None:
            self.appends += 1
            if self.appends == 4:
                raise Full

    with pytest.raises(Full):
        await play(create(FIVE, 3), agents, Journal())
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "step_", ["first_order", "selection", "formulation", "second_order", "modification", "refinement"]
)
@pytest.mark.parametrize("kind", ["prose", "prose at first", "unavailable"])
async def test_what_fails_before_or_beside_an_eager_turn_fails_alike_whenever_it_is_asked(
    step_: str, kind: str
) -> None:
    def failing(messages: Sequence[Message], form: object) -> object:
        question = messages[-1].content
        # Seat 3 alone, and of its first-order questions the one about who speaks before it.
        about = step_ != "first_order" or question.endswith("seat 2")
        if f".3 {step_} ===" in "".join(one.content for one in messages) and about:
            headers = re.findall(
                r"^=== QUESTION \S+ (\S+) ===$", "\n".join(m.content for m in messages), re.M
            )
            if headers[-1] == step_:
                if kind == "unavailable":
                    raise ModelUnavailable("nobody is there", "timeout")
                if kind == "prose" or not question.startswith(UNUSABLE):
                    return "Let me think about that first."
        return agreeing(messages, form)

    log = create(FIVE, 3)
    logs = []
    for pace in (0, 7):
        model = FunctionModel(failing, lambda m, pace=pace: Random(digest(m, pace)).randint(0, pace))
        agents, _ = llm_seats(5, model, {"timing": "eager"})
        logs.append((await play(log, agents, MemoryJournal())).log)
    anew, _ = llm_seats(5, FunctionModel(failing), {"timing": "eager"})
    state = fold(log)
    while await step(state, anew, MemoryJournal()):
        pass
    assert logs[0] == logs[1] == state.log
    defaulted = [event for event in state.log if isinstance(event, ActionDefaulted)]
    # Beliefs and readings may be missing; a model that is not there, a selection or a speech may not.
    needed = step_ not in ("first_order", "second_order")
    assert bool(defaulted) is (kind == "unavailable" or (kind == "prose" and needed))
    assert {event.seat for event in defaulted} <= {3}
    told = {(event.seat, event.step) for event in state.log if isinstance(event, ReplyUnusable)}
    assert told == (set() if kind == "unavailable" else {(3, step_)})


def reasoning(changes: bool, own_words: bool = False) -> Answer:
    """Chatter that gives a reason for each choice, and another one for what stands in the end."""

    def answer(messages: Sequence[Message], form: Form) -> object:
        values = noise()(messages, form)
        assert isinstance(values, dict)
        turn = values.get("then", values)
        for part in (values, turn, turn.get("first_selection", {}), turn.get("final_selection", {})):
            if "intentions" not in part or "confidence" in part:
                continue
            chosen = part["intentions"]
            if own_words:
                for i, one in enumerate(chosen):
                    one["intention"] = f"tell a story nobody can place, number {i}"
            if "why" in part and not changes and part is turn.get("final_selection"):
                part["intentions"] = chosen = [dict(one) for one in turn["first_selection"]["intentions"]]
            for one in chosen:
                one["reason"] = "of this one"
            if "why" in part:
                part["why"] = "of all that stand"
            if "situation" in part:
                part["situation"] = "the aim of all"
        return values

    return answer


@pytest.mark.parametrize("changes", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": "paper"},
        {"mechanism": "paper", "timing": "eager"},
        {"mechanism": "one_pass"},
        {"mechanism": "one_pass", "instructions": "each"},
    ],
)
async def test_the_reason_of_the_final_selection_is_recorded_whole_and_apart(
    options: dict[str, str], changes: bool
) -> None:
    state, _ = await played(FIVE, 3, reasoning(changes), options)
    stages: dict[str, list[IntentionsSelected]] = {"first": [], "final": []}
    for event in state.log:
        if isinstance(event, IntentionsSelected):
            stages[event.stage].append(event)
    assert len(stages["first"]) == len(stages["final"]) > 0
    for event in stages["first"] + stages["final"]:
        assert {choice.reason for choice in event.intentions} == {"of this one"}
        assert event.reason == ("of all that stand" if event.stage == "final" else "the aim of all")
    if options["mechanism"] == "one_pass":
        # Kept or changed, it is told.
        assert {event.changed for event in stages["final"]} >= {changes}


@pytest.mark.parametrize("mechanism", ["paper", "one_pass"])
async def test_the_reason_of_a_selection_in_words_of_its_own_stands_beside_them(mechanism: str) -> None:
    options = {"mechanism": mechanism, "selection": "generated"}
    state, _ = await played(FIVE, 3, reasoning(True, own_words=True), options)
    assert not any(isinstance(event, IntentionsSelected) for event in state.log)
    thinking = [e.think for e in state.log if isinstance(e, SpeechDrafted) and e.stage == "refinement"]
    assert thinking
    for think in thinking:
        assert think.startswith("In my own words I intend: tell a story nobody can place, number 0; ")
        assert ". of all that stand " in think


@pytest.mark.parametrize("selection", ["catalogue", "generated"])
async def test_a_final_selection_without_its_reason_is_asked_again(selection: str) -> None:
    def silent(messages: Sequence[Message], form: Form) -> object:
        values = noise()(messages, form)
        assert isinstance(values, dict)
        return values if UNUSABLE in messages[-1].content else {k: v for k, v in values.items() if k != "why"}

    _, sessions = await played(FIVE, 3, silent, {"selection": selection})
    asked = [
        one.key.attempt
        for session in sessions.values()
        for one in session.sent
        if one.key.step == "modification"
    ]
    assert asked.count(2) == asked.count(1) > 0
