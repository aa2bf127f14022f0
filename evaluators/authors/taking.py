"""A game of theirs → a finished game of ours, with thoughts and judgements.

Everything is played through ``decide``; what a file says of a consequence (leader, result, end) is
compared with what follows by the rules, and the first difference is refused.

What their files do not tell stays unknown: no seed, no confidence in a belief, no card of a member
that never acted. Whether a seat thought its speech gives the role away is not told either; the event
has no third value, so it says no.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, NoReturn

from engine.actions import (
    Action,
    Assassinate,
    CastVote,
    PlayCard,
    ProposeTeam,
    Reconsider,
    RecordQuest,
    RecordShot,
    Speak,
    Summarise,
)
from engine.errors import IllegalAction, InvalidProfile
from engine.events import (
    BeliefsFormed,
    ChoiceExplained,
    Event,
    IntentionsSelected,
    QuestResolved,
    ReadingsImagined,
    SpeechDrafted,
    Thought,
    payload,
    type_name,
)
from engine.intentions import IntentionId
from engine.profile import make_profile
from engine.rules import Answers, create, decide
from engine.state import State, apply, fold
from engine.terms import Kind, Phase, Seat
from engine.thoughts import Belief, Choice, SelectionStage
from evaluators.authors.annotation import AnnotationRow, AnnotationScores
from evaluators.authors.conversation import Names
from evaluators.authors.labels import intention_of, role_of, seat_name, seat_of
from evaluators.authors.results import AuthorsTurn
from evaluators.authors.run import AuthorsGame, Run
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement

__all__ = ["OWN_RATER", "TakenGame", "content_id", "judgements_of", "request_id", "take"]

OWN_RATER: Final = "annotation"
"""Who filled a game folder's own annotation file, where no annotator's file equals it."""


@dataclass(frozen=True, slots=True)
class TakenGame:
    """One game of a run as ours."""

    name: str
    """Its folder's."""
    game_id: str
    """Derived from the log: the same files give the same id."""
    state: State
    """Finished; the log is in it."""
    written: Mapping[tuple[int, int], tuple[Names, Names]]
    """By round and attempt: the team's names as written, as proposed and as reconsidered. Our log holds
    the teams ascending."""
    rows: tuple[str, ...]
    """The requests that the game's own annotation file has a row for."""
    modified_rows: int
    """Those of them with an ``intent_mod`` cell."""
    rater: str
    """Who filled that file."""
    judgements: tuple[Judgement, ...]
    """Of every rater."""
    odd: tuple[str, ...]
    """What had to be left out or read otherwise than written, in words."""


def take(run: Run, game: AuthorsGame) -> TakenGame:
    """Plays a game of the run through the rules. Raises InvalidRun."""
    played = _PlayedGame(game)
    played.play()
    game_id = content_id(played.state.log)
    judging = _Judging(played, game_id)
    own = judging.judgements(game.annotation, OWN_RATER)
    rater = OWN_RATER
    judgements: list[Judgement] = []
    file = run.annotation_file(game.name)
    for annotator in sorted(run.annotators):
        rows = run.annotators[annotator].get(file)
        if rows is None:
            continue
        theirs = judging.judgements(rows, annotator)
        judgements += theirs
        if rater == OWN_RATER and own and theirs == [replace(one, rater=annotator) for one in own]:
            # The same table twice: one rater's, not two who agree on everything.
            rater = annotator
    if rater == OWN_RATER:
        judgements = own + judgements
    return TakenGame(
        name=game.name,
        game_id=game_id,
        state=played.state,
        written=played.written,
        rows=tuple(judging.request(row) for row in game.annotation),
        modified_rows=sum(row.modified for row in game.annotation),
        rater=rater,
        judgements=tuple(judgements),
        odd=(*game.odd, *dict.fromkeys(played.odd)),
    )


def judgements_of(taken: Iterable[TakenGame]) -> tuple[Judgement, ...]:
    """All that raters say of the games of a run, game by game."""
    return tuple(one for game in taken for one in game.judgements)


