"""The live layer: whose turn it is, how many watch, and what models are saying."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.faults import read_fault
from app.stream import live as live_layer
from app.stream.live import MAX_NOTE, Live
from engine.terms import FULL, PUBLIC
from tests.app.calling import until
from tests.app.modelling import LLM, endpoints, faking
from tests.app.play.test_socket import new_game, post
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import Watcher, watching
from tests.postgres import PostgresServer, fresh_database

LIVE = ("turn", "watchers", "speaking", "utterance_delta", "utterance_withdrawn")


async def until_frame(watcher: Watcher, **wanted: Any) -> dict[str, Any]:
    """The next frame with these fields; those before it are kept, too."""
    while True:
        frame = await watcher.next()
        if all(frame.get(name) == value for name, value in wanted.items()):
            return frame


async def step(server: Served, game: str) -> dict[str, Any]:
    return await post(server, f"/games/{game}/step", {"until": "action"})


async def test_whose_turn_it_is_follows_the_public_events(served: Served) -> None:
    game = await new_game(served, drive="manual", seats=[{"agent": "scripted"}], seeds={"from": 3})
    async with watching(served.ws_url) as public, watching(served.ws_url) as plain:
        await public.identify(game, viewer="public", live=True)
        await plain.identify(game, viewer="public")
        first = await until_frame(public, t="turn")
        assert first["kind"] in ("speak", "propose_team")
        assert len(first["seats"]) == 1
        await until_frame(public, t="watchers")
        turns = [first]
        while True:
            told = await step(served, game)
            if told["status"] == "finished":
                break
            requests = [(one["kind"], one["seat"]) for one in told["requests"]]
            kind = requests[0][0]
            if kind != turns[-1]["kind"] or kind in ("speak", "propose_team", "reconsider"):
                seats = [] if kind == "assassinate" else [seat for _, seat in requests]
                if [kind, seats] != [turns[-1]["kind"], turns[-1]["seats"]]:
                    turns.append(await until_frame(public, t="turn"))
            assert turns[-1]["kind"] == kind
            if kind == "assassinate":
                assert turns[-1]["seats"] == []
            else:
                assert {seat for _, seat in requests} <= set(turns[-1]["seats"])
        assert await public.until_closed() == 1000
        assert public.frames[-1] == {"t": "turn", "kind": None, "seats": []}
        assert await plain.until_closed() == 1000
        assert not [frame for frame in plain.frames if frame["t"] in LIVE]
        assert {turn["kind"] for turn in turns} >= {"speak", "propose_team", "vote", "card"}
        # Beside the log: it holds no trace of them.
        assert [item["seq"] for item in public.items] == list(range(1, len(public.items) + 1))
        assert public.items == plain.items


async def test_watchers_are_counted_and_seats_are_not(served: Served) -> None:
    game = await new_game(served, drive="manual")
    async with watching(served.ws_url) as first:
        await first.identify(game, viewer="public", live=True)
        assert (await until_frame(first, t="watchers"))["n"] == 1
        async with watching(served.ws_url) as seat, watching(served.ws_url) as full:
            await seat.identify(game, viewer="seat:2", live=True)
            assert (await until_frame(seat, t="watchers"))["n"] == 1
            await full.identify(game)
            assert (await until_frame(first, t="watchers"))["n"] == 2
            assert (await until_frame(seat, t="watchers"))["n"] == 2
        assert (await until_frame(first, t="watchers"))["n"] == 1
    await until(lambda: not served.services.live._onlookers and not served.services.live._present)


async def _all(watcher: Watcher) -> list[dict[str, Any]]:
    assert await watcher.until_closed() == 1000
    return watcher.frames


@pytest.mark.long
async def test_a_researcher_sees_speeches_in_the_making_and_nobody_else_does(tmp_path: Path) -> None:
    options = FakeOptions(faults=(read_fault("truncated_stream:0.2"),))
    async with faking(options) as fake:
        settings = local_settings(f"sqlite:///{tmp_path / 'x.sqlite'}", models=endpoints(fake))
        async with (
            running_server(settings) as served,
            watching(served.ws_url) as full,
            watching(served.ws_url) as public,
            watching(served.ws_url) as seat,
        ):
            game = await new_game(served, seats=LLM, seeds={"from": 5}, drive="manual")
            await full.identify(game, live=True)
            await public.identify(game, viewer="public", live=True)
            await seat.identify(game, viewer="seat:2", live=True)
            for watcher in (full, public, seat):
                await until_frame(watcher, t="watchers")
            tasks = [asyncio.create_task(_all(one)) for one in (full, public, seat)]
            await post(served, f"/games/{game}/step", {"until": "end"})
            frames, of_public, of_seat = await asyncio.gather(*tasks)
            assert not served.services.live._voices
            await until(lambda: not served.services.live._unsent)
    # What counts of each request is what was not taken back, and the log has it then.
    said: dict[str, str] = {}
    withdrawn = 0
    steps = set()
    spoken = 0
    for frame in frames:
        if frame["t"] == "speaking":
            steps.add(frame["step"])
        elif frame["t"] == "utterance_delta":
            before = said.get(frame["request_id"], "")
            assert frame["start"] == len(before)
            said[frame["request_id"]] = before + frame["text"]
            assert frame["request_id"].endswith(f".{frame['seat']}")
        elif frame["t"] == "utterance_withdrawn":
            withdrawn += 1
            said.pop(frame["request_id"], None)
        elif frame["t"] == "events":
            for item in frame["items"]:
                if item["type"] == "utterance_made" and item["text"]:
                    spoken += 1
                    assert item["text"] in {text.strip() for text in said.values()}
    assert spoken > 3
    assert withdrawn > 0
    assert {"first_order", "formulation", "refinement"} <= steps
    for other in (of_public, of_seat):
        assert {frame["t"] for frame in other} <= {"events", "beat", "turn", "watchers", "request"}


@pytest.mark.long
async def test_processes_tell_each_other_who_watches_and_what_is_said(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_database(postgres) as url:
        async with (
            faking() as fake,
            running_server(local_settings(url, models=endpoints(fake))) as one,
            running_server(local_settings(url, models=endpoints(fake), runner=False)) as other,
            watching(one.ws_url) as here,
            watching(other.ws_url) as there,
        ):
            game = await new_game(one, seats=LLM, drive="manual")
            await here.identify(game, viewer="public", live=True)
            await there.identify(game, live=True)
            await until_frame(here, t="watchers", n=2)
            await until_frame(there, t="watchers", n=2)
            # The other process listens, and this one knows it.
            await until(lambda: one.services.live.has_listeners(game))
            tasks = [asyncio.create_task(_all(watcher)) for watcher in (here, there)]
            await post(one, f"/games/{game}/step", {"until": "end"})
            of_public, of_full = await asyncio.gather(*tasks)
    kinds = {frame["t"] for frame in of_full}
    assert {"speaking", "utterance_delta"} <= kinds
    assert {frame["t"] for frame in of_public} <= {"events", "beat", "turn", "watchers"}


class Looker:
    """An onlooker without a socket."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []

    def show(self, text: str) -> bool:
        self.got.append(json.loads(text))
        return True


