"""The entry point by which Inspect finds the tasks ``evaluators/guessing`` and ``evaluators/summarisation``.

Inspect adds the package name to a task name only if the package is in site-packages or has the name of its
distribution. Neither holds in an editable install, so the names are given here in full.
"""

from inspect_ai import task

from evaluators import inspect_task

__all__ = ["guessing", "summarisation"]

guessing = task(name="evaluators/guessing")(inspect_task.guessing)
summarisation = task(name="evaluators/summarisation")(inspect_task.summarisation)
