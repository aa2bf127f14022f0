"""What a context holds: the seat's own view up to the point, and nothing later."""

from dataclasses import replace
from typing import Any

import pytest

from engine.actions import CastVote
from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    CardPlayed,
    EvilConferred,
    ProposalOpened,
    QuestResolved,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
)
from engine.profile import make_profile
from engine.rules import Request
from engine.state import State, fold
from engine.terms import Role
from engine.view import project
from evaluators.ground.contexts import Context, Entry, entries_of, game_lines, line_of, possible_roles
from evaluators.ground.items import Item, Variant, items
from evaluators.ground.turns import Game, read_game
from tests.engine.games import random_game
from tests.evaluators.talk import by_hand, chose, log_by_hand, scripted, scripted_log

HEARD = "convince_leader"


def only(game: Game, variant: Variant, request_id: str, dimension: Any = "guessing") -> Item:
    return next(item for item in items(game, dimension, variant) if item.request_id == request_id)


def talk(context: Context) -> list[str]:
    return [entry.text for entry in context.entries if entry.event == "says"]


def with_log(game: Game, log: Any) -> Game:
    """The same game as far as contexts look at it, over another log."""
    return replace(game, log=log, records={})


@pytest.mark.parametrize("number", range(3))
def test_a_context_is_cut_from_the_seats_own_stream_and_ends_with_the_utterance(number: int) -> None:
    log = list(scripted_log(number))
    game = scripted(number)
    for item, turn in zip(items(game, "guessing", Variant()), game.turns, strict=True):
        assert item.reader is not None
        seen = project(log[: turn.utterance + 1], item.reader)
        alone = Context(with_log(game, seen), item.reader, len(seen), round=item.round, attempt=item.attempt)
        assert item.context == alone
        assert item.context.text == alone.text
        last = item.context.entries[-1]
        assert (last.event, last.seat, last.text) == ("says", item.speaker, item.speech)
        assert fold(seen).table == fold(log[: turn.utterance + 1]).table


def test_what_comes_later_changes_no_context() -> None:
    game = scripted(1)
    for item, turn in zip(items(game, "guessing", Variant()), game.turns, strict=True):
        cut = with_log(game, game.log[: turn.utterance + 1])
        again = next(one for one in items(cut, "guessing", Variant()) if one.id == item.id)
        assert item.context.text == again.context.text


def test_a_first_selection_is_judged_before_the_proposal_that_it_led_to() -> None:
    game = by_hand({"1.1.propose_team.1": chose(1, HEARD)})
    own = only(game, Variant(), "1.1.propose_team.1", "selection").context
    assert [entry.event for entry in own.entries] == ["leads"]
    heard = only(game, Variant(reader=2), "1.1.propose_team.1").context
    assert [entry.event for entry in heard.entries] == ["leads", "proposes", "says"]


def test_the_rounds_speeches_are_there_and_earlier_rounds_are_summed_up() -> None:
    game = by_hand({"2.1.speak.4": chose(4, HEARD)})
    context = only(game, Variant(reader=3), "2.1.speak.4").context
    assert talk(context) == [
        "seat 2 opens round 2",
        "seat 3 speaks in round 2",
        "seat 4 speaks in round 2",
    ]
    summaries = [entry for entry in context.entries if entry.event == "summary"]
    assert [(one.seat, one.about, one.text) for one in summaries] == [(3, "result", "seat 3 sums up round 1")]
    assert Entry(1, 1, "quest", 0, (1, 2), about="succeeded") in context.entries
    assert 'You summed up round 1, attempt 1, "result": "seat 3 sums up round 1"' in context.text


def test_without_summaries_the_earlier_speeches_stay() -> None:
    game = by_hand({"2.1.speak.4": chose(4, HEARD)}, summaries=False)
    assert "seat 5 speaks in round 1" in talk(only(game, Variant(reader=3), "2.1.speak.4").context)


def test_this_round_only_leaves_out_what_was_before() -> None:
    game = by_hand({"2.1.speak.4": chose(4, HEARD)})
    context = only(game, Variant(reader=3, history="round"), "2.1.speak.4").context
    assert {entry.round for entry in context.entries} == {2}
    assert "(Rounds 1 to 1 are not shown.)" in context.text
    first = by_hand({"1.1.speak.4": chose(4, HEARD)})
    assert "not shown" not in only(first, Variant(history="round"), "1.1.speak.4").context.text


