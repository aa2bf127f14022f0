"""Metrics of installed packages are counted, grouped and contrasted as ours are; their failures are told."""

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pandas
import pytest

from evaluators.dataset import metrics
from tests.app.typed import interintent
from tests.evaluators.dataset.making import Made, make


def asks(row: Mapping[str, Any]) -> bool | None:
    """Whether the speech asks something; nothing about defaulted turns."""
    return None if row["defaulted"] else "?" in row["speech"]


def words(row: Mapping[str, Any]) -> tuple[float, float]:
    """Words a sentence."""
    return len(row["speech"].split()), max(row["speech"].count("."), 1)


def breaks(row: Mapping[str, Any]) -> float:
    return float(1 / (row["round"] - 1))


def says_text(row: Mapping[str, Any]) -> Any:
    return row["speech"]


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with four metrics."""
    here = [
        EntryPoint(name, f"{__name__}:{name}", metrics.METRICS)
        for name in ("asks", "words", "breaks", "says_text")
    ]
    monkeypatch.setattr(metrics, "entry_points", lambda group: here if group == metrics.METRICS else [])
    metrics.installed_metrics.cache_clear()
    yield
    metrics.installed_metrics.cache_clear()


def rows_of(report: Any, name: str) -> dict[tuple[str, ...], Any]:
    found = next((one for one in report["tables"] if one["name"] == name), None)
    assert found is not None, [one["name"] for one in report["tables"]]
    return {tuple(row["labels"]): row["figures"] for row in found["rows"]}


def test_metrics_of_a_package_get_figures_intervals_groups_and_contrasts(
    plug_ins: None, tmp_path: Path
) -> None:
    made: Made = make(tmp_path)
    done = interintent("report", made.games, "--group-by", "cell", "--contrast", "cell=paper,direct")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    turns = pandas.read_parquet(made.folder / "turns.parquet")
    spoken = turns[turns.defaulted.isna()]
    asking = spoken.speech.str.contains("?", regex=False)
    sentences = turns.speech.str.count(r"\.").clip(lower=1)
    word_counts = turns.speech.str.split().map(len)

    own = rows_of(report, "own_metrics")
    share = own["asks", "all", "all"]["share"]
    assert share["value"] == pytest.approx(asking.mean(), abs=1e-9)
    assert share["low"] <= share["value"] <= share["high"]
    value = own["words", "all", "all"]["value"]
    assert value["value"] == pytest.approx(word_counts.sum() / sentences.sum(), abs=1e-9)
    evil = spoken.side == "evil"
    assert own["asks", "side", "evil"]["share"]["value"] == pytest.approx(asking[evil].mean(), abs=1e-9)

    grouped = rows_of(report, "groups_own_metrics")["asks", "all", "all", "share"]
    for cell, column in (("paper", grouped["paper"]), ("direct", grouped["direct"])):
        assert column["value"] == pytest.approx(asking[spoken.cell == cell].mean(), abs=1e-9)
    contrasts = next(one for one in report["tables"] if one["name"] == "contrasts")
    assert any("asks" in row["labels"] for row in contrasts["rows"])


def test_a_failing_metric_is_told_and_costs_the_report_nothing(plug_ins: None, tmp_path: Path) -> None:
    made: Made = make(tmp_path, each=1)
    report = json.loads(interintent("report", made.games).stdout)
    turns = pandas.read_parquet(made.folder / "turns.parquet")
    told = report["excluded"]
    assert told["interintent.metrics breaks"] == {
        "it raised ZeroDivisionError": int((turns["round"] == 1).sum())
    }
    assert told["interintent.metrics says_text"] == {
        "it returned no flag, no finite number and no pair of them": len(turns)
    }
    own = rows_of(report, "own_metrics")
    assert own["breaks", "round", "2"]["value"]["value"] == 1
    assert ("breaks", "round", "1") not in own


def test_without_packages_there_is_no_such_table(tmp_path: Path) -> None:
    report = json.loads(interintent("report", make(tmp_path, each=1).games).stdout)
    assert "own_metrics" not in [one["name"] for one in report["tables"]]
