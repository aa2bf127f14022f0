"""Ratings by one fit over all games.

    ladder = rate([RatedGame("official, 5 players", Played("g1", agents, roles, winner)), …])
    ladder.players[0].rating        # the strongest, with its limits

The log odds that loyal wins a game are the intercept of its rules (profile and number of seats), plus the
skill as loyal of every loyal seat's player, minus the skill as evil of every evil seat's. So it does not
matter how often a player was dealt evil, nor whether the rules favour a side.

Skills are partially pooled: a player's skill as loyal and as evil are s + d and s - d, with s and d normal
around the mean of all players, which counts as 0. Whoever has played little is near the mean. How far
players differ, and how far their two skills, is not fixed beforehand: the fit is made for each pair of
deviations of a grid, and the fits are averaged by their marginal likelihood (Laplace). So players that are
equal come out as equal, and limits allow for not knowing the deviations.

Limits are over games. The variance of a figure is the larger of two: that of the posterior, and the
sandwich H⁻¹(Σ gᵢgᵢᵀ + P)H⁻¹ with each game's score gᵢ divided by one minus its leverage (CR3), which does
not need the model's own variance to be right. P is the penalty: it adds what shrinking may have biased. See
`docs/ratings.md` for how often the limits hold.

A player that deserts a game has lost it, and who else sat at that table has neither won nor lost: the other
seats are held by the players that it met in its other games, each by its share of their seats. So silence
costs what losing costs. Did such a game differ from the others in any other way, whoever leaves only what it
loses would move the effect that tells them apart, and gain.

Games in which one player holds every seat take part: they tell the intercept. Needs numpy and scipy (extra
``reports``), which are imported where they are used. The same games give the same ratings, in any order.

Source: Bradley and Terry, Biometrika 39 (1952), extended to teams; Wood, JASA 111 (2016), for the limits of
penalised fits.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.terms import Side, side_of
from evaluators.measures.duels import Played
from evaluators.ratings.games import Desertion, RatedGame
from evaluators.statistics.rates import Rate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

__all__ = [
    "Favour",
    "PlayerRating",
    "RatingLadder",
    "RulesBalance",
    "WithLimits",
    "favour",
    "rate",
]

_Z: Final = 1.959964
"""The 97.5 % point of the normal distribution."""

_DEVIATIONS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""The grid of standard deviations, in log odds a seat. 0.05 moves a share of wins by 1 %."""

_SCALE: Final = 0.5
"""Where the prior of a deviation is highest."""

_INTERCEPT: Final = 1.5
"""The deviation of the intercepts around 0: shares of wins between 5 and 95 %."""

_FAVOUR: Final = 1.0
"""The deviation of the effects of favour around 0."""

_UNLIKELY: Final = -10.0
"""Points of the grid with less than exp of this of the greatest weight are left out."""

_STEPS: Final = 50
_ENOUGH: Final = 1e-20
"""The search ends when a step would change the effects by less than the root of this, in deviations."""


class WithLimits(NamedTuple):
    """A number with the limits of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PlayerRating:
    """What the games tell of one player. The first three shares are expected ones: of games in which players
    of mean skill hold all other seats, by the rules of most games.
    """

    player: str
    rating: WithLimits
    """The share of games won with a seat that is dealt at random."""
    as_loyal: WithLimits
    as_evil: WithLimits
    skill: WithLimits
    """The same in log odds, 0 for a mean player: what a seat of this player adds to its side's."""
    best_rank: int
    worst_rank: int
    """The places that the player may have on the ladder, from 1: one more than there are players that are
    certainly better, and as many as are not certainly worse. Certain: the difference in skill is beyond 0 at
    95 % for all pairs of the ladder together (Bonferroni)."""
    games: int
    """A game counts once, however many of its seats the player held."""
    won_as_loyal: Rate
    """Games won, as they were, of those with the player on a loyal seat. With seats of both sides, a game
    counts for both."""
    won_as_evil: Rate
    deserted: int = 0
    """Games that it left. Each counts as lost, for this player alone, and is in none of the other counts."""


class RulesBalance(NamedTuple):
    """How rules favour a side, among players of mean skill."""

    rules: str
    loyal_wins: WithLimits
    games: int


