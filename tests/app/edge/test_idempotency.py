"""One key, one effect: a caller that missed the answer may repeat its request."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from app.edge.idempotency import KEPT_MS
from tests.app.calling import PROJECT, Caller, calling, problem
from tests.app.once import one_effect_a_key

RECORD = (PROJECT / "tests" / "records" / "last-team-goes.json").read_bytes()

QUICK: dict[str, Any] = {"seats": [{"agent": "random"}], "drive": "manual"}

ROUTES = [("/games", json.dumps(QUICK).encode()), ("/games/import", RECORD)]


async def _send(caller: Caller, path: str, body: bytes, key: str) -> Any:
    return await caller.post(path, content=body, headers={"idempotency-key": key})


@pytest.mark.parametrize(("path", "body"), ROUTES, ids=["create", "import"])
async def test_a_key_sent_eight_times_at_once_has_one_effect(
    database_url: str, path: str, body: bytes
) -> None:
    async with calling(database_url) as caller:
        before = await caller.rows()
        answers = await asyncio.gather(*(_send(caller, path, body, "k1") for _ in range(8)))
        assert [answer.status_code for answer in answers] == [201] * 8
        assert len({answer.content for answer in answers}) == 1 or (
            len({json.dumps(answer.json(), sort_keys=True) for answer in answers}) == 1
        )
        replayed = [answer.headers.get("idempotent-replayed") for answer in answers]
        assert sorted(replayed, key=str) == [None, *["true"] * 7]
        after = await caller.rows()
        assert after["batches"] == before["batches"] + 1
        assert after["games"] == before["games"] + 1
        assert after["idempotency"] == before["idempotency"] + 1
        # Another body under this key changes nothing.
        other = body.replace(b"{", b"{ ", 1)
        problem(await _send(caller, path, other, "k1"), 422, "idempotency-key-reused")
        mixed = await asyncio.gather(*(_send(caller, path, one, "k2") for one in (body, other) * 3))
        assert sorted(answer.status_code for answer in mixed) == [201, 201, 201, 422, 422, 422]
        assert (await caller.rows())["games"] == before["games"] + 2


async def test_a_key_belongs_to_its_route(database_url: str) -> None:
    async with calling(database_url) as caller:
        for path, body in ROUTES:
            answer = await _send(caller, path, body, "same")
            assert answer.status_code == 201
            assert "idempotent-replayed" not in answer.headers
        for path, body in ROUTES:
            assert (await _send(caller, path, body, "same")).headers["idempotent-replayed"] == "true"
        assert (await caller.rows())["games"] == 2


async def test_an_answer_is_repeated_after_a_restart(database_url: str) -> None:
    async with calling(database_url) as caller:
        first = await _send(caller, *ROUTES[0], "k")
    async with calling(database_url) as caller:
        again = await _send(caller, *ROUTES[0], "k")
        assert again.headers["idempotent-replayed"] == "true"
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["location"] == first.headers["location"]
        assert (await caller.rows())["games"] == 1


async def test_a_large_batch_is_repeated_with_the_status_it_had(database_url: str) -> None:
    async with calling(database_url) as caller:
        body = json.dumps({**QUICK, "count": 201}).encode()
        first = await _send(caller, "/games", body, "k")
        again = await _send(caller, "/games", body, "k")
        assert (first.status_code, again.status_code) == (202, 202)
        assert again.json() == first.json()


async def test_a_key_is_new_again_after_a_day(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with calling(database_url) as caller:
        import app.edge.idempotency as module

        now = module.now_ms()
        first = await _send(caller, *ROUTES[0], "k")
        monkeypatch.setattr(module, "now_ms", lambda: now + KEPT_MS - 60_000)
        assert (await _send(caller, *ROUTES[0], "k")).json() == first.json()
        monkeypatch.setattr(module, "now_ms", lambda: now + KEPT_MS + 60_000)
        new = await _send(caller, *ROUTES[0], "k")
        assert new.status_code == 201
        assert "idempotent-replayed" not in new.headers
        assert new.json()["batch_id"] != first.json()["batch_id"]
        # Even with another body, for the day is over; and the old answer is gone from the table.
        monkeypatch.setattr(module, "now_ms", lambda: now + 2 * KEPT_MS + 120_000)
        assert (await _send(caller, "/games", ROUTES[0][1] + b" ", "k")).status_code == 201
        assert (await caller.rows())["idempotency"] == 1


async def test_a_refused_request_leaves_its_key_free(database_url: str) -> None:
    async with calling(database_url) as caller:
        problem(await _send(caller, "/games", b'{"players": 4}', "k"), 422, "invalid-request")
        problem(await _send(caller, "/games", b'{"seats": [{"agent": "llm9"}]}', "k"), 422, "invalid-agent")
        assert (await caller.rows())["idempotency"] == 0
        assert (await _send(caller, *ROUTES[0], "k")).status_code == 201


async def test_keys_of_any_printable_characters_are_distinguished(database_url: str) -> None:
    async with calling(database_url) as caller:
        keys = ["a", "A", "a b", "'; DROP TABLE games;--", "%", "_", "x" * 128, "~", '"', "\\"]
        batches = {(await _send(caller, *ROUTES[0], key)).json()["batch_id"] for key in keys}
        assert len(batches) == len(keys)
        again = {(await _send(caller, *ROUTES[0], key)).json()["batch_id"] for key in keys}
        assert again == batches


async def test_without_a_key_the_same_body_sent_twice_makes_two_batches(database_url: str) -> None:
    async with calling(database_url) as caller:
        one, two = [(await caller.post("/games", json=QUICK)).json()["batch_id"] for _ in range(2)]
        assert one != two
        assert (await caller.rows())["idempotency"] == 0


@pytest.mark.long
async def test_each_key_has_one_effect_even_if_the_service_is_killed(tmp_path: Path) -> None:
    # 100 keys and more, and PostgreSQL: python -m tests.app.once
    outcome = await one_effect_a_key(f"sqlite:///{tmp_path / 'games.sqlite'}", tmp_path, keys=10, seed=1)
    assert outcome.faults == []
    assert outcome.kills == 2


async def test_answers_that_are_too_old_are_found_by_an_index(database_url: str) -> None:
    async with calling(database_url) as caller:
        database = caller.services.database

        def indexes(connection: Any) -> list[Any]:
            return [one["column_names"] for one in inspect(connection).get_indexes("idempotency")]

        async with database.reading() as connection:
            assert ["created_at"] in await connection.run_sync(indexes)
