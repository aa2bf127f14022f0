"""Statements about the record: what sentences claim and what is so, and games that say true things."""

import os
from collections import Counter
from random import Random
from time import process_time

import pytest

from engine.events import (
    ActionDefaulted,
    Event,
    GameCreated,
    ProposalOpened,
    QuestResolved,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VotesRevealed,
)
from engine.foreign.replay import read_record, replay
from engine.profile import Profile, make_profile
from engine.state import Table, fold
from engine.terms import Role, Side
from evaluators.errors import Unmeasurable
from evaluators.measures.facts import Led, OnQuest, OnTeam, QuestsCounted, QuestWent, Voted
from evaluators.measures.hallucination import Hallucinations, answered_by, speeches, statements_of
from evaluators.measures.statements import Finding, read_statements
from evaluators.statistics.rates import Rate
from tests.evaluators.scripted_games import played
from tests.evaluators.talk import scripted_log
from tests.records import REAL_GAMES, load, needs_real_games

GAMES = int(os.environ.get("STATEMENT_GAMES", "60"))
"""Scripted games whose speeches are read."""


def ballots(yes: str) -> tuple[bool, ...]:
    return tuple(str(seat) in yes for seat in range(1, 6))


PLAYERS = tuple(f"Player {seat}" for seat in range(1, 6))

# Quest 1: seat 1 led 1, 2; 1 2 3 for it; succeeded. Quest 2: seat 2 led 2, 3, 4; 2 3 for it: rejected; then
# seat 3 led 3, 4, 5; 2 3 4 for it; failed with one card. Quest 3: seat 4 leads, and 1, 4 are its team.
RECORD: list[Event] = [
    ProposalOpened(1, 1, 1),
    TeamProposed(1, (1, 2)),
    VotesRevealed(ballots("123"), True, False),
    QuestResolved(1, (1, 2), 0, True),
    ProposalOpened(2, 1, 2),
    TeamProposed(2, (2, 3, 4)),
    VotesRevealed(ballots("23"), False, False),
    ProposalOpened(2, 2, 3),
    TeamProposed(3, (3, 4, 5)),
    VotesRevealed(ballots("234"), True, False),
    QuestResolved(2, (3, 4, 5), 1, False),
    ProposalOpened(3, 1, 4),
    TeamProposed(4, (1, 4)),
]


def table(names: tuple[str, ...] = PLAYERS, events: int = len(RECORD)) -> Table:
    return fold([GameCreated(make_profile("interintent"), names), *RECORD[:events]]).table


TABLE = table()


def read(text: str, speaker: int = 5) -> tuple[Finding, ...]:
    return read_statements(text, speaker, TABLE)


def marks(text: str, speaker: int = 5) -> str:
    """Verdicts by their first letters: r, s, u."""
    return "".join(finding.verdict[0] for finding in read(text, speaker))


