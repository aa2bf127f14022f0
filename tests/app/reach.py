"""Explores what a credential reaches by any chain of calls.

An explorer starts with one credential, in a laboratory of games in which every hidden fact is known. It
makes every possible call about every game that it can name, and goes on with every credential and game that
it finds in the answers. A table written by hand (``may_know``) says which hidden facts the first credential
may reach.

``python -m tests.app.reach`` starts with every pair of scopes.
"""

import asyncio
import base64
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import click
import httpx
from sqlalchemy import select
from websockets.exceptions import ConnectionClosed

from app.base.clock import now_ms
from app.edge.auth import SCOPES
from app.store.games import ENDED, NewGame, new_id
from app.store.rows import BatchRow
from app.store.tables import games
from engine import rules, state
from engine.events import EVENT_TYPES, ProposalOpened
from engine.profile import make_profile
from engine.state import State
from engine.terms import FULL, Role, Viewer
from evaluators.errors import Unmeasurable
from evaluators.ground.items import items
from evaluators.ground.turns import read_game
from tests.app.cage import PLAYERS, Cage, play_on
from tests.app.calling import Caller, read_ndjson
from tests.app.edge.test_keys import OPERATOR, make_key, store_of
from tests.app.real_server import Served, local_settings, running_server
from tests.app.watcher import watching

__all__ = ["CALLS", "Explorer", "Fact", "Laboratory", "explored", "may_know"]

PROJECT: Final = "reach"
"""Whose the laboratory's games are, and the key with which an explorer starts. Of others' games:
tests/app/two_laboratories.py."""

RECORD = Path(__file__).parents[1] / "records" / "last-team-goes.json"

HIDDEN: Final = {name: kind.seen_by for name, kind in EVENT_TYPES.items() if kind.seen_by != "public"}

CREDENTIAL: Final = re.compile(r"eyJ[\w-]{20,}\.eyJ[\w-]{20,}\.[\w-]{20,}|ik_[\w-]{43}")
WORD: Final = re.compile(r"canary[0-9a-f]{16}")
ROLES: Final = frozenset(role.value for role in Role)


class Fact(NamedTuple):
    """A hidden fact."""

    game: str
    """The laboratory's name of the game in which the fact first occurred, not of a fork."""
    owner: Viewer
    """The seat that may know it, or FULL."""
    kind: str
    """The type of its event; ``roles``: everybody's roles; ``gold``: the right answers to items."""


# --- the table kept by hand ------------------------------------------------------------------------

READERS_SEE: Final = frozenset(
    {"role_learned", "round_summarised", "vote_cast", "card_played", "speech_drafted"}
)
"""Private events of a seat that items show: what the item's reader saw, but of the reader's own thoughts only
the draft of the speech that it is asked to summarise.
"""

RATERS_SEE: Final = READERS_SEE | {"intentions_selected"}
"""Private events that raters judge; they include what was chosen, and why."""


def may_know(scopes: Iterable[str], fact: Fact, *, over: bool, reveal: str) -> bool:
    """Whether a key with these scopes may know the fact, according to docs/operating.md and
    docs/evaluation.md. ``over``: whether the game is over.
    """
    if over and reveal == "all":
        return True  # the whole log is public
    if fact.kind == "roles":
        return (over and reveal != "none") or "export:full" in scopes
    return any(_tells(scope, fact, over) for scope in scopes)


def _tells(scope: str, fact: Fact, over: bool) -> bool:
    if scope == "export:full":
        return True
    if scope == "tokens:mint":
        return fact.owner != FULL  # it makes the tokens of all seats
    if scope == "annotate":
        return over and fact.kind in RATERS_SEE | {"gold"}
    if scope == "eval:read":
        return over and fact.kind in READERS_SEE
    return False  # games:create, :read, :step, :cancel, eval:submit, metrics:read, admin: nothing hidden


