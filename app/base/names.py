"""Names and notes that callers give: which characters they may contain, and which names look alike.

Whoever reads a name on a page, in a list or in a terminal must be able to tell it from another one. So a name
has no invisible characters, none that turn the direction of what follows, none that merely look like others,
and no word of letters from several scripts. Notes are free text: they may contain all that can be seen.

Source of the rules: Unicode Technical Standard 39, "highly restrictive", word by word; the scripts are read
from the characters' names.
"""

import re
import unicodedata
from typing import Final

__all__ = ["check_name", "check_note", "look_of"]

_INVISIBLE: Final = re.compile(
    # Default_Ignorable_Code_Point, and letters and symbols that are blank.
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

_OF_EMOJI: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Invisible, but emoji, Persian and Indic text is not right without them: allowed in notes."""

_KINDS: Final = {
    "Cc": "a control character",
    "Cf": "invisible",
    "Cn": "no character that is known here",
    "Co": "for private use, and looks different everywhere",
    "Cs": "half of a character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
_KINDS_IN_NAMES: Final = {**_KINDS, "Zs": "a space of another kind; use the common one"}

_TOGETHER: Final = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO"})
"""Scripts that are written together, also with Latin letters in one word."""

_MOST_MARKS: Final = 3
"""The most accents on one letter: Vietnamese takes two, pointed Hebrew three."""

_SARA_AM: Final = frozenset("\u0e33\u0eb3")
"""Thai and Lao vowels that are written as one character, whatever NFKC makes of them."""

_LATIN_LOOK: Final = str.maketrans(
    "авекмнорстухѕіјӏһԁԛԝьпгαβεζηικμνορτυχϲօսոհցɑɡıǀ0",
    "abekmhopctyxsijlhdqwbnrabezhikmnoptuxcounhgagilo",
)
"""Letters of other alphabets of which whole words can be read as Latin ones."""

_STROKES: Final = str.maketrans("1i|!", "llll")


def check_name(name: str) -> str:
    """The name, as it was given. Raises ValueError, with words for its giver, for a name that could be taken
    for another one.
    """
    _check_characters(name, _KINDS_IN_NAMES, frozenset())
    if name != name.strip() or "  " in name:
        raise ValueError("a name has no space at its ends, and no two spaces in a row")
    if not unicodedata.is_normalized("NFC", name):
        raise ValueError("write letters and their accents as one character each (Unicode NFC)")
    for place, character in enumerate(name, 1):
        plain = unicodedata.normalize("NFKC", character)
        if plain != character and character not in _SARA_AM:
            raise ValueError(f"{_named(character)} at character {place} looks like {plain!r}; write that")
    if len({ord(c) - unicodedata.digit(c) for c in name if c.isdecimal()}) > 1:
        raise ValueError("a name has digits of one script only")
    _check_words(name)
    return name


def check_note(note: str) -> str:
    """The note, as it was given. Raises ValueError, with words for its giver, for what nobody can see, or
    everybody sees differently.
    """
    _check_characters(note, _KINDS, _OF_EMOJI | {"\n", "\t"})
    return note


def look_of(name: str) -> str:
    """A key that is equal for names which a reader would take for each other: in whatever case, with letters
    of another alphabet that look like Latin ones, and with 1, l, I or 0, O.
    """
    return unicodedata.normalize("NFKC", name).casefold().translate(_LATIN_LOOK).translate(_STROKES)


def _check_characters(text: str, kinds: dict[str, str], allowed: frozenset[str]) -> None:
    for place, character in enumerate(text, 1):
        if character in allowed or " " <= character <= "~":
            continue
        fault = kinds.get(unicodedata.category(character))
        if fault is None and _INVISIBLE.match(character):
            fault = "invisible"
        if fault is not None:
            raise ValueError(f"{_named(character)} at character {place} is {fault}")


def _check_words(name: str) -> None:
    """Raises ValueError for accents without a letter or in a heap, and for a word of several scripts."""
    scripts: set[str] = set()
    marks, after_letter = 0, False
    for place, character in enumerate(name, 1):
        kind = unicodedata.category(character)
        if kind[0] == "M":
            marks += 1
            if not after_letter or marks > _MOST_MARKS:
                raise ValueError(f"{_named(character)} at character {place} has no letter of its own")
            continue
        marks, after_letter = 0, kind[0] == "L"
        if not after_letter:
            scripts.clear()
            continue
        if kind == "Lm":
            continue  # marks that are letters, such as an apostrophe, belong to many scripts
        script = unicodedata.name(character, "?").split(" ")[0]
        scripts.add("CJK" if script in _TOGETHER else script)
        if len(scripts) > 1 and scripts != {"LATIN", "CJK"}:
            one, other = sorted(scripts)
            raise ValueError(
                f"{_named(character)} at character {place}: one word has letters of one script, "
                f"not {one.capitalize()} and {other.capitalize()}"
            )


def _named(character: str) -> str:
    """The character in words that can be read wherever the message is shown."""
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X} {name}".strip()
