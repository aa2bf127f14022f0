"""The material of a scripted seat's speech: facts of the record as text, and the points it can make now."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from agents.scripted.notebook import Notebook, NotedSpeech, moves_in
from agents.scripted.phrases import ACTS, WORDING, Tone
from agents.scripted.tactics import Dice, objections
from engine.intentions import BY_ID, IntentionId
from engine.state import Table, Tally
from engine.terms import EVIL_ROLES, Role, Seat, Side

__all__ = ["ACCUSING", "Point", "Scene", "listed", "sentence", "when"]

ACCUSING: Final = frozenset({"worry", "hint", "worry_failed", "counter_evil"})
"""Acts that accuse a seat."""

_HIDING: Final = frozenset({"quiet", "no_team", "no_evil"})
_CLAIMS: Final = frozenset({"claim_percival", "claim_servant", "claim_loyal"})
_AGAINST_TEAM: Final = frozenset(
    {"counter_off", "counter_evil", "disagree_off", "worry_failed", "ask_absence"}
)


class Point(NamedTuple):
    """One intention made concrete: its target, and the text to fill in."""

    id: IntentionId
    weight: float
    target: Seat | None
    slots: "_Slots"
    act: str
    tone: Tone

    def clashes(self, other: "Point") -> bool:
        """Whether one speech cannot contain both points."""
        acts = {self.act, other.act}
        if len(acts) == 1:
            return True
        tones = {self.tone, other.tone}
        if self.target is not None and self.target == other.target and tones == {"for", "against"}:
            return True
        if "back_team" in acts and acts & _AGAINST_TEAM:
            return True
        if acts & _HIDING and (
            acts & (ACCUSING | {"claim_percival"})
            or len(acts & _HIDING) == 2
            or ("no_team" in acts and "recommend" in acts)
        ):
            return True
        if len(acts & _CLAIMS) == 2:
            return True
        return "hint" in acts and bool(acts & {"claim_percival", "claim_servant"})


class _Slots(dict[str, str]):
    """The texts for the names in braces in a point's lines; costly ones are made when first needed."""

    __slots__ = ("scene", "target")

    scene: "Scene"
    target: Seat | None

    def __missing__(self, name: str) -> str:
        words = self[name] = self.scene.words(name, self.target)
        return words


@lru_cache(maxsize=4096)
def listed(names: tuple[str, ...], seats: tuple[Seat, ...]) -> str:
    """The seats by name: ``Player 1, Player 2 and Player 5``. Raises IndexError when there are none."""
    named = [names[seat - 1] for seat in seats]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def sentence(text: str) -> str:
    """The text, with a capital letter if it begins with the word quest."""
    return f"Q{text[1:]}" if text.startswith("quest ") else text


def when(tally: Tally) -> str:
    """``quest 2``, or ``quest 2, attempt 3``."""
    return f"quest {tally.round}" if tally.attempt == 1 else f"quest {tally.round}, attempt {tally.attempt}"


