"""The mixed model: against statsmodels' own formulas, against plain differences, and where there is none."""

import builtins
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import t, ttest_rel
from statsmodels.regression.mixed_linear_model import MixedLM

from evaluators.statistics.mixed import Mixed, MixedRow, mixed


def rows(games: int, *, effect: float = 0.5, paired: bool = True, seed: int = 1) -> list[MixedRow]:
    """Rows of two conditions: seeds and games add to the values."""
    rng = np.random.default_rng(seed)
    of_seed = rng.normal(0, 0.6, games)
    made = []
    for condition, more in (("paper", effect), ("direct", 0.0)):
        for game in range(games):
            of_game = rng.normal(0, 0.4)
            made += [
                MixedRow(
                    float(of_seed[game] * paired + of_game + more + rng.normal(0, 0.5)),
                    condition,
                    f"{condition} {game}",
                    str(game) if paired else "",
                )
                for _ in range(rng.integers(2, 6))
            ]
    return made


def test_it_is_the_model_that_statsmodels_makes_of_a_formula() -> None:
    made = rows(12)
    table = pd.DataFrame(made)
    table["treated"] = (table["condition"] == "paper").astype(float)
    # Games are nested in seeds, so that the formula's groups can be seeds.
    model = smf.mixedlm(
        "value ~ treated", table, groups="seed", re_formula="1", vc_formula={"game": "0 + C(game)"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.fit(reml=True, method="nm", maxiter=5000)
    assert expected.converged
    found = mixed(made, "paper", "direct")
    assert found.effect == pytest.approx(expected.params["treated"], abs=1e-4)
    assert found.variances["seed"] == pytest.approx(expected.cov_re.iloc[0, 0], rel=0.02)
    assert found.variances["game"] == pytest.approx(expected.vcomp[0], rel=0.02)
    assert found.variances["rest"] == pytest.approx(expected.scale, rel=0.02)
    assert found.df == 11
    assert found.low is not None
    assert found.p is not None
    assert found.low < found.effect < (found.high or 0)  # type: ignore[operator]
    assert (found.p < 0.05) is (found.low > 0)


def test_one_row_of_each_condition_a_seed_gives_the_interval_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    of_seed = rng.normal(0, 1, 14)
    values = {name: of_seed + more + rng.normal(0, 0.5, 14) for name, more in (("paper", 0.4), ("direct", 0))}
    made = [
        MixedRow(float(value), condition, f"{condition} {seed}", str(seed))
        for condition, of_condition in values.items()
        for seed, value in enumerate(of_condition)
    ]
    found = mixed(made, "paper", "direct")
    paired = ttest_rel(values["paper"], values["direct"])
    limits = paired.confidence_interval(0.95)
    assert (found.effect, found.low, found.high) == pytest.approx(
        (np.mean(values["paper"] - values["direct"]), limits.low, limits.high), rel=1e-4
    )
    assert found.p == pytest.approx(paired.pvalue, rel=1e-4)


@pytest.mark.parametrize("seed", [2, 45, 116])
def test_in_a_crossed_design_with_gaps_the_interval_is_that_of_least_squares(seed: int) -> None:
    """By Henderson's equations, which know the sum of the effects' and the parts' squares alone."""
    rng = np.random.default_rng(seed)
    of_seed, of_opponents = rng.normal(0, 0.2, 10), rng.normal(0, 0.2, 3)
    made = []
    for number in range(10):
        for condition, more in (("paper", 0.2), ("direct", 0.0)):
            if rng.random() >= 0.15:
                other = int(rng.integers(3))
                value = of_seed[number] + of_opponents[other] + more + rng.normal(0, 0.2)
                made.append(
                    MixedRow(float(value), condition, f"{condition} {number}", str(number), str(other))
                )
    found = mixed(made, "paper", "direct")
    fixed = np.array([[1.0, row.condition == "paper"] for row in made])
    columns, penalties = [fixed], [0.0, 0.0]
    for part in sorted(found.variances.keys() - {"rest"}):
        level = np.array([getattr(row, part) for row in made])
        names = np.unique(level)
        columns.append((level[:, None] == names).astype(float))
        penalties += [found.variances["rest"] / found.variances[part]] * len(names)
    every = np.hstack(columns)
    inverse = np.linalg.inv(every.T @ every + np.diag(penalties))
    half = t.ppf(0.975, found.df) * np.sqrt(found.variances["rest"] * inverse[1, 1])
    assert found.effect is not None
    assert (found.low, found.high) == pytest.approx((found.effect - half, found.effect + half))


def test_rows_that_have_nothing_in_common_are_searched_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    fit = MixedLM.fit

    def noted(model: MixedLM, *args: Any, **kwargs: Any) -> Any:
        groups.append(model.n_groups)
        return fit(model, *args, **kwargs)

    monkeypatch.setattr(MixedLM, "fit", noted)
    apart = rows(6)
    chained = [
        row._replace(opponents=str(int(row.seed) // 2 if row.condition == "paper" else 9)) for row in apart
    ]
    for used, expected in ((apart, 6), (chained, 1)):
        groups.clear()
        assert mixed(used, "paper", "direct").effect is not None
        assert groups[0] == expected


def test_the_conditions_change_places_with_the_sign() -> None:
    made = rows(8, paired=False)
    one, other = mixed(made, "paper", "direct"), mixed(made, "direct", "paper")
    assert one.effect == pytest.approx(-(other.effect or 0), abs=1e-4)
    assert one.p == pytest.approx(other.p, abs=1e-3)
    assert (one.df, one.games) == (14, 16)
    assert "seed" not in one.variances


def test_of_many_rows_each_game_s_mean_is_an_observation() -> None:
    made = rows(60)
    found = mixed(made, "paper", "direct")
    assert (found.rows, found.games) == (len(made), 120)
    assert found.rows > 300
    assert "game" not in found.variances  # it is what is left over
    assert found.effect == pytest.approx(0.5, abs=0.3)


def test_where_nothing_is_shared_it_is_the_difference_of_the_means() -> None:
    values = {"paper": (0.2, 0.9, 0.4, 0.7), "direct": (0.1, 0.3, 0.5, 0.2)}
    made = [
        MixedRow(value, name, f"{name} {at}") for name, of in values.items() for at, value in enumerate(of)
    ]
    found = mixed(made, "paper", "direct")
    assert found.effect == pytest.approx(0.55 - 0.275)
    assert found.note == "neither game, seed nor opponents add any variance"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ([], "a mixed model needs two games of each condition; paper has less"),
        (
            [MixedRow(1, "paper", "a"), MixedRow(0, "paper", "b"), MixedRow(1, "direct", "c")],
            "a mixed model needs two games of each condition; direct has less",
        ),
        (
            [MixedRow(1, name, f"{name}{game}") for name in ("paper", "direct") for game in range(3)],
            "all values are equal",
        ),
        (
            [
                MixedRow(name == "paper", name, f"{name}{game}")
                for name in ("paper", "direct")
                for game in (1, 2)
            ],
            "the mixed model did not converge: the games of each condition do not differ",
        ),
        (
            [
                MixedRow(float(game % 3 == 0), name, f"{name}{game}", str(game))
                for name in ("paper", "direct")
                for game in range(8)
            ],
            "the mixed model did not converge: the parts explain all, so nothing is left for an error",
        ),
    ],
)
def test_where_there_is_no_effect_it_says_why(made: list[MixedRow], why: str) -> None:
    found = mixed(made, "paper", "direct")
    assert (found.effect, found.low, found.p, found.note) == (None, None, None, why)


def test_without_statsmodels_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any) -> Any:
        if name.startswith("statsmodels"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", refuse)
    found: Mixed = mixed(rows(4), "paper", "direct")
    assert found.note == "needs statsmodels: pip install statsmodels"
