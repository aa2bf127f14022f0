"""Sealed sets: who is told what, and when; what was read counts."""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, update

from app.base import clock
from app.base.errors import StillNeeded
from app.store.audit import Audit
from app.store.claim_codes import ClaimCodes
from app.store.deleting import Deleting
from app.store.examining import examine
from app.store.games import Invalidation
from app.store.quotas import QuotaStore
from app.store.rows import PlayerRow, values_of
from app.store.sets import SetStore
from app.store.tables import batches, game_players, set_answers
from app.store.tokens import StoredToken, TokenStore
from engine.chance import draw
from engine.events import Event, IntentionsSelected
from engine.intentions import CATALOGUE
from tests.app.calling import Caller, calling, problem
from tests.app.edge.test_keys import bearer, make_key, store_of
from tests.app.evaluations.sealing import (
    BATCH,
    DATE_MS,
    GAMES,
    SCOPES,
    Sliding,
    add_keys,
    ask,
    handed_in,
    items_in,
    key_of,
    lay_games,
    new_set,
    opened,
    scripted_log,
    sealed,
    told,
    took,
    with_games,
)
from tests.app.real_server import local_settings, running_server
from tests.app.watcher import watching
from tests.postgres import PostgresServer, fresh_database

LOGS = [scripted_log(seed) for seed in range(70, 70 + GAMES)]
PUBLIC_LOG, SECRET_LOG = scripted_log(1, "all"), scripted_log(1, "none")
APART_LOG = scripted_log(2, "all")


async def test_a_set_from_sealing_to_the_leaderboard(database_url: str) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}"
        found = await items_in(caller, "ann", set_id)
        assert len(found) == 200
        # Of each game, one seat's view, and nobody's own speeches.
        seats: dict[str, set[int]] = {}
        for item in found:
            seats.setdefault(item["game_id"], set()).add(item["reader"])
            assert item["reader"] != item["speaker"]
            assert item["think"] == ""
        assert len(seats) == GAMES
        assert all(len(of_game) == 1 for of_game in seats.values())
        silent = handed_in({item["id"]: [] for item in found[:50]}, "silent")
        receipt = await told(caller, "ann", f"{path}/answers", silent)
        assert set(receipt) == {"entry_id", "set_id", "rater", "at", "answers", "items"}
        same = handed_in({item["id"]: ["convince_leader"] for item in found}, "one")
        await told(caller, "bob", f"{path}/answers", same)
        for closed in ("/gold", f"/entries/{receipt['entry_id']}", "/entries/r_none"):
            for who in ("ann", "owner", "operator"):
                problem(await ask(caller, who, path + closed), 409, "set-sealed")
        assert (await told(caller, "operator", path))["status"] == "sealed"

        time.ahead_ms = DATE_MS
        problem(await ask(caller, "bob", f"{path}/answers", same), 410, "set-closed")
        board = (await opened(caller, "ann", set_id))["leaderboard"]
        assert [(entry["rater"]["name"], entry["owner"]) for entry in board] == [
            ("one", "project:bob"),
            ("silent", "project:ann"),
        ]
        f1 = board[0]["totals"]["micro"]["f1"]
        assert 0 < f1["low"] < f1["value"] < f1["high"] < 1
        assert f1["games"] == GAMES
        # What was not answered counts as silence.
        assert board[1]["totals"]["items"] == board[0]["totals"]["items"] > 100
        assert board[1]["totals"]["micro"]["f1"]["value"] == 0

        gold = [line for page in range(0, 200, 100) for line in await gold_at(caller, path, page)]
        counted = {line["item_id"]: set(line["gold"]) for line in gold if line["counted"]}
        assert len(gold) == 200
        assert len(counted) == board[0]["totals"]["items"]
        hits = sum("convince_leader" in of_item for of_item in counted.values())
        assert board[0]["totals"]["micro"]["matched"] == hits
        shown = await told(caller, "bob", f"{path}/entries/{receipt['entry_id']}")
        assert {line["item_id"] for line in shown["per_item"]} == {item["id"] for item in found}
        # Whoever read the set can now practise on it, and is right.
        practice = {"dimension": "guessing", **handed_in(counted, "late")}
        scored = await told(caller, "bob", "/evaluations", practice)
        assert scored["totals"]["micro"]["f1"]["value"] == 1.0
        other = {**practice, "variant": {"options": "roles"}}
        problem(await ask(caller, "bob", "/evaluations", other), 403, "forbidden")


async def test_drawing_a_set_counts_and_goes_on_once_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_games(f"sqlite:///{tmp_path}/sets.db", LOGS) as caller:
        quotas, path = caller.services.quotas, "/evaluations/sets"
        await QuotaStore(caller.services.database).change(
            "project:owner", {"submissions_a_day": 2}, frozenset()
        )
        await quotas.read()
        sets, begun, refused = caller.services.evaluations.sets, asyncio.Event(), asyncio.Event()
        draw_set = sets._draw

        async def drawing(*given: Any) -> Any:
            begun.set()
            await refused.wait()
            return await draw_set(*given)

        monkeypatch.setattr(sets, "_draw", drawing)
        first = asyncio.create_task(ask(caller, "owner", path, new_set()))
        await begun.wait()
        answer = await ask(caller, "owner2", path, new_set())
        problem(answer, 429, "rate-limited")
        assert int(answer.headers["retry-after"]) >= 1
        refused.set()
        assert (await first).status_code == 201
        # What finds too few items has been read all the same.
        problem(await ask(caller, "owner", path, new_set()), 422, "invalid-request")
        told = problem(await ask(caller, "owner", path, new_set()), 429, "quota-exceeded")
        assert told["quota"] == "submissions_a_day"


async def gold_at(caller: Any, path: str, place: int) -> list[dict[str, Any]]:
    page = await told(caller, "bob", f"{path}/gold?limit=100&cursor={place}")
    return list(page["items"])


# --- before the date ----------------------------------------------------------------------------


async def everything(caller: Any, set_id: str) -> dict[str, bytes]:
    """Every answer about a set and its games that anybody gets, byte for byte, receipts aside."""
    path = f"/evaluations/sets/{set_id}"
    reads = [
        path,
        "/evaluations/sets",
        f"{path}/items?limit=3",
        f"{path}/gold",
        f"{path}/entries/r_none",
        "/evaluations",
        f"/annotations?batch={BATCH}",
        f"/annotations/progress?batch={BATCH}",
        f"/evaluations/compare?batch={BATCH}&dimension=guessing&first=model&second=m2",
        f"/reports?batch={BATCH}",
        f"/batches/{BATCH}",
        "/games?limit=3",
    ]
    found = {}
    for who in ("owner", "ann", "bob2", "watcher", "operator"):
        # What a rater reads beside the set would count.
        beside = [] if who in ("ann", "bob2") else [f"/evaluations/items?batch={BATCH}&dimension=guessing"]
        for read in (*reads, *beside):
            answer = await ask(caller, who, read)
            assert answer.status_code < 500, (read, answer.text)
            body = answer.json()
            body.pop("trace_id", None)
            found[f"{who} {read}"] = repr((answer.status_code, answer.headers.get("etag"), body)).encode()
    return found


SUBMISSIONS = int(os.environ.get("INTERINTENT_TEST_SUBMISSIONS", "500"))
"""How many submissions the long test hands in: 10,000 take ten minutes."""