@dataclass(frozen=True, slots=True)
class RatingLadder:
    """Ratings of all players of some games."""

    games: int
    players: tuple[PlayerRating, ...]
    """The highest rating first; equal ones by name."""
    rules: tuple[RulesBalance, ...]
    """Those of most games first; the ratings are by the first."""
    deviation: float
    """How far players differ in skill: the standard deviation, in log odds."""
    deviation_of_sides: float
    """How far a player's two skills differ from their mean: the standard deviation, in log odds."""


class Favour(NamedTuple):
    """Whether players of one owner play better together, or let each other win."""

    games: int
    """Games with several players of one owner."""
    together: WithLimits | None
    """What each pair of one owner on a side adds to its side's log odds, beyond their skills. None: there was
    no such pair."""
    across: WithLimits | None
    """What each pair of one owner on opposite sides adds to the log odds of the side of the owner's stronger
    player: above 0, the weaker one lets it win. None: there was no such pair."""


def rate(games: Iterable[RatedGame], deserted: Iterable[Desertion] = ()) -> RatingLadder:
    """The ratings of everybody who played these games, or deserted others. Empty without games, since then
    nobody knows how often a side wins.

    Raises ValueError if two games have the same id, ImportError without numpy and scipy.
    """
    rated = _in_order(games)
    if not rated:
        return RatingLadder(0, (), (), 0.0, 0.0)
    left = sorted(deserted)
    model = _Model(rated, deserted=left)
    fits = model.fits()
    names = model.players
    favours = model.intercept(model.rules[0])
    skills, loyals, evils, slopes = [], [], [], []
    for name in names:
        s, d = model.mean_skill(name), model.difference(name)
        skills.append(model.skill(name))
        loyals.append({favours: 1.0, s: 1.0, d: 1.0})
        evils.append({favours: -1.0, s: 1.0, d: -1.0})
        slopes.append(_slopes(fits, loyals[-1], evils[-1], model.evil_share))
    balances: list[Mapping[int, float]] = [{model.intercept(rules): 1.0} for rules in model.rules]
    limits, ranks = fits.read([*skills, *loyals, *evils, *slopes, *balances], skills)
    estimates = iter(limits)
    skill, loyal, evil, slope = (list(itertools.islice(estimates, len(names))) for _ in range(4))
    counts = _counted(rated)
    left_by = Counter(one.player for one in left)
    found = []
    for at, (name, (best, worst)) in enumerate(zip(names, ranks, strict=True)):
        found.append(
            PlayerRating(
                player=name,
                rating=_overall(loyal[at], evil[at], slope[at], model.evil_share),
                as_loyal=_share(loyal[at]),
                as_evil=_share(evil[at]),
                skill=skill[at],
                best_rank=best,
                worst_rank=worst,
                games=counts.games[name],
                won_as_loyal=Rate(*counts.won[name, Side.LOYAL]),
                won_as_evil=Rate(*counts.won[name, Side.EVIL]),
                deserted=left_by[name],
            )
        )
    found.sort(key=lambda one: (-one.rating.value, one.player))
    return RatingLadder(
        games=len(rated),
        players=tuple(found),
        rules=tuple(
            RulesBalance(one, _share(balance), model.games_by[one])
            for one, balance in zip(model.rules, estimates, strict=True)
        ),
        deviation=fits.deviation,
        deviation_of_sides=fits.deviation_of_sides,
    )


def favour(games: Iterable[RatedGame], owners: Mapping[str, str]) -> Favour:
    """Whether players of one owner favoured each other in these games. ``owners``: by player; a player that
    is not named has no owner, and a player that holds several seats favours nobody by that.

    Give all games that are known, those with one player an owner too: they tell the skills. Raises as
    ``rate``.
    """
    known = _in_order(games)
    mates = [(game, list(_pairs(game.played, owners))) for game in known]
    with_mates = sum(bool(pairs) for _, pairs in mates)
    if not with_mates:
        return Favour(0, None, None)
    strength = _strengths([game for game, pairs in mates if not pairs])
    together, across = [], []
    for game, pairs in mates:
        sides = dict(_sides(game.played))
        more, gap = 0.0, 0.0
        for one, two in pairs:
            if sides[one] is sides[two]:
                more += 1.0 if sides[one] is Side.LOYAL else -1.0
            else:
                agents = game.played.agents
                # Equal ones by name, so that the direction does not depend on who won.
                stronger = max(one, two, key=lambda seat: (strength.get(agents[seat], 0.0), agents[seat]))
                gap += 1.0 if sides[stronger] is Side.LOYAL else -1.0
        together.append(more)
        across.append(gap)
    model = _Model(known, [together, across])
    fits = model.fits()
    (on_one_side, on_both), _ = fits.read([{at: 1.0} for at in model.extra])
    return Favour(with_mates, on_one_side if any(together) else None, on_both if any(across) else None)


