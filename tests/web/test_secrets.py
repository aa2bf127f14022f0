"""What is hidden stays hidden: in a public watcher's browser, beside a researcher's, and on a public site."""

import json
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Error, Page, Response, WebSocket, expect

from app.files.site import LoggedGame, SiteWriter
from app.instruments.fake_model import FakeOptions, Latency
from app.instruments.fake_model.brains import BRAINS
from app.store.keys import KeyStore
from tests.app.edge.test_keys import make_key
from tests.app.modelling import endpoints, faking, stored_calls
from tests.app.real_server import Served, local_settings, running_server
from tests.web.conftest import Visits
from tests.web.test_pages import SCREENS

pytestmark = pytest.mark.long

KEY = "ik_" + "k" * 43
BEARER = {"Authorization": f"Bearer {KEY}"}
WORD = re.compile(r"canary[0-9a-f]{16}")
SEATS = [{"agent": "llm", "model": "fake"}]


class ThinksInCanaries:
    """A brain with sensible answers and a random word at the end of each. What it says aloud breaks off
    when it is asked first, so that it has to be taken back.
    """

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def __call__(self, messages: list[dict[str, Any]], schema: dict[str, Any] | None) -> str:
        text = json.dumps(self._marked(json.loads(BRAINS["sensible"](0)(messages, schema))))
        question = re.findall(r"=== QUESTION [^=]+ ===", str(messages))[-1]
        if "refinement" not in question or question in self._asked:
            return text
        self._asked.add(question)
        return text[:-2]

    def _marked(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: one if name == "team" else self._marked(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._marked(one) for one in value]
        if isinstance(value, str) and len(value.split()) > 3:
            return f"{value} canary{secrets.token_hex(8)}"
        return value


@dataclass
class Net:
    """Everything that reaches a page: over the network, and what it shows and stores."""

    caught: list[str] = field(default_factory=list)
    frames: set[str] = field(default_factory=set)
    """The types of the frames of its sockets."""

    async def spread(self, page: Page) -> None:
        page.on("websocket", self._socket)
        page.on("console", lambda message: self.caught.append(message.text))
        page.on("response", self._response)
        # What the page shows for a moment counts, too.
        await page.context.expose_function("caught", lambda text: self.caught.append(text))
        await page.context.add_init_script(
            """new MutationObserver(all => {
                const texts = all.flatMap(({target, addedNodes, attributeName}) => [
                    attributeName ? target.getAttribute(attributeName) : target.nodeValue,
                    ...[...addedNodes].map(node => node.outerHTML ?? node.nodeValue),
                ]);
                window.caught(texts.join("\\n"));
            }).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});"""
        )

    def _socket(self, socket: WebSocket) -> None:
        def received(frame: str | bytes) -> None:
            text = frame if isinstance(frame, str) else frame.decode()
            self.caught.append(text)
            self.frames.add(json.loads(text)["t"])

        socket.on("framereceived", received)

    async def _response(self, response: Response) -> None:
        self.caught.append(f"{response.url} {await response.all_headers()}")
        if response.status in (204, 303, 304):
            return
        try:
            self.caught.append(await response.text())
        except Error as fault:
            # The page went on before it was read; what it had read by then is caught where it is shown.
            if "No data found" not in str(fault):
                raise

    async def drawn(self, page: Page) -> str:
        """All of it, with what the page stores and shows at the end."""
        kept = await page.evaluate(
            """async () => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie,
                location.href, history.state, await indexedDB.databases(), await caches.keys(), window.name,
                document.documentElement.outerHTML])"""
        )
        state = await page.context.storage_state(indexed_db=True)
        return "\n".join([*self.caught, kept, json.dumps(state)])


@pytest.fixture
async def laboratory(tmp_path: Path) -> AsyncIterator[tuple[Served, str]]:
    """A service with keys, and the name of its model, which is a secret of the researcher's."""
    name = f"canary{secrets.token_hex(8)}"
    options = FakeOptions(brain=ThinksInCanaries(), model=name, latency=Latency("fixed", (0.02,)))
    async with faking(options) as fake:
        settings = local_settings(
            f"sqlite:///{tmp_path / 'games.sqlite'}", models=endpoints(fake, model=name), api_key=KEY
        )
        async with running_server(settings) as served:
            yield served, name


async def enters(page: Page, key: str) -> None:
    await page.get_by_role("button", name="Enter a key").last.click()
    await page.get_by_label("Key or token").fill(key)
    await page.get_by_role("button", name="Use it").click()


AROUND = (
    "lobby",
    "ratings",
    "guess",
    "guess?rater=r&of={batch}",
    "annotate",
    "annotate?rater=r&batch={batch}",
    "",
    "batches",
    "batches/{batch}",
    "studies",
    "reports",
    "reports?batch={batch}",
    "compare?a={game}&b={game}",
)
"""Every page that is not a game's."""


async def looks_around(visit: Visits, served: Served, key: str, **of: str) -> str:
    """All that reaches a browser that visits every other page with this key, and shows what it is shown."""
    async with visit(f"{served.url}/livez", faults=("401", "403", "404")) as page:
        net = Net()
        await net.spread(page)
        await page.goto(f"{served.url}/ui/#/lobby")
        await enters(page, key)
        for place in AROUND:
            # By the hash alone: the key stays in the page's memory.
            await page.evaluate("place => { location.hash = place }", f"/{place.format(**of)}")
            await expect(page.locator("main :is(h1, h2)").first).to_be_visible(timeout=60_000)
            await expect(page.get_by_text(re.compile("^Loading|is being made"))).to_have_count(
                0, timeout=60_000
            )
        return await net.drawn(page)


async def test_nothing_hidden_reaches_a_public_watchers_browser_and_a_researchers_shows_it_in_the_making(
    laboratory: tuple[Served, str], visit: Visits, tmp_path: Path
) -> None:
    served, model = laboratory
    async with httpx.AsyncClient(base_url=served.url, headers=BEARER, timeout=120) as caller:
        wish = {"seats": SEATS, "drive": "manual", "reveal": "none", "labels": {"title": "Table"}}
        made = await caller.post("/games", json=wish)
        game = made.json()["games"][0]["game_id"]
        token = (await caller.post(f"/games/{game}/tokens", json={"viewer": "public"})).json()["token"]
        url = f"{served.url}/ui/#/games/{game}"
        async with (
            visit(f"{served.url}/livez", faults=("401", "404")) as public,
            visit(url, faults=("401", "404")) as researcher,
        ):
            net = Net()
            await net.spread(public)
            await public.goto(url)
            for page, key in ((public, token), (researcher, KEY)):
                await enters(page, key)
                await expect(page.get_by_role("region", name="The table")).to_be_visible()
            await researcher.evaluate(
                """() => {
                    window.made = [];
                    const look = () => window.made.push(
                        ...[...document.querySelectorAll(".making")].map(one => one.textContent)
                    );
                    new MutationObserver(look).observe(document.body, {subtree: true, childList: true});
                }"""
            )
            for _ in range(6):
                # Only who looks at the newest moment sees what is being made.
                await researcher.get_by_role("slider").press("End")
                await caller.post(f"/games/{game}/step", json={"until": "action"})
            stepped = await caller.post(f"/games/{game}/step", json={"until": "end"})
            assert stepped.json()["status"] == "finished", stepped.text
            for page in (public, researcher):
                await expect(page.get_by_text("Finished", exact=True)).to_be_visible(timeout=120_000)
                await page.get_by_role("slider").press("End")
            await public.get_by_role("link", name="Read as text").click()
            await expect(public.get_by_role("heading", name="Quest 1, proposal 1")).to_be_visible()
            told = await net.drawn(public)
            await expect(researcher.get_by_role("row", name="Game")).to_have_text(re.compile(r"^Game\d\d"))
            SCREENS.mkdir(parents=True, exist_ok=True)
            await researcher.screenshot(path=SCREENS / "researcher-desk-light.png", full_page=True)
            took = await researcher.get_by_role("row", name="Game").get_by_role("cell").all_text_contents()
            making = await researcher.evaluate("window.made")
        view = (await caller.get(f"/games/{game}")).json()
        lines = (await caller.get(f"/games/{game}/events", params={"viewer": "full"})).text.splitlines()
    log = [json.loads(line) for line in lines if line.strip()]
    # By seat, what the models took is the sum of all their calls.
    assert [use["seat"] for use in view["uses"]] == [1, 2, 3, 4, 5]
    calls, tokens, cost = (
        sum(use[name] for use in view["uses"]) for name in ("calls", "prompt_tokens", "cost")
    )
    assert [took[0], took[1], took[3]] == [f"{calls:,}", f"{tokens:,}", f"{cost:.4f}"]
    assert calls == await stored_calls(served.services.settings.database_url)
    said = " ".join(event["text"] for event in log if event["type"] == "utterance_made")
    hidden = set(WORD.findall("\n".join(lines))) - set(WORD.findall(said))
    assert len(hidden) > 100
    assert model in hidden
    # The net catches what is public: every speech.
    assert len(WORD.findall(said)) > 10
    assert set(WORD.findall(said)) <= set(WORD.findall(told))
    # No other word reached the page, whether it was drafted, withdrawn or thought, in the log or beside it.
    assert set(WORD.findall(told)) <= set(WORD.findall(said))
    assert view["seed"] not in told
    assert not re.findall(r'"(?:role_learned|roles_dealt|agents_seated|vote_cast|card_played)"', told)
    assert net.frames <= {"hello", "welcome", "events", "beat", "turn", "watchers"}
    assert {"turn", "watchers", "events"} <= net.frames
    # The researcher saw it being made: the thinking, the speech as it came, and what was taken back.
    assert any("is thinking: first order" in text for text in making)
    words = {word for text in making if "is saying" in text for word in WORD.findall(text)}
    assert words & set(WORD.findall(said))
    taken_back = {word for text in making if "Taken back" in text for word in WORD.findall(text)}
    assert taken_back - set(WORD.findall(said))

    # Nor does anything on the pages around the game, for whoever may read games and play.
    scopes = ("games:read:any", "eval:read", "eval:submit", "annotate", "bots:play")
    _, reader = await make_key(KeyStore(served.services.database), *scopes)
    told = await looks_around(visit, served, reader, game=game, batch=view["batch_id"])
    assert game in told
    assert not set(WORD.findall(told)) - set(WORD.findall(said))
    assert view["seed"] not in told

    stored = await served.services.reader.events(game)
    site = SiteWriter(tmp_path / "site", "A folder of games", "public")
    assert site.add(LoggedGame(game, list(stored))) is None
    site.finish()
    files = "".join(path.read_text() for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert set(WORD.findall(files)) == set(WORD.findall(said))
    assert view["seed"] not in files
    async with visit((tmp_path / "site" / "index.html").as_uri()) as page:
        net = Net()
        await net.spread(page)
        await page.goto(next((tmp_path / "site" / "games").iterdir()).as_uri())
        await page.get_by_role("slider").press("Home")
        await page.get_by_role("slider").press("End")
        assert not set(WORD.findall(await net.drawn(page))) - set(WORD.findall(said))
