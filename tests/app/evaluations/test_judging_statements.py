"""A judge of statements in the service: what is asked, what is stored, and when it may be shown."""

import json
import re
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.brains import BRAINS
from app.store.tables import model_calls
from evaluators.judges.control_speeches import control_speeches
from evaluators.judges.statements import speech_messages
from evaluators.measures.hallucination import Speech, speeches
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import anyones, bearer, make_key, store_of
from tests.app.evaluations.test_evaluation_leaks import lay, scripted, twin
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.evaluations.test_judging import MODEL, SENSIBLE, judging, over
from tests.app.modelling import calling_with, faking


async def reported(caller: Caller, batch: str, headers: dict[str, str] | None = None) -> Any:
    """The report, however long it takes."""
    while True:
        answer = await caller.get("/reports", params={"batch": batch}, headers=headers)
        if answer.status_code != 202:
            return answer.json()


async def test_a_model_judges_every_speech_and_is_measured_by_the_rules(database_url: str) -> None:
    async with faking(SENSIBLE) as fake, calling_with(fake, database_url, store_prompts=True) as caller:
        batch, ids = await games_of(caller, 2)
        games = [await caller.services.evaluations.games.by_id(game) for game in ids]
        asked = [speech for game in games for speech in speeches(game.id, game.log)]
        probes = [speech for game in games for speech in control_speeches(game.id, game.log, 1)]
        assert len(probes) == len(games)
        answer = await judging(caller, "statements", batch=batch)
        assert answer.status_code == 202, answer.text
        view = await over(caller, answer.json()["evaluation_id"], per_item=True)
        assert view["status"] == "scored", view
        assert view["progress"]["items"] == view["progress"]["judged"] == fake.counts.calls
        assert view["progress"]["items"] == len(asked) + len(probes)
        # What was sent is the question, and nothing else.
        async with caller.services.database.read_engine.connect() as connection:
            sent = {
                json.loads(text)[1]["content"]
                for (text,) in await connection.execute(select(model_calls.c.messages))
            }
        assert sent == {speech_messages(speech)[1].content for speech in (*asked, *probes)}
        totals = view["totals"]
        for reader in ("rules", "judge", "together"):
            told = totals[reader]
            assert told["speeches"]["den"] == len(asked)
            assert (
                told["refuted"]
                == totals["by_side"]["loyal"][reader]["refuted"]
                + (totals["by_side"]["evil"][reader]["refuted"])
            )
            rate = told["refuted_per_speech"]
            assert rate["value"] == told["refuted"] / len(asked)
        assert totals["rules"]["refuted"] == 0
        assert totals["judge"]["refuted"] == totals["together"]["refuted"]
        sentences = totals["sentences"]
        assert sentences["all"] == sentences["by_rules"] + sentences["by_judge"] + sentences["neither"]
        told = view["agreement"]["statements"]
        assert told["items"] > 20
        # The seats say nothing false that rules can read: what is refuted was planted.
        assert told["recall"]["den"] == 3 * len(probes)
        assert 0 < told["planted"] <= 6 * len(probes)
        assert view["fit_to_show"] is False
        assert "kappa with the rules" in told["lacking"][-1]
        rows = await caller.services.evaluations.store.statements_of(ids)
        assert len(rows) == len(asked) + len(probes)
        spoken = {speech.key: speech for speech in (*asked, *probes)}
        for row in rows:
            speech = spoken[row.game_id, row.request_id, row.turn]  # type: ignore[index]
            for one in row.statements:
                assert speech.text[one["start"] : one["end"]] == one["quote"]
                assert one["record"] in ("", *speech.record)
        path, shown = f"/evaluations/{view['evaluation_id']}/statements?limit=13", []
        following: str | None = path
        while following:
            page = (await caller.get(following)).json()
            shown += page["speeches"]
            following = page["next"] and f"{path}&cursor={page['next']}"
        assert [(one["game_id"], one["request_id"], one["turn"]) for one in shown] == [
            (row.game_id, row.request_id, row.turn)
            for row in await caller.services.evaluations.store.statements_by(view["evaluation_id"], ids)
            if row.control_speeches is None
        ]
        assert sum(len(one["statements"]) for one in shown) == sum(
            len(row.statements) for row in rows if row.control_speeches is None
        )
        for cursor in ("AAAA", "W10", "WzEsMiwzXQ", "WyJhIiwiYiIsLTFd"):
            problem(await caller.get(f"{path}&cursor={cursor}"), 422, "invalid-request")
        report = await reported(caller, batch)
        tables = {one["name"]: one for one in report["tables"]}
        labels = {tuple(row["labels"]) for row in tables["hallucination_judged"]["rows"]}
        assert ("judge fake: rules and judge", "all", "all") in labels
        (told,) = tables["statement_judges"]["rows"]
        assert told["figures"]["kappa"]["den"] == view["agreement"]["statements"]["items"]
        assert report["made_of"]["judged_speeches"] == {"judge fake": len(asked)}
        again = await judging(caller, "statements", batch=batch)
        problem(again, 409, "already-judged", "/judge")
        if database_url.startswith("sqlite"):
            return  # what follows asks everything once more
        again = await judging(caller, "statements", batch=batch, regrade_of=view["evaluation_id"])
        second = await over(caller, again.json()["evaluation_id"])
        assert (second["grade"], second["status"]) == (2, "scored")
        assert {row.grade for row in await caller.services.evaluations.store.statements_of(ids)} == {2}


