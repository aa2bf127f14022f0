"""CPU of one streamed call, for answers whose pieces come at different paces: ``python -m bench.pieces``.

A server in a process of its own sends 300 pieces; only the client's CPU is counted.
"""

import asyncio
import json
import subprocess
import sys
import time
from typing import Any, Final

from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, Form, Message

PIECES: Final = 300
_FORM: Final = Form("vote", {"type": "object", "properties": {"reason": {"type": "string"}}})
_ASKED: Final = [Message("user", "x" * 2000)]


def _event(delta: dict[str, str], finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"object": "chat.completion.chunk", "model": "fake", "choices": choices, **more}
    data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve(gap_s: float) -> None:
    """Answers every request on a free port, which it prints, with a piece every ``gap_s`` seconds."""
    words = ['{"reason": "', *["word "] * (PIECES - 2), '"}']
    usage = {"prompt_tokens": 500, "completion_tokens": PIECES, "total_tokens": 500 + PIECES}
    end = _event({}, "stop", usage=usage) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(asked.split(b"content-length:")[1].split(b"\r\n")[0]))
                writer.write(head)
                for word in words:
                    writer.write(_event({"content": word}))
                    if gap_s:
                        await asyncio.sleep(gap_s)
                writer.write(end)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _cpu_ms(url: str, at_once: int, rounds: int) -> float:
    """Milliseconds of CPU a call."""
    model = OpenAIModel(Endpoint("bench", url, "fake", parallel=at_once))

    async def together() -> None:
        calls = (model.complete(_ASKED, _FORM, temperature=0.8, max_tokens=4096) for _ in range(at_once))
        for reply in await asyncio.gather(*calls):
            assert reply.value is not None

    await together()
    began = time.process_time()
    for _ in range(rounds):
        await together()
    spent = time.process_time() - began
    await model.aclose()
    return 1000 * spent / (rounds * at_once)


def main() -> None:
    for gap_ms in (0, 2, 5, 10, 30):
        command = [sys.executable, "-m", "bench.pieces", "serve", str(gap_ms / 1000)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
            for at_once in (1, 20):
                spent = asyncio.run(_cpu_ms(url, at_once, rounds=1 if gap_ms > 5 else 3))
                print(
                    f"a piece every {gap_ms:2} ms, {at_once:2} calls at once: {spent:5.1f} ms of CPU a call"
                )
            server.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve(float(sys.argv[2])))
    else:
        main()
