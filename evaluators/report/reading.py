"""Who reads whom: guessers by the player whose speeches they read, rounds with and without the history of the
game, and which intentions are taken for which.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from evaluators.ground.items import Item
from evaluators.measures.play import MODELS
from evaluators.measures.scoring import F1, Limits, Scores, limits_of
from evaluators.report.counted import CountedColumn, counted_rows, published
from evaluators.report.tables import PAPER, Column, ReportTable, TableRow, place
from evaluators.statistics.figures import Clusters, FigureKey, FigureTally, nothing
from evaluators.statistics.intervals import Counts

__all__ = [
    "ANYBODY",
    "Answerer",
    "RaterKind",
    "confusions",
    "count_confusions",
    "count_guesses",
    "guessers",
    "history",
    "limit_counts",
]

RaterKind = Literal["human", "model", "program"]


class Answerer(NamedTuple):
    """A rater of answers, as reports name it: with every setting of its items that differs from the
    default.
    """

    kind: RaterKind
    settings: str
    """These settings; empty: none."""
    with_history: str
    """The name of the same rater with contexts that hold all earlier rounds."""


ANYBODY: Final = "all players"
"""The label of guesses about everybody's speeches."""

_GUESSERS: Final = "guessers"
_CONFUSIONS: Final = "confusions"

Count = Callable[[FigureKey, Sequence[float], int], Any]


# --- guessers by player ----------------------------------------------------------------------------------


def limit_counts(limits: Limits, predicted_and_gold: int) -> dict[str, tuple[float, float]]:
    """The counts of the columns ``chance`` and ``ceiling``: twice the hits, and predicted + gold."""
    return {
        "chance": (2 * limits.chance, predicted_and_gold),
        "ceiling": (2 * limits.ceiling, predicted_and_gold),
    }


def count_guesses(
    guesser: str | None, scored: Iterable[tuple[Item, F1]], agents: Sequence[str] | None, count: Count
) -> None:
    """Counts one guesser's scored guesses about the speeches of one game, by the speaker's agent.

    ``guesser``: its name; None: the agent of the seat that guesses. ``agents``: by seat; None: not known.
    """
    sums: dict[tuple[str, str], tuple[list[int], Limits, int]] = {}
    for item, f1 in scored:
        assert item.reader is not None
        name = guesser or (f"beliefs of {agents[item.reader - 1]}" if agents else "beliefs while playing")
        for player in (ANYBODY, *([agents[item.speaker - 1]] if agents else [])):
            counts, limits, n = sums.get((name, player), ([0, 0, 0], Limits(0.0, 0), 0))
            counts = [a + b for a, b in zip(counts, f1.counts, strict=True)]
            sums[name, player] = counts, limits.plus(limits_of(item, f1)), n + 1
    for (name, player), (counts, limits, n) in sums.items():
        key = FigureKey(_GUESSERS, name, "player", player, "f1")
        count(key, counts, n)
        for column, limit in limit_counts(limits, counts[1] + counts[2]).items():
            count(key._replace(column=column), limit, n)


_PUBLISHED: Final[tuple[tuple[str, str, float, str], ...]] = (
    ("GPT-3.5", MODELS[0], 31.73, ""),
    ("GPT-4", MODELS[0], 45.66, ""),
    ("human", MODELS[0], 61.34, "± 2.75"),
    ("GPT-3.5", MODELS[1], 24.85, ""),
    ("GPT-4", MODELS[1], 46.87, ""),
    ("human", MODELS[1], 65.23, "± 5.03"),
)
"""InterIntent (EMNLP 2024), table of guessing: guesser, whose games, F1 in percent, spread over raters."""


def guessers(tally: FigureTally) -> ReportTable:
    """F1 of each guesser by the player whose speeches it reads: published, then ours."""
    ours = counted_rows(
        tally,
        _GUESSERS,
        {"of": "guesser", "label": "player"},
        [
            CountedColumn("f1", "f1"),
            CountedColumn("chance", "fraction", empty="no options"),
            CountedColumn("ceiling", "fraction", empty="nothing was named"),
        ],
        "nothing counted",
    )
    # Everybody first, then by name.
    ordered = sorted(ours, key=lambda row: (row.labels[0], row.labels[1] != ANYBODY, row.labels[1]))
    return ReportTable(
        _GUESSERS,
        PAPER,
        "Guessing: which guesser reads whose speeches",
        "F1 of every answered item with gold, by the agent whose speech it is. Guessers are the raters of "
        "answers and the seats themselves, by the beliefs that they record while playing. The paper's "
        "figures count only what was followed. Chance and ceiling as in the table of the dimensions.",
        ("guesser", "player"),
        (Column("f1"), Column("chance"), Column("ceiling")),
        (
            *(
                TableRow(
                    (f"{guesser}, published", f"{player}, published"),
                    {"f1": published(f1, f"published {spread}".strip())},
                )
                for guesser, player, f1, spread in _PUBLISHED
            ),
            *ordered,
        ),
    )


