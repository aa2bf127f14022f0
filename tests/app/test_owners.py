"""Two owners on one server: each reaches what is its own, and what is the other's looks unknown."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from app.base.clock import now_ms
from app.edge.auth import ANY, SCOPES, hash_of, new_key
from app.games.seat_tokens import SeatTokens
from app.store.audit import Audit
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import until_status
from tests.app.real_server import Served, local_settings, running_server
from tests.app.seated import SHORT
from tests.app.typed import interintent
from tests.app.watcher import Watcher, watching

RECORD = json.loads((Path(__file__).parents[1] / "records" / "last-team-goes.json").read_text("utf-8"))
OPERATOR = "ik_" + "o" * 43
REMOTE = [{"agent": "remote"}, {"agent": "remote"}, *[{"agent": "random"}] * 3]


@dataclass(frozen=True)
class Key:
    """A key, as its holder has it."""

    key_id: str
    text: str

    @property
    def header(self) -> dict[str, str]:
        return bearer(self.text)


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


async def key(service: Caller | Served, *scopes: str, project: str | None = None) -> Key:
    made = Key(new_id("k"), new_key())
    named = scopes or tuple(sorted(SCOPES))
    row = ApiKey(made.key_id, "test", hash_of(made.text), named, now_ms(), project=project)
    await KeyStore(service.services.database).add(row)
    return made


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url, api_key=OPERATOR) as one:
        yield one


async def create(caller: Caller, by: Key, **wish: Any) -> tuple[str, str, list[Any]]:
    """A batch of one game, and the game's seats."""
    answer = await caller.post("/games", json={"drive": "manual", **wish}, headers=by.header)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return made["batch_id"], made["games"][0]["game_id"], made["games"][0]["seats"]


async def viewer_of(caller: Caller, game: str, credential: str) -> str:
    answer = await caller.get(f"/games/{game}", headers=bearer(credential))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["viewer"])


async def closes(one: Watcher) -> int:
    """The code with which the service closes the connection."""
    try:
        while True:
            await one.receive()
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd is not None else 1006


# --- what is another's ---------------------------------------------------------------------------


async def test_what_another_owns_looks_unknown_on_every_route(caller: Caller) -> None:
    ann, bob = await key(caller), await key(caller)
    everybodys = await key(caller, *(scope + ANY for scope in SCOPES))
    batch, game, _ = await create(caller, ann)
    await caller.post(f"/games/{game}/step", json={"until": "phase"}, headers=ann.header)
    played, done, _ = await create(caller, ann)
    await caller.post(f"/games/{done}/step", json={"until": "end"}, headers=ann.header)
    judging = {"dimension": "statements", "judge": {"kind": "rule"}, "batch": played}
    made = await caller.post("/evaluations", json=judging, headers=ann.header)
    evaluation = made.json()["evaluation_id"]
    minted = await caller.post(f"/games/{game}/tokens", json={"viewer": "public"}, headers=ann.header)
    token = minted.json()["token_id"]
    asked: list[tuple[str, str, Any]] = [
        ("POST", f"/games/{game}/step", {}),
        ("POST", f"/games/{game}/fork", {"after": {"request": "1.1.propose_team.1"}}),
        ("POST", f"/games/{done}/fork", {"after": {"request": "1.1.propose_team.1"}}),
        ("POST", f"/games/{game}/cancel", None),
        ("POST", f"/games/{done}/invalidate", {"reason": "mine now"}),
        ("DELETE", f"/games/{done}/invalidate", None),
        ("DELETE", f"/games/{done}", None),
        ("DELETE", f"/batches/{played}", None),
        ("GET", f"/batches/{batch}", None),
        ("GET", f"/batches/{batch}/events?follow=true", None),
        ("GET", f"/batches/{batch}/export?partial=true", None),
        ("GET", f"/batches/{played}/export?view=full", None),
        ("POST", f"/batches/{batch}/pause", None),
        ("POST", f"/batches/{batch}/resume", {}),
        ("POST", f"/batches/{batch}/retry", {}),
        ("POST", f"/batches/{batch}/cancel", None),
        ("POST", f"/games/{game}/tokens", {"viewer": "seat:1"}),
        ("POST", f"/games/{game}/tokens", {"viewer": "seat:1", "raise_epoch": True}),
        ("POST", f"/games/{game}/tokens", {"viewer": "public"}),
        ("POST", f"/batches/{batch}/tokens", {}),
        ("POST", f"/games/{game}/seats/1/claim-code", {}),
        ("DELETE", f"/tokens/{token}", None),
        ("GET", f"/evaluations/items?dimension=guessing&game={done}", None),
        ("GET", f"/evaluations/items?dimension=following&batch={played}&format=ndjson", None),
        ("GET", f"/evaluations/compare?dimension=guessing&batch={played}&first=a&second=b", None),
        ("POST", "/evaluations", judging),
        ("GET", f"/evaluations/{evaluation}", None),
        ("GET", f"/evaluations/{evaluation}/statements", None),
        ("GET", f"/evaluations/{evaluation}/compare/{evaluation}", None),
        ("POST", f"/evaluations/{evaluation}/cancel", None),
        ("GET", f"/annotations/tasks?rater=r&game={done}", None),
        ("GET", f"/annotations/progress?batch={played}", None),
        ("GET", f"/annotations?game={done}", None),
        ("GET", f"/reports?batch={played}", None),
    ]
    before = await caller.rows()
    for method, path, body in asked:
        answer = await caller.request(method, path, json=body, headers=bob.header)
        assert answer.status_code == 404, (method, path, answer.text)
        assert answer.json()["code"] == "not-found", (method, path)
    judgement = {"item_id": f"{done}/following/1.1.propose_team.1/final/-", "intention": "x", "think": 3}
    body = {"rater": {"name": "r", "kind": "human"}, "judgements": [judgement]}
    unknown = await caller.post("/annotations", json=body, headers=bob.header)
    problem(unknown, 422, "invalid-request", "/judgements/0/item_id")
    assert await caller.rows() == before, "somebody was refused, and it did something"
    for path in ("/games", "/batches", "/evaluations", "/tokens"):
        for who, theirs in ((ann, 2), (bob, 0), (everybodys, 2)):
            listed = await caller.get(path, headers=who.header)
            few = 1 if path in ("/evaluations", "/tokens") else 2
            assert len(listed.json()[path[1:]]) == min(theirs, few), (path, listed.text)
    # The owner, and who reaches everybody's, is told of it.
    for who in (ann, everybodys):
        for method, path, body in asked:
            if method == "GET" and "compare" not in path:
                path = path.replace("?follow=true", "")
                answer = await caller.request(method, path, json=body, headers=who.header)
                assert answer.status_code == 200, (path, answer.text)


