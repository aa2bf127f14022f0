"""The readable form of a log."""

import pytest

from engine.errors import CorruptLog
from engine.events import EVENT_TYPES, AgentsSeated, IntentionsSelected, SpeechDrafted, UtteranceMade
from engine.foreign.replay import read_record, replay
from engine.playthrough import _LINES, playthrough
from engine.profile import make_profile
from engine.rules import create, decide, default, pending
from engine.seated import SeatedAgent
from engine.state import State, apply, fold
from engine.terms import FULL, PUBLIC
from engine.thoughts import Choice
from engine.view import project
from tests.records import NAMES, load

WITHOUT_MERLIN = """\
replay: 5 players, percival, servant, servant, assassin, minion
seats: 0 Ada, 1 Ben, 2 Cleo, 3 Dov, 4 Eda
teams of 2, 3, 2, 3, 3; fails needed 1, 1, 1, 1, 1
strict_majority, at most 5 proposals (evil_wins), discussion none, assassination none
the lead goes to the next seat; reconsideration no, summaries no
dealt; nobody shoots
  0 Ada is servant
  1 Ben is servant
  2 Cleo is assassin, sees 4
  3 Dov is percival
  4 Eda is minion, sees 2

QUEST 1: 2 seats go, 1 fail needed to fail it
1.1 seat 1 Ben leads
  1 Ben proposes 1, 2
  approved: yes nobody; no nobody; not recorded: 0, 1, 2, 3, 4
  quest 1 succeeds: 1, 2, fails not recorded

QUEST 2: 3 seats go, 1 fail needed to fail it
2.1 seat 2 Cleo leads
  2 Cleo proposes 0, 1, 3
  approved: yes 0, 1, 3; no 2; not recorded: 4
  quest 2 succeeds: 0, 1, 3, fails not recorded

QUEST 3: 2 seats go, 1 fail needed to fail it
3.1 seat 3 Dov leads
  3 Dov proposes 0, 4
  3 Dov changes the team to 0, 3
  approved: yes 0, 1, 3; no 2, 4
  quest 3 succeeds: 0, 3, 0 fails

LOYAL WINS: three quests succeeded
roles: 0 Ada servant, 1 Ben servant, 2 Cleo assassin, 3 Dov percival, 4 Eda minion
"""


def told(name: str) -> State:
    return replay(read_record(load(name)))


def test_a_game_reads_like_a_game() -> None:
    assert playthrough(told("without-merlin").log, first_seat=0) == WITHOUT_MERLIN


def test_a_public_reader_learns_no_role_before_the_end() -> None:
    text = playthrough(told("without-merlin").log, PUBLIC, first_seat=0)
    hidden = WITHOUT_MERLIN.split("dealt")[1].split("\n\n")[0]
    assert text == WITHOUT_MERLIN.replace(f"dealt{hidden}\n", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_viewers_text_is_the_text_of_the_viewers_stream(name: str) -> None:
    log = told(name).log
    for viewer in (PUBLIC, FULL, 1, 5):
        assert playthrough(log, viewer) == playthrough(project(log, viewer), viewer)


def test_a_seat_reads_its_own_card_and_no_other() -> None:
    text = playthrough(told("forced-team").log, 4, first_seat=0)
    assert "3 Dov plays FAIL" in text
    assert text.count(" plays ") == 1


def test_what_seats_say_stays_on_its_line() -> None:
    log = list(told("without-merlin").log)
    log.append(UtteranceMade(1, 3, 1, 0, "discuss", "hi\n\nEVIL WINS: \x1b[2Jno \u202equests"))
    last = playthrough(log).splitlines()[-1]
    assert last == "  1 Ada: “hi\\n\\nEVIL WINS: \\u001b[2Jno \\u202equests”"


def test_thoughts_can_be_left_out() -> None:
    log = list(told("without-merlin").log)
    log.append(SpeechDrafted(2, "refinement", "careful now", "hello"))
    assert "2 Ben thinks (refinement): “careful now”" in playthrough(log)
    assert "careful" not in playthrough(log, thoughts=False)
    # And nothing else goes with them.
    assert playthrough(log, thoughts=False) == playthrough(log[:-1]) != ""
    assert "proposes" in playthrough(log, thoughts=False)


def test_the_reason_of_a_selection_is_shown_if_there_is_one() -> None:
    log = list(told("without-merlin").log)
    for reason, told_as in (("They doubt me.", "defend_self; “They doubt me.”"), ("", "defend_self")):
        log.append(IntentionsSelected(2, "final", (Choice("defend_self"),), True, reason))
        assert playthrough(log).splitlines()[-1] == f"    2 Ben intends (final, changed): {told_as}"


def test_the_agents_are_listed_on_one_line() -> None:
    prompts = {"mechanism": "paper", "prompts": "second", "prompts_hash": "0123456789abcdef"}
    agents = (
        SeatedAgent("llm", "main", "gpt-x\n", prompts),
        SeatedAgent("llm", None, None, prompts),
        SeatedAgent("remote", None, None, {}),
    )
    assert playthrough([*told("without-merlin").log, AgentsSeated(agents)]).splitlines()[-1] == (
        "agents: 1 llm (gpt-x\\n at main, paper, prompts second 0123456789abcdef); "
        "2 llm (recorded answers, paper, prompts second 0123456789abcdef); 3 remote"
    )


def test_every_event_has_its_line() -> None:
    assert {*_LINES} == {*EVENT_TYPES.values()} - {EVENT_TYPES["game_created"]}


def test_a_game_of_defaults_is_shown_in_full() -> None:
    state = fold(create(make_profile("interintent", 6), 3))
    while requests := pending(state):
        apply(state, decide(state, [(r.seat, default(state.table, r)) for r in requests]))
    text = playthrough(state.log)
    assert text == playthrough(fold(state.log).log)
    for line in (
        "QUEST 3",
        "rejected, and goes all the same",
        "keeps",
        "says nothing",
        "sums up nothing",
        "WINS",
    ):
        assert line in text
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("log", [[], [UtteranceMade(1, 1, 1, 0, "discuss", "")]])
def test_a_log_without_its_beginning_is_refused(log: list[UtteranceMade]) -> None:
    with pytest.raises(CorruptLog):
        playthrough(log)


def test_two_games_in_one_log_are_refused() -> None:
    log = told("without-merlin").log
    with pytest.raises(CorruptLog, match="second"):
        playthrough([*log, *log])
