"""The golden games, and the text that is kept of each.

Their choices are drawn by the engine's own functions, so the files are the same in every version of Python.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from engine.actions import CastVote, ProposeTeam, Reconsider, SeatAction, Speak, Summarise
from engine.chance import pick, unit
from engine.events import ActionRefused, BeliefsFormed, IntentionsSelected, Note, SpeechDrafted
from engine.playthrough import playthrough
from engine.profile import Profile, make_profile
from engine.rules import Request, create, decide, legal, offered, pending
from engine.state import State, apply, fold
from engine.terms import PUBLIC
from engine.thoughts import Belief, Choice
from tests.engine.games import canonical

__all__ = ["FOLDER", "GOLDEN", "written"]

FOLDER: Final = Path(__file__).parent / "engine"

SAID: Final = ("I trust this team.", "Seat 2 is too quiet.", "Who let that quest fail?", "", "Let us go on.")


@dataclass(frozen=True)
class Golden:
    """One game: its profile, its seed, and how often seats approve."""

    profile: Profile
    seed: int
    approval: float = 0.6
    think: bool = False

    def state(self) -> State:
        """The finished game."""
        game = fold(create(self.profile, self.seed))
        while requests := pending(game):
            apply(game, decide(game, [(request.seat, self._choose(game, request)) for request in requests]))
        return game

    def _choose(self, game: State, request: Request) -> SeatAction:
        hand, where = game.hand(request.seat), (self.seed, "golden", request.id)
        thoughts = self._think(game, request) if self.think else ()
        text = pick(SAID, *where, "text")
        if request.kind == "vote":
            return CastVote(unit(*where) < self.approval, thoughts)
        if request.kind == "speak":
            return Speak(text, thoughts)
        if request.kind == "summarise":
            return Summarise((("leader", f"seat {game.table.leader}"), ("result", text)), thoughts)
        choice = pick(legal(game.table, hand) or (), *where)
        if isinstance(choice, ProposeTeam):
            return ProposeTeam(choice.team, text, thoughts)
        if isinstance(choice, Reconsider):
            keep = unit(*where, "keep") < 0.5
            return Reconsider(game.table.team if keep else choice.team, text, thoughts)
        return choice

    def _think(self, game: State, request: Request) -> tuple[Note, ...]:
        hand, where = game.hand(request.seat), (self.seed, "golden", request.id, "thought")
        on_offer = offered(game.table, hand, request.kind)
        if on_offer is None:
            refused = (ActionRefused(hand.seat, request.id, "an example of a refusal"),)
            return refused if unit(*where) < 0.05 else ()
        others = [seat for seat in range(1, game.table.players + 1) if seat != hand.seat]
        about = pick(others, *where, "about")
        role = pick([role for role in self.profile.roles if role != hand.role], *where, "role")
        belief = Belief(about, role, (pick(on_offer, *where, "i"),), 3, ("a snippet",), "It fits.")
        chosen = tuple(Choice(one, "It helps.") for one in on_offer[:2])
        return (
            BeliefsFormed(hand.seat, (belief,)),
            IntentionsSelected(hand.seat, "first", chosen, False),
            SpeechDrafted(hand.seat, "formulation", "What do I want?", "A first try."),
            IntentionsSelected(hand.seat, "final", chosen[:1], True, "One aim is enough."),
            SpeechDrafted(hand.seat, "refinement", "Better so.", "A second try."),
        )


EVERYTHING_ELSE: Final = {
    "approval": "at_least_half",
    "max_rejections": 2,
    "on_max_rejections": "quest_fails",
    "discussion": "before_proposal",
    "reconsideration": True,
    "summaries": True,
    "assassination": "after_any_quest",
    "missed_shot": "play_on",
    "leader_step": -1,
}
DARK: Final = ("merlin", "percival", *["servant"] * 3, "assassin", "mordred", "oberon")
NO_MERLIN: Final = ("percival", "servant", "servant", "morgana", "minion")

GOLDEN: Final[Mapping[str, Golden]] = {
    "interintent-5": Golden(make_profile("interintent"), 4, think=True),
    "official-5": Golden(make_profile("official"), 3),
    "official-5-five-rejections": Golden(
        make_profile("official", rules={"discussion": "none"}), 5, approval=0.25
    ),
    "official-7-two-fails": Golden(make_profile("official", 7, rules={"discussion": "none"}), 5),
    "forced-team-6": Golden(
        make_profile(
            "official",
            6,
            rules={"on_max_rejections": "forced_team", "max_rejections": 2, "discussion": "none"},
        ),
        3,
        approval=0.4,
    ),
    "everything-else-8": Golden(
        make_profile("official", 8, roles=DARK, rules=EVERYTHING_ELSE, reveal="all"), 41, approval=0.5
    ),
    "interintent-10": Golden(make_profile("interintent", 10, reveal="none"), 12),
    "no-merlin-5": Golden(make_profile("official", roles=NO_MERLIN, rules={"discussion": "none"}), 4),
}
"""The games by the names of their files."""


def written(name: str) -> str:
    """The text that the golden file of this name must have."""
    return text_of(GOLDEN[name].state())


def text_of(game: State) -> str:
    """The full playthrough, the public one, and a digest of the log's exact bytes."""
    log = canonical(game.log)
    return (
        f"{playthrough(game.log).rstrip()}\n\n"
        f"--- as the public sees it ---\n\n{playthrough(game.public, PUBLIC).rstrip()}\n\n"
        f"--- the log: {len(game.log)} events, {len(log)} bytes, sha256 {sha256(log).hexdigest()} ---\n"
    )
