"""Damaged rows with words of raters and models: the other rows are shown, and the damaged one is named."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.app.calling import Caller, calling
from tests.app.evaluations.test_judging import SENSIBLE, judging, over
from tests.app.modelling import COMPACT, calling_with, faking
from tests.app.typed import interintent

CANARY = "canary7d1f"

WORDS = {
    # By table: what is damaged of one row, and what it is damaged with.
    "evaluations": (
        ("wish", "'{}'"),
        ("wish", "'7'"),
        ("wish", f"""'{{"variant"\\: {{"options"\\: "{CANARY}"}}}}'"""),
        ("wish", f"""'{{"{CANARY}"\\: "\\u0000"}}'"""),
        ("result", f"""'{{"full"\\: ["{CANARY}"]}}'"""),
        ("status", f"'{CANARY}'"),
        ("created_at", str(9 * 10**18)),
    ),
    "answers": (
        ("named", "'[1]'"),
        ("named", f"""'{{"{CANARY}"\\: 1}}'"""),
        ("role", f"'{CANARY}'"),
        ("item_id", f"'{CANARY}'"),
        ("confidence", "32767"),
    ),
    "judgements": (
        ("think", "77"),
        ("speak", "-1"),
        ("kind", f"'{CANARY}'"),
        ("at", str(9 * 10**18)),
    ),
    "statement_judgements": (
        ("statements", f"""'[{{"verdict"\\: "{CANARY}"}}]'"""),
        ("statements", "'null'"),
        ("planted", "'[]'"),
        ("at", str(-9 * 10**18)),
    ),
}
SQLITE_WORDS = {
    # What PostgreSQL does not store.
    "evaluations": (
        ("wish", f"'{CANARY}'"),
        ("wish", "'[' || replace(hex(zeroblob(20000)), '00', '[')"),
        ("created_at", f"'{CANARY}'"),
        ("rater", f"CAST(x'ff' || '{CANARY}' AS TEXT)"),
        ("grade", "x'ff00'"),
    ),
    "answers": (
        ("named", f"'{CANARY}'"),
        ("rater", "x'ff00'"),
        ("confidence", "9223372036854775807"),
    ),
    "judgements": (
        ("reasonable", f"'{CANARY}'"),
        ("stage", f"'{CANARY}'"),
        ("comment", f"CAST(x'ff' || '{CANARY}' AS TEXT)"),
        ("grade", f"'{CANARY}' || char(0)"),
    ),
    "statement_judgements": (
        ("statements", f"'{CANARY}'"),
        ("turn", "'x'"),
    ),
}


@contextlib.asynccontextmanager
async def judged(url: str) -> AsyncIterator[tuple[Caller, str, dict[str, str]]]:
    """A batch about which everything has been said, and by dimension its evaluation."""
    async with faking(SENSIBLE) as fake, calling_with(fake, url) as caller:
        batch, _ = await caller.played(seeds={"from": 40})
        about = {"batch": batch, "limit": 200}
        made = {}
        for dimension in ("selection", "statements"):
            made[dimension] = (await judging(caller, dimension, batch=batch)).json()["evaluation_id"]
            await over(caller, made[dimension])
        found = (await caller.get("/evaluations/items", params={**about, "dimension": "guessing"})).json()
        answers = [
            {"item_id": item["id"], "intentions": [f"{CANARY} it"], "role": "merlin", "confidence": 3}
            for item in found["items"]
        ]
        body = {"dimension": "guessing", "rater": {"name": "r", "kind": "program"}, "answers": answers}
        made["guessing"] = (await caller.post("/evaluations", json=body)).json()["evaluation_id"]
        yield caller, batch, made


async def execute(caller: Caller, statement: str, **values: Any) -> Any:
    async with caller.services.database.write_engine.begin() as connection:
        done = await connection.execute(text(statement), values)
        return done.mappings().all() if done.returns_rows else None


@pytest.mark.parametrize("table", WORDS)
async def test_a_damaged_word_hides_no_other(
    table: str, database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    sqlite = database_url.startswith("sqlite")
    place = "rowid" if sqlite else "CAST(ctid AS text)"
    async with judged(database_url) as (caller, batch, made):
        where, given = "TRUE", {}
        if table == "evaluations":
            where, given = "evaluation_id = :id", {"id": made["guessing"]}
        before = await told(caller, batch, made)
        for column, value in WORDS[table] + (SQLITE_WORDS[table] if sqlite else ()):
            choice = f"SELECT {column}, {place} FROM {table} WHERE {where} ORDER BY 2 LIMIT 1"
            [[kept, number]] = [one.values() for one in await execute(caller, choice, **given)]
            change = f"UPDATE {table} SET {column} = {value} WHERE {place} = :number RETURNING {place}"
            [[number]] = [one.values() for one in await execute(caller, change, number=number)]
            after = await told(caller, batch, made)
            lost = before["counts"][table] - after["counts"][table]
            assert lost == 1, (column, value, lost)
            assert after["named"][table] == 1, (column, value)
            others = {name for name in WORDS if name != table}
            if table == "evaluations" and column in ("wish", "created_at", "rater", "grade", "status"):
                others.discard("answers")  # nothing tells any more what was asked
            for name in others - {table}:
                assert after["counts"][name] == before["counts"][name], (column, value, name)
            assert CANARY not in after["said"], (column, value)
            back = f"UPDATE {table} SET {column} = :kept WHERE {place} = :number"
            await execute(caller, back, kept=kept, number=number)
        assert (await told(caller, batch, made))["counts"] == before["counts"]
    assert CANARY not in "".join(capfd.readouterr())


async def told(caller: Caller, batch: str, made: dict[str, str]) -> dict[str, Any]:
    """How much each route tells of each table, and how many damaged rows it names."""
    caller.services.evaluations.reports._made.clear()
    listed = (await caller.get("/evaluations")).json()
    judgements = (await caller.get("/annotations", params={"batch": batch})).json()
    sheet = await caller.get("/annotations", params={"batch": batch, "format": "csv"})
    speeches = await caller.get(f"/evaluations/{made['statements']}/statements", params={"limit": 200})
    answer = await caller.get("/reports", params={"batch": batch})
    assert answer.status_code == 200, answer.text
    report = answer.json()
    items = await caller.get(f"/evaluations/{made['guessing']}", params={"per_item": True})
    assert items.status_code == 200 or items.json()["code"] == "corrupt-log", items.text
    one = items.json()
    assert len(sheet.text.splitlines()) == len(judgements["judgements"]) + 1
    assert sheet.headers.get("damaged-rows", "0") == str(len(judgements["damaged"]))
    excluded = report["excluded"]
    lost = {
        name: excluded.get(about, {}).get("damaged where it was stored", 0) for about, name in ABOUT.items()
    }
    named = [row["reason"] for row in report["made_of"]["left_out"]]
    assert len(named) == sum(lost.values()) or len(named) == 50, named
    return {
        "counts": {
            "evaluations": len(listed["evaluations"]),
            "answers": -lost["answers"],
            "judgements": len(judgements["judgements"]),
            "statement_judgements": len(speeches.json()["speeches"]),
        },
        "named": {
            "evaluations": len(listed["damaged"]),
            "answers": lost["answers"],
            "judgements": lost["judgements"],
            "statement_judgements": lost["statement_judgements"],
        },
        "said": json.dumps([listed["damaged"], judgements["damaged"], speeches.json()["damaged"], named])
        + (json.dumps(one.get("damaged")) if items.status_code == 200 else items.text),
    }


ABOUT = {
    "answers": "answers",
    "judgements": "judgements",
    "judgements of statements": "statement_judgements",
}


async def commanded(url: str, *words: str) -> Any:
    return await asyncio.to_thread(interintent, *words, "--database-url", url)


async def test_commands_name_the_damaged_rows_and_write_the_others(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with judged(url) as (caller, batch, _):
        whole = await commanded(url, "annotations", "export", "--batch", batch)
        assert whole.exit_code == 0
        await execute(
            caller,
            f"UPDATE judgements SET comment = CAST(x'ff' || '{CANARY}' AS TEXT) "
            "WHERE rowid = (SELECT min(rowid) FROM judgements)",
        )
    done = await commanded(url, "annotations", "export", "--batch", batch)
    assert done.exit_code == 1
    # Nothing but rows: what is logged goes to standard error.
    rows = done.stdout.splitlines()
    assert len(rows) == len(whole.stdout.splitlines()) - 1
    assert set(rows) < set(whole.stdout.splitlines())
    assert "of judgements is damaged and left out" in done.stderr
    assert "damaged rows are left out" in done.stderr
    assert CANARY not in done.output
    report = await commanded(url, "report", "--batch", batch)
    assert report.exit_code == 0
    assert json.loads(report.stdout)["excluded"]["judgements"] == {"damaged where it was stored": 1}
    assert "left out: 1 × judgement or answer" in report.stderr


CALLS = (
    ("text", f"'{CANARY}'"),
    ("text", "'[1]'"),
    ("value", f"'{{\"{CANARY}\"'"),
    ("parameters", f"""'["{CANARY}"]'"""),
    ("at", str(9 * 10**18)),
    ("http_calls", "-1"),
    ("cost", "-0.5"),
)
POSTGRESQL_CALLS = (
    ("value", "repeat('[', 20000)"),
    ("latency_s", "'Infinity'"),
    ("reported_cost", "'NaN'"),
)
SQLITE_CALLS = (
    ("value", "'[' || replace(hex(zeroblob(20000)), '00', '[')"),
    ("prompt_tokens", "'9'||char(0)"),
    ("tokens_known", f"'{CANARY}'"),
    ("cost", f"'{CANARY}'"),
    ("endpoint", "x'ff00'"),
    ("endpoint", f"CAST(x'ff' || '{CANARY}' AS TEXT)"),
    ("model", f"CAST(x'ff' || '{CANARY}' AS TEXT)"),
    ("step", "CAST(x'ff' AS TEXT)"),
    ("latency_s", "9e999"),
)


@pytest.mark.parametrize(
    ("database_url", "column", "value"),
    [
        *(("sqlite", *call) for call in CALLS[:4]),
        *(pytest.param("sqlite", *call, marks=pytest.mark.long) for call in CALLS[4:] + SQLITE_CALLS),
        *(("postgresql", *call) for call in CALLS + POSTGRESQL_CALLS),
    ],
    indirect=["database_url"],
)
async def test_a_damaged_call_ends_no_export_and_no_sum(
    column: str, value: str, database_url: str, tmp_path: Path
) -> None:
    out = tmp_path / "answers.ndjson"
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, [game] = await caller.played(seats=COMPACT, seeds={"from": 1})
        [[calls]] = [one.values() for one in await execute(caller, "SELECT count(*) FROM model_calls")]
        first = "request_id = (SELECT min(request_id) FROM model_calls)"
        await execute(caller, f"UPDATE model_calls SET {column} = {value} WHERE {first}")
        caller.services.models._accounts.clear()
        view = await caller.get(f"/batches/{batch}")
        assert view.status_code == 200, view.text
        [model] = view.json()["models"]
        assert model["calls"] in (calls, calls - 1)
        # A fork that repeats the game goes on: what does not read is asked again.
        answer = await caller.post(f"/games/{game}/fork", json={"after": {"request": "1.1.propose_team.1"}})
        assert answer.status_code == 201, answer.text
        assert (await caller.over(answer.json()["batch_id"]))["status"] == "done"
    done = await commanded(database_url, "answers", "export", batch, "--out", str(out))
    assert done.exit_code == 1, done.output
    assert f"the row {game}" in done.stderr
    assert "of model_calls is damaged and left out" in done.stderr
    assert CANARY not in done.output
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[-1]["answers"] == len(lines) - 1 == calls - 1


@pytest.mark.parametrize("value", [f"'{CANARY}'", "x'ff00'", "-5"])
async def test_a_damaged_place_ends_no_listing(value: str, tmp_path: Path) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        ids = {(await caller.create(count=3, drive="manual"))[0] for _ in range(2)}
        await execute(caller, f"UPDATE games SET position = {value} WHERE position = 1")
        seen, cursor = set(), None
        while True:
            query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            answer = await caller.get("/games", params=query)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            seen |= {game["game_id"] for game in page["games"]} | set(page["damaged"])
            cursor = page["next"]
            if cursor is None:
                break
            assert CANARY.encode() not in base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        assert len(seen) == 3 * len(ids)
