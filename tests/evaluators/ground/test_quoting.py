"""Where a quote stands in a text, at whatever length."""

from random import Random

import pytest

from evaluators.ground import quoting
from evaluators.ground.quoting import positions_of


def test_a_quote_is_found_wherever_it_stands_overlaps_included() -> None:
    # Against every place tried by itself, over few words, so that beginnings meet ends often.
    rng = Random(1)
    hits = 0
    for _ in range(2000):
        words = [rng.choice("ab") for _ in range(rng.randint(0, 12))]
        quote = [rng.choice("ab") for _ in range(rng.randint(0, 5))]
        expected = [
            (2 * at, 2 * (at + len(quote)) - 1)
            for at in range(len(words) - len(quote) + 1)
            if quote and words[at : at + len(quote)] == quote
        ]
        hits += len(expected)
        assert list(positions_of("; ".join(quote).upper(), " ".join(words))) == expected
    assert hits > 1000


def test_the_places_of_a_quote_are_those_of_the_text_as_it_is_written() -> None:
    text = "I led quest 1.  I LED\tquest 1!"
    told = [text[slice(*place)] for place in positions_of("i led, quest", text)]
    assert told == [
        "I led quest",
        "I LED\tquest",
    ]


def test_each_word_is_compared_a_few_times_however_often_it_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A quote that all but stands at every word of a text: "a a … a b" in "a a … a".
    compared = 0

    class Word:
        def __init__(self, letter: str) -> None:
            self.letter = letter

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return isinstance(other, Word) and self.letter == other.letter

        __hash__ = None  # type: ignore[assignment]

    def placed(text: str) -> list[tuple[Word, int, int]]:
        return [(Word(letter), at, at + 1) for at, letter in enumerate(text)]

    monkeypatch.setattr(quoting, "_placed", placed)
    assert list(positions_of("a" * 500 + "b", "a" * 1000)) == []
    assert compared < 4 * 1501
    assert len(list(positions_of("a" * 500, "a" * 1000))) == 501
