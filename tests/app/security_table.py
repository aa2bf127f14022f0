"""Every kind of credential by every route, on own and on foreign objects: what the service does, in the words
of the table in SECURITY.md.

``python -m tests.app.security_table`` prints the table as the service is, to be read before it is believed.
"""

import asyncio
import contextlib
import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import httpx
import jwt

from app.base.clock import now_ms
from app.edge.auth import EVERY_SCOPE, SCOPES, hash_of, new_key
from app.edge.auth import OPERATOR as THE_OPERATOR
from app.edge.auth import Caller as Checked
from app.edge.tokens import Grant, kid_of
from app.evaluations.set_schemas import SetVariant
from app.games.schemas import NewGames
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey, SetItemRow, SetRow
from app.store.sets import SetStore
from tests.app.calling import Caller, calling
from tests.app.reach import RECORD

__all__ = ["COLUMNS", "OPEN_ROUTES", "ROUTES", "Cell", "Place", "observed", "place", "table_of"]

OPERATOR: Final = "ik_" + "o" * 43
SECRET: Final = "s" * 64
COLUMNS: Final = ("nobody", "other scopes", "own", "foreign", "any", "seat", "watch", "batch")
FORK: Final = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
SEATS: Final = [{"agent": agent} for agent in ("random", "remote", "random", "random", "random")]
ANSWERS: Final = {"dimension": "guessing", "rater": {"name": "r", "kind": "human"}, "answers": []}


@dataclass(frozen=True)
class Ask:
    """How a route is called. Names in braces are those of a side's objects."""

    scopes: tuple[str, ...]
    """What a key needs for it; of several, all."""
    path: str
    body: Any = None
    method: str = "GET"
    instead: str = ""
    """The scope that does as well as the last one."""
    others: str = ""
    """The scope that is needed besides for what others have made."""
    personal: bool = False
    """Whether it is done for oneself alone: nobody seeks a game in another's name."""

    @property
    def in_words(self) -> str:
        """The needed scopes, as the table names them."""
        named = ", ".join(f"`{scope}`" for scope in self.scopes)
        if self.others:
            return f"{named}; others' also `{self.others}`"
        return f"{named} or `{self.instead}`" if self.instead else named


def _ask(scopes: str, request: str, body: Any = None, **more: Any) -> Ask:
    method, _, path = request.partition(" ")
    return Ask(tuple(scopes.split()), path, body, method, **more)


OPEN_ROUTES: Final = (
    "GET /",
    "GET /asyncapi.json",
    "GET /docs",
    "GET /docs/index.html",
    "GET /docs/{name}",
    "GET /intentions",
    "GET /livez",
    "GET /problems/{code}",
    "GET /profiles",
    "GET /readyz",
    "GET /schemas/{name}",
    "GET /ui",
    "GET /ui/{path}",
    "GET /ws",
    "GET /ws/lobby",
    "POST /claims",
)
"""Those that need no credential, and tell nothing of a game; a claim's code is a credential of its own."""

