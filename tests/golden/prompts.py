"""The golden prompts: the exact text that a seat's model is sent in a game with a fixed seed.

The seats think like scripted seats, so that the files read like a game.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from agents.llm.prefix import PrefixMeter, flat
from agents.model.model import Message
from agents.table import MemoryJournal, play
from engine.profile import make_profile
from engine.rules import create
from engine.terms import Seat
from tests.agents.llm.minds import Puppet
from tests.agents.llm.models import Sent

__all__ = ["FOLDER", "PROMPTS", "prompts_written"]

FOLDER: Final = Path(__file__).parent / "prompts"

SEED: Final = 3
"""Percival, Morgana, Merlin, Servant, Assassin in seats 1 to 5; a rejection in round 2; a shot."""


@dataclass(frozen=True)
class GoldenPrompt:
    """All prompts of one seat for one request."""

    request_id: str
    options: Mapping[str, Any] = field(default_factory=dict)
    profile: str = "interintent"

    @property
    def seat(self) -> Seat:
        return int(self.request_id.rpartition(".")[2])


PROMPTS: Final[Mapping[str, GoldenPrompt]] = {
    "percival-opens-the-game": GoldenPrompt("1.1.propose_team.1"),
    "merlin-opens-after-a-rejection": GoldenPrompt("2.2.propose_team.3"),
    "merlin-in-round-2": GoldenPrompt("2.1.speak.3"),
    "merlin-in-round-2-eager": GoldenPrompt("2.1.speak.3", {"timing": "eager"}),
    "merlin-in-round-2-generated": GoldenPrompt("2.1.speak.3", {"selection": "generated"}),
    "merlin-in-round-2-one-pass": GoldenPrompt("2.1.speak.3", {"mechanism": "one_pass"}),
    "merlin-in-round-2-two-pass": GoldenPrompt("2.1.speak.3", {"mechanism": "two_pass"}),
    "merlin-in-round-2-without-readings": GoldenPrompt(
        "2.1.speak.3", {"steps": ("first_order", "selection", "formulation")}
    ),
    "morgana-sums-up-and-opens-one-pass": GoldenPrompt("1.1.summarise.2", {"mechanism": "one_pass"}),
    "morgana-reconsiders-and-votes-one-pass": GoldenPrompt("2.1.reconsider.2", {"mechanism": "one_pass"}),
    "servant-votes-one-pass": GoldenPrompt("2.1.vote.4", {"mechanism": "one_pass"}),
    "merlin-in-round-2-contemplation": GoldenPrompt("2.1.speak.3", {"mechanism": "contemplation"}),
    "merlin-in-round-2-direct": GoldenPrompt("2.1.speak.3", {"mechanism": "direct"}),
    "morgana-reconsiders": GoldenPrompt("2.1.reconsider.2"),
    "servant-votes-on-a-last-proposal": GoldenPrompt("2.2.vote.4"),
    "morgana-sums-up-a-rejection": GoldenPrompt("2.1.summarise.2"),
    "servant-sums-up-a-quest": GoldenPrompt("2.2.summarise.4"),
    "merlin-plays-a-card": GoldenPrompt("2.2.card.3"),
    "assassin-plays-a-card": GoldenPrompt("2.1.card.5", profile="official"),
    "assassin-shoots": GoldenPrompt("3.1.assassinate.5"),
    "merlin-proposes-after-the-talk": GoldenPrompt("4.2.propose_team.3", profile="official"),
}
"""The files of one request each, by name."""

EVERY: Final = "every-prompt-of-a-game"
"""The file that holds a digest of each prompt of the game, in seat order."""


def played_out(profile: str, options: tuple[tuple[str, Any], ...]) -> dict[Seat, list[Sent]]:
    """Everything that each seat's model was sent in the whole game."""
    seats = {seat: Puppet(seat, dict(options)) for seat in range(1, 6)}
    asyncio.run(play(create(make_profile(profile), SEED), seats, MemoryJournal()))
    return {seat: puppet.mind.sent for seat, puppet in seats.items()}


@cache
def _sent(profile: str, options: tuple[tuple[str, Any], ...]) -> dict[Seat, list[Sent]]:
    return played_out(profile, options)


def prompts_written() -> dict[str, str]:
    """Every file's text by its name."""
    texts = {name: _text(golden) for name, golden in PROMPTS.items()}
    return {**texts, EVERY: _digests()}


def _text(golden: GoldenPrompt) -> str:
    sent = _sent(golden.profile, tuple(golden.options.items()))[golden.seat]
    mine = [one for one in sent if one.key.request_id == golden.request_id]
    assert mine, f"{golden.request_id} is never asked"
    options = ", ".join(f"{name} {value}" for name, value in golden.options.items()) or "paper"
    parts = [f"{golden.profile}, seed {SEED}, seat {golden.seat}, {golden.request_id}, {options}\n"]
    shown: tuple[Message, ...] = ()
    for i, one in enumerate(mine, 1):
        where = " ".join(filter(None, (one.key.step, one.key.about)))
        parts.append(
            f"\n######## call {i}: {where}, form {one.form.name}, {len(flat(one.messages))} characters"
        )
        same = _alike(shown, one.messages)
        if same:
            parts.append(f"\n#### the first {same} messages as in the call before")
        for message in one.messages[same:]:
            parts.append(f"\n#### {message.role}\n{message.content}\n")
        shown = one.messages
    return "".join(parts)


def _alike(before: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    pairs = zip(before, now, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(now)))


def _digests() -> str:
    lines = [f"interintent, seed {SEED}, paper: every prompt's characters, those already sent, and sha256"]
    for seat, sent in _sent("interintent", ()).items():
        meter = PrefixMeter()
        for one in sent:
            text = flat(one.messages)
            where = " ".join(filter(None, (one.key.request_id, one.key.step, one.key.about)))
            digest = sha256(text.encode()).hexdigest()[:16]
            lines.append(f"{where}: {len(text)}, {meter.add(one.messages)}, {digest}")
        lines.append(
            f"seat {seat}: {len(sent)} calls, {meter.sent} characters, {meter.share:.3f} sent before"
        )
    return "\n".join(lines) + "\n"
