"""Reports of stored batches leave out games whose models mostly defaulted, and say so."""

from typing import Any

from app.instruments.fake_model import FakeOptions
from tests.app.calling import calling
from tests.app.evaluations.test_reports_api import figure, report_of, table
from tests.app.modelling import DIRECT, calling_with, faking

SEATS: list[dict[str, Any]] = [*DIRECT, *[{"agent": "random"}] * 4]


async def test_games_of_models_that_default_are_excluded_from_the_first_figures(database_url: str) -> None:
    async with (
        faking(FakeOptions(brain=lambda *_: "no JSON")) as fake,
        calling_with(fake, database_url) as caller,
    ):
        failed, _ = await caller.played(seats=SEATS, count=2, on_unusable="default")
        sound, _ = await caller.played(count=3)
        report = (await report_of(caller, f"{failed},{sound}", group_by="agent")).json()
        assert (report["made_of"]["games"], report["made_of"]["exclude_above"]) == (3, 0.05)
        assert report["made_of"]["excluded_games"] == {"models defaulted more than 5 % of their decisions": 2}
        assert report["notes"][0].startswith("Excluded: 2 of 5 games")
        won = figure(report, "results", "win rate", "loyal", column="ours")
        assert (won["den"], won["with_excluded"]["den"]) == (3, 5)
        assert figure(report, "excluded_games", "agent", "llm fake direct", column="excluded")["num"] == 2
        assert figure(report, "excluded_games", "agent", "scripted", column="excluded")["num"] == 0
        of_model = report["made_of"]["defaults"]["llm fake direct"]
        assert of_model["defaulted"] == {"model_error": of_model["decisions"]}
        standings = table(report, "standings")["rows"]
        assert {row["labels"][0] for row in standings} == {"llm fake direct", "random"}
        assert all(row["figures"]["as loyal"]["value"] is None for row in standings)

        every = (await report_of(caller, f"{failed},{sound}", exclude_above="1")).json()
        assert every["made_of"]["games"] == 5
        assert "with_excluded" not in str(every)
        for wrong in ("1.5", "-1", "nan"):
            assert (await report_of(caller, sound, exclude_above=wrong)).status_code == 422


async def test_bots_exclude_nothing(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await caller.played(count=2)
        report = (await report_of(caller, batch)).json()
        assert "excluded_games" not in report["made_of"]
        assert set(report["made_of"]["defaults"]) == {"scripted"}
