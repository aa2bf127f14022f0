"""GET /reports: four forms of one report, made anew when there is more, limited for who may not see gold."""

import asyncio
import csv
import io
import multiprocessing
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select, update

from app.evaluations.counting import StoredGame
from app.evaluations.reports import Reports
from app.store.tables import events, games, model_leases
from engine.terms import Side
from evaluators.ground.items import Variant, items
from evaluators.report.builder import ReportBuilder
from tests.app.calling import WITHIN_S, Caller, calling, problem, until
from tests.app.edge.test_keys import OPERATOR, bearer, make_key, store_of
from tests.postgres import PostgresServer, fresh_database

AGENTS = [{"agent": kind} for kind in ("scripted", "random", "scripted", "random", "scripted")]


def table(report: Any, name: str) -> Any:
    return next(one for one in report["tables"] if one["name"] == name)


def figure(report: Any, name: str, *labels: str, column: str) -> Any:
    row = next(row for row in table(report, name)["rows"] if row["labels"] == list(labels))
    return row["figures"][column]


async def report_of(caller: Caller, batch: str, headers: Any = None, **more: str) -> Any:
    return await caller.get("/reports", params={"batch": batch, **more}, headers=headers or {})


async def answer_gold(caller: Caller, game_id: str, count: int, headers: Any = None, **rater: str) -> int:
    game = await caller.services.evaluations.games.by_id(game_id)
    found = [*items(game, "guessing", Variant(reader="all"), with_gold=True)][:count]
    answers = [{"item_id": item.id, "intentions": sorted(item.gold or ())} for item in found]
    body = {"dimension": "guessing", "rater": {"name": "seer", **rater}, "answers": answers}
    answer = await caller.post("/evaluations", json=body, headers=headers or {})
    assert answer.status_code == 201, answer.text
    return len(found)


async def test_who_plays_beside_others_reads_what_models_used_when_the_game_has_ended(
    database_url: str,
) -> None:
    async with calling(database_url, api_key=OPERATOR) as caller:
        headers = bearer((await make_key(store_of(caller)))[1])
        seats = [{"agent": "remote"}] * 2 + [{"agent": "random"}] * 3
        wish = {"drive": "manual", "seats": seats}
        made = (await caller.post("/games", json=wish, headers=headers)).json()
        batch, game = made["batch_id"], made["games"][0]["game_id"]

        async def shows() -> bool:
            tables = (await report_of(caller, batch, headers)).json()["tables"]
            return any(one["name"] == "models" for one in tables)

        assert await shows()
        await caller.post(f"/games/{game}/seats/2/claim-code", headers=headers)
        assert not await shows()
        problem(await report_of(caller, batch, headers, group_by="model"), 403, "forbidden")
        await caller.post(f"/games/{game}/cancel", headers=headers)
        assert await shows()


