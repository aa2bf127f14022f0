"""The built pages are those of the sources in `web/`, and bots can be built on the npm package."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

import scripts.web
from scripts.web import WEB, NpmError, build, install, npm
from tests.app.real_server import Served
from tests.nodejs import NODE

PAGES = WEB.parent / "app" / "pages"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.long
def test_the_committed_pages_are_those_of_the_sources_byte_for_byte(tmp_path: Path) -> None:
    build(tmp_path)
    for part in ("ui", "site"):
        built, committed = _files(tmp_path / part), _files(PAGES / part)
        assert built.keys() == committed.keys(), f"{part}: run make web and commit app/pages/{part}"
        changed = [name for name in built if built[name] != committed[name]]
        assert not changed, f"{part}: {changed} differ: run make web and commit app/pages/{part}"


def test_of_those_who_need_the_packages_at_once_one_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[Path] = []

    def npm_ci(*arguments: str) -> str:
        modules = tmp_path / "node_modules"
        modules.mkdir()
        time.sleep(0.1)
        installed.append(modules)
        return ""

    (tmp_path / "package-lock.json").write_text("{}")
    monkeypatch.setattr(scripts.web, "WEB", tmp_path)
    monkeypatch.setattr(scripts.web, "npm", npm_ci)
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(install) for _ in range(4)]:
            done.result()
    assert len(installed) == 1


def test_what_npm_says_when_it_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(NpmError, match=r"(?s)npm ci --offline failed in .+package-lock"):
        npm("ci", "--offline", cwd=tmp_path)


def test_the_lock_names_no_registry_and_an_integrity_for_each_package() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert len(packages) > 10
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-"), name


PROGRAM = """
import { Server, SeatPlayer, Stream } from "@interintent/client";

const url = process.argv[2];
const server = new Server(url);
const made = await server.createGames({
  seats: [{ agent: "remote" }, ...Array(4).fill({ agent: "scripted" })],
});
const { game_id: game, seats } = made.games[0];

const watched = [];
const watcher = new Stream(game, { url, viewer: "public" });
const watching = watcher.run((frame) => {
  if (frame.t === "events") watched.push(...frame.items);
});

let answers = 0;
let refused = 0;
const seat = new SeatPlayer(game, { url, token: seats[0].token }, {
  onRequest(request) {
    if (!request) return;
    const answer = async () => {
      if (!refused++) {
        // The first answer breaks the rules; the request stays open, and the default is then played for it.
        await seat.act(request, { team: [1, 1] }).then(() => process.exit(3), (fault) => {
          if (fault.name !== "Refused") throw fault;
        });
      }
      await seat.act(request, request.default);
      answers += 1;
    };
    void answer();
  },
});
await seat.run();
await watching;
const log = await server.log(game, "public");
console.log(JSON.stringify({ answers, refused, watched, log, view: await server.game(game) }));
"""


@pytest.mark.long
async def test_the_packed_client_plays_and_watches_a_game(served: Served, tmp_path: Path) -> None:
    def packed() -> None:
        install()
        npm("run", "client")
        (archive,) = json.loads(
            npm("pack", "--json", "--pack-destination", str(tmp_path), cwd=WEB / "client")
        )
        assert {"dist/index.js", "dist/index.d.ts", "README.md"} <= {
            file["path"] for file in archive["files"]
        }
        (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
        (tmp_path / "bot.mjs").write_text(PROGRAM)
        npm("install", "--offline", "--ignore-scripts", str(tmp_path / archive["filename"]), cwd=tmp_path)

    await anyio.to_thread.run_sync(packed)
    done = await anyio.run_process([NODE, "bot.mjs", served.url], cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told["answers"] > 5
    assert told["watched"] == told["log"]
    assert told["log"][-1]["type"] == "game_ended"
    assert told["view"]["status"] == "finished"
