"""Two trees are measured in turns, and a row that got worse is named."""

import sys
from pathlib import Path

import pytest

from bench import compare

TREE = """
from collections import namedtuple
from pathlib import Path
Row = namedtuple("Row", "what value unit")
def engine_rows(scale):
    with Path({turns!r}).open("a") as turns:
        turns.write({name!r} + "\\n")
    return [
        Row("games", {speed} * scale, "games/CPU-s"),
        Row("answers of bots", 7.0, "answers/s"),
        Row("    until the acknowledgement (of {speed})", 1 / {speed}, "ms"),
        Row("only in " + {name!r}, 1.0, "ms"),
    ]
"""


def trees(folder: Path, old: int, new: int) -> tuple[Path, Path]:
    """Two trees whose bench says that they do so many games a second."""
    found = []
    for name, speed in (("old", old), ("new", new)):
        (folder / name / "bench").mkdir(parents=True)
        text = TREE.format(turns=str(folder / "turns"), name=name, speed=speed)
        (folder / name / "bench" / "__init__.py").touch()
        (folder / name / "bench" / "__main__.py").write_text(text)
        found.append(folder / name)
    return found[0], found[1]


def run(monkeypatch: pytest.MonkeyPatch, old: Path, new: Path, *parts: str) -> None:
    monkeypatch.setattr(compare, "NEW_TREE", new)
    monkeypatch.setattr(sys, "argv", ["compare", str(old), "--rounds", "2", "--only", *(parts or ["engine"])])
    compare.main()


def test_the_trees_take_turns_and_a_slower_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = trees(tmp_path, old=100, new=80)
    with pytest.raises(SystemExit, match="2 rows are more than 10 % worse"):
        run(monkeypatch, old, new)
    assert (tmp_path / "turns").read_text().split() == ["old", "new", "new", "old"]
    shown = capsys.readouterr().out
    # 80 for 100 games a second; 12.5 for 10 ms.
    assert [line.split()[-1] for line in shown.splitlines() if " 0.80 " in line] == ["worse"] * 2
    assert "answers of bots: until the acknowledgement" in shown
    assert " 1.00 " in shown
    assert "only in" not in shown


def test_a_faster_tree_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, *trees(tmp_path, old=100, new=120))


def test_a_part_that_a_tree_lacks_is_named_and_the_others_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="bots is not compared: a tree cannot measure it"):
        run(monkeypatch, *trees(tmp_path, old=100, new=100), "bots", "engine")
    assert "answers of bots: until the acknowledgement" in capsys.readouterr().out
