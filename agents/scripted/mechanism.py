"""One speaking turn of a scripted seat, in the steps of the intention mechanism.

The steps are beliefs about the others, a first selection, a formulation, the readings that others may have of
it, the final selection, and the refinement. Each step is recorded (InterIntent, EMNLP 2024, section 2).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from agents.scripted.notebook import Notebook, NotedSpeech, moves_in
from agents.scripted.phrases import ACTS, WORDING
from agents.scripted.speech import ACCUSING, Point, Scene, listed
from agents.scripted.tactics import Dice
from engine.events import BeliefsFormed, IntentionsSelected, ReadingsImagined, SpeechDrafted, Thought
from engine.intentions import BY_ID, CATALOGUE, IntentionId
from engine.state import Table
from engine.terms import EVIL_ROLES, Role, Seat, Side
from engine.thoughts import Belief, Choice, Reading

__all__ = ["ScriptedTurn", "beliefs", "speak"]

FEWEST: Final = 2
MOST: Final = 3
"""The most intentions of a turn: the paper asks for two or three."""

MOST_WORDS: Final = 100
"""The approximate limit of words per speech, as in the paper."""

_INTENTIONS_OF: Final[Mapping[str, tuple[IntentionId, ...]]] = {
    **{act: tuple(entry.id for entry in CATALOGUE if WORDING[entry.id].act == act) for act in ACTS},
    "pick_self": ("convince_leader",),
}

# The usual intentions of each side. They complete a belief about a seat that has not spoken, or whose speech
# shows too few.
_USUAL: Final[Mapping[Side, tuple[IntentionId, ...]]] = {
    Side.EVIL: ("express_loyalty", "cast_suspicion"),
    Side.LOYAL: ("support_proposal", "convince_leader"),
}


class ScriptedTurn(NamedTuple):
    """A speech with the thoughts before it."""

    text: str
    thoughts: tuple[Thought, ...]


def speak(scene: Scene, menu: Sequence[IntentionId], facts: frozenset[str], opening: str) -> ScriptedTurn:
    """Runs the whole mechanism. ``opening`` is the first sentence of a leader; empty for other seats."""
    book = scene.book
    me = scene.me
    thoughts: list[Thought] = []
    formed = beliefs(book, scene.table)
    if formed:
        thoughts.append(BeliefsFormed(me, formed))
    points = _at_least_two(scene, menu, scene.points(menu, facts))
    first = _select(points, scene.dice)
    thoughts.append(IntentionsSelected(me, "first", _choices(first), False, _lean(scene)))
    lines = {point.id: scene.line(point) for point in first}
    draft = _joined(opening, [lines[point.id] for point in first], "")
    thoughts.append(SpeechDrafted(me, "formulation", _think(scene, first), draft))
    giveaway = _giveaway(scene, first)
    thoughts.append(ReadingsImagined(me, _readings(scene, first, giveaway), giveaway is not None))
    final, cause = _modify(scene, points, first, giveaway, too_long=len(draft.split()) > MOST_WORDS)
    changed = final != first
    thoughts.append(IntentionsSelected(me, "final", _choices(final), changed, cause or _KEPT))
    for point in final:
        if point.id not in lines:
            lines[point.id] = scene.line(point)
    text = _joined(opening, [lines[point.id] for point in final], "")
    closing = _closing(scene, final)
    if len(text.split()) + len(closing.split()) <= MOST_WORDS:
        text = _joined(text, (), closing)
    thoughts.append(SpeechDrafted(me, "refinement", _think(scene, final, cause), text))
    return ScriptedTurn(text, tuple(thoughts))


_KEPT: Final = "I keep them: they still serve my side best."


def _joined(opening: str, lines: Sequence[str], closing: str) -> str:
    return " ".join(part for part in (opening, *lines, closing) if part)


# --- first order: beliefs about the others --------------------------------------------------------


def beliefs(book: Notebook, table: Table) -> tuple[Belief, ...]:
    """The seat's beliefs about each other seat, in seat order.

    In the first discussion of the game, there are only beliefs about seats that have spoken, so the first
    speaker has none.
    """
    latest: dict[Seat, NotedSpeech] = {speech.seat: speech for speech in book.speeches}
    everybody = table.round > 1 or table.attempt > 1
    roles = book.roles()
    formed = []
    for seat in range(1, book.players + 1):
        if seat != book.seat and (everybody or seat in latest):
            formed.append(_belief(book, table, seat, roles[seat - 1], latest.get(seat)))
    return tuple(formed)


def _belief(
    book: Notebook, table: Table, seat: Seat, roles: Mapping[Role, float], speech: NotedSpeech | None
) -> Belief:
    evil = book.evil()[seat - 1]
    likely = max(roles, key=roles.__getitem__)
    moves = moves_in(speech.text, book.names) if speech is not None else ()
    intentions: list[IntentionId] = []
    for move in moves:
        id_ = _behind(move.act, roles)
        if id_ not in intentions:
            intentions.append(id_)
    for id_ in _USUAL[Side.EVIL if evil > 0.5 else Side.LOYAL]:
        if len(intentions) < FEWEST and id_ not in intentions:
            intentions.append(id_)
    merlin = book.role is Role.MERLIN
    chance = max(evil, 1.0 - evil) if merlin else roles[likely]
    return Belief(
        about=seat,
        role=None if merlin else likely,
        intentions=tuple(intentions[:MOST]),
        # Rounded to the nearest of the six steps; unlike with round(), halves go up.
        confidence=min(5, int(chance * 5 + 0.5)),
        snippets=tuple(move.sentence for move in moves[:MOST]),
        reasoning=_reasoning(book, table, seat, evil),
    )


def _behind(act: str, roles: Mapping[Role, float]) -> IntentionId:
    """The intention, among those that the act may serve, that the speaker's role most likely allows."""
    options = _INTENTIONS_OF[act]
    if len(options) == 1:
        return options[0]
    chances = [sum([chance for role, chance in roles.items() if role in BY_ID[id_].roles]) for id_ in options]
    return options[chances.index(max(chances))]


