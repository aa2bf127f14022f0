"""Reads a rater's answers into intention ids, and joins several samples by majority.

An answer is normalised (case, punctuation, aliases), then matched with the one intention whose wording is
close to it. Text that matches no intention is kept: it is counted and shown, never dropped silently.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, Protocol

from rapidfuzz import fuzz

from engine.intentions import WORDINGS, IntentionId, normalise, plain
from engine.terms import Role

__all__ = [
    "CLOSE",
    "MARGIN",
    "AnswerSample",
    "Guess",
    "Unmapped",
    "guesses_by_game",
    "guesses_of",
    "majority",
    "read_answer",
    "read_intention",
    "read_reply",
]

CLOSE: Final = 88.0
"""The least similarity of a text and a wording, 0 to 100 (rapidfuzz ``ratio`` of the plain texts). The
wordings of different intentions are less similar than this, except two that differ by a role."""

MARGIN: Final = 3.0
"""The least lead of the best match over the second one; with a smaller lead, the text stays unmapped."""

_NOT: Final = frozenset(
    {"not", "no", "never", "without", "neither", "nor", "nobody", "dont", "isnt", "arent"}
)
_ROLES: Final = frozenset(role.value for role in Role)

Unmapped = Literal["count", "discard"]
"""``count``: text that names no intention counts as predicted. ``discard``: it is ignored, as in the authors'
scripts."""


@dataclass(frozen=True, slots=True)
class Guess:
    """One rater's answer about one item."""

    item_id: str
    intentions: frozenset[IntentionId]
    unmapped: tuple[str, ...] = ()
    """Texts that named no intention, each once, as first written."""
    rater: str = ""
    role: Role | None = None
    """The role that the rater assigns to the speaker; None if the rater was not asked or did not answer."""
    confidence: float | None = None
    """The confidence in the role, 0 to 5; None if it was not stated."""

    def named(self, unmapped: Unmapped = "count") -> frozenset[str]:
        """The names that count as predicted. An unmapped text counts under a name that no intention has."""
        if unmapped == "discard" or not self.unmapped:
            return self.intentions
        return self.intentions | {f"? {plain(text)}" for text in self.unmapped}


def read_answer(
    item_id: str,
    named: Iterable[str],
    *,
    rater: str = "",
    role: Role | None = None,
    confidence: float | None = None,
) -> Guess:
    """Makes a guess from ids or free texts; an intention that is named twice counts once.

    An intention outside the item's options counts as predicted and wrong.
    """
    intentions = set()
    unmapped: dict[str, str] = {}
    for text in named:
        id_ = read_intention(text)
        if id_ is not None:
            intentions.add(id_)
        elif plain(text):
            unmapped.setdefault(plain(text), text)
    return Guess(item_id, frozenset(intentions), tuple(unmapped.values()), rater, role, confidence)


def read_reply(item_id: str, text: str) -> Guess:
    """Reads the guess in a model's reply. It takes the ``intentions`` of the last JSON object that has them;
    without such an object, every line that names an intention; without such a line, every line of a list.

    A reply in prose that names no intention is an empty guess.
    """
    named = _in_json(text)
    if named is None:
        lines = [_MARKS.sub("", line).strip() for line in text.splitlines()]
        named = [line for line in lines if read_intention(line) is not None]
        if not named:
            listed = zip(lines, text.splitlines(), strict=True)
            named = [line for line, raw in listed if line and _MARKS.match(raw)]
    return read_answer(item_id, named)


_MARKS: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*")


def _in_json(text: str) -> list[str] | None:
    intentions = None
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            named = value.get("intentions")
            if isinstance(named, list):
                intentions = [name for name in named if isinstance(name, str)]
        start = text.find("{", end)
    return intentions


