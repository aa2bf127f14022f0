"""The examples of the client's page run as they stand, against a live service."""

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.app.real_server import local_settings, running_server

README = (Path(__file__).parents[2] / "client" / "README.md").read_text("utf-8")


def examples() -> dict[str, Callable[[str], Coroutine[Any, Any, None]]]:
    """The functions of the page, each with the imports of the blocks before it."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.S):
        exec(block, names)
    return {name: one for name, one in names.items() if inspect.iscoroutinefunction(one)}


async def test_the_examples_of_the_page_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = examples()
    assert list(found) == ["main", "meet", "collect", "evaluate", "compete", "judge"]
    del found["compete"]  # tests/client/test_sets.py
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as served:
        for name, example in found.items():
            await asyncio.wait_for(example(served.url), 60)
            assert capsys.readouterr().out, f"{name} prints nothing"


def test_every_public_name_stands_on_the_page() -> None:
    import interintent_client

    # What these are is told by the fields they are reached through.
    parts = {
        "Ack",
        "Asked",
        "Batch",
        "Event",
        "Evaluation",
        "Game",
        "Item",
        "ItemSet",
        "Items",
        "Json",
        "Receipt",
        "Request",
        "Seat",
    }
    parts |= {"StoredJudgement", "Task", "TaskStage", "Tasks", "Answer"}
    missing = {name for name in interintent_client.__all__ if name not in parts and name not in README}
    assert not missing
