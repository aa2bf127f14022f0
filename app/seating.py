"""A seat's spec → an agent."""

from collections.abc import Mapping, Sequence
from typing import Any

from agents.agent import Agent, Setup
from agents.errors import InvalidAgent
from agents.kinds import make_agent
from engine.chance import secret
from engine.terms import Seat

__all__ = ["seat_agents"]


def seat_agents(seats: Sequence[Mapping[str, Any]], seed: str) -> dict[Seat, Agent]:
    """One agent a seat; ``seats`` holds the spec of seat 1 first.

    Raises InvalidAgent with a pointer into the request that lists the specs.
    """
    agents: dict[Seat, Agent] = {}
    for seat, spec in enumerate(seats, 1):
        setup = Setup(seat, secret(seed, "agent", seat), spec.get("options") or {})
        try:
            agents[seat] = make_agent(spec["agent"], setup)
        except InvalidAgent as fault:
            raise InvalidAgent(str(fault), f"/seats/{seat - 1}{fault.pointer}") from None
    return agents
