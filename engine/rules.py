"""What may be asked, what is allowed, and what follows: the whole game, pure.

    log = create(profile, seed)
    state = fold(log)
    while requests := pending(state):
        answers = [(request.seat, choose(observe(state, request))) for request in requests]
        apply(state, decide(state, answers))

``decide`` changes nothing and ``apply`` refuses nothing. Legality depends only on what the asked
seat sees, so a refusal tells it nothing new.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from math import factorial
from operator import ge
from typing import Any, Final, get_args

from engine.actions import (
    APPROVE,
    FAIL,
    NOTHING,
    REJECT,
    SILENCE,
    SUCCESS,
    Action,
    Assassinate,
    CastVote,
    Confer,
    PlayCard,
    ProposeTeam,
    Reconsider,
    RecordQuest,
    RecordShot,
    RecordVote,
    Remark,
    Repropose,
    SeatAction,
    Speak,
    Summarise,
)
from engine.chance import draw, ordered, pick
from engine.errors import IllegalAction, InvalidProfile
from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    AssassinationOpened,
    BeliefsFormed,
    CardPlayed,
    Event,
    EvilConferred,
    GameCancelled,
    GameCreated,
    GameEnded,
    IntentionsSelected,
    Note,
    ProposalOpened,
    QuestResolved,
    RoleLearned,
    RolesDealt,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
)
from engine.intentions import BY_ID, IntentionId, menu
from engine.knowledge import sees
from engine.profile import Profile
from engine.state import Hand, State, Table, ballots_of
from engine.terms import EVIL_ROLES, Ending, Kind, Phase, Role, Seat, Side

__all__ = [
    "Answers",
    "Request",
    "asked",
    "cancel",
    "check",
    "check_note",
    "create",
    "decide",
    "default",
    "legal",
    "offered",
    "opens_next",
    "pending",
    "usual_names",
]

# Looking a member up in its enum costs as much as a step of the rules (CPython 3.11): names of our own.
_PROPOSE, _DISCUSS, _RECONSIDER = Phase.PROPOSE, Phase.DISCUSS, Phase.RECONSIDER
_VOTE, _QUEST, _SUMMARY, _ASSASSINATE = Phase.VOTE, Phase.QUEST, Phase.SUMMARY, Phase.ASSASSINATE
_TO_PROPOSE, _TO_SPEAK, _TO_VOTE, _TO_SUMMARISE = Kind.PROPOSE_TEAM, Kind.SPEAK, Kind.VOTE, Kind.SUMMARISE
_EVIL = Side.EVIL

Answers = Sequence[tuple[Seat, Action]]
"""Who answers what; any non-empty part of what is open, in any order."""


@dataclass(frozen=True, slots=True)
class Request:
    """The game asking one seat for one decision. Computed from the log, never stored."""

    seat: Seat
    kind: Kind
    round: int
    attempt: int
    team_size: int | None
    """Seats to name, where the decision is a team."""

    @property
    def id(self) -> str:
        """Unique in the game, e.g. ``2.1.vote.3``: round, attempt, kind, seat."""
        return f"{self.round}.{self.attempt}.{self.kind}.{self.seat}"


# --- creating -----------------------------------------------------------------------------------


def create(
    profile: Profile,
    seed: int | None,
    *,
    names: Sequence[str] | None = None,
    deal: Sequence[Role] | None = None,
    shooter: Seat | None = None,
) -> tuple[Event, ...]:
    """The first events of a game, up to the opening of its first proposal.

    ``deal`` fixes who holds which role (seat 1 first) and must be the profile's deck in some order;
    else the seed deals. ``shooter`` names who holds the assassination where that is not the
    Assassin; a shooter is evil. A game without Merlin, or with nobody to shoot, has no assassination.
    ``seed`` may be None only where nothing is drawn. Raises InvalidProfile.
    """
    if names is not None and len(names) != profile.players:
        raise InvalidProfile(
            f"{profile.players} players take {profile.players} names, got {len(names)}", "/names"
        )
    if deal is None:
        if seed is None:
            raise InvalidProfile("a game without a seed needs a deal", "/deal")
        # As ``shuffled`` would: five seats have few deals, which come again and again.
        roles = _dealt(profile.roles, draw(seed, "deal") % factorial(profile.players))
    else:
        if Counter(deal) != Counter(profile.roles):
            raise InvalidProfile(
                f"the deal must hold {', '.join(profile.roles)}, got {', '.join(map(str, deal))}", "/deal"
            )
        roles = tuple(map(Role, deal))
    if shooter is not None and not (type(shooter) is int and 1 <= shooter <= profile.players):
        raise InvalidProfile(
            f"the shooter must be a seat 1 to {profile.players}, got {shooter!r}", "/shooter"
        )
    if shooter is not None and roles[shooter - 1] not in EVIL_ROLES:
        raise InvalidProfile(
            f"the shooter must be evil, got seat {shooter}, which is {roles[shooter - 1]}", "/shooter"
        )
    profile, shooter, learned = _seated(profile, roles, shooter)
    leader = profile.first_leader
    if leader is None:
        if seed is None:
            raise InvalidProfile("a game without a seed needs a first leader", "/rules/first_leader")
        leader = pick(profile.seats, seed, "first_leader")
    return (
        _game_created(profile, tuple(names) if names is not None else usual_names(profile.players)),
        RolesDealt(roles, seed, shooter),
        *learned,
        _proposal_opened(1, 1, leader),
    )


_game_created = lru_cache(256)(GameCreated)
_role_learned = lru_cache(4096)(RoleLearned)


@lru_cache(1024)
def _dealt(deck: tuple[Role, ...], number: int) -> tuple[Role, ...]:
    return tuple(ordered(deck, number))


@lru_cache(1024)
def _seated(
    profile: Profile, roles: tuple[Role, ...], shooter: Seat | None
) -> tuple[Profile, Seat | None, tuple[RoleLearned, ...]]:
    """The profile as these roles can play it, who shoots, and what each seat learns."""
    if shooter is None and Role.ASSASSIN in roles:
        shooter = roles.index(Role.ASSASSIN) + 1
    if shooter is None or Role.MERLIN not in roles:
        shooter = None
        if profile.assassination != "none":
            profile = replace(profile, assassination="none")
    elif profile.assassination == "none":
        shooter = None
    learned = tuple(
        _role_learned(seat, role, sees(roles, seat), seat == shooter) for seat, role in enumerate(roles, 1)
    )
    return profile, shooter, learned


@cache
def usual_names(players: int) -> tuple[str, ...]:
    """The names of seats that were given none. Nothing of a seat's spec: a name must not tell who plays."""
    return tuple(f"Player {seat}" for seat in range(1, players + 1))


