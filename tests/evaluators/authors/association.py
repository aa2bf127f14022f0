"""Theil's U between which side does better and how the quest came out, as ``association.py`` of the release
computes it, and the other way round.

For every quest, loyal is higher or not: of each side, the sum over its turns of what was scored, divided by
the number of its turns. Selection sums the reasonable intentions that were spoken with a score of 3 or more,
following the scores (1 to 5) of what was spoken of reasonable intentions; both of the last selection of a
turn, also where it was kept. A tie counts as higher.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Final

from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.counting import judged_stages, side_name
from evaluators.authors.labels import rounded
from evaluators.ground.turns import read_game
from evaluators.statistics.association import theils_u as of_counts

__all__ = ["association_figures", "theils_u"]


def theils_u(pairs: Sequence[tuple[Hashable, Hashable]]) -> float:
    """The share of the first's uncertainty that the second removes, over these pairs."""
    return of_counts(Counter(pairs))


def association_figures(games: Sequence[ConvertedGame]) -> dict[str, float | int | None]:
    """By measure: the released direction (``…``: what the result says about which side is higher), and the
    other (``… reversed``: what that says about the result). ``quests`` counts them.
    """
    pairs: dict[str, list[tuple[bool, bool]]] = {"selection": [], "following": []}
    for game in games:
        turns = Counter(
            (turn.round, side_name(game.state, turn.seat))
            for turn in read_game(game.game_id, game.state.log).turns
        )
        sums: Counter[tuple[str, int, str]] = Counter()
        for stage in judged_stages(game):
            if stage.stage != "final":
                continue
            for reasonable, _, speak in stage.scores:
                sums["selection", stage.round, stage.side] += reasonable and speak >= _SPOKEN
                sums["following", stage.round, stage.side] += speak if reasonable else 0
        for quest in game.state.table.quests:
            for measure, of_measure in pairs.items():
                mean = {
                    side: Fraction(sums[measure, quest.round, side], turns[quest.round, side])
                    for side in ("loyal", "evil")
                }
                of_measure.append((mean["loyal"] >= mean["evil"], quest.succeeded))
    figures: dict[str, float | int | None] = {"quests": len(pairs["selection"])}
    for measure, of_measure in pairs.items():
        figures[measure] = rounded(theils_u(of_measure))
        figures[f"{measure} reversed"] = rounded(theils_u([(won, higher) for higher, won in of_measure]))
    return figures


_SPOKEN: Final = 3