ROUTES: Final[Mapping[str, Ask]] = {
    "POST /games": _ask("games:create", "POST /games", {"drive": "manual"}),
    "POST /games/import": _ask("games:create", "POST /games/import", json.loads(RECORD.read_text("utf-8"))),
    "GET /games": _ask("games:read", "GET /games?batch={batch}"),
    "GET /games/{game_id}": _ask("", "GET /games/{game}"),
    "GET /games/{game_id}, viewer=full": _ask("export:full", "GET /games/{game}?viewer=full"),
    "GET /games/{game_id}/events": _ask("", "GET /games/{game}/events"),
    "GET /games/{game_id}/events, viewer=full": _ask("export:full", "GET /games/{game}/events?viewer=full"),
    "GET /games/{game_id}/requests, viewer=seat": _ask(
        "export:full", "GET /games/{game}/requests?viewer=seat:2"
    ),
    "POST /games/{game_id}/requests/{request_id}/action": _ask(
        "tokens:mint export:full",
        "POST /games/{game}/requests/1.1.vote.2/action?viewer=seat:2",
        {"action": {"approve": True}},
    ),
    "POST /games/{game_id}/step": _ask("games:step", "POST /games/{game}/step", {}),
    "POST /games/{game_id}/cancel": _ask("games:cancel", "POST /games/{game}/cancel"),
    "POST /games/{game_id}/fork": _ask("games:create export:full", "POST /games/{game}/fork", FORK),
    "POST /games/{game_id}/fork, all public": _ask("games:create", "POST /games/{open}/fork", FORK),
    "POST /games/{game_id}/invalidate": _ask(
        "admin", "POST /games/{game}/invalidate", {"reason": "wrong key"}
    ),
    "DELETE /games/{game_id}/invalidate": _ask("admin", "DELETE /games/{game}/invalidate"),
    "DELETE /games/{game_id}": _ask("admin", "DELETE /games/{game}"),
    "GET /batches": _ask("games:read", "GET /batches"),
    "GET /batches/{batch_id}": _ask("games:read", "GET /batches/{batch}"),
    "GET /batches/{batch_id}/events": _ask("games:read", "GET /batches/{batch}/events"),
    "GET /batches/{batch_id}/export": _ask("games:read", "GET /batches/{batch}/export?partial=true"),
    "GET /batches/{batch_id}/export, view=full": _ask(
        "games:read export:full", "GET /batches/{batch}/export?partial=true&view=full"
    ),
    "POST /batches/{batch_id}/pause": _ask("games:cancel", "POST /batches/{batch}/pause"),
    "POST /batches/{batch_id}/resume": _ask("games:create", "POST /batches/{batch}/resume", {}),
    "POST /batches/{batch_id}/retry": _ask("games:create", "POST /batches/{batch}/retry", {}),
    "POST /batches/{batch_id}/cancel": _ask("games:cancel", "POST /batches/{batch}/cancel"),
    "DELETE /batches/{batch_id}": _ask("admin", "DELETE /batches/{batch}"),
    "POST /games/{game_id}/tokens, public": _ask(
        "tokens:mint", "POST /games/{game}/tokens", {"viewer": "public"}
    ),
    "POST /games/{game_id}/tokens, seat": _ask(
        "tokens:mint", "POST /games/{game}/tokens", {"viewer": "seat:2"}
    ),
    "POST /batches/{batch_id}/tokens": _ask("tokens:mint", "POST /batches/{batch}/tokens", {}),
    "POST /games/{game_id}/seats/{seat}/claim-code": _ask(
        "tokens:mint", "POST /games/{game}/seats/2/claim-code", {}
    ),
    "GET /evaluations/items": _ask("eval:read", "GET /evaluations/items?dimension=guessing&game={finished}"),
    "GET /evaluations/items, with what was chosen": _ask(
        "eval:read annotate",
        "GET /evaluations/items?dimension=selection&game={finished}",
        instead="export:full",
    ),
    "POST /evaluations": _ask("eval:submit", "POST /evaluations", ANSWERS),
    "POST /evaluations, a judge": _ask(
        "eval:submit annotate",
        "POST /evaluations",
        {"dimension": "statements", "judge": {"kind": "rule"}, "batch": "{played}"},
    ),
    "GET /evaluations": _ask("eval:read", "GET /evaluations"),
    "GET /evaluations/{evaluation_id}": _ask("eval:read", "GET /evaluations/{evaluation}"),
    "GET /evaluations/{evaluation_id}, per_item": _ask(
        "eval:read export:full", "GET /evaluations/{evaluation}?per_item=true"
    ),
    "GET /evaluations/{evaluation_id}, per_item of a judge": _ask(
        "eval:read export:full", "GET /evaluations/{judged}?per_item=true"
    ),
    "GET /evaluations/{evaluation_id}/statements": _ask(
        "eval:read", "GET /evaluations/{statements}/statements"
    ),
    "GET /evaluations/{evaluation_id}/compare/{other}": _ask(
        "eval:read", "GET /evaluations/{evaluation}/compare/{evaluation}", others="export:full"
    ),
    "GET /evaluations/{evaluation_id}/compare/{other}, judges of choices": _ask(
        "eval:read export:full", "GET /evaluations/{judged}/compare/{judged}", instead="annotate"
    ),
    "GET /evaluations/compare": _ask(
        "eval:read export:full",
        "GET /evaluations/compare?dimension=guessing&batch={played}&first=a&second=b",
        instead="annotate",
    ),
    "POST /evaluations/{evaluation_id}/cancel": _ask("eval:submit", "POST /evaluations/{evaluation}/cancel"),
    "GET /reports": _ask("eval:read", "GET /reports?batch={played}"),
    "GET /reports, who sat where": _ask(
        "eval:read export:full", "GET /reports?batch={played}&group_by=model"
    ),
    "GET /annotations/guidelines": _ask("annotate", "GET /annotations/guidelines"),
    "GET /annotations/tasks": _ask("annotate", "GET /annotations/tasks?rater=r&game={finished}"),
    "GET /annotations/progress": _ask("annotate", "GET /annotations/progress?game={finished}"),
    "GET /annotations": _ask("annotate", "GET /annotations?game={finished}"),
    "POST /annotations": _ask(
        "annotate", "POST /annotations", {"rater": {"name": "r", "kind": "human"}, "judgements": []}
    ),
    "POST /evaluations/sets": _ask(
        "export:full",
        "POST /evaluations/sets",
        {
            "name": "s",
            "dimension": "guessing",
            "batches": ["{played}"],
            "closes_at": f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%dT%H:%MZ}",
        },
    ),
    "GET /evaluations/sets": _ask("eval:read", "GET /evaluations/sets"),
    "GET /evaluations/sets/{set_id}": _ask("eval:read", "GET /evaluations/sets/{set}"),
    "POST /evaluations/sets/{set_id}/withdraw": _ask(
        "export:full", "POST /evaluations/sets/{set}/withdraw", {"reason": "wrong games"}
    ),
    "GET /evaluations/sets/{set_id}/items": _ask("eval:read", "GET /evaluations/sets/{set}/items"),
    "POST /evaluations/sets/{set_id}/answers": _ask(
        "eval:submit",
        "POST /evaluations/sets/{set}/answers",
        {"rater": {"name": "r", "kind": "human"}, "answers": [{"item_id": "x", "intentions": ["a"]}]},
    ),
    "GET /evaluations/sets/{set_id}/receipts": _ask("eval:read", "GET /evaluations/sets/{set}/receipts"),
    "GET /evaluations/sets/{set_id}/gold": _ask("eval:read", "GET /evaluations/sets/{set}/gold"),
    "GET /evaluations/sets/{set_id}/entries/{entry_id}": _ask(
        "eval:read", "GET /evaluations/sets/{set}/entries/r_none"
    ),
    "GET /me": _ask("", "GET /me"),
    "GET /tokens": _ask("tokens:mint", "GET /tokens?game={game}"),
    "DELETE /tokens/{token_id}": _ask("tokens:mint", "DELETE /tokens/{token}"),
    "POST /bots": _ask("bots:play", "POST /bots", {"name": "fox", "version": "1"}),
    "GET /bots": _ask("", "GET /bots"),
    "GET /bots/{bot_id}": _ask("", "GET /bots/{bot}"),
    "POST /bots/{bot_id}/check": _ask("bots:play", "POST /bots/{bot}/check", {}, personal=True),
    "GET /ratings": _ask("", "GET /ratings"),
    "POST /seeks": _ask("bots:play", "POST /seeks", {"players": 10, "wait_s": 3600, "bot": "fox"}),
    "GET /seeks": _ask("bots:play", "GET /seeks"),
    "GET /seeks/{seek_id}": _ask("bots:play", "GET /seeks/{seek}", personal=True),
    "DELETE /seeks/{seek_id}": _ask("bots:play", "DELETE /seeks/{seek}", personal=True),
    "POST /games/open": _ask(
        "games:create", "POST /games/open", {"players": 10, "seats": [{"agent": "open"}], "wait_s": 3600}
    ),
    "POST /games/{game_id}/seats/open/claim": _ask("bots:play", "POST /games/{hosted}/seats/open/claim", {}),
    "DELETE /games/{game_id}/seats/open": _ask(
        "games:create", "DELETE /games/{hosted}/seats/open", personal=True
    ),
    "POST /models/{name}/try": _ask("admin:any", "POST /models/m/try", {}),
    "GET /metrics": _ask("metrics:read", "GET /metrics"),
    "GET /readyz, verbose": _ask("metrics:read", "GET /readyz?verbose=true"),
}
"""By the name of the row: a route, and after a comma what is asked of it."""

