"""Tables about raters: their agreement, judges that are no people, and raters compared pair by pair."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import combinations
from random import Random
from statistics import mean, pstdev
from typing import Any

from .answered import counted, raters
from .counting import NOTHING, Cell, Rows, Sums, cell
from .reading import PARTS, OneGame

Rated = dict[str, dict[tuple[str, ...], int]]
"""By rater and unit, which is (game, request, stage, intention)."""
JUDGED = ("reasonable", *PARTS)
GROUPS = {"1-3|4-5": 4, "1-4|5": 5, "1-2|3-5": 3}
PUBLISHED = {"think": 0.448, "speak": 0.420}


def ratings(games: Iterable[OneGame], part: str) -> Rated:
    """What raters said of units that two of them or more judged."""
    found: Rated = {}
    for game in games:
        for row in game.rows:
            if row[part] is not None:
                unit = (game.id, row["request_id"], row["stage"], row["intention"])
                found.setdefault(row["rater"], {})[unit] = int(row[part])
    return several(found)


def several(found: Rated) -> Rated:
    """Of these ratings, those of units that two of these raters or more judged."""
    times = Counter(unit for rated in found.values() for unit in rated)
    shared = {
        rater: {unit: v for unit, v in rated.items() if times[unit] > 1} for rater, rated in found.items()
    }
    return {rater: rated for rater, rated in shared.items() if rated}


def of_people(rated: Rated, judges: set[str]) -> Rated:
    return {rater: units for rater, units in rated.items() if rater not in judges}


def grouped(rated: Rated, least: int) -> Rated:
    return {
        rater: {unit: int(value >= least) for unit, value in units.items()} for rater, units in rated.items()
    }


# --- coefficients ----------------------------------------------------------------------------------------


def kappa(given: Iterable[list[int]]) -> float | None:
    """Fleiss' kappa of subjects, each with all its ratings; None where there is none."""
    subjects = list(given)
    if not subjects:
        return None
    n = len(subjects[0])
    total = Counter(value for subject in subjects for value in subject)
    chance = sum((count / (n * len(subjects))) ** 2 for count in total.values())
    if len(total) < 2:
        return None
    agreed = mean(
        sum(count * (count - 1) for count in Counter(subject).values()) / (n * (n - 1))
        for subject in subjects
    )
    return (agreed - chance) / (1 - chance)


def alpha(units: Iterable[list[int]], *, ordinal: bool) -> float | None:
    """Krippendorff's alpha: all pairs of ratings within units against all pairs of ratings at all."""
    paired = [unit for unit in units if len(unit) > 1]
    total = Counter(value for unit in paired for value in unit)
    n = sum(total.values())
    if len(total) < 2:
        return None

    def distance(a: int, b: int) -> float:
        if not ordinal:
            return float(a != b)
        low, high = min(a, b), max(a, b)
        return (sum(total[v] for v in range(low, high + 1)) - (total[a] + total[b]) / 2) ** 2 if a != b else 0

    observed = sum(
        sum(distance(a, b) for a, b in combinations(unit, 2)) * 2 / (len(unit) - 1) for unit in paired
    )
    expected = sum(total[a] * total[b] * distance(a, b) for a in total for b in total) / (n - 1)
    return 1 - observed / expected


def _common(one: Mapping[Any, int], other: Mapping[Any, int]) -> list[list[int]]:
    return [[one[unit], other[unit]] for unit in one if unit in other]


def _pairs(rated: Rated) -> list[float]:
    found = [kappa(_common(rated[a], rated[b])) for a, b in combinations(sorted(rated), 2)]
    return [one for one in found if one is not None]


def _behind(value: float | None, units: list[tuple[str, ...]]) -> Cell:
    if value is None:
        return NOTHING
    return cell(value, None, len(units), len({u[0] for u in units}), len({u[:3] for u in units}))


def agreement(games: list[OneGame], judges: set[str]) -> Rows:
    rows: Rows = {}
    for part in JUDGED:
        rated = several(of_people(ratings(games, part), judges))
        if not rated:
            continue
        if part == "reasonable":
            rows[part, "yes | no"] = _agreed(rated, ordinal=True)
            continue
        for name, least in GROUPS.items():
            rows[part, name] = _agreed(grouped(rated, least), ordinal=False)
            if name == "1-4|5":
                rows[part, name]["paper's annotators"] = cell(PUBLISHED[part])
        rows[part, "1 to 5"] = _agreed(rated, ordinal=True)
    return rows


