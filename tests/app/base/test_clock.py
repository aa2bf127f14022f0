"""The time, and what becomes of it when somebody sets a clock."""

import time
from collections.abc import Iterator

import pytest

from app.base import clock
from app.base.clock import SETTLED_MS, Clock, agree, now_ms, settled_ms

DAY_MS = clock.DAY_MS


class Machine(Clock):
    """A machine whose clock can be set, and in which no time passes by itself."""

    def __init__(self) -> None:
        self.steady, self.shown = 1_000, time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.shown

    def steady_ms(self) -> int:
        return self.steady

    def hold(self) -> None:
        """It shows the same as before."""

    def wait(self, ms: int) -> None:
        self.steady += ms
        self.shown += ms


@pytest.fixture
def machine() -> Iterator[Machine]:
    with clock.use_clock(one := Machine()):
        yield one


def test_the_settled_time_is_the_time_unless_it_was_set_forward(machine: Machine) -> None:
    assert settled_ms() == now_ms()
    machine.wait(DAY_MS)
    assert settled_ms() == now_ms()
    for change in (-DAY_MS, 30_000):  # set back, and a little forward
        machine.shown += change
        assert settled_ms() == now_ms()


def test_a_time_that_was_set_forward_is_settled_after_an_hour(machine: Machine) -> None:
    settled_ms()
    machine.shown += DAY_MS
    assert settled_ms() == now_ms() - DAY_MS
    machine.wait(SETTLED_MS // 2)
    # Set again, it has to stay again.
    machine.shown += DAY_MS
    for _ in range(2):
        assert settled_ms() == now_ms() - 2 * DAY_MS
        machine.wait(SETTLED_MS - 1)
    assert settled_ms() == now_ms()


def test_a_time_that_was_ahead_for_a_moment_is_settled_at_once_when_it_is_right_again(
    machine: Machine,
) -> None:
    settled_ms()
    for _ in range(2):
        machine.shown += DAY_MS
        assert settled_ms() == now_ms() - DAY_MS
        machine.shown -= DAY_MS
        assert settled_ms() == now_ms()
        machine.wait(SETTLED_MS)


def test_a_database_that_is_ahead_is_not_believed_at_once_even_at_the_start(machine: Machine) -> None:
    for ahead in (DAY_MS, 2 * DAY_MS):  # as the process starts, and later
        right = machine.shown + ahead
        assert agree(right, now_ms(), now_ms()) == DAY_MS
        assert (now_ms(), settled_ms()) == (right, machine.shown)
    machine.wait(SETTLED_MS)
    assert settled_ms() == now_ms()
    # Behind, it is.
    agree(machine.shown, now_ms(), now_ms())
    assert settled_ms() == now_ms() == machine.shown


def test_two_that_compare_the_clocks_at_once_change_the_time_once(machine: Machine) -> None:
    right = machine.shown - DAY_MS
    before = now_ms()
    assert agree(right, before, now_ms()) == -DAY_MS
    assert agree(right, before, now_ms()) == 0
    assert now_ms() == right
