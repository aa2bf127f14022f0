"""Reports and studies as pages: figures with their games behind them, failures apart, no early look."""

import asyncio
import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from interintent_client import Server
from playwright.async_api import expect

from app.instruments.fake_model import FakeOptions
from app.instruments.fake_model.brains import BRAINS
from tests.app.modelling import endpoints, faking
from tests.app.real_server import Served, local_settings, running_server
from tests.web.conftest import DESK, PHONE, SCREEN, WALL, Visits
from tests.web.test_pages import SCREENS, faults_of, fits

pytestmark = pytest.mark.long

KEY = "ik_" + "k" * 43

STUDY = "Moods & <b>tables</b> / 1"
"""A name that would break an address or a page that took it for more than text."""


async def played(served: Served, agent: str, **settings: Any) -> tuple[str, list[str]]:
    """A finished batch of four games in a cell of the study."""
    labels = {"study": STUDY, "cell": f"mood-{agent}", "mood": agent}
    async with Server(served.url) as server:
        batch = await server.create_games(
            count=4, seeds={"from": 1}, seats=[{"agent": agent}], labels=labels, **settings
        )
        await batch.done()
        return batch.id, [game.id for game in batch.games]


async def asked(served: Served, **query: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        answer = await client.get("/reports", params=query)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


async def invalidate(served: Served, game: str, reason: str) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        (await client.post(f"/games/{game}/invalidate", json={"reason": reason})).raise_for_status()


def figure(report: dict[str, Any], table: str, labels: Sequence[str], column: str) -> dict[str, Any]:
    rows = next(one for one in report["tables"] if one["name"] == table)["rows"]
    found: dict[str, Any] = next(row for row in rows if row["labels"] == list(labels))["figures"][column]
    return found


async def test_a_report_is_made_of_chosen_batches_and_each_figure_leads_to_its_games(
    served: Served, visit: Visits
) -> None:
    calm, games = await played(served, "scripted")
    wild, _ = await played(served, "random")
    await invalidate(served, games[0], "<i>the power failed</i>")
    report = await asked(served, batch=calm)
    won = figure(report, "results", ["win rate", "loyal"], "ours")
    async with visit(f"{served.url}/ui/#/reports", viewport=DESK) as page:
        await page.get_by_role("checkbox", name=re.compile("mood-scripted")).focus()
        await page.keyboard.press("Space")
        await page.get_by_role("button", name="Make the report").focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(f"batch={calm}$"))
        failed = page.get_by_role("region", name="What failed, and is no finding")
        await expect(failed).to_contain_text("<i>the power failed</i>")
        await expect(failed.get_by_role("link")).to_have_attribute("href", f"#/games/{games[0]}")
        # The page shows the service's own figure, and behind it the games that count.
        row = page.get_by_role("region", name="Results of games: figures").get_by_role("row")
        cell = row.filter(has=page.get_by_role("rowheader", name="win rate", exact=True))
        cell = cell.filter(has=page.get_by_role("rowheader", name="loyal")).get_by_role("button")
        await expect(cell).to_contain_text(f"{100 * won['value']:.1f}")
        await expect(cell).to_contain_text("3 games")
        await cell.focus()
        await page.keyboard.press("Enter")
        behind = page.get_by_role("dialog", name="Behind this figure")
        await expect(behind.get_by_role("heading", name="Its 3 games")).to_be_visible()
        links = await behind.locator(".behind-games a").evaluate_all("all => all.map(a => a.hash)")
        assert set(links) == {f"#/games/{game}" for game in games[1:]}
        await expect(behind).to_contain_text("With excluded games")
        assert await faults_of(page) == []
        SCREENS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SCREENS / "behind-desk-light.png")
        await page.keyboard.press("Escape")
        await expect(behind).to_have_count(0)
        # Items lead to the moment at which they were asked.
        of_items = page.get_by_role("region", name="Guessing: which guesser reads whose speeches: figures")
        await of_items.get_by_role("button").first.click()
        await behind.get_by_role("button", name="Show items").click()
        item = behind.locator(".behind-items a").first
        await expect(item).to_have_attribute("href", re.compile(r"#/games/g_\w+\?at=\d+&eyes=seat:\d"))
        await item.click()
        await expect(page.get_by_role("region", name="The table")).to_be_visible()
        # The address is the report: another batch in it, set beside the first.
        await page.goto(
            f"{served.url}/ui/#/reports?batch={calm},{wild}&group_by=mood&contrast=mood=scripted,random"
        )
        await expect(page.get_by_role("heading", name="Contrasts", exact=True)).to_be_visible(timeout=60_000)
        both = await asked(served, batch=f"{calm},{wild}", group_by="mood", contrast="mood=scripted,random")
        labels = ["mood: scripted \N{MINUS SIGN} random", "win rate, loyal"]
        await page.get_by_text(re.compile("All [0-9]+ rows: Contrasts$")).click()
        told = figure(both, "contrasts", labels, "difference")["note"]
        await expect(page.get_by_role("region", name="Contrasts: figures")).to_contain_text(told)
        async with page.expect_download() as saved:
            await (
                page.get_by_role("group", name="Save the report as").get_by_role("button", name="CSV").click()
            )
        assert (await (await saved.value).path()).read_text().startswith("table,row,column,value,")