def _agreed(rated: Rated, *, ordinal: bool) -> dict[str, Cell]:
    every = list(set.intersection(*(set(units) for units in rated.values())))
    any_ = {unit for units in rated.values() for unit in units}
    met = [unit for a, b in combinations(rated.values(), 2) for unit in a if unit in b]
    pairs = _pairs(rated)
    by_unit = [[units[unit] for units in rated.values() if unit in units] for unit in any_]
    told = {
        "kappa, all raters": _behind(kappa([[u[unit] for u in rated.values()] for unit in every]), every),
        "kappa, pairwise mean": _behind(mean(pairs) if pairs else None, met),
        "pairwise deviation": _behind(pstdev(pairs) if pairs else None, met),
        "alpha, nominal": _behind(alpha(by_unit, ordinal=False), list(any_)),
    }
    if ordinal:
        told["alpha, ordinal"] = _behind(alpha(by_unit, ordinal=True), list(any_))
    return told


# --- judges ----------------------------------------------------------------------------------------------


def withheld(games: list[OneGame], judge: str, part: str, judges: set[str]) -> bool:
    """Whether a judge's scores wait: for 50 common units, kappa 0.4, and at most 0.1 below people's own."""
    rated = ratings(games, part)
    if part != "reasonable":
        rated = grouped(rated, 4)
    people = of_people(rated, judges)
    mine = rated.get(judge, {})
    met = {unit for units in people.values() for unit in units if unit in mine}
    with_people = _with(mine, people)
    among = _pairs(people)
    return (
        len(met) < 50
        or with_people is None
        or with_people < 0.4
        or (bool(among) and with_people < mean(among) - 0.1)
    )


def _with(mine: Mapping[Any, int], people: Rated) -> float | None:
    found = [kappa(_common(units, mine)) for units in people.values()]
    defined = [one for one in found if one is not None]
    return mean(defined) if defined else None


def judges_table(games: list[OneGame], judges: set[str]) -> Rows:
    sums = Sums()
    beside = any(game.people for game in games)
    for game in games:
        for row, turn in game.judged(row for row in game.rows if row["rater"] in judges):
            item = (row["request_id"], row["stage"])
            again = row["stage"] == "final" and turn.first is not None and not turn.changed
            if row["reasonable"] is not None and not again:
                sums.add(game.id, (row["rater"],), "reasonable", (row["reasonable"], 1), item)
            for part in PARTS:
                if row[part] is not None:
                    sums.add(game.id, (row["rater"],), part, (row[part] >= 4, 1), item)
    rows: Rows = {}
    for judge in {row["rater"] for game in games for row in game.rows} & judges:
        told = rows[judge,] = {}
        for part in JUDGED:
            told[part] = sums.cell((judge,), part)
            if told[part]["value"] is None or not beside:
                continue
            rated = ratings(games, part)
            rated = rated if part == "reasonable" else grouped(rated, 4)
            people, mine = of_people(rated, judges), rated.get(judge, {})
            met = [unit for units in people.values() for unit in units if unit in mine]
            told[f"kappa, {part}"] = _behind(_with(mine, people), met)
            if withheld(games, judge, part, judges):
                told[part] = NOTHING
    return rows


# --- pair by pair ----------------------------------------------------------------------------------------

WORDS = {
    "summarisation": "summarisation F1",
    "summarisation_followed": "summarisation F1, only what was followed",
    "guessing": "guessing F1",
    "guessing_followed": "guessing F1, only what was followed",
    "reasonable": "selections judged reasonable",
    "think": "thinking scored 4 or 5",
    "speak": "speaking scored 4 or 5",
}

Counts = tuple[int, ...]


class _Rater:
    def __init__(self) -> None:
        self.units: dict[tuple[str, Hashable], tuple[Counts, Hashable]] = {}
        """By game and unit: what it counts, and the item that the unit is of."""
        self.said: set[tuple[str, Hashable]] = set()
        self.by: tuple[Any, ...] = ()


