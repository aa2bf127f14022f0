"""Figures counted game by game: of play, of judged selections and responses, and of guessing items.

Figures of play come from the log, except two: ``proposal_changes`` needs the names as written (our log holds
teams ascending), and ``intent_modification.csv`` counts cells of the annotation file.

Figures of selection and following come from the judgements of each game's own annotation file. A row of that
file counts in a stage when its three cells have the same number of scores, at least one.

A turn becomes a guessing item when its final speech is scored 3 or more for every intention. The items are
listed twice: by the right key, and by the key with which the released script looks up the scores, which swaps
the two attempts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from engine.events import CardPlayed, IntentionsSelected
from engine.state import State
from engine.terms import Role, Seat, Side, side_of
from engine.thoughts import SelectionStage
from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.labels import ROLE_NAMES, Figure, Value, share
from evaluators.authors.results import REJECTED
from evaluators.ground.judgements import SCORES, Judgement, StageKey
from evaluators.ground.turns import read_game
from evaluators.measures.play import PlayMetrics
from evaluators.statistics.rates import Rate

__all__ = [
    "JudgedStage",
    "following_histograms",
    "guess_items",
    "judged_stages",
    "loyal_majority",
    "play_figures",
    "selection_figures",
    "side_name",
    "which_side_higher",
]

_SIDES = (Side.EVIL, Side.LOYAL)


def _side(state: State, seat: Seat) -> Side:
    assert state.roles is not None
    return side_of(state.roles[seat - 1])


def side_name(state: State, seat: Seat) -> str:
    return _side(state, seat).value


def loyal_majority(state: State) -> bool:
    """Whether at least as many quests succeeded as failed, which the released scripts call a loyal win."""
    return state.table.succeeded >= state.table.failed


def play_figures(games: Sequence[ConvertedGame]) -> dict[str, Figure]:
    """The figures of play, by their names in ``expected.json``."""
    metrics = PlayMetrics()
    for game in games:
        metrics.add(game.state)
    majority = sum(loyal_majority(game.state) for game in games)
    engagement = metrics.engagement()
    figures = {
        "loyal_quest_majority": share(majority, len(games)),
        "evil_quest_majority": share(len(games) - majority, len(games)),
        "loyal_final_win": _rate(metrics.wins(Side.LOYAL)),
        "evil_final_win": _rate(metrics.wins(Side.EVIL)),
        "assassination_hit": _rate(metrics.assassinations()),
        "quests_loyal": _rate(metrics.quest_wins(Side.LOYAL)),
        "quests_evil": _rate(metrics.quest_wins(Side.EVIL)),
    }
    for role in (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA):
        if role in engagement:
            figures[f"engagement.{ROLE_NAMES[role]}"] = _rate(engagement[role])
    for side in _SIDES:
        figures[f"team_selection.{side}"] = _rate(metrics.team_selection(side))
        figures[f"failure_votes.{side}"] = _failures(games, side)
    figures["actions_missing"] = _missing(games)
    for side in _SIDES:
        figures[f"proposal_changes.{side}"] = _written_changes(games, side)
        figures[f"proposal_changes_as_sets.{side}"] = _rate(metrics.changes(side))
    figures |= _votes(games)
    figures |= _modifications(games)
    return figures


def _rate(rate: Rate) -> Figure:
    return share(rate.num, rate.den)


def _failures(games: Iterable[ConvertedGame], side: Side) -> Figure:
    cards = [
        event
        for game in games
        for hand in game.state.hands
        if hand.side is side
        for _, event in hand.own
        if isinstance(event, CardPlayed)
    ]
    return share(sum(not card.success for card in cards), len(cards))


def _missing(games: Iterable[ConvertedGame]) -> Figure:
    members = played = 0
    for game in games:
        members += sum(len(quest.team) for quest in game.state.table.quests)
        played += sum(isinstance(event, CardPlayed) for event in game.state.log)
    return share(members - played, members)


def _written_changes(games: Iterable[ConvertedGame], side: Side) -> Figure:
    """Changed teams by the released rule: it compares stripped, lower-case names in the order written."""
    changed = proposals = 0
    for game in games:
        for tally in game.state.table.tallies:
            if side_name(game.state, tally.leader) == side:
                before, after = (
                    [name.strip().lower() for name in names]
                    for names in game.team_names[tally.round, tally.attempt]
                )
                proposals += 1
                changed += before != after
    return share(changed, proposals)


def _votes(games: Iterable[ConvertedGame]) -> dict[str, Figure]:
    firsts = rejected = seconds = forced = 0
    agreed = dict.fromkeys(_SIDES, 0)
    cast = dict.fromkeys(_SIDES, 0)
    for game in games:
        for tally in game.state.table.tallies:
            if tally.attempt == 1:
                firsts += 1
                rejected += not tally.approved
            else:
                seconds += 1
                forced += tally.forced
            for seat, vote in enumerate(tally.votes, 1):
                side = _side(game.state, seat)
                cast[side] += 1
                agreed[side] += vote is True
    return {
        "first_proposals_rejected": share(rejected, firsts),
        "second_proposals_forced": share(forced, seconds),
        "votes_agree": share(sum(agreed.values()), sum(cast.values())),
        **{f"votes_agree.{side}": share(agreed[side], cast[side]) for side in _SIDES},
    }


def _modifications(games: Iterable[ConvertedGame]) -> dict[str, Figure]:
    turns = given = changed = rows = modified_rows = 0
    for game in games:
        rows += len(game.rows)
        modified_rows += game.modified_rows
        for event in game.state.log:
            if isinstance(event, IntentionsSelected) and event.stage == "final":
                turns += 1
                changed += event.changed
                # A selection that was kept without an answer has no reason.
                given += event.changed or bool(event.reason)
    return {
        "intent_modification.csv": share(modified_rows, rows),
        "intent_modification.given": share(given, turns),
        "intent_modification.changed": share(changed, turns),
    }


Histogram = dict[str, int]


@dataclass(frozen=True, slots=True)
class JudgedStage:
    """One stage of a row that counts."""

    round: int
    seat: Seat
    side: str
    role: Role
    stage: SelectionStage
    changed: bool
    """Whether modification changed the set of intentions."""
    scores: tuple[tuple[bool, int, int], ...]
    """(reasonable, think, speak) for each intention."""


def judged_stages(game: ConvertedGame) -> Iterator[JudgedStage]:
    """The stages that count, with the scores by the rater of the game's own file."""
    turns = read_game(game.game_id, game.state.log).turns
    changed = {turn.request_id for turn in turns if turn.changed}
    by_stage: dict[StageKey, list[Judgement]] = {}
    for judgement in game.judgements:
        if judgement.rater == game.rater:
            by_stage.setdefault(judgement.key, []).append(judgement)
    for key, judgements in by_stage.items():
        selection = [judgement.reasonable for judgement in judgements if judgement.reasonable is not None]
        think = [judgement.think for judgement in judgements if judgement.think is not None]
        speak = [judgement.speak for judgement in judgements if judgement.speak is not None]
        if not len(selection) == len(think) == len(speak) > 0:
            continue
        round_, _, _, seat = key.request_id.split(".")
        assert game.state.roles is not None
        yield JudgedStage(
            round=int(round_),
            seat=int(seat),
            side=side_name(game.state, int(seat)),
            role=game.state.roles[int(seat) - 1],
            stage=key.stage,
            changed=key.request_id in changed,
            scores=tuple(zip(selection, think, speak, strict=True)),
        )


