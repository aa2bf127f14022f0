"""What lasts as long as the service does goes on after a fault that nobody foresaw."""

import asyncio

import pytest
import structlog.testing

from app.base.tasks import end_tasks, keep_going


async def test_work_that_fails_unexpectedly_begins_again_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.base.tasks.AGAIN_S", 0.0)
    begun, third = [], asyncio.Event()

    async def work() -> None:
        begun.append(len(begun))
        if len(begun) < 3:
            raise ZeroDivisionError
        third.set()
        await asyncio.Event().wait()

    with structlog.testing.capture_logs() as logs:
        task = keep_going(work, "counting")
        await third.wait()
    assert [(line["log_level"], line["part"]) for line in logs] == [("error", "counting")] * 2
    await end_tasks(task)
    assert task.cancelled()
    assert begun == [0, 1, 2]
