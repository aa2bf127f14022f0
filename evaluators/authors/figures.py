"""All figures of a run, in the shape of ``expected.json``."""

from collections.abc import Sequence

from evaluators.authors.annotators import kappa_figures
from evaluators.authors.answers import answer_figures
from evaluators.authors.guessable import guess_items
from evaluators.authors.judged import following_histograms, selection_figures, which_side_higher
from evaluators.authors.playing import play_figures
from evaluators.authors.run import Run
from evaluators.authors.taking import TakenGame

__all__ = ["figures"]


def figures(run: Run, games: Sequence[TakenGame], first_two: Sequence[str] = ()) -> dict[str, object]:
    """Every figure of these games of the run, pooled and game by game.

    Numbers are rounded to six places; None stands where nothing could be counted. ``first_two`` names
    the annotation files of the kappas over two games alone; left out, it is the first two.
    """
    answers = answer_figures(run, games)
    return {
        "pooled": _of(games) | {"f1": answers[None]},
        "games": {game.name: _of([game]) | {"f1": answers[game.name]} for game in games},
        "kappa": kappa_figures(run, games, first_two),
        "guess_items": guess_items(games),
    }


def _of(games: Sequence[TakenGame]) -> dict[str, object]:
    return {
        "figures": {**play_figures(games), **selection_figures(games)},
        "following_histograms": {"counts": following_histograms(games)},
        "which_side_higher": {name: {"counts": counts} for name, counts in which_side_higher(games).items()},
    }