# --- rounds with and without history --------------------------------------------------------------------


def history(tally: FigureTally, raters: Mapping[str, Answerer]) -> ReportTable:
    """F1 by round, of guessers who see all earlier rounds beside the same ones who see the round alone."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for table, words in (("guessing", ""), ("guessing_followed", ", only what was followed")):
        for key in tally.keys(table):
            if key.group not in ("all", "round") or key.column != "f1":
                continue
            rater = raters[key.of]
            shown = tally.figure(key, "f1", "no answers")
            column = _COLUMNS[key.of != rater.with_history]
            rows.setdefault((rater.with_history + words, key.label), {})[column] = shown
    for key in tally.keys("beliefs"):
        if key.group in ("all", "round") and key.column == "f1":
            shown = tally.figure(key, "f1", "no beliefs")
            rows["beliefs while playing", key.label] = {_COLUMNS[0]: shown}
    return ReportTable(
        "history",
        PAPER,
        "Guessing by round, with and without the history of the game",
        "F1 by the round of the speech. With history: the guesser's context holds every earlier round; "
        "without: the current round alone (items --history round). Seats that guess while playing have what "
        "they remember.",
        ("guesser", "round"),
        tuple(Column(name) for name in _COLUMNS),
        tuple(
            TableRow(
                labels,
                {name: figures.get(name, nothing("nobody was asked in this way")) for name in _COLUMNS},
            )
            for labels, figures in sorted(rows.items(), key=lambda row: (row[0][0], place(row[0][1:])))
        ),
        "" if rows else "no guesses were given, and no beliefs recorded",
    )


_COLUMNS: Final = ("with history", "without history")


# --- confusions ------------------------------------------------------------------------------------------


def count_confusions(rater: str, scores: Scores, count: Count) -> None:
    """Counts one game: how often each intention was missed and another one named instead."""
    for (missed, named), n in scores.confusion.items():
        count(FigureKey(_CONFUSIONS, rater, missed, named, "instead"), (n,), n)
    for intention, counts in scores.by_intention.items():
        count(FigureKey(_CONFUSIONS, rater, intention, "", "gold"), (counts.gold,), counts.gold)


_MOST: Final = 12
"""The most pairs that are shown for a rater: the commonest."""


def confusions(tally: FigureTally) -> ReportTable:
    """For each rater the commonest pairs of an intention that was missed and one that was named instead."""
    by_rater: dict[str, list[tuple[float, FigureKey]]] = {}
    for key in tally.keys(_CONFUSIONS):
        if key.column == "instead":
            n = sum(counts[0] for counts in tally.clusters(key).counts.values())
            by_rater.setdefault(key.of, []).append((n, key))
    rows = []
    omitted = 0
    for rater, pairs in sorted(by_rater.items()):
        pairs.sort(key=lambda pair: (-pair[0], pair[1]))
        omitted += len(pairs[_MOST:])
        rows += [
            TableRow(
                (rater, key.group, key.label),
                {"named instead": tally.figure_of(_of_gold(tally, key), "share", "never gold")},
            )
            for _, key in pairs[:_MOST]
        ]
    return ReportTable(
        _CONFUSIONS,
        PAPER,
        "Guessing: which intentions are taken for which",
        "Of the answered items whose gold has the first intention, those in which it was missed and the "
        f"second one was wrongly named. The {_MOST} commonest pairs of each rater"
        + (f"; {omitted:,} rarer ones are left out." if omitted else "."),
        ("rater", "intention", "named instead"),
        (Column("named instead"),),
        tuple(rows),
        "" if rows else "no guess named a wrong intention, or no guesses were given",
        "full",
    )


def _of_gold(tally: FigureTally, key: FigureKey) -> Clusters:
    """How often the pair occurs, of the items that have its first intention as gold, in every game."""
    pairs, gold = tally.clusters(key), tally.clusters(key._replace(label="", column="gold"))
    counts: dict[str, Counts] = {
        name: (*pairs.counts.get(name, (0,)), n) for name, (n,) in gold.counts.items()
    }
    squares = None if gold.squares is None else (*(pairs.squares or (0,)), *gold.squares)
    return Clusters(counts, gold.games, gold.items, gold.mask, squares)
