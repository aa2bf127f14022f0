"""The scripted seat: it records what it should, and what it says is true."""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from agents.agent import Agent, Setup
from agents.llm.replies import summary_questions
from agents.scripted.agent import ScriptedAgent
from agents.scripted.notebook import moves_in
from agents.scripted.phrases import ACTS, WORDING
from agents.table import MemoryJournal, play
from engine.actions import Action, ProposeTeam, RecordQuest, RecordVote, SeatAction
from engine.chance import secret
from engine.events import (
    BeliefsFormed,
    CardPlayed,
    ChoiceExplained,
    Event,
    IntentionsSelected,
    QuestResolved,
    ReadingsImagined,
    RoundSummarised,
    SpeechDrafted,
    TeamProposed,
    UtteranceMade,
)
from engine.intentions import BY_ID, CATALOGUE, missing_facts
from engine.profile import Profile, make_profile
from engine.rules import create, decide, offered
from engine.state import State, Table, apply, fold
from engine.terms import EVIL_ROLES, Kind, Role, Seat, Side
from engine.view import Observation

ROOT = Path(__file__).parents[3]

ODD_SEVEN = ("merlin", "percival", "servant", "servant", "assassin", "mordred", "oberon")
PROFILES = [
    make_profile("interintent", 5),
    make_profile("official", 5),
    make_profile("interintent", 7, roles=ODD_SEVEN),
    make_profile(
        "official", 8, rules={"discussion": "after_proposal", "reconsideration": True, "summaries": True}
    ),
    make_profile("interintent", 10),
]
GAMES = [(profile, seed) for profile in PROFILES for seed in range(6)]


def seats(seed: int, players: int) -> dict[Seat, Agent]:
    return {seat: ScriptedAgent(Setup(seat, secret(seed, "agent", seat))) for seat in range(1, players + 1)}


@cache
def played(profile: Profile, seed: int) -> State:
    return asyncio.run(play(create(profile, seed), seats(seed, profile.players), MemoryJournal()))


class Turn:
    """One turn of the discussion with the state it was taken in."""

    def __init__(self, state: State, events: Sequence[Event], said: UtteranceMade) -> None:
        self.table = state.table
        self.hand = state.hand(said.seat)
        self.said = said
        self.notes = [event for event in events if getattr(event, "seat", None) == said.seat]
        self.opens = any(isinstance(event, TeamProposed) for event in events)

    def selected(self, stage: str) -> tuple[str, ...]:
        ((ids),) = (
            tuple(choice.id for choice in note.intentions)
            for note in self.notes
            if isinstance(note, IntentionsSelected) and note.stage == stage
        )
        return ids


def turns() -> Iterator[Turn]:
    """Every turn of the discussion in every game, the state folded up to just before it."""
    for profile, seed in GAMES:
        log = played(profile, seed).log
        state = fold(log[:1])
        batch: list[Event] = []
        for event in log[1:]:
            batch.append(event)
            if isinstance(event, UtteranceMade) and any(isinstance(e, IntentionsSelected) for e in batch):
                yield Turn(state, batch, event)
            if not isinstance(
                event,
                BeliefsFormed
                | IntentionsSelected
                | SpeechDrafted
                | ReadingsImagined
                | TeamProposed
                | ChoiceExplained,
            ):
                apply(state, batch)
                batch = []


# --- the same from the same -----------------------------------------------------------------------


class Anew:
    """A new agent for every single request, as after a restart at the worst of times."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    def act(self, observation: Observation) -> SeatAction:
        return ScriptedAgent(self.setup).act(observation)


@pytest.mark.parametrize(("profile", "seed"), GAMES)
def test_an_agent_made_anew_for_each_request_plays_the_same_game(profile: Profile, seed: int) -> None:
    agents = {seat: Anew(Setup(seat, secret(seed, "agent", seat))) for seat in range(1, profile.players + 1)}
    anew = asyncio.run(play(create(profile, seed), agents, MemoryJournal()))
    assert anew.log == played(profile, seed).log


def test_an_agent_that_moves_to_another_game_reads_that_one() -> None:
    profile = PROFILES[0]
    used = seats(1, 5)
    asyncio.run(play(create(profile, 99), used, MemoryJournal()))
    assert asyncio.run(play(create(profile, 1), used, MemoryJournal())).log == played(profile, 1).log


_DIGEST = """
import asyncio, hashlib
from agents.agent import Setup
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play
from engine.chance import secret
from engine.events import payload, type_name
from engine.profile import make_profile
from engine.rules import create
digest = hashlib.sha256()
for name, players in (("interintent", 5), ("official", 8), ("interintent", 10)):
    agents = {seat: ScriptedAgent(Setup(seat, secret(3, seat))) for seat in range(1, players + 1)}
    state = asyncio.run(play(create(make_profile(name, players), 3), agents, MemoryJournal()))
    for event in state.log:
        digest.update(repr((type_name(event), payload(event))).encode())
