"""Plays one seat at random, with `websockets` alone: python bot.py ws://localhost:8000/ws GAME TOKEN"""

import asyncio
import contextlib
import json
import random
import re
import sys
import uuid

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

COME_BACK = {1001, 1005, 1006, 1011, 1012, 1013, 4408, 4413, 4429}


def choose(request: dict, events: list) -> dict:
    """What to answer: any legal action, or a sentence. `events` is all that this seat has seen."""
    if request["legal"]:
        return random.choice(request["legal"])
    if request["kind"] == "speak":
        return {"text": f"I have seen {len(events)} things happen, and I trust nobody yet."}
    return request["default"]


class Bot:
    def __init__(self, game: str, token: str) -> None:
        self.identify = {"t": "identify", "v": 1, "game": game, "token": token, "client": "example/1.0"}
        self.events = []
        self.given = {}  # our answers, by request
        self.failures = 0
        self.last_fault = ""  # what was printed last

    async def play(self, url: str) -> None:
        while True:
            code, wait = 1006, 0.0  # broken, unless the close says otherwise
            try:
                async with connect(url, subprotocols=["avalon.v1"]) as socket:
                    self.last_fault = ""
                    with contextlib.suppress(ConnectionClosed):
                        await self.talk(socket)
                code, reason = socket.close_code or 1006, socket.close_reason or ""
                wait = int("0" + "".join(re.findall(r"retry_after_ms=(\d+)", reason))) / 1000
            except (InvalidStatus, OSError, EOFError, TimeoutError) as fault:
                if isinstance(fault, InvalidStatus) and fault.response.status_code < 500:
                    raise
                if self.last_fault != (words := str(fault) or type(fault).__name__):
                    self.last_fault = words
                    print("trying again:", words, file=sys.stderr)
            if code not in COME_BACK:  # 1000: the game is over
                sys.exit(0 if code == 1000 else f"closed with {code}: {reason}")
            await asyncio.sleep(wait + random.uniform(0, min(30, 0.5 * 2**self.failures)))
            self.failures += 1

    async def talk(self, socket) -> None:
        await socket.send(json.dumps({**self.identify, "after": len(self.events)}))  # continue there
        async for text in socket:
            frame = json.loads(text)
            if frame["t"] == "events":
                self.events += frame["items"]
                print(*(event["type"] for event in frame["items"]))
                self.failures = 0
            elif frame["t"] == "request":
                await self.answer(socket, frame)
            elif frame["t"] == "error":
                print(frame["code"], frame["detail"], file=sys.stderr)
                again = frame.get("request")  # what is open now; after other codes it also comes separately
                if again and frame["code"] in {"illegal-action", "invalid-action"}:
                    self.given.pop(again["request_id"], None)
                    await self.answer(socket, again)

    async def answer(self, socket, request: dict) -> None:
        name = request["request_id"]
        if name not in self.given:  # asked again after a break: the same answer
            action = choose(request, self.events)
            act = {"t": "act", "id": uuid.uuid4().hex, "request_id": name, "action": action}
            self.given[name] = json.dumps(act)
        with contextlib.suppress(ConnectionClosed):  # frames from before the close are still to be read
            await socket.send(self.given[name])


asyncio.run(Bot(*sys.argv[2:4]).play(sys.argv[1]))
