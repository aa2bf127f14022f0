"""Every route and every message with every credential, against a hand-written table."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import httpx
import jwt
import pytest
import yaml
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import BaseRoute, Route
from websockets.exceptions import ConnectionClosed

from app.base.clock import now_ms
from app.edge.auth import ANY, KEYLESS, SCOPES, Keys, hash_of, new_key
from app.edge.auth import OPERATOR as THE_OPERATOR
from app.edge.auth import Caller as Checked
from app.edge.tokens import Grant, Secrets, kid_of
from app.evaluations.schemas import VariantSpec
from app.games.access import Sight
from app.games.bot_schemas import NewBot
from app.games.schemas import ForkGame, NewGames
from app.play.meeting.schemas import NewSeek
from app.protocol.messages import ClientMessage
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey, EvaluationRow
from app.store.tokens import StoredToken, TokenStore
from engine.events import EVENT_TYPES
from engine.terms import FULL
from tests.app.calling import Caller, problem, read_ndjson
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import watching

HERE = Path(__file__).parent
TABLE: dict[str, Any] = yaml.safe_load((HERE / "authorization.yaml").read_text("utf-8"))
GROUPS: dict[str, list[str]] = TABLE["groups"]
ROWS: list[dict[str, Any]] = TABLE["rows"]
CREDENTIALS = [name for members in GROUPS.values() for name in members]

OPERATOR = "ik_" + "o" * 43
PROJECT = "lab"
LAB = f"project:{PROJECT}"
"""Whose the games are. The keys of one scope, and one of every scope, are of the same project."""
SECRET = "s" * 64
PUBLIC_TYPES = {name for name, kind in EVENT_TYPES.items() if kind.seen_by == "public"}


def expected(row: dict[str, Any], credential: str) -> str:
    """The table's answer: by the credential's own name, by its group, or the rest's."""
    answers = row["answers"]
    group = next(name for name, members in GROUPS.items() if credential in members)
    for name in (credential, group, "rest"):
        if name in answers:
            return str(answers[name])
    raise AssertionError(f"{row} says nothing of {credential}")


# --- the table is whole ----------------------------------------------------------------------


def test_the_table_knows_every_scope_and_names_no_credential_twice() -> None:
    assert set(GROUPS["keys"]) == SCOPES
    assert len(CREDENTIALS) == len(set(CREDENTIALS))
    assert not set(GROUPS) & set(CREDENTIALS)
    for row in ROWS:
        assert set(row["answers"]) <= {*GROUPS, *CREDENTIALS, "rest"}, row
        for credential in CREDENTIALS:
            expected(row, credential)


def _routes(routes: list[BaseRoute]) -> Iterator[tuple[str, str]]:
    for route in routes:
        inner = getattr(route, "routes", None)
        if isinstance(route, APIWebSocketRoute):
            continue
        if isinstance(route, APIRoute | Route):
            for method in route.methods or ():
                if method not in ("HEAD", "OPTIONS"):
                    yield method, route.path
        elif inner:
            yield from _routes(inner)


def _matches(row: dict[str, Any], method: str, template: str) -> bool:
    said, _, rest = row.get("request", " ").partition(" ")
    path, parts = rest.partition("?")[0].split("/"), template.split("/")
    return (
        said == method
        and len(path) == len(parts)
        and all(want.startswith("{") or have == want for have, want in zip(path, parts, strict=True))
    )


