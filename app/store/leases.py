"""Leases on PostgreSQL: how much of a limit each process may use, so that all processes keep it together.

A limit is named: by a model's endpoint (places in flight, and shares of its rates), by a batch (places, and
blocks of its budget), or by an owner and a kind of work (places). Each process that uses it has a row, which
expires by the database's clock unless it is renewed. What is granted never exceeds what the live rows of the
others leave. A process that dies, or hangs, loses its row after LEASE_S.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import BigInteger, bindparam, delete, func, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.db import Database, answering
from app.store.rows import Damaged, finite
from app.store.tables import model_leases, model_limits, model_spending

__all__ = ["LEASE_S", "Demand", "Granted", "LeaseStore", "divided", "divided_by_owner"]

LEASE_S: Final = 10.0
"""Seconds after which a lease expires that is not renewed."""

ROTATE_MS: Final = 2000
"""Milliseconds after which the next process gets what cannot be divided evenly."""

LAST_TOKENS: Final = 1000
"""If no more tokens than this are left of a budget, one process gets all of them."""

LAST_SHARE: Final = 1e-6
"""If no more than this share of a budget's money is left, one process gets all of it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process wants of a limit."""

    name: str
    bounds: tuple[int, int, int] | None
    """The least, first and most places of all processes together; None: places are not limited."""
    wanted: int = 0
    """How many places the process would use now. 0: it gives back its lease."""
    owners: Mapping[str, int] = field(default_factory=dict)
    """For whom, as far as it knows: how many of the wanted places by owner. The rest are nobody's in
    particular."""
    used: int = 0
    """How many places it uses now."""
    answers: int = 0
    """The answers since its last report."""
    turned_away_s: float | None = None
    """How many seconds ago the last request was sent that was turned away since the last report."""
    max_tokens: int | None = None
    max_cost: float | None = None
    """A batch's budget. None: no limit."""


@dataclass(frozen=True, slots=True)
class Granted:
    """What a process may use of a limit for LEASE_S from the moment of asking."""

    places: int
    share: float
    """Of the endpoint's rates, in [0, 1]."""
    alone: bool
    """Whether no other process has a lease."""
    spent_tokens: int = 0
    spent_cost: float = 0.0
    """What the batch has spent up to now, in all processes."""
    tokens: float = 0.0
    cost: float = 0.0
    """What this process may spend beyond that; infinite where the budget sets no limit."""
    owners: Mapping[str, int] = field(default_factory=dict, compare=False)
    """How many of the places are each owner's, while there are fewer than are wanted."""


_LOCK: Final = text("SELECT pg_advisory_xact_lock(key) FROM unnest(:keys) AS wanted(key)").bindparams(
    bindparam("keys", type_=ARRAY(BigInteger))
)
_NOW: Final[Any] = func.floor(func.extract("epoch", func.clock_timestamp()) * 1000).cast(BigInteger)
_l: Final = model_leases.c
_m: Final = model_limits.c


def _key(name: str) -> int:
    """The key of the advisory lock under which a limit is divided."""
    return int.from_bytes(hashlib.sha256(f"lease {name}".encode()).digest()[:8], "big", signed=True)


