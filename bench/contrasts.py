"""How often the intervals of contrasts hold and their tests find something, over simulated studies.

    python -m bench.contrasts            # the table of docs/reports.md, about ten minutes
    python -m bench.contrasts --studies 200

A study has some games a level. A game's share is drawn around its level's (logistic, deviation 0.5, and 0.6
more that the games of a pair have in common), then its trials: one for who won, 10 to 30 for the rest.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from evaluators.statistics.contrasts import contrast
from evaluators.statistics.figures import Kind
from evaluators.statistics.intervals import Counts

__all__ = ["Judged", "judged"]

Score = Literal["win", "share", "f1", "mean"]

_OWN: Final = 0.5
_COMMON: Final = 0.6
_GAMES: Final = (5, 8, 15, 30, 60)


class Judged(NamedTuple):
    covered: float
    """The share of studies whose interval holds the true difference."""
    found: float
    """The share of studies whose p value is at most 0.05."""


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _mean_share(share: float) -> float:
    """The mean over games of a level, by quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    wide = np.hypot(_OWN, _COMMON)
    return float((weights * _logistic(np.log(share / (1 - share)) + wide * points)).sum() / weights.sum())


def _true(score: Score, share: float) -> float:
    mean = _mean_share(share)
    return {"win": mean, "share": mean, "f1": 2 * mean / (mean + 1.4), "mean": 1 + 4 * mean}[score]


def _counts(rng: np.random.RandomState, score: Score, shares: Any) -> Iterator[Counts]:
    if score == "win":
        yield from ((int(hit), 1) for hit in rng.random_sample(len(shares)) < shares)
        return
    for share, trials in zip(shares, rng.randint(10, 31, len(shares)), strict=True):
        hits = int(rng.binomial(trials * (4 if score == "mean" else 1), share))
        if score == "f1":
            yield hits, hits + int(rng.binomial(trials, 0.4)), int(trials)
        else:
            yield hits + (int(trials) if score == "mean" else 0), int(trials)


def judged(
    score: Score, *, paired: bool, shares: tuple[float, float], games: int, studies: int, seed: int = 1
) -> Judged:
    """What became of these studies; ``shares``: of an average game of each level."""
    rng = np.random.RandomState(seed)
    true = _true(score, shares[0]) - _true(score, shares[1])
    kind: Kind = "share" if score == "win" else score
    covered = found = 0
    for _ in range(studies):
        common = rng.standard_normal(games)
        cells = []
        for share in shares:
            deviation = _OWN * rng.standard_normal(games)
            deviation += _COMMON * (common if paired else rng.standard_normal(games))
            drawn = _logistic(np.log(share / (1 - share)) + deviation)
            cells.append({str(game): counts for game, counts in enumerate(_counts(rng, score, drawn))})
        result = contrast(cells, kind, paired=paired, drawn=999)
        covered += result.low <= true <= result.high
        found += result.p_value <= 0.05
    return Judged(covered / studies, found / studies)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    began = time.monotonic()
    print("| score | levels | design |" + "".join(f" {games} games |" for games in _GAMES))
    print("| --- | --- | --- |" + " --- |" * len(_GAMES))
    scores: tuple[Score, ...] = ("win", "share", "f1", "mean")
    for score, shares, paired in product(
        scores, ((0.5, 0.5), (0.85, 0.85), (0.95, 0.95), (0.8, 0.5)), (False, True)
    ):
        row = [score, f"{shares[0]:g}, {shares[1]:g}", "paired" if paired else "unpaired"]
        for games in _GAMES:
            result = judged(score, paired=paired, shares=shares, games=games, studies=studies)
            row.append(f"{100 * result.covered:.1f} / {100 * result.found:.1f}")
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"{studies:,} studies a cell, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
