"""The agent kinds: ours, and those of installed packages.

A package adds a kind through the entry point group ``interintent.agents``. The name of the entry point is the
kind; its object is called with a ``Setup`` and returns an agent. A kind that asks a language model belongs to
the group ``interintent.model_agents``; its object is called with a ``Setup`` and the seat's ``ModelSession``.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from agents.agent import Agent, MakeAgent, Setup
from agents.errors import InvalidAgent
from agents.scripted.agent import RandomAgent, ScriptedAgent

if TYPE_CHECKING:
    from agents.llm.session import ModelSession

__all__ = [
    "GROUP",
    "LLM",
    "MODEL_GROUP",
    "REMOTE",
    "asks_model",
    "kinds",
    "make_agent",
    "make_model_agent",
    "model_kinds",
]

GROUP: Final = "interintent.agents"
MODEL_GROUP: Final = "interintent.model_agents"

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
        names = ", ".join(sorted({LLM, REMOTE, *known, *model_kinds()}))
        raise InvalidAgent(f"agent must be one of {names}, got {kind!r}", "/agent")
    if kind in _OURS and setup.options:
        raise InvalidAgent(f"{kind} takes no options, got {', '.join(sorted(setup.options))}", "/options")
    return known[kind](setup)


@cache
def model_kinds() -> Mapping[str, EntryPoint]:
    """The kinds of installed packages that ask a model, by name. Imports none of the packages."""
    ours = {LLM, REMOTE, *_OURS}
    return {point.name: point for point in entry_points(group=MODEL_GROUP) if point.name not in ours}


def asks_model(kind: str) -> bool:
    """Whether seats of this kind ask a language model through the service."""
    return kind == LLM or kind in model_kinds()


def make_model_agent(kind: str, setup: Setup, session: "ModelSession") -> Agent:
    """An agent of one of ``model_kinds`` for one seat. Raises InvalidAgent."""
    agent: Agent = model_kinds()[kind].load()(setup, session)
    return agent