async def test_the_public_part_of_a_game_is_seen_by_its_id_and_nothing_else(caller: Caller) -> None:
    ann, bob = await key(caller), await key(caller)
    _, game, _ = await create(caller, ann, seats=REMOTE)
    assert await viewer_of(caller, game, ann.text) == "full"
    assert await viewer_of(caller, game, bob.text) == "public"
    for viewer in ("full", "seat:1"):
        for path in (f"/games/{game}", f"/games/{game}/events"):
            refused = await caller.get(path, params={"viewer": viewer}, headers=bob.header)
            problem(refused, 403, "forbidden")
    answering = f"/games/{game}/requests/1.1.propose_team.1/action?viewer=seat:1"
    problem(await caller.post(answering, json={"action": {}}, headers=bob.header), 403, "forbidden")
    problem(await caller.get(f"/games/{game}/requests?viewer=seat:1", headers=bob.header), 403, "forbidden")


async def test_a_game_whose_whole_log_is_public_is_forked_and_guessed_without_its_labels(
    caller: Caller,
) -> None:
    ann, bob = await key(caller), await key(caller)
    _, game, _ = await create(caller, ann, reveal="all", labels={"arm": "secret"})
    await caller.post(f"/games/{game}/step", json={"until": "end"}, headers=ann.header)
    wish = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
    forked = (await caller.post(f"/games/{game}/fork", json=wish, headers=bob.header)).json()
    shown = await caller.get(f"/batches/{forked['batch_id']}", headers=bob.header)
    assert shown.json()["labels"] == {}
    assert await viewer_of(caller, forked["game_id"], bob.text) == "full"
    assert await viewer_of(caller, forked["game_id"], ann.text) == "public"
    items = f"/evaluations/items?dimension=guessing&game={game}"
    assert (await caller.get(items, headers=bob.header)).status_code == 200


async def test_the_keys_of_a_project_share_what_each_of_them_makes(caller: Caller) -> None:
    one, other = await key(caller, project="avalon"), await key(caller, "games:read", project="avalon")
    stranger = await key(caller, project="merlin")
    batch, _, _ = await create(caller, one)
    assert (await caller.get(f"/batches/{batch}", headers=other.header)).status_code == 200
    assert (await caller.get(f"/batches/{batch}", headers=stranger.header)).status_code == 404
    assert (await caller.post(f"/batches/{batch}/pause", headers=other.header)).status_code == 403


# --- others at the table -------------------------------------------------------------------------


