"""The command ``ratings`` on files, and on a database without rated games."""

import json
from pathlib import Path

from app.runner.simulate import Plan, run
from engine.profile import make_profile
from tests.app.typed import interintent


def test_agents_of_files_are_rated(tmp_path: Path) -> None:
    file = tmp_path / "games.ndjson"
    seats = [
        {"agent": name, "options": {}} for name in ("scripted", "random", "scripted", "random", "scripted")
    ]
    plan = Plan(make_profile("official", 5).settings(), seats, 3, rotate=True)
    file.write_bytes(b"".join(result.lines for result in run(plan, 40, keep=True)))
    done = interintent("ratings", file, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["games"], told["left_out"]) == (40, {})
    first, second = told["players"]
    assert (first["player"], second["player"]) == ("scripted", "random")
    assert (first["best_rank"], first["worst_rank"], second["best_rank"]) == (1, 1, 2)
    assert first["rating"]["low"] > second["rating"]["high"]
    shown = interintent("ratings", file).stdout
    assert "scripted" in shown
    assert "official, 5 players: loyal wins" in shown


def test_without_games_the_command_says_what_to_do(tmp_path: Path, database_url: str) -> None:
    empty = interintent("ratings", "--database-url", database_url)
    assert empty.exit_code == 2
    assert "no rated game has finished in this database; to rate other games, name files" in empty.stderr
    (file := tmp_path / "none.ndjson").write_text("")
    assert interintent("ratings", file).exit_code == 2
    assert "no such file or directory" in interintent("ratings", tmp_path / "away").stderr