@pytest.mark.parametrize(
    "submissions", [40, pytest.param(SUBMISSIONS, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
async def test_before_the_date_submissions_change_no_byte_that_anybody_gets(
    tmp_path: Path, submissions: int
) -> None:
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", LOGS) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}/answers"
        ids = [item["id"] for item in await items_in(caller, "ann", set_id)]
        await items_in(caller, "bob", set_id)
        await everything(caller, set_id)  # what is read is remembered
        before = await everything(caller, set_id)
        for place in range(submissions):
            guess = CATALOGUE[place % len(CATALOGUE)].id
            some = ids[place % 7 :: 7]
            body = handed_in({id_: [guess] for id_ in some}, f"m{place % 3}")
            receipt = await told(caller, ("ann", "bob")[place % 2], path, body)
            assert receipt["items"] == len(some)
        assert await everything(caller, set_id) == before


@pytest.mark.long
async def test_a_set_and_its_receipts_do_not_depend_on_gold(tmp_path: Path) -> None:
    twins = [changed(log) for log in LOGS]
    answers = []
    for name, logs in (("one", LOGS), ("other", twins)):
        still = Still()
        async with with_games(f"sqlite:///{tmp_path / name}.sqlite", logs, still) as caller:
            got = []
            for dimension in ("guessing", "summarisation"):
                set_id = await sealed(caller, dimension)
                found = await items_in(caller, "ann", set_id)
                got.append(found)
                body = {"dimension": dimension, **handed_in({item["id"]: [] for item in found[:9]}, "own")}
                assert (await told(caller, "owner", "/evaluations", body))["totals"]["items"]
                judge = {"dimension": "selection", "judge": {"kind": "rule"}, "batch": BATCH}
                assert (await told(caller, "owner", "/evaluations", judge))["items"]
                body = handed_in({item["id"]: ["convince_leader"] for item in found})
                receipt = await told(caller, "ann", f"/evaluations/sets/{set_id}/answers", body)
                seen = await everything(caller, set_id)
                # Only whoever may read the gold is told something else.
                got += [
                    receipt,
                    {k: v for k, v in seen.items() if k.split()[0] in ("ann", "bob2", "watcher")},
                ]
            answers.append(got)
    assert answers[0] == answers[1]


class Still(Sliding):
    """No time passes, and chance repeats itself."""

    drawn = 0

    def now_ms(self) -> int:
        return 1_800_000_000_000 + self.ahead_ms

    def random_bits(self, count: int) -> int:
        self.drawn += 1
        return draw(0, "chance", self.drawn) % (1 << count)


def changed(log: Sequence[Event]) -> list[Event]:
    """The same game with other final intentions behind every speech."""
    ids = [one.id for one in CATALOGUE]
    return [
        replace(
            event,
            intentions=tuple(
                replace(one, id=ids[(ids.index(one.id) + 7) % len(ids)]) for one in event.intentions
            ),
        )
        if isinstance(event, IntentionsSelected) and event.stage == "final"
        else event
        for event in log
    ]


async def test_what_a_rater_hands_in_last_counts_and_three_raters_are_an_owners_most(
    database_url: str,
) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}"
        found = await items_in(caller, "ann", set_id)
        wrong = handed_in({item["id"]: [] for item in found}, "m")
        sampled = handed_in({item["id"]: ["convince_leader"] for item in found}, "m")
        for sample in (2, 3):
            sampled["answers"] += [{**one, "sample": sample} for one in wrong["answers"]]
        for body in (sampled, wrong, sampled):
            key = {"idempotency-key": "again"} if body is wrong else {}
            first = await ask(caller, "ann", f"{path}/answers", body, **key)
            assert first.status_code == 201, first.text
            again = await ask(caller, "ann", f"{path}/answers", body, **key) if key else first
            assert again.json() == first.json()
        for name in ("b", "c"):
            await told(caller, "ann2", f"{path}/answers", handed_in({found[0]["id"]: []}, name))
        fourth = await ask(caller, "ann2", f"{path}/answers", handed_in({found[0]["id"]: []}, "d"))
        problem(fourth, 409, "too-many-raters", "/rater/name")
        assert "b, c, m" in fourth.json()["detail"]
        # Nor under names that look like the others on the board.
        for name in ("m ", "m  2"):
            alike = await ask(caller, "bob", f"{path}/answers", handed_in({found[0]["id"]: []}, name))
            problem(alike, 422, "invalid-request", "/rater/name")
        receipts = (await told(caller, "ann2", f"{path}/receipts"))["receipts"]
        assert [(one["rater"]["name"], one["answers"]) for one in receipts] == [
            ("b", 1),
            ("c", 1),
            ("m", 600),
        ]
        assert "given" not in receipts[0]
        # Whoever comes back, with another key of the same owner, is given back what counts, and nobody else.
        for who, count in (("ann2", 600), ("bob", 0), ("owner", 0), ("operator", 0)):
            back = (await told(caller, who, f"{path}/receipts?answers=true"))["receipts"]
            given = [one for own in back if own["rater"]["name"] == "m" for one in own["given"]]
            assert len(given) == count, who
            assert all(one in sampled["answers"] for one in map(as_handed_in, given))
        assert (await told(caller, "bob", f"{path}/receipts"))["receipts"] == []
        twice = {**wrong, "answers": [wrong["answers"][0]] * 2}
        problem(await ask(caller, "ann", f"{path}/answers", twice), 422, "invalid-request")
        elsewhere = handed_in({found[0]["id"].rpartition("/")[0] + "/9": []}, "m")
        problem(await ask(caller, "ann", f"{path}/answers", elsewhere), 422, "invalid-request")
        time.ahead_ms = DATE_MS
        (entry, *_) = (await opened(caller, "ann", set_id))["leaderboard"]
        # Of three samples, one names it: no majority.
        assert entry["totals"]["micro"]["predicted"] == 0
        late = await ask(caller, "ann", f"{path}/answers", wrong, **{"idempotency-key": "again"})
        assert late.headers["idempotent-replayed"] == "true"
        assert set(late.json()) == {"entry_id", "set_id", "rater", "at", "answers", "items"}


def as_handed_in(given: dict[str, Any]) -> dict[str, Any]:
    """The answer without what was not said."""
    return {name: value for name, value in given.items() if (name, value) != ("sample", 1)}


# --- who may make a set, of what ----------------------------------------------------------------


async def test_only_who_may_read_the_gold_seals_it_and_a_game_has_one_date(database_url: str) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        path = "/evaluations/sets"
        problem(await ask(caller, "ann", path, new_set()), 403, "forbidden")
        few = await ask(caller, "owner", path, new_set(items=1000))
        problem(few, 422, "invalid-request", "/items")
        for date in ("2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "2027-02-31T00:00:00Z"):
            problem(
                await ask(caller, "owner", path, {**new_set(), "closes_at": date}), 422, "invalid-request"
            )
        for wrong in ({"items": 199}, {"closes_at": "tomorrow"}, {"batches": []}):
            problem(await ask(caller, "owner", path, new_set(**wrong)), 422, "invalid-request")
        await lay_games(caller, [LOGS[0]] * 3, batch="b_others", owner="project:bob")
        problem(await ask(caller, "owner", path, new_set(batches=["b_others"])), 404, "not-found")
        await lay_games(caller, [PUBLIC_LOG] * 20, batch="b_public")
        problem(await ask(caller, "owner", path, new_set(batches=["b_public"])), 422, "invalid-request")
        body = new_set()
        first = await told(caller, "owner", path, body)
        # The same games on the same date: what one set tells, the other has told.
        second = await told(caller, "operator", path, {**body, "dimension": "summarisation"})
        seats = [
            {
                (one["game_id"], one["reader"] or one["speaker"])
                for one in await items_in(caller, "ann", one_id)
            }
            for one_id in (first["set_id"], second["set_id"])
        ]
        assert len(seats[0] | seats[1]) == GAMES
        time.ahead_ms = 1000
        problem(await ask(caller, "owner", path, new_set()), 422, "invalid-request", "/items")
        time.ahead_ms = DATE_MS + 2000
        problem(await ask(caller, "owner", path, new_set()), 422, "invalid-request", "/items")


async def test_games_of_a_set_are_kept_until_it_is_scored(tmp_path: Path) -> None:
    time = Sliding()
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", LOGS, time) as caller:
        set_id = await sealed(caller)
        (game,) = {item["game_id"] for item in (await items_in(caller, "ann", set_id))[:1]}
        deleting = Deleting(caller.services.database)
        refused = await caller.delete(f"/games/{game}", headers=bearer(key_of("owner")))
        problem(refused, 409, "still-needed")
        assert "sealed until" in refused.json()["detail"]
        time.ahead_ms = DATE_MS
        await opened(caller, "ann", set_id)
        await deleting.check([game])
        [_ async for _ in deleting.delete([game], "test")]
        view = await told(caller, "ann", f"/evaluations/sets/{set_id}")
        assert (view["items"], view["games"]) == (200, GAMES - 1)
        gold = await told(caller, "ann", f"/evaluations/sets/{set_id}/gold?limit=200")
        assert all(not line["item_id"].startswith(f"{game}/") for line in gold["items"])


async def test_a_set_that_two_services_are_asked_for_with_one_key_is_drawn_once(postgres_url: str) -> None:
    async with with_games(postgres_url, LOGS) as one, calling(postgres_url, laid_out=False) as other:
        body, key = new_set(), {"idempotency-key": "again"}
        made = await asyncio.gather(
            *(ask(caller, "owner", "/evaluations/sets", body, **key) for caller in (one, other))
        )
        assert [answer.status_code for answer in made] == [201, 201]
        assert made[0].json() == made[1].json()
        quotas = {quota["name"]: quota for quota in (await told(one, "owner", "/me"))["quotas"]}
        assert quotas["submissions_a_day"]["used"] == 1


@pytest.mark.parametrize("withdrawn", [False, True])
async def test_what_an_open_set_told_of_a_fork_is_in_no_later_set_when_the_fork_is_deleted(
    database_url: str, withdrawn: bool
) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        for fork in ("told", "sibling"):  # of each game two forks, which share most of its turns
            for place, log in enumerate(LOGS):
                past = {"game_id": f"g_{BATCH.removeprefix('b_')}{place}", "events": len(log) - 20}
                await lay_games(caller, [log], batch=f"b_{fork}{place}", forked_from=past)
        told_of, siblings = ([f"b_{fork}{place}" for place in range(GAMES)] for fork in ("told", "sibling"))
        first = await sealed(caller, batches=told_of)
        if withdrawn:
            await told(caller, "owner", f"/evaluations/sets/{first}/withdraw", {"reason": "a mistake"})
        time.ahead_ms = DATE_MS
        if not withdrawn:
            await opened(caller, "ann", first)
        for batch in told_of:
            gone = await caller.delete(f"/batches/{batch}", headers=bearer(key_of("owner")))
            assert gone.status_code == 200, gone.text
        later = new_set()
        for batches_of in (siblings, [BATCH]):
            answer = await ask(caller, "owner", "/evaluations/sets", {**later, "batches": batches_of})
            if withdrawn:  # nothing of it was told
                assert answer.status_code == 201, answer.text
            else:
                assert "have 0 items" in problem(answer, 422, "invalid-request", "/items")["detail"]
        findings = [finding async for finding in examine(caller.services.database, lambda *_: None)]
        assert not [one for one in findings if "set" in f"{one.where} {one.what}"], findings


async def test_an_owner_withdraws_a_set_before_its_date_and_everybody_sees_why(database_url: str) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}"
        answers = handed_in({item["id"]: [] for item in (await items_in(caller, "ann", set_id))[:2]})
        receipt = await told(caller, "ann", f"{path}/answers", answers)
        why = {"reason": "two games were played by the same model"}
        problem(await ask(caller, "ann", f"{path}/withdraw", why), 403, "forbidden")
        other = bearer((await make_key(store_of(caller), "export:full", "eval:submit", project="other"))[1])
        refused = await caller.post(f"{path}/withdraw", json=why, headers=other)
        problem(refused, 404, "not-found")
        assert (await told(caller, "ann", path))["status"] == "sealed"
        problem(await ask(caller, "owner", f"{path}/withdraw", {"reason": ""}), 422, "invalid-request")
        (game,) = {item["game_id"] for item in (await items_in(caller, "ann", set_id))[:1]}
        view = await told(caller, "owner", f"{path}/withdraw", why)
        assert (view["status"], view["reason"]) == ("withdrawn", why["reason"])
        assert view["withdrawn_at"] is not None
        for who in ("ann", "bob", "watcher"):
            assert await told(caller, who, path) == view
            assert (await told(caller, who, "/evaluations/sets"))["sets"] == [view]
        problem(await ask(caller, "owner", f"{path}/withdraw", why), 409, "already-over")
        assert (await told(caller, "ann", f"{path}/receipts"))["receipts"] == [receipt]

        # Its games are as free as before: for another date, and to be deleted.
        await Deleting(caller.services.database).check([game])
        for now in (0, DATE_MS):
            time.ahead_ms = now
            for closed in ("/items", "/gold", f"/entries/{receipt['entry_id']}"):
                problem(await ask(caller, "ann", path + closed), 410, "set-closed")
            gone = await ask(caller, "bob", f"{path}/answers", answers)
            problem(gone, 410, "set-closed")
            assert why["reason"] in gone.json()["detail"]
            assert (await told(caller, "ann", path))["status"] == "withdrawn"
        again = await sealed(caller)
        assert len(await items_in(caller, "ann", again)) == 200
        # From its date on a set is open to all, and nobody takes that back.
        time.ahead_ms = 2 * DATE_MS
        problem(await ask(caller, "owner", f"/evaluations/sets/{again}/withdraw", why), 410, "set-closed")
        deeds, _ = await Audit(caller.services.database).deeds(actions=["withdraw"])
        assert [(deed.object, deed.by, deed.detail) for deed in deeds] == [(set_id, "key:k_owner", why)]


async def test_a_leaderboard_says_whose_f1_may_be_open_book_and_ends_with_who_could_not_be_scored(
    tmp_path: Path,
) -> None:
    time = Sliding()
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", LOGS, time) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}"
        ids = [item["id"] for item in await items_in(caller, "ann", set_id)]
        await items_in(caller, "bob", set_id)
        named: dict[str, dict[str, Any]] = {
            "mute": handed_in({id_: [] for id_ in ids}, "mute"),
            "broken": handed_in({id_: ["convince_leader"] for id_ in ids}, "broken"),
            "brief": handed_in({ids[0]: ["convince_leader"]}, "brief"),
        }
        entries = {
            rater: (await told(caller, "ann" if rater == "broken" else "bob", f"{path}/answers", body))[
                "entry_id"
            ]
            for rater, body in named.items()
        }
        broken = update(set_answers).where(set_answers.c.entry_id == entries["broken"]).values(given="{}")
        await caller.services.database.writer.execute(broken)
        time.ahead_ms = DATE_MS
        board = (await opened(caller, "ann", set_id))["leaderboard"]
        assert board[-1]["entry_id"] == entries["broken"]
        assert board[-1]["totals"] is None
        totals = {entry["rater"]["name"]: entry["totals"] for entry in board[:-1]}
        # The games' end told everybody the roles.
        assert {of["roles_public"] for of in totals.values()} == {totals["mute"]["items"]}
        # An answer that names nothing is an answer.
        assert totals["mute"]["silent"] == 0
        assert totals["mute"]["items"] - totals["brief"]["silent"] <= 1
        refused = problem(
            await ask(caller, "bob", f"{path}/entries/{entries['broken']}"), 500, "damaged-entry"
        )
        assert entries["broken"] in refused["detail"]
        assert "for practice" in refused["detail"]


async def test_dates_are_by_the_clock_even_if_it_was_ahead_for_a_moment(database_url: str) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        await lay_games(caller, LOGS, batch="b_later")
        first = await sealed(caller)
        date = clock.timestamp(clock.now_ms() + 2 * DATE_MS)
        later = await sealed(caller, batches=["b_later"], closes_at=date)
        time.ahead_ms = 4 * DATE_MS
        caller.services.database.writer.stamp()
        time.ahead_ms = DATE_MS
        await opened(caller, "ann", first)
        path = f"/evaluations/sets/{later}"
        assert (await told(caller, "ann", path))["status"] == "sealed"
        view = await told(caller, "owner", f"{path}/withdraw", {"reason": "wrong games"})
        assert view["status"] == "withdrawn"


class Jumping(Sliding):
    """A clock that somebody sets."""

    jump_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jump_ms


async def test_a_clock_that_is_ahead_for_a_moment_opens_no_set(database_url: str) -> None:
    time = Jumping()
    async with with_games(database_url, LOGS, time) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}"
        answers = handed_in({(await items_in(caller, "bob", set_id))[0]["id"]: []})
        time.jump_ms = DATE_MS
        for later in (0, 3_000_000):
            time.ahead_ms = later
            # Answers are refused, since the date may have passed.
            problem(await ask(caller, "bob", f"{path}/answers", answers), 410, "set-closed")
            problem(await ask(caller, "ann", f"{path}/gold"), 409, "set-sealed")
            assert (await told(caller, "ann", "/evaluations/sets"))["sets"][0]["status"] == "sealed"
        time.jump_ms = 0
        assert (await told(caller, "ann", path))["status"] == "sealed"
        # It was right after all.
        time.jump_ms = DATE_MS
        problem(await ask(caller, "ann", f"{path}/gold"), 409, "set-sealed")
        time.ahead_ms += 3_600_000
        await opened(caller, "ann", set_id)


async def test_all_entries_are_scored_on_the_games_that_counted_when_the_set_opened(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.evaluations.sets._AT_ONCE", 1)
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        games = caller.services.store
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}"
        found = await items_in(caller, "ann", set_id)
        before, after = sorted({item["game_id"] for item in found})[:2]
        for who in ("ann", "bob"):
            await told(caller, who, f"{path}/answers", handed_in({item["id"]: [] for item in found}))
        await games.invalidate(before, Invalidation("broken", 1, "project:owner"))
        keep = SetStore.keep_score

        async def kept(self: SetStore, *scored: Any) -> Any:
            """While the set is scored, its owner marks one game and takes back another's mark."""
            await games.invalidate(before, None)
            await games.invalidate(after, Invalidation("a friend did badly", 1, "project:owner"))
            return await keep(self, *scored)

        monkeypatch.setattr(SetStore, "keep_score", kept)
        time.ahead_ms = DATE_MS
        view = await opened(caller, "ann", set_id)
        left_out = [item["id"] for item in found if item["game_id"] == before]
        assert view["excluded"]["invalid"] == len(left_out)
        counted = len(found) - sum(view["excluded"].values())
        for entry in view["leaderboard"]:
            assert entry["totals"]["items"] == counted
            shown = (await told(caller, "bob", f"{path}/entries/{entry['entry_id']}"))["per_item"]
            assert sum(item["counted"] for item in shown) == counted
            assert [item["item_id"] for item in shown if item["excluded"] == "invalid"] == left_out


async def test_a_turn_that_forks_share_is_drawn_once_and_scored_where_it_was_drawn(database_url: str) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS, time) as caller:
        # Of each game a fork that repeats the first half of it, and goes on by itself.
        for place, log in enumerate(LOGS):
            source = f"g_{BATCH.removeprefix('b_')}{place}"
            await lay_games(
                caller,
                [log],
                batch=f"b_fork{place}",
                forked_from={"game_id": source, "events": len(log) // 2},
            )
        batches = [BATCH, *(f"b_fork{place}" for place in range(len(LOGS)))]
        set_id = await sealed(caller, batches=batches, items=300)
        found = await items_in(caller, "ann", set_id)
        games = caller.services.evaluations.games
        turns = {(item["game_id"], item["request_id"]) for item in found}
        first = await games.first_played(turns)
        forks = {game for game, _ in turns if game.startswith("g_fork")}
        assert forks
        # What was played once is asked about in one game only, through the eyes of one seat.
        assert len(set(first.values())) == len(turns)
        eyes: dict[str, set[int]] = {}
        for item in found:
            eyes.setdefault(await games.origin(item["game_id"]), set()).add(item["reader"])
        assert all(len(seats) == 1 for seats in eyes.values())
        named = {item["id"]: ["convince_leader"] for item in found}
        await told(caller, "ann", f"/evaluations/sets/{set_id}/answers", handed_in(named))
        time.ahead_ms = DATE_MS
        [entry] = (await opened(caller, "ann", set_id))["leaderboard"]
        shown = await told(caller, "bob", f"/evaluations/sets/{set_id}/entries/{entry['entry_id']}")
        counted = [line for line in shown["per_item"] if line["counted"]]
        assert {line["item_id"].partition("/")[0] for line in counted} & forks
        assert entry["totals"]["items"] == len(counted)
        assert entry["totals"]["micro"]["matched"] == sum(len(line["matched"]) for line in counted)


@pytest.mark.long
async def test_at_the_very_date_two_services_take_no_answer_that_is_not_scored(
    postgres: PostgresServer, laid_out_postgres: str
) -> None:
    time = Sliding()
    with fresh_database(postgres, laid_out_postgres) as url:
        async with with_games(url, LOGS, time) as one, calling(url) as two:
            set_id = await sealed(one)
            path = f"/evaluations/sets/{set_id}"
            item = (await items_in(one, "ann", set_id))[0]["id"]
            last: dict[str, str] = {}
            closed = asyncio.Event()

            async def hand_in(service: Caller, who: str, rater: str) -> None:
                """Answers until the set is closed."""
                while True:
                    answer = await ask(service, who, f"{path}/answers", handed_in({item: []}, rater))
                    if answer.status_code == 410:
                        closed.set()
                        return
                    assert answer.status_code == 201, answer.text
                    last[f"{who} {rater}"] = answer.json()["entry_id"]
                    if len(last) == 6:
                        time.ahead_ms = DATE_MS  # everybody has answered, and goes on

            async def look(service: Caller) -> None:
                while not closed.is_set():
                    await told(service, "watcher", path)

            raters = [
                hand_in(service, who, rater)
                for service, who in ((one, "ann"), (two, "bob"))
                for rater in ("first", "second", "third")
            ]
            async with asyncio.timeout(300):
                await asyncio.gather(*raters, look(one), look(two))
                board = (await opened(two, "ann", set_id))["leaderboard"]
            assert {f"{one['owner'][8:]} {one['rater']['name']}": one["entry_id"] for one in board} == last
            assert all(entry["totals"] is not None for entry in board)


# --- what was read counts -----------------------------------------------------------------------


async def test_whoever_knows_more_than_one_seats_view_may_not_answer(database_url: str) -> None:
    async with with_games(database_url, LOGS) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}/answers"
        found = await items_in(caller, "bob", set_id)
        games = list(dict.fromkeys(item["game_id"] for item in found))
        of = {game: next(item for item in found if item["game_id"] == game) for game in games}

        async def refused(who: str, game: str) -> bool:
            answer = await ask(caller, who, path, handed_in({of[game]["id"]: []}))
            if answer.status_code != 201:
                problem(answer, 409, "already-seen", "/answers/0/item_id")
            return answer.status_code == 409

        # Who may read the games in full: the owner's keys and who sees all.
        for who in ("owner", "owner2", "operator"):
            assert await refused(who, games[0])
        assert not await refused("reader", games[0])

        async def read(query: str) -> None:
            assert (await ask(caller, "reader", f"/evaluations/items?{query}")).status_code == 200

        seat, speaker = of[games[1]]["reader"], of[games[1]]["speaker"]
        await read(f"game={games[1]}&dimension=guessing&reader={seat}")
        assert not await refused("reader", games[1])
        await read(f"game={games[1]}&dimension=guessing&reader={speaker}&limit=1")
        assert await refused("reader2", games[1]), "another key of the same project read it"
        await read(f"game={games[2]}&dimension=summarisation")
        assert await refused("reader", games[2])
        await read(f"game={games[3]}&dimension=selection&limit=200")
        assert await refused("reader", games[3])
        tasks = await told(caller, "reader", f"/annotations/tasks?game={games[4]}&rater=r&limit=50")
        assert tasks["tasks"]
        assert await refused("reader", games[4])
        judge = {"dimension": "selection", "judge": {"kind": "rule"}, "game": games[5]}
        assert (await told(caller, "reader", "/evaluations", judge))["totals"] is None
        assert await refused("reader", games[5])
        assert not await refused("reader", games[6])


