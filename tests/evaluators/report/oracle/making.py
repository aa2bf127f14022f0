"""Judged games of ours: sixty logs, what is asked about them, what raters say, and the report on it all."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from agents.agent import Setup
from agents.scripted.agent import RandomAgent, ScriptedAgent
from agents.table import MemoryJournal, play
from app.runner.simulate import lines_of
from engine.actions import ProposeTeam, Speak
from engine.chance import draw, secret
from engine.events import ActionDefaulted, IntentionsSelected, SpeechDrafted
from engine.intentions import BY_ID
from engine.profile import make_profile
from engine.rules import create
from engine.state import State
from engine.terms import Kind, Role
from engine.view import Observation
from evaluators.ground.answers import Guess
from evaluators.ground.items import DIMENSIONS, Item, Variant, items
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import Game, read_game
from evaluators.judges.rules import ruled
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.judges.statements import Statement
from evaluators.measures.hallucination import SpeechKey, speeches
from evaluators.report.builder import Answered, ReportBuilder, ReportedGame, SeatUse
from evaluators.report.sections import make_report

GAMES: Final = 60
JUDGES: Final = frozenset({"mod", "noisy", "rules"})
BELIEFS: Final = "beliefs"
"""What is asked of a seat that plays: every reader, the lists of every role."""
USES: Final = (
    {"endpoint": "near", "model": "m", "calls": 10, "failed": 1, "prompt_tokens": 900, "cached_tokens": 400,
     "completion_tokens": 70, "reasoning_tokens": 30, "cost": 0.25},
    {"endpoint": "near", "model": "m", "calls": 5, "failed": 0, "prompt_tokens": 100, "cached_tokens": 0,
     "completion_tokens": 7, "reasoning_tokens": None, "cost": 0.5},
    {"endpoint": "far", "model": "n", "calls": 2, "failed": 2, "prompt_tokens": 0, "cached_tokens": 0,
     "completion_tokens": 0, "reasoning_tokens": None, "cost": 0.0},
)  # fmt: skip


def chance(sides: int, *what: object) -> int:
    """0 to ``sides - 1``, always the same for the same."""
    return draw(60, "oracle", *map(str, what)) % sides


@dataclass(frozen=True)
class Made:
    """One game: ``told`` is all that the oracle reads, ``given`` what the report is made of."""

    told: dict[str, Any]
    given: ReportedGame


class Forgetful:
    """A scripted seat that records less than it thinks, says what is false, and runs out of time."""

    def __init__(self, setup: Setup, game: int) -> None:
        self._agent = ScriptedAgent(setup)
        self._game = game

    def act(self, observation: Observation) -> Any:
        action = self._agent.act(observation)
        if not isinstance(action, ProposeTeam | Speak):
            return action
        request = observation.request
        thoughts = list(action.thoughts)
        text = action.text
        match chance(8, self._game, request.id):
            case 0:  # nothing is modified
                thoughts = [
                    note
                    for note in thoughts
                    if not (isinstance(note, IntentionsSelected) and note.stage == "final")
                ]
            case 1:  # the first draft is not kept
                thoughts = [
                    note
                    for note in thoughts
                    if not (isinstance(note, SpeechDrafted) and note.stage == "formulation")
                ]
            case 2:
                thoughts = []
            case 3 if request.kind is Kind.SPEAK:
                thoughts.append(ActionDefaulted(request.seat, request.id, "deadline"))
            case 4 | 5 if request.round > 1:
                text += " Quest 1 failed. I led quest 1. I voted against the team of quest 1."
            case _:
                pass
        return replace(action, text=text, thoughts=tuple(thoughts))


def _agents(seed: int, players: int) -> tuple[str, ...]:
    if seed % 6 == 0:
        return ("scripted",) * players
    kinds = ("scripted", "forgetful", "forgetful") if seed % 6 < 4 else ("random", "scripted", "forgetful")
    return tuple(kinds[(seed + seat) % 3] for seat in range(players))


def _played(seed: int) -> tuple[State, tuple[str, ...]]:
    name, players = (
        ("official", 5 + seed % 2) if seed % 5 == 4 else ("interintent", 7 if seed % 10 == 0 else 5)
    )
    agents = _agents(seed, players)
    seats: dict[int, Any] = {}
    for seat, kind in enumerate(agents, 1):
        setup = Setup(seat, secret(seed, "agent", seat))
        if kind == "forgetful":
            seats[seat] = Forgetful(setup, seed)
        else:
            seats[seat] = RandomAgent(setup) if kind == "random" else ScriptedAgent(setup)
    return asyncio.run(play(create(make_profile(name, players), seed), seats, MemoryJournal())), agents


def make(seed: int) -> Made:
    state, agents = _played(seed)
    game = read_game(f"g{seed}", state.log)
    asked = {dimension: list(items(game, dimension)) for dimension in DIMENSIONS}
    asked[BELIEFS] = list(items(game, "guessing", Variant(reader="all", options="roles"), with_gold=True))
    gold = {dimension: list(items(game, dimension, with_gold=True)) for dimension in DIMENSIONS}
    gold["wide"] = list(items(game, "guessing", Variant(options="roles"), with_gold=True))
    rows = list(_judgements(game, seed, asked))
    answers = list(_answers(game, seed, asked))
    statements = list(_statements(game, seed))
    groups = {
        "even" if seed % 2 == 0 else "odd": list(range(1, len(agents) + 1)),
        **{name: [s for s, one in enumerate(agents, 1) if one == name] for name in sorted(set(agents))},
    }
    told = {
        "id": game.id,
        "events": [json.loads(line) for line in lines_of(state, game.id).splitlines()],
        "asked": {name: list(map(_row, found)) for name, found in asked.items() if name != BELIEFS},
        "gold": {
            **{name: list(map(_row, found)) for name, found in gold.items()},
            BELIEFS: list(map(_row, asked[BELIEFS])),
        },
        "judgements": rows,
        "rulings": [[ruling.intention, ruling.rule] for ruling in ruled(game)],
        "answers": answers,
        "agents": list(agents),
        "groups": groups,
        "speeches": [
            {
                "request_id": one.key.request_id,
                "turn": one.key.turn,
                "seat": one.seat,
                "read": [[found.start, found.end, found.verdict] for found in one.findings],
                "sentences": [list(span) for span in one.sentences],
            }
            for one in speeches(game.id, game.log)
        ],
        "statements": statements,
    }
    given = ReportedGame(
        game,
        [Judgement(game.id, **row) for row in rows],
        [_answered(game.id, one) for one in answers],
        agents,
        groups,
        JUDGES,
        [_spoken(game.id, one) for one in statements],
    )
    return Made(json.loads(json.dumps(told)), given)


def _row(item: Item) -> dict[str, Any]:
    """What stands in an exported line, without the context: text that nothing is counted in."""
    return {
        "id": item.id,
        "request_id": item.request_id,
        "round": item.round,
        "attempt": item.attempt,
        "stage": item.stage,
        "speaker": item.speaker,
        "reader": item.reader,
        "asked": [choice.id for choice in item.asked],
        "options": [option.id for option in item.options],
        "gold": None if item.gold is None else sorted(item.gold),
    }


# --- what raters say ------------------------------------------------------------------------------------


def _judgements(game: Game, seed: int, asked: Mapping[str, list[Item]]) -> Iterator[dict[str, Any]]:
    """People judge three games of four, each a part of what is asked; a model judges nearly all of it."""
    if seed % 10 == 9:
        return
    people = {"ann": 90, "bob": 60, "cyd": 15} if seed % 4 != 3 else {}
    for rater, most in {**people, "mod": 95, **({} if people else {"noisy": 70})}.items():
        said: dict[tuple[str, str, str], dict[str, Any]] = {}
        for dimension in ("selection", "following"):
            for item in asked[dimension]:
                for choice in item.asked:
                    place = (item.request_id, item.stage, choice.id)
                    if chance(100, rater, dimension, game.id, *place) >= most:
                        continue
                    row = said.setdefault(place, {"reasonable": None, "think": None, "speak": None})
                    if dimension == "selection":
                        row["reasonable"] = _verdict(rater, game.id, place)
                    else:
                        for part in ("think", "speak"):
                            if chance(20, "none", rater, part, game.id, *place):
                                row[part] = _score(rater, part, game.id, place)
        for (request_id, stage, intention), row in said.items():
            yield {"request_id": request_id, "stage": stage, "intention": intention, **row, "rater": rater}
    if seed % 3 == 0:
        for ruling in ruled(game):
            if ruling.judgement is not None:
                one = ruling.judgement
                yield {
                    "request_id": one.request_id, "stage": one.stage, "intention": one.intention,
                    "reasonable": False, "think": None, "speak": None, "rater": "rules",
                }  # fmt: skip
    yield from _beside_the_point(game, seed, "bob" if people else "mod")


def _beside_the_point(game: Game, seed: int, rater: str) -> Iterator[dict[str, Any]]:
    """Of no turn, of a defaulted turn, of what was not selected, and again of what was left unchanged."""
    plain = {"think": 5, "speak": 1, "rater": rater}
    yield {
        "request_id": "9.1.speak.1",
        "stage": "first",
        "intention": "stay_hidden",
        "reasonable": True,
        **plain,
    }
    for turn in game.turns:
        if turn.defaulted is not None and turn.final is not None:
            for one in sorted(turn.final.intentions):
                row = {"request_id": turn.request_id, "stage": "final", "intention": one, "reasonable": True}
                yield {**row, **plain}
        elif turn.final is not None and chance(15, "beside", seed, turn.request_id) == 0:
            never = min(set(BY_ID) - turn.final.intentions - (turn.first or turn.final).intentions)
            for stage in ("first", "final"):
                row = {"request_id": turn.request_id, "stage": stage, "intention": never, "reasonable": True}
                yield {**row, **plain}
        elif turn.first is not None and not turn.changed and chance(4, "again", seed, turn.request_id) == 0:
            for one in sorted(turn.first.intentions):
                row = {"request_id": turn.request_id, "stage": "final", "intention": one, "think": None}
                yield {**row, "reasonable": False, "speak": None, "rater": f"{rater}, once more"}


_ERRS: Final = {"ann": 12, "bob": 15, "cyd": 30, "mod": 18, "noisy": 60}


def _verdict(rater: str, game_id: str, place: tuple[str, ...]) -> bool:
    true = chance(10, "reasonable", game_id, *place) < 7
    return true if chance(100, "errs", rater, game_id, *place) >= _ERRS[rater] else not true


def _score(rater: str, part: str, game_id: str, place: tuple[str, ...]) -> int:
    """The model follows people in thinking, and not in speaking."""
    errs = 90 if (rater, part) == ("mod", "speak") else _ERRS[rater]
    if chance(100, "errs", part, rater, game_id, *place) >= errs:
        return 1 + (chance(9, part, game_id, *place) + 1) // 2
    return 1 + chance(5, "wrong", part, rater, game_id, *place)


_RATERS: Final = (
    ("guessing", "reader", {}, "count", 90),
    ("guessing", "other", {}, "count", 70),
    ("guessing", "wide", {"options": "roles"}, "count", 80),
    ("guessing", "free", {}, "discard", 60),
    ("summarisation", "reader", {}, "count", 80),
    ("summarisation", "other", {}, "count", 50),
    ("guessing", "paul", {}, "count", 75),
    ("guessing", "rosa", {}, "count", 65),
    ("summarisation", "paul", {}, "count", 60),
)
_PEOPLE: Final = ("paul", "rosa")


def _answers(game: Game, seed: int, asked: Mapping[str, list[Item]]) -> Iterator[dict[str, Any]]:
    for dimension, rater, variant, unmapped, most in _RATERS:
        answers = []
        for item in asked[dimension]:
            lot = chance(1000, rater, dimension, item.id)
            if lot % 100 >= most or (rater == "other" and seed % 7 == 0):
                continue
            ids = [one.id for one in item.options]
            if rater == "wide":
                ids = sorted(BY_ID)
            named = {ids[chance(len(ids), rater, item.id, n)] for n in range(lot % 4)}
            # Half of the time a rater reads what stands there.
            turn = next(one for one in game.turns if one.request_id == item.request_id)
            stage = turn.stage(item.stage)
            if lot % 2 and stage is not None:
                named |= {min(stage.intentions)}
            answers.append(
                {
                    "item_id": item.id,
                    "intentions": sorted(named),
                    "unmapped": ["win the game"] if lot % 9 == 0 else [],
                    "role": list(Role)[lot % 8].value
                    if dimension == "guessing" and lot % 5 and rater not in _PEOPLE
                    else None,
                    "confidence": lot % 6 if lot % 3 else None,
                }
            )
        if answers:
            yield {
                "dimension": dimension,
                "rater": rater,
                "variant": variant,
                "unmapped": unmapped,
                "kind": "human" if rater in _PEOPLE else "model",
                "answers": answers,
            }


def _answered(game_id: str, one: Mapping[str, Any]) -> Answered:
    guesses = [
        Guess(
            row["item_id"],
            frozenset(row["intentions"]),
            tuple(row["unmapped"]),
            one["rater"],
            None if row["role"] is None else Role(row["role"]),
            row["confidence"],
        )
        for row in one["answers"]
    ]
    variant = Variant(reader="all", **one["variant"])
    return Answered(one["dimension"], one["rater"], guesses, variant, one["unmapped"], one["kind"])


def _statements(game: Game, seed: int) -> Iterator[dict[str, Any]]:
    """One judge that mostly finds what rules find, and one that does not; both add some of their own."""
    for rater, misses in (("careful", 8), ("careless", 55)):
        if seed % 3 == 2 or (rater == "careless" and seed % 2):
            continue
        for speech in speeches(game.id, game.log):
            lot = chance(100, rater, game.id, speech.index)
            if lot >= 80:
                continue
            found = []
            for at, one in enumerate(speech.findings):
                hit = chance(100, rater, game.id, speech.index, at)
                if one.verdict != "unparsed" and hit % 10 < 9:
                    other = "supported" if one.verdict == "refuted" else "refuted"
                    found.append([one.start, one.end, other if hit < misses else one.verdict])
            for start, end in speech.sentences:
                hit = chance(12, rater, game.id, speech.index, start, "more")
                if hit < 3:
                    found.append([start, end, ("supported", "refuted", "uncheckable")[hit]])
            yield {
                "request_id": speech.key.request_id,
                "turn": speech.key.turn,
                "statements": found,
                "rater": rater,
                "planted": None,
            }
        yield {
            "request_id": "1.1.speak.1",
            "turn": -1,
            "statements": [],
            "rater": rater,
            "planted": {
                "refuted": {"refuted": 3, "silent": 1},
                "supported": {"supported": 2, "refuted": seed % 2},
            },
        }


def _spoken(game_id: str, one: Mapping[str, Any]) -> SpeechJudgement:
    found = tuple(Statement(start, end, verdict, "", "") for start, end, verdict in one["statements"])
    planted = one["planted"] and {
        (rules, said): n for rules, heard in one["planted"].items() for said, n in heard.items()
    }
    return SpeechJudgement(SpeechKey(game_id, one["request_id"], one["turn"]), found, one["rater"], planted)


def report_of(made: Iterable[Made]) -> dict[str, Any]:
    """The report as ``interintent report`` writes it, of games counted in three parts."""
    parts = [ReportBuilder("Sixty") for _ in range(3)]
    for place, one in enumerate(made):
        parts[place % 3].add(one.given)
    builder = parts[0]
    for part in parts[1:]:
        builder.merge(part)
    builder.use(SeatUse(**one) for one in USES)
    told: dict[str, Any] = json.loads(json.dumps(make_report(builder).as_json()))
    return told