async def test_a_batch_has_one_report_in_four_forms_that_grows(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, games = await caller.played(count=3, seeds={"from": 60}, seats=AGENTS, rotate=True)
        first = await report_of(caller, batch)
        assert first.status_code == 200, first.text
        assert first.headers["cache-control"] == "private, no-cache"
        seen = await report_of(caller, batch, {"If-None-Match": first.headers["etag"]})
        assert (seen.status_code, seen.content, seen.headers["etag"]) == (304, b"", first.headers["etag"])
        told = first.json()
        assert told["made_of"]["games"] == 3
        assert table(told, "guessing")["empty"] == "no answers were given"
        assert figure(told, "standings", "scripted", column="rating")["games"] == 3
        assert (await report_of(caller, batch)).content == first.content

        n = await answer_gold(caller, games[0], 30)
        await answer_gold(caller, games[1], 5, name="eve", kind="human")
        game = await caller.services.evaluations.games.by_id(games[0])
        asked = next(items(game, "following"))
        body = {
            "rater": {"name": "ann", "kind": "human"},
            "judgements": [
                {"item_id": asked.id, "intention": choice.id, "think": 5, "speak": 4}
                for choice in asked.asked
            ],
        }
        assert (await caller.post("/annotations", json=body)).status_code == 201
        grown = await report_of(caller, batch, {"If-None-Match": first.headers["etag"]})
        assert grown.headers["etag"] != first.headers["etag"]
        told = grown.json()
        seen = figure(told, "guessing", "seer", "all", "all", column="f1")
        assert (seen["value"], seen["items"], seen["games"]) == (1.0, n, 1)
        kinds = {one["rater"]: one["kind"] for one in told["made_of"]["answers"]}
        assert kinds == {"seer": "program", "eve": "human"}
        assert figure(told, "people", "guessing F1", "seer", column="persons")["value"] == 1
        of_ann = figure(told, "following", f"think, {asked.stage}", "all", "all", column="5")
        assert (of_ann["value"], of_ann["den"]) == (1.0, len(asked.asked))
        assert told["made_of"]["judgements"] == {"ann": len(asked.asked)}

        rows = csv.DictReader(io.StringIO((await report_of(caller, batch, format="csv")).text))
        shown = [
            row
            for row in rows
            if (row["table"], row["row"], row["column"]) == ("guessing", "seer | all | all", "f1")
        ]
        assert [(row["value"], row["items"]) for row in shown] == [("1.0", str(n))]
        page = await report_of(caller, batch, format="html")
        assert page.headers["content-type"].startswith("text/html")
        assert f"Report of batch {batch}" in page.text
        assert "<script" not in page.text
        tables = await report_of(caller, batch, format="latex")
        assert tables.headers["content-type"].startswith("application/x-latex")
        assert r"\label{tab:results}" in tables.text


async def test_whoever_may_not_read_the_games_gets_what_their_public_records_say(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/reports.db") as caller:
        batch, games = await caller.played(count=2, seeds={"from": 70}, seats=AGENTS)
        secret, _ = await caller.played(seeds={"from": 80}, seats=AGENTS, reveal="none")
        _, key = await make_key(store_of(caller), "eval:read:any", "eval:submit")
        await answer_gold(caller, games[0], 25)
        told = (await report_of(caller, batch, bearer(key))).json()
        assert {one["name"] for one in told["tables"]} == {"results", "play", "rounds", "roles"}
        assert told["excluded"] == {}
        assert "scripted" not in str(told)
        assert figure(told, "results", "win rate", "loyal", column="ours")["den"] == 2
        assert table(told, "roles")["rows"]
        for form, words in (("html", "games won"), ("csv", "win rate"), ("latex", "tabular")):
            page = await report_of(caller, batch, bearer(key), format=form)
            assert (page.status_code, words in page.text) == (200, True), form
        problem(await report_of(caller, batch, bearer(key), group_by="agent"), 403, "forbidden")
        # Roles that nobody was told are in no table.
        hidden = (await report_of(caller, secret, bearer(key))).json()
        assert all(not one["rows"] for one in hidden["tables"])
        # Two raters of one name under two credentials.
        _, other = await make_key(store_of(caller), "eval:read:any", "eval:submit", "export:full:any")
        await answer_gold(caller, games[1], 8, bearer(other))
        full = (await report_of(caller, batch, bearer(other))).json()
        raters = {row["labels"][0] for row in table(full, "guessing")["rows"]}
        assert len(raters) == 2
        assert all(one.startswith("seer (") for one in raters)


async def test_only_people_are_pooled_whoever_else_judges_stands_by_itself(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/reports.db") as caller:
        batch, games = await caller.played(count=1, seeds={"from": 60})
        game = await caller.services.evaluations.games.by_id(games[0])
        found = [*items(game, "selection")]
        # Without a kind it is a person who judges.
        for rater, reasonable in (
            ({"name": "ann"}, True),
            ({"name": "bot", "kind": "program"}, False),
            ({"name": "net", "kind": "model"}, False),
        ):
            words = [
                {"item_id": item.id, "intention": choice.id, "reasonable": reasonable}
                for item in found
                for choice in item.asked
            ]
            body = {"rater": rater, "judgements": words}
            assert (await caller.post("/annotations", json=body)).status_code == 201
        told = (await report_of(caller, batch)).json()
        assert told["made_of"]["judges"] == ["bot", "net"]
        accuracy = figure(told, "selection", "all", "all", column="accuracy")
        assert accuracy["num"] == accuracy["den"] > 0
        assert [row["labels"] for row in table(told, "judges")["rows"]] == [["bot"], ["net"]]
        for judge in ("bot", "net"):
            assert "not shown beside people's" in figure(told, "judges", judge, column="reasonable")["note"]
        assert table(told, "agreement")["rows"] == []
        rules = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": batch}
        ruled = (await caller.post("/evaluations", json=rules)).json()["evaluation_id"]
        agreement = (await caller.get(f"/evaluations/{ruled}")).json()["agreement"]["reasonable"]
        assert agreement["people"] == 1


async def test_empty_and_unfinished_batches_have_reports_and_unknown_ones_have_none(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/reports.db") as caller:
        made = await caller.post("/games", json={"count": 2, "drive": "manual"})
        told = (await report_of(caller, made.json()["batch_id"])).json()
        assert told["made_of"]["games"] == 0
        assert sum(told["excluded"]["games"].values()) == 2
        assert "There is no finished game to report on." in told["notes"]
        problem(await report_of(caller, "b_none"), 404, "not-found")
        assert (await report_of(caller, "b_none", format="pdf")).status_code == 422
        assert (await caller.get("/reports")).status_code == 422


async def test_games_that_did_not_finish_are_named_with_the_reason(tmp_path: Any) -> None:
    async with calling(f"sqlite:///{tmp_path}/reports.db") as caller:
        batch, ids = await caller.create(count=3, drive="manual")
        assert (await caller.post(f"/games/{ids[0]}/cancel")).status_code < 300
        async with caller.services.database.write_engine.begin() as connection:
            await connection.execute(update(games).where(games.c.game_id == ids[1]).values(status="failed"))
        reasons = dict(zip(ids, ("cancelled", "failed", "not finished"), strict=True))
        told = (await report_of(caller, batch)).json()
        assert {one["game"]: one["reason"] for one in told["made_of"]["left_out"]} == reasons
        assert told["excluded"]["games"] == dict.fromkeys(reasons.values(), 1)
        page = await report_of(caller, batch, format="html")
        assert f"(game: {ids[1]}; reason: failed)" in page.text
        builder = ReportBuilder()
        await caller.services.evaluations.reports.count(builder, batch, [])
        assert dict(builder.left_out) == reasons


@pytest.mark.long
async def test_a_large_report_is_counted_beside_and_tells_how_far_it_is(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.evaluations.reports._HERE", 2)
    monkeypatch.setattr("app.evaluations.reports._AT_ONCE", 2)
    async with calling(database_url) as caller:
        batch, games = await caller.played(count=7, seeds={"from": 60}, seats=AGENTS)
        other, _ = await caller.played(count=1, seeds={"from": 90})
        async with caller.services.database.write_engine.begin() as connection:
            await connection.execute(
                update(events).where(events.c.game_id == games[3], events.c.seq == 5).values(payload="{}")
            )
        answer = await report_of(caller, batch, wait_s="0")
        assert answer.status_code == 202, answer.text
        progress = answer.json()
        assert (progress["status"], progress["games"]) == ("making", 7)
        assert 1 <= int(answer.headers["retry-after"]) <= 10
        # Somebody else's small one does not wait for it, and no second one of it is begun.
        assert (await report_of(caller, other)).status_code == 200
        assert len(caller.services.evaluations.reports._making) <= 1
        async with asyncio.timeout(WITHIN_S):
            while (answer := await report_of(caller, batch, wait_s="1")).status_code == 202:
                assert answer.json()["games_done"] <= 7
        told = answer.json()
        assert told["made_of"]["games"] == 6
        assert told["excluded"]["games"] == {"its log cannot be read": 1}
        assert told["made_of"]["left_out"] == [{"game": games[3], "reason": "its log cannot be read"}]
        # Asked for by somebody who was told to wait, it stands although more has come.
        await answer_gold(caller, games[0], 3)
        assert (await report_of(caller, batch)).headers["etag"] == answer.headers["etag"]
        html = await report_of(caller, batch, format="html")
        assert f"Report of batch {batch}" in html.text
        assert "script" in html.text


async def test_an_owner_has_two_reports_made_at_a_time_and_others_need_not_wait(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(f"sqlite:///{tmp_path}/reports.db", api_key=OPERATOR) as caller:
        ann, bob = [bearer((await make_key(store_of(caller)))[1]) for _ in range(2)]
        batches = {}
        for who, headers in (("ann", ann), ("bob", bob), ("operator", bearer(OPERATOR))):
            made = await caller.post("/games", json={"drive": "manual"}, headers=headers)
            batches[who] = made.json()["batch_id"]
        reports, goes_on = caller.services.evaluations.reports, asyncio.Event()
        make = reports._make

        async def making(*given: Any) -> Any:
            await goes_on.wait()
            return await make(*given)

        monkeypatch.setattr(reports, "_make", making)

        async def status(who: str, headers: Any, above: float) -> int:
            more = {"exclude_above": str(above), "wait_s": "0"}
            return int((await report_of(caller, batches[who], headers, **more)).status_code)

        assert [await status("ann", ann, above) for above in (0.1, 0.2, 0.3)] == [202, 202, 429]
        refused = await report_of(caller, batches["ann"], ann, exclude_above="0.3")
        problem(refused, 429, "rate-limited")
        assert int(refused.headers["retry-after"]) >= 1
        # What is being made already can be waited for.
        assert await status("ann", ann, 0.1) == 202
        assert await status("bob", bob, 0.1) == 202
        operators = [await status("operator", bearer(OPERATOR), above) for above in (0.1, 0.2, 0.3)]
        assert operators == [202, 202, 202]
        goes_on.set()
        for above in ("0.1", "0.2", "0.3"):
            answer = await report_of(caller, batches["ann"], ann, exclude_above=above)
            assert answer.status_code == 200, answer.text


async def test_two_processes_together_make_two_reports_for_an_owner(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    with fresh_database(postgres, laid_out_postgres) as url:
        async with (
            calling(url, api_key=OPERATOR) as one,
            calling(url, laid_out=False, api_key=OPERATOR) as other,
        ):
            ann = bearer((await make_key(store_of(one)))[1])
            made = await one.post("/games", json={"drive": "manual"}, headers=ann)
            batch = made.json()["batch_id"]
            goes_on, at_once = asyncio.Event(), [0]

            def hold(reports: Any) -> None:
                count = reports._count_beside_games

                async def counting(*given: Any) -> None:
                    at_once.append(at_once[-1] + 1)
                    await goes_on.wait()
                    await count(*given)
                    at_once.append(at_once[-1] - 1)

                reports._count_beside_games = counting

            for process in (one, other):
                hold(process.services.evaluations.reports)
            for process, above in ((one, "0.1"), (one, "0.2"), (other, "0.3"), (other, "0.4")):
                answer = await report_of(process, batch, ann, exclude_above=above, wait_s="0")
                assert answer.status_code == 202
            rows = one.services.database.rows
            await until(lambda: at_once[-1] == 2)

            async def both_want() -> bool:
                return len(await rows(select(model_leases.c.wanted).where(model_leases.c.wanted == 2))) == 2

            async with asyncio.timeout(WITHIN_S):
                while not await both_want():  # noqa: ASYNC110  # there is no event to wait for
                    await asyncio.sleep(0.05)
            assert at_once[-1] == 2
            goes_on.set()
            for process, above in ((one, "0.1"), (one, "0.2"), (other, "0.3"), (other, "0.4")):
                answer = await report_of(process, batch, ann, exclude_above=above, wait_s="60")
                assert answer.status_code == 200
            assert max(at_once) == 2


async def test_reports_that_are_being_made_end_with_the_service(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.evaluations.reports._HERE", 0)
    begun = asyncio.Event()

    async def never(*_: Any, **__: Any) -> AsyncIterator[list[StoredGame]]:
        begun.set()
        await asyncio.Event().wait()
        yield []

    monkeypatch.setattr(Reports, "_stored", never)
    monkeypatch.setattr("app.evaluations.counting._IDLE_S", 10 * WITHIN_S)
    async with calling(f"sqlite:///{tmp_path}/reports.db") as caller:
        batch, _ = await caller.played(count=2, seeds={"from": 60})
        assert (await report_of(caller, batch, wait_s="0")).status_code == 202
        async with asyncio.timeout(WITHIN_S):
            await begun.wait()  # the process that counts has its first work
    await until(lambda: not multiprocessing.active_children())


@pytest.mark.parametrize("beside", [False, True])
async def test_seats_and_games_stand_side_by_side(
    tmp_path: Any, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.evaluations.reports._HERE", 0 if beside else 99)
    async with calling(f"sqlite:///{tmp_path}/reports.db") as caller:
        batch, games = await caller.played(count=3, seeds={"from": 60}, seats=AGENTS)
        told = (await report_of(caller, batch, group_by="agent")).json()
        assert told["made_of"]["groups"] == {"random": 3, "scripted": 3}
        won = table(told, "groups_seats")
        assert [one["name"] for one in won["columns"]] == ["random", "scripted"]
        held: dict[str, list[int]] = {"random": [0, 0], "scripted": [0, 0]}
        for game_id in games:
            game = await caller.services.evaluations.games.by_id(game_id)
            for seat, agent in enumerate(AGENTS, 1):
                if game.side(seat) is Side.LOYAL:
                    held[agent["agent"]][0] += game.winner is Side.LOYAL
                    held[agent["agent"]][1] += 1
        for agent, counts in held.items():
            one = figure(told, "groups_seats", "seats won", "loyal", "share", column=agent)
            assert [one["num"], one["den"]] == counts
        changed = figure(told, "groups_correction", "all", "all", "changed", column="scripted")
        assert changed["den"] == figure(told, "correction", "all", "all", column="changed")["den"] > 0
        assert figure(told, "groups_correction", "all", "all", "changed", column="random")["value"] is None
        # What the seats of a group did as leaders, voters and on quests; who won is not theirs alone.
        metrics = {row["labels"][0] for row in table(told, "groups_play")["rows"]}
        assert "approve ballot rate" in metrics
        assert "win rate" not in metrics
        told = (await report_of(caller, batch, group_by="players")).json()
        whole = figure(told, "play", "failure vote rate", "evil", column="ours")
        grouped = figure(told, "groups_play", "failure vote rate", "evil", "share", column="5 players")
        assert [grouped[name] for name in ("num", "den", "low", "high")] == [
            whole[name] for name in ("num", "den", "low", "high")
        ]
        for wrong in (
            {"group_by": "moon"},
            {"where": "role=wizard"},
            {"where": "role"},
            {"contrast": "preset=paper"},
            {"contrast": "moon=a,b"},
        ):
            refused = await report_of(caller, batch, **wrong)
            problem(refused, 422, "invalid-request", f"/{next(iter(wrong))}")
            # Who asks over HTTP has given no option of a command.
            assert "--" not in refused.text
        _, key = await make_key(store_of(caller), "eval:read")
        problem(await report_of(caller, batch, bearer(key), group_by="agent"), 403, "forbidden")
        problem(await report_of(caller, batch, bearer(key), where="role=merlin"), 403, "forbidden")


async def test_conditions_are_contrasted_by_the_labels_of_their_batches(database_url: str) -> None:
    async with calling(database_url) as caller:
        batches = [
            (await caller.played(count=3, seeds={"from": 7}, seats=seats, labels={"mood": mood}))[0]
            for mood, seats in (("calm", [{"agent": "scripted"}]), ("wild", AGENTS))
        ]
        told = (await report_of(caller, ",".join(batches), contrast="mood=calm,wild;side=loyal,evil")).json()
        for sentence in (
            "mood: calm − wild (games: calm 3, wild 3; paired by 3 deals or games)",
            # Both moods play the same three deals.
            "side: loyal − evil (games: loyal 6, evil 6; paired by 3 deals or games)",
        ):
            assert any(note.startswith(sentence) for note in told["notes"]), told["notes"]
        ballots = figure(told, "contrasts", "mood: calm − wild", "win rate, loyal", column="first")
        assert ballots["games"] == 3
        label = {"mood": 'calm; "kind" x'}
        odd, _ = await caller.played(count=3, seeds={"from": 7}, seats=[{"agent": "random"}], labels=label)
        asked = 'mood="calm; ""kind"" x",calm;side=loyal,evil'
        told = (await report_of(caller, f"{batches[0]},{odd}", contrast=asked)).json()
        first = figure(told, "contrasts", 'mood: calm; "kind" x − calm', "win rate, loyal", column="first")
        assert first["games"] == 3
        only = (await report_of(caller, ",".join(batches), where="mood=calm;role=merlin")).json()
        assert only["made_of"]["games"] == 3
        assert only["excluded"]["games"] == {"no seat with mood=calm and role=merlin": 3}
        assert sum(row["figures"]["won"]["den"] for row in table(only, "seats")["rows"]) == 3
        assert "which mood=calm and role=merlin does not select" in table(only, "results")["empty"]
