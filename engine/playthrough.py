"""Writes a log as text that reads like a game, for golden files, ``interintent replay show`` and the debug
view.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from engine.errors import CorruptLog
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    AgentsSeated,
    AssassinationDeclined,
    AssassinationMade,
    AssassinationOpened,
    BeliefsFormed,
    CardPlayed,
    ChoiceExplained,
    Event,
    EvilConferred,
    GameCancelled,
    GameCreated,
    GameEnded,
    IntentionsSelected,
    ProposalOpened,
    QuestResolved,
    ReadingsImagined,
    ReplyUnusable,
    RoleLearned,
    RolesDealt,
    RoundSummarised,
    SelectionPrepared,
    SpeechDrafted,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
    visible,
)
from engine.profile import Profile
from engine.seated import SeatedAgent
from engine.terms import FULL, Seat, Viewer
from engine.thoughts import Belief

__all__ = ["playthrough"]


def playthrough(
    log: Iterable[Event], viewer: Viewer = FULL, *, thoughts: bool = True, first_seat: int = 1
) -> str:
    """The game as this viewer sees it, one line per event; equal logs give equal texts.

    ``log`` may be any viewer's stream: events that it lacks are not shown. ``thoughts``: whether beliefs,
    intentions, drafts, readings and summaries are shown. ``first_seat`` is the number shown for the first
    seat: 0 keeps a foreign record's numbering. What seats say is quoted on one line, so that no speech can
    pass for a line of the game. Raises CorruptLog for a log that does not start with its ``game_created``, or
    that holds a second one.
    """
    events = iter(log)
    first = next(events, None)
    if type(first) is not GameCreated:
        raise CorruptLog(f"a log starts with game_created, got {type(first).__name__}")
    reader = _LogWriter(first, first_seat)
    lines = [*reader.opening()]
    for event in events:
        if type(event) is GameCreated:
            raise CorruptLog("a log holds one game_created, got a second")
        if visible(event, viewer) and (thoughts or type(event) not in _THOUGHTS):
            lines += _LINES[type(event)](reader, event)
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _LogWriter:
    """Writes the lines of one game, with its profile, its names and its numbering of the seats."""

    __slots__ = ("_first", "_names", "_profile")

    def __init__(self, created: GameCreated, first_seat: int) -> None:
        self._profile: Profile = created.profile
        self._names = created.names
        self._first = first_seat

    def seat(self, seat: Seat) -> str:
        """``3 Charlie``, or ``3`` when the name is only the number."""
        number = seat - 1 + self._first
        name = self._names[seat - 1]
        return str(number) if name == f"Player {seat}" else f"{number} {_plain(name)}"

    def seats(self, seats: Iterable[Seat]) -> str:
        return ", ".join(str(seat - 1 + self._first) for seat in seats) or "nobody"

    def opening(self) -> Iterator[str]:
        p = self._profile
        yield f"{p.name}: {p.players} players, {', '.join(p.roles)}"
        yield f"seats: {', '.join(map(self.seat, range(1, p.players + 1)))}"
        sizes, needed = (", ".join(map(str, each)) for each in (p.team_sizes, p.fails_needed))
        yield f"teams of {sizes}; fails needed {needed}"
        yield (
            f"{p.approval}, at most {p.max_rejections} proposals ({p.on_max_rejections}), "
            f"discussion {p.discussion}, assassination {p.assassination}"
        )
        leads = "next" if p.leader_step == 1 else "previous"
        yield (
            f"the lead goes to the {leads} seat; reconsideration {_yes(p.reconsideration)}, "
            f"summaries {_yes(p.summaries)}"
        )

    # --- public ---------------------------------------------------------------------------------

    def proposal_opened(self, e: ProposalOpened) -> Iterator[str]:
        if e.attempt == 1:
            yield ""
            size = self._profile.team_sizes[e.round - 1]
            needed = self._profile.fails_needed[e.round - 1]
            yield f"QUEST {e.round}: {size} seats go, {_fails(needed)} needed to fail it"
        yield f"{e.round}.{e.attempt} seat {self.seat(e.leader)} leads"

    def team_proposed(self, e: TeamProposed) -> Iterator[str]:
        yield f"  {self.seat(e.leader)} proposes {self.seats(e.team)}"

    def utterance_made(self, e: UtteranceMade) -> Iterator[str]:
        about = " (on the team)" if e.phase == "reconsider" else ""
        yield f"  {self.seat(e.seat)}{about}: {_quoted(e.text) if e.text else 'says nothing'}"

    def team_confirmed(self, e: TeamConfirmed) -> Iterator[str]:
        how = "changes the team to" if e.changed else "keeps"
        yield f"  {self.seat(e.leader)} {how} {self.seats(e.team)}"

    def votes_revealed(self, e: VotesRevealed) -> Iterator[str]:
        by = {vote: [seat for seat, v in enumerate(e.votes, 1) if v is vote] for vote in (True, False, None)}
        result = "approved" if e.approved else "rejected, and goes all the same" if e.forced else "rejected"
        unknown = f"; not recorded: {self.seats(by[None])}" if by[None] else ""
        yield f"  {result}: yes {self.seats(by[True])}; no {self.seats(by[False])}{unknown}"

    def quest_resolved(self, e: QuestResolved) -> Iterator[str]:
        result = "succeeds" if e.succeeded else "fails"
        if not e.team:
            yield f"  quest {e.round} {result}: nobody goes"
            return
        fails = "fails not recorded" if e.fails is None else _fails(e.fails)
        yield f"  quest {e.round} {result}: {self.seats(e.team)}, {fails}"

    def assassination_opened(self, e: AssassinationOpened) -> Iterator[str]:
        yield ""
        yield "ASSASSINATION"

    def assassination_declined(self, e: AssassinationDeclined) -> Iterator[str]:
        yield "  the shooter holds fire"

    def assassination_made(self, e: AssassinationMade) -> Iterator[str]:
        target = "a seat not recorded" if e.target is None else f"seat {self.seat(e.target)}"
        yield f"  {self.seat(e.assassin)} shoots {target}: {'it was Merlin' if e.hit else 'not Merlin'}"

    def game_ended(self, e: GameEnded) -> Iterator[str]:
        yield ""
        yield f"{e.winner.value.upper()} WINS: {e.ending.replace('_', ' ')}"
        if e.roles is not None:
            dealt = (f"{self.seat(seat)} {role}" for seat, role in enumerate(e.roles, 1))
            yield f"roles: {', '.join(dealt)}"
        if e.seed is not None:
            yield f"seed: {e.seed}"

    def game_cancelled(self, e: GameCancelled) -> Iterator[str]:
        yield ""
        yield f"CANCELLED: {_quoted(e.reason)}"

    # --- hidden ---------------------------------------------------------------------------------

    def roles_dealt(self, e: RolesDealt) -> Iterator[str]:
        seed = "" if e.seed is None else f" from seed {e.seed}"
        shooter = "nobody shoots" if e.shooter is None else f"{self.seats([e.shooter])} shoots"
        yield f"dealt{seed}; {shooter}"

    def role_learned(self, e: RoleLearned) -> Iterator[str]:
        sees = f", sees {self.seats(e.sees)}" if e.sees else ""
        yield f"  {self.seat(e.seat)} is {e.role}{sees}"

    def agents_seated(self, e: AgentsSeated) -> Iterator[str]:
        seated = (f"{self.seats([seat])} {_agent(agent)}" for seat, agent in enumerate(e.agents, 1))
        yield f"agents: {'; '.join(seated)}"

    def vote_cast(self, e: VoteCast) -> Iterator[str]:
        # The line of the revealed votes follows and shows every ballot.
        return iter(())

    def card_played(self, e: CardPlayed) -> Iterator[str]:
        yield f"  {self.seat(e.seat)} plays {'success' if e.success else 'FAIL'}"

    def evil_conferred(self, e: EvilConferred) -> Iterator[str]:
        yield f"  {self.seat(e.seat)} to evil: {_quoted(e.text)}"

    def round_summarised(self, e: RoundSummarised) -> Iterator[str]:
        yield f"    {self.seat(e.seat)} sums up{'' if e.answers else ' nothing'}"
        for question, answer in e.answers:
            yield f"      {_plain(question)}: {_quoted(answer)}"

    def beliefs_formed(self, e: BeliefsFormed) -> Iterator[str]:
        for b in e.beliefs:
            role = "unsure of" if b.role is None else f"{b.role} is"
            intends = f"; intends {', '.join(b.intentions)}" if b.intentions else ""
            why = f"; {_quoted(b.reasoning)}" if b.reasoning else ""
            yield (
                f"    {self.seat(e.seat)} thinks: {role} {self.seats([b.about])} "
                f"({_confidence(b)}){intends}{why}"
            )

    def intentions_selected(self, e: IntentionsSelected) -> Iterator[str]:
        chosen = ", ".join(choice.id for choice in e.intentions) or "nothing"
        changed = ", changed" if e.changed else ""
        why = f"; {_quoted(e.reason)}" if e.reason else ""
        yield f"    {self.seat(e.seat)} intends ({e.stage}{changed}): {chosen}{why}"

    def selection_prepared(self, e: SelectionPrepared) -> Iterator[str]:
        yield f"    {self.seat(e.seat)} has chosen without the {_UNHEARD[e.without]}"

    def speech_drafted(self, e: SpeechDrafted) -> Iterator[str]:
        yield f"    {self.seat(e.seat)} thinks ({e.stage}): {_quoted(e.think)}"
        if e.stage == "formulation":
            yield f"    {self.seat(e.seat)} would say: {_quoted(e.speak)}"

    def readings_imagined(self, e: ReadingsImagined) -> Iterator[str]:
        for reading in e.readings:
            yield f"    {self.seat(e.seat)} imagines {_plain(reading.by)}: {_quoted(reading.text)}"
        if e.reveals_role:
            yield f"    {self.seat(e.seat)} finds that it gives the role away"

    def choice_explained(self, e: ChoiceExplained) -> Iterator[str]:
        yield f"    {self.seat(e.seat)} explains ({e.about}): {_quoted(e.text)}"

    def action_refused(self, e: ActionRefused) -> Iterator[str]:
        yield f"    {self.seat(e.seat)} refused at {_plain(e.request_id)}: {_plain(e.cause)}"

    def action_defaulted(self, e: ActionDefaulted) -> Iterator[str]:
        yield f"    {self.seat(e.seat)} gets the default at {_plain(e.request_id)}: {e.cause}"

    def reply_unusable(self, e: ReplyUnusable) -> Iterator[str]:
        where = f"{_plain(e.request_id)}, {_plain(e.step)}"
        yield f"    {self.seat(e.seat)} answers unusably at {where}: {_quoted(e.raw)}"


_LINES: Final[dict[type[Any], Callable[[_LogWriter, Any], Iterator[str]]]] = {
    ProposalOpened: _LogWriter.proposal_opened,
    TeamProposed: _LogWriter.team_proposed,
    UtteranceMade: _LogWriter.utterance_made,
    TeamConfirmed: _LogWriter.team_confirmed,
    VotesRevealed: _LogWriter.votes_revealed,
    QuestResolved: _LogWriter.quest_resolved,
    AssassinationOpened: _LogWriter.assassination_opened,
    AssassinationDeclined: _LogWriter.assassination_declined,
    AssassinationMade: _LogWriter.assassination_made,
    GameEnded: _LogWriter.game_ended,
    GameCancelled: _LogWriter.game_cancelled,
    RolesDealt: _LogWriter.roles_dealt,
    RoleLearned: _LogWriter.role_learned,
    AgentsSeated: _LogWriter.agents_seated,
    VoteCast: _LogWriter.vote_cast,
    CardPlayed: _LogWriter.card_played,
    EvilConferred: _LogWriter.evil_conferred,
    RoundSummarised: _LogWriter.round_summarised,
    BeliefsFormed: _LogWriter.beliefs_formed,
    IntentionsSelected: _LogWriter.intentions_selected,
    SelectionPrepared: _LogWriter.selection_prepared,
    SpeechDrafted: _LogWriter.speech_drafted,
    ReadingsImagined: _LogWriter.readings_imagined,
    ChoiceExplained: _LogWriter.choice_explained,
    ActionRefused: _LogWriter.action_refused,
    ActionDefaulted: _LogWriter.action_defaulted,
    ReplyUnusable: _LogWriter.reply_unusable,
}

_THOUGHTS: Final = frozenset(
    {
        BeliefsFormed,
        ChoiceExplained,
        IntentionsSelected,
        ReadingsImagined,
        RoundSummarised,
        SelectionPrepared,
        SpeechDrafted,
    }
)


_UNHEARD: Final = {"speech": "last speech", "summary": "own summary of the last attempt"}


def _fails(count: int) -> str:
    return "1 fail" if count == 1 else f"{count} fails"


def _agent(seated: SeatedAgent) -> str:
    """``scripted``, or ``llm (gpt-x at main, paper, prompts second 0123456789abcdef)``."""
    if seated.agent != "llm":
        return _plain(seated.agent)
    given = seated.parameters
    model = (
        f"{seated.model or 'recorded answers'}{'' if seated.endpoint is None else f' at {seated.endpoint}'}"
    )
    prompts = f"prompts {given.get('prompts')} {given.get('prompts_hash')}"
    return _plain(f"llm ({model}, {given.get('mechanism')}, {prompts})")


def _yes(setting: bool) -> str:
    return "yes" if setting else "no"


def _plain(text: str) -> str:
    """The text on one line, without characters that move the cursor or reverse the writing direction."""
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return "\\n" if char == "\n" else f"\\u{ord(char):04x}"


def _confidence(belief: Belief) -> str:
    return "confidence unknown" if belief.confidence is None else f"{belief.confidence}/5"


def _quoted(text: str) -> str:
    return f"“{_plain(text)}”"
