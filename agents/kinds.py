"""The agent kinds: ours, and those of installed packages.

A package adds a kind through the entry point group ``interintent.agents``. The name of the entry point is the
kind; its object is called with a ``Setup`` and returns an agent.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Final

from agents.agent import Agent, MakeAgent, Setup
from agents.errors import InvalidAgent
from agents.scripted.agent import RandomAgent, ScriptedAgent

__all__ = ["GROUP", "LLM", "REMOTE", "kinds", "make_agent"]

GROUP: Final = "interintent.agents"

LLM: Final = "llm"
"""Seats that a language model plays; their agents are made where the model is known."""

REMOTE: Final = "remote"
"""Seats that remote programs and people play; their agents are made where the inbox is known."""

_OURS: Final[Mapping[str, MakeAgent]] = {"random": RandomAgent, "scripted": ScriptedAgent}


@cache
def kinds() -> Mapping[str, MakeAgent]:
    """Every kind by name; where a package uses one of our names, our kind wins. Imports the packages."""
    installed = {point.name: point.load() for point in entry_points(group=GROUP)}
    return {**installed, **_OURS}


def make_agent(kind: str, setup: Setup) -> Agent:
    """An agent of the kind for one seat. Raises InvalidAgent."""
    # Our kinds do not load other packages, so that a broken package cannot stop them.
    known = _OURS if kind in _OURS else kinds()
    if kind not in known:
        names = ", ".join(sorted({LLM, REMOTE, *known}))
        raise InvalidAgent(f"agent must be one of {names}, got {kind!r}", "/agent")
    if kind in _OURS and setup.options:
        raise InvalidAgent(f"{kind} takes no options, got {', '.join(sorted(setup.options))}", "/options")
    return known[kind](setup)
