"""Games and batches over HTTP: they are created and played, and each viewer sees its own part."""

import asyncio
import hashlib
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, get_args

import httpx
import pytest

from app.base import metrics
from app.base.schemas import GameStatus
from app.games.status import games_by_status
from app.store.games import Tallied
from engine.events import visible
from engine.rules import pending
from engine.state import fold
from engine.terms import FULL, PUBLIC, Role
from engine.view import project, viewer_name
from tests.app.calling import (
    PROJECT,
    WITHIN_S,
    Line,
    calling,
    problem,
    read_log,
    read_ndjson,
    undisturbed,
    until,
    without_place,
    without_times,
    written,
)
from tests.app.real_server import local_settings, running_server
from tests.tiers import postgres_in_long_tier

RANDOM = [{"agent": "random"}]

SECRET_TYPES = {
    *("roles_dealt", "role_learned", "vote_cast", "card_played", "round_summarised", "beliefs_formed"),
    *("intentions_selected", "speech_drafted", "readings_imagined", "choice_explained", "action_refused"),
    *("action_defaulted", "reply_unusable", "evil_conferred", "selection_prepared", "agents_seated"),
}
"""The table of events: seen by a seat or by the full viewer only."""

THOUGHT_TYPES = {
    *("beliefs_formed", "intentions_selected", "speech_drafted", "readings_imagined", "choice_explained")
}


@pytest.mark.parametrize(
    "sent",
    [
        {"json": {}},
        {"content": b"{}", "headers": {"content-type": "application/x-www-form-urlencoded"}},  # curl -d '{}'
        {"content": b"{}"},
    ],
    ids=["json", "curl", "untyped"],
)
async def test_an_empty_request_makes_a_full_game_that_soon_ends(
    database_url: str, sent: dict[str, Any]
) -> None:
    async with calling(database_url) as caller:
        answer = await caller.post("/games", **sent)
        assert answer.status_code == 201, answer.text
        created = answer.json()
        assert created["count"] == 1
        assert answer.headers["location"] == f"/batches/{created['batch_id']}"
        [game] = created["games"]
        assert [seat["seat"] for seat in game["seats"]] == [1, 2, 3, 4, 5]
        await caller.over(created["batch_id"])
        view = (await caller.get(f"/games/{game['game_id']}")).json()
        assert view["status"] == "finished"
        assert view["phase"] == "over"
        assert view["winner"] in ("loyal", "evil")
        assert view["profile"]["name"] == "interintent"
        assert {spec["agent"] for spec in view["agents"]} == {"scripted"}


