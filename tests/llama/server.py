"""llama.cpp's own HTTP server in a process of its own: ``python -m tests.llama.server MODEL``."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx

from tests.app.calling import WITHIN_S
from tests.llama.tiny import write
from tests.ports import steady_port

__all__ = ["AT_ONCE", "serving", "stripping"]

AT_ONCE: Final = 4
"""The number of requests that the server handles at the same time."""

_ROOM: Final = 4 * 32_768
"""Tokens of context for all requests together."""


def serve(model: str) -> None:
    """Serves until its standard input ends."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    # Port 0 is not taken for "any", so a free one is looked for.
    params.port = steady_port()
    params.n_ctx = _ROOM
    params.n_parallel = AT_ONCE
    params.kv_unified = True
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_ram_mib = 0
    params.warmup = False
    params.use_jinja = True
    # The likelihoods of a model of random weights are all alike: nothing to cut off.
    params.sampling.samplers = "temperature"
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The address of a server with a tiny random model, which is written to the directory."""
    model = directory / "tiny.gguf"
    write(model)
    with _process("tests.llama.server", str(model)) as url:
        until = time.monotonic() + WITHIN_S
        while httpx.get(f"{url}/health", timeout=WITHIN_S).status_code != 200:
            assert time.monotonic() < until, "the server does not get ready"
            time.sleep(0.05)
        yield url


@contextlib.contextmanager
def stripping(target: str) -> Iterator[str]:
    """The address of a proxy that keeps ``response_format`` from the server at ``target``."""
    with _process("tests.llama.proxy", target) as url:
        yield url


@contextlib.contextmanager
def _process(module: str, argument: str) -> Iterator[str]:
    """A process that prints its address, and ends when its input does."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), f"{module} did not start"
        yield url
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


if __name__ == "__main__":
    serve(sys.argv[1])
