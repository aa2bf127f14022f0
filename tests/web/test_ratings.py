"""The ladder as a page: places, shares with limits, what is not counted, and favour."""

import pytest
from playwright.async_api import expect
from sqlalchemy import update

from app.store.games import ABSENT
from app.store.tables import game_players
from tests.app.evaluations.test_ratings_api import paired
from tests.app.real_server import Served
from tests.web.conftest import DESK, PHONE, Visits
from tests.web.test_pages import SCREENS, faults_of, fits

pytestmark = pytest.mark.long


async def test_the_ladder_shows_whom_a_bot_cannot_be_told_apart_from(served: Served, visit: Visits) -> None:
    async with visit(f"{served.url}/ui/#/ratings", viewport=DESK) as page:
        await expect(page.get_by_role("heading", name="No rated game has finished yet")).to_be_visible()
    owl, cub, fox = ("key:k_a", "owl"), ("key:k_a", "cub"), ("key:k_b", "fox")
    await paired(served.services, [owl, fox], 12)
    await paired(served.services, [cub, fox])
    await paired(served.services, [owl, cub, fox], 3, rated=False)
    for game_id in await paired(served.services, [owl, fox], 2, rated=False, unrated=ABSENT):
        left = (game_players.c.game_id == game_id) & (game_players.c.bot == "owl")
        await served.services.database.writer.execute(update(game_players).where(left).values(absent_at=1))
    for viewport in (DESK, PHONE):
        async with visit(f"{served.url}/ui/#/ratings", viewport=viewport) as page:
            first = page.get_by_role("row").nth(1)
            await expect(first).to_contain_text("owl")
            await expect(first).to_contain_text("of key:k_a")
            await expect(first).to_contain_text("12 games")
            await expect(first).to_contain_text("left 2 further games: rated as lost")
            assert await page.get_by_text("further game").count() == 1
            await expect(page.get_by_text(f"2 games not counted: {ABSENT}")).to_be_visible()
            await expect(page.get_by_text("3 games not counted: several bots of one owner")).to_be_visible()
            await expect(page.get_by_text("3 games had several bots of one owner")).to_be_visible()
            SCREENS.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=SCREENS / f"ratings-{viewport['width']}.png", full_page=True)
            assert await faults_of(page) == []
            assert await fits(page)