async def test_a_listener_that_comes_late_gets_what_was_said_so_far() -> None:
    live, early, late = Live(), Looker(), Looker()
    live.start()
    with contextlib.ExitStack() as stack:
        stack.enter_context(live.present("g_1"))
        stack.enter_context(live.looking_on("g_1", FULL, early))
        with live.asking("g_1", "1.1.speak.3", "refinement"):
            long = "word " * 1000
            live.spoke("g_1", "1.1.speak.3", long)
            first = stack.enter_context(live.looking_on("g_1", FULL, late))
            so_far = [json.loads(text) for text in first]
            assert [frame["t"] for frame in so_far[:2]] == ["watchers", "speaking"]
            assert "".join(frame.get("text", "") for frame in so_far) == long
            public = stack.enter_context(live.looking_on("g_1", PUBLIC, Looker()))
            assert [json.loads(text)["t"] for text in public] == ["watchers"]
            live.spoke("g_1", "1.1.speak.3", "end")
            await until(lambda: bool(late.got))
            assert late.got == [
                {
                    "t": "utterance_delta",
                    "seat": 3,
                    "request_id": "1.1.speak.3",
                    "start": len(long),
                    "text": "end",
                }
            ]
        live.settled("g_1", "1.1.speak.3")
        assert live._voices == {}
    await live.stop()


async def test_notes_stay_small_and_a_silent_process_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_layer, "WATCHERS_S", 0.05)
    monkeypatch.setattr(live_layer, "FORGET_S", 0.5)
    monkeypatch.setattr(live_layer, "AGAIN_S", 0.1)
    one, other, notes = Live(), Live(), list[str]()
    looker = Looker()
    other.on_note = lambda note: (notes.append(note), one.take("other", note))[0]
    games = [f"g_{number:020d}" for number in range(500)]
    with contextlib.ExitStack() as stack:
        for game in games:
            stack.enter_context(other.present(game))
        one.on_note = lambda note: None
        one.start()
        stack.enter_context(one.looking_on(games[7], PUBLIC, looker))
        other.start()
        await until(lambda: bool(looker.got))
        assert looker.got[-1] == {"t": "watchers", "n": 1}
        await until(lambda: all(one.watchers(game) == 1 for game in games))
        assert len(notes) > 1
        assert max(len(note.encode()) for note in notes) <= MAX_NOTE + 500
        await other.stop()  # it dies: nobody says that its watchers have gone
        await until(lambda: one.watchers(games[7]) == 0 and looker.got[-1]["n"] == 0)
    await one.stop()