# --- the laboratory --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One game of the laboratory."""

    name: str
    game_id: str
    batch_id: str
    log: State
    reveal: str
    root: str
    """The name of the game that it was forked off; its own name if it is no fork."""


class Laboratory:
    """Games of all kinds in one service, and every hidden word in them."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.samples: dict[str, Sample] = {}
        self.words: dict[str, Fact] = {}
        self.over: set[str] = set()

    async def lay(self, seed: int) -> None:
        """Creates new games of the same kinds, for the next explorer."""
        self.samples, self.words = {}, {}
        rng = Random(seed)
        running = await self._game("running", rng, steps=12, thinks=0.8)
        # Over, though its source is not: its end and its items tell what the source still hides.
        await self._game("ahead", rng, source=running)
        failed = await self._game("failed", rng, steps=12, thinks=0.8, stops="failed")
        await self._game("ahead of failed", rng, source=failed)
        await self._game("stepped", rng, steps=12, agent="random")
        await self._game("told", rng)
        untold = await self._game("untold", rng, reveal="none")
        public = await self._game("public", rng, reveal="all")
        await self._game("fork of untold", rng, source=untold, steps=0)
        await self._game("fork of public", rng, source=public, steps=0)
        await self.look()

    async def _game(
        self,
        name: str,
        rng: Random,
        *,
        reveal: Any = "roles",
        steps: int | None = None,
        agent: str = "remote",
        source: Sample | None = None,
        thinks: float = 0.3,
        stops: str = "running",
    ) -> Sample:
        cage = Cage()
        seed = rng.getrandbits(60)
        if source is None:
            past = list(
                state.fold(rules.create(make_profile("interintent", PLAYERS, reveal=reveal), seed)).log
            )
        else:
            reveal, cut = source.reveal, len(source.log.log)
            if source.log.table.over:
                # Anywhere between two steps: a proposal has just been opened.
                cut = max(
                    place
                    for place, event in enumerate(source.log.log, 1)
                    if isinstance(event, ProposalOpened) and place < 2 * cut // 3
                )
            past = list(source.log.log[:cut])
        log = play_on(cage, state.fold(past), rng, steps, lambda: rng.random() < thinks)
        ended = log.table.over
        game_id, batch_id, at = new_id("g"), new_id("b"), now_ms()
        game = NewGame(
            game_id,
            0,
            "manual",
            str(seed),
            [{"agent": agent}] * PLAYERS,
            log.log,
            forked_from=None if source is None else {"game_id": source.game_id, "events": len(past)},
            status="finished" if ended else stops,
            winner=log.table.winner.value if log.table.winner else None,
            ending=log.table.ending.value if log.table.ending else None,
        )
        spec = {} if source is None else {"origin": "fork"}
        batch = BatchRow(batch_id, at, 1, "0", spec, owner=f"project:{PROJECT}")
        store = self.served.services.store

        async def work(connection: Any) -> None:
            await store.insert_batch(connection, batch)
            await store.insert_games(connection, batch_id, [game], at)

        await self.served.services.database.writer.run(work)
        sample = Sample(name, game_id, batch_id, log, reveal, name if source is None else source.root)
        self.samples[name] = sample
        self.words |= {word: Fact(name, owner, cage.kinds[word]) for word, owner in cage.owners.items()}
        return sample

    async def look(self) -> None:
        """Updates which games are over. One that has failed may go on."""
        names = {sample.game_id: name for name, sample in self.samples.items()}
        query = select(games.c.game_id).where(games.c.game_id.in_(names), games.c.status.in_(ENDED))
        async with self.served.services.database.read_engine.connect() as connection:
            self.over = {names[game_id] for game_id in (await connection.execute(query)).scalars()}

    def item_ids(self, name: str, dimension: Any) -> list[tuple[str, str]]:
        """Items that an attacker makes up, with an intention each: ids follow from the public record."""
        try:
            game = read_game(self.samples[name].game_id, self.samples[name].log.log)
        except (Unmeasurable, AssertionError, StopIteration):
            return []
        found = list(items(game, dimension))[:25]
        return [(one.id, one.asked[0].id if one.asked else "defend_self") for one in found]


# --- every call there is ---------------------------------------------------------------------------

Body = Callable[[Laboratory, str], Any]
PLACES: Final = ({"request": "1.1.propose_team.1"}, {"round": 1, "attempt": 1, "phase": "discuss"})
OUTSIDE: Final = [{"agent": "remote"}]


def _guesses(laboratory: Laboratory, name: str) -> Any:
    asked = laboratory.item_ids(name, "guessing") or [(f"{name}/guessing/1.1.speak.1/final/2", "")]
    given = [{"item_id": item, "intentions": ["defend_self"]} for item, _ in asked]
    return {"dimension": "guessing", "rater": {"name": new_id("r")}, "answers": given}


def _answers(laboratory: Laboratory, name: str) -> Any:
    given = _guesses(laboratory, name)
    return {"rater": given["rater"], "answers": given["answers"]}


def _judgements(laboratory: Laboratory, name: str) -> Any:
    asked = laboratory.item_ids(name, "selection") or [(f"{name}/selection/1.1.speak.1/final/-", "x")]
    given = [{"item_id": item, "intention": chosen, "reasonable": True} for item, chosen in asked]
    return {"rater": {"name": new_id("r"), "kind": "human"}, "judgements": given}


_GAMES: Final = ("game={game}", "batch={batch}")

CALLS: Final[Mapping[str, list[tuple[str, Any]]]] = {
    "GET /": [("", None)],
    "GET /ui": [("", None)],
    "GET /ui/{path}": [("", None)],
    "GET /docs": [("", None)],
    "GET /docs/index.html": [("", None)],
    "GET /docs/{name}": [("", None)],
    "GET /ws": [("", None)],
    "GET /ws/lobby": [("", None)],
    "GET /intentions": [("", None)],
    "GET /profiles": [("", None)],
    "GET /me": [("", None)],
    "GET /problems/{code}": [("", None)],
    "GET /asyncapi.json": [("", None)],
    "GET /schemas/{name}": [("", None)],
    "GET /livez": [("", None)],
    "GET /readyz": [("", None), ("verbose=true", None)],
    "GET /metrics": [("", None)],
    "GET /games": [("limit=200", None), ("batch={batch}", None), ("sort=-finished&limit=200", None)],
    "GET /batches": [("", None)],
    "GET /games/{game_id}": [("", None), ("viewer=full", None), ("viewer=seat:1", None)],
    "GET /games/{game_id}/events": [("", None), ("viewer=full", None), ("viewer=seat:1", None)],
    "GET /games/{game_id}/requests": [("", None), ("viewer=seat:1", None)],
    "GET /batches/{batch_id}": [("", None)],
    "GET /batches/{batch_id}/events": [("", None)],
    "GET /batches/{batch_id}/export": [("partial=true", None), ("partial=true&view=full", None)],
    "GET /evaluations/items": [
        (f"dimension={dimension}&{which}&limit=200{more}", None)
        for dimension, more in (
            ("selection", ""),
            ("following", ""),
            ("guessing", ""),
            ("guessing", "&reader=all&followed=true"),
            ("guessing", "&context=release"),
            ("summarisation", "&format=ndjson"),
        )
        for which in _GAMES[:: 2 if more else 1]
    ],
    "GET /annotations/tasks": [(f"rater=r&limit=50&{which}", None) for which in _GAMES],
    "GET /annotations": [(which, None) for which in _GAMES],
    "GET /reports": [("batch={batch}&group_by=agent", None), ("batch={batch}&format=csv", None)],
    "POST /evaluations": [
        ("", _guesses),
        ("", lambda _, name: {"dimension": "selection", "judge": {"kind": "rule"}, "game": "{game}"}),
        ("", lambda _, name: {"dimension": "statements", "judge": {"kind": "rule"}, "batch": "{batch}"}),
    ],
    "POST /annotations": [("", _judgements)],
    "GET /evaluations": [("", None)],
    "GET /evaluations/compare": [("dimension=guessing&batch={batch}&first=r&second=rules", None)],
    "GET /evaluations/{evaluation_id}": [("", None), ("per_item=true", None)],
    "GET /evaluations/{evaluation_id}/statements": [("", None)],
    "GET /evaluations/{evaluation_id}/compare/{other}": [("", None)],
    "POST /evaluations/{evaluation_id}/cancel": [("", None)],
    "GET /annotations/guidelines": [("", None)],
    "GET /annotations/progress": [(which, None) for which in _GAMES],
    "POST /games": [("", {"drive": "manual", "seats": OUTSIDE}), ("", {"drive": "manual", "reveal": "all"})],
    "POST /games/import": [("", json.loads(RECORD.read_text("utf-8")))],
    "POST /games/{game_id}/fork": [
        ("", {"after": after, "drive": "manual", **more})
        for after, more in zip(PLACES, ({"seats": OUTSIDE}, {}), strict=True)
    ],
    "POST /evaluations/sets": [
        (
            "",
            {
                "name": "s",
                "dimension": "guessing",
                "batches": ["{batch}"],
                "closes_at": "2027-06-01T00:00:00Z",
            },
        )
    ],
    "GET /evaluations/sets": [("", None)],
    "GET /evaluations/sets/{set_id}": [("", None)],
    "POST /evaluations/sets/{set_id}/withdraw": [("", {"reason": "wrong games"})],
    "GET /evaluations/sets/{set_id}/items": [("", None)],
    "POST /evaluations/sets/{set_id}/answers": [("", _answers)],
    "GET /evaluations/sets/{set_id}/receipts": [("", None)],
    "GET /evaluations/sets/{set_id}/gold": [("", None)],
    "GET /evaluations/sets/{set_id}/entries/{entry_id}": [("", None)],
    "GET /tokens": [("", None), ("game={game}", None)],
    "DELETE /tokens/{token_id}": [("", None)],
    "POST /models/{name}/try": [("", {})],
    "POST /bots": [("", {"name": "owl", "version": "1"})],
    "GET /bots": [("", None)],
    "GET /bots/{bot_id}": [("", None)],
    "POST /bots/{bot_id}/check": [("", {})],
    "GET /ratings": [("", None)],
    "POST /seeks": [("", {"players": 10, "wait_s": 3600, "bot": "owl"})],
    "GET /seeks": [("", None)],
    "GET /seeks/{seek_id}": [("", None)],
    "DELETE /seeks/{seek_id}": [("", None)],
    "POST /games/open": [("", {"players": 10, "seats": [{"agent": "open"}], "wait_s": 3600})],
    "POST /games/{game_id}/seats/open/claim": [("", {})],
    "DELETE /games/{game_id}/seats/open": [("", None)],
    "POST /games/{game_id}/tokens": [("", {"viewer": viewer}) for viewer in ("public", "seat:4")],
    "POST /batches/{batch_id}/tokens": [("", {})],
    "POST /games/{game_id}/seats/{seat}/claim-code": [("", {})],
    "POST /claims": [("", lambda _, name: {"code": "{claim}"})],
    "POST /games/{game_id}/requests/{request_id}/action": [
        (query, {"action": {"team": [1, 2], "text": "hello"}}) for query in ("", "viewer=seat:1")
    ],
    # Last: what they change is looked at again.
    "POST /games/{game_id}/step": [("", {"until": "action"}), ("", {"until": "end"})],
    "POST /games/{game_id}/cancel": [("", None)],
    "POST /games/{game_id}/invalidate": [("", {"reason": "wrong key"})],
    "DELETE /games/{game_id}/invalidate": [("", None)],
    "DELETE /games/{game_id}": [("", None)],
    "DELETE /batches/{batch_id}": [("", None)],
    "POST /batches/{batch_id}/pause": [("", None)],
    "POST /batches/{batch_id}/resume": [("", {})],
    "POST /batches/{batch_id}/retry": [("", {})],
    "POST /batches/{batch_id}/cancel": [("", None)],
}
"""For each operation of the OpenAPI document, the queries and bodies to call it with. ``{game}`` and
``{batch}`` stand for everything that the explorer can name.
"""

LOOKS: Final = tuple(one for one in CALLS if one.startswith(("GET /games/", "GET /batches/")))


# --- the explorer ----------------------------------------------------------------------------------


@dataclass
class _Target:
    """A game that the explorer can name."""

    name: str
    """The laboratory's name of the game, or of the game that it was forked off; ``own``: the explorer made
    it.
    """
    game_id: str
    batch_id: str


@dataclass
class Explorer:
    """Everything that can be done with one credential, and with what it leads to."""

    laboratory: Laboratory
    caller: Caller
    scopes: frozenset[str] = frozenset()
    """The scopes of the first key; empty for a token."""
    grants: Callable[[Fact], bool] = lambda fact: False
    """What the first token shows."""
    facts: set[Fact] = field(default_factory=set)
    """Every hidden fact that was in an answer."""
    surprises: dict[Fact, str] = field(default_factory=dict)
    """Facts that the first credential must not reach, and the answers that revealed them."""
    calls: int = 0
    operations: set[str] = field(default_factory=set)
    """Operations that have succeeded."""
    leaves_out: frozenset[str] = frozenset()
    """Operations that are not tried."""

    def __post_init__(self) -> None:
        self._credentials: list[str] = []
        self._evaluations = ["e_none"]
        self._moved = False
        self._claim = "none"
        """The last code for a seat that was handed out."""
        self._made = {
            "{bot_id}": "p_none",
            "{seek_id}": "s_none",
            "{token_id}": "t_none",
            "{set_id}": "s_none",
            "{entry_id}": "r_none",
        }
        """The last of each that was made."""
        self._targets = [
            _Target(sample.name, sample.game_id, sample.batch_id)
            for sample in self.laboratory.samples.values()
        ]

    async def explore(self, credential: str) -> None:
        """Makes every call, and repeats this with what was found, until nothing new is found."""
        self._credentials.append(credential)
        known = list(self._targets)
        for operation in CALLS:
            for target in known:
                await self._call(operation, credential, target)
        done: set[tuple[str, str]] = set()
        tried = {_kind(credential)}
        while True:
            todo = [
                (holder, target)
                for holder in self._credentials
                for target in self._targets
                if (holder, target.game_id) not in done and _may_open(holder, target)
            ]
            if not todo:
                return
            for holder, target in todo:
                done.add((holder, target.game_id))
                # What the key has been shown it is shown again only where it has done something since.
                operations = LOOKS if self._moved or target not in known or holder != credential else ()
                kind = _kind(holder)
                if target not in known or kind not in tried:
                    # A fork may be forked, a token may mint: everything once more from there.
                    operations = tuple(one for one in CALLS if "{game_id}" in one or "{batch_id}" in one)
                    tried.add(kind)
                for operation in operations:
                    await self._call(operation, holder, target)
                await self._socket(holder, target)

    async def _call(self, operation: str, credential: str, target: _Target) -> None:
        method, _, template = operation.partition(" ")
        about = "{" in template or any("{" in query or callable(body) for query, body in CALLS[operation])
        if operation in self.leaves_out:
            return
        if target.name == "own" and operation.endswith("/cancel"):
            return  # its tokens are still to be tried
        if not about and target is not self._targets[0]:
            return  # about no game: once is enough
        for evaluation in self._evaluations[-3:] if "{evaluation_id}" in template else [""]:
            path = (
                template.replace("{game_id}", target.game_id)
                .replace("{batch_id}", target.batch_id)
                .replace("{evaluation_id}", evaluation)
                .replace("{other}", self._evaluations[0])
                .replace("{request_id}", "1.1.propose_team.1")
                .replace("{code}", "stale")
                .replace("{name}", "Act")
                .replace("{seat}", "1")
                .replace("{path}", "index.html")
            )
            for name, made in self._made.items():
                path = path.replace(name, made)
            for query, body in CALLS[operation]:
                if callable(body) and target.name == "own":
                    continue
                given = body(self.laboratory, target.name) if callable(body) else body
                text = None if given is None else self._filled(json.dumps(given), target)
                url = f"{path}?{self._filled(query, target)}" if query else path
                answer = await self.caller.request(
                    method,
                    url,
                    content=text,
                    headers={
                        "authorization": f"Bearer {credential}",
                        **({} if text is None else {"content-type": "application/json"}),
                    },
                )
                self.calls += 1
                # Whether the service is ready depends on how busy the machine is.
                assert answer.status_code < 500 or path == "/readyz", (method, url, answer.text)
                if answer.is_success:
                    self.operations.add(operation)
                    if method == "POST":
                        self._moved = True
                        await self.laboratory.look()
                self._read(f"{method} {url} of {target.name}", answer, target)

    def _filled(self, text: str, target: _Target) -> str:
        text = text.replace("{game}", target.game_id).replace("{batch}", target.batch_id)
        return text.replace("{claim}", self._claim)

    async def _socket(self, credential: str, target: _Target) -> None:
        for more in ({}, {"viewer": "full"}):
            said: list[Any] = []
            try:
                async with watching(self.laboratory.served.ws_url) as one:
                    welcome = await one.identify(target.game_id, token=credential, live=True, **more)
                    await one.until_seq(welcome["head"])
                    said = one.frames
            except (ConnectionClosed, AssertionError):
                pass  # refused, or over: what was said before counts
            self._learn(f"the socket of {target.name}", json.dumps(said), [said], target)

    def _read(self, where: str, answer: httpx.Response, target: _Target) -> None:
        kind = answer.headers.get("content-type", "")
        values: list[Any] = []
        if "ndjson" in kind:
            values = read_ndjson(answer.content)
        elif "json" in kind:
            values = [answer.json()]
        if answer.is_success and "/games" in where and answer.request.method == "POST" and values:
            self._take_up(values[0], target)
        if answer.is_success and values and answer.request.method == "POST":
            self._made |= {name: values[0][name[1:-1]] for name in self._made if name[1:-1] in values[0]}
        if answer.is_success and "/claim-code" in where:
            self._claim = values[0]["code"]
        if answer.is_success and where.startswith("POST /evaluations"):
            self._evaluations += [one["evaluation_id"] for one in values if "evaluation_id" in one]
        for found in CREDENTIAL.findall(answer.text):
            if not any(_same(found, one) for one in self._credentials):
                self._credentials.append(found)
        self._learn(where, answer.text + str(answer.headers), values, target)

    def _take_up(self, made: dict[str, Any], target: _Target) -> None:
        """Takes up new games: a fork hides what its source hides; all others are the explorer's own."""
        batch = made.get("batch_id")
        for game in made.get("games") or [made]:
            if batch is not None and "game_id" in game:
                name = target.name if "forked_from" in made else "own"
                # A fork of one's fork tells nothing new: one of each is enough.
                if sum(one.name == name for one in self._targets) < 3:
                    self._targets.append(_Target(name, game["game_id"], batch))

    # --- what was learned ------------------------------------------------------------------------

    def _learn(self, where: str, text: str, values: list[Any], target: _Target) -> None:
        facts = {self.laboratory.words[word] for word in WORD.findall(text) if word in self.laboratory.words}
        facts |= set(self._structure(values, target))
        for fact in facts - self.facts:
            if fact.game == "own":
                continue
            if not self._may_know(fact):
                self.surprises[fact] = where
            self.facts.add(fact)

    def _may_know(self, fact: Fact) -> bool:
        sample = self.laboratory.samples[fact.game]
        over = fact.game in self.laboratory.over
        return self.grants(fact) or may_know(self.scopes, fact, over=over, reveal=sample.reveal)

    def _structure(self, values: list[Any], target: _Target) -> Iterator[Fact]:
        """Hidden facts that are recognised by the structure of the answer."""
        names = {one.game_id: one.name for one in self._targets}
        for found in _dicts(values):
            here = found.get("game") or found.get("game_id")
            name = names.get(here, target.name) if isinstance(here, str) else target.name
            if name == "own":
                continue
            root = self.laboratory.samples[name].root
            type_ = found.get("type")
            if isinstance(type_, str) and type_ in HIDDEN and "seq" in found:
                # A seat's role is the same in a fork; what else it did there may be the fork's own.
                game = root if type_ in ("role_learned", "roles_dealt") else name
                yield Fact(game, found["seat"] if HIDDEN[type_] == "seat" else FULL, type_)
            roles = found.get("roles")
            if isinstance(roles, dict) and roles and set(map(str, roles.values())) <= ROLES:
                yield Fact(root, FULL, "roles")
            hand = found.get("hand")
            if isinstance(hand, dict) and "role" in hand:
                yield Fact(root, hand["seat"], "role_learned")
            if found.get("gold") is not None and "item_id" in found:
                # An evaluation may be of another game than the one that was asked for with it.
                of = names.get(str(found["item_id"]).partition("/")[0], name)
                if of != "own":
                    yield Fact(self.laboratory.samples[of].root, FULL, "gold")


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from _dicts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _dicts(one)