async def test_who_played_a_seat_knows_it(tmp_path: Path) -> None:
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", []) as caller:
        taken = {str(seat): f"project:{name}" for seat, name in ((1, "ann"), (2, "bob"))}
        await lay_games(caller, LOGS, batch="b_met", owner="server", taken=taken)
        refusals: dict[str, set[tuple[str, bool]]] = {"guessing": set(), "summarisation": set()}
        body = new_set(batches=["b_met"])
        for dimension, found in refusals.items():
            set_id = (await told(caller, "operator", "/evaluations/sets", {**body, "dimension": dimension}))[
                "set_id"
            ]
            for item in await items_in(caller, "watcher", set_id):
                eyes = item["reader"] or item["speaker"]
                for seat, who in ((1, "ann"), (2, "bob"), (3, "reader")):
                    if eyes in (1, 2, 3):
                        answer = await ask(
                            caller, who, f"/evaluations/sets/{set_id}/answers", handed_in({item["id"]: []})
                        )
                        relation = "nobody" if seat == 3 else "own" if eyes == seat else "other"
                        found.add((relation, answer.status_code == 201))
                if len(found) == 3:
                    break
        assert refusals["guessing"] == {("nobody", True), ("own", True), ("other", False)}
        assert refusals["summarisation"] == {("nobody", True), ("own", False), ("other", False)}


