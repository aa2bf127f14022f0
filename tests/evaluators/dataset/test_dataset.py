"""A data set is read by other people's tools without a line of ours, and says what the report says."""

import asyncio
import gc
import json
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet
import pytest
from sqlalchemy import update

from app.models.recording import AnswersFile
from app.store.tables import games as stored_games
from engine.actions import Reconsider, SeatAction
from engine.events import ActionDefaulted, TeamConfirmed, TeamProposed, UtteranceMade
from engine.intentions import IMPACTFUL_RELEASE
from engine.profile import make_profile
from engine.rules import Request
from engine.state import State
from evaluators.dataset.columns import TABLES
from evaluators.dataset.rows import game_rows
from evaluators.dataset.writing import TableWriter, file_of
from evaluators.ground.turns import read_game
from tests.app.calling import PROJECT, calling
from tests.app.evaluations.test_evaluations_api import deal, judged
from tests.app.modelling import DIRECT, calling_with, faking
from tests.app.typed import interintent
from tests.evaluators.dataset.making import CELLS, Made, make, read, write
from tests.evaluators.scripted_games import played, scripted_game
from tests.evaluators.talk import by_hand, log_by_hand

Frames = Callable[[str], pandas.DataFrame]
Group = tuple[str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("study"))


def table(made: Made, name: str) -> pandas.DataFrame:
    return pandas.read_parquet(made.folder / f"{name}.parquet")


# --- other people's tools ---------------------------------------------------------------------------


