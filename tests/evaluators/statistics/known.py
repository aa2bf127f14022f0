"""What other people's libraries make of random tables, kept as a file so that tests need none of them.

``python -m tests.evaluators.statistics.known`` writes ``known.json`` anew; it needs scipy, statsmodels and
krippendorff (the ``statistics`` extra).
"""

import json
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

KNOWN = Path(__file__).parent / "known.json"


def known() -> dict[str, Any]:
    """The tables with their expected values, and the versions they were made with."""
    loaded: dict[str, Any] = json.loads(KNOWN.read_text())
    return loaded


def kappa_table(rng: Random) -> list[list[int]]:
    raters, categories = rng.randint(2, 9), rng.randint(2, 6)
    leaning = rng.choice([0.0, 0.4, 0.8])
    rows = []
    for _ in range(rng.randint(2, 40)):
        favourite = rng.randrange(categories)
        row = [0] * categories
        for _ in range(raters):
            row[favourite if rng.random() < leaning else rng.randrange(categories)] += 1
        rows.append(row)
    return rows


def alpha_table(rng: Random) -> list[list[int | None]]:
    raters, units = rng.randint(2, 6), rng.randint(3, 30)
    highest, leaning, missing = rng.randint(2, 5), rng.choice([0.0, 0.4, 0.8]), rng.choice([0.0, 0.2, 0.5])
    truth = [rng.randint(1, highest) for _ in range(units)]
    return [
        [
            None if rng.random() < missing else value if rng.random() < leaning else rng.randint(1, highest)
            for value in truth
        ]
        for _ in range(raters)
    ]


def intervals(rng: Random) -> list[tuple[int, int, float]]:
    ends = [(k, n, c) for n in (1, 2, 20) for k in {0, 1, n - 1, n} for c in (0.5, 0.95, 0.999)]
    some = []
    for _ in range(40):
        n = rng.choice([rng.randint(1, 60), rng.randint(60, 5000), rng.randint(10**5, 10**7)])
        some.append((rng.randint(0, n), n, rng.choice([0.8, 0.9, 0.95, 0.99])))
    return ends + some


def make() -> dict[str, Any]:
    import krippendorff
    from statsmodels.stats.inter_rater import fleiss_kappa
    from statsmodels.stats.proportion import proportion_confint

    rng = Random(1971)
    kappas = [
        {"counts": table, "value": fleiss_kappa(table)} for table in (kappa_table(rng) for _ in range(30))
    ]
    alphas = []
    for _ in range(40):
        table = alpha_table(rng)
        data = [[float("nan") if value is None else value for value in row] for row in table]
        found = {
            level: krippendorff.alpha(data, level_of_measurement=level) for level in ("nominal", "ordinal")
        }
        alphas.append({"ratings": table, **found})
    shares = [
        {
            "k": k,
            "n": n,
            "confidence": c,
            "wilson": [float(x) for x in proportion_confint(k, n, 1 - c, "wilson")],
        }
        for k, n, c in intervals(rng)
    ]
    versions = {name: version(name) for name in ("krippendorff", "scipy", "statsmodels")}
    return {"made_with": versions, "fleiss_kappa": kappas, "krippendorff_alpha": alphas, "shares": shares}


if __name__ == "__main__":
    table = make()
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in rows) + "\n]"
        for name, rows in table.items()
        if isinstance(rows, list)
    ]
    KNOWN.write_text('{"made_with": ' + json.dumps(table["made_with"]) + ",\n" + ",\n".join(lines) + "\n}\n")