async def test_a_report_that_the_server_could_not_make_comes_by_itself_when_it_can(
    served: Served, visit: Visits
) -> None:
    batch, _ = await played(served, "scripted")
    async with visit(f"{served.url}/livez", faults=("Failed to load resource", "404")) as page:
        away = page.get_by_role("heading", name="The server could not answer")
        for by_hand in (True, False):
            await page.route("**/reports?*", lambda route: route.fulfill(status=500, body="oops"))
            await page.goto("about:blank")
            await page.goto(f"{served.url}/ui/#/reports?batch={batch}")
            await expect(away).to_be_visible()
            await page.unroute("**/reports?*")
            if by_hand:
                await page.get_by_role("button", name="Try again").click()
            await expect(page.get_by_role("heading", name="Results of games")).to_be_visible()
            await expect(away).to_have_count(0)


async def test_a_study_that_says_how_many_games_are_planned_waits_for_batches_that_are_not_made_yet(
    served: Served, visit: Visits
) -> None:
    async with Server(served.url) as server:
        for agent, count in (("scripted", 2), ("random", 1)):
            labels = {"study": "s", "cell": agent, "planned": "4", "mood": agent}
            made = await server.create_games(
                count=count, seeds={"from": 1}, seats=[{"agent": agent}], labels=labels
            )
            await made.done()
        async with visit(f"{served.url}/ui/#/studies") as page:
            await expect(page.get_by_text("3 of 4 games in 2 cells")).to_be_visible()
            await page.get_by_role("link", name="s", exact=True).click()
            # Every batch is done, and the study is not.
            await expect(page.get_by_text("3 of 4 planned games finished")).to_be_visible()
            await expect(page.get_by_role("heading", name="No results yet")).to_be_visible()
            made = await server.create_games(
                count=1, seeds={"from": 2}, seats=[{"agent": "random"}], labels=labels
            )
            await made.done()
            await expect(page.get_by_text("4 of 4 planned games finished")).to_be_visible(timeout=120_000)
            await expect(page.get_by_role("heading", name="Contrasts").first).to_be_visible()
            await expect(page.get_by_text("planned=")).to_have_count(0)


async def test_a_study_shows_no_result_before_every_planned_game_is_there(
    served: Served, visit: Visits
) -> None:
    await played(served, "scripted")
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        late = {"study": STUDY, "cell": "mood-late", "mood": "late"}
        seats = [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]
        made = (await client.post("/games", json={"seats": seats, "labels": late})).json()
        async with visit(f"{served.url}/ui/#/studies") as page:
            await expect(page.get_by_text("4 of 5 games in 2 cells")).to_be_visible()
            await page.get_by_role("link", name=STUDY).click()
            await expect(page.get_by_text("4 of 5 planned games finished")).to_be_visible()
            cells = page.get_by_role("region", name="Cells, to be scrolled")
            scripted = cells.get_by_role("row", name=re.compile("mood-scripted"))
            await expect(scripted.get_by_label("all there")).to_be_visible()
            await expect(scripted).to_contain_text("0.0 %")
            await expect(cells.get_by_role("row", name=re.compile("mood-late"))).to_contain_text("0 of 1")
            await expect(page.get_by_role("heading", name="No results yet")).to_be_visible()
            await expect(page.get_by_role("heading", name="Contrasts")).to_have_count(0)
            # The missing game is cancelled and played by another agent: the page sees it by itself.
            (await client.post(f"/batches/{made['batch_id']}/cancel")).raise_for_status()
            await expect(page.get_by_text("4 of 4 planned games finished")).to_be_visible(timeout=120_000)
            # A batch that is made while the page is open is found, too.
            await played(served, "random")
            await expect(page.get_by_text("8 of 8 planned games finished")).to_be_visible(timeout=60_000)
            table = page.get_by_text(re.compile("All [0-9]+ rows: Contrasts$"))
            await expect(table).to_be_visible(timeout=60_000)
            await table.click()
            await expect(page.get_by_role("region", name="Contrasts: figures")).to_contain_text("mood: ")
            assert await page.locator("main b").count() == 0


