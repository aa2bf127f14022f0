"""Abuse of the socket gets the right close code, leaves nothing behind and disturbs nobody else.

``python -m tests.app.abuses`` does more of it. Single faults are tested closely in test_socket_abuse.py.
"""

import os
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from app.games.schemas import NewGames
from app.seats import limits
from app.seats.limits import IDENTIFIES, Unidentified
from tests.app.abuses import ABUSES, abused
from tests.app.real_server import local_settings, running_server
from tests.app.watcher import watching

pytestmark = pytest.mark.long

TIMES = int(os.environ.get("ABUSES", "10"))


@pytest.mark.timeout(600)
async def test_every_abuse_ends_as_it_must_and_leaves_nothing_behind() -> None:
    report = await abused(TIMES)
    assert report["abuses"] == len(ABUSES) >= 25
    assert report["wrong"] == {}
    assert report["left_over"] == []
    assert report["still_serves"]
    assert report["more_open_files"] < 20


async def test_connections_that_do_not_identify_are_capped_by_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING", 2)
    async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as served:
        async with watching(served.ws_url), watching(served.ws_url):
            with pytest.raises(InvalidStatus) as refused:
                async with watching(served.ws_url):
                    pass
            assert refused.value.response.status_code == 503
            assert refused.value.response.headers["retry-after"]
        # Those who went make room, and those who have identified do not count.
        made = await served.services.games.create(_manual())
        async with watching(served.ws_url) as one, watching(served.ws_url) as two:
            for watcher in (one, two):
                await watcher.identify(made.games[0].game_id)
            async with watching(served.ws_url):
                pass


def _manual() -> NewGames:
    return NewGames.model_validate({"drive": "manual"})


def test_a_credential_that_identifies_too_often_must_wait() -> None:
    unidentified = Unidentified()
    assert [unidentified.wait_s("seat:1@g", 100.0) for _ in range(IDENTIFIES)] == [0.0] * IDENTIFIES
    assert unidentified.wait_s("seat:1@g", 100.0) == pytest.approx(2.0)
    assert unidentified.wait_s("seat:2@g", 100.0) == 0.0
    assert unidentified.wait_s("seat:1@g", 101.0) == pytest.approx(1.0)
    assert unidentified.wait_s("seat:1@g", 102.1) == 0.0


def test_credentials_that_come_no_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_FORGET_AT", 10)
    unidentified = Unidentified()
    for number in range(10):
        unidentified.wait_s(f"seat:1@g{number}", 0.0)
    unidentified.wait_s("seat:1@new", 1.0)
    assert len(unidentified._allowances) == 11
    unidentified.wait_s("seat:1@newer", 60.0)
    assert len(unidentified._allowances) == 1