# --- asking -------------------------------------------------------------------------------------


@cache
def _request(seat: Seat, kind: Kind, round_: int, attempt: int, size: int | None) -> tuple[Request, ...]:
    return (Request(seat, kind, round_, attempt, size),)


@cache
def _of_everybody(players: int, kind: Kind, round_: int, attempt: int) -> tuple[Request, ...]:
    return tuple(Request(seat, kind, round_, attempt, None) for seat in range(1, players + 1))


@cache
def _of_team(team: tuple[Seat, ...], round_: int, attempt: int) -> tuple[Request, ...]:
    return tuple(Request(seat, Kind.CARD, round_, attempt, None) for seat in team)


@cache
def _everybody(players: int) -> tuple[Seat, ...]:
    return tuple(range(1, players + 1))


def pending(state: State) -> tuple[Request, ...]:
    """Who is asked for what, in seat order. Empty: the game is over."""
    table = state.table
    phase = table.phase
    if phase is _VOTE:
        requests = _of_everybody(table.players, _TO_VOTE, table.round, table.attempt)
    elif phase is _PROPOSE:
        size = table.profile.team_sizes[table.round - 1]
        return _request(table.leader, _TO_PROPOSE, table.round, table.attempt, size)
    elif phase is _QUEST:
        requests = _of_team(table.team, table.round, table.attempt)
    elif phase is _SUMMARY:
        requests = _of_everybody(table.players, _TO_SUMMARISE, table.round, table.attempt)
    elif phase is _DISCUSS:
        return _request(table.speaker, _TO_SPEAK, table.round, table.attempt, None)
    elif phase is _RECONSIDER:
        size = table.profile.team_sizes[table.round - 1]
        return _request(table.leader, Kind.RECONSIDER, table.round, table.attempt, size)
    elif phase is _ASSASSINATE and state.shooter is not None:
        return _request(state.shooter, Kind.ASSASSINATE, table.round, table.attempt, None)
    else:
        return ()
    if state.answers:
        hands, opening = state.hands, table.opening
        return tuple(one for one in requests if hands[one.seat - 1].answered != opening)
    return requests


def offered(table: Table, hand: Hand, kind: Kind) -> tuple[IntentionId, ...] | None:
    """The intentions this seat is offered for the speech it is asked for; None where there is none.

    A speech of the intention mechanism is a turn of the discussion. The proposal is one, the opening
    turn, where the discussion comes after it; a reconsideration is not one.
    """
    before = table.profile.discussion == "before_proposal"
    if kind is _TO_SPEAK:
        opener = before and table.turn == 0
    elif kind is _TO_PROPOSE and table.profile.discussion == "after_proposal":
        opener = True
    else:
        return None
    return None if hand.role is None else menu(hand.role, opener=opener, first_quest=table.round == 1)


# --- allowing -----------------------------------------------------------------------------------

_KIND_IN: Final = {
    Phase.PROPOSE: (Kind.PROPOSE_TEAM, ProposeTeam),
    Phase.DISCUSS: (Kind.SPEAK, Speak),
    Phase.RECONSIDER: (Kind.RECONSIDER, Reconsider),
    Phase.VOTE: (Kind.VOTE, CastVote),
    Phase.QUEST: (Kind.CARD, PlayCard),
    Phase.SUMMARY: (Kind.SUMMARISE, Summarise),
    Phase.ASSASSINATE: (Kind.ASSASSINATE, Assassinate),
}