class Scene:
    """A seat that is about to speak, with everything it can talk about.

    ``team`` is the current team, or the team that this leader is about to propose; empty if there is none.
    """

    def __init__(
        self, book: Notebook, table: Table, team: tuple[Seat, ...], approves: bool, dice: Dice
    ) -> None:
        self.book = book
        self.table = table
        self.team = team
        self.approves = approves
        self.dice = dice
        self.me = book.seat
        self.names = book.names
        self.leads = table.leader == book.seat
        self.others = [seat for seat in range(1, book.players + 1) if seat != book.seat]
        self._shift = dice.below(book.players)
        self.evil = book.evil()
        self.looks = book.looks()
        self.common: dict[str, str] = {
            "leader": self.names[table.leader - 1],
            "quest": f"quest {table.round}",
            "team": listed(self.names, team) if team else "",
            "y": self.names[self.others[dice.below(len(self.others))] - 1],
        }
        self._records: list[str] = []

    # --- facts in words -------------------------------------------------------------------------

    def blame(self, seat: Seat) -> tuple[str, bool]:
        """A statement against a seat, and whether it is a fact of the record rather than a feeling."""
        x = self.names[seat - 1]
        facts = []
        for quest in reversed(self.table.quests):
            went = self.book.went.get(quest.round)
            if quest.succeeded or not quest.team:
                continue
            if seat in quest.team:
                facts.append(f"{x} was on quest {quest.round}, which failed")
            if went is not None:
                if went.leader == seat:
                    facts.append(f"{x} led when the team that failed quest {quest.round} was chosen")
                elif went.votes and went.votes[seat - 1]:
                    facts.append(f"{x} voted for the team that failed quest {quest.round}")
        if facts:
            return facts[0] if len(facts) == 1 else facts[self.dice.below(min(len(facts), 3))], True
        for tally in reversed(self.table.tallies):
            if tally.votes and tally.votes[seat - 1] is False:
                team = listed(self.names, tally.team)
                return f"{x} voted against {team} on {when(tally)}", True
        feelings = (
            f"{x} does not convince me so far",
            f"I would not take that chance on {self.common['quest']}",
            f"I see more risk than use in {x} on {self.common['quest']}",
        )
        return feelings[self.dice.below(3)], False

    def credit(self, seat: Seat) -> str:
        """A statement in favour of a seat."""
        x = self.names[seat - 1]
        facts = []
        for quest in reversed(self.table.quests):
            went = self.book.went.get(quest.round)
            if quest.succeeded:
                if seat in quest.team:
                    facts.append(f"{x} was on quest {quest.round}, which succeeded")
            elif went is not None and went.votes and went.votes[seat - 1] is False:
                facts.append(f"{x} voted against the team that failed quest {quest.round}")
        if facts:
            return facts[self.dice.below(min(len(facts), 2))]
        if any(seat in quest.team and not quest.succeeded for quest in self.table.quests):
            return f"one failed quest does not make {x} evil"
        if self.table.quests:
            return f"no failed quest has {x} on it"
        return (
            f"nothing on the record speaks against {x}" if not self.table.tallies else f"I like what {x} does"
        )

    def excuse(self, seat: Seat) -> str:
        """An excuse for a seat that was on a failed quest; otherwise a statement in its favour."""
        for quest in reversed(self.table.quests):
            if seat in quest.team and not quest.succeeded:
                others = tuple(other for other in quest.team if other != seat)
                if others:
                    were = "was" if len(others) == 1 else "were"
                    return f"{listed(self.names, others)} {were} on quest {quest.round} too"
        return self.credit(seat)

    def good(self) -> str:
        """A statement in favour of the team: about its best-looking other member, or about this seat if it is
        the only member.
        """
        known = self.best([seat for seat in self.team if seat != self.me], self.looks)
        return self.record() if known is None else self.credit(known)

    def record(self) -> str:
        """A true statement in this seat's favour; a different one each time, until all have been used."""
        if not self._records:
            self._records = self._own_records()
        return self._records.pop()

    def _own_records(self) -> list[str]:
        """All statements in this seat's favour, the best one last."""
        facts = []
        for quest in self.table.quests:
            went = self.book.went.get(quest.round)
            voted = went.votes[self.me - 1] if went is not None and went.votes else None
            if self.me in quest.team:
                others = tuple(seat for seat in quest.team if seat != self.me)
                if quest.succeeded:
                    facts.append(f"I was on quest {quest.round}, which succeeded")
                elif others:
                    so = "was" if len(others) == 1 else "were"
                    also = f"so {so} {listed(self.names, others)}"
                    facts.append(f"I was on quest {quest.round}, which failed, but {also}")
            elif not quest.succeeded:
                facts.append(f"quest {quest.round} failed without me")
                if voted is False:
                    facts.append(f"I voted against the team that failed quest {quest.round}")
        if self.table.tallies:
            tally = self.table.tallies[-1]
            vote = tally.votes[self.me - 1] if tally.votes else None
            if vote is not None:
                word = "for" if vote else "against"
                voted_on = f"{listed(self.names, tally.team)} on {when(tally)}"
                facts.insert(0, f"I voted {word} {voted_on} and stand by it")
        if not facts:
            facts = [
                "nothing on the record speaks against me",
                "I have no failed quest behind me",
                "I start clean",
            ]
            turns = self.dice.below(3)
            return facts[turns:] + facts[:turns]
        if len(facts) > 1 and self.dice.below(2):
            facts[-1], facts[-2] = facts[-2], facts[-1]
        return facts

    # --- targets ---------------------------------------------------------------------------------

    def _order(self, seat: Seat) -> int:
        return (seat + self._shift) % self.book.players

    def worst(self, pool: Iterable[Seat], scores: Sequence[float]) -> Seat | None:
        """The seat of the pool with the highest score; None for an empty pool."""
        ranked = [(round(scores[seat - 1], 6), self._order(seat), seat) for seat in pool]
        return max(ranked)[2] if ranked else None

    def best(self, pool: Iterable[Seat], scores: Sequence[float]) -> Seat | None:
        """The seat of the pool with the lowest score; None for an empty pool."""
        ranked = [(round(scores[seat - 1], 6), self._order(seat), seat) for seat in pool]
        return min(ranked)[2] if ranked else None

    def suspect(self, pool: Iterable[Seat]) -> Seat | None:
        """The seat of the pool to accuse: the one most likely evil; for Merlin, only one certain to be evil;
        for an evil speaker, the one that looks most evil and is not a known partner. None if there is none.
        """
        role = self.book.role
        if self.book.side is Side.EVIL:
            return self.worst([seat for seat in pool if seat not in self.book.mates], self.looks)
        if role is Role.MERLIN:
            return self.worst([seat for seat in pool if self.evil[seat - 1] > 0.99], self.looks)
        return self.worst(pool, self.evil)

    def friend(self, pool: Iterable[Seat]) -> Seat | None:
        """The seat of the pool to support: the one most likely loyal, if it is more likely loyal than evil;
        for an evil speaker, the known partner that looks most loyal. None if there is none.
        """
        if self.book.side is Side.EVIL:
            return self.best([seat for seat in pool if seat in self.book.mates], self.looks)
        return self.best([seat for seat in pool if self.evil[seat - 1] < 0.5], self.evil)

    # --- points ---------------------------------------------------------------------------------

    def points(self, menu: Sequence[IntentionId], facts: Iterable[str]) -> list[Point]:
        """The points for all intentions of the menu that fit this scene, in the order of the menu."""
        known = frozenset(facts)
        points = []
        for id_ in menu:
            parts = _POINTS[id_](self) if known.issuperset(BY_ID[id_].requires) else None
            if parts is not None:
                points.append(self.point(id_, *parts))
        return points

    def point(
        self, id_: IntentionId, weight: float, target: Seat | None, own_words: Mapping[str, str]
    ) -> Point:
        """The point for an intention; ``own_words`` are the texts that only this point fills in, by name."""
        wording = WORDING[id_]
        act = "pick_self" if id_ == "convince_leader" and self.leads else wording.act
        slots = _Slots(own_words)
        slots.scene, slots.target = self, target
        return Point(id_, weight, target, slots, act, wording.tone)

    def words(self, name: str, target: Seat | None) -> str:
        """The text for the name in braces in a line about ``target``."""
        if name == "record":
            return self.record()
        if name == "good":
            return self.good()
        if target is None:
            return self.common[name]
        if name == "x":
            return self.names[target - 1]
        if name == "blame":
            return self.blame(target)[0]
        if name == "credit":
            return self.credit(target)
        if name == "excuse":
            return self.excuse(target)
        return self.common[name]

    def line(self, point: Point) -> str:
        """A sentence that makes the point."""
        lines = ACTS[point.act].lines
        return sentence(lines[self.dice.below(len(lines))].format_map(point.slots))


