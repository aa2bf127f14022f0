"""People find each other, and bots, on the page for it."""

import asyncio
from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from tests.app.calling import WITHIN_S
from tests.app.play.meeting.seekers import seek, shown
from tests.app.real_server import Served
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
