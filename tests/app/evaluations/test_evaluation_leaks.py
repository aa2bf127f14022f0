"""Gold changes no byte of what a caller without ``export:full`` is told about items and scores.

Two services hold games that differ in what one seat chose in its last speech and nowhere else. The same
requests are sent to both, while time and chance stand still.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.agent import Setup
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play
from app.base import clock
from app.edge.auth import hash_of
from app.store.games import NewGame
from app.store.rows import ApiKey, BatchRow
from engine.events import (
    Event,
    IntentionsSelected,
    UtteranceMade,
)
from engine.intentions import CATALOGUE
from engine.profile import INTERINTENT
from engine.rules import create
from engine.state import fold
from evaluators.ground.items import Variant
from tests.app.calling import Caller, calling
from tests.app.edge.test_keys import bearer, store_of
from tests.app.evaluations.test_evaluations_api import deal, games_of, judged

NOW_MS = 1_800_000_000_000
LIMITED, FULL = "ik_" + "l" * 43, "ik_" + "f" * 43
GAMES = 3


class Still(clock.Clock):
    """No time passes, and every request finds the same chance."""

    turn = 0

    def now_ms(self) -> int:
        return NOW_MS

    def random_bits(self, count: int) -> int:
        return (0x5EED + (self.turn << 16)) % (1 << count)


async def scripted(seed: int) -> list[Event]:
    """A finished game of scripted seats."""
    agents = {seat: ScriptedAgent(Setup(seat, f"{seed} {seat}")) for seat in range(1, 6)}
    return list((await play(create(INTERINTENT, seed), agents, MemoryJournal())).log)


def twin(log: Sequence[Event]) -> tuple[list[Event], int]:
    """The same game with other intentions behind one seat's last speech, and that seat."""
    last = max(place for place, event in enumerate(log) if isinstance(event, IntentionsSelected))
    speaker = log[last].seat  # type: ignore[union-attr]
    opened = max(place for place, event in enumerate(log[:last]) if isinstance(event, UtteranceMade))
    ids = [one.id for one in CATALOGUE]
    changed = list(log)
    for place in range(opened, last + 1):
        event = log[place]
        if isinstance(event, IntentionsSelected) and event.seat == speaker:
            chosen = tuple(
                replace(one, id=ids[(ids.index(one.id) + 7) % len(ids)], reason="another")
                for one in event.intentions
            )
            changed[place] = replace(event, intentions=chosen)
    assert changed != list(log)
    return changed, speaker


async def lay(caller: Caller, logs: Sequence[Sequence[Event]]) -> None:
    services = caller.services
    batch = BatchRow("b_twins", NOW_MS, len(logs), "0", {})
    games = []
    for place, log in enumerate(logs):
        table = fold(log).table
        assert table.winner is not None
        assert table.ending is not None
        ended = {"status": "finished", "winner": table.winner.value, "ending": table.ending.value}
        games.append(NewGame(f"g_{'abcdefgh'[place]}", place, "manual", "0", [], log, **ended))  # type: ignore[arg-type]

    async def work(connection: Any) -> None:
        await services.store.insert_batch(connection, batch)
        await services.store.insert_games(connection, "b_twins", games, NOW_MS)

    await services.database.writer.run(work)
    for name, text, scopes in (
        ("k_limited", LIMITED, ("eval:read:any", "eval:submit", "games:read:any")),
        ("k_full", FULL, ("eval:read:any", "eval:submit", "export:full:any", "annotate:any")),
    ):
        await store_of(caller).add(ApiKey(name, name, hash_of(text), scopes, NOW_MS))


def asks(items: dict[str, list[str]]) -> list[tuple[str, str, Any]]:
    """What a caller tries: items in every variant, pages, answers of all kinds, and what is refused."""
    path = "/evaluations/items?batch=b_twins"
    found: list[tuple[str, str, Any]] = []
    for dimension in ("guessing", "summarisation"):
        for more in ("", "&reader=all", "&reader=2", "&options=roles&reader=all", "&history=round&limit=7"):
            found.append(("GET", f"{path}&dimension={dimension}{more}", None))
        found.append(("GET", f"{path}&dimension={dimension}&format=ndjson", None))
        found.append(("GET", f"/evaluations/items?game=g_a&dimension={dimension}&limit=200", None))
        ids = items[dimension]
        for start, named in ((0, []), (15, ["defend_self"]), (30, ["cast_suspicion", "win the lottery"])):
            given = [{"item_id": id_, "intentions": named} for id_ in ids[start : start + 15]]
            body = {"dimension": dimension, "rater": {"name": f"r{start}"}, "answers": given}
            found.append(("POST", "/evaluations", body))
            found.append(("POST", "/evaluations", body))  # 409
            found.append(("POST", "/evaluations", {**body, "variant": {"followed": True}}))
        last = [{"item_id": id_, "intentions": ["defend_self"]} for id_ in ids[-3:]]
        for variant in ({"followed": True}, {"options": "roles"}, {"unmapped": "discard"}):
            rater = {"name": "-".join(variant) and f"v {next(iter(variant))}"}
            body = {"dimension": dimension, "rater": rater, "answers": last, "variant": variant}
            found.append(("POST", "/evaluations", body))
        # Compared with what is the right answer in one of the twins, on fewer than 20 items and on none.
        again = [{"item_id": id_, "intentions": ["support_proposal"]} for id_ in ids[:15]]
        found.append(
            ("POST", "/evaluations", {"dimension": dimension, "rater": {"name": "again"}, "answers": again})
        )
        for one, other in (("r0", "again"), ("r0", "r15"), ("again", "nobody")):
            query = f"dimension={dimension}&batch=b_twins&first={one}&second={other}"
            found.append(("GET", f"/evaluations/compare?{query}", None))
            found.append(("GET", f"/evaluations/compare?{query}&followed=true", None))
        wrong = [{"item_id": ids[-1].replace("g_", "g_x"), "intentions": []}]
        found.append(
            ("POST", "/evaluations", {"dimension": dimension, "rater": {"name": "w"}, "answers": wrong})
        )
    for refused in ("dimension=selection", "dimension=following", "dimension=guessing&followed=true"):
        found.append(("GET", f"{path}&{refused}", None))
    found.append(("GET", f"{path}&dimension=guessing&context=release", None))
    found.append(("GET", "/evaluations?limit=3", None))
    found.append(("GET", "/annotations?batch=b_twins", None))
    judge = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": "b_twins"}
    found.append(("POST", "/evaluations", judge))
    return found


