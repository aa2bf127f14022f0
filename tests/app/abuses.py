"""What a client may do to the socket, and how each ends.

``python -m tests.app.abuses --times 1000`` does each so often against one service, and prints how the
connections ended and whether anything was left over.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from app.base.clock import now_ms
from app.base.errors import AlreadyOver
from app.edge.auth import OPERATOR, hash_of, new_key
from app.edge.tokens import Grant, Secrets
from app.games.schemas import NewGames
from app.protocol.messages import MAX_IDENTIFY, MAX_MESSAGE
from app.store.games import new_id
from app.store.keys import KeyStore
from app.store.rows import ApiKey
from tests.app.real_server import Served, local_settings, running_server
from tests.app.twins import SocketWire

SETTLE_S = 200.0
"""Seconds to wait until the service has cleaned up after a broken connection."""


@dataclass
class Target:
    """A service with keys, a manual game, and valid and invalid credentials for the game."""

    served: Served
    game: str
    other: str
    revoked: str
    """A revoked key."""
    seated: list[str] = field(default_factory=list)
    """Games that wait for a seat; they are cancelled at the end."""

    async def end_games(self) -> None:
        for game in self.seated:
            with contextlib.suppress(AlreadyOver):
                await self.served.services.games.canceller.cancel(game)
        self.seated.clear()

    def token(self, seat: int = 2, *, game: str | None = None, epoch: int = 1, for_s: int = 600) -> str:
        grant = Grant.for_seat(game or self.game, seat, epoch, now_ms() // 1000 + for_s)
        return self.served.services.keys.mint(grant)

    def watch(self) -> str:
        return self.served.services.keys.mint(Grant.to_watch(now_ms() // 1000 + 600, game=self.game))


async def target(served: Served) -> Target:
    """Makes the games and the keys."""
    games = [await _manual(served) for _ in range(2)]
    await served.services.keys.raise_epoch(games[0], 3)
    revoked = new_key()
    key = ApiKey(new_id("k"), "revoked", hash_of(revoked), ("games:read",), now_ms(), revoked_at=now_ms())
    await KeyStore(served.services.database).add(key)
    return Target(served, games[0], games[1], revoked)


async def _manual(served: Served) -> str:
    wish = NewGames.model_validate({"drive": "manual", "seats": [{"agent": "random"}]})
    made = await served.services.games.create(wish)
    return made.games[0].game_id


async def _ending(wire: SocketWire) -> str:
    """How the connection ends: its close code, or ``cut`` if there is no close frame."""
    try:
        async with asyncio.timeout(SETTLE_S):
            while (frame := await wire.frame())["t"] != "close":
                pass
    except (asyncio.IncompleteReadError, ConnectionError):
        return "cut"
    return str(frame["code"])


async def _opened(target: Target) -> SocketWire:
    wire = await SocketWire.to(target.served.url)
    await wire.open()
    return wire


async def _welcomed(target: Target, token: str | None = None) -> SocketWire:
    wire = await _opened(target)
    wire.say({"t": "identify", "v": 1, "game": target.game, "token": token or target.watch()})
    await wire.until(1)
    return wire


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, rsv: int = 0, mask: bool = True) -> bytes:
    """The bytes of a frame, valid or not."""
    head = bytes([(fin << 7) | (rsv << 4) | opcode])
    bit = 0x80 if mask else 0
    if len(data) < 126:
        size = bytes([bit | len(data)])
    elif len(data) < 1 << 16:
        size = bytes([bit | 126]) + struct.pack(">H", len(data))
    else:
        size = bytes([bit | 127]) + struct.pack(">Q", len(data))
    return head + size + (b"\0\0\0\0" if mask else b"") + data


Abuse = Callable[[Target], Awaitable[str]]


def _first(data: bytes) -> Abuse:
    """Sends these bytes instead of identify."""

    async def abuse(target: Target) -> str:
        wire = await _opened(target)
        wire.send(data)
        ended = await _ending(wire)
        await wire.close()
        return ended

    return abuse


def _then(*data: bytes) -> Abuse:
    """Sends these bytes after welcome."""

    async def abuse(target: Target) -> str:
        wire = await _welcomed(target)
        for one in data:
            wire.send(one)
        ended = await _ending(wire)
        await wire.close()
        return ended

    return abuse


def _identify(make: Callable[[Target], Mapping[str, Any]]) -> Abuse:
    async def abuse(target: Target) -> str:
        wire = await _opened(target)
        sound = {"t": "identify", "v": 1, "game": target.game, "token": target.watch()}
        wire.say({name: value for name, value in {**sound, **make(target)}.items() if value is not None})
        ended = await _ending(wire)
        await wire.close()
        return ended

    return abuse


async def _too_often(target: Target) -> str:
    """A bot that reconnects without a pause, for ever."""
    game = await _manual(target.served)
    token = target.token(game=game)
    ended = ""
    for _ in range(40):
        wire = await _opened(target)
        wire.say({"t": "identify", "v": 1, "game": game, "token": token, "after": 10**6})
        ended = await _ending(wire)
        await wire.close()
        if ended != "4416":
            break
    return ended


def _abort(wire: SocketWire) -> None:
    """Resets the connection (RST) without a close frame."""
    sock = wire.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.abort()


async def _vanish(target: Target) -> str:
    _abort(await _welcomed(target))
    return "gone"


async def _vanish_before_identify(target: Target) -> str:
    _abort(await _opened(target))
    return "gone"


async def _vanish_in_the_handshake(target: Target) -> str:
    wire = await SocketWire.to(target.served.url)
    wire.send(b"GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: webso")
    _abort(wire)
    return "gone"


async def _vanish_in_a_frame(target: Target) -> str:
    wire = await _welcomed(target)
    wire.send(frame(1, b'{"t":"ping","id":"1"}')[:9])
    _abort(wire)
    return "gone"


async def _vanish_during_a_commit(target: Target) -> str:
    wires = [await _welcomed(target) for _ in range(3)]
    stepping = asyncio.create_task(target.served.services.games.stepper.step(target.game, "action", OPERATOR))
    await asyncio.sleep(0)
    for wire in wires:
        _abort(wire)
    with contextlib.suppress(Exception):
        await stepping  # the game may be over by now
    return "gone"


async def _wrong_act(target: Target) -> str:
    wire = await _welcomed(target)
    wire.say({"t": "act", "id": "a", "request_id": "1.1.vote.4", "action": {"approve": True}})
    while (said := await wire.frame())["t"] not in ("error", "ack"):
        pass
    await wire.close()
    return str(said["code"])


async def _silent(target: Target) -> str:
    wire = await _opened(target)
    ended = await _ending(wire)
    await wire.close()
    return ended


async def _seated(target: Target, **wish: Any) -> tuple[SocketWire, str]:
    """A connection that holds seat 2 of a new game and was asked for a speech, and the game."""
    kinds = [{"agent": "remote" if seat == 2 else "random"} for seat in range(1, 6)]
    made = await target.served.services.games.create(NewGames.model_validate({"seats": kinds, **wish}))
    game = made.games[0].game_id
    target.seated.append(game)
    return await _sit(target, game), game


async def _sit(target: Target, game: str, **more: Any) -> SocketWire:
    wire = await _opened(target)
    wire.say({"t": "identify", "v": 1, "game": game, "token": target.token(game=game), **more})
    async with asyncio.timeout(SETTLE_S):
        await wire.until(1, asked="1.1.speak.2")
    return wire


async def _answered(wire: SocketWire, request: str, action: Any, name: str = "a") -> dict[str, Any]:
    wire.say({"t": "act", "id": name, "request_id": request, "action": action})
    async with asyncio.timeout(SETTLE_S):
        while (said := await wire.frame()).get("re") != name:
            pass
    return said


def _acts(request: str, *actions: Any, **wish: Any) -> Abuse:
    """Sends these answers one after another. Returns the outcome of the last."""

    async def abuse(target: Target) -> str:
        wire, _ = await _seated(target, **wish)
        said: dict[str, Any] = {}
        for number, action in enumerate(actions):
            said = await _answered(wire, request, action, f"a{number}")
        await wire.close()
        left = said.get("attempts_left")
        return str(said.get("code") or f"duplicate {said['duplicate']}") + (
            "" if left is None else f" {left}"
        )

    return abuse


async def _two_copies(target: Target) -> str:
    first, game = await _seated(target)
    second = await _sit(target, game)
    ended = await _ending(first)
    await first.close()
    assert (await _answered(second, "1.1.speak.2", {"text": "so"}))["t"] == "ack"
    await second.close()
    return ended


async def _late(target: Target) -> str:
    wire, _ = await _seated(target, deadlines_s={"speak": 3})
    await wire.until(wire.seq + 1)  # the default was played
    said = await _answered(wire, "1.1.speak.2", {"text": "so"})
    await wire.close()
    return str(said["code"])


async def _reader_that_acts(target: Target) -> str:
    wire, game = await _seated(target)
    reader = await _sit(target, game, sit=False)
    said = await _answered(reader, "1.1.speak.2", {"text": "so"})
    for one in (wire, reader):
        await one.close()
    return str(said["code"])


async def _gone_with_an_act_under_way(target: Target) -> str:
    """Sends an answer, disconnects before the ack, and sends it again: it counts once."""
    wire, game = await _seated(target)
    wire.say({"t": "act", "id": "a", "request_id": "1.1.speak.2", "action": {"text": "so"}})
    _abort(wire)
    again = await _opened(target)
    again.say({"t": "identify", "v": 1, "game": game, "token": target.token(game=game)})
    await again.until(1)
    said = await _answered(again, "1.1.speak.2", {"text": "so"}, "b")
    await again.close()
    return str(said["t"])


def _json(value: Any) -> bytes:
    return frame(1, json.dumps(value).encode())


_PING = _json({"t": "ping", "id": "1"})

ABUSES: Mapping[str, tuple[Abuse, str]] = {
    # frames that are none
    "a frame without a mask": (_first(frame(1, b"{}", mask=False)), "1002"),
    "a compressed frame": (_first(frame(1, b"{}", rsv=4)), "1002"),
    "an unknown opcode": (_first(frame(3, b"{}")), "1002"),
    "a continuation of nothing": (_first(frame(0, b"{}")), "1002"),
    "a ping in fragments": (_then(frame(9, b"x", fin=False)), "1002"),
    "a ping that is too long": (_then(frame(9, b"x" * 126)), "1002"),
    "a close with an invalid code": (_then(frame(8, struct.pack(">H", 1005))), "1002"),
    # invalid messages
    "binary": (_first(frame(2, b"\0\1")), "1003"),
    "broken UTF-8": (_first(frame(1, b"\xff\xfe")), "1007"),
    "no JSON": (_first(frame(1, b"hello?")), "4400"),
    "NaN": (_first(frame(1, b'{"t":"identify","v":1,"game":"g","after":NaN}')), "4400"),
    "a key twice": (_first(frame(1, b'{"t":"identify","v":1,"v":1,"game":"g"}')), "4400"),
    "too deep": (_first(frame(1, b'{"a":' * 400 + b"1" + b"}" * 400)), "4400"),
    "a long identify": (_first(_json({"t": "identify", "client": "x" * MAX_IDENTIFY})), "1009"),
    "a message too large": (_then(frame(1, b"x" * (MAX_MESSAGE + 1))), "1009"),
    "the same in fragments": (
        _then(*[frame(1 if not n else 0, b"x" * 9000, fin=False) for n in range(4)]),
        "1009",
    ),
    "three that cannot be read": (_then(*[frame(1, b"{}")] * 3), "4400"),
    "a flood": (_then(_PING * 60), "4429"),
    # who, where, from when on
    "never identifies": (_silent, "4408"),
    "ping before identify": (_first(_PING), "4400"),
    "identifies three times more": (_then(*[_json({"t": "identify", "v": 1, "game": "g_a"})] * 3), "4400"),
    "no token": (_identify(lambda at: {"token": None}), "4401"),
    "a wrong token": (_identify(lambda at: {"token": "ik_" + "x" * 43}), "4401"),
    "a revoked key": (_identify(lambda at: {"token": at.revoked}), "4401"),
    "an expired token": (_identify(lambda at: {"token": at.token(for_s=-1)}), "4401"),
    "a replaced token": (_identify(lambda at: {"token": at.token(3)}), "4401"),
    "a token of another service": (
        _identify(lambda at: {"token": Secrets(["x" * 64]).mint(Grant.for_seat(at.game, 2, 1, 2**40))}),
        "4401",
    ),
    "a token of another game": (_identify(lambda at: {"token": at.token(game=at.other)}), "4403"),
    "an unknown game": (_identify(lambda at: {"game": "g_none"}), "4403"),
    "another seat's eyes": (_identify(lambda at: {"viewer": "seat:1"}), "4403"),
    "everybody's eyes": (_identify(lambda at: {"viewer": "full"}), "4403"),
    "an after of the wrong kind": (_identify(lambda at: {"after": "7"}), "4400"),
    "an after beyond the head": (_identify(lambda at: {"after": 10**6}), "4416"),
    "another version": (_identify(lambda at: {"v": 2}), "4426"),
    "identify again and again": (_too_often, "4429"),
    "an act of a watcher": (_wrong_act, "unknown-request"),
    # seats
    "an act out of turn": (_acts("1.1.vote.2", {"approve": True}), "unknown-request"),
    "an act for another seat": (_acts("1.1.speak.3", {"text": "so"}), "unknown-request"),
    "three that cannot be read as an action": (_acts("1.1.speak.2", *[{"text": 7}] * 3), "invalid-action 0"),
    "an action of another kind": (_acts("1.1.speak.2", {"approve": True}), "invalid-action 2"),
    "the same act again": (_acts("1.1.speak.2", *[{"text": "so"}] * 2), "duplicate True"),
    "another act afterwards": (_acts("1.1.speak.2", {"text": "so"}, {"text": "no"}), "already-answered"),
    "a late act": (_late, "too-late"),
    "an act of one who only reads": (_reader_that_acts, "unknown-request"),
    "two copies of one bot": (_two_copies, "4409"),
    "gone with an act under way": (_gone_with_an_act_under_way, "ack"),
    # peers that go
    "gone in the handshake": (_vanish_in_the_handshake, "gone"),
    "gone before identify": (_vanish_before_identify, "gone"),
    "gone while watching": (_vanish, "gone"),
    "gone in the middle of a frame": (_vanish_in_a_frame, "gone"),
    "gone during a commit": (_vanish_during_a_commit, "gone"),
}
"""Each abuse by name: the function that does it, and how its connection must end."""


def _left_over(served: Served) -> list[str]:
    names = {"socket in", "socket out", "page", "row", "places", "relay"}
    tasks = [task.get_name() for task in asyncio.all_tasks() if task.get_name() in names]
    return tasks + [f"watch of {name}" for name in served.services.feed._watches]


async def settled(served: Served) -> list[str]:
    """What connections have left behind after enough time to clean up; it should be nothing."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S):
            while _left_over(served):  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.05)
    return _left_over(served)