def test_a_rejected_attempt_of_the_round_stays_with_its_speeches() -> None:
    def answer(game: State, request: Request) -> Any:
        return CastVote(False) if request.id.startswith("1.1.vote") else None

    game = read_game("g", log_by_hand({"1.2.speak.4": chose(4, HEARD)}, answer))
    context = only(game, Variant(reader=3, history="round"), "1.2.speak.4").context
    assert "seat 5 speaks in round 1" in talk(context)
    assert "Votes: for nobody; against 1 2 3 4 5. The team is rejected." in context.text


def test_a_seat_knows_its_own_card_and_nobody_elses() -> None:
    game = by_hand({"2.1.speak.4": chose(4, HEARD)})  # seats 1 and 2 went on quest 1
    cards = {}
    for reader in (1, 2, 3):
        context = only(game, Variant(reader=reader), "2.1.speak.4").context
        cards[reader] = [entry for entry in context.entries if entry.event == "card"]
    assert [len(cards[reader]) for reader in (1, 2, 3)] == [1, 1, 0]
    assert cards[2][0].seat == 2


def test_each_event_is_an_entry_of_its_attempt() -> None:
    told: list[tuple[Any, list[Entry]]] = [
        (ProposalOpened(2, 3, 4), [Entry(2, 3, "leads", 4)]),
        (TeamProposed(4, (1, 4)), [Entry(2, 3, "proposes", 4, (1, 4))]),
        (UtteranceMade(4, 2, 3, 0, "discuss", "so"), [Entry(2, 3, "says", 4, text="so")]),
        (UtteranceMade(4, 2, 3, 0, "reconsider", "so"), [Entry(2, 3, "answers", 4, text="so")]),
        (TeamConfirmed(4, (1, 4), True), [Entry(2, 3, "changes", 4, (1, 4))]),
        (TeamConfirmed(4, (1, 4), False), [Entry(2, 3, "keeps", 4, (1, 4))]),
        (
            VotesRevealed((True, False, None, True, False), False, True),
            [Entry(2, 3, "votes", 0, (1, 4), (2, 5), about="rejected, goes all the same")],
        ),
        (
            VotesRevealed((True,) * 5, True, False),
            [Entry(2, 3, "votes", 0, (1, 2, 3, 4, 5), (), about="approved")],
        ),
        (QuestResolved(2, (1, 4), 1, False), [Entry(2, 3, "quest", 0, (1, 4), number=1, about="failed")]),
        (
            QuestResolved(2, (1, 4), None, True),
            [Entry(2, 3, "quest", 0, (1, 4), number=-1, about="succeeded")],
        ),
        (CardPlayed(4, True), [Entry(2, 3, "card", 4, about="success")]),
        (CardPlayed(4, False), [Entry(2, 3, "card", 4, about="failure")]),
        (
            RoundSummarised(4, 2, 3, (("who", "2"), ("why", "so"))),
            [
                Entry(2, 3, "summary", 4, about="who", text="2"),
                Entry(2, 3, "summary", 4, about="why", text="so"),
            ],
        ),
        (AssassinationMade(4, 2, True), [Entry(2, 3, "shot", 4, (2,), about="merlin")]),
        (AssassinationMade(4, None, False), [Entry(2, 3, "shot", 4, (), about="not merlin")]),
        (AssassinationDeclined(), [Entry(2, 3, "holds_fire", 0)]),
        (VoteCast(4, True), []),
    ]
    for event, entries in told:
        assert list(entries_of(event, 2, 3)) == entries, event


@pytest.mark.parametrize(
    ("reader", "knows"),
    [
        (1, "You were shown: 4 5. They are evil; you do not know which role each holds."),
        (2, "You were shown: 1 5. One is merlin, the other morgana; you do not know which."),
        (3, "You were shown no other seat."),
        (4, "You were shown: 5. It is evil like you.\n"),
    ],
)
def test_a_context_tells_what_its_seat_was_shown(reader: int, knows: str) -> None:
    speaker = 5 if reader != 5 else 4
    game = by_hand({f"1.1.speak.{speaker}": chose(speaker, HEARD)})
    assert knows in only(game, Variant(reader=reader), f"1.1.speak.{speaker}").context.text


def test_possible_roles_follow_what_was_shown() -> None:
    game = scripted(2, 7)
    for reader in range(1, 8):
        for other in range(1, 8):
            if other != reader:
                assert game.role(other) in possible_roles(game, reader, other)
    five = by_hand({})
    assert possible_roles(five, 1, 4) == (Role.ASSASSIN, Role.MORGANA)
    assert possible_roles(five, 3, 4) == (Role.MERLIN, Role.PERCIVAL, Role.ASSASSIN, Role.MORGANA)