def _reasoning(book: Notebook, table: Table, seat: Seat, evil: float) -> str:
    name = book.names[seat - 1]
    on = [quest for quest in table.quests if seat in quest.team]
    record = ", ".join(f"quest {q.round} {'succeeded' if q.succeeded else 'failed'}" for q in on)
    results = f"With {name} on it {record}." if record else f"{name} has been on no quest yet."
    return f"{results} I hold {name} evil at {int(evil * 100 + 0.5)} %."


# --- selection -------------------------------------------------------------------------------------


def _select(points: Sequence[Point], dice: Dice) -> tuple[Point, ...]:
    """Two or three points, drawn by weight, that do not clash. If no two points go together, these are the
    first two, or fewer if there are fewer.
    """
    wanted = MOST if dice.share() < 0.4 else FEWEST
    chosen: list[Point] = []
    left = list(points)
    while left and len(chosen) < wanted:
        at = dice.share() * sum([point.weight for point in left])
        for point in left:
            at -= point.weight
            if at < 0:
                break
        chosen.append(point)
        left = [other for other in left if other is not point and not other.clashes(point)]
    if len(chosen) < FEWEST:
        # If the draw leaves only one point, the heaviest pair that does not clash is chosen.
        pairs = [(a, b) for i, a in enumerate(points) for b in points[i + 1 :] if not a.clashes(b)]
        return (
            max(pairs, key=lambda pair: pair[0].weight + pair[1].weight) if pairs else tuple(points[:FEWEST])
        )
    return tuple(chosen)


def _at_least_two(scene: Scene, menu: Sequence[IntentionId], points: list[Point]) -> list[Point]:
    """The points, with more added if no two of them go together."""
    if any(not a.clashes(b) for i, a in enumerate(points) for b in points[i + 1 :]):
        return points
    for id_ in ("convince_leader", "defend_self", "stay_hidden"):
        if id_ in menu and all(point.id != id_ for point in points):
            points.append(scene.point(id_, 0.5, None, {}))
    return points


def _choices(points: Sequence[Point]) -> tuple[Choice, ...]:
    return tuple(Choice(point.id, _filled(WORDING[point.id].reason, point)) for point in points)


def _filled(text: str, point: Point) -> str:
    filled = text.format_map(point.slots)
    return f"{filled[0].upper()}{filled[1:]}."


def _think(scene: Scene, points: Sequence[Point], cause: str = "") -> str:
    """The private plan: one goal per intention, and the seat's opinion of the team."""
    goals = "; ".join(
        f"({number}) {WORDING[point.id].goal.format_map(point.slots)}"
        for number, point in enumerate(points, 1)
    )
    return " ".join(part for part in (f"My goals: {goals}.", _lean(scene), cause) if part)


