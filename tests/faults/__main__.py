"""Plays twenty games with every fault: ``python -m tests.faults [GAMES]`` prints a line for each group."""

import asyncio
import sys
import tempfile
import time

from tests.faults.games import shown, table, trials


def main() -> None:
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(shown(f"sqlite:///{folder}/games.sqlite", list(trials(each))))
    print(table(found))
    print(
        f"{sum(one.trial.games for one in found)} games in {time.perf_counter() - started:.0f} s: all ended"
    )


if __name__ == "__main__":
    main()
