"""The commands ``replay check``, ``replay show`` and ``metrics``, run as a user runs them."""

import csv
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.testing import Result

from app.files import replays
from app.files.replays import NotJson, parse
from engine.events import payload, type_name
from engine.foreign.replay import read_record, replay
from tests.app.typed import interintent
from tests.records import HERE, NAMES, OURS, REAL, load, needs_real_games


def run(*arguments: str | Path, stdin: bytes = b"") -> Result:
    return interintent(*arguments, stdin=stdin)


def broken(name: str = "forced-team") -> dict[str, Any]:
    record = load(name)
    record["moves"][2]["seat"] = 3
    return record


def line(record: object) -> bytes:
    return json.dumps(record).encode() + b"\n"


def packed(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return path


# --- replay check -------------------------------------------------------------------------------------


def test_our_records_pass() -> None:
    result = run("replay", "check", HERE)
    assert (result.stdout, result.exit_code) == (f"{len(NAMES)} passed, 0 failed\n", 0)


@needs_real_games
def test_the_real_games_pass_and_what_lies_beside_them_is_passed_over() -> None:
    result = run("replay", "check", REAL)
    assert (result.stdout, result.exit_code) == ("12 passed, 0 failed\n", 0)
    assert result.stderr.splitlines() == [
        "2 files passed over",
        f"  {REAL / 'avalon-replay-v1.schema.json'}: not an avalon-replay record",
        f"  {REAL / 'expected.json'}: not an avalon-replay record",
    ]


def test_a_failure_is_one_line_with_file_move_rule_expected_and_found(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(line(broken()))
    result = run("replay", "check", bad, HERE)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{bad}: forced-team: quest 1, attempt 1: move 3: leader: expected 2, found 3",
        f"{len(NAMES)} passed, 1 failed",
    ]


def test_the_report_can_be_read_by_a_machine(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ndjson"
    bad.write_bytes(line(load("ten-players")) + b"\n" + line(broken()))
    result = run("replay", "check", "--json", bad)
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "passed": 1,
        "failed": 1,
        "passed_over": 0,
        "failures": [
            {
                "file": str(bad),
                "member": None,
                "line": 3,
                "record": "forced-team",
                "quest": 1,
                "attempt": 1,
                "move": 3,
                "rule": "leader",
                "expected": "2",
                "found": "3",
            }
        ],
    }


def test_standard_input_is_ndjson() -> None:
    text = b"".join(line(load(name)) for name in NAMES) + line(broken()) + b"\n\n"
    result = run("replay", "check", "-", stdin=text)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"-:{len(NAMES) + 1}: forced-team: quest 1, attempt 1: move 3: leader: expected 2, found 3",
        f"{len(NAMES)} passed, 1 failed",
    ]


def test_archives_are_read_as_a_stream(tmp_path: Path) -> None:
    path = packed(
        tmp_path / "games.tar.gz",
        {
            **{f"games/{path.name}": path.read_bytes() for path in OURS},
            "games/all.ndjson": line(load("ten-players")) + line(broken()),
            "games/._forced-team.json": b"\x00\x05\x16\x07",
            "games/readme.txt": b"not JSON",
            "games/summary.json": b'{"about": "the games beside this"}',
            "../../outside.json": line(broken()),
        },
    )
    result = run("replay", "check", path)
    assert result.stdout.splitlines() == [
        f"{path}!games/all.ndjson:2: forced-team: quest 1, attempt 1: move 3: leader: expected 2, found 3",
        f"{path}!../../outside.json: forced-team: quest 1, attempt 1: move 3: leader: expected 2, found 3",
        f"{len(NAMES) + 1} passed, 2 failed",
    ]
    assert result.stderr.splitlines() == [
        "1 file passed over",
        f"  {path}!games/summary.json: not an avalon-replay record",
    ]
    assert sorted(tmp_path.iterdir()) == [path]


def test_directories_are_searched_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b/deep/2.json", "a/1.jsonl", ".hidden/3.json", "b/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(line(broken()))
    packed(tmp_path / "c.tgz", {"x.json": line(broken())})
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "nowhere.json").symlink_to(tmp_path / "gone")
    result = run("replay", "check", tmp_path)
    where = [text.split(":")[0].removeprefix(f"{tmp_path}/") for text in result.stdout.splitlines()]
    assert where == ["c.tgz!x.json", "a/1.jsonl", "b/deep/2.json", "0 passed, 3 failed"]