_Parts = tuple[float, Seat | None, dict[str, str]] | None


def _ask_vote(scene: Scene) -> _Parts:
    for tally in reversed(scene.table.tallies):
        no = [seat for seat, vote in enumerate(tally.votes, 1) if vote is False and seat != scene.me]
        no = [seat for seat in no if seat not in scene.book.mates]
        target = scene.worst(no, scene.looks)
        if target is not None:
            slots = {"then": listed(scene.names, tally.team), "when": when(tally)}
            return 0.9, target, slots
        if tally.votes:
            return None  # the intention is about the last team
    return None


def _ask_change(scene: Scene) -> _Parts:
    """The latest change of mind on the record: a seat supported a team and then rejected it, or spoke against
    a seat and later for a team with it.
    """
    table = scene.table
    tallies = {(tally.round, tally.attempt): tally for tally in table.tallies}
    accused: dict[Seat, dict[Seat, NotedSpeech]] = {}
    latest: tuple[Seat, str] | None = None
    for speech in scene.book.speeches:
        if speech.seat == scene.me or speech.seat in scene.book.mates:
            continue
        tally = tallies.get((speech.round, speech.attempt))
        team = tally.proposed if tally is not None else table.proposed
        for move in moves_in(speech.text, scene.names):
            if move.act in ACCUSING and move.seats:
                accused.setdefault(speech.seat, {})[move.seats[0]] = speech
            elif move.act == "back_team":
                change = _turned(scene, speech, team, accused.get(speech.seat, {}), tally)
                if change:
                    latest = speech.seat, change
    if latest is None:
        return None
    target, change = latest
    return 0.7, target, {"change": change}