def _reasonable(stages: Iterable[JudgedStage]) -> Figure:
    marks = [reasonable for stage in stages for reasonable, _, _ in stage.scores]
    return share(sum(marks), len(marks))


def selection_figures(games: Sequence[ConvertedGame]) -> dict[str, Figure]:
    """The figures ``selection.*``, ``rows_skipped.*`` and ``following.*``."""
    stages = [stage for game in games for stage in judged_stages(game)]
    rows = sum(len(game.rows) for game in games)
    numbered = {"stage1": "first", "stage2": "final"}
    of = {name: [stage for stage in stages if stage.stage == which] for name, which in numbered.items()}
    figures = {name: _reasonable(of_stage) for name, of_stage in of.items()}
    figures = {f"selection.{name}": figure for name, figure in figures.items()}
    figures["selection.both"] = _reasonable(stages)
    figures["selection.stage1_plus_changed"] = _reasonable(
        [stage for stage in stages if stage.stage == "first" or stage.changed]
    )
    for name, of_stage in of.items():
        for side in ("evil", "loyal"):
            figures[f"selection.{name}.{side}"] = _reasonable(
                stage for stage in of_stage if stage.side == side
            )
        figures[f"rows_skipped.{name}"] = share(rows - len(of_stage), rows)
    scores = [score for stage in stages for _, *both in stage.scores for score in both]
    figures["following.ge3"] = share(sum(score >= 3 for score in scores), len(scores))
    figures["following.eq5"] = share(sum(score == 5 for score in scores), len(scores))
    return figures