def test_four_tools_read_the_same(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    import datasets
    import duckdb
    import polars

    cache = str(tmp_path / "cache")
    games = read(made.games)
    for name, expected in (
        ("turns", [turn.text for game in games for turn in game.turns]),
        ("games", [game.winner.value for game in games]),
    ):
        column = {"turns": "speech", "games": "winner"}[name]
        file = made.folder / f"{name}.parquet"
        loaded = datasets.load_dataset(str(made.folder), name, split="train", cache_dir=cache)
        assert loaded[column][:] == expected
        assert pandas.read_parquet(file)[column].tolist() == expected
        assert polars.read_parquet(file)[column].to_list() == expected
        assert [row[0] for row in duckdb.sql(f"SELECT {column} FROM '{file}'").fetchall()] == expected
    default = datasets.load_dataset(str(made.folder), cache_dir=cache)
    assert default["train"].num_rows == sum(len(game.turns) for game in games)
    # Tables without rows are files, but no configurations: that tool takes them for faults.
    known = datasets.get_dataset_config_names(str(made.folder))
    assert set(known) == {spec.name for spec in TABLES} - {"calls"}


@pytest.mark.filterwarnings("ignore")  # of that library itself
def test_croissant_is_valid_and_gives_the_records(made: Made) -> None:
    import mlcroissant

    described = mlcroissant.Dataset(jsonld=str(made.folder / "croissant.json"))
    assert not described.metadata.issues.errors
    values = json.loads((made.folder / "croissant.json").read_text())
    assert {name for name in values if name.startswith("rai:")} >= {
        *("rai:dataCollection", "rai:dataBiases", "rai:dataLimitations", "rai:dataUseCases"),
        "rai:personalSensitiveInformation",
    }
    assert {records["name"] for records in values["recordSet"]} == {spec.name for spec in TABLES}
    first = next(iter(described.records("turns")))
    assert first["turns/speech"].decode() == table(made, "turns").speech[0]
    assert first["turns/team"] == table(made, "turns").team[0].tolist()


def test_the_card_explains_every_column_of_every_table(made: Made) -> None:
    card = (made.folder / "README.md").read_text()
    for spec in TABLES:
        schema = pyarrow.parquet.read_schema(made.folder / f"{spec.name}.parquet")
        assert schema.names == [column.name for column in spec.columns], spec.name
        for column in spec.columns:
            assert f"| `{column.name}` | {column.type} |" in card
            about = schema.field(column.name).metadata
            assert about[b"description"].decode() == column.meaning
            assert about[b"seen_by"].decode() == column.seen_by
    assert "No licence was given" in card
    assert "\nlicense:" not in card
    assert "llm small-1@small paper" in card


def test_two_served_versions_of_a_model_are_told_apart_and_named(made: Made, tmp_path: Path) -> None:
    assert "was served as" not in (made.folder / "README.md").read_text()
    text = made.games.read_text().splitlines()
    half = len(text) // 2
    newer = [line.replace('"served": ["small-1"]', '"served": ["small-2"]') for line in text[half:]]
    (tmp_path / "games.ndjson").write_text("\n".join([*text[:half], *newer]))
    done = interintent("dataset", tmp_path / "data", tmp_path / "games.ndjson")
    assert done.exit_code == 0, done.output
    assert "**small-1 was served as small-1, small-2**" in (tmp_path / "data" / "README.md").read_text()
    turns = pandas.read_parquet(tmp_path / "data" / "turns.parquet")
    versions = turns.groupby(["model", "served"]).game_id.nunique()
    assert set(versions.index) == {("small-1", "small-1"), ("small-1", "small-2")}
    assert versions.sum() == 6
    assert turns[turns.agent == "scripted"].served.isna().all()


def test_a_licence_is_named_everywhere_once_it_is_given(made: Made, tmp_path: Path) -> None:
    write(made, tmp_path / "data", "--license", "cc-by-4.0")
    for name in ("README.md", "CITATION.cff", "croissant.json"):
        assert "cc-by-4.0" in (tmp_path / "data" / name).read_text(), name
    assert "No licence" not in (tmp_path / "data" / "README.md").read_text()


def test_written_twice_it_is_equal_in_every_byte(made: Made, tmp_path: Path) -> None:
    write(made, tmp_path / "data")
    files = sorted(path.name for path in made.folder.iterdir())
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == files
    for name in files:
        assert (tmp_path / "data" / name).read_bytes() == (made.folder / name).read_bytes(), name


# --- rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", TABLES, ids=lambda spec: spec.name)
def test_a_key_names_one_row(made: Made, spec: Any) -> None:
    rows = table(made, spec.name)
    assert spec.name == "calls" or len(rows)
    assert not rows.duplicated(list(spec.key)).any()


def test_a_turn_holds_what_its_seat_recorded_and_what_became_of_it(made: Made) -> None:
    turns = {(row.game_id, row.request_id): row for row in table(made, "turns").itertuples()}
    for game in read(made.games):
        for turn in game.turns:
            row = turns[game.id, turn.request_id]
            assert (row.speech, row.role, row.side) == (
                turn.text,
                game.role(turn.seat).value,
                game.side(turn.seat).value,
            )
            if turn.final is not None:
                assert list(row.intentions) == [choice.id for choice in turn.final.chosen]
                gold = {choice.id for choice in turn.final.chosen} & IMPACTFUL_RELEASE
                assert (set() if row.gold is None else set(row.gold)) == gold
            if turn.first is not None and turn.first.draft is not None:
                assert (row.draft_think, row.draft) == (turn.first.draft.think, turn.first.draft.speak)
            assert row.won == (game.side(turn.seat) is game.winner)
    contexts = table(made, "contexts").set_index("context_id").text
    row = next(iter(turns.values()))
    assert f"seat {row.seat}" in contexts[row.context_id].lower()
    assert row.speech not in contexts[row.context_id]


def test_a_missed_shot_is_a_shot_and_no_hit() -> None:
    [row] = game_rows(by_hand({}))["games"]
    assert (row["ending"], row["shots"], row["hits"]) == ("merlin_survived", 1, 0)


def test_a_team_in_another_order_is_not_changed() -> None:
    log = [
        replace(event, team=event.team[::-1]) if isinstance(event, TeamConfirmed) and event.team else event
        for event in log_by_hand({})
    ]
    assert {row["changed"] for row in game_rows(read_game("g", log))["votes"]} == {False}

    def other(game: State, request: Request) -> SeatAction | None:
        return Reconsider((1, 3), "not 2") if request.id == "1.1.reconsider.1" else None

    rows = game_rows(read_game("g", log_by_hand({}, other)))["votes"]
    assert {row["round"] for row in rows if row["changed"]} == {1}


def test_a_turn_has_the_team_that_was_proposed_before_it() -> None:
    game = scripted_game(5)
    teams: list[list[int]] = []
    last: list[int] = []
    for event in game.log:
        if isinstance(event, TeamProposed):
            last = list(event.team)
        elif isinstance(event, UtteranceMade) and event.phase == "discuss":
            teams.append(last)
    assert [row["team"] for row in game_rows(game)["turns"]] == teams
    # Where all speak before the leader proposes, there is none yet.
    before = read_game("g", played(make_profile("official", 7), 5).log)
    assert {tuple(row["team"]) for row in game_rows(before)["turns"]} == {()}


@pytest.mark.parametrize(("defaults", "excluded"), [(2, None), (3, "defaults")])
def test_a_game_with_exactly_five_per_cent_of_defaults_is_not_excluded(
    defaults: int, excluded: str | None
) -> None:
    # Three rounds of one proposal, four speeches, one reconsideration and five ballots, and seven cards: 40
    # decisions. Where models sat is unknown, so that defaults because of a model count, of all decisions.
    log = log_by_hand({}, summaries=False, assassination="none")
    log[-1:-1] = [ActionDefaulted(seat, f"1.1.vote.{seat}", "model_error") for seat in range(1, 1 + defaults)]
    [row] = game_rows(read_game("g", log))["games"]
    assert (row["decisions"], row["defaulted"], row["excluded"]) == (40, defaults, excluded)


def test_items_refer_to_contexts_that_are_there_once(made: Made) -> None:
    items, contexts = table(made, "items"), table(made, "contexts")
    assert set(items.context_id) <= set(contexts.context_id)
    assert len(contexts) < len(items)
    assert not contexts.text.duplicated().all()
    assert set(table(made, "answers").item_id) <= set(items.item_id)


# --- figures ----------------------------------------------------------------------------------------


def _f1(matched: float, predicted: float, gold: float) -> float:
    return 2 * matched / (predicted + gold)


def _matched(rows: pandas.DataFrame) -> tuple[int, int, int]:
    pairs = [(set(named), set(gold)) for named, gold in zip(rows.named, rows.gold, strict=True)]
    return (
        sum(len(named & gold) for named, gold in pairs),
        sum(len(named) for named, _ in pairs),
        sum(len(gold) for _, gold in pairs),
    )


def recomputed(made: Made, cell: str, model: str | None) -> dict[str, float]:
    """Ten figures of one preset by plain pandas: of the seats of one model, or of all seats."""
    games = table(made, "games").query("cell == @cell and excluded.isna()")
    own = table(made, "seats").merge(games[["game_id"]])
    seats = own if model is None else own[own.model == model]
    keys = seats[["game_id", "seat"]]
    turns = table(made, "turns").merge(keys)
    beliefs = table(made, "beliefs").merge(keys)
    named = table(made, "beliefs").groupby("game_id").intentions.agg(lambda all_: any(map(len, all_)))
    beliefs = beliefs[beliefs.gold.notna() & beliefs.game_id.map(named)].rename(
        columns={"intentions": "named"}
    )
    judged = (
        table(made, "judgements")
        .query("person")
        .merge(turns[["game_id", "request_id", "changed", "modified"]])
    )
    selected = judged[judged.reasonable.notna() & ~((judged.stage == "final") & ~judged.changed)]
    followed = judged.melt(["stage"], ["think", "speak"]).dropna()
    answers = table(made, "answers").merge(table(made, "items"), on=["item_id", "game_id"])
    answers = answers.rename(columns={"intentions": "named"}).merge(keys.rename(columns={"seat": "speaker"}))
    revised = turns[turns.modified]
    figures = {
        "loyal seats won": seats[seats.side == "loyal"].won.mean(),
        "evil seats won": seats[seats.side == "evil"].won.mean(),
        "selection": selected.reasonable.astype(float).mean(),
        "think": followed[followed.variable == "think"].value.mean(),
        "speak": followed[followed.variable == "speak"].value.mean(),
        "changed": revised.changed.mean(),
        "beliefs F1": _f1(*_matched(beliefs)),
        "guessing F1": _f1(*_matched(answers)),
    }
    if model is None:
        quests = table(made, "quests").merge(games[["game_id"]])
        votes = table(made, "votes").merge(games[["game_id"]])
        voted = votes.drop_duplicates(["game_id", "round", "attempt"])
        figures |= {
            "loyal wins": (games.winner == "loyal").mean(),
            "quests succeed": quests[quests.team.map(len) > 0].succeeded.mean(),
            "evil approves": votes[votes.side == "evil"].approve.astype(float).mean(),
            "refuted": turns[turns.refuted.notna()].refuted.gt(0).mean(),
            "teams": len(voted),
        }
    return figures


@pytest.mark.long
def test_plain_pandas_recomputes_ten_figures_of_the_report_by_model_and_preset(
    made: Made, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in made.games.read_text().splitlines()]
    cells = {line["game"]: line["cell"] for line in lines if line["type"] == "provenance"}
    checked = set()
    for cell in CELLS:
        file = tmp_path / f"{cell}.ndjson"
        file.write_text("\n".join(json.dumps(line) for line in lines if cells.get(line["game"]) == cell))
        for model in (None, "small-1"):
            done = interintent(
                *("report", file, "--judgements", made.judgements, "--answers", made.answers),
                *(("--group-by", "agent") if model else ()),
            )
            assert done.exit_code == 0, done.output
            report = json.loads(done.stdout)
            for name, value in recomputed(made, cell, model).items():
                place = OF_GROUPS[name] if model and name in OF_GROUPS else OF_ALL.get(name)
                if place is None or (model and name not in OF_GROUPS):
                    continue
                column = f"llm small-1@small {cell}" if model else place[-1]
                figure = _figure(report, place[0], place[1:-1], column)
                assert figure["value"] == pytest.approx(value, abs=1e-9), (cell, model, name)
                checked.add((cell, model, name))
    for cell in CELLS:
        assert len([one for one in checked if one[0] == cell and one[1] is None]) >= 10
        assert len([one for one in checked if one[0] == cell and one[1]]) >= 6


OF_ALL = {
    "loyal wins": ("results", "win rate", "loyal", "ours"),
    "quests succeed": ("results", "quest win rate", "loyal", "ours"),
    "evil approves": ("play", "approve ballot rate", "evil", "ours"),
    "selection": ("selection", "all", "all", "accuracy"),
    "think": ("following", "think, both stages", "all", "all", "mean"),
    "speak": ("following", "speak, both stages", "all", "all", "mean"),
    "changed": ("correction", "all", "all", "changed"),
    "beliefs F1": ("beliefs", "all", "all", "f1"),
    "guessing F1": ("guessing", "seer", "all", "all", "f1"),
    "refuted": ("hallucination", "all", "all", "speeches with one"),
}
"""Where the report has a figure: table, labels, column."""

OF_GROUPS: dict[str, tuple[str, ...]] = {
    "loyal seats won": ("groups", "seats won as loyal", ""),
    "evil seats won": ("groups", "seats won as evil", ""),
    "selection": ("groups", "selection accuracy", ""),
    "beliefs F1": ("groups", "beliefs: intentions F1", ""),
    "changed": ("groups", "modification changes the choice", ""),
    "guessing F1": ("groups", "guessing F1, seer", ""),
}


def _figure(report: Any, name: str, labels: tuple[str, ...], column: str) -> Any:
    found = next(one for one in report["tables"] if one["name"] == name)
    rows = [row for row in found["rows"] if tuple(row["labels"]) == labels]
    assert rows, (name, labels, [row["labels"] for row in found["rows"]][:8])
    return rows[0]["figures"][column]


def test_what_judges_of_statements_found_stands_beside_what_our_rules_find(made: Made) -> None:
    found = table(made, "statements")
    refuted = found[found.verdict == "refuted"]
    assert set(found.rater) == {"checker"}
    # Every second speech states something, a planted one always; the others have a row without a verdict.
    assert refuted.planted.sum() == len(table(made, "games"))
    assert found[found.verdict.isna()].start.isna().all()
    spoken = refuted[~refuted.planted].merge(
        table(made, "turns")[["game_id", "request_id", "turn", "speech"]],
        on=["game_id", "request_id", "turn"],
    )
    assert len(spoken) == (~refuted.planted).sum() > 0
    assert (spoken.text == spoken.speech.str[:5]).all()
    assert refuted[refuted.planted].text.isna().all()


# --- the command ------------------------------------------------------------------------------------


async def test_a_batch_brings_its_calls_and_its_raters(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    folder = tmp_path / "data"
    seats = [*DIRECT, *[{"agent": "scripted"}] * 4]
    async with faking() as fake, calling_with(fake, url) as caller:
        batch, [game] = await caller.played(seats=seats, labels={"study": "s", "cell": "direct"})
        task = (await deal(caller, "ann", batch=batch, limit=1))["tasks"][0]
        body = {"rater": {"name": "ann"}, "judgements": judged(task)}
        assert (await caller.post("/annotations", json=body)).status_code == 201
        stored = [call async for call in caller.services.models.calls.one_by_one(game)]
    done = await asyncio.to_thread(interintent, "dataset", folder, "--batch", batch, "--database-url", url)
    assert done.exit_code == 0, done.output
    calls = pandas.read_parquet(folder / "calls.parquet")
    assert len(calls) == len(stored) > 0
    assert calls.prompt_tokens.sum() == sum(call.usage.prompt for call in stored)
    assert set(calls.model) == {"fake"}
    [seat] = pandas.read_parquet(folder / "seats.parquet").query("agent == 'llm'").itertuples()
    assert (seat.seat, seat.mechanism, list(seat.served)) == (1, "direct", ["fake"])
    [row] = pandas.read_parquet(folder / "games.parquet").itertuples()
    assert (row.batch_id, row.study, row.cell) == (batch, "s", "direct")
    judgements = pandas.read_parquet(folder / "judgements.parquet")
    assert set(judgements.rater) == {"ann"}
    assert judgements.person.all()


async def test_the_calls_of_simulated_games_come_from_the_file_of_their_answers(tmp_path: Path) -> None:
    games, answers, folder = tmp_path / "games.ndjson", tmp_path / "answers.ndjson", tmp_path / "data"
    agents = "llm,scripted,scripted,scripted,scripted"
    async with faking() as fake:
        done = await asyncio.to_thread(
            interintent,
            *("simulate", "-n", 1, "--seed", 7, "--agents", agents, "--mechanism", "direct", "--out", games),
            *("--model", "fake", "--base-url", f"{fake.url}/v1", "--answers", answers, "--json"),
        )
    assert done.exit_code == 0, done.output
    assert interintent("dataset", folder, games, "--calls", answers).exit_code == 0
    calls = pandas.read_parquet(folder / "calls.parquet")
    told = json.loads(done.stdout[done.stdout.index("{") :])
    assert len(calls) == told["models"][0]["calls"]
    assert calls.prompt_tokens.sum() + calls.completion_tokens.sum() == told["tokens"]
    assert set(calls.game_id) == set(pandas.read_parquet(folder / "games.parquet").game_id)
    # A game of the same seed that no model played has none of them.
    scripts, both = tmp_path / "scripts.ndjson", tmp_path / "both"
    done = await asyncio.to_thread(interintent, "simulate", "-n", 1, "--seed", 7, "--out", scripts)
    assert done.exit_code == 0, done.output
    assert interintent("dataset", both, games, scripts, "--calls", answers).exit_code == 0
    assert len(pandas.read_parquet(both / "games.parquet")) == 2
    assert pandas.read_parquet(both / "calls.parquet").game_id.tolist() == calls.game_id.tolist()
    [seat] = pandas.read_parquet(folder / "seats.parquet").query("agent == 'llm'").itertuples()
    assert (seat.mechanism, seat.model, list(seat.served)) == ("direct", "fake", ["fake"])


TWO = {"mechanism": "two_pass"}


async def test_games_of_the_same_deals_keep_the_calls_of_their_own_condition(tmp_path: Path) -> None:
    async with faking() as fake:
        for mechanism in ("direct", "one_pass"):
            done = await asyncio.to_thread(
                interintent,
                *("simulate", "-n", 1, "--seed", 7, "--agents", "llm", "--mechanism", mechanism),
                *("--model", "fake", "--base-url", f"{fake.url}/v1"),
                *("--out", tmp_path / mechanism, "--answers", tmp_path / f"{mechanism}.answers"),
            )
            assert done.exit_code == 0, done.output
    # Games of the same deal: the same agents say something else, and another mechanism says the same.
    (game,) = read(tmp_path / "direct")
    lines = [json.loads(line) for line in (tmp_path / "direct").read_text().splitlines()[:-1]]
    for name, type_, change in (
        ("g_speech", "utterance_made", lambda event: event | {"text": "No."}),
        (
            "g_mechanism",
            "provenance",
            lambda event: event | {"agents": [one | TWO for one in event["agents"]]},
        ),
    ):
        changed = [change(event) if event["type"] == type_ else event for event in lines]
        text = "".join(f"{json.dumps(event | {'game': name})}\n" for event in changed)
        (tmp_path / name).write_text(text)
    others = ["g_speech", "g_mechanism"]
    (one_pass,) = read(tmp_path / "one_pass")
    sources = [tmp_path / name for name in ("direct", "one_pass", *others)]
    for mechanism, its, without in (
        ("direct", game.id, [one_pass.id, *others]),
        ("one_pass", one_pass.id, [game.id, *others]),
    ):
        folder = tmp_path / f"{mechanism}.data"
        done = interintent("dataset", folder, *sources, "--calls", tmp_path / f"{mechanism}.answers")
        assert done.exit_code == 0, done.output
        assert set(pandas.read_parquet(folder / "calls.parquet").game_id) == {its}
        assert f"without calls to models: 3 × game ({', '.join(without)})" in " ".join(done.stderr.split())
        assert (
            f"- without calls to models: 3 games ({', '.join(without)})" in (folder / "README.md").read_text()
        )


async def test_calls_that_were_put_aside_are_in_no_table(tmp_path: Path) -> None:
    games, answers, folder = tmp_path / "games.ndjson", tmp_path / "answers.ndjson", tmp_path / "data"
    agents = "llm,scripted,scripted,scripted,scripted"
    async with faking() as fake:
        done = await asyncio.to_thread(
            interintent,
            *("simulate", "-n", 1, "--seed", 7, "--agents", agents, "--mechanism", "direct", "--out", games),
            *("--model", "fake", "--base-url", f"{fake.url}/v1", "--answers", answers),
        )
    assert done.exit_code == 0, done.output
    kept = AnswersFile(answers)
    calls = kept.recording.calls("7")
    used = len(calls)
    first = next(iter(calls.values()))
    await kept.keep("7", replace(first, key=await kept.key_of_try("7", first.key)))
    kept.close()
    assert interintent("dataset", folder, games, "--calls", answers).exit_code == 0
    attempts = pandas.read_parquet(folder / "calls.parquet").attempt
    assert len(attempts) == used
    assert attempts.min() == 1


async def test_games_of_a_batch_that_did_not_finish_are_left_out_by_name(tmp_path: Path) -> None:
    url, folder = f"sqlite:///{tmp_path / 'games.sqlite'}", tmp_path / "data"
    async with calling(url) as caller:
        batch, [stays, goes] = await caller.played(count=2)
        async with caller.services.database.write_engine.begin() as connection:
            query = update(stored_games).where(stored_games.c.game_id == goes)
            await connection.execute(query.values(status="cancelled"))
    done = await asyncio.to_thread(interintent, "dataset", folder, "--batch", batch, "--database-url", url)
    assert done.exit_code == 0, done.output
    assert f"passed over: 1 × cancelled ({goes})" in " ".join(done.stderr.split())
    assert "- left out: 1 game, cancelled" in (folder / "README.md").read_text()
    assert list(pandas.read_parquet(folder / "games.parquet").game_id) == [stays]


def test_forks_of_one_game_have_one_origin_and_the_card_counts_them(made: Made, tmp_path: Path) -> None:
    first, second, third, fourth, *_ = (game.id for game in read(made.games))
    sources = {second: first, third: second, fourth: first}
    file = tmp_path / "games.ndjson"
    with file.open("w") as written:
        for text in made.games.read_text().splitlines():
            line = json.loads(text)
            if line["type"] == "provenance" and line["game"] in sources:
                line["forked_from"] = {"game_id": sources[line["game"]], "events": 9}
            if line["game"] != first:  # no game of the data set is the origin
                written.write(json.dumps(line) + "\n")
    assert interintent("dataset", tmp_path / "data", file).exit_code == 0
    games = pandas.read_parquet(tmp_path / "data" / "games.parquet").set_index("game_id")
    assert dict(games.origin[games.forked_from.notna()]) == dict.fromkeys(sources, first)
    others = games[games.forked_from.isna()]
    assert len(others) > 1
    assert (others.origin == others.index).all()
    assert "- **3 games are forks**: " in (tmp_path / "data" / "README.md").read_text()
    assert "are forks**" not in (made.folder / "README.md").read_text()


async def test_forks_of_a_batch_have_one_origin_whatever_lies_between(tmp_path: Path) -> None:
    url, folder = f"sqlite:///{tmp_path / 'games.sqlite'}", tmp_path / "data"
    async with calling(url) as caller:
        _, [origin] = await caller.played()
        batches, made = [], [origin]
        for source in (0, 1, 0):
            wish = {"after": {"request": "1.1.vote.2"}}
            forked = (await caller.post(f"/games/{made[source]}/fork", json=wish)).json()
            made.append(forked["game_id"])
            batches.append(forked["batch_id"])
            await caller.over(batches[-1])
    words = ("--batch", batches[1], "--batch", batches[2], "--database-url", url)
    done = await asyncio.to_thread(interintent, "dataset", folder, *words)
    assert done.exit_code == 0, done.output
    games = pandas.read_parquet(folder / "games.parquet")
    assert dict(zip(games.game_id, games.origin, strict=True)) == dict.fromkeys(made[2:], origin)


def test_older_exports_and_foreign_records_give_what_they_have_and_nulls_for_the_rest(tmp_path: Path) -> None:
    older = PROJECT / "tests" / "old_data" / "first" / "export.ndjson.gz"
    records = sorted((PROJECT / "tests" / "records").glob("*.json"))
    done = interintent("dataset", tmp_path / "data", older, *records)
    assert done.exit_code == 0, done.output
    read_back = {
        spec.name: pandas.read_parquet(tmp_path / "data" / f"{spec.name}.parquet") for spec in TABLES
    }
    for spec in TABLES:
        assert not read_back[spec.name].duplicated(list(spec.key)).any(), spec.name
    games = read_back["games"]
    assert len(games) > len(records)
    assert games.winner.notna().all()
    for unknown in ("batch_id", "study", "server", "model_decisions"):
        assert games[unknown].isna().all(), unknown
    assert read_back["seats"].role.notna().all()
    assert read_back["seats"].agent.isna().all()
    assert len(read_back["beliefs"])


def test_what_is_in_the_way_stays_and_a_failure_leaves_nothing(made: Made, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("keep me")
    for folder, more, why in (
        (mine, ["--overwrite"], "no data set"),
        (made.folder, [], "--overwrite"),
        (tmp_path / "new", ["--reader", "some"], "drawn or all"),
        (tmp_path / "new", ["--judgements", tmp_path / "nothing.csv"], "nothing.csv"),
    ):
        done = interintent("dataset", folder, made.games, *more)
        assert (done.exit_code, why in done.output) == (2, True), done.output
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["mine"]
    assert (mine / "notes.txt").read_text() == "keep me"
    # A public export holds no gold, and so gives no data set.
    public = tmp_path / "public.ndjson"
    lines = [json.loads(line) for line in made.games.read_text().splitlines()]
    public.write_text("\n".join(json.dumps(line) for line in lines if line["type"] != "roles_dealt"))
    done = interintent("dataset", tmp_path / "new", public)
    assert (done.exit_code, "full export" in done.output) == (2, True), done.output


@pytest.mark.parametrize("at", ["opening", "closing", "another fault"])
def test_a_disk_without_room_is_told_once(at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def write() -> None:
        if at == "opening":
            # The last table cannot be begun, and those before it cannot be ended.
            (tmp_path / file_of(TABLES[-1].name)).mkdir()
            resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
        with TableWriter(tmp_path) as writer:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50, limits[1]))
            writer.add({"games": [{}]})
            if at == "another fault":
                raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError if at == "another fault" else OSError):
            write()
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert told == []


def test_a_game_that_comes_twice_stands_once(made: Made, tmp_path: Path) -> None:
    done = interintent("dataset", tmp_path / "data", made.games, made.games)
    assert "given twice" in done.output
    games = pandas.read_parquet(tmp_path / "data" / "games.parquet")
    assert len(games) == len(table(made, "games"))
    assert "given twice" in (tmp_path / "data" / "README.md").read_text()
