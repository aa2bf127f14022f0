"""Stored games and the same games in files have reports with equal rows: one name for each model on each
endpoint.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.instruments.fake_model import FakeModel
from tests.app.calling import Caller, calling
from tests.app.evaluations.test_reports_api import report_of, table
from tests.app.modelling import faking
from tests.app.typed import interintent


def endpoint(fake: FakeModel, model: str) -> dict[str, Any]:
    return {"base_url": f"{fake.url}/v1", "model": model}


def seats(*models: str) -> list[dict[str, Any]]:
    named = [{"agent": "llm", "model": model, "mechanism": "one_pass"} for model in models]
    return [*named, {"agent": "random"}, *[{"agent": "scripted"}] * (4 - len(named))]


async def of_files(caller: Caller, batches: Sequence[str], directory: Path, *options: str) -> Any:
    """The report of the batches' exports."""
    files = [directory / f"{batch}.ndjson" for batch in batches]
    for batch, file in zip(batches, files, strict=True):
        answer = await caller.get(f"/batches/{batch}/export?view=full")
        file.write_bytes(answer.content)
    out = directory / "report.json"
    done = await asyncio.to_thread(interintent, "report", *files, "--out", out, "--jobs", "1", *options)
    assert done.exit_code == 0, done.output
    return json.loads(out.read_text())


def check_equal(stored: Any, filed: Any) -> None:
    """Cell by cell, apart from what only the database tells: what calls cost."""
    ours, theirs = (
        {one["name"]: one for one in report["tables"] if one["name"] != "models"}
        for report in (stored, filed)
    )
    assert ours.keys() == theirs.keys() >= {"standings", "defaults"}
    for name, one in ours.items():
        assert one == theirs[name], name
    assert stored["made_of"]["defaults"] == filed["made_of"]["defaults"]


def rows(report: Any, name: str = "standings") -> set[str]:
    return {row["labels"][0] for row in table(report, name)["rows"]}


async def test_a_model_that_replaces_another_on_its_endpoint_is_another_agent(
    database_url: str, tmp_path: Path
) -> None:
    batches = []
    async with faking() as fake:
        for model in ("small", "another-model"):
            async with calling(database_url, models={"small": endpoint(fake, model)}) as caller:
                batch, _ = await caller.played(seats=seats("small"), count=2, on_unusable="default")
                batches.append(batch)
        async with calling(database_url, models={"small": endpoint(fake, "third")}) as caller:
            asked = {"group_by": "agent", "exclude_above": "1"}
            stored = (await report_of(caller, ",".join(batches), **asked)).json()
            options = ("--group-by", "agent", "--exclude-above", "1")
            filed = await of_files(caller, batches, tmp_path, *options)
    assert rows(stored) == {"llm small one_pass", "llm another-model@small one_pass", "random", "scripted"}
    check_equal(stored, filed)


async def test_two_endpoints_with_one_model_are_two_agents(database_url: str, tmp_path: Path) -> None:
    async with faking() as fake:
        models = {name: endpoint(fake, "m") for name in ("one", "other")}
        async with calling(database_url, models=models) as caller:
            batch, games = await caller.played(
                seats=seats("one", "other", "cold"),
                models={"one": {"name": "one"}, "other": {"name": "other"}, "cold": {"name": "one"}},
                count=2,
                rotate=True,
                on_unusable="default",
            )
            after = {"round": 1, "attempt": 1, "phase": "vote"}
            fork = (await caller.post(f"/games/{games[0]}/fork", json={"after": after})).json()["batch_id"]
            await caller.over(fork)
            stored = (await report_of(caller, f"{batch},{fork}", exclude_above="1", group_by="model")).json()
            options = ("--group-by", "model", "--exclude-above", "1")
            filed = await of_files(caller, (batch, fork), tmp_path, *options)
    agents = {
        "llm m@one one_pass",
        "llm m@other one_pass",
        "llm m@one as cold one_pass",
        "random",
        "scripted",
    }
    assert rows(stored) == agents
    assert stored["made_of"]["defaults"].keys() == agents
    check_equal(stored, filed)


@pytest.mark.parametrize("mechanism", [None, "direct"])
async def test_games_whose_logs_name_no_agents_are_told_by_their_specs(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str | None
) -> None:
    monkeypatch.setattr("app.games.dealing.seated", lambda *_: None)
    async with faking() as fake, calling(database_url, models={"small": endpoint(fake, "m")}) as caller:
        model = {"agent": "llm", "model": "small", **({"mechanism": mechanism} if mechanism else {})}
        batch, _ = await caller.played(
            seats=[model, *[{"agent": "scripted"}] * 4], count=1, on_unusable="default"
        )
        stored = (await report_of(caller, batch, exclude_above="1", group_by="preset")).json()
        options = ("--group-by", "preset", "--exclude-above", "1")
        filed = await of_files(caller, [batch], tmp_path, *options)
    assert rows(stored) == {f"llm small {mechanism or 'paper'}", "scripted"}
    check_equal(stored, filed)
