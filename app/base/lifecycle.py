"""Whether the service takes work: it is starting, ready, or stopping."""

from collections.abc import Callable

__all__ = ["Lifecycle"]


class Lifecycle:
    """Starting at first; ``open`` makes it ready; ``drain`` ends that for good."""

    def __init__(self) -> None:
        self.ready = False
        self.draining = False
        self.on_drain: Callable[[], None] = lambda: None
        """Told once draining begins: those who follow a stream are let go."""

    def open(self) -> None:
        """The service is ready, unless it was asked to stop meanwhile."""
        self.ready = not self.draining

    def drain(self) -> None:
        """No new work."""
        self.draining = True
        self.ready = False
        self.on_drain()
