"""A game is watched while it is played: over a connection that is cut, and over a restart."""

import re
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.app.calling import WITHIN_S
from tests.app.real_server import Served, local_settings, running_server
from tests.client.cutting import cutting
from tests.ports import steady_port
from tests.web.conftest import Visits

pytestmark = pytest.mark.long


async def begun(caller: httpx.AsyncClient) -> str:
    """A game that goes on only when it is stepped."""
    made = await caller.post("/games", json={"drive": "manual", "seeds": {"from": 1}})
    return str(made.json()["games"][0]["game_id"])


async def step(caller: httpx.AsyncClient, game: str, until: str) -> int:
    """Plays the game on; returns the number of its events."""
    answer = await caller.post(f"/games/{game}/step", json={"until": until})
    assert answer.status_code == 200, answer.text
    return int((await caller.get(f"/games/{game}")).json()["head"])


async def shows(page: Page, position: int) -> None:
    """Waits until the page has gone on to this moment of a running game."""
    slider = page.get_by_role("slider", name="Moment of the game")
    await expect(slider).to_have_attribute("max", str(position), timeout=120_000)


async def test_a_live_game_is_followed_to_its_end_over_a_cut_connection(
    served: Served, visit: Visits
) -> None:
    async with (
        cutting(served.url) as (proxy, url),
        httpx.AsyncClient(base_url=served.url, timeout=WITHIN_S) as caller,
    ):
        game = await begun(caller)
        head = await step(caller, game, "action")
        async with visit(f"{url}/ui/#/games/{game}", faults=("WebSocket", "ERR_")) as page:
            await shows(page, head)
            await expect(page.get_by_text("Waiting for Player 2 to speak …")).to_be_visible()
            await expect(page.get_by_text("1 watching")).to_be_visible()
            head = await step(caller, game, "action")
            await shows(page, head)
            proxy.cut()
            head = await step(caller, game, "round")
            await shows(page, head)
            # Who follows is led on to the newest event, whatever has piled up.
            await expect(page.get_by_role("slider")).to_have_value(re.compile(r"\d+"))
            head = await step(caller, game, "end")
            await shows(page, head)
            await page.get_by_role("slider").press("End")
            await expect(page.locator(".standing")).to_have_text(re.compile("wins"))
            await expect(page.get_by_text("Finished", exact=True)).to_be_visible()


async def test_a_page_comes_back_by_itself_when_the_server_does(tmp_path: Path, visit: Visits) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", port=steady_port())
    async with (
        running_server(settings) as first,
        httpx.AsyncClient(base_url=first.url, timeout=WITHIN_S) as caller,
    ):
        game = await begun(caller)
        head = await step(caller, game, "action")
        async with visit(f"{first.url}/ui/#/games/{game}", faults=("WebSocket", "ERR_")) as page:
            await shows(page, head)
            first.server.stop()
            await expect(page.get_by_text("Connection lost")).to_be_visible(timeout=120_000)
            async with running_server(settings):
                head = await step(caller, game, "phase")
                await shows(page, head)
                await expect(page.get_by_text("Connection lost")).to_have_count(0)


async def test_a_speech_is_played_out_unless_the_reader_wants_no_motion(
    served: Served, visit: Visits
) -> None:
    async with httpx.AsyncClient(base_url=served.url, timeout=WITHIN_S) as caller:
        for motion in ("no-preference", "reduce"):
            game = await begun(caller)
            head = await step(caller, game, "action")
            async with visit(f"{served.url}/ui/#/games/{game}", reduced_motion=motion) as page:
                await shows(page, head)
                await page.evaluate(
                    # Time passes from frame to frame, however slowly the machine draws them.
                    """() => {
                        const frame = requestAnimationFrame.bind(window);
                        let now = performance.now();
                        performance.now = () => now;
                        window.requestAnimationFrame = (then) => frame(() => then(now));
                        window.parts = new Set();
                        const look = () => {
                            now += 16;
                            for (const one of document.querySelectorAll(".unheard"))
                                window.parts.add(one.textContent);
                            frame(look);
                        };
                        look();
                    }"""
                )
                await step(caller, game, "action")
                said = page.locator(".entry.said").nth(1)
                await expect(said).to_be_visible()
                text = await said.locator("> .speech").text_content()
                assert text is not None
                assert len(text) > 20
                # All words are in the page from the start; only their look changes.
                await expect(page.locator(".unheard:not(:empty)")).to_have_count(0)
                heard = await page.evaluate("window.parts.size")
                assert (heard > 3) if motion == "no-preference" else (heard == 0)


async def test_a_key_opens_a_server_that_asks_for_one_and_is_kept_nowhere(
    tmp_path: Path, visit: Visits
) -> None:
    key = "ik_" + "k" * 43
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=key)
    async with running_server(settings) as served:
        bearer = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=served.url, headers=bearer, timeout=WITHIN_S) as caller:
            game = await begun(caller)
            head = await step(caller, game, "phase")
            minted = await caller.post(f"/games/{game}/tokens", json={"viewer": "public"})
            assert minted.status_code == 201, minted.text
            token = minted.json()["token"]
        async with visit(f"{served.url}/ui/#/games/{game}", faults=("401", "404")) as page:
            await page.get_by_role("button", name="Enter a key").last.click()
            await page.get_by_label("Key or token").fill(key)
            await page.get_by_role("button", name="Use it").click()
            await shows(page, head)
            kept = await page.evaluate(
                "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href,"
                " document.documentElement.outerHTML])"
            )
            assert key not in kept
            await page.reload()
            await expect(page.get_by_role("button", name="Enter a key").first).to_be_visible()
            # With a watcher's token the same page is the public's.
            await page.get_by_role("button", name="Enter a key").last.click()
            await page.get_by_label("Key or token").fill(token)
            await page.get_by_role("button", name="Use it").click()
            await expect(page.get_by_role("region", name="The table")).to_be_visible()
            await expect(page.get_by_label("Seen by")).to_have_count(0)
            await expect(page.get_by_text("had in mind")).to_have_count(0)
