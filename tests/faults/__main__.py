"""Plays twenty games with every fault: ``python -m tests.faults [GAMES]`` prints a line for each group, and
on standard error what is over so far. Twenty games take about seven minutes of processor time.
"""

import asyncio
import sys
import tempfile
import time

from tests.faults.games import shown, table, trials


def main() -> None:
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    started = time.perf_counter()

    def tell(words: str) -> None:
        print(f"{time.perf_counter() - started:5.0f} s  {words}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(shown(f"sqlite:///{folder}/games.sqlite", list(trials(each)), tell))
    print(table(found))
    print(
        f"{sum(one.trial.games for one in found)} games in {time.perf_counter() - started:.0f} s: all ended"
    )


if __name__ == "__main__":
    main()