RATHER: Final = {401: "unauthenticated", 403: "forbidden", 404: "not-found"}
"""The usual codes of refusals; a 404 with another code is an answer about something within reach."""


@dataclass
class Side:
    """One owner's objects, and the credentials that belong to them."""

    project: str
    names: dict[str, str] = field(default_factory=dict)
    credentials: dict[str, list[str]] = field(default_factory=dict)
    """Tokens by column: several kinds may have one."""


@dataclass
class Place:
    """A service with keys, one without, and two owners' objects in the first."""

    keyed: Caller
    keyless: Caller
    ours: Side
    theirs: Side
    mine: Side
    """What is in the service without keys."""
    seated: list[tuple[str, Side, str]] = field(default_factory=list)
    """Tokens of seats that came by other ways, with their game: a claim's, and a fork's."""
    keys: dict[str, str] = field(default_factory=dict)
    nobodys: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Headers of what is no credential, by kind."""

    async def key(self, scopes: Sequence[str], project: str | None, **more: int) -> str:
        """A key with these scopes alone."""
        name = f"{project} {' '.join(sorted(scopes))} {sorted(more.items())}"
        if name not in self.keys:
            text = new_key()
            key = ApiKey(
                new_id("k"), "test", hash_of(text), tuple(sorted(scopes)), now_ms(), project=project, **more
            )
            await KeyStore(self.keyed.services.database).add(key)
            self.keys[name] = text
        return self.keys[name]

    async def renew(self, side: Side, *names: str) -> None:
        """New objects in place of those that a call may have changed."""
        caller = self.keyless if side is self.mine else self.keyed
        services = caller.services
        owner = "keyless" if side is self.mine else f"project:{side.project}"
        if {"game", "batch"} & set(names):
            wish = {"drive": "manual", "seats": SEATS}
            made = await services.games.create(NewGames.model_validate(wish), by=Checked("test", owner=owner))
            side.names |= {"batch": made.batch_id, "game": made.games[0].game_id}
            if side is not self.mine:
                self._tokens(side)
        if {"finished", "played", "open"} & set(names):
            for name, reveal in (("finished", "roles"), ("open", "all")):
                wish = {"drive": "manual", "reveal": reveal}
                made = await services.games.create(
                    NewGames.model_validate(wish), by=Checked("test", owner=owner)
                )
                await services.games.stepper.step(made.games[0].game_id, "end", THE_OPERATOR)
                side.names |= {name: made.games[0].game_id}
                if name == "finished":
                    side.names |= {"played": made.batch_id}
        if {"evaluation", "statements", "judged"} & set(names):
            await self._evaluate(caller, side)
        if "set" in names:
            await self._seal(caller, side, owner)
        for name, path, body in (
            ("bot", "/bots", {"name": new_id("n"), "version": "1"}),
            ("seek", "/seeks", {"players": 10, "wait_s": 3600, "bot": new_id("n")}),
            ("hosted", "/games/open", {"players": 10, "seats": [{"agent": "open"}], "wait_s": 3600}),
            ("token", f"/games/{side.names['game']}/tokens", {"viewer": "public"}),
        ):
            if name in names:
                answer = await caller.post(path, json=body, headers=await self._bearer(side))
                assert answer.is_success, answer.text
                made = answer.json()
                known = ("bot_id", "seek_id", "token_id", "game_id")
                side.names[name] = next(made[one] for one in known if one in made)

    async def _bearer(self, side: Side) -> dict[str, str]:
        """The header of a key of this side that may make everything."""
        if side is self.mine:
            return {}
        return {"authorization": f"Bearer {await self.key(sorted(SCOPES), side.project)}"}

    async def _seal(self, caller: Caller, side: Side, owner: str) -> None:
        """A set of one item, which is sealed for nine days."""
        side.names["set"], game = new_id("s"), side.names["finished"]
        row = SetRow(
            set_id=side.names["set"],
            created_at=1,
            closes_at=now_ms() + 9 * 86_400_000,
            owner=owner,
            name="s",
            dimension="guessing",
            variant=SetVariant().model_dump(mode="json"),
            items=1,
        )
        item = SetItemRow(
            set_id=row.set_id,
            position=0,
            item_id=f"{game}/guessing/1.1.speak.1/final/2",
            game_id=game,
            origin=game,
            request_id="1.1.speak.1",
            seat=2,
        )
        services = caller.services

        async def work(connection: Any) -> None:
            await SetStore(services.database).insert(connection, row, [item])

        await services.database.writer.run(work)

    async def _evaluate(self, caller: Caller, side: Side) -> None:
        """An evaluation of answers, and those of two judges: of statements, and of what was chosen."""
        headers = await self._bearer(side)
        path = f"/evaluations/items?dimension=guessing&game={side.names['finished']}&limit=3"
        items = (await caller.get(path, headers=headers)).json()["items"]
        assert items
        given = [{"item_id": item["id"], "intentions": ["defend_self"]} for item in items]
        answer = await caller.post("/evaluations", json={**ANSWERS, "answers": given}, headers=headers)
        assert answer.is_success, answer.text
        side.names["evaluation"] = answer.json()["evaluation_id"]
        for name, dimension in (("statements", "statements"), ("judged", "selection")):
            judge = {"dimension": dimension, "judge": {"kind": "rule"}, "batch": side.names["played"]}
            answer = await caller.post("/evaluations", json=judge, headers=headers)
            assert answer.is_success, answer.text
            side.names[name] = answer.json()["evaluation_id"]

    def _tokens(self, side: Side) -> None:
        mint, soon = self.keyed.services.keys.mint, now_ms() // 1000 + 600
        game, batch = side.names["game"], side.names["batch"]
        side.credentials = {
            "seat": [mint(Grant.for_seat(game, 2, 1, soon))],
            "watch": [mint(Grant.to_watch(soon, game=game))],
            "batch": [mint(Grant.to_watch(soon, batch=batch))],
        }


@contextlib.asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    models = {"m": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "attempts": 1, "total_s": 1}}
    async with (
        calling(
            f"sqlite:///{folder / 'keyed.sqlite'}", api_key=OPERATOR, token_secrets=SECRET, models=models
        ) as keyed,
        calling(f"sqlite:///{folder / 'open.sqlite'}", models=models) as keyless,
    ):
        found = Place(keyed, keyless, Side("ours"), Side("theirs"), Side(""))
        for side in (found.ours, found.theirs, found.mine):
            await found.renew(side, "game", "finished", "evaluation", "set", "bot", "seek", "hosted", "token")
        found.nobodys = await _nobodys(found)
        found.seated = await _seated(found)
        yield found


async def _nobodys(place: Place) -> dict[str, list[tuple[str, str]]]:
    """Headers of what is no credential, or none any more."""
    now, keys = now_ms(), place.keyed.services.keys
    made = await place.keyed.services.games.create(
        NewGames.model_validate({"drive": "manual", "seats": SEATS}), by=Checked("test", owner="project:ours")
    )
    game, soon = made.games[0].game_id, now // 1000 + 600
    replaced = keys.mint(Grant.for_seat(game, 2, 1, soon))
    await keys.raise_epoch(game, 2)
    claims = {"sub": "seat:2", "game": game, "epoch": 2, "exp": soon}
    headers = {"kid": kid_of(SECRET)}
    bearer = {"authorization": f"Bearer {OPERATOR}"}
    code = (await place.keyed.post(f"/games/{game}/seats/2/claim-code", json={}, headers=bearer)).json()[
        "code"
    ]
    minted = [await _minted(place, game, compromised=compromised) for compromised in (False, True)]
    known = {
        "a revoked token": minted[0],
        "a token of a key that was compromised": minted[1],
        "a key that never was": new_key(),
        "an expired key": await place.key(sorted(EVERY_SCOPE), "ours", expires_at=now),
        "a revoked key": await place.key(sorted(EVERY_SCOPE), "ours", revoked_at=now),
        "an expired seat's token": keys.mint(Grant.for_seat(game, 2, 2, now // 1000)),
        "an expired watch token": keys.mint(Grant.to_watch(now // 1000, game=game)),
        "a seat's token of an old epoch": replaced,
        "a forged token": jwt.encode(claims, "f" * 64, "HS256", headers=headers),
        "an unsigned token": jwt.encode(claims, None, "none", headers=headers),  # type: ignore[arg-type]
        "a token of full": jwt.encode({**claims, "sub": "full"}, SECRET, "HS256", headers=headers),
        "a claim code": code,
    }
    return {"no credential": []} | {name: [("authorization", f"Bearer {one}")] for name, one in known.items()}


async def _minted(place: Place, game: str, *, compromised: bool) -> str:
    """A token that was revoked, or whose key was."""
    key = await place.key(["tokens:mint"], "ours", expires_at=now_ms() + 3_600_000 + compromised)
    bearer = {"authorization": f"Bearer {key}"}
    made = (await place.keyed.post(f"/games/{game}/tokens", json={"viewer": "public"}, headers=bearer)).json()
    if not compromised:
        assert (await place.keyed.delete(f"/tokens/{made['token_id']}", headers=bearer)).is_success
    else:
        keys = place.keyed.services.keys
        caller = await keys.caller(key)
        assert caller.key_id is not None
        store = KeyStore(place.keyed.services.database)
        assert await store.revoke(caller.key_id, now_ms(), compromised=True)
        await keys.refresh()
    return str(made["token"])


async def _seated(place: Place) -> list[tuple[str, Side, str]]:
    key = await place.key(["games:create", "tokens:mint", "export:full"], "ours")
    bearer = {"authorization": f"Bearer {key}"}
    found = []
    for kind in ("a claim's token", "a fork's token"):
        made = (
            await place.keyed.post("/games", json={"drive": "manual", "seats": SEATS}, headers=bearer)
        ).json()
        game = made["games"][0]["game_id"]
        if kind == "a claim's token":
            answer = await place.keyed.post(f"/games/{game}/seats/2/claim-code", json={}, headers=bearer)
            answer = await place.keyed.post("/claims", json={"code": answer.json()["code"]})
            names, token = {"game": game, "batch": made["batch_id"]}, answer.json()["token"]
        else:
            await place.keyed.services.games.stepper.step(game, "phase", THE_OPERATOR)
            answer = await place.keyed.post(f"/games/{game}/fork", json=FORK, headers=bearer)
            names = {"game": answer.json()["game_id"], "batch": answer.json()["batch_id"]}
            token = answer.json()["seats"][1]["token"]
        found.append((kind, Side("ours", {**place.ours.names, **names}), token))
    return found


# --- what the service does ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What one kind of credential got."""

    row: str
    column: str
    kind: str
    """The kind of credential, and whose object it was."""
    word: str


