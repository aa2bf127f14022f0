"""The agent kinds that need no model: ``random`` and ``scripted``."""

from typing import Final

from agents.agent import Setup
from agents.scripted.accounts import (
    reason_for_shot,
    reason_for_team,
    reason_for_vote,
    reconsideration,
    summary,
)
from agents.scripted.mechanism import speak
from agents.scripted.notebook import Notebook
from agents.scripted.speech import Scene, listed
from agents.scripted.tactics import (
    Dice,
    choose_card,
    choose_target,
    choose_team,
    reconsidered_team,
    would_approve,
)
from engine.actions import (
    APPROVE,
    FAIL,
    NOTHING,
    REJECT,
    SILENCE,
    SUCCESS,
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    SeatAction,
    Speak,
    Summarise,
)
from engine.chance import draw, pick
from engine.events import ChoiceExplained
from engine.rules import legal, offered
from engine.state import Table
from engine.terms import Kind, Seat, Side
from engine.view import Observation

__all__ = ["RandomAgent", "ScriptedAgent"]


class RandomAgent:
    """Plays legal actions, all equally likely, and says nothing."""

    __slots__ = ("_bits", "_round", "_seed")

    def __init__(self, setup: Setup) -> None:
        self._seed = setup.seed
        self._round = self._bits = 0

    def act(self, observation: Observation) -> SeatAction:
        request = observation.request
        kind = request.kind
        if kind is Kind.SPEAK:
            return SILENCE
        if kind is Kind.VOTE:
            return _VOTES[self._coins(request.round) >> request.attempt & 1]
        if kind is Kind.SUMMARISE:
            return NOTHING
        if kind is Kind.CARD:
            if observation.hand.side is Side.LOYAL:
                return SUCCESS
            return _CARDS[self._coins(request.round) & 1]
        table = observation.table
        if kind in (Kind.PROPOSE_TEAM, Kind.RECONSIDER):
            team = pick(table.profile.teams[request.round - 1], self._seed, request.id)
            return ProposeTeam(team) if kind is Kind.PROPOSE_TEAM else Reconsider(team)
        options = legal(table, observation.hand)
        assert options, f"{request.id} is open"
        return pick(options, self._seed, request.id)

    def _coins(self, round_: int) -> int:
        """Random bits: bit n decides the vote in attempt n of this round, bit 0 the card. One draw serves all
        of them, to save time: two thirds of a game without talk are votes.
        """
        if self._round != round_:
            self._round = round_
            self._bits = draw(self._seed, f"coins/{round_}")
        return self._bits


_VOTES: Final = (REJECT, APPROVE)
_CARDS: Final = (FAIL, SUCCESS)


class ScriptedAgent:
    """Plays and speaks according to its belief about the deal, and records every step of its thinking.

    Its answers depend only on its seed and the observation; the notebook only saves the agent from reading
    the record again.
    """

    def __init__(self, setup: Setup) -> None:
        self._seed = setup.seed
        self._book: Notebook | None = None

    def act(self, observation: Observation) -> SeatAction:
        book = self._book
        if book is None or not book.continues(observation):
            book = self._book = Notebook(observation)
        book.read(observation)
        kind = observation.request.kind
        if kind is Kind.VOTE:
            return self._vote(book, observation.table)
        if kind is Kind.CARD:
            return self._card(book, observation.table)
        if kind is Kind.SPEAK:
            return self._speech(book, observation)
        if kind is Kind.SUMMARISE:
            return Summarise(summary(book, observation.table))
        if kind is Kind.PROPOSE_TEAM:
            return self._proposal(book, observation)
        if kind is Kind.RECONSIDER:
            return self._reconsidered(book, observation.table)
        return self._shot(book, observation.table)

    def _dice(self, table: Table, purpose: str) -> Dice:
        return Dice(self._seed, table.round, table.attempt, purpose)

    def _team(self, book: Notebook, table: Table) -> tuple[Seat, ...]:
        return choose_team(book, table, self._dice(table, "team"))

    def _proposal(self, book: Notebook, observation: Observation) -> ProposeTeam:
        table = observation.table
        team = self._team(book, table)
        menu = offered(table, observation.hand, Kind.PROPOSE_TEAM)
        why = ChoiceExplained(book.seat, Kind.PROPOSE_TEAM, reason_for_team(book, table, team))
        opening = f"For quest {table.round} I propose {listed(book.names, team)}."
        if menu is None:
            return ProposeTeam(team, "" if table.profile.discussion == "none" else opening, (why,))
        scene = Scene(book, table, team, True, self._dice(table, "speech"))
        turn = speak(scene, menu, table.facts(book.seat), opening)
        return ProposeTeam(team, turn.text, (*turn.thoughts, why))

    def _speech(self, book: Notebook, observation: Observation) -> Speak:
        table = observation.table
        leads = table.leader == book.seat
        # A leader that speaks before it proposes already knows its team.
        team = self._team(book, table) if leads and not table.team else table.team
        approves = leads or (bool(team) and would_approve(book, table, team, self._seed)[0])
        menu = offered(table, observation.hand, Kind.SPEAK)
        assert menu, "a turn of the discussion has a menu"
        scene = Scene(book, table, team, approves, self._dice(table, "speech"))
        turn = speak(scene, menu, table.facts(book.seat), "")
        return Speak(turn.text, turn.thoughts)

    def _reconsidered(self, book: Notebook, table: Table) -> Reconsider:
        team = reconsidered_team(book, table)
        scene = Scene(book, table, table.team, True, self._dice(table, "reconsider"))
        kept = "I keep the team" if team == table.team else "The talk makes me change the team"
        why = f"{kept}. {reason_for_team(book, table, team)}"
        thoughts = (ChoiceExplained(book.seat, Kind.RECONSIDER, why),)
        text = "" if table.profile.discussion == "none" else reconsideration(scene, team)
        return Reconsider(team, text, thoughts)

    def _vote(self, book: Notebook, table: Table) -> CastVote:
        approves, safe = would_approve(book, table, table.team, self._seed)
        why = reason_for_vote(book, table, approves, safe)
        return CastVote(approves, (ChoiceExplained(book.seat, Kind.VOTE, why),))

    def _card(self, book: Notebook, table: Table) -> PlayCard:
        success, why = choose_card(book, table, self._seed)
        return PlayCard(success, (ChoiceExplained(book.seat, Kind.CARD, why),))

    def _shot(self, book: Notebook, table: Table) -> Assassinate:
        target, chances = choose_target(book, table, self._dice(table, "shot"))
        why = reason_for_shot(book, target, chances)
        return Assassinate(target, (ChoiceExplained(book.seat, Kind.ASSASSINATE, why),))
