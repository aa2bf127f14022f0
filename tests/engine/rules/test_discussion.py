"""Who speaks when, the reconsideration, and the summaries."""

import pytest

from engine.actions import ProposeTeam, Reconsider, Speak, Summarise
from engine.errors import IllegalAction
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    SpeechDrafted,
    UtteranceMade,
    VoteCast,
)
from engine.rules import asked, default, legal, pending
from engine.terms import Role
from engine.thoughts import Belief, Choice
from tests.engine.playing import Play, names


def speakers(game: Play) -> list[int]:
    """Who is asked to speak, one after another, from now on."""
    order = []
    while game.kind == "speak":
        order.append(game.asked[0][1])
        game.do((order[-1], Speak("so")))
    return order


def test_the_leader_speaks_while_proposing_and_the_others_follow_in_seat_order_wrapping_round() -> None:
    game = Play(profile="interintent", first_leader=3)
    proposed, spoken = game.propose(1, 2, text="I take 1 and 2.")
    assert proposed[0] == "team_proposed"
    assert spoken == (
        "utterance_made",
        {"seat": 3, "round": 1, "attempt": 1, "turn": 0, "phase": "discuss", "text": "I take 1 and 2."},
    )
    assert speakers(game) == [4, 5, 1, 2]
    assert game.asked == [("reconsider", 3)]


def test_the_opening_turn_is_a_turn_even_when_nothing_is_said() -> None:
    assert names(Play(profile="interintent").propose(1, 2)) == ["team_proposed", "utterance_made"]


def test_before_a_proposal_every_seat_speaks_once_the_leader_first() -> None:
    game = Play(discussion="before_proposal", first_leader=4)
    assert speakers(game) == [4, 5, 1, 2, 3]
    assert game.asked == [("propose_team", 4)]
    game.propose()
    assert game.kind == "vote"


def test_the_order_of_speaking_goes_up_even_where_leadership_goes_down() -> None:
    game = Play(profile="interintent", first_leader=2, leader_step=-1)
    game.propose()
    assert speakers(game) == [3, 4, 5, 1]


def test_without_discussion_nobody_is_asked_to_speak() -> None:
    game = Play()
    game.propose()
    assert game.kind == "vote"


def test_the_discussion_starts_anew_with_every_attempt() -> None:
    game = Play(profile="interintent", summaries=False)
    game.reject()
    assert (game.leader, game.kind) == (2, "propose_team")
    game.propose()
    assert speakers(game) == [3, 4, 5, 1]


def test_turns_are_counted_from_zero_in_every_attempt() -> None:
    game = Play(profile="interintent")
    game.propose()
    speakers(game)
    game.do((1, Reconsider((1, 2), "I keep it.")))
    turns = [(e.turn, e.phase) for e in game.state.public if type(e) is UtteranceMade]
    assert turns == [
        (0, "discuss"),
        (1, "discuss"),
        (2, "discuss"),
        (3, "discuss"),
        (4, "discuss"),
        (5, "reconsider"),
    ]
    game.vote(0)
    game.skip("summarise")
    game.propose()
    assert [e for e in game.state.public if type(e) is UtteranceMade][-1].turn == 0


def test_nobody_speaks_out_of_turn_or_twice() -> None:
    game = Play(profile="interintent")
    game.propose()
    for seat in (1, 3, 4, 5):
        with pytest.raises(
            IllegalAction, match=f"seat {seat} is not asked in round 1, attempt 1, phase discuss"
        ):
            game.do((seat, Speak("me")))
    game.do((2, Speak("me")))
    with pytest.raises(IllegalAction, match="seat 2 is not asked"):
        game.do((2, Speak("me again")))


