"""People take seats in their browsers, and play to the end."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from agents.table import MemoryJournal, play
from app.edge.auth import new_key
from app.seats.seating import seat_agents, seated
from engine.actions import (
    Action,
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.profile import make_profile
from engine.rules import create, legal
from engine.terms import Kind, side_of
from engine.view import Observation
from tests.app.edge.test_keys import make_key, store_of
from tests.app.real_server import Served, local_settings, running_server
from tests.client.cutting import cutting
from tests.ports import steady_port
from tests.web.conftest import DESK, PHONE, Visits
from tests.web.test_pages import faults_of

pytestmark = pytest.mark.long

SEAT = 2
SCRIPTS = [{"agent": "scripted"}] * 5


class Plain:
    """Plays as the person of these tests does: the first seats, yes, the worst card, not a word."""

    async def act(self, observation: Observation) -> SeatAction:
        request, table, hand = observation.request, observation.table, observation.hand
        action: Action
        match request.kind:
            case Kind.PROPOSE_TEAM:
                assert request.team_size is not None
                action = ProposeTeam(tuple(range(1, request.team_size + 1)))
            case Kind.RECONSIDER:
                action = Reconsider(table.team)
            case Kind.SPEAK:
                action = Speak("")
            case Kind.VOTE:
                action = CastVote(True)
            case Kind.CARD:
                found = legal(table, hand)
                assert found is not None
                action = PlayCard(PlayCard(False) not in found)
            case Kind.SUMMARISE:
                action = Summarise(())
            case _:
                found = legal(table, hand)
                assert found is not None
                shots = [one for one in found if isinstance(one, Assassinate) and one.target is not None]
                action = min(shots, key=lambda one: one.target or 0)
        return action


async def seed_that_wins() -> int:
    """A seed with which the person of these tests wins against scripts."""
    rules = make_profile("interintent", 5)
    for seed in range(1, 60):
        agents = {**seat_agents(SCRIPTS, str(seed))}
        agents[SEAT] = Plain()
        log = create(rules, seed, agents=seated(SCRIPTS, str(seed), rules))
        state = await play(log, agents, MemoryJournal())
        assert state.roles is not None
        if state.table.winner == side_of(state.roles[SEAT - 1]):
            return seed
    raise AssertionError("no seed wins")


async def new_game(served: Served, **wish: Any) -> str:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        answer = await client.post("/games", json=wish)
        assert answer.is_success, answer.text
        game: str = answer.json()["games"][0]["game_id"]
        return game


async def link_to(served: Served, game: str, seat: int) -> str:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        answer = await client.post(f"/games/{game}/seats/{seat}/claim-code")
        return f"{served.url}{answer.json()['link']}"


async def plays_on(page: Page) -> str:
    """Answers everything as ``Plain`` does; returns what the table says at the end."""
    asked, over = page.locator(".asked"), page.get_by_text("See the whole game")
    while True:
        await expect(asked.or_(over).first).to_be_visible(timeout=120_000)
        if await over.count():
            return await page.locator(".standing").inner_text()
        section = await asked.element_handle(timeout=120_000)
        if section is None:
            continue
        heading = await (await section.query_selector("h2")).inner_text()  # type: ignore[union-attr]
        boxes = await section.query_selector_all(":scope > fieldset input")
        if heading == "Choose a team":
            legend = await (await section.query_selector("legend")).inner_text()  # type: ignore[union-attr]
            for box in boxes[: int(legend.split()[0])]:
                await box.check()
        elif heading == "Name Merlin":
            await boxes[0].check()
        buttons = {await one.inner_text(): one for one in await section.query_selector_all("button")}
        for words in ("Say nothing", "Approve", "Fail", "Success", "Shoot", "Keep these notes"):
            if words in buttons:
                await buttons[words].click()
                break
        else:
            await buttons["Propose this team"].click()
        await page.wait_for_function("section => !section.isConnected", arg=section, timeout=120_000)


async def test_a_person_takes_a_seat_by_a_link_and_wins_against_scripts(
    served: Served, visit: Visits
) -> None:
    seats = [{"agent": "remote" if seat == SEAT else "scripted"} for seat in range(1, 6)]
    seed = await seed_that_wins()
    game = await new_game(
        served,
        seats=seats,
        seeds={"from": seed},
        guessable_seeds=True,
        deadlines_s=dict.fromkeys(Kind, 600),
    )
    link = await link_to(served, game, SEAT)
    async with visit(link, viewport=DESK) as page:
        await expect(page.get_by_role("heading", name=f"Seat {SEAT}")).to_be_visible()
        # Neither the code nor the token stays where it could be read or sent.
        code = link.rpartition("/")[2]
        assert code not in page.url
        await expect(page.get_by_role("heading", name="You are")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", name="You are")).to_be_visible()
        assert "wins" in await plays_on(page)
    async with httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=60) as client:
        view = (await client.get(f"/games/{game}")).json()
    assert view["winner"] == side_of(view["roles"][str(SEAT)])
    assert view["defaults"][SEAT - 1]["defaulted"] == {}, view["defaults"]
    # The link is used up.
    async with visit(link, faults=("410",)) as page:
        await expect(page.get_by_role("heading", name="This link is no longer good")).to_be_visible()


async def test_five_people_at_phone_size_play_a_game(served: Served, visit: Visits) -> None:
    async with visit(f"{served.url}/ui/#/play", viewport=PHONE) as host:
        await host.get_by_label("People, you included").select_option("5")
        await host.get_by_label("Your name").fill("Ada")
        await host.get_by_label("Name of person 3").fill("Grace <b>H</b>")
        await host.get_by_role("button", name="Make the table").click()
        await expect(host.get_by_role("heading", name="A link for each friend")).to_be_visible()
        for one in await host.get_by_role("textbox").all():
            await expect(one).to_have_value(re.compile("#/claim/"))
        links = [await one.input_value() for one in await host.get_by_role("textbox").element_handles()]
        assert len(links) == 4
        invited = await host.locator(".invitations label > span").all_inner_texts()
        assert sorted(one.partition(", ")[2] for one in invited) == ["", "", "", "Grace <b>H</b>"]
        await host.get_by_role("link", name="Take my seat").click()
        await expect(host.get_by_role("heading", name=", Ada")).to_be_visible()
        await expect(
            host.get_by_role("region", name="The table").get_by_text("Grace <b>H</b>", exact=True)
        ).to_be_visible()

        async def friend(link: str) -> str:
            async with visit(link, viewport=PHONE) as page:
                assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
                return await plays_on(page)

        said = await asyncio.gather(plays_on(host), *map(friend, links))
        assert len(set(said)) == 1
        assert "wins" in said[0]


async def same_game(served: Served) -> str:
    """A game whose deal is always the same, in which a person at seat 1 is asked first, without haste."""
    return await new_game(
        served,
        seats=[{"agent": "remote" if seat == 1 else "scripted"} for seat in range(1, 6)],
        seeds={"from": 1},
        guessable_seeds=True,
        deadlines_s=dict.fromkeys(Kind, 3600),
    )


async def test_a_screen_reader_is_told_what_is_asked_and_what_the_seat_knows(
    served: Served, visit: Visits
) -> None:
    game = await same_game(served)
    async with visit(await link_to(served, game, 1)) as page:
        asked = page.get_by_role("region", name="What is asked")
        await expect(asked).to_match_aria_snapshot(
            """
            - region "What is asked":
              - heading "Choose a team" [level=2]
              - timer "Time left": /left/
              - group "2 seats, 0 chosen":
                - list:
                  - listitem:
                    - checkbox "Player 1"
                  - listitem:
                    - checkbox "Player 2"
              - textbox "What you say about it (if you like)"
              - button "Propose this team" [disabled]
              - group: Record what I think (only you and the researcher see it)
            """
        )
        await expect(asked.get_by_role("heading")).to_be_focused()
        await expect(page.locator("main")).to_match_aria_snapshot(
            """
            - main "Your seat":
              - heading "Seat 1, Player 1" [level=1]
              - region "The table":
                - list "Seats":
                  - listitem:
                    - button "Seat 1 Player 1 Evil Assassin leads" [disabled] [pressed]
                  - listitem:
                    - button "Seat 2 Player 2" [disabled]
              - region "What is asked"
              - region "What I know":
                - heading "You are Evil Assassin" [level=2]
                - paragraph: "With you against the table: Player 5."
              - textbox "My notes (they stay in this tab)"
              - group: How Avalon is played
              - log "What was said and done":
                - list:
                  - listitem: Player 1 leads.
            """
        )


async def test_who_is_too_late_is_told_that_the_default_was_played(served: Served, visit: Visits) -> None:
    seats = [{"agent": "remote" if seat == 1 else "scripted"} for seat in range(1, 6)]
    game = await new_game(served, seats=seats, deadlines_s=dict.fromkeys(Kind, 5))
    async with visit(await link_to(served, game, 1), viewport=PHONE) as page:
        told = page.get_by_role("alert").filter(has_text="The default was played for you.")
        await expect(told).to_be_visible(timeout=120_000)
        await expect(told).to_contain_text(re.compile("At “[A-Z].+” no answer of yours came in time"))
        assert await faults_of(page) == []


async def test_a_friend_without_a_key_plays_and_sees_the_game_after_it(tmp_path: Path, visit: Visits) -> None:
    key = "ik_" + "k" * 43
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=key)
    async with (
        running_server(settings) as served,
        visit(f"{served.url}/ui/#/play", faults=("401",)) as host,
    ):
        await host.get_by_label("People, you included").select_option("2")
        await host.get_by_role("button", name="Make the table").click()
        await expect(host.get_by_role("heading", name="This server asks for a key")).to_be_visible()
        await expect(host.get_by_text("Enter the key that you were given.")).to_be_visible()
        await host.get_by_role("button", name="Enter a key").last.click()
        await host.get_by_label("Key or token").fill(key)
        await host.get_by_role("button", name="Use it").click()
        await host.get_by_role("button", name="Make the table").click()
        field = host.get_by_role("textbox", name="Seat")
        await expect(field).to_have_value(re.compile("#/claim/"))
        # The key went with the page, the seat and the links have stayed.
        await host.reload()
        link = await field.input_value()
        await host.get_by_role("link", name="Take my seat").click()
        async with visit(link, viewport=PHONE, faults=("401",)) as friend:
            said = await asyncio.gather(plays_on(host), plays_on(friend))
            assert said[0] == said[1]
            for page in (host, friend):
                await page.get_by_role("link", name="See the whole game").click()
                await expect(page.get_by_role("slider", name="Moment of the game")).to_be_visible()
                await expect(page.locator(".standing")).to_contain_text("wins")
                await expect(page.get_by_label("Seen by").locator("option")).to_have_count(2)
                await page.get_by_role("link", name="Read as text").click()
                await expect(page.get_by_role("heading", name="Quest 1, proposal 1")).to_be_visible()


async def test_links_to_a_table_stay_with_its_host_and_say_what_to_do_when_they_are_no_good(
    served: Served, visit: Visits
) -> None:
    async with visit(f"{served.url}/ui/#/play", viewport=PHONE) as host:
        # As over plain http from another machine, where browsers offer pages no clipboard.
        await host.context.add_init_script(
            "Object.defineProperty(navigator, 'clipboard', {value: undefined})"
        )
        await host.reload()
        await host.get_by_label("People, you included").select_option("2")
        await host.get_by_role("button", name="Make the table").click()
        field = host.get_by_role("textbox", name="Seat")
        await expect(field).to_have_value(re.compile("#/claim/"))
        link = await field.input_value()
        assert await faults_of(host) == []
        await host.get_by_role("button", name="Copy the link").click()
        await expect(host.get_by_role("button", name="Copy the link")).to_have_text("Copied")
        await host.reload()
        await expect(field).to_have_value(link)
        # The host sits down, and comes back for a new link: the old one is good no more.
        await host.get_by_role("link", name="Take my seat").click()
        await host.get_by_role("link", name="Links for your friends").click()
        await expect(field).to_have_value(link)
        await host.get_by_role("button", name="New link").click()
        await expect(field).not_to_have_value(link)
        newer = await field.input_value()
        game = host.url.split("/")[-2]
    spent = "This link is no longer good"
    for place in (link, f"{served.url}/ui/#/claim/nonsense"):
        async with visit(place, viewport=PHONE, faults=("404",)) as page:
            await expect(page.get_by_role("heading", name=spent, level=1)).to_be_visible()
            await expect(page.get_by_text("No seat has this link.")).to_be_visible()
            await expect(page.locator("main").get_by_role("link", name="Play")).to_be_visible()
            assert await faults_of(page) == []
            await page.reload()
            await expect(page.get_by_role("heading", name="A link is needed", level=1)).to_be_visible()
    async with visit(f"{served.url}/livez", viewport=PHONE, faults=("404", "410", "ERR_")) as page:
        # Nothing is lost when the server cannot be reached at first.
        await page.route("**/claims", lambda route: route.abort())
        # A messenger has added something to the address.
        await page.goto(newer.replace("/ui/#", "/ui/?fbclid=x#"))
        await expect(page.get_by_role("heading", name="The server cannot be reached")).to_be_visible()
        await page.unroute("**/claims")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("heading", name="You are")).to_be_visible()
        # The same link in another tab, and the same seat in one more.
        async with visit(newer, faults=("410",)) as other:
            await expect(other.get_by_role("heading", name=spent, level=1)).to_be_visible()
            await expect(other.get_by_text("your seat is in that tab")).to_be_visible()
            await other.goto(f"{served.url}/ui/#/play/{game}")
            await expect(other.get_by_role("heading", name="You hold no seat of this game")).to_be_visible()
            assert await faults_of(other) == []
        async with page.expect_popup() as opened:
            await page.evaluate("window.open(location.href)")
        twin = await opened.value
        await expect(twin.get_by_role("heading", name="You are")).to_be_visible()
        await expect(page.get_by_role("heading", name="This seat is played elsewhere now")).to_be_visible()
        await page.get_by_role("button", name="Play here instead").click()
        await expect(page.get_by_role("heading", name="You are")).to_be_visible()
        await expect(twin.get_by_role("heading", name="This seat is played elsewhere now")).to_be_visible()


async def test_a_host_with_a_key_is_told_that_a_used_link_cannot_be_made_anew(
    tmp_path: Path, visit: Visits
) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", api_key=new_key())
    async with running_server(settings) as served:
        _, key = await make_key(store_of(served), "games:create", "games:read", "tokens:mint")
        async with visit(f"{served.url}/ui/#/play", faults=("401", "403")) as host:
            await host.get_by_label("People, you included").select_option("2")
            await host.get_by_role("button", name="Make the table").click()
            await host.get_by_role("button", name="Enter a key").last.click()
            await host.get_by_label("Key or token").fill(key)
            await host.get_by_role("button", name="Use it").click()
            await host.get_by_role("button", name="Make the table").click()
            field, new = host.get_by_role("textbox", name="Seat"), host.get_by_role("button", name="New link")
            await expect(field).to_have_value(re.compile("#/claim/"))
            unused = await field.input_value()
            await new.click()
            await expect(field).not_to_have_value(unused)
            link = await field.input_value()
            async with httpx.AsyncClient(base_url=served.url, trust_env=False) as friend:
                claimed = await friend.post("/claims", json={"code": link.rpartition("/")[2]})
            seat = claimed.json()["seat"]
            await expect(host.get_by_text("A link that nobody has used can be made anew")).to_be_visible()
            await new.click()
            told = host.get_by_role("alert")
            await expect(
                told.get_by_role("heading", name=f"This key makes no link to seat {seat}")
            ).to_be_visible()
            await expect(told).to_contain_text(f"seat {seat} is somebody else's until the game ends")
            await expect(field).to_have_value(link)
            assert await faults_of(host) == []


async def test_what_was_begun_stays_with_its_request_and_its_seat(served: Served, visit: Visits) -> None:
    game = await same_game(served)
    async with visit(await link_to(served, game, 1)) as page:
        asked = page.get_by_role("region", name="What is asked")
        first, said = asked.get_by_role("checkbox").nth(0), asked.get_by_label("What you say about it")
        why = asked.get_by_label("Why I do this")

        async def is_there() -> None:
            await expect(first).to_be_checked()
            await expect(said).to_have_value("The two of us.")
            await expect(why).to_have_value("We are loyal.")

        await first.check()
        await said.fill("The two of us.")
        await asked.get_by_text("Record what I think").click()
        await why.fill("We are loyal.")
        await page.reload()
        await is_there()
        await expect(why).to_be_visible()
        await page.evaluate("location.hash = '#/play'")
        await expect(asked).to_have_count(0)
        await page.go_back()
        await is_there()
        async with page.expect_popup() as opened:
            await page.evaluate("window.open(location.href)")
        twin = await opened.value
        await expect(twin.get_by_role("heading", name="You are")).to_be_visible()
        await page.get_by_role("button", name="Play here instead").click()
        await is_there()
        # What was begun for another request, or at another seat, is not shown.
        kept = f"interintent.draft.{game}"
        draft = json.loads(await page.evaluate("name => sessionStorage.getItem(name)", kept))
        for other in ({"seat": 2}, {"request": "r_other"}):
            changed = json.dumps({**draft, **other})
            await page.evaluate("([name, text]) => sessionStorage.setItem(name, text)", [kept, changed])
            await page.reload()
            await expect(said).to_have_value("")
            await expect(first).not_to_be_checked()
            assert await page.evaluate("name => sessionStorage.getItem(name)", kept) is None
        for place in (0, 1):
            await asked.get_by_role("checkbox").nth(place).check()
        await said.fill("The two of us.")
        await asked.get_by_role("button", name="Propose this team").click()
        await expect(asked.get_by_role("heading", name="Keep the team, or change it")).to_be_visible()
        await expect(said).to_have_value("")
        assert await page.evaluate("name => sessionStorage.getItem(name)", kept) is None


async def test_a_player_comes_back_after_a_cut_and_a_restart(tmp_path: Path, visit: Visits) -> None:
    settings = local_settings(f"sqlite:///{tmp_path / 'games.sqlite'}", port=steady_port())
    seats = [{"agent": "remote" if seat == 1 else "scripted"} for seat in range(1, 6)]
    async with running_server(settings) as first:
        game = await new_game(first, seats=seats, deadlines_s=dict.fromkeys(Kind, 3600))
        async with cutting(first.url) as (proxy, url):
            link = (await link_to(first, game, 1)).replace(first.url, url)
            async with visit(link, faults=("WebSocket", "ERR_")) as page:
                asked = page.get_by_role("region", name="What is asked")
                await expect(asked.get_by_role("heading", name="Choose a team")).to_be_visible()
                await page.get_by_label("My notes").fill("Watch out for seat 4.")
                await asked.get_by_role("checkbox").nth(0).check()
                await asked.get_by_label("What you say about it").fill("The two of us.")
                proxy.cut()
                # What was begun stays, and the answer goes out over the next connection.
                await asked.get_by_role("checkbox").nth(1).check()
                await asked.get_by_role("button", name="Propose this team").click()
                talk = page.get_by_role("log", name="What was said and done")
                await expect(talk.get_by_text("The two of us.")).to_be_visible(timeout=120_000)
                later = asked.get_by_role("heading", name="Keep the team, or change it")
                await expect(later).to_be_visible(timeout=120_000)
                first.server.stop()
                await expect(page.get_by_text("Connection lost")).to_be_visible(timeout=120_000)
                async with running_server(settings):
                    await expect(page.get_by_text("Connection lost")).to_have_count(0, timeout=120_000)
                    await page.reload()
                    await expect(later).to_be_visible(timeout=120_000)
                    await expect(talk.get_by_text("The two of us.")).to_have_count(1)
                    await expect(page.get_by_label("My notes")).to_have_value("Watch out for seat 4.")
                    # The game goes on where it stood.
                    await asked.get_by_role("button", name="Propose this team").click()
                    vote = asked.get_by_role("heading", name="Shall this team go?")
                    await expect(vote).to_be_visible(timeout=120_000)
