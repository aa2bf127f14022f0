"""The state of the service: starting, ready, or stopping."""

from collections.abc import Callable

__all__ = ["Lifecycle"]


class Lifecycle:
    """Begins as starting; ``open`` makes it ready, and ``drain`` makes it stop for good."""

    def __init__(self) -> None:
        self.ready = False
        self.draining = False
        self.reason = "it is starting"
        """Why the service is not ready."""
        self.fault: Exception | None = None
        """Why it stops by itself; None: it was asked to, or does not stop."""
        self.on_drain: Callable[[], None] = lambda: None
        """Called when draining begins, so that open streams end."""

    def open(self) -> None:
        """Makes the service ready, unless it is stopping already."""
        self.ready = not self.draining

    def drain(self) -> None:
        """Refuses new work from now on."""
        self.draining = True
        self.reason = "it is stopping"
        self.ready = False
        self.on_drain()
