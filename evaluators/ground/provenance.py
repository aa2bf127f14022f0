"""Where a game comes from: who played it, how, in which study, and with which version of this package.

Each game of an export opens with a line of type ``provenance``. A full export says everything; any other
one says only the profile, the names and the version, since twin games that differ in hidden things must give
equal bytes. Exports of earlier versions have no such line: what their logs say of the agents is used in its
place.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, Final

from engine.errors import CorruptLog
from engine.events import AgentsSeated, Event, GameCreated, RolesDealt
from engine.seated import ALIAS, SeatedAgent
from engine.terms import Seat
from evaluators.measures.defaults import DecisionCounter

__all__ = [
    "PROVENANCE",
    "AgentProvenance",
    "Provenance",
    "catalogue_digest",
    "package_version",
    "provenance_of",
    "public_provenance",
]

PROVENANCE: Final = "provenance"
"""The type of the line."""

LLM: Final = "llm"


@dataclass(frozen=True, slots=True)
class AgentProvenance:
    """The agent of one seat."""

    seat: Seat
    agent: str
    """Its kind: ``llm``, ``scripted``, ``remote``, …"""
    endpoint: str | None = None
    """The name of its model's endpoint."""
    model: str | None = None
    """The model as it was asked for."""
    served: tuple[str, ...] = ()
    """The models that answered, as the provider names them, in alphabetical order; empty: none did, or it is
    not known. More than one: the provider changed the model during the game."""
    mechanism: str | None = None
    """The preset of the steps; None for other agents than language models."""
    steps: tuple[str, ...] | None = None
    prompts: str | None = None
    prompts_hash: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """All options, those with their default value too."""

    @property
    def name(self) -> str:
        """What reports call it: its kind, its model, its mechanism, such as ``llm gpt-x@main paper``. The
        endpoint follows the model's name where the two differ, and so does another name that the batch has
        for the model (``gpt-x@main as cold``).
        """
        model = "@".join(dict.fromkeys(filter(None, (self.model, self.endpoint))))
        alias = f"as {self.parameters[ALIAS]}" if self.endpoint and ALIAS in self.parameters else None
        return " ".join(part for part in (self.agent, model, alias, self.mechanism) if part)

    def as_json(self) -> dict[str, Any]:
        return {
            "seat": self.seat,
            "agent": self.agent,
            "endpoint": self.endpoint,
            "model": self.model,
            "served": list(self.served),
            "mechanism": self.mechanism,
            "steps": None if self.steps is None else list(self.steps),
            "prompts": self.prompts,
            "prompts_hash": self.prompts_hash,
            "parameters": dict(self.parameters),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "AgentProvenance":
        steps = values.get("steps")
        return cls(
            seat=int(values["seat"]),
            agent=str(values["agent"]),
            endpoint=values.get("endpoint"),
            model=values.get("model"),
            served=tuple(values.get("served") or ()),
            mechanism=values.get("mechanism"),
            steps=None if steps is None else tuple(steps),
            prompts=values.get("prompts"),
            prompts_hash=values.get("prompts_hash"),
            parameters=dict(values.get("parameters") or {}),
        )

    @classmethod
    def of(cls, seat: Seat, seated: SeatedAgent, served: Iterable[str] = ()) -> "AgentProvenance":
        """What a log says of an agent, with the models that answered it."""
        given = seated.parameters
        steps = given.get("steps")
        return cls(
            seat,
            seated.agent,
            seated.endpoint,
            seated.model,
            tuple(sorted(set(served))),
            given.get("mechanism") if seated.agent == LLM else None,
            tuple(steps) if isinstance(steps, list | tuple) else None,
            given.get("prompts") if seated.agent == LLM else None,
            given.get("prompts_hash"),
            given,
        )


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one game comes from."""

    game_id: str
    profile: str
    players: int
    names: tuple[str, ...]
    server: str
    """The version of this package that wrote the line; empty: not known. A game that ``simulate`` or a study
    plays has its line when it ends, a stored one anew in each export."""
    seed: str | None = None
    """The seed of the deal, in decimal."""
    agents: tuple[AgentProvenance, ...] = ()
    """Seat 1 first; empty: not known, as for imported games. In a fork, those who played on."""
    batch_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the game's batch."""
    catalogue: str | None = None
    """The hash of the catalogue of intentions."""
    prices: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """By endpoint, the prices of a million tokens, as configured when the line was written. What a call
    really cost is stored with the call."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """By seat, its decisions, and those that were played by default, by cause."""
    invalid: Mapping[str, Any] | None = None
    """When, by whom and why the game was marked as invalid; None: it was not."""
    forked_from: Mapping[str, Any] | None = None
    imported_from: Mapping[str, Any] | None = None

    @property
    def study(self) -> str | None:
        return self.labels.get("study")

    @property
    def cell(self) -> str | None:
        return self.labels.get("cell")

    @property
    def served(self) -> Mapping[str, frozenset[str]]:
        """By model as it was asked for, the models that answered."""
        served: dict[str, frozenset[str]] = {}
        for agent in self.agents:
            asked = agent.endpoint or agent.model
            if asked is not None and agent.served:
                served[asked] = served.get(asked, frozenset()) | frozenset(agent.served)
        return served

    @property
    def models(self) -> frozenset[Seat]:
        """The seats that language models held."""
        return frozenset(agent.seat for agent in self.agents if agent.agent == LLM)

    def words_of_invalid(self) -> str:
        """Why the game was marked as invalid, in one line; empty if it was not."""
        if self.invalid is None:
            return ""
        mark = {name: self.invalid.get(name, "?") for name in ("at", "by", "reason")}
        return "marked as invalid {at} by {by}: {reason}".format(**mark)

    def as_json(self, *, full: bool) -> dict[str, Any]:
        """The line; unless ``full``, only what everybody may see."""
        public = {
            "type": PROVENANCE,
            "game": self.game_id,
            "profile": self.profile,
            "players": self.players,
            "names": list(self.names),
            "server": self.server,
        }
        if not full:
            return public
        return {
            **public,
            "seed": self.seed,
            "agents": [agent.as_json() for agent in self.agents],
            "study": self.study,
            "cell": self.cell,
            "labels": dict(self.labels),
            "batch_id": self.batch_id,
            "catalogue": self.catalogue,
            "prices": {name: dict(prices) for name, prices in self.prices.items()},
            "defaults": dict(self.defaults),
            "invalid": None if self.invalid is None else dict(self.invalid),
            "forked_from": None if self.forked_from is None else dict(self.forked_from),
            "imported_from": None if self.imported_from is None else dict(self.imported_from),
        }

    def line(self, *, full: bool) -> bytes:
        """``as_json`` as a line of an export."""
        return json.dumps(self.as_json(full=full), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Provenance":
        """What ``as_json`` gave; unknown fields are ignored. Raises CorruptLog for anything else."""
        try:
            return cls(
                game_id=str(values["game"]),
                profile=str(values["profile"]),
                players=int(values["players"]),
                names=tuple(map(str, values["names"])),
                server=str(values["server"]),
                seed=None if values.get("seed") is None else str(values["seed"]),
                agents=tuple(map(AgentProvenance.read, values.get("agents") or ())),
                batch_id=values.get("batch_id"),
                labels={str(name): str(value) for name, value in (values.get("labels") or {}).items()},
                catalogue=values.get("catalogue"),
                prices=dict(values.get("prices") or {}),
                defaults=dict(values.get("defaults") or {}),
                invalid=values.get("invalid"),
                forked_from=values.get("forked_from"),
                imported_from=values.get("imported_from"),
            )
        except (LookupError, TypeError, ValueError, AttributeError):
            raise CorruptLog("a line of provenance cannot be read") from None


def provenance_of(
    game_id: str,
    log: Sequence[Event],
    *,
    served: Mapping[Seat, Iterable[str]] | None = None,
    agents: Sequence[SeatedAgent] = (),
    server: str = "",
    **more: Any,
) -> Provenance:
    """What a log says of its game's provenance. ``more``: the fields that no log holds (``labels``, …).
    ``agents``: used where the log names none, as logs of early versions do. Raises CorruptLog for a log that
    does not begin with its game.
    """
    known = public_provenance(game_id, log, server)
    seated = next((event.agents for event in reversed(log) if isinstance(event, AgentsSeated)), tuple(agents))
    dealt = next((event for event in log if isinstance(event, RolesDealt)), None)
    return replace(
        known,
        seed=None if dealt is None or dealt.seed is None else str(dealt.seed),
        agents=tuple(
            AgentProvenance.of(seat, agent, (served or {}).get(seat, ()))
            for seat, agent in enumerate(seated, 1)
        ),
        defaults=DecisionCounter(log).as_json(),
        **more,
    )


def public_provenance(game_id: str, log: Sequence[Event], server: str) -> Provenance:
    """What everybody may know of where a game comes from. Raises CorruptLog for a log that does not begin
    with its game.
    """
    created = log[0] if log else None
    if not isinstance(created, GameCreated):
        raise CorruptLog(f"the log of {game_id} does not begin with its game")
    return Provenance(game_id, created.profile.name, created.profile.players, created.names, server)


@cache
def catalogue_digest() -> str:
    """The SHA-256, in hex, of the catalogue of intentions."""
    return hashlib.sha256(files("engine").joinpath("intentions.json").read_bytes()).hexdigest()


@cache
def package_version() -> str:
    """The version of this package; ``unknown`` in a folder that was never installed."""
    try:
        return version("interintent-server")
    except PackageNotFoundError:
        return "unknown"