async def test_who_knows_the_source_of_a_fork_may_not_answer_the_fork(tmp_path: Path) -> None:
    time = Sliding()
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", [], time) as caller:
        (first,) = await lay_games(
            caller,
            LOGS[:1],
            batch="b_first",
            owner="project:bob",
            taken={"1": "project:ann", "2": "project:ann"},
        )
        (between,) = await lay_games(
            caller,
            LOGS[:1],
            batch="b_between",
            owner="server",
            taken={"1": "project:reader", "2": "project:reader"},
            forked_from={"game_id": first, "events": 3},
        )
        await lay_games(
            caller,
            LOGS,
            batch="b_forks",
            owner="server",
            forked_from={"game_id": between, "events": 3},
        )
        body = new_set(batches=["b_forks"])
        set_id = (await told(caller, "operator", "/evaluations/sets", body))["set_id"]
        item = (await items_in(caller, "watcher", set_id))[0]
        path = f"/evaluations/sets/{set_id}/answers"
        for who, why in (("ann", "as seat"), ("reader", "as seat"), ("bob", "in full")):
            answer = await ask(caller, who, path, handed_in({item["id"]: []}))
            problem(answer, 409, "already-seen", "/answers/0/item_id")
            assert why in answer.text, who
        assert (await ask(caller, "owner", path, handed_in({item["id"]: []}))).status_code == 201
        # What tells this is kept until the set is scored.
        deleting = Deleting(caller.services.database)
        with pytest.raises(StillNeeded, match=f"a fork of {first} is in the set {set_id}, which is sealed"):
            await deleting.check([first])
        time.ahead_ms = DATE_MS
        await opened(caller, "ann", set_id)
        await deleting.check([first])


async def test_who_holds_a_seat_in_another_fork_of_the_same_game_knows_it(database_url: str) -> None:
    async with with_games(database_url, LOGS) as caller:
        _, key = await make_key(store_of(caller), "eval:read", "eval:submit", "tokens:mint:any")
        minter = bearer(key)
        set_id = await sealed(caller)
        item = (await items_in(caller, "ann", set_id))[0]
        path = f"/evaluations/sets/{set_id}/answers"

        async def answers(headers: dict[str, str]) -> httpx.Response:
            return await caller.post(path, json=handed_in({item["id"]: []}), headers=headers)

        past = {"game_id": item["game_id"], "events": 30}
        (between,) = await lay_games(caller, LOGS[:1], batch="b_between", forked_from=past)
        past = {"game_id": between, "events": 30}
        (fork,) = await lay_games(caller, LOGS[:1], batch="b_fork", forked_from=past)
        assert (await answers(minter)).status_code == 201
        wish = {"viewer": f"seat:{1 + item['reader'] % 5}"}
        minted = await caller.post(f"/games/{fork}/tokens", json=wish, headers=minter)
        assert minted.status_code == 201, minted.text
        problem(await answers(minter), 409, "already-seen", "/answers/0/item_id")
        # Nor does this keep others out.
        assert (await answers(bearer(key_of("ann")))).status_code == 201


async def test_games_with_given_seeds_and_their_forks_are_drawn_only_if_the_request_says_so(
    database_url: str,
) -> None:
    async with with_games(database_url, LOGS) as caller:
        given = {"request": {"seeds": {"from": 70}}}
        source, *_ = await lay_games(caller, LOGS[:3], batch="b_given", **given)
        past = {"game_id": source, "events": 30}
        (fork,) = await lay_games(caller, LOGS[:1], batch="b_fork", forked_from=past)
        await lay_games(caller, LOGS[:1], batch="b_again", forked_from={"game_id": fork, "events": 30})
        # Its batch says who gave the seed, and cannot be read.
        await lay_games(caller, LOGS[:1], batch="b_damaged")
        damaged = update(batches).where(batches.c.batch_id == "b_damaged").values(spec=[])
        await caller.services.database.writer.execute(damaged)
        await lay_games(caller, LOGS, batch="b_drawn", request={"seeds": None})
        for batch in ("b_given", "b_fork", "b_again", "b_damaged"):
            answer = await ask(caller, "owner", "/evaluations/sets", new_set(batches=[batch]))
            refused = problem(answer, 422, "invalid-request")
            assert "have 0 items to draw from" in refused["detail"], batch
            assert "games with given seeds, and forks of them, only count with guessable_seeds" in answer.text
        many = [BATCH, "b_given", "b_fork", "b_again"]
        safe = await sealed(caller, batches=["b_drawn", *many[1:]])
        assert {item["game_id"].rstrip("0123456789") for item in await items_in(caller, "ann", safe)} == {
            "g_drawn"
        }
        await lay_games(caller, LOGS, batch="b_known", **given)
        known = await sealed(caller, batches=["b_known"], guessable_seeds=True)
        assert len(await items_in(caller, "ann", known)) == 200
        told_of = {one["set_id"]: one for one in (await told(caller, "ann", "/evaluations/sets"))["sets"]}
        for set_id, guessable in ((safe, False), (known, True)):
            view = await told(caller, "ann", f"/evaluations/sets/{set_id}")
            assert (view["guessable_seeds"], told_of[set_id]["guessable_seeds"]) == (guessable, guessable)


async def test_what_the_service_keeps_of_its_own_games_says_whether_their_seeds_were_given(
    tmp_path: Path,
) -> None:
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", []) as caller:
        owner = bearer(key_of("owner"))

        async def over(batch: str) -> None:
            async with asyncio.timeout(60):
                while True:
                    view = await told(caller, "owner", f"/batches/{batch}")
                    if view["status"] not in ("queued", "running"):
                        return
                    await asyncio.sleep(0.02)

        for seeds, guessable, drawn in (({}, False, True), (GIVEN, False, False), (GIVEN, True, True)):
            wish = {"profile": "interintent", "seats": [{"agent": "scripted"}], **seeds}
            made = await told(caller, "owner", "/games", wish)
            await over(made["batch_id"])
            after = {"after": {"round": 1, "attempt": 1, "phase": "discuss"}}
            fork = await told(caller, "owner", f"/games/{made['games'][0]['game_id']}/fork", after)
            await over(fork["batch_id"])
            for batch in (made["batch_id"], fork["batch_id"]):
                body = new_set(batches=[batch], guessable_seeds=guessable)
                answer = await caller.post("/evaluations/sets", json=body, headers=owner)
                detail = problem(answer, 422, "invalid-request")["detail"]
                assert ("have 0 items to draw from" not in detail) is drawn, (seeds, guessable, detail)


GIVEN = {"seeds": {"from": 70}}