def _claims(credential: str) -> dict[str, Any]:
    if credential.startswith("ik_"):
        return {}
    part = credential.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


def _kind(credential: str) -> str:
    """The kind of a credential: a key, or a seat or watch token of a game or a batch."""
    claims = _claims(credential)
    return " ".join((str(claims.get("sub")), *(name for name in ("game", "batch") if name in claims)))


def _same(one: str, other: str) -> bool:
    """Whether two tokens grant the same."""
    if one.startswith("ik_") or other.startswith("ik_"):
        return one == other
    return {**_claims(one), "exp": 0} == {**_claims(other), "exp": 0}


def _may_open(credential: str, target: _Target) -> bool:
    """Whether to try this: tokens of other games are tested elsewhere (authorization.yaml)."""
    claims = _claims(credential)
    if "game" in claims:
        return bool(claims["game"] == target.game_id)
    return "batch" not in claims or bool(claims["batch"] == target.batch_id)


async def explored(laboratory: Laboratory, *scopes: str, seed: int = 1) -> Explorer:
    """What a new key with these scopes reaches in new games."""
    await laboratory.lay(seed)
    async with Caller(laboratory.served.app) as caller:
        explorer = Explorer(laboratory, caller, frozenset(scopes))
        await explorer.explore((await make_key(store_of(laboratory.served), *scopes, project=PROJECT))[1])
    return explorer


async def _all_pairs() -> None:
    with tempfile.TemporaryDirectory() as directory:
        settings = local_settings(
            f"sqlite:///{directory}/games.sqlite", api_key=OPERATOR, token_secrets="s" * 64
        )
        async with running_server(settings) as served:
            laboratory = Laboratory(served)
            for number, scopes in enumerate(itertools.combinations(sorted(SCOPES), 2)):
                found = await explored(laboratory, *scopes, seed=number)
                click.echo(f"{' '.join(scopes)}: {found.calls} calls, {len(found.facts)} facts")
                for fact, where in found.surprises.items():
                    click.echo(f"    {fact} in {where}")


if __name__ == "__main__":
    asyncio.run(_all_pairs())