@pytest.mark.parametrize("text", [None, 5, b"bytes"])
def test_a_speech_must_be_a_string(text: object) -> None:
    game = Play(profile="interintent")
    with pytest.raises(IllegalAction, match="must be a string"):
        game.do((1, ProposeTeam((1, 2), text)))  # type: ignore[arg-type]
    game.propose()
    with pytest.raises(IllegalAction, match="must be a string") as refusal:
        game.do((2, Speak(text)))  # type: ignore[arg-type]
    assert refusal.value.pointer == "/text"
    speakers(game)
    with pytest.raises(IllegalAction, match="must be a string") as refusal:
        game.do((1, Reconsider((1, 2), text)))  # type: ignore[arg-type]
    assert refusal.value.pointer == "/text"


# --- summaries ---


def test_everybody_summarises_after_a_rejection_that_ends_an_attempt() -> None:
    game = Play(summaries=True)
    game.reject()
    assert game.asked == [("summarise", seat) for seat in range(1, 6)]
    game.skip("summarise")
    assert (game.kind, game.leader, game.state.table.attempt) == ("propose_team", 2, 2)


def test_a_leader_who_reconsiders_names_as_many_seats_as_the_quest_takes() -> None:
    game = Play(reconsideration=True, summaries=False)
    for size in game.profile.team_sizes[:2]:
        game.propose()
        (request,) = pending(game.state)
        assert (request.kind, request.seat, request.team_size) == ("reconsider", game.leader, size)
        game.skip("reconsider").vote(5)
        game.quest()


@pytest.mark.parametrize("profile", ["official", "interintent"])
def test_each_seat_computes_its_own_open_request_from_what_it_sees(profile: str) -> None:
    game = Play(profile=profile, discussion="before_proposal", reconsideration=True, summaries=True)
    seen = set()
    while requests := pending(game.state):
        table = game.state.table
        own = [asked(table, game.state.hand(seat)) for seat in range(1, 6)]
        assert [request for request in own if request is not None] == list(requests)
        for seat, request in enumerate(own, 1):
            if request is None:
                assert legal(table, game.state.hand(seat)) == ()
        # One answer at a time, so that those who have answered are asked no more.
        first = requests[0]
        seen.add(first.kind)
        game.do((first.seat, default(table, first)))
        if table.over:
            break
    assert {"speak", "propose_team", "reconsider", "vote", "summarise"} <= seen


def test_everybody_summarises_once_after_a_quest() -> None:
    game = Play(summaries=True)
    game.round()
    assert game.kind == "summarise"
    for seat in (5, 1, 3, 2):
        assert names(game.do((seat, Summarise((("leader", "1"),))))) == ["round_summarised"]
    assert names(game.do((4, Summarise(())))) == ["round_summarised", "proposal_opened"]
    assert game.kind == "propose_team"


def test_nobody_summarises_when_the_team_goes_although_rejected_until_the_quest_is_over() -> None:
    game = Play(summaries=True, max_rejections=1, on_max_rejections="last_team_goes")
    game.reject()
    assert game.kind == "card"
    game.quest()
    assert game.kind == "summarise"


def test_nobody_summarises_when_the_last_rejection_ends_the_game() -> None:
    game = Play(summaries=True, max_rejections=1)
    assert names(game.reject())[-1] == "game_ended"


def test_everybody_summarises_once_when_rejections_fail_a_quest() -> None:
    game = Play(summaries=True, max_rejections=1, on_max_rejections="quest_fails")
    game.reject()
    assert game.kind == "summarise"
    game.skip("summarise")
    assert (game.kind, game.state.table.round) == ("propose_team", 2)


def test_nobody_summarises_after_a_quest_that_opens_the_assassination() -> None:
    game = Play(summaries=True)
    for _ in range(3):
        game.skip("summarise")
        game.round()
    assert game.kind == "assassinate"


def test_nobody_summarises_after_a_quest_that_ends_the_game() -> None:
    game = Play(summaries=True)
    for _ in range(3):
        game.skip("summarise")
        game.round(fails=1)
    assert game.kind == ""


def test_summaries_follow_a_shot_that_did_not_end_the_game() -> None:
    for target in (None, 2):
        game = Play(summaries=True, assassination="after_any_quest", missed_shot="play_on")
        game.round()
        assert game.kind == "assassinate"
        game.shoot(target)
        assert game.kind == "summarise"
        game.skip("summarise")
        assert (game.kind, game.state.table.round) == ("propose_team", 2)
        # A declined shot is offered again; after a miss the next quest is summarised at once.
        game.round(fails=1)
        assert game.kind == ("assassinate" if target is None else "summarise")


