"""What the rest of a study will take, reckoned before anything is asked: games, and the raters' work on them.

Figures come from this study's games, else from its pilots, else from a trial of the endpoint, else they are
assumed; each says which.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agents.kinds import asks_model
from agents.llm.options import PRESETS, STEPS
from agents.model.limits import Parallel
from app.cli.study_parts import StudyState, pilot_study, read_finished, state_of
from app.evaluations.judge_work import STATEMENTS
from app.evaluations.study_raters import GAMES_AT_ONCE, questions_to, rater_key
from app.models.game_costs import GAMES, PLAYERS, GamePlan
from app.runner.study_folder import GameRecord, StudyFolder
from app.runner.study_games import preset_of
from app.settings import EndpointSettings
from evaluators.study.design import PlannedGame, StudyCell
from evaluators.study.file import EvaluationAsked
from evaluators.study.plan import QUANTITIES, Range, SeatCosts, expected, measured_costs

__all__ = ["Expectation", "RaterExpectation", "expectation"]

_ANSWER_TOKENS: Final = (80, 320)
"""Tokens of an answer, where nothing was measured: as the fake model writes, and four times as much."""

_CALL_S: Final = (2.0, 10.0)
"""Seconds of a call, where nothing was measured."""

_RATER_PROMPT: Final = (1_200, 6_000)
"""Tokens of a question to a rater, where nothing was measured: as in games of the fake model, whose speeches
are short, and several times as many."""

_LONGER: Final = 1.5
"""How much longer a rater's questions may be than that of a trial, which is about an early round."""

_COUNTED: Final = 5
"""Games of a cell whose questions are counted."""

_ROUNDS: Final = (3, 5)

_ITEMS: Final[Mapping[str, tuple[int, int]]] = {
    "selection": (1, 2),
    "following": (2, 2),
    "guessing": (1, 1),
    "summarisation": (2, 2),
}
"""Items of a seat with intentions in a round, at least and at most: some are about both stages of a turn."""


@dataclass(slots=True)
class Expectation:
    """What the rest of a study takes."""

    games: int = 0
    of: dict[str, Range] = field(default_factory=lambda: dict.fromkeys(QUANTITIES, Range()))
    rating: Range = field(default_factory=Range)
    """Of the calls, those of raters."""
    hours: Range = field(default_factory=Range)
    """Of play and of the raters' work, which follows it."""
    priced: bool = True
    bases: list[str] = field(default_factory=list)
    """Where the figures come from, by model and preset."""
    cells: dict[str, dict[str, Range]] = field(default_factory=dict)
    """By cell: calls, tokens and cost of its games."""
    raters: list["RaterExpectation"] = field(default_factory=list)

    @property
    def tokens(self) -> Range:
        """Of prompts and answers."""
        return self.of["prompt_tokens"] + self.of["completion_tokens"]

    @property
    def calls(self) -> int:
        """Calls, in the middle of their range."""
        return round(self.of["calls"].middle)


@dataclass(slots=True)
class RaterExpectation:
    """What the rest of one rater's work takes."""

    asked: EvaluationAsked
    games: int
    of: dict[str, Range] = field(default_factory=lambda: dict.fromkeys(QUANTITIES, Range()))
    hours: Range = field(default_factory=Range)
    priced: bool = True
    basis: str = ""
    """Where the figures come from."""

    @property
    def tokens(self) -> Range:
        """Of questions and answers."""
        return self.of["prompt_tokens"] + self.of["completion_tokens"]


