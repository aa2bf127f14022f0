"""Sends hostile text through every field that stores text: it comes back unchanged, or is refused.

``python -m tests.app.hostile_strings 500000 --seed 7`` sends this many texts, on SQLite or with
``--database-url`` on another database, and prints what happened as JSON. It fails if a stored text differs
from the one that was sent, a valid text is refused, an invalid one is accepted, a refusal has no pointer, or
the service breaks.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import structlog

from app.base.names import check_name, check_note, look_of
from app.store.keys import KeyStore
from app.store.rows import ApiKey
from tests.app.calling import Caller, calling

__all__ = ["Outcome", "Texts", "hostile"]

RECORD: Final = Path(__file__).parents[1] / "records" / "forced-team.json"

PIECES: Final = (
    *(
        "\0",
        "a\0b",
        "\x01",
        "\x1f",
        "\x7f",
        "\r",
        "\x1b[31mred",
        "\ud800",
        "\udfff",
        "\ud83d!",
        "\udc00\ud800",
    ),
    *(
        "'",
        '"',
        "''",
        "\\",
        "\\\\",
        "\\'",
        '\\"',
        "`",
        "'; DROP TABLE games; --",
        "' OR '1'='1",
        "1; SELECT 1",
    ),
    *(
        "%s",
        "%(x)s",
        "%",
        "_",
        "%%",
        "{}",
        "{0}",
        "{text}",
        "${x}",
        "$1",
        ":name",
        "?",
        "@p",
        "{{7*7}}",
        "<%= 1 %>",
    ),
    *("$.a", "$", "$[0]", '$."a"', "a.b[0]", "'{a,b}'", "/a/b", "~0~1", "#/definitions", "\\u0000", "\\x00"),
    *(
        '{"a":',
        "[",
        "]",
        "}",
        "null",
        "true",
        "NaN",
        "1e999",
        "-0",
        '{"t":"event"}',
        "\\n{}",
        "0x0",
        "undefined",
    ),
    *(
        "\t",
        "\n",
        "\n\n",
        " ",
        "  lead",
        "trail  ",
        "\u00a0",
        "\u2028",
        "\u2029",
        "\x85",
        "\ufeff",
        "\u200b",
        "\u00ad",
    ),
    *(
        "\u202e",
        "\u202d\u2066",
        "\u061c",
        "שלום",
        "مرحبا",
        "ا\u0651\u0651",
        "e\u0301",
        "é",
        "\u0345\u0363" * 8,
    ),
    *(
        "\uffff",
        "\ufffe",
        "\U0010ffff",
        "\ufdd0",
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "𝕬",
        "ẞ",
        "İ",
        "ı",
        "ﬃ",
        "Ǆ",
        "㍿",
        "漢字",
    ),
    *("<script>alert(1)</script>", "&amp;", "]]>", "<!--", "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3"),
    *(
        "../../etc/passwd",
        "C:\\nul",
        "file:///x",
        "http://x/?token=y",
        "\u0130\u0307",
        "İstanbul",
        "ＳＥＬＥＣＴ",
    ),
)


def is_sound(text: str, least: int, most: int) -> bool:
    """The rule for texts, written again: a length in characters, no control character except tab and
    newline, no U+0000, no lone surrogate.
    """
    return least <= len(text) <= most and not any(
        (ord(one) < 32 and one not in "\t\n") or ord(one) == 127 or 0xD800 <= ord(one) < 0xE000
        for one in text
    )


def is_taken(text: str, least: int, most: int, check: Callable[[str], str]) -> bool:
    """Whether a sound text may also be a name or a note."""
    try:
        return is_sound(text, least, most) and check(text) == text
    except ValueError:
        return False


class Texts:
    """Hostile texts, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def any(self, most: int) -> str:
        """Any text, sometimes as long as allowed, sometimes one character longer."""
        chance = self.chance
        text = "".join(chance.choice(PIECES) for _ in range(chance.randint(0, 4)))
        if chance.random() < 0.1:
            text = "".join(
                chr(chance.choice((chance.randrange(0x3000), chance.randrange(0x110000)))) for _ in range(9)
            )
        if chance.random() < 0.06:
            text = (text or "x") * most
            text = text[: most + chance.choice((0, 0, 1))]
        # Two surrogates that meet are one character: so JSON reads them.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def sound(self, most: int, least: int = 0) -> str:
        """A text that must be accepted."""
        while not is_sound(text := self.any(most), least, most):
            pass
        return text

    def name(self, most: int) -> str:
        """A text that must be accepted as a name."""
        while not is_taken(text := self.any(most), 1, most, check_name):
            pass
        return text

    def no_name(self, most: int) -> str:
        """A text that must be refused as a name."""
        while is_taken(text := self.any(most), 1, most, check_name):
            pass
        return text

    def note(self, most: int) -> str:
        """A text that must be accepted as a note."""
        while not is_taken(text := self.any(most), 0, most, check_note):
            pass
        return text

    def no_note(self, most: int) -> str:
        """A text that must be refused as a note."""
        while is_taken(text := self.any(most), 0, most, check_note):
            pass
        return text

    def unsound(self, most: int, least: int = 0, *, too_long: bool = True) -> str:
        """A text that must be refused."""
        while is_sound(text := self.any(most), least, most) or (
            not too_long and is_sound(text, 0, len(text))
        ):
            pass
        return text


