"""The typed door to a data set."""

import re
from pathlib import Path
from typing import Any

import pandas
import pytest
from interintent_client import NotADataSet, load

from tests.client.test_readme import README
from tests.evaluators.dataset.making import Made, make


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("study"), each=1)


def test_a_data_set_is_opened_and_read_in_whole_and_in_pieces(made: Made) -> None:
    data = load(made.folder)
    turns = pandas.read_parquet(made.folder / "turns.parquet")
    assert data.turns.column("speech").to_pylist() == turns.speech.tolist()
    assert data.table("votes", ["seat", "approve"]).column_names == ["seat", "approve"]
    pieces = list(data.batches("turns", rows=7))
    assert max(piece.num_rows for piece in pieces) <= 7
    assert sum(piece.num_rows for piece in pieces) == len(turns)
    assert data.license is None
    assert data.about["alternateName"] == "A study"
    for table in (data.games, data.seats, data.beliefs, data.items, data.judgements):
        assert table.num_rows


def test_the_example_of_the_page_runs(made: Made) -> None:
    names: dict[str, Any] = {}
    [block] = [block for block in re.findall(r"```python\n(.*?)```", README, flags=re.S) if "load" in block]
    exec(block, names)
    assert names["intended"](str(made.folder)) == len(pandas.read_parquet(made.folder / "intentions.parquet"))


def test_anything_else_is_named(made: Made, tmp_path: Path) -> None:
    with pytest.raises(NotADataSet, match=r"croissant\.json"):
        load(tmp_path)
    (tmp_path / "croissant.json").write_text("{}")
    (tmp_path / "games.parquet").write_bytes(b"")
    with pytest.raises(NotADataSet, match="lacks the tables seats, turns"):
        load(tmp_path)
    with pytest.raises(NotADataSet, match="the tables are games"):
        load(made.folder).table("speeches")  # type: ignore[arg-type]
