"""A mixed model as a second opinion beside a contrast: the condition is fixed; game, seed and opponents are
random.

It asks the same question as the contrast with other assumptions: every row is an observation, what games,
seeds and opponents add is normal, and all are estimated together (linear mixed model, REML). Needs the extra
``statistics`` (statsmodels); without it the result says so.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean
from typing import Any, Final, NamedTuple

from evaluators.statistics.intervals import snapped, student_p, student_quantile

__all__ = ["ALL_EQUAL", "Mixed", "MixedRow", "mixed"]

ALL_EQUAL: Final = "all values are equal"
"""The note where there is nothing to be explained."""


class MixedRow(NamedTuple):
    """One observation."""

    value: float
    """Such as 1 for a reasonable selection and 0 for another, or a following score."""
    condition: str
    game: str
    seed: str = ""
    """The deal that games of several conditions share; empty if there is none."""
    opponents: str = ""
    """Who sat on the other side; empty if that does not vary."""


@dataclass(frozen=True, slots=True)
class Mixed:
    """The model's opinion on a difference."""

    effect: float | None
    """The first condition less the second, in the unit of the values; None if ``note`` says why."""
    low: float | None = None
    """The lower limit of the 95 % interval, by Student's t."""
    high: float | None = None
    p: float | None = None
    """Two-sided, that the effect is 0."""
    df: int = 0
    """The degrees of freedom: seeds that both conditions share less 1, else games less 2."""
    rows: int = 0
    """The rows given. Of more than 300, each game's mean is one observation."""
    games: int = 0
    variances: dict[str, float] = field(default_factory=dict)
    """The variance that game, seed and opponents add, and what is left over (``rest``). A part that is
    missing does not vary, or cannot be told from another."""
    note: str = ""
    """Why there is no effect, or how far it may be trusted."""


_PARTS: Final[tuple[tuple[str, Callable[[MixedRow], str]], ...]] = (
    ("game", lambda row: row.game),
    ("seed", lambda row: row.seed),
    ("opponents", lambda row: row.opponents),
)

_ROWS: Final = 300
"""The most rows that are taken as they are; of more, each game's mean is an observation. The search for the
variances takes time that grows with the square of the rows that depend on each other: seconds for all 300."""

_NONE_LEFT: Final = 1e-6
"""A share of the variance that is no more than what the search for the variances leaves open."""

_LEVELS: Final = 400
"""The most games, seeds and opponents together."""


def mixed(rows: Iterable[MixedRow], first: str, second: str) -> Mixed:
    """The effect of the condition ``first`` against ``second``. Rows of other conditions are left out."""
    used = [row for row in rows if row.condition in (first, second)]
    rows_given, games = len(used), {(row.condition, row.game) for row in used}

    def nothing(why: str) -> Mixed:
        return Mixed(None, rows=rows_given, games=len(games), note=why)

    few = [name for name in (first, second) if sum(condition == name for condition, _ in games) < 2]
    if few:
        return nothing(f"a mixed model needs two games of each condition; {few[0]} has less")
    if len({row.value for row in used}) == 1:
        return nothing(ALL_EQUAL)
    shared = {row.seed for row in used if row.condition == first and row.seed}
    shared &= {row.seed for row in used if row.condition == second}
    df = len(shared) - 1 if len(shared) > 1 else len(games) - 2
    if len(used) > _ROWS:
        used = list(_means(used))
    parts = _parts(used)
    if sum(len(set(levels)) for levels in parts.values()) > _LEVELS:
        return nothing(f"more than {_LEVELS:,} games, seeds and opponents: not computed")
    try:
        found = _fitted([row.value for row in used], [row.condition == first for row in used], parts)
    except ImportError:
        return nothing("needs statsmodels: pip install statsmodels")
    if isinstance(found, str):
        return nothing(f"the mixed model did not converge: {found}")
    effect, error, variances = found
    half = student_quantile(0.95, df) * error
    return Mixed(
        effect,
        effect - half,
        effect + half,
        student_p(effect / error, df),
        df,
        rows=rows_given,
        games=len(games),
        variances=variances,
        note="" if variances.keys() - {"rest"} else "neither game, seed nor opponents add any variance",
    )


def _means(rows: Sequence[MixedRow]) -> Iterator[MixedRow]:
    """A row for each game of a condition; its opponents are empty if they vary within the game."""
    by_game: dict[tuple[str, str], list[MixedRow]] = {}
    for row in rows:
        by_game.setdefault((row.condition, row.game), []).append(row)
    for of_game in by_game.values():
        opponents = {row.opponents for row in of_game}
        yield of_game[0]._replace(
            value=fmean(row.value for row in of_game),
            opponents=opponents.pop() if len(opponents) == 1 else "",
        )


