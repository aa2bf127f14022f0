"""Turns a foreign record (avalon-replay v1) into a log, or names the first move that breaks a rule.

Every move of the record is played through the same ``decide`` as our own games, and whatever the
record says (the leader, the team, the results of votes, quests and the shot, the end) is compared
with what follows from the rules. The first difference is raised as IllegalRecord.

Decisions where the specification leaves something open:

- ``knowledge``, ``comments``, the ``phase`` of a remark and all texts have no effect on the game.
- ``approved`` is the result of the ballots, even when a rejected team goes on the quest.
- ``quest_fails``: nobody goes, the last rejection moves the lead on by one seat as any other does, and
  the record may or may not hold a ``quest`` move for the failed quest.
- ``after_any_quest``: if the next move, leaving out talk, is not a shot, the shooter held fire. The format
  does not say what a miss before the third success means: we take the game as over if the record says so.
- If ``assassin_seat`` is null, or if the game has no Merlin, there is no shot. With an assassin and Merlin, a
  game with three successes may end without a shot if its outcome says ``three_quests_succeeded``.
- The shooter is evil and may hold any evil role.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar

from engine.actions import (
    APPROVE,
    FAIL,
    REJECT,
    SUCCESS,
    Assassinate,
    Confer,
    ProposeTeam,
    RecordQuest,
    RecordShot,
    RecordVote,
    Remark,
    Repropose,
)
from engine.errors import IllegalAction, IllegalRecord, InvalidProfile
from engine.events import AssassinationMade, Event, QuestResolved, SpeechDrafted, VotesRevealed
from engine.foreign.record import (
    Config,
    Discuss,
    Move,
    Propose,
    Quest,
    Record,
    RecordedShot,
    RecordRepropose,
    Shoot,
    Vote,
    read_record,
)
from engine.profile import MOST_REJECTIONS, UNIQUE_ROLES, MissedShot, Profile, in_deck_order
from engine.rules import Answers, create, decide
from engine.state import State, Table, apply, fold
from engine.terms import EVIL_ROLES, Ending, Phase, Role, Seat, Side

__all__ = ["Record", "read_record", "replay"]


def replay(record: Record) -> State:
    """The finished game of the record, with its log in ``State.log``. A seat is the record's seat plus 1.

    Raises IllegalRecord for an impossible set-up, for the first move that breaks a rule, or for an outcome
    that does not follow from the moves; its message counts seats from 0, as the record does.
    """
    names = _names(record)
    _check_set_up(record)
    profile = _profile(record)
    state = fold(create(profile, None, names=names, deal=record.roles, shooter=record.assassin_seat))
    game = _ReplayedGame(record, state)
    for number, move in enumerate(record.moves, 1):
        if move is not None:
            game.begin(number)
            _PLAY[type(move)](game, move)
    game.end()
    return state


# --- before the first move --------------------------------------------------------------------------


def _names(record: Record) -> list[str]:
    players = record.config.players
    if len(record.roles) != players:
        raise IllegalRecord(record.id, "roles", f"{players} roles", str(len(record.roles)))
    named = dict(zip(record.seats, record.names, strict=True))
    if len(record.seats) != players or named.keys() != set(range(1, players + 1)):
        found = ", ".join(str(seat - 1) for seat in record.seats)
        raise IllegalRecord(record.id, "seats", f"each of 0 to {players - 1} once", found)
    return [named[seat] for seat in range(1, players + 1)]


def _check_set_up(record: Record) -> None:
    """Raises IllegalRecord for an impossible set-up, in the terms and the numbering of the record."""
    config, roles, shooter = record.config, record.roles, record.assassin_seat
    players = config.players
    seats = f"a seat from 0 to {players - 1}"

    def refuse(rule: str, expected: str, found: str) -> NoReturn:
        raise IllegalRecord(record.id, rule, expected, found)

    for role in _ONCE:
        if (holders := roles.count(role)) > 1:
            refuse("roles", f"at most one {role}", str(holders))
    evil = [seat for seat, role in enumerate(roles, 1) if role in EVIL_ROLES]
    most = (players - 1) // 2
    if not 1 <= len(evil) <= most:
        refuse("roles", f"{'1' if most == 1 else f'1 to {most}'} evil among {players} seats", str(len(evil)))
    for number, size in enumerate(config.team_sizes, 1):
        if size > players:
            refuse("team sizes", f"at most {players} seats for quest {number}", str(size))
    if not 1 <= config.max_rejections <= MOST_REJECTIONS:
        refuse("max rejections", f"a number from 1 to {MOST_REJECTIONS}", _number(config.max_rejections))
    if config.first_leader > players:
        refuse("first leader", seats, str(config.first_leader - 1))
    if shooter is not None and shooter > players:
        refuse("assassin seat", seats, str(shooter - 1))
    if shooter is not None and shooter not in evil:
        one_of = _one_of(evil)
        refuse("assassin seat", f"an evil seat ({one_of})", f"{shooter - 1}, which is {roles[shooter - 1]}")
    for key, shown in record.knowledge:
        if key not in map(str, range(players)):
            refuse("knowledge", f"{seats} as a key", ascii(key)[:60])
        for seat in shown:
            if seat > players:
                refuse("knowledge", f"{seats} shown to seat {key}", str(seat - 1))


_ONCE: Final = tuple(role for role in Role if role in UNIQUE_ROLES)
"""Roles that a deck may hold at most once; in a fixed order, so that messages are always the same."""


def _one_of(seats: Sequence[Seat]) -> str:
    *rest, last = (str(seat - 1) for seat in seats)
    return f"{', '.join(rest)} or {last}" if rest else last


def _number(value: int) -> str:
    # An integer of thousands of digits must not be converted to text.
    return str(value) if abs(value) < 10**12 else "a number with many digits"


def _profile(record: Record) -> Profile:
    shot = record.assassin_seat is not None and Role.MERLIN in record.roles
    try:
        return _made(record.config, in_deck_order(record.roles), shot, _missed(record))
    except InvalidProfile as fault:
        raise IllegalRecord(record.id, "settings", "playable settings", str(fault)) from None


# Profiles are cached: a source has few rule sets, and making a profile lists all its teams.
@lru_cache(maxsize=1024)
def _made(config: Config, deck: tuple[Role, ...], shot: bool, missed: MissedShot) -> Profile:
    return Profile(
        name="replay",
        players=config.players,
        roles=deck,
        team_sizes=config.team_sizes,
        fails_needed=config.fails_required,
        approval=config.approval,
        max_rejections=config.max_rejections,
        on_max_rejections=config.on_max_rejections,
        discussion="none",
        reconsideration=False,
        summaries=False,
        assassination=config.assassination if shot else "none",
        missed_shot=missed,
        first_leader=config.first_leader,
        leader_step=config.leader_step,
        reveal="roles",
    )


def _missed(record: Record) -> MissedShot:
    """The consequence that a miss before the third success had in the record. ``loyal_wins`` where the
    shot is not offered after any quest, or where the record shows no such miss.
    """
    if record.config.assassination != "after_any_quest":
        return "loyal_wins"
    outcome = record.outcome
    if outcome.reason is Ending.MERLIN_SURVIVED and sum(outcome.quest_results) < 3:
        return "loyal_wins"
    after = False
    for move in record.moves:
        if after and move is not None and not isinstance(move, Discuss):
            return "play_on"
        after = after or isinstance(move, Shoot)
    return "loyal_wins"


# --- move by move -----------------------------------------------------------------------------------

E = TypeVar("E", bound=Event)


Refusals = Mapping[str, tuple[str, str, str]]
"""(rule, expected, found) for the message about a refused move, by the pointer to the refused part."""

_NOTHING: Final[Refusals] = {}


class _ReplayedGame:
    """The record and the game so far; one method per kind of move."""

    __slots__ = ("number", "place", "record", "state", "table", "unplayed")

    number: int
    """The number of the present move, from 1."""
    place: tuple[int, int]
    """The quest and the attempt of the present move; once it is taken, the table has gone on."""
    table: Table
    unplayed: tuple[int, tuple[Seat, ...]] | None
    """The quest that has just failed by rejections, and the team rejected last. They are kept because the
    record may hold a move for that quest. None if the last move, leaving out talk, failed no quest by
    rejections."""

    def __init__(self, record: Record, state: State) -> None:
        self.record = record
        self.state = state
        self.table = state.table
        self.unplayed = None
        self.begin(0)

    def begin(self, number: int) -> None:
        """Begins with this move; 0: with what is told of the whole game."""
        self.number = number
        self.place = self.table.round, self.table.attempt

    def refuse(self, rule: str, expected: str, found: str) -> NoReturn:
        quest, attempt = self.place
        raise IllegalRecord(
            self.record.id,
            rule,
            expected,
            found,
            quest=quest,
            attempt=attempt,
            move=self.number or None,
        )

    def take(self, answers: Answers, says: Refusals = _NOTHING) -> tuple[Event, ...]:
        try:
            events = decide(self.state, answers, foreign=True)
        except IllegalAction as refusal:
            self.refuse(*says.get(refusal.pointer, ("rules", "a legal move", str(refusal))))
        apply(self.state, events)
        return events

    def at_the_table(self, seat: Seat, rule: str) -> None:
        if seat > self.table.players:
            self.refuse(rule, f"a seat from 0 to {self.table.players - 1}", str(seat - 1))

    def expect(self, phase: Phase, move: Move) -> None:
        table = self.table
        if table.phase is Phase.ASSASSINATE and phase is not Phase.ASSASSINATE:
            self.hold_fire()
        if table.phase is not phase:
            if table.over:
                self.refuse("end of the game", f"no move after the end ({_ended(table)})", _called(move))
            self.refuse("order of moves", self.awaited(), _called(move))
        self.unplayed = None

    def hold_fire(self) -> None:
        if self.table.profile.assassination == "after_any_quest":
            assert self.state.shooter is not None
            self.take([(self.state.shooter, Assassinate(None))])

    def awaited(self) -> str:
        table = self.table
        where = f"quest {table.round}, attempt {table.attempt}"
        if table.phase is Phase.PROPOSE:
            return f"a proposal of seat {table.leader - 1} for {where}"
        if table.phase is Phase.VOTE:
            return f"the vote on {where}"
        if table.phase is Phase.QUEST:
            return f"quest {table.round} of team {_seats(table.team)}"
        assert self.state.shooter is not None
        return f"the shot of seat {self.state.shooter - 1}"

    def same(self, rule: str, expected: int, found: int) -> None:
        if expected != found:
            self.refuse(rule, str(expected), str(found))

    def discuss(self, move: Discuss) -> None:
        self.at_the_table(move.seat, "seat")
        action = Remark if move.visibility == "all" else Confer
        thought = (
            () if move.think is None else (SpeechDrafted(move.seat, "refinement", move.think, move.text),)
        )
        self.take([(move.seat, action(move.text, thought))])

    def propose(self, move: Propose) -> None:
        again = type(move) is RecordRepropose
        self.expect(Phase.VOTE if again else Phase.PROPOSE, move)
        table = self.table
        profile = table.profile
        self.same("quest number", table.round, move.quest)
        self.same("attempt number", table.attempt, move.attempt)
        if move.seat is not None:
            self.same("leader", table.leader - 1, move.seat - 1)
        last = table.attempt == profile.max_rejections and profile.on_max_rejections == "forced_team"
        if move.forced is not last:
            wanted = (
                "a team that is voted on" if move.forced else "forced, as the last team goes without a vote"
            )
            self.refuse("forced team", wanted, "forced" if move.forced else "not forced")
        size = profile.team_sizes[table.round - 1]
        if len(move.team) != size:
            self.refuse("team size", f"{size} seats", f"{len(move.team)}: {_seats(move.team)}")
        self.at_the_table(move.team[-1], "team")
        kind = Repropose if again else ProposeTeam
        self.take([(table.leader, kind(move.team, move.text))])

    def vote(self, move: Vote) -> None:
        self.expect(Phase.VOTE, move)
        table = self.table
        self.same("quest number", table.round, move.quest)
        self.same("attempt number", table.attempt, move.attempt)
        votes = move.votes
        if len(votes) != table.players:
            self.refuse("ballots", f"{table.players} ballots", str(len(votes)))
        yes, unknown = votes.count(True), votes.count(None)
        says = f"{'rejected' if move.approved else 'approved'} by {yes} yes of {table.players}" + (
            f", {unknown} unknown" if unknown else ""
        )
        disagrees = ("result of the vote", says, "approved" if move.approved else "rejected")
        team = table.team
        if unknown:
            recorded = RecordVote(votes, move.approved)
            events = self.take([(table.leader, recorded)], {"/approved": disagrees})
        else:
            events = self.take([(seat, APPROVE if yes_ else REJECT) for seat, yes_ in enumerate(votes, 1)])
        if _last(events, VotesRevealed).approved is not move.approved:
            self.refuse(*disagrees)
        quests = table.quests
        if quests and not quests[-1].team and quests[-1].round == move.quest:
            self.unplayed = (move.quest, team)

    def quest(self, move: Quest) -> None:
        if self.unplayed is not None and self.unplayed[0] == move.quest:
            self.failed_by_rejections(move, self.unplayed[1])
            return
        self.expect(Phase.QUEST, move)
        table = self.table
        self.same("quest number", table.round, move.quest)
        if move.team != table.team:
            self.refuse("team of the quest", _seats(table.team), _seats(move.team))
        if move.actions is None:
            resolved = self.unseen_cards(move)
        else:
            resolved = self.seen_cards(move, move.actions)
        if resolved.succeeded is not move.succeeded:
            needed = table.profile.fails_needed[move.quest - 1]
            self.refuse(
                "result of the quest",
                f"{_result(resolved.succeeded)} ({_fails(resolved.fails)}, {needed} needed)",
                _result(move.succeeded),
            )

    def failed_by_rejections(self, move: Quest, team: tuple[Seat, ...]) -> None:
        self.unplayed = None
        if move.succeeded:
            self.refuse("result of the quest", "fail (rejections failed it)", "success")
        if move.actions:
            self.refuse("cards", "none (rejections failed it)", f"{len(move.actions)}")
        if move.team != team:
            self.refuse("team of the quest", f"{_seats(team)}, the last one rejected", _seats(move.team))

    def unseen_cards(self, move: Quest) -> QuestResolved:
        team = self.table.team
        needed = self.table.profile.fails_needed[move.quest - 1]
        evil = sum(self.state.hand(seat).side is Side.EVIL for seat in team)
        if move.fails is None:
            follows = f"success ({evil} evil on the team, {_fails(needed)} needed)"
        else:
            follows = f"{_result(move.fails < needed)} ({_fails(move.fails)}, {needed} needed)"
        events = self.take(
            [(self.table.leader, RecordQuest(move.fails, move.succeeded))],
            {
                "/fails": (
                    "fail cards",
                    f"at most {evil}, the evil seats on the team",
                    _number(move.fails or 0),
                ),
                "/succeeded": ("result of the quest", follows, _result(move.succeeded)),
            },
        )
        return _last(events, QuestResolved)

    def seen_cards(self, move: Quest, actions: tuple[tuple[Seat, bool], ...]) -> QuestResolved:
        played = tuple(seat for seat, _ in actions)
        if played != self.table.team:
            self.refuse("cards", f"one card of each of {_seats(self.table.team)}", _seats(played))
        hands = self.state.hands
        loyal = [seat for seat, success in actions if not success and hands[seat - 1].side is Side.LOYAL]
        events = self.take(
            [(seat, SUCCESS if success else FAIL) for seat, success in actions],
            {"/success": ("cards", f"success of {_seats(loyal)} (loyal)", "fail")},
        )
        resolved = _last(events, QuestResolved)
        if move.fails is not None and move.fails != resolved.fails:
            self.refuse("fail cards", f"{resolved.fails}, as played", str(move.fails))
        return resolved

    def shoot(self, move: Shoot) -> None:
        self.expect(Phase.ASSASSINATE, move)
        shooter = self.state.shooter
        assert shooter is not None
        self.same("assassin seat", shooter - 1, move.seat - 1)
        if move.target is None:
            self.take([(shooter, RecordShot(move.hit))])
            return
        self.at_the_table(move.target, "target")
        other = ("target", "a seat other than the shooter's", str(move.target - 1))
        made = _last(self.take([(shooter, Assassinate(move.target))], {"/target": other}), AssassinationMade)
        if made.hit is not move.hit:
            role = self.record.roles[move.target - 1]
            self.refuse("hit", f"{_yes(made.hit)} (seat {move.target - 1} is {role})", _yes(move.hit))

    # --- after the last move ------------------------------------------------------------------------

    def end(self) -> None:
        table = self.table
        outcome = self.record.outcome
        if table.phase is Phase.ASSASSINATE:
            if outcome.reason is Ending.THREE_QUESTS_SUCCEEDED and outcome.shot is None:
                assert self.state.shooter is not None
                self.take([(self.state.shooter, Assassinate(None))])
            else:
                self.hold_fire()
        if not table.over:
            self.begin(len(self.record.moves) + 1)
            self.refuse("end of the game", self.awaited(), "the end of the record")
        assert table.winner is not None
        assert table.ending is not None
        results = tuple(quest.succeeded for quest in table.quests)
        shot = self.shot()
        for rule, same, expected, found in (
            ("winner", table.winner is outcome.winner, table.winner.value, outcome.winner.value),
            ("reason", table.ending is outcome.reason, table.ending.value, outcome.reason.value),
            (
                "quest results",
                results == outcome.quest_results,
                _results(results),
                _results(outcome.quest_results),
            ),
            ("assassination", shot == outcome.shot, _aim(shot), _aim(outcome.shot)),
        ):
            if not same:
                self.begin(0)
                self.refuse(rule, expected, found)

    def shot(self) -> RecordedShot | None:
        for event in reversed(self.state.public):
            if type(event) is AssassinationMade:
                return RecordedShot(event.target, event.hit)
        return None


_PLAY: Final[dict[type[Any], Callable[[_ReplayedGame, Any], None]]] = {
    Discuss: _ReplayedGame.discuss,
    Propose: _ReplayedGame.propose,
    RecordRepropose: _ReplayedGame.propose,
    Vote: _ReplayedGame.vote,
    Quest: _ReplayedGame.quest,
    Shoot: _ReplayedGame.shoot,
}


def _last(events: Sequence[Event], kind: type[E]) -> E:
    return next(event for event in reversed(events) if type(event) is kind)


# --- texts, in the record's numbering ---------------------------------------------------------------


def _seats(team: Sequence[Seat]) -> str:
    return ", ".join(str(seat - 1) for seat in team) or "nobody"


def _called(move: Move) -> str:
    if isinstance(move, Quest):
        return f"quest {move.quest}"
    if isinstance(move, Propose | Vote):
        return f"{move.name} of quest {move.quest}, attempt {move.attempt}"
    return f"{move.name} of seat {move.seat - 1}"


def _ended(table: Table) -> str:
    return f"{table.winner} has won, {table.ending}"


def _fails(count: int | None) -> str:
    if count is None:
        return "an unknown number of fails"
    return "1 fail" if count == 1 else f"{_number(count)} fails"


def _yes(hit: bool) -> str:
    return "a hit" if hit else "a miss"


def _result(succeeded: bool) -> str:
    return "success" if succeeded else "fail"


def _results(results: Sequence[bool]) -> str:
    return ", ".join(map(_result, results)) or "none"


def _aim(shot: RecordedShot | None) -> str:
    if shot is None:
        return "no shot"
    at = "an unknown seat" if shot.target is None else f"seat {shot.target - 1}"
    return f"{_yes(shot.hit)} of {at}"