def test_joined_files_with_byte_order_marks_are_read_alike_by_every_command(tmp_path: Path) -> None:
    joined = tmp_path / "joined.ndjson"
    mark = "\ufeff".encode()
    log = export("last-team-goes", "g_1")
    joined.write_bytes(mark + line(load("forced-team")) + mark + line(load("ten-players")) + mark + log)
    told = run("report", joined, "--out", tmp_path / "r.json")
    assert (told.exit_code, told.stdout) == (0, f"3 games in {tmp_path / 'r.json'}\n"), told.stderr
    assert "passed over" not in told.stderr
    assert "3 games" in run("metrics", joined).stdout
    assert run("replay", "show", joined, "--game", "ten-players").exit_code == 0
    joined.write_bytes(mark + line(load("forced-team")) + mark + line(load("ten-players")))
    assert run("replay", "check", joined).stdout == "2 passed, 0 failed\n"


def test_games_of_ours_are_told_apart_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "game.json").write_bytes(line(load("ten-players")))
    ours = tmp_path / "ours.ndjson"
    ours.write_bytes(export("forced-team", "g_1"))
    times = ours.read_bytes().count(b"\n")
    result = run("replay", "check", tmp_path)
    assert (result.stdout, result.exit_code) == ("1 passed, 0 failed\n", 0)
    assert result.stderr.splitlines() == [
        "1 file passed over",
        f"  {ours}: not an avalon-replay record ({times} times)",
    ]
    told = json.loads(run("replay", "check", "--json", tmp_path).stdout)
    assert (told["passed_over"], len(told["passed_over_files"])) == (1, 1)
    result = run("replay", "check", ours)
    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr == (
        f"interintent: {ours}:1: this is a game of ours; replay check takes only avalon-replay records, "
        "while replay show, metrics and report take both\n"
    )


def test_what_is_found_and_is_no_record_is_passed_over_but_fails_when_named(tmp_path: Path) -> None:
    other = tmp_path / "settings.json"
    other.write_text('{"title": "avalon-replay v1"}')
    (tmp_path / "game.json").write_bytes(line(load("ten-players")))
    assert run("replay", "check", tmp_path).stdout == "1 passed, 0 failed\n"
    result = run("replay", "check", other)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == f"{other}: form at /: expected the key schema, found nothing"


