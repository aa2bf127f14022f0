"""The agent kinds there are: ours, and those of installed packages.

A package adds one through the entry point group ``interintent.agents``; the entry point's name is
the kind, its object is called with a ``Setup`` and gives an agent.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from agents.agent import Agent, MakeAgent, Setup
from agents.errors import InvalidAgent
from agents.scripted import RandomAgent, ScriptedAgent

__all__ = ["GROUP", "LLM", "REMOTE", "kinds", "make_agent"]

GROUP: Final = "interintent.agents"

LLM: Final = "llm"
"""Seats that a language model plays. They need a model beside their setup: who has one makes them."""

REMOTE: Final = "remote"
"""Seats that are played from outside, by programs and people: made by who has their inbox."""

_OURS: Final[Mapping[str, MakeAgent]] = {"random": RandomAgent, "scripted": ScriptedAgent}


@cache
def kinds() -> Mapping[str, MakeAgent]:
    """Every kind by name. Ours win over a package's of the same name. Imports what it lists."""
    found = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {**found, **_OURS}


def make_agent(kind: str, setup: Setup) -> Agent:
    """An agent of that kind for one seat. Raises InvalidAgent."""
    # Ours without looking at other packages: a broken one must not stop them.
    known = _OURS if kind in _OURS else kinds()
    if kind not in known:
        names = ", ".join(sorted({LLM, REMOTE, *known}))
        raise InvalidAgent(f"agent must be one of {names}, got {kind!r}", "/agent")
    if kind in _OURS and setup.options:
        raise InvalidAgent(f"{kind} takes no options, got {', '.join(sorted(setup.options))}", "/options")
    return known[kind](setup)
