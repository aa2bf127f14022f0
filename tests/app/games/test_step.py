"""A game stepped by hand equals the game that the service would have driven."""

import asyncio
from typing import Any

import pytest

from agents.table import step
from app.base.errors import MissingAnswer
from app.edge.auth import ANYBODY, OPERATOR
from app.edge.auth import Caller as Checked
from app.games import stepping
from tests.app.calling import WITHIN_S, Caller, Line, calling, problem, undisturbed, until, without_times

SEED = 4242


async def _walked(caller: Caller, game: str, far: str) -> tuple[list[Line], list[Line]]:
    """The game stepped to its end: what the steps said, and what the log then holds."""
    told: list[Line] = []
    head = (await caller.get(f"/games/{game}")).json()["head"]
    start = await caller.lines(f"/games/{game}/events")
    while True:
        answer = await caller.post(f"/games/{game}/step", json={"until": far})
        assert answer.status_code == 200, answer.text
        stepped = answer.json()
        assert stepped["events"]
        told += stepped["events"]
        assert stepped["head"] == head + len(told)
        if stepped["status"] != "running":
            break
        assert stepped["requests"]
    assert stepped["status"] == "finished"
    assert stepped["requests"] == []
    log = await caller.lines(f"/games/{game}/events")
    assert [*start, *told] == log
    return told, log


@pytest.mark.long
@pytest.mark.parametrize("agent", ["scripted", "random"])
@pytest.mark.parametrize("profile", ["interintent", "official"])
async def test_every_stride_walks_to_the_log_of_the_automatic_run(
    database_url: str, profile: str, agent: str
) -> None:
    async with calling(database_url) as caller:
        wish: dict[str, Any] = {
            "profile": profile,
            "seeds": {"from": SEED},
            "seats": [{"agent": agent}],
        }
        _, [automatic] = await caller.played(**wish)
        expected = without_times(await caller.lines(f"/games/{automatic}/events"))
        assert expected == await undisturbed(SEED, profile=profile, agent=agent)
        for far in ("action", "phase", "round", "end"):
            _, [game] = await caller.create(**wish, drive="manual")
            _, log = await _walked(caller, game, far)
            assert without_times(log) == expected, far


