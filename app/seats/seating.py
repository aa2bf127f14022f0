"""Makes agents from the specs of seats."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from agents.agent import Agent, Inbox, Setup
from agents.errors import InvalidAgent
from agents.kinds import LLM, REMOTE, asks_model, make_agent, make_model_agent
from agents.llm.session import ModelSession
from agents.model.model import Sampling, read_sampling
from agents.remote import RemoteAgent
from engine.chance import secret
from engine.profile import Profile
from engine.seated import ALIAS, SeatedAgent
from engine.terms import Seat

if TYPE_CHECKING:
    from agents.llm.agent import LlmAgent
    from agents.llm.templates import Templates

__all__ = [
    "LLM",
    "REMOTE",
    "AskedModel",
    "ModelSeats",
    "has_models",
    "has_only_scripts",
    "model_seats",
    "remote_seats",
    "seat_agents",
    "seated",
]


class AskedModel(NamedTuple):
    """What the log says of the model that a seat asks."""

    endpoint: str | None
    """The endpoint's name; None: there is none."""
    model: str | None
    """The model's name as it is configured; None: recorded answers are used."""


@dataclass(frozen=True, slots=True)
class ModelSeats:
    """What seats played by language models need in addition to their spec."""

    session: Callable[[str, Sampling], ModelSession]
    """Gives a seat's session with an endpoint, by the endpoint's name and what the seat asks for. Raises
    InvalidAgent, with a pointer into the seat's spec, for an unknown endpoint."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The models of the batch, by the names that seats call them: endpoint's name, temperature, …"""
    asked: Callable[[str], AskedModel] = lambda name: AskedModel(name or None, None)
    """Gives the model of an endpoint, known or not, by the endpoint's name."""
    prompts: Mapping[str, "Templates"] = field(default_factory=dict)
    """Further sets of prompts, by the names that seats call them."""

    def endpoint_of(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model of the seat with this spec: at least the endpoint's ``name``."""
        # None and "" name no endpoint: the error then lists the endpoints.
        name = spec.get("model") or ""
        return self.models.get(name, {"name": name})


def has_models(seats: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of these seats asks a language model of this service."""
    return any(True for _ in model_seats(seats))


def model_seats(seats: Iterable[Mapping[str, Any]]) -> tuple[Seat, ...]:
    """The seats whose agents ask language models of this service."""
    return tuple(seat for seat, spec in enumerate(seats, 1) if asks_model(str(spec.get("agent"))))


def remote_seats(seats: Iterable[Mapping[str, Any]]) -> tuple[Seat, ...]:
    """The seats that remote agents play; empty if there are none."""
    return tuple(seat for seat, spec in enumerate(seats, 1) if spec.get("agent") == REMOTE)


def has_only_scripts(seats: Iterable[Mapping[str, Any]]) -> bool:
    """Whether our own scripts play all of these seats: they answer at once, and the same every time."""
    return all(spec.get("agent") in ("random", "scripted") for spec in seats)


def seat_agents(
    seats: Iterable[Mapping[str, Any]],
    seed: str,
    models: ModelSeats | None = None,
    inbox: Inbox | None = None,
) -> dict[Seat, Agent]:
    """One agent per seat; ``seats``: their specs, seat 1 first.

    Raises InvalidAgent with a pointer into the request that lists the specs.
    """
    agents: dict[Seat, Agent] = {}
    for seat, spec in enumerate(seats, 1):
        own = secret(seed, "agent", seat)
        try:
            if spec["agent"] == LLM:
                agents[seat] = _llm_agent(seat, own, spec, models)
            elif spec["agent"] == REMOTE:
                agents[seat] = _remote_agent(spec, inbox)
            elif asks_model(spec["agent"]):
                agents[seat] = _model_agent(seat, own, spec, models)
            else:
                agents[seat] = _agent(seat, own, spec)
        except InvalidAgent as fault:
            raise InvalidAgent(str(fault), f"/seats/{seat - 1}{fault.pointer}") from None
    return agents


def seated(
    seats: Iterable[Mapping[str, Any]], seed: str, profile: Profile, models: ModelSeats | None = None
) -> tuple[SeatedAgent, ...]:
    """What the log records of the agents that ``seat_agents`` makes now of these specs.

    For a model seat that can no longer be made, only its options are recorded.
    """
    return tuple(_seated(seat, seed, spec, profile, models) for seat, spec in enumerate(seats, 1))


def _seated(
    seat: Seat, seed: str, spec: Mapping[str, Any], profile: Profile, models: ModelSeats | None
) -> SeatedAgent:
    options = spec.get("options") or {}
    if models is None or not asks_model(spec["agent"]):
        return SeatedAgent(spec["agent"], None, None, _plain(options))
    endpoint, model = models.asked(models.endpoint_of(spec)["name"])
    name = spec.get("model")
    alias = {ALIAS: name} if name in models.models and name != endpoint else {}
    if spec["agent"] != LLM:
        return SeatedAgent(spec["agent"], endpoint, model, _plain({**options, **alias}))
    try:
        agent = _llm_agent(seat, secret(seed, "agent", seat), spec, models)
    except InvalidAgent:
        return SeatedAgent(LLM, endpoint, model, _plain({**options, **alias}))
    sampling, _ = read_sampling(options)
    return SeatedAgent(
        LLM, endpoint, model, _plain({**agent.described(profile), **sampling.named(), **alias})
    )


def _plain(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values as the log can hold them: integers of more than 64 bits become floats."""
    read: Mapping[str, Any] = json.loads(json.dumps(values), parse_int=_integer) if values else {}
    return read


def _integer(digits: str) -> int | float:
    value = int(digits)
    return value if -(2**63) <= value < 2**64 else float(value)


def _remote_agent(spec: Mapping[str, Any], inbox: Inbox | None) -> Agent:
    if inbox is None:
        raise InvalidAgent("remote seats need a running service", "/agent")
    _no_model(spec)
    if spec.get("options"):
        raise InvalidAgent(f"{REMOTE} takes no options, got {', '.join(sorted(spec['options']))}", "/options")
    return RemoteAgent(inbox)


def _no_model(spec: Mapping[str, Any]) -> None:
    if spec.get("model") is not None:
        raise InvalidAgent(f"only {LLM} seats, and agents that ask a model, have a model", "/model")
    _no_mechanism(spec)


def _no_mechanism(spec: Mapping[str, Any]) -> None:
    if spec.get("mechanism") is not None:
        raise InvalidAgent(f"only {LLM} seats have a mechanism", "/mechanism")


def _agent(seat: Seat, seed: str, spec: Mapping[str, Any]) -> Agent:
    _no_model(spec)
    return make_agent(spec["agent"], Setup(seat, seed, spec.get("options") or {}))


def _asking(
    spec: Mapping[str, Any], models: ModelSeats | None
) -> tuple[ModelSession, dict[str, Any], dict[str, Any]]:
    """The seat's session, the options that its model gives, and the seat's own, which override them."""
    if models is None:
        raise InvalidAgent("language models do not play here", "/agent")
    chosen = models.endpoint_of(spec)
    sampling, own = read_sampling(spec.get("options") or {})
    session = models.session(chosen["name"], sampling)
    given = {name: chosen.get(name) for name in ("temperature", "max_output_tokens")}
    return session, {name: value for name, value in given.items() if value is not None}, own


def _model_agent(seat: Seat, seed: str, spec: Mapping[str, Any], models: ModelSeats | None) -> Agent:
    _no_mechanism(spec)
    session, given, own = _asking(spec, models)
    return make_model_agent(spec["agent"], Setup(seat, seed, {**given, **own}), session)


def _llm_agent(seat: Seat, seed: str, spec: Mapping[str, Any], models: ModelSeats | None) -> "LlmAgent":
    session, given, own = _asking(spec, models)
    if spec.get("mechanism") is not None:
        given["mechanism"] = spec["mechanism"]
    if "mechanism" in own and "mechanism" in given:
        raise InvalidAgent("mechanism is given twice: once is enough", "/options/mechanism")
    # Imports templates and schemas: only games with models pay for that.
    from agents.llm.agent import LlmAgent

    assert models is not None
    return LlmAgent(Setup(seat, seed, {**given, **own}), session, models.prompts)
