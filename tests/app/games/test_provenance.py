"""What exports say of where their games come from, and to whom."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.files.games import bundles, games_in
from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.brains import BRAINS
from app.runner.simulate import Plan, run
from engine.errors import CorruptLog
from engine.profile import make_profile
from evaluators.ground.provenance import Provenance, catalogue_digest, package_version, provenance_of
from evaluators.ground.thought_places import PLACED
from evaluators.ground.turns import Game
from tests.app.calling import calling, read_log, without_place
from tests.app.modelling import PRICES, calling_with, faking
from tests.app.typed import interintent

PUBLIC_FIELDS = {"type", "game", "profile", "players", "names", "server"}
LABELS = {"study": "s", "cell": "direct", "arm": "a"}


def read_games(file: Path) -> list[Game]:
    found = [game for bundle in bundles([str(file)], lambda _: None) for game in games_in(bundle)]
    assert all(isinstance(game, Game) for game in found), found
    return found  # type: ignore[return-value]


async def test_a_full_export_says_who_played_and_with_which_model(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    seats = [
        {"agent": "llm", "model": "fake", "mechanism": "direct", "options": {"memory": "speeches"}},
        *[{"agent": "scripted"}] * 4,
    ]
    fake_options = FakeOptions(brain=BRAINS["sensible"](1))
    async with faking(fake_options) as fake, calling_with(fake, url) as caller:
        batch, [game] = await caller.played(seats=seats, seeds={"from": 7}, labels=LABELS)
        export = (await caller.get(f"/batches/{batch}/export", params={"view": "full"})).content
        [public, *_] = await caller.lines(f"/batches/{batch}/export")
        query = {"batch": batch, "group_by": "served"}
        groups = (await caller.get("/reports", params=query)).json()["made_of"]["groups"]
    line = json.loads(export.partition(b"\n")[0])
    assert (line["type"], line["game"], line["batch_id"], line["seed"]) == ("provenance", game, batch, "7")
    assert (line["study"], line["cell"], line["labels"]) == ("s", "direct", LABELS)
    assert (line["server"], line["catalogue"]) == (package_version(), catalogue_digest())
    assert line["prices"] == {"fake": PRICES}
    assert line["defaults"]["1"]["decisions"] > 0
    model, *others = line["agents"]
    named = {name: model[name] for name in ("seat", "agent", "endpoint", "model", "mechanism", "steps")}
    assert named == {
        "seat": 1,
        "agent": "llm",
        "endpoint": "fake",
        "model": "fake",
        "mechanism": "direct",
        "steps": [],
    }
    assert model["served"] == ["fake"]
    assert groups == {"fake": 1, "scripted": 1}
    assert model["parameters"]["memory"] == "speeches"
    assert model["prompts_hash"] == model["parameters"]["prompts_hash"]
    assert [(other["agent"], other["served"], other["mechanism"]) for other in others] == [
        ("scripted", [], None)
    ] * 4
    assert public.keys() == PUBLIC_FIELDS

    file = tmp_path / "games.ndjson"
    file.write_bytes(export)
    [read] = read_games(file)
    assert read.provenance is not None
    assert read.provenance.as_json(full=True) == line
    assert read.provenance.models == {1}
    # A report of the file knows who sat where, and its figures do not depend on where it is made.
    made = json.loads(interintent("report", file).stdout)
    assert made["made_of"]["served"] == {"fake": ["fake"]}
    assert made["made_of"]["seated_games"] == 1


async def test_a_mark_of_invalid_is_exported_and_excludes_the_game_from_reports_of_files(
    tmp_path: Path,
) -> None:
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}") as caller:
        batch, [wrong, _] = await caller.played(count=2)
        mark = (await caller.post(f"/games/{wrong}/invalidate", json={"reason": "the wrong key"})).json()
        export = (await caller.get(f"/batches/{batch}/export", params={"view": "full"})).content
        public = (await caller.get(f"/batches/{batch}/export")).text
    assert "the wrong key" not in public
    file = tmp_path / "games.ndjson"
    file.write_bytes(export)
    told = json.loads(interintent("report", file).stdout)["made_of"]
    assert told["games"] == 1
    assert told["excluded"] == [
        {"game": wrong, "reason": f"marked as invalid {mark['at']} by keyless: the wrong key"}
    ]


def _simulated(file: Path, labels: dict[str, str] | None = None, games: int = 2) -> list[dict[str, Any]]:
    plan = Plan(make_profile("interintent", 5).settings(), SCRIPTED, 7, labels=labels or {})
    file.write_bytes(b"".join(result.lines for result in run(plan, games, keep=True)))
    return [json.loads(line) for line in file.read_bytes().splitlines()]


SCRIPTED = [{"agent": "scripted", "options": {}}] * 5


def test_a_simulated_game_opens_as_an_exported_one_does(tmp_path: Path) -> None:
    lines = _simulated(tmp_path / "games.ndjson", LABELS)
    openings = [line for line in lines if line["type"] == "provenance"]
    assert [(line["game"][:7], line["seed"], line["cell"]) for line in openings] == [
        ("g_sim7_", "7", "direct"),
        ("g_sim8_", "8", "direct"),
    ]
    assert lines[0] == openings[0]
    games = read_games(tmp_path / "games.ndjson")
    assert [game.provenance.as_json(full=True) for game in games if game.provenance] == openings


def test_labels_are_given_to_a_simulation_by_name_and_value(tmp_path: Path) -> None:
    file = tmp_path / "games.ndjson"
    plain = ("simulate", "-n", "1", "--seed", "7", "--out", file)
    assert interintent(*plain, "--label", "cell=a=b", "--label", "study=").exit_code == 0
    assert read_games(file)[0].provenance.labels == {"cell": "a=b", "study": ""}  # type: ignore[union-attr]
    for wrong, why in (
        (["cell"], "name=value"),
        (["=a"], "name=value"),
        ([f"a={'x' * 257}"], "256"),
        (["a=1", "a=2"], "twice"),
    ):
        labels = [part for label in wrong for part in ("--label", label)]
        done = interintent(*plain, "--overwrite", *labels)
        assert (done.exit_code, why in done.output) == (2, True), done.output


def test_a_thought_in_an_export_says_where_it_was_thought(tmp_path: Path) -> None:
    lines = [line for line in _simulated(tmp_path / "games.ndjson", games=1) if line["type"] != "provenance"]
    spoken: dict[tuple[int, int], int] = {}
    thoughts = []
    for line in lines:
        if line["type"] in PLACED:
            thoughts.append(line)
        elif line["type"] == "utterance_made":
            place = (line["round"], line["attempt"])
            for thought in thoughts:
                if thought["seat"] == line["seat"] and thought["type"] == "speech_drafted":
                    assert (thought["round"], thought["attempt"]) == place
                    assert thought["turn"] == spoken.get(place, 0)
                    assert thought["request_id"].split(".")[2] in ("speak", "propose_team")
            spoken[place] = spoken.get(place, 0) + 1
            thoughts = [thought for thought in thoughts if thought["seat"] != line["seat"]]
    explained = [line for line in lines if line["type"] == "choice_explained"]
    assert explained
    for line in explained:
        assert line["request_id"] == f"{line['round']}.{line['attempt']}.{line['about']}.{line['seat']}"
    # They are read as the events they are.
    [game] = read_games(tmp_path / "games.ndjson")
    assert list(game.log) == read_log(lines)


def test_an_older_export_reads_as_before(tmp_path: Path) -> None:
    new, old = tmp_path / "new.ndjson", tmp_path / "old.ndjson"
    lines = _simulated(new)
    old.write_text(
        "\n".join(json.dumps(without_place(line)) for line in lines if line["type"] != "provenance") + "\n"
    )
    before, after = read_games(old), read_games(new)
    assert [(game.id, list(game.log)) for game in before] == [(game.id, list(game.log)) for game in after]
    assert [game.provenance for game in before] == [None, None]
    # What the log itself says of its agents is there all the same.
    [known, _] = before
    made = provenance_of(known.id, known.log)
    assert [agent.agent for agent in made.agents] == ["scripted"] * 5
    assert (made.seed, made.catalogue, made.labels) == ("7", None, {})


def test_a_model_that_was_served_in_two_versions_is_told(tmp_path: Path) -> None:
    file = tmp_path / "games.ndjson"
    lines = _simulated(file)
    for number, line in enumerate(line for line in lines if line["type"] == "provenance"):
        line["agents"][0] |= {"agent": "llm", "endpoint": "small", "served": [f"small-{number}"]}
    file.write_text("\n".join(map(json.dumps, lines)))
    told = json.loads(interintent("report", file).stdout)
    assert "small was served by 2 models (small-0, small-1): its figures pool them." in told["notes"]


@pytest.mark.parametrize("broken", [{}, {"game": "g_1"}, {"game": "g_1", "names": 3}])
def test_a_broken_line_is_named(broken: dict[str, Any]) -> None:
    with pytest.raises(CorruptLog, match="provenance"):
        Provenance.read(broken)


def test_a_public_line_holds_nothing_that_twins_differ_in(tmp_path: Path) -> None:
    _simulated(tmp_path / "games.ndjson", LABELS)
    [game, _] = read_games(tmp_path / "games.ndjson")
    one = game.provenance
    assert one is not None
    other = replace(one, seed="8", agents=one.agents[::-1], labels={}, defaults={}, prices={"x": {}})
    assert one.line(full=False) == other.line(full=False)
    assert one.line(full=True) != other.line(full=True)
    assert json.loads(one.line(full=False)).keys() == PUBLIC_FIELDS
