"""Reads and writes run folders of the InterIntent authors' program, and computes all figures of a run.

Functions take and return file contents; nothing here touches a disk. A folder is a mapping of relative paths,
with ``/``, to bytes:

    run = read_run(files)              the contents of the files, checked and typed
    for game in run.games:
        converted = convert(run, game) a finished game of ours, with thoughts and judgements
    answers_of(run, games)             guesses and summaries as answers to our items
    figures(run, games)                every figure of their evaluation, recomputed
    compare(expected, found)           the figures beside the expected ones
    write_game(name, log, judgements)  the same files again

Source of the format: the authors' released program (repository uscnlp-lime/Inter-Intent).
"""

from evaluators.authors.conversion import ConvertedGame, content_id, convert, judgements_of
from evaluators.authors.figures import Compared, compare, figures
from evaluators.authors.labels import released_label
from evaluators.authors.run import Run, read_run
from evaluators.authors.taking import TakenAnswer, answers_of
from evaluators.authors.writing import write_game

__all__ = [
    "Compared",
    "ConvertedGame",
    "Run",
    "TakenAnswer",
    "answers_of",
    "compare",
    "content_id",
    "convert",
    "figures",
    "judgements_of",
    "read_run",
    "released_label",
    "write_game",
]