@lru_cache(4096)
def read_intention(text: str, close: float = CLOSE) -> IntentionId | None:
    """The intention named by an id, a label, an alias, or a text close to one of these; None for other texts.

    A close text has a similarity of at least ``close``, ``MARGIN`` above any other intention, and the same
    roles and negations, since one such word reverses the meaning.
    """
    exact = normalise(text)
    if exact is not None:
        return exact
    words = plain(text)
    key_words = _key_words(words)
    best: dict[IntentionId, float] = {}
    for wording, id_ in WORDINGS.items():
        similarity = fuzz.ratio(words, wording, score_cutoff=close - MARGIN)
        if similarity > best.get(id_, 0.0):
            best[id_] = similarity if _key_words(wording) == key_words else min(similarity, close - 0.01)
    ranked = sorted(best.items(), key=lambda pair: -pair[1])
    if not ranked or ranked[0][1] < close:
        return None
    if len(ranked) > 1 and ranked[0][1] - ranked[1][1] < MARGIN:
        return None
    return ranked[0][0]


@lru_cache(4096)
def _key_words(plain_text: str) -> tuple[str, ...]:
    """The roles and negations in a text, sorted."""
    return tuple(sorted(word for word in plain_text.split() if word in _NOT or word in _ROLES))


def majority(samples: Sequence[Guess]) -> Guess:
    """Joins one rater's samples of one item into one guess.

    An intention is kept if more than half of the samples name it; exactly half is not enough. The same holds
    for normalised unmapped texts. The role is the one named most often; among equals, the one with the
    greater sum of confidences, then the one named first. Its confidence is the mean of the samples that named
    it. Raises ValueError without samples, or for samples of different items or raters.
    """
    if len({(guess.item_id, guess.rater) for guess in samples}) != 1:
        raise ValueError(f"a majority takes samples of one item by one rater, got {len(samples)} of several")
    votes = Counter(id_ for guess in samples for id_ in guess.intentions)
    text_votes: Counter[str] = Counter()
    wording: dict[str, str] = {}
    for guess in samples:
        for text in guess.unmapped:
            text_votes[plain(text)] += 1
            wording.setdefault(plain(text), text)
    role, confidence = _role_of(samples)
    return Guess(
        samples[0].item_id,
        frozenset(id_ for id_, n in votes.items() if 2 * n > len(samples)),
        tuple(wording[text] for text, n in text_votes.items() if 2 * n > len(samples)),
        samples[0].rater,
        role,
        confidence,
    )


def _role_of(samples: Sequence[Guess]) -> tuple[Role | None, float | None]:
    by_role: dict[Role, list[float | None]] = {}
    for guess in samples:
        if guess.role is not None:
            by_role.setdefault(guess.role, []).append(guess.confidence)
    if not by_role:
        return None, None
    # max returns the first of equals, and a dict keeps the order of insertion.
    role = max(by_role, key=lambda role: (len(by_role[role]), sum(c or 0.0 for c in by_role[role])))
    stated = [c for c in by_role[role] if c is not None]
    return role, sum(stated) / len(stated) if stated else None


# --- answers as they are stored ---------------------------------------------------------------------------


class AnswerSample(Protocol):
    """One sample of a rater's answer about one item, as it was handed in."""

    @property
    def item_id(self) -> str: ...

    @property
    def sample(self) -> int: ...

    @property
    def named(self) -> Sequence[str]:
        """Ids or free texts."""

    @property
    def role(self) -> str | None: ...

    @property
    def confidence(self) -> int | None: ...


def guesses_of(given: Iterable[AnswerSample]) -> dict[str, Guess]:
    """One guess for each item, by item id and in the order of ids; samples are joined by majority.

    This is slow, since each text is compared with every wording of every intention.
    """
    read: dict[str, list[Guess]] = {}
    for one in sorted(given, key=lambda one: (one.item_id, one.sample)):
        role = None if one.role is None else Role(one.role)
        guess = read_answer(one.item_id, one.named, role=role, confidence=one.confidence)
        read.setdefault(one.item_id, []).append(guess)
    return {
        item_id: samples[0] if len(samples) == 1 else majority(samples) for item_id, samples in read.items()
    }


def guesses_by_game(guesses: Mapping[str, Guess]) -> dict[str, dict[str, Guess]]:
    """Guesses, by the game and then by the id of their items."""
    by_game: dict[str, dict[str, Guess]] = {}
    for item_id, guess in guesses.items():
        by_game.setdefault(item_id.partition("/")[0], {})[item_id] = guess
    return by_game