def expectation(
    folder: StudyFolder,
    state: StudyState,
    endpoints: Mapping[str, EndpointSettings],
    work: Iterable[tuple[StudyCell, PlannedGame]],
) -> Expectation:
    """What is left of these games and of the raters' work on them. Raises StudyFault for damaged games."""
    games = list(work)
    left = [(cell, game) for cell, game in games if not folder.has(cell.id, game.id)]
    found = Expectation(games=len(left))
    costs = _costs(folder, state)
    seats: dict[tuple[str, str, str], int] = {}
    for cell, game in left:
        for spec, name in zip(game.seats, game.models, strict=True):
            preset = preset_of(spec)
            if preset is not None:
                seats[cell.id, name, preset] = seats.get((cell.id, name, preset), 0) + 1
    study = state.design.study
    for (cell_id, name, preset), count in sorted(seats.items()):
        endpoint = study.models[name].endpoint or name
        known = costs.get((name, preset)) or _tried(folder, endpoint, preset)
        if known is None:
            known = _assumed(preset, endpoints.get(endpoint))
        basis = f"{name}, {preset}: {known.basis}"
        if basis not in found.bases:
            found.bases.append(basis)
        found.priced &= known.priced
        of_cell = found.cells.setdefault(cell_id, dict.fromkeys(QUANTITIES, Range()))
        for quantity in QUANTITIES:
            taken = known.total(quantity, count)
            of_cell[quantity] += taken
            found.of[quantity] += taken
    found.hours = _hours(folder, state, found, seats, len(left))
    before = _KnownGames(folder, state)
    for one in state.raters:
        rating = _rating(one, folder, state, before, endpoints.get(str(one.model)), games)
        if rating.games:
            found.raters.append(rating)
            found.bases.append(f"{one.rater}, {one.dimension}: {rating.basis}")
            found.priced &= rating.priced
            found.rating += rating.of["calls"]
            found.hours += rating.hours
            for quantity in QUANTITIES:
                found.of[quantity] += rating.of[quantity]
    return found


def _costs(folder: StudyFolder, state: StudyState) -> dict[tuple[str, str], SeatCosts]:
    """The measured costs of seats: from this study's games, and else from its pilots."""
    played = [record.seats for cell in state.cells for record in cell.records]
    return measured_costs(record.seats for record in _piloted(folder)) | measured_costs(played)


def _piloted(folder: StudyFolder) -> Iterator[GameRecord]:
    pilots = StudyFolder(folder.path, pilot=True)
    for cell, game in pilots.games():
        if (record := pilots.record(cell, game)) is not None:
            yield record


def _tried(folder: StudyFolder, endpoint: str, preset: str) -> SeatCosts | None:
    """From a trial of the endpoint, if there was one: three rounds to five."""
    trial = StudyFolder(folder.path).read(f"trials/{endpoint}.json")
    if trial is None:
        return None
    for game in trial["games"]:
        if game["preset"] == preset and game["timing"] == "exact":
            values = {
                quantity: [game[quantity]["low"] / PLAYERS, game[quantity]["high"] / PLAYERS]
                for quantity in QUANTITIES
                if game[quantity] is not None
            }
            basis = f"from {len(trial['forms'])} questions that {trial['model']} was tried with"
            return SeatCosts(basis, values, measured=False, priced=game["cost"] is not None)
    return None


def _plan_of(preset: str) -> tuple[GamePlan, GamePlan]:
    """The plans of a preset's games, the cheapest and the dearest that it may be."""
    plans = {plan.preset: plan for plan in reversed(GAMES)}
    if preset in plans:
        return plans[preset], plans[preset]
    # Steps of one's own: no fewer questions than none, no more than all.
    return plans["direct"], plans["paper"]


def _assumed(preset: str, settings: EndpointSettings | None) -> SeatCosts:
    few, many = _plan_of(preset)
    calls = [few.calls(3) / PLAYERS, many.calls(5) / PLAYERS]
    prompt = [few.prompt_tokens[3] / PLAYERS, many.prompt_tokens[5] / PLAYERS]
    written = [calls[0] * _ANSWER_TOKENS[0], calls[1] * _ANSWER_TOKENS[1]]
    values = {"calls": calls, "prompt_tokens": prompt, "completion_tokens": written}
    prices = None if settings is None else settings.prices
    if prices is not None:
        values["cost"] = [
            (sent * prices.prompt + answered * prices.completion) / 1e6
            for sent, answered in zip(prompt, written, strict=True)
        ]
    basis = (
        "ASSUMED: calls and prompts of three to five rounds, answers of "
        f"{_ANSWER_TOKENS[0]} to {_ANSWER_TOKENS[1]} tokens"
    )
    return SeatCosts(basis, values, measured=False, priced=prices is not None)