# Spoken by seat 5.
SENTENCES = {
    # --- how quests went
    "Quest 1 succeeded.": "s",
    "Quest 1 failed.": "r",
    "Quest 2 failed.": "s",
    "Quest 2 succeeded, so all is well.": "r",
    "The first quest failed.": "r",
    "The second mission failed.": "s",
    "Mission one was a success.": "s",
    "Mission 1 was a failure.": "r",
    "Quest 3 failed.": "r",
    "Quest 5 succeeded.": "r",
    "The last quest failed.": "s",
    "Our previous quest was successful.": "r",
    "Quest 2 failed with one fail card.": "s",
    "Quest 2 failed with two fails.": "r",
    "Quest 1 did not fail.": "s",
    "Quest 2 didn't fail.": "r",
    "We lost quest 1.": "r",
    "We won the first quest and lost the second quest.": "s",
    "We have already lost two quests.": "r",
    "One quest has failed.": "s",
    "No quest has failed so far.": "r",
    "Two quests have succeeded.": "r",
    "The failure of quest 2 weighs on me.": "s",
    "The failure of quest 1 weighs on me.": "r",
    "After the success of the first quest we were all glad.": "s",
    "I am puzzled by quest 2, which failed with Player 3 and Player 4 on it.": "sss",
    "Quest 2 failed with Player 1 on it.": "sr",
    "Quest 2 failed without Player 1.": "ss",
    "Quest 2 failed without me.": "sr",
    "Quest 1 with Player 1 and Player 2 succeeded, and quest 2 with Player 3 failed.": "sssss",
    "Mission 2 (Player 3, Player 4, me) failed, mission 1 (Player 3) was clean.": "sssssr",
    "Mission 2 with Player 1/Player 4 was clean.": "rrs",
    # --- who was on a quest
    "Player 2 was on quest 1.": "s",
    "Player 3 was on quest 1.": "r",
    "Player 1 and Player 2 were on quest 1.": "ss",
    "Player 1, Player 2 and Player 3 were on quest 1.": "ssr",
    "I was on quest 2.": "s",
    "I was on quest 1.": "r",
    "I was not on quest 1.": "s",
    "I wasn't on the second quest.": "r",
    "Player 4 was on quest 2, which failed.": "ss",
    "Player 1 was on quest 2, which failed.": "rs",
    "Player 2 was on quest 1, which failed.": "sr",
    "Player 4 was on quest 4.": "r",
    "Player 2 was on quest 2.": "u",  # only on the team that was rejected
    "Player 2 was not on quest 2.": "s",  # whoever was proposed alone did not go
    "Player 1 was part of the team for quest 2.": "r",
    "Player 1 was on the failed quest.": "r",
    "Player 3 was on the failed quest.": "s",
    "Player 3 was on the failed team.": "s",
    "Player 1 went on the first mission.": "s",
    "Player 5 went on the first mission.": "r",
    "Player 3 has never been on a failed quest.": "r",
    "Player 1 has not been on a failed quest.": "s",
    "No failed quest has Player 1 on it.": "s",
    "No failed quest has Player 4 on it.": "r",
    "I have no failed quest behind me.": "r",
    "I suspect Player 3, who was on the failed quest 2.": "ss",
    "I suspect Player 1, who was on the failed quest 2.": "rs",
    "I like Player 1 and Player 3, who haven't been on a failed quest.": "sr",
    "The only change: Player 4 was also on the failed Mission 2.": "ss",
    "I think Player 4 is evil because he was on quest 2.": "s",
    "I think Player 1 is evil because he was on quest 2.": "r",
    "I believe Player 1 is evil, since Player 1 was on quest 2.": "r",
    "Player 4, you were on quest 2.": "s",
    "Player 1, you were on quest 2.": "r",
    "player 2 was on quest 1 too.": "s",
    "Player2 was on Quest 1!": "s",
    "Seat 3 was on quest 1.": "r",
    "Player 2 was on quest 1 and quest 2.": "su",
    "Player 4 was on quests 1 and 2.": "rs",
    "Remember that Player 3 was on quest 1.": "r",
    "The record is plain: Player 3 was on quest 1.": "r",
    # --- who is on the team now
    "Player 4 is on the team.": "s",
    "Player 3 is on the proposed team.": "r",
    "I am on the team.": "r",
    "I am not on the team.": "s",
    "Player 1 isn't on this team.": "r",
    # --- who led
    "Player 1 led quest 1.": "s",
    "Player 2 led quest 1.": "r",
    "Player 2 was the leader of quest 2.": "s",  # of its first attempt
    "Player 5 was the leader in round 2.": "r",
    "I led the team for quest 2.": "r",
    "Player 3 chose the team for quest 2.": "s",
    "Player 4 is the leader.": "s",
    "Player 1 is the current leader.": "r",
    "I am the leader!": "r",
    "Our leader Player 4 has chosen well.": "s",
    "The current leader Player 2 has chosen well.": "r",
    "Player 3 led when the team that failed quest 2 was chosen.": "ss",
    "Player 4 led quest 5.": "r",
    "Player 4 led quest 3.": "s",  # now
    "Player 3 led quest 3.": "r",
    # --- who voted how
    "Player 4 voted against the team on quest 1.": "s",
    "Player 1 voted against the team on quest 1.": "r",
    "I voted for the team on quest 1.": "r",
    "I voted no on quest 1.": "s",
    "Player 2 approved the team for quest 2.": "s",
    "Player 5 approved the team for quest 2.": "r",
    "Player 4 rejected the team on quest 2.": "s",  # the first of two
    "Player 3 rejected the team on quest 2.": "r",
    "Player 4 rejected the team on quest 2, attempt 2.": "r",
    "Player 4 rejected the team on quest 2, attempt 1.": "s",
    "Player 1 did not vote for the last team.": "s",
    "Player 2 voted against the last team.": "r",
    "I voted against Player 3, Player 4 and Player 5 on quest 2.": "s",
    "I voted for Player 3, Player 4 and Player 5 on quest 2 and stand by it.": "r",
    "Player 3 turned down Player 1 and Player 2 on quest 1.": "r",
    "Player 4 voted against Player 2 and Player 3 on quest 2.": "s",
    "I voted against the team that failed quest 2.": "ss",
    "Player 2 voted against the team that failed quest 2.": "rs",
    "Player 5 voted yes on quest 3.": "r",
    "Player 1 voted against Player 5 on quest 1.": "u",  # no such team
    "Player 3, you rejected Player 1 and Player 2 on quest 1, and I still wait for a reason.": "r",
    "I am suspicious of Player 2 because Player 2 voted for the team that failed quest 2.": "ss",
    # --- said in a way that no rule reads
    "Player 2, well known for it, somehow led us when the vote on that team went wrong for all.": "",
    "The team Player 3 had in mind was rejected in the end.": "u",
    "Those whom Player 3 led failed the mission.": "u",
    # --- questions
    "Was Player 3 on quest 1?": "",
    "Player 3 was on quest 1?": "",
    "Player 1, why did you vote against the team on quest 1?": "",
    "Player 1, you rejected the team on quest 1; what did you see there?": "",
    "Who was on quest 1?": "",
    "Did quest 1 fail, or not?": "",
    # --- conditions and suppositions
    "If quest 1 failed, then Player 1 is evil.": "",
    "If Player 3 was on quest 1, which failed, he must explain it.": "",
    "Unless quest 1 failed, all is well.": "",
    "Suppose Player 3 was on quest 1.": "",
    "Imagine that quest 1 failed.": "",
    "Had quest 1 failed, we would know more.": "",
    "Assuming quest 1 failed, Player 2 is evil.": "",
    "I would vote no if quest 1 had failed.": "",
    "Whether quest 1 failed does not matter.": "",
    "Quest 1 might have failed.": "",
    "Quest 1 could have failed.": "",
    "Player 3 should have been on quest 1.": "",
    "Otherwise quest 1 failed for nothing.": "",
    # --- guesses and wishes
    "Maybe Player 3 was on quest 1.": "",
    "Perhaps quest 1 failed.": "",
    "I think Player 3 was on quest 1.": "",
    "I believe quest 1 failed.": "",
    "Player 3 was on quest 1, I think.": "",
    "Player 3 was on quest 1, right?": "",
    "It seems that quest 1 failed.": "",
    "I wish Player 3 was on quest 1.": "",
    "I wish quest 1 had failed.": "",
    "I hope that quest 3 succeeded.": "",
    "It is important that Player 3 is on the team.": "",
    "I want to make sure that Player 3 is on the team.": "",
    "I would be calmer when Player 3 is on the team.": "",
    "As long as Player 3 is on the team, we win.": "",
    "Let us wait until quest 3 succeeded.": "",
    "Either Player 3 was on quest 1 or Player 4 was.": "",
    "Player 3 or Player 4 was on quest 1.": "",
    "Player 3 was on quest 1 or 2.": "",
    # --- what is to come
    "Quest 3 will fail.": "",
    "Quest 3 will succeed with Player 4.": "",
    "I will vote against the team on quest 3.": "",
    "I am going to vote for the team on quest 1.": "",
    "Player 5 will be on quest 4.": "",
    "The success of quest 3 depends on us.": "",
    "We must avoid the failure of quest 3.": "",
    "I am the next leader.": "",
    "Player 3 should be on the team for quest 3.": "",
    "I vote for this team.": "",
    # --- what others are said to have said
    "Player 2 said that quest 1 failed.": "",
    "Player 2 claims Player 3 was on quest 1.": "",
    'Player 2 told us: "quest 1 failed".': "",
    "“Quest 1 failed” was what Player 3 threw at us.": "",
    "According to Player 2 quest 1 failed.": "",
    "Player 2 says he voted against the team on quest 1.": "",
    "Player 3 accused me because he thought I was on quest 1.": "",
    "You heard it: quest 1 failed.": "",
    # --- denials and quantifiers
    "It is not true that quest 1 failed.": "",
    "It is wrong that Player 3 was on quest 1.": "",
    "I don't think Player 3 was on quest 1.": "",
    "I doubt that Player 3 was on quest 1.": "",
    "Nobody doubts that quest 1 failed.": "",
    "Neither Player 3 nor Player 4 was on quest 1.": "",
    "Everyone but Player 3 was on quest 1.": "u",
    "It was not Player 3 who was on quest 1.": "",
    "Quest 1 almost failed.": "",
    "Quest 1 failed to convince me.": "",
    "The proposal for quest 1 failed.": "u",
    "The vote on quest 1 failed.": "u",
    "No quest has failed with Player 1 on it.": "",
    "Player 2 was not on quest 1 for nothing.": "",
    "Quest 1 did not fail because of me.": "",
    "Quest 2 succeeded in splitting us.": "u",
    "Quest 1 failed us all.": "u",
    "I never voted for a failed team.": "",
    # --- other meanings
    "Player 3 was on quest 1 in my plans.": "",
    "In the last game quest 1 failed.": "",
    "Player 2 is the leader I trust most.": "",
    "Player 1 and I were on quest 1 and quest 2 respectively.": "",
    "Player 4, Player 1 was on quest 2.": "u",
    "Player 5 voted for caution.": "",
    "Player 4 voted for the second team on quest 2.": "u",
    "Player 2 voted against Player 4's team on quest 2.": "u",
    "Player 2 voted against Player 3's team on quest 2.": "r",
    "Player 5 voted against trusting Player 2 on quest 1.": "u",
    "Player 5 is on the team in spirit.": "",
    "The second quest succeeded, didn't it.": "",
    "Player 3 was on quest 1... or so it felt.": "",
    "In 3 of 5 games quest 1 failed.": "",
    "Quest 1 failed votes are rare.": "u",
    "Player 2 rejected himself from quest 2.": "u",
    "Player 4 voted no when I led.": "s",
    "Player 3 voted no when I led.": "r",
    "Player 4, the leader, was on quest 2.": "u",
    "Player 2 led the charge against quest 2.": "u",
    "Player 3 was on edge in quest 1.": "u",
    "Quest 10 failed.": "u",
    "Player 12 was on quest 1.": "u",
    # --- names inside something longer
    "The seat beside Player 3 was on quest 1.": "u",
    "A friend of Player 3 led quest 1.": "u",
    "Player 3's friend was on quest 1.": "u",
    # --- nothing about the record
    "I trust Player 3.": "",
    "Player 3 is on the side of evil.": "",
    "Let us send Player 1 and Player 4 on quest 3.": "",
    "I can support Player 1 and Player 4 for quest 3.": "",
    "Player 3 rejected my idea.": "",
    "Quest 3 is what counts.": "",
    "I am Percival, and I ask you to follow me on quest 3.": "",
    "Player 4, put me on quest 3.": "",
    "": "",
    "...": "",
}


