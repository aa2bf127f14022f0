"""Statements in a speech that the public record refutes: hallucination, as far as rules can read it.

The rules read English as models and our scripted seats write it: who led, who was on a team, who voted how,
which quest failed or succeeded. They would rather miss a statement than accuse a speaker wrongly: questions,
conditions, wishes, guesses, the future and what others are said to say or think are not counted. A sentence
that sounds like a statement about the record but is not understood counts as unparsed; a judge may read it.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from engine.state import Table
from engine.terms import Seat
from evaluators.measures.facts import Fact, Led, OnQuest, OnTeam, QuestsCounted, QuestWent, Voted

__all__ = ["Finding", "Verdict", "read_statements", "sentences"]

Verdict = Literal["refuted", "supported", "unparsed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about the record."""

    start: int
    end: int
    """The statement is ``text[start:end]`` of the speech."""
    fact: Fact | None
    """None if the statement was not understood."""
    verdict: Verdict
    """The verdict is ``unparsed`` also if the fact is clear but the record is undecided."""
    record: str
    """The evidence of the record; empty if the statement was not understood."""


# --- words --------------------------------------------------------------------------------------------

# Before reading, each name is replaced by the same number of private-use characters, the first of which
# encodes the seat. So no name is taken for a word ("Will", "May"), and positions in the speech stay the same.

_FIRST: Final = 0xE000
_REST: Final = "\ue0ff"
_PRIVATE: Final = re.compile("[\ue000-\uf8ff]")

_NAME = f"[\ue001-\ue00a]{_REST}*"
_WHO = rf"(?:{_NAME}|\bi\b|\bme\b|\bmyself\b)"
_LIST = rf"{_WHO}(?:\s*[,/+]\s*{_WHO}){{0,9}}(?:\s*,?\s*(?:\band\b|&)\s*{_WHO})?"
_SUBJECT = rf"(?P<subject>{_LIST}|\bhe\b|\bshe\b)(?P<relative>\s*,?\s*\bwho\b|\s*,\s*you\b)?"
_ADVERB = r"(?:\s+(?:all|both|also|too|already|actually|indeed|only|just|myself|himself|herself|clearly))*"

_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        [
            "no zero 0",
            "one first 1st 1 a",
            "two second 2nd 2",
            "three third 3rd 3",
            "four fourth 4th 4",
            "five fifth 5th 5",
        ]
    )
    for word in words.split()
}
_NUMBER = r"(?:[1-5]|one|two|three|four|five)\b"
_ORDINAL = r"(?:first|second|third|fourth|fifth|1st|2nd|3rd|4th|5th)"
_WORD = r"(?:quest|mission|round)"
_QUEST = (
    rf"(?P<quest>quests\s+{_NUMBER}\s+and\s+{_NUMBER}"
    rf"|(?:the\s+)?(?:failed\s+|successful\s+)?{_WORD}\s*(?:number\s+|#\s*)?{_NUMBER}(?:\s+and\s+{_WORD}\s+{_NUMBER})?"
    rf"|(?:the\s+|our\s+)?(?:very\s+)?{_ORDINAL}\s+{_WORD}(?!\s+(?:proposal|attempt|vote|team\s+proposal))"
    r"|(?:the\s+|our\s+)?(?:last|previous|most\s+recent)\s+(?:quest|mission)"
    r"|(?:the|a|that|any)\s+(?:only\s+)?(?:failed|unsuccessful|successful)\s+(?:quest|mission|team)(?:\s+team)?)"
    r"(?P<attempt>,?\s+attempt\s+\d+)?"
    r"(?P<went>\s*,?\s*\b(?:which|that)\s+(?:has\s+|had\s+)?(?:failed|succeeded)\b(?!\s+to\b))?"
)

