"""The commands ``keys create``, ``list``, ``revoke`` and ``rotate``.

They work on the database itself, with or without a running service; a running service notices a change within
two seconds.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.table import Column, Table

from app.base.clock import now_ms, timestamp
from app.base.errors import NotFound
from app.base.names import check_name
from app.cli.arguments import AsJson, DatabaseUrl
from app.cli.audit import who_runs
from app.cli.database import on_database, read_settings, run_or_fail
from app.cli.key_quotas import change_quotas, quota, read_changes
from app.cli.tables import print_table
from app.cli.terminal import checked, fail, note, print_json
from app.edge.auth import ANY, EVERY_SCOPE, SCOPES, hash_of, new_key, new_secret, owner_of
from app.edge.tokens import MAX_SEAT_S
from app.store.audit import Audit
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey, TokenSecret

__all__ = ["commands"]

T = TypeVar("T")

keys_app = typer.Typer(
    help="Make and revoke API keys. As soon as there is one, every caller of the service needs a credential.",
    no_args_is_help=True,
)
commands = typer.Typer()
commands.add_typer(keys_app, name="keys")
keys_app.command("quota")(quota)


_PROJECT: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

_UNITS: Final = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

_RETIRED_MS: Final = MAX_SEAT_S * 1000 + _UNITS["d"]
"""Once a newer secret has signed for this long, no token of an older secret is valid any more."""


def _with_store(
    database_url: str | None, work: Callable[[KeyStore, Audit], Awaitable[T]], *, make: bool = False
) -> T:
    """Runs ``work`` on the database, after any migration. ``make``: a missing database is created."""
    settings = read_settings(database_url)

    async def run() -> T:
        async with on_database(settings, writes=True, makes=make) as parts:
            return await work(KeyStore(parts.database), Audit(parts.database))

    return run_or_fail(run())


def _change(
    database_url: str | None, action: str, key_id: str, change: Callable[[KeyStore, int], Awaitable[bool]]
) -> int:
    """Changes a key, with a line in the audit. ``change`` takes the time, too, which is returned. If there is
    no such key, the command ends.
    """

    async def work(store: KeyStore, audit: Audit) -> int:
        now = now_ms()
        async with audit.noted(who_runs(), action, key_id):
            if not await change(store, now):
                raise NotFound(
                    f"there is no key {key_id!r} that could be revoked or changed: see `keys list`"
                )
        return now

    return _with_store(database_url, work)


def _expiry(text: str | None) -> Callable[[int], int | None]:
    """When a key expires that is made at some time, as a function of that time; None: never. Ends the command
    if the text cannot be read. The function ends it if that is past.
    """
    if text is None:
        return lambda now: None
    if span := re.fullmatch(r"(\d{1,5})([mhdw])", text):
        lasts_ms = int(span[1]) * _UNITS[span[2]]
        return lambda now: now + lasts_ms
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"--expires takes 30d, 12h, 90m, 4w, or a time like 2030-01-31T12:00Z; got {text!r}")
    at = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

    def unless_past(now: int) -> int:
        if at <= now:
            fail(f"--expires {text} is in the past")
        return at

    return unless_past


def _scopes(lists: list[str]) -> tuple[str, ...]:
    named = {part.strip() for names in lists for part in names.split(",")} - {""}
    meant = {"all": SCOPES, "all" + ANY: EVERY_SCOPE - SCOPES}
    for all_of in named & meant.keys():
        named = (named - {all_of}) | meant[all_of]
    unknown = sorted(named - EVERY_SCOPE)
    if unknown or not named:
        fault = f"there is no scope {', '.join(map(repr, unknown))}" if unknown else "--scope is missing"
        fail(
            f"{fault}: name all, or some of {', '.join(sorted(SCOPES))}; with {ANY} behind it, a scope also "
            "reaches what belongs to other keys"
        )
    return tuple(sorted(named))


def _scopes_in_words(scopes: Sequence[str]) -> str:
    if set(scopes) >= EVERY_SCOPE - SCOPES:
        return "all" + ANY
    return "all" if set(scopes) == SCOPES else " ".join(scopes)


def _shown(key: ApiKey, now: int) -> dict[str, Any]:
    times = {name: getattr(key, name) for name in ("created_at", "expires_at", "used_at", "revoked_at")}
    return {
        "id": key.key_id,
        "name": key.name,
        "state": key.state(now),
        "scopes": list(key.scopes),
        "owner": owner_of(key),
        "compromised": key.compromised_at is not None,
        **{name: None if at is None else timestamp(at) for name, at in times.items()},
    }


@keys_app.command("create")
def create(
    name: Annotated[str, typer.Option(help="The key's owner or purpose; shown in the list.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What the key may do with its owner's objects; repeatable, or separated by commas. With "
            ":any behind it: with everybody's objects. all: every scope; all:any: every scope over "
            "everybody's objects."
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            help="Keys of one project own what any of them makes. If omitted: the key shares nothing.",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When the key expires: 30d, 12h, or a time in UTC. If omitted: never.")
    ] = None,
    quotas: Annotated[
        list[str] | None,
        typer.Option(
            "--quota", help="NAME=LIMIT, as in `keys quota`; repeatable. If omitted: the settings'."
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it. It is shown only once, since only its SHA-256 is stored.

    Example: interintent keys create --name anna --scope games:create,games:read --expires 90d
    """
    if not 1 <= len(name) <= 100:
        fail(f"--name takes 1 to 100 characters, got {len(name)}")
    checked("--name", name, check_name)
    if project is not None and not _PROJECT.fullmatch(project):
        fail(
            f"--project takes 1 to 64 of a-z, 0-9, '.', '_' and '-', a letter or digit first; got {project!r}"
        )
    text, allowed, expiry = new_key(), _scopes(scope or []), _expiry(expires)
    changes = read_changes(quotas or [])
    if read_settings(database_url).database_url.startswith("sqlite"):
        expiry(now_ms())  # refused before the file is made: there, the machine's clock counts

    async def add(store: KeyStore, audit: Audit) -> ApiKey:
        now = now_ms()
        key = ApiKey(
            key_id=new_id("k"),
            name=name,
            hash=hash_of(text),
            scopes=allowed,
            created_at=now,
            expires_at=expiry(now),
            project=project,
        )
        async with audit.noted(who_runs(), "create key", key.key_id, owner=owner_of(key)):
            await store.add(key)
        return key

    key = _with_store(database_url, add, make=True)
    if changes.limits:
        change_quotas(database_url, owner_of(key), changes)
    if as_json:
        print_json({**_shown(key, key.created_at), "key": text})
        return
    typer.echo(text)
    note(
        f"{key.key_id}, {name}, may {' '.join(key.scopes)}. It will not be shown again. Send it as "
        "Authorization: Bearer …"
    )