async def _all_answers(directory: Path, logs: Sequence[Sequence[Event]]) -> tuple[list[Any], list[Any]]:
    """What the limited caller is told, byte for byte, and what the other is told of gold."""
    still = Still()
    told: list[Any] = []
    with clock.use_clock(still):
        async with calling(f"sqlite:///{directory}.sqlite") as caller:
            await lay(caller, logs)
            items: dict[str, list[str]] = {}
            gold: list[Any] = []
            for dimension in ("guessing", "summarisation"):
                query = {"batch": "b_twins", "dimension": dimension, "reader": "all", "format": "ndjson"}
                answer = await caller.get("/evaluations/items", params=query, headers=bearer(FULL))
                ids = [json.loads(line)["id"] for line in answer.text.splitlines()]
                # The changed speech is among the last of each game.
                items[dimension] = sorted(ids, key=lambda id_: (-int(id_.split("/")[2][0]), id_))
                still.turn += 1
                given = [{"item_id": id_, "intentions": []} for id_ in ids]
                body = {"dimension": dimension, "rater": {"name": "full"}, "answers": given}
                done = await caller.post("/evaluations", json=body, headers=bearer(FULL))
                path = f"/evaluations/{done.json()['evaluation_id']}?per_item=true"
                shown = await caller.get(path, headers=bearer(FULL))
                gold.append([one["gold"] for one in shown.json()["per_item"]])
            for method, path, body in asks(items):
                still.turn += 1
                answer = await caller.request(method, path, json=body, headers=bearer(LIMITED))
                told.append(
                    (method, path, answer.status_code, sorted(answer.headers.items()), answer.content)
                )
                cursor = (
                    answer.json().get("next")
                    if answer.headers["content-type"] == "application/json"
                    else None
                )
                if cursor:
                    still.turn += 1
                    page = await caller.get(f"{path}&cursor={cursor}", headers=bearer(LIMITED))
                    told.append((path, cursor, page.status_code, sorted(page.headers.items()), page.content))
    return told, gold


async def test_items_and_scores_of_games_that_differ_in_gold_are_equal_byte_for_byte(tmp_path: Path) -> None:
    logs = [await scripted(seed) for seed in range(60, 60 + GAMES)]
    twins = [twin(log)[0] for log in logs]
    told, gold = await _all_answers(tmp_path / "one", logs)
    other, other_gold = await _all_answers(tmp_path / "other", twins)
    assert gold != other_gold, "the games do not differ in what was asked about"
    assert len(told) == len(other) >= 60
    for one, two in zip(told, other, strict=True):
        assert one == two
    statuses = {one[2] for one in told}
    assert statuses == {200, 403}
    assert all(status < 500 for status in statuses)