# True, or no claim of seat 5.
OF_OTHERS = """\
Player 1 keeps repeating that quest 1 failed.
Player 1 keeps on repeating: quest 1 failed.
Player 1 hinted that Player 3 was on quest 1.
Player 1 hinted that Player 3, who was on quest 1, is evil.
Player 1 hints that he and Player 3 were on quest 1.
Player 1 maintains quest 1 failed.
Player 1 is convinced that Player 3 was on quest 1.
You convinced them that quest 1 failed.
Player 1 tried to sell us that quest 2 succeeded because Player 3 was on quest 1.
Player 1 tried to convince me that Player 3 was on quest 1 and that quest 1 failed.
Player 1 swears that he voted against the team on quest 1.
It was put about that quest 1 failed.
I dreamt that quest 1 failed.
Player 1 acts like quest 1 failed.
Player 1 talks like we lost quest 1.
Player 1 behaves like two quests have failed.
Player 1 keeps going on about the failure of quest 1.
By Player 1's account quest 1 failed.
By your logic quest 1 failed.
By that logic, two quests have succeeded.
In your story quest 1 failed.
In Player 1's version, Player 3 was on quest 1.
Player 1's version: quest 1 failed.
Player 1's view is that quest 1 failed.
Player 1 lives in a world in which quest 1 failed.
In another world quest 1 failed.
The idea that quest 1 failed is absurd.
The theory that I was on quest 1 has no basis.
That quest 1 failed is absurd.
For all I care quest 1 failed.
To Player 1, quest 1 failed.
Per Player 1, quest 1 failed.
As Player 1 tells it, quest 1 failed.
Quest 1 failed in Player 1's mind only.
Quest 1 failed only in your version of events.
Quest 1 failed, in the words of Player 1.
Quest 1 failed, thinks Player 1.
Quest 1 failed, Player 1 keeps repeating.
Quest 1 failed: that is your theory, not mine.
The failure of quest 1 exists in Player 1's mind only.
Player 1: quest 1 failed. That is what was said, and it is wrong.
**Player 2**: I led quest 2 and quest 1 failed.
Player 3 was on quest 1. That is what Player 1 said.
Quest 1 failed. So says Player 1.
Quest 1 failed. Nonsense!
Given quest 3 failed, evil would need one.
Given that quest 3 failed, Player 4 would be evil.
Granted quest 4 failed, evil would have won.""".splitlines()