@dataclass
class Outcome:
    """What happened to the texts."""

    strings: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def same(self, name: str, sent: Any, stored: Any) -> None:
        """Counts an accepted text, which must equal what was sent."""
        self.strings += 1
        self.kept[name] += 1
        if stored != sent:
            self.wrong.append(f"{name}: sent {sent!r:.200}, stored {stored!r:.200}")

    def refusal(self, name: str, sent: str, answer: httpx.Response, pointer: str) -> None:
        """Counts a text that must be refused with a pointer to its place."""
        self.strings += 1
        self.refused[name] += 1
        found = answer.json() if answer.status_code < 500 else {}
        places = [one["pointer"] for one in found.get("errors", ())]
        # A pointer leads to the text; of a key of an object to the object, or to what stands under it.
        if not (400 <= answer.status_code < 500 and any(one.startswith(pointer) for one in places)):
            self.wrong.append(
                f"{name}: {sent!r:.200} at {pointer} got {answer.status_code} {answer.text[:300]}"
            )


class Hostile:
    """Sends text to a service, field by field."""

    def __init__(self, caller: Caller, seed: int) -> None:
        self._caller = caller
        self._texts = Texts(seed)
        self.outcome = Outcome()
        self._number = 0

    async def _refused(self, name: str, path: str, body: Any, sent: str, pointer: str, **more: Any) -> None:
        # As ASCII: a lone surrogate has no other way to be sent.
        answer = await self._caller.post(path, content=json.dumps(body).encode(), **more)
        self.outcome.refusal(name, sent, answer, pointer)

    async def names_and_labels(self) -> None:
        """Names of seats, and keys and values of labels."""
        texts, outcome = self._texts, self.outcome
        # No two seats have names that look alike.
        drawn: dict[str, str] = {}
        while len(drawn) < 10:
            name = texts.name(40)
            drawn.setdefault(look_of(name), name)
        names = {str(seat): name for seat, name in enumerate(drawn.values(), 1)}
        labels = {texts.name(64): texts.note(256) for _ in range(30)}
        wish = {"players": 10, "drive": "manual", "names": names, "labels": labels}
        batch, [game] = await self._caller.create(**wish)
        [created, *_] = await self._caller.lines(f"/games/{game}/events", viewer="public")
        view = (await self._caller.get(f"/batches/{batch}")).json()
        for seat, name in names.items():
            outcome.same("name", name, created["names"].get(seat))
        for key, value in labels.items():
            outcome.same("label", key, key if key in view["labels"] else None)
            outcome.same("label", value, view["labels"].get(key))
        for _ in range(4):
            name, value = texts.no_name(40), texts.no_note(256)
            await self._refused("name", "/games", {**wish, "names": {"3": name}}, name, "/names/3")
            await self._refused("label", "/games", {**wish, "labels": {"a": value}}, value, "/labels/a")
            key = texts.no_name(64)
            await self._refused("label", "/games", {**wish, "labels": {key: "a"}}, key, "/labels")

    async def keys(self) -> None:
        """Idempotency keys: printable ASCII and nothing else."""
        body = json.dumps({"drive": "manual"}).encode()
        for _ in range(8):
            self._number += 1
            text = f"{self._texts.any(128)}{self._number}"
            key = text.encode("utf-8", "surrogatepass")
            answer = await self._caller.post("/games", content=body, headers=[(b"idempotency-key", key)])
            if answer.status_code == 201:
                again = await self._caller.post("/games", content=body, headers=[(b"idempotency-key", key)])
                sound = text.isascii() and text.isprintable() and len(text) <= 128
                self.outcome.same("idempotency key", (sound, answer.json()), (True, again.json()))
            else:
                self.outcome.refusal("idempotency key", text, answer, "/idempotency-key")

    async def addresses(self) -> None:
        """Paths and queries: nothing is stored, and nothing breaks."""
        for place in ("/games/@", "/batches/@", "/evaluations/@", "/games?cursor=@", "/evaluations?rater=@"):
            text = self._texts.any(60)
            if place.startswith("/games/") and text in ("", "."):
                continue
            written = quote(text, safe="", errors="surrogatepass")
            answer = await self._caller.get(place.replace("@", written))
            self.outcome.strings += 1
            self.outcome.refused["address"] += 1
            if not 200 <= answer.status_code < 500:
                self.outcome.wrong.append(
                    f"{place}: {text!r:.200} got {answer.status_code} {answer.text[:300]}"
                )

    async def seat(self) -> None:
        """What a seat says, thinks and notes, up to its summary of the first round."""
        texts, outcome, caller = self._texts, self.outcome, self._caller
        wish = {"seats": [{"agent": "remote"}, *[{"agent": "random"}] * 4]}
        created = (await caller.post("/games", json=wish)).json()["games"][0]
        path = f"/games/{created['game_id']}"
        bearer = {"authorization": f"Bearer {created['seats'][0]['token']}"}
        said: list[tuple[str, str]] = []

        spent = 0

        def text(name: str, most: int = 4000, least: int = 0) -> str:
            nonlocal spent
            # An answer has 32 KiB in all.
            said.append((name, texts.sound(most if spent < 4_000 else min(most, 60), least)))
            spent += len(said[-1][1].encode())
            return said[-1][1]

        def unsound() -> str:
            # A seat's CRLF is taken for LF.
            while is_sound((sent := texts.unsound(60, too_long=False)).replace("\r\n", "\n"), 0, 60):
                pass
            return sent

        kind = ""
        while kind != "summarise":
            found = (await caller.get(f"{path}/requests", params={"wait_s": 20}, headers=bearer)).json()
            [request] = found["requests"]
            kind, spent = request["kind"], 0
            act = f"{path}/requests/{request['request_id']}/action"
            action: dict[str, Any] = dict(request["default"])
            wrong: list[tuple[str, str, Any]] = []
            bad_thoughts: list[tuple[str, Any]] = []
            thoughts: list[dict[str, Any]] = [{"type": "choice_explained", "text": text("explanation")}]
            if kind in ("propose_team", "speak", "reconsider"):
                action["text"] = text("utterance")
                wrong.append(("utterance", "/text", {**action, "text": "@"}))
            if request["menu"]:
                thoughts += _speech(request["menu"][0], text)
                bad_thoughts = [
                    ("text", {**thoughts[0], "text": unsound()}),
                    ("think", {**thoughts[3], "think": unsound(), "speak": "so"}),
                ]
            if kind == "summarise":
                notes = {text("summary", 64, 1): text("summary") for _ in range(10)}
                # Two texts may be one key.
                said[:] = [one for one in said if one[0] != "summary"]
                said += [("summary", one) for pair in notes.items() for one in pair]
                action = {"answers": notes}
                wrong.append(("summary", "/answers/a", {"answers": {"a": "@"}}))
            for name, pointer, bad in wrong:
                sent = unsound()
                body = json.loads(json.dumps({"action": bad}).replace('"@"', json.dumps(sent)))
                await self._refused(name, act, body, sent, pointer, headers=bearer)
            body = {"action": action, "thoughts": [*thoughts, "@"] if bad_thoughts else thoughts}
            # As ASCII where a lone surrogate has no other way to be sent.
            more = ",".join(json.dumps(bad) for _, bad in bad_thoughts)
            content = json.dumps(body, ensure_ascii=False).replace('"@"', more).encode()
            answer = await caller.post(act, content=content, headers=bearer)
            if answer.status_code != 200:
                outcome.wrong.append(
                    f"a seat's {kind} {content!r:.2000} got {answer.status_code} {answer.text[:300]}"
                )
                return
            left_out = [one["pointer"] for one in answer.json().get("thoughts_refused", ())]
            places = [f"/thoughts/{len(thoughts) + n}/{field}" for n, (field, _) in enumerate(bad_thoughts)]
            outcome.strings += len(places)
            outcome.refused["thought"] += len(places)
            if left_out != places:
                outcome.wrong.append(f"thoughts left out {left_out}, expected {places}: {more:.300}")
        async with asyncio.timeout(200):
            while True:
                events = await caller.lines(f"{path}/events", viewer="seat:1")
                if any(one["type"] == "round_summarised" for one in events):
                    break
                await asyncio.sleep(0.01)
        stored = Counter(
            _strings_of(one for one in events if one["type"] not in ("game_created", "action_refused"))
        )
        for name, sent in said:
            outcome.same(name, sent, sent if stored[sent] > 0 else None)
            stored[sent] -= 1
        await caller.post(f"{path}/cancel")

    async def imported(self) -> None:
        """Names and speeches of foreign records; the speeches keep control characters."""
        texts, record = self._texts, json.loads(RECORD.read_text("utf-8"))
        drawn: dict[str, str] = {}
        while len(drawn) < len(record["players"]):
            name = texts.name(40)
            drawn.setdefault(look_of(name), name)
        for player, name in zip(record["players"], drawn.values(), strict=True):
            player["name"] = name
        moves = [move for move in record["moves"] if move["type"] == "discuss"]
        for move in moves:
            move["text"] = texts.sound(2000, 1)
        answer = await self._caller.post("/games/import", content=json.dumps(record).encode())
        if answer.status_code != 201:
            self.outcome.wrong.append(f"a record got {answer.status_code} {answer.text[:300]}")
            return
        events = await self._caller.lines(f"/games/{answer.json()['game_id']}/events")
        names = list(events[0]["names"].values())
        for player in record["players"]:
            self.outcome.same("record", player["name"], names[player["seat"]])
        spoken = Counter(_strings_of(events[1:]))
        for move in moves:
            self.outcome.same("record", move["text"], move["text"] if spoken[move["text"]] > 0 else None)
            spoken[move["text"]] -= 1
        named = json.loads(json.dumps(record))
        named["players"][2]["name"] = name = texts.no_name(40)
        await self._refused("record", "/games/import", named, name, "/players/2/name")
        sent = self._texts.chance.choice(("\0", "a\ud800", "\udfff"))
        moves[0]["text"] = sent
        place = record["moves"].index(moves[0])
        await self._refused("record", "/games/import", record, sent, f"/moves/{place}/text")

    async def evaluated(self, items: Sequence[str], words: Sequence[tuple[str, str]]) -> None:
        """Answers to items, and comments of raters."""
        texts, outcome, caller = self._texts, self.outcome, self._caller
        self._number += 1
        rater = {"name": f"r{self._number}"}
        answers = [{"item_id": one, "intentions": [texts.sound(300) for _ in range(10)]} for one in items]
        body = {"dimension": "guessing", "rater": rater, "answers": answers}
        answer = await caller.post("/evaluations", content=json.dumps(body).encode())
        if answer.status_code != 201:
            outcome.wrong.append(f"answers got {answer.status_code} {answer.text[:300]}")
            return
        store = caller.services.evaluations.store
        stored = {row.item_id: row.named for row in await store.answers_of(answer.json()["evaluation_id"])}
        for given in answers:
            for sent, kept in zip(given["intentions"], stored[given["item_id"]], strict=True):
                outcome.same("answer", sent, kept)
        sent = texts.unsound(300)
        bad = {**body, "rater": {"name": "x"}, "answers": [{"item_id": items[0], "intentions": ["a", sent]}]}
        await self._refused("answer", "/evaluations", bad, sent, "/answers/0/intentions/1")
        judged = [
            {"item_id": item, "intention": intention, "think": 3, "comment": texts.sound(2000)}
            for item, intention in words
        ]
        body = {"rater": rater, "judgements": judged}
        answer = await caller.post("/annotations", content=json.dumps(body).encode())
        if answer.status_code != 201:
            outcome.wrong.append(f"comments got {answer.status_code} {answer.text[:300]}")
            return
        query = {"game": words[0][0].partition("/")[0], "rater": rater["name"]}
        kept = Counter(
            one["comment"] for one in (await caller.get("/annotations", params=query)).json()["judgements"]
        )
        for one in judged:
            outcome.same("comment", one["comment"], one["comment"] if kept[one["comment"]] else None)
        sent = texts.unsound(2000)
        bad = {**body, "revise": True, "judgements": [{**judged[0], "comment": sent}]}
        await self._refused("comment", "/annotations", bad, sent, "/judgements/0/comment")
        for name, path, where in (
            ("rater", "/annotations", {**body, "revise": True}),
            ("rater", "/evaluations", {"dimension": "guessing", "answers": answers}),
        ):
            sent = f"{texts.unsound(80, 1)}\0"
            await self._refused(name, path, {**where, "rater": {"name": sent}}, sent, "/rater/name")

    async def key_names(self, count: int) -> None:
        """Names of API keys, which come from the command line."""
        store = KeyStore(self._caller.services.database)
        for _ in range(count):
            self._number += 1
            name = self._texts.sound(60, 1)
            key = ApiKey(f"k_{self._number}", name, f"{self._number:064x}", ("games:read",), 1)
            await store.add(key)
            self.outcome.same(
                "key name", name, {one.key_id: one.name for one in await store.keys()}[key.key_id]
            )


