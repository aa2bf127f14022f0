"""The catalogue of intentions: menus, aliases, and the facts that rules can check."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.actions import ProposeTeam, Speak
from engine.errors import IllegalAction
from engine.events import IntentionsSelected
from engine.intentions import (
    BY_ID,
    CATALOGUE,
    CATEGORIES,
    FACTS,
    IMPACTFUL_RELEASE,
    allowed,
    menu,
    menu_before_team,
    missing_facts,
    normalise,
    opening_menu,
)
from engine.rules import decide, offered
from engine.terms import EVIL_ROLES, Kind, Role
from engine.thoughts import Choice
from tests.engine.playing import Play
from tests.engine.referee import menu as referee_menu

ROOT = Path(__file__).parents[2]
DATA: dict[str, Any] = json.loads((ROOT / "engine" / "intentions.json").read_text("utf-8"))
GIVEN = ROOT.parent / "shared" / "data" / "intentions.json"


def test_our_copy_is_the_data_we_were_given() -> None:
    if not GIVEN.exists():
        pytest.skip(f"../shared/data/{GIVEN.name} is not there")
    assert json.loads(GIVEN.read_text("utf-8")) == DATA


def test_the_catalogue_holds_what_the_file_says() -> None:
    assert [one.id for one in CATALOGUE] == [entry["id"] for entry in DATA["intentions"]]
    assert len(set(BY_ID)) == len(CATALOGUE) == 31
    for one, entry in zip(CATALOGUE, DATA["intentions"], strict=True):
        assert (one.label, one.category) == (entry["label"], entry["category"])
        assert (list(one.requires), list(one.aliases)) == (entry["requires"], entry["aliases"])
        assert one.category in CATEGORIES
    assert {entry["id"] for entry in DATA["intentions"] if entry["impactful_release"]} == IMPACTFUL_RELEASE
    assert len(IMPACTFUL_RELEASE) == 15


@pytest.mark.parametrize("role", list(Role))
def test_a_menu_is_what_the_file_offers_the_role_in_that_turn(role: Role) -> None:
    for opener in (True, False):
        for first_quest in (True, False):
            expected = referee_menu(role.value, opener=opener, first_quest=first_quest)
            assert list(menu(role, opener=opener, first_quest=first_quest)) == expected


@pytest.mark.parametrize("role", list(Role))
def test_every_menu_leaves_a_choice_of_two_and_stays_within_the_roles_list(role: Role) -> None:
    for opener in (True, False):
        for first_quest in (True, False):
            on_offer = menu(role, opener=opener, first_quest=first_quest)
            assert len(on_offer) >= 2, (role, opener, first_quest)
            assert set(on_offer) <= set(allowed(role))


def test_menus_by_hand() -> None:
    # The servant's opening turn of the first quest: what any turn offers any role or the servant.
    assert menu(Role.SERVANT, opener=True, first_quest=True) == (
        "pretend_percival",
        "pretend_merlin_hints",
        "convince_leader",
        "reveal_servant",
    )
    # Merlin stays hidden only when responding, evil in any turn.
    assert "stay_hidden" not in menu(Role.MERLIN, opener=True, first_quest=True)
    assert "stay_hidden" in menu(Role.MERLIN, opener=False, first_quest=True)
    assert "stay_hidden" in menu(Role.MINION, opener=True, first_quest=True)
    assert "include_loyal_as_leader" not in menu(Role.MERLIN, opener=False, first_quest=False)
    assert "question_missing_vote" not in menu(Role.SERVANT, opener=False, first_quest=True)


def test_evil_lists_are_for_evil_and_merlins_for_merlin() -> None:
    for entry in DATA["intentions"]:
        holders = {role for role in Role if entry["id"] in allowed(role)}
        if entry["roles"] == ["evil"]:
            assert holders == EVIL_ROLES
        elif entry["roles"] == ["merlin"]:
            assert holders == {Role.MERLIN}
        elif entry["roles"] == ["any"]:
            assert holders == set(Role)


@pytest.mark.parametrize("entry", DATA["intentions"], ids=lambda entry: entry["id"])
def test_every_wording_of_an_intention_normalises_to_it(entry: dict[str, Any]) -> None:
    for wording in (entry["id"], entry["label"], *entry["aliases"]):
        for form in (wording, wording.upper(), f"  {wording}. ", wording.replace(" ", "  "), f"- {wording}!"):
            assert normalise(form) == entry["id"], form


@pytest.mark.parametrize(
    "text", ["", " ", "win", "support", "Support", "question_missing_vote_not", "\x00", "—"]
)
def test_other_text_normalises_to_nothing(text: str) -> None:
    assert normalise(text) is None


def test_no_two_intentions_share_a_wording() -> None:
    owners: dict[str, set[str]] = {}
    for entry in DATA["intentions"]:
        for wording in (entry["id"], entry["label"], *entry["aliases"]):
            plain = "".join(c for c in wording.lower().replace("'", "") if c.isalnum())
            owners.setdefault(plain, set()).add(entry["id"])
    assert [ids for ids in owners.values() if len(ids) > 1] == []


# --- when they are offered ---


def on_offer(game: Play, kind: Kind, seat: int) -> tuple[str, ...] | None:
    return offered(game.state.table, game.state.hand(seat), kind)


def test_the_leaders_proposal_is_the_opening_turn_where_the_talk_comes_after_it() -> None:
    game = Play(profile="interintent")
    assert on_offer(game, Kind.PROPOSE_TEAM, 1) == menu(Role.MERLIN, opener=True, first_quest=True)
    game.propose()
    assert on_offer(game, Kind.SPEAK, 2) == menu(Role.PERCIVAL, opener=False, first_quest=True)


def test_the_leaders_speech_is_the_opening_turn_where_the_talk_comes_first() -> None:
    game = Play(discussion="before_proposal")
    assert on_offer(game, Kind.SPEAK, 1) == menu(Role.MERLIN, opener=True, first_quest=True)
    game.do((1, Speak("so")))
    assert on_offer(game, Kind.SPEAK, 2) == menu(Role.PERCIVAL, opener=False, first_quest=True)
    game.skip("speak")
    assert on_offer(game, Kind.PROPOSE_TEAM, 1) is None


def test_no_intentions_are_chosen_outside_the_discussion() -> None:
    game = Play(profile="interintent")
    for kind in (Kind.RECONSIDER, Kind.VOTE, Kind.CARD, Kind.SUMMARISE, Kind.ASSASSINATE):
        assert on_offer(game, kind, 1) is None
    game.propose()
    game.skip("speak")
    choice = IntentionsSelected(1, "first", (Choice("convince_leader"),), False)
    with pytest.raises(IllegalAction, match="no intentions are chosen in phase reconsider"):
        game.do((1, ProposeTeam((1, 2)) if game.kind != "reconsider" else reconsider((choice,))))


def reconsider(thoughts: Any) -> Any:
    from engine.actions import Reconsider

    return Reconsider((1, 2), "", thoughts)


def test_from_the_second_quest_on_the_menu_grows() -> None:
    game = Play(profile="interintent", summaries=False)
    game.round()
    assert game.leader == 2
    assert on_offer(game, Kind.PROPOSE_TEAM, 2) == menu(Role.PERCIVAL, opener=True, first_quest=False)


@pytest.mark.parametrize(
    "wrong", ["cast_suspicion", "question_missing_vote", "include_loyal_as_leader", "made_up"]
)
def test_an_intention_that_is_not_on_the_menu_is_refused(wrong: str) -> None:
    game = Play(profile="interintent")
    game.propose()
    thoughts = (IntentionsSelected(2, "first", (Choice("support_proposal"), Choice(wrong)), False),)
    with pytest.raises(IllegalAction, match="is not offered to this seat now") as refusal:
        game.do((2, Speak("", thoughts)))
    assert refusal.value.pointer == "/thoughts/0/intentions/1/id"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("first_quest", [True, False])
def test_the_sensible_menu_of_a_leader_holds_nothing_about_anothers_team(
    role: Role, first_quest: bool
) -> None:
    sensible = opening_menu(role, first_quest=first_quest, proposes=True)
    assert set(sensible) <= set(allowed(role))
    assert len(sensible) >= 4
    assert "defend_self" in sensible
    assert "support_proposal" in sensible
    assert not {"convince_leader", "question_leader_pick", "counter_evil_on_team"} & set(sensible)
    # In the first round nobody has said anything yet that could have changed, or accused a teammate.
    later = {"question_changed_statements", "defend_teammate"} & set(allowed(role))
    assert later & set(sensible) == (set() if first_quest else later)
    without = opening_menu(role, first_quest=first_quest, proposes=False)
    assert set(sensible) - set(without) == {"support_proposal"}


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("first_quest", [True, False])
def test_before_a_team_is_proposed_the_sensible_menu_holds_nothing_about_it(
    role: Role, first_quest: bool
) -> None:
    whole = menu(role, opener=False, first_quest=first_quest)
    sensible = menu_before_team(role, first_quest=first_quest)
    left_out = {"counter_not_on_team", "counter_evil_on_team", "disagree_not_on_team", "support_proposal"}
    left_out |= {"question_leader_pick", "question_leader_absence", "defend_team"}
    assert set(whole) - set(sensible) == left_out & set(whole)
    assert "convince_leader" in sensible
    assert len(sensible) >= 4


def test_a_leader_may_choose_by_either_menu_and_others_may_not() -> None:
    game = Play(profile="interintent")
    for id_ in ("convince_leader", "support_proposal"):
        chosen = (IntentionsSelected(1, "first", (Choice(id_),), False),)
        decide(game.state, [(1, ProposeTeam((1, 2), "so", chosen))])
    wrong = (IntentionsSelected(1, "first", (Choice("counter_evil_on_team"),), False),)
    with pytest.raises(IllegalAction, match="is not offered to this seat now"):
        decide(game.state, [(1, ProposeTeam((1, 2), "so", wrong))])


def test_an_intention_is_selected_once() -> None:
    game = Play(profile="interintent")
    game.propose()
    thoughts = (
        IntentionsSelected(2, "final", (Choice("support_proposal"), Choice("support_proposal")), False),
    )
    with pytest.raises(IllegalAction, match="an intention may be selected only once"):
        game.do((2, Speak("", thoughts)))


# --- facts ---


def test_every_fact_that_an_intention_requires_is_one_we_compute() -> None:
    assert {fact for one in CATALOGUE for fact in one.requires} <= set(FACTS)


def facts(game: Play, seat: int) -> set[str]:
    return set(game.state.table.facts(seat))


def test_facts_of_the_public_record_hold_from_the_moment_they_are_true() -> None:
    game = Play()
    assert facts(game, 1) == set()
    game.propose(2, 3)
    assert facts(game, 1) == {"leader_not_on_team", "seat_not_on_team"}
    assert facts(game, 2) == {"leader_not_on_team"}
    game.vote(0)
    assert facts(game, 1) == {"earlier_vote"}
    game.round(fails=1)
    assert facts(game, 1) == {"earlier_vote", "failed_quest", "last_quest_failed"}
    game.round()
    assert facts(game, 1) == {"earlier_vote", "failed_quest"}


def test_a_team_that_went_without_a_vote_does_not_count_as_an_earlier_vote() -> None:
    game = Play(max_rejections=1, on_max_rejections="forced_team")
    game.propose()
    game.quest()
    assert "earlier_vote" not in facts(game, 1)


@pytest.mark.parametrize("entry", DATA["intentions"], ids=lambda entry: entry["id"])
def test_an_intention_misses_exactly_the_facts_it_requires(entry: dict[str, Any]) -> None:
    assert missing_facts(entry["id"], ()) == tuple(entry["requires"])
    assert missing_facts(entry["id"], FACTS) == ()
    assert missing_facts(entry["id"], set(FACTS) - set(entry["requires"])) == tuple(entry["requires"])


def test_a_typographic_apostrophe_is_an_apostrophe() -> None:
    label = "Question the leader why they didn\u2019t put themselves on the quest team."
    assert normalise(label) == "question_leader_absence"