@pytest.mark.parametrize("text", OF_OTHERS)
def test_nobody_is_accused_of_what_others_are_said_to_say_or_think(text: str) -> None:
    assert "r" not in marks(text), read(text)


FALSE = """\
I see that quest 1 failed.
I see quest 1 failed.
Remember that quest 1 failed.
Note that we have already lost two quests.
It is clear that quest 1 failed.
It is a fact that quest 1 failed.
The truth is that quest 1 failed.
My concern is that Player 3 was on quest 1.
Everybody knows that quest 1 failed.
Everybody can see it: quest 1 failed.
The record shows that Player 3 was on quest 1.
As Player 3 knows, quest 1 failed.
Given that quest 1 failed, I do not trust Player 1.
After quest 1 failed I lost hope.
After quest 4 failed I lost hope.
I trust Player 1 less now that quest 1 failed.
I think that Player 3, who was on quest 1, is loyal.
I rejected that team, and quest 1 failed.
I like the team that Player 4 chose, and quest 1 failed.
Player 1 hinted at something, but quest 1 failed.
In my view Player 1 is evil, since quest 1 failed.
In other words, quest 1 failed.
Sadly quest 1 failed.
(1) Quest 1 failed, and (2) quest 2 failed.
Player 5: quest 1 failed.
Quest 1 failed. That is why I vote no.
Quest 1 failed. It is wrong to trust Player 1.""".splitlines()