async def test_a_fork_whose_source_was_deleted_is_in_no_set(tmp_path: Path) -> None:
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", LOGS) as caller:
        # Who played the source, and which other games share its past, is known from the source alone.
        (source,) = await lay_games(caller, LOGS[:1], batch="b_source", taken={"1": "project:ann"})
        fork = {"game_id": source, "events": 30}
        await lay_games(caller, [LOGS[0]] * 20, batch="b_forks", forked_from=fork)
        body = new_set(batches=["b_forks"])
        first = await told(caller, "owner", "/evaluations/sets", body)
        await told(caller, "owner", f"/evaluations/sets/{first['set_id']}/withdraw", {"reason": "a mistake"})
        gone = await caller.delete(f"/games/{source}", headers=bearer(key_of("owner")))
        assert gone.status_code == 200, gone.text
        refused = problem(await ask(caller, "owner", "/evaluations/sets", body), 422, "invalid-request")
        assert "have 0 items to draw from" in refused["detail"]


@pytest.mark.parametrize(("taken", "drawn"), [(60, False), (30, True)])
async def test_a_fork_with_turns_of_a_fork_that_was_deleted_is_in_no_set(
    database_url: str, taken: int, drawn: bool
) -> None:
    async with with_games(database_url, LOGS) as caller:
        # Turns between 30 and 60 were first played in the fork between: it alone tells who has read them.
        (source,) = await lay_games(caller, LOGS[:1], batch="b_source")
        past = {"game_id": source, "events": 30}
        (between,) = await lay_games(caller, LOGS[:1], batch="b_between", forked_from=past)
        past = {"game_id": between, "events": taken}
        await lay_games(caller, [LOGS[0]] * 20, batch="b_forks", forked_from=past)
        body = new_set(batches=["b_forks"])
        first = await told(caller, "owner", "/evaluations/sets", body)
        kept = await caller.delete(f"/games/{between}", headers=bearer(key_of("owner")))
        assert (
            f"a fork of {between} is in the set {first['set_id']}"
            in problem(kept, 409, "still-needed")["detail"]
        )
        await told(caller, "owner", f"/evaluations/sets/{first['set_id']}/withdraw", {"reason": "a mistake"})
        gone = await caller.delete(f"/games/{between}", headers=bearer(key_of("owner")))
        assert gone.status_code == 200, gone.text
        sealing = await ask(caller, "owner", "/evaluations/sets", body)
        assert sealing.status_code == (201 if drawn else 422), sealing.text


async def test_a_game_that_is_deleted_while_a_set_is_drawn_is_not_in_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_games(database_url, LOGS) as caller:
        sets, deleting = caller.services.evaluations.sets, Deleting(caller.services.database)
        candidates = sets._candidates

        async def chosen(*given: Any) -> Any:
            found = await candidates(*given)
            [_ async for _ in deleting.delete([found[0].game_id], "test")]
            return found

        monkeypatch.setattr(sets, "_candidates", chosen)
        set_id = await sealed(caller)
        assert len(await items_in(caller, "ann", set_id)) == 200
        assert (await told(caller, "ann", f"/evaluations/sets/{set_id}"))["games"] == GAMES - 1


async def test_who_handed_out_a_seat_that_was_taken_knows_it(database_url: str) -> None:
    async with with_games(database_url, []) as caller:
        services, day = caller.services, 24 * 3_600_000
        games = await lay_games(caller, LOGS, batch="b_met", owner="server")
        body = new_set(batches=["b_met"])
        set_id = (await told(caller, "operator", "/evaluations/sets", body))["set_id"]
        found = {item["game_id"]: item for item in await items_in(caller, "watcher", set_id)}
        path = f"/evaluations/sets/{set_id}/answers"

        async def answered(who: str, game: str) -> int:
            answer = await ask(caller, who, path, handed_in({found[game]["id"]: []}))
            return int(answer.status_code)

        def another(game: str) -> int:
            return 1 + found[game]["reader"] % 5

        # By a code, which shows a seat's view as soon as somebody has used it.
        codes = ClaimCodes(services.database)
        code = await codes.make(
            games[0], another(games[0]), clock.now_ms() + day, by="key:k_bob", epoch=lambda _: 1
        )
        assert await answered("bob", games[0]) == 201
        await took(caller, None, code)
        assert await answered("bob2", games[0]) == 409
        assert await answered("ann", games[0]) == 201
        # By a token that has expired long ago, after which others were minted.
        store = TokenStore(services.database)

        async def mint(token_id: str, seat: int | None, at: int) -> None:
            token = StoredToken(
                token_id=token_id,
                game_id=games[1],
                batch_id="b_met",
                seat=seat,
                owner="project:bob",
                by="key:k_bob",
                created_at=at,
                expires_at=at + day,
            )
            await services.database.writer.run(lambda connection: store.add(connection, token))

        await mint("t_long_ago", another(games[1]), clock.now_ms() - 100 * day)
        await mint("t_watch", None, clock.now_ms() - 100 * day)
        await mint("t_now", None, clock.now_ms())
        assert await store.find("t_watch") is None
        assert await answered("bob", games[1]) == 409


async def test_who_took_a_seat_by_a_code_knows_it_in_every_fork_and_when_others_have_it(
    database_url: str,
) -> None:
    async with with_games(database_url, []) as caller:
        games = await lay_games(caller, LOGS, batch="b_met", owner="server", taken={"1": ""})
        past = {"game_id": games[0], "events": 30}
        (fork,) = await lay_games(caller, LOGS[:1], batch="b_fork", owner="project:owner", forked_from=past)
        body = new_set(batches=["b_met"], dimension="summarisation")
        set_id = (await told(caller, "operator", "/evaluations/sets", body))["set_id"]
        found = {item["game_id"]: item for item in await items_in(caller, "watcher", set_id)}
        path = f"/evaluations/sets/{set_id}/answers"
        codes = ClaimCodes(caller.services.database)

        async def answered(who: str, game: str) -> int:
            answer = await ask(caller, who, path, handed_in({found[game]["id"]: []}))
            return int(answer.status_code)

        async def take(who: str, game: str, seat: int) -> None:
            until = clock.now_ms() + 24 * 3_600_000
            code = await codes.make(game, seat, until, by="operator", epoch=lambda _: None)
            await took(caller, who, code)

        await take("ann", fork, found[games[0]]["speaker"])
        assert [await answered(who, games[0]) for who in ("ann", "ann2", "bob")] == [409, 409, 201]
        for who in ("ann", "bob"):
            await take(who, games[1], found[games[1]]["speaker"])
        assert [await answered(who, games[1]) for who in ("ann2", "bob", "reader")] == [409, 409, 201]


async def test_who_held_a_seat_of_a_fork_knows_it_when_that_and_its_source_are_deleted(
    database_url: str,
) -> None:
    async with with_games(database_url, []) as caller:
        [first, *_] = await lay_games(caller, LOGS, owner="server")
        past = {"game_id": first, "events": 30}
        (between,) = await lay_games(caller, LOGS[:1], batch="b_between", owner="server", forked_from=past)
        past = {"game_id": between, "events": 30}
        (fork,) = await lay_games(caller, LOGS[:1], batch="b_fork", owner="server", forked_from=past)
        wish = new_set("summarisation")
        set_id = (await told(caller, "operator", "/evaluations/sets", wish))["set_id"]
        items = await items_in(caller, "watcher", set_id)
        item = next(item for item in items if item["game_id"] == first)
        seat, path = item["speaker"], f"/evaluations/sets/{set_id}/answers"
        services = caller.services
        codes, deleting = ClaimCodes(services.database), Deleting(services.database)
        until = clock.now_ms() + 24 * 3_600_000

        async def answered() -> list[int]:
            body = handed_in({item["id"]: []})
            return [(await ask(caller, who, path, body)).status_code for who in ("ann2", "bob2", "reader")]

        # ann takes the set's seat by a code, bob gives another away: that is by his key, not by his project.
        code = await codes.make(fork, seat, until, by="operator", epoch=lambda _: None)
        await took(caller, "ann", code)
        code = await codes.make(fork, 1 + seat % 5, until, by="key:k_bob", epoch=lambda _: None)
        await took(caller, None, code)
        # The set's own readers are shown the seat's view, which is no obstacle.
        assert await items_in(caller, "ann", set_id)
        assert await answered() == [409, 409, 201]
        for gone in (fork, between):
            [_ async for _ in deleting.delete([gone], "test")]
            assert await answered() == [409, 409, 201], gone
        # No row is left of a source that went first.
        past = {"game_id": "g_gone", "events": 30}
        (orphan,) = await lay_games(caller, LOGS[:1], batch="b_orphan", owner="server", forked_from=past)
        code = await codes.make(orphan, seat, until, by="operator", epoch=lambda _: None)
        await took(caller, "ann", code)
        [_ async for _ in deleting.delete([orphan], "test")]
        assert [one async for one in examine(services.database, lambda done, of: None)] == []


async def test_a_set_does_not_show_the_deal_to_who_plays_an_open_fork_of_a_game(database_url: str) -> None:
    async with with_games(database_url, LOGS) as caller:
        set_id = await sealed(caller)
        path = f"/evaluations/sets/{set_id}/items"
        first = (await items_in(caller, "watcher", set_id))[0]
        game = first["game_id"]
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        wish = {"after": {"request": first["request_id"]}, "seats": seats, "drive": "manual"}
        between = (await told(caller, "owner", f"/games/{game}/fork", wish))["game_id"]
        wish["after"]["request"] = "1.1.propose_team.1"
        fork = (await told(caller, "owner", f"/games/{between}/fork", wish))["game_id"]
        codes, until = ClaimCodes(caller.services.database), clock.now_ms() + DATE_MS

        async def shown(who: str) -> set[str]:
            return {item["game_id"] for item in await items_in(caller, who, set_id)}

        assert game in await shown("ann")
        code = await codes.make(fork, 1, until, by="key:k_owner", epoch=lambda _: 1)
        await told(caller, "ann", "/claims", {"code": code})
        assert await shown("ann2") == await shown("bob") - {game}
        # The owner, whose code was used, may read the game anyway.
        assert game in await shown("owner")
        page = await told(caller, "ann", f"{path}?limit=1")
        assert (page["items"], page["excluded"]) == ([], {"playing": 1})
        await caller.services.games.canceller.cancel(fork)
        assert game in await shown("ann")