def test_a_summary_is_seen_by_its_seat_alone() -> None:
    game = Play(summaries=True)
    game.reject()
    written = game.do((3, Summarise((("leader", "1"), ("result", "rejected")))))
    assert written == [
        (
            "round_summarised",
            {"seat": 3, "round": 1, "attempt": 1, "answers": {"leader": "1", "result": "rejected"}},
        )
    ]
    assert len(game.state.hand(3).own) == len(game.state.hand(2).own) + 1


def test_a_summary_answers_each_question_once() -> None:
    game = Play(summaries=True)
    game.reject()
    with pytest.raises(IllegalAction, match="each question once") as refusal:
        game.do((3, Summarise((("leader", "1"), ("leader", "2")))))
    assert refusal.value.pointer == "/answers"


@pytest.mark.parametrize(
    "answers", [None, 5, "so", (("leader",),), ((1, 2),), (("leader", None),), [("leader", "1")]]
)
def test_a_summary_is_pairs_of_texts(answers: object) -> None:
    game = Play(summaries=True)
    game.reject()
    with pytest.raises(IllegalAction, match="pairs of question and answer"):
        game.do((3, Summarise(answers)))  # type: ignore[arg-type]


# --- thoughts ---


def test_thoughts_stand_before_the_action_and_change_nothing_of_the_game() -> None:
    game = Play(profile="interintent")
    game.propose()
    thought = SpeechDrafted(2, "formulation", "hide", "Trust me.")
    assert names(game.do((2, Speak("Trust me.", (thought,))))) == ["speech_drafted", "utterance_made"]
    assert game.asked == [("speak", 3)]


@pytest.mark.parametrize("other", [1, 3])
def test_a_seat_records_its_own_thoughts_only(other: int) -> None:
    game = Play(profile="interintent")
    game.propose()
    words = f"seat 2 records its own thoughts, got seat {other}'s"
    thoughts = (ChoiceExplained(2, "speak", "so"), SpeechDrafted(other, "formulation", "a", "b"))
    with pytest.raises(IllegalAction, match=words) as refusal:
        game.do((2, Speak("", thoughts)))
    assert refusal.value.pointer == "/thoughts/1"


@pytest.mark.parametrize("seat", [True, 1.0, "1", None])
def test_the_seat_of_a_thought_is_a_whole_number_since_it_enters_the_log(seat: object) -> None:
    game = Play(profile="interintent", first_leader=5)
    game.propose()
    with pytest.raises(IllegalAction, match="seat 1 records its own thoughts") as refusal:
        game.do((1, Speak("", (ChoiceExplained(seat, "speak", "so"),))))  # type: ignore[arg-type]
    assert refusal.value.pointer == "/thoughts/0"


@pytest.mark.parametrize(
    "event", [VoteCast(2, True), UtteranceMade(2, 1, 1, 1, "discuss", "psst"), "no event at all"]
)
def test_nothing_but_a_thought_passes_for_a_thought(event: object) -> None:
    game = Play(profile="interintent")
    game.propose()
    with pytest.raises(IllegalAction, match="a seat records thoughts"):
        game.do((2, Speak("", (event,))))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("belief", "pointer"),
    [
        (Belief(2, None, (), 3), "about"),  # itself
        (Belief(6, None, (), 3), "about"),
        (Belief(0, None, (), 3), "about"),
        (Belief(True, None, (), 3), "about"),
        (Belief("1", None, (), 3), "about"),  # type: ignore[arg-type]
        (Belief(1, Role.PERCIVAL, (), 3), "role"),  # its own role, dealt once
        (Belief(1, Role.OBERON, (), 3), "role"),  # not in the deal
        (Belief(1, "merlin", (), 3), "role"),  # type: ignore[arg-type]  # a word, not a role
        (Belief(1, None, ("made_up",), 3), "intentions"),
        (Belief(1, None, (), 6), "confidence"),
        (Belief(1, None, (), -1), "confidence"),
        (Belief(1, None, (), 2.5), "confidence"),  # type: ignore[arg-type]
        (Belief(1, None, (), True), "confidence"),
    ],
)
def test_a_belief_that_cannot_be_is_refused(belief: Belief, pointer: str) -> None:
    game = Play(profile="interintent")
    game.propose()
    with pytest.raises(IllegalAction) as refusal:
        game.do((2, Speak("", (BeliefsFormed(2, (belief,)),))))
    assert refusal.value.pointer == f"/thoughts/0/beliefs/0/{pointer}"