@pytest.mark.parametrize("text", FALSE)
def test_a_false_statement_is_refuted_however_it_is_introduced(text: str) -> None:
    assert "r" in marks(text), read(text)


def test_there_are_enough_sentences_of_either_kind() -> None:
    assert len(SENTENCES) >= 120
    verdicts = Counter("".join(SENTENCES.values()))
    assert min(verdicts["r"], verdicts["s"]) >= 40
    assert sum(not mark for mark in SENTENCES.values()) >= 60


@pytest.mark.parametrize(("sentence", "expected"), SENTENCES.items())
def test_a_sentence_is_read_as_it_is_meant(sentence: str, expected: str) -> None:
    assert marks(sentence) == expected, read(sentence)


@pytest.mark.parametrize(
    ("sentence", "facts"),
    [
        ("Quest 2 failed with two fails.", [QuestWent(2, False, 2)]),
        ("Player 3 was on quest 1.", [OnQuest(3, (1,), True)]),
        ("No failed quest has Player 4 on it.", [OnQuest(4, (2,), False, "failed")]),
        ("Player 3 is on the team.", [OnTeam(3, True)]),
        ("Player 2 led quest 1.", [Led(2, (1,))]),
        ("Player 1 is the leader.", [Led(1, None)]),
        ("Two quests have succeeded.", [QuestsCounted(2, True)]),
        ("I voted for Player 3 and Player 4 on quest 2, attempt 2.", [Voted(5, True, (2,), 2, (3, 4))]),
        ("Player 2 voted against the last team.", [Voted(2, False, last=True)]),
    ],
)
def test_a_finding_names_the_fact_it_claims(sentence: str, facts: list[object]) -> None:
    assert [finding.fact for finding in read(sentence)] == facts


