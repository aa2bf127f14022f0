"""What people do on the pages: find a game, watch it, look through others' eyes, read it, compare it."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from interintent_client import Server
from playwright.async_api import Page, expect

from scripts.web import WEB, install
from tests.app.evaluations.test_ratings_api import paired
from tests.app.play.meeting.seekers import seek
from tests.app.real_server import Served
from tests.web.conftest import PHONE, SCREEN, WALL, Visits

pytestmark = pytest.mark.long

SCREENS = WEB.parent / "build" / "screens"
"""Screenshots, kept as output of the tests: to be looked at."""


async def played(served: Served, **settings: Any) -> str:
    """The id of a finished game of scripted seats, equal in every run."""
    async with Server(served.url) as server:
        batch = await server.create_games(seeds={"from": 1}, **settings)
        await batch.done()
        return batch.games[0].id


async def faults_of(page: Page) -> list[str]:
    """What axe finds on the page as it is."""
    await asyncio.to_thread(install)
    await page.evaluate((WEB / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in found["violations"]
        for node in fault["nodes"]
    ]


WIDEST = """
    const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; node = nodes.nextNode(); ) node.data = node.data.replace(/[a-z0-9]{20}/g, "m".repeat(20));
"""
"""Random ids become the widest ones there can be: else the letters of the day decide what fits."""


async def fits(page: Page) -> bool:
    """Whether nothing is cut off at the side, whatever the ids are."""
    measured = "document.documentElement.scrollWidth <= window.innerWidth"
    return bool(await page.evaluate(f"() => {{ {WIDEST} return {measured}; }}"))


PLACES: Sequence[tuple[str, str, str]] = (
    ("watch", "#/", "Games"),
    ("start", "#/games/{game}?at=1", "The table"),
    ("talk", "#/games/{game}?at=150", "The table"),
    ("public", "#/games/{game}?at=100&eyes=public", "The table"),
    ("seat", "#/games/{game}?at=90&eyes=seat:3", "The table"),
    ("end", "#/games/{game}", "The table"),
    ("text", "#/games/{game}/text", "The deal"),
    ("batches", "#/batches", "Batches"),
    ("batch", "#/batches/{batch}", "Winners"),
    ("lobby", "#/lobby", "Take a seat"),
    ("ratings", "#/ratings", "What is counted"),
    ("begin-to-judge", "#/annotate", "Choose one"),
    ("begin-to-guess", "#/guess", "Choose one"),
    ("compare", "#/compare?a={game}&b={other}", "First difference"),
    ("judge", "#/annotate?rater=ann&batch={batch}", "The record"),
    ("guess", "#/guess?rater=ann&of={batch}", "The record"),
    ("play", "#/play", "Names, if you like"),
    ("seat-of-mine", "{link}", "What is asked"),
    ("nowhere", "#/nowhere", "There is no such page"),
    ("nothing", "#/games/g_nothing", "There is nothing here"),
    ("to-compare", "#/compare?a={game}", "Another"),
    ("no-seat", "#/play/{game}", "You hold no seat of this game here"),
    ("no-link", "#/claim", "A link is needed"),
)


@pytest.mark.parametrize(
    ("size", "viewport", "scheme"),
    [("phone", PHONE, "light"), ("screen", SCREEN, "dark"), ("wall", WALL, "light")],
)
async def test_axe_finds_nothing_on_any_page(
    served: Served, visit: Visits, size: str, viewport: dict[str, int], scheme: str
) -> None:
    game = await played(served, count=1)
    other = await played(served, count=1, seats=[{"agent": "random"}])
    async with Server(served.url) as server:
        batch = (await server.game(game).view())["batch_id"]
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
        wish = {"seats": [{"agent": "remote"}, *[{"agent": "scripted"}] * 4]}
        mine = (await caller.post("/games", json=wish)).json()["games"][0]["game_id"]
        code = (await caller.post(f"/games/{mine}/seats/1/claim-code")).json()["code"]
        await seek(caller, "fox", wait_s=3600)
        await caller.post("/games/open", json={"seats": [{"agent": "open"}, {}, {}, {}, {}], "wait_s": 3600})
    await paired(served.services, [("key:k_a", "owl"), ("key:k_b", "fox")], 6)
    fields = {"game": game, "other": other, "batch": batch, "link": f"#/claim/{code}"}
    SCREENS.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    async with visit(f"{served.url}/ui/", viewport=viewport, color_scheme=scheme, faults=("404",)) as page:
        for name, place, words in PLACES:
            # Another document: a change of the hash alone would show the page before for a moment.
            await page.goto("about:blank")
            await page.goto(f"{served.url}/ui/{place.format(**fields)}")
            await expect(page.get_by_text(words).or_(page.get_by_label(words)).first).to_be_attached()
            for summary in await page.locator(".entry[aria-current] summary").all():
                await summary.click()
            await page.screenshot(path=SCREENS / f"{name}-{size}-{scheme}.png")
            found += [f"{name}: {fault}" for fault in await faults_of(page)]
            # 320 pixels: a desktop's page at 400 %, which WCAG asks for.
            for width in (viewport["width"], 320):
                await page.set_viewport_size({**viewport, "width": width})
                found += [] if await fits(page) else [f"{name}: wider than the window of {width}"]
            await page.set_viewport_size(viewport)
    assert not found, "\n".join(found)


async def test_words_are_found_among_all_games_and_stand_in_the_address(
    served: Served, visit: Visits
) -> None:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as caller:
        wish = {"drive": "manual", "labels": {"title": "The first one"}}
        first = (await caller.post("/games", json=wish)).json()
        for _ in range(3):
            wish = {"count": 100, "drive": "manual", "labels": {"title": "Many"}}
            await caller.post("/games", json=wish)
        async with visit(f"{served.url}/ui/") as page:
            count = page.get_by_role("status").filter(has_text="game")
            await expect(count).to_have_text("more than 200 games")
            await page.get_by_role("searchbox").fill("the FIRST one")
            # It lies beyond the page that was loaded.
            await expect(count).to_have_text("1 game")
            link = page.get_by_role("table", name="Games").get_by_role("row").nth(1).get_by_role("link").first
            await expect(link).to_have_attribute("href", f"#/games/{first['games'][0]['game_id']}")
            await page.reload()
            await expect(page.get_by_role("searchbox")).to_have_value("the FIRST one")
            await expect(count).to_have_text("1 game")
            await page.get_by_role("searchbox").fill("nothing like that")
            await expect(page.get_by_role("heading", name="No game fits these words")).to_be_visible()
            await page.get_by_role("navigation").get_by_role("link", name="Watch").click()
            await expect(page.get_by_role("searchbox")).to_have_value("")
            await expect(count).to_have_text("more than 200 games")


async def test_a_list_says_that_the_server_is_away_and_comes_back_by_itself(
    served: Served, visit: Visits
) -> None:
    game = await played(served)
    async with visit(f"{served.url}/ui/", faults=("Failed to load resource",)) as page:
        row = page.get_by_role("link", name=game.removeprefix("g_")[:7])
        await expect(row).to_be_visible()
        await page.route("**/games?*", lambda route: route.abort())
        # What was there stays.
        away = page.get_by_role("heading", name="The server cannot be reached")
        await expect(away).to_be_visible(timeout=120_000)
        await expect(row).to_be_visible()
        await page.unroute("**/games?*")
        await expect(away).to_have_count(0, timeout=120_000)
        await expect(row).to_be_visible()


async def test_a_game_is_gone_through_by_keyboard_alone(served: Served, visit: Visits) -> None:
    game = await played(served)
    async with visit(f"{served.url}/ui/") as page:
        await page.get_by_role("link", name=game.removeprefix("g_")[:7]).first.focus()
        await page.keyboard.press("Enter")
        slider = page.get_by_role("slider", name="Moment of the game")
        await expect(slider).to_have_value("258")
        # The focus follows to the new page, so that a screen reader begins there.
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("ArrowLeft")
        await expect(slider).to_have_value("257")
        await page.keyboard.press("Shift+ArrowLeft")
        await expect(page.get_by_role("heading", name="The assassination")).to_be_visible()
        await slider.focus()
        await page.keyboard.press("Home")
        await expect(slider).to_have_value("1")
        await page.locator("main").focus()
        await page.keyboard.press("ArrowRight")
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("heading", name="Quest 1, proposal 1")).to_be_visible()
        await page.keyboard.press(" ")
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        await page.keyboard.press(" ")
        await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        # The skip link is the first stop, and leads to the page.
        await page.reload()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()


async def test_who_goes_on_as_the_address_is_told_a_moment_is_not_taken_back_to_it(
    served: Served, visit: Visits
) -> None:
    game = await played(served)
    async with visit(f"{served.url}/ui/#/games/{game}?at=40") as page:
        slider = page.get_by_role("slider", name="Moment of the game")
        await expect(slider).to_have_value("40")
        await page.evaluate(
            # To the end, as soon as the address names a moment and before the page has looked at it.
            """() => {
                const slider = document.querySelector("input[type=range]");
                const replace = history.replaceState.bind(history);
                history.replaceState = (...words) => {
                    history.replaceState = replace;
                    replace(...words);
                    queueMicrotask(() => {
                        slider.value = slider.max;
                        slider.dispatchEvent(new Event("input", { bubbles: true }));
                    });
                };
            }"""
        )
        await slider.press("ArrowRight")
        await expect(slider).to_have_value("258")
        # The address of the end names no moment: it has been told again.
        await expect(page).to_have_url(f"{served.url}/ui/#/games/{game}")
        await expect(slider).to_have_value("258")
        # A link to another moment is followed as before, also to the one that was told.
        for moment in ("41", "7", "41"):
            await page.evaluate("to => { location.hash = to }", f"#/games/{game}?at={moment}")
            await expect(slider).to_have_value(moment)


async def test_on_a_phone_the_pages_are_behind_a_menu(served: Served, visit: Visits) -> None:
    async with visit(f"{served.url}/ui/", viewport=PHONE) as page:
        pages = page.get_by_role("navigation", name="Pages")
        await expect(pages.get_by_role("link")).to_have_count(0)
        await pages.get_by_role("button", name="Menu").press("Enter")
        await expect(pages.get_by_role("link", name="Watch")).to_have_attribute("aria-current", "page")
        await expect(pages.get_by_role("link", name="Side by side")).to_be_visible()
        SCREENS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SCREENS / "menu-phone-light.png")
        assert await faults_of(page) == []
        await page.keyboard.press("Escape")
        await expect(pages.get_by_role("link")).to_have_count(0)
        await pages.get_by_role("button", name="Menu").click()
        await expect(pages.get_by_role("link", name="Guides")).to_have_attribute("href", "../docs/index.html")
        await pages.get_by_role("link", name="Reports").click()
        await expect(page.get_by_role("heading", name="Reports", level=1)).to_be_visible()
        await expect(pages.get_by_role("link")).to_have_count(0)


async def test_a_screen_reader_is_told_the_table_and_the_talk(served: Served, visit: Visits) -> None:
    game = await played(served)
    async with visit(f"{served.url}/ui/#/games/{game}?at=60") as page:
        table = page.get_by_role("region", name="The table")
        await expect(table).to_match_aria_snapshot(
            """
            - region "The table":
              - list "Quests":
                - 'listitem "Quest 1: 2 seats, now"'
                - 'listitem "Quest 2: 3 seats, to come"'
              - paragraph: The team is approved
              - paragraph: Quest 1 · proposal 1 of 2
              - list "Seats":
                - listitem:
                  - button "Seat 1 Player 1 Evil Assassin leads, on the team, voted for"
                - listitem:
                  - button "Seat 2 Player 2 Loyal Servant on the team, voted for"
                - listitem:
                  - button "Seat 3 Player 3 Loyal Merlin voted for"
                - listitem:
                  - button "Seat 4 Player 4 Loyal Percival voted against"
            """
        )
        await expect(page.get_by_role("region", name="What is said and done")).to_match_aria_snapshot(
            """
            - region "What is said and done":
              - list "Earlier proposals":
                - listitem:
                  - button "The deal"
              - region "Quest 1, proposal 1":
                - heading "Quest 1, proposal 1" [level=2]
                - list:
                  - listitem:
                    - paragraph: Player 1 proposes Player 1 and Player 2.
                  - listitem:
                    - text: Player 1
                    - paragraph: /For quest 1 I propose Player 1 and Player 2/
                    - group: What Player 1 had in mind
            """
        )
        await expect(page.get_by_role("group", name="Replay")).to_match_aria_snapshot(
            """
            - group "Replay":
              - button "The event before"
              - button "Play"
              - button "The next event"
              - slider "Moment of the game"
              - combobox "Speed"
              - button "Copy a link to this moment"
            """
        )


async def test_every_pair_of_eyes_sees_its_own_and_no_more(served: Served, visit: Visits) -> None:
    game = await played(served)
    async with visit(f"{served.url}/ui/#/games/{game}?at=150") as page:
        eyes = page.get_by_label("Seen by")
        await expect(page.get_by_role("heading", name="Who takes whom for what")).to_be_visible()
        await eyes.select_option("seat:3")
        await expect(page.get_by_role("button", name=re.compile("Player 3 Loyal Merlin"))).to_be_visible()
        await expect(page.get_by_role("button", name=re.compile("Player 1 Evil Assassin"))).to_have_count(0)
        await eyes.select_option("public")
        await expect(page.get_by_text("had in mind")).to_have_count(0)
        for region in ("The table", "What is said and done"):
            assert "Merlin" not in await page.get_by_role("region", name=region).inner_text()
        # The same moment, counted in the public's own events, is in the address.
        await expect(page).to_have_url(re.compile(r"at=\d+.*eyes=public"))
        public = page.url
    async with visit(public) as again:
        await expect(again.get_by_label("Seen by")).to_have_value("public")
        await expect(again.get_by_role("heading", name="Quest 3, proposal 1")).to_be_visible()


async def test_what_raters_found_stands_beside_what_was_intended(served: Served, visit: Visits) -> None:
    game = await played(served)
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as caller:
        asks = {"game": game, "dimension": "following", "limit": 200}
        items = (await caller.get("/evaluations/items", params=asks)).json()["items"]
        final = [item for item in items if item["stage"] == "final" and item["asked"]]
        for rater, item, score in (("ann", final[0], 4), ("bob", final[0], 2)):
            judged = {
                "item_id": item["id"],
                "intention": item["asked"][0]["id"],
                "think": 5,
                "speak": score,
                "comment": "<b>so</b>",
            }
            wish = {"rater": {"name": rater, "kind": "human"}, "judgements": [judged]}
            answer = await caller.post("/annotations", json=wish)
            assert answer.is_success, answer.text
    # The judged speech is the first one.
    async with visit(f"{served.url}/ui/#/games/{game}?at=20") as page:
        minds = page.locator(".entry", has=page.locator(".judgements"))
        await expect(minds).to_have_count(1)
        await minds.locator("summary").click()
        found = minds.locator(".judgements li")
        await expect(found).to_have_text(
            [
                re.compile(r"^ followed \(thinking 5, speech 4 of 5\) ann: <b>so</b>$"),
                re.compile(r"^ not followed \(thinking 5, speech 2 of 5\) bob: <b>so</b>$"),
            ]
        )


def hostile() -> list[str]:
    """Speeches that a page must show as text."""
    return [
        "<img src=x onerror=alert(1)><script>document.title='owned'</script>",
        "\N{CLOWN FACE}" * 4000,
        "\u202eright to left\u202c and back \u2067\u05d0\u05d1\u05d2",
        "line\n" * 799,
        "[link](javascript:alert(1)) &lt;b&gt; ${7*7} {{7*7}}",
    ]


async def test_what_a_player_says_is_text_whatever_it_is(served: Served, visit: Visits) -> None:
    words = hostile()
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as caller:
        wish = {
            "seats": [{"agent": "remote"}] * 5,
            "names": {"1": "<img src=x onerror=alert(1)>", "2": "W" * 40, "3": "\u05e9\u05dc\u05d5\u05dd"},
            "labels": {"title": "<img src=x>\n" * 20, "study": "<script>1</script>", "cell": "W" * 64},
        }
        created = (await caller.post("/games", json=wish)).json()
        made = created["games"][0]
        game = made["game_id"]

        async def play(number: int, token: str) -> None:
            bearer = {"Authorization": f"Bearer {token}"}
            while True:
                asked = await caller.get(f"/games/{game}/requests?wait_s=20", headers=bearer)
                if asked.json()["status"] == "finished":
                    return
                for request in asked.json()["requests"]:
                    action = dict(request["default"])
                    if request["kind"] in ("speak", "propose_team", "reconsider"):
                        action["text"] = words[number - 1]
                    await caller.post(
                        f"/games/{game}/requests/{request['request_id']}/action",
                        content=orjson.dumps({"action": action}),
                        headers=bearer,
                    )

        playing = (play(seat["seat"], seat["token"]) for seat in made["seats"])
        await asyncio.wait_for(asyncio.gather(*playing), 100)
    async with visit(f"{served.url}/ui/#/games/{game}/text?eyes=public", viewport=PHONE) as page:
        for text in words:
            await expect(page.get_by_text(text.strip()[:60]).first).to_be_attached()
        shown = await page.locator(".line .speech").all_text_contents()
        assert set(words) <= set(shown)
        assert await page.title() != "owned"
        assert await page.locator("main img, main script").count() == 0
        assert await fits(page)
        await page.goto(f"{served.url}/ui/#/games/{game}?eyes=public")
        await expect(page.get_by_role("region", name="The table")).to_be_visible()
        feed = page.get_by_role("region", name="What is said and done")
        await page.get_by_role("button", name="Quest 1, proposal 1").click()
        await expect(feed.get_by_text("Player 4").first).to_be_visible()
        # A name without a break is broken where it would be cut off.
        assert await feed.evaluate("it => it.scrollWidth <= it.clientWidth")
        assert await fits(page)
        assert await page.locator("main img, main script").count() == 0
        assert await faults_of(page) == []
        for place in ("", "batches", f"batches/{created['batch_id']}", "studies"):
            await page.goto(f"{served.url}/ui/#/{place}")
            await expect(page.locator("main h1")).to_be_visible()
            await expect(page.get_by_text("Loading")).to_have_count(0)
            assert await page.locator("main img, main script").count() == 0
            assert await fits(page), place


async def test_a_name_from_right_to_left_turns_nothing_around_it(served: Served, visit: Visits) -> None:
    name = "\u05e9\u05dc\u05d5\u05dd"
    game = await played(served, names={"1": name})
    async with visit(f"{served.url}/ui/#/games/{game}?at=20") as page:
        proposes = page.get_by_text(re.compile(f"^\u2068{name}\u2069 proposes "))
        await expect(proposes).to_be_visible()
        await expect(proposes).to_have_css("direction", "ltr")
        await page.goto(f"{served.url}/ui/#/games/{game}/text")
        await expect(proposes.first).to_have_css("direction", "ltr")


async def test_a_site_opens_from_its_folder(served: Served, visit: Visits, tmp_path: Path) -> None:
    from app.files.site import LoggedGame, SiteWriter

    game = await played(served)
    stored = await served.services.reader.events(game)
    for eyes in ("public", "full"):
        site = SiteWriter(tmp_path / eyes, "A folder of games", eyes)  # type: ignore[arg-type]
        assert site.add(LoggedGame(game, list(stored))) is None
        site.finish()
        async with visit((tmp_path / eyes / "index.html").as_uri()) as page:
            assert await faults_of(page) == []
            await page.get_by_role("link", name=game.removeprefix("g_")[:7]).click()
            await expect(page.get_by_role("region", name="The table")).to_be_visible()
            await expect(page.get_by_role("slider")).to_have_value(
                "258" if eyes == "full" else re.compile("^[0-9]{2}$")
            )
            await page.keyboard.press("ArrowLeft")
            await expect(page).to_have_url(re.compile(r"#/\?at="))
            assert await faults_of(page) == []
            await page.get_by_role("link", name="Read as text").click()
            await expect(page.get_by_role("heading", name="Quest 1, proposal 1")).to_be_visible()
            await expect(page.get_by_role("heading", name="Thinks")).to_have_count(
                0 if eyes == "public" else 40
            )


async def test_the_picture_of_the_readme_shows_a_game_as_it_looks_now(served: Served, visit: Visits) -> None:
    """Writes the picture to `build/screens`; `docs/pictures/table.png` is a copy that was looked at."""
    game = await played(served)
    async with visit(f"{served.url}/ui/#/games/{game}?at=150", color_scheme="dark") as page:
        await expect(page.get_by_text("Quest 3 · proposal 1 of 2")).to_be_visible()
        await expect(page.get_by_role("heading", name="Who takes whom for what")).to_be_visible()
        # The id of a game is drawn by chance.
        await page.locator("h1 abbr").evaluate("element => { element.textContent = 'of seed 1'; }")
        SCREENS.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=SCREENS / "readme.png", animations="disabled")
    kept = (WEB.parent / "docs" / "pictures" / "table.png").read_bytes()
    made = (SCREENS / "readme.png").read_bytes()
    # Width and height, where PNG has them; fonts and drawing differ from machine to machine.
    assert kept[16:24] == made[16:24]
    assert "docs/pictures/table.png" in (WEB.parent / "README.md").read_text()
