"""Writes our games and judgements in the authors' format, so that their scripts can read them.

Their files have some data that our log lacks (prompts, times, the order and blanks of names in a team), and
our log has some that their files lack (snippets, comments of raters). Neither kind is written.
"""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.events import (
    AssassinationMade,
    BeliefsFormed,
    CardPlayed,
    ChoiceExplained,
    Event,
    IntentionsSelected,
    ProposalOpened,
    QuestResolved,
    ReadingsImagined,
    RoundSummarised,
    SpeechDrafted,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VotesRevealed,
)
from engine.intentions import IntentionId
from engine.profile import INTERINTENT, RULES, Profile
from engine.state import State, fold
from engine.terms import Kind, Role, Seat
from engine.thoughts import Belief, Choice, Reading
from evaluators.authors.annotation import COLUMNS, STAGES
from evaluators.authors.conversation import ATTEMPT_OPENS, PROPOSED, ROUND_OPENS
from evaluators.authors.conversion import OWN_RATER, request_id
from evaluators.authors.labels import ROLE_NAMES, released_label, seat_name
from evaluators.authors.results import REJECTED
from evaluators.authors.run import annotation_file, natural
from evaluators.errors import InvalidRun
from evaluators.ground.judgements import Judgement

__all__ = ["write_game"]

_NAME: Final = re.compile(r"game_[A-Za-z0-9-][A-Za-z0-9.-]*")

_DECK: Final = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA)
"""The authors' deck, in their order."""


def write_game(name: str, log: Iterable[Event], judgements: Iterable[Judgement] = ()) -> dict[str, bytes]:
    """The files of one finished game by their path within a run folder; ``name`` has the form ``game_…``.

    The game's own annotation file has the judgements of the rater called ``annotation`` or, without that
    rater, of the first one. All raters except ``annotation`` have a file in ``agreement``. Raises InvalidRun
    for a game that the format cannot hold: an unfinished one, or one with other rules than profile
    ``interintent`` with five seats.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRun(
            f"a game's folder is called game_ and then letters, digits, dots or hyphens, got {name!r}"
        )
    state = fold(log)
    _fits(name, state)
    record = _GameRecord(state)
    files = {
        "results.json": _json(_results(record)),
        "game_play_data.json": _json(_play_data(record)),
        "conversation.csv": _conversation(record),
    }
    written = {f"{name}/{file}": content for file, content in files.items()}
    return written | _annotations(name, record, judgements)


def _fits(name: str, state: State) -> None:
    profile = state.table.profile
    if not state.table.over or state.roles is None or state.table.winner is None:
        raise InvalidRun(f"{name}: expected a finished game with its deal, found another game")
    if any(None in tally.votes for tally in state.table.tallies):
        raise InvalidRun(f"{name}: expected every ballot, found some that the game's record lacks")
    differing = [rule for rule in RULES if getattr(profile, rule) != getattr(INTERINTENT, rule)]
    if set(profile.roles) != set(_DECK) or len(profile.roles) != len(_DECK):
        differing.insert(0, "roles")
    if differing:
        raise InvalidRun(
            f"{name}: the authors' layout holds games of profile interintent with five seats; here "
            f"{', '.join(f'{rule} is {_setting(profile, rule)}' for rule in differing)}"
        )


def _setting(profile: Profile, name: str) -> object:
    value = getattr(profile, name)
    return list(map(str, value)) if isinstance(value, tuple) else value


# --- the log, by attempt and seat -------------------------------------------------------------------


@dataclass(slots=True)
class _Turn:
    """The actions and thoughts of one seat in one attempt."""

    beliefs: tuple[Belief, ...] = ()
    first: tuple[Choice, ...] = ()
    first_why: str = ""
    final: tuple[Choice, ...] | None = None
    changed: bool = False
    modified_why: str = ""
    formulation: SpeechDrafted | None = None
    refinement: SpeechDrafted | None = None
    readings: tuple[Reading, ...] | None = None
    text: str = ""
    why: dict[Kind, list[str]] = field(default_factory=lambda: defaultdict(list))
    card: bool | None = None
    summary: tuple[tuple[str, str], ...] | None = None

    @property
    def modification_answered(self) -> bool:
        """Whether the seat answered the step of modification with a list."""
        return self.changed or bool(self.modified_why)


@dataclass(slots=True)
class _Attempt:
    round: int
    number: int
    leader: Seat
    turns: dict[Seat, _Turn]
    proposed: tuple[Seat, ...] = ()
    team: tuple[Seat, ...] = ()
    reconsidered: str = ""
    votes: VotesRevealed | None = None
    quest: QuestResolved | None = None

    @property
    def order(self) -> tuple[Seat, ...]:
        """The seats in the order of speaking."""
        players = len(self.turns)
        return tuple((self.leader - 1 + step) % players + 1 for step in range(players))


class _GameRecord:
    """A finished game's log, sorted by attempt and seat."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.attempts: list[_Attempt] = []
        self.shot: AssassinationMade | None = None
        for event in state.log:
            self._add(event)

    def key(self, attempt: _Attempt) -> int:
        """The key of an attempt in results.json."""
        rejected = any((other.round, other.number) == (attempt.round, 2) for other in self.attempts)
        return attempt.round + REJECTED * (rejected and attempt.number == 1)

    def role(self, seat: Seat) -> str:
        assert self.state.roles is not None
        return ROLE_NAMES[self.state.roles[seat - 1]]

    def _add(self, event: Event) -> None:
        if isinstance(event, ProposalOpened):
            players = range(1, self.state.table.players + 1)
            self.attempts.append(
                _Attempt(event.round, event.attempt, event.leader, {seat: _Turn() for seat in players})
            )
            return
        if not self.attempts:
            return
        attempt = self.attempts[-1]
        match event:
            case TeamProposed():
                attempt.proposed = attempt.team = event.team
            case TeamConfirmed():
                attempt.team = event.team
            case VotesRevealed():
                attempt.votes = event
            case QuestResolved():
                attempt.quest = event
            case AssassinationMade():
                self.shot = event
            case UtteranceMade(phase="reconsider"):
                attempt.reconsidered = event.text
            case UtteranceMade():
                attempt.turns[event.seat].text = event.text
            case BeliefsFormed():
                attempt.turns[event.seat].beliefs = event.beliefs
            case IntentionsSelected(stage="first"):
                attempt.turns[event.seat].first = event.intentions
                attempt.turns[event.seat].first_why = _first_reason(event)
            case IntentionsSelected():
                attempt.turns[event.seat].final = event.intentions
                attempt.turns[event.seat].changed = event.changed
                attempt.turns[event.seat].modified_why = event.reason
            case SpeechDrafted(stage="formulation"):
                attempt.turns[event.seat].formulation = event
            case SpeechDrafted():
                attempt.turns[event.seat].refinement = event
            case ReadingsImagined():
                attempt.turns[event.seat].readings = event.readings
            case ChoiceExplained():
                attempt.turns[event.seat].why[event.about].append(event.text)
            case CardPlayed():
                attempt.turns[event.seat].card = event.success
            case RoundSummarised():
                attempt.turns[event.seat].summary = event.answers