async def test_a_key_that_plays_beside_others_sees_its_seat_until_the_game_ends(caller: Caller) -> None:
    ann = await key(caller)
    once = {**ann.header, "Idempotency-Key": "once"}
    wish = {"drive": "manual", "seats": REMOTE}
    made = (await caller.post("/games", json=wish, headers=once)).json()
    batch, game, seats = made["batch_id"], made["games"][0]["game_id"], made["games"][0]["seats"]
    assert await viewer_of(caller, game, seats[1]["token"]) == "seat:2"
    assert await viewer_of(caller, game, ann.text) == "full"
    code = (await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)).json()["code"]
    # From here on seat 2 is somebody else's.
    for claimed in (False, True):
        if claimed:
            token = (await caller.post("/claims", json={"code": code})).json()["token"]
            assert await viewer_of(caller, game, token) == "seat:2"
        assert await viewer_of(caller, game, ann.text) == "seat:1"
        answer = await caller.get(f"/games/{game}", headers=bearer(seats[1]["token"]))
        problem(answer, 401, "unauthenticated")
        for viewer, status in (("full", 403), ("seat:2", 403), ("seat:1", 200), ("public", 200)):
            answer = await caller.get(f"/games/{game}?viewer={viewer}", headers=ann.header)
            assert answer.status_code == status, (viewer, answer.text)
        for body in ({"viewer": "seat:2"}, {"viewer": "seat:2", "raise_epoch": True}):
            answer = await caller.post(f"/games/{game}/tokens", json=body, headers=ann.header)
            assert "somebody else" in problem(answer, 403, "forbidden")["detail"]
        own = await caller.post(f"/games/{game}/tokens", json={"viewer": "seat:1"}, headers=ann.header)
        assert own.status_code == 201
        shown = (await caller.get(f"/batches/{batch}", headers=ann.header)).json()
        assert (shown["tokens"], shown["models"], shown["defaults"]) == (None, [], None)
        export = f"/batches/{batch}/export?partial=true&view="
        problem(await caller.get(export + "full", headers=ann.header), 403, "forbidden")
        assert (await caller.get(export + "public", headers=ann.header)).status_code == 200
        fork = {"after": {"request": "1.1.propose_team.1"}}
        refused = await caller.post(f"/games/{game}/fork", json=fork, headers=ann.header)
        assert "seat:1" in problem(refused, 403, "forbidden")["detail"]
        # The answer to the repeated request has no token of the seat either.
        again = (await caller.post("/games", json=wish, headers=once)).json()["games"][0]["seats"]
        assert [seat["token"] is not None for seat in again] == [True, False, False, False, False]
        listed = (await caller.get(f"/games?batch={batch}", headers=ann.header)).json()["games"]
        assert [line["agents"] for line in listed] == [None]
        assert (await caller.get(f"/games?batch={batch}&agent=random", headers=ann.header)).json()[
            "games"
        ] == []
    refused = await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)
    problem(refused, 403, "forbidden")
    assert (await caller.post(f"/games/{game}/cancel", headers=ann.header)).status_code == 202
    assert await viewer_of(caller, game, ann.text) == "full"
    assert (await caller.get(export + "full", headers=ann.header)).status_code == 200


async def test_a_key_that_takes_a_seat_with_a_code_sees_the_game_as_that_seat(caller: Caller) -> None:
    ann, bob = await key(caller), await key(caller, *SCOPES, *(scope + ANY for scope in SCOPES))
    _, game, _ = await create(caller, ann, seats=REMOTE, drive="auto")
    assert await viewer_of(caller, game, bob.text) == "full"
    made = await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)
    code = {"code": made.json()["code"]}
    for wrong in ("ik_wrong", new_key()):
        refused = await caller.post("/claims", json=code, headers=bearer(wrong))
        problem(refused, 401, "unauthenticated")
    answer = await caller.post("/claims", json=code, headers=bob.header)
    assert (answer.status_code, answer.json()["seat"]) == (200, 2)
    assert await viewer_of(caller, game, bob.text) == "seat:2"
    for viewer in ("full", "seat:1"):
        problem(await caller.get(f"/games/{game}?viewer={viewer}", headers=bob.header), 403, "forbidden")
    [deed] = (await Audit(caller.services.database).deeds(actions=["claim"]))[0]
    assert deed.by == f"key:{bob.key_id}"
    await caller.post(f"/games/{game}/cancel", headers=ann.header)
    await until_status(caller, f"/games/{game}?viewer=full", 200, headers=bob.header)


