"""A static site of games: an index, and one page a game, that open from a folder without a server.

Every page holds its script, its styles and its data, asks nobody for anything and stores nothing. A site for
the public holds the public's events only, projected before anything is written. The script and the styles are
built from `web/` (`make web`).
"""

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import orjson

from app.files.replays import Document, FileFault, OnRead, PassedOver, Replayed, documents, log_line, replayed
from engine.errors import UNREADABLE, AvalonError
from engine.events import Event, payload, type_name
from engine.intentions import CATALOGUE
from engine.state import fold
from engine.terms import FULL, PUBLIC
from engine.view import project
from evaluators.report.tables import Audience

__all__ = ["LeftOut", "LoggedGame", "SiteWriter", "logs_in"]


@dataclass(frozen=True, slots=True)
class LoggedGame:
    """A game of a file, whole or as far as its viewer saw it."""

    id: str
    log: list[Event]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a file holds that is no game to be shown."""

    what: str
    reason: str


def logs_in(paths: list[str], on_read: OnRead) -> Iterator[LoggedGame | LeftOut]:
    """The games of these files, finished or not: exports of any view, and foreign records. Raises OSError for
    a path that does not exist.
    """
    game = LoggedGame("", [])
    for document in documents(paths, on_read):
        match document:
            case FileFault():
                yield LeftOut(str(document.place), f"{document.rule}: found {document.found}")
                continue
            case PassedOver():
                yield LeftOut(str(document.place), document.reason)
                continue
        try:
            value = orjson.loads(document.text)
            if isinstance(value, dict) and "schema" in value:
                yield _record(document)
                continue
            line = log_line(value)
        except (orjson.JSONDecodeError, AvalonError):
            yield LeftOut(str(document.place), "unreadable")
            continue
        if line is None:
            continue
        if line[0] != game.id:
            if game.log:
                yield game
            game = LoggedGame(line[0], [])
        game.log.append(line[1])
    if game.log:
        yield game


def _record(document: Document) -> LoggedGame | LeftOut:
    outcome = replayed(document)
    if isinstance(outcome, Replayed):
        return LoggedGame(outcome.id, outcome.state.log)
    return LeftOut(str(document.place), "not a game that the rules allow")


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript><p>This page needs JavaScript.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


@cache
def _built(name: str) -> str:
    """A file of the build that goes into every page."""
    text = (files("app") / "pages" / "site" / name).read_text("utf-8")
    if "</s" in text.lower() or "<!--" in text:
        raise ValueError(f"app/pages/site/{name} would end the element that holds it: run make web")
    return text


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _policy() -> str:
    """What a page may do: run its own script, use its own styles, and nothing else."""
    return (
        f"default-src 'none'; script-src {_hash(_built('site.js'))}; style-src {_hash(_built('site.css'))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _page(title: str, data: Mapping[str, Any]) -> bytes:
    # Nothing in the data can end its element, or begin another one.
    text = orjson.dumps(data).decode().replace("<", "\\u003c")
    return _PAGE.format(
        policy=_policy(),
        title=html.escape(title),
        style=_built("site.css"),
        data=text,
        script=_built("site.js"),
    ).encode()


class SiteWriter:
    """Writes the pages of games into a folder, and at the end the index."""

    def __init__(self, folder: Path, title: str, eyes: Audience) -> None:
        self._folder = folder
        self._title = title
        self._eyes = eyes
        self._listed: list[dict[str, Any]] = []
        self._ids: set[str] = set()
        (folder / "games").mkdir(parents=True)

    @property
    def games(self) -> int:
        """The number of pages written so far."""
        return len(self._listed)

    def add(self, game: LoggedGame) -> LeftOut | None:
        """Writes a game's page; or says why the game has none."""
        if game.id in self._ids:
            return LeftOut(game.id, "there already")
        seen = project(game.log, PUBLIC if self._eyes == "public" else FULL)
        try:
            table = fold(seen).table
        except (AvalonError, AttributeError, *UNREADABLE):
            return LeftOut(game.id, "its log cannot be read")
        log = [
            {"seq": seq, "type": type_name(event), "game": game.id, **payload(event)}
            for seq, event in enumerate(seen, 1)
        ]
        data = {"kind": "game", "title": self._title, "eyes": self._eyes, "game": game.id, "log": log}
        if self._eyes == "full":
            data["intentions"] = _catalogue(log)
        page = _page(f"Game {game.id}", data)
        # By its content: a page never changes under its address, and an address tells nothing.
        file = f"games/{hashlib.sha256(page).hexdigest()[:20]}.html"
        (self._folder / file).write_bytes(page)
        self._ids.add(game.id)
        self._listed.append(
            {
                "file": file,
                "game": game.id,
                "profile": table.profile.name,
                "players": table.players,
                "quests": [quest.succeeded for quest in table.quests],
                "winner": table.winner,
                "ending": table.ending,
            }
        )
        return None

    def finish(self) -> None:
        """Writes the index."""
        data = {"kind": "index", "title": self._title, "eyes": self._eyes, "games": self._listed}
        (self._folder / "index.html").write_bytes(_page(self._title, data))


def _catalogue(log: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The sentences of the intentions that this log names."""
    named = {
        choice["id"]
        for event in log
        if event["type"] == "intentions_selected"
        for choice in event["intentions"]
    }
    named |= {
        intention
        for event in log
        if event["type"] == "beliefs_formed"
        for belief in event["beliefs"]
        for intention in belief["intentions"]
    }
    return [{"id": one.id, "label": one.label} for one in CATALOGUE if one.id in named]
