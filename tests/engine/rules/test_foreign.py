"""What only a record may contain: partly known cards, beliefs without a confidence, choices off the menu."""

from typing import Any

import pytest

from engine.actions import (
    Action,
    CastVote,
    PlayCard,
    ProposeTeam,
    RecordQuest,
    RecordShot,
    RecordVote,
    Remark,
    Repropose,
    Speak,
)
from engine.errors import IllegalAction
from engine.events import (
    BeliefsFormed,
    CardPlayed,
    IntentionsSelected,
    QuestResolved,
    TeamConfirmed,
    VotesRevealed,
    payload,
    read_event,
)
from engine.playthrough import playthrough
from engine.rules import decide
from engine.state import apply, fold
from engine.terms import FULL, Role
from engine.thoughts import Belief, Choice
from tests.engine.playing import Play


def on_quest(*team: int, **rules: Any) -> Play:
    """Loyal seats 1 to 3, evil 4 and 5; this team is about to play its cards."""
    game = Play(**rules)
    game.propose(*team)
    game.vote(5)
    return game


def quest(game: Play, fails: int | None, succeeded: bool) -> QuestResolved:
    events = decide(game.state, [(game.leader, RecordQuest(fails, succeeded))], foreign=True)
    apply(game.state, events)
    (resolved,) = (event for event in events if isinstance(event, QuestResolved))
    return resolved


def test_a_quest_resolves_although_one_card_is_unknown() -> None:
    game = on_quest(1, 4)
    game.do((1, PlayCard(True)))
    assert quest(game, 0, True) == QuestResolved(1, (1, 4), 0, True)
    assert [event.seat for event in game.state.log if isinstance(event, CardPlayed)] == [1]
    assert fold(game.state.log) == game.state
    assert game.state.answers == 0
    assert game.kind == "propose_team"


def test_an_unknown_card_of_evil_may_be_the_fail() -> None:
    game = on_quest(1, 4)
    game.do((1, PlayCard(True)))
    assert quest(game, 1, False).fails == 1


@pytest.mark.parametrize(
    ("fails", "succeeded", "pointer"),
    [
        (0, True, "/fails"),  # fewer than were played
        (2, False, "/fails"),  # more than evil can play
        (1, True, "/succeeded"),
        (None, True, "/succeeded"),
    ],
)
def test_the_result_must_follow_from_the_cards_that_are_known(
    fails: int | None, succeeded: bool, pointer: str
) -> None:
    game = on_quest(1, 4)
    game.do((4, PlayCard(False)))
    with pytest.raises(IllegalAction) as refused:
        quest(game, fails, succeeded)
    assert refused.value.pointer == pointer


def test_a_quest_of_loyal_cards_alone_cannot_have_failed() -> None:
    game = on_quest(1, 2)
    game.do((1, PlayCard(True)))
    with pytest.raises(IllegalAction):
        quest(game, None, False)


def test_only_the_leader_tells_a_recorded_quest_and_only_on_the_quest() -> None:
    game = on_quest(1, 4)
    with pytest.raises(IllegalAction):
        decide(game.state, [(2, RecordQuest(0, True))], foreign=True)
    quest(game, 0, True)
    with pytest.raises(IllegalAction):
        quest(game, 0, True)


def on_vote() -> Play:
    game = Play()
    game.propose(1, 2)
    return game


APPROVED = RecordVote((True, True, True, None, False), True)


def refused(game: Play, seat: int, action: Action) -> IllegalAction:
    with pytest.raises(IllegalAction) as fault:
        decide(game.state, [(seat, action)], foreign=True)
    return fault.value


@pytest.mark.parametrize("action", [APPROVED, Repropose((1, 3))])
def test_a_record_tells_votes_and_new_teams_of_the_leader_and_while_the_table_votes(action: Action) -> None:
    game = on_vote()
    assert refused(game, 2, action).seat == 2
    assert decide(game.state, [(1, action)], foreign=True)
    game.vote(5)
    refused(game, 1, action)


@pytest.mark.parametrize("action", [APPROVED, Repropose((1, 3))])
def test_a_record_tells_no_whole_vote_and_no_new_team_after_single_ballots(action: Action) -> None:
    game = on_vote()
    game.do((2, CastVote(True)))
    assert "before single answers" in str(refused(game, 1, action))