def _is_asked(table: Table, hand: Hand) -> bool:
    phase = table.phase
    if phase is _VOTE or phase is _SUMMARY:
        return hand.answered != table.opening
    if phase is _QUEST:
        return hand.seat in table.team and hand.answered != table.opening
    if phase is _PROPOSE or phase is _RECONSIDER:
        return hand.seat == table.leader
    if phase is _DISCUSS:
        return hand.seat == table.speaker
    return phase is _ASSASSINATE and hand.shoots


def asked(table: Table, hand: Hand) -> Request | None:
    """What this seat is asked for now, by what it sees itself; None where it is not asked.

    It is the seat's part of ``pending``.
    """
    if not _is_asked(table, hand):
        return None
    kind = _KIND_IN[table.phase][0]
    names_a_team = kind is _TO_PROPOSE or kind is Kind.RECONSIDER
    size = table.profile.team_sizes[table.round - 1] if names_a_team else None
    return Request(hand.seat, kind, table.round, table.attempt, size)


def check(table: Table, hand: Hand, action: Action, *, foreign: bool = False) -> None:
    """Whether this seat may do this now, by what it sees itself. Raises IllegalAction.

    ``foreign``: the thoughts come from a record, which may leave a confidence out and may hold an
    intention of the catalogue that our menus do not offer at that point.
    """
    # The commonest actions first, and nothing more for them: this runs for every ballot.
    kind = type(action)
    if kind is CastVote:
        if table.phase is not _VOTE or hand.answered == table.opening:
            raise _not_asked(table, hand, action)
        # By identity: 1 equals True, and interned events would keep it for every later game.
        if action.approve is not True and action.approve is not False:  # type: ignore[union-attr]
            raise _neither(hand, "approve", action.approve)  # type: ignore[union-attr]
    elif kind is PlayCard:
        if table.phase is not _QUEST or hand.answered == table.opening or hand.seat not in table.team:
            raise _not_asked(table, hand, action)
        if action.success is not True and action.success is not False:  # type: ignore[union-attr]
            raise _neither(hand, "success", action.success)  # type: ignore[union-attr]
        if hand.side is not _EVIL and not action.success:  # type: ignore[union-attr]
            raise IllegalAction(hand.seat, "a loyal seat plays success, got fail", "/success")
    elif kind is Speak and table.phase is _DISCUSS:
        if hand.seat != table.speaker:
            raise _not_asked(table, hand, action)
        if not isinstance(action.text, str):  # type: ignore[union-attr]
            raise _no_text(hand, action.text)  # type: ignore[union-attr]
    elif kind is Summarise and table.phase is _SUMMARY:
        if hand.answered == table.opening:
            raise _not_asked(table, hand, action)
        if action is not NOTHING:
            _check_summary(hand, action.answers)  # type: ignore[union-attr]
    else:
        expected = _KIND_IN.get(table.phase)
        if expected is None or kind is not expected[1] or not _is_asked(table, hand):
            raise _not_asked(table, hand, action)
        if kind is ProposeTeam or kind is Reconsider:
            _check_team(table, hand, action.team)  # type: ignore[union-attr]
        elif kind is Assassinate:
            _check_target(table, hand, action.target)  # type: ignore[union-attr]
        if kind in _SPOKEN and not isinstance(action.text, str):  # type: ignore[union-attr]
            raise _no_text(hand, action.text)  # type: ignore[union-attr]
    if action.thoughts:
        _check_notes(table, hand, action.thoughts, foreign)


_SPOKEN: Final = frozenset({ProposeTeam, Speak, Reconsider})


def _no_text(hand: Hand, text: object) -> IllegalAction:
    return IllegalAction(hand.seat, f"what is said is a text, got {text!r}", "/text")


def _neither(hand: Hand, name: str, value: object) -> IllegalAction:
    return IllegalAction(hand.seat, f"{name} is true or false, got {value!r}", f"/{name}")


def _not_asked(table: Table, hand: Hand, action: Action) -> IllegalAction:
    name = type(action).__name__
    if table.over:
        return IllegalAction(hand.seat, f"the game is over, got {name} of seat {hand.seat}")
    if not _is_asked(table, hand):
        return IllegalAction(
            hand.seat,
            f"seat {hand.seat} is not asked in round {table.round}, attempt {table.attempt}, "
            f"phase {table.phase}, got {name}",
        )
    return IllegalAction(
        hand.seat,
        f"seat {hand.seat} is asked for {_KIND_IN[table.phase][0]} in phase {table.phase}, got {name}",
    )