async def test_a_key_that_takes_a_seat_of_the_operators_game_sees_it_as_that_seat(caller: Caller) -> None:
    made = await caller.post("/games", json={"seats": REMOTE}, headers=bearer(OPERATOR))
    game = made.json()["games"][0]["game_id"]
    bob, eve = [await key(caller, *SCOPES, *(scope + ANY for scope in SCOPES)) for _ in range(2)]
    code = await caller.post(f"/games/{game}/seats/2/claim-code", headers=bearer(OPERATOR))
    answer = await caller.post("/claims", json={"code": code.json()["code"]}, headers=bob.header)
    assert (answer.status_code, answer.json()["seat"]) == (200, 2)
    assert await viewer_of(caller, game, bob.text) == "seat:2"
    problem(await caller.get(f"/games/{game}?viewer=full", headers=bob.header), 403, "forbidden")
    for other in (eve.text, OPERATOR):
        assert await viewer_of(caller, game, other) == "full"


async def test_a_new_code_takes_a_seat_of_the_operators_game_from_its_key(caller: Caller) -> None:
    made = await caller.post("/games", json={"seats": REMOTE}, headers=bearer(OPERATOR))
    game = made.json()["games"][0]["game_id"]
    bob, eve = [await key(caller, *SCOPES, *(scope + ANY for scope in SCOPES)) for _ in range(2)]
    tokens = []
    for one, other in ((bob, eve), (eve, bob)):
        made = await caller.post(f"/games/{game}/seats/2/claim-code", headers=bearer(OPERATOR))
        code = {"code": made.json()["code"]}
        for token in tokens:
            assert (await caller.get(f"/games/{game}", headers=bearer(token))).status_code == 401
        claimed = await caller.post("/claims", json=code, headers=one.header)
        tokens.append(claimed.json()["token"])
        assert (await caller.post("/claims", json=code, headers=other.header)).status_code == 410
        assert await viewer_of(caller, game, one.text) == "seat:2"
        assert await viewer_of(caller, game, other.text) == "full"


async def test_who_gives_all_seats_away_watches_like_everybody(caller: Caller) -> None:
    ann = await key(caller)
    _, game, _ = await create(caller, ann, seats=REMOTE)
    for seat in (1, 2):
        await caller.post(f"/games/{game}/seats/{seat}/claim-code", headers=ann.header)
    assert await viewer_of(caller, game, ann.text) == "public"
    problem(await caller.get(f"/games/{game}?viewer=full", headers=ann.header), 403, "forbidden")
    assert await viewer_of(caller, game, OPERATOR) == "full"


async def test_a_step_that_waits_names_only_whom_the_caller_sees(caller: Caller) -> None:
    ann = await key(caller, project="lab")
    steps = await key(caller, "games:step", project="lab")
    wish = {"drive": "manual", "seats": [{"agent": "remote"}] * 5, "rules": SHORT}
    made = await caller.post("/games", json=wish, headers=ann.header)
    game = made.json()["games"][0]["game_id"]

    async def told(one: Key, until: str) -> str:
        answer = await caller.post(f"/games/{game}/step", json={"until": until}, headers=one.header)
        return str(problem(answer, 409, "not-answered")["detail"])

    assert await told(ann, "action") == "not answered yet: 1.1.propose_team.1"
    assert await told(steps, "action") == "not answered yet: 1 seat"
    team = f"/games/{game}/requests/1.1.propose_team.1/action?viewer=seat:1"
    await caller.post(team, json={"action": {"team": [1, 2]}}, headers=ann.header)
    await caller.post(f"/games/{game}/step", json={}, headers=steps.header)
    votes = [f"1.1.vote.{seat}" for seat in range(1, 6)]
    assert await told(ann, "phase") == f"not answered yet: {', '.join(votes)}"
    assert await told(steps, "phase") == "not answered yet: 5 seats"
    for seat in (1, 2):
        await caller.post(f"/games/{game}/seats/{seat}/claim-code", headers=ann.header)
    # From here on the key sees its own seats alone.
    assert await told(ann, "phase") == f"not answered yet: {', '.join(votes[2:])}, 2 other seats"
    assert await told(ann, "action") == "not answered yet: 1 seat"


async def test_the_operators_own_game_shares_nothing_out(caller: Caller) -> None:
    answer = await caller.post("/games", json={"drive": "manual", "seats": REMOTE}, headers=bearer(OPERATOR))
    made = answer.json()["games"][0]
    code = await caller.post(f"/games/{made['game_id']}/seats/2/claim-code", headers=bearer(OPERATOR))
    assert (await caller.post("/claims", json={"code": code.json()["code"]})).status_code == 200
    assert await viewer_of(caller, made["game_id"], made["seats"][1]["token"]) == "seat:2"
    assert await viewer_of(caller, made["game_id"], OPERATOR) == "full"


