"""The command ``keys quota``, and the quotas of ``keys create``."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.table import Column, Table

from app.cli.arguments import AsJson, DatabaseUrl
from app.cli.audit import who_runs
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.tables import print_table
from app.cli.terminal import fail, note, print_json
from app.edge.auth import owner_of
from app.edge.quotas import EXEMPT, Quotas, QuotaUse
from app.settings import InvalidQuotas, read_quotas
from app.store.audit import Audit
from app.store.db import Database
from app.store.keys import KeyStore
from app.store.quotas import QuotaStore

__all__ = ["QuotaChanges", "change_quotas", "quota", "read_changes"]

_OWNER: Final = re.compile(r"key:k_[a-z0-9]{1,38}|project:[^\x00-\x1f\x7f]{1,100}|operator|keyless")


@dataclass(frozen=True, slots=True)
class QuotaChanges:
    """What is to be changed of an owner's quotas."""

    limits: Mapping[str, float | None]
    """None: no limit."""
    drop: frozenset[str]
    """These go by the settings again."""


def read_changes(given: Sequence[str]) -> QuotaChanges:
    """Reads ``NAME=LIMIT``: a number, ``none`` or ``default``. Ends the command for anything else."""
    limits: dict[str, Any] = {}
    drop = set()
    for text in given:
        name, separator, limit = text.partition("=")
        if not separator:
            fail(f"a quota is written NAME=LIMIT, such as open_games=50; got {text!r}")
        if limit == "default":
            drop.add(name)
            limits[name] = None
        elif limit == "none":
            limits[name] = None
        elif re.fullmatch(r"[0-9]{1,16}", limit, re.ASCII):
            limits[name] = int(limit)
        elif re.fullmatch(r"[0-9]{1,12}\.[0-9]{1,12}", limit, re.ASCII):
            limits[name] = float(limit)
        else:
            fail(f"the limit of {name} is a number, none or default; got {limit!r}")
    try:
        read = read_quotas(limits)
    except InvalidQuotas as fault:
        fail(str(fault))
    return QuotaChanges({name: limit for name, limit in read.items() if name not in drop}, frozenset(drop))


async def _change(database: Database, owner: str, changes: QuotaChanges) -> None:
    said = {name: "none" if limit is None else limit for name, limit in changes.limits.items()}
    said |= dict.fromkeys(changes.drop, "default")
    async with Audit(database).noted(who_runs(), "change quotas", owner, **said):
        await QuotaStore(database).change(owner, changes.limits, changes.drop)


def change_quotas(database_url: str | None, owner: str, changes: QuotaChanges) -> None:
    """Changes an owner's quotas in the database."""

    async def run() -> None:
        async with on_database(read_settings(database_url), writes=True) as parts:
            await _change(parts.database, owner, changes)

    run_or_fail(run())


def quota(
    owner: Annotated[
        str,
        typer.Argument(
            metavar="OWNER",
            help="A key's id, k_…; or whose quotas they are: project:NAME, key:k_…, operator, keyless.",
        ),
    ],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=LIMIT]...", help="A number; none: no limit; default: by the settings."),
    ] = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the quotas of a key, or of a project with all of its keys. A running service notices
    changes within two seconds.

    Example: interintent keys quota k_… open_games=50 model_cost_a_day=20 requests=default
    """
    asked = read_changes(changes or [])
    settings = read_settings(database_url)

    async def run() -> tuple[str, list[QuotaUse]]:
        async with on_database(settings, writes=bool(changes)) as parts:
            whose = await _owner(KeyStore(parts.database), owner)
            if changes:
                await _change(parts.database, whose, asked)
            quotas = Quotas(settings, QuotaStore(parts.database))
            await quotas.read()
            return whose, await quotas.used(whose)

    whose, used = run_or_fail(run())
    if as_json:
        print_json(
            {
                "owner": whose,
                "quotas": [{"name": u.quota.name, "limit": u.limit, "used": u.used} for u in used],
            }
        )
        return
    table = Table(Column("quota", no_wrap=True), box=None, pad_edge=False)
    for title in ("limit", "used", "of"):
        table.add_column(title, justify="left" if title == "of" else "right")
    for one in used:
        limit = "none" if one.limit is None else f"{one.limit:,.10g}"
        counted = "" if one.quota.counted == "process" or one.quota.per == "request" else f"{one.used:,.10g}"
        table.add_row(one.quota.name, limit, counted, one.quota.of)
    print_table(table)
    if whose in EXEMPT:
        note(f"{whose} has only the quotas that were set for it: the settings' do not hold")


async def _owner(store: KeyStore, named: str) -> str:
    """Whose quotas are meant: for a key of a project, that project's. Ends the command for an unknown key."""
    if named.startswith("k_"):
        named = f"key:{named}"
    if _OWNER.fullmatch(named) is None:
        fail(f"an owner is k_…, key:k_…, project:NAME, operator or keyless; got {named!r}")
    if named.startswith("key:"):
        known = {key.key_id: key for key in await store.keys()}
        key = known.get(named.removeprefix("key:"))
        if key is None:
            fail(f"there is no key {named.removeprefix('key:')!r}; see `interintent keys list`")
        return owner_of(key)
    return named
