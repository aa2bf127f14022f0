"""The sample that lies beside the repository, and running the package over a folder's contents."""

import json
from pathlib import Path
from typing import Any

import pytest

from evaluators.authors import ConvertedGame, Run, compare, convert, figures, read_run

SAMPLE = Path(__file__).parents[3].parent / "shared" / "authors-run"

needs_sample = pytest.mark.skipif(
    not SAMPLE.is_dir(), reason="the authors' sample lies outside the repository, in ../shared/authors-run"
)


def sample_files() -> dict[str, bytes]:
    return {
        path.relative_to(SAMPLE).as_posix(): path.read_bytes() for path in SAMPLE.rglob("*") if path.is_file()
    }


def sample_expected() -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((SAMPLE / "expected.json").read_bytes())
    return expected


def taken(files: dict[str, bytes]) -> tuple[Run, list[ConvertedGame]]:
    run = read_run(files)
    assert not run.broken, run.broken
    return run, [convert(run, game) for game in run.games]


def differing(files: dict[str, bytes], expected: dict[str, Any]) -> tuple[int, list[str]]:
    """How many figures were compared, and what is said of those that differ."""
    run, games = taken(files)
    compared = list(compare(expected, figures(run, games)))
    return len(compared), [
        f"{one.name}: expected {one.expected}, found {one.found}" for one in compared if not one.agrees
    ]