def test_every_route_has_a_row(tmp_path: Path) -> None:
    from app.main import create_app

    app = create_app(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}"))
    found = {(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods}
    found |= set(_routes(app.routes))
    assert ("GET", "/docs") in found
    assert ("POST", "/games/{game_id}/tokens") in found
    without = [one for one in sorted(found) if not any(_matches(row, *one) for row in ROWS)]
    assert without == [], "write down in authorization.yaml who may call these"


def test_every_message_has_a_row() -> None:
    kinds = get_args(get_args(ClientMessage)[0]) or get_args(ClientMessage)
    names = {get_args(kind.model_fields["t"].annotation)[0] for kind in kinds}
    assert {"identify", "ping", "act"} <= names
    assert names <= {row["say"] for row in ROWS if "say" in row}


# --- the credentials -------------------------------------------------------------------------


@dataclass
class Place:
    """A game with its batch, a finished game, and others' games, and credentials of all kinds for it."""

    names: dict[str, str]
    headers: dict[str, list[tuple[str, str]]]
    tokens: dict[str, str | None] = field(default_factory=dict)
    """What goes into `identify`; left out where a header cannot be put there."""


def _token(claims: dict[str, Any], secret: str | None, alg: str = "HS256") -> str:
    return jwt.encode(claims, secret, alg, headers={"kid": kid_of(SECRET)})


class World:
    """A service with keys, and one without, each with games."""

    def __init__(self, keyed: Served, open_: Served, keys: dict[str, str]) -> None:
        self.keyed = keyed
        self.open = open_
        self.keys = keys
        self.finished = {True: "", False: ""}
        self._played: dict[bool, str] = {}
        self._others: dict[str, str] = {}
        self._forks: dict[bool, dict[str, str]] = {}
        self._bots: dict[bool, str] = {}
        self._seeks: dict[bool, str] = {}

    def served(self, credential: str) -> Served:
        return self.open if credential == "keyless" else self.keyed

    async def _game(self, served: Served, **more: Any) -> tuple[str, str]:
        wish = NewGames.model_validate({"drive": "manual", "seats": [{"agent": "random"}], **more})
        made = await served.services.games.create(wish, by=Checked("test", owner=LAB))
        return made.batch_id, made.games[0].game_id

    async def place(self, served: Served) -> Place:
        """A new game on that service."""
        batch, game = await self._game(served)
        await served.services.games.stepper.step(game, "phase", THE_OPERATOR)
        keyed = served is self.keyed
        if not self.finished[keyed]:
            self._played[keyed], done = await self._game(served)
            await served.services.games.stepper.step(done, "end", THE_OPERATOR)
            self.finished[keyed] = done
            _, open_ = await self._game(served, reveal="all")
            await served.services.games.stepper.step(open_, "end", THE_OPERATOR)
            self._forks[keyed] = {"open": open_, **await self._ahead(served)}
            await self._evaluations(served)
            await self._token(served, open_)
            bot, _ = await served.services.bots.register(NewBot(name="known", version="1"), KEYLESS)
            self._bots[keyed] = bot.bot_id
            seek = await served.services.meeting.seek(NewSeek(bot="known", players=9, wait_s=3600), KEYLESS)
            self._seeks[keyed] = seek.seek_id
            if keyed:
                self._others = dict(zip(("batch", "game"), await self._game(served), strict=True))
        names = {
            "game": game,
            "batch": batch,
            "finished": self.finished[keyed],
            "nowhere": new_id("g"),
            "nobatch": new_id("b"),
            "played": self._played[keyed],
            **self._forks[keyed],
            "of_reader": "e_reader",
            "of_another": "e_another",
            "of_judge": "e_judge",
            "of_lab": "t_lab",
            "bot": self._bots[keyed],
            "seek": self._seeks[keyed],
        }
        tokens = await self._tokens(served.services.keys, game, batch) if keyed else {}
        headers = {name: [("authorization", f"Bearer {token}")] for name, token in tokens.items()}
        headers |= {
            "none": [],
            "keyless": [],
            "basic": [("authorization", "Basic " + base64.b64encode(OPERATOR.encode()).decode())],
            "bearer without anything": [("authorization", "Bearer ")],
            "two headers": [("authorization", f"Bearer {OPERATOR}")] * 2,
        }
        return Place(names, headers, {**tokens, "none": None, "keyless": None, "bearer without anything": ""})

    async def _ahead(self, served: Served) -> dict[str, str]:
        """A fork that is over, of a game that is not."""
        _, source = await self._game(served)
        await served.services.games.stepper.step(source, "phase", THE_OPERATOR)
        wish = ForkGame.model_validate({"after": {"request": "1.1.propose_team.1"}, "drive": "manual"})
        lab = Checked("key:of the lab", SCOPES, LAB, "of the lab")
        fork = await served.services.games.fork(source, wish, lab, Sight(FULL))
        await served.services.games.stepper.step(fork.game_id, "end", THE_OPERATOR)
        return {"ahead": fork.game_id, "of_ahead": fork.batch_id}

    async def _evaluations(self, served: Served) -> None:
        """One of the laboratory, another's, and one of the laboratory's judge."""
        answered = {"variant": VariantSpec().model_dump(mode="json")}
        games = [self.finished[served is self.keyed]]
        judged = {"judge": {"kind": "rule"}, "games": games, "sees_all": True}
        for evaluation_id, owner, dimension, spec in (
            ("e_reader", LAB, "guessing", answered),
            ("e_another", "another", "guessing", answered),
            ("e_judge", LAB, "selection", judged),
        ):
            row = EvaluationRow(
                evaluation_id=evaluation_id,
                created_at=1,
                finished_at=1,
                caller="key:of the lab",
                owner=owner,
                dimension=dimension,
                rater="r",
                kind="human",
                grade=1,
                regrade_of=None,
                status="scored",
                spec=spec,
                result={"full": {}, "limited": {}},
            )

            async def work(connection: Any, row: EvaluationRow = row) -> None:
                await served.services.evaluations.store.insert(connection, row)

            await served.services.database.writer.run(work)

    async def _token(self, served: Served, game: str) -> None:
        """The row of a token that the laboratory has minted."""
        token = StoredToken(
            token_id="t_lab",
            game_id=game,
            batch_id="b_lab",
            seat=None,
            owner=LAB,
            by="key:of the lab",
            created_at=1,
            expires_at=now_ms(),
        )

        async def work(connection: Any) -> None:
            await TokenStore(served.services.database).add(connection, token)

        await served.services.database.writer.run(work)

    async def _tokens(self, keys: Keys, game: str, batch: str) -> dict[str, str]:
        now = now_ms() // 1000
        soon = now + 600
        old = keys.mint(Grant.for_seat(game, 2, 1, soon))
        epoch = await keys.raise_epoch(game, 2)
        full = {"sub": "full", "game": game, "epoch": 1, "exp": soon}
        return {
            **self.keys,
            "seat token": keys.mint(Grant.for_seat(game, 2, epoch, soon)),
            "watch game": keys.mint(Grant.to_watch(soon, game=game)),
            "watch batch": keys.mint(Grant.to_watch(soon, batch=batch)),
            "seat of another game": keys.mint(Grant.for_seat(self._others["game"], 2, 1, soon)),
            "watch another game": keys.mint(Grant.to_watch(soon, game=self._others["game"])),
            "watch another batch": keys.mint(Grant.to_watch(soon, batch=self._others["batch"])),
            "replaced seat token": old,
            "expired seat token": keys.mint(Grant.for_seat(game, 2, epoch, now)),
            "expired watch token": keys.mint(Grant.to_watch(now, game=game)),
            "forged seat token": _token({**full, "sub": "seat:2"}, "f" * 64),
            "unsigned seat token": _token({**full, "sub": "seat:2"}, None, "none"),
            "token of full": _token(full, SECRET),
        }


async def _keys(store: KeyStore) -> dict[str, str]:
    """A key of each scope alone, one of all, and some that are none any more."""
    keys = {"operator": OPERATOR, "wrong key": new_key()}
    now = now_ms()

    async def make(name: str, scopes: set[str] | frozenset[str], **more: Any) -> None:
        keys[name] = new_key()
        await store.add(ApiKey(new_id("k"), name, hash_of(keys[name]), tuple(sorted(scopes)), now, **more))

    for scope in SCOPES:
        await make(scope, {scope}, project=PROJECT)
    await make("every scope", SCOPES, project=PROJECT)
    await make("every scope of a stranger", SCOPES, project="elsewhere")
    await make("every scope over everybody's", {scope + ANY for scope in SCOPES}, project="everywhere")
    await make("expired key", SCOPES, expires_at=now)
    await make("revoked key", SCOPES, revoked_at=now)
    return keys


@asynccontextmanager
async def worlds(directory: Path) -> AsyncIterator[World]:
    more = {"api_key": OPERATOR, "token_secrets": SECRET}
    keyed = local_settings(f"sqlite:///{directory / 'keyed.sqlite'}", **more)
    unkeyed = local_settings(f"sqlite:///{directory / 'open.sqlite'}")
    async with running_server(keyed) as one, running_server(unkeyed) as two:
        yield World(one, two, await _keys(KeyStore(one.services.database)))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with worlds(tmp_path) as found:
        yield found


# --- HTTP ------------------------------------------------------------------------------------


def _named(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


async def _ask(caller: Caller, row: dict[str, Any], place: Place, credential: str) -> httpx.Response:
    method, _, path = row["request"].partition(" ")
    body = None
    if "record" in row:
        body = (HERE.parent / "records" / row["record"]).read_bytes()
    elif "body" in row:
        body = json.dumps(row["body"]).encode()
    headers = place.headers[credential]
    return await caller.request(method, _named(path, place.names), content=body, headers=headers)


def _seen_through(answer: httpx.Response, path: str) -> str:
    """Whose eyes an answer was made for, by what is in it."""
    if "/events" not in path and "/export" not in path and "/step" not in path:
        return str(answer.json()["viewer"])
    lines = answer.json()["events"] if "/step" in path else read_ndjson(answer.content)
    types = {line["type"] for line in lines if "type" in line}
    opening = [line for line in lines if line.get("type") == "provenance"]
    types.discard("provenance")
    if "/step" in path:
        return answer.headers["etag"].strip('"').split(".")[0] if types else "nothing"
    if "roles_dealt" in types:
        return "full"
    seats = {line["seat"] for line in lines if line.get("type") == "role_learned"}
    assert len(seats) <= 1
    if seats:
        return f"seat:{seats.pop()}"
    assert types <= PUBLIC_TYPES
    assert all("agents" not in line and "seed" not in line for line in opening)
    return "public"


def _check(answer: httpx.Response, row: dict[str, Any], place: Place, want: str) -> str | None:
    """What is wrong with an answer; None: nothing."""
    status, _, more = want.partition(" ")
    if answer.status_code != int(status):
        return f"{answer.status_code} {answer.text[:200]}"
    if status in ("401", "403", "404"):
        code = {"401": "unauthenticated", "403": "forbidden", "404": "not-found"}[status]
        said = problem(answer, int(status), more or code)
        told = json.dumps({**said, "trace_id": ""})
        if any(name in told for name in place.names.values()):
            return f"it repeats an id: {told}"
    if more and not _is_refusal(want) and (seen := _seen_through(answer, row["request"])) != more:
        return f"seen through {seen}"
    if status == "201" and "token" in answer.text and answer.headers.get("cache-control") != "no-store":
        return "a token that may be stored on its way"
    return None


def _is_refusal(want: str) -> bool:
    return want[:3] in ("401", "403", "404")


async def _surprises(world: World, rows: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """How many cells were looked at, and where the service does otherwise than the table says."""
    surprises = []
    places = {one.url: await world.place(one) for one in (world.keyed, world.open)}
    cells = 0
    async with Caller(world.keyed.app) as keyed, Caller(world.open.app) as unkeyed:
        for row in rows:
            # Those that are refused first: together they must have done nothing.
            cases = [(name, expected(row, name)) for name in CREDENTIALS]
            cases.sort(key=lambda one: not _is_refusal(one[1]))
            before = await keyed.rows()
            refusing = any(_is_refusal(want) for _, want in cases)
            for credential, want in cases:
                if refusing and not _is_refusal(want):
                    refusing = False
                    if await keyed.rows() != before:
                        surprises.append(f"{row['request']}: somebody was refused, and it did something")
                fresh = row.get("fresh") and not _is_refusal(want)
                served = world.served(credential)
                place = await world.place(served) if fresh else places[served.url]
                answer = await _ask(unkeyed if served is world.open else keyed, row, place, credential)
                cells += 1
                if fault := _check(answer, row, place, want):
                    surprises.append(f"{row['request']} with {credential}: not {want} but {fault}")
    return cells, surprises


async def test_every_route_answers_every_credential_as_the_table_says(world: World) -> None:
    cells, surprises = await _surprises(world, [row for row in ROWS if "request" in row])
    assert not surprises, "\n".join(surprises)
    assert cells >= 1000


HOLES: dict[str, tuple[type, str, Any]] = {
    "seat of another game": (Checked, "reaches", lambda self, game: True),
    "watch another batch": (Checked, "reaches_batch", lambda self, batch: True),
    "replaced seat token": (Checked, "is_current", lambda self, game: True),
    "revoked key": (ApiKey, "state", lambda self, now: "active"),
    "metrics:read": (Checked, "needs", lambda self, scope: None),
    "games:step": (Checked, "may", lambda self, scope, owner: True),
    "every scope of a stranger": (Checked, "may", lambda self, scope, owner: scope in self.scopes),
    "none": (Keys, "configured", False),
}
"""By the credential that gets through: what checks it, put out of action."""


async def test_planted_holes_are_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = ("GET /games/{game}", "GET /batches/{batch}", "POST /batches/{batch}/tokens")
    rows = [row for row in ROWS if row.get("request") in looked_at]
    assert (await _surprises(world, rows))[1] == []
    for credential, (owner, name, instead) in HOLES.items():
        with monkeypatch.context() as patched:
            if credential == "none":
                patched.setattr(world.keyed.services.keys, "_configured", instead)
            else:
                patched.setattr(owner, name, instead)
            found = (await _surprises(world, rows))[1]
        assert any(f"with {credential}: " in one for one in found), (credential, found)


async def test_what_a_credential_may_not_see_looks_as_if_it_did_not_exist(world: World) -> None:
    place = await world.place(world.keyed)
    compared = 0
    for row in ROWS:
        if "{game}" not in row.get("request", "") and "{batch}/" not in row.get("request", "") + "/":
            continue
        for credential in CREDENTIALS:
            if expected(row, credential) != "404":
                continue
            answers = []
            for names in (
                place.names,
                {**place.names, "game": place.names["nowhere"], "batch": place.names["nobatch"]},
            ):
                async with Caller(world.keyed.app) as caller:
                    there = Place(names, place.headers)
                    answer = await _ask(caller, row, there, credential)
                body = {**answer.json(), "trace_id": None}
                answers.append((answer.status_code, sorted(answer.headers.items()), body))
            assert answers[0] == answers[1], (row, credential)
            compared += 1
    assert compared >= 20


# --- the socket ------------------------------------------------------------------------------


async def _said(world: World, row: dict[str, Any], place: Place, credential: str) -> str:
    served = world.served(credential)
    more = json.loads(_named(json.dumps(row.get("with", {})), place.names))
    named = {"token": place.tokens[credential]} if place.tokens[credential] is not None else {}
    try:
        async with watching(served.ws_url) as one:
            if row["say"] == "identify":
                await one.send(**{"t": "identify", "v": 1, "game": place.names["game"], **named, **more})
                welcome = await one.receive()
                while welcome["t"] != "welcome":
                    welcome = await one.receive()
                return str(welcome["viewer"])
            if not row.get("first"):
                await one.send(t="identify", v=1, game=place.names["game"], **named)
            await one.send(t=row["say"], id="m1", **more)
            while True:
                frame = await one.receive()
                if frame.get("re") == "m1" and not row.get("first"):
                    return str(frame["t"] if frame["t"] == "ack" else frame["code"])
    except ConnectionClosed as closed:
        return str(closed.rcvd.code if closed.rcvd else 1006)


async def test_the_socket_answers_every_credential_as_the_table_says(world: World) -> None:
    surprises = []
    places = {one.url: await world.place(one) for one in (world.keyed, world.open)}
    cells = 0
    for row in ROWS:
        for credential in CREDENTIALS if "say" in row else ():
            place = places[world.served(credential).url]
            if credential not in place.tokens:
                continue  # two headers, and the like: no such thing on a socket
            said = await _said(world, row, place, credential)
            cells += 1
            if said != expected(row, credential):
                surprises.append(f"{row} with {credential}: {said}")
    assert not surprises, "\n".join(surprises)
    assert cells >= 250


# --- beside the table ------------------------------------------------------------------------


async def test_a_service_without_keys_takes_tokens_and_refuses_what_it_does_not_know(world: World) -> None:
    services = world.open.services
    place = await world.place(world.open)
    game = place.names["game"]
    token = services.keys.mint(Grant.for_seat(game, 2, 1, now_ms() // 1000 + 60))
    async with Caller(world.open.app) as caller:
        for credential, status, viewer in ((token, 200, "seat:2"), (OPERATOR, 401, None), ("x", 401, None)):
            headers = {"authorization": f"Bearer {credential}"}
            answer = await caller.get(f"/games/{game}", headers=headers)
            assert answer.status_code == status
            assert answer.json().get("viewer") == viewer
        # Of a seat token not more than the seat's, here neither.
        headers = {"authorization": f"Bearer {token}"}
        assert (await caller.post("/games", json={}, headers=headers)).status_code == 403
        assert (await caller.get("/metrics", headers=headers)).status_code == 403


async def test_a_token_of_another_service_is_not_valid_here(world: World) -> None:
    place = await world.place(world.keyed)
    other = Secrets(["x" * 64]).mint(Grant.for_seat(place.names["game"], 2, 2, now_ms() // 1000 + 60))
    async with Caller(world.keyed.app) as caller:
        answer = await caller.get(
            f"/games/{place.names['game']}", headers={"authorization": f"Bearer {other}"}
        )
        problem(answer, 401, "unauthenticated")


async def test_a_batch_token_is_shown_neither_labels_nor_what_models_took(world: World) -> None:
    wish = NewGames.model_validate(
        {"drive": "manual", "labels": {"arm": "control"}, "budget": {"max_tokens": 9}}
    )
    batch = (await world.keyed.services.games.create(wish)).batch_id
    token = world.keyed.services.keys.mint(Grant.to_watch(now_ms() // 1000 + 60, batch=batch))
    async with Caller(world.keyed.app) as caller:
        view = (await caller.get(f"/batches/{batch}", headers={"authorization": f"Bearer {token}"})).json()
        assert (view["labels"], view["tokens"], view["cost"], view["budget"], view["models"]) == (
            *({}, None, None, None, []),
        )
        view = (await caller.get(f"/batches/{batch}", headers={"authorization": f"Bearer {OPERATOR}"})).json()
        assert (view["labels"], view["tokens"]) == ({"arm": "control"}, 0)
