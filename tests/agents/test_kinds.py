"""Agent kinds can be added as docs/agents.md describes."""

import asyncio
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.agent import Setup
from agents.errors import InvalidAgent
from agents.kinds import GROUP, MODEL_GROUP, kinds, make_agent, model_kinds
from agents.table import MemoryJournal, play
from app.instruments.fake_model import FakeOptions, read_fault
from app.seats.seating import seat_agents
from engine.profile import make_profile
from engine.rules import create
from tests.app.modelling import calling_with, faking, stored_calls

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package, laid out as an installer would: its module, and its entry points."""
    install(tmp_path, 0, "careful", blocks("python")[0], GROUP)
    monkeypatch.syspath_prepend(tmp_path)
    kinds.cache_clear()
    yield tmp_path
    kinds.cache_clear()
    sys.modules.pop("careful", None)


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's package with a kind that asks a model."""
    install(tmp_path, 1, "voter", blocks("python")[2], MODEL_GROUP)
    monkeypatch.syspath_prepend(tmp_path)
    model_kinds.cache_clear()
    yield
    model_kinds.cache_clear()
    sys.modules.pop("voter", None)


def install(folder: Path, number: int, module: str, source: str, group: str) -> None:
    project = tomllib.loads(blocks("toml")[number])["project"]
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"[{group}]" for group in project["entry-points"]]
    assert lines == [f"[{group}]"]
    lines += [f"{name} = {value}" for name, value in project["entry-points"][group].items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


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


@pytest.mark.usefixtures("asking")
async def test_a_package_whose_agents_ask_a_model_gets_stored_answers_budgets_and_suspension(
    database_url: str,
) -> None:
    (wish,) = (json.loads(block) for block in blocks("json"))
    wish["seats"] = [wish["seats"][0] | {"model": "fake"}]
    async with (
        faking(FakeOptions(brain=lambda *_: '{"approve": true}')) as fake,
        calling_with(fake, database_url) as caller,
    ):
        fake.faults = (read_fault("quota"),)
        batch, [game] = await caller.create(**wish, on_unusable="default")
        assert (await caller.over(batch))["suspended"]["cause"] == "quota"
        fake.faults = ()
        assert (await caller.post(f"/batches/{batch}/resume", json={})).status_code == 200
        view = await caller.over(batch)
        (model,) = view["models"]
        assert view["status"] == "done"
        assert model["calls"] == fake.counts.answered == await stored_calls(database_url) > 0
        events = await caller.lines(f"/games/{game}/events", viewer="full")
        votes = [event["approve"] for event in events if event["type"] == "vote_cast"]
        assert votes == [True] * model["calls"]
        (seated,) = (event["agents"] for event in events if event["type"] == "agents_seated")
        told = [seated["1"][name] for name in ("agent", "endpoint", "model", "parameters")]
        assert told == ["voter", "fake", "fake", {"temperature": 0.5}]
        # A budget ends its game, and answers of no use are defaults of a model.
        batch, _ = await caller.create(**wish, budget={"max_tokens": 1})
        assert (await caller.over(batch))["budget"]["games_stopped"] == 1
        fake._brain = lambda *_: "no JSON"
        batch, _ = await caller.create(**wish, on_unusable="default")
        view = await caller.over(batch)
        assert view["defaults"]["defaulted"].keys() == {"model_error"}
        retried = await caller.post(f"/batches/{batch}/retry", json={})
        assert len(retried.json()["anew"]) == 1


def test_a_kind_that_asks_no_model_takes_none() -> None:
    with pytest.raises(InvalidAgent, match="only llm seats, and agents that ask a model, have a model"):
        seat_agents([{"agent": "scripted", "model": "small"}], "seed")