async def abused(times: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """Does every abuse this many times. ``wrong`` names those that did not end as they must."""
    endings: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as directory:
        settings = local_settings(
            f"sqlite:///{Path(directory) / 'games.sqlite'}", api_key="ik_" + "o" * 43, identify_within_s=12
        )
        async with running_server(settings) as served:
            at = await target(served)
            await _wrong_act(at)  # everything is loaded and warm
            await settled(served)
            before = psutil.Process().num_fds()
            for name, (abuse, _) in ABUSES.items():
                if not only or name in only:
                    for start in range(0, times, 10):
                        many = await asyncio.gather(*(abuse(at) for _ in range(min(10, times - start))))
                        endings.setdefault(name, Counter()).update(many)
                        await at.end_games()
            left = await settled(served)
            well = await _wrong_act(at) == "unknown-request"
            await settled(served)
            # A few of the database's and the selector's own come and go.
            more_files = psutil.Process().num_fds() - before
    wrong = {name: dict(found) for name, found in endings.items() if set(found) != {ABUSES[name][1]}}
    return {
        "abuses": len(endings),
        "times": times,
        "wrong": wrong,
        "left_over": left,
        "still_serves": well,
        "more_open_files": more_files,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.app.abuses", description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=10)
    report = asyncio.run(abused(parser.parse_args(arguments).times))
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if report["wrong"] or report["left_over"] or not report["still_serves"] else 0


if __name__ == "__main__":
    sys.exit(main())
