"""How many processes work for a command."""

import os
from typing import Any

import pytest

from app.base.workers import processes
from app.files import reporting
from app.runner import simulate
from tests.app.typed import interintent


@pytest.mark.parametrize(
    ("jobs", "cores", "expected"),
    [(0, 4, 4), (1, 4, 1), (3, 4, 3), (99_999, 4, 4), (0, None, 1), (2, None, 1)],
)
def test_there_are_never_more_processes_than_cores(
    monkeypatch: pytest.MonkeyPatch, jobs: int, cores: int | None, expected: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert processes(jobs) == expected


class _Started(Exception):
    """A pool of this many processes would start."""


def _pool(count: int, **_: Any) -> None:
    raise _Started(count)


def test_no_pool_is_larger_than_the_cores_and_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for module in (reporting, simulate):
        monkeypatch.setattr(module, "ProcessPoolExecutor", _pool)
    plan: Any = None
    with pytest.raises(_Started, match=r"^3$"):
        list(reporting.counted(iter(()), reporting.ReportWork("games"), jobs=99_999))
    with pytest.raises(_Started, match=r"^3$"):
        list(simulate.run(plan, 10_000, jobs=99_999))
    with pytest.raises(_Started, match=r"^2$"):
        list(simulate.run(plan, 2 * simulate.CHUNK, jobs=99_999))


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((command, "--jobs") for command in (("report", "x"), ("compare", "x"), ("simulate",))),
        *((command, "--parallel") for command in (("judge", "x"), ("simulate",), ("study", "run", "x"))),
    ],
)
def test_a_huge_number_of_processes_or_games_at_once_is_refused(
    command: tuple[str, ...], option: str
) -> None:
    done = interintent(*command, option, 10**24)
    assert done.exit_code == 2
    assert "Input should be less than or equal to 10" in done.output
