"""The client's evaluation calls against a live service, over a line that is cut where it matters."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from interintent_client import (
    Answer,
    ApiError,
    Batch,
    Evaluation,
    Item,
    Judgement,
    Rater,
    Server,
    Unreachable,
)

from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.brains import BRAINS
from tests.app.calling import read_ndjson
from tests.app.modelling import endpoints, faking
from tests.app.real_server import Served, local_settings, running_server
from tests.client.cutting import Proxy, cutting

RECORDS = Path(__file__).parents[1] / "records"

ME = Rater("me", "human")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interintent_client.backoff.FIRST_S", 0.02)
    monkeypatch.setattr("interintent_client.backoff.LONGEST_S", 0.2)
    monkeypatch.setattr("interintent_client.evaluating.FIRST_LOOK_S", 0.02)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    database = f"sqlite+aiosqlite:///{tmp_path / 'games.sqlite'}"
    async with (
        faking(FakeOptions(brain=BRAINS["sensible"](0))) as fake,
        running_server(local_settings(database, models=endpoints(fake))) as server,
    ):
        yield server


async def all_of(found: Any) -> list[Any]:
    return [one async for one in found]


async def played(server: Server, count: int = 2) -> Batch:
    batch = await server.create_games(count=count, seeds={"from": 40})
    assert (await batch.done())["games"]["finished"] == count
    return batch


async def lose_answer(proxy: Proxy) -> None:
    """The next answer is cut off in its first bytes: what was asked for has been done by then."""
    proxy.cut()
    proxy.cut_at_random(1, 20, 1)


async def test_items_come_over_many_pages_and_cuts_as_the_service_lists_them(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        batch = await played(direct)
        for dimension in ("guessing", "summarisation", "selection", "following"):
            query = {"batch": batch.id, "dimension": dimension, "format": "ndjson"}
            async with httpx.AsyncClient(base_url=served.url, timeout=60) as plain:
                whole = read_ndjson((await plain.get("/evaluations/items", params=query)).content)
            proxy.cut()
            proxy.cut_at_random(3, 30_000, 1)
            found = server.items(dimension, batch=batch.id, page=7)  # type: ignore[arg-type]
            items: list[Item] = await all_of(found)
            assert [one.raw for one in items] == whole
            assert len(items) > 14
            assert found.variant["followed"] is False
            one = items[0]
            assert (one.game, one.dimension) == (batch.games[0].id, dimension)
            assert one.context
            assert one.question
            if dimension in ("guessing", "summarisation"):
                assert len(one.options) > 3
                assert not one.asked
            else:
                assert {len(item.asked) for item in items} <= {2, 3}
                assert one.asked[0].reason is not None
        assert proxy.cuts >= 4
        # What gave no item is told, and the settings are the service's own.
        round_only = batch.items("guessing", history="round", reader="all")
        of_all = await all_of(round_only)
        assert round_only.variant["history"] == "round"
        assert {one.reader for one in of_all} == {1, 2, 3, 4, 5}
        assert not round_only.excluded or all(count > 0 for count in round_only.excluded.values())


async def test_answers_are_scored_once_though_the_answer_to_them_is_lost(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        batch = await played(direct)
        found = direct.items("guessing", batch=batch.id)
        items = await all_of(found)
        answers = [
            one.answer([one.options[0].id, "win the lottery"], role="merlin", confidence=2) for one in items
        ]
        await lose_answer(proxy)
        scored = await server.submit("guessing", ME, answers, variant=found.variant)
        assert proxy.cuts >= 1
        assert (scored.status, scored.answers, scored.rater) == (
            "scored",
            len(items),
            {"name": "me", "kind": "human"},
        )
        assert scored.f1 is not None
        assert 0 <= scored.f1 < 1
        assert [one.id async for one in direct.evaluations()] == [scored.id]
        shown = await direct.evaluation(scored.id, per_item=True)
        assert shown.per_item is not None
        assert {one["item_id"] for one in shown.per_item} == {one.id for one in items}
        assert all(one["unmapped"] == ["win the lottery"] for one in shown.per_item)
        # What is wrong with an answer is pointed at.
        with pytest.raises(ApiError) as refused:
            await server.submit("guessing", ME, [*answers[:1], *answers[:1]])
        assert (refused.value.status, refused.value.code) == (422, "invalid-request")
        assert refused.value.pointer == "/answers/1"
        again = await server.submit("guessing", ME, answers[:2], regrade_of=scored.id)
        assert again.regrade_of == scored.id
        assert [one.id async for one in direct.evaluations(dimension="guessing", rater="me")] == [
            again.id,
            scored.id,
        ]
        assert [one async for one in direct.evaluations(rater="nobody")] == []


async def test_two_thousand_answers_fit_into_one_submission(served: Served) -> None:
    async with Server(served.url) as server:
        batch = await played(server, 1)
        items = await all_of(batch.items("guessing", reader="all", page=200))
        samples = [one.answer(["defend_self"], sample=n) for one in items for n in range(1, 6)]
        taken = samples[:2000]
        scored = await server.submit("guessing", ME, taken)
        assert scored.answers == len(taken) >= 400
        with pytest.raises(ApiError) as refused:
            await server.submit("guessing", Rater("other"), [Answer("x", [])] * 2001)
        assert (refused.value.status, refused.value.pointer) == (422, "/answers")


async def test_judges_are_begun_once_and_waited_for(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        batch = await played(direct, 1)
        ruled = await server.judge("selection", {"kind": "rule"}, batch=batch.id)
        assert (ruled.status, ruled.progress) == ("scored", None)
        await lose_answer(proxy)
        begun = await server.judge("following", {"kind": "model", "model": "fake"}, batch=batch.id)
        seen: list[Evaluation] = await asyncio.wait_for(all_of(server.judging(begun.id)), 60)
        assert proxy.cuts >= 1
        done = await server.judged(begun.id)
        assert done == seen[-1]
        assert (done.status, done.reason) == ("scored", None)
        assert done.progress is not None
        assert done.progress["judged"] == done.progress["items"] > 0
        words = await direct.judgements(batch=batch.id)
        assert {(one.rater, one.kind) for one in words} == {("judge fake", "model")}
        assert all(one.reasonable is None and 1 <= (one.think or one.speak or 0) <= 5 for one in words)
        spent = await server.judge(
            "selection",
            {"kind": "model", "model": "fake", "name": "poor"},
            game=batch.games[0].id,
            budget={"max_tokens": 1},
        )
        ended = await server.judged(spent.id)
        assert ended.status == "failed"
        assert ended.reason
        with pytest.raises(ApiError) as over:
            await server.cancel_judging(ended.id)
        assert over.value.status == 409


async def test_what_a_rater_judges_is_stored_once_though_the_answer_is_lost(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        batch = await played(direct, 1)
        dealt = await server.tasks("ann", batch=batch.id, limit=3, shared=1, overlap=1)
        assert (len(dealt.tasks), dealt.left) == (3, 0)
        words = [
            Judgement(stage.following_item, asked.id, think=4, speak=5, comment="“clear”")
            for task in dealt.tasks
            for stage in task.stages
            if stage.following_item is not None
            for asked in stage.intentions
        ]
        ann = Rater("ann", "human")
        await lose_answer(proxy)
        assert await server.annotate(ann, words) == 0
        assert proxy.cuts >= 1
        stored = await direct.judgements(game=batch.games[0].id, rater="ann")
        assert [(one.intention, one.think, one.speak, one.comment) for one in sorted(stored, key=_place)] == [
            (one.intention, 4, 5, "“clear”")
            for one in sorted(words, key=lambda one: (one.item_id, one.intention))
        ]
        with pytest.raises(ApiError, match="409 already-judged") as refused:
            await server.annotate(ann, words[1:2])
        assert refused.value.pointer == "/judgements/0"
        assert await server.annotate(ann, words[1:3], revise=True) == 2
        left = await server.tasks("ann", batch=batch.id, limit=3, shared=1, overlap=1)
        assert not {task.request_id for task in left.tasks} & {task.request_id for task in dealt.tasks}
        selection = await all_of(direct.items("selection", game=batch.games[0].id))
        wrong = selection[0].judgement(selection[0].asked[0].id, think=3)
        with pytest.raises(ApiError) as unfit:
            await server.annotate(ann, [wrong])
        assert (unfit.value.status, unfit.value.pointer) == (422, "/judgements/0")


def _place(one: Any) -> tuple[str, str]:
    return f"{one.game}/following/{one.request_id}/{one.stage}/-", one.intention


async def test_reports_come_in_every_form(served: Served) -> None:
    async with Server(served.url) as server:
        batch = await played(server)
        found = await server.report(batch=batch.id)
        assert found["made_of"]["games"] == 2
        assert (await server.report(batch=batch.id, format="html")).startswith("<!doctype html>")
        assert (await server.report(batch=batch.id, format="csv")).count("\n") > 50
        with pytest.raises(ApiError, match="404 not-found"):
            await server.report(batch="b_none")


async def test_a_report_that_is_long_in_the_making_is_waited_for_and_asked_for_once() -> None:
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        await asyncio.sleep(0.5)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with Server(url, timeout_s=0.1, tries=2) as server:
            assert await server.report(batch="b_1") == {}
            assert asked == 1


async def test_a_report_that_is_still_being_made_is_asked_for_again() -> None:
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().partition("\r\n")[0])
        head = b"202 Accepted\r\nRetry-After: 0" if len(asked) < 3 else b"200 OK"
        writer.write(b"HTTP/1.1 " + head + b"\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with Server(url) as server:
            assert await server.report(batch="b_1", group_by="model") == {}
            assert len(asked) == 3
            assert "group_by=model" in asked[0]
            asked.clear()
            with pytest.raises(Unreachable, match="not ready within 0 s"):
                await server.report(batch="b_1", timeout_s=0.0)


async def test_two_raters_are_compared_on_the_items_of_both(served: Served) -> None:
    async with Server(served.url) as server:
        batch = await played(server)
        items: list[Item] = await all_of(server.items("guessing", batch=batch.id))
        made = [
            await server.submit(
                "guessing", Rater(name), [Answer(item.id, ["defend_self"]) for item in items[start:]]
            )
            for start, name in enumerate(("one", "other"))
        ]
        found = await server.compare(made[0].id, made[1].id)
        assert (found["shared"], found["first_only"]) == (len(items) - 1, 1)
        assert found["totals"]["guessing"]["measures"]["f1"]["difference"]["value"] == 0.0
        by_name = await server.compare_raters("guessing", "one", "other", batch=batch.id)
        assert by_name["totals"] == found["totals"]


async def test_games_are_listed_imported_forked_and_read_over_http(served: Served) -> None:
    async with cutting(served.url) as (proxy, url), Server(served.url) as direct, Server(url) as server:
        batch = await played(direct)
        record = json.loads((RECORDS / "forced-team.json").read_text("utf-8"))
        await lose_answer(proxy)
        imported = await server.import_record(record)
        assert (await imported.view())["status"] == "finished"
        assert [one["game_id"] async for one in server.games()] == [
            imported.id,
            *(one.id for one in batch.games),
        ]
        assert [one["game_id"] async for one in server.games(batch=batch.id, status="running")] == []
        source = batch.games[0]
        whole = await all_of(source.events())
        proxy.cut()
        proxy.cut_at_random(3, 30_000, 2)
        assert await all_of(server.game(source.id).log()) == whole
        assert [one.seq async for one in source.log(after=len(whole) - 2)] == [len(whole) - 1, len(whole)]
        assert len(await all_of(source.log(viewer="public"))) < len(whole)
        forked = await direct.game(source.id).fork({"round": 1, "attempt": 1, "phase": "vote"})
        last = [event async for event in forked.events()][-1]
        assert (last.type, last["winner"]) == (whole[-1].type, whole[-1]["winner"])
        assert {one["name"] for one in await direct.profiles()} == {"interintent", "official"}
        watching = Server(served.url, await batch.mint_token(ttl_s=60))
        async with watching:
            assert [one["game_id"] async for one in watching.games(batch=batch.id)] == [
                one.id for one in batch.games
            ]
