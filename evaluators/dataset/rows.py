"""One game as rows of the tables of a data set. Keys and types are those of ``columns``."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.events import (
    CardPlayed,
    ChoiceExplained,
    GameEnded,
    ProposalOpened,
    QuestResolved,
    ReadingsImagined,
    TeamConfirmed,
    TeamProposed,
    VotesRevealed,
)
from engine.intentions import BY_ID, CATALOGUE, IMPACTFUL_RELEASE
from engine.state import fold
from engine.terms import Ending, Kind, Seat, Side
from evaluators.ground.answers import Guess
from evaluators.ground.contexts import Context
from evaluators.ground.items import DIMENSIONS, Item, Variant, items, make_id
from evaluators.ground.judgements import Judgement
from evaluators.ground.provenance import AgentProvenance, Provenance, provenance_of
from evaluators.ground.rows import question
from evaluators.ground.turns import Game, Stage, Turn
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.measures.defaults import EXCLUDE_ABOVE, DecisionCounter, SeatDecisions
from evaluators.measures.guessing import BELIEFS, believed
from evaluators.measures.hallucination import speeches, statements_of

__all__ = ["Row", "game_rows", "turn_rows"]

Row = dict[str, Any]


def game_rows(
    game: Game,
    judgements: Sequence[Judgement] = (),
    judges: frozenset[str] = frozenset(),
    spoken: Sequence[SpeechJudgement] = (),
    answers: Mapping[tuple[str, str], Sequence[Guess]] | None = None,
    variant: Variant | None = None,
) -> dict[str, list[Row]]:
    """The rows of one game by table, without calls. ``judges``: the raters that are not people. ``spoken``:
    what judges of statements found in its speeches. ``answers``: by dimension and rater. ``variant``: how
    items are made.
    """
    read = _Reading(game)
    contexts: dict[str, Row] = {}
    turns = _turns(read, contexts)
    return {
        "games": [_game(read)],
        "seats": [_seat(read, seat) for seat in read.seats],
        "turns": turns,
        "beliefs": list(_beliefs(read)),
        "intentions": list(_intentions(read)),
        "votes": list(_votes(read)),
        "quests": list(_quests(read)),
        "items": list(_items(game, variant or Variant(), contexts)),
        "contexts": list(contexts.values()),
        "judgements": [
            {
                "game_id": one.game_id,
                "request_id": one.request_id,
                "stage": one.stage,
                "intention": one.intention,
                "rater": one.rater,
                "person": one.rater not in judges,
                "reasonable": one.reasonable,
                "think": one.think,
                "speak": one.speak,
            }
            for one in judgements
            if one.game_id == game.id
        ],
        "statements": list(_judged_statements(game, spoken)),
        "answers": [
            {
                "item_id": guess.item_id,
                "game_id": game.id,
                "dimension": dimension,
                "rater": rater,
                "intentions": _sorted(guess.intentions),
                "unmapped": list(guess.unmapped),
                "role": None if guess.role is None else guess.role.value,
                "confidence": guess.confidence,
            }
            for (dimension, rater), guesses in (answers or {}).items()
            for guess in guesses
        ],
    }


def _judged_statements(game: Game, spoken: Iterable[SpeechJudgement]) -> Iterator[Row]:
    """One row a statement. A speech that states nothing has one row, without a verdict."""
    of_game = [one for one in spoken if one.key.game_id == game.id]
    texts = {speech.key: speech.text for speech in speeches(game.id, game.log)} if of_game else {}
    for one in of_game:
        planted = one.key.turn < 0
        row = {
            "game_id": game.id,
            "request_id": one.key.request_id,
            "turn": None if planted else one.key.turn,
            "rater": one.rater,
            "planted": planted,
        }
        text = texts.get(one.key)
        for found in one.statements:
            yield row | {
                "start": found.start,
                "end": found.end,
                "text": None if text is None else text[found.start : found.end],
                "verdict": found.verdict,
                "record": found.record or None,
                "reason": found.reason or None,
            }
        if not one.statements:
            yield row | dict.fromkeys(("start", "end", "text", "verdict", "record", "reason"))


def turn_rows(game: Game) -> list[Row]:
    """The game's rows of the table ``turns``."""
    return _turns(_Reading(game), {})


