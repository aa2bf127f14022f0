"""What a compact seat is told once for a game: all of it, to every seat alike, whatever the templates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.llm.replies import whole
from agents.llm.templates import Templates
from agents.table import MemoryJournal, play
from engine.chance import secret
from engine.intentions import allowed
from engine.profile import make_profile
from engine.rules import create
from engine.terms import Role, Seat
from tests.agents.llm.models import FunctionModel, WatchedSession, noise, played

FIVE = make_profile("interintent", 5)
DEAL = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA)
COMPACT = {"mechanism": "one_pass"}
SEAT_LINE = "=== YOUR SEAT ==="
ONE_OF_MANY = {f"seat_{seat}" for seat in range(2, 6)} | {role.value for role in Role}
"""Of these one form stands for all."""


def names(schema: Mapping[str, Any]) -> set[str]:
    """Every field of a form, those of its parts included."""
    schema = whole(schema)
    found = set(schema.get("properties", {}))
    for part in (*schema.get("properties", {}).values(), schema.get("items", {})):
        found |= names(part) if part else set()
    return found


async def seats_with(folder: Path, **options: Any) -> dict[Seat, WatchedSession]:
    sessions = {seat: WatchedSession(FunctionModel(noise())) for seat in range(1, 6)}
    prompts = {"german": Templates(folder)}
    agents = {
        seat: LlmAgent(
            Setup(seat, secret(1, seat), {**COMPACT, "prompts": "german", **options}), session, prompts
        )
        for seat, session in sessions.items()
    }
    await play(create(FIVE, 3, deal=DEAL), agents, MemoryJournal())
    return sessions


@pytest.mark.parametrize("selection", ["catalogue", "generated"])
@pytest.mark.parametrize("menu", ["published", "sensible", "impactful"])
async def test_system_and_question_together_name_every_field_of_the_form(selection: str, menu: str) -> None:
    _, sessions = await played(FIVE, 3, noise(), {**COMPACT, "selection": selection, "menu": menu})
    for session in sessions.values():
        for one in session.sent:
            told = f"{one.messages[0].content}\n{one.question}"
            for name in names(one.form.schema) - ONE_OF_MANY:
                assert f'"{name}"' in told or f"\n{name}: " in told, name


async def test_what_is_told_once_is_the_same_for_every_seat() -> None:
    _, sessions = await played(FIVE, 3, noise(), COMPACT, deal=DEAL)
    shared = {session.sent[0].messages[0].content.partition(SEAT_LINE)[0] for session in sessions.values()}
    assert len(shared) == 1


async def test_a_question_says_what_is_off_the_menu_of_the_role() -> None:
    _, sessions = await played(FIVE, 3, noise(), COMPACT, deal=DEAL)
    for seat, session in sessions.items():
        for one in session.sent:
            properties = whole(one.form.schema)["properties"]
            turn = properties.get("then", {}).get("properties", properties)
            if "first_selection" not in turn:
                continue
            items = turn["first_selection"]["properties"]["intentions"]["items"]
            offered = items["properties"]["intention"]["enum"]
            said = one.question
            off = [id_ for id_ in allowed(DEAL[seat - 1]) if id_ not in offered]
            if "Your menu: " in said:
                assert f"Your menu: {', '.join(offered)}." in said
            else:
                assert (f"Not on your menu now: {', '.join(off)}." in said) is bool(off)


async def test_a_question_of_a_told_step_is_short() -> None:
    _, sessions = await played(FIVE, 3, noise(), COMPACT)
    for session in sessions.values():
        for one in session.sent:
            if one.key.step in ("one_pass", "vote", "summary"):
                assert len(one.question) < 900, one.question


async def test_a_system_message_of_other_words_leaves_the_whole_to_the_questions(tmp_path: Path) -> None:
    (tmp_path / "system.jinja").write_text("Du spielst Avalon auf Platz {{ seat }}.", "utf-8")
    sessions = await seats_with(tmp_path)
    for session in sessions.values():
        for one in session.sent:
            assert one.messages[0].content == f"Du spielst Avalon auf Platz {one.key.request_id[-1]}."
            for name in names(one.form.schema):
                assert f'"{name}"' in one.question, name
            if "one_pass" in one.key.step:
                assert "Your menu: " in one.question
                assert "serve your side best" in one.question
                # Before the game's first speech there is nobody to consider.
                assert ("Seats to consider" in one.question) is ("weigh how the quests" in one.question)


async def test_where_each_question_tells_all_prompts_are_shorter_and_less_of_them_is_repeated() -> None:
    sent = {}
    for told in ("once", "each"):
        _, sessions = await played(FIVE, 3, noise(), {**COMPACT, "instructions": told})
        for one in (one for session in sessions.values() for one in session.sent):
            assert ("=== THE STEPS ===" in one.messages[0].content) is (told == "once")
        first = next(one for session in sessions.values() for one in session.sent if one.key.step == "vote")
        sent[told] = first
    assert len(sent["each"].text) < len(sent["once"].text)
    assert len(sent["each"].question) > len(sent["once"].question)
    assert "agree or disagree" in sent["each"].question


async def test_a_step_of_other_words_is_told_with_each_question(tmp_path: Path) -> None:
    (tmp_path / "vote.jinja").write_text("Daumen hoch oder runter?", "utf-8")
    sessions = await seats_with(tmp_path)
    votes = [one for session in sessions.values() for one in session.sent if one.key.step == "vote"]
    assert votes
    for one in votes:
        assert "step vote" not in one.messages[0].content
        assert "step one_pass" in one.messages[0].content
        assert "Daumen hoch oder runter?" in one.question
        assert one.question.endswith('{"explanation": <why, privately>, "vote": "agree"|"disagree"}')


async def test_a_step_of_other_words_in_two_parts_is_told_once(tmp_path: Path) -> None:
    text = "{% block now %}Jetzt.{% endblock %}{% block standing %}Daumen hoch?{% endblock %}"
    (tmp_path / "vote.jinja").write_text(text, "utf-8")
    sessions = await seats_with(tmp_path)
    votes = [one for session in sessions.values() for one in session.sent if one.key.step == "vote"]
    for one in votes:
        assert "step vote: Daumen hoch?" in one.messages[0].content
        assert one.question.splitlines()[1] == "Jetzt."
