"""What the documents say is what happens: their commands run, their lists are complete."""

import asyncio
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import Settings
from tests import forked
from tests.app.serving import local_settings, running_server

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


@pytest.mark.timeout(180)
async def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    async with running_server(local_settings(f"sqlite:///{tmp_path}/readme.db")) as server:
        port = httpx.URL(server.url).port
        assert port is not None
        assert await asyncio.to_thread(run_readme, port, tmp_path) >= 12


WRITTEN = {"games.ndjson", "report.html", "report.csv", "items.jsonl"}
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
                if "POST" in words:
                    # What is asked for next is a game that is over.
                    curl(["localhost:8000/batches/$BATCH/events?follow=true"], port, names)
                if then:
                    assert run(shlex.split(then), answer), f"{then} prints nothing"
            else:
                assert run(words, None), f"{line} prints nothing"
            ran += 1
    return ran


def run(words: list[str], given: str | None) -> str:
    assert words[0] == ".venv/bin/interintent", f"the README names {words[0]}"
    done = forked.run(words[1:], given=given or "")
    assert done.returncode == 0, f"{shlex.join(words)}: {done.returncode} {done.stderr}"
    return done.stdout


def test_the_commands_of_the_page_on_reports_run(tmp_path: Path) -> None:
    ran = 0
    for block in blocks((ROOT / "docs" / "reports.md").read_text("utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            words = [str(tmp_path / word) if word in WRITTEN else word for word in shlex.split(line)]
            run(words, None)
            ran += 1
    assert ran == 4
    assert {path.name for path in tmp_path.iterdir()} == WRITTEN
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


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
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text("utf-8")):
            if document.name != "template.md":
                assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} links to {target}"


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
        assert not re.search(r"(?:pip|npm|uv) (?:install|i|add) ['\"]?@?interintent", text), page


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

    from app import cli

    if not any(group.name == "replay" for group in cli.app.registered_groups):
        cli._register()
    waiting: list[tuple[str, Any]] = [("interintent", get_command(cli.app))]
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