def test_a_refusal_points_to_the_belief_that_cannot_be_among_those_that_can() -> None:
    game = Play(profile="interintent")
    game.propose()
    beliefs = (Belief(1, None, (), 0), Belief(3, None, (), 5), Belief(4, None, (), 6))
    with pytest.raises(IllegalAction) as refusal:
        game.do((2, Speak("", (ChoiceExplained(2, "speak", "so"), BeliefsFormed(2, beliefs)))))
    assert refusal.value.pointer == "/thoughts/1/beliefs/2/confidence"


def test_a_servant_may_take_another_for_a_servant_only_where_the_deal_holds_two() -> None:
    two = "merlin servant servant assassin morgana"
    for deal, possible in ((two, True), ("merlin servant percival assassin morgana", False)):
        game = Play(deal, profile="interintent")
        game.propose()
        action = Speak("", (BeliefsFormed(2, (Belief(1, Role.SERVANT, (), 3),)),))
        if possible:
            game.do((2, action))
        else:
            with pytest.raises(IllegalAction, match="no other seat can hold servant"):
                game.do((2, action))


@pytest.mark.parametrize("discussion", ["before_proposal", "after_proposal"])
def test_who_opens_a_discussion_may_choose_as_a_leader_too_and_speaks_of_failed_quests_from_round_2(
    discussion: str,
) -> None:
    def opens(game: Play, intention: str) -> None:
        chosen = (IntentionsSelected(game.leader, "first", (Choice(intention),), False),)
        if game.kind == "speak":
            game.do((game.leader, Speak("so", chosen)))
        else:
            size = game.profile.team_sizes[game.state.table.round - 1]
            game.do((game.leader, ProposeTeam(tuple(range(1, size + 1)), "so", chosen)))

    def game() -> Play:
        return Play("servant percival merlin assassin morgana", discussion=discussion)

    opens(game(), "defend_self")
    again = game()
    again.reject()
    with pytest.raises(IllegalAction, match="not offered to this seat now"):
        opens(again, "concern_failed_quest_member")
    later = game()
    later.round(fails=1)
    opens(later, "concern_failed_quest_member")


@pytest.mark.parametrize(
    ("deal", "merlin"),
    [("servant percival merlin assassin morgana", 3), ("servant merlin percival assassin morgana", 2)],
)
@pytest.mark.parametrize("discussion", ["before_proposal", "after_proposal"])
def test_who_responds_may_not_choose_as_a_leader(discussion: str, deal: str, merlin: int) -> None:
    game = Play(deal, discussion=discussion)
    while game.state.table.speaker != merlin:
        proposes = game.kind == "propose_team"
        game.do((game.state.table.speaker, ProposeTeam((1, 2)) if proposes else Speak("so")))
    chosen = (IntentionsSelected(merlin, "first", (Choice("include_loyal_as_leader"),), False),)
    with pytest.raises(IllegalAction, match="not offered to this seat now"):
        game.do((merlin, Speak("so", chosen)))


def test_where_nobody_speaks_a_proposal_comes_without_intentions() -> None:
    game = Play()
    chosen = (IntentionsSelected(game.leader, "first", (Choice("defend_self"),), False),)
    with pytest.raises(IllegalAction, match="no intentions are chosen in phase propose"):
        game.do((game.leader, ProposeTeam((1, 2), "", chosen)))
