"""Reads a model's answer field by field, and tells the model what is wrong with it.

A strict reading accepts the expected value, or an exact name for it (a number as text, ``seat 3``, a label
instead of an id). A loose reading, used when repeating the question has not helped, also accepts a close
match if only one option is close. The reader never guesses: a value without a clear meaning is refused.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard, TypeVar

from rapidfuzz import fuzz

from agents.llm.context import quoted
from engine.intentions import BY_ID, IntentionId, normalise
from engine.terms import Seat

__all__ = ["LONGEST_TEXT", "Fields", "UnusableReply", "as_text", "close_intention"]

LONGEST_TEXT: Final = 4000
"""The most characters of one text: the limit of an utterance in the protocol."""

T = TypeVar("T")

CLOSE: Final = 85.0
"""The similarity, out of 100, from which two wordings count as the same."""

MARGIN: Final = 5.0
"""A clear match is more similar than the next option by at least this much."""

_SHOWN: Final = 120
"""The most characters of a wrong value that are repeated to the model."""

_UNTEXT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NUMBERS: Final = re.compile(r"[\s,\d]*")
_NOT: Final = frozenset({"not", "no", "never", "dont", "wont", "cannot", "cant", "neither", "nor"})


class UnusableReply(Exception):
    """An answer that cannot be used. Its message tells the model what was wrong and what is expected.

    No other part of the game sees this exception: the seat records the answer and asks again.
    """


def as_text(text: str) -> str:
    """The text with U+FFFD for characters that no text may hold (control characters, lone surrogates)."""
    return _UNTEXT.sub("\ufffd", text)


def close_intention(text: str, options: Sequence[IntentionId]) -> IntentionId | None:
    """The option that the text names by id, label or alias, or the only one that it resembles, else None."""
    exact = normalise(text)
    if exact is not None:
        return exact if exact in options else None
    best: dict[IntentionId, float] = {}
    for id_ in options:
        entry = BY_ID[id_]
        wordings = (id_.replace("_", " "), entry.label, *entry.aliases)
        best[id_] = max(fuzz.token_sort_ratio(_plain(text), _plain(wording)) for wording in wordings)
    return _clear(best)


def _clear(best: Mapping[T, float]) -> T | None:
    ranked = sorted(best.items(), key=lambda pair: -pair[1])
    if not ranked or ranked[0][1] < CLOSE:
        return None
    if len(ranked) > 1 and ranked[0][1] - ranked[1][1] < MARGIN:
        return None
    return ranked[0][0]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[\W_]+", " ", text.casefold().replace("'", "")).split())


class Fields:
    """One JSON object of an answer."""

    def __init__(self, value: object, names: Sequence[str], *, loose: bool, where: str = "") -> None:
        """``names``: the seats' names, seat 1 first. Raises UnusableReply if ``value`` is not an object."""
        self._loose = loose
        self._names = names
        self._where = where
        if loose and not where:
            value = _unwrapped(value)
        if not isinstance(value, Mapping):
            found = "no JSON object was found" if value is None else f"it is {_shown(value)}"
            raise UnusableReply(f"{where or 'The answer'} must be one JSON object, but {found}.")
        self._values = {_plain(str(key)).replace(" ", "_"): item for key, item in value.items()}

    def _fault(self, name: str, expected: str, value: object) -> UnusableReply:
        return UnusableReply(f'"{self._where}{name}" must be {expected}, got {_shown(value)}.')

    def _get(self, name: str, expected: str) -> object:
        if name not in self._values:
            raise UnusableReply(f'"{self._where}{name}" is missing; it must be {expected}.')
        return self._values[name]

    def text(self, name: str) -> str:
        """A text of at most ``LONGEST_TEXT`` characters, without blanks around it."""
        value = self._get(name, "a text")
        if self._loose and _is_texts(value):
            value = " ".join(value)
        if not isinstance(value, str):
            raise self._fault(name, "a text", value)
        if len(value) > LONGEST_TEXT:
            raise UnusableReply(
                f'"{self._where}{name}" is far too long with {len(value)} characters; '
                "about 100 words are enough."
            )
        return as_text(value).strip()

    def note(self, name: str) -> str:
        """A text; in a loose reading it may be missing or something else, and is then empty."""
        value = self._values.get(name)
        if self._loose and not isinstance(value, str) and not _is_texts(value):
            return ""
        return self.text(name)

    def maybe_text(self, name: str) -> str:
        """As ``note``; empty if it is missing, as in answers to earlier questions, which did not ask for it,
        or null.
        """
        return "" if self._values.get(name) is None else self.note(name)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Up to ``most`` texts; in a loose reading, the first ``most`` of any number."""
        expected = f"a list of at most {most} texts"
        value = self._values.get(name, []) if self._loose else self._get(name, expected)
        if self._loose:
            entries = value if isinstance(value, list) else []
            value = [entry for entry in entries if isinstance(entry, str)][:most]
        if (
            not isinstance(value, list)
            or not all(isinstance(item, str) for item in value)
            or len(value) > most
        ):
            raise self._fault(name, expected, value)
        return tuple(as_text(item[:LONGEST_TEXT]).strip() for item in value)

    def word(self, name: str, options: Mapping[str, tuple[T, tuple[str, ...]]]) -> T:
        """The meaning of the word in this field. ``options``: for each word, its meaning and other names."""
        expected = " or ".join(f'"{word}"' for word in options) if len(options) < 10 else "one of the words"
        value = self._get(name, expected)
        names = {
            _plain(name): meaning for word, (meaning, others) in options.items() for name in (word, *others)
        }
        answer = _plain(str(value)) if isinstance(value, str | bool) else ""
        if answer in names:
            return names[answer]
        if self._loose and answer and not _NOT & set(answer.split()):
            meanings = [meaning for word, meaning in names.items() if word in answer.split()]
            if meanings and all(meaning == meanings[0] for meaning in meanings):
                return meanings[0]
            closest = _clear({word: fuzz.ratio(answer, word) for word in names})
            if closest is not None:
                return names[closest]
        raise self._fault(name, expected, value)

    def flag(self, name: str) -> bool:
        """True or false; a word for either is accepted too."""
        return self.word(name, {"true": (True, ("yes",)), "false": (False, ("no",))})

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        expected = f"a whole number from {low} to {high}"
        value = self._get(name, expected)
        number = _number(value)
        if number is None and self._loose and isinstance(value, str):
            numbers = re.findall(r"\d+", value.split("/")[0].split(" of ")[0])
            number = int(numbers[0][:9]) if len(numbers) == 1 else None
        if number is None or not low <= number <= high:
            raise self._fault(name, expected, value)
        return number

    def seat(self, name: str, options: Sequence[Seat]) -> Seat:
        """One of the seats, by number or by name."""
        expected = f"the number of one of the seats {', '.join(map(str, options))}"
        value = self._get(name, expected)
        seat = self._seat(value)
        if seat is None or seat not in options:
            raise self._fault(name, expected, value)
        return seat

    def maybe_seat(self, name: str, options: Sequence[Seat]) -> Seat | None:
        """One of the seats, or null."""
        value = self._values.get(name, 0)
        if value is None or (isinstance(value, str) and _plain(value) in ("null", "none", "nobody")):
            return None
        return self.seat(name, options)

    def team(self, name: str, size: int, players: int) -> tuple[Seat, ...]:
        """``size`` different seats in ascending order, read from a list or from the numbers in a text."""
        expected = f"a text with {size} different seat numbers from 1 to {players}"
        value = self._get(name, expected)
        if isinstance(value, str):
            numbers = re.findall(r"\d+", value[:_SHOWN])
            value = [int(n[:9]) for n in numbers] if self._loose or _NUMBERS.fullmatch(value) else None
        seats = [self._seat(item) for item in value] if isinstance(value, list) else []
        if self._loose:
            seats = list(dict.fromkeys(seats))
        team = [seat for seat in seats if seat is not None and 1 <= seat <= players]
        if len(team) != size or len(seats) != size or len(set(team)) != size:
            raise self._fault(name, expected, self._values[name])
        return tuple(sorted(team))

    def _seat(self, value: object) -> Seat | None:
        number = _number(value)
        if number is not None or not isinstance(value, str):
            return number
        answer = _plain(value)
        for seat, own_name in enumerate(self._names, 1):
            if answer in (f"seat {seat}", f"seat{seat}", _plain(own_name)):
                return seat
        if not self._loose:
            return None
        numbers = re.findall(r"\d+", value[:_SHOWN])
        if len(numbers) == 1 and len(numbers[0]) < 3:
            return int(numbers[0])
        squeezed = answer.replace(" ", "")
        likeness = {
            seat: fuzz.ratio(squeezed, _plain(name).replace(" ", ""))
            for seat, name in enumerate(self._names, 1)
        }
        return _clear(likeness)

    def ids(
        self, name: str, options: Sequence[IntentionId], fewest: int, most: int
    ) -> tuple[IntentionId, ...]:
        """``fewest`` to ``most`` different intentions out of the options."""
        expected = f"a list of {_span(fewest, most)} different intention ids"
        value = self._get(name, expected)
        if not isinstance(value, list):
            value = [value] if self._loose and isinstance(value, str) else None
        if value is None:
            raise self._fault(name, expected, self._values[name])
        ids = [self._intention(f"{name}/{i}", item, options) for i, item in enumerate(value)]
        return self._counted(name, ids, fewest, most, expected)

    def choices(
        self, name: str, options: Sequence[IntentionId], fewest: int, most: int
    ) -> tuple[tuple[IntentionId, str], ...]:
        """``fewest`` to ``most`` different intentions out of the options, each with its reason."""
        expected = (
            f'a list of {_span(fewest, most)} objects {{"intention", "reason"}} with different intentions'
        )
        value = self._get(name, expected)
        if not isinstance(value, list):
            raise self._fault(name, expected, value)
        ids: list[IntentionId | None] = []
        reasons: dict[IntentionId, str] = {}
        for i, item in enumerate(value):
            if self._loose and isinstance(item, str):
                item = {"intention": item}
            elif self._loose and not isinstance(item, Mapping):
                continue
            entry = Fields(item, self._names, loose=self._loose, where=f"{self._where}{name}/{i}/")
            id_ = self._intention(f"{name}/{i}/intention", entry._values.get("intention"), options)
            ids.append(id_)
            if id_ is not None:
                reasons.setdefault(id_, entry.note("reason"))
        chosen = self._counted(name, ids, fewest, most, expected)
        return tuple((id_, reasons[id_]) for id_ in chosen)

    def _intention(self, where: str, value: object, options: Sequence[IntentionId]) -> IntentionId | None:
        if isinstance(value, str):
            id_ = close_intention(value, options) if self._loose else normalise(value)
            if id_ in options:
                return id_
        if self._loose:
            return None
        raise self._fault(where, f"an intention id out of {', '.join(options)}", value)

    def _counted(
        self, name: str, ids: Sequence[IntentionId | None], fewest: int, most: int, expected: str
    ) -> tuple[IntentionId, ...]:
        different = tuple(dict.fromkeys(id_ for id_ in ids if id_ is not None))
        if self._loose:
            # Of too many, take the first; one clear choice is enough.
            if different:
                return different[:most]
        elif fewest <= len(ids) <= most:
            if len(different) == len(ids):
                return different
            [(twice, _)] = Counter(ids).most_common(1)
            raise UnusableReply(f'"{self._where}{name}" must be {expected}, but {twice} is in it twice.')
        raise self._fault(name, expected, self._values[name])

    def inside(self, name: str) -> "Fields":
        """The object in this field."""
        value = self._get(name, "an object")
        return Fields(value, self._names, loose=self._loose, where=f"{self._where}{name}/")

    def list_of(self, name: str, fewest: int, most: int) -> "list[Fields]":
        """The ``fewest`` to ``most`` objects in this field's list."""
        expected = f"a list of {_span(fewest, most)} objects"
        value = self._get(name, expected)
        if not isinstance(value, list) or not fewest <= len(value) <= most:
            raise self._fault(name, expected, value)
        return [
            Fields(item, self._names, loose=self._loose, where=f"{self._where}{name}/{i}/")
            for i, item in enumerate(value)
        ]


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e9 else None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return int(value)
    return None


def _unwrapped(value: object) -> object:
    """The object in a list of one element, or under a single key; any other value unchanged."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping) and len(value) == 1:
        (inner,) = value.values()
        if isinstance(inner, Mapping):
            return inner
    return value


def _span(fewest: int, most: int) -> str:
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return quoted(value[:_SHOWN])
    if isinstance(value, bool | int | float) or value is None:
        return repr(value)[:_SHOWN]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "an object"