def _labels(chosen: Iterable[Choice]) -> list[str]:
    return [released_label(choice.id) for choice in chosen]


def _first_reason(event: IntentionsSelected) -> str:
    """The reason for a whole first selection, as in the files; else the first one for a single intention."""
    return event.reason or next((choice.reason for choice in event.intentions if choice.reason), "")


def _first(texts: Sequence[str]) -> str:
    return texts[0] if texts else ""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


# --- results.json -----------------------------------------------------------------------------------


def _results(record: _GameRecord) -> dict[str, Any]:
    return {
        seat_name(seat): {
            "role": record.role(seat),
            **{str(record.key(attempt)): _steps(record, attempt, seat) for attempt in record.attempts},
        }
        for seat in range(1, record.state.table.players + 1)
    }


def _steps(record: _GameRecord, attempt: _Attempt, seat: Seat) -> dict[str, Any]:
    turn = attempt.turns[seat]
    steps: dict[str, Any] = {}
    if turn.beliefs:
        steps["first_order"] = [{"first_order": _belief(belief)} for belief in turn.beliefs]
    steps["intent"] = [{"intents": _labels(turn.first), "think": turn.first_why}]
    draft = turn.formulation
    steps["formulation_con"] = [
        {"think": draft.think if draft else "", "speech": draft.speak if draft else ""}
    ]
    if turn.final is not None and turn.modification_answered:
        steps["intent_modification"] = [{"new_intents": _labels(turn.final), "think": turn.modified_why}]
    refined = turn.refinement
    steps["discussion"] = [{"think": refined.think if refined else "", "speech": turn.text}]
    if seat == attempt.leader:
        thought = _first(turn.why[Kind.RECONSIDER])
        steps["reconsider_team"] = [{"think": thought, "speech": attempt.reconsidered}]
    assert attempt.votes is not None
    agree = "agree" if attempt.votes.votes[seat - 1] else "disagree"
    steps["vote"] = [{"vote_result": agree, "think": _first(turn.why[Kind.VOTE])}]
    if turn.card is not None:
        why = turn.why[Kind.CARD]
        result = "success" if turn.card else "failure"
        steps["action"] = [{"action_result": result, "think": _first(why), "context_answers": why[1:]}]
    if turn.summary:
        steps["summary"] = [{"summary": _summary(turn.summary)}]
    return steps


