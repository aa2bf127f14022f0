"""What exports say of a stored game's provenance."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents.kinds import LLM
from agents.llm.options import mechanism_name
from app.base.clock import timestamp
from app.settings import EndpointSettings
from app.store.rows import BatchRow, GameRow, whole
from engine.errors import UNREADABLE, CorruptLog
from engine.events import Event
from engine.seated import SeatedAgent
from engine.terms import Seat
from evaluators.ground.provenance import Provenance, catalogue_digest, package_version, provenance_of

__all__ = ["stored_agents", "stored_provenance"]


def stored_provenance(
    row: GameRow,
    batch: BatchRow,
    log: Sequence[Event],
    served: Mapping[Seat, Iterable[str]],
    endpoints: Mapping[str, EndpointSettings],
) -> Provenance:
    """``served``: by seat, the models that answered. Raises CorruptLog for rows that cannot be read."""
    try:
        specs = whole(row.seats)
        named = {spec["model"] for spec in specs if spec.get("model")}
        aliases = whole(batch.spec).get("models") or {}
        used = sorted({str(aliases[name]["name"]) if name in aliases else str(name) for name in named})
        return provenance_of(
            row.game_id,
            log,
            served=served,
            agents=stored_agents(specs),
            server=package_version(),
            batch_id=row.batch_id,
            labels={str(name): str(value) for name, value in whole(batch.labels).items()},
            catalogue=catalogue_digest(),
            prices={
                name: prices.model_dump(exclude_none=True)
                for name in used
                if name in endpoints and (prices := endpoints[name].prices) is not None
            },
            invalid=_mark(row.invalid),
            forked_from=_of(row.forked_from, game_id=str, events=int),
            imported_from=_of(row.imported_from, format=str, id=str),
        )
    except CorruptLog:
        raise
    except UNREADABLE as fault:
        raise CorruptLog(f"the row of {row.game_id} cannot be read: {type(fault).__name__}") from None


def stored_agents(specs: Sequence[Mapping[str, Any]]) -> tuple[SeatedAgent, ...]:
    """The agents of seats by their specs, for logs of versions that do not record agents: what they called a
    model is its endpoint. Empty without specs.
    """
    return tuple(SeatedAgent(spec["agent"], spec.get("model"), None, _options(spec)) for spec in specs)


def _options(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    own = spec.get("options") or {}
    if spec["agent"] != LLM:
        return {**({} if spec.get("mechanism") is None else {"mechanism": spec["mechanism"]}), **own}
    return {"timing": "exact", **own, "mechanism": mechanism_name(spec)}


def _mark(invalid: Any) -> Mapping[str, Any] | None:
    why = _of(invalid, at=int, by=str, reason=str)
    return None if why is None else {**why, "at": timestamp(why["at"])}


def _of(stored: Any, **kinds: type) -> dict[str, Any] | None:
    """These fields of a stored object, each of its type; None for None. A damaged one is not quoted."""
    if stored is None:
        return None
    values = {name: whole(stored)[name] for name in kinds}
    if any(type(value) is not kinds[name] for name, value in values.items()):
        raise TypeError("a field of the wrong type")
    return values