_ALPHABET: Final = "23456789abcdefghijkmnpqrstuvwxyz"


def content_id(log: Iterable[Event]) -> str:
    """A game id that is a digest of the log, in the form of the service's ids."""
    digest = blake2b(digest_size=13)
    for event in log:
        line = {"type": type_name(event), **payload(event)}
        digest.update(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    bits = int.from_bytes(digest.digest(), "big")
    return "g_" + "".join(_ALPHABET[(bits >> shift) & 31] for shift in range(0, 100, 5))


def request_id(round_: int, attempt: int, seat: Seat, leader: Seat) -> str:
    """The speaking turn of a seat: the leader's is its proposal."""
    kind = Kind.PROPOSE_TEAM if seat == leader else Kind.SPEAK
    return f"{round_}.{attempt}.{kind}.{seat}"


# --- playing ----------------------------------------------------------------------------------------


class _PlayedGame:
    """A game of theirs and what of it has been played."""

    def __init__(self, game: AuthorsGame) -> None:
        self.game = game
        self.odd: list[str] = []
        self.written: dict[tuple[int, int], tuple[Names, Names]] = {}
        roles = game.results.roles
        deal = [roles[seat] for seat in sorted(roles)]
        try:
            profile = make_profile("interintent", len(deal), roles=deal)
            names = [seat_name(seat) for seat in sorted(roles)]
            self.state = fold(create(profile, None, names=names, deal=deal))
        except InvalidProfile as fault:
            raise InvalidRun(f"{game.quests.spot.file}: {fault}") from None
        self.table = self.state.table

    def refuse(self, expected: str, found: object) -> NoReturn:
        table = self.table
        raise InvalidRun(
            f"{self.game.name}: round {table.round}, attempt {table.attempt}: expected {expected}, "
            f"found {found}"
        )

    def act(self, answers: Answers) -> tuple[Event, ...]:
        try:
            events = decide(self.state, answers, foreign=True)
        except IllegalAction as refusal:
            table = self.table
            raise InvalidRun(
                f"{self.game.name}: round {table.round}, attempt {table.attempt}: "
                f"the rules do not allow it: {refusal}"
            ) from None
        apply(self.state, events)
        return events

    def play(self) -> None:
        game = self.game
        for round_ in game.rounds:
            for attempt, key in enumerate(game.keys(round_), 1):
                if self.table.over or self.table.phase is not Phase.PROPOSE:
                    self.refuse(f"the end of the game ({self.table.phase})", f"round {round_} going on")
                if (self.table.round, self.table.attempt) != (round_, attempt):
                    self.refuse(
                        f"round {self.table.round}, attempt {self.table.attempt} next",
                        f"round {round_}, attempt {attempt} in results.json",
                    )
                self.attempt(round_, attempt, key)
        if self.table.phase is Phase.ASSASSINATE:
            self.shoot()
        if not self.table.over:
            self.refuse("a finished game", f"nothing after it (phase {self.table.phase})")

    def turn(self, key: int, seat: Seat) -> AuthorsTurn:
        turn = self.game.results.turns.get((key, seat))
        if turn is None:
            raise InvalidRun(
                f"{self.game.name}/results.json: {seat_name(seat)}: expected the key {key}, found none"
            )
        return turn

    def attempt(self, round_: int, attempt: int, key: int) -> None:
        table = self.table
        leader = table.leader
        if (recorded := self.game.quests.leaders.get(key)) != leader:
            self.refuse(
                f"{seat_name(leader)} as leader", "nobody" if recorded is None else seat_name(recorded)
            )
        turns = {seat: self.turn(key, seat) for seat in range(1, table.players + 1)}
        before, after = self.teams(round_, attempt, leader)
        self.written[round_, attempt] = (before, after)
        opening = turns[leader]
        self.act(
            [
                (
                    leader,
                    ProposeTeam(
                        self.seats(before), opening.discussion.speech, self.thoughts(opening, leader, attempt)
                    ),
                )
            ]
        )
        while table.phase is Phase.DISCUSS:
            seat = table.speaker
            spoken = turns[seat]
            self.act([(seat, Speak(spoken.discussion.speech, self.thoughts(spoken, seat, attempt)))])
        self.act([(leader, self.reconsider(opening, leader, attempt, after))])
        self.act([(seat, self.vote(turn, seat)) for seat, turn in turns.items()])
        if table.phase is Phase.QUEST:
            self.quest(round_, turns)
        if table.phase is Phase.SUMMARY:
            self.act([(seat, self.summary(turn)) for seat, turn in turns.items()])

    def teams(self, round_: int, attempt: int, leader: Seat) -> tuple[Names, Names]:
        proposals = self.game.conversation.teams.get((round_, attempt, leader), ())
        if not proposals:
            self.refuse(
                f"the proposal of {seat_name(leader)} in conversation.csv (“The proposed team is - …”)",
                "none",
            )
        if len(proposals) == 1:
            self.odd.append(
                f"{self.game.name}: round {round_}, attempt {attempt}: one proposal of {seat_name(leader)}: "
                "taken as kept after the discussion"
            )
        return proposals[0], proposals[-1]

    def seats(self, names: Names) -> tuple[Seat, ...]:
        seats = []
        for name in names:
            seat = seat_of(name)
            if seat is None:
                raise InvalidRun(
                    f"{self.game.conversation.file}: round {self.table.round}: expected names such as "
                    f"Player3 in a team, found {name!r}"
                )
            seats.append(seat)
        return tuple(sorted(seats))

    def reconsider(self, turn: AuthorsTurn, leader: Seat, attempt: int, after: Names) -> Reconsider:
        step = turn.reconsidered
        if step is None:
            turn.spot.refuse("the step 'reconsider_team' of the leader", "none")
        answer = self.game.conversation.answers.get((self.table.round, attempt, leader), "")
        why = self.explained(leader, Kind.RECONSIDER, step.think, answer)
        return Reconsider(self.seats(after), step.speech, why)

    def vote(self, turn: AuthorsTurn, seat: Seat) -> CastVote:
        if turn.vote not in ("agree", "disagree"):
            # Their program counts what equals "agree", and nothing else.
            self.odd.append(f"{turn.spot.at('vote').file}: {seat_name(seat)} voted {turn.vote!r}: disagree")
        return CastVote(turn.vote == "agree", self.explained(seat, Kind.VOTE, turn.vote_why))

    def explained(self, seat: Seat, about: Kind, *texts: str) -> tuple[ChoiceExplained, ...]:
        return tuple(ChoiceExplained(seat, about, text) for text in texts if text)

    def quest(self, round_: int, turns: Mapping[Seat, AuthorsTurn]) -> None:
        table, quests = self.table, self.game.quests
        team = quests.teams.get(round_, ())
        if tuple(sorted(team)) != table.team:
            self.refuse(f"the team {list(table.team)} of the last proposal", f"{list(team)} in its file")
        if round_ not in quests.succeeded:
            self.refuse("a result of the quest", "none in game_play_data.json")
        cards = quests.cards.get(round_, {})
        played: list[tuple[Seat, Action]] = []
        for seat in table.team:
            if seat in cards:
                why = [text for acted in turns[seat].acted for text in (acted.think, *acted.answers)]
                played.append((seat, PlayCard(cards[seat], self.explained(seat, Kind.CARD, *why))))
            else:
                self.odd.append(
                    f"{self.game.name}: round {round_}: {seat_name(seat)} is on the team and never acted: "
                    "its card is unknown"
                )
        if strangers := sorted(set(cards) - set(table.team)):
            self.refuse(f"cards of the team {list(table.team)}", f"one of {seat_name(strangers[0])}")
        events = self.act(played) if played else ()
        if len(played) < len(table.team):
            fails = sum(not success for success in cards.values())
            events = self.act([(table.leader, RecordQuest(fails, fails == 0))])
        (resolved,) = (event for event in events if isinstance(event, QuestResolved))
        if resolved.succeeded is not quests.succeeded[round_]:
            self.refuse(
                f"quest_results {int(resolved.succeeded)}, as {resolved.fails} fails give",
                int(quests.succeeded[round_]),
            )

    def summary(self, turn: AuthorsTurn) -> Summarise:
        if turn.summary is None:
            self.odd.append(f"{turn.spot.file}: {' / '.join(turn.spot.keys)}: no summary")
            return Summarise(())
        return Summarise(summary_answers(turn.summary))

    def shoot(self) -> None:
        shooter = self.state.shooter
        assert shooter is not None
        shot = self.game.conversation.shot
        if shot is None:
            raise InvalidRun(
                f"{self.game.conversation.file}: expected the assassin's choice after the third success, "
                "found none; was the game broken off?"
            )
        if shot.target is None or not 1 <= shot.target <= self.table.players or shot.target == shooter:
            if shot.hit is None:
                raise InvalidRun(
                    f"{self.game.conversation.file}: expected the assassin to name a player, found no name"
                )
            self.odd.append(f"{self.game.name}: the assassin names no other player: target unknown")
            self.act([(shooter, RecordShot(shot.hit))])
            return
        assert self.state.roles is not None
        hit = self.state.roles[shot.target - 1].value == "merlin"
        if shot.hit is not None and shot.hit is not hit:
            self.odd.append(
                f"{self.game.name}: the assassin names {seat_name(shot.target)}, a {'hit' if hit else 'miss'}"
                "; the Moderator announces the contrary"
            )
        self.act([(shooter, Assassinate(shot.target))])

    # --- thoughts ---------------------------------------------------------------------------------

    def thoughts(self, turn: AuthorsTurn, seat: Seat, attempt: int) -> tuple[Thought, ...]:
        """The steps of the mechanism, as far as the files tell them."""
        thoughts: list[Thought] = []
        if beliefs := tuple(
            filter(None, (self.belief(turn, seat, place) for place in range(len(turn.guesses))))
        ):
            thoughts.append(BeliefsFormed(seat, beliefs))
        first = self.labels(turn, turn.first)
        # A seat that wrote down nothing of a step recorded nothing.
        if first:
            chosen = tuple(Choice(one, turn.first_why) for one in first)
            thoughts.append(IntentionsSelected(seat, "first", chosen, False))
        if turn.formulation.think or turn.formulation.speech:
            thoughts.append(
                SpeechDrafted(seat, "formulation", turn.formulation.think, turn.formulation.speech)
            )
        readings = self.game.conversation.readings.get((self.table.round, attempt, seat))
        if readings is not None:
            thoughts.append(ReadingsImagined(seat, readings, False))
        final = first if turn.modified is None else self.labels(turn, turn.modified)
        if final:
            changed = set(final) != set(first)
            stands = tuple(map(Choice, final))
            thoughts.append(IntentionsSelected(seat, "final", stands, changed, turn.modified_why))
        thoughts.append(SpeechDrafted(seat, "refinement", turn.discussion.think, turn.discussion.speech))
        return tuple(thoughts)

    def belief(self, turn: AuthorsTurn, seat: Seat, place: int) -> Belief | None:
        guess = turn.guesses[place]
        where = f"{turn.spot.file}: {' / '.join(turn.spot.keys)}: first_order"
        if guess.about == seat or not 1 <= guess.about <= self.table.players:
            self.odd.append(f"{where}: about {seat_name(guess.about)}: left out")
            return None
        role = None if guess.role is None else role_of(guess.role)
        deck = self.table.profile.roles
        own = self.state.hand(seat).role
        if guess.role is not None and (role is None or deck.count(role) - (role is own) < 1):
            self.odd.append(f"{where}: nobody else can be {guess.role!r}: no role")
            role = None
        intends = self.labels(turn, guess.intents)
        return Belief(guess.about, role, intends, guess.confidence, (), guess.reasoning)

    def labels(self, turn: AuthorsTurn, labels: Sequence[str]) -> tuple[IntentionId, ...]:
        """The intentions that the labels name, each once."""
        intentions: list[IntentionId] = []
        where = f"{turn.spot.file}: {' / '.join(turn.spot.keys)}"
        for label in labels:
            intention = intention_of(label)
            if intention is None:
                self.odd.append(f"{where}: no intention is called {label!r}: left out")
            elif intention in intentions:
                self.odd.append(f"{where}: {label!r} twice: taken once")
            else:
                intentions.append(intention)
        return tuple(intentions)


_QUESTION: Final = re.compile(r"Question (\d{1,2}) - (.*)", re.DOTALL)


def summary_answers(text: str) -> tuple[tuple[str, str], ...]:
    """The answers of a summary by question; a text that holds no list of answers is one answer."""
    try:
        listed = json.loads(text)["Answers"]
        answers = [str(one) for one in listed] if isinstance(listed, list) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        answers = None
    if answers is None:
        return (("summary", text),) if text else ()
    numbered = [_QUESTION.fullmatch(one) for one in answers]
    named = [(f"question_{match[1]}", match[2]) for match in numbered if match]
    if len(dict(named)) == len(answers):
        return tuple(named)
    return tuple((f"answer_{place}", one) for place, one in enumerate(answers, 1))


# --- judging ----------------------------------------------------------------------------------------


class _Judging:
    """Annotators' rows → judgements of the turns they are about."""

    def __init__(self, played: _PlayedGame, game_id: str) -> None:
        self.played = played
        self.game_id = game_id

    def request(self, row: AnnotationRow) -> str:
        """Raises InvalidRun where the row is about no turn of the game."""
        game = self.played.game
        keys = game.keys(row.round)
        key = keys[-1] if row.second else keys[0]
        if (key, row.seat) not in game.results.turns or (row.second and len(keys) == 1):
            raise InvalidRun(
                f"{row.file}: row {row.row}: expected a turn of the game, found {seat_name(row.seat)}, "
                f"round {row.round}, is_secondary_round {row.second}; results.json has no such turn"
            )
        return request_id(row.round, 1 + row.second, row.seat, game.quests.leaders[key])

    def judgements(self, rows: Sequence[AnnotationRow], rater: str) -> list[Judgement]:
        judgements: list[Judgement] = []
        for row in rows:
            request = self.request(row)
            judgements += self.stage(row, request, "first", row.first, rater)
            judgements += self.stage(row, request, "final", row.final, rater)
        return judgements

    def stage(
        self, row: AnnotationRow, request: str, stage: SelectionStage, scores: AnnotationScores, rater: str
    ) -> list[Judgement]:
        """A judgement a label that is scored at all.

        A cell with fewer scores than labels gives them to the first ones, as the released scripts do.
        """
        columns = (scores.selection, scores.think, scores.speech)
        wanted = len(scores.labels)
        for name, values in zip(("selection", "think", "speech"), columns, strict=True):
            known = sum(value is not None for value in values)
            if values and known != wanted:
                self.played.odd.append(
                    f"{row.file}: row {row.row}: {known} {name} scores of the {stage} stage for "
                    f"{wanted} intentions: taken in their order"
                )
        by_intention: dict[IntentionId, Judgement] = {}
        for place, label in enumerate(scores.labels):
            intention = intention_of(label)
            if intention is None:
                self.played.odd.append(
                    f"{row.file}: row {row.row}: no intention is called {label!r}: left out"
                )
            elif intention not in by_intention:
                selection, think, speech = (
                    values[place] if place < len(values) else None for values in columns
                )
                if (selection, think, speech) != (None, None, None):
                    reasonable = None if selection is None else bool(selection)
                    by_intention[intention] = Judgement(
                        self.game_id, request, stage, intention, reasonable, think, speech, rater
                    )
        return list(by_intention.values())
