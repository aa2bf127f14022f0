"""``python -m tests.evaluators.authors [games]``: figures of so many made games, against the plain ones."""

import random
import sys
import time

from tests.evaluators.authors.folders import differing
from tests.evaluators.authors.making import make_run, spoilt
from tests.evaluators.authors.plainly import expected_of

wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 120
games = seed = figures = differ = 0
started = time.perf_counter()
while games < wanted:
    seed += 1
    count = seed % 4 + 1
    files = make_run(seed, count, seed % 3 + 2, agreement=seed % 5 != 0, answers=seed % 7 != 0)
    compared, faults = differing(spoilt(files, random.Random(seed)), expected_of(files))
    games += count
    figures += compared
    differ += len(faults)
    for fault in faults[:5]:
        sys.stdout.write(f"run {seed}: {fault}\n")
sys.stdout.write(f"{games} games in {seed} runs, {figures} figures, {time.perf_counter() - started:.0f} s\n")
sys.stdout.write(f"{figures - differ} agree, {differ} differ\n")
sys.exit(differ > 0)
