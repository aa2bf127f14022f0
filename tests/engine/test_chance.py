"""Chance: fixed for ever by seed and purpose, even, and revealing nothing about the seed."""

from collections import Counter

import pytest

from engine.chance import draw, ordered, pick, secret, unit


def test_known_values_reveal_a_change_of_the_randomness() -> None:
    # Computed once; every stored game and golden file rests on them.
    assert draw(0, "deal") == 3963786302778667161
    assert draw("abc", 1, 2) == 8080791518084022511
    assert unit(7, "x") == 0.30559880456053024
    assert pick("abcde", 7, "x") == "c"
    assert ordered(range(10), draw(7, "deal")) == [9, 7, 3, 6, 5, 0, 2, 4, 8, 1]
    assert secret(7, "agent", 3) == "1eea94acfea6584029eb833692c15742"


def test_equal_seed_and_purpose_give_equal_chance_and_others_do_not() -> None:
    assert draw(5, "a", 1) == draw(5, "a", 1)
    others = {
        draw(seed, *purpose) for seed in range(20) for purpose in ((), ("a",), ("b",), ("a", 1), ("a", 2))
    }
    assert len(others) == 100


def test_a_seed_may_be_a_number_of_128_bits_or_a_text() -> None:
    assert draw(2**128 - 1, "a") != draw(2**128 - 2, "a")
    assert draw(17, "a") == draw("17", "a")  # as it stands in the log


def test_every_order_of_five_is_equally_likely() -> None:
    # 120 orders, 24,000 shuffles, 200 each expected; 119 degrees of freedom: chi-square exceeds 194
    # once in 100,000 times.
    counts = Counter(tuple(ordered(range(5), draw(seed, "order"))) for seed in range(24_000))
    assert len(counts) == 120
    assert sum((n - 200) ** 2 / 200 for n in counts.values()) < 194


def test_every_item_lands_evenly_in_every_place_of_ten() -> None:
    # 100 cells of 300 expected; (10 - 1)^2 = 81 degrees of freedom: above 143 once in 50,000 times.
    cells = Counter(
        (place, item) for s in range(3_000) for place, item in enumerate(ordered(range(10), draw(s, "o")))
    )
    assert sum((cells[p, i] - 300) ** 2 / 300 for p in range(10) for i in range(10)) < 143


def test_a_shuffle_loses_nothing_and_leaves_its_input() -> None:
    items = ["a", "b", "b", "c"]
    assert sorted(ordered(items, draw(1))) == items
    assert items == ["a", "b", "b", "c"]
    assert ordered([], draw(1)) == []
    assert ordered(["a"], draw(1)) == ["a"]
    assert len(ordered(range(12), draw(1))) == 12


def test_unit_is_even_from_zero_to_below_one() -> None:
    shares = [unit(seed, "u") for seed in range(10_000)]
    assert min(shares) >= 0
    assert max(shares) < 1
    tenths = Counter(int(share * 10) for share in shares)
    assert sum((tenths[t] - 1_000) ** 2 / 1_000 for t in range(10)) < 34  # 9 df, once in 10,000


def test_a_pick_is_even_and_needs_an_option() -> None:
    counts = Counter(pick("abcdefg", seed, "p") for seed in range(7_000))
    assert sum((counts[letter] - 1_000) ** 2 / 1_000 for letter in "abcdefg") < 30  # 6 df
    with pytest.raises(IndexError):
        pick("", 1)


def test_a_secret_reveals_no_seed_and_no_draw() -> None:
    seed = 123456789012345678901234567890
    one = secret(seed, "agent", 1)
    assert len(one) == 32
    assert set(one) <= set("0123456789abcdef")
    assert f"{seed:x}" not in one
    assert str(seed) not in one
    # Its first half is not the draw of the same purpose, with or without the word in it.
    for purpose in (("agent", 1), ("secret", "agent", 1)):
        low = draw(seed, *purpose).to_bytes(8, "little").hex()
        assert low not in one


def test_secrets_of_neighbouring_seats_and_seeds_have_nothing_in_common() -> None:
    pairs = [
        (secret(seed, "agent", seat), secret(seed, "agent", seat + 1))
        for seed in range(40)
        for seat in range(5)
    ]
    distances = [(int(a, 16) ^ int(b, 16)).bit_count() for a, b in pairs]
    assert 60 < sum(distances) / len(distances) < 68  # 64 of 128 bits, sd of the mean 0.4
    assert min(distances) > 30