@keys_app.command("list")
def list_keys(
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List all keys, expired and revoked ones too. The last use is accurate to the hour."""
    stored = _with_store(database_url, lambda store, _: store.keys())
    for key_id in _with_store(database_url, lambda store, _: store.damaged_keys()):
        note(f"{key_id} is damaged and opens nothing")
    shown = [_shown(key, now_ms()) for key in stored]
    if as_json:
        print_json(shown)
        return
    table = Table(Column("id", no_wrap=True), box=None, pad_edge=False)
    for title in ("name", "owner", "state", "scopes", "created", "expires", "last used"):
        table.add_column(title)
    for key in shown:
        times = [key[name] or "never" for name in ("created_at", "expires_at", "used_at")]
        state = "compromised" if key["compromised"] else key["state"]
        scopes = _scopes_in_words(key["scopes"])
        row = [
            key["id"],
            key["name"],
            key["owner"],
            state,
            scopes,
            *(at[:16].replace("T", " ") for at in times),
        ]
        table.add_row(*row)
    print_table(table)


@keys_app.command("scopes")
def change_scopes(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="k_…, as `keys list` shows it.")],
    scope: Annotated[
        list[str],
        typer.Option(help="Everything that the key allows from now on, as in `keys create`; repeatable."),
    ],
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Change what a key allows. Running services notice it within two seconds.

    Example, for a key that reads what other owners make:
    interintent keys scopes k_… --scope all,games:read:any
    """
    scopes = _scopes(scope)
    _change(database_url, "change scopes", key_id, lambda store, _: store.change(key_id, scopes))
    if as_json:
        print_json({"id": key_id, "scopes": list(scopes)})
    else:
        note(f"{key_id} may {_scopes_in_words(scopes)} from now on")


@keys_app.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="k_…, as `keys list` shows it.")],
    compromised: Annotated[
        bool,
        typer.Option(
            "--compromised",
            help="Somebody else may have the key: revoke every token and code that came from it, too, and "
            "withdraw its seeks and open games.",
        ),
    ] = False,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key. Running services refuse it, and close its connections, within two seconds.

    Tokens that came from it stay valid, so that its games go on, unless you add --compromised, which also
    works for a key that was revoked before. Its batches and judges go on in any case, and pay for models,
    until somebody cancels them. Even after the last key is revoked, the service refuses callers without a
    credential.
    """
    action = "revoke key as compromised" if compromised else "revoke key"
    now = _change(
        database_url, action, key_id, lambda store, at: store.revoke(key_id, at, compromised=compromised)
    )
    if as_json:
        print_json({"id": key_id, "revoked_at": timestamp(now), "compromised": compromised})
    else:
        note(f"{key_id} is revoked{', with every token that came from it' if compromised else ''}")
        if compromised:
            note(f"its batches and judges go on: `interintent audit --by key:{key_id}` lists what to cancel")


@keys_app.command("rotate")
def rotate(
    at_once: Annotated[
        bool, typer.Option("--now", help="Revoke every token that was issued; players need new ones.")
    ] = False,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Sign seat and watch tokens with a new secret from now on. Earlier tokens stay valid, unless --now is
    given.

    This changes only the secrets that the service makes itself. If INTERINTENT_TOKEN_SECRETS is set, put a
    new secret of your own at the front of that list instead, and restart the service.
    """
    action = "rotate and revoke tokens" if at_once else "rotate"

    async def work(store: KeyStore, audit: Audit) -> tuple[int, int]:
        while True:
            now = now_ms()
            before = await store.secrets()
            number = before[0].number + 1 if before else 1
            await audit.note(who_runs(), action, f"secret {number}")
            if await store.add_secret(TokenSecret(number, new_secret(), now)):
                break
        # A secret is dropped when the next one has signed for longer than any token lasts.
        newer_since = [now, *(secret.created_at for secret in before)]
        dropped = [
            secret.number
            for secret, since in zip(before, newer_since, strict=False)
            if at_once or now - since > _RETIRED_MS
        ]
        await store.drop_secrets(dropped)
        return number, len(before) - len(dropped)

    number, kept = _with_store(database_url, work)
    if as_json:
        print_json({"number": number, "still_verifying": kept})
    else:
        note(f"secret {number} signs from now on; older secrets that still verify: {kept}")