def following_histograms(games: Sequence[ConvertedGame]) -> dict[str, Histogram]:
    """The number of intentions with each score, by stage, side, kind and reasonableness."""
    counts: dict[str, Counter[int]] = {}
    for kind in ("think", "speak"):
        for side in ("evil", "loyal"):
            for marked in ("reasonable", "unreasonable"):
                counts[f"{side}.{marked}.{kind}"] = Counter()
            for number in (1, 2):
                counts[f"{kind}_{number}"] = Counter()
                counts[f"{kind}_{number}_{side}"] = Counter()
    for game in games:
        for stage in judged_stages(game):
            number = 1 if stage.stage == "first" else 2
            for reasonable, think, speak in stage.scores:
                marked = "reasonable" if reasonable else "unreasonable"
                for kind, score in (("think", think), ("speak", speak)):
                    counts[f"{stage.side}.{marked}.{kind}"][score] += 1
                    counts[f"{kind}_{number}"][score] += 1
                    counts[f"{kind}_{number}_{stage.side}"][score] += 1
    return {
        name: {str(score): histogram[score] for score in SCORES} for name, histogram in sorted(counts.items())
    }


# --- which side is higher ---------------------------------------------------------------------------


def which_side_higher(games: Sequence[ConvertedGame]) -> dict[str, dict[str, dict[str, int]]]:
    """For quests and for games, by result: how often evil has the higher share, how often loyal, how often
    neither.
    """
    tables = {
        name: {result: {"evil": 0, "loyal": 0, "equal": 0} for result in ("success", "failure")}
        for name in (
            "rounds_following",
            "rounds_following_unrounded",
            "rounds_reasonable_role_mean",
            "rounds_reasonable_role_mean_float",
        )
    }
    by_game = {result: {"evil": 0, "loyal": 0, "equal": 0} for result in ("loyal", "evil")}
    for game in games:
        stages = list(judged_stages(game))
        for quest in game.state.table.quests:
            result = "success" if quest.succeeded else "failure"
            of_round = [stage for stage in stages if stage.round == quest.round]
            for name, higher in _of_quest(of_round).items():
                tables[name][result][higher] += 1
        evil, loyal = (_followed(stages, side) for side in ("evil", "loyal"))
        if evil.den and loyal.den:
            won = "loyal" if loyal_majority(game.state) else "evil"
            by_game[won][_higher(_rounded(evil), _rounded(loyal))] += 1
    return {**tables, "games_following": by_game}


def _rounded(rate: Rate) -> float:
    """The quotient as the released scripts round it, to two digits."""
    return round(rate.num / rate.den, 2)