# --- in words -----------------------------------------------------------------------------------------

TEXT = """\
=== THE GAME ===
Avalon at a table of 5 seats, each with a hidden role. Loyal roles in this deal: merlin, percival, \
servant. Evil roles: assassin, morgana.
Each round sends a team on one quest; the teams of quests 1 to 5 have 2, 3, 2, 3, 3 seats. The leader \
proposes a team with the first speech; then the others speak once each. The leader may then change the team \
once and says why. All vote at once; with 3 of 5 votes for it, the team goes and plays its cards face down. \
Loyal seats play success, evil ones success or failure; one failure card fails a quest.
After a rejection the next leader proposes. A round has at most 2 proposals; the last team goes whatever the \
vote says.
Three failed quests win for evil. After three successful ones an evil seat shoots: if it hits merlin evil \
wins, else loyal.
merlin was shown the evil seats, without their roles.
percival was shown merlin and morgana, without telling which is which.
The evil seats were shown each other.

=== YOUR SEAT ===
You are seat 4. Your role is assassin, your side is evil.
You were shown: 5. It is evil like you.
You hold the assassination.

=== RECORD ===
Round 1, attempt 1: seat 1 leads.
Seat 1 proposes the team 1 2.
Seat 1 keeps the team 1 2.
Votes: for 1 2 3 4 5; against nobody. The team is approved.
Quest 1 with the team 1 2 succeeded; failure cards: 0.
You summed up round 1, attempt 1, "result": "seat 4 sums up round 1"
Round 2, attempt 1: seat 2 leads.
Seat 2 proposes the team 1 2 3.
Seat 2 says "seat 2 opens round 2"
Seat 3 says "seat 3 speaks in round 2"
=== END OF RECORD ==="""


def test_a_context_reads_like_this() -> None:
    game = by_hand({"2.1.speak.3": chose(3, HEARD)})
    assert only(game, Variant(reader=4), "2.1.speak.3").context.text == TEXT


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (Entry(2, 3, "leads", 4), "Round 2, attempt 3: seat 4 leads."),
        (Entry(1, 1, "proposes", 4, (1, 4)), "Seat 4 proposes the team 1 4."),
        (Entry(1, 1, "says", 4, text="so"), 'Seat 4 says "so"'),
        (Entry(1, 1, "says", 4), "Seat 4 says nothing."),
        (Entry(1, 1, "answers", 4, text="so"), 'Seat 4 says about the final team "so"'),
        (Entry(1, 1, "keeps", 4, (1, 4)), "Seat 4 keeps the team 1 4."),
        (Entry(1, 1, "changes", 4, (1, 4)), "Seat 4 changes the team to 1 4."),
        (
            Entry(1, 1, "votes", 0, (1,), (2, 3), about="rejected"),
            "Votes: for 1; against 2 3. The team is rejected.",
        ),
        (Entry(1, 1, "goes", 0, (1, 4)), "The team that went in the end: 1 4."),
        (
            Entry(3, 1, "quest", 0, (1, 4), number=2, about="failed"),
            "Quest 3 with the team 1 4 failed; failure cards: 2.",
        ),
        (
            Entry(3, 1, "quest", 0, (1, 4), number=-1, about="failed"),
            "Quest 3 with the team 1 4 failed; failure cards: not recorded.",
        ),
        (Entry(3, 1, "quest", 0, number=-1, about="failed"), "Quest 3 failed: nobody went."),
        (Entry(1, 1, "card", 4, about="failure"), "You played failure."),
        (Entry(1, 2, "summary", 4, about="q", text="a"), 'You summed up round 1, attempt 2, "q": "a"'),
        (Entry(5, 1, "shot", 4, (1,), about="merlin"), "Seat 4 shot seat 1: merlin."),
        (Entry(5, 1, "shot", 4, about="not merlin"), "Seat 4 shot a seat not recorded: not merlin."),
        (Entry(5, 1, "holds_fire", 0), "The shooter held fire."),
    ],
)
def test_each_line_of_a_record_by_its_kind(entry: Entry, line: str) -> None:
    assert line_of(entry) == line


