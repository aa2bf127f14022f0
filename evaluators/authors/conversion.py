"""Converts a game of the authors into a finished game of ours, with thoughts and judgements.

Every action is played through ``decide``. The consequences in the files (leader, result, end) are compared
with what the rules give, and the first difference is refused.

What the files lack stays unknown: the seed, the confidence in a belief, and the card of a member that never
acted. Nor do the files say whether a seat thought that its speech reveals its role; the event has no value
for unknown, so it says no.
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
from engine.intentions import IntentionId, normalise
from engine.profile import make_profile
from engine.rules import Answers, create, decide
from engine.state import State, apply, fold
from engine.terms import Kind, Phase, Seat
from engine.thoughts import Belief, Choice, SelectionStage
from evaluators.authors.annotation import AnnotationRow, AnnotationScores
from evaluators.authors.conversation import Names
from evaluators.authors.labels import role_of, seat_name, seat_of
from evaluators.authors.results import AuthorsGuess, AuthorsTurn
from evaluators.authors.run import AuthorsGame, Run, annotation_file
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement

__all__ = ["OWN_RATER", "ConvertedGame", "content_id", "convert", "judgements_of", "request_id"]

OWN_RATER: Final = "annotation"
"""The rater of a game folder's own annotation file, unless it equals an annotator's file."""


@dataclass(frozen=True, slots=True)
class ConvertedGame:
    """A converted game of a run."""

    name: str
    """The name of the game's folder."""
    game_id: str
    """Derived from the log: the same files give the same id."""
    state: State
    """The state of the finished game, with its log."""
    team_names: Mapping[tuple[int, int], tuple[Names, Names]]
    """The names of the proposed and of the reconsidered team, as written, by round and attempt. Our log has
    the teams in ascending order."""
    rows: tuple[str, ...]
    """The requests with a row in the game's own annotation file."""
    modified_rows: int
    """The number of these rows with an ``intent_mod`` cell."""
    rater: str
    """The rater of the game's own annotation file."""
    judgements: tuple[Judgement, ...]
    """The judgements of all raters."""
    odd: tuple[str, ...]
    """Sentences about the parts that had to be left out, or read in another way than written."""


def convert(run: Run, game: AuthorsGame) -> ConvertedGame:
    """Plays a game of the run by the rules. Raises InvalidRun."""
    played = _PlayedGame(game)
    played.play()
    game_id = content_id(played.state.log)
    reader = _JudgementReader(played, game_id)
    own = reader.judgements(game.annotation, OWN_RATER)
    rater = OWN_RATER
    judgements: list[Judgement] = []
    file = annotation_file(game.name)
    for annotator in sorted(run.annotators):
        rows = run.annotators[annotator].get(file)
        if rows is None:
            continue
        of_annotator = reader.judgements(rows, annotator)
        judgements += of_annotator
        if (
            rater == OWN_RATER
            and own
            and of_annotator == [replace(judgement, rater=annotator) for judgement in own]
        ):
            # The same table twice is from one rater, not from two who agree on everything.
            rater = annotator
    if rater == OWN_RATER:
        judgements = own + judgements
    return ConvertedGame(
        name=game.name,
        game_id=game_id,
        state=played.state,
        team_names=played.team_names,
        rows=tuple(reader.request(row) for row in game.annotation),
        modified_rows=sum(row.modified for row in game.annotation),
        rater=rater,
        judgements=tuple(judgements),
        odd=(*game.odd, *dict.fromkeys(played.odd)),
    )


def judgements_of(games: Iterable[ConvertedGame]) -> tuple[Judgement, ...]:
    """All judgements of these games, game by game."""
    return tuple(judgement for game in games for judgement in game.judgements)


_ALPHABET: Final = "23456789abcdefghijkmnpqrstuvwxyz"