def _speech(intention: str, text: Any) -> list[dict[str, Any]]:
    return [
        {
            "type": "beliefs_formed",
            "beliefs": [
                {"about": 2, "reasoning": text("belief"), "snippets": [text("snippet") for _ in range(4)]}
            ],
        },
        {
            "type": "intentions_selected",
            "stage": "final",
            "intentions": [{"id": intention, "reason": text("reason")}],
        },
        {"type": "speech_drafted", "stage": "refinement", "think": text("draft"), "speak": text("draft")},
        {
            "type": "readings_imagined",
            "reveals_role": False,
            "readings": [{"by": text("reading", 64), "text": text("reading")} for _ in range(3)],
        },
    ]


def _strings_of(value: Any) -> Iterator[str]:
    """Every text in a value, including the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings_of(inner)
    elif not isinstance(value, int | float | bool | None):
        for inner in value:
            yield from _strings_of(inner)


async def hostile(database_url: str, strings: int, seed: int) -> dict[str, Any]:
    """Sends at least this many texts. ``wrong`` is empty if all is well."""
    async with calling(database_url) as caller:
        with structlog.testing.capture_logs() as logged:
            game = (await caller.played(seeds={"from": 40}))[1][0]
            items = await _items(caller, game, "guessing")
            words = [
                (one["id"], asked["id"])
                for one in await _items(caller, game, "following")
                for asked in one["asked"]
            ]
            sender = Hostile(caller, seed)
            while sender.outcome.strings < strings:
                await sender.names_and_labels()
                await sender.keys()
                await sender.addresses()
                await sender.seat()
                await sender.imported()
                await sender.evaluated([one["id"] for one in items[:20]], words[:20])
            # At the end: a service with keys lets in nobody without.
            await sender.key_names(10)
        # Warnings are of games that are cancelled while somebody answers in them.
        loud = [
            one
            for one in logged
            if one["log_level"] in ("error", "critical") or "exc_info" in one or "sql" in str(one).lower()
        ]
    outcome = sender.outcome
    return {
        "strings": outcome.strings,
        "kept": dict(sorted(outcome.kept.items())),
        "refused": dict(sorted(outcome.refused.items())),
        "wrong": outcome.wrong + [f"logged: {one!r:.300}" for one in loud],
    }


async def _items(caller: Caller, game: str, dimension: str) -> list[dict[str, Any]]:
    query = {"game": game, "dimension": dimension, "limit": 200}
    found: list[dict[str, Any]] = (await caller.get("/evaluations/items", params=query)).json()["items"]
    return found


def main() -> int:
    """The command. Exits with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Hostile text through every field.")
    parser.add_argument("strings", type=int, nargs="?", default=2000, help="How many. [2000]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database-url", help="Left out: a SQLite file that is gone afterwards.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        url = given.database_url or f"sqlite:///{Path(directory) / 'games.sqlite'}"
        done = asyncio.run(hostile(url, given.strings, given.seed))
    json.dump(done, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if done["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