async def test_who_plays_an_open_fork_of_somebody_elses_sees_no_end_of_a_game_with_its_deal(
    database_url: str,
) -> None:
    async with with_games(database_url, LOGS) as caller:
        (game,) = await lay_games(caller, LOGS[:1], batch="b_source")
        past = {"game_id": game, "events": 30}
        (ended,) = await lay_games(caller, LOGS[:1], batch="b_ended", forked_from=past)
        (all_told,) = await lay_games(caller, [PUBLIC_LOG], batch="b_all")
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": seats, "drive": "manual"}
        forks = [
            (await told(caller, "owner", f"/games/{one}/fork", wish))["game_id"] for one in (ended, all_told)
        ]
        codes, until = ClaimCodes(caller.services.database), clock.now_ms() + DATE_MS
        (apart,) = await lay_games(caller, LOGS[5:6], batch="b_apart")

        async def seen(who: str) -> list[str]:
            """What the key sees, also as items of the game whose log is public."""
            found = []
            for one in (game, ended, all_told, apart):
                answers = [await ask(caller, who, f"/games/{one}{path}") for path in ("", "/events")]
                if one == all_told:
                    query = f"/evaluations/items?game={one}&dimension=guessing&reader=1"
                    answers.append(await ask(caller, who, query))
                assert len({answer.status_code for answer in answers}) == 1, answers
                if answers[0].status_code == 200:
                    found.append(one)
                else:
                    unknown = await ask(caller, who, "/games/g_unknown")
                    assert {answer.status_code for answer in answers} == {unknown.status_code} == {404}
                    assert answers[0].json()["detail"] == unknown.json()["detail"]
            return found

        every = [game, ended, all_told, apart]
        assert await seen("ann") == every
        for fork in forks:
            code = await codes.make(fork, 1, until, by="key:k_owner", epoch=lambda _: 1)
            claimed = await told(caller, "ann", "/claims", {"code": code})
            own = await caller.get(f"/games/{fork}", headers=bearer(claimed["token"]))
            assert own.status_code == 200, own.text
        assert await seen("ann") == await seen("ann2") == [apart]
        for who in ("owner", "operator", "bob"):
            assert await seen(who) == every
        # Whoever played in an ended game saw its end there.
        code = await codes.make(ended, 2, until, by="key:k_owner", epoch=lambda _: 1)
        await took(caller, "ann", code)
        assert await seen("ann") == [ended, apart]
        for fork in forks:
            await caller.services.games.canceller.cancel(fork)
        assert await seen("ann") == every
        # Whoever forks a game whose log is public knows it, and goes on seeing it.
        _, key = await make_key(
            store_of(caller), "games:create", "games:read", "tokens:mint", project="forker"
        )
        forked = await caller.post(f"/games/{all_told}/fork", headers=bearer(key), json=wish)
        assert forked.status_code == 201, forked.text
        assert (await caller.get(f"/games/{all_told}", headers=bearer(key))).status_code == 200


async def test_a_seat_of_a_deleted_fork_changes_nothing_of_what_is_hidden_from_who_plays(
    database_url: str,
) -> None:
    async with with_games(database_url, LOGS[:1]) as caller:
        (game,) = await lay_games(caller, [PUBLIC_LOG], batch="b_source")
        deleting, until = Deleting(caller.services.database), clock.now_ms() + DATE_MS
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": seats, "drive": "manual"}
        path = f"/evaluations/items?game={game}&dimension=guessing&reader=1"

        async def forked(source: str, *players: str) -> str:
            fork = (await told(caller, "owner", f"/games/{source}/fork", wish))["game_id"]
            for who in players:
                codes = ClaimCodes(caller.services.database)
                code = await codes.make(fork, 1, until, by="key:k_owner", epoch=lambda _: 1)
                await told(caller, who, "/claims", {"code": code})
            return str(fork)

        async def ended(fork: str, *, deleted: bool) -> None:
            await caller.services.games.canceller.cancel(fork)
            if deleted:
                [_ async for _ in deleting.delete([fork], "test")]

        async def seen() -> set[int]:
            return {(await ask(caller, "ann", one)).status_code for one in (f"/games/{game}", path)}

        earlier = await forked(game, "ann")
        await ended(earlier, deleted=False)
        fork = await forked(game, "ann")
        assert await seen() == {404}
        [_ async for _ in deleting.delete([earlier], "test")]
        assert await seen() == {404}
        await ended(fork, deleted=True)
        assert await seen() == {200}
        # Nor does it make anybody a player of the open fork that the deleted one was forked off.
        await ended(await forked(await forked(game), "ann"), deleted=True)
        assert await seen() == {200}


async def test_who_plays_an_open_fork_of_somebody_elses_is_scored_on_no_game_with_its_deal(
    database_url: str,
) -> None:
    async with with_games(database_url, LOGS[:1]) as caller:
        # "owner" is a guest here.
        (source,) = await lay_games(caller, [PUBLIC_LOG], batch="b_source", owner="project:host")
        past = {"game_id": source, "events": 30}
        (game,) = await lay_games(
            caller, [PUBLIC_LOG], batch="b_game", owner="project:host", forked_from=past
        )
        (own,) = await lay_games(caller, [PUBLIC_LOG], batch="b_own", forked_from=past)
        _, less = await make_key(store_of(caller), "eval:read", "eval:submit", project="owner")
        host_id, host = await make_key(store_of(caller), "games:create", "tokens:mint", project="host")
        query = f"/evaluations/items?game={game}&dimension=guessing"
        ids = [item["id"] for item in (await told(caller, "bob", query))["items"]]
        guesses = handed_in({ids[0]: []}, "one", role="merlin")
        practice = {"dimension": "guessing", **guesses}

        def about(item: str, **more: Any) -> dict[str, Any]:
            return {"dimension": "guessing", **handed_in({item: []}, "one", role="merlin"), **more}

        def judging(dimension: str) -> dict[str, Any]:
            return {"dimension": dimension, "judge": {"kind": "rule"}, "game": game}

        wishes = [practice, practice, *map(judging, ("selection", "selection", "statements"))]
        made = [(await told(caller, "owner", "/evaluations", wish))["evaluation_id"] for wish in wishes]
        views = [f"/evaluations/{one}" for one in made]
        pages = [
            *(f"{view}?per_item=true" for view in views),
            f"{views[0]}/compare/{made[1]}",
            f"{views[2]}/compare/{made[3]}",
            f"{views[4]}/statements",
        ]
        before = [await ask(caller, "owner", path) for path in ("/evaluations", *views, *pages)]

        seats = [{"agent": "remote"}] * 2 + [{"agent": "scripted"}] * 3
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": seats, "drive": "manual"}
        forked = await caller.post(f"/games/{source}/fork", headers=bearer(host), json=wish)
        fork = forked.json()["game_id"]
        for seat, who in ((1, "owner"), (2, "reader")):
            code = await ClaimCodes(caller.services.database).make(
                fork, seat, clock.now_ms() + DATE_MS, by=f"key:{host_id}", epoch=lambda _: 1
            )
            await told(caller, who, "/claims", {"code": code})

        unknown = about(ids[0].replace(game, "g_unknown"))
        there_is_none = problem(await ask(caller, "owner", "/evaluations", unknown), 403, "forbidden")
        tries = [
            practice,
            about(ids[0], regrade_of=made[0]),
            about(ids[0].replace(game, source)),
            about(ids[0].replace("1.1", "9.9")),
        ]
        for who in ("owner", "owner2"):
            for body in tries:
                refused = problem(await ask(caller, who, "/evaluations", body), 403, "forbidden")
                assert refused["detail"] == there_is_none["detail"]
            problem(await ask(caller, who, "/evaluations", judging("statements")), 404, "not-found")
            for path in pages:
                problem(await ask(caller, who, path), 403, "forbidden")
            listed = (await told(caller, who, "/evaluations"))["evaluations"]
            for view in [*listed, *[await told(caller, who, path) for path in views]]:
                scores = [view.get(name) for name in ("totals", "roles", "open_book", "excluded")]
                assert scores == [None] * 4, view
        # A key for everybody's games is shown items, and no gold.
        assert (await ask(caller, "reader", query)).status_code == 200
        problem(await ask(caller, "reader", "/evaluations", practice), 403, "forbidden")
        # One's own game is public to oneself, whatever one plays.
        mine = about(ids[0].replace(game, own))
        assert (await caller.post("/evaluations", headers=bearer(less), json=mine)).status_code == 201
        await told(caller, "bob", "/evaluations", practice)
        await caller.services.games.canceller.cancel(fork)
        for path, then in zip(views + pages, before[1:], strict=True):
            assert then.status_code == 200, then.text
            assert (await ask(caller, "owner", path)).json() == then.json()
        again = (await told(caller, "owner", "/evaluations"))["evaluations"]
        assert again[1:] == before[0].json()["evaluations"]


async def test_a_socket_shows_no_end_of_a_game_whose_deal_one_plays(tmp_path: Path) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'sets.sqlite'}", api_key="ik_" + "o" * 43)
    async with running_server(settings) as served:
        await add_keys(served)
        (game,) = await lay_games(served, LOGS[:1])
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": [{"agent": "remote"}] * 5}
        async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
            forked = await caller.post(f"/games/{game}/fork", headers=bearer(key_of("owner")), json=wish)
            fork, until = forked.json()["game_id"], clock.now_ms() + DATE_MS
            codes = ClaimCodes(served.services.database)
            code = await codes.make(fork, 1, until, by="key:k_owner", epoch=lambda _: 1)
            claimed = await caller.post("/claims", headers=bearer(key_of("ann")), json={"code": code})
            assert claimed.status_code == 200, claimed.text
        async with watching(served.ws_url) as one:
            await one.send(t="identify", v=1, game=game, token=key_of("ann"))
            assert await one.close_code() == 4403
        for who, place in (("bob", game), ("ann", fork)):
            async with watching(served.ws_url) as one:
                await one.identify(place, token=key_of(who))