def _parts(rows: Sequence[MixedRow]) -> dict[str, list[str]]:
    """The level of each row by part, without parts that do not vary, that tell every row apart (what is left
    over does that), or that are another part under a second name.
    """
    parts: dict[str, list[str]] = {}
    for name, level in _PARTS:
        levels = [level(row) for row in rows]
        of = len(set(levels))
        same = any(
            len(set(zip(levels, other, strict=True))) == of == len(set(other)) for other in parts.values()
        )
        if 1 < of < len(rows) and not same:
            parts[name] = levels
    return parts


def _fitted(
    values: Sequence[float], treated: Sequence[bool], parts: dict[str, list[str]]
) -> tuple[float, float, dict[str, float]] | str:
    """Effect, standard error and variances; a sentence if there are none."""
    import numpy as np
    from statsmodels.regression.linear_model import OLS

    x = np.column_stack([np.ones(len(values)), np.asarray(treated, float)])
    y = np.asarray(values, float)
    parts = dict(parts)
    while parts:
        model, result = _fit(y, x, parts)
        if isinstance(result, str):
            return result
        scale = float(result.scale)
        variances = {name: float(v) for name, v in zip(model.exog_vc.names, result.vcomp, strict=True)}
        nothing = min(variances, key=variances.__getitem__)
        if variances[nothing] <= 1e-6 * scale:
            # The part adds nothing: the model is the one without it.
            del parts[nothing]
            continue
        if scale <= _NONE_LEFT * float(np.var(y)):
            return "the parts explain all, so nothing is left for an error"
        error = _standard_error(x, parts, variances, scale)
        return snapped(float(result.fe_params[1])), error, {**variances, "rest": scale}
    plain = OLS(y, x).fit()
    error = sqrt(float(plain.cov_params()[1, 1]))
    if error <= 1e-12 * max(1.0, abs(float(plain.params[1]))):
        return "the games of each condition do not differ"
    return snapped(float(plain.params[1])), error, {"rest": float(plain.scale)}


def _standard_error(
    x: Any, parts: Mapping[str, Sequence[str]], variances: Mapping[str, float], rest: float
) -> float:
    """Of the effect, by generalized least squares with these variances, as lme4 has it. The one that
    statsmodels gives also holds how well it knows the variances, by the curvature at the place where its
    search ended: between 0.4 and 2 times this one, where a part adds little.
    """
    import numpy as np

    covariance = np.eye(len(x)) * rest
    for name, levels in parts.items():
        level = np.asarray(levels)
        covariance += variances[name] * (level[:, None] == level)
    return sqrt(float(np.linalg.inv(x.T @ np.linalg.solve(covariance, x))[1, 1]))


def _apart(parts: dict[str, list[str]]) -> list[int]:
    """A number for each row: rows with different numbers have nothing in common, neither themselves nor by
    way of other rows. So each group has a matrix of its own, and the time grows with their number alone.
    """
    group = list(range(len(next(iter(parts.values())))))
    changed = True
    while changed:
        changed = False
        for levels in parts.values():
            least: dict[str, int] = {}
            for level, number in zip(levels, group, strict=True):
                least[level] = min(number, least.get(level, number))
            joined = [least[level] for level in levels]
            changed |= joined != group
            group = joined
    return group


def _fit(y: Any, x: Any, parts: dict[str, list[str]]) -> tuple[Any, Any]:
    """The model and its result, or a sentence in its place."""
    import numpy as np
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    names = sorted(parts)
    # statsmodels takes the number of a group for its place.
    groups = np.unique(_apart(parts), return_inverse=True)[1]
    tables: list[dict[int, Any]] = []
    columns: list[list[list[str]]] = []
    for name in names:
        tables.append({})
        columns.append([])
        for group in np.unique(groups):
            levels, index = np.unique(np.array(parts[name])[groups == group], return_inverse=True)
            tables[-1][group] = np.eye(len(levels))[index]
            columns[-1].append([str(level) for level in levels])
    model = MixedLM(y, x, groups=groups, exog_vc=VCSpec(names, columns, tables))
    fault = "the search for the variances stopped before its end"
    for method in ("bfgs", "lbfgs", "nm"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they say is looked up in the result
                result = model.fit(reml=True, method=method, maxiter=1000)
        except np.linalg.LinAlgError as error:
            fault = str(error).lower()
            continue
        if result.converged:
            return model, result
    return model, fault
