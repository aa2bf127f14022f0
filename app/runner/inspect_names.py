"""The entry point by which Inspect finds the task ``interintent/playing``.

Inspect adds the package name to a task name only in some kinds of install (see
``evaluators.inspect_names``), so the name is given here in full.
"""

from inspect_ai import task

from app.runner import inspect_playing

__all__ = ["playing"]

playing = task(name="interintent/playing")(inspect_playing.playing)