def _check_team(table: Table, hand: Hand, team: tuple[Seat, ...]) -> None:
    size = table.profile.team_sizes[table.round - 1]
    # Membership in the table of legal teams is the quick yes; the rest finds the words for the no.
    # Its types count too: (True, 2.0) equals (1, 2), and interned events would keep it.
    if (
        type(team) is tuple
        and _ONLY_INT.issuperset(map(type, team))
        and team in table.profile.legal_team[table.round - 1]
    ):
        return
    if not isinstance(team, tuple | list):
        raise IllegalAction(hand.seat, f"a team is a list of seats, got {team!r}", "/team")
    if len(team) != size:
        raise IllegalAction(hand.seat, f"round {table.round} takes {size} seats, got {list(team)}", "/team")
    for seat in team:
        if type(seat) is not int or not 1 <= seat <= table.players:
            raise IllegalAction(hand.seat, f"seats are 1 to {table.players}, got {seat!r}", "/team")
    if len(set(team)) != size:
        raise IllegalAction(hand.seat, f"a team names each seat once, got {list(team)}", "/team")


_ONLY_INT: Final = frozenset({int})


def _check_target(table: Table, hand: Hand, target: Seat | None) -> None:
    if target is None:
        if table.profile.assassination != "after_any_quest":
            raise IllegalAction(hand.seat, "the shot must name a seat, got null", "/target")
        return
    if type(target) is not int or not 1 <= target <= table.players:
        raise IllegalAction(hand.seat, f"seats are 1 to {table.players}, got {target!r}", "/target")
    if target == hand.seat:
        raise IllegalAction(hand.seat, f"the shot must name another seat, got {target}", "/target")


def _check_summary(hand: Hand, answers: Any) -> None:
    pairs = isinstance(answers, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in answers)
    if not pairs or not all(isinstance(text, str) for pair in answers for text in pair):
        raise IllegalAction(
            hand.seat, f"a summary is pairs of question and answer, got {answers!r}", "/answers"
        )
    questions = [question for question, _ in answers]
    if len(set(questions)) != len(questions):
        # A mapping on the wire: of two answers one would be lost.
        raise IllegalAction(hand.seat, f"a summary answers each question once, got {questions}", "/answers")


_NOTES: Final = frozenset(get_args(Note))


def _check_notes(table: Table, hand: Hand, notes: Sequence[Note], foreign: bool) -> None:
    for index, note in enumerate(notes):
        check_note(table, hand, note, f"/thoughts/{index}", foreign=foreign)


def check_note(table: Table, hand: Hand, note: Note, where: str, *, foreign: bool = False) -> None:
    """Whether this seat may record this beside its answer, by what it sees itself. Raises IllegalAction,
    whose pointer begins with ``where``.
    """
    kind = type(note)
    if kind not in _NOTES:
        raise IllegalAction(hand.seat, f"a seat records thoughts, got {kind.__name__}", where)
    if note.seat != hand.seat or type(note.seat) is not int:
        raise IllegalAction(
            hand.seat, f"seat {hand.seat} records its own thoughts, got seat {note.seat}'s", where
        )
    if kind is IntentionsSelected:
        _check_selection(table, hand, note, where, foreign)  # type: ignore[arg-type]
    elif kind is BeliefsFormed:
        _check_beliefs(table, hand, note, where, foreign)  # type: ignore[arg-type]


def _check_selection(table: Table, hand: Hand, note: IntentionsSelected, where: str, foreign: bool) -> None:
    on_offer = offered(table, hand, _KIND_IN[table.phase][0])
    if on_offer is None:
        raise IllegalAction(hand.seat, f"no intentions are chosen in phase {table.phase}", where)
    if foreign:
        on_offer = tuple(BY_ID)
    if len({choice.id for choice in note.intentions}) != len(note.intentions):
        raise IllegalAction(hand.seat, "an intention is selected once", f"{where}/intentions")
    for place, choice in enumerate(note.intentions):
        if choice.id not in on_offer:
            raise IllegalAction(
                hand.seat,
                f"{choice.id!r} is not offered to this seat now; the menu is {', '.join(on_offer)}",
                f"{where}/intentions/{place}/id",
            )


def _check_beliefs(table: Table, hand: Hand, note: BeliefsFormed, where: str, foreign: bool) -> None:
    deck = table.profile.roles
    for place, belief in enumerate(note.beliefs):
        at = f"{where}/beliefs/{place}"
        if (
            type(belief.about) is not int
            or belief.about == hand.seat
            or not 1 <= belief.about <= table.players
        ):
            raise IllegalAction(
                hand.seat,
                f"a belief is about another seat 1 to {table.players}, got {belief.about!r}",
                f"{at}/about",
            )
        if belief.role is not None:
            # A plain "merlin" equals the role, but has no wire form.
            known = isinstance(belief.role, Role)
            spare = known and deck.count(belief.role) - (belief.role == hand.role)
            if spare < 1:
                raise IllegalAction(
                    hand.seat, f"no other seat can hold {belief.role} in this deal", f"{at}/role"
                )
        confidence = belief.confidence
        if confidence is None and foreign:
            pass
        elif type(confidence) is not int or not 0 <= confidence <= 5:
            raise IllegalAction(hand.seat, f"confidence is 0 to 5, got {confidence!r}", f"{at}/confidence")
        for unknown in belief.intentions:
            if unknown not in BY_ID:
                raise IllegalAction(hand.seat, f"no intention is called {unknown!r}", f"{at}/intentions")


