"""Two versions of this tree, measured in turns: ``python -m bench.compare OLD_TREE``.

OLD_TREE is a checkout of another version, as ``git worktree add OLD_TREE VERSION`` makes it. Each tree
measures itself: with its own ``bench``, in processes of its own, with its own ``.venv`` if it has one. They
take turns, so that whatever else the machine does slows down both. Run it on an idle machine all the same;
the range over the rounds shows how much is noise. Rows that only one tree has are left out.

Ends with status 1 if a row is worse than ``--within`` allows, or if a tree cannot measure a part: an old one
may not have it, or may need packages of its time (``make install`` there).
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

NEW_TREE: Final = Path(__file__).parent.parent

PARTS: Final = {
    "engine": "bench.engine_rows(scale)",
    "simulate": """[bench.Row(f"{agent} {profile} games through simulate", bench.simulated(agent, profile,
        max(10, int(count * scale))), "games/CPU-s") for profile in ("official", "interintent")
        for agent, count in (("random", 1_000), ("scripted", 100))]""",
    "replays": """[setattr(bench, "REPLAYS", (bench.Path("tests/records"),)) or
        bench.replayed(int(1_000 * scale))]""",
    "reports": "bench.report_rows(scale)",
    "crowd": "bench.crowd_rows(scale)",
    "service": "bench.service_rows(scale, 1.0, 1.0)",
    "bots": "bench.bot_rows(scale)",
    "watchers": "bench.watcher_rows(scale)",
    "models": "bench.model_rows(scale)",
}
"""The parts of the table, as expressions that older trees understand, too."""

_MEASURE: Final = """import json, sys; import bench.__main__ as bench; scale = float(sys.argv[1])
print(json.dumps([[row.what, row.value, row.unit] for row in {part}]))"""

Rows = Mapping[str, tuple[float, str]]
"""Value and unit by the name of the row."""


class Compared(NamedTuple):
    """One row of both trees, by medians over the rounds."""

    what: str
    unit: str
    old: float
    new: float
    shares: Sequence[float]
    """By round, how good the new tree is as a share of the old one: 0.9 is a tenth slower, or larger."""


def measured(tree: Path, part: str, scale: float) -> Rows:
    """The rows of a part. Raises CalledProcessError if the tree cannot measure them."""
    python = tree / ".venv" / "bin" / "python"
    command = [python if python.exists() else sys.executable, "-c", _MEASURE.format(part=PARTS[part])]
    paths = {**os.environ, "PYTHONPATH": str(tree.resolve())}
    done = subprocess.run([*command, str(scale)], cwd=tree, env=paths, stdout=subprocess.PIPE, check=True)
    rows, above = {}, ""
    for what, value, unit in json.loads(done.stdout.splitlines()[-1]):
        name = re.sub(r" \(.*\)", "", what)  # what stands in parentheses was measured, too
        above = above if name.startswith(" ") else name
        rows[f"{above}: {name.strip()}" if name.startswith(" ") else name] = value, unit
    return rows


def compared(rounds: Sequence[tuple[Rows, Rows]]) -> Iterator[Compared]:
    """The rows that both trees have in every round, given as (old, new)."""
    for what, (_, unit) in rounds[0][1].items():
        if all(what in old and what in new for old, new in rounds):
            pairs = [(old[what][0], new[what][0]) for old, new in rounds]
            more_is_better = unit.endswith(("/s", "/CPU-s"))
            shares = [new / old if more_is_better else old / new for old, new in pairs if old and new]
            before, after = map(median, zip(*pairs, strict=True))
            yield Compared(what, unit, before, after, shares or [1.0])


def _rounds(old_tree: Path, part: str, rounds: int, scale: float) -> Iterator[tuple[Rows, Rows]]:
    """Measures both trees, in turns. Raises CalledProcessError if one of them cannot measure the part."""
    for number in range(rounds):
        print(f"{part}: round {number + 1} of {rounds}", file=sys.stderr)
        # The tree that begins alternates, so that neither always finds the machine warm.
        order = -1 if number % 2 else 1
        trees = (old_tree, NEW_TREE)[::order]
        old, new = [measured(tree, part, scale) for tree in trees][::order]
        yield old, new


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="bench.compare", description=__doc__, formatter_class=formatter)
    parser.add_argument("old_tree", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS], help="these parts of the table")
    parser.add_argument("--rounds", type=int, default=3, help="how often each tree is measured (default: 3)")
    parser.add_argument("--within", type=float, default=10, help="per cent a row may be worse (default: 10)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs")
    given = parser.parse_args()
    if not (given.old_tree / "bench" / "__main__.py").exists() or given.rounds < 1:
        parser.error("needs a checkout of this project (with bench/__main__.py), and 1 round or more")
    worse, missing = 0, []
    for part in given.only:
        try:
            rounds = list(_rounds(given.old_tree, part, given.rounds, 0.1 if given.quick else 1.0))
        except subprocess.CalledProcessError:
            missing.append(part)
            continue
        table = Table("what", "unit", "old", "new", "as good as old", "range", "", box=None, pad_edge=False)
        for row in compared(rounds):
            share, is_worse = median(row.shares), median(row.shares) < 1 - given.within / 100
            worse += is_worse
            spread = f"{min(row.shares):.2f} to {max(row.shares):.2f}", "worse" if is_worse else ""
            table.add_row(row.what, row.unit, f"{row.old:,.4g}", f"{row.new:,.4g}", f"{share:.2f}", *spread)
        Console(width=150).print(table)
    faults = [f"{worse} rows are more than {given.within:g} % worse"] if worse else []
    faults += [f"{part} is not compared: a tree cannot measure it (see above)" for part in missing]
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