def test_a_finding_shows_its_place_and_what_the_record_says() -> None:
    text = "I am worried, because Player 3 was on quest 1; Player 1 voted against the team on quest 1."
    one, other = read(text)
    assert (text[one.start : one.end], one.record) == (
        "Player 3 was on quest 1",
        "seat 3 was not on quest 1",
    )
    assert text[other.start : other.end] == "Player 1 voted against the team on quest 1"
    assert other.record == "seat 1 voted: 1.1 yes"


def test_places_are_those_of_the_speech_whatever_characters_it_holds() -> None:
    text = "İstanbul 🎲 \ue003 said’nt: ﬁne. Player 3 was on quest 1."
    (finding,) = read(text)
    assert text[finding.start : finding.end] == "Player 3 was on quest 1"


def test_a_flood_of_words_is_left_unread() -> None:
    assert marks("I, " * 1300 + "and Player 2 were on quest 1.") == "u"
    assert marks("Player 3 was on quest 1. " + "I " * 1900) == "r"


def test_names_are_no_words() -> None:
    named = table(("Will", "May", "Ann", "Mark", "If Only"))
    for sentence, expected in {
        "Will was on quest 1.": "s",
        "Ann was on quest 1.": "r",
        "May and Ann were on quest 1.": "sr",
        "If Only was on quest 1.": "r",
        "Annabel was on quest 1.": "u",
        "Player 3 was on quest 1.": "u",  # nobody of that name
    }.items():
        assert "".join(one.verdict[0] for one in read_statements(sentence, 4, named)) == expected, sentence


def test_a_name_that_two_seats_bear_means_nobody() -> None:
    twins = table(("Ann", "Ann", "Bo", "Cy", "Di"))
    assert [one.verdict for one in read_statements("Ann was on quest 2.", 4, twins)] == ["unparsed"]


def test_before_anything_has_happened_there_is_nothing_to_have_happened() -> None:
    start = table(events=2)
    for sentence in (
        "The last quest failed.",
        "Player 2 was on the failed quest.",
        "Player 2 voted against the last team.",
        "Quest 1 failed.",
    ):
        assert [one.verdict for one in read_statements(sentence, 1, start)] == ["refuted"], sentence
    assert read_statements("No quest has failed.", 1, start)[0].verdict == "supported"


def test_what_the_record_does_not_know_is_left_open() -> None:
    hidden = [*RECORD[:2], VotesRevealed((None,) * 5, True, False), QuestResolved(1, (1, 2), None, False)]
    state = fold([GameCreated(make_profile("interintent"), PLAYERS), *hidden])
    for sentence in ("Player 1 voted against the team on quest 1.", "Quest 1 failed with two fails."):
        assert [one.verdict for one in read_statements(sentence, 5, state.table)] == ["unparsed"], sentence


def test_whoever_was_on_a_team_that_its_leader_changed_may_be_said_to_have_been_on_the_quest() -> None:
    changed = [
        *RECORD[:5],
        TeamProposed(2, (2, 3, 4)),
        TeamConfirmed(2, (3, 4, 5), True),
        VotesRevealed(ballots("345"), True, False),
        QuestResolved(2, (3, 4, 5), 0, True),
        ProposalOpened(3, 1, 3),
    ]
    now = fold([GameCreated(make_profile("interintent"), PLAYERS), *changed]).table
    for seat, truth in ((1, "refuted"), (2, "undecided"), (3, "supported"), (5, "supported")):
        assert OnQuest(seat, (2,), True).against(now).truth == truth, seat


def test_that_a_seat_did_not_lead_is_open_where_it_led_one_of_several_proposals() -> None:
    for seat, truth in ((1, "supported"), (2, "undecided"), (3, "undecided")):
        assert Led(seat, (2,), led=False).against(TABLE).truth == truth, seat
    assert Led(1, (1,), led=False).against(TABLE).truth == "refuted"