def _belief(belief: Belief) -> dict[str, Any]:
    belief_json: dict[str, Any] = {"playerName": seat_name(belief.about)}
    if belief.role is not None:
        belief_json["role"] = ROLE_NAMES[belief.role]
    if belief.intentions:
        # The key is not "intent", since the authors' scripts take any list under that key for a selection.
        belief_json["intents"] = [released_label(intention) for intention in belief.intentions]
    if belief.reasoning:
        belief_json["reasoning"] = belief.reasoning
    if belief.confidence is not None:
        belief_json["confidence"] = belief.confidence
    return belief_json


_NUMBERED: Final = re.compile(r"(question|answer)_(\d+)")


def _summary(answers: Sequence[tuple[str, str]]) -> str:
    if [question for question, _ in answers] == ["summary"]:
        return answers[0][1]
    return json.dumps({"Answers": [_answer(question, text) for question, text in answers]})


def _answer(question: str, text: str) -> str:
    match = _NUMBERED.fullmatch(question)
    if match is None:
        return f"{question} - {text}"
    return f"Question {match[2]} - {text}" if match[1] == "question" else text


# --- game_play_data.json ----------------------------------------------------------------------------


def _play_data(record: _GameRecord) -> dict[str, Any]:
    assert record.state.roles is not None
    seat_with = {role: seat for seat, role in enumerate(record.state.roles, 1)}
    teams: dict[str, list[str]] = {str(round_): [] for round_ in range(1, 6)}
    cards: dict[str, dict[str, str]] = {str(round_): {} for round_ in range(1, 6)}
    results: dict[str, int | None] = {str(round_): None for round_ in range(1, 6)}
    leaders = {}
    for attempt in record.attempts:
        leaders[str(record.key(attempt))] = seat_name(attempt.leader)
        if attempt.quest is not None:
            key = str(attempt.round)
            teams[key] = [seat_name(seat) for seat in attempt.team]
            results[key] = int(attempt.quest.succeeded)
            cards[key] = {
                seat_name(seat): "success" if attempt.turns[seat].card else "failure"
                for seat in attempt.team
                if attempt.turns[seat].card is not None
            }
    return {
        "character_to_player": {ROLE_NAMES[role]: seat_name(seat_with[role]) for role in _DECK},
        "round_team_members": teams,
        "team_quest_result": cards,
        "quest_results": results,
        "round_leaders": leaders,
    }


# --- conversation.csv -------------------------------------------------------------------------------

_COLUMNS: Final = ("agent_name", "visible_to", "content", "turn", "timestamp", "msg_type")
_MODERATOR: Final = "Moderator"