async def cells(served: Served, study: str, levels: Sequence[str]) -> None:
    """A complete study of one game for each level of its factor ``mood``."""
    async with Server(served.url) as server:
        for number, level in enumerate(levels):
            labels = {"study": study, "cell": f"c{number}", "mood": level, "Some note": f"n{number}"}
            made = await server.create_games(
                count=1, seeds={"from": 1}, seats=[{"agent": "random"}], labels=labels
            )
            await made.done()


async def test_a_study_contrasts_its_levels_whatever_they_are_called(served: Served, visit: Visits) -> None:
    levels = ["r,1", "a x b; c", "d where side=evil", 'q"r']
    await cells(served, "odd", levels)
    async with visit(f"{served.url}/ui/#/studies/odd") as page:
        await page.get_by_text(re.compile("All [0-9]+ rows: Contrasts$")).click()
        table = page.get_by_role("region", name="Contrasts: figures")
        for first, second in combinations(levels, 2):
            await expect(table).to_contain_text(f"mood: {first} \N{MINUS SIGN} {second}")
        # A label that can be no column is not offered.
        choices = page.get_by_label("between the levels of").get_by_role("option")
        await expect(choices).to_have_text(["mood", "cell"])


async def test_a_study_with_more_levels_than_a_contrast_takes_shows_them_side_by_side(
    served: Served, visit: Visits
) -> None:
    levels = [f"model {number}" for number in range(7)]
    await cells(served, "many", levels)
    async with visit(f"{served.url}/ui/#/studies/many") as page:
        await expect(page.get_by_role("heading", name="Groups side by side", exact=True)).to_be_visible()
        table = page.get_by_text(re.compile("All [0-9]+ rows: Contrasts$"))
        await expect(table).to_have_count(0)
        chosen = page.get_by_role("group", name="Levels to contrast, two to 6")
        for level in levels[:6]:
            await chosen.get_by_role("checkbox", name=level).check()
        await expect(chosen.get_by_role("checkbox", name=levels[6])).to_be_disabled()
        for level in levels[1:5]:
            await chosen.get_by_role("checkbox", name=level).uncheck()
        await table.click()
        figures = page.get_by_role("region", name="Contrasts: figures")
        await expect(figures).to_contain_text("mood: model 0 \N{MINUS SIGN} model 5")
        await expect(figures).not_to_contain_text("model 3")
        assert await faults_of(page) == []
        assert await fits(page)
        # Another factor begins anew.
        await page.get_by_label("between the levels of").select_option("cell")
        await expect(chosen.get_by_role("checkbox", name="c0")).not_to_be_checked()
        await expect(table).to_have_count(0)


async def test_a_judged_batch_is_reported_to_who_holds_a_key_and_to_nobody_else(
    tmp_path: Path, visit: Visits
) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=KEY)
    bearer = {"Authorization": f"Bearer {KEY}"}
    async with (
        running_server(settings) as served,
        httpx.AsyncClient(base_url=served.url, headers=bearer, trust_env=False, timeout=60) as caller,
    ):
        made = (await caller.post("/games", json={"count": 4, "seeds": {"from": 1}})).json()
        batch = made["batch_id"]
        async with caller.stream("GET", f"/batches/{batch}/events", params={"follow": True}) as lines:
            async for _ in lines.aiter_lines():
                pass  # to its end
        asks = {"batch": batch, "dimension": "following", "limit": 60}
        items = (await caller.get("/evaluations/items", params=asks)).json()["items"]
        for rater, scores in (("ottilie", (5, 4)), ("bob", (4, 2))):
            judgements = [
                {
                    "item_id": item["id"],
                    "intention": one["id"],
                    "think": scores[0],
                    "speak": scores[place % 2],
                }
                for place, item in enumerate(items)
                for one in item["asked"]
            ]
            wish = {"rater": {"name": rater, "kind": "human"}, "judgements": judgements}
            (await caller.post("/annotations", json=wish)).raise_for_status()
        url = f"{served.url}/ui/#/reports?batch={batch}"
        async with visit(url, faults=("401",)) as page:
            await expect(page.get_by_role("heading", name="This server asks for a key")).to_be_visible()
            assert "ottilie" not in await page.content()
            # A wrong key is told from none.
            for key in ("ik_" + "w" * 43, KEY):
                await page.get_by_role("button", name="Enter a key").last.click()
                await page.get_by_label("Key or token").fill(key)
                await page.get_by_role("button", name="Use it").click()
                if key != KEY:
                    wrong = page.get_by_role("heading", name="The server does not know this key")
                    await expect(wrong).to_be_visible()
            # The address was kept: the report is made at once, with what the raters found.
            report = (await caller.get("/reports", params={"batch": batch, "wait_s": 60})).json()
            tables = [one for one in report["tables"] if "agreement" in one["name"] and one["rows"]]
            assert tables
            title = tables[0]["title"]
            article = page.get_by_role("article", name=title, exact=True)
            await expect(article).to_be_visible(timeout=60_000)
            assert await faults_of(page) == []
            await page.get_by_role("button", name="Change the key").click()
            await page.get_by_role("button", name="Forget the present key").click()
            await expect(page.get_by_role("heading", name="This server asks for a key")).to_be_visible()
            await expect(article).to_have_count(0)