def test_a_found_record_that_lost_its_schema_fails(tmp_path: Path) -> None:
    record = load("ten-players")
    del record["schema"]
    (tmp_path / "game.json").write_bytes(line(record))
    result = run("replay", "check", tmp_path)
    assert (result.stdout.splitlines()[-1], result.exit_code) == ("0 passed, 1 failed", 1)


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\t\n",
    "binary": bytes(range(256)),
    "utf-16": '{"schema": "avalon-replay/1"}'.encode("utf-16"),
    "words": b"not json\n",
    "two values": line({}) + line({}),
    "cut off": json.dumps(load("ten-players")).encode()[:-40],
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nan": line(load("ten-players")).replace(b'"fails": 0', b'"fails": NaN', 1),
    "infinity": b'{"schema": -Infinity}',
    "twice": b'{"schema": "avalon-replay/1", "schema": "avalon-replay/1"}',
    "surrogate": line(load("ten-players")).replace(b'"Ada"', b'"\\ud800"', 1),
    "nul": line(load("ten-players")).replace(b'"Ada"', b'"\\u0000"', 1),
    "many digits": b'{"schema": ' + b"9" * 10_000 + b"}",
    "large exponent": line(load("ten-players")).replace(b'"quest": 1', b'"quest": 1e999', 1),
    "null": b"null",
    "list": b"[]",
    "ten megabytes": b"x" * 10_000_000,
    "ten megabytes of JSON": b"[" + b"0," * 5_000_000 + b"0]",
    "long key": json.dumps({"schema": "avalon-replay/1", "k" * 1_000_000: 1}).encode(),
    "newline in a value": json.dumps({"schema": "avalon\n\x1b[2J-replay/1"}).encode(),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_nonsense_is_one_line_of_failure(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "nonsense.json"
    path.write_bytes(HOSTILE[kind])
    result = run("replay", "check", path)
    assert result.exit_code == 1
    first, last = result.stdout.splitlines()
    assert last == "0 passed, 1 failed"
    assert first.startswith(f"{path}: ")
    assert " expected " in first
    assert " found " in first
    assert len(first) < 1000
    assert first.isprintable()


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip", "no tar", "garbage inside"])
def test_a_damaged_archive_is_one_line_of_failure(damage: str, tmp_path: Path) -> None:
    path = packed(tmp_path / "games.tar.gz", {path.name: path.read_bytes() for path in OURS})
    whole = path.read_bytes()
    plain = gzip.decompress(whole)
    second = 512 + -(-OURS[0].stat().st_size // 512) * 512
    path.write_bytes(
        {
            "cut": whole[: len(whole) // 2],
            "flipped": whole[:-8] + b"\0\0\0\0" + whole[-4:],
            "no gzip": b"nonsense" * 100,
            "no tar": gzip.compress(b"nonsense" * 1000),
            # Where the second member's header should stand.
            "garbage inside": gzip.compress(plain[:second] + b"\xff" * 512 + plain[second + 512 :]),
        }[damage]
    )
    result = run("replay", "check", path)
    assert result.exit_code == 1
    assert f"{path}: reading: expected a whole .tar.gz archive, found " in result.stdout


def test_an_archive_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "MAX_DOCUMENT", 1 << 20)
    path = packed(
        tmp_path / "bomb.tar.gz",
        {
            "huge.json": b" " * (3 << 20),
            "huge.ndjson": b" " * (3 << 20) + b"\n" + line(load("ten-players")),
            "good.json": line(load("ten-players")),
        },
    )
    result = run("replay", "check", path)
    assert result.stdout.splitlines() == [
        f"{path}!huge.json: size: expected at most 1 MiB, found more",
        f"{path}!huge.ndjson:1: size: expected at most 1 MiB, found more",
        "2 passed, 2 failed",
    ]


def test_an_archives_header_cannot_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "header.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("x" * (2 << 20)))
    result = run("replay", "check", path)
    assert "extended header of" in result.stdout
    assert result.exit_code == 1


def test_a_file_name_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = packed(tmp_path / "games.tar.gz", {"a\n\x1b[31m.json": line(broken())})
    first, _ = run("replay", "check", path).stdout.splitlines()
    said = "forced-team: quest 1, attempt 1: move 3: leader: expected 2, found 3"
    assert first == f"{path}!a\\u000a\\u001b[31m.json: {said}"


@pytest.mark.parametrize("command", [("replay", "check"), ("metrics",)])
def test_nothing_to_judge_is_an_error_of_its_own(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.json").write_text("{}")
    (tmp_path / "empty.ndjson").write_text("\n\n")
    for name in ("empty", "other", "empty.ndjson"):
        result = run(*command, tmp_path / name)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1] == f"no records found in {tmp_path / name}"
    result = run(*command, tmp_path / "missing")
    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr == f"interintent: no such file or directory: {tmp_path / 'missing'}\n"


def test_a_missing_path_is_noticed_before_anything_is_replayed(tmp_path: Path) -> None:
    result = run("replay", "check", HERE, tmp_path / "missing")
    assert (result.stdout, result.exit_code) == ("", 2)


# --- metrics ------------------------------------------------------------------------------------------


@needs_real_games
def test_metrics_of_the_real_games_are_those_expected() -> None:
    result = run("metrics", REAL, "--json", "--no-intervals")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    told.pop("rule_sets", None)
    assert told == json.loads((REAL / "expected.json").read_text())["metrics_all_12"]


def test_only_games_that_follow_the_rules_are_counted(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(line(broken()))
    result = run("metrics", HERE, bad, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["games"] == len(NAMES)
    *told, sets = result.stderr.splitlines()
    assert told == [
        f"{bad}: forced-team: quest 1, attempt 1: move 3: leader: expected 2, found 3",
        "1 failed and are not counted",
    ]
    assert sets.startswith(
        "8 rule sets are pooled (set apart with --group-by rules): replay, 10 players, roles="
    )
    # Of as many players, but with another end.
    assert "; replay, 5 players, assassination=after_any_quest: 3; " in sets
    assert run("metrics", HERE, bad, "--json", "--skip-failed").exit_code == 0


def test_metrics_of_groups_add_up_to_those_of_all() -> None:
    told = json.loads(run("metrics", HERE, "--json", "--group-by", "players").stdout)
    groups = told["groups"]
    assert list(groups) == ["10 players", "5 players", "6 players", "7 players"]
    for name in ("loyal_win_rate", "approve_ballot_rate_evil"):
        for part in ("num", "den"):
            assert sum(group[name][part] for group in groups.values()) == told[name][part]
    assert groups["5 players"]["intervals"]["win rate"]["loyal"]["games"] == 6
    # Ballots of one game hang together, so their interval is over games; who won is one trial a game.
    ballots = told["intervals"]["approve ballot rate"]["loyal"]
    assert (ballots["method"], ballots["games"]) == ("wilson, design effect", len(NAMES))
    assert (ballots["num"], ballots["den"]) == tuple(
        told["approve_ballot_rate_loyal"][part] for part in ("num", "den")
    )
    assert ballots["design_effect"] > 0
    assert told["intervals"]["win rate"]["loyal"]["method"] == "wilson"
    sides = json.loads(run("metrics", HERE, "--json", "--group-by", "side").stdout)["groups"]
    assert sides["loyal"]["approve_ballot_rate_loyal"] == told["approve_ballot_rate_loyal"]
    assert sides["loyal"]["approve_ballot_rate_evil"]["den"] == sides["loyal"]["games"] == 0
    refused = run("metrics", HERE, "--group-by", "mood").stderr
    assert "no game has a column 'mood' to group by; columns are profile, rules" in refused
    assert "no column is called" in run("metrics", HERE, "--group-by", "a b").stderr


def test_metrics_are_those_of_a_report_of_our_own_games(tmp_path: Path) -> None:
    games = tmp_path / "games.ndjson"
    run("simulate", "-n", "4", "--agents", "scripted", "--label", "mood=calm", "--out", games)
    told = json.loads(run("metrics", games, "--json", "--group-by", "mood").stdout)
    report = json.loads(run("report", games).stdout)
    (play,) = [table for table in report["tables"] if table["name"] == "play"]
    for row in play["rows"]:
        metric, side = row["labels"]
        ours = told["intervals"].get(metric, {}).get(side)
        if ours is not None and "share" in row["figures"]:
            theirs = row["figures"]["share"]
            assert {name: ours[name] for name in ("value", "low", "high")} == {
                name: theirs[name] for name in ("value", "low", "high")
            }
    assert told["intervals"] == told["groups"]["calm"]["intervals"]
    written = run("metrics", games, "--csv", "--group-by", "mood").stdout
    lines = {(one["group"], one["metric"], one["side"]): one for one in csv.DictReader(written.splitlines())}
    assert {group for group, _, _ in lines} == {"all", "calm"}
    wins = lines["calm", "win rate", "loyal"]
    assert float(wins["low"]) == told["intervals"]["win rate"]["loyal"]["low"]
    assert (float(wins["den"]), float(wins["GPT-4"])) == (4, 0.4)
    # What a report leaves out is not counted here either, and a public export has no deal.
    hidden = '"type":"roles_dealt"', '"type":"provenance"'
    kept = [text for text in games.read_text().splitlines(True) if not any(word in text for word in hidden)]
    (tmp_path / "public.ndjson").write_text("".join(kept))
    result = run("metrics", tmp_path / "public.ndjson")
    assert result.exit_code == 2
    assert "4 games left out: no deal in it" in result.stderr


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_game_and_what_was_played_anew_in_its_place_count_once(tmp_path: Path, newest_first: bool) -> None:
    file = tmp_path / "games.ndjson"
    run("simulate", "-n", "2", "--seed", "1", "--out", file)
    old, other = _games(file)
    marked = {"at": "2026-01-01", "by": "k", "reason": "a wrong key"}
    again = _again(old, "again", batch="b_1", source=old[0]["game"])
    third = _again(old, "third", batch="b_1", source="again")
    fork = _again(old, "fork", batch="b_2", source=old[0]["game"])
    old, other = (_again(game, game[0]["game"], batch="b_1") for game in (old, other))
    spare = "played anew in place of a game that counts"
    for games, counted, spares in (
        ([old, other, again, third, fork], 3, {"again", "third"}),
        ([[old[0] | {"invalid": marked}, *old[1:]], other, again, third], 2, {"third"}),
    ):
        ordered = games[::-1] if newest_first else games
        file.write_text("".join(json.dumps(line) + "\n" for game in ordered for line in game))
        result = run("metrics", "--json", file)
        assert json.loads(result.stdout)["games"] == counted
        assert f"{len(spares)} game{'s' * (len(spares) > 1)} left out: {spare}" in result.stderr
        report = tmp_path / "report.json"
        run("report", file, "--out", report)
        assert json.loads(report.read_text())["made_of"]["games"] == counted
        folder = tmp_path / "set"
        assert run("dataset", folder, file, "--overwrite").exit_code == 0
        rows = pyarrow.parquet.read_table(folder / "games.parquet").to_pylist()
        assert {row["game_id"] for row in rows if row["excluded"] == "anew"} == spares
        assert sum(row["excluded"] is None for row in rows) == counted


def _games(file: Path) -> list[list[dict[str, Any]]]:
    """The lines of each game of a file."""
    games: list[list[dict[str, Any]]] = []
    for text in file.read_text().splitlines():
        row = json.loads(text)
        if row.get("type") == "provenance":
            games.append([])
        if "type" in row:  # not the signature of the file
            games[-1].append(row)
    return games


def _again(
    game: list[dict[str, Any]], name: str, *, batch: str, source: str | None = None
) -> list[dict[str, Any]]:
    """The same game under another name, in a batch, perhaps as a fork."""
    origin = None if source is None else {"game_id": source, "events": 9}
    first, *rest = ({**row, "game": name} for row in game)
    return [{**first, "batch_id": batch, "forked_from": origin}, *rest]


def test_metrics_make_a_table_with_the_published_figures() -> None:
    table = run("metrics", HERE).stdout
    assert f"{len(NAMES)} games" in table
    assert "18.0" in table
    assert "4/10" in table


# --- replay show --------------------------------------------------------------------------------------


def export(name: str, game: str, keep: Callable[[Any], bool] = lambda event: True) -> bytes:
    log = [event for event in replay(read_record(load(name))).log if keep(event)]
    return b"".join(
        line(
            {
                "seq": seq,
                "at": "2025-01-01T00:00:00.000Z",
                "type": type_name(event),
                "game": game,
                **payload(event),
            }
        )
        for seq, event in enumerate(log, 1)
    )


def test_a_record_is_shown_in_its_own_numbering() -> None:
    result = run("replay", "show", HERE / "ten-players.json")
    assert result.exit_code == 0
    assert "1.1 seat 9 Jon leads" in result.stdout
    assert "EVIL WINS: merlin assassinated" in result.stdout


def test_a_seats_eyes_count_as_the_text_does() -> None:
    own = run("replay", "show", HERE / "ten-players.json", "--viewer", "seat:1").stdout
    assert "1 Ben is merlin, sees 0, 3, 6, 8" in own
    assert "2 Cleo is servant" not in own
    result = run("replay", "show", HERE / "ten-players.json", "--viewer", "seat:10")
    assert result.exit_code == 2
    assert "seat:0 to seat:9" in result.stderr
    public = run("replay", "show", HERE / "ten-players.json", "--viewer", "public").stdout
    assert " is merlin" not in public


def test_our_own_logs_are_shown_counting_from_one(tmp_path: Path) -> None:
    path = tmp_path / "games.ndjson"
    end = line({"t": "export.end", "games": 2, "events": 9, "sha256": ""})
    path.write_bytes(export("ten-players", "g_a") + export("forced-team", "g_b") + end)
    first = run("replay", "show", path)
    assert "1.1 seat 10 Jon leads" in first.stdout
    assert first.stderr == "showing game g_a, the first of several; --game names another\n"
    second = run("replay", "show", path, "--game", "g_b")
    assert "2.3 seat 1 Ada leads" in second.stdout
    assert second.stderr == ""
    seat = run("replay", "show", path, "--game", "g_b", "--viewer", "seat:1")
    assert "1 Ada is merlin, sees 2, 4" in seat.stdout
    assert run("replay", "show", "-", stdin=path.read_bytes()).stdout == first.stdout


def test_a_public_export_is_shown_as_far_as_it_goes() -> None:
    text = export("forced-team", "g_a", lambda event: event.seen_by == "public")
    result = run("replay", "show", "-", stdin=text)
    assert result.exit_code == 0
    assert "LOYAL WINS" in result.stdout
    assert "is merlin, sees" not in result.stdout


def test_one_of_many_records_is_shown_by_its_id() -> None:
    text = line(broken()) + b"".join(line(load(name)) for name in NAMES)
    result = run("replay", "show", "-", "--game", "no-shot-taken", stdin=text)
    assert "the shooter holds fire" in result.stdout
    assert run("replay", "show", "-", stdin=text).exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"null",
        line(broken()),
        line({"type": "vote_cast", "game": "g", "seat": 1, "approve": True}),
        line({"type": "nothing_of_ours", "game": "g"}),
        line({"type": "game_created", "game": "g", "profile": {}, "names": {}}),
        export("forced-team", "g") + line({"type": "vote_cast", "game": "g"}),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(text: bytes) -> None:
    result = run("replay", "show", "-", stdin=text)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


def test_thoughts_are_left_out_on_request() -> None:
    path = HERE / "forced-team.json"
    assert "I watch both" in run("replay", "show", path).stdout
    assert "I watch both" not in run("replay", "show", path, "--no-thoughts").stdout


def test_what_is_packed_within_an_archive_is_named(tmp_path: Path) -> None:
    record = (HERE / f"{NAMES[0]}.json").read_bytes()
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("one.json", record)
    outer = tmp_path / "outer.zip"
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
        archive.writestr("more/two.json.gz", gzip.compress(record))
        archive.writestr("three.json", record)
    twice = tmp_path / "twice.json.gz"
    twice.write_bytes(gzip.compress(gzip.compress(record)))
    tarred = tmp_path / "games.tar.gz"
    with tarfile.open(tarred, "w:gz") as archive:
        header = tarfile.TarInfo("inner.tgz")
        header.size = len(inner.getvalue())
        archive.addfile(header, io.BytesIO(inner.getvalue()))
    result = run("replay", "check", outer, twice, tarred)
    assert (result.stdout, result.exit_code) == ("1 passed, 0 failed\n", 0)
    assert result.stderr.splitlines() == [
        "4 files passed over",
        f"  {outer}!inner.zip: packed once more: unpack it first",
        f"  {outer}!more/two.json.gz: packed once more: unpack it first",
        f"  {twice}: packed once more: unpack it first",
        f"  {tarred}!inner.tgz: packed once more: unpack it first",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nothing"),
        ("{", "an end before the value was complete at line 1, column 2"),
        ('{"a": }', "something that is not a value at line 1, column 7"),
        ("{a: 1}", "a key without double quotes at line 1, column 2"),
        ('{"a" 1}', "a key without a colon after it at line 1, column 6"),
        ("[1 2]", "two values without a comma between them at line 1, column 4"),
        ("{} {}", "more after the value at line 1, column 4"),
        ('"a', "a string without its closing quote at line 1, column 1"),
        ('"\\x"', "a backslash that escapes nothing at line 1, column 2"),
        ('"\\u12"', "a \\u without four hexadecimal digits after it at line 1, column 3"),
        ("[" * 200_000, "values nested too deeply"),
        ("1" * 5_000, "a number with too many digits"),
    ],
)
def test_what_is_no_json_is_told_in_plain_words(text: str, found: str) -> None:
    with pytest.raises(NotJson) as fault:
        parse(text.encode())
    assert str(fault.value) == found