class _ConversationTable:
    """The rows of conversation.csv, with the Moderator's lines that the authors' scripts search for."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []
        self.turn = 0

    def add(self, by: str, to: str, content: str, kind: str = "") -> None:
        self.rows.append((by, to, content, str(self.turn), "0", kind))


def _conversation(record: _GameRecord) -> bytes:
    table = _ConversationTable()
    for attempt in record.attempts:
        table.turn = attempt.round
        _speeches(table, record, attempt)
        _decisions(table, record, attempt)
    if record.shot is not None:
        table.add(_MODERATOR, "all", "The game is over! The loyal team wins! We move to the assassin phase.")
        shooter = record.shot.assassin
        target = "nobody in particular" if record.shot.target is None else seat_name(record.shot.target)
        table.add(f"{seat_name(shooter)}({record.role(shooter)})", "all", target, "text")
        ended = "succeed! The game is over. Evil" if record.shot.hit else "failed! The game is over. Loyal"
        table.add(_MODERATOR, "all", f"Assassin {ended} team wins!")
    else:
        table.add(_MODERATOR, "all", "The game is over! Evil team wins!")
    return _table(_COLUMNS, table.rows)


def _speeches(table: _ConversationTable, record: _GameRecord, attempt: _Attempt) -> None:
    leader = seat_name(attempt.leader)
    if attempt.number == 1:
        table.add(
            _MODERATOR,
            "all",
            f"{ROUND_OPENS} {attempt.round}. For this round, the leader is {leader}",
        )
    else:
        table.add(_MODERATOR, "all", f"{ATTEMPT_OPENS} {leader.lower()}")
    if attempt.number == 2 or attempt.round == 1:
        table.add(_MODERATOR, "all", "Now the leader choose your teammates and explain why.")
    for seat in attempt.order:
        name = seat_name(seat)
        if seat != attempt.leader:
            table.add(_MODERATOR, "all", f"{name}, respond with your views on the team proposal")
        _mechanism(table, record, attempt.turns[seat], seat)
        text = attempt.turns[seat].text
        content = f"{_proposal(attempt.proposed)}{text}" if seat == attempt.leader else text
        table.add(f"{name}({record.role(seat)})", "all", content, "discussion")


def _proposal(team: Sequence[Seat]) -> str:
    return f"{PROPOSED} {','.join(map(seat_name, team))}.\n"


def _mechanism(table: _ConversationTable, record: _GameRecord, turn: _Turn, seat: Seat) -> None:
    name = seat_name(seat)
    full = f"{name}({record.role(seat)})"
    for belief in turn.beliefs:
        table.add(_MODERATOR, name, f"Analyze {seat_name(belief.about)}", "first_order")
        table.add(full, name, str(_belief(belief)), "first_order")
    table.add(_MODERATOR, name, "Choose your intents", "intent")
    table.add(name, name, str(_labels(turn.first)), "intent")
    table.add(full, name, turn.first_why, "intent")
    if turn.formulation is not None:
        table.add(full, name, f"Think:{turn.formulation.think}", "formulation_con")
        table.add(full, name, f"Speech:{turn.formulation.speak}", "formulation_con")
    if turn.readings is not None:
        table.add(full, name, _readings(turn.readings), "second_order")
    table.add(_MODERATOR, name, "Keep or change your intents", "intent_modification")
    modified = turn.final if turn.modification_answered else ()
    table.add(name, name, str(_labels(modified or ())), "intent")
    table.add(full, name, turn.modified_why, "intent")
    if turn.refinement is not None:
        table.add(full, name, turn.refinement.think, "thinking")


def _readings(readings: Sequence[Reading]) -> str:
    if [reading.by for reading in readings] == ["everybody"]:
        return readings[0].text
    return str({_reader(reading.by): reading.text for reading in readings})


def _reader(by: str) -> str:
    if by.startswith("seat "):
        return seat_name(int(by.removeprefix("seat ")))
    return by.capitalize()


def _decisions(table: _ConversationTable, record: _GameRecord, attempt: _Attempt) -> None:
    leader = seat_name(attempt.leader)
    full = f"{leader}({record.role(attempt.leader)})"
    why = attempt.turns[attempt.leader].why[Kind.RECONSIDER]
    table.add(_MODERATOR, leader, "Now, do you want to change your team proposal?")
    if why:
        table.add(full, leader, why[0], "thinking")
    for answer in why[1:]:
        table.add(full, leader, answer, "answer")
    table.add(full, "all", f"{_proposal(attempt.team)}{attempt.reconsidered}", "discussion")
    assert attempt.votes is not None
    votes = {
        seat_name(seat): "agree" if vote else "disagree" for seat, vote in enumerate(attempt.votes.votes, 1)
    }
    table.add(_MODERATOR, "all", f"The vote result for this round is: {votes}")
    for seat in attempt.team:
        card = attempt.turns[seat].card
        if attempt.quest is not None and card is not None:
            by = f"{seat_name(seat)}({record.role(seat)})"
            table.add(by, seat_name(seat), "success" if card else "failure", "action")
    if attempt.quest is not None:
        fails = attempt.quest.fails
        result = (
            "Nice, the quest is successful!" if attempt.quest.succeeded else "The quest is failed, there are "
        )
        table.add(_MODERATOR, "all", result if attempt.quest.succeeded else f"{result}{fails} fail choice")
    for seat, turn in attempt.turns.items():
        if turn.summary:
            by = f"{seat_name(seat)}({record.role(seat)})"
            table.add(by, seat_name(seat), _summary(turn.summary), "summary")


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


# --- annotation files -------------------------------------------------------------------------------

_ByStage = Mapping[tuple[str, str, IntentionId], Judgement]


def _annotations(name: str, record: _GameRecord, judgements: Iterable[Judgement]) -> dict[str, bytes]:
    by_rater: dict[str, dict[tuple[str, str, IntentionId], Judgement]] = {}
    for judgement in judgements:
        by_rater.setdefault(judgement.rater, {})[
            judgement.request_id, judgement.stage, judgement.intention
        ] = judgement
    file = annotation_file(name)
    raters = sorted(by_rater, key=natural)
    if not raters:
        return {f"{name}/{file}": _annotation(record, {})}
    own = OWN_RATER if OWN_RATER in by_rater else raters[0]
    written = {f"{name}/{file}": _annotation(record, by_rater[own])}
    folders = _folders([rater for rater in raters if rater != OWN_RATER])
    for rater, folder in folders.items():
        written[f"agreement/{folder}/{file}"] = _annotation(record, by_rater[rater])
    return written


def _folders(raters: Sequence[str]) -> dict[str, str]:
    """A folder name for each rater: its own name, with characters that are safe in a path."""
    folders: dict[str, str] = {}
    for rater in raters:
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", rater).strip(".-") or "rater"
        folder, number = safe, 1
        while folder in folders.values():
            number += 1
            folder = f"{safe}-{number}"
        folders[rater] = folder
    return folders


def _annotation(record: _GameRecord, by_stage: _ByStage) -> bytes:
    rows: list[dict[str, str]] = []
    for attempt in record.attempts:
        for seat in attempt.order:
            turn = attempt.turns[seat]
            request = request_id(attempt.round, attempt.number, seat, attempt.leader)
            final = turn.first if turn.final is None else turn.final
            cells = {
                "player": seat_name(seat),
                "round": str(attempt.round),
                "is_secondary_round": str(attempt.number == 2),
            }
            for stage, chosen in (("first", turn.first), ("final", final)):
                columns = STAGES[stage]  # type: ignore[index]
                scored = [by_stage.get((request, stage, choice.id)) for choice in chosen]
                cells[columns.labels] = str(_labels(chosen))
                cells[columns.selection] = _scores(_reasonable(by_stage, request, stage, chosen, turn))
                cells[columns.think] = _scores(
                    [None if judgement is None else judgement.think for judgement in scored]
                )
                cells[columns.speech] = _scores(
                    [None if judgement is None else judgement.speak for judgement in scored]
                )
            rows.append(cells)
    for columns in STAGES.values():
        for column in (columns.selection, columns.think, columns.speech):
            _keep_text(rows, column)
    return _table(COLUMNS, [[row.get(column, "") for column in COLUMNS] for row in rows])


def _reasonable(
    by_stage: _ByStage, request: str, stage: str, chosen: Sequence[Choice], turn: _Turn
) -> list[int | None]:
    """1 or 0 for each choice.

    A selection that was kept is judged once in our data and twice in theirs, and their scripts leave out a
    stage without marks. If the second speech was judged and its selection was not, the first marks count for
    both stages.
    """

    def marks(stage: str) -> list[int | None]:
        scored = [by_stage.get((request, stage, choice.id)) for choice in chosen]
        return [
            None if judgement is None or judgement.reasonable is None else int(judgement.reasonable)
            for judgement in scored
        ]

    marks_here = marks(stage)
    kept = {choice.id for choice in chosen} == {choice.id for choice in turn.first}
    judged = any((request, stage, choice.id) in by_stage for choice in chosen)
    if stage == "final" and kept and judged and all(mark is None for mark in marks_here):
        return marks("first")
    return marks_here


def _keep_text(rows: Sequence[dict[str, str]], column: str) -> None:
    """Adds a comma after one score of a column of single scores and blanks, which makes the whole column
    text. The authors' scripts would read it as numbers, and 1.0 as the two scores 1 and 0.
    """
    filled = [row for row in rows if row.get(column)]
    if filled and len(filled) < len(rows) and not any("," in row[column] for row in filled):
        filled[0][column] += ","


def _scores(scores: Sequence[int | None]) -> str:
    """Joins scores by commas. Missing scores at the end are left out, as in the authors' files. If one is
    missing before others, all places are written, with blanks, so that each score keeps its place.
    """
    trimmed = list(scores)
    while trimmed and trimmed[-1] is None:
        trimmed.pop()
    if None in trimmed:
        trimmed = list(scores)
    return ",".join("" if score is None else str(score) for score in trimmed)
