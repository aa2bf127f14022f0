"""docs/evaluation.md says what happens: its examples run, its lists are complete."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from evaluators.ground.answers import CLOSE, MARGIN
from evaluators.ground.items import DIMENSIONS, Excluded, Variant

TEXT = (Path(__file__).parents[2] / "docs/evaluation.md").read_text("utf-8")


def test_the_examples_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/evaluation.md", "exec"), names)
    assert "=== RECORD ===" in capsys.readouterr().out


def test_every_dimension_setting_and_reason_is_named() -> None:
    for name in (*DIMENSIONS, *get_args(Excluded)):
        assert f"`{name}`" in TEXT, name
    for name in Variant().as_json():
        assert f"`{name}`" in TEXT, name


def test_the_thresholds_are_those_of_the_code() -> None:
    assert f"{CLOSE:.0f} of 100" in TEXT
    assert f"{MARGIN:.0f} points" in TEXT