def _strengths(games: Sequence[RatedGame]) -> dict[str, float]:
    """The skill of everybody who played these games, as in ``PlayerRating``, without limits."""
    if not games:
        return {}
    model = _Model(games)
    fits = model.fits()
    return {name: fits.mean(model.skill(name)) for name in model.players}


def _usual_odds(games: Sequence[RatedGame]) -> float:
    """The log odds at which loyal has won. Half a game is added to either side, so that few games give no
    certainty.
    """
    loyal = sum(game.played.winner is Side.LOYAL for game in games)
    return log((loyal + 0.5) / (len(games) - loyal + 0.5))


def _met(games: Sequence[RatedGame], players: Set[str]) -> dict[str, dict[str, float]]:
    """By player: the share that each player it met has of the other seats of its games; of the seats of all
    games, if it met nobody.
    """
    seats: dict[str, Counter[str]] = {player: Counter() for player in players}
    every: Counter[str] = Counter()
    for game in games:
        agents = game.played.agents
        every.update(agents)
        for player in players & set(agents):
            seats[player].update(agent for agent in agents if agent != player)
    return {
        player: {name: count / found.total() for name, count in found.items()}
        for player, counts in seats.items()
        for found in [counts or every]
    }


def _in_order(games: Iterable[RatedGame]) -> list[RatedGame]:
    """By id. Rules under which games differ in their numbers of loyal and evil seats are told apart."""
    rated = sorted(games, key=lambda game: game.played.game_id)
    for game, next_ in itertools.pairwise(rated):
        if game.played.game_id == next_.played.game_id:
            raise ValueError(f"game {game.played.game_id} is given twice")
    seats: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for game in rated:
        seats[game.rules].add(_seats(game))
    return [
        game
        if len(seats[game.rules]) == 1
        else game._replace(rules="{} ({} loyal, {} evil)".format(game.rules, *_seats(game)))
        for game in rated
    ]


def _sides(played: Played) -> Iterable[tuple[int, Side]]:
    """The side of each seat; seats are counted from 0."""
    return ((seat, side_of(role)) for seat, role in enumerate(played.roles))


def _pairs(played: Played, owners: Mapping[str, str]) -> Iterable[tuple[int, int]]:
    """Pairs of seats, from 0, of different players of one owner."""
    for one, two in itertools.combinations(range(len(played.agents)), 2):
        first, second = played.agents[one], played.agents[two]
        if first != second and owners.get(first, "") and owners.get(first) == owners.get(second):
            yield one, two


def _seats(game: RatedGame) -> tuple[int, int]:
    """The number of loyal and of evil seats."""
    sides = [side for _, side in _sides(game.played)]
    return sides.count(Side.LOYAL), sides.count(Side.EVIL)


class _Counted(NamedTuple):
    games: Counter[str]
    won: Mapping[tuple[str, Side], list[int]]
    """Games won and played, by player and side."""


def _counted(games: Iterable[RatedGame]) -> _Counted:
    played: Counter[str] = Counter()
    won: dict[tuple[str, Side], list[int]] = defaultdict(lambda: [0, 0])
    for game in games:
        of = game.played
        played.update(set(of.agents))
        for agent, side in {(of.agents[seat], side) for seat, side in _sides(of)}:
            won[agent, side][0] += side is of.winner
            won[agent, side][1] += 1
    return _Counted(played, won)


# --- from log odds to shares -----------------------------------------------------------------------


def _chance(odds: float) -> float:
    return 1 / (1 + exp(-odds)) if odds > -700 else 0.0


def _share(odds: WithLimits) -> WithLimits:
    """The share of wins with these log odds."""
    return WithLimits(*(_chance(value) for value in odds))


