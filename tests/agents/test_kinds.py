"""Agent kinds can be added as docs/agents.md describes."""

import asyncio
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.agent import Setup
from agents.errors import InvalidAgent
from agents.kinds import GROUP, kinds, make_agent
from agents.table import MemoryJournal, play
from engine.profile import make_profile
from engine.rules import create

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package, laid out as an installer would: its module, and its entry points."""
    project = tomllib.loads(blocks("toml")[0])["project"]
    (tmp_path / "careful.py").write_text(blocks("python")[0])
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"[{group}]" for group in project["entry-points"]]
    assert lines == [f"[{GROUP}]"]
    lines += [f"{name} = {value}" for name, value in project["entry-points"][GROUP].items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    kinds.cache_clear()
    yield tmp_path
    kinds.cache_clear()
    sys.modules.pop("careful", None)


def test_ours_are_there() -> None:
    assert {"random", "scripted"} <= kinds().keys()


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidAgent, match=r"agent must be one of llm, random, remote, scripted, got 'carefree'"
    ):
        make_agent("carefree", Setup(1, "seed"))


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_a_kind() -> None:
    assert "careful" in kinds()
    profile = make_profile("official", 5)
    agents = {seat: make_agent("careful", Setup(seat, "seed", {"patience": 1})) for seat in range(1, 6)}
    state = asyncio.run(play(create(profile, 1), agents, MemoryJournal()))
    assert state.table.over


@pytest.mark.usefixtures("installed")
def test_the_pages_check_runs() -> None:
    exec(compile(blocks("python")[1], str(PAGE), "exec"), {})


def test_the_example_is_about_thirty_lines() -> None:
    assert len([line for line in blocks("python")[0].splitlines() if line.strip()]) <= 30


def test_a_package_cannot_take_the_name_of_one_of_ours(installed: Path) -> None:
    points = next(installed.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().replace("careful =", "scripted ="))
    kinds.cache_clear()
    assert kinds()["scripted"].__module__ == "agents.scripted.agent"


def test_ours_take_no_options_and_say_so() -> None:
    with pytest.raises(InvalidAgent, match="scripted takes no options, got mood"):
        make_agent("scripted", Setup(1, "seed", {"mood": "calm"}))


def test_a_broken_package_does_not_stop_ours(installed: Path) -> None:
    (installed / "careful.py").write_text("raise ImportError('half installed')\n")
    kinds.cache_clear()
    make_agent("random", Setup(1, "seed"))
    with pytest.raises(ImportError, match="half installed"):
        make_agent("careful", Setup(1, "seed"))
