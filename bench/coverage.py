"""How often 95 % intervals over games hold the truth, over simulated studies.

    python -m bench.coverage                 # the tables of docs/statistics.md, about ten minutes
    python -m bench.coverage --studies 200   # roughly

A study has some games. Each game draws its own share around the true one (beta, so that items of one game
have the stated intraclass correlation), then its number of items, then what happens to each. The first table
has the rule that reports use (``evaluators/statistics/intervals.py``). The second sets it beside others:

- BCa: the bootstrap over games that reports used before, 1,000 resamples; where all games are alike, Wilson's
  with each game as one trial.
- bootstrap-t: the same draws, each divided by its own standard error.
- t: symmetric, with the variance CR2 (the delta method, corrected for few games) and G - 1 degrees of
  freedom, where G is the number of games.
- Wilson, G - 1: with the design effect, but with G - 1 degrees of freedom always.
- logit: symmetric on the scale of log odds, with our variance and degrees of freedom.
- Korn-Graubard: Clopper and Pearson's with the effective number of trials, times (z / t)² with G - 1 degrees
  of freedom, at most the number of items.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from math import isnan, nan
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats

from evaluators.statistics.intervals import (
    RATE,
    SCORE,
    SHARE,
    SIGNED,
    Range,
    Spread,
    Statistic,
    jackknife,
    limits,
    pooled_f1,
    ratio,
    score_limits,
    student_quantile,
)

__all__ = ["MODELS", "covered"]

_GAMES: Final = (5, 8, 15, 30, 100)
_RESAMPLES: Final = 1000

Draw = Callable[[np.random.Generator, int], Any]
"""Draws the counts of some games: an array, a row for each."""


class CoverageModel(NamedTuple):
    """A way that studies come about."""

    draw: Draw
    statistic: Statistic = ratio
    within: Range | None = SHARE


def _shares(rng: np.random.Generator, games: int, share: float, icc: float) -> Any:
    if not icc:
        return np.full(games, share)
    weight = (1 - icc) / icc
    return rng.beta(share * weight, (1 - share) * weight, games)


def _share(share: float, icc: float, sizes: str = "5 to 15") -> Draw:
    def draw(rng: np.random.Generator, games: int) -> Any:
        if sizes == "geometric":
            n = 1 + rng.negative_binomial(1, 1 / 9, games)
        else:
            least, most = (int(end) for end in sizes.split(" to "))
            n = rng.integers(least, most + 1, games)
        return np.column_stack([rng.binomial(n, _shares(rng, games, share, icc)), n])

    return draw


def _f1(share: float, icc: float) -> Draw:
    """Items with two or three names predicted and one to three gold."""

    def draw(rng: np.random.Generator, games: int) -> Any:
        items = rng.integers(5, 16, games)
        predicted, gold = 2 * items + rng.binomial(items, 0.5), items + rng.binomial(2 * items, 0.5)
        matched = rng.binomial(np.minimum(predicted, gold), _shares(rng, games, share, icc))
        return np.column_stack([matched, predicted, gold])

    return draw


def _score(middle: float, icc: float) -> Draw:
    """Scores of 1 to 5: a rounded normal, cut off at both ends."""

    def draw(rng: np.random.Generator, games: int) -> Any:
        n = rng.integers(5, 16, games)
        of_game = middle + rng.normal(0, np.sqrt(icc), games)
        noise = rng.normal(0, np.sqrt(1 - icc), (games, 15))
        scores = np.clip(np.rint(of_game[:, None] + noise), 1, 5) * (np.arange(15) < n[:, None])
        return np.column_stack([scores.sum(axis=1), n])

    return draw


def _rate(mean: float) -> Draw:
    """Events in 10 to 20 speeches, at a rate that each game draws (gamma, shape 1.5)."""

    def draw(rng: np.random.Generator, games: int) -> Any:
        n = rng.integers(10, 21, games)
        return np.column_stack([rng.poisson(n * rng.gamma(1.5, mean / 1.5, games)), n])

    return draw


def _kappa(yes: float, alike: float, icc: float) -> Draw:
    """Two raters: how often they agree, and both raters' ratings in either category."""

    def draw(rng: np.random.Generator, games: int) -> Any:
        n = rng.integers(5, 16, games)
        likely, copied = (_shares(rng, games, share, icc)[:, None] for share in (yes, alike))
        first = rng.random((games, 15)) < likely
        other = np.where(rng.random((games, 15)) < copied, first, rng.random((games, 15)) < likely)
        there = np.arange(15) < n[:, None]
        positive = ((first * 1 + other) * there).sum(axis=1)
        return np.column_stack([((first == other) & there).sum(axis=1), positive, 2 * n - positive])

    return draw


def _agreement(sums: Any) -> float:
    rated = sums[1] + sums[2]
    by_chance = ((sums[1] / rated) ** 2 + (sums[2] / rated) ** 2) if rated else 1
    return float((2 * sums[0] / rated - by_chance) / (1 - by_chance)) if by_chance < 1 - 1e-12 else nan


