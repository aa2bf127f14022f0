"""The commands ``batch``: on a database, beside a service that drives its games."""

import asyncio
import json
from pathlib import Path

from app.instruments.fake_model import FakeOptions, read_fault
from tests import forked
from tests.app.calling import calling
from tests.app.modelling import DIRECT, calling_with, faking


async def _command(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(forked.run, ["batch", *words], cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


async def test_a_command_resumes_what_a_running_service_drives(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    database = ("--database-url", url)
    async with (
        faking(FakeOptions(faults=(read_fault("quota"),))) as fake,
        calling_with(fake, url) as caller,
    ):
        batch, _ = await caller.create(seats=DIRECT)
        assert (await caller.over(batch))["status"] == "suspended"
        status, shown, _ = await _command(tmp_path, "show", batch, *database)
        assert status == 0
        view = json.loads(shown)
        assert (view["status"], view["suspended"]["cause"]) == ("suspended", "quota")
        status, _, said = await _command(tmp_path, "limits", batch, "--max-parallel", "3", *database)
        assert (status, said.strip()) == (0, f"{batch}: max_parallel 3")
        fake.faults = ()
        status, _, said = await _command(tmp_path, "resume", batch, *database)
        assert status == 0, said
        view = await caller.over(batch)
        assert (view["status"], view["budget"]["max_parallel"]) == ("done", 3)
        for words, why in (
            (("resume", batch), "neither this batch nor any of its games is suspended"),
            (("retry", batch), "nothing of this batch can be played on or anew"),
            (("limits", batch, "--max-parallel", "3"), "this batch is done already"),
            (("limits", batch), "name a limit"),
            (("show", "b_none"), "no such batch"),
        ):
            status, _, said = await _command(tmp_path, *words, *database)
            assert (status, why in said) == (2, True), said


async def test_no_command_makes_a_database(tmp_path: Path) -> None:
    for word in ("show", "resume", "retry"):
        status, _, said = await _command(tmp_path, word, "b_none", "--database-url", "sqlite:///none.sqlite")
        assert status == 2
        assert "there is no database none.sqlite" in said
    assert list(tmp_path.iterdir()) == []


async def test_a_batch_without_models_is_shown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        batch, _ = await caller.played()
    status, shown, _ = await _command(tmp_path, "show", batch, "--database-url", url)
    assert (status, json.loads(shown)["status"]) == (0, "done")