_ON = re.compile(
    rf"{_SUBJECT}{_ADVERB}\s+(?P<verb>was|were|wasn't|weren't|went|(?:has|have|had)(?:\s+not|\s+never|n't)?\s+been"
    rf"|did\s+not\s+go|didn't\s+go)(?P<not>\s+(?:not|never))?{_ADVERB}"
    r"\s+(?:on|in|part\s+of|a\s+member\s+of|members\s+of|included\s+in|chosen\s+for|selected\s+for|picked\s+for"
    r"|sent\s+on)\s+(?:both\s+)?(?:(?:the|that|our)\s+(?:(?:final|approved|quest)\s+)?team\s+"
    rf"(?:for|of|on|in|during|from|that\s+went\s+on)\s+)?{_QUEST}",
)
_ON_NOW = re.compile(
    rf"{_SUBJECT}{_ADVERB}\s+(?P<verb>is|are|am|isn't|aren't)(?P<not>\s+not)?{_ADVERB}\s+on"
    r"\s+(?:the|this)\s+(?:(?:current|present|proposed)\s+)?team\b(?!\s*(?:of|for|that|which|with|he|she|we|i)\b)",
)
_WENT = re.compile(
    rf"{_QUEST}(?:\s+with\s+(?P<team>{_LIST})|\s*\(\s*(?P<listed>{_LIST})\s*\))?(?P<which>\s*,?\s*\b(?:which|that))?(?:\s+(?:has|had|also|already|just|unfortunately|sadly|clearly))*"
    r"\s+(?P<verb>failed\b(?!\s+(?:to|us|me|votes?|cards?|proposals?|\d+)\b)|succeeded\b(?!\s+(?:only\s+)?in\b)|was\s+(?:a\s+)?(?:failure|success|successful|unsuccessful|clean)\b"
    r"|did\s+not\s+(?:fail|succeed)\b|didn't\s+(?:fail|succeed)\b|ended\s+in\s+(?:failure|success)\b)"
    r"(?:\s+with\s+(?P<fails>no|zero|one|two|three|four|\d)\s+fail(?:s|ures?)?(?:\s+(?:cards?|votes?))?\b)?"
    rf"(?:\s+without\s+(?P<without>{_LIST})|\s+with\s+(?P<with>{_LIST})\s+on\s+(?:it|board|the\s+team))?",
)
_OUTCOME = re.compile(
    rf"(?:\b(?P<verb>failure|success)\s+of|\bteam\s+that\s+(?P<verb2>failed|succeeded)(?:\s+(?:on|in))?)\s+{_QUEST}",
)
_WE = re.compile(
    rf"\bwe(?:\s+(?:have|had|already|just|all))*\s+(?P<verb>failed|lost|won|completed)\s+{_QUEST}",
)
_COUNTED = re.compile(
    r"(?:\b(?P<number>no|one|two|three|four)\s+(?:quests?|missions?)\s+(?:has|have)\s+(?:already\s+)?"
    r"(?P<verb>failed|succeeded)\b"
    r"|\bwe\s+(?:have\s+)?(?:already\s+)?(?P<verb2>lost|won|failed)\s+"
    r"(?P<number2>one|two|three|four)\s+(?:quests?|missions?)\b)"
    r"(?=\s*(?:[.,;:!)—–-]|$|so\s+far\b|already\b|now\b|and\b|but\b|by\s+now\b))",
)
_NONE_HAS = re.compile(
    rf"\bno\s+(?P<verb>failed|successful)\s+(?:quest|mission)\s+has\s+(?P<subject>{_LIST})\s+on\s+it\b"
    r"|\b(?P<mine>i)\s+have\s+no\s+failed\s+(?:quest|mission)\s+behind\s+me\b",
)
_LED = re.compile(
    rf"{_SUBJECT}{_ADVERB}\s+(?:(?P<verb>was|were|wasn't|weren't)(?P<not>\s+not)?{_ADVERB}\s+(?:the|our)\s+(?:(?:team|quest)\s+)?leader"
    r"\s+(?:of|for|in|on|during)\s+(?:the\s+team\s+(?:for|of)\s+)?|led\s+(?:the\s+team\s+(?:for|of|on|in)\s+)?"
    rf"|(?:proposed|picked|chose|selected)\s+the\s+team\s+(?:for|of|on)\s+|led\s+when\s+the\s+team\s+that\s+failed\s+){_QUEST}"
    r"(?P<chosen>\s+was\s+chosen)?",
)
_LEADS = re.compile(
    rf"{_SUBJECT}{_ADVERB}\s+(?P<verb>is|am|isn't)(?P<not>\s+not)?{_ADVERB}\s+(?:the|our)\s+(?:(?:current|present)\s+)?"
    r"(?:team\s+)?leader\b(?!\s+(?:of|for|in|on|next|after|when|again|i|we|he|she|they|you|that|who|whom|to|among|behind)\b)"
    rf"|\b(?:the|our)\s+(?:current\s+)?leader\s+(?P<leader>{_NAME})(?!\s*(?:,|and\b|&|or\b))",
)
_VOTED = re.compile(
    rf"{_SUBJECT}{_ADVERB}\s+(?P<verb>voted\s+(?:yes|no|to\s+approve|to\s+reject|against|for|in\s+favou?r(?:\s+of)?|agree|disagree)"
    r"|(?:did\s+not|didn't)\s+vote\s+(?:yes|no|against|for|in\s+favou?r(?:\s+of)?)"
    r"|approved|rejected|turned\s+down|(?:did\s+not|didn't)\s+(?:approve|reject))\b",
)

# --- sentences without a statement ------------------------------------------------------------------------