def _two_raters(rng: np.random.Generator, games: int) -> Any:
    """Two raters on the same items: a game that is easy for one is easy for both."""
    n, common = rng.integers(5, 16, games), rng.normal(0, 0.8, games)
    right = [
        rng.binomial(n, 1 / (1 + np.exp(-(mean + common + rng.normal(0, 0.4, games))))) for mean in (0.8, 0.2)
    ]
    return np.column_stack([right[0], n, right[1], n])


def _difference(sums: Any) -> float:
    return ratio(sums[:2]) - ratio(sums[2:])


def _two_roles(rng: np.random.Generator, games: int) -> Any:
    columns: list[Any] = []
    for share in (0.6, 0.4):
        n = rng.integers(2, 6, games)
        columns += [rng.binomial(n, _shares(rng, games, share, 0.2)), n]
    return np.column_stack(columns)


def _mean_of_two(sums: Any) -> float:
    return (ratio(sums[:2]) + ratio(sums[2:])) / 2


MODELS: Final[Mapping[str, CoverageModel]] = {
    **{
        f"share {share:g}, icc {icc:g}": CoverageModel(_share(share, icc))
        for share in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
        for icc in (0, 0.1, 0.3)
    },
    **{
        f"share {share:g}, icc {icc:g}, 60 to 140 items": CoverageModel(_share(share, icc, "60 to 140"))
        for share in (0.88, 0.95, 0.98)
        for icc in (0.02, 0.1, 0.3)
    },
    "share 0.5, icc 0.1, sizes geometric": CoverageModel(_share(0.5, 0.1, "geometric")),
    "share 0.9, icc 0.1, sizes geometric": CoverageModel(_share(0.9, 0.1, "geometric")),
    "share 0.9, icc 0.3, 1 to 3 items": CoverageModel(_share(0.9, 0.3, "1 to 3")),
    "who won, 0.5": CoverageModel(_share(0.5, 0, "1 to 1")),
    "who won, 0.2": CoverageModel(_share(0.2, 0, "1 to 1")),
    **{
        f"F1 of matched {share:g}, icc {icc:g}": CoverageModel(_f1(share, icc), pooled_f1)
        for share in (0.3, 0.7)
        for icc in (0, 0.1, 0.3)
    },
    "mean score near 4, icc 0.3": CoverageModel(_score(4, 0.3), ratio, SCORE),
    "mean score near 5, icc 0.3": CoverageModel(_score(5, 0.3), ratio, SCORE),
    "events a speech, 0.05": CoverageModel(_rate(0.05), ratio, RATE),
    "events a speech, 0.3": CoverageModel(_rate(0.3), ratio, RATE),
    "mean of two roles' shares": CoverageModel(_two_roles, _mean_of_two),
    "kappa near 0.6": CoverageModel(_kappa(0.7, 0.6, 0.05), _agreement, SIGNED),
    "kappa near 0.8, one category rare": CoverageModel(_kappa(0.9, 0.8, 0.1), _agreement, SIGNED),
    "kappa near 0.95": CoverageModel(_kappa(0.7, 0.95, 0.05), _agreement, SIGNED),
    "difference of two raters": CoverageModel(_two_raters, _difference, SIGNED),
}

_BESIDE: Final = (
    "share 0.5, icc 0.1",
    "share 0.8, icc 0.3",
    "share 0.9, icc 0.3",
    "share 0.95, icc 0",
    "share 0.95, icc 0.1",
    "share 0.95, icc 0.3",
    "share 0.98, icc 0.1",
    "share 0.98, icc 0.3",
    "share 0.99, icc 0.1",
    "share 0.95, icc 0.02, 60 to 140 items",
    "share 0.95, icc 0.1, 60 to 140 items",
    "share 0.95, icc 0.3, 60 to 140 items",
    "share 0.9, icc 0.1, sizes geometric",
    "F1 of matched 0.7, icc 0.3",
)


def _truth(model: CoverageModel, rng: np.random.Generator) -> float:
    return model.statistic([float(total) for total in model.draw(rng, 1_000_000).sum(axis=0)])


def _holds(interval: Any, truth: float) -> bool:
    return interval is not None and interval[0] - 1e-12 <= truth <= interval[1] + 1e-12


def _studies(model: CoverageModel, rng: np.random.Generator, studies: int, games: int) -> Iterator[Any]:
    """Studies with a figure; one whose figure is undefined tells nothing."""
    while studies:
        drawn = model.draw(rng, games).astype(float)
        if not isnan(model.statistic(drawn.sum(axis=0))):
            studies -= 1
            yield drawn


def covered(model: CoverageModel, games: int, studies: int, seed: int = 1) -> float:
    """The share of studies of so many games whose interval, as in reports, holds the truth."""
    rng = np.random.default_rng(seed)
    truth = _truth(model, rng)
    held = 0
    for drawn in _studies(model, rng, studies, games):
        spread = jackknife(drawn.tolist(), model.statistic)
        single = model.within == SHARE and model.statistic is ratio and (drawn[:, 1] == 1).all()
        if single:
            held += _holds(score_limits(spread.value, games, _Z), truth)
        else:
            held += _holds(limits(spread, model.within)[0], truth)
    return held / studies


