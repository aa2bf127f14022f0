"""Processes that work for this one."""

import multiprocessing
import os
import signal
import threading

__all__ = ["end_with_parent", "processes"]


def processes(jobs: int) -> int:
    """The number of processes that ``jobs`` asks for: one per core for 0, and never more than that."""
    cores = os.cpu_count() or 1
    return min(jobs or cores, cores)


def end_with_parent() -> None:
    """Ends this process as soon as its parent is dead. A worker that waits for work does not notice, and
    would stay for good. SIGTERM ends it at once, whatever its parent does then. Does nothing in a process
    that was not started by ``multiprocessing``.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()
