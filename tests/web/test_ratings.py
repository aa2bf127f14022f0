"""The ladder as a page: places, shares with limits, what is not counted, and favour."""

import pytest
from playwright.async_api import expect

from tests.app.evaluations.test_ratings_api import paired
from tests.app.real_server import Served
from tests.web.conftest import DESK, PHONE, Visits
from tests.web.test_pages import SCREENS, faults_of, fits

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


async def test_the_ladder_shows_whom_a_bot_cannot_be_told_apart_from(served: Served, visit: Visits) -> None:
    async with visit(f"{served.url}/ui/#/ratings", viewport=DESK) as page:
        await expect(page.get_by_role("heading", name="No rated game has finished yet")).to_be_visible()
    owl, cub, fox = ("key:k_a", "owl"), ("key:k_a", "cub"), ("key:k_b", "fox")
    await paired(served.services, [owl, fox], 12)
    await paired(served.services, [owl, cub, fox], 3, rated=False)
    for viewport in (DESK, PHONE):
        async with visit(f"{served.url}/ui/#/ratings", viewport=viewport) as page:
            first = page.get_by_role("row").nth(1)
            await expect(first).to_contain_text("owl")
            await expect(first).to_contain_text("of key:k_a")
            await expect(first).to_contain_text("12 games")
            await expect(page.get_by_text("3 games not counted: several bots of one owner")).to_be_visible()
            await expect(page.get_by_text("3 games had several bots of one owner")).to_be_visible()
            SCREENS.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=SCREENS / f"ratings-{viewport['width']}.png", full_page=True)
            assert await faults_of(page) == []
            assert await fits(page)