def legal(table: Table, hand: Hand) -> tuple[SeatAction, ...] | None:
    """All legal actions of an asked seat, without text and thoughts; None where text is the action.

    Empty where the seat is not asked.
    """
    if not _is_asked(table, hand):
        return ()
    phase = table.phase
    if phase is _VOTE:
        return _VOTES
    if phase is _QUEST:
        return _CARDS if hand.side is _EVIL else _CARDS[:1]
    if phase is _PROPOSE:
        return _proposals(table.profile, table.round)
    if phase is _RECONSIDER:
        return tuple(Reconsider(team) for team in table.profile.teams[table.round - 1])
    if phase is _ASSASSINATE:
        targets = tuple(Assassinate(seat) for seat in _everybody(table.players) if seat != hand.seat)
        hold = (Assassinate(None),) if table.profile.assassination == "after_any_quest" else ()
        return targets + hold
    return None


@lru_cache(256)
def _proposals(profile: Profile, round_: int) -> tuple[ProposeTeam, ...]:
    return tuple(ProposeTeam(team) for team in profile.teams[round_ - 1])


_VOTES: Final = (APPROVE, REJECT)
_CARDS: Final = (SUCCESS, FAIL)


def default(table: Table, request: Request) -> SeatAction:
    """What is played for a seat that gives no usable answer.

    It depends on public facts alone, never on a role or the seed: reject, succeed, say nothing, the
    leader and the seats that follow, keep the team, hold fire or else shoot the next seat.
    """
    kind = request.kind
    if kind is _TO_VOTE:
        return REJECT
    if kind is Kind.CARD:
        return SUCCESS
    if kind is _TO_SPEAK:
        return SILENCE
    if kind is _TO_SUMMARISE:
        return NOTHING
    if kind is Kind.RECONSIDER:
        return Reconsider(table.team)
    following = [(request.seat - 1 + step) % table.players + 1 for step in range(table.players)]
    if kind is _TO_PROPOSE:
        size = table.profile.team_sizes[table.round - 1]
        return ProposeTeam(tuple(sorted(following[:size])))
    return Assassinate(None if table.profile.assassination == "after_any_quest" else following[1])


# --- deciding -----------------------------------------------------------------------------------


def decide(state: State, answers: Answers, *, foreign: bool = False) -> tuple[Event, ...]:
    """What happens if these seats answer so: every seat's thoughts, effects and the consequences.

    Any non-empty part of what is open; stepwise in seat order and whole give the same events.
    Changes nothing. ``foreign`` admits the import-only actions of a record. Raises IllegalAction,
    naming the first seat in order that may not.
    """
    table = state.table
    phase = table.phase
    if phase is _VOTE:
        if whole := _whole_vote(state, answers):
            return whole
    elif phase is _PROPOSE:
        if whole := _plain_proposal(state, answers):
            return whole
    elif phase is _QUEST:
        if whole := _whole_quest(state, answers):
            return whole
    elif phase is _SUMMARY and (whole := _whole_summary(state, answers)):
        return whole
    if len(answers) > 1:
        seats = [seat for seat, _ in answers]
        if any(map(ge, seats, seats[1:])):
            answers = sorted(answers, key=_seat_of)
            _refuse_doubles(answers)
    elif not answers:
        raise ValueError("decide takes at least one answer")
    hands = state.hands
    for seat, action in answers:
        if type(seat) is not int or not 1 <= seat <= table.players:
            raise IllegalAction(seat, f"seats are 1 to {table.players}, got {seat!r}")
        if foreign and type(action) in _FOREIGN:
            if len(answers) > 1:
                raise ValueError(
                    f"a record's {type(action).__name__} is decided alone, got {len(answers)} answers"
                )
            return (*action.thoughts, *_FOREIGN[type(action)](state, seat, action))
        check(table, hands[seat - 1], action, foreign=foreign)
    if phase is _VOTE:
        return _votes(state, answers)
    if phase is _QUEST:
        return _cards(state, answers)
    if phase is _SUMMARY:
        return _summaries(state, answers)
    ((seat, action),) = answers
    events = _ALONE[phase](state, seat, action)
    return (*action.thoughts, *events) if action.thoughts else events


def _seat_of(answer: tuple[Seat, Action]) -> Seat:
    return answer[0]


def _refuse_doubles(answers: Answers) -> None:
    for earlier, later in pairwise(answers):
        if earlier[0] == later[0]:
            raise IllegalAction(later[0], f"seat {later[0]} answers once")


def cancel(reason: str) -> tuple[Event, ...]:
    """The end of a game that is broken off."""
    return (GameCancelled(reason),)


# What recurs is made once: an interned event costs a fifth of a new one, which wins back what
# freezing costs (measured in bench/).
_vote_cast = cache(VoteCast)
_card_played = cache(CardPlayed)
_proposal_opened = cache(ProposalOpened)
_team_proposed = cache(TeamProposed)
_quest_resolved = cache(QuestResolved)
_silence = lru_cache(4096)(UtteranceMade)
_nothing_summarised = lru_cache(4096)(RoundSummarised)
_game_ended = lru_cache(1024)(GameEnded)
_ASSASSINATION_OPENED: Final = AssassinationOpened()