# These words anywhere in a sentence make it a question, an assumption, a quote or a dispute.
_NOT_STATED = re.compile(
    r"[?\"“”«»„‹›]|(?:^|\s)['‘][^'’]{2,}['’](?:\s|[.,;:!]|$)|^\W*had\b"
    r"|\b(?:if|unless|whether|suppose|supposing|supposedly|imagine|assum\w*|pretend\w*|hypothetical\w*"
    r"|sa(?:id|ys?|ying)|claim\w*|told|tell(?:s|ing)?|argu(?:e|es|ed|ing)|accus\w*|according|alleg\w*|mention\w*"
    r"|insist\w*|suggest\w*|assert\w*|state[sd]?|stating|ask(?:s|ed|ing)?|hear|heard|announc\w*|point(?:s|ed)?\s+out"
    r"|l(?:ie|ies|ied|ying)|wrong|false|untrue|not\s+true|incorrect|mistaken|jok\w+|rumou?rs?|otherwise|true\s+that"
    r"|respectively|in\s+spirit|games|quot(?:e|es|ed|ing)"
    rf"|in\s+(?:my|your|his|her|our|their|{_NAME}'s)\s+(?:head|mind|plans?|dreams?|memory)"
    r"|(?:last|previous|other|another|earlier)\s+(?:games?|time)|call(?:s|ed)\s+it|admit\w*|promise[sd]?|remind(?:s|ed)?\s+us\s+that|acted?\s+as|as\s+though|in\s+case)\b",
)
# These words before a statement, in its clause, make it a guess, a wish, a denial, or the future.
_UNSURE = re.compile(
    r"\b(?:would|could|should|might|may|must|can|cannot|perhaps|maybe|possibly|probably|likely|unlikely|think|thought"
    r"|believed?|guess(?:ed)?|feel|felt|suspect(?:ed)?|reckon|doubt|hoped?|hopefully|wish(?:ed)?|want(?:ed)?|expect(?:ed)?"
    r"|bet|hunch|plan|intend|prefer|wonder|seem(?:s|ed)?|appear(?:s|ed)?|looks?|will|shall|going\s+to|let\s+us|make\s+sure|ensure"
    r"|next|or|either|not|never|no|nobody|none|nothing|without|neither|nor|hardly|almost|nearly|den(?:y|ies|ied)|once|until"
    r"|impl(?:y|ies|ied)|recommend|need|important|afraid|fear|worry|rather|instead|avoid|prevent|propose|when|whenever"
    r"|before|wait|except|besides|even|as\s+if)\b|n't\b|'ll\b|'d\b|\blet's\b",
)
_DENIED = re.compile(r"\b(?:not|nor|never|neither|no|nobody|or|either|than)\b|n't\b")
_ANEW = re.compile(
    r"[;:—–]|\s-\s|\b(?:because|since|given\s+that|considering\s+that|but|however|although|though|whereas|while|who)\b"
    r"|,\s*(?:as|and|so|for)\b|\bthe\s+fact\s+that\b",
)
# These words directly after a statement withdraw it, or make it one of several options.
_AFTER = re.compile(
    r"\s*(?:,|\.\.+|…)?\s*(?:(?:did|has|was|were|is|had)n't\s+(?:it|he|she|they|we|you)\b|i\s+(?:think|believe|guess|suppose|hope)|or\b|nor\b|maybe\b|perhaps\b|probably\b|right\b|correct\b"
    r"|as\s+far\s+as|in\s+theory|in\s+my\s+(?:opinion|mind))",
)
# The words that may follow a denial; before others, something else may be denied ("did not fail because of
# me").
_DENIED_WHOLE = re.compile(
    r"\s*(?:$|[.,;:!)—–\n]|and\b|but\b|so\b|either\b|at\s+all\b|too\b|while\b|which\b)"
)
# The words that may come directly before a subject; after others, the name is part of a longer phrase.
_OPENS = re.compile(
    r"(?:^|[,;:(—–.!\-]|\b(?:and|but|because|since|as|so|that|while|after|although|though|whereas|yet|also|both|then"
    r"|indeed|yes|however|clearly|for|given|how|why|well|remember|note|notice|recall|again|still|actually|where)\b)[\s\"']*$",
)
_OPENS_NOT = re.compile(
    r"\b(?:(?:long|far|soon|well|such|same|much)\s+as|(?:everyone|everybody|all|nobody|no\s+one|anyone|none)\s+but"
    r"|(?:important|necessary|so|such|required|essential|best|better|idea|sure|way|rather)\s+that)[\s]*$",
)
_PAST = re.compile(
    r"\b(?:led|voted|rejected|approved|failed(?!\s+to\b)|succeeded|was\s+on|were\s+on|was\s+the\s+leader|went\s+on)\b",
)
_ABOUT_THE_RECORD = re.compile(
    rf"(?=.*\b(?:quest|mission|round|team|vote|proposal|leader)s?\b).*(?:{_NAME}|\bi\b|\b{_WORD}\s*\d|\bwe\b)",
    re.DOTALL,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:(?:\.(?=\d)|\.\.+(?=\s*[a-z]))[^.!?\n]+)*[.!?]*[\"”'’)]*", re.DOTALL)
_CLAUSE_ENDS = re.compile(
    r"[;:—–!.?\n]|,(?!\s*(?:attempt\b|[\ue001-\ue00a]))|\b(?:because|since|but|so|while|although|though|which|who|despite|even|when|where|after|before)\b"
    r"|\band\b(?!\s*[\ue001-\ue00a])",
)


