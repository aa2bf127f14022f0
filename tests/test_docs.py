"""What the documents say is true: their commands run, and their lists are complete."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.edge.auth import SCOPES
from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.brains import BRAINS
from app.runner.simulate import Plan
from app.runner.simulate import run as run_plan
from app.settings import Settings
from engine.profile import make_profile
from evaluators.dataset.rows import turn_rows
from evaluators.ground.turns import read_game
from evaluators.study.file import Study
from tests import forked
from tests.app.calling import read_log, read_ndjson
from tests.app.modelling import faking
from tests.app.real_server import local_settings, running_server
from tests.app.typed import interintent
from tests.test_architecture import ROOMS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(text: str, language: str = "sh") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


def curl(words: list[str], port: int, names: dict[str, str]) -> str:
    """Does what this curl command line does: the machine that runs the tests need not have curl."""
    method, body, url = "GET", None, ""
    rest = iter(words)
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-d":
            body = next(rest)
        elif word != "-s":
            url = word
    for name, value in names.items():
        url = url.replace(f"${name}", value)
    assert "$" not in url, f"{url} holds a name that nothing before it gave"
    headers = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.request(
        method,
        "http://" + url.replace("localhost:8000", f"127.0.0.1:{port}"),
        content=body,
        headers=headers,
        timeout=60,
    )
    assert answer.status_code < 300, f"{shlex.join(words)}: {answer.status_code} {answer.text}"
    return answer.text


def learn(answer: str, names: dict[str, str]) -> None:
    try:
        read: Any = json.loads(answer)
    except json.JSONDecodeError:
        return
    if isinstance(read, dict) and "games" in read and "batch_id" in read:
        names["BATCH"] = read["batch_id"]
        if isinstance(read["games"], list):
            names["GAME"] = read["games"][0]["game_id"]
            names["TOKEN"] = read["games"][0]["seats"][0]["token"] or ""


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    async with running_server(local_settings(f"sqlite:///{tmp_path}/readme.db")) as server:
        port = httpx.URL(server.url).port
        assert port is not None
        assert await asyncio.to_thread(run_readme, port, tmp_path) >= 15


WRITTEN = {
    *("games.ndjson", "report.html", "report.csv", "items.jsonl"),
    *("merlin.json", "calm.ndjson", "wild.ndjson", "contrast.html"),
}
"""Files that examples write and read: they belong into the test's own folder."""


def run_readme(port: int, folder: Path) -> int:
    """Runs every command of the README against a server on this port and returns how many there were."""
    names: dict[str, str] = {}
    ran = 0
    for block in blocks(README):
        for line in block.replace("\\\n", " ").splitlines():
            first, _, then = line.partition(" | ")
            words = [str(folder / word) if word in WRITTEN else word for word in shlex.split(first)]
            if words[0] == "curl":
                answer = curl(words[1:], port, names)
                learn(answer, names)
                if "POST" in words and not names["TOKEN"]:
                    # What is asked for next is a game that is over.
                    curl(["localhost:8000/batches/$BATCH/events?follow=true"], port, names)
                if then:
                    assert run(shlex.split(then), answer), f"{then} prints nothing"
            elif words[0] == ".venv/bin/python":
                play_bot(words[1:], port, names)
            else:
                assert run(words, None), f"{line} prints nothing"
            ran += 1
    return ran


def play_bot(words: list[str], port: int, names: dict[str, str]) -> None:
    """Runs the example of a bot; it ends with its game."""
    words = [word.replace("localhost:8000", f"127.0.0.1:{port}") for word in words]
    words = [names[word[1:]] if word.startswith("$") else word for word in words]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, timeout=200)
    curl(["localhost:8000/batches/$BATCH/events?follow=true"], port, names)


def run(words: list[str], given: str | None) -> str:
    assert words[0] == ".venv/bin/interintent", f"the README names {words[0]}"
    done = forked.run(words[1:], given=given or "")
    assert done.returncode == 0, f"{shlex.join(words)}: {done.returncode} {done.stderr}"
    return done.stdout