def _turned(
    scene: Scene,
    speech: NotedSpeech,
    team: tuple[Seat, ...],
    accused: Mapping[Seat, NotedSpeech],
    tally: Tally | None,
) -> str:
    """The contradiction between this support for a team and the seat's earlier words or its vote, as a
    clause; empty if there is none.
    """
    if (
        tally is not None
        and tally.votes
        and tally.votes[speech.seat - 1] is False
        and tally.proposed == tally.team
    ):
        return f"you spoke for {listed(scene.names, team)} on {when(tally)} and then voted against it"
    for seat in team:
        before = accused.get(seat)
        if before is not None and (before.round, before.attempt) < (speech.round, speech.attempt):
            x = scene.names[seat - 1]
            then, now = f"quest {before.round}", f"quest {speech.round}"
            return f"on {then} you spoke against {x}, and on {now} for a team with {x}"
    return ""


def _ask_pick(scene: Scene) -> _Parts:
    if scene.leads:
        return None
    table = scene.table
    if scene.team:
        leader, team, quest = table.leader, scene.team, f"quest {table.round}"
    elif table.tallies and table.tallies[-1].leader != scene.me:
        leader, team, quest = table.tallies[-1].leader, table.tallies[-1].proposed, when(table.tallies[-1])
    else:
        return None
    target = scene.suspect([seat for seat in team if seat not in (scene.me, leader)])
    if target is None:
        return None
    slots = {"leader": scene.names[leader - 1], "when": quest}
    return 0.4 if scene.approves else 1.2, target, slots


def _ask_absence(scene: Scene) -> _Parts:
    if not scene.team or scene.leads or scene.table.leader in scene.team:
        return None
    return 2.0, scene.table.leader, {}


def _back_team(scene: Scene) -> _Parts:
    return (2.0, None, {}) if scene.team and scene.approves else None


def _defend_team(scene: Scene) -> _Parts:
    if not scene.team or any(scene.evil[seat - 1] > 0.5 for seat in scene.team):
        return None
    return (1.2, None, {}) if scene.approves else None


def _defend_self(scene: Scene) -> _Parts:
    accused = objections(scene.book, scene.table)[scene.me - 1] > 0
    on_failed = any(scene.me in quest.team and not quest.succeeded for quest in scene.table.quests)
    return 3.0 if accused else 1.2 if on_failed else 0.4, None, {}


def _defend_teammate(scene: Scene) -> _Parts:
    accused = objections(scene.book, scene.table)
    mate = scene.worst([seat for seat in scene.book.mates if accused[seat - 1] > 0], accused)
    if mate is None:
        mates = [
            s for s in scene.book.mates if any(s in q.team and not q.succeeded for q in scene.table.quests)
        ]
        mate = scene.worst(mates, scene.looks)
    return None if mate is None else (0.8, mate, {})


def _failed_team_loyals(scene: Scene) -> _Parts:
    if not scene.table.quests or scene.table.quests[-1].succeeded:
        return None
    last = scene.table.quests[-1]
    loyal = [seat for seat in last.team if seat != scene.me and scene.evil[seat - 1] < 0.5]
    seat = scene.worst(loyal, scene.looks)
    return None if seat is None else (0.9, seat, {})


def _accuse(scene: Scene, weight: float, pool: Iterable[Seat]) -> _Parts:
    target = scene.suspect(pool)
    return None if target is None else (weight, target, {})


def _worry(scene: Scene) -> _Parts:
    return _accuse(scene, 1.2, scene.others)


