"""The client's calls about sealed sets against a live service."""

import asyncio
from pathlib import Path

import pytest
from interintent_client import ApiError, Rater, Server

from app.base import clock
from tests.app.evaluations.sealing import (
    DATE_MS,
    GAMES,
    SCOPES,
    Sliding,
    add_keys,
    key_of,
    lay_games,
    scripted_log,
)
from tests.app.real_server import local_settings, running_server
from tests.client.test_readme import examples

LOGS = [scripted_log(seed) for seed in range(70, 70 + GAMES)]


async def test_a_set_is_sealed_answered_and_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time = Sliding()
    with clock.use_clock(time):
        async with running_server(local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}")) as served:
            await lay_games(served, LOGS)
            await add_keys(served)
            date = clock.timestamp(clock.now_ms() + DATE_MS)
            async with Server(served.url, key=key_of("owner")) as owner:
                made = await owner.seal_set("spring", "guessing", ["b_sealed"], date)
                assert (made.status, made.items, made.leaderboard) == ("sealed", 200, None)
                gone = await owner.withdraw_set(made.id, "one name too many")
                assert (gone.status, gone.reason) == ("withdrawn", "one name too many")
                assert not gone.guessable_seeds
                made = await owner.seal_set("spring", "guessing", ["b_sealed"], date, guessable_seeds=True)
                assert made.guessable_seeds
                assert (made.status, made.reason) == ("sealed", None)
            capsys.readouterr()  # what the server has logged
            await examples()["compete"](served.url, key_of("ann"), made.id)  # type: ignore[call-arg]
            assert capsys.readouterr().out == f"200 {date}\n"
            async with Server(served.url, key=key_of("ann")) as ann:
                assert [found.id async for found in ann.sets()] == [made.id, gone.id]
                (receipt,) = await ann.receipts(made.id, answers=True)
                assert len({one["item_id"] for one in receipt.raw["given"]}) == 200
                assert (receipt.rater["name"], receipt.items) == ("first option", 200)
                with pytest.raises(ApiError) as refused:
                    await ann.set_entry(made.id, receipt.entry_id)
                assert refused.value.code == "set-sealed"
                items = [item async for item in ann.set_items(made.id, page=70)]
                assert len({item.id for item in items}) == 200
                with pytest.raises(ApiError) as refused:
                    await ann.submit("guessing", Rater("me"), [items[0].answer([])])
                assert refused.value.code == "forbidden"
                time.ahead_ms = DATE_MS
                async with asyncio.timeout(60):
                    while True:
                        found = await ann.set(made.id)
                        if found.status == "open":
                            break
                        await asyncio.sleep(0.02)
                assert found.leaderboard is not None
                assert found.leaderboard[0]["entry_id"] == receipt.entry_id
                gold = [line async for line in ann.set_gold(made.id)]
                assert len(gold) == 200
                entry = await ann.set_entry(made.id, receipt.entry_id)
                assert [one["gold"] for one in entry["per_item"]] == [one["gold"] for one in gold]
    assert SCOPES["ann"] == ("games:read", "eval:read", "eval:submit"), "no more is needed"