def _votes_of(ballots: int) -> tuple[bool, ...]:
    """``ballots`` in binary: a 1, then a digit for each seat, seat 1 first."""
    return tuple(digit == "1" for digit in f"{ballots:b}"[1:])


@cache
def _cast_and_revealed(ballots: int, approved: bool) -> tuple[Event, ...]:
    votes = _votes_of(ballots)
    return (*ballots_of(votes), _votes_revealed(votes, approved, False))


@cache
def _next_attempt(round_: int, attempt: int, leader: Seat) -> tuple[ProposalOpened, ...]:
    return (_proposal_opened(round_, attempt, leader),)


@cache
def _cards_on_table(team: tuple[Seat, ...], failing: tuple[Seat, ...]) -> tuple[CardPlayed, ...]:
    return tuple(_card_played(seat, seat not in failing) for seat in team)


def _whole_vote(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The common vote: every seat at once, in order, by the actions that ``legal`` gives.

    None: look closer.
    """
    table = state.table
    profile = table.profile
    if state.answers or len(answers) != table.players:
        return None
    ballots = 1
    expected = 1
    for seat, action in answers:
        # By identity: True equals 1, and is no seat.
        if seat is not expected:
            return None
        expected += 1
        if action is APPROVE:
            ballots += ballots + 1
        elif action is REJECT:
            ballots += ballots
        else:
            return None
    if ballots.bit_count() > profile.yes_needed:
        return _cast_and_revealed(ballots, True)
    if table.attempt >= profile.max_rejections:
        votes = _votes_of(ballots)
        return (*ballots_of(votes), *_after_vote(state, votes, False))
    events = _cast_and_revealed(ballots, False)
    if profile.summaries:
        return events
    return events + _next_attempt(table.round, table.attempt + 1, table.next_leader())


def _whole_quest(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The common quest: every card at once, in order, by the actions that ``legal`` gives.

    None: look closer.
    """
    table = state.table
    team = table.team
    if state.answers or len(answers) != len(team):
        return None
    failing: list[Seat] = []
    place = 0
    for seat, action in answers:
        if seat is not team[place]:
            return None
        place += 1
        if action is SUCCESS:
            continue
        if action is not FAIL or state.hands[seat - 1].side is not _EVIL:
            return None
        failing.append(seat)
    fails = len(failing)
    needed = table.profile.fails_needed[table.round - 1]
    return _cards_on_table(team, tuple(failing)) + _resolve(state, team, fails, fails < needed)


def _whole_summary(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The common end of a round among seats that keep no record: nobody summarises anything.

    None: look closer.
    """
    table = state.table
    if state.answers or len(answers) != table.players:
        return None
    expected = 1
    for seat, action in answers:
        if seat is not expected or action is not NOTHING:
            return None
        expected += 1
    return (*_no_summaries(table.players, table.round, table.attempt), opens_next(table))


@cache
def _no_summaries(players: int, round_: int, attempt: int) -> tuple[RoundSummarised, ...]:
    return tuple(_nothing_summarised(seat, round_, attempt, ()) for seat in range(1, players + 1))


def _plain_proposal(state: State, answers: Answers) -> tuple[Event, ...] | None:
    """The common proposal without talk, by an action that ``legal`` gives. None: look closer."""
    if len(answers) != 1:
        return None
    seat, action = answers[0]
    table = state.table
    profile = table.profile
    if seat is not table.leader or profile.discussion == "after_proposal":
        return None
    if type(action) is not ProposeTeam or action.thoughts or action.text != "":
        return None
    team = action.team
    # The very tuple of the table of legal teams: one that only equals it may hold True for 1.
    if type(team) is not tuple or profile.legal_team[table.round - 1].get(team) is not team:
        return None
    return _proposed(seat, team)


@cache
def _proposed(leader: Seat, team: tuple[Seat, ...]) -> tuple[TeamProposed, ...]:
    return (_team_proposed(leader, team),)


# Bounded: ten seats have 3,072 outcomes, and an imported record may hold unknown ballots besides.
@cache
def _votes_revealed(votes: tuple[bool | None, ...], approved: bool, forced: bool) -> VotesRevealed:
    return VotesRevealed(votes, approved, forced)


def _votes(state: State, answers: Answers) -> tuple[Event, ...]:
    players = state.table.players
    events: list[Event] = []
    for seat, action in answers:
        events += action.thoughts
        events.append(_vote_cast(seat, action.approve))  # type: ignore[union-attr]
    if state.answers + len(answers) == players:
        given = {seat: action.approve for seat, action in answers}  # type: ignore[union-attr]
        votes = tuple([given[hand.seat] if hand.seat in given else bool(hand.vote) for hand in state.hands])
        events += _after_vote(state, votes, votes.count(True) >= state.table.profile.yes_needed)
    return tuple(events)


def _after_vote(state: State, votes: tuple[bool | None, ...], approved: bool) -> tuple[Event, ...]:
    table = state.table
    if approved:
        return (_votes_revealed(votes, True, False),)
    profile = table.profile
    if table.attempt < profile.max_rejections:
        revealed = _votes_revealed(votes, False, False)
        if profile.summaries:
            return (revealed,)
        return (revealed, _proposal_opened(table.round, table.attempt + 1, table.next_leader()))
    rule = profile.on_max_rejections
    if rule == "last_team_goes":
        return (_votes_revealed(votes, False, True),)
    revealed = _votes_revealed(votes, False, False)
    if rule == "quest_fails":
        return (revealed, *_resolve(state, (), None, False))
    return (revealed, _end(state, Side.EVIL, Ending.MAX_REJECTIONS))


def _cards(state: State, answers: Answers) -> tuple[Event, ...]:
    table = state.table
    events: list[Event] = []
    fails = 0
    for seat, action in answers:
        success = action.success  # type: ignore[union-attr]
        events += action.thoughts
        events.append(_card_played(seat, success))
        fails += not success
    if state.answers + len(answers) == len(table.team):
        if state.answers:
            earlier = (state.hands[seat - 1] for seat in table.team)
            fails += sum(h.answered == table.opening and not h.success for h in earlier)
        needed = table.profile.fails_needed[table.round - 1]
        events += _resolve(state, table.team, fails, fails < needed)
    return tuple(events)


def _resolve(state: State, team: tuple[Seat, ...], fails: int | None, succeeded: bool) -> tuple[Event, ...]:
    table = state.table
    resolved = _quest_resolved(table.round, team, fails, succeeded)
    profile = table.profile
    if table.failed + (not succeeded) == 3:
        return (resolved, _end(state, Side.EVIL, Ending.THREE_QUESTS_FAILED))
    shot = profile.assassination != "none" and not table.missed
    if table.succeeded + succeeded == 3:
        return (resolved, _ASSASSINATION_OPENED if shot else _end_after_successes(state))
    if shot and profile.assassination == "after_any_quest":
        return (resolved, _ASSASSINATION_OPENED)
    if profile.summaries:
        return (resolved,)
    return (resolved, _next_round(table))


def _next_round(table: Table) -> ProposalOpened:
    return _proposal_opened(table.round + 1, 1, table.next_leader())


def _go_on(table: Table) -> tuple[Event, ...]:
    return () if table.profile.summaries else (_next_round(table),)


def _end_after_successes(state: State) -> GameEnded:
    survived = state.table.missed
    return _end(state, Side.LOYAL, Ending.MERLIN_SURVIVED if survived else Ending.THREE_QUESTS_SUCCEEDED)


def _end(state: State, winner: Side, ending: Ending) -> GameEnded:
    reveal = state.table.profile.reveal
    return _game_ended(
        winner,
        ending,
        None if reveal == "none" else state.roles,
        state.seed if reveal == "all" else None,
    )


def _summaries(state: State, answers: Answers) -> tuple[Event, ...]:
    table = state.table
    events: list[Event] = []
    for seat, action in answers:
        events += action.thoughts
        told = action.answers  # type: ignore[union-attr]
        make = RoundSummarised if told else _nothing_summarised
        events.append(make(seat, table.round, table.attempt, told))
    if state.answers + len(answers) == table.players:
        events.append(opens_next(table))
    return tuple(events)


def opens_next(table: Table) -> ProposalOpened:
    """What everybody's summary is followed by."""
    if len(table.quests) == table.round:
        return _next_round(table)
    return _proposal_opened(table.round, table.attempt + 1, table.next_leader())


def _utterance(table: Table, seat: Seat, text: str, phase: Any = "discuss") -> UtteranceMade:
    make = UtteranceMade if text else _silence
    return make(seat, table.round, table.attempt, table.turn, phase, text)


def _propose(state: State, seat: Seat, action: ProposeTeam) -> tuple[Event, ...]:
    table = state.table
    team = action.team
    if type(team) is not tuple or team not in table.profile.legal_team[table.round - 1]:
        team = tuple(sorted(team))  # legal, but a list or not ascending
    proposed = _team_proposed(seat, team)
    # The opening turn of a discussion is a turn even when nothing is said.
    if action.text or table.profile.discussion == "after_proposal":
        return (proposed, _utterance(table, seat, action.text))
    return (proposed,)


def _speak(state: State, seat: Seat, action: Speak) -> tuple[Event, ...]:
    return (_utterance(state.table, seat, action.text),)


def _reconsider(state: State, seat: Seat, action: Reconsider | Repropose) -> tuple[Event, ...]:
    table = state.table
    team = tuple(sorted(action.team))
    confirmed = TeamConfirmed(seat, team, changed=team != table.team)
    if action.text:
        return (confirmed, _utterance(table, seat, action.text, "reconsider"))
    return (confirmed,)


def _assassinate(state: State, seat: Seat, action: Assassinate) -> tuple[Event, ...]:
    if action.target is not None:
        assert state.roles is not None, "decide needs the deal"
        return _shoot(state, seat, action.target, state.roles[action.target - 1] is Role.MERLIN)
    table = state.table
    if table.succeeded == 3:
        return (AssassinationDeclined(), _end_after_successes(state))
    return (AssassinationDeclined(), *_go_on(table))


def _shoot(state: State, seat: Seat, target: Seat | None, hit: bool) -> tuple[Event, ...]:
    table = state.table
    made = AssassinationMade(seat, target, hit)
    if hit:
        return (made, _end(state, Side.EVIL, Ending.MERLIN_ASSASSINATED))
    if table.succeeded == 3 or table.profile.missed_shot == "loyal_wins":
        return (made, _end(state, Side.LOYAL, Ending.MERLIN_SURVIVED))
    return (made, *_go_on(table))


_ALONE: Final[dict[Phase, Callable[[State, Seat, Any], tuple[Event, ...]]]] = {
    Phase.PROPOSE: _propose,
    Phase.DISCUSS: _speak,
    Phase.RECONSIDER: _reconsider,
    Phase.ASSASSINATE: _assassinate,
}


# --- what only a record may say -------------------------------------------------------------------


def _remark(state: State, seat: Seat, action: Remark) -> tuple[Event, ...]:
    return (_utterance(state.table, seat, action.text),)


def _confer(state: State, seat: Seat, action: Confer) -> tuple[Event, ...]:
    return (EvilConferred(seat, action.text),)


def _foreign_needs(state: State, seat: Seat, phase: Phase, action: Action) -> None:
    table = state.table
    asked = state.shooter if phase is _ASSASSINATE else table.leader
    if table.phase is not phase or seat != asked:
        raise _not_asked(table, state.hand(seat), action)
    if state.answers:
        raise IllegalAction(
            seat, f"{type(action).__name__} comes before single answers, {state.answers} are in"
        )


def _repropose(state: State, seat: Seat, action: Repropose) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.VOTE, action)
    _check_team(state.table, state.hand(seat), action.team)
    return _reconsider(state, seat, action)


def _record_vote(state: State, seat: Seat, action: RecordVote) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.VOTE, action)
    table = state.table
    votes = action.votes
    if len(votes) != table.players:
        raise IllegalAction(seat, f"a vote takes {table.players} ballots, got {len(votes)}", "/votes")
    yes, unknown = votes.count(True), votes.count(None)
    needed = table.profile.yes_needed
    if (action.approved and yes + unknown < needed) or (not action.approved and yes >= needed):
        raise IllegalAction(
            seat,
            f"{yes} approvals and {unknown} unknown ballots cannot make approved={action.approved}, "
            f"{needed} carry a team",
            "/approved",
        )
    return _after_vote(state, votes, action.approved)