async def test_open_connections_end_when_others_come_to_the_table(database_url: str) -> None:
    async with running_server(local_settings(database_url, api_key=OPERATOR)) as served:
        ann = await key(served)
        async with Caller(served.app) as caller:
            _, game, _ = await create(caller, ann, seats=REMOTE)
            async with watching(served.ws_url) as one:
                await one.send(t="identify", v=1, game=game, token=ann.text)
                while (frame := await one.receive())["t"] != "welcome":
                    pass
                assert frame["viewer"] == "full"
                # A client of its own: this one tells the first line before the stream has ended.
                async with (
                    httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=200) as client,
                    client.stream("GET", f"/games/{game}/events?follow=true", headers=ann.header) as followed,
                ):
                    assert followed.status_code == 200
                    lines = followed.aiter_lines()
                    await anext(lines)
                    code = await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)
                    assert code.status_code == 201
                    assert await closes(one) == 4403
                    async with asyncio.timeout(200):
                        async for _ in lines:
                            pass


# --- tokens --------------------------------------------------------------------------------------


async def test_tokens_are_listed_and_revoked_one_by_one(caller: Caller) -> None:
    ann = await key(caller)
    batch, game, _ = await create(caller, ann)
    minted = []
    for body in ({"viewer": "seat:3"}, {"viewer": "public"}, {"viewer": "seat:3"}):
        answer = await caller.post(f"/games/{game}/tokens", json=body, headers=ann.header)
        minted.append(answer.json())
    watch = (await caller.post(f"/batches/{batch}/tokens", headers=ann.header)).json()
    first = (await caller.get(f"/tokens?game={game}&limit=2", headers=ann.header)).json()
    rest = (await caller.get(f"/tokens?game={game}&cursor={first['next']}", headers=ann.header)).json()
    rows = [*first["tokens"], *rest["tokens"]]
    assert [row["token_id"] for row in rows] == [one["token_id"] for one in reversed(minted)]
    assert [row["viewer"] for row in rows] == ["seat:3", "public", "seat:3"]
    assert {row["by"] for row in rows} == {f"key:{ann.key_id}"}
    assert {row["state"] for row in rows} == {"active"}
    of_batch = (await caller.get(f"/tokens?batch={batch}", headers=ann.header)).json()["tokens"]
    assert [row["game_id"] for row in of_batch] == [None, game, game, game]
    assert "token" not in of_batch[0]
    gone = await caller.delete(f"/tokens/{minted[0]['token_id']}", headers=ann.header)
    assert gone.json() == {"status": "revoked"}
    problem(await caller.get(f"/games/{game}", headers=bearer(minted[0]["token"])), 401, "unauthenticated")
    for token in (minted[1], minted[2], watch):
        assert (await caller.get(f"/games/{game}", headers=bearer(token["token"]))).status_code == 200
    replacing = {"viewer": "seat:3", "raise_epoch": True}
    await caller.post(f"/games/{game}/tokens", json=replacing, headers=ann.header)
    problem(await caller.get(f"/games/{game}", headers=bearer(minted[2]["token"])), 401, "unauthenticated")
    shown = (await caller.get(f"/tokens?game={game}", headers=ann.header)).json()["tokens"]
    assert [row["state"] for row in shown] == ["active", "revoked", "active", "revoked"]