def test_a_recorded_team_is_compared_with_the_one_before_it_and_not_with_the_first() -> None:
    game = on_vote()
    changes = []
    for team in ((1, 3), (1, 3), (1, 2)):
        events = decide(game.state, [(1, Repropose(team))], foreign=True)
        apply(game.state, events)
        changes += [event.changed for event in events if isinstance(event, TeamConfirmed)]
    assert changes == [True, False, True]


def test_a_recorded_new_team_is_a_legal_one() -> None:
    assert refused(on_vote(), 1, Repropose((1, 2, 3))).pointer == "/team"


@pytest.mark.parametrize("votes", [(True,) * 4, (True,) * 6])
def test_a_recorded_vote_has_one_ballot_of_each_seat(votes: tuple[bool, ...]) -> None:
    assert refused(on_vote(), 1, RecordVote(votes, True)).pointer == "/votes"


@pytest.mark.parametrize(
    ("yes", "unknown", "approved", "possible"),
    # Three of five approve a team.
    [
        (2, 1, True, True),
        (2, 0, True, False),
        (0, 2, True, False),
        (0, 3, True, True),
        (2, 3, False, True),
        (3, 0, False, False),
        (3, 2, False, False),
    ],
)
def test_the_result_of_a_recorded_vote_must_be_possible_with_the_ballots_that_are_known(
    yes: int, unknown: int, approved: bool, possible: bool
) -> None:
    votes = (True,) * yes + (None,) * unknown + (False,) * (5 - yes - unknown)
    game = on_vote()
    if not possible:
        assert refused(game, 1, RecordVote(votes, approved)).pointer == "/approved"
        return
    [revealed, *_] = decide(game.state, [(1, RecordVote(votes, approved))], foreign=True)
    assert isinstance(revealed, VotesRevealed)
    assert (revealed.votes, revealed.approved) == (votes, approved)


def test_a_recorded_shot_is_the_shooters_and_comes_when_it_is_asked_for() -> None:
    game = Play()
    refused(game, 4, RecordShot(False))
    for _ in range(3):
        game.round()
    assert game.asked == [("assassinate", 4)]
    assert refused(game, game.leader, RecordShot(False)).seat == game.leader
    assert decide(game.state, [(4, RecordShot(False))], foreign=True)


def test_actions_that_only_a_record_may_contain_are_decided_alone() -> None:
    with pytest.raises(ValueError, match="decided alone, got 2 answers"):
        decide(on_vote().state, [(1, APPROVED), (2, CastVote(True))], foreign=True)


UNSURE = BeliefsFormed(2, (Belief(1, Role.MERLIN, (), None),))
OFF_MENU = IntentionsSelected(2, "first", (Choice("include_loyal_as_leader"),), False)


def test_remarks_during_a_vote_leave_it_open_and_the_ballots_in_it() -> None:
    game = on_vote()
    game.do((2, CastVote(True)))
    for seat in range(1, 6):
        apply(game.state, decide(game.state, [(seat, Remark("Hm."))], foreign=True))
    assert game.asked == [("vote", seat) for seat in (1, 3, 4, 5)]


def test_a_recorded_belief_has_a_confidence_of_0_to_5_or_none() -> None:
    unsound = BeliefsFormed(2, (Belief(1, Role.MERLIN, (), 6),))
    assert refused(talking(), 2, Speak("so", (unsound,))).pointer == "/thoughts/0/beliefs/0/confidence"


def talking() -> Play:
    game = Play(profile="interintent")
    game.do((1, ProposeTeam((1, 2), "so")))
    return game


@pytest.mark.parametrize("thought", [UNSURE, OFF_MENU], ids=["confidence", "menu"])
def test_a_record_may_hold_what_a_seat_may_not_say(thought: Any) -> None:
    game = talking()
    with pytest.raises(IllegalAction):
        decide(game.state, [(2, Speak("so", (thought,)))])
    assert thought in decide(game.state, [(2, Speak("so", (thought,)))], foreign=True)


def test_a_record_chooses_out_of_the_catalogue_all_the_same() -> None:
    unknown = IntentionsSelected(2, "first", (Choice("win"),), False)
    with pytest.raises(IllegalAction):
        decide(talking().state, [(2, Speak("so", (unknown,)))], foreign=True)


def test_a_belief_without_a_confidence_is_stored_and_shown() -> None:
    assert read_event("beliefs_formed", payload(UNSURE)) == UNSURE
    game = talking()
    apply(game.state, decide(game.state, [(2, Speak("so", (UNSURE,)))], foreign=True))
    assert "(confidence unknown)" in playthrough(game.state.log, FULL)