def _slopes(
    fits: "_Fits", loyal: Mapping[int, float], evil: Mapping[int, float], evil_share: float
) -> dict[int, float]:
    """By how much each effect changes the share of wins over both sides (the delta method)."""
    as_loyal, as_evil = _chance(fits.mean(loyal)), _chance(fits.mean(evil))
    slope_loyal = (1 - evil_share) * as_loyal * (1 - as_loyal)
    slope_evil = evil_share * as_evil * (1 - as_evil)
    return {at: slope_loyal * loyal[at] + slope_evil * evil[at] for at in loyal}


def _overall(loyal: WithLimits, evil: WithLimits, slope: WithLimits, evil_share: float) -> WithLimits:
    """The share of wins over both sides. Its limits are those of its slopes, on the scale of log odds."""
    share = (1 - evil_share) * _chance(loyal.value) + evil_share * _chance(evil.value)
    half = (slope.high - slope.low) / 2 / (share * (1 - share))
    odds = log(share / (1 - share))
    return WithLimits(share, _chance(odds - half), _chance(odds + half))


# --- the fit ---------------------------------------------------------------------------------------


def _prior(deviation: float) -> float:
    """The logarithm of the prior weight of a point of the grid. The density is Rayleigh's. It is 0 for
    players without any difference, so that few games do not make limits too narrow (Chung and others,
    Psychometrika 78, 2013). The grid is even in the logarithm, hence one factor more.
    """
    return 2 * log(deviation) - (deviation / _SCALE) ** 2 / 2


