"""What the metrics and the log tell an operator."""

import json
import re
from typing import Any

import structlog
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update

from app.base import metrics
from app.runner import metering
from app.store.tables import games
from tests.app.calling import PROJECT, Caller, calling, read_ndjson
from tests.app.modelling import DIRECT, calling_with, faking

ROW = re.compile(r"^\| `([a-z_]+)(?:\{([a-z_,]+)\})?` \| ([a-z]+) \|", re.MULTILINE)

HIDDEN = {"game", "game_id", "seat", "role", "player", "batch", "side"}


def documented() -> dict[str, tuple[str, set[str]]]:
    """By metric, its kind and its labels, as the guide has them."""
    text = (PROJECT / "docs" / "operating.md").read_text("utf-8")
    section = text[text.index("## Metrics and logs") :].partition("\n## ")[0]
    return {name: (kind, set(filter(None, labels.split(",")))) for name, labels, kind in ROW.findall(section)}


async def scraped(caller: Caller) -> dict[str, Any]:
    """The metrics by name, as a scraper reads them."""
    text = (await caller.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return {
        name + ("_total" if family.type == "counter" else ""): family
        for name, family in families.items()
        # The time of a series' creation is no metric of ours.
        if not (name.endswith("_created") and family.type == "gauge")
    }


async def test_the_guide_lists_every_metric_with_its_labels(caller: Caller) -> None:
    await caller.played(count=1)
    told, shown = documented(), await scraped(caller)
    assert told.keys() == shown.keys()
    for name, family in shown.items():
        kind, labels = told[name]
        assert kind == family.type, name
        for sample in family.samples:
            assert sample.labels.keys() - {"le"} == labels, name
        assert not labels & HIDDEN


async def test_open_games_and_the_age_of_the_oldest_are_read_from_the_database(database_url: str) -> None:
    async with calling(database_url, runner=False) as caller:
        await caller.create(count=4)
        paused, _ = await caller.create(count=2)
        assert (await caller.post(f"/batches/{paused}/pause")).status_code == 202
        await caller.create(drive="manual", count=3)
        database = caller.app.state.database
        await database.writer.execute(update(games).values(created_at=games.c.created_at - 60_000))
        shown = await scraped(caller)
    queued = {one.labels["status"]: one.value for one in shown["interintent_games_open"].samples}
    oldest = {one.labels["status"]: one.value for one in shown["interintent_games_oldest_seconds"].samples}
    # Nobody is to drive games of a paused batch, or those that are stepped: more workers would not help.
    assert queued == {"created": 4, "running": 0, "suspended": 0, "held": 5}
    assert 60 <= oldest["created"] < 120
    assert 60 <= oldest["held"] < 120
    assert oldest["running"] == 0


async def test_metrics_are_served_while_the_database_is_away(caller: Caller) -> None:
    await scraped(caller)
    gauges = caller.app.state.gauges
    gauges._read_at = None

    async def rows(_: object) -> None:
        raise OSError

    caller.app.state.database.rows = rows
    try:
        shown = await scraped(caller)
    finally:
        del caller.app.state.database.rows
    assert shown["interintent_games_open"].samples == []
    assert shown["interintent_build_info"].samples[0].value == 1


async def test_a_driven_game_is_timed_and_its_changes_are_logged_with_ids(caller: Caller) -> None:
    before = await scraped(caller)
    with structlog.testing.capture_logs() as logged:
        batch, [game] = await caller.played(count=1)
    after = await scraped(caller)

    def finished(shown: dict[str, Any]) -> float:
        return sum(
            one.value
            for one in shown["interintent_game_seconds"].samples
            if one.name.endswith("_count") and one.labels["status"] == "finished"
        )

    assert finished(after) == finished(before) + 1
    lines = {line["event"]: line for line in logged}
    assert (lines["a batch is created"]["batch"], lines["a batch is created"]["games"]) == (batch, 1)
    assert (lines["a game is over"]["batch"], lines["a game is over"]["game"]) == (batch, game)
    assert lines["a game is over"]["status"] == "finished"


async def test_an_access_line_has_the_route_and_our_ids_and_no_word_of_the_caller(tmp_path: Any) -> None:
    written: list[Any] = []

    def keep(_logger: object, _method: str, line: dict[str, Any]) -> dict[str, Any]:
        written.append(line)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep])
    try:
        url = f"sqlite:///{tmp_path / 'games.sqlite'}"
        async with calling(url, access_log=True) as caller:
            _, [game] = await caller.create(drive="manual")
            written.clear()
            await caller.get(f"/games/{game}", headers={"x-request-id": "0123456789abcdef"})
            await caller.get("/games/secret-word?cursor=secret-word", headers={"x-request-id": "a b"})
    finally:
        structlog.configure(**before)
    seen, other = [line for line in written if line["event"] == "request"]
    assert (seen["route"], seen["game"], seen["status"]) == ("/games/{game_id}", game, 200)
    assert seen["request"] == "0123456789abcdef"
    assert re.fullmatch("[0-9a-f]{16}", other["request"])
    assert "secret" not in json.dumps(other)


async def test_methods_that_a_route_does_not_take_share_a_series_however_they_are_called(
    caller: Caller,
) -> None:
    def methods(status: str) -> set[str]:
        return {
            sample.labels["method"]
            for metric in metrics.requests.collect()
            for sample in metric.samples
            if sample.labels["route"] == "/games" and sample.labels["status"] == status
        }

    for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "BREW", "X1"):
        assert (await caller.request(method, "/games")).status_code == 405
    await caller.get("/games")
    assert methods("405") == {"other"}
    assert methods("200") == {"GET"}


def test_phases_are_named_as_the_game_names_them() -> None:
    assert {phase.value for phase in metering._ENDS.values()} == {
        "propose",
        "reconsider",
        "vote",
        "quest",
        "summary",
        "assassinate",
    }


async def test_phases_of_games_of_models_are_timed(tmp_path: Any) -> None:
    async with faking() as fake, calling_with(fake, f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:

        async def counted() -> dict[str, float]:
            shown = await scraped(caller)
            return {
                one.labels["phase"]: one.value
                for one in shown["interintent_phase_seconds"].samples
                if one.name.endswith("_count")
            }

        before = await counted()
        _, [game] = await caller.played(seats=DIRECT * 5)
        after = await counted()
        lines = read_ndjson((await caller.get(f"/games/{game}/events")).content)
        events = [line.get("type") for line in lines]
        for phase, end in (("vote", "votes_revealed"), ("quest", "quest_resolved")):
            assert after[phase] - before.get(phase, 0) == events.count(end)


def test_games_that_fail_are_counted_from_nought() -> None:
    # A series that begins with the first failure has not risen, so no alert would tell of it.
    failed = {"status": "failed", "winner": ""}
    assert metrics.REGISTRY.get_sample_value("interintent_games_ended_total", failed) is not None