def _hours(
    folder: StudyFolder,
    state: StudyState,
    found: Expectation,
    seats: Mapping[tuple[str, str, str], int],
    games: int,
) -> Range:
    """How many hours the remaining games take, as many at a time as the study allows."""
    if not games:
        return Range()
    played = (one for cell in state.cells for one in cell.records)
    seconds = _seconds(played) or _seconds(_piloted(folder))
    at_once = max(1, min(state.design.study.budget.parallel, games))
    if seconds:
        found.bases.append(f"hours: measured in {len(seconds)} games, {at_once} at a time")
        return Range(min(seconds), max(seconds)).times(games / at_once / 3600)
    if not seats:
        return Range()
    lows, highs = [], []
    for _, name, preset in seats:
        few, many = _plan_of(preset)
        endpoint = state.design.study.models[name].endpoint or name
        trial = StudyFolder(folder.path).read(f"trials/{endpoint}.json")
        span = next(
            (
                one["hours"]
                for one in (trial or {"games": []})["games"]
                if one["preset"] == preset and one["timing"] == "exact"
            ),
            None,
        )
        lows.append(sum(few.in_a_row(3).values()) * _CALL_S[0] / 3600 if span is None else span["low"])
        highs.append(sum(many.in_a_row(5).values()) * _CALL_S[1] / 3600 if span is None else span["high"])
        if span is None and not any(basis.startswith("hours") for basis in found.bases):
            found.bases.append(f"hours: ASSUMED {_CALL_S[0]:g} to {_CALL_S[1]:g} seconds a call")
    return Range(min(lows), max(highs)).times(games / at_once)


def _seconds(games: Iterable[GameRecord]) -> list[float]:
    return [one.seconds for one in games if one.seconds is not None]


# --- raters -------------------------------------------------------------------------------------------


class _KnownGames:
    """What a study's own games, and those of its pilots, say of its raters' work."""

    def __init__(self, folder: StudyFolder, state: StudyState) -> None:
        pilots = StudyFolder(folder.path, pilot=True)
        self._states = [(folder, state)]
        if folder.store != pilots.store and (most := pilots.most_games()):
            study = pilot_study(state.design.study, most)
            self._states.append((pilots, state_of(pilots, pilots.design(study))))

    def rated(self, asked: EvaluationAsked, cell: str) -> list[dict[str, Any]]:
        """What a rater said of each game of this cell."""
        return [
            rated
            for (_, state), records in self._records(cell)
            for rated in state.rated[rater_key(asked)]
            if rated["game"] in {record.game for record in records}
        ]

    def questions(self, asked: EvaluationAsked, cell: str) -> list[float]:
        """The numbers of questions about the first games of this cell."""
        return [
            float(len(questions_to(asked, read_finished(folder, cell, record.game))))
            for (folder, _), records in self._records(cell)
            for record in records[:_COUNTED]
        ]

    def _records(self, cell: str) -> Iterator[tuple[tuple[StudyFolder, StudyState], list[GameRecord]]]:
        for folder, state in self._states:
            yield (
                (folder, state),
                [record for one in state.cells if one.cell.id == cell for record in one.records],
            )


def _rating(
    asked: EvaluationAsked,
    folder: StudyFolder,
    state: StudyState,
    known: _KnownGames,
    settings: EndpointSettings | None,
    work: Iterable[tuple[StudyCell, PlannedGame]],
) -> RaterExpectation:
    """What is left of one rater's work on these games."""
    done = {one["game"] for one in state.rated[rater_key(asked)]}
    by_cell: dict[str, list[PlannedGame]] = {}
    for cell, game in work:
        if game.id not in done:
            by_cell.setdefault(cell.id, []).append(game)
    found = RaterExpectation(asked, sum(map(len, by_cell.values())))
    bases: Counter[str] = Counter()
    seconds: list[float] = []
    trial = StudyFolder(folder.path).read(f"trials/{asked.model}.json")
    for cell_id, games in by_cell.items():
        if rated := known.rated(asked, cell_id):
            bases["measured in {} games"] += len(rated)
            seconds += [float(one["seconds"]) for one in rated if one.get("seconds") is not None]
            names = {"calls": "calls", "prompt_tokens": "tokens", "cost": "cost"}
            taken = {
                quantity: expected([float(one[name]) for one in rated], len(games))
                for quantity, name in names.items()
            }
            found.priced &= taken["cost"].high > 0 or (settings is not None and settings.prices is not None)
        else:
            counted = known.questions(asked, cell_id)
            bases[
                "questions counted in {} games" if counted else "ASSUMED questions of three to five rounds"
            ] += len(counted)
            questions = (
                expected(counted, len(games)) if counted else _assumed_questions(asked, games)
            ).times(asked.samples if asked.kind == "guesser" else 1)
            taken, basis, priced = _questioned(asked, questions, trial, settings)
            bases[basis] += 0
            found.priced &= priced
        for quantity, range_ in taken.items():
            found.of[quantity] += range_
    found.hours, basis = _rating_hours(found, seconds, trial, settings)
    reckoned = [words.format(count) for words, count in bases.items()]
    found.basis = ", ".join([*reckoned, basis] if basis else reckoned)
    return found