class _Model:
    """The games as a matrix: a row for each game, a column for each effect."""

    def __init__(
        self,
        games: Sequence[RatedGame],
        extra: Sequence[Sequence[float]] = (),
        deserted: Sequence[Desertion] = (),
    ) -> None:
        """``extra``: further effects, each with a value for every game. ``deserted``: a row each, too."""
        import numpy as np
        from scipy.sparse import csr_array

        self.games_by = Counter(game.rules for game in games)
        self.seats = {game.rules: _seats(game) for game in games}
        self.rules = sorted(self.games_by, key=lambda rules: (-self.games_by[rules], rules))
        agents = {agent for game in games for agent in game.played.agents}
        self.players = sorted(agents | {one.player for one in deserted})
        self._rules_at = {name: at for at, name in enumerate(self.rules)}
        first = len(self.rules)
        self._player_at = {name: first + at for at, name in enumerate(self.players)}
        self._first_difference = first + len(self.players)
        after = self._first_difference + len(self.players)
        self.extra = tuple(range(after, after + len(extra)))
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for row, game in enumerate(games):
            cells: Counter[int] = Counter({self._rules_at[game.rules]: 1})
            for seat, side in _sides(game.played):
                name = game.played.agents[seat]
                # Skill as loyal is s + d and speaks for loyal; skill as evil is s - d and speaks against it.
                cells[self.mean_skill(name)] += 1 if side is Side.LOYAL else -1
                cells[self.difference(name)] += 1
            rows += [row] * len(cells)
            columns += cells.keys()
            values += cells.values()
        met = _met(games, {one.player for one in deserted})
        for row, one in enumerate(deserted, len(games)):
            loyal, evil = self.seats.get(one.rules, self.seats[self.rules[0]])
            own = 1 if one.side is Side.LOYAL else -1
            effects = [(self.mean_skill(one.player), float(own)), (self.difference(one.player), 1.0)]
            if one.rules in self._rules_at:
                effects.append((self._rules_at[one.rules], 1.0))
            for name, share in met[one.player].items():
                effects.append((self.mean_skill(name), (loyal - evil - own) * share))
                effects.append((self.difference(name), (loyal + evil - 1) * share))
            rows += [row] * len(effects)
            columns += [at for at, _ in effects]
            values += [value for _, value in effects]
        if extra:
            for at, effect in zip(self.extra, extra, strict=True):
                rows += range(len(games))
                columns += [at] * len(games)
                values += effect
        shape = (len(games) + len(deserted), after + len(extra))
        self._design = csr_array((np.array(values, float), (rows, columns)), shape=shape)
        won = [game.played.winner is Side.LOYAL for game in games]
        self._won = np.array([*won, *(one.side is Side.EVIL for one in deserted)], float)
        self._known = np.zeros(shape[0])
        """What is not fitted of each row's log odds: the intercept of rules that nobody played to the end."""
        unknown = np.array([one.rules not in self._rules_at for one in deserted], bool)
        self._known[len(games) :] = unknown * _usual_odds(games)

    def intercept(self, rules: str) -> int:
        return self._rules_at[rules]

    def mean_skill(self, player: str) -> int:
        """The column of the mean of the player's two skills."""
        return self._player_at[player]

    def difference(self, player: str) -> int:
        """The column of half the difference of the player's two skills."""
        return self._player_at[player] + len(self.players)

    @property
    def evil_share(self) -> float:
        """The share of evil seats, by the rules of most games."""
        loyal, evil = self.seats[self.rules[0]]
        return evil / (loyal + evil)

    def skill(self, player: str) -> dict[int, float]:
        """The player's skill in a seat that is dealt at random, by the rules of most games."""
        return {self.mean_skill(player): 1.0, self.difference(player): 1.0 - 2.0 * self.evil_share}

    def fits(self) -> "_Fits":
        """A fit for each pair of deviations, with its weight."""
        import numpy as np

        found = []
        start = np.zeros(self._design.shape[1])
        for of_s, of_d in itertools.product(_DEVIATIONS, _DEVIATIONS):
            fit = self._fit(self._penalty(of_s, of_d), start)
            start = fit.effects
            found.append((fit, fit.evidence + _prior(of_s) + _prior(of_d), of_s, of_d))
        most = max(weight for _, weight, _, _ in found)
        likely = [
            (exp(weight - most), fit, of_s, of_d)
            for fit, weight, of_s, of_d in found
            if weight - most > _UNLIKELY
        ]
        total = sum(weight for weight, _, _, _ in likely)
        kept = [(weight / total, fit, of_s, of_d) for weight, fit, of_s, of_d in likely]
        centring = self._centring()
        return _Fits(
            [
                (weight, centring @ fit.effects, partial(self._covariances, fit, centring))
                for weight, fit, _, _ in kept
            ],
            sum(weight * of_s for weight, _, of_s, _ in kept),
            sum(weight * of_d for weight, _, _, of_d in kept),
        )

    def _centring(self) -> "Numbers":
        """Moves the means of s and of d into the intercepts. What all players share cannot be told from what
        the rules favour, and nothing that is said of a player depends on it.
        """
        import numpy as np

        players, first = len(self.players), len(self.rules)
        moved: Numbers = np.eye(self._design.shape[1])
        s = slice(first, first + players)
        d = slice(first + players, first + 2 * players)
        for part in (s, d):
            moved[part, part] -= 1 / players
        for rules, at in self._rules_at.items():
            loyal, evil = self.seats[rules]
            moved[at, s] = (loyal - evil) / players
            moved[at, d] = (loyal + evil) / players
        return moved

    def _penalty(self, of_s: float, of_d: float) -> "Numbers":
        import numpy as np

        players = len(self.players)
        return np.concatenate(
            [
                np.full(len(self.rules), _INTERCEPT**-2),
                np.full(players, of_s**-2),
                np.full(players, of_d**-2),
                np.full(len(self.extra), _FAVOUR**-2),
            ]
        )

    def _fit(self, penalty: "Numbers", start: "Numbers") -> "_Fit":
        """The mode, by Newton's method: the objective is concave, and a step is halved until it goes up."""
        import numpy as np
        from scipy.linalg import cho_factor, cho_solve

        effects = start
        value = self._objective(effects, penalty)
        factor: Any = None
        for _ in range(_STEPS):
            chances = self._chances(effects)
            hessian = self._hessian(chances, penalty)
            factor = cho_factor(hessian, lower=True)
            slope = self._design.T @ (self._won - chances) - penalty * effects
            step = cho_solve(factor, slope)
            gain = float(slope @ step)
            if gain < _ENOUGH:
                break
            size = 1.0
            least = value - 1e-12 * abs(value)  # a step at the top may seem to lead down, by rounding
            while (next_ := self._objective(effects + size * step, penalty)) < least and size > 1e-6:
                size /= 2
            effects, value = effects + size * step, next_
        determinant = 2 * float(np.log(np.diag(factor[0])).sum())
        evidence = value + float(np.log(penalty).sum()) / 2 - determinant / 2
        return _Fit(effects, penalty, evidence)

    def _chances(self, effects: "Numbers") -> "Numbers":
        from scipy.special import expit

        chances: Numbers = expit(self._design @ effects + self._known)
        return chances

    def _hessian(self, chances: "Numbers", penalty: "Numbers") -> "Numbers":
        import numpy as np

        weighted = self._design.multiply((chances * (1 - chances))[:, None])
        return np.asarray((self._design.T @ weighted).todense()) + np.diag(penalty)

    def _objective(self, effects: "Numbers", penalty: "Numbers") -> float:
        import numpy as np

        odds = self._design @ effects + self._known
        likelihood = float((self._won * odds - np.logaddexp(0.0, odds)).sum())
        return likelihood - float(penalty @ effects**2) / 2

    def _covariances(self, fit: "_Fit", centring: "Numbers") -> tuple["Numbers", "Numbers"]:
        """That of the posterior, and the sandwich, both centred."""
        import numpy as np
        from scipy.linalg import cho_factor, cho_solve

        chances = self._chances(fit.effects)
        factor = cho_factor(self._hessian(chances, fit.penalty), lower=True)
        inverse = cho_solve(factor, np.eye(len(fit.effects)))
        leverage = np.empty(len(chances))
        for first in range(0, len(chances), _ROWS):
            some = self._design[first : first + _ROWS]
            leverage[first : first + _ROWS] = some.multiply(some @ inverse).sum(axis=1)
        leverage *= chances * (1 - chances)
        rest = (self._won - chances) / (1 - np.minimum(leverage, 0.99))
        scores = self._design.multiply(rest[:, None])
        middle = np.asarray((scores.T @ scores).todense()) + np.diag(fit.penalty)
        half = centring @ inverse
        return half @ centring.T, half @ middle @ half.T


