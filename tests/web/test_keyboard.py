"""Everything that people do on the pages can be done with a keyboard alone."""

import contextlib
import itertools
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Locator, Page, expect

from tests.app.real_server import Served, local_settings, running_server
from tests.client.cutting import cutting
from tests.ports import steady_port
from tests.web.conftest import PHONE, Visits
from tests.web.test_annotate import a_batch

pytestmark = pytest.mark.long

MOST = 80
"""Presses of Tab until what is looked for must have come."""

_HERE = """() => {
    const it = document.activeElement;
    return [it.type ?? '', it.innerText ?? '', it.checked ?? false];
}"""


async def tab_to(page: Page, wanted: Locator) -> None:
    """Presses Tab until ``wanted`` has the focus, wherever that was."""
    for _ in range(MOST):
        if await wanted.evaluate("it => it === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached by Tab")


async def answers(page: Page, seats: int) -> bool:
    """Answers what is asked, from its heading on, which has the focus by itself: the first seats, yes, the
    worst card, not a word. False: it is not asked any more.
    """
    for _ in range(MOST):
        await page.keyboard.press("Tab")
        kind, words, checked = await page.evaluate(_HERE)
        if kind in ("checkbox", "radio") and seats and not checked:
            await page.keyboard.press("Space")
            seats -= 1
        elif kind == "button" and words in (
            "Say nothing",
            "Approve",
            "Success",
            "Shoot",
            "Keep these notes",
            "Propose this team",
        ):
            await page.keyboard.press("Enter")
            return True
    return False


async def test_a_game_is_played_on_a_phone_to_its_end_over_a_cut_and_a_restart(
    tmp_path: Path, visit: Visits
) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", port=steady_port())
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_server(settings))
        proxy, url = await stack.enter_async_context(cutting(first.url))
        visited = visit(f"{url}/ui/", viewport=PHONE, faults=("WebSocket", "ERR_"))
        page = await stack.enter_async_context(visited)
        await tab_to(page, page.get_by_role("button", name="Menu"))
        await page.keyboard.press("Enter")
        await tab_to(page, page.get_by_role("link", name="Play", exact=True))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Play", level=1)).to_be_visible()
        await tab_to(page, page.get_by_label("Your name"))
        await page.keyboard.type("Ada")
        await tab_to(page, page.get_by_role("button", name="Take a seat"))
        await page.keyboard.press("Enter")
        asked, over = page.locator(".asked"), page.get_by_text("See the whole game")
        for turn in itertools.count():
            if turn == 2:
                proxy.cut()
            if turn == 4:
                first.server.stop()
                await expect(page.get_by_text("Connection lost")).to_be_visible()
                await stack.enter_async_context(running_server(settings))
                await expect(page.get_by_text("Connection lost")).to_have_count(0, timeout=120_000)
            await expect(asked.or_(over).first).to_be_visible(timeout=120_000)
            if await over.count():
                break
            section = await asked.element_handle(timeout=120_000)
            assert section is not None
            heading = await section.query_selector("h2")
            assert heading is not None
            # After a new connection it may be asked anew.
            await page.wait_for_function(
                "one => one === document.activeElement || !one.isConnected", arg=heading
            )
            words = await heading.inner_text()
            legend = await section.query_selector(":scope > fieldset legend")
            size = 0
            if words == "Choose a team":
                size = int((await legend.inner_text()).split()[0])  # type: ignore[union-attr]
            if not await answers(page, 1 if words == "Name Merlin" else size):
                gone = await section.evaluate("one => !one.isConnected")
                assert gone, "no answer is reached by Tab"
            await page.wait_for_function("one => !one.isConnected", arg=section, timeout=120_000)
        await expect(page.locator(".standing")).to_contain_text("wins")


async def test_a_seek_is_made_and_withdrawn(served: Served, visit: Visits) -> None:
    async with visit(f"{served.url}/ui/#/lobby") as page:
        await tab_to(page, page.get_by_label("Seats"))
        await page.keyboard.press("ArrowDown")
        await tab_to(page, page.get_by_label("Wait for others"))
        await page.keyboard.press("End")
        await tab_to(page, page.get_by_role("button", name="Seek a game"))
        await page.keyboard.press("Enter")
        # Who used the button is brought to what took its place.
        await expect(page.get_by_role("heading", name="Waiting for others")).to_be_focused()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Leave the queue")).to_be_focused()
        async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
            (pool,) = (await client.get("/seeks")).json()["pools"]
            assert pool["players"] == 6
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="Find others")).to_be_focused()
            assert (await client.get("/seeks")).json()["pools"] == []


@pytest.mark.parametrize("name", ["Judge", "Guess"])
async def test_a_rater_begins_and_answers(served: Served, visit: Visits, name: str) -> None:
    await a_batch(served)
    async with visit(f"{served.url}/ui/") as page:
        await tab_to(page, page.get_by_role("link", name=name, exact=True))
        await page.keyboard.press("Enter")
        await tab_to(page, page.get_by_label("Your name as a rater"))
        await page.keyboard.type("ann")
        # The newest batch is offered: nobody has to type an id.
        await tab_to(page, page.get_by_role("radio").first)
        await page.keyboard.press("Space")
        await page.keyboard.press("Enter")
        bar = page.get_by_role("progressbar", name="Progress")
        await expect(bar).to_have_js_property("value", 0)
        asked = page.get_by_role("region", name="What is asked")
        if name == "Guess":
            await tab_to(page, asked.get_by_role("checkbox").nth(1))
            await page.keyboard.press("Space")
            await tab_to(page, asked.get_by_label("Its role"))
            await page.keyboard.press("ArrowDown")
            await tab_to(page, asked.get_by_role("button", name="Next"))
        else:
            await tab_to(page, asked.get_by_role("button").first)
        await page.keyboard.press("Enter")
        await expect(bar).to_have_js_property("value", 1)
        await tab_to(page, page.get_by_role("button", name="Undo" if name == "Judge" else "Back"))
        await page.keyboard.press("Enter")
        await expect(bar).to_have_js_property("value", 0 if name == "Judge" else 1)