def test_a_vote_against_a_team_means_that_team_and_no_other_team_of_its_leader() -> None:
    # Seat 1 led seats 1 and 2 on quest 1; seats 1 and 3 were never voted on.
    assert Voted(1, approve=False, rounds=(1,), team=(1, 3)).against(TABLE).truth == "undecided"
    assert Voted(1, approve=False, rounds=(1,), team=(1, 2)).against(TABLE).truth == "refuted"
    assert Voted(1, approve=False, rounds=(1,), team=(1,)).against(TABLE).truth == "refuted"


def test_the_last_team_may_be_the_last_one_that_went_although_it_was_rejected() -> None:
    forced = [
        *RECORD[:2],
        VotesRevealed(ballots("12"), False, True),
        QuestResolved(1, (1, 2), 0, True),
        *RECORD[4:6],
        VotesRevealed(ballots("3"), False, False),
    ]
    now = fold([GameCreated(make_profile("interintent"), PLAYERS), *forced]).table
    # Seats 1 and 2 approved the team that went, and seat 3 the one after it; seat 4 approved neither.
    for seat, truth in ((1, "supported"), (2, "supported"), (3, "supported"), (4, "refuted")):
        assert Voted(seat, approve=True, last=True).against(now).truth == truth, seat


def test_a_default_passes_over_its_own_speech_alone() -> None:
    log = [
        GameCreated(make_profile("interintent"), PLAYERS),
        *RECORD,
        ActionDefaulted(4, "2.2.vote.4", "deadline"),
        speech(4, "Quest 1 failed."),
        ActionDefaulted(5, "3.1.speak.5", "deadline"),
        speech(5, "Quest 1 failed."),
    ]
    assert [said.seat for said, _ in statements_of(log)] == [4]


def speech(seat: int, text: str) -> UtteranceMade:
    return UtteranceMade(seat, 3, 1, 0, "discuss", text)


def test_who_speaks_beside_the_proposal_of_another_answers_no_request_for_a_team() -> None:
    # In a foreign record anybody may speak at any time.
    proposed = TeamProposed(4, (1, 4))
    assert answered_by(speech(4, "So be it."), proposed) == "3.1.propose_team.4"
    assert answered_by(speech(5, "No!"), proposed) == "3.1.speak.5"
    assert answered_by(speech(4, "So be it."), None) == "3.1.speak.4"


def test_what_the_rules_could_not_decide_is_neither_refuted_nor_supported() -> None:
    log = [
        GameCreated(make_profile("interintent"), PLAYERS),
        *RECORD,
        speech(4, "Quest 1 failed. Player 2 was on quest 2. Quest 2 failed."),
    ]
    counts = Hallucinations()
    counts.add(statements_of(log), (Role.SERVANT,) * 5)
    assert counts.statements() == Rate(1, 2)
    assert counts.unparsed() == 1


def test_speeches_are_counted_by_side_and_role() -> None:
    log: list[Event] = [
        GameCreated(make_profile("interintent"), PLAYERS),
        *RECORD,
        speech(4, "Quest 1 failed. Quest 2 succeeded."),
        speech(5, "Quest 2 failed. Player 3 was on quest 1."),
        speech(1, "Hello."),
        ActionDefaulted(2, "3.1.speak.2", "deadline"),
        speech(2, ""),
    ]
    roles = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.MORGANA, Role.ASSASSIN)
    counts = Hallucinations()
    counts.add(statements_of(log), roles)
    assert counts.speeches() == Rate(2, 3)
    assert counts.speeches(Side.EVIL) == Rate(2, 2)
    assert counts.speeches(Side.LOYAL) == Rate(0, 1)
    assert counts.statements(Role.MORGANA) == Rate(2, 2)
    assert counts.statements(Role.ASSASSIN) == Rate(1, 2)
    assert counts.per_speech(Side.EVIL) == 1.5
    assert counts.per_speech(Role.SERVANT) is None
    assert counts.unparsed() == 0
    assert counts.roles == (Role.MERLIN, Role.ASSASSIN, Role.MORGANA)
    shown = counts.as_json()
    assert shown["evil"]["statements"] == {"num": 3, "den": 4, "rate": 0.75}
    assert list(shown) == ["all", "loyal", "evil", "merlin", "assassin", "morgana"]
    with pytest.raises(Unmeasurable):
        counts.add(statements_of(log), ())