def content_id(log: Iterable[Event]) -> str:
    """A game id computed as a digest of the log, in the format of the service's ids."""
    digest = blake2b(digest_size=13)
    for event in log:
        line = {"type": type_name(event), **payload(event)}
        digest.update(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    bits = int.from_bytes(digest.digest(), "big")
    return "g_" + "".join(_ALPHABET[(bits >> shift) & 31] for shift in range(0, 100, 5))


def request_id(round_: int, attempt: int, seat: Seat, leader: Seat) -> str:
    """The request of a seat's speaking turn; the leader's turn is its proposal."""
    kind = Kind.PROPOSE_TEAM if seat == leader else Kind.SPEAK
    return f"{round_}.{attempt}.{kind}.{seat}"


# --- playing ----------------------------------------------------------------------------------------


class _PlayedGame:
    """Plays a game of the authors step by step."""

    def __init__(self, game: AuthorsGame) -> None:
        self.game = game
        self.odd: list[str] = []
        self.team_names: dict[tuple[int, int], tuple[Names, Names]] = {}
        roles = game.results.roles
        deal = [roles[seat] for seat in sorted(roles)]
        try:
            profile = make_profile("interintent", len(deal), roles=deal)
            names = [seat_name(seat) for seat in sorted(roles)]
            self.state = fold(create(profile, None, names=names, deal=deal))
        except InvalidProfile as fault:
            raise InvalidRun(f"{game.quests.location.file}: {fault}") from None
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
        self.team_names[round_, attempt] = (before, after)
        opening = turns[leader]
        thoughts = self.thoughts(opening, leader, attempt)
        self.act([(leader, ProposeTeam(self.seats(before), opening.discussion.speech, thoughts))])
        while table.phase is Phase.DISCUSS:
            seat = table.speaker
            turn = turns[seat]
            self.act([(seat, Speak(turn.discussion.speech, self.thoughts(turn, seat, attempt)))])
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
            turn.location.refuse("the step 'reconsider_team' of the leader", "none")
        answer = self.game.conversation.answers.get((self.table.round, attempt, leader), "")
        why = self.explained(leader, Kind.RECONSIDER, step.think, answer)
        return Reconsider(self.seats(after), step.speech, why)

    def vote(self, turn: AuthorsTurn, seat: Seat) -> CastVote:
        if turn.vote not in ("agree", "disagree"):
            # The authors' program counts only votes that equal "agree".
            self.odd.append(
                f"{turn.location.at('vote').file}: {seat_name(seat)} voted {turn.vote!r}: disagree"
            )
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
                why = [text for action in turns[seat].actions for text in (action.think, *action.answers)]
                played.append((seat, PlayCard(cards[seat], self.explained(seat, Kind.CARD, *why))))
            else:
                self.odd.append(
                    f"{self.game.name}: round {round_}: {seat_name(seat)} is on the team and never acted: "
                    "its card is unknown"
                )
        if others := sorted(set(cards) - set(table.team)):
            self.refuse(f"cards of the team {list(table.team)}", f"one of {seat_name(others[0])}")
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
            self.odd.append(f"{turn.location.file}: {' / '.join(turn.location.keys)}: no summary")
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
        """The steps of the mechanism that the files record."""
        thoughts: list[Thought] = []
        if beliefs := tuple(filter(None, (self.belief(turn, seat, guess) for guess in turn.guesses))):
            thoughts.append(BeliefsFormed(seat, beliefs))
        first = self.labels(turn, turn.first)
        # An empty selection in the files becomes no event.
        if first:
            chosen = tuple(Choice(intention, turn.first_why) for intention in first)
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
            chosen = tuple(map(Choice, final))
            thoughts.append(IntentionsSelected(seat, "final", chosen, changed, turn.modified_why))
        thoughts.append(SpeechDrafted(seat, "refinement", turn.discussion.think, turn.discussion.speech))
        return tuple(thoughts)

    def belief(self, turn: AuthorsTurn, seat: Seat, guess: AuthorsGuess) -> Belief | None:
        where = f"{turn.location.file}: {' / '.join(turn.location.keys)}: first_order"
        if guess.about == seat or not 1 <= guess.about <= self.table.players:
            self.odd.append(f"{where}: about {seat_name(guess.about)}: left out")
            return None
        role = None if guess.role is None else role_of(guess.role)
        deck = self.table.profile.roles
        own = self.state.hand(seat).role
        if guess.role is not None and (role is None or deck.count(role) - (role is own) < 1):
            self.odd.append(f"{where}: nobody else can be {guess.role!r}: no role")
            role = None
        intentions = self.labels(turn, guess.intents)
        return Belief(guess.about, role, intentions, guess.confidence, (), guess.reasoning)

    def labels(self, turn: AuthorsTurn, labels: Sequence[str]) -> tuple[IntentionId, ...]:
        """The intentions that the labels name, without repetitions."""
        intentions: list[IntentionId] = []
        where = f"{turn.location.file}: {' / '.join(turn.location.keys)}"
        for label in labels:
            intention = normalise(label)
            if intention is None:
                self.odd.append(f"{where}: no intention is called {label!r}: left out")
            elif intention in intentions:
                self.odd.append(f"{where}: {label!r} twice: taken once")
            else:
                intentions.append(intention)
        return tuple(intentions)


_QUESTION: Final = re.compile(r"Question (\d{1,2}) - (.*)", re.DOTALL)


def summary_answers(text: str) -> tuple[tuple[str, str], ...]:
    """The answers of a summary by question. A text without a list of answers is one answer; an empty text is
    none.
    """
    try:
        listed = json.loads(text)["Answers"]
        answers = [str(answer) for answer in listed] if isinstance(listed, list) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        answers = None
    if answers is None:
        return (("summary", text),) if text else ()
    numbered = [_QUESTION.fullmatch(answer) for answer in answers]
    named = [(f"question_{match[1]}", match[2]) for match in numbered if match]
    if len(dict(named)) == len(answers):
        return tuple(named)
    return tuple((f"answer_{number}", answer) for number, answer in enumerate(answers, 1))


# --- judging ----------------------------------------------------------------------------------------


class _JudgementReader:
    """Converts the rows of annotators into judgements."""

    def __init__(self, played: _PlayedGame, game_id: str) -> None:
        self.played = played
        self.game_id = game_id

    def request(self, row: AnnotationRow) -> str:
        """The request of a row's turn. Raises InvalidRun if the game has no such turn."""
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
        """One judgement for each label that has a score.

        If a cell has fewer scores than labels, they belong to the first labels, as in the released scripts.
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
        for index, label in enumerate(scores.labels):
            intention = normalise(label)
            if intention is None:
                self.played.odd.append(
                    f"{row.file}: row {row.row}: no intention is called {label!r}: left out"
                )
            elif intention not in by_intention:
                selection, think, speech = (
                    values[index] if index < len(values) else None for values in columns
                )
                if (selection, think, speech) != (None, None, None):
                    reasonable = None if selection is None else bool(selection)
                    by_intention[intention] = Judgement(
                        self.game_id, request, stage, intention, reasonable, think, speech, rater
                    )
        return list(by_intention.values())