async def test_each_stride_goes_as_far_as_it_says(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual", seeds={"from": SEED})

        async def where() -> tuple[int, str]:
            view = (await caller.get(f"/games/{game}")).json()
            return view["round"], view["phase"]

        assert await where() == (1, "propose")
        first = (await caller.post(f"/games/{game}/step", json={"until": "action"})).json()
        assert [event["type"] for event in first["events"]].count("team_proposed") == 1
        assert await where() == (1, "discuss")
        second = (await caller.post(f"/games/{game}/step", json={"until": "action"})).json()
        assert [event["seat"] for event in second["events"] if event["type"] == "utterance_made"] == [2]
        await caller.post(f"/games/{game}/step", json={"until": "phase"})
        assert await where() == (1, "reconsider")
        await caller.post(f"/games/{game}/step", json={"until": "phase"})
        assert await where() == (1, "vote")
        one = (await caller.post(f"/games/{game}/step", json={"until": "action"})).json()
        assert {event["seat"] for event in one["events"]} == {1}
        assert [request["request_id"] for request in one["requests"]] == [
            f"1.1.vote.{seat}" for seat in (2, 3, 4, 5)
        ]
        await caller.post(f"/games/{game}/step", json={"until": "round"})
        assert (await where())[0] == 2
        assert (await caller.post(f"/games/{game}/step", json={"until": "end"})).json()["requests"] == []


async def test_steps_of_scripts_take_turns_with_those_of_other_owners(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        turns: list[str] = []

        async def turn(owner: str) -> None:
            turns.append(owner)

        monkeypatch.setattr(caller.services.games._pace, "turn", turn)
        await caller.post(f"/games/{game}/step", json={"until": "action"})
        assert turns == ["keyless"]
        await caller.post(f"/games/{game}/step", json={"until": "end"})
        assert len(turns) > 20


@pytest.mark.parametrize(
    ("who", "said"),
    [(OPERATOR, "3.1.assassinate.2"), (ANYBODY, "the recording has no answer to a seat's question")],
)
async def test_only_who_sees_all_is_told_which_answer_a_recording_lacks(
    database_url: str, monkeypatch: pytest.MonkeyPatch, who: Checked, said: str
) -> None:
    async def lacking(*_: Any, **__: Any) -> None:
        raise MissingAnswer("3.1.assassinate.2")

    monkeypatch.setattr(stepping, "step", lacking)
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        with pytest.raises(MissingAnswer) as told:
            await caller.services.games.stepper.step(game, "action", who)
        assert str(told.value) == said


async def test_stepping_is_left_out_of_step_only_on_an_action(database_url: str) -> None:
    # A body without `until` is one action, as documented.
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        stepped = (await caller.post(f"/games/{game}/step", json={})).json()
        assert stepped["events"][-1]["type"] == "utterance_made"


async def test_a_stale_match_moves_nothing(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        path = f"/games/{game}/step"
        old = (await caller.get(f"/games/{game}")).headers["etag"]
        moved = await caller.post(path, json={}, headers={"if-match": old})
        assert moved.status_code == 200
        before = await caller.rows()
        for stale in (old, '"public.1.created"', '"full.99.running"', "full.1.created", "garbage", '""'):
            problem(await caller.post(path, json={}, headers={"if-match": stale}), 412, "stale")
        assert await caller.rows() == before
        # The tag that a step answers with is the one that the next may name.
        again = await caller.post(path, json={}, headers={"if-match": moved.headers["etag"]})
        assert again.status_code == 200
        assert again.headers["etag"] == (await caller.get(f"/games/{game}")).headers["etag"]
        assert (await caller.post(path, json={}, headers={"if-match": "*"})).status_code == 200


async def test_games_that_step_themselves_or_are_over_are_not_stepped(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [automatic] = await caller.played(seats=[{"agent": "random"}])
        problem(await caller.post(f"/games/{automatic}/step", json={}), 409, "driven-automatically")
        _, [manual] = await caller.create(seats=[{"agent": "random"}], drive="manual")
        await caller.post(f"/games/{manual}/step", json={"until": "end"})
        before = await caller.rows()
        problem(await caller.post(f"/games/{manual}/step", json={}), 409, "already-over")
        problem(await caller.post(f"/games/{manual}/cancel"), 409, "already-over")
        assert await caller.rows() == before


async def test_steps_at_the_same_time_have_one_effect_each(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual", seeds={"from": SEED})
        steps = await asyncio.gather(*(caller.post(f"/games/{game}/step", json={}) for _ in range(6)))
        assert {answer.status_code for answer in steps} == {200}
        told = [event for answer in steps for event in answer.json()["events"]]
        assert len({event["seq"] for event in told}) == len(told)
        told.sort(key=lambda event: event["seq"])
        log = await caller.lines(f"/games/{game}/events")
        assert log[-len(told) :] == told
        assert without_times(log) == (await undisturbed(SEED))[: len(log)]
        # With a tag, one of many goes through.
        etag = (await caller.get(f"/games/{game}")).headers["etag"]
        steps = await asyncio.gather(
            *(caller.post(f"/games/{game}/step", json={}, headers={"if-match": etag}) for _ in range(6))
        )
        assert sorted(answer.status_code for answer in steps) == [200, *[412] * 5]
        await caller.post(f"/games/{game}/step", json={"until": "end"})
        log = await caller.lines(f"/games/{game}/events")
        assert without_times(log) == await undisturbed(SEED)
        await until(lambda: len(caller.services.games.stepper._stepping) == 0)


@pytest.mark.parametrize("pause_s", [0, 0.01, 0.03, 0.1])
async def test_stepping_and_cancelling_at_the_same_time_leaves_a_whole_log(
    database_url: str, pause_s: float
) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        begun = await caller.lines(f"/games/{game}/events")
        walk = asyncio.create_task(caller.post(f"/games/{game}/step", json={"until": "end"}))
        await asyncio.sleep(pause_s)
        cancelled = await caller.post(f"/games/{game}/cancel")
        walked = await walk
        lines = await caller.lines(f"/games/{game}/events")
        assert [line["seq"] for line in lines] == [*range(1, len(lines) + 1)]
        ends = [line["type"] for line in lines if line["type"] in ("game_cancelled", "game_ended")]
        assert lines[-1]["type"] == ends[-1]
        # Which came first is the machine's affair. What each is told must fit what the log holds then.
        if cancelled.status_code != 202:
            problem(cancelled, 409, "already-over")
            assert walked.status_code == 200
            assert ends == ["game_ended"]
            assert walked.json()["events"] == lines[len(begun) :]
        elif walked.status_code == 409:
            problem(walked, 409, "already-over")
            assert lines[:-1] == begun, "who was told that the game was over before has stepped"
            assert ends == ["game_cancelled"]
        else:
            problem(walked, 412, "stale")
            assert ends == ["game_cancelled"]


async def test_a_walk_notices_a_game_cancelled_between_two_of_its_steps(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped, go_on = asyncio.Event(), asyncio.Event()

    async def step_and_wait(*given: Any, **more: Any) -> Any:
        done = await step(*given, **more)
        stepped.set()
        await go_on.wait()
        return done

    monkeypatch.setattr(stepping, "step", step_and_wait)
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        begun = await caller.lines(f"/games/{game}/events")
        walk = asyncio.create_task(caller.post(f"/games/{game}/step", json={"until": "end"}))
        await asyncio.wait_for(stepped.wait(), WITHIN_S)
        assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
        go_on.set()
        problem(await walk, 412, "stale")
        lines = await caller.lines(f"/games/{game}/events")
        assert len(lines) > len(begun) + 1
        assert [line["type"] for line in lines if line["type"].startswith("game_")] == [
            "game_created",
            "game_cancelled",
        ]
        assert lines[-1]["type"] == "game_cancelled"


async def test_a_walk_stops_for_a_cancellation_that_has_begun(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        begun = await caller.lines(f"/games/{game}/events")
        canceller = caller.services.games.canceller
        last_words, walked = canceller._last_words, asyncio.Event()

        async def after_the_walk(row: Any) -> Any:
            await walked.wait()
            return await last_words(row)

        monkeypatch.setattr(canceller, "_last_words", after_the_walk)
        cancelling = asyncio.create_task(caller.post(f"/games/{game}/cancel"))
        await until(lambda: game in canceller.under_way)
        problem(await caller.post(f"/games/{game}/step", json={"until": "end"}), 412, "stale")
        walked.set()
        assert (await cancelling).status_code == 202
        lines = await caller.lines(f"/games/{game}/events")
        assert lines[:-1] == begun
        assert lines[-1]["type"] == "game_cancelled"


async def test_a_walk_that_meets_a_cancellation_reports_that_the_game_is_over(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        begun = await caller.lines(f"/games/{game}/events")
        reader = caller.services.reader
        events_of = reader.events
        # The walk has seen that the game is open, and reads its log when it is so no longer.
        reading, go_on = asyncio.Event(), asyncio.Event()

        async def later(game_id: str) -> Any:
            if not reading.is_set():  # the walk's; the cancellation reads too, and does not wait
                reading.set()
                await go_on.wait()
            return await events_of(game_id)

        monkeypatch.setattr(reader, "events", later)
        walk = asyncio.create_task(caller.post(f"/games/{game}/step", json={"until": "end"}))
        await asyncio.wait_for(reading.wait(), WITHIN_S)
        assert (await caller.post(f"/games/{game}/cancel")).status_code == 202
        go_on.set()
        problem(await walk, 409, "already-over")
        lines = await caller.lines(f"/games/{game}/events")
        assert lines[:-1] == begun
        assert lines[-1]["type"] == "game_cancelled"


async def test_a_game_that_ends_while_it_is_being_cancelled_is_not_cancelled_after_its_end(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        services = caller.services
        release = services.runner.release

        # The cancellation has seen that the game is open; another process then plays it to its end.
        async def play_on(game_id: str) -> None:
            services.games.canceller.under_way.discard(game_id)
            assert (await caller.post(f"/games/{game}/step", json={"until": "end"})).status_code == 200
            await release(game_id)

        monkeypatch.setattr(services.runner, "release", play_on)
        problem(await caller.post(f"/games/{game}/cancel"), 409, "already-over")
        assert (await caller.lines(f"/games/{game}/events"))[-1]["type"] == "game_ended"
        assert (await caller.get(f"/games/{game}")).json()["status"] == "finished"
