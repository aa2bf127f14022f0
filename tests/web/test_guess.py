"""A person guesses what speakers meant, beside a model that guessed the same."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from app.base.clock import use_clock
from tests.app.evaluations.sealing import (
    DATE_MS,
    GAMES,
    Sliding,
    add_keys,
    key_of,
    lay_games,
    new_set,
    scripted_log,
)
from tests.app.real_server import Served, local_settings, running_server
from tests.web.conftest import DESK, PHONE, Visits
from tests.web.test_annotate import a_batch
from tests.web.test_pages import SCREENS, faults_of, fits

pytestmark = pytest.mark.long


ANN = {"Authorization": f"Bearer {key_of('ann')}"}


async def a_model_guesses(caller: httpx.AsyncClient, batch: str) -> list[dict[str, Any]]:
    """The items of a batch, all of which a model has answered with the first two options."""
    asks = {"dimension": "guessing", "batch": batch, "limit": 25}
    page = (await caller.get("/evaluations/items", params=asks)).json()
    answers = [
        {"item_id": item["id"], "intentions": [option["id"] for option in item["options"][:2]]}
        for item in page["items"]
    ]
    rater = {"name": "oracle 7", "kind": "model"}
    wish = {"dimension": "guessing", "rater": rater, "variant": page["variant"], "answers": answers}
    answer = await caller.post("/evaluations", json=wish)
    assert answer.status_code == 201, answer.text
    items: list[dict[str, Any]] = page["items"]
    return items


async def test_a_person_guesses_with_the_keyboard_and_stands_beside_a_model(
    served: Served, visit: Visits
) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
        batch = await a_batch(served)
        items = await a_model_guesses(caller, batch)
        async with visit(f"{served.url}/ui/#/guess", viewport=DESK) as page:
            await page.get_by_label("Your name as a rater").fill("ann")
            await page.get_by_label("A batch").fill(batch)
            await page.get_by_label("Speeches").fill("25")
            await page.get_by_role("button", name="Begin").click()
            asked = page.get_by_role("region", name="What is asked")
            for number, item in enumerate(items, 1):
                await expect(page.get_by_text(f"Speech {number} of {len(items)}")).to_be_visible()
                await expect(asked.get_by_text(item["speech"].splitlines()[0][:40]).first).to_be_visible()
                # What the model chose, and of the first speech something else.
                await page.keyboard.press("a")
                await page.keyboard.press("b")
                if number == 1:
                    await page.keyboard.press("b")
                    await page.keyboard.press("c")
                    await asked.get_by_label("Its role").select_option("servant")
                    await asked.get_by_label("How sure").select_option("3")
                    await page.locator("main").focus()
                await page.keyboard.press("Enter")
            await page.get_by_role("button", name=f"Hand in {len(items)} guesses").press("Enter")
            mine = page.get_by_role("region", name="What you handed in")
            await expect(mine).to_be_visible()
            found = (await caller.get("/evaluations", params={"rater": "ann"})).json()["evaluations"][0]
            value = found["totals"]["micro"]["f1"]["value"]
            await expect(mine).to_contain_text(f"{100 * value:.1f} %")
            others = page.get_by_role("region", name="Beside the others")
            row = others.get_by_role("row", name="oracle 7 model")
            await expect(row).to_contain_text(f"{len(items)} items")
            await expect(row).to_contain_text(f"{100 * value:.1f} %")
            assert await faults_of(page) == []
            await page.screenshot(path=SCREENS / "guessed-desk-light.png")
            # A changed guess alone is handed in again.
            await page.get_by_role("button", name="Back").click()
            await page.keyboard.press("d")
            await expect(page.get_by_role("button", name="Hand in 1 guess")).to_be_enabled()
        scored = (
            await caller.get(f"/evaluations/{found['evaluation_id']}", params={"per_item": True})
        ).json()
        given = {one["item_id"]: one["predicted"] for one in scored["per_item"]}
        first = items[0]
        assert set(given[first["id"]]) == {first["options"][0]["id"], first["options"][2]["id"]}
        assert found["rater"] == {"name": "ann", "kind": "human"}


async def test_a_sealed_set_keeps_what_a_person_guesses_and_tells_it_on_its_date(
    tmp_path: Path, visit: Visits
) -> None:
    async with a_set(tmp_path) as (served, set_id, time):
        place = f"/evaluations/sets/{set_id}"
        async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
            url = f"{served.url}/ui/#/guess?rater=ann&of={set_id}"
            async with visit(url, faults=("401",)) as page:
                await enters_key(page)
                await expect(page.get_by_text("sealed until")).to_be_visible()
                for letters in ("ab", "c"):
                    for letter in letters:
                        await page.keyboard.press(letter)
                    await page.keyboard.press("Enter")
                await page.get_by_role("button", name="Hand in 2 guesses").click()
                await expect(page.get_by_text("2 guesses to 2 items are kept.")).to_be_visible()
                assert "F1" not in await page.locator("main").inner_text()
                receipts = (await caller.get(f"{place}/receipts", headers=ANN)).json()["receipts"]
                assert [(one["rater"]["name"], one["items"]) for one in receipts] == [("ann", 2)]
                assert await faults_of(page) == []
                time.ahead_ms = 2 * DATE_MS
                async with asyncio.timeout(60):
                    while (await caller.get(place, headers=ANN)).json()["status"] != "open":  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                # Where the key was forgotten with the page, it is asked for again.
                await page.reload()
                await enters_key(page)
                board = page.get_by_role("region", name="Leaderboard")
                row = board.get_by_role("row", name="ann human")
                told = (await caller.get(place, headers=ANN)).json()["leaderboard"][0]
                await expect(row).to_contain_text(f"{100 * told['totals']['micro']['f1']['value']:.1f} %")
                await expect(row).to_contain_text("2 of 200")
                await expect(board).to_contain_text("seeds of these games may be guessable")
                await expect(board).to_contain_text("Everybody could look up the roles in the games of")


@contextlib.asynccontextmanager
async def a_set(tmp_path: Path) -> AsyncIterator[tuple[Served, str, Sliding]]:
    """A service with keys, and a sealed set of 200 items on it."""
    time = Sliding()
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key="ik_" + "o" * 43)
    with use_clock(time):
        async with (
            running_server(settings) as served,
            httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller,
        ):
            # In a thread, since each log is played in a loop of its own.
            logs = await asyncio.to_thread(lambda: [scripted_log(seed) for seed in range(1, GAMES + 1)])
            await lay_games(served, logs)
            await add_keys(served)
            owner = {"Authorization": f"Bearer {key_of('owner')}"}
            made = await caller.post("/evaluations/sets", json=new_set(guessable_seeds=True), headers=owner)
            assert made.status_code == 201, made.text
            yield served, made.json()["set_id"], time


async def enters_key(page: Page) -> None:
    await page.get_by_role("button", name="Enter a key").last.click()
    await page.get_by_label("Key or token").fill(key_of("ann"))
    await page.get_by_role("button", name="Use it").click()


async def test_who_comes_back_to_a_sealed_set_goes_on_where_it_stood(tmp_path: Path, visit: Visits) -> None:
    async with a_set(tmp_path) as (served, set_id, _):
        receipts = f"/evaluations/sets/{set_id}/receipts"

        async def items() -> int:
            async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
                found = (await caller.get(receipts, headers=ANN)).json()["receipts"]
                return sum(one["items"] for one in found)

        async with visit(f"{served.url}/ui/#/guess", faults=("401",)) as page:
            page.on("dialog", lambda dialog: dialog.accept())
            await enters_key(page)
            # The set is offered; nobody has to know its id.
            await page.get_by_role("radio", name="spring 200 items").check()
            await page.get_by_label("Your name as a rater").fill("ann")
            await page.get_by_role("button", name="Begin").click()
            for number in range(1, 14):
                await expect(page.get_by_text(f"Speech {number} of 200")).to_be_visible()
                await page.keyboard.press("a")
                await page.keyboard.press("Enter")
            # Ten were handed in by themselves; the others stay with the tab when its page is loaded again.
            await expect(page.get_by_text("10 guesses to 10 items are kept.")).to_be_visible()
            assert await items() == 10
            await page.reload()
            await enters_key(page)
            await expect(page.get_by_text("Speech 14 of 200")).to_be_visible()
            await page.get_by_role("button", name="Hand in 3 guesses").click()
            await expect(page.get_by_text("13 guesses to 13 items are kept.")).to_be_visible()
            # Nothing stays that outlasts the tab, and in it nothing that the service has.
            await page.wait_for_function(
                "() => JSON.stringify([{...localStorage}, {...sessionStorage}]) === '[{},{}]'"
            )
        # The next day, another browser.
        async with visit(f"{served.url}/ui/#/guess?rater=ann&of={set_id}", faults=("401",)) as page:
            await enters_key(page)
            await expect(page.get_by_text("Speech 14 of 200")).to_be_visible()
            await expect(page.get_by_role("progressbar", name="Progress")).to_have_js_property("value", 13)
            await page.get_by_role("button", name="Back").click()
            options = page.get_by_role("region", name="What is asked").get_by_role("checkbox")
            await expect(options.first).to_be_checked()
            await page.keyboard.press("b")
            await page.get_by_role("button", name="To the next without a guess").click()
            await expect(page.get_by_text("Speech 14 of 200")).to_be_visible()
            await page.get_by_role("button", name="Hand in 1 guess").click()
            await expect(page.get_by_text("13 guesses to 13 items are kept.")).to_be_visible()
            assert await items() == 13


async def test_axe_finds_nothing_where_people_guess(served: Served, visit: Visits) -> None:
    batch = await a_batch(served)
    for viewport, scheme in ((PHONE, "dark"), (DESK, "light")):
        url = f"{served.url}/ui/#/guess?rater=eve&of={batch}"
        async with visit(url, viewport=viewport, color_scheme=scheme) as page:
            await expect(page.get_by_role("region", name="What is asked")).to_be_visible()
            assert await fits(page)
            assert await faults_of(page) == []