# --- statements that are somebody else's ------------------------------------------------------------------

_OTHER = rf"(?:{_NAME}|\b(?:you|he|she|they|some|somebody|someone|everybody|everyone|people))"
_OTHERS = rf"(?:{_NAME}'s|\b(?:your|his|her|their))"
_STORY = (
    r"(?:accounts?|stor(?:y|ies)|logic|versions?|ideas?|notions?|theor(?:y|ies)|narratives?|tales?|telling|views?"
    r"|opinions?|readings?|eyes?|minds?|heads?|worlds?|books?|imagination|memory|dreams?|fantas(?:y|ies)|fiction"
    r"|beliefs?|reasoning|reckoning|interpretation|impression|words|counts?|reality|universe|life)\b"
)
_A_STORY = (
    rf"(?:{_OTHERS}|\b(?:\w+'s|(?:that|this|the|an?|one|some|another)(?!\s+other\b)))\s+(?:\w+\s+)?{_STORY}"
)
_IN_A_STORY = rf"\b(?:in|by|per|from|on|under|to|with|following)\s+{_A_STORY}"
_REPORT = (
    r"(?:thinks?|thought|believe[sd]?|hint\w*|repeat\w*|maintain\w*|insinuat\w*|whisper\w*|narrat\w*|preach\w*"
    r"|dream\w*|imagin\w*|invent\w*|obsess\w*|wr(?:ites?|ote)|sw(?:ears?|ore)|puts?\s+it|speaks?\s+of|talks?\s+of"
    r"|(?:goes|going)\s+on\s+about)\b"
)
# A "that" after one of these words states what follows, or the rules for guesses decide.
_KNOWN = (
    r"(?:see|sees|saw|seen|seeing|knows?|knew|known|knowing|remember|remembering|note|notice|noticed|noticing|recall"
    r"|reali[sz]e[sd]?|learn(?:ed|t)?|found|forget|forgot|remind(?:s|ed)?|shows?|showed|shown|proves?|proved|proven"
    r"|confirms?|confirmed|fact|clear|plain|obvious|evident|given|considering|aware|now|mind|glad|sorry|sad|is|was"
    r"|think|believe|suspect)\b"
)
# A "that" after one of these words, such as a noun of the game, is a pronoun.
_DESCRIBED = (
    r"(?:(?:team|quest|mission|round|vote|proposal|player|seat|leader|plan|one)s?|those|all|everything|only"
    r"|and|or|after|before|on|in|for|with|from|of|at|than|by|to|despite|besides)\b"
)
# A statement after any other "that" is a report or a thought.
_REPORTED_THAT = (
    rf"(?:(?<![\w'])(?!{_KNOWN}|{_DESCRIBED})[\w']+,?\s|{_OTHERS}\s+(?:\w+\s+){{0,3}}(?:is|was)\s|^\s*)"
    rf"that\b,?\s*(?:$|{_WHO}|\b(?:he|she|we|you|they|it|the|our|my|his|her|their|both|no|after|in|{_NUMBER}"
    rf"|{_WORD}s?\s*{_NUMBER})\b)"
)
# These words before a statement make it somebody's story, up to a turn of the sentence.
_REPORTED = re.compile(
    rf"{_REPORTED_THAT}|{_IN_A_STORY}|{_STORY}\s*(?::|where|in\s+which)\s*$"
    rf"|{_OTHER}\s+(?:\w+\s+){{0,3}}{_REPORT}|\bper\s+{_OTHER}"
    rf"|\bas\s+{_OTHER}\s+(?:\w+\s+){{1,3}}it\b|\bfor\s+all\s+(?:i|we|you|anyone)\b|\blike\s+this\s*:"
    rf"|^\s*(?:for|to)\s+{_OTHER}\s*,",
)
_TURN = re.compile(r"[;—–]|\s-\s|\b(?:but|however|although|though|whereas|while)\b")
# These words directly after a statement do so too.
_REPORTED_AFTER = re.compile(
    rf"[\s,(:—–-]{{0,3}}(?:(?:only|just)\s+)?(?:{_IN_A_STORY}|(?:(?:that|this)(?:'s|\s+is)\s+)?{_OTHERS}\s+{_STORY}"
    rf"|(?:so\s+)?{_OTHER}\s+(?:\w+\s+){{0,2}}{_REPORT}|{_REPORT}\s+{_OTHER})",
)
# What may also come directly before a quest, "we" or a number.
_OPENS_A_QUEST = re.compile(rf"(?:[)\]}}*_•]|\b(?:{_KNOWN}|far|only|\w+ly))\s*$")
# "Player 1: …" at the beginning of a sentence quotes Player 1.
_QUOTED = re.compile(rf"[^\w\ue000-\uf8ff]*(?P<name>{_NAME})[*_\s]*:")
# A sentence that begins like this disowns the one before.
_DISOWNED = re.compile(
    r"\s*(?:(?:that|this)(?:'s|\s+(?:is|was))\s+(?:[\w\ue000-\uf8ff]+\s+){0,4}?"
    r"(?:said|says?|saying|told|claim\w*|wrong|false|untrue|incorrect|not\s+true|lies?|nonsense|absurd|story)\b"
    r"|so\s+(?:says?|said|claims?|claimed)\b"
    r"|(?:it\s+(?:is|was)\s+)?(?:(?:simply|just|all)\s+)?(?:wrong|false|untrue|nonsense|not\s+true|lies)\s*[.,!])",
)
# After these words, a quest that has not been played is only assumed.
_GIVEN = re.compile(r"\b(?:given|granted|provided|considering)(?:\s+that)?\s*$")


