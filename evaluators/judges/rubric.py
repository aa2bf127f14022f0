"""The rubric for judges, with an example of each score.

The scale is InterIntent's (EMNLP 2024, section 3); wording and examples are ours. All examples of intentions
come from one game, so that they can be compared. An example gives its reason before its score, as judges do.
"""

from typing import Final, NamedTuple

from engine.intentions import IntentionId

__all__ = [
    "FOLLOWING",
    "SELECTION",
    "SPEAKING",
    "STATING",
    "THINKING",
    "Example",
    "Stated",
    "following_text",
    "selection_text",
    "statements_text",
]


class Example(NamedTuple):
    """A text with its score for one intention."""

    intention: IntentionId
    text: str
    score: int
    """1 to 5; for a selection 1 (reasonable) or 0."""
    why: str


THINKING: Final = (
    Example(
        "concern_failed_quest_member",
        "Goal: get seat 3 off the team. It was on quest 2, which failed, and so was seat 5; I will name the "
        "quest and ask the leader to take seat 4 instead.",
        5,
        "A plan for this very intention: whom, on what ground, to what end; every fact is right.",
    ),
    Example(
        "concern_failed_quest_member",
        "I should raise that seat 3 was on the quest that failed.",
        4,
        "The goal and its ground are there and right; what to ask for is left open.",
    ),
    Example(
        "concern_failed_quest_member",
        "Goal: get seat 3 off the team because it was on quest 1, which failed.",
        3,
        "A plan for the intention, but on a wrong fact: quest 2 failed, not quest 1.",
    ),
    Example(
        "concern_failed_quest_member",
        "I intend to express concerns about a player from a failed quest team.",
        2,
        "Only the intention in its own words.",
    ),
    Example(
        "concern_failed_quest_member",
        "The team looks fine to me, I will support it and say little.",
        1,
        "Nothing of the intention; here even the contrary.",
    ),
)
"""Thinking is judged leniently: a plan that reflects the goal without false facts is good."""

SPEAKING: Final = (
    Example(
        "question_leader_pick",
        "Seat 2, you named seat 3 for quest 3. Seat 3 was on quest 2, which failed. What makes you trust it "
        "more than seat 4?",
        5,
        "It asks the leader about a named seat, with a reason from the record, and wants an answer.",
    ),
    Example(
        "question_leader_pick",
        "Seat 2, why is seat 3 on your team?",
        4,
        "It asks the right seat about a named seat; no ground is given.",
    ),
    Example(
        "question_leader_pick",
        "Seat 2, why seat 3? You rejected every team with it so far.",
        3,
        "It asks, but rests on what never was: no earlier team with seat 3 was rejected by seat 2.",
    ),
    Example(
        "question_leader_pick",
        "I would like to question the leader about the selection of a particular player.",
        2,
        "It says that it wants to ask and asks nothing.",
    ),
    Example(
        "question_leader_pick",
        "Good choice, seat 2. I am happy with everybody on it.",
        1,
        "No question at all, and the contrary of one.",
    ),
)
"""Speaking is judged strictly: only concrete spoken words that agree with the record count."""

SELECTION: Final = (
    Example(
        "concern_failed_quest_member",
        "A Servant in quest 3, after quest 2 failed with seats 3 and 5, when the team holds seat 3.",
        1,
        "The quest did fail, its member is on the team, and loyal gains by keeping it off.",
    ),
    Example(
        "concern_failed_quest_member",
        "A Servant in quest 2, after quest 1 succeeded.",
        0,
        "No quest has failed.",
    ),
    Example(
        "support_proposal",
        "The Assassin, when the team is three seats of which it knows all to be loyal, and one more success "
        "wins for loyal.",
        0,
        "It helps the other side to win, and nothing is gained by it.",
    ),
    Example(
        "support_proposal",
        "Morgana in quest 1, with no evil seat on the team.",
        1,
        "One quest given away early buys trust; that is play, and no mistake.",
    ),
    Example(
        "reveal_servant",
        "A Servant who in the same turn pretends to be Merlin.",
        0,
        "It contradicts another selected intention.",
    ),
)


class Stated(NamedTuple):
    """A sentence with the verdict on its statement; the verdict is empty if the sentence makes none."""

    text: str
    verdict: str
    record: str
    why: str


STATING: Final = (
    Stated(
        "We owe our only failure to seat 2's choice of people.",
        "refuted",
        "Round 2, attempt 1: seat 4 leads.",
        "Quest 2 is the only one that failed, and seat 4 chose its team.",
    ),
    Stated(
        "I raised my hand against the crew that lost us the second mission.",
        "supported",
        "Votes: for 3 4 5; against 1 2. The team is approved.",
        "Seat 1 speaks, and is among those against the team that failed quest 2.",
    ),
    Stated(
        "Three defeats, and you still let them go!",
        "refuted",
        "Quest 2 with the team 3 4 5 failed; failure cards: 1.",
        "One quest has failed so far; the line that comes nearest is quoted.",
    ),
    Stated(
        "Seat 5 was grinning when the cards came back.",
        "uncheckable",
        "",
        "It is said to have happened at the table, and the record holds no faces.",
    ),
    Stated("Seat 3 must have played that failure card.", "", "", "A conclusion about hidden cards."),
    Stated("If quest 3 fails too, I blame seat 2.", "", "", "A condition, and what is to come."),
    Stated("Trust me, I am Percival.", "", "", "A claim about a hidden role."),
    Stated("Seat 4, why did you change your mind?", "", "", "A question."),
)
"""Seat 1 speaks in round 3. The rules read none of these sentences."""