def test_the_rules_that_were_played_by_are_told() -> None:
    def text(*roles: str, names: tuple[str, ...] = (), **rules: Any) -> str:
        profile = make_profile("official", len(roles), roles=list(map(Role, roles)), rules=rules)
        return "\n".join(game_lines(profile, names))

    ten = text(
        *("merlin", "servant", "servant", "servant", "servant", "servant"),
        *("assassin", "mordred", "oberon", "minion"),
        on_max_rejections="quest_fails",
    )
    assert "after the last rejection the quest fails" in ten
    assert "merlin was shown the evil seats, save mordred, without their roles." in ten
    assert "shown each other; oberon sees none of them and is seen by none." in ten
    assert "percival" not in ten
    assert "called" not in ten
    assert "All speak once, the leader first; then the leader proposes a team" in ten
    assert "with 6 of 10 votes for it" in ten
    assert "1, 1, 1, 2, 1 failure cards fail quests 1 to 5." in ten
    plain = text(
        *("servant", "servant", "servant", "minion", "minion"),
        names=("Player 1", "Eda"),
        on_max_rejections="forced_team",
        assassination="none",
    )
    assert "the last team goes without a vote" in plain
    assert "Three failed quests win for evil, three successful ones for loyal.\n" in plain
    assert "merlin" not in plain
    assert plain.endswith('The evil seats were shown each other.\nSeat 2 is called "Eda".')
    odd = text(
        *("merlin", "percival", "servant", "servant", "assassin"),
        discussion="none",
        max_rejections=1,
        assassination="after_any_quest",
        missed_shot="play_on",
    )
    assert odd.endswith("percival was shown merlin."), "and there is one evil seat"
    assert "The leader proposes a team; nobody is asked to speak." in odd
    assert "at most 1 proposal; after the last rejection evil wins." in odd
    assert "Once, after a quest, also the last, an evil seat may shoot" in odd
    assert "if it misses, the game goes on." in odd
    strangers = text("merlin", "servant", "servant", "oberon", "assassin")
    assert strangers.endswith("The evil seats were not shown each other.")


# --- as the authors' scripts build it -----------------------------------------------------------------


def test_the_released_context_is_the_speakers_own_with_what_came_later() -> None:
    game = by_hand({"2.1.speak.4": chose(4, HEARD)})
    item = only(game, Variant(reader=3, context="release"), "2.1.speak.4")
    context = item.context
    assert (item.reader, context.seat, context.role) == (3, 4, Role.ASSASSIN)
    assert context.sees == ()
    assert [(one.event, one.round) for one in context.later] == [("votes", 2), ("goes", 2), ("summary", 2)]
    assert context.later[1].seats == (1, 2, 3)
    assert "seat 4 sums up round 2" in context.text
    assert "seat 3 sums up" not in context.text
    assert "The team that went in the end: 1 2 3." in context.text


def test_the_released_context_tells_the_leader_no_final_team() -> None:
    game = by_hand({"2.1.propose_team.2": chose(2, HEARD)})
    context = only(game, Variant(reader=3, context="release"), "2.1.propose_team.2").context
    assert [one.event for one in context.later] == ["votes", "summary"]


def test_the_released_context_of_the_other_dimensions_tells_what_the_seat_was_shown() -> None:
    game = by_hand({"2.1.speak.4": chose(4, HEARD)})
    assert only(game, Variant(context="release"), "2.1.speak.4", "summarisation").context.sees == (5,)


def test_our_own_context_holds_nothing_later() -> None:
    for dimension in ("guessing", "summarisation", "selection", "following"):
        for item in items(scripted(1), dimension, Variant()):
            assert item.context.later == ()


# --- any game -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(25))
def test_a_context_of_any_game_is_text_of_whole_lines(number: int) -> None:
    game = read_game("g", random_game(number).log)
    for turn in game.turns[-3:]:
        for seat in (1, game.profile.players):
            context = Context(game, seat, turn.utterance + 1, round=turn.round, attempt=turn.attempt)
            lines = context.text.splitlines()
            assert lines[0] == "=== THE GAME ==="
            assert lines[-1] == "=== END OF RECORD ==="
            said = sum(
                type(e) is UtteranceMade and e.round == turn.round for e in game.log[: turn.utterance + 1]
            )
            here = [e for e in context.entries if e.round == turn.round and e.event in ("says", "answers")]
            assert len(here) == said


def test_private_talk_of_evil_is_in_no_context() -> None:
    log = list(scripted_log(1))
    place = next(i for i, event in enumerate(log) if type(event) is UtteranceMade)
    log.insert(place, EvilConferred(4, "canary"))
    game = read_game("g", log)
    for item in items(game, "guessing", Variant(reader="all")):
        assert "canary" not in item.context.text