class _Speech(NamedTuple):
    """One masked sentence of a speech, with the speaker and the table for checking its claims."""

    text: str
    """The whole speech, in lower case: without flags, patterns take half the time."""
    start: int
    end: int
    speaker: Seat
    table: Table


_Claims = Iterator[tuple[int, int, Fact]]


def read_statements(text: str, speaker: Seat, table: Table) -> tuple[Finding, ...]:
    """The statements about the record in a speech, in order, checked against the table at that time."""
    squeezed = _squeezed(_masked(text, table.names))
    return tuple(
        replace(finding, start=squeezed.place(finding.start), end=squeezed.place(finding.end))
        for sentence in _sentences(squeezed.text, speaker, table)
        for finding in _read(sentence)
    )


class _Squeezed(NamedTuple):
    """A text with every run of white space replaced by one ``\\n``, if it has one, or else by one space, and
    the original positions.

    Without this, the time of patterns would grow with the square of the length of a run, and the words that
    tell which patterns to try would have to name every kind of blank.
    """

    text: str
    after: list[int]
    """The positions after which characters were left out."""
    left_out: list[int]
    """The number of characters left out up to each of these positions."""

    def place(self, place: int) -> int:
        """The original position of a position in this text."""
        run = bisect_right(self.after, place)
        return place + (self.left_out[run - 1] if run else 0)


def _squeezed(text: str) -> _Squeezed:
    parts: list[str] = []
    after: list[int] = []
    left_out: list[int] = []
    done = length = gone = 0
    for run in _RUN.finditer(text):
        parts += text[done : run.start()], "\n" if "\n" in run.group() else " "
        length += run.start() - done + 1
        gone += run.end() - run.start() - 1
        after.append(length)
        left_out.append(gone)
        done = run.end()
    return _Squeezed("".join((*parts, text[done:])), after, left_out)


_RUN: Final = re.compile(r"\s(?:\s+|(?<![ \n]))")
"""White space that is not one ``\\n`` or one space already."""


