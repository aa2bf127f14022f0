"""Judges corrected by people, item by item: each item of both carries the weight of its stratum."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .counting import NOTHING, Cell, Rows, cell
from .reading import PARTS, OneGame

LEAST = 8


class Item(NamedTuple):
    game: str
    seat_role: str
    side: str
    agent: str
    judge: float
    people: float | None
    """The share of people who call it good; None: no person judged it."""


def _good(row: dict[str, object], part: str) -> float | None:
    value = row[part]
    if value is None:
        return None
    return float(bool(value) if part == "reasonable" else int(str(value)) >= 4)


def items_of(games: Iterable[OneGame], judge: str, part: str) -> list[Item]:
    found = []
    for game in games:
        said: dict[tuple[str, ...], list[float]] = {}
        mine: list[tuple[tuple[str, ...], int, float]] = []
        for row, turn in game.judged(row for row in game.rows):
            good = _good(row, part)
            again = row["stage"] == "final" and turn.first is not None and not turn.changed
            if good is None or (part == "reasonable" and again):
                continue
            unit = (row["request_id"], row["stage"], row["intention"])
            if row["rater"] == judge:
                mine.append((unit, turn.seat, good))
            elif row["rater"] not in game.judges:
                said.setdefault(unit, []).append(good)
        for unit, seat, good in mine:
            theirs = said.get(unit)
            agent = game.told["agents"][seat - 1]
            people = sum(theirs) / len(theirs) if theirs else None
            found.append(Item(game.id, game.roles[seat], game.side[seat], agent, good, people))
    return found


def table(games: list[OneGame], judges: set[str]) -> Rows:
    rows: Rows = {}
    for judge in {row["rater"] for game in games for row in game.rows} & judges:
        for part in ("reasonable", *PARTS):
            every = items_of(games, judge, part)
            groups: dict[tuple[str, str], list[Item]] = {("all", "all"): every}
            agents = {item.agent for item in every}
            for item in every:
                groups.setdefault(("side", item.side), []).append(item)
                groups.setdefault(("role", item.seat_role), []).append(item)
                if len(agents) > 1:
                    groups.setdefault(("agent", item.agent), []).append(item)
            for (by, group), items in groups.items():
                if items:
                    rows[judge, part, by, group] = _row(items)
    return rows


def _row(items: list[Item]) -> dict[str, Cell]:
    both = [item for item in items if item.people is not None]
    games = len({item.game for item in both})
    told = {
        "raw": cell(sum(item.judge for item in items) / len(items), games=len({item.game for item in items})),
        "items of both": cell(len(both), len(both), games=games),
    }
    named = ("corrected", "sensitivity", "specificity", "Rogan-Gladen")
    if games < LEAST:
        return told | dict.fromkeys(named, NOTHING)
    stratum = _strata(items, both)
    of_stratum = Counter(stratum[item.seat_role, item.agent] for item in items)
    in_both = Counter(stratum[item.seat_role, item.agent] for item in both)
    weighted = [
        (of_stratum[name] / in_both[name] / len(items), name, item.judge, item.people or 0.0)
        for item in both
        for name in (stratum[item.seat_role, item.agent],)
    ]
    judged = {name: sum(j for _, n, j, _ in weighted if n == name) / in_both[name] for name in in_both}
    people = {name: sum(p for _, n, _, p in weighted if n == name) / in_both[name] for name in in_both}
    together = sum(w * (j - judged[n]) * (p - people[n]) for w, n, j, p in weighted)
    alone = sum(w * (j - judged[n]) ** 2 for w, n, j, _ in weighted)
    tuning = min(max(together / alone, 0), 1) if alone > 1e-12 else 0
    raw = told["raw"]["value"] or 0.0
    value = sum(w * p for w, _, _, p in weighted) + tuning * (raw - sum(w * j for w, _, j, _ in weighted))
    figures: dict[str, float | None] = {"corrected": min(max(value, 0), 1)}
    good = sum(w * p for w, _, _, p in weighted)
    bad = sum(w * (1 - p) for w, _, _, p in weighted)
    found = sum(w * j * p for w, _, j, p in weighted) / good if good > 1e-12 else None
    spared = sum(w * (1 - j) * (1 - p) for w, _, j, p in weighted) / bad if bad > 1e-12 else None
    figures |= {"sensitivity": found, "specificity": spared, "Rogan-Gladen": None}
    if found is not None and spared is not None and found + spared > 1 + 1e-9:
        figures["Rogan-Gladen"] = min(max((raw + spared - 1) / (found + spared - 1), 0), 1)
    for name, number in figures.items():
        told[name] = NOTHING if number is None else cell(number, None, len(both), games)
    return told


def _strata(items: list[Item], both: list[Item]) -> dict[tuple[str, str], str]:
    """Each role and agent is a stratum if people judged it in two games; the others are one, or belong to the
    largest where they are still too few.
    """
    held: dict[tuple[str, str], set[str]] = {(item.seat_role, item.agent): set() for item in items}
    for item in both:
        held[item.seat_role, item.agent].add(item.game)
    few = {name for name in held if len(held[name]) < 2}
    names = {name: " ".join(name) for name in held}
    large = sorted(held.keys() - few, key=lambda name: (-len(held[name]), names[name]))
    together = set().union(*(held[name] for name in few)) if few else set()
    rest = "the rest" if len(together) >= 2 or not large else names[large[0]]
    return {name: rest if name in few else names[name] for name in held}
