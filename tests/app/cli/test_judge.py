"""The command ``judge``: on a database, without a server; stopped, and gone on with."""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.base.errors import AlreadyOver, NotFound
from app.cli.judge import judged
from app.instruments.fake_model import FakeModel, FakeOptions
from app.instruments.fake_model.brains import BRAINS
from tests import forked
from tests.app.calling import WITHIN_S, calling, until
from tests.app.evaluations.test_evaluations_api import games_of
from tests.app.modelling import faking
from tests.app.real_server import local_settings
from tests.ports import steady_port


class Pauses:
    """After six questions each answer takes four seconds, so the command is stopped before its end."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(self, chance: random.Random) -> float:
        """Seconds."""
        self.drawn += 1
        return 4.0 if self.drawn > 6 else 0.0


@asynccontextmanager
async def slow_judge(
    tmp_path: Path,
) -> AsyncIterator[tuple[FakeModel, Pauses, str, str, tuple[str, ...]]]:
    """A model with its pauses, a database with a batch to judge, and the options that name both."""
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        batch, _ = await games_of(caller, 1)
    pauses = Pauses()
    slow = FakeOptions(brain=BRAINS["sensible"](0), latency=pauses)  # type: ignore[arg-type]
    async with faking(slow) as fake:
        yield (
            fake,
            pauses,
            url,
            batch,
            ("--model", "fake", "--base-url", f"{fake.url}/v1", "--database-url", url),
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_command_that_is_stopped_says_how_to_go_on_and_pays_nothing_twice(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with slow_judge(tmp_path) as (fake, pauses, url, batch, model):
        patient = {"INTERINTENT_DRAIN_S": "60"}
        first = forked.start(["judge", batch, *model, "--parallel", "2"], cwd=tmp_path, env=patient)
        await until(lambda: fake.counts.calls >= 6)
        # A service on the same database leaves the command's work alone.
        async with calling(url) as caller:
            (view,) = (await caller.get("/evaluations")).json()["evaluations"]
            assert view["status"] == "judging"
            assert caller.services.evaluations.judges._working == {}
        first.send_signal(number)
        assert first.stderr is not None
        with first.stderr:
            said = await asyncio.to_thread(first.stderr.read)
        assert first.wait(WITHIN_S) == 128 + number, said
        evaluation = view["evaluation_id"]
        assert f"interintent judge --resume {evaluation} --base-url {fake.url}/v1 --model fake" in said
        stopped = fake.counts.calls
        assert stopped < 24
        pauses.drawn = -1_000
        words = ["judge", "--resume", evaluation, *model, "--json"]
        second = await asyncio.to_thread(forked.run, words, cwd=tmp_path)
        assert second.returncode == 0, second.stderr
        done = json.loads(second.stdout)
        assert (done["status"], done["progress"]["judged"]) == ("scored", done["progress"]["items"])
        assert fake.counts.calls <= done["progress"]["items"]
        with pytest.raises(AlreadyOver, match="is scored: there is nothing to continue"):
            await judged(local_settings(url), evaluation, lambda *_: None)
        with pytest.raises(NotFound, match="there is no evaluation e_none"):
            await judged(local_settings(url), "e_none", lambda *_: None)


async def test_a_command_that_is_killed_has_said_how_to_continue_and_so_does_the_next(tmp_path: Path) -> None:
    async with slow_judge(tmp_path) as (fake, pauses, url, batch, model):
        first = forked.start(["judge", batch, *model, "--parallel", "2"], cwd=tmp_path)
        await until(lambda: fake.counts.calls >= 6)
        first.kill()
        assert first.stderr is not None
        with first.stderr:
            said = await asyncio.to_thread(first.stderr.read)
        first.wait(WITHIN_S)
        async with calling(url) as caller:
            (view,) = (await caller.get("/evaluations")).json()["evaluations"]
            evaluation = view["evaluation_id"]
        how = f"continue with: interintent judge --resume {evaluation} --base-url {fake.url}/v1 --model fake"
        assert f"judging as {evaluation}; after an interruption, {how}" in said
        pauses.drawn = -1_000
        again = await asyncio.to_thread(forked.run, ["judge", batch, *model], cwd=tmp_path)
        assert (again.returncode, how in again.stderr) == (2, True), again.stderr
        words = ["judge", "--resume", evaluation, *model]
        third = await asyncio.to_thread(forked.run, words, cwd=tmp_path)
        assert third.returncode == 0, third.stderr
        fourth = await asyncio.to_thread(forked.run, ["judge", batch, *model], cwd=tmp_path)
        assert (fourth.returncode, "--regrade-of judges again" in fourth.stderr) == (2, True), fourth.stderr


async def test_a_command_says_which_model_it_waits_for_and_that_it_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    async with calling(url) as caller:
        batch, _ = await games_of(caller, 1)
    port = steady_port()
    model = ("--model", "fake", "--base-url", f"http://127.0.0.1:{port}/v1", "--database-url", url)
    command = forked.start(["judge", batch, *model], cwd=tmp_path)
    assert command.stderr is not None
    with command.stderr:
        line = ""
        while "WAITING" not in line:
            line = await asyncio.wait_for(asyncio.to_thread(command.stderr.readline), WITHIN_S)
        assert "WAITING for an answer from model (connection refused): check base_url and network" in line
        async with FakeModel(FakeOptions(brain=BRAINS["sensible"](0))).serving(port=port):
            said = await asyncio.to_thread(command.stderr.read)
            assert await asyncio.to_thread(command.wait, WITHIN_S) == 0, said
    assert said.count("the model answers again") == 1