def sentences(text: str, names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """The start and end of each sentence of a speech, as the rules split it, without blank sentences."""
    spans = (match.span() for match in _SENTENCE.finditer(_masked(text, names)))
    return tuple(span for span in spans if any(c.isalnum() for c in text[slice(*span)]))


def _sentences(masked: str, speaker: Seat, table: Table) -> Iterator[_Speech]:
    lowered = masked.replace("İ", "i").lower()  # the one letter whose lower case is longer
    for match in _SENTENCE.finditer(masked):
        yield _Speech(lowered, match.start(), match.end(), speaker, table)


def _read(sentence: _Speech) -> list[Finding]:
    words = sentence.text[sentence.start : sentence.end]
    if not any(word in words for word in _WORTH_READING) or _NOT_STATED.search(words):
        return []
    quoted = _QUOTED.match(words)
    if quoted and _seats(quoted["name"], 0) != [sentence.speaker]:
        return []
    if _DISOWNED.match(sentence.text, sentence.end):
        return []
    findings: dict[Fact, Finding] = {}
    for needles, reader in _READERS:
        if len(words) > _LONGEST or not any(needle in words for needle in needles):
            continue
        for start, end, fact in reader(sentence):
            truth, record = fact.against(sentence.table)
            verdict: Verdict = "unparsed" if truth == "undecided" else truth
            # If two readers find the same fact, the shorter span is kept.
            known = findings.get(fact)
            if known is None or end - start < known.end - known.start:
                findings[fact] = Finding(start, end, fact, verdict, record)
    if findings:
        return sorted(findings.values(), key=lambda finding: finding.start)
    if _PAST.search(words) and _ABOUT_THE_RECORD.match(words) and not _UNSURE.search(words):
        at = sentence.start + len(words) - len(words.lstrip())
        return [Finding(at, at + len(words.strip()), None, "unparsed", "")]
    return []


def _masked(text: str, names: tuple[str, ...]) -> str:
    text = _PRIVATE.sub("\ufffd", text).replace("’", "'").replace("‘", "'")
    pattern, seats = _names(names)
    return pattern.sub(lambda match: _mask(match, seats), text)


def _mask(match: re.Match[str], seats: Mapping[str, Seat]) -> str:
    name = match.group()
    seat = seats.get(name) or seats.get(_plain(name))
    if seat is None:
        return name
    return chr(_FIRST + seat) + _REST * (len(name) - 1)


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


@lru_cache(maxsize=256)
def _names(names: tuple[str, ...]) -> tuple[re.Pattern[str], Mapping[str, Seat]]:
    """A pattern of all names, and their seats. A name that two seats share is left out."""
    # "Player 3" is written in many ways; other names must match exactly.
    seats: dict[str, Seat] = {f"seat{seat}": seat for seat in range(1, len(names) + 1)}
    spelled = [r"(?i:\b(?:player|seat)[\s_-]?\d+\b)"]
    counts = Counter(map(_plain, names))
    for seat, name in enumerate(names, 1):
        if len(name) < 2 or counts[_plain(name)] > 1:
            continue
        if re.fullmatch(r"player\d+", _plain(name)):
            seats[_plain(name)] = seat
        else:
            seats[name] = seat
            spelled.append(rf"(?<!\w){re.escape(name)}(?!\w)")
    return re.compile("|".join(sorted(spelled[1:], key=len, reverse=True) + spelled[:1])), seats


# --- seats and quests -------------------------------------------------------------------------------


_SEAT: Final = re.compile(_WHO)


def _seats(words: str, speaker: Seat) -> list[Seat]:
    seats = []
    for match in _SEAT.finditer(words):
        first = ord(match.group()[0])
        seats.append(first - _FIRST if first > _FIRST else speaker)
    return seats


def _subject(sentence: _Speech, match: re.Match[str]) -> list[Seat]:
    """The seats that a match is about; empty if they are unclear."""
    start = match.start("subject")
    words = match["subject"]
    before = sentence.text[sentence.start : start]
    if words in ("he", "she"):
        named = set(_seats(before, 0)) - {0}
        return sorted(named) if len(named) == 1 and _opens(before) else []
    seats = _seats(words, sentence.speaker)
    relative = (match["relative"] or "").strip(" ,")
    if relative == "you":
        return seats[-1:] if len(seats) == 1 else []
    if relative == "who":
        plural = (match.groupdict().get("verb") or "").split(" ")[0] in (
            "were",
            "are",
            "have",
            "weren't",
            "haven't",
        )
        return seats if plural else seats[-1:]
    # "Player 4, Player 1 was …" addresses Player 4: a list needs an "and".
    if len(seats) > 1 and not re.search(r"\band\b|[&/+]", words):
        return []
    return seats if _opens(before) else []


def _opens(before: str) -> bool:
    return bool(_OPENS.search(before)) and not _OPENS_NOT.search(before)


def _stated(sentence: _Speech, match: re.Match[str]) -> bool:
    """Whether the match is stated as a fact."""
    before = sentence.text[sentence.start : match.start()]
    # Where the pattern has a subject, ``_subject`` decides.
    opened = match.re not in (_WENT, _WE, _COUNTED, _NONE_HAS) or match.groupdict().get("which")
    if not (opened or _opens(before) or _OPENS_A_QUEST.search(before)):
        return False
    after = sentence.text[match.end() : sentence.end]
    if _REPORTED.search(before[_last_end(_TURN, before) :]) or _REPORTED_AFTER.match(after):
        return False
    if _GIVEN.search(before) and not _played(sentence, match):
        return False
    clause = _last_end(_ANEW, before)
    relative = match.groupdict().get("relative") or ""
    # "I suspect Player 3, who was …" is a guess about Player 3, but states the rest.
    unsure = _DENIED if "who" in relative else _UNSURE
    return not unsure.search(before[clause:]) and not _AFTER.match(after)


def _last_end(pattern: re.Pattern[str], words: str) -> int:
    """The end of the pattern's last match in the words; 0 without a match."""
    return max((match.end() for match in pattern.finditer(words)), default=0)


def _played(sentence: _Speech, match: re.Match[str]) -> bool:
    """Whether all quests that the match names, if any, have been played."""
    words = match.groupdict().get("quest")
    played = {quest.round for quest in sentence.table.quests}
    return not words or all(played.issuperset(rounds) for rounds in _quests(words, sentence.table).rounds)


class _Quests(NamedTuple):
    """The quests that a speech names."""

    rounds: tuple[tuple[int, ...], ...]
    """One tuple per claim; several rounds in a tuple mean any of them."""
    described: str
    """``failed`` or ``successful``, if the speech names them so."""
    numbered: bool
    as_round: bool
    """Whether the speech says "round", which may mean a proposal."""


_NUMBERED: Final = re.compile(rf"\b{_NUMBER}|\b{_ORDINAL}\b")


def _quests(words: str, table: Table) -> _Quests:
    described = "failed" if re.search(r"\b(?:failed|unsuccessful)\b", words) else ""
    described = described or ("successful" if "successful" in words else "")
    as_round = "round" in words
    numbers = _NUMBERED.findall(words)
    if numbers:
        return _Quests(tuple((_NUMBERS[number],) for number in numbers), described, True, as_round)
    if described:
        wanted = described == "successful"
        return _Quests(
            (tuple(q.round for q in table.quests if q.team and q.succeeded is wanted),),
            described,
            False,
            False,
        )
    return _Quests((tuple(quest.round for quest in table.quests[-1:]),), "", False, False)


def _went(quests: _Quests, words: str | None) -> Iterator[Fact]:
    """Results of quests that are mentioned in passing: ``the failed quest 2``, ``quest 2, which failed``."""
    result = quests.described if quests.numbered else ""
    if words:
        result = "failed" if "failed" in words else "successful"
    if result:
        for rounds in quests.rounds:
            if len(rounds) == 1:
                yield QuestWent(rounds[0], result == "successful")


def _negated(match: re.Match[str]) -> bool:
    words = match.groupdict()
    verb = words.get("verb") or ""
    return bool(words.get("not")) or bool(re.search(r"n't|\bnot\b|\bnever\b", verb))


def _denied_whole(sentence: _Speech, end: int) -> bool:
    return bool(_DENIED_WHOLE.match(sentence.text[end : sentence.end]))


# --- readers -------------------------------------------------------------------------------------


def _matches(pattern: re.Pattern[str], sentence: _Speech) -> Iterator[tuple[int, int, re.Match[str]]]:
    for match in pattern.finditer(sentence.text, sentence.start, sentence.end):
        if not _stated(sentence, match):
            continue
        if pattern is _VOTED or not _negated(match) or _denied_whole(sentence, match.end()):
            yield match.start(), match.end(), match


def _read_on(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_ON, sentence):
        seats = _subject(sentence, match)
        quests = _quests(match["quest"], sentence.table)
        on = not _negated(match)
        for seat in seats:
            for rounds in quests.rounds:
                yield start, end, OnQuest(seat, rounds, on, quests.described)
        if seats:
            for fact in _went(quests, match["went"]):
                yield start, end, fact


def _read_on_now(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_ON_NOW, sentence):
        for seat in _subject(sentence, match):
            yield start, end, OnTeam(seat, not _negated(match))


_OF_A_VOTE = re.compile(
    r"\b(?:proposals?|votes?|voting|attempts?|teams?|plans?|picks?)\s+(?:for|of|on|in|to)\s*$"
)


def _read_went(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_WENT, sentence):
        if _OF_A_VOTE.search(sentence.text[sentence.start : start]):
            continue
        quests = _quests(match["quest"], sentence.table)
        succeeded = _success(match["verb"])
        fails = _NUMBERS.get(match["fails"] or "")
        for rounds in quests.rounds:
            if len(rounds) > 1:
                continue
            fact = QuestWent(rounds[0] if rounds else None, succeeded, fails)
            # "Round 2 failed" may mean its proposal: it counts only if it is right.
            if not quests.as_round or fact.against(sentence.table).truth == "supported":
                yield start, end, fact
            for group, on in (("team", True), ("listed", True), ("with", True), ("without", False)):
                for seat in _seats(match[group] or "", sentence.speaker):
                    yield start, end, OnQuest(seat, rounds, on)


def _success(verb: str) -> bool:
    good = bool(re.search(r"succe|success|won|completed|clean", verb)) and "unsuccess" not in verb
    return good is not bool(re.search(r"n't|\bnot\b", verb))


def _read_outcome(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_OUTCOME, sentence):
        quests = _quests(match["quest"], sentence.table)
        played = {quest.round for quest in sentence.table.quests}
        for rounds in quests.rounds:
            # The failure of a future quest is feared, not stated.
            if len(rounds) == 1 and rounds[0] in played:
                yield start, end, QuestWent(rounds[0], _success(match["verb"] or match["verb2"]))


def _read_we(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_WE, sentence):
        quests = _quests(match["quest"], sentence.table)
        for rounds in quests.rounds:
            if len(rounds) == 1 and not quests.as_round and not quests.described:
                yield start, end, QuestWent(rounds[0], _success(match["verb"]))


def _read_counted(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_COUNTED, sentence):
        number = _NUMBERS[match["number"] or match["number2"]]
        yield start, end, QuestsCounted(number, _success(match["verb"] or match["verb2"]))


def _read_none_has(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_NONE_HAS, sentence):
        failed = match["mine"] or match["verb"] == "failed"
        quests = _quests("the failed quest" if failed else "the successful quest", sentence.table)
        for seat in _seats(match["subject"] or match["mine"], sentence.speaker):
            yield start, end, OnQuest(seat, quests.rounds[0], False, quests.described)


def _read_led(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_LED, sentence):
        quests = _quests(match["quest"], sentence.table)
        for seat in _subject(sentence, match):
            for rounds in quests.rounds:
                yield start, end, Led(seat, rounds, not _negated(match))
        if match["chosen"] and len(quests.rounds[0]) == 1:
            yield start, end, QuestWent(quests.rounds[0][0], succeeded=False)


def _read_leads(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_LEADS, sentence):
        if match["leader"]:
            yield start, end, Led(_seats(match["leader"], sentence.speaker)[0], None)
        else:
            for seat in _subject(sentence, match):
                yield start, end, Led(seat, None, not _negated(match))


_QUEST_ANYWHERE = re.compile(_QUEST)
_NOT_YET = re.compile(r"\b(?:this|current|present|proposed|now|new|it|today|every|any|all|each|some)\b")
_LAST = re.compile(r"\b(?:last|previous)\s+(?:team|proposal|vote|one)\b")
_OF_A_TEAM = re.compile(r"\b(?:team|proposal|quest|mission|lineup)s?\b")
_NO_TEAM = re.compile(r"^\s+\w+ing\b|\bto\b")
_REJECTABLE = re.compile(
    rf"\s+(?:{_NAME}|(?:the\s+|that\s+|our\s+)?(?:last\s+|previous\s+|original\s+)?"
    rf"(?:teams?|proposals?|line-?up)\b|{_QUEST})",
)
"""The words directly after the verb that name something a vote can approve or reject."""
_OWNED = re.compile(rf"({_NAME})'s\b")
_NTH_PROPOSAL = re.compile(rf"\b{_ORDINAL}\s+(?:team|proposal|attempt|vote)")


def _read_voted(sentence: _Speech) -> _Claims:
    for start, end, match in _matches(_VOTED, sentence):
        stop = _CLAUSE_ENDS.search(sentence.text, end, sentence.end)
        tail = sentence.text[end : stop.start() if stop else sentence.end]
        end += len(tail.rstrip())
        if _negated(match) and not _denied_whole(sentence, end):
            continue
        vote = _vote(tail, match["verb"], sentence)
        if vote is not None and not _AFTER.match(sentence.text[end : sentence.end]):
            for seat in _subject(sentence, match):
                yield start, end, replace(vote, seat=seat)


def _vote(tail: str, verb: str, sentence: _Speech) -> Voted | None:
    """The vote that a verb such as ``voted for`` and the rest of the clause are about, with seat 0 as its
    seat; None if it is not a vote on a team, or if it is unclear which one.
    """
    if _NOT_YET.search(tail) or _NO_TEAM.search(tail):
        return None
    if not verb.startswith(("voted", "did not vote", "didn't vote")) and not _REJECTABLE.match(tail):
        return None
    owners = [ord(owner[1][0]) - _FIRST for owner in _OWNED.finditer(tail)]
    named = [] if owners else _seats(tail, sentence.speaker)
    quest = _QUEST_ANYWHERE.search(tail)
    bare = verb.endswith((" yes", " no", " agree", " disagree", "to approve", "to reject"))
    if not bare and quest is None and not named and not _OF_A_TEAM.search(tail):
        return None
    rounds, attempt = None, None
    if quest is not None:
        quests = _quests(quest["quest"], sentence.table)
        if len(quests.rounds) > 1:
            return None
        rounds = quests.rounds[0]
        attempt = int(re.sub(r"\D", "", quest["attempt"])) if quest["attempt"] else None
    if len(owners) > 1 or (attempt is None and _NTH_PROPOSAL.search(tail)):
        return None
    return Voted(
        0,
        _approves(verb),
        rounds,
        attempt,
        tuple(named),
        owners[0] if owners else None,
        bool(_LAST.search(tail)) and not named and not owners,
    )


def _approves(verb: str) -> bool:
    yes = bool(re.search(r"\b(?:yes|for|agree|favou?r|approved?)\b", verb))
    return yes is not bool(re.search(r"n't|\bnot\b", verb))


_READERS: Final[tuple[tuple[tuple[str, ...], Callable[[_Speech], _Claims]], ...]] = (
    (("was", "were", "went", "been", " go "), _read_on),
    (("on the", "on this"), _read_on_now),
    (("fail", "succe", "clean"), _read_went),
    (("failure of", "success of", "team that"), _read_outcome),
    (("we ",), _read_we),
    (("quests", "missions", "quest has", "mission has"), _read_counted),
    (("no ",), _read_none_has),
    ((" led", "leader", "the team for", "the team of", "the team on"), _read_led),
    (("leader",), _read_leads),
    (("vote", "approve", "reject", "turned down"), _read_voted),
)
"""Each reader, with words of which every sentence that it can read contains at least one. Most sentences
contain none, and no pattern is tried on them.
"""

_LONGEST: Final = 600
"""The most characters of a sentence that is read. Longer ones are not natural speech, and some patterns take
time that grows with the square of the length."""

_WORTH_READING: Final = (
    " team",
    "leader",
    "led",
    "vote",
    "approve",
    "reject",
    "turned down",
    "quest",
    "mission",
    "round",
)