print(digest.hexdigest())
"""


def test_the_log_is_the_same_under_any_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        run = subprocess.run(
            [sys.executable, "-c", _DIGEST],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1


def test_another_seed_of_the_agents_is_another_game() -> None:
    profile = PROFILES[0]
    other = asyncio.run(play(create(profile, 1), seats(2, 5), MemoryJournal()))
    assert other.log != played(profile, 1).log


def test_a_record_of_unknown_ballots_and_cards_is_played_on() -> None:
    # As after importing a game that tells only results: no ballots, no cards, not even fails.
    profile = make_profile("official", 7, rules={"discussion": "none", "first_leader": 1})
    for seed in range(8):
        state = fold(create(profile, seed))
        foreign: list[tuple[Seat, Action]] = [
            (1, ProposeTeam((1, 2))),
            (1, RecordVote((None,) * 7, False)),
            (2, ProposeTeam((2, 3))),
            (2, RecordVote((True, None, None, True, False, None, True), True)),
            (2, RecordQuest(None, True)),
        ]
        for answer in foreign:
            apply(state, decide(state, [answer], foreign=True))
        over = asyncio.run(play(state.log, seats(seed, 7), MemoryJournal()))
        assert over.table.over
        agents = {seat: Anew(Setup(seat, secret(seed, "agent", seat))) for seat in range(1, 8)}
        assert asyncio.run(play(state.log, agents, MemoryJournal())).log == over.log


# --- records --------------------------------------------------------------------------------------


def test_every_turn_leaves_the_records_of_the_mechanism_in_order() -> None:
    for turn in turns():
        kinds = [type(note).__name__ for note in turn.notes]
        first_of_all = turn.table.round == 1 and turn.table.attempt == 1 and turn.table.turn == 0
        expected = [] if first_of_all else ["BeliefsFormed"]
        expected += [
            "IntentionsSelected",
            "SpeechDrafted",
            "ReadingsImagined",
            "IntentionsSelected",
            "SpeechDrafted",
        ]
        expected += ["ChoiceExplained"] * turn.opens + ["UtteranceMade"]
        assert kinds == expected
        stages = [note.stage for note in turn.notes if isinstance(note, IntentionsSelected | SpeechDrafted)]
        assert stages == ["first", "formulation", "final", "refinement"]


def test_the_spoken_text_is_the_refined_speech() -> None:
    for turn in turns():
        refined = [note for note in turn.notes if isinstance(note, SpeechDrafted)][-1]
        assert refined.speak == turn.said.text
        assert refined.think


def test_two_or_three_intentions_are_selected_out_of_the_menu_and_with_reasons() -> None:
    for turn in turns():
        menu = offered(turn.table, turn.hand, Kind.PROPOSE_TEAM if turn.opens else Kind.SPEAK)
        assert menu is not None
        for stage in ("first", "final"):
            chosen = turn.selected(stage)
            assert 2 <= len(set(chosen)) == len(chosen) <= 3
            assert set(chosen) <= set(menu)
        for note in turn.notes:
            if isinstance(note, IntentionsSelected):
                assert all(len(choice.reason) > 10 for choice in note.intentions)
                assert (
                    note.changed == (turn.selected("first") != turn.selected("final"))
                    or note.stage == "first"
                )


def test_no_selected_intention_contradicts_the_record() -> None:
    for turn in turns():
        facts = turn.table.facts(turn.said.seat)
        for stage in ("first", "final"):
            assert not [id_ for id_ in turn.selected(stage) if missing_facts(id_, facts)]


CONTRADICTIONS = [
    {"reveal_percival", "pretend_merlin_hints"},
    {"pretend_percival", "pretend_merlin_hints"},
    {"pretend_percival", "reveal_servant"},
    {"pretend_percival", "act_like_merlin"},
    {"support_proposal", "counter_evil_on_team"},
    {"support_proposal", "counter_not_on_team"},
    {"support_proposal", "disagree_not_on_team"},
    {"defend_team", "counter_evil_on_team"},
    {"pretend_no_information", "share_concerns_evil"},
    {"pretend_no_information", "hint_about_evil"},
    {"stay_hidden", "share_concerns_evil"},
]


def test_no_two_selected_intentions_contradict_each_other() -> None:
    for turn in turns():
        for stage in ("first", "final"):
            chosen = set(turn.selected(stage))
            assert not [pair for pair in CONTRADICTIONS if pair <= chosen]


def test_beliefs_are_about_each_other_seat_once_somebody_could_have_spoken() -> None:
    for turn in turns():
        formed = [note for note in turn.notes if isinstance(note, BeliefsFormed)]
        about = [belief.about for note in formed for belief in note.beliefs]
        others = [seat for seat in range(1, turn.table.players + 1) if seat != turn.said.seat]
        if turn.table.round == 1 and turn.table.attempt == 1:
            leader = turn.table.leader
            spoke = [(leader - 1 + step) % turn.table.players + 1 for step in range(turn.table.turn)]
            assert about == sorted(spoke)
        else:
            assert about == others


def test_beliefs_hold_what_the_step_asks_for() -> None:
    for turn in turns():
        for note in turn.notes:
            if isinstance(note, BeliefsFormed):
                for belief in note.beliefs:
                    assert (belief.role is None) == (turn.hand.role is Role.MERLIN)
                    assert 2 <= len(belief.intentions) <= 3
                    assert belief.reasoning


def test_snippets_are_quoted_from_what_that_seat_said() -> None:
    for profile, seed in GAMES:
        said: dict[Seat, str] = {}
        quoted = 0
        for event in played(profile, seed).log:
            if isinstance(event, UtteranceMade):
                said[event.seat] = said.get(event.seat, "") + "\n" + event.text
            elif isinstance(event, BeliefsFormed):
                for belief in event.beliefs:
                    for snippet in belief.snippets:
                        assert snippet in said[belief.about]
                        quoted += 1
        assert quoted


def test_some_selections_are_changed_and_always_for_a_cause() -> None:
    changed = whole = 0
    for turn in turns():
        whole += 1
        final = [note for note in turn.notes if isinstance(note, IntentionsSelected)][-1]
        if final.changed:
            changed += 1
            assert "I drop" in final.reason
            assert all("I drop" not in choice.reason for choice in final.intentions)
    assert 0.05 < changed / whole < 0.5


def test_every_intention_is_met_in_play() -> None:
    met = {id_ for turn in turns() for id_ in turn.selected("first")}
    assert met == {one.id for one in CATALOGUE}


def test_every_choice_is_explained() -> None:
    for profile, seed in GAMES:
        log = played(profile, seed).log
        kinds = Counter(event.about for event in log if isinstance(event, ChoiceExplained))
        assert min(kinds[Kind.VOTE], kinds[Kind.CARD], kinds[Kind.PROPOSE_TEAM]) > 0
        assert kinds[Kind.CARD] == sum(isinstance(event, CardPlayed) for event in log)
        assert bool(kinds[Kind.RECONSIDER]) == profile.reconsideration


def test_summaries_answer_the_fixed_questions() -> None:
    for profile, seed in GAMES:
        state = played(profile, seed)
        assert state.roles is not None
        for event in state.log:
            if isinstance(event, RoundSummarised):
                evil = state.roles[event.seat - 1] in EVIL_ROLES
                hunted = state.table.profile.assassination != "none" and Role.MERLIN in state.roles
                asked = list(summary_questions(Side.EVIL if evil else Side.LOYAL, hunted=hunted))
                assert [question for question, _ in event.answers] == asked
                assert all(answer for _, answer in event.answers)


# --- truth ----------------------------------------------------------------------------------------

NAME = r"(Player \d+)"
TEAM = r"((?:Player \d+(?:, | and )?)+)"
WHEN = r"quest (\d)(?:, attempt (\d))?"


def team_of(words: str) -> tuple[int, ...]:
    return tuple(sorted(int(number) for number in re.findall(r"Player (\d+)", words)))


def tallies(
    table: Table, round_: str, attempt: str | None
) -> list[tuple[tuple[int, ...], tuple[bool | None, ...]]]:
    return [
        (tally.team, tally.votes)
        for tally in table.tallies
        if tally.round == int(round_) and tally.attempt == int(attempt or 1)
    ]


def went(table: Table, round_: str) -> tuple[int, tuple[bool | None, ...]]:
    (tally,) = (t for t in table.tallies if t.round == int(round_) and (t.approved or t.forced))
    return tally.leader, tally.votes


def quest(table: Table, round_: str) -> QuestResolved:
    return table.quests[int(round_) - 1]


def claims(turn: Turn) -> Iterator[tuple[str, bool]]:
    """Every claim about the record in a speech that this reads, and whether it is true."""
    table, text, me = turn.table, turn.said.text, turn.said.seat

    def seat(name: str) -> int:
        return me if name == "I" else int(name.split()[1])

    for who, n, how in re.findall(r"(I|Player \d+) was on quest (\d), which (failed|succeeded)", text):
        yield (
            f"{who} on {n} {how}",
            seat(who) in quest(table, n).team and quest(table, n).succeeded == (how == "succeeded"),
        )
    for who, way, n in re.findall(
        r"(I|Player \d+) voted (for|against) the team that failed quest (\d)", text
    ):
        vote = went(table, n)[1][seat(who) - 1]
        yield f"{who} {way} {n}", not quest(table, n).succeeded and vote is (way == "for")
    for who, way, team, n, k in re.findall(rf"(I|Player \d+) voted (for|against) {TEAM} on {WHEN}", text):
        found = tallies(table, n, k)
        yield (
            f"{who} {way} {team} {n}.{k}",
            any(t == team_of(team) and v[seat(who) - 1] is (way == "for") for t, v in found),
        )
    for who, team, n, k in re.findall(rf"{NAME}, why did you vote against {TEAM} on {WHEN}", text):
        yield (
            f"ask {who} {team}",
            any(t == team_of(team) and v[seat(who) - 1] is False for t, v in tallies(table, n, k)),
        )
    for who, team, n, k in re.findall(rf"{NAME} to explain the vote against {TEAM} on {WHEN}", text):
        yield (
            f"ask {who} {team}",
            any(t == team_of(team) and v[seat(who) - 1] is False for t, v in tallies(table, n, k)),
        )
    for who, team, n, k in re.findall(rf"{NAME}, you rejected {TEAM} on {WHEN}", text):
        yield (
            f"ask {who} {team}",
            any(t == team_of(team) and v[seat(who) - 1] is False for t, v in tallies(table, n, k)),
        )
    for who, n in re.findall(rf"{NAME} led when the team that failed quest (\d)", text):
        yield f"{who} led {n}", went(table, n)[0] == seat(who) and not quest(table, n).succeeded
    for n, who in re.findall(rf"[Qq]uest (\d) failed with {NAME} on it", text):
        yield f"{n} failed with {who}", not quest(table, n).succeeded and seat(who) in quest(table, n).team
    for n in re.findall(r"[Qq]uest (\d) failed without me", text):
        yield f"{n} failed without me", not quest(table, n).succeeded and me not in quest(table, n).team
    for n, team in re.findall(rf"quest (\d) could fail with {TEAM}", text):
        yield (
            f"{n} failed with {team}",
            not quest(table, n).succeeded and quest(table, n).team == team_of(team),
        )
    for who in re.findall(r"no failed quest has (me|Player \d+) on it", text):
        number = me if who == "me" else seat(who)
        yield f"no fail {who}", not any(number in q.team and not q.succeeded for q in table.quests)
    for team, n, k in re.findall(rf"you spoke for {TEAM} on {WHEN} and then voted against it", text):
        yield f"turned {team}", any(t == team_of(team) and False in v for t, v in tallies(table, n, k))
    team_now = turn.table.team
    if not turn.opens and team_now:
        for team in re.findall(rf"team of {TEAM}", text):
            yield f"stands {team}", team_of(team) == team_now
        off = re.search(
            r"would go (on quest \d )?without me|A team without me|I am not on (it|the team)", text
        )
        yield "off the team", off is None or me not in team_now
    if turn.opens:
        (proposed,) = re.findall(rf"For quest \d I propose {TEAM}", text)
        yield f"proposed {proposed}", team_of(proposed) != ()


def test_no_speech_says_anything_false_about_the_record() -> None:
    read: Counter[bool] = Counter()
    for turn in turns():
        for claim, true in claims(turn):
            assert true, (
                f"seat {turn.said.seat} in {turn.said.round}.{turn.said.attempt}: {claim}: {turn.said.text}"
            )
            read[true] += 1
    assert read[True] > 1000  # the parser reads something


def tampered(turn: Turn, old: str, new: str) -> Turn:
    other = object.__new__(Turn)
    other.table, other.hand, other.notes, other.opens = turn.table, turn.hand, turn.notes, turn.opens
    other.said = replace(turn.said, text=turn.said.text.replace(old, new))
    return other


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("succeeded", "failed"),
        ("voted against", "voted for"),
        ("on quest 2", "on quest 1"),
        ("Player 3", "Player 4"),
        ("Player 1 and Player", "Player 5 and Player"),
    ],
)
def test_a_falsehood_planted_in_a_speech_is_found(old: str, new: str) -> None:
    def caught(turn: Turn) -> bool:
        try:
            return not all(true for _, true in claims(tampered(turn, old, new)))
        except (IndexError, ValueError):  # of a quest that nobody has seen
            return True

    assert any(caught(turn) for turn in turns() if old in turn.said.text)


def test_an_opening_names_the_proposed_team() -> None:
    for profile, seed in GAMES:
        team: tuple[int, ...] = ()
        for event in played(profile, seed).log:
            if isinstance(event, TeamProposed):
                team = event.team
            elif isinstance(event, UtteranceMade) and "I propose" in event.text:
                assert team_of(event.text.split(".")[0]) == team


def test_every_speech_names_somebody_or_a_quest_and_keeps_to_the_limit() -> None:
    for turn in turns():
        assert re.search(r"Player \d|quest \d", turn.said.text)
        assert len(turn.said.text.split()) <= 110


def test_nobody_claims_a_role_that_no_intention_of_the_turn_claims() -> None:
    for turn in turns():
        acts = {WORDING[id_].act for id_ in turn.selected("final")}
        text = turn.said.text
        assert "Merlin" not in text
        assert ("Percival" in text) == ("claim_percival" in acts)
        assert ("Servant" in text) == ("claim_servant" in acts)
        if turn.hand.role not in EVIL_ROLES:
            assert not re.search(r"I am (evil|Morgana|Mordred|Oberon)", text)


def test_each_final_intention_is_acted_on_in_the_speech() -> None:
    for turn in turns():
        acts = [remark.act for remark in moves_in(turn.said.text, turn.table.names)]
        for id_ in turn.selected("final"):
            act = (
                "pick_self"
                if id_ == "convince_leader" and turn.said.seat == turn.table.leader
                else WORDING[id_].act
            )
            assert act in acts, (id_, turn.said.text)


def test_the_listeners_guess_intentions_far_above_chance() -> None:
    # Chance: two or three of some 17 an average role may choose is an F1 of about 0.15.
    matched = guessed = gold = 0
    for profile, seed in GAMES:
        latest: dict[Seat, frozenset[str]] = {}
        for event in played(profile, seed).log:
            if isinstance(event, IntentionsSelected) and event.stage == "final":
                latest[event.seat] = frozenset(choice.id for choice in event.intentions)
            elif isinstance(event, BeliefsFormed):
                for belief in event.beliefs:
                    if belief.snippets:
                        truth = latest[belief.about]
                        matched += len(truth & set(belief.intentions))
                        guessed += len(belief.intentions)
                        gold += len(truth)
    assert 2 * matched / (guessed + gold) > 0.5


# --- phrases --------------------------------------------------------------------------------------


def test_every_intention_has_words_and_every_act_is_used() -> None:
    assert WORDING.keys() == BY_ID.keys()
    assert {wording.act for wording in WORDING.values()} | {"pick_self"} == ACTS.keys()


@pytest.mark.parametrize("act", ACTS)
def test_each_line_is_recognised_as_its_own_act(act: str) -> None:
    slots = dict.fromkeys(("blame", "credit", "record", "good", "excuse", "change"), "so it is")
    slots |= {"x": "Ann", "y": "Bea", "leader": "Cid", "team": "Ann and Bea", "then": "Bea and Cid"}
    slots |= {"quest": "quest 3", "when": "quest 2", "failed": "quest 1"}
    for line in ACTS[act].lines:
        remarks = moves_in(line.format_map(slots), ("Ann", "Bea", "Cid", "Dan", "Eve"))
        assert [remark.act for remark in remarks] == [act], line


@pytest.mark.parametrize("act", ACTS)
def test_each_line_names_a_seat_or_a_quest(act: str) -> None:
    concrete = ("{x}", "{y}", "{leader}", "{team}", "{quest}", "{when}", "{failed}")
    assert all(any(brace in line for brace in concrete) for line in ACTS[act].lines)


def test_names_inside_longer_names_are_not_confused() -> None:
    names = tuple(f"Player {seat}" for seat in range(1, 11))
    (remark,) = moves_in("I am worried about Player 10: it was Player 1.", names)
    assert remark.seats == (10, 1)
