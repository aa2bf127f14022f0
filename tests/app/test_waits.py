"""Whoever waits for an answer gets what a new request would show when the wait is over, or a refusal: its key
may have been revoked, and its seat may be somebody else's.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from app.base.clock import now_ms
from app.base.errors import MissingAnswer
from app.games import stepping
from tests.app.calling import WITHIN_S, Caller, calling, problem
from tests.app.edge.test_keys import bearer, make_key, store_of

OPERATOR = "ik_" + "o" * 43
SCOPES = ("games:create", "games:read", "games:step", "export:full", "tokens:mint", "bots:play", "eval:read")
SEATS = [{"agent": "scripted"}, *[{"agent": "remote"}] * 4]
WAIT_S = 25
SOON_S = 10.0
"""Far less than anybody waits here; a revoked credential is to be refused within two seconds."""


@pytest.fixture
async def caller(database_url: str) -> AsyncIterator[Caller]:
    async with calling(database_url, api_key=OPERATOR) as one:
        yield one


class Host:
    """A key, and a game of it that is stepped by hand."""

    def __init__(self, caller: Caller, key_id: str, key: str) -> None:
        self.caller = caller
        self.key_id = key_id
        self.headers = bearer(key)
        self.game = self.batch = ""

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.caller.request(method, path, **{"headers": self.headers, **options})

    async def give_away(self, seat: int = 2) -> dict[str, str]:
        """Gives the seat to another key. Returns the header of the seat's new token."""
        code = await self.ask("POST", f"/games/{self.game}/seats/{seat}/claim-code", json={})
        _, guest = await make_key(store_of(self.caller), "bots:play")
        body = {"code": code.json()["code"]}
        claimed = await self.caller.post("/claims", json=body, headers=bearer(guest))
        assert claimed.status_code == 200, claimed.text
        return bearer(claimed.json()["token"])


async def hosting(caller: Caller, first_leader: int = 1) -> Host:
    host = Host(caller, *await make_key(store_of(caller), *SCOPES))
    wish = {"drive": "manual", "seats": SEATS, "rules": {"first_leader": first_leader}}
    made = (await host.ask("POST", "/games", json=wish)).json()
    host.batch, host.game = made["batch_id"], made["games"][0]["game_id"]
    return host


# --- routes that wait as long as they are told ------------------------------------------------


async def _awaiting_request(host: Host) -> str:
    return f"/games/{host.game}/requests?viewer=seat:2"


async def _awaiting_game(host: Host) -> str:
    seek = await host.ask("POST", "/seeks", json={"bot": "owl", "players": 9, "wait_s": 3600})
    return f"/seeks/{seek.json()['seek_id']}?"


async def _awaiting_report(host: Host) -> str:
    slots = host.caller.services.evaluations.reports._slots
    while not slots.locked():
        await slots.acquire()
    return f"/reports?batch={host.batch}&group_by=agent"


WAITS: dict[str, Callable[[Host], Awaitable[str]]] = {
    "GET /games/{game_id}/requests": _awaiting_request,
    "GET /seeks/{seek_id}": _awaiting_game,
    "GET /reports": _awaiting_report,
}
"""By route, what makes it wait, and its address."""


async def _revoke(host: Host) -> None:
    await store_of(host.caller).revoke(host.key_id, now_ms())


async def _revoke_as_compromised(host: Host) -> None:
    await store_of(host.caller).revoke(host.key_id, now_ms(), compromised=True)


async def _narrow(host: Host) -> None:
    await store_of(host.caller).change(host.key_id, ["games:read"])


ENDS = [_revoke, _revoke_as_compromised, _narrow]


async def waiting(ask: Awaitable[httpx.Response]) -> asyncio.Task[httpx.Response]:
    task = asyncio.ensure_future(ask)
    await asyncio.sleep(0.3)
    assert not task.done(), task.result().text
    return task  # type: ignore[return-value]


async def soon(task: asyncio.Task[httpx.Response]) -> httpx.Response:
    began = time.monotonic()
    answer = await task
    assert time.monotonic() - began < SOON_S
    return answer


async def test_every_route_that_waits_is_checked_here(caller: Caller) -> None:
    found = {
        f"{method.upper()} {path}"
        for path, methods in caller.app.openapi()["paths"].items()
        for method, route in methods.items()
        if any("wait" in parameter["name"].lower() for parameter in route.get("parameters", ()))
        or any(parameter["name"].lower() == "prefer" for parameter in route.get("parameters", ()))
    }
    assert found == set(WAITS)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("route", WAITS)
async def test_a_wait_ends_with_its_key(
    caller: Caller, route: str, end: Callable[[Host], Awaitable[None]]
) -> None:
    host = await hosting(caller)
    wait = await waiting(host.ask("GET", f"{await WAITS[route](host)}&wait_s={WAIT_S}"))
    await end(host)
    await caller.services.keys.refresh()
    problem(await soon(wait), 401, "unauthenticated")


@pytest.mark.parametrize("how", ["revoked", "replaced"])
async def test_a_wait_for_a_request_ends_with_the_token_of_its_seat(caller: Caller, how: str) -> None:
    host = await hosting(caller)
    tokens = f"/games/{host.game}/tokens"
    minted = (await host.ask("POST", tokens, json={"viewer": "seat:2"})).json()
    path = f"/games/{host.game}/requests?wait_s={WAIT_S}"
    wait = await waiting(caller.get(path, headers=bearer(minted["token"])))
    if how == "revoked":
        await host.ask("DELETE", f"/tokens/{minted['token_id']}")
    else:
        await host.ask("POST", tokens, json={"viewer": "seat:2", "raise_epoch": True})
    problem(await soon(wait), 401, "unauthenticated")