def _record_quest(state: State, seat: Seat, action: RecordQuest) -> tuple[Event, ...]:
    table = state.table
    # Unlike the other actions of a record it may come after single answers: the cards that are known.
    if table.phase is not _QUEST or seat != table.leader:
        raise _not_asked(table, state.hand(seat), action)
    hands = [state.hand(member) for member in table.team]
    known = sum(hand.answered == table.opening and not hand.success for hand in hands)
    evil = known + sum(hand.answered != table.opening and hand.side is _EVIL for hand in hands)
    needed = table.profile.fails_needed[table.round - 1]
    if action.fails is not None:
        if not 0 <= action.fails <= evil:
            raise IllegalAction(
                seat, f"{evil} evil seats on the team cannot play {action.fails} fails", "/fails"
            )
        if action.fails < known:
            raise IllegalAction(seat, f"{known} fails were played, got {action.fails} in all", "/fails")
        if action.succeeded != (action.fails < needed):
            raise IllegalAction(
                seat,
                f"{action.fails} fails of {needed} needed cannot make succeeded={action.succeeded}",
                "/succeeded",
            )
    elif action.succeeded if known >= needed else not action.succeeded and evil < needed:
        raise IllegalAction(
            seat,
            f"{known} to {evil} fails, {needed} needed, cannot make succeeded={action.succeeded}",
            "/succeeded",
        )
    return _resolve(state, table.team, action.fails, action.succeeded)


def _record_shot(state: State, seat: Seat, action: RecordShot) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.ASSASSINATE, action)
    return _shoot(state, seat, None, action.hit)


def _hold_or_shoot(state: State, seat: Seat, action: Assassinate) -> tuple[Event, ...]:
    _foreign_needs(state, seat, Phase.ASSASSINATE, action)
    if action.target is not None:
        _check_target(state.table, state.hand(seat), action.target)
    return _assassinate(state, seat, action)


_FOREIGN: Final[dict[type[Any], Callable[[State, Seat, Any], tuple[Event, ...]]]] = {
    Remark: _remark,
    Confer: _confer,
    Repropose: _repropose,
    RecordVote: _record_vote,
    RecordQuest: _record_quest,
    RecordShot: _record_shot,
    Assassinate: _hold_or_shoot,
}