def divided(total: int, wanted: Mapping[str, int], turn: int) -> dict[str, int]:
    """Divides ``total`` fairly: nobody gets more than wanted, and what one does not want the others share.
    What cannot be divided evenly goes to one after the other, from ``turn`` on.
    """
    names = sorted(name for name, count in wanted.items() if count > 0)
    names = names[turn % len(names) :] + names[: turn % len(names)] if names else []
    shares, left = dict.fromkeys(wanted, 0), total
    while left and names:
        each = max(1, left // len(names))
        for name in list(names):
            more = min(each, wanted[name] - shares[name], left)
            shares[name] += more
            left -= more
            if shares[name] == wanted[name]:
                names.remove(name)
    return shares


def divided_by_owner(
    total: int, wanted: Mapping[str, Mapping[str, int]], turn: int
) -> dict[str, dict[str, int]]:
    """Divides ``total`` fairly among owners, and what each gets among its processes. ``wanted`` and the
    result are by process and owner.
    """
    every: Counter[str] = Counter()
    for of_process in wanted.values():
        every.update(of_process)
    shares: dict[str, dict[str, int]] = {process: {} for process in wanted}
    for owner, places in divided(total, every, turn).items():
        its = {process: of_process.get(owner, 0) for process, of_process in wanted.items()}
        for process, count in divided(places, its, turn).items():
            if count:
                shares[process][owner] = count
    return shares


def _by_owner(wanted: int, owners: Mapping[str, int] | Damaged | None) -> dict[str, int]:
    """What a process wants by owner; what it does not say for whom is for ""."""
    known = {} if owners is None or isinstance(owners, Damaged) else owners
    named = {owner: count for owner, count in known.items() if type(count) is int and count > 0}
    unnamed = wanted - sum(named.values())
    if unnamed > 0:
        named[""] = named.get("", 0) + unnamed
    return named


class LeaseStore:
    """The tables ``model_leases`` and ``model_limits``, for one process. PostgreSQL only."""

    def __init__(self, database: Database, process: str) -> None:
        """``process``: its name, which no other process has."""
        self._database = database
        self._process = process

    async def renew(self, demands: Sequence[Demand]) -> dict[str, Granted]:
        """Renews, changes or gives back the leases of this process, in one transaction. Returns what it may
        use of each limit, by name. The names must be different.
        """
        async with answering(), self._database.write_engine.begin() as connection:
            names = [demand.name for demand in demands]
            # Sorted, so that processes never wait for each other in a circle.
            await connection.execute(_LOCK, {"keys": sorted({_key(name) for name in names})})
            now = int((await connection.execute(select(_NOW))).scalar_one())
            # A lease that expires later than any is a damaged row, which would hold its places for ever.
            is_valid = _l.expires_at.between(now + 1, now + round(LEASE_S * 1000))
            leases = await connection.execute(
                select(model_leases).where(_l.name.in_(names), _l.process != self._process, is_valid)
            )
            others: dict[str, list[Mapping[Any, Any]]] = {name: [] for name in names}
            for row in leases.mappings():
                others[row["name"]].append(row)
            limits = await connection.execute(select(model_limits).where(_m.name.in_(names)))
            stored = {row["name"]: row for row in limits.mappings()}
            grants = {}
            rows, adapted, spendings = [], [], await self._spent(connection, demands)
            for demand in demands:
                most = None
                if demand.bounds is not None:
                    limit, changed = _adapted(demand, stored.get(demand.name), now)
                    most = limit["places"]
                    if changed and demand.wanted:
                        adapted.append(limit)
                grant = self._grant(demand, most, others[demand.name], spendings.get(demand.name), now)
                grants[demand.name] = grant
                if demand.wanted:
                    rows.append(
                        {
                            "name": demand.name,
                            "process": self._process,
                            # Calls in flight beyond the grant still count, until they have ended.
                            "places": max(grant.places, demand.used),
                            "wanted": demand.wanted,
                            "owners": dict(demand.owners) or None,
                            "share": grant.share,
                            "tokens": 0 if demand.max_tokens is None else int(grant.tokens),
                            "cost": 0.0 if demand.max_cost is None else grant.cost,
                            "expires_at": now + round(LEASE_S * 1000),
                        }
                    )
            if rows:
                put = insert(model_leases)
                changes = {column.name: put.excluded[column.name] for column in _l if not column.primary_key}
                await connection.execute(
                    put.on_conflict_do_update(index_elements=[_l.name, _l.process], set_=changes), rows
                )
            if adapted:
                put = insert(model_limits)
                changes = {column.name: put.excluded[column.name] for column in _m if not column.primary_key}
                await connection.execute(
                    put.on_conflict_do_update(index_elements=[_m.name], set_=changes), adapted
                )
            given_back = [demand.name for demand in demands if not demand.wanted]
            await connection.execute(
                delete(model_leases).where(
                    _l.name.in_(names),
                    ~is_valid | (_l.name.in_(given_back) & (_l.process == self._process)),
                )
            )
            # A number that is where it began says nothing: batches, of which there are many, leave no rows.
            unused = [
                demand.name
                for demand in demands
                if demand.name in given_back
                and not others[demand.name]
                and demand.bounds is not None
                and demand.name in stored
                and stored[demand.name]["places"] == demand.bounds[1]
            ]
            if unused:
                await connection.execute(delete(model_limits).where(_m.name.in_(unused)))
        return grants

    async def give_back(self) -> None:
        """Gives back every lease of this process."""
        async with answering(), self._database.write_engine.begin() as connection:
            await connection.execute(delete(model_leases).where(_l.process == self._process))

    async def _spent(
        self, connection: AsyncConnection, demands: Sequence[Demand]
    ) -> dict[str, tuple[int, float]]:
        """What batches with a budget have spent: tokens and cost."""
        batches = [demand.name for demand in demands if demand.max_tokens is not None]
        batches += [demand.name for demand in demands if demand.max_cost is not None]
        if not batches:
            return {}
        of = model_spending.c
        query = (
            select(of.batch_id, func.sum(of.tokens), func.sum(of.cost))
            .where(of.batch_id.in_(batches))
            .group_by(of.batch_id)
        )
        spent = dict.fromkeys(batches, (0, 0.0))
        for batch_id, tokens, cost in await connection.execute(query):
            spent[batch_id] = int(finite(tokens)), finite(cost)
        return spent

    def _grant(
        self,
        demand: Demand,
        most: int | None,
        others: Sequence[Mapping[Any, Any]],
        spent: tuple[int, float] | None,
        now: int,
    ) -> Granted:
        """``most``: the places of all processes together; None: there are none to lease."""
        tokens, cost = spent or (0, 0.0)
        if not demand.wanted:
            return Granted(0, 0.0, not others, tokens, cost)
        wanted = {self._process: _by_owner(demand.wanted, demand.owners)}
        wanted |= {row["process"]: _by_owner(row["wanted"], row["owners"]) for row in others}
        everything = sum(sum(of_process.values()) for of_process in wanted.values())
        places, part = 0, demand.wanted / everything
        its: Mapping[str, int] = {}
        if most is not None:
            fair = divided_by_owner(most, wanted, now // ROTATE_MS)
            its = fair[self._process]
            handed_out = sum(sum(of_process.values()) for of_process in fair.values())
            # Half of what nobody wants is handed out too, for calls to come; the rest is left for newcomers.
            more = max(0, most - handed_out) // 2 * demand.wanted // everything
            free = most - sum(row["places"] for row in others)
            places = min(sum(its.values()) + more, max(0, free))
            # The rates go as the places do.
            part = sum(its.values()) / handed_out if handed_out else part
        left = 1.0 - sum(row["share"] for row in others)
        share = max(0.0, min(part, left))
        return Granted(
            places,
            share,
            not others,
            tokens,
            cost,
            _block(demand.max_tokens, tokens, sum(row["tokens"] for row in others), LAST_TOKENS),
            _block(
                demand.max_cost,
                cost,
                sum(row["cost"] for row in others),
                (demand.max_cost or 0.0) * LAST_SHARE,
            ),
            its,
        )


def _block(most: float | None, spent: float, others: float, last: float) -> float:
    """How much of a budget a process may spend before it asks again: half of what is left, so that others
    find something. The blocks get smaller towards the budget's end.
    """
    if most is None:
        return float("inf")
    left = max(0.0, most - spent - others)
    return left if left <= last else left / 2


def _adapted(demand: Demand, stored: Mapping[Any, Any] | None, now: int) -> tuple[dict[str, Any], bool]:
    """The limit of all processes after this report, and whether its row changes. It starts again when the
    settings change, and from a row that makes no sense.
    """
    assert demand.bounds is not None
    least, first, most = demand.bounds
    bounds = f"{least}-{first}-{most}"
    if stored is None or not (
        stored["bounds"] == bounds
        and least <= stored["places"] <= most
        and stored["answers"] >= 0
        and stored["lowered_at"] <= now
    ):
        row: dict[str, Any] = {
            "name": demand.name,
            "bounds": bounds,
            "places": first,
            "answers": 0,
            "lowered_at": 0,
        }
    else:
        row = {str(name): value for name, value in stored.items()}
    if demand.turned_away_s is not None and now - demand.turned_away_s * 1000 > row["lowered_at"]:
        row |= {"places": max(least, row["places"] // 2), "lowered_at": now, "answers": 0}
    elif demand.answers and row["places"] < most:
        answers = row["answers"] + demand.answers
        while answers >= row["places"] and row["places"] < most:
            answers -= row["places"]
            row["places"] += 1
        row["answers"] = answers
    return row, stored is None or dict(stored) != row