async def test_a_key_waits_for_no_request_of_a_seat_that_has_become_anothers(caller: Caller) -> None:
    host = await hosting(caller)
    wait = await waiting(host.ask("GET", f"{await _awaiting_request(host)}&wait_s={WAIT_S}"))
    await host.give_away()
    problem(await soon(wait), 403, "forbidden")


async def test_a_report_is_what_its_reader_may_see_when_it_is_made(caller: Caller) -> None:
    host = await hosting(caller)
    wait = await waiting(host.ask("GET", f"{await _awaiting_report(host)}&wait_s={WAIT_S}"))
    await host.give_away()
    caller.services.evaluations.reports._slots.release()
    problem(await soon(wait), 403, "forbidden")


# --- work that takes a while ------------------------------------------------------------------


class Held:
    """Holds the first call of a function up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self._do: Callable[..., Any] = getattr(owner, name)
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(owner, name, self._held)

    async def _held(self, *arguments: Any, **named: Any) -> Any:
        if not self.reached.is_set():
            self.reached.set()
            await self.open.wait()
        return await self._do(*arguments, **named)

    async def while_held(
        self, ask: Awaitable[httpx.Response], meanwhile: Callable[[], Awaitable[Any]]
    ) -> httpx.Response:
        """The answer to a request that is held up until something has happened."""
        asked = asyncio.ensure_future(ask)
        await asyncio.wait_for(self.reached.wait(), WITHIN_S)
        await meanwhile()
        self.open.set()
        return await asked


async def test_a_step_shows_nothing_of_a_seat_that_has_become_anothers_meanwhile(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await hosting(caller, first_leader=2)
    assert (await host.ask("GET", f"/games/{host.game}")).json()["viewer"] == "full"
    held = Held(monkeypatch, caller.services.reader, "events")

    async def play() -> None:
        guest = await host.give_away()
        answer = {
            "action": {"team": [1, 2]},
            "thoughts": [{"type": "choice_explained", "text": "secret of the guest"}],
        }
        path = f"/games/{host.game}/requests/1.1.propose_team.2/action"
        played = await caller.post(path, json=answer, headers=guest)
        assert played.status_code == 200, played.text
        assert "thoughts_refused" not in played.json()

    stepped = await held.while_held(host.ask("POST", f"/games/{host.game}/step", json={}), play)
    assert stepped.status_code == 200, stepped.text
    assert "team_proposed" in stepped.text
    assert "secret of the guest" not in stepped.text
    assert stepped.json()["requests"] is None
    shown = await host.ask("GET", f"/games/{host.game}")
    assert shown.json()["viewer"] == "seat:3"
    assert stepped.headers["etag"] == shown.headers["etag"]
    lines = (await host.ask("GET", f"/games/{host.game}/events")).text.splitlines()
    assert len(lines) == stepped.json()["head"] == stepped.json()["events"][-1]["seq"]


async def test_a_step_that_waited_names_no_state_that_its_caller_saw_before(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await hosting(caller)
    seen = (await host.ask("GET", f"/games/{host.game}")).headers["etag"]
    lock = asyncio.Lock()
    await lock.acquire()
    caller.services.games.stepper._stepping[host.game] = lock
    step = host.ask("POST", f"/games/{host.game}/step", json={}, headers={"if-match": seen, **host.headers})
    wait = await waiting(step)
    await host.give_away()
    lock.release()
    problem(await wait, 412, "stale")


async def test_a_step_is_refused_in_the_words_of_who_may_see_less_by_then(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lacking(*_: Any, **__: Any) -> None:
        raise MissingAnswer("3.1.assassinate.2")

    monkeypatch.setattr(stepping, "step", lacking)
    host = await hosting(caller)
    held = Held(monkeypatch, stepping, "step")
    refused = await held.while_held(host.ask("POST", f"/games/{host.game}/step", json={}), host.give_away)
    assert refused.status_code == 409
    assert "assassinate" not in refused.text


@pytest.mark.parametrize("end", ENDS)
async def test_a_step_goes_no_further_than_its_key(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, end: Callable[[Host], Awaitable[None]]
) -> None:
    host = await hosting(caller)
    held = Held(monkeypatch, caller.services.reader, "events")
    before = await caller.rows()

    async def meanwhile() -> None:
        await end(host)
        await caller.services.keys.refresh()

    step = host.ask("POST", f"/games/{host.game}/step", json={})
    problem(await held.while_held(step, meanwhile), 401, "unauthenticated")
    assert await caller.rows() == before


@pytest.mark.parametrize("is_refused", [False, True])
async def test_no_answer_goes_to_a_key_that_was_revoked_before_it_was_ready(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    host = await hosting(caller)
    held = Held(monkeypatch, caller.services.store, "game")

    async def meanwhile() -> None:
        await _revoke(host)
        await caller.services.keys.refresh()

    game = "g_unknown" if is_refused else host.game
    problem(await held.while_held(host.ask("GET", f"/games/{game}"), meanwhile), 401, "unauthenticated")