def test_the_turn_in_the_readme_is_one_of_a_real_game(tmp_path: Path) -> None:
    (turn,) = blocks(README, "text")
    (seed,) = re.findall(r"`simulate --seed (\d+)`", README)
    file = str(tmp_path / "games.ndjson")
    run([".venv/bin/interintent", "simulate", "-n", "1", "--seed", seed, "--out", file], None)
    shown = run([".venv/bin/interintent", "replay", "show", file], None).splitlines()
    assert len(turn.splitlines()) > 5
    for line in turn.splitlines():
        beginning, cut, _ = line.partition("…")
        assert any(real.startswith(beginning) if cut else real == line for real in shown), line


@pytest.mark.long
def test_the_commands_of_the_page_on_reports_run(tmp_path: Path) -> None:
    ran = 0
    for block in blocks((ROOT / "docs" / "reports.md").read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            words = [str(tmp_path / word) if word in WRITTEN else word for word in shlex.split(line)]
            run(words, None)
            ran += 1
    assert ran == 8
    assert {path.name for path in tmp_path.iterdir()} == WRITTEN
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_commands_and_the_code_of_the_page_on_data_sets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "datasets.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    for line in blocks(page)[0].splitlines():
        program, *words = shlex.split(line)
        assert program == ".venv/bin/interintent"
        done = interintent(*words)
        assert done.exit_code == 0, done.output
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(block, names)
    assert "scripts" in capsys.readouterr().out
    row = {"defaulted": None, "speech": "Why? I do not know. Tell me."}
    assert (names["asks"](row), names["words"](row)) == (True, (7, 2))
    assert names["asks"]({**row, "defaulted": "deadline"}) is None
    # What the page says is in the folder is there, and nothing else.
    named = {f"{name}.parquet" for name in re.findall(r"`([a-z]+)`", page.partition("- A Parquet file")[2])}
    found = {path.name for path in (tmp_path / "my-games").iterdir()}
    assert found - named == {"README.md", "CITATION.cff", "croissant.json"}


def test_the_turn_of_the_page_on_concepts_is_one_of_a_real_game() -> None:
    page = " ".join((ROOT / "docs" / "concepts.md").read_text("utf-8").split())
    ((game_id, request_id),) = re.findall(r"<!-- turn: (\S+) (\S+) -->", page)
    plan = Plan(make_profile("interintent", 5).settings(), [{"agent": "scripted", "options": {}}] * 5, 7)
    (result,) = run_plan(plan, 1, keep=True)
    log = read_log(line for line in read_ndjson(result.lines) if "seq" in line)
    [row] = [row for row in turn_rows(read_game(game_id, log)) if row["request_id"] == request_id]
    assert (row["seat"], row["role"], row["turn"], row["leader"], row["team"]) == (
        4,
        "merlin",
        2,
        2,
        [1, 2, 4],
    )
    for name in ("first_intentions", "intentions", "gold"):
        assert " and ".join(f"`{intention}`" for intention in row[name]) in page, name
    reading = next(one["text"] for one in row["readings"] if one["by"] == "assassin")
    for text in (row["draft"], row["speech"], row["reason"], reading):
        assert f'"{text}"' in page, text
    assert [guess["seat"] for guess in row["guesses"]] == [5, 1]
    assert all(guess["intentions"] == row["intentions"] for guess in row["guesses"])
    assert (row["approved"], row["quest_succeeded"], row["won"]) == (True, False, True)


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_the_five_commands_of_a_first_study_make_a_table_of_two_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "first-study.md").read_text("utf-8")
    tried, served, created, waited, reported = (block.strip() for block in blocks(page))
    (endpoints,) = blocks(page, "toml")
    (tmp_path / "key.txt").write_text("the-key\n")
    (brain,) = re.findall(r"interintent fake-model --brain (\w+)`", page)
    (judge,) = re.findall(r"`(interintent judge [^`]+)`", page)
    async with faking(FakeOptions(brain=BRAINS[brain](1))) as fake:
        (tmp_path / "models.toml").write_text(endpoints.replace("https://models.example", fake.url))
        (setting,) = re.findall(r"`(INTERINTENT_MODELS_FILE=\S+)`", page)
        (tmp_path / ".env").write_text(f"{setting}\n")

        def command(line: str) -> str:
            program, *words = shlex.split(line)
            assert program == ".venv/bin/interintent"
            done = forked.run(words, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert "usable: 20 of 20" in await asyncio.to_thread(command, tried)
        assert served == ".venv/bin/interintent serve"
        # The service looks for the files where it was started.
        monkeypatch.chdir(tmp_path)
        settings = local_settings(f"sqlite:///{tmp_path}/interintent.db", models_file=Path("models.toml"))
        names: dict[str, str] = {}
        async with running_server(settings) as server:
            port = httpx.URL(server.url).port
            assert port is not None
            # Fewer games: the command is the same.
            words = shlex.split(created.replace('"count": 10', '"count": 2'))
            learn(await asyncio.to_thread(curl, words[1:], port, names), names)
            await asyncio.to_thread(curl, shlex.split(waited)[1:], port, names)
        for line in (reported, f".venv/bin/{judge}"):
            await asyncio.to_thread(command, line.replace("$BATCH", names["BATCH"]))
    study = (tmp_path / "study.html").read_text("utf-8")
    assert "small" in study
    assert "large" in study


def test_a_page_that_speaks_of_seats_of_models_has_an_example_of_one() -> None:
    speaking = [
        page
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        if "`llm`" in page.read_text("utf-8")
    ]
    assert len(speaking) >= 3
    for page in speaking:
        assert '"agent": "llm"' in page.read_text("utf-8"), f"{page.name} shows no llm seat"


def test_the_examples_of_the_measures_give_what_they_say() -> None:
    names: dict[str, Any] = {}
    shown = 0
    for block in blocks((ROOT / "docs" / "measures.md").read_text("utf-8"), "python"):
        for line in filter(None, block.splitlines()):
            example, _, value = line.partition("  # ")
            if value:
                assert eval(example, names) == pytest.approx(float(value)), example
                shown += 1
            else:
                exec(example, names)
    assert shown == 2


def test_the_readme_begins_with_the_two_commands() -> None:
    first, second = README.splitlines()[:2]
    assert first.split("#")[0].strip() == "make demo"
    assert second.split("#")[0].strip() == "make test"


def test_links_between_documents_lead_somewhere() -> None:
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for document in [*pages, *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            if document.name != "template.md":
                assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} links to {target}"


def test_every_scope_that_a_page_names_exists() -> None:
    families = "|".join({scope.partition(":")[0] for scope in SCOPES if ":" in scope})
    for page in [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]:
        named = set(re.findall(rf"`((?:{families}):\w+)", page.read_text("utf-8")))
        assert named <= SCOPES, f"{page.relative_to(ROOT)} names no scopes: {named - SCOPES}"


FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}


