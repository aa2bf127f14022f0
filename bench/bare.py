"""The baseline: the least that a server of answers does. A FastAPI socket reads an answer, commits one row
together with whatever else waits, acknowledges it, and sends one event to the five sockets of its group.

The same server, loop and settings as the service's, and nothing else: no game, no rules, no credentials.
``/N`` joins group N; the first message is the number of answers that the socket will give. Run by
``bench.bots``.
"""

import asyncio
import queue
import sqlite3
import sys
import threading
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, WebSocket

from app.serving.server import listen, new_loop
from bench.broadcast import bare_config
from bench.errands import answer

app = FastAPI()
groups: dict[str, set[WebSocket]] = {}
waiting: queue.SimpleQueue[tuple[tuple[str, str], asyncio.Future[None]]] = queue.SimpleQueue()

_EVENT = orjson.dumps(
    {"t": "events", "items": [{"seq": 1, "type": "utterance", "seat": 1, "text": "I am undecided."}]}
).decode()


def commit_rows(file: str) -> None:
    """Commits rows, all that wait in one transaction."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE answers (socket TEXT, text TEXT)")
    while True:
        jobs = [waiting.get()]
        while not waiting.empty():
            jobs.append(waiting.get())
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO answers VALUES (?, ?)", [row for row, _ in jobs])
        database.execute("COMMIT")
        jobs[0][1].get_loop().call_soon_threadsafe(_tell, [done for _, done in jobs])


def _tell(committed: list[asyncio.Future[None]]) -> None:
    for done in committed:
        done.set_result(None)


@app.websocket("/{group}")
async def serve(websocket: WebSocket, group: str) -> None:
    await websocket.accept()
    members = groups.setdefault(group, set())
    members.add(websocket)
    await websocket.send_text('{"t":"welcome"}')
    left = int(await websocket.receive_text())
    await _ask(websocket, left)
    while left:
        text = await websocket.receive_text()
        act: dict[str, Any] = orjson.loads(text)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.put(((group, text), done))
        await done
        left -= 1
        await websocket.send_text(orjson.dumps({"t": "ack", "re": act["id"]}).decode())
        for member in tuple(members):
            await member.send_text(_EVENT)
        await _ask(websocket, left)
    members.discard(websocket)
    await websocket.close()


async def _ask(websocket: WebSocket, left: int) -> None:
    """Tells the bot to answer again."""
    if left:
        await websocket.send_text(f'{{"t":"request","request_id":"{left}","kind":"vote"}}')


async def main(file: str) -> None:
    threading.Thread(target=commit_rows, args=(file,), daemon=True).start()
    config = bare_config(app)
    sockets = listen("127.0.0.1", 0)
    answer(sockets[0].getsockname()[1])
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(sys.argv[1]))