# --- other rules, for ratios ----------------------------------------------------------------------

_Z: Final = float(stats.norm.ppf(0.975))


def _others(drawn: Any, statistic: Statistic, picks: Any) -> dict[str, Any]:
    a, b = (drawn[:, 0], drawn[:, 1]) if statistic is ratio else (2 * drawn[:, 0], drawn[:, 1] + drawn[:, 2])
    games = len(a)
    value, quantile = a.sum() / b.sum(), student_quantile(0.95, games - 1)
    residuals, weight = (a - value * b) / b.sum(), b / b.sum()
    alike = score_limits(float(value), games, _Z)
    error = float(np.sqrt((residuals**2 / (1 - weight)).sum()))
    found: dict[str, Any] = {"t": (value - quantile * error, value + quantile * error)}
    left_out = float(((games - 1) / games * (residuals / (1 - weight)) ** 2).sum())
    flat = left_out <= 1e-18
    trials = games if flat else float(value * (1 - value) / left_out)
    found["Wilson, G - 1"] = score_limits(float(value), trials, _Z if flat else quantile)
    found["logit"] = _logit(jackknife(drawn.tolist(), statistic)) or alike
    effective = min(trials if flat else trials * (_Z / quantile) ** 2, float(b.sum()))
    hits = value * effective
    found["Korn-Graubard"] = (
        float(stats.beta.ppf(0.025, hits, effective - hits + 1)) if value > 0 else 0.0,
        float(stats.beta.ppf(0.975, hits + 1, effective - hits)) if value < 1 else 1.0,
    )
    over, under = picks @ a, picks @ b
    shares = over / under
    ordered = np.sort(shares)
    if ordered[-1] - ordered[0] <= 1e-12:
        return {"BCa": alike, "bootstrap-t": alike, **found}
    below = (shares < value - 1e-12).mean() + (np.abs(shares - value) <= 1e-12).mean() / 2
    bias = stats.norm.ppf(np.clip(below, 0.5 / _RESAMPLES, 1 - 0.5 / _RESAMPLES))
    without = (a.sum() - a) / (b.sum() - b)
    skew = without.mean() - without
    acceleration = (skew**3).sum() / (6 * (skew**2).sum() ** 1.5)
    ranks = []
    for z in (bias - _Z, bias + _Z):
        rank = stats.norm.cdf(bias + z / (1 - acceleration * z)) * (_RESAMPLES + 1) - 1
        ranks.append(int(np.clip(round(rank), 0, _RESAMPLES - 1)))
    found["BCa"] = tuple(ordered[ranks])
    off = np.sqrt(np.maximum((picks * (a - shares[:, None] * b) ** 2).sum(axis=1), 0)) / under
    studentised = (shares - value)[off > 1e-12] / off[off > 1e-12]
    if len(studentised):
        high, low = np.quantile(studentised, (0.975, 0.025))
        own = float(np.sqrt((residuals**2).sum()))
        found["bootstrap-t"] = (value - high * own, value - low * own)
    return found


def _logit(spread: Spread) -> tuple[float, float] | None:
    value, variance, df, _ = spread
    if not (0 < value < 1 and variance > 0):
        return None
    half = student_quantile(0.95, df) * np.sqrt(variance) / (value * (1 - value))
    odds = np.log(value / (1 - value))
    return float(1 / (1 + np.exp(half - odds))), float(1 / (1 + np.exp(-half - odds)))


_RULES: Final = ("BCa", "bootstrap-t", "t", "Wilson, G - 1", "logit", "Korn-Graubard")


def _beside(model: CoverageModel, games: int, studies: int) -> list[float]:
    rng = np.random.default_rng(2)
    truth = _truth(model, rng)
    held = dict.fromkeys(_RULES, 0)
    for drawn in _studies(model, rng, studies, games):
        picks = rng.multinomial(games, np.full(games, 1 / games), _RESAMPLES).astype(float)
        for rule, interval in _others(drawn, model.statistic, picks).items():
            held[rule] += _holds(interval, truth)
    return [held[rule] / studies for rule in _RULES]


def main() -> None:
    parser = argparse.ArgumentParser(description="How often intervals over games hold the truth.")
    parser.add_argument("--studies", type=int, default=2000, help="for each cell of the first table")
    studies = parser.parse_args().studies
    print("| studies of | " + " | ".join(f"{games} games" for games in _GAMES) + " |")
    print("| --- |" + " --- |" * len(_GAMES))
    for name, model in MODELS.items():
        cells = [f"{100 * covered(model, games, studies):.1f}" for games in _GAMES]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print("\n| 15 games | " + " | ".join((*_RULES, "ours")) + " |")
    print("| --- |" + " --- |" * (len(_RULES) + 1))
    for name in _BESIDE:
        others = _beside(MODELS[name], 15, studies)
        cells = [f"{100 * share:.1f}" for share in (*others, covered(MODELS[name], 15, studies))]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
