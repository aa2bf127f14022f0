"""Whole games without a rejection, by their number of rounds: what is asked, beside the authors' code.

Every team is approved. Otherwise each seat plays sensibly by its prompt, so that evil seats are asked for as
many cards as in sensible play.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import mean
from typing import Final

from agents.agent import Agent, Setup
from agents.llm.agent import LlmAgent
from agents.llm.prefix import PrefixMeter
from agents.llm.session import CallKey
from agents.model.model import Form, Message, Reply, Usage
from agents.table import MemoryJournal, play
from app.instruments.fake_model.sensible import answer
from bench.row import Row
from engine.chance import secret
from engine.profile import make_profile
from engine.rules import create
from engine.terms import Seat

__all__ = ["AUTHORS_CALLS", "AUTHORS_PROMPT", "GAMES", "Asked", "asked_of", "games_rows"]

AUTHORS_CALLS: Final = {3: 160, 4: 219, 5: 278}
"""Calls of the authors' code, all in a row, in a game of five without a rejection, by rounds; no shot."""

AUTHORS_PROMPT: Final = {3: 458_000, 4: 637_000, 5: 823_000}
"""Prompt tokens of the same games with the shot, reconstructed from the messages of the authors' loop and
from its rules of what is shown to whom, with answers as long as the fake model's (docs/models.md)."""

GAMES: Final = 60
"""The games are those of this many seeds, from 0."""

_FEW: Final = 12
"""The most games of one number of rounds that are also played with the instructions ``each``."""

_CHARACTERS: Final = 4
"""Characters of a token, roughly."""


class _Session:
    """Answers from the prompt, agrees with every team, and remembers."""

    def __init__(self, game: PrefixMeter) -> None:
        self.seat = PrefixMeter()
        self.game = game
        self.answered: dict[CallKey, Reply] = {}

    async def ask(
        self, key: CallKey, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        self.seat.add(messages)
        self.game.add(messages)
        plain = [{"role": one.role, "content": one.content} for one in messages]
        value = json.loads(answer(plain, dict(form.schema), 1))
        for part in (value, value.get("then", {})):
            part |= {"vote": "agree"} if "vote" in part else {}
        text = json.dumps(value, ensure_ascii=False)
        self.answered[key] = Reply(text, value, Usage(0, 0, 0, False), 0.0, 0.0, "bench", "stop", 1)
        return self.answered[key]

    def recall(
        self, key: CallKey, messages: Sequence[Message], *, temperature: float, max_tokens: int
    ) -> Reply | None:
        return self.answered.get(key)

    async def linger(self, seat: Seat) -> None:
        pass

    def read(self, key: CallKey, *, usable: bool) -> None:
        pass

    async def unanswered(self, request_id: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Asked:
    """The calls of one game, and their prompts."""

    rounds: int
    calls: int
    """Without the shot, as the authors' counts are."""
    prompt: int
    """Characters sent."""
    to_seat: int
    """Of these, in a prefix that was sent to the same seat before."""
    in_game: int
    """Of these, in a prefix that was sent to any seat of the game before."""


@cache
def asked_of(mechanism: str, seed: int, instructions: str = "once") -> Asked:
    """The calls and prompts of the game of this seed, with this mechanism in every seat."""
    game = PrefixMeter()
    sessions = {seat: _Session(game) for seat in range(1, 6)}
    options = {"mechanism": mechanism, "instructions": instructions}
    agents: Mapping[Seat, Agent] = {
        seat: LlmAgent(Setup(seat, secret(str(seed), seat), options), session)
        for seat, session in sessions.items()
    }
    state = asyncio.run(play(create(make_profile("interintent", 5), seed), agents, MemoryJournal()))
    return Asked(
        len(state.table.quests),
        sum(key.step != "assassination" for session in sessions.values() for key in session.answered),
        game.sent,
        sum(session.seat.repeated for session in sessions.values()),
        game.repeated,
    )


def games_rows(games: int = GAMES) -> Iterator[Row]:
    """Rows of ``one_pass`` beside the authors' code, by rounds and over all games.

    Tokens stand beside those of ``paper`` too, which plays only the first seed of each number of rounds.
    """
    by_rounds: dict[int, list[Asked]] = {}
    first: dict[int, list[int]] = {}
    for seed in range(games):
        found = asked_of("one_pass", seed)
        by_rounds.setdefault(found.rounds, []).append(found)
        first.setdefault(found.rounds, []).append(seed)
    for rounds, group in sorted(by_rounds.items()):
        theirs, calls = AUTHORS_CALLS[rounds], [one.calls for one in group]
        name = f"one_pass, {rounds} rounds"
        share = 100 * mean(calls) / theirs
        span = f"{share:.1f} % of {theirs}; {min(calls)} to {max(calls)} in {len(group)} games"
        yield Row(f"{name}: calls", mean(calls), "calls", span, mean(calls) / theirs)
        prompt = mean(one.prompt for one in group)
        tokens = prompt / _CHARACTERS
        share = tokens / AUTHORS_PROMPT[rounds]
        paper = asked_of("paper", first[rounds][0]).prompt
        beside = f"{100 * share:.1f} % of the authors', {100 * prompt / paper:.1f} % of paper's"
        yield Row(f"{name}: prompt tokens", tokens, "tokens", beside, share)
        for where, repeated in (
            ("in the game", mean(one.in_game for one in group)),
            ("to the seat", mean(one.to_seat for one in group)),
        ):
            yield Row(
                f"{name}: in a prefix sent before {where}",
                repeated / _CHARACTERS,
                "tokens",
                "authors 63.5 % to the seat",
                repeated / prompt,
            )
        each = [asked_of("one_pass", seed, "each") for seed in first[rounds][:_FEW]]
        prompt = mean(one.prompt for one in each)
        tokens, share = prompt / _CHARACTERS, prompt / _CHARACTERS / AUTHORS_PROMPT[rounds]
        cached = mean(one.in_game for one in each) / prompt
        beside = f"{100 * share:.1f} % of the authors'; {100 * cached:.1f} % in a prefix, in the game"
        yield Row(f"{name}, instructions each: tokens", tokens, "tokens", beside, share)
    every = [one for group in by_rounds.values() for one in group]
    share = mean(one.calls / AUTHORS_CALLS[one.rounds] for one in every)
    calls_a_game = mean(one.calls for one in every)
    yield Row(
        f"one_pass, {len(every)} games: calls",
        calls_a_game,
        "calls",
        f"{100 * share:.1f} % of the authors', on average",
        share,
    )