async def observed(place: Place, name: str, ask: Ask) -> list[Cell]:
    """Every cell of one row."""
    cells = []

    async def look(column: str, kind: str, side: Side, headers: Any, caller: Caller = place.keyed) -> None:
        word = await _word(place, ask, side, headers, caller, is_foreign=column == "foreign")
        cells.append(Cell(name, column, kind, word))

    def bearer(text: str) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {text}")]

    ours, theirs = place.ours, place.theirs
    for kind, headers in place.nobodys.items():
        await look("nobody", kind, ours, headers)
    bare = {one.removesuffix(":any") for one in ask.scopes}
    if bare:
        # Each needed scope alone is not enough, and all the others are not.
        others = sorted(one for one in EVERY_SCOPE if one.removesuffix(":any") not in bare)
        await look("other scopes", "all others", ours, bearer(await place.key(others, "ours")))
        for scope in sorted(bare) if len(bare) > 1 else ():
            lacking = sorted(SCOPES - {scope, ask.instead if scope == ask.scopes[-1] else scope})
            await look("other scopes", f"all but {scope}", ours, bearer(await place.key(lacking, "ours")))
    narrow = await place.key(ask.scopes, "ours")
    await look("own", "narrow key", ours, bearer(narrow))
    await look("foreign", "narrow key", theirs, bearer(narrow))
    await look("foreign", "key of no project", theirs, bearer(await place.key(ask.scopes, None)))
    wide = [f"{scope.removesuffix(':any')}:any" for scope in (*ask.scopes, ask.others) if scope]
    if bare:
        await look("any", ":any key", theirs, bearer(await place.key(wide, None)))
    await look("any", "operator", theirs, bearer(OPERATOR))
    if not ask.personal:
        await look("any", "keyless", place.mine, [], place.keyless)
    for column in ("seat", "watch", "batch"):
        for side, whose in ((ours, "own"), (theirs, "another's")):
            for number in range(len(ours.credentials[column])):
                await look(
                    f"{column}, {whose}", f"token {number}", side, bearer(ours.credentials[column][number])
                )
    for kind, side, token in place.seated:
        await look("seat, own", kind, side, bearer(token))
    return cells


