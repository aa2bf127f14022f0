"""A static site holds what its eyes see, runs nothing but its own script, and is equal for equal games."""

import base64
import hashlib
import re
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from app.cli.main import command_line
from app.files.site import LoggedGame, SiteWriter
from engine.events import payload, type_name
from engine.terms import FULL, PUBLIC
from engine.view import project
from tests.app.cage import Cage, caged

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def _pages(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.html"))}


def _export(path: Path, games: dict[str, list[object]]) -> None:
    lines = [
        {"seq": seq, "type": type_name(event), "game": game, **payload(event)}  # type: ignore[arg-type]
        for game, log in games.items()
        for seq, event in enumerate(log, 1)
    ]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")


def test_a_public_site_of_full_logs_holds_no_hidden_word_and_only_the_publics_events(tmp_path: Path) -> None:
    cage = Cage()
    logs = {"g_over": caged(cage, 1, None).log, "g_begun": caged(cage, 2, 9).log}
    _export(tmp_path / "games.ndjson", logs)
    for eyes, viewer in (("public", PUBLIC), ("full", FULL)):
        out = tmp_path / eyes
        done = CliRunner().invoke(
            command_line("view"), ["view", str(tmp_path / "games.ndjson"), "--out", str(out), "--eyes", eyes]
        )
        assert done.exit_code == 0, done.output
        pages = _pages(out)
        assert len(pages) == 3
        held = {word for word in cage.owners for page in pages.values() if word in page}
        assert held == (set() if eyes == "public" else set(cage.owners))
        for name, page in pages.items():
            data = orjson.loads(DATA.findall(page)[0])
            if name == "index.html":
                assert [game["game"] for game in data["games"]] == ["g_over", "g_begun"]
                assert [game["winner"] is None for game in data["games"]] == [False, True]
                continue
            seen = project(logs[data["game"]], viewer)
            assert [(event["seq"], event["type"]) for event in data["log"]] == [
                (seq, type_name(event)) for seq, event in enumerate(seen, 1)
            ]
            assert hashlib.sha256(page.encode()).hexdigest().startswith(Path(name).stem)


def test_a_page_may_run_its_own_script_and_nothing_that_a_player_wrote(tmp_path: Path) -> None:
    word = "</script><script>alert(1)</script><!--<style>*{}</style>"
    log = caged(Cage(), 3, None).log
    spoken = [
        type(event)(**{**{f: getattr(event, f) for f in event.__slots__}, "text": word})  # type: ignore[arg-type]
        if type_name(event) == "utterance_made"
        else event
        for event in log
    ]
    site = SiteWriter(tmp_path / "site", word, "public")
    assert site.add(LoggedGame("g_1", spoken)) is None
    site.finish()
    for page in _pages(tmp_path / "site").values():
        assert "alert(1)</script>" not in page
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
        assert [attributes for attributes, _ in scripts] == [' type="application/json" id="data"', ""]
        styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
        assert len(styles) == 1
        policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0]
        for kind, text in (("script-src", scripts[1][1]), ("style-src", styles[0])):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{kind} 'sha256-{digest}'" in policy
        assert "default-src 'none'" in policy
        assert '<meta name="robots" content="noindex">' in page


def test_the_script_of_a_site_asks_nobody_and_keeps_nothing() -> None:
    script = (Path(__file__).parents[3] / "app" / "pages" / "site" / "site.js").read_text()
    for word in ("fetch(", "XMLHttpRequest", "WebSocket", "Worker", "localStorage", "sessionStorage"):
        assert word not in script
    assert set(re.findall(r"\.\./[\w./-]*", script)) == {"../index.html"}, "a link that leads out of the site"
    assert not re.search(r"\bimport\s*[({'\"]|\bexport\s*[{*]|indexedDB|document\.cookie", script)


@pytest.mark.parametrize("held", ["a site", "something else"])
def test_a_folder_is_replaced_only_if_it_is_a_site_and_on_demand(tmp_path: Path, held: str) -> None:
    _export(tmp_path / "games.ndjson", {"g_1": caged(Cage(), 1, None).log})
    out = tmp_path / "out"
    asked = ["view", str(tmp_path / "games.ndjson"), "--out", str(out)]
    run = CliRunner()
    if held == "a site":
        assert run.invoke(command_line("view"), asked).exit_code == 0
        before = _pages(out)
        refused = run.invoke(command_line("view"), asked)
        assert refused.exit_code != 0
        assert "--overwrite" in refused.output
        assert run.invoke(command_line("view"), [*asked, "--overwrite"]).exit_code == 0
        assert _pages(out) == before
    else:
        out.mkdir()
        (out / "thesis.txt").write_text("mine")
        assert run.invoke(command_line("view"), [*asked, "--overwrite"]).exit_code != 0
        assert (out / "thesis.txt").read_text() == "mine"


def test_a_file_without_games_makes_no_site(tmp_path: Path) -> None:
    (tmp_path / "none.ndjson").write_text('{"t":"export.end","games":0,"events":0,"sha256":""}\n')
    done = CliRunner().invoke(
        command_line("view"), ["view", str(tmp_path / "none.ndjson"), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code != 0
    assert "no game" in done.output
    assert not (tmp_path / "out").exists()