async def test_streams_that_were_opened_before_tell_no_end_of_a_game_whose_deal_one_plays(
    tmp_path: Path,
) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'sets.sqlite'}", api_key="ik_" + "o" * 43)
    async with running_server(settings) as served:
        await add_keys(served)
        owner, guest = (bearer(key_of(who)) for who in ("owner", "ann"))
        operator = bearer("ik_" + "o" * 43)
        async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:

            async def told_by(path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
                answer = await caller.post(path, headers=headers, json=body)
                assert answer.status_code < 300, answer.text
                return answer.json()

            new = {"players": 5, "seats": [{"agent": "scripted"}] * 5, "drive": "manual"}
            game = (await told_by("/games", new, owner))["games"][0]["game_id"]
            path = f"/games/{game}"
            await told_by(f"{path}/step", {"until": "round"}, operator)
            lines = (await caller.get(f"{path}/events", headers=owner)).text.splitlines()
            leader = next(event["leader"] for event in map(json.loads, lines) if "leader" in event)
            request = f"1.1.propose_team.{leader}"
            wish = {"after": {"request": request}, "seats": [{"agent": "remote"}] * 5, "drive": "manual"}
            fork = (await told_by(f"{path}/fork", wish, owner))["game_id"]
            codes, until = ClaimCodes(served.services.database), clock.now_ms() + DATE_MS
            code = await codes.make(fork, 1, until, by="key:k_owner", epoch=lambda _: 1)
            await told_by("/claims", {"code": code}, guest)

            async def followed(headers: dict[str, str], begun: asyncio.Event) -> str:
                text = ""
                async with caller.stream("GET", f"{path}/events?follow=true", headers=headers) as answer:
                    async for piece in answer.aiter_text():
                        text += piece
                        begun.set()
                return text

            readers = guest, bearer(key_of("bob"))
            begun = [asyncio.Event() for _ in readers]
            streams = [asyncio.create_task(followed(*one)) for one in zip(readers, begun, strict=True)]
            async with watching(served.ws_url) as one, watching(served.ws_url) as other:
                for socket, who in ((one, "ann"), (other, "bob")):
                    await socket.identify(game, token=key_of(who))
                    await socket.next()
                for event in begun:
                    await event.wait()
                await told_by(f"{path}/step", {"until": "end"}, operator)
                assert [await socket.until_closed() for socket in (one, other)] == [4403, 1000]
                frames = [json.dumps(socket.items) for socket in (one, other)]
            texts = [*(await asyncio.gather(*streams)), *frames]
            assert ["game_ended" in text for text in texts] == [False, True, False, True]
            assert all("proposal_opened" in text for text in texts)


async def test_an_open_set_does_not_tell_the_deal_to_who_plays_an_open_fork_of_a_game(
    database_url: str,
) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS[1:], time) as caller:
        # The fork that is played, and the set's game, are forks of one source.
        (source,) = await lay_games(caller, LOGS[:1], batch="b_source")
        past = {"game_id": source, "events": 30}
        (game,) = await lay_games(caller, LOGS[:1], batch="b_game", forked_from=past)
        set_id = await sealed(caller, batches=[BATCH, "b_game"])
        path = f"/evaluations/sets/{set_id}"
        ids = [item["id"] for item in await items_in(caller, "ann", set_id)]
        of_game = [id_ for id_ in ids if id_.startswith(f"{game}/")]
        others = [id_ for id_ in ids if id_ not in of_game]
        assert of_game
        body = handed_in({id_: [] for id_ in of_game}, role="merlin")
        entry = (await told(caller, "ann", f"{path}/answers", body))["entry_id"]
        time.ahead_ms = DATE_MS
        whole = await opened(caller, "ann", set_id)
        assert whole["leaderboard"][0]["open_book"]["accuracy"]["den"] > 0
        practice = {"dimension": "guessing", **body}
        made = [(await told(caller, "ann", "/evaluations", practice))["evaluation_id"] for _ in range(2)]
        own = (f"/evaluations/{made[0]}?per_item=true", f"/evaluations/{made[0]}/compare/{made[1]}")

        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": seats, "drive": "manual"}
        between = (await told(caller, "owner", f"/games/{source}/fork", wish))["game_id"]
        fork = (await told(caller, "owner", f"/games/{between}/fork", wish))["game_id"]
        code = await ClaimCodes(caller.services.database).make(
            fork, 1, clock.now_ms() + DATE_MS, by="key:k_owner", epoch=lambda _: 1
        )
        await told(caller, "ann", "/claims", {"code": code})

        async def gold_of(who: str) -> tuple[list[str], int]:
            """The items whose gold is shown, and how many are left out, page by page."""
            shown, left_out, cursor = [], 0, "0"
            while cursor:
                page = await told(caller, who, f"{path}/gold?limit=7&cursor={cursor}")
                assert len(page["items"]) + page["excluded"].get("playing", 0) == min(7, 200 - int(cursor))
                shown += [line["item_id"] for line in page["items"]]
                left_out += page["excluded"].get("playing", 0)
                cursor = page["next"]
            return shown, left_out

        async def sees(who: str) -> tuple[list[str], dict[str, int], list[bool]]:
            """The items of the entry, what is left out of them, and whether the scores are shown."""
            shown = await told(caller, who, f"{path}/entries/{entry}")
            view = await told(caller, who, path)
            (listed,) = (await told(caller, who, "/evaluations/sets"))["sets"]
            assert view["status"] == listed["status"] == "open"
            scores = [
                shown["totals"] is not None,
                shown["open_book"] is not None,
                view["leaderboard"] is not None,
                view["excluded"] is not None,
                listed["excluded"] is not None,
            ]
            return [line["item_id"] for line in shown["per_item"]], shown["excluded"], scores

        for who in ("ann", "ann2"):
            assert await gold_of(who) == (others, len(of_game))
            assert await sees(who) == (others, {"playing": len(of_game)}, [False] * 5)
            problem(await ask(caller, who, "/evaluations", practice), 403, "forbidden")
            for again in own:
                problem(await ask(caller, who, again), 403, "forbidden")
        await told(caller, "ann", "/evaluations", {**practice, **handed_in({id_: [] for id_ in others})})
        for who in ("bob", "owner"):
            assert await gold_of(who) == (ids, 0)
            assert await sees(who) == (ids, {}, [True] * 5)
            await told(caller, who, "/evaluations", practice)
        await caller.services.games.canceller.cancel(fork)
        assert await gold_of("ann") == (ids, 0)
        assert await sees("ann") == (ids, {}, [True] * 5)
        assert await told(caller, "ann", path) == whole
        for again in own:
            await told(caller, "ann", again)
        await told(caller, "ann", "/evaluations", practice)


async def delete_as(caller: Caller, key: str, *games: str) -> None:
    for game in games:
        gone = await caller.delete(f"/games/{game}", headers=bearer(key))
        assert gone.status_code == 200, gone.text


@pytest.mark.parametrize("deleted", ["game", "batch", "cousin"])
async def test_an_open_set_does_not_tell_the_deal_of_an_open_fork_when_its_game_is_deleted(
    database_url: str, deleted: str
) -> None:
    time = Sliding()
    async with with_games(database_url, LOGS[1:], time) as caller:
        (source,) = await lay_games(caller, LOGS[:1], batch="b_source")
        past = {"game_id": source, "events": 30}
        (cousin,) = await lay_games(caller, LOGS[:1], batch="b_cousin", forked_from=past)
        game, batch = (cousin, "b_cousin") if deleted == "cousin" else (source, "b_source")
        set_id = await sealed(caller, batches=[BATCH, batch])
        path = f"/evaluations/sets/{set_id}"
        body = handed_in({item["id"]: [] for item in await items_in(caller, "ann", set_id)}, role="merlin")
        entry = (await told(caller, "ann", f"{path}/answers", body))["entry_id"]
        time.ahead_ms = DATE_MS
        await opened(caller, "ann", set_id)

        seats = [{"agent": "remote"}] * 2 + [{"agent": "scripted"}] * 3
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": seats, "drive": "manual"}
        fork = (await told(caller, "owner", f"/games/{source}/fork", wish))["game_id"]
        code = await ClaimCodes(caller.services.database).make(
            fork, 1, clock.now_ms() + DATE_MS, by="key:k_owner", epoch=lambda _: 1
        )
        await told(caller, "ann", "/claims", {"code": code})

        async def shown(who: str) -> set[bool]:
            """Whether the set's scores are shown, wherever they may be."""
            answers, view = await told(caller, who, f"{path}/entries/{entry}"), await told(caller, who, path)
            (listed,) = (await told(caller, who, "/evaluations/sets"))["sets"]
            scores = [answers[name] for name in ("totals", "open_book")]
            scores += [view["leaderboard"], view["excluded"], listed["excluded"]]
            return {score is not None for score in scores}

        assert await shown("ann") == {False}
        if deleted == "batch":
            gone = await caller.delete(f"/batches/{batch}", headers=bearer(key_of("owner")))
            assert gone.status_code == 200, gone.text
        else:
            await delete_as(caller, key_of("owner"), game)
        for who in ("ann", "ann2"):
            assert await shown(who) == {False}
        # Its own fork keeps nothing from whoever made it.
        for who in ("bob", "owner", "operator"):
            assert await shown(who) == {True}
        await caller.services.games.canceller.cancel(fork)
        assert await shown("ann") == {True}