async def test_a_batch_that_a_model_alone_judged_shows_its_verdicts_in_report_and_game(
    tmp_path: Path, visit: Visits
) -> None:
    async with faking(FakeOptions(brain=BRAINS["sensible"](0))) as fake:
        settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", models=endpoints(fake))
        async with running_server(settings) as served:
            batch, (game, *_) = await played(served, "scripted")
            async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
                wish = {"dimension": "following", "judge": {"kind": "model", "model": "fake"}, "game": game}
                judging = (await caller.post("/evaluations", json=wish)).json()["evaluation_id"]
                async with asyncio.timeout(200):
                    while (await caller.get(f"/evaluations/{judging}")).json()["status"] == "judging":  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
            report = await asked(served, batch=batch)
            (row, *_) = next(one for one in report["tables"] if one["name"] == "judges")["rows"]
            good = next(one for one in row["figures"].values() if one["value"] is not None)
            async with visit(f"{served.url}/ui/#/reports?batch={batch}") as page:
                # Nobody has to open anything to see them.
                table = page.get_by_role("region", name="Judges that are not people: figures")
                await expect(table.get_by_role("row", name="judge fake")).to_contain_text(
                    f"{100 * good['value']:.1f}", timeout=60_000
                )
                await expect(page.get_by_text("no judgements of people were given").first).to_be_visible()
            async with visit(f"{served.url}/ui/#/games/{game}?at=20") as page:
                minds = page.locator(".entry", has=page.locator(".judgements"))
                await minds.first.locator("summary").click()
                await expect(minds.first.locator(".judgements li").first).to_contain_text("judge fake")


@pytest.mark.parametrize(
    ("size", "viewport", "scheme"),
    [("phone", PHONE, "light"), ("screen", SCREEN, "dark"), ("wall", WALL, "light")],
)
async def test_axe_finds_nothing_on_reports_and_studies(
    served: Served, visit: Visits, size: str, viewport: dict[str, int], scheme: str
) -> None:
    calm, games = await played(served, "scripted")
    wild, _ = await played(served, "random")
    await invalidate(served, games[0], "the power failed")
    query = f"batch={calm},{wild}&group_by=mood&contrast=mood=scripted,random"
    places = (
        ("reports", "#/reports", "Make the report"),
        ("report", f"#/reports?{query}", "Results of games"),
        ("studies", "#/studies", "8 of 8 games in 2 cells"),
        (
            "study",
            f"#/studies/{quote(STUDY, safe='')}",
            "The whole report",
        ),
        ("no-study", "#/studies/none", "There is no such study here"),
        ("no-report", "#/reports?batch=b_none", "There is nothing here"),
    )
    SCREENS.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    async with visit(f"{served.url}/ui/", viewport=viewport, color_scheme=scheme, faults=("404",)) as page:
        for name, place, words in places:
            await page.goto("about:blank")
            await page.goto(f"{served.url}/ui/{place}")
            await expect(page.get_by_text(words).first).to_be_attached(timeout=60_000)
            await expect(page.get_by_text("Loading")).to_have_count(0, timeout=60_000)
            await page.screenshot(path=SCREENS / f"{name}-{size}-{scheme}.png")
            for part in ("Contrasts", "Results of games") if name == "report" else ():
                shot = page.get_by_role("article", name=part, exact=True)
                await shot.screenshot(
                    path=SCREENS / f"{name}-{part.lower().replace(' ', '-')}-{size}-{scheme}.png"
                )
            found += [f"{name}: {fault}" for fault in await faults_of(page)]
            found += [] if await fits(page) else [f"{name}: wider than the window"]
    assert found == []
