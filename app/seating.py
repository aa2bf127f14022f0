"""A seat's spec → an agent."""

from collections.abc import Mapping, Sequence
from typing import Any

from agents.agent import Agent, Setup
from agents.kinds import make_agent
from engine.chance import secret
from engine.terms import Seat

__all__ = ["seat_agents"]


def seat_agents(seats: Sequence[Mapping[str, Any]], seed: str) -> dict[Seat, Agent]:
    """One agent a seat; ``seats`` holds the spec of seat 1 first. Raises InvalidAgent."""
    return {
        seat: make_agent(spec["agent"], Setup(seat, secret(seed, "agent", seat), spec.get("options") or {}))
        for seat, spec in enumerate(seats, 1)
    }