_ORDER: Final = {intention.id: place for place, intention in enumerate(CATALOGUE)}


def _sorted(ids: Iterable[str]) -> list[str]:
    """In the order of the catalogue, so that equal sets give equal rows; other words come last."""
    return sorted(ids, key=lambda id_: (_ORDER.get(id_, len(_ORDER)), id_))


@dataclass(slots=True)
class _ReadAttempt:
    """One proposal, and what became of it."""

    round: int
    attempt: int
    leader: Seat
    proposed: tuple[Seat, ...] = ()
    team: tuple[Seat, ...] = ()
    votes: VotesRevealed | None = None
    quest: QuestResolved | None = None
    cards: list[CardPlayed] = field(default_factory=list)


class _Reading:
    """What several tables need of one game, read once."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.provenance: Provenance = game.provenance or provenance_of(game.id, game.log)
        self.agents: dict[Seat, AgentProvenance] = {agent.seat: agent for agent in self.provenance.agents}
        self.seats = range(1, len(game.roles) + 1)
        self.decisions = DecisionCounter(game.log)
        self.ending = Ending.THREE_QUESTS_FAILED
        self.attempts: dict[tuple[int, int], _ReadAttempt] = {}
        self.readings: dict[int, ReadingsImagined] = {}
        """By the index of the utterance."""
        self.reasons: dict[tuple[int, int, Seat], str] = {}
        """Of ballots, by round, attempt and seat."""
        self.quests: dict[int, QuestResolved] = {}
        self._read()
        self.numbers = self._numbers()

    def _read(self) -> None:
        attempt: _ReadAttempt | None = None
        pending: dict[Seat, ReadingsImagined] = {}
        turns = {turn.utterance: turn for turn in self.game.turns}
        for index, event in enumerate(self.game.log):
            match event:
                case ProposalOpened():
                    attempt = _ReadAttempt(event.round, event.attempt, event.leader)
                    self.attempts[event.round, event.attempt] = attempt
                    pending.clear()
                case TeamProposed() if attempt is not None:
                    attempt.proposed = attempt.team = event.team
                case TeamConfirmed() if attempt is not None:
                    attempt.team = event.team
                case VotesRevealed() if attempt is not None:
                    attempt.votes = event
                case CardPlayed() if attempt is not None:
                    attempt.cards.append(event)
                case QuestResolved():
                    self.quests[event.round] = event
                    if attempt is not None:
                        attempt.quest = event
                case ReadingsImagined():
                    pending[event.seat] = event
                case ChoiceExplained(about=Kind.VOTE) if attempt is not None:
                    self.reasons[attempt.round, attempt.attempt, event.seat] = event.text
                case GameEnded():
                    self.ending = event.ending
            if index in turns and turns[index].seat in pending:
                self.readings[index] = pending.pop(turns[index].seat)

    def _numbers(self) -> dict[int, int]:
        """Utterances made before each turn in its attempt, by the index of its utterance."""
        return {
            turn.utterance: self.game.log[turn.utterance].turn  # type: ignore[union-attr]
            for turn in self.game.turns
        }

    def decided(self, seats: Iterable[Seat]) -> SeatDecisions:
        total = SeatDecisions()
        for seat in seats:
            total.add(self.decisions.seats.get(seat, SeatDecisions()))
        return total

    def evil(self, team: Iterable[Seat]) -> int:
        return sum(self.game.side(seat) is Side.EVIL for seat in team)

    def who(self, seat: Seat) -> Row:
        return {"seat": seat, "role": self.game.role(seat).value, "side": self.game.side(seat).value}


def _game(read: _Reading) -> Row:
    game, known = read.game, read.provenance
    table = fold(game.log).table
    everybody, models = read.decided(read.seats), read.decided(known.models)
    share = read.decisions.of_models(known.models or None).rate
    hit = read.ending is Ending.MERLIN_ASSASSINATED
    excluded = None
    if known.invalid is not None:
        excluded = "invalid"
    elif share is not None and share > EXCLUDE_ABOVE:
        excluded = "defaults"
    return {
        "game_id": game.id,
        "profile": game.profile.name,
        "players": game.profile.players,
        "batch_id": known.batch_id,
        "study": known.study,
        "cell": known.cell,
        "labels": json.dumps(dict(sorted(known.labels.items())), ensure_ascii=False),
        "seed": known.seed,
        "winner": game.winner.value,
        "ending": read.ending.value,
        "quests_succeeded": sum(quest.succeeded for quest in read.quests.values()),
        "quests_failed": sum(not quest.succeeded for quest in read.quests.values()),
        "shots": int(hit or table.missed),
        "hits": int(hit),
        "turns": len(game.turns),
        "decisions": everybody.decisions,
        "defaulted": everybody.defaulted.total(),
        "model_decisions": models.decisions if known.agents else None,
        "model_defaulted": models.defaulted.total() if known.agents else None,
        "excluded": excluded,
        "invalid": known.words_of_invalid() or None,
        "forked_from": None if known.forked_from is None else known.forked_from.get("game_id"),
        "origin": game.id,  # of a fork: once all games are known
        "imported_from": None if known.imported_from is None else known.imported_from.get("id"),
        "server": known.server or None,
        "catalogue": known.catalogue,
    }


def _seat(read: _Reading, seat: Seat) -> Row:
    game, agent = read.game, read.agents.get(seat)
    learned, decided = game.learned[seat - 1], read.decided([seat])
    parameters: Mapping[str, Any] = {} if agent is None else agent.parameters
    return {
        "game_id": game.id,
        "name": game.names[seat - 1],
        **read.who(seat),
        "won": game.side(seat) is game.winner,
        "sees": list(learned.sees),
        "shoots": learned.shoots,
        **_agent(agent),
        "endpoint": agent and agent.endpoint,
        "served": None if agent is None else list(agent.served),
        "steps": None if agent is None or agent.steps is None else list(agent.steps),
        "memory": parameters.get("memory"),
        "timing": parameters.get("timing"),
        "prompts": agent and agent.prompts,
        "prompts_hash": agent and agent.prompts_hash,
        "parameters": None if agent is None else json.dumps(parameters, ensure_ascii=False, sort_keys=True),
        "decisions": decided.decisions,
        "defaulted": decided.defaulted.total(),
    }


def _agent(agent: AgentProvenance | None) -> Row:
    return {
        "agent": agent and agent.agent,
        "agent_name": agent and agent.name,
        "model": agent and agent.model,
        "mechanism": agent and agent.mechanism,
    }


# --- turns ------------------------------------------------------------------------------------------


def _turns(read: _Reading, contexts: dict[str, Row]) -> list[Row]:
    game = read.game
    checked = _statements(game)
    gold = {item.request_id: item for item in items(game, "guessing", Variant(), with_gold=True)}
    guesses = _guesses(game)
    discusses_a_team = game.profile.discussion == "after_proposal"
    rows = []
    for turn in game.turns:
        item = None if turn.repeated else gold.get(turn.request_id)
        attempt = read.attempts[turn.round, turn.attempt]
        quest = read.quests.get(turn.round)
        first = turn.first.draft if turn.first is not None else None
        final = turn.final.draft if turn.final is not None else None
        readings = read.readings.get(turn.utterance)
        statements, refuted = checked.get(turn.utterance, (None, None))
        agent = read.agents.get(turn.seat)
        rows.append(
            {
                "game_id": game.id,
                "request_id": turn.request_id,
                "profile": game.profile.name,
                "study": read.provenance.study,
                "cell": read.provenance.cell,
                "round": turn.round,
                "attempt": turn.attempt,
                "turn": read.numbers[turn.utterance],
                "name": game.names[turn.seat - 1],
                **read.who(turn.seat),
                **_agent(agent),
                "served": None if agent is None else " + ".join(agent.served) or None,
                "opens": turn.opens,
                "leader": attempt.leader,
                "team": list(attempt.proposed) if discusses_a_team else [],
                "defaulted": turn.defaulted,
                "repeated": turn.repeated,
                "speech": turn.text,
                "think": (final or first).think if final or first else None,  # type: ignore[union-attr]
                "draft_think": first and first.think,
                "draft": first and first.speak,
                "first_intentions": _chosen(turn.first),
                "first_reason": turn.first and turn.first.reason,
                "intentions": _chosen(turn.final),
                "reason": turn.final and turn.final.reason,
                "modified": turn.modified,
                "changed": turn.changed,
                "readings": readings and [{"by": one.by, "text": one.text} for one in readings.readings],
                "reveals_role": readings and readings.reveals_role,
                "without": turn.without,
                "gold": None if item is None or item.gold is None else _sorted(item.gold),
                "guesses": [] if turn.repeated else guesses.get(turn.request_id, []),
                "statements": statements,
                "refuted": refuted,
                "approved": None if attempt.votes is None else attempt.votes.approved,
                "quest_succeeded": None if quest is None else quest.succeeded,
                "won": game.side(turn.seat) is game.winner,
                "context_id": _context_of(game, turn, contexts),
            }
        )
    return rows


def _chosen(stage: Stage | None) -> list[str] | None:
    return None if stage is None else [choice.id for choice in stage.chosen]


def _statements(game: Game) -> dict[int, tuple[int, int]]:
    """Statements and refuted ones, by the index of the utterance."""
    indexes = {id(event): index for index, event in enumerate(game.log)}
    counted = {}
    for event, findings in statements_of(game.log):
        verdicts = [finding.verdict for finding in findings]
        decided = sum(verdict in ("refuted", "supported") for verdict in verdicts)
        counted[indexes[id(event)]] = decided, verdicts.count("refuted")
    return counted


def _guesses(game: Game) -> dict[str, list[Row]]:
    """What other seats believed, by the speaking turn that their beliefs are about."""
    guesses: dict[str, list[Row]] = {}
    for guess in believed(game):
        request_id, _, reader = guess.item_id.rsplit("/", 2)
        request_id = request_id.rpartition("/")[2]
        guesses.setdefault(request_id, []).append(
            {
                "seat": int(reader),
                "role": None if guess.role is None else guess.role.value,
                "intentions": _sorted(guess.intentions),
                "confidence": guess.confidence,
            }
        )
    return guesses


def _beliefs(read: _Reading) -> Iterator[Row]:
    game = read.game
    gold = {
        item.request_id: item.gold
        for item in items(game, "guessing", BELIEFS, with_gold=True)
        if item.gold is not None
    }
    answered = _answered(game)
    for turn in game.turns:
        for belief in turn.beliefs:
            speech = answered.get((turn.utterance, belief.about))
            known = None if speech is None else gold.get(speech)
            item_id = None if speech is None else make_id(game.id, "guessing", speech, "final", turn.seat)
            yield {
                "game_id": game.id,
                "request_id": turn.request_id,
                "round": turn.round,
                "attempt": turn.attempt,
                "turn": read.numbers[turn.utterance],
                **read.who(turn.seat),
                "about": belief.about,
                "believed_role": None if belief.role is None else belief.role.value,
                "about_role": game.role(belief.about).value,
                "confidence": belief.confidence,
                "intentions": list(belief.intentions),
                "snippets": list(belief.snippets),
                "reasoning": belief.reasoning,
                "item_id": item_id,
                "gold": None if known is None else _sorted(known),
            }


def _answered(game: Game) -> dict[tuple[int, Seat], str]:
    """The speaking turn that each belief is a guess about, by the believer's utterance and the seat that it
    is about.
    """
    guessed = {guess.item_id for guess in believed(game)}
    latest: dict[Seat, Turn] = {}
    found: dict[tuple[int, Seat], str] = {}
    for turn in game.turns:
        if turn.defaulted is None:
            for belief in turn.beliefs:
                speech = latest.get(belief.about)
                if speech is None:
                    continue
                item_id = make_id(game.id, "guessing", speech.request_id, "final", turn.seat)
                if item_id in guessed:
                    guessed.discard(item_id)  # a later belief about the same speech is no guess
                    found[turn.utterance, belief.about] = speech.request_id
        latest[turn.seat] = turn
    return found


def _intentions(read: _Reading) -> Iterator[Row]:
    game = read.game
    for turn in game.turns:
        stages = (
            ("first", turn.first),
            ("final", turn.final if turn.modified or turn.first is None else None),
        )
        for name, stage in stages:
            for rank, choice in enumerate(() if stage is None else stage.chosen, 1):
                known = BY_ID.get(choice.id)
                yield {
                    "game_id": game.id,
                    "request_id": turn.request_id,
                    "turn": read.numbers[turn.utterance],
                    "round": turn.round,
                    **read.who(turn.seat),
                    "stage": name,
                    "rank": rank,
                    "intention": choice.id,
                    "label": known and known.label,
                    "category": known and known.category,
                    "impactful": choice.id in IMPACTFUL_RELEASE,
                    "reason": choice.reason,
                }


def _votes(read: _Reading) -> Iterator[Row]:
    for attempt in read.attempts.values():
        if attempt.votes is None:
            continue
        for seat, approve in enumerate(attempt.votes.votes, 1):
            yield {
                "game_id": read.game.id,
                "round": attempt.round,
                "attempt": attempt.attempt,
                **read.who(seat),
                "leader": attempt.leader,
                "team": list(attempt.team),
                "on_team": seat in attempt.team,
                "evil_on_team": read.evil(attempt.team),
                "approve": approve,
                "approved": attempt.votes.approved,
                "forced": attempt.votes.forced,
                "changed": set(attempt.team) != set(attempt.proposed),
                "reason": read.reasons.get((attempt.round, attempt.attempt, seat)),
            }


def _quests(read: _Reading) -> Iterator[Row]:
    for attempt in read.attempts.values():
        quest = attempt.quest
        if quest is None:
            continue
        yield {
            "game_id": read.game.id,
            "round": attempt.round,
            "attempt": attempt.attempt,
            "leader": attempt.leader,
            "team": list(quest.team),
            "evil_on_team": read.evil(quest.team),
            "fails": quest.fails,
            "succeeded": quest.succeeded,
            "cards": [{"seat": card.seat, "success": card.success} for card in attempt.cards],
        }


# --- items ------------------------------------------------------------------------------------------


def _items(game: Game, variant: Variant, contexts: dict[str, Row]) -> Iterator[Row]:
    for dimension in DIMENSIONS:
        for item in items(game, dimension, variant, with_gold=True):
            yield {
                "item_id": item.id,
                "game_id": game.id,
                "dimension": dimension,
                "request_id": item.request_id,
                "round": item.round,
                "attempt": item.attempt,
                "stage": item.stage,
                "speaker": item.speaker,
                "speaker_role": item.speaker_role and item.speaker_role.value,
                "reader": item.reader,
                "context_id": _context(game, item, contexts),
                "question": question(item),
                "think": item.think,
                "speech": item.speech,
                "options": [option.id for option in item.options],
                "asked": [choice.id for choice in item.asked],
                "gold": None if item.gold is None else _sorted(item.gold),
            }


def _context(game: Game, item: Item, contexts: dict[str, Row]) -> str:
    point = (
        "after" if item.dimension == "guessing" else "early" if item.context.without is not None else "before"
    )
    key = f"{game.id}/{item.request_id}/{item.context.seat}/{point}"
    if key not in contexts:
        contexts[key] = _context_row(key, game, item.request_id, item.context.seat, point, item.context.text)
    return key


def _context_of(game: Game, turn: Turn, contexts: dict[str, Row]) -> str:
    """The speaker's own context of a turn, as the items of its turn have it."""
    key = f"{game.id}/{turn.request_id}/{turn.seat}/before"
    if key not in contexts:
        own = Context(game, turn.seat, turn.opening, round=turn.round, attempt=turn.attempt)
        contexts[key] = _context_row(key, game, turn.request_id, turn.seat, "before", own.text)
    return key


def _context_row(key: str, game: Game, request_id: str, seat: Seat, point: str, text: str) -> Row:
    return {
        "context_id": key,
        "game_id": game.id,
        "request_id": request_id,
        "seat": seat,
        "point": point,
        "text": text,
    }