async def _reports(directory: Path, logs: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """What a caller without export:full is told by the report in every form; and the full report."""
    still = Still()
    told: dict[str, Any] = {}
    with clock.use_clock(still):
        async with calling(f"sqlite:///{directory}.sqlite") as caller:
            await lay(caller, logs)
            for form in ("json", "csv", "html"):
                still.turn += 1
                query = {"batch": "b_twins", "format": form}
                answer = await caller.get("/reports", params=query, headers=bearer(LIMITED))
                assert answer.status_code == 200, answer.text
                told[form] = answer.content, sorted(answer.headers.items())
            full = await caller.get("/reports", params={"batch": "b_twins"}, headers=bearer(FULL))
            told["full"] = full.content
    return told


async def test_a_report_is_equal_byte_for_byte_whatever_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # plots are drawn of the tables, and take their time
    logs = [await scripted(seed) for seed in range(60, 60 + GAMES)]
    one, other = (
        await _reports(tmp_path / "one", logs),
        await _reports(tmp_path / "other", [twin(log)[0] for log in logs]),
    )
    # Its only choices belong to no set that anybody guesses: nothing counts at all.
    bare = await _reports(tmp_path / "bare", [nothing_to_guess(log) for log in logs])
    assert len({one.pop("full"), other.pop("full"), bare.pop("full")}) == 3
    for name, answer in one.items():
        assert answer == other[name] == bare[name], name


def nothing_to_guess(log: Sequence[Event]) -> list[Event]:
    """The same game in which everybody chose what is in no impactful set."""
    chosen = next(one.id for one in CATALOGUE if one.id not in Variant().impactful)
    changed = list(log)
    for place, event in enumerate(log):
        if isinstance(event, IntentionsSelected):
            changed[place] = replace(event, intentions=(replace(event.intentions[0], id=chosen),))
    return changed


# --- races and hostile input --------------------------------------------------------------------


async def test_the_same_answers_eight_times_at_once_are_eight_evaluations(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 1)
        query = {"batch": batch, "dimension": "guessing"}
        items = (await caller.get("/evaluations/items", params=query)).json()["items"]
        given = [{"item_id": item["id"], "intentions": []} for item in items]
        body = {"dimension": "guessing", "rater": {"name": "r"}, "answers": given}
        answers = await asyncio.gather(*(caller.post("/evaluations", json=body) for _ in range(8)))
        assert [one.status_code for one in answers] == [201] * 8
        assert sorted(one.json()["grade"] for one in answers) == list(range(1, 9))


async def test_raters_that_are_dealt_tasks_at_once_share_what_is_shared_and_nothing_else(
    database_url: str,
) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 2)
        dealt = await asyncio.gather(*(deal(caller, f"r{n}", batch=batch, limit=5) for n in range(4)))
        turns = [{(one["game_id"], one["request_id"]) for one in tasks["tasks"]} for tasks in dealt]
        shared = set.intersection(*turns)
        assert len(shared) == 2
        assert sum(len(one - shared) for one in turns) == len(set().union(*turns) - shared)


async def test_judgements_posted_at_once_are_stored_once(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 1)
        task = (await deal(caller, "ann", batch=batch, limit=1))["tasks"][0]
        body = {"rater": {"name": "ann", "kind": "human"}, "judgements": judged(task)}
        answers = await asyncio.gather(*(caller.post("/annotations", json=body) for _ in range(8)))
        assert sorted(one.status_code for one in answers) == [201] + 7 * [409]


async def test_hostile_text_is_refused_or_kept_as_it_is_and_nothing_breaks(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await games_of(caller, 1)
        query = {"batch": batch, "dimension": "guessing"}
        items = (await caller.get("/evaluations/items", params=query)).json()["items"]
        task = (await deal(caller, "ann", batch=batch, limit=1))["tasks"][0]
        word = judged(task)[0]
        for text in (
            "\\u0000",
            "\\ud800",
            "\\udfff\\ud800",
            "\\u202e",
            "\\ufffe",
            "x" * 10_000_000,
            "{" * 2000,
        ):
            for body in (
                {
                    "dimension": "guessing",
                    "rater": {"name": "r"},
                    "answers": [{"item_id": items[0]["id"], "intentions": ["@"]}],
                },
                {
                    "dimension": "guessing",
                    "rater": {"name": "@"},
                    "answers": [{"item_id": items[1]["id"], "intentions": []}],
                },
                {
                    "dimension": "guessing",
                    "rater": {"name": "s"},
                    "answers": [{"item_id": "@", "intentions": []}],
                },
                {"dimension": "selection", "judge": {"kind": "model", "model": "@"}, "batch": batch},
            ):
                raw = json.dumps(body).replace("@", text)
                answer = await caller.post("/evaluations", content=raw)
                assert answer.status_code < 500, (answer.status_code, text[:20], answer.text[:300])
            for field in ("comment", "intention", "item_id"):
                raw = json.dumps({"rater": {"name": "n"}, "judgements": [{**word, field: "@"}]})
                answer = await caller.post("/annotations", content=raw.replace("@", text))
                assert answer.status_code < 500, (answer.status_code, text[:20], answer.text[:300])
        deep = '{"a":' * 5000 + "1" + "}" * 5000
        for path in ("/evaluations", "/annotations"):
            assert (await caller.post(path, content=deep)).status_code in (400, 422)
        for cursor in (
            "AAAA",
            "W10",
            "WzEsMl0",
            "eyJhIjoxfQ",
            "WyJnX2EiLC0xXQ",
            "W10=",
            "\u0000",
            "é",
        ):
            for path in ("/evaluations/items", "/evaluations"):
                params = {"cursor": cursor, **(query if path.endswith("items") else {})}
                answer = await caller.get(path, params=params)
                assert answer.status_code == 422, (path, cursor, answer.text)
        sheet = await caller.get("/annotations", params={"batch": batch, "format": "csv"})
        assert sheet.status_code == 200
