"""Items of seats that prepare before their turn: a first selection is judged upon what its seat was sent."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.model.model import Form, Message
from agents.table import MemoryJournal, play
from engine.chance import secret
from engine.profile import make_profile
from engine.rules import create
from engine.terms import Seat
from evaluators.ground.contexts import Context
from evaluators.ground.items import Variant, items
from evaluators.ground.turns import Game, read_game
from evaluators.judges.model import messages
from evaluators.judges.rules import ruled
from tests.agents.llm.models import Answer, FunctionModel, WatchedSession, noise

PROFILES = [("interintent", 5), ("official", 5), ("interintent", 7)]


@cache
def eager_game(profile: str, players: int) -> tuple[Game, dict[Seat, WatchedSession]]:
    return seated("eager", profile, players, noise())


def seated(
    timing: str, profile: str, players: int, answer: Answer
) -> tuple[Game, dict[Seat, WatchedSession]]:
    sessions = {seat: WatchedSession(FunctionModel(answer)) for seat in range(1, players + 1)}
    agents = {
        seat: LlmAgent(Setup(seat, secret(1, seat), {"timing": timing}), session)
        for seat, session in sessions.items()
    }
    state = asyncio.run(play(create(make_profile(profile, players), 3), agents, MemoryJournal()))
    return read_game("g", state.log), sessions


def sent(sessions: dict[Seat, WatchedSession], request_id: str, step: str) -> str:
    seat = int(request_id.rpartition(".")[2])
    (text,) = {
        one.messages[1].content
        for one in sessions[seat].sent
        if (one.key.request_id, one.key.step, one.key.attempt) == (request_id, step, 1)
    }
    return text


def of_record(text: str) -> Counter[str]:
    """What stands in a prompt's record, in a form that contexts can be brought into."""
    lines = text.partition("=== RECORD ===\n")[2].partition("\n=== END OF RECORD ===")[0].splitlines()
    told: Counter[str] = Counter()
    for line in lines:
        if found := re.fullmatch(r'seat (\d+) says(?: on the team)? (nothing|".*")', line):
            told[f"{found[1]}: {'' if found[2] == 'nothing' else json.loads(found[2])}"] += 1
        elif found := re.match(r"seat \d+ proposes|round \d|votes:|quest \d|you summed up|you played", line):
            told[found[0].rstrip(":").split()[-1 if "proposes" in line else 0]] += 1
    return told


def of_context(context: Context) -> Counter[str]:
    names = {"leads": "round", "votes": "votes", "quest": "quest", "proposes": "proposes", "card": "you"}
    told: Counter[str] = Counter()
    summed = set()
    for entry in context.entries:
        if entry.event in ("says", "answers"):
            told[f"{entry.seat}: {entry.text}"] += 1
        elif entry.event == "summary":
            summed.add((entry.round, entry.attempt))
        elif entry.event in names:
            told[names[entry.event]] += 1
    told["you"] += len(summed)
    return +told


@pytest.mark.parametrize(("profile", "players"), PROFILES)
def test_the_context_of_a_first_selection_is_what_its_seat_was_sent(profile: str, players: int) -> None:
    game, sessions = eager_game(profile, players)
    seen: Counter[str] = Counter()
    for item in items(game, "selection"):
        if item.stage != "first":
            continue
        prompt, context = of_record(sent(sessions, item.request_id, "selection")), of_context(item.context)
        if item.context.without == "summary":
            # That it leads is told an opener by the question, not by the record.
            context["round"] -= 1
        assert context == prompt, item.id
        seen[item.context.without or ""] += 1
    assert seen["speech"] > 5
    # Nobody sums up in the profile official.
    assert (seen["summary"] > 2) is (profile == "interintent")


def test_all_other_items_hold_the_whole_record() -> None:
    game, _ = eager_game("interintent", 5)
    for dimension in ("selection", "following", "summarisation", "guessing"):
        for item in items(game, dimension):  # type: ignore[arg-type]
            first = dimension == "selection" and item.stage == "first"
            assert first or item.context.without is None
            if dimension == "following":
                (at,) = (place for place, turn in enumerate(game.turns) if turn.request_id == item.request_id)
                spoken = [entry.text for entry in item.context.entries if entry.event == "says"]
                last = game.turns[at - 1]
                assert last.attempt != item.attempt or last.round != item.round or spoken[-1] == last.text
    released = Variant(context="release")
    assert all(item.context.without is None for item in items(game, "selection", released))


def test_a_rater_is_told_what_was_not_heard() -> None:
    game, _ = eager_game("interintent", 5)
    told = {
        item.context.without: (item.context.text, item.context.as_json(), messages(item)[1].content)
        for item in items(game, "selection")
        if item.stage == "first"
    }
    for without, line in (
        ("speech", "(The next speech was heard only after this.)"),
        ("summary", "(The seat summed this attempt up only after this.)"),
    ):
        text, plain, asked = told[without]  # type: ignore[index]
        assert f"{line}\n=== END OF RECORD ===" in text
        assert line in asked
        assert plain["without"] == without
    text, plain, _ = told[None]
    assert plain["without"] == ""
    assert "only after this" not in text


def test_the_rules_judge_a_first_selection_by_what_was_heard() -> None:
    def answer(messages: Sequence[Message], form: Form) -> object:
        values = noise()(messages, form)
        properties = form.schema["properties"]
        if form.name == "selection":
            one = properties["intentions"]["items"]["properties"]["intention"]["enum"]
            if "question_leader_absence" in one:
                values["intentions"][0]["intention"] = "question_leader_absence"  # type: ignore[index]
        return values

    # The first to respond selects before it hears of the team: to it none stands that the leader is not on.
    refused: dict[str, set[tuple[bool, bool]]] = {}
    for timing in ("exact", "eager"):
        game, _ = seated(timing, "interintent", 5, answer)
        rulings = {
            one.key.request_id: one
            for one in ruled(game)
            if one.key.stage == "first" and one.intention == "question_leader_absence"
        }
        for opener, turn in pairwise(game.turns):
            asks = rulings.get(turn.request_id)
            if opener.text is not None and ".propose_team." in opener.request_id and asks:
                team = game.log[opener.opening].team  # type: ignore[union-attr]
                refused.setdefault(timing, set()).add((opener.seat in team, asks.rule == "fact"))
    assert refused == {"exact": {(True, True), (False, False)}, "eager": {(True, True), (False, True)}}
