"""The run folders of the InterIntent authors' program, in and out, and every figure made of them.

File contents come in and values go out; nothing here touches a disk. A folder is a mapping of paths,
relative to it and with ``/``, to bytes:

    run = read_run(files)              what the files say, checked and typed
    for game in run.games:
        taken = take(run, game)        a finished game of ours, with thoughts and judgements
    figures(run, games)                every figure of their evaluation, recomputed
    compare(expected, found)           beside the expectation
    write_game(name, log, judgements)  the same files back

Source of the form: the authors' released program (repository uscnlp-lime/Inter-Intent).
"""

from evaluators.authors.figures import Compared, compare, figures
from evaluators.authors.labels import released_label
from evaluators.authors.run import Run, read_run
from evaluators.authors.taking import TakenGame, content_id, judgements_of, take
from evaluators.authors.writing import write_game

__all__ = [
    "Compared",
    "Run",
    "TakenGame",
    "compare",
    "content_id",
    "figures",
    "judgements_of",
    "read_run",
    "released_label",
    "take",
    "write_game",
]