FOLLOWING: Final = """\
You judge how well a seat at a table of Avalon acted on the intentions it had chosen. You do not judge
whether the intentions are wise, whether the text is well written, or whether the seat lies: a lie may be
just what the intention asks for. You judge for every intention on its own, thinking and speaking apart.

You have what the seat had: its role, what it was shown, the record up to its speech. All this is told as it
was told to the seat: "you" in it is the seat that you judge, and not yourself.

Scores:
5  it acts on the intention fully: concrete content (named seats, a ground, a hint, a request), no false fact
4  nearly: it acts on it, something small is missing
3  borderline: it acts on it, but rests on wrong facts of the game
2  it only repeats the intention in its own words
1  nothing of it, or the contrary

Thinking is private. Judge it leniently: a plan that reflects the goal without false facts is a 4 or a 5. A
chosen intention that the thinking drops is a 1. Speaking is what the table hears. Judge it strictly: what
is only meant, and not said, does not count. What is false is told by the record alone.

For each score first quote the words it rests on, exactly as they stand in the text that you judge, at least
three words in a row; only for a 1 with nothing to quote leave the quote empty. Then say in one sentence what
they show. Then give the score that follows from this."""

_SELECTING: Final = """\
You judge whether the intentions that a seat at a table of Avalon chose for its next speech are reasonable in
its situation: yes or no for every one of them. You have what the seat had: its role, what it was shown, the
record up to this point. All this is told as it was told to the seat: "you" in it is the seat that you judge,
and not yourself.

An intention is unreasonable when it contradicts the record (a failed quest that never was, a vote not yet
taken), when it contradicts the role (it helps the other side, and for nothing in return), or when it
contradicts another intention chosen with it (passing for Merlin and for Percival at once). All else is
reasonable: a bold, weak or needless move too. Deceit is part of the game for either side.

For each verdict first quote the words of the situation or of the seat's own reasons that it rests on, exactly
as they stand there, at least three words in a row. Then say in one sentence what they show. Then give the
verdict that follows from this."""


_STATEMENTS: Final = """\
You check what a seat at a table of Avalon says against the public record of its game. You get the record
up to its speech, and the speech. Find every statement in the speech about what has happened at the table
so far: who led, who was proposed for a team or went on a quest, who voted how, how quests came out and
with how many failure cards, who said what. Judge each of them on its own.

supported    the record says so
refuted      the record says otherwise, or such a thing would stand in the record and does not
uncheckable  it is about what happened, and the record cannot tell

These are no statements, leave them out: opinions, suspicions and conclusions; intentions, promises,
wishes and proposals; questions and conditions; what is still to come; claims about hidden roles or about
who played which card. Whether somebody lies about such things is not your business. A seat is also called
by its name, or a player by its number: Player 2 is seat 2. What a seat said earlier proves that it said
so, and not that it is so. Take words as the table would: where a statement holds in one plain reading, it
is supported.

For each statement quote the words of the speech that make it, exactly as they stand there, as few as hold
it. For supported and refuted quote also words of the line of the record that decides it, exactly as they
stand there, at least three words in a row out of one line; where what is claimed is missing in the
record, the line that comes nearest. For uncheckable leave the record empty. Then say in one sentence what
this shows. Then give the verdict that follows from it."""


_OTHER_GAME: Final = (
    "The examples are from another game: its seats are called by number, and its quest 2 failed with seats 3 "
    "and 5 on the team."
)


def statements_text() -> str:
    """The rubric of statements, with examples of each verdict and of sentences without a statement."""
    lines = []
    for example in STATING:
        if example.verdict:
            record = f' The record: "{example.record}"' if example.record else ""
            lines.append(f'- "{example.text}"{record} {example.why} So: {example.verdict}.')
        else:
            lines.append(f'- "{example.text}" {example.why} So: no statement.')
    title = "Examples from another game, seat 1 speaking in its round 3:"
    return "\n".join([_STATEMENTS, "", title, *lines])


def following_text() -> str:
    """The rubric of following, with its examples."""
    return "\n".join(
        [
            FOLLOWING,
            "",
            _OTHER_GAME,
            "",
            *_examples("Examples of thinking", THINKING),
            "",
            *_examples("Examples of speaking", SPEAKING),
        ]
    )


def selection_text() -> str:
    """The rubric of selection, with its examples."""
    verdicts = ("unreasonable", "reasonable")
    lines = [
        f"- {example.intention}. {example.text} {example.why} So: {verdicts[example.score]}."
        for example in SELECTION
    ]
    return "\n".join([_SELECTING, "", _OTHER_GAME, "", *lines])


def _examples(title: str, examples: tuple[Example, ...]) -> list[str]:
    lines = [f'- "{example.text}" {example.why} So: {example.score}.' for example in examples]
    return [f"{title}, the intention being {examples[0].intention}:", *lines]