def _followed(stages: Iterable[JudgedStage], side: str) -> Rate:
    """The following scores of 3 or more among all think and speak scores of both stages."""
    scores = [score for stage in stages if stage.side == side for _, *both in stage.scores for score in both]
    return Rate(sum(score >= 3 for score in scores), len(scores))


def _higher(evil: float | Fraction, loyal: float | Fraction) -> str:
    return "equal" if evil == loyal else "evil" if evil > loyal else "loyal"


def _of_quest(stages: Sequence[JudgedStage]) -> dict[str, str]:
    higher = {}
    evil, loyal = (_followed(stages, side) for side in ("evil", "loyal"))
    if evil.den > 1 and loyal.den > 1:
        higher["rounds_following"] = _higher(_rounded(evil), _rounded(loyal))
        higher["rounds_following_unrounded"] = _higher(Fraction(*evil), Fraction(*loyal))
    roles = {side: _by_role(stages, side) for side in ("evil", "loyal")}
    if roles["evil"] and roles["loyal"]:
        exact = {side: sum(shares, Fraction()) / len(shares) for side, shares in roles.items()}
        higher["rounds_reasonable_role_mean"] = _higher(exact["evil"], exact["loyal"])
        binary = {side: _plain_sum(shares) / len(shares) for side, shares in roles.items()}
        higher["rounds_reasonable_role_mean_float"] = _higher(binary["evil"], binary["loyal"])
    return higher


def _plain_sum(shares: Iterable[Fraction]) -> float:
    """Adds the shares one by one in the order of the deck, as the released script does; since Python 3.12 the
    built-in sum of floats is more exact.
    """
    total = 0.0
    for share_ in shares:
        total += share_.numerator / share_.denominator
    return total


def _by_role(stages: Iterable[JudgedStage], side: str) -> list[Fraction]:
    """For each role of the side, in the order of ``Role``: the share of reasonable intentions among the first
    selections whose speech is scored 3 or more. Roles without such selections are left out.
    """
    marks: dict[Role, list[bool]] = {}
    for stage in stages:
        if stage.stage == "first" and stage.side == side:
            role_marks = marks.setdefault(stage.role, [])
            role_marks += [reasonable for reasonable, _, speak in stage.scores if speak >= 3]
    return [Fraction(sum(marks[role]), len(marks[role])) for role in Role if marks.get(role)]


_LEAST = 3


def guess_items(games: Iterable[ConvertedGame]) -> dict[str, Value]:
    """The section ``guess_items``. A missing score does not exclude an item."""
    released: set[str] = set()
    right: set[str] = set()
    for game in games:
        tried_twice = {tally.round for tally in game.state.table.tallies if tally.attempt == 2}
        low = {
            judgement.request_id
            for judgement in game.judgements
            if judgement.rater == game.rater
            and judgement.stage == "final"
            and judgement.speak is not None
            and judgement.speak < _LEAST
        }
        passed = set()
        for request in game.rows:
            parts = request.split(".")
            if request not in low:
                passed.add((int(parts[-1]), int(parts[0]), parts[1] == "2"))
        for seat in range(1, game.state.table.players + 1):
            for quest in game.state.table.quests:
                round_number = quest.round
                keys = [round_number]
                if round_number in tried_twice:
                    keys.append(round_number + REJECTED)
                for key in keys:
                    id_ = f"{game.name}-player{seat}-{key}"
                    first = key > REJECTED
                    if (seat, round_number, round_number in tried_twice and not first) in passed:
                        right.add(id_)
                    # The script takes the rejected attempt for the second one.
                    if (seat, round_number, first) in passed:
                        released.add(id_)
    return {
        "by_released_script": len(released),
        "by_correct_key": len(right),
        "in_by_script_only": sorted(released - right),
        "in_by_correct_key_only": sorted(right - released),
    }