KINDS = [
    (make_profile("interintent", 5), 6),
    (make_profile("official", 5), 2),
    (
        make_profile(
            "official", 8, rules={"discussion": "after_proposal", "reconsideration": True, "summaries": True}
        ),
        1,
    ),
    (make_profile("interintent", 10), 1),
]
"""Profiles, and how many of each ten games are theirs."""


@pytest.mark.parametrize(("profile", "share"), KINDS, ids=lambda one: getattr(one, "name", str(one)))
def test_scripted_seats_say_true_things(profile: Profile, share: int) -> None:
    games = GAMES * share // 10
    verdicts: Counter[str] = Counter()
    for seed in range(games):
        for said, findings in statements_of(played(profile, seed).log):
            verdicts.update(finding.verdict for finding in findings)
            wrong = [finding for finding in findings if finding.verdict == "refuted"]
            assert not wrong, f"seed {seed}, quest {said.round}, seat {said.seat}: {said.text!r}: {wrong}"
    assert verdicts["supported"] > 20 * games


@needs_real_games
def test_models_that_played_real_games_are_not_wronged() -> None:
    # They state much about the record, and what they state is so: a refusal here would wrong them.
    verdicts = Counter(
        finding.verdict
        for path in REAL_GAMES
        for _, findings in statements_of(replay(read_record(load(path.stem))).log)
        for finding in findings
    )
    assert verdicts["refuted"] == 0
    assert verdicts["supported"] >= 90


# --- white space --------------------------------------------------------------------------------------

_RUNS = ("  ", "\t\t", " \t ", "   \u2028 ", "\r  ")


def _spread(text: str, rng: Random) -> str:
    """The same words with runs of white space between them."""
    return "".join(rng.choice(_RUNS) if c == " " and rng.random() < 0.7 else c for c in text)


@pytest.mark.parametrize("seed", range(8))
def test_runs_of_white_space_change_neither_what_is_read_nor_where_it_stands(seed: int) -> None:
    rng = Random(seed)
    read = 0
    for speech in speeches("s", scripted_log(seed)):
        table = fold(scripted_log(seed)[: speech.index]).table
        # A name is a name as it is written.
        names = {name: name.replace(" ", "_") for name in table.names}
        text = speech.text
        for name, joined in names.items():
            text = text.replace(name, joined)
        plain = read_statements(text, speech.seat, table)
        spread = _spread(text, rng)
        found = read_statements(spread, speech.seat, table)
        read += len(found)
        assert [(one.fact, one.verdict, one.record) for one in found] == [
            (one.fact, one.verdict, one.record) for one in plain
        ]
        assert [" ".join(spread[one.start : one.end].split()) for one in found] == [
            text[one.start : one.end] for one in plain
        ]
    assert read > 10


@pytest.mark.parametrize(
    "blank", sorted(set(filter(str.isspace, map(chr, range(0x3001)))) - set(" \n")), ids=ascii
)
def test_every_kind_of_blank_is_read_as_a_space(blank: str) -> None:
    for sentence in (*SENTENCES, *FALSE, *OF_OTHERS):
        assert read(sentence.replace(" ", blank)) == read(sentence), sentence


@pytest.mark.parametrize("run", [" ", "\t", " \t"])
@pytest.mark.parametrize("before", ["I", "Quest 1", "I voted for", "Player 3", "Player 3 and"])
def test_a_long_run_of_white_space_costs_no_more_than_its_length(before: str, run: str) -> None:
    """Twenty-five times the white space: less than twenty-five times the time, where a pattern that tries it
    from each of its characters on takes hundreds of times as long.
    """
    table = fold(scripted_log(1)).table

    def cost(length: int) -> float:
        text = f"{before}{(run * length)[:length]}x, so the team was led, voted and failed. " * 4
        times = []
        for _ in range(7):
            begun = process_time()
            read_statements(text, 1, table)
            times.append(process_time() - begun)
        return min(times)

    assert cost(500) < 25 * cost(20)