async def test_who_judges_statements_is_told_nothing_that_was_chosen(tmp_path: Path) -> None:
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, (game,) = await games_of(caller, 1)
        key_id, key = await make_key(store_of(caller), "eval:submit", "eval:read:any", "annotate:any")
        rater = bearer(key)
        body = {"dimension": "statements", "judge": MODEL, "batch": batch}
        made = await caller.post("/evaluations", json=body, headers=rater)
        view = await over(caller, made.json()["evaluation_id"], rater)
        # Sides and roles are told to whoever may read the games in full.
        assert (view["status"], view["totals"], view["agreement"]) == ("scored", None, None)
        services = caller.services.evaluations
        turns = {(game, turn.request_id) for turn in (await services.games.by_id(game)).turns}
        assert not await services.store.seen_by(f"key:{key_id}", turns)
        _, key = await make_key(store_of(caller), "eval:submit", "eval:read:any")
        body = {"dimension": "statements", "judge": MODEL, "batch": batch}
        problem(await caller.post("/evaluations", json=body, headers=bearer(key)), 403, "forbidden")


async def test_the_rules_alone_count_statements_at_once(tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, ids = await games_of(caller, 1)
        body = {"dimension": "statements", "judge": {"kind": "rule"}, "batch": batch}
        answer = await caller.post("/evaluations", json=body)
        assert answer.status_code == 201, answer.text
        (game,) = [await caller.services.evaluations.games.by_id(game) for game in ids]
        totals = answer.json()["totals"]
        assert totals["all"]["speeches"]["den"] == answer.json()["items"] == len(list(speeches("", game.log)))
        assert totals["all"]["statements"]["num"] == 0


async def test_what_cannot_be_used_leaves_the_speech_unread(tmp_path: Path) -> None:
    async with (
        faking(FakeOptions(brain=BRAINS["prose"](0))) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        _, (game,) = await games_of(caller, 1)
        body = {"dimension": "statements", "judge": {**MODEL, "attempts": 1}, "game": game}
        made = (await caller.post("/evaluations", json=body)).json()
        view = await over(caller, made["evaluation_id"], per_item=True)
        assert (view["status"], view["reason"]) == ("failed", "no answer of the judge could be used")
        assert re.fullmatch(rf"{game}/statements/1\.1\.propose_team\.1/0/-", view["unusable"][0]["item_id"])
        assert await caller.services.evaluations.store.statements_of([game]) == []
        assert view["totals"]["rules"]["speeches"]["den"] == 0


async def _judged_twin(directory: Path, logs: Any) -> tuple[list[str], Any]:
    """What a model was sent about these games, and what a rater without ``export:full`` is told of it."""
    async with (
        faking(SENSIBLE) as fake,
        calling_with(fake, f"sqlite:///{directory}.sqlite", store_prompts=True) as caller,
    ):
        await lay(caller, logs)
        _, key = await make_key(store_of(caller), *anyones("eval:submit", "eval:read", "annotate"))
        rater = bearer(key)
        body = {"dimension": "statements", "judge": MODEL, "batch": "b_twins"}
        made = await caller.post("/evaluations", json=body, headers=rater)
        view = await over(caller, made.json()["evaluation_id"], rater)
        assert view["status"] == "scored"
        path = f"/evaluations/{view['evaluation_id']}/statements?limit=200"
        shown = (await caller.get(path, headers=rater)).json()
        report = await reported(caller, "b_twins", rater)
        tables = [
            one for one in report["tables"] if one["name"] in ("hallucination_judged", "statement_judges")
        ]
        async with caller.services.database.read_engine.connect() as connection:
            rows = await connection.execute(select(model_calls.c.messages))
            sent = sorted(text for (text,) in rows)
    return sent, ({**view, "evaluation_id": "", "created_at": ""}, shown, tables)


async def test_what_was_chosen_changes_no_byte_that_a_judge_of_statements_is_sent_or_tells(
    tmp_path: Path,
) -> None:
    logs = [await scripted(60)]
    sent, told = await _judged_twin(tmp_path / "one", logs)
    other, other_told = await _judged_twin(tmp_path / "other", [twin(log)[0] for log in logs])
    assert sent == other
    assert told == other_told
    assert len(sent) > 20


def honest(speech: Speech) -> str:
    """What a judge says that reads as the rules do, and refutes one sentence more of seat 2."""
    decided: dict[tuple[int, int], str] = {}
    for one in speech.findings:
        if one.verdict != "unparsed" and decided.get((one.start, one.end)) != "refuted":
            decided[one.start, one.end] = one.verdict
    if speech.seat == 2 and speech.key.turn >= 0:
        unread = [
            (start, end)
            for start, end in speech.sentences
            if not any(start < last and first < end for first, last in decided)
        ]
        decided |= dict.fromkeys(unread[:1], "refuted")
    line = next((one for one in reversed(speech.record) if len(one.split()) > 4), speech.game[1])
    entries = [
        {"quote": speech.text[slice(*span)], "verdict": verdict, "record": line, "reason": "so"}
        for span, verdict in decided.items()
    ]
    return json.dumps({"statements": entries})


async def test_a_judge_that_reads_as_the_rules_do_stands_beside_them(tmp_path: Path) -> None:
    answers: dict[str, str] = {}
    brain = FakeOptions(brain=lambda messages, _: answers[messages[1]["content"]])
    async with (
        faking(brain) as fake,
        calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller,
    ):
        batch, ids = await games_of(caller, 3)
        added = 0
        for game_id in ids:
            game = await caller.services.evaluations.games.by_id(game_id)
            for speech in (*speeches(game.id, game.log), *control_speeches(game.id, game.log, 3)):
                answers[speech_messages(speech)[1].content] = honest(speech)
                added += len(json.loads(honest(speech))["statements"]) - len(
                    {(one.start, one.end) for one in speech.findings if one.verdict != "unparsed"}
                )
        made = await judging_with(caller, {**MODEL, "planted": 3}, batch)
        view = await over(caller, made["evaluation_id"], per_item=True)
        assert (view["status"], view["progress"]["unusable"]) == ("scored", 0), view["unusable"]
        told = view["agreement"]["statements"]
        assert (told["kappa"], told["lacking"], view["fit_to_show"]) == (1.0, [], True)
        assert told["precision"] == told["recall"] == {"num": 27, "den": 27, "rate": 1.0}
        assert view["totals"]["judge"]["refuted"] == view["totals"]["together"]["refuted"] == added > 5
        report = await reported(caller, batch)
        (table,) = (one for one in report["tables"] if one["name"] == "hallucination_judged")
        figures = {tuple(row["labels"]): row["figures"] for row in table["rows"]}
        rate = figures["judge fake: rules and judge", "all", "all"]["refuted a speech"]
        assert (rate["num"], rate["den"]) == (added, view["totals"]["rules"]["speeches"]["den"])
        assert rate["low"] <= rate["value"] <= rate["high"]


async def judging_with(caller: Caller, judge: dict[str, Any], batch: str) -> Any:
    body = {"dimension": "statements", "judge": judge, "batch": batch}
    answer = await caller.post("/evaluations", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()
