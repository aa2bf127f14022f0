"""The command ``models try``."""

import asyncio
import json
import subprocess
from pathlib import Path

from app.instruments.fake_model import FakeOptions, read_fault
from app.instruments.fake_model.brains import BRAINS
from app.models.schemas import TrialView
from tests import forked
from tests.app.modelling import faking

SENSIBLE = FakeOptions(brain=BRAINS["sensible"](1))


async def trying(
    folder: Path, *words: str, env: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(forked.run, ["models", "try", *words], cwd=folder, env=env or {})


async def test_a_configured_endpoint_is_tried_by_its_name(tmp_path: Path) -> None:
    async with faking(SENSIBLE) as fake:
        endpoint = {"base_url": f"{fake.url}/v1", "model": "fake", "prices": {"prompt": 1, "completion": 2}}
        done = await trying(
            tmp_path, "small", "--json", env={"INTERINTENT_MODELS": json.dumps({"small": endpoint})}
        )
    assert done.returncode == 0, done.stderr
    assert "20 questions, one after another" in done.stderr
    trial = TrialView.model_validate_json(done.stdout)
    assert (trial.endpoint, trial.usable) == ("small", 20)
    assert trial.games[0].cost is not None
    assert list(tmp_path.iterdir()) == []


async def test_the_tables_show_each_form_and_each_preset(tmp_path: Path) -> None:
    async with faking(SENSIBLE) as fake:
        done = await trying(tmp_path, "fake", "--base-url", f"{fake.url}/v1", "--yes")
    assert done.returncode == 0, done.stderr
    for word in ("first_order, again", "assassination", "usable: 20 of 20", "paper, eager", "contemplation"):
        assert word in done.stdout
    assert "…" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


async def test_a_refusal_is_told_in_the_providers_words_with_what_to_do(tmp_path: Path) -> None:
    async with faking(FakeOptions(faults=(read_fault("quota"),))) as fake:
        done = await trying(tmp_path, "fake", "--base-url", f"{fake.url}/v1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "You exceeded your current quota." in done.stderr
    assert "Check the key, the model's name, and the account's quota" in done.stderr


async def test_a_model_of_which_nothing_can_be_used_gives_status_1(tmp_path: Path) -> None:
    async with faking(FakeOptions(brain=BRAINS["prose"](1))) as fake:
        done = await trying(tmp_path, "--model", "fake", "--base-url", f"{fake.url}/v1")
    assert done.returncode == 1
    assert "usable: 0 of 20" in done.stdout
    assert "\nvote: it answered " in done.stdout, "how an answer begins tells what is wrong with the model"
    assert "nothing is reckoned for games" in done.stdout


async def test_a_login_page_under_every_address_is_told_once(tmp_path: Path) -> None:
    async with faking(FakeOptions(faults=(read_fault("not_json"),))) as fake:
        done = await trying(tmp_path, "--model", "fake", "--base-url", f"{fake.url}/v1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the server answered with a page of HTML" in done.stderr
    assert "Check that base_url is right" in done.stderr


async def test_one_model_must_be_named(tmp_path: Path) -> None:
    for words in ([], ["small", "--model", "large"], ["nobody"]):
        done = await trying(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, "")
