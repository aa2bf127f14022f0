"""Finds games for your bot and starts it for each: python finder.py URL NAME VERSION GAMES COMMAND

    KEY=ik_... python finder.py http://localhost:8000 owl 1.0 3 python bot.py {ws} {game} {token}

plays 3 rated games, after a check against itself. Without KEY, on a server without keys, games are casual.
"""

import asyncio
import json
import os
import random
import sys
import urllib.request

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

URL, NAME, VERSION, GAMES, *COMMAND = sys.argv[1:]
KEY = os.environ.get("KEY")
WS = URL.replace("http", "ws", 1) + "/ws"
GIVE_UP = {4400, 4401, 4403, 4409, 4426}


def call(path: str, body: dict | None = None) -> dict:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {KEY}"} if KEY else {})}
    data = None if body is None else json.dumps(body).encode()  # without a body it is a GET
    request = urllib.request.Request(URL + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        sys.exit(f"{path}: {refused.code} {refused.read().decode()}")


async def play(game: str, token: str) -> None:
    command = [part.format(ws=WS, url=URL, game=game, token=token) for part in COMMAND]
    code = await (await asyncio.create_subprocess_exec(*command)).wait()
    print("played", game, f"exit status {code}", flush=True)


async def check() -> None:
    bot = call("/bots", {"name": NAME, "version": VERSION})
    if bot["checked_at"] is None:
        game = call(f"/bots/{bot['bot_id']}/check", {})
        await asyncio.gather(*(play(game["game_id"], seat["token"]) for seat in game["seats"]))
        if (bot := call(f"/bots/{bot['bot_id']}"))["checked_at"] is None:
            sys.exit(f"the check was not passed: {bot['check']}")


async def listen(started: dict[str, asyncio.Task]) -> None:
    terms = {"bot": NAME, "version": VERSION, "rated": bool(KEY), "at_least": 2, "wait_s": 30}
    seeking = ""
    async with connect(f"{WS}/lobby", subprotocols=["avalon.v1"]) as socket:
        await socket.send(json.dumps({"t": "identify", "v": 1, "token": KEY, "bot": NAME}))
        async for text in socket:  # at least every 10 s: a beat
            frame = json.loads(text)
            for game in frame["games"] if frame["t"] == "snapshot" else [frame]:
                if frame["t"] in {"snapshot", "game_started"} and game["game"] not in started:
                    started[game["game"]] = asyncio.create_task(play(game["game"], game["token"]))
            if all(task.done() for task in started.values()):
                if len(started) >= int(GAMES):
                    return
                seek = await asyncio.to_thread(call, "/seeks", terms)  # the open one, if there is one
                if seek["status"] == "open" and seek["seek_id"] != seeking:
                    print("seeking; nobody else yet", flush=True)
                    seeking = seek["seek_id"]


async def main() -> None:
    if KEY:
        await check()
    started, failures, last_fault = {}, 0, ""
    while len(started) < int(GAMES) or not all(task.done() for task in started.values()):
        try:
            await listen(started)
        except (OSError, InvalidHandshake, ConnectionClosed) as fault:
            if isinstance(fault, ConnectionClosed) and fault.rcvd and fault.rcvd.code in GIVE_UP:
                sys.exit(str(fault))
            if str(fault) != last_fault:
                print("trying again:", last_fault := str(fault), file=sys.stderr)
        failures += 1
        await asyncio.sleep(random.uniform(0, min(30, 0.5 * 2**failures)))


asyncio.run(main())