_ROWS: Final = 4096
"""Games whose leverage is computed together."""


class _Fit(NamedTuple):
    effects: "Numbers"
    penalty: "Numbers"
    evidence: float
    """The logarithm of the marginal likelihood, but for a constant."""


class _Fits(NamedTuple):
    """Fits for several deviations."""

    weighted: Sequence[tuple[float, "Numbers", Callable[[], tuple["Numbers", "Numbers"]]]]
    """Weight, effects, and what computes two covariances: each is as large as the effects squared, so those
    of one fit are held at a time."""
    deviation: float
    deviation_of_sides: float

    def mean(self, combination: Mapping[int, float]) -> float:
        return sum(
            weight * sum(factor * float(effects[at]) for at, factor in combination.items())
            for weight, effects, _ in self.weighted
        )

    def read(
        self, combinations: Sequence[Mapping[int, float]], ranked: Sequence[Mapping[int, float]] = ()
    ) -> tuple[list[WithLimits], list[tuple[int, int]]]:
        """These combinations of effects, with their limits; and of each of the ranked ones, the best and the
        worst place among them, as in ``PlayerRating``.
        """
        import numpy as np
        from scipy.special import ndtri

        parts = [(np.array(list(one)), np.array(list(one.values()), float)) for one in combinations]
        means = [self.mean(one) for one in combinations]
        variances = [0.0] * len(parts)
        count = len(ranked)
        which = np.zeros((count, len(self.weighted[0][1])))
        for row, combination in enumerate(ranked):
            which[row, list(combination)] = list(combination.values())
        values = sum((weight * (which @ effects) for weight, effects, _ in self.weighted), np.zeros(count))
        apart = np.subtract.outer(values, values)
        variance = np.zeros((count, count))
        for weight, effects, compute in self.weighted:
            covariances = compute()
            for number, (at, factors) in enumerate(parts):
                within = max(float(factors @ each[np.ix_(at, at)] @ factors) for each in covariances)
                variances[number] += weight * (within + (float(factors @ effects[at]) - means[number]) ** 2)
            between = np.zeros((count, count))
            for covariance in covariances:
                product = which @ covariance @ which.T
                own = np.diag(product)
                between = np.maximum(between, own[:, None] + own[None, :] - 2 * product)
            here = which @ effects
            variance += weight * (between + (np.subtract.outer(here, here) - apart) ** 2)
        halves = [_Z * sqrt(one) for one in variances]
        limits = [
            WithLimits(mean, mean - half, mean + half) for mean, half in zip(means, halves, strict=True)
        ]
        pairs = max(count * (count - 1) // 2, 1)
        certain = apart > -float(ndtri(0.025 / pairs)) * np.sqrt(variance) + 1e-12
        ranks = [(1 + int(certain[:, at].sum()), count - int(certain[at, :].sum())) for at in range(count)]
        return limits, ranks