@pytest.mark.parametrize("deleted", ["source", "cousin"])
async def test_earlier_scores_do_not_tell_the_deal_of_an_open_fork_when_their_game_is_deleted(
    database_url: str, deleted: str
) -> None:
    async with with_games(database_url, LOGS[:1]) as caller:
        # "owner" is a guest here.
        (source,) = await lay_games(caller, [PUBLIC_LOG], batch="b_source", owner="project:host")
        past = {"game_id": source, "events": 30}
        (cousin,) = await lay_games(
            caller, [PUBLIC_LOG], batch="b_cousin", owner="project:host", forked_from=past
        )
        (apart,) = await lay_games(caller, [APART_LOG], batch="b_apart", owner="project:host")
        game = source if deleted == "source" else cousin
        host_id, host = await make_key(store_of(caller), *SCOPES["owner"], "tokens:mint", project="host")

        async def practice(key: str, *games: str) -> str:
            ids = []
            for one in games:
                query = f"/evaluations/items?game={one}&dimension=guessing"
                ids.append((await told(caller, "owner", query))["items"][0]["id"])
            guesses = {"dimension": "guessing", **handed_in({id_: [] for id_ in ids}, "one", role="merlin")}
            made = await caller.post("/evaluations", headers=bearer(key), json=guesses)
            assert made.status_code == 201, made.text
            return str(made.json()["evaluation_id"])

        guest = key_of("owner")
        judging = {"dimension": "statements", "judge": {"kind": "rule"}, "game": game}
        hidden = [
            await practice(guest, game),
            await practice(guest, apart, game),
            (await told(caller, "owner", "/evaluations", judging))["evaluation_id"],
        ]
        judging["game"] = apart
        kept = [
            await practice(guest, apart),
            (await told(caller, "owner", "/evaluations", judging))["evaluation_id"],
        ]
        hosts = await practice(host, game)

        seats = [{"agent": "remote"}] * 2 + [{"agent": "scripted"}] * 3
        wish = {"after": {"request": "1.1.propose_team.1"}, "seats": seats, "drive": "manual"}
        forked = await caller.post(f"/games/{source}/fork", headers=bearer(host), json=wish)
        fork = forked.json()["game_id"]
        code = await ClaimCodes(caller.services.database).make(
            fork, 1, clock.now_ms() + DATE_MS, by=f"key:{host_id}", epoch=lambda _: 1
        )
        await told(caller, "owner", "/claims", {"code": code})

        async def shown(who: str) -> list[str]:
            """The evaluations whose scores are shown, alone and in the list alike."""
            listed = (await told(caller, who, "/evaluations"))["evaluations"]
            for view in listed:
                alone = await told(caller, who, f"/evaluations/{view['evaluation_id']}")
                for name in ("totals", "roles", "open_book"):
                    assert alone[name] == view[name]
                    assert view["totals"] is not None or view[name] is None
            return sorted(view["evaluation_id"] for view in listed if view["totals"] is not None)

        assert await shown("owner") == sorted(kept)
        await delete_as(caller, host, game)
        assert await shown("owner") == sorted(kept)
        for path in (
            *(f"/evaluations/{one}?per_item=true" for one in hidden),
            f"/evaluations/{hidden[0]}/compare/{hidden[1]}",
            f"/evaluations/{hidden[1]}/compare/{kept[0]}",
            f"/evaluations/{hidden[2]}/statements",
        ):
            problem(await ask(caller, "owner", path), 403, "forbidden")
        await told(caller, "owner", f"/evaluations/{kept[0]}?per_item=true")
        assert {*hidden, *kept} <= set(await shown("operator"))
        # Its own fork keeps nothing from whoever made it.
        assert (await caller.get(f"/evaluations/{hosts}", headers=bearer(host))).json()["totals"] is not None
        await caller.services.games.canceller.cancel(fork)
        assert await shown("owner") == sorted([*hidden, *kept])


async def test_who_sought_a_seat_knows_it_when_others_have_it(tmp_path: Path) -> None:
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", []) as caller:
        # A new code has offered every seat to somebody else.
        offered = {str(seat): "" for seat in range(1, 6)}
        await lay_games(caller, LOGS, batch="b_met", owner="server", taken=offered)
        body = new_set(batches=["b_met"], dimension="summarisation")
        set_id = (await told(caller, "operator", "/evaluations/sets", body))["set_id"]
        item = (await items_in(caller, "watcher", set_id))[0]
        player = PlayerRow(
            game_id=item["game_id"],
            seat=item["speaker"],
            owner="project:ann",
            caller="key:k_ann",
            bot="bot",
            version="",
            seek_id="q_ann",
        )
        await caller.services.database.writer.execute(insert(game_players).values(values_of(player)))
        path = f"/evaluations/sets/{set_id}/answers"
        for who, status in (("ann2", 409), ("bob", 201)):
            answer = await ask(caller, who, path, handed_in({item["id"]: []}))
            assert answer.status_code == status, answer.text


async def test_a_key_that_once_read_everything_answers_no_set(database_url: str) -> None:
    async with with_games(database_url, LOGS) as caller:
        set_id = await sealed(caller)
        answer = handed_in({(await items_in(caller, "ann", set_id))[0]["id"]: []})
        path = f"/evaluations/sets/{set_id}/answers"
        keys, fewer = store_of(caller), ("eval:read", "eval:submit")
        for key in ("k_operator", "k_operator2", "k_operator", "k_bob"):
            assert await keys.change(key, fewer)
        await caller.services.keys.refresh()
        for who, status in (("operator", 409), ("operator2", 409), ("bob", 201)):
            assert (await ask(caller, who, path, answer)).status_code == status, who
        (bob,) = [key for key in await keys.keys() if key.key_id == "k_bob"]
        assert bob.saw_all_until is None
        assert not await keys.change("k_nobody", fewer)


async def test_deleting_games_tells_nothing_of_what_was_handed_in(tmp_path: Path) -> None:
    answers = []
    for name, raters in (("none", ()), ("some", ("ann", "bob"))):
        time = Still()
        async with with_games(f"sqlite:///{tmp_path / name}.sqlite", LOGS, time) as caller:
            set_id = await sealed(caller)
            for who in raters:
                body = handed_in({item["id"]: [] for item in await items_in(caller, who, set_id)})
                await told(caller, who, f"/evaluations/sets/{set_id}/answers", body)
            await told(caller, "owner", f"/evaluations/sets/{set_id}/withdraw", {"reason": "a mistake"})
            gone = await caller.delete(f"/batches/{BATCH}", headers=bearer(key_of("owner")))
            assert gone.status_code == 200, gone.text
            answers.append(gone.json())
    assert answers[0] == answers[1]
    assert answers[0]["games"] == GAMES


# --- practice -----------------------------------------------------------------------------------


async def test_practice_is_for_gold_that_one_may_read_and_refusals_name_both_ways(database_url: str) -> None:
    async with with_games(database_url, LOGS[:2]) as caller:
        (public,) = await lay_games(caller, [PUBLIC_LOG], batch="b_public", owner="project:bob")
        query = f"/evaluations/items?batch={BATCH}&dimension=guessing&limit=200"
        ids = [item["id"] for item in (await told(caller, "owner", query))["items"]]
        body = {"dimension": "guessing", **handed_in({id_: ["convince_leader"] for id_ in ids[:3]})}
        details = set()
        for who in ("ann", "reader", "watcher"):
            answer = await ask(caller, who, "/evaluations", body)
            problem(answer, 403, "forbidden")
            details.add(answer.json()["detail"])
        unknown = {"dimension": "guessing", **handed_in({ids[0].replace("g_", "g_x"): []})}
        details.add((await ask(caller, "ann", "/evaluations", unknown)).json()["detail"])
        told_ways = [detail for detail in details if "scope" not in detail]
        assert len(told_ways) == 1, "an unknown game is refused in the same words"
        assert "reveal: all" in told_ways[0]
        assert "/evaluations/sets" in told_ways[0]
        # The owner's, in full and as often as it likes; a few items are enough.
        first = await told(caller, "owner", "/evaluations", body)
        again = await told(caller, "owner2", "/evaluations", body)
        third = await told(caller, "owner", "/evaluations", body)
        assert (first["grade"], again["grade"], third["grade"]) == (1, 1, 2)
        assert first["totals"] == third["totals"]
        assert first["totals"]["items"] <= 3
        path = f"/evaluations/{third['evaluation_id']}"
        shown = await told(caller, "owner", f"{path}?per_item=true")
        assert [line["item_id"] for line in shown["per_item"]] == sorted(ids[:3])
        compared = await told(
            caller, "owner", f"/evaluations/{first['evaluation_id']}/compare/{third['evaluation_id']}"
        )
        assert compared["items"] == first["totals"]["items"]
        problem(await ask(caller, "ann", path), 404, "not-found")
        # A game whose whole log is public, by anybody.
        query = f"/evaluations/items?game={public}&dimension=guessing&limit=3"
        mine = [item["id"] for item in (await told(caller, "watcher", query))["items"]]
        practice = {"dimension": "guessing", **handed_in({id_: ["convince_leader"] for id_ in mine})}
        scored = await told(caller, "ann", "/evaluations", practice)
        assert scored["totals"]["items"] <= 3
        problem(
            await ask(
                caller, "ann", "/evaluations", {**practice, "answers": practice["answers"] + body["answers"]}
            ),
            403,
            "forbidden",
        )


async def test_role_guesses_are_kept_apart_where_roles_are_public(tmp_path: Path) -> None:
    async with with_games(f"sqlite:///{tmp_path / 'sets.sqlite'}", LOGS[:1]) as caller:
        (secret,) = await lay_games(caller, [SECRET_LOG], batch="b_secret")
        ids = []
        for game in (secret, f"g_{BATCH.removeprefix('b_')}0"):
            query = f"/evaluations/items?game={game}&dimension=guessing&reader=2&limit=200"
            ids += [item["id"] for item in (await told(caller, "owner", query))["items"]]
        body = {"dimension": "guessing", **handed_in({id_: [] for id_ in ids}, role="merlin")}
        scored = await told(caller, "owner", "/evaluations", body)
        assert scored["roles"]["accuracy"]["den"] > 0
        assert scored["open_book"]["accuracy"]["den"] > 0
        both = scored["roles"]["accuracy"]["den"] + scored["open_book"]["accuracy"]["den"]
        assert both == scored["totals"]["items"]
        assert scored["totals"]["roles_public"] == scored["open_book"]["accuracy"]["den"]
        only = {
            **body,
            "answers": [one for one in body["answers"] if one["item_id"].startswith(f"{secret}/")],
        }
        alone = await told(caller, "owner", "/evaluations", only)
        assert alone["roles"] == scored["roles"]
        assert alone["open_book"] is None
        assert alone["totals"]["roles_public"] == 0
