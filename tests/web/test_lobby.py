"""People find each other, and bots, on the page for it."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from app.base.clock import now_ms
from app.store.keys import KeyStore
from tests.app.calling import WITHIN_S
from tests.app.play.meeting.seekers import owner, seek, shown
from tests.app.real_server import Served, local_settings, running_server
from tests.web.conftest import DESK, PHONE, Visits
from tests.web.test_pages import faults_of

pytestmark = pytest.mark.long


async def waits(client: httpx.AsyncClient, one: dict[str, Any]) -> None:
    """Asks for the seek, as a bot that is there does, until it has ended."""
    while (await shown(client, one, wait_s=10))["status"] == "open":
        pass


async def test_a_person_joins_who_waits_and_another_takes_an_open_seat(served: Served, visit: Visits) -> None:
    home = f"{served.url}/ui/#/lobby"
    async with (
        httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client,
        visit(home, viewport=PHONE) as page,
        visit(home) as other,
    ):
        await expect(page.get_by_role("heading", name="Nobody waits at the moment")).to_be_visible()
        async with asyncio.TaskGroup() as bots:
            for number in range(3):
                bots.create_task(waits(client, await seek(client, f"bot{number}", wait_s=3600)))
            for one in (page, other):
                await one.get_by_label("Wait for others").select_option("1800")
            await page.get_by_role("button", name="Join them").click()
            await expect(page.get_by_role("heading", name="Waiting for others")).to_be_visible()
            await other.get_by_role("button", name="Seek a game").click()
            # The fifth seek makes the game; both sit at it, in different seats.
            for one in (page, other):
                await expect(one.get_by_role("heading", name="You are")).to_be_visible(timeout=60_000)
        assert page.url.rpartition("/")[2] == other.url.rpartition("/")[2]
        seats = await asyncio.gather(
            *(one.get_by_role("heading", name="Seat").first.text_content() for one in (page, other))
        )
        assert seats[0] != seats[1]
        wish = {"seats": [{"agent": "open"}, {}, {}, {}, {}]}
        await client.post("/games/open", json=wish)
        async with visit(home) as third:
            await third.get_by_role("button", name="Take a seat").click()
            await expect(third.get_by_role("heading", name="You are")).to_be_visible(timeout=60_000)


async def test_who_leaves_the_queue_waits_no_more(served: Served, visit: Visits) -> None:
    async with visit(f"{served.url}/ui/#/lobby", viewport=DESK) as page:
        await page.get_by_label("Wait for others").select_option("1800")
        await page.get_by_role("button", name="Seek a game").click()
        await expect(page.get_by_role("heading", name="Waiting for others")).to_be_visible()
        assert await faults_of(page) == []
        # Whoever loads the page again goes on waiting.
        await page.reload()
        await expect(page.get_by_role("heading", name="Waiting for others")).to_be_visible()
        await page.get_by_role("button", name="Leave the queue").click()
        await expect(page.get_by_role("button", name="Seek a game")).to_be_visible()
        async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as client:
            assert (await client.get("/seeks")).json()["pools"] == []


async def test_seeks_of_others_with_the_key_are_shown_by_what_they_wait_for(
    served: Served, visit: Visits
) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as client:
        played = [await seek(client, f"bot{number}") for number in range(5)]
        before = (await shown(client, played[0]))["game_id"]
        await client.post(f"/games/{before}/cancel")
        await seek(client, "bot0", rematch_of=before, wait_s=3600)
        wish = {"seats": [{"agent": "open"}, {"agent": "open"}, {}, {}, {}]}
        hosted = (await client.post("/games/open", json=wish)).json()["game_id"]
        await client.post(f"/games/{hosted}/seats/open/claim", json={"bot": "bot1"})
        await seek(client, "bot2", players=7, pace="fast", wait_s=3600)
        async with visit(f"{served.url}/ui/#/lobby") as page:
            others = page.get_by_label("Your other seeks").get_by_role("listitem").locator("small")
            await expect(others).to_have_text(
                [
                    f"a rematch of game {before[2:9]}",
                    f"a seat of game {hosted[2:9]}",
                    "7 seats, rules with talk after each proposal · 10 s for each decision",
                ]
            )


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    """A service with keys."""
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key="ik_" + "k" * 43)
    async with running_server(settings) as server:
        yield server


async def enters(page: Page, headers: dict[str, str]) -> None:
    """Enters the key that these headers hold, in place of any other."""
    await page.locator("header").get_by_role("button", name=re.compile("Enter a key|Change the key")).click()
    await page.get_by_label("Key or token").fill(headers["authorization"].removeprefix("Bearer "))
    await page.get_by_role("button", name="Use it").click()


async def seeks(page: Page) -> None:
    await page.get_by_label("Wait for others").select_option("1800")
    await page.get_by_role("button", name="Seek a game").click()
    await expect(page.get_by_role("heading", name="Waiting for others")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_who_waits_with_a_key_that_was_revoked_waits_on_with_another_of_the_project(
    guarded: Served, visit: Visits
) -> None:
    services = guarded.services
    keys = KeyStore(services.database)
    mine = await owner(services, project="p")
    [first] = await keys.keys()
    another = await owner(services, project="p")
    async with (
        httpx.AsyncClient(base_url=guarded.url, trust_env=False, timeout=60) as client,
        visit(f"{guarded.url}/ui/#/lobby", faults=("401",)) as page,
    ):
        await enters(page, mine)
        await seeks(page)
        await keys.revoke(first.key_id, now_ms())
        # Once for who waits, and once for the page's own seek.
        revoked = page.get_by_role("alert").filter(has_text="was revoked")
        await expect(revoked).to_have_count(2)
        async with page.expect_response(lambda answer: "/seeks/q_" in answer.url and answer.status == 401):
            await page.get_by_role("button", name="Try again").last.click()
        await expect(revoked).to_have_count(2)
        await expect(page.get_by_role("heading", name="Waiting for others")).to_be_visible()
        await enters(page, another)
        await expect(page.get_by_role("alert")).to_have_count(0)
        others = await owner(services)
        for number in range(4):
            await seek(client, f"bot{number}", headers=others)
        await expect(page.get_by_role("heading", name="You are")).to_be_visible()


async def test_a_seek_that_another_key_does_not_show_can_be_left(guarded: Served, visit: Visits) -> None:
    mine, others = await owner(guarded.services), await owner(guarded.services)
    async with visit(f"{guarded.url}/ui/#/lobby", faults=("401", "404")) as page:
        await enters(page, mine)
        await seeks(page)
        await enters(page, others)
        await expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
        await page.get_by_role("button", name="Leave the queue").click()
        await expect(page.get_by_role("button", name="Seek a game")).to_be_visible()


async def test_a_page_that_was_loaded_while_the_server_was_away_finds_its_seek_later(
    served: Served, visit: Visits
) -> None:
    async with visit(f"{served.url}/ui/#/lobby", faults=("ERR_FAILED",)) as page:
        await seeks(page)
        await page.route("**/seeks/**", lambda route: route.abort())
        await page.reload()
        await expect(page.get_by_role("heading", name="The server cannot be reached")).to_be_visible()
        await page.unroute("**/seeks/**")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name="Waiting for others")).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
