"""Reads a rater's answers into intention ids, and joins several samples by majority.

An answer is normalised (case, punctuation, aliases), then matched with the one intention whose wording is
close to it. Text that matches none is kept: it is counted and shown, never dropped silently.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from rapidfuzz import fuzz

from engine.intentions import WORDINGS, IntentionId, normalise, plain
from engine.terms import Role

__all__ = [
    "CLOSE",
    "MARGIN",
    "Guess",
    "Unmapped",
    "by_item",
    "majority",
    "read_answer",
    "read_intention",
    "read_reply",
]

CLOSE: Final = 88.0
"""Least likeness of a text to a wording, 0 to 100 (rapidfuzz ``ratio`` of the plain texts). The
wordings of different intentions are all less alike, but for two that name a role each."""

MARGIN: Final = 3.0
"""How much likelier the best intention must be than the second; closer ones are left unmapped."""

_NOT: Final = frozenset(
    {"not", "no", "never", "without", "neither", "nor", "nobody", "dont", "isnt", "arent"}
)
_ROLES: Final = frozenset(role.value for role in Role)

Unmapped = Literal["count", "discard"]
"""``count``: text that names no intention counts as predicted. ``discard``: as the authors' scripts."""


@dataclass(frozen=True, slots=True)
class Guess:
    """One rater's answer about one item."""

    item_id: str
    intentions: frozenset[IntentionId]
    unmapped: tuple[str, ...] = ()
    """Text that named no intention, each once, as it was first written."""
    rater: str = ""
    role: Role | None = None
    """The role the rater takes the speaker for; None: not asked, or not answered."""
    confidence: float | None = None
    """0 to 5, how sure of the role; None: not stated."""

    def named(self, unmapped: Unmapped = "count") -> frozenset[str]:
        """What counts as predicted. An unmapped text stands under a name that no intention has."""
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
    close: float = CLOSE,
) -> Guess:
    """The guess that these ids or free texts make; the same intention named twice counts once.

    An intention outside the item's options is one all the same: it counts as predicted and wrong.
    """
    intentions = set()
    unmapped: dict[str, str] = {}
    for text in named:
        id_ = read_intention(text, close)
        if id_ is not None:
            intentions.add(id_)
        elif plain(text):
            unmapped.setdefault(plain(text), text)
    return Guess(item_id, frozenset(intentions), tuple(unmapped.values()), rater, role, confidence)


def read_reply(item_id: str, text: str, *, rater: str = "", close: float = CLOSE) -> Guess:
    """The guess in a model's reply: the ``intentions`` of the last JSON object in it that has some;
    else every line that names an intention, and where none does each line of a list.

    A reply in prose that names nothing is an empty guess: words around an answer are no answers.
    """
    named = _in_json(text)
    if named is None:
        lines = [_MARKS.sub("", line).strip() for line in text.splitlines()]
        named = [line for line in lines if read_intention(line, close) is not None]
        if not named:
            listed = zip(lines, text.splitlines(), strict=True)
            named = [line for line, raw in listed if line and _MARKS.match(raw)]
    return read_answer(item_id, named, rater=rater, close=close)


_MARKS: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*")


def _in_json(text: str) -> list[str] | None:
    intentions = None
    decoder = json.JSONDecoder()
    place = text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            named = value.get("intentions")
            if isinstance(named, list):
                intentions = [one for one in named if isinstance(one, str)]
        place = text.find("{", end)
    return intentions


@lru_cache(4096)
def read_intention(text: str, close: float = CLOSE) -> IntentionId | None:
    """The intention that an id, a label, an alias, or nearly one of these, names; else None.

    Nearly: alike to ``close`` at least, by ``MARGIN`` likelier than any other intention, and with the
    same roles and negations in it: one word more or less would turn the meaning round.
    """
    exact = normalise(text)
    if exact is not None:
        return exact
    words = plain(text)
    turning = _turning(words)
    best: dict[IntentionId, float] = {}
    for wording, id_ in WORDINGS.items():
        likeness = fuzz.ratio(words, wording, score_cutoff=close - MARGIN)
        if likeness > best.get(id_, 0.0):
            best[id_] = likeness if _turning(wording) == turning else min(likeness, close - 0.01)
    ranked = sorted(best.items(), key=lambda pair: -pair[1])
    if not ranked or ranked[0][1] < close:
        return None
    if len(ranked) > 1 and ranked[0][1] - ranked[1][1] < MARGIN:
        return None
    return ranked[0][0]


@lru_cache(4096)
def _turning(plain_text: str) -> tuple[str, ...]:
    return tuple(sorted(word for word in plain_text.split() if word in _NOT or word in _ROLES))


def majority(samples: Sequence[Guess]) -> Guess:
    """One guess of one rater's several samples of an item.

    An intention is kept when more than half of the samples name it; exactly half is no majority.
    Unmapped texts likewise, as normalised. The role is the one named most; of equals the one with
    the greater sum of confidences, then the one named first; its confidence is the mean of those that
    named it. Raises ValueError without samples, or for samples of different items or raters.
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
    sure: dict[Role, list[float | None]] = {}
    for guess in samples:
        if guess.role is not None:
            sure.setdefault(guess.role, []).append(guess.confidence)
    if not sure:
        return None, None
    # max keeps the first of equals, and a dict the order of naming.
    role = max(sure, key=lambda one: (len(sure[one]), sum(c or 0.0 for c in sure[one])))
    stated = [c for c in sure[role] if c is not None]
    return role, sum(stated) / len(stated) if stated else None


def by_item(samples: Iterable[Guess]) -> Mapping[str, list[Guess]]:
    """Samples by the item they are about, in the order given."""
    by_id: dict[str, list[Guess]] = {}
    for guess in samples:
        by_id.setdefault(guess.item_id, []).append(guess)
    return by_id