def _rated(games: Iterable[OneGame], part: str) -> dict[str, _Rater]:
    found: dict[str, _Rater] = {}
    for game in games:
        if part in JUDGED:
            for row, turn in game.judged(game.rows):
                again = row["stage"] == "final" and turn.first is not None and not turn.changed
                if row[part] is None or (part == "reasonable" and again):
                    continue
                rater = found.setdefault(row["rater"], _Rater())
                unit = (row["request_id"], row["stage"], row["intention"])
                hit = row[part] if part == "reasonable" else row[part] >= 4
                rater.units[game.id, unit] = (int(hit), 1), unit[:2]
                rater.said.add((game.id, unit))
            continue
        dimension, _, followed = part.partition("_")
        for one in game.told["answers"]:
            if one["dimension"] != dimension or (followed and not game.rows):
                continue
            rater = found.setdefault(raters(one), _Rater())
            rater.by = (str(one["variant"]), one["unmapped"])
            rater.said |= {(game.id, answer["item_id"]) for answer in one["answers"]}
            for item, _, said in counted(game, one, followed=bool(followed)):
                gold = set(item["gold"])
                rater.units[game.id, item["id"]] = (len(gold & said), len(said), len(gold)), item["id"]
    return found


def _f1(sums: Iterable[float]) -> float:
    matched, predicted, gold = sums
    return 2 * matched / (predicted + gold)


def _share(sums: Iterable[float]) -> float:
    hits, of = sums
    return hits / of


def compared(games: list[OneGame], judges: set[str]) -> Rows:
    rows: Rows = {}
    for part, words in WORDS.items():
        figure = _share if part in JUDGED else _f1
        found = _rated(games, part)
        pairs = {
            (one, other): common
            for one, other in combinations(sorted(found), 2)
            if found[one].by == found[other].by
            and (common := found[one].units.keys() & found[other].units.keys())
        }
        told = {
            pair: _pair(*(found[rater] for rater in pair), common, figure) for pair, common in pairs.items()
        }
        for pair, row in told.items():
            if part in JUDGED and any(
                rater in judges and withheld(games, rater, part, judges) for rater in pair
            ):
                row |= dict.fromkeys(("first", "second", "difference", "p", "p, Holm"), NOTHING)
            rows[words, *pair] = row
    return rows


def _pair(one: _Rater, other: _Rater, common: Iterable[Any], figure: Callable[..., float]) -> dict[str, Cell]:
    by_game: dict[str, list[list[int]]] = {}
    items = set()
    for unit in common:
        items.add((unit[0], one.units[unit][1]))
        held = by_game.setdefault(unit[0], [[0] * len(one.units[unit][0]) for _ in range(2)])
        for side, rater in zip(held, (one, other), strict=True):
            for at, count in enumerate(rater.units[unit][0]):
                side[at] += count
    totals = [
        [sum(column) for column in zip(*side, strict=True)] for side in zip(*by_game.values(), strict=True)
    ]
    first, second = map(figure, totals)
    behind = (None, None, len(by_game), len(items))
    p = cell(_p(list(by_game.values()), first - second, figure), *behind)
    alone = [a.said - b.said for a, b in ((one, other), (other, one))]
    said = [len({game for game, _ in rater.said}) for rater in (one, other)]
    return {
        "first": cell(first, *behind),
        "second": cell(second, *behind),
        "difference": cell(first - second, *behind),
        "p": p,
        "p, Holm": p,
        "first only": cell(len(alone[0]), len(alone[0]), None, said[0]),
        "second only": cell(len(alone[1]), len(alone[1]), None, said[1]),
    }


def _p(games: list[list[list[int]]], seen: float, figure: Callable[..., float], draws: int = 1000) -> float:
    """How often exchanging the two within whole games, by coin, gives a difference as great."""
    rng = Random(5)
    beyond = 0
    for _ in range(draws):
        sides = [game if rng.random() < 0.5 else game[::-1] for game in games]
        totals = [[sum(column) for column in zip(*side, strict=True)] for side in zip(*sides, strict=True)]
        beyond += abs(figure(totals[0]) - figure(totals[1])) >= abs(seen) - 1e-12
    return beyond / draws
