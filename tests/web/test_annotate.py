"""A person judges speaking turns in a browser, one key a score."""

import asyncio

import httpx
import pytest
from playwright.async_api import Route, expect

from tests.app.real_server import Served
from tests.web.conftest import DESK, PHONE, Visits
from tests.web.test_pages import faults_of, fits

pytestmark = pytest.mark.long


async def a_batch(served: Served) -> str:
    """A finished batch of scripted games."""
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        made = (await client.post("/games", json={"count": 2, "seeds": {"from": 4}})).json()
        batch: str = made["batch_id"]
        async with client.stream("GET", f"/batches/{batch}/events", params={"follow": True}) as lines:
            async for _ in lines.aiter_lines():
                pass  # to its end
        return batch


async def judgements(served: Served, batch: str, rater: str) -> list[dict[str, object]]:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        page = await client.get("/annotations", params={"batch": batch, "rater": rater})
        found: list[dict[str, object]] = page.json()["judgements"]
        return found


async def test_ten_speeches_are_judged_with_the_keyboard(served: Served, visit: Visits) -> None:
    batch = await a_batch(served)
    async with visit(f"{served.url}/ui/#/annotate", viewport=DESK) as page:
        await page.get_by_label("Your name as a rater").fill("ann")
        await page.get_by_label("The batch").fill(batch)
        await page.get_by_role("button", name="Begin").click()
        bar = page.get_by_role("progressbar", name="Progress")
        await expect(bar).to_be_visible()
        count = int(await bar.get_attribute("max") or 0)
        assert count >= 20
        asked = page.get_by_role("region", name="What is asked")
        # A wrong key is taken back.
        for place in range(count):
            await expect(bar).to_have_js_property("value", place)
            yes_or_no = await asked.get_by_role("button", name="Yes").count()
            if place == 1:
                await page.keyboard.press("u")
                await expect(bar).to_have_js_property("value", 0)
                first = await asked.get_by_role("button", name="Yes").count()
                await page.keyboard.press("n" if first else "1")
                await expect(bar).to_have_js_property("value", 1)
            await page.keyboard.press("y" if yes_or_no else "4")
        await expect(page.get_by_role("heading", name="That was all")).to_be_visible()
        await expect(page.get_by_text("Saved")).to_be_visible()
        await expect(page.get_by_text("10 of 10 speeches")).to_be_visible()
    stored = await judgements(served, batch, "ann")
    assert len({(one["game_id"], one["request_id"]) for one in stored}) == 10
    scores = [one["think"] for one in stored if one["think"] is not None]
    assert set(scores) <= {1, 4}
    reasonable = [one["reasonable"] for one in stored if one["reasonable"] is not None]
    # The one that was undone, and no other.
    assert scores.count(1) + reasonable.count(False) == 1


async def test_a_judged_speech_can_be_judged_again(served: Served, visit: Visits) -> None:
    batch = await a_batch(served)
    url = f"{served.url}/ui/#/annotate?rater=bob&batch={batch}&limit=1"
    async with visit(url, viewport=PHONE) as page:
        bar = page.get_by_role("progressbar", name="Progress")
        count = int(await bar.get_attribute("max") or 0)
        asked = page.get_by_role("region", name="What is asked")
        for place in range(count):
            await expect(bar).to_have_js_property("value", place)
            await (
                asked.get_by_role("button", name="Yes").or_(asked.get_by_role("button", name="fully")).click()
            )
        await expect(page.get_by_text("1 of 1 speeches")).to_be_visible()
        before = await judgements(served, batch, "bob")
        await page.get_by_role("button", name="Undo").click()
        await (
            asked.get_by_role("button", name="No", exact=False)
            .or_(asked.get_by_role("button", name="absent"))
            .first.click()
        )
        await expect(page.get_by_text("Saved")).to_be_visible()
    after = await judgements(served, batch, "bob")
    assert len(after) == len(before)
    changed = [one for one in after if one not in before]
    assert len(changed) == 1


async def test_what_could_not_be_saved_is_kept_and_sent_again(served: Served, visit: Visits) -> None:
    batch = await a_batch(served)
    url = f"{served.url}/ui/#/annotate?rater=cleo&batch={batch}&limit=1"
    async with visit(url, faults=("Failed to load resource",)) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        bar = page.get_by_role("progressbar", name="Progress")
        count = int(await bar.get_attribute("max") or 0)
        # The answers do not arrive, though the first of them was stored.
        tried: list[str] = []

        async def lose(route: Route) -> None:
            tried.append(route.request.headers["idempotency-key"])
            await (route.fetch() if len(tried) == 1 else asyncio.sleep(0))
            await route.abort()

        await page.route("**/annotations", lose)
        asked = page.get_by_role("region", name="What is asked")
        for place in range(count):
            await expect(bar).to_have_js_property("value", place)
            await page.keyboard.press("y" if await asked.get_by_role("button", name="Yes").count() else "4")
        await expect(page.get_by_role("heading", name="cannot be reached")).to_be_visible(timeout=90_000)
        await expect(page.get_by_text("Not saved")).to_be_visible()
        await page.unroute("**/annotations")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_text("Saved", exact=True)).to_be_visible()
        await expect(page.get_by_text("1 of 1 speeches")).to_be_visible()
        assert len(set(tried)) == 1
    stored = await judgements(served, batch, "cleo")
    assert stored
    assert len({(one["game_id"], one["request_id"]) for one in stored}) == 1


async def test_a_screen_reader_is_told_what_is_to_be_judged(served: Served, visit: Visits) -> None:
    batch = await a_batch(served)
    async with visit(f"{served.url}/ui/#/annotate?rater=fay&batch={batch}") as page:
        await expect(page.locator("main")).to_match_aria_snapshot(
            """
            - main "Judge":
              - paragraph:
                - progressbar "Progress"
                - text: Speech 1 of 10
                - status
                - button "Undo u" [disabled]
              - region "What the seat knew":
                - heading /What seat \\d knew/ [level=2]
                - group "The record"
              - region "What is asked":
                - heading [level=1]
                - textbox "Note (if you like)"
              - region "What it thought and said":
                - heading "Its thinking" [level=2]
              - group: Guidelines and examples
              - region "Everybody so far":
                - heading "Everybody so far" [level=2]
            """
        )


async def test_axe_finds_nothing_where_people_judge(served: Served, visit: Visits) -> None:
    batch = await a_batch(served)
    url = f"{served.url}/ui/#/annotate?rater=eve&batch={batch}&limit=2"
    for viewport in (PHONE, DESK):
        async with visit(url, viewport=viewport) as page:
            await expect(page.get_by_role("region", name="What is asked")).to_be_visible()
            assert await fits(page)
            assert await faults_of(page) == []
