"""Token buckets: how often something may happen."""

__all__ = ["Allowance"]


class Allowance:
    """A token bucket: ``burst`` at once, ``rate`` a second in the long run. Times are one clock's seconds."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = float(burst)
        self._seen = now

    def spend(self, now: float) -> bool:
        """Takes one token, and returns whether there was one."""
        self._left, self._seen = self.left(now), now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """Returns one token that was taken for something that is not to count."""
        self._left = min(self._burst, self._left + 1)

    def left(self, now: float) -> float:
        """How many tokens there are."""
        return min(self._burst, self._left + (now - self._seen) * self._rate)

    def wait_s(self, now: float) -> float:
        """Seconds until there is a token, without taking one; 0: there is one."""
        return max(0.0, (1 - self.left(now)) / self._rate)

    @property
    def next_s(self) -> float:
        """As ``wait_s``, just after ``spend``."""
        return self.wait_s(self._seen)

    def is_full(self, now: float) -> bool:
        """Whether the bucket is full, as if it had never been used."""
        return self.left(now) >= self._burst

    @property
    def refill_s(self) -> float:
        """Seconds until an empty bucket is full again."""
        return self._burst / self._rate
