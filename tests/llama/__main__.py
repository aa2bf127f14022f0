"""The whole set of games against llama.cpp, one line each: ``python -m tests.llama [MECHANISM …]``."""

import sys
import tempfile
import time
from pathlib import Path

from engine.events import ReplyUnusable
from tests.llama.games import Game, checked_noise, checked_prose, played
from tests.llama.server import serving, stripping

SHORT = 60
"""The most tokens of an answer that only chance ends."""

GAMES = (
    *(("direct", 5), ("contemplation", 5), ("one_pass", 5), ("paper", 5)),
    *(("one_pass", 10), ("paper", 10)),
)


def main() -> None:
    wanted = set(sys.argv[1:])
    print("server       mechanism      players   seconds  calls    prompt  completion  unusable")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url, stripping(url) as ignoring:
        for mechanism, players in GAMES:
            if wanted and mechanism not in wanted:
                continue
            started = time.perf_counter()
            game = played(url, mechanism, players)
            show("grammar", game, time.perf_counter() - started)
            checked_noise(game)
            started = time.perf_counter()
            game = played(ignoring, mechanism, players, max_output_tokens=SHORT)
            show("no format", game, time.perf_counter() - started)
            checked_prose(game)


def show(server: str, game: Game, seconds: float) -> None:
    unusable = len(game.of(ReplyUnusable))
    print(
        f"{server:12} {game.mechanism:14} {game.players:7} {seconds:9.1f} {game.calls:6} "
        f"{game.prompt_tokens:9,} {game.completion_tokens:11,} {unusable:9}",
        flush=True,
    )


if __name__ == "__main__":
    main()