def _hint(scene: Scene) -> _Parts:
    role = scene.book.role
    if role in EVIL_ROLES or role is Role.MERLIN:
        return _accuse(scene, 1.0, scene.others)
    # A seat that only plays Merlin follows its own belief, not chance.
    likely = [seat for seat in scene.others if scene.evil[seat - 1] >= 0.6]
    return _accuse(scene, 0.5, likely)


def _counter_evil(scene: Scene) -> _Parts:
    if scene.approves or not scene.team:
        return None
    members = [seat for seat in scene.team if seat != scene.me]
    if scene.book.side is Side.LOYAL:
        members = [seat for seat in members if scene.evil[seat - 1] >= 0.4]
    return _accuse(scene, 1.8, members)


def _worry_failed(scene: Scene) -> _Parts:
    if scene.team and scene.approves:
        return None
    for quest in reversed(scene.table.quests):
        if not quest.succeeded and quest.team:
            members = [seat for seat in quest.team if seat != scene.me]
            on_team = [seat for seat in members if seat in scene.team] if scene.team else members
            target = scene.suspect(on_team)
            if target is not None and (scene.book.side is Side.EVIL or scene.evil[target - 1] >= 0.4):
                return 2.0, target, {"failed": f"quest {quest.round}"}
    return None


def _off_team(scene: Scene) -> _Parts:
    return None if not scene.team or scene.me in scene.team or scene.approves else (1.2, None, {})


def _quiet(scene: Scene) -> _Parts:
    return 1.0, None, {}


def _confusion(scene: Scene) -> _Parts:
    for quest in reversed(scene.table.quests):
        if not quest.succeeded and quest.team:
            return 0.9, None, {"failed": f"quest {quest.round}", "then": listed(scene.names, quest.team)}
    return None


def _ask_in(scene: Scene) -> _Parts:
    if scene.leads and scene.me not in scene.team and scene.team:
        return None
    on_team = scene.me in scene.team
    weight = 0.8 if scene.leads else 0.1 if on_team else 1.2
    # Asking for another place would contradict support for the current team.
    if not scene.leads and scene.team and (on_team or scene.approves):
        return None
    return weight, None, {}


def _vouch(scene: Scene) -> _Parts:
    friend = scene.friend(scene.others)
    return None if friend is None else (0.9, friend, {})


def _recommend(scene: Scene) -> _Parts:
    pool = [seat for seat in scene.team if seat != scene.me] if scene.team else scene.others
    friend = scene.friend(pool) or (scene.friend(scene.others) if not scene.leads else None)
    return None if friend is None else (1.0, friend, {})


_POINTS: Final[Mapping[IntentionId, Callable[[Scene], _Parts]]] = {
    "question_missing_vote": _ask_vote,
    "question_changed_statements": _ask_change,
    "question_leader_pick": _ask_pick,
    "question_leader_absence": _ask_absence,
    "defend_team": _defend_team,
    "defend_self": _defend_self,
    "defend_teammate": _defend_teammate,
    "share_concerns_evil": _worry,
    "concern_failed_quest_member": _worry_failed,
    "cast_suspicion": _worry,
    "counter_not_on_team": _off_team,
    "counter_evil_on_team": _counter_evil,
    "disagree_not_on_team": _off_team,
    "stay_hidden": _quiet,
    "express_no_information": _quiet,
    "pretend_no_information": _quiet,
    "pretend_percival": lambda scene: (0.15, None, {}),
    "pretend_merlin_hints": _hint,
    "act_like_merlin": _hint,
    "express_loyalty": lambda scene: (1.3, None, {}),
    "express_confusion_failure": _confusion,
    "convince_leader": _ask_in,
    "reveal_percival": lambda scene: (0.15, None, {}),
    "reveal_servant": lambda scene: (0.6, None, {}),
    "support_proposal": _back_team,
    "support_loyal_player": _vouch,
    "support_teammate_on_team": _recommend,
    "vouch_for_teammate": _vouch,
    "include_loyal_as_leader": _recommend,
    "hint_about_evil": _hint,
    "support_failed_team_loyals": _failed_team_loyals,
}
"""For each intention, the function that returns its weight, target and own texts in a scene, or None if
nothing concrete and true can be said.
"""