async def _word(place: Place, ask: Ask, side: Side, headers: Any, caller: Caller, *, is_foreign: bool) -> str:
    def named(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: side.names.get(found[1], found[0]), text)

    content = None if ask.body is None else named(json.dumps(ask.body))
    answer = await caller.request(ask.method, named(ask.path), content=content, headers=headers)
    word = _read(answer, ask)
    if word == "yes" and is_foreign and not any(name in answer.text for name in side.names.values()):
        # What is ours may be answered; nothing of theirs is in it.
        word = "nothing" if ask.method == "GET" and "{" in ask.path else "—"
    if word not in ("401", "403", "404") and ask.method != "GET":
        await place.renew(side, *re.findall(r"\{(\w+)\}", ask.path))
    return word


def _read(answer: httpx.Response, ask: Ask) -> str:
    assert answer.status_code < 500 or "model-unavailable" in answer.text, answer.text
    usual = RATHER.get(answer.status_code)
    if usual is not None and answer.json()["code"] == usual:
        return str(answer.status_code)
    if (
        answer.is_success
        and re.fullmatch(r"/games/\{game\}(/events)?(\?.*)?", ask.path)
        and ask.method == "GET"
    ):
        if "/events" not in ask.path:
            return re.sub(r":\d+", "", str(answer.json()["viewer"]))
        if '"type":"roles_dealt"' in answer.text:
            return "full"
        return "seat" if '"type":"role_learned"' in answer.text else "public"
    return "yes"


def table_of(cells: Sequence[Cell]) -> tuple[list[str], list[str]]:
    """The words of a row in the order of COLUMNS; and where one column has several."""
    found: dict[str, dict[str, str]] = {}
    for cell in cells:
        found.setdefault(cell.column, {})[cell.kind] = cell.word
    odd = [
        f"{cells[0].row}, {column}: {kinds}"
        for column, kinds in found.items()
        if len(set(kinds.values())) > 1
    ]
    words = {column: "/".join(dict.fromkeys(kinds.values())) for column, kinds in found.items()}
    for column in ("seat", "watch", "batch"):
        own, other = words[f"{column}, own"], words[f"{column}, another's"]
        words[column] = own if own == other else f"{own} / {other}"
    return [words.get(column, "") for column in COLUMNS], odd


async def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with place(Path(folder)) as found:
            for name, ask in ROUTES.items():
                words, odd = table_of(await observed(found, name, ask))
                scopes = ask.in_words
                route, comma, rest = name.partition(",")
                click.echo(f"| `{route}`{comma}{rest} | {scopes} | {' | '.join(words)} |")
                for one in odd:
                    click.echo(f"ODD {one}", err=True)


if __name__ == "__main__":
    asyncio.run(_main())