def paths_in(text: str) -> set[str]:
    """What a page names in backticks and what stands in this repository, or should."""
    named = re.findall(r"`([\w./-]+)`", text)
    return {
        name
        for name in named
        if ("/" in name and name.partition("/")[0] in FOLDERS) or re.fullmatch(r"\w+\.md", name)
    }


@pytest.mark.parametrize(
    ("page", "least"),
    [
        ("CONTRIBUTING.md", 10),
        ("docs/architecture.md", 100),
        ("docs/glossary.md", 40),
        ("docs/performance.md", 8),
    ],
)
def test_every_path_that_a_page_names_exists(page: str, least: int) -> None:
    paths = paths_in((ROOT / page).read_text("utf-8"))
    assert len(paths) >= least
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, f"{page} names {', '.join(missing)}"


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading, without the heading."""
    lines = text[text.index(f"| {heading} |") :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_architecture_shows_the_rooms_as_the_law_has_them() -> None:
    rows = rows_of((ROOT / "docs/architecture.md").read_text("utf-8"), "room")
    known = {name.strip("`"): set() if may == "nothing" else set(may.split(", ")) for name, _, may in rows}
    assert list(known.items()) == list(ROOMS.items())


def test_the_architecture_says_where_many_things_are_added() -> None:
    rows = rows_of((ROOT / "docs/architecture.md").read_text("utf-8"), "to add")
    assert len(rows) >= 20
    for thing, touch, _ in rows:
        assert paths_in(touch), f"{thing}: no path"


def test_every_type_of_the_glossary_is_where_it_says() -> None:
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    named = re.findall(r"`(\w+)`(?: and `(\w+)`)? in `([\w./]+)`", text)
    assert len(named) > 50
    for *names, path in named:
        for name in filter(None, names):
            defines = rf"^(?:class |def |async def )?{name}\b(?!\.)"
            assert re.search(defines, (ROOT / path).read_text("utf-8"), flags=re.M), (
                f"{name} is not in {path}"
            )


def test_a_word_of_the_glossary_has_one_row() -> None:
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    words = [word for cell in re.findall(r"^\| ([^|]+) \|", text, flags=re.M) for word in cell.split(", ")]
    words = [word for word in words if word not in ("word", "---")]
    assert len(words) > 60
    assert len(words) == len(set(words))


FROM_A_REGISTRY = re.compile(r"(?:pip|npm|uv) (?:install|i|add) ['\"]?@?interintent")


def test_no_page_names_a_registry_or_a_package_in_one() -> None:
    # The packages are installed from a clone: what a registry has under their names is not ours.
    pages = [
        ROOT / "README.md",
        ROOT / "client" / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("examples/*"),
    ]
    for page in pages:
        text = page.read_text("utf-8")
        assert not re.search(r"pypi\.|npmjs\.|crates\.io|hub\.docker|ghcr\.io", text, re.IGNORECASE), page
        assert not FROM_A_REGISTRY.search(text), page
    for package in ("engine", "agents", "evaluators", "app", "client"):
        for source in (ROOT / package).rglob("*.py"):
            assert not FROM_A_REGISTRY.search(source.read_text("utf-8")), source


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs/operating.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([A-Z_]+)`", text, flags=re.M))
    there = {
        str(field.validation_alias or f"INTERINTENT_{name.upper()}")
        for name, field in Settings.model_fields.items()
    }
    assert documented == there


def test_every_command_tells_what_it_does() -> None:
    from typer.main import get_command

    from app.cli.main import COMMANDS, command_line

    waiting: list[tuple[str, Any]] = [
        (f"interintent {word}", get_command(command_line(word))) for word in ("", *COMMANDS)
    ]
    while waiting:
        name, command = waiting.pop()
        assert command.help, f"{name} has no help"
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or parameter.help, (
                f"{name} {parameter.name} has no help"
            )
        waiting += [(f"{name} {sub}", one) for sub, one in getattr(command, "commands", {}).items()]


def test_the_makefile_has_the_promised_targets() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    for target in ("check", "test", "demo", "run", "golden", "bench"):
        assert re.search(rf"^{target}:", text, flags=re.M), f"make {target} is missing"


def test_nothing_names_a_place_outside() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True, env=os.environ
    ).stdout.split()
    homes = re.compile(r"(?<![\w.])/(?:home|Users)/\w+/")
    for name in tracked:
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", ".yml", ".json", "") and path.is_file():
            assert not homes.search(path.read_text("utf-8", "replace")), f"{name} names somebody's directory"


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_the_commands_of_the_page_on_studies_make_a_report_and_a_pack(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "study.md").read_text("utf-8")
    commands = [shlex.split(block) for block in blocks(page)]
    assert [words[2] for words in commands] == ["new", "plan", "freeze", "run", "status", "report", "pack"]
    async with faking(FakeOptions(brain=BRAINS["sensible"](1))) as fake:

        def command(words: list[str]) -> None:
            assert words[0] == ".venv/bin/interintent"
            done = forked.run(words[1:], cwd=tmp_path)
            assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
            if words[2] == "new":
                # The fake model of this test, and fewer games: the commands are the same.
                for name, old, new in (
                    ("models.toml", "http://127.0.0.1:8099", fake.url),
                    ("study.toml", "games = 4", "games = 2"),
                    ("study.toml", '["paper", "direct"]', '["one_pass", "direct"]'),
                    ("study.toml", '"preset=paper,direct"', '"preset=one_pass,direct"'),
                ):
                    file = tmp_path / "my-study" / name
                    assert old in file.read_text("utf-8")
                    file.write_text(file.read_text("utf-8").replace(old, new))

        for words in commands:
            await asyncio.to_thread(command, words)
    assert "Does self-correction help?" in (tmp_path / "my-study" / "report.html").read_text("utf-8")
    assert (tmp_path / "my-study-pack.zip").exists()
    for name in re.findall(r"`\[+(\w+)", page):
        assert name in Study.model_fields, f"the study file has no part {name}"