def _rating_hours(
    rater: RaterExpectation, seconds: Sequence[float], trial: Any, settings: EndpointSettings | None
) -> tuple[Range, str]:
    """Hours of one rater's work, and from what they are reckoned, if not from ``seconds``, which single games
    took.
    """
    calls, games_at_once = rater.of["calls"], min(GAMES_AT_ONCE, max(1, rater.games))
    waves = rater.games / games_at_once
    if seconds:
        return Range(min(seconds), max(seconds)).times(waves / 3600), ""
    if not calls.high:
        return Range(), ""
    form = _form_of(rater.asked, trial)
    span = Range(*_CALL_S) if form is None else Range(form["seconds"], form["seconds"] * _LONGER)
    basis = f"hours: ASSUMED {_CALL_S[0]:g} to {_CALL_S[1]:g} seconds a call" if form is None else "hours too"
    # The questions of a game are asked together, and as many at a time as the endpoint takes.
    places = None if settings is None else Parallel.read(settings.parallel)
    fewest, most = (1, 1) if places is None else (places.first, places.most)
    in_a_row = Range(max(calls.low / most, waves), max(calls.high / fewest, waves))
    return in_a_row.by(span).times(1 / 3600), basis


def _form_of(asked: EvaluationAsked, trial: Any) -> Any:
    """What a trial measured of a rater's question; None: nothing."""
    step = f"judge_{asked.dimension}"
    forms = [] if trial is None else trial["forms"]
    return next((one for one in forms if one["step"] == step and one["finish"]), None)


def _assumed_questions(asked: EvaluationAsked, games: Iterable[PlannedGame]) -> Range:
    """Questions about games of three to five rounds without a rejection: some are about every speech, others
    about the intentions of the seats that have any.
    """
    low = high = 0.0
    for game in games:
        if asked.dimension == STATEMENTS:
            # In a round every seat speaks, and the leader once more.
            speeches = len(game.seats) + 1
            low += _ROUNDS[0] * speeches
            high += _ROUNDS[1] * speeches + asked.planted
            continue
        few, many = _ITEMS[str(asked.dimension)]
        low += _ROUNDS[0] * few * sum(_has_intentions(spec) is True for spec in game.seats)
        high += _ROUNDS[1] * many * sum(_has_intentions(spec) is not False for spec in game.seats)
    return Range(low, high)


def _has_intentions(spec: Mapping[str, Any]) -> bool | None:
    """Whether the seat selects intentions; None: an agent that may or may not."""
    if not asks_model(spec["agent"]):
        return None
    steps = (spec.get("options") or {}).get("steps", PRESETS.get(spec.get("mechanism", "paper"), STEPS))
    return "selection" in steps


def _questioned(
    asked: EvaluationAsked, questions: Range, trial: Any, settings: EndpointSettings | None
) -> tuple[dict[str, Range], str, bool]:
    """What so many questions take; from what that is reckoned; and whether the cost is known."""
    form = _form_of(asked, trial)
    if form is not None:
        sent, written = (
            Range(form[name], form[name] * _LONGER) for name in ("prompt_tokens", "completion_tokens")
        )
        basis = f"each as long as in the trial of {trial['model']}, or half as long again"
    else:
        sent, written = Range(*_RATER_PROMPT), Range(*_ANSWER_TOKENS)
        basis = f"ASSUMED {_RATER_PROMPT[0]:,} to {_RATER_PROMPT[1]:,} tokens each"
    taken = {
        "calls": questions,
        "prompt_tokens": questions.by(sent),
        "completion_tokens": questions.by(written),
    }
    if settings is not None and settings.prices is not None:
        prices = settings.prices
        money = sent.times(prices.prompt / 1e6) + written.times(prices.completion / 1e6)
        return {**taken, "cost": questions.by(money)}, basis, True
    if form is not None and form["cost"]:
        return {**taken, "cost": questions.by(Range(form["cost"], form["cost"] * _LONGER))}, basis, True
    return taken, basis, False