def _lean(scene: Scene) -> str:
    """The seat's opinion of the team before it speaks."""
    if not scene.team:
        return "No team stands yet."
    return f"I am {'for' if scene.approves else 'against'} the team of {scene.common['team']}."


def _closing(scene: Scene, points: Sequence[Point]) -> str:
    """In half of the cases, a sentence on the coming vote. Always empty for the leader, without a team, or if
    a point already announces the vote.
    """
    if scene.leads or not scene.team or any(point.act in _ON_THE_VOTE for point in points):
        return ""
    if scene.dice.share() < 0.5:
        return ""
    word = "for" if scene.approves else "against"
    return f"As it stands I would vote {word} the team of {scene.common['team']}."


_ON_THE_VOTE: Final = frozenset({"back_team", "disagree_off", "counter_evil", "counter_off"})


# --- second order, and modification -----------------------------------------------------------------


class _Giveaway(NamedTuple):
    point: Point
    text: str


def _giveaway(scene: Scene, points: Sequence[Point]) -> _Giveaway | None:
    """The first point that would reveal what this seat must hide; None if there is none."""
    role = scene.book.role
    for point in points:
        x = "" if point.target is None else scene.names[point.target - 1]
        if role is Role.MERLIN and point.act in ACCUSING and point.target is not None:
            if not scene.blame(point.target)[1] or scene.looks[point.target - 1] < 0.4:
                return _Giveaway(point, f"nothing on the record points at {x}, so only Merlin would say it")
        elif role in EVIL_ROLES and point.tone == "for" and point.target in scene.book.mates:
            if scene.looks[point.target - 1] > 0.55:
                return _Giveaway(point, f"{x} looks evil by now, and whoever speaks for {x} looks the same")
        elif point.id == "reveal_percival":
            return _Giveaway(point, "evil would know Percival, and watch whom Percival follows")
    return None


@lru_cache(maxsize=64)
def _readers(deck: tuple[Role, ...], own: Role) -> tuple[Role, ...]:
    return tuple(role for role in dict.fromkeys(deck) if role is not own or deck.count(role) > 1)


def _readings(scene: Scene, points: Sequence[Point], giveaway: _Giveaway | None) -> tuple[Reading, ...]:
    me = scene.names[scene.me - 1]
    accused = tuple(p.target for p in points if p.tone == "against" and p.target is not None)
    stops = (
        f"Would notice that {me} wants to stop {listed(scene.names, accused)}, and" if accused else "Would"
    )
    readings = []
    for reader in _readers(scene.book.profile.roles, scene.book.role):
        if giveaway is not None and (scene.book.side is Side.EVIL) != (reader in EVIL_ROLES):
            text = f"{stops} see what gives me away: {giveaway.text}."
        elif reader is Role.MERLIN:
            side = "evil whatever it says" if scene.book.side is Side.EVIL else "loyal, with its own ideas"
            text = f"Would take {me} for {side}."
        elif reader is Role.PERCIVAL:
            text = f"{stops} weigh whether {me} speaks like Merlin or like somebody who plays Merlin."
        elif reader in EVIL_ROLES:
            text = f"{stops} ask how much {me} knows, and find nothing out of the ordinary."
        else:
            text = f"{stops} believe that {me} cares about {scene.common['quest']}."
        readings.append(Reading(reader.value, text))
    return tuple(readings)


def _modify(
    scene: Scene,
    points: Sequence[Point],
    first: tuple[Point, ...],
    giveaway: _Giveaway | None,
    *,
    too_long: bool,
) -> tuple[tuple[Point, ...], str]:
    """The final selection, and why it differs from the first; the reason is empty if it does not."""
    if giveaway is not None and scene.dice.share() < 0.75:
        kept = [point for point in first if point is not giveaway.point]
        fitting = [
            p
            for p in points
            if all(p is not chosen for chosen in first) and not any(p.clashes(other) for other in kept)
        ]
        spare = [point for point in fitting if _giveaway(scene, (point,)) is None]
        if len(kept) < FEWEST and spare:
            kept.append(max(spare, key=lambda point: point.weight))
        if len(kept) >= FEWEST:
            return tuple(kept), f"I drop {BY_ID[giveaway.point.id].label!r}: {giveaway.text}."
    if len(first) == MOST and (too_long or scene.dice.share() < 0.15):
        weakest = min(first, key=lambda point: point.weight)
        kept = [point for point in first if point is not weakest]
        return tuple(kept), f"I drop {BY_ID[weakest.id].label!r}: three aims in one speech blur each other."
    return first, ""