async def test_the_public_stream_holds_no_hidden_fact_and_the_full_one_is_whole(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.played(reveal="none")
        full = await caller.lines(f"/games/{game}/events")
        public = await caller.lines(f"/games/{game}/events", viewer="public")
        log = read_log(full)
        assert [line["seq"] for line in full] == [*range(1, len(full) + 1)]
        assert [line["seq"] for line in public] == [*range(1, len(public) + 1)]
        assert {line["type"] for line in full} >= THOUGHT_TYPES
        assert not SECRET_TYPES & {line["type"] for line in public}
        assert written(log) == without_times(full)
        assert without_times(public) == written(project(log, PUBLIC))
        # The deal and the seed are in no byte of it. (Every public line may name the deck.)
        answer = await caller.get(f"/games/{game}/events", params={"viewer": "public"})
        seed = next(line["seed"] for line in full if line["type"] == "roles_dealt")
        assert seed not in answer.text
        ended = public[-1]
        assert (ended["type"], ended["roles"], ended["seed"]) == ("game_ended", None, None)


async def test_each_viewer_reads_its_own_projection_and_nothing_more(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.played(players=7)
        log = read_log(await caller.lines(f"/games/{game}/events"))
        for viewer in (PUBLIC, FULL, *range(1, 8)):
            name = viewer_name(viewer)
            lines = await caller.lines(f"/games/{game}/events", viewer=name)
            expected = log if viewer == FULL else project(log, viewer)
            assert without_times(lines) == written(expected), name
            assert all(visible(event, viewer) for event in expected)
            head = (await caller.get(f"/games/{game}", params={"viewer": name})).json()["head"]
            assert head == len(expected)


@pytest.mark.parametrize("reveal", ["none", "roles", "all"])
@postgres_in_long_tier
async def test_a_view_is_the_fold_of_what_its_viewer_may_see(database_url: str, reveal: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(reveal=reveal, drive="manual")
        for stage in ("running", "over"):
            await caller.post(f"/games/{game}/step", json={"until": "end" if stage == "over" else "round"})
            log = read_log(await caller.lines(f"/games/{game}/events"))
            whole = fold(log)
            for viewer in (PUBLIC, FULL, 1, 2, 3, 4, 5):
                view = (await caller.get(f"/games/{game}", params={"viewer": viewer_name(viewer)})).json()
                seen = fold(log if viewer == FULL else project(log, viewer))
                table = seen.table
                assert view["viewer"] == viewer_name(viewer)
                for name in ("phase", "round", "attempt", "leader", "winner", "ending"):
                    assert view[name] == getattr(table, name), (viewer, name)
                assert view["proposed"] == list(table.proposed)
                assert view["team"] == list(table.team)
                assert [quest["succeeded"] for quest in view["quests"]] == [
                    quest.succeeded for quest in table.quests
                ]
                assert len(view["proposals"]) == len(table.tallies)
                by_seat = {str(seat): role for seat, role in enumerate(whole.roles or (), 1)}
                told = viewer == FULL or (stage == "over" and reveal != "none")
                assert view["roles"] == (by_seat if told else None), (viewer, stage)
                assert (view["seed"] is not None) == (viewer == FULL)
                assert (view["agents"] is not None) == (viewer == FULL)
                if viewer in (PUBLIC, FULL):
                    assert view["hand"] is None
                else:
                    assert view["hand"]["role"] == by_seat[str(viewer)]
                    assert view["hand"]["sees"] == list(seen.hand(viewer).sees)
                if viewer == FULL:
                    assert [one["request_id"] for one in view["requests"]] == [
                        one.id for one in pending(whole)
                    ]
                else:
                    assert view["requests"] is None


async def test_the_end_reveals_what_the_request_asked_for(database_url: str) -> None:
    async with calling(database_url) as caller:
        for reveal, roles, seed in (("none", False, False), ("roles", True, False), ("all", True, True)):
            _, [game] = await caller.played(reveal=reveal, seats=RANDOM)
            ended = (await caller.lines(f"/games/{game}/events", viewer="public"))[-1]
            assert (ended["roles"] is not None, ended["seed"] is not None) == (roles, seed)


async def test_an_unchanged_view_is_answered_with_304(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        etags = {}
        for viewer in ("public", "full", "seat:2"):
            first = await caller.get(f"/games/{game}", params={"viewer": viewer})
            etags[viewer] = first.headers["etag"]
            for header in (etags[viewer], f'"other", W/{etags[viewer]}', "*"):
                again = await caller.get(
                    f"/games/{game}", params={"viewer": viewer}, headers={"if-none-match": header}
                )
                assert again.status_code == 304
                assert again.content == b""
                assert again.headers["etag"] == etags[viewer]
        # One viewer's tag is none of another's.
        other = await caller.get(
            f"/games/{game}", params={"viewer": "public"}, headers={"if-none-match": etags["full"]}
        )
        assert other.status_code == 200
        await caller.post(f"/games/{game}/step", json={"until": "phase"})
        for viewer, etag in etags.items():
            moved = await caller.get(
                f"/games/{game}", params={"viewer": viewer}, headers={"if-none-match": etag}
            )
            assert moved.status_code == 200
            assert moved.headers["etag"] != etag


async def test_a_tag_changes_only_with_what_its_viewer_sees(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        seen: list[tuple[str, int, str]] = []
        while True:
            stepped = (await caller.post(f"/games/{game}/step", json={})).json()
            answer = await caller.get(f"/games/{game}", params={"viewer": "public"})
            view = answer.json()
            seen.append((answer.headers["etag"], view["head"], view["status"]))
            if stepped["status"] == "finished" or len(seen) == 40:
                break
        assert len({(etag, head, status) for etag, head, status in seen}) == len({one[0] for one in seen})
        # Ballots are private until the last of them: the public tag stood still meanwhile.
        assert len({etag for etag, _, _ in seen}) < len(seen)


async def test_events_are_read_on_behind_any_position(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.played()
        for viewer in ("public", "seat:3", "full"):
            path, query = f"/games/{game}/events", {"viewer": viewer}
            whole = (await caller.get(path, params=query)).content
            head = len(read_ndjson(whole))
            for after in {0, 1, 17, head - 1, head}:
                rest = (await caller.get(path, params={**query, "after": after})).content
                assert rest.splitlines() == whole.splitlines()[after:]
            problem(await caller.get(path, params={**query, "after": head + 1}), 416, "beyond-head")
            problem(await caller.get(path, params={**query, "after": 2**53}), 416, "beyond-head")
            paged = b""
            while len(page := await caller.lines(path, **query, after=len(paged.splitlines()), limit=7)) > 0:
                paged += b"".join(json.dumps(line).encode() + b"\n" for line in page)
                assert len(page) <= 7
            assert read_ndjson(paged) == read_ndjson(whole)


async def test_a_followed_game_arrives_whole_and_ends(database_url: str) -> None:
    async with (
        running_server(local_settings(database_url, follow_blank_s=0.2)) as served,
        httpx.AsyncClient(base_url=served.url, timeout=WITHIN_S) as client,
    ):
        created = (await client.post("/games", json={"drive": "manual"})).json()
        game = created["games"][0]["game_id"]
        got: list[Line] = []
        blanks = 0

        async def follow() -> None:
            nonlocal blanks
            path = f"/games/{game}/events"
            async with client.stream("GET", path, params={"viewer": "public", "follow": True}) as stream:
                async for line in stream.aiter_lines():
                    if line:
                        got.append(json.loads(line))
                    else:
                        blanks += 1

        follower = asyncio.create_task(follow())
        # Silence is filled with blank lines, so that nobody in between takes the connection for dead.
        await until(lambda: len(got) > 0 and blanks >= 2)
        for far in ("action", "round", "end"):
            assert (await client.post(f"/games/{game}/step", json={"until": far})).status_code == 200
        async with asyncio.timeout(WITHIN_S):
            await follower
        whole = await client.get(f"/games/{game}/events", params={"viewer": "public"})
        assert got == read_ndjson(whole.content)


async def test_a_followed_batch_tells_each_change_and_ends(database_url: str) -> None:
    async with (
        running_server(local_settings(database_url, follow_blank_s=0.2)) as served,
        httpx.AsyncClient(base_url=served.url, timeout=WITHIN_S) as client,
    ):
        created = (await client.post("/games", json={"count": 12, "seats": RANDOM})).json()
        answer = await client.get(f"/batches/{created['batch_id']}/events", params={"follow": True})
        views = read_ndjson(answer.content)
        finished = [view["games"]["finished"] for view in views]
        assert finished == sorted(finished)
        assert (finished[-1], views[-1]["status"]) == (12, "done")
        manual = (await client.post("/games", json={"drive": "manual"})).json()["batch_id"]
        path = f"/batches/{manual}/events"
        lines: list[str] = []
        async with client.stream("GET", path, params={"follow": True}) as stream:
            async for line in stream.aiter_lines():
                lines.append(line)
                if len(lines) == 3:
                    assert (await client.post(f"/batches/{manual}/cancel")).status_code == 202
        assert lines[1:3] == ["", ""]
        assert json.loads(lines[-1])["status"] == "cancelled"
        [once] = read_ndjson((await client.get(path)).content)
        assert once["status"] == "cancelled"


async def test_pages_hold_every_game_once_while_new_games_come(database_url: str) -> None:
    async with calling(database_url) as caller:
        wished: list[str] = []
        for count in (3, 1, 5, 4):
            batch, found = await caller.create(count=count, drive="manual")
            wished += found
        got: list[str] = []
        path: str | None = "/games?limit=4"
        pages = 0
        while path is not None:
            answer = await caller.get(path)
            body = answer.json()
            got += [game["game_id"] for game in body["games"]]
            pages += 1
            await caller.create(drive="manual")  # comes first in the order, so it is on no later page
            if body["next"] is None:
                assert "link" not in answer.headers
                path = None
            else:
                link = answer.headers["link"]
                assert link.endswith('>; rel="next"')
                path = link[1 : link.index(">")]
                assert f"cursor={body['next']}" in path
                assert "limit=4" in path
        assert pages == 4
        assert Counter(got) == Counter(wished)
        # Newest batch first, games in their order within it.
        page = (await caller.get("/games", params={"batch": batch})).json()["games"]
        assert [game["position"] for game in page] == [0, 1, 2, 3]


async def test_listings_are_filtered_by_status_and_batch(database_url: str) -> None:
    async with calling(database_url) as caller:
        done, finished = await caller.played(count=3, seats=RANDOM)
        waiting, [manual] = await caller.create(drive="manual")
        _, [gone] = await caller.create(drive="manual")
        assert (await caller.post(f"/games/{gone}/cancel")).status_code == 202
        _, [moving] = await caller.create(drive="manual")
        await caller.post(f"/games/{moving}/step", json={})

        async def listed(**query: Any) -> list[str]:
            return [game["game_id"] for game in (await caller.get("/games", params=query)).json()["games"]]

        assert await listed(status="finished") == finished
        assert await listed(status="created") == [manual]
        assert await listed(status="running") == [moving]
        assert await listed(status="cancelled") == [gone]
        assert await listed(status="failed") == []
        assert await listed(batch=done) == finished
        assert await listed(batch=waiting, status="finished") == []
        assert await listed(batch="b_nobody") == []
        assert len(await listed()) == 6
        [one] = (await caller.get("/games", params={"limit": 1, "status": "finished"})).json()["games"]
        assert one["winner"] in ("loyal", "evil")
        assert one["finished_at"] >= one["created_at"]


async def test_a_batch_counts_its_games(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, found = await caller.played(count=10, seats=RANDOM, labels={"experiment": "a1"})
        view = (await caller.get(f"/batches/{batch}")).json()
        assert (view["status"], view["count"], view["labels"]) == ("done", 10, {"experiment": "a1"})
        assert view["games"] == dict.fromkeys(get_args(GameStatus), 0) | {"finished": 10}
        ends = [(await caller.get(f"/games/{game}")).json() for game in found]
        assert view["winners"] == Counter(end["winner"] for end in ends)
        assert view["endings"] == Counter(end["ending"] for end in ends)
        assert view["eta_s"] is None
        assert view["games_per_second"] > 0
        assert view["finished_at"] is not None
        waiting, _ = await caller.create(count=2, drive="manual")
        assert (await caller.get(f"/batches/{waiting}")).json()["status"] == "queued"


async def test_games_are_listed_by_a_label_of_their_batch(database_url: str) -> None:
    async with calling(database_url) as caller:
        labels = [{"cell": "a=b, c"}, {"cell": 'x."y"', "0": "z"}, {}]
        made = [await caller.create(drive="manual", count=2, labels=each) for each in labels]

        async def listed(label: str) -> set[str]:
            answer = await caller.get("/games", params={"label": label})
            assert answer.status_code == 200, answer.text
            return {game["game_id"] for game in answer.json()["games"]}

        assert await listed("cell=a=b, c") == set(made[0][1])
        assert await listed('cell=x."y"') == set(made[1][1])
        assert await listed("0=z") == set(made[1][1])
        assert await listed("cell=a") == set()
        problem(await caller.get("/games", params={"label": "cell"}), 422, "invalid-request")
        token = (await caller.post(f"/batches/{made[0][0]}/tokens", json={})).json()["token"]
        watching = {"authorization": f"Bearer {token}"}
        asked = {"batch": made[0][0], "label": "cell=a=b, c"}
        problem(await caller.get("/games", params=asked, headers=watching), 403, "forbidden")


async def test_an_export_holds_every_event_in_order_and_signs_them(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, found = await caller.played(count=4, seats=RANDOM)
        for view in ("public", "full"):
            path = f"/batches/{batch}/export"
            whole = (await caller.get(path, params={"view": view})).content
            lines = whole.splitlines(keepends=True)
            end = json.loads(lines[-1])
            assert (
                end
                == {
                    "t": "export.end",
                    "games": 4,
                    "events": len(lines) - 5,  # this line, and the provenance of each game
                    "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest(),
                }
            )
            expected: list[Line] = []
            for game in found:
                expected += await caller.lines(f"/games/{game}/events", viewer=view)
            opened = [line for line in map(json.loads, lines[:-1]) if line["type"] == "provenance"]
            assert [line["game"] for line in opened] == found
            assert [
                without_place(line) for line in map(json.loads, lines[:-1]) if line not in opened
            ] == expected
            for after in (0, 1, len(lines) // 2, len(lines) - 1):
                rest = (await caller.get(path, params={"view": view, "after": after})).content
                # What came before the cut and what comes after it: the undivided export, signature and all.
                assert b"".join(lines[:after]) + rest == whole
        default = (await caller.get(f"/batches/{batch}/export")).content
        assert default == (await caller.get(f"/batches/{batch}/export", params={"view": "public"})).content


async def test_an_unfinished_batch_is_exported_only_in_part(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, [game] = await caller.create(drive="manual")
        problem(await caller.get(f"/batches/{batch}/export"), 409, "unfinished")
        await caller.post(f"/games/{game}/step", json={"until": "round"})
        problem(await caller.get(f"/batches/{batch}/export"), 409, "unfinished")
        part = await caller.lines(f"/batches/{batch}/export", partial=True, view="full")
        assert part[-1]["t"] == "export.end"
        assert part[0]["type"] == "provenance"
        assert [*map(without_place, part[1:-1])] == await caller.lines(f"/games/{game}/events")
        await caller.post(f"/games/{game}/step", json={"until": "end"})
        whole = await caller.lines(f"/batches/{batch}/export", view="full")
        assert whole[1 : len(part) - 1] == part[1:-1]


@pytest.mark.parametrize("start", [7, 2**100], ids=["small seeds", "seeds beyond 64 bits"])
@postgres_in_long_tier
async def test_a_large_batch_is_accepted_at_once_and_laid_out_behind(database_url: str, start: int) -> None:
    async with calling(database_url) as caller:
        wish = {"count": 450, "seats": RANDOM, "seeds": {"from": start}, "drive": "manual"}
        answer = await caller.post("/games", json=wish)
        assert answer.status_code == 202
        assert len(answer.json()["games"]) == 100
        batch = answer.json()["batch_id"]
        # While most games are not stored yet.
        view = (await caller.get(f"/batches/{batch}")).json()
        [line] = (await caller.get("/batches")).json()["batches"]
        assert sum(view["games"].values()) == sum(line["games"].values()) == view["count"] == 450
        await until(lambda: not (caller.services.pickup.busy or caller.services.games._background))
        assert (await caller.get(f"/batches/{batch}")).json()["games"]["created"] == 450
        positions: list[int] = []
        first = None
        path: str | None = f"/games?batch={batch}&limit=200"
        while path is not None:
            page = (await caller.get(path)).json()
            positions += [game["position"] for game in page["games"]]
            first = first or page["games"][0]["game_id"]
            cursor = page["next"]
            path = None if cursor is None else f"/games?batch={batch}&limit=200&cursor={cursor}"
        assert positions == [*range(450)]
        seeds = [
            line["seed"]
            for line in await caller.lines(f"/batches/{batch}/export", view="full", partial=True)
            if line.get("type") == "roles_dealt"
        ]
        assert seeds == [str(start + position) for position in range(450)]


async def test_given_seeds_give_the_games_of_an_undisturbed_run(database_url: str) -> None:
    async with calling(database_url) as caller:
        for profile, players in (("interintent", 5), ("official", 6)):
            _, found = await caller.played(count=3, seeds={"from": 500}, profile=profile, players=players)
            for position, game in enumerate(found):
                lines = without_times(await caller.lines(f"/games/{game}/events"))
                assert lines == await undisturbed(500 + position, profile=profile, players=players)


async def test_drawn_seeds_differ_and_stay_hidden(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, found = await caller.played(count=8, seats=RANDOM)
        seeds = [(await caller.get(f"/games/{game}")).json()["seed"] for game in found]
        assert len(set(seeds)) == 8
        assert min(int(seed).bit_length() for seed in seeds) > 96
        for game, seed in zip(found, seeds, strict=True):
            for path in (f"/games/{game}", f"/games/{game}/events"):
                for viewer in ("public", "seat:1", "seat:5"):
                    assert seed not in (await caller.get(path, params={"viewer": viewer})).text


async def test_rotation_moves_the_specs_one_seat_on_from_game_to_game(database_url: str) -> None:
    async with calling(database_url) as caller:
        seats = [{"agent": "scripted"}, *(RANDOM * 4)]
        _, found = await caller.create(count=6, seats=seats, rotate=True, drive="manual")
        where = []
        for game in found:
            agents = (await caller.get(f"/games/{game}")).json()["agents"]
            where.append([spec["agent"] for spec in agents].index("scripted") + 1)
        assert where == [1, 2, 3, 4, 5, 1]


async def test_names_deal_roles_and_rules_are_as_requested(database_url: str) -> None:
    async with calling(database_url) as caller:
        deal = ["morgana", "merlin", "assassin", "percival", "servant", "servant"]
        _, [game] = await caller.create(
            deal={str(seat): role for seat, role in enumerate(deal, 1)},
            names={"2": "Zoë 🗡", "6": "Robert'); DROP TABLE games;--"},
            rules={"max_rejections": 3, "first_leader": 4, "leader_step": -1, "team_sizes": [2, 2, 2, 2, 2]},
            drive="manual",
        )
        view = (await caller.get(f"/games/{game}")).json()
        assert view["roles"] == {str(seat): role for seat, role in enumerate(deal, 1)}
        assert view["names"]["2"] == "Zoë 🗡"
        assert view["names"]["6"] == "Robert'); DROP TABLE games;--"
        assert view["names"]["1"] == "Player 1"
        assert view["leader"] == 4
        settings = view["profile"]
        assert (settings["max_rejections"], settings["leader_step"]) == (3, -1)
        assert settings["team_sizes"] == [2, 2, 2, 2, 2]
        # The deck is public and tells nothing of who holds what.
        assert settings["roles"] == sorted(deal, key=[role.value for role in Role].index)
        _, [drawn] = await caller.create(
            roles=["merlin", "servant", "servant", "mordred", "oberon"], drive="manual"
        )
        dealt = (await caller.get(f"/games/{drawn}")).json()["roles"]
        assert sorted(dealt.values()) == ["merlin", "mordred", "oberon", "servant", "servant"]
        _, [led] = await caller.create(rules={"first_leader": None}, drive="manual")
        assert (await caller.get(f"/games/{led}")).json()["profile"]["first_leader"] is None


async def test_a_whole_number_may_be_written_with_a_point(database_url: str) -> None:
    async with calling(database_url) as caller:
        answer = await caller.post("/games", content=b'{"players": 6.0, "count": 2.0, "drive": "manual"}')
        assert answer.status_code == 201, answer.text
        game = answer.json()["games"][0]["game_id"]
        assert (await caller.get(f"/games/{game}")).json()["profile"]["players"] == 6


async def test_the_number_of_players_follows_from_seats_roles_or_deal(database_url: str) -> None:
    async with calling(database_url) as caller:
        for wish in (
            {"seats": RANDOM * 7},
            {"roles": ["merlin", *["servant"] * 3, "assassin", "minion", "morgana"]},
            {
                "deal": {
                    str(n): role
                    for n, role in enumerate(["merlin", *["servant"] * 3, "mordred", "oberon", "minion"], 1)
                }
            },
        ):
            _, [game] = await caller.create(**wish, drive="manual")
            assert (await caller.get(f"/games/{game}")).json()["profile"]["players"] == 7


async def test_a_cancelled_game_keeps_its_log_and_takes_no_more(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        await caller.post(f"/games/{game}/step", json={"until": "round"})
        before = await caller.lines(f"/games/{game}/events")
        answer = await caller.post(f"/games/{game}/cancel")
        assert (answer.status_code, answer.json()) == (202, {"status": "cancelling"})
        after = await caller.lines(f"/games/{game}/events")
        assert after[:-1] == before
        assert after[-1]["type"] == "game_cancelled"
        assert (await caller.get(f"/games/{game}")).json()["status"] == "cancelled"
        problem(await caller.post(f"/games/{game}/cancel"), 409, "already-over")
        problem(await caller.post(f"/games/{game}/step", json={}), 409, "already-over")


@postgres_in_long_tier
async def test_cancelling_a_batch_cancels_its_open_games(database_url: str) -> None:
    async with calling(database_url) as caller:
        batch, _ = await caller.create(count=450, drive="manual", seats=RANDOM)  # while it is laid out
        assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        view = await caller.over(batch)
        assert view["status"] == "cancelled"
        await until(lambda: not (caller.services.pickup.busy or caller.services.games._background))
        counts = (await caller.get(f"/batches/{batch}")).json()["games"]
        assert counts["created"] == counts["running"] == 0
        assert counts["cancelled"] == 450
        problem(await caller.post(f"/batches/{batch}/cancel"), 409, "already-over")


async def test_automatic_games_are_cancelled_in_the_middle(database_url: str) -> None:
    async with calling(database_url, parallel_games=2) as caller:
        batch, found = await caller.create(count=30)
        assert (await caller.post(f"/games/{found[-1]}/cancel")).status_code == 202
        assert (await caller.post(f"/batches/{batch}/cancel")).status_code == 202
        view = await caller.over(batch)
        assert view["status"] == "cancelled"
        assert view["games"]["failed"] == 0
        assert view["games"]["finished"] + view["games"]["cancelled"] == 30
        for game in found:
            lines = await caller.lines(f"/games/{game}/events")
            assert [line["seq"] for line in lines] == [*range(1, len(lines) + 1)]
            assert lines[-1]["type"] in ("game_cancelled", "game_ended")


async def test_unknown_games_and_batches_are_not_found_everywhere(database_url: str) -> None:
    async with calling(database_url) as caller:
        for method, path, body in (
            ("GET", "/games/g_nobody", None),
            ("GET", "/games/g_nobody/events", None),
            ("POST", "/games/g_nobody/step", {}),
            ("POST", "/games/g_nobody/fork", {"after": {"request": "1.1.vote.1"}}),
            ("POST", "/games/g_nobody/cancel", None),
            ("GET", "/batches/b_nobody", None),
            ("GET", "/batches/b_nobody/events", None),
            ("GET", "/batches/b_nobody/export", None),
            ("POST", "/batches/b_nobody/cancel", None),
        ):
            problem(await caller.request(method, path, json=body), 404, "not-found")


async def test_a_stopping_service_takes_no_new_work_and_says_so(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.create(drive="manual")
        caller.services.lifecycle.drain()
        before = await caller.rows()
        for path, body in (
            ("/games", {}),
            ("/games/import", {"schema": "avalon-replay/1"}),
            (f"/games/{game}/step", {}),
            (f"/games/{game}/fork", {"after": {"request": "1.1.vote.1"}}),
        ):
            answer = await caller.post(path, json=body)
            problem(answer, 503, "draining")
            assert int(answer.headers["retry-after"]) > 0
        problem(await caller.get("/readyz"), 503, "not-ready")
        assert (await caller.get("/livez")).status_code == 200
        assert await caller.rows() == before


async def test_games_put_in_line_at_any_moment_are_all_driven(tmp_path: Any) -> None:
    # One worker that comes to its end again and again, while one game after the other arrives: none may
    # be put in line in the moment in which the worker has gone and still counts.
    async with calling(f"sqlite:///{tmp_path / 'games.sqlite'}", parallel_games=1) as caller:
        driven: list[str] = []

        async def instantly(game_id: str) -> bool:
            driven.append(game_id)
            return True

        runner = caller.services.runner
        runner._guarded = instantly  # type: ignore[method-assign]
        for turns in range(12):
            runner.submit([f"g_{turns}"])
            for _ in range(turns):
                await asyncio.sleep(0)
            runner.submit([f"g_{turns}_more"])
            await until(lambda last=f"g_{turns}_more": driven[-1:] == [last])  # type: ignore[misc]


async def test_reference_routes_tell_the_catalogue_and_the_profiles(database_url: str) -> None:
    async with calling(database_url) as caller:
        intentions = (await caller.get("/intentions")).json()
        assert len({one["id"] for one in intentions}) == len(intentions) > 0
        profiles = {one["name"]: one["players"] for one in (await caller.get("/profiles")).json()}
        assert profiles["official"]["7"]["fails_needed"] == [1, 1, 1, 2, 1]
        assert profiles["interintent"]["5"]["team_sizes"] == [2, 3, 2, 3, 3]
        assert (await caller.get("/readyz")).json() == {"status": "ready"}
        assert (await caller.get("/livez")).json() == {"status": "alive"}
        assert (await caller.get("/openapi.json")).json()["openapi"].startswith("3.1")


async def test_metrics_name_the_route_of_every_request(database_url: str) -> None:
    async with calling(database_url) as caller:
        _, [game] = await caller.played(seats=RANDOM)
        await caller.get(f"/games/{game}")
        await caller.post(f"/games/{game}/cancel")
        text = (await caller.get("/metrics")).text
        assert 'interintent_http_seconds_count{method="POST",route="/games",status="201"}' in text
        assert 'interintent_http_seconds_count{method="GET",route="/games/{game_id}",status="200"}' in text
        assert "interintent_events_total" in text


async def test_metrics_count_every_event_once_however_it_came_into_its_log(database_url: str) -> None:
    origins = ("played", "created", "imported", "forked")
    async with calling(database_url) as caller:
        counters = [metrics.events_written.labels(origin) for origin in origins]
        before = [counter._value.get() for counter in counters]
        await caller.played(seats=RANDOM, count=2)
        _, [stepped, cancelled] = await caller.create(seats=RANDOM, count=2, drive="manual")
        await caller.post(f"/games/{stepped}/step", json={"until": "round"})
        await caller.post(f"/games/{cancelled}/cancel")
        after = {"after": {"request": "1.1.propose_team.1"}, "drive": "manual"}
        assert (await caller.post(f"/games/{stepped}/fork", json=after)).status_code == 201
        record = (PROJECT / "tests" / "records" / "last-team-goes.json").read_bytes()
        assert (await caller.post("/games/import", content=record)).status_code == 201
        counted = [counter._value.get() - count for counter, count in zip(counters, before, strict=True)]
        assert all(counted)
        assert sum(counted) == (await caller.rows())["events"]


async def test_two_callers_create_and_read_at_the_same_time(database_url: str) -> None:
    async with calling(database_url) as caller:

        async def one(seed: int) -> None:
            _, [game] = await caller.played(seeds={"from": seed})
            lines = await caller.lines(f"/games/{game}/events")
            assert without_times(lines) == await undisturbed(seed)

        await asyncio.gather(*(one(seed) for seed in range(6)))


def test_no_secret_type_is_missing_from_this_list() -> None:
    from engine.events import EVENT_TYPES

    assert {name for name, kind in EVENT_TYPES.items() if kind.seen_by != "public"} == SECRET_TYPES


@pytest.mark.parametrize(
    ("cancelled", "stored", "shown"),
    [
        (False, {}, {"created": 5}),
        (False, {"running": 2}, {"running": 2, "created": 3}),
        (True, {"cancelled": 2}, {"cancelled": 5}),
        (False, {"finished": 4, "damaged": 1}, {"finished": 4, "damaged": 1}),
        (False, {"finished": 6}, {"finished": 6}),
    ],
)
def test_the_statuses_of_a_batch_add_up_whatever_is_stored(
    cancelled: bool, stored: dict[str, int], shown: dict[str, int]
) -> None:
    row: Any = SimpleNamespace(count=5, cancelled=cancelled)
    found = games_by_status(row, Tallied(Counter(stored), Counter(), Counter()))
    assert found == dict.fromkeys(get_args(GameStatus), 0) | shown