def before_it(monkeypatch: pytest.MonkeyPatch, method: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Has the next call of this method act after the game's row was read, and before anything is written."""
    real = getattr(SeatTokens, method)

    async def late(*arguments: Any) -> Any:
        monkeypatch.setattr(SeatTokens, method, real)
        await act()
        return await real(*arguments)

    monkeypatch.setattr(SeatTokens, method, late)


async def test_a_host_that_looked_before_it_made_a_code_gets_no_token_of_the_seat(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = await key(caller), await key(caller)
    for body in ({"viewer": "seat:1"}, {"viewer": "seat:1", "raise_epoch": True}):
        _, game, _ = await create(caller, ann, seats=REMOTE)

        async def offer(game: str = game) -> str:
            made = await caller.post(f"/games/{game}/seats/1/claim-code", headers=ann.header)
            return str(made.json()["code"])

        before_it(monkeypatch, "for_game", offer)
        refused = await caller.post(f"/games/{game}/tokens", json=body, headers=ann.header)
        assert "somebody else" in problem(refused, 403, "forbidden")["detail"]
        assert (await caller.get(f"/tokens?game={game}", headers=ann.header)).json()["tokens"] == []
        claimed = await caller.post("/claims", json={"code": await offer()}, headers=bob.header)
        assert await viewer_of(caller, game, claimed.json()["token"]) == "seat:1"


async def test_a_host_gets_no_code_for_a_seat_that_was_claimed_after_it_looked(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = await key(caller), await key(caller)
    for header in ({}, bob.header):
        _, game, _ = await create(caller, ann, seats=REMOTE)
        path = f"/games/{game}/seats/1/claim-code"
        code = {"code": (await caller.post(path, headers=ann.header)).json()["code"]}

        async def claim(code: Any = code, header: Any = header) -> None:
            assert (await caller.post("/claims", json=code, headers=header)).status_code == 200

        before_it(monkeypatch, "claim_code", claim)
        problem(await caller.post(path, headers=ann.header), 403, "forbidden")
        problem(await caller.post("/claims", json=code), 410, "code-spent")


async def test_two_codes_that_are_made_at_once_are_one_code(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await key(caller)
    _, game, _ = await create(caller, ann, seats=REMOTE)
    path, codes = f"/games/{game}/seats/1/claim-code", []

    async def make() -> None:
        codes.append((await caller.post(path, headers=ann.header)).json()["code"])

    before_it(monkeypatch, "claim_code", make)
    await make()
    claims = [(await caller.post("/claims", json={"code": code})).status_code for code in codes]
    assert claims == [404, 200]


async def test_a_key_that_claims_a_seat_voids_every_earlier_token_of_it(caller: Caller) -> None:
    bob = await key(caller)
    for by in (await key(caller), Key("operator", OPERATOR)):
        _, game, seats = await create(caller, by, seats=REMOTE)
        minted = await caller.post(f"/games/{game}/tokens", json={"viewer": "seat:1"}, headers=by.header)
        made = await caller.post(f"/games/{game}/seats/1/claim-code", headers=by.header)
        claimed = await caller.post("/claims", json={"code": made.json()["code"]}, headers=bob.header)
        for token in (seats[0]["token"], minted.json()["token"]):
            problem(await caller.get(f"/games/{game}", headers=bearer(token)), 401, "unauthenticated")
        assert await viewer_of(caller, game, claimed.json()["token"]) == "seat:1"


async def test_a_token_that_was_minted_while_a_code_was_out_dies_with_the_claim(caller: Caller) -> None:
    ann = await key(caller)
    _, game, _ = await create(caller, ann, seats=REMOTE)
    code = (await caller.post(f"/games/{game}/seats/1/claim-code", headers=ann.header)).json()["code"]
    row = await caller.services.store.game(game)
    assert row is not None
    token = caller.services.seat_tokens.of_player(row, 1, f"key:{ann.key_id}")
    assert await viewer_of(caller, game, token) == "seat:1"
    assert (await caller.post("/claims", json={"code": code})).status_code == 200
    problem(await caller.get(f"/games/{game}", headers=bearer(token)), 401, "unauthenticated")


async def test_who_exchanges_a_code_with_a_token_takes_the_seat_for_nobodys_key(caller: Caller) -> None:
    ann = await key(caller)
    _, game, seats = await create(caller, ann, seats=REMOTE)
    made = await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)
    code = {"code": made.json()["code"]}
    claimed = await caller.post("/claims", json=code, headers=bearer(seats[0]["token"]))
    assert claimed.json()["seat"] == 2
    # The token came from the host's key, which does not have the seat again.
    assert await viewer_of(caller, game, ann.text) == "seat:1"


async def test_a_guest_has_tokens_of_its_own_seat_alone(caller: Caller) -> None:
    ann, bob = await key(caller), await key(caller)
    _, game, _ = await create(caller, ann, seats=REMOTE)
    made = await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)
    await caller.post("/claims", json={"code": made.json()["code"]}, headers=bob.header)
    for viewer, status in (("seat:2", 201), ("seat:1", 404), ("public", 404)):
        answer = await caller.post(f"/games/{game}/tokens", json={"viewer": viewer}, headers=bob.header)
        assert answer.status_code == status, (viewer, answer.text)


async def test_a_games_watch_token_lasts_a_day_at_most_and_a_seats_token_up_to_thirty(caller: Caller) -> None:
    ann = await key(caller)
    _, game, _ = await create(caller, ann)
    for viewer, days in (("public", 1), ("seat:3", 30)):
        for more_s in (0, 1):
            body = {"viewer": viewer, "ttl_s": days * 86_400 + more_s}
            answer = await caller.post(f"/games/{game}/tokens", json=body, headers=ann.header)
            if more_s:
                problem(answer, 422, "invalid-request", "/ttl_s")
            else:
                assert answer.status_code == 201, answer.text


async def test_tokens_die_with_a_key_that_is_revoked_as_compromised_alone(database_url: str) -> None:
    async with running_server(local_settings(database_url, api_key=OPERATOR)) as served:
        ann = await key(served)
        async with Caller(served.app) as caller:
            batch, game, _ = await create(caller, ann, seats=REMOTE)
            path = f"/games/{game}/seats/2/claim-code"
            code, later = [(await caller.post(path, headers=ann.header)).json()["code"] for _ in range(2)]
            assert (await caller.post("/claims", json={"code": code})).status_code == 404
            open_code = (await caller.post(f"/games/{game}/seats/1/claim-code", headers=ann.header)).json()
            tokens = [
                (await caller.post("/claims", json={"code": later})).json()["token"],
                (await caller.post(f"/batches/{batch}/tokens", headers=ann.header)).json()["token"],
            ]
            _, other, held = await create(caller, ann, seats=REMOTE)
            where = {held[0]["token"]: other}
            said = await asyncio.to_thread(
                interintent, "keys", "revoke", ann.key_id, "--database-url", database_url
            )
            assert said.exit_code == 0, said.stderr
            # Within `FRESH_S`; once it is so, it is so for the tokens, too.
            await until_status(caller, f"/games/{game}", 401, headers=ann.header)
            problem(await caller.get(f"/games/{game}", headers=ann.header), 401, "unauthenticated")
            for token in (*tokens, *where):
                seen = await caller.get(f"/games/{where.get(token, game)}", headers=bearer(token))
                assert seen.status_code == 200
            async with watching(served.ws_url) as one:
                await one.send(t="identify", v=1, game=game, token=tokens[0])
                while (await one.receive())["t"] != "welcome":
                    pass
                command = ["keys", "revoke", ann.key_id, "--compromised", "--database-url", database_url]
                said = await asyncio.to_thread(interintent, *command)
                assert "with every token that came from it" in said.stderr
                # What it has begun goes on: whoever revokes it is told how to find that.
                assert f"audit --by key:{ann.key_id}" in said.stderr
                assert await closes(one) == 4401
            for token in (*tokens, *where):
                seen = await caller.get(f"/games/{where.get(token, game)}", headers=bearer(token))
                assert "compromised" in problem(seen, 401, "unauthenticated")["detail"]
            spent = await caller.post("/claims", json={"code": open_code["code"]})
            assert "compromised" in problem(spent, 410, "code-spent")["detail"]
            # What was refused is not told as done.
            claims = await Audit(served.services.database).deeds(actions=["claim"])
            assert [deed.detail["seat"] for deed in claims[0]] == [2]
            listed = await caller.get("/tokens", headers=bearer(OPERATOR))
            assert {row["state"] for row in listed.json()["tokens"]} == {"revoked"}


async def test_a_seats_token_dies_with_the_key_that_claimed_it_and_with_the_one_that_made_its_code(
    caller: Caller,
) -> None:
    ann, bob = await key(caller), await key(caller)
    _, game, _ = await create(caller, ann, seats=REMOTE)
    tokens = []
    for seat, claimer in ((1, bob.header), (2, None)):
        made = await caller.post(f"/games/{game}/seats/{seat}/claim-code", headers=ann.header)
        code = {"code": made.json()["code"]}
        tokens.append((await caller.post("/claims", json=code, headers=claimer)).json()["token"])
    for stolen, seen in ((bob, [401, 200]), (ann, [401, 401])):
        await KeyStore(caller.services.database).revoke(stolen.key_id, now_ms(), compromised=True)
        await caller.services.keys.refresh()
        answers = [await caller.get(f"/games/{game}", headers=bearer(token)) for token in tokens]
        assert [answer.status_code for answer in answers] == seen
        assert "compromised" in problem(answers[0], 401, "unauthenticated")["detail"]


# --- who did what --------------------------------------------------------------------------------


async def test_the_audit_says_who_did_what(caller: Caller) -> None:
    ann, bob = await key(caller, project="avalon"), await key(caller)
    batch, game, _ = await create(caller, ann)
    await caller.post(f"/games/{game}/step", json={"until": "end"}, headers=ann.header)
    minted = await caller.post(f"/games/{game}/tokens", json={"viewer": "seat:1"}, headers=ann.header)
    fork = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
    forked = (await caller.post(f"/games/{game}/fork", json=fork, headers=ann.header)).json()["game_id"]
    await caller.post(f"/games/{forked}/cancel", headers=ann.header)
    await caller.get(f"/batches/{batch}/export?view=full", headers=ann.header)
    judging = {"dimension": "statements", "judge": {"kind": "rule"}, "batch": batch}
    judged = await caller.post("/evaluations", json=judging, headers=ann.header)
    await caller.post(f"/games/{game}/cancel", headers=bob.header)  # refused: nothing is noted
    deeds, damaged = await Audit(caller.services.database).deeds()
    assert not damaged
    assert [(deed.action, deed.object) for deed in deeds] == [
        ("create", batch),
        ("mint", game),
        ("fork", game),
        ("cancel", forked),
        ("export", batch),
        ("evaluate", judged.json()["evaluation_id"]),
    ]
    assert {(deed.by, deed.owner) for deed in deeds} == {(f"key:{ann.key_id}", "project:avalon")}
    assert deeds[1].detail == {"viewer": "seat:1", "token": minted.json()["token_id"]}
    assert deeds[2].detail == {"fork": forked}
    assert deeds[4].detail == {"view": "full"}
    assert [deed.action for deed in (await Audit(caller.services.database).deeds(objects=[game]))[0]] == [
        "mint",
        "fork",
    ]


async def test_an_export_by_a_watch_token_leaves_no_line(caller: Caller) -> None:
    # A link that is shown to everybody would let anybody fill the database.
    ann = await key(caller)
    batch, game, _ = await create(caller, ann)
    await caller.post(f"/games/{game}/step", json={"until": "end"}, headers=ann.header)
    token = (await caller.post(f"/batches/{batch}/tokens", json={}, headers=ann.header)).json()["token"]
    watcher = {"authorization": f"Bearer {token}"}
    assert (await caller.get(f"/batches/{batch}/export", headers=watcher)).status_code == 200
    assert (await caller.get(f"/batches/{batch}/export", headers=ann.header)).status_code == 200
    deeds, _ = await Audit(caller.services.database).deeds(actions=["export"])
    assert [deed.by for deed in deeds] == [f"key:{ann.key_id}"]


async def test_a_deed_has_its_line_before_it_is_done_and_a_refused_one_has_none(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await key(caller, project="avalon")
    batch, game, _ = await create(caller, ann)
    games, audit = caller.services.games, Audit(caller.services.database)

    async def lines(*actions: str) -> list[tuple[str, str, Any]]:
        return [(deed.action, deed.object, deed.detail) for deed in (await audit.deeds(actions=actions))[0]]

    async def dies(*_: Any, **__: Any) -> None:
        # The line is there already: whatever the process did before it died, it is told.
        assert await lines("cancel") == [("cancel", game, {})]
        raise RuntimeError("the machine broke")

    with monkeypatch.context() as patched:
        patched.setattr(games.canceller, "cancel", dies)
        answer = await caller.post(f"/games/{game}/cancel", headers=ann.header)
        assert answer.status_code == 500
    assert len(await lines("cancel")) == 1
    assert (await caller.post(f"/games/{game}/cancel", headers=ann.header)).status_code == 202
    problem(await caller.post(f"/games/{game}/cancel", headers=ann.header), 409, "already-over")
    assert len(await lines("cancel")) == 2
    fork = {"after": {"request": "9.9.vote.1"}, "drive": "manual"}
    problem(await caller.post(f"/games/{game}/fork", json=fork, headers=ann.header), 422, "invalid-request")
    assert await lines("fork") == []
    other, _, _ = await create(caller, ann)
    problem(await caller.delete(f"/batches/{other}", headers=ann.header), 409, "still-needed")
    assert (await caller.delete(f"/batches/{batch}", headers=ann.header)).status_code == 200
    assert await lines("delete") == [("delete", batch, {"games": 1})]


async def test_what_is_created_or_claimed_is_stored_with_its_line_or_not_at_all(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await key(caller)
    batch, game, _ = await create(caller, ann, seats=REMOTE)
    made = await caller.post(f"/games/{game}/seats/2/claim-code", headers=ann.header)
    code = {"code": made.json()["code"]}

    async def breaks(*_: Any, **__: Any) -> int:
        raise RuntimeError("the machine broke")

    with monkeypatch.context() as patched:
        patched.setattr(Audit, "add", breaks)
        for path, body in (("/games", {}), ("/games/import", RECORD), ("/claims", code)):
            answer = await caller.post(path, json=body, headers=ann.header)
            assert answer.status_code == 500, (path, answer.text)
    listed = (await caller.get("/games", headers=ann.header)).json()["games"]
    assert [one["game_id"] for one in listed] == [game]
    assert (await caller.post("/claims", json=code)).status_code == 200
    imported = await caller.post("/games/import", json=RECORD, headers=ann.header)
    assert imported.status_code == 201
    deeds, _ = await Audit(caller.services.database).deeds(actions=["create", "import", "claim"])
    assert [(deed.action, deed.object) for deed in deeds] == [
        ("create", batch),
        ("claim", game),
        ("import", imported.json()["game_id"]),
    ]
