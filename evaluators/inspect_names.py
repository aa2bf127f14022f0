"""What Inspect loads to find the tasks by name: ``evaluators/guessing``, ``evaluators/summarisation``.

Inspect puts the package's name before a task's by itself only where the package lies in site-packages, or is
called as its distribution is. In an editable install neither holds, so the names are given here in full.
"""

from inspect_ai import task

from evaluators import inspect_task

__all__ = ["guessing", "summarisation"]

guessing = task(name="evaluators/guessing")(inspect_task.guessing)
summarisation = task(name="evaluators/summarisation")(inspect_task.summarisation)
