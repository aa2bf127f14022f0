"""F1 of guesses and summaries, in every way of counting that ``expected.json`` names.

The gold labels come from the selections in our log, the answers from the files. Labels are compared in plain
form (letters only, lower case) or in canonical form (after the released map, without unmapped labels).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.intentions import IntentionId, normalise
from engine.terms import Seat
from engine.thoughts import SelectionStage
from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.labels import Figure, canonical_label, plain, released_label, rounded
from evaluators.authors.results import REJECTED
from evaluators.authors.run import AuthorsItem, Run
from evaluators.ground.turns import read_game

__all__ = ["Selections", "answer_figures", "selections"]

Selections = Mapping[tuple[str, Seat, int, SelectionStage], tuple[IntentionId, ...]]
"""The selected intentions by game, seat, key of results.json, and stage."""


def selections(games: Iterable[ConvertedGame]) -> Selections:
    """All selections of these games."""
    chosen_at: dict[tuple[str, Seat, int, SelectionStage], tuple[IntentionId, ...]] = {}
    for game in games:
        again = {tally.round for tally in game.state.table.tallies if tally.attempt == 2}
        for turn in read_game(game.game_id, game.state.log).turns:
            rejected = turn.attempt == 1 and turn.round in again
            key = turn.round + REJECTED if rejected else turn.round
            for stage in (turn.first, turn.final):
                if stage is not None:
                    chosen = tuple(choice.id for choice in stage.chosen)
                    chosen_at[game.name, turn.seat, key, stage.name] = chosen
    return chosen_at


@dataclass(frozen=True, slots=True)
class _Sample:
    game: str
    round: int
    chosen: tuple[str, ...]
    answer: tuple[str, ...]


_Labels = Callable[[AuthorsItem], tuple[str, ...]]


def _plain_answer(item: AuthorsItem) -> tuple[str, ...]:
    return tuple(map(plain, item.answer))


def _canonical_answer(item: AuthorsItem) -> tuple[str, ...]:
    if item.canonical is not None:
        return tuple(map(plain, item.canonical))
    # A file without the mapped lists is mapped by our own table of wordings.
    named = map(normalise, item.answer)
    return tuple(canonical_label(intention) for intention in named if intention is not None)


_VARIANTS: Final[Mapping[str, tuple[_Labels, Callable[[IntentionId], str]]]] = {
    "canonical": (_canonical_answer, canonical_label),
    "plain": (_plain_answer, lambda intention: plain(released_label(intention))),
}


def answer_figures(run: Run, games: Sequence[ConvertedGame]) -> dict[str | None, dict[str, object]]:
    """The figures by game (None for all games), then by kind of answer, form of labels, scope (pooled or one
    round) and way of counting.
    """
    gold = selections(games)
    guesses = {item.id: item for item in run.items.get("guesses.json", ())}
    kinds: dict[str, tuple[Iterable[AuthorsItem], Callable[[AuthorsItem, str], tuple[str, ...] | None]]] = {
        "guesses_vs_chosen": (guesses.values(), lambda item, labels: _gold(gold, item, labels)),
        "second_order_vs_guesses": (
            run.items.get("guesses_second_order.json", ()),
            lambda item, labels: _VARIANTS[labels][0](guesses[item.id]) if item.id in guesses else None,
        ),
        "summaries_vs_chosen": (
            run.items.get("summaries.json", ()),
            lambda item, labels: _gold(gold, item, labels),
        ),
    }
    scopes: tuple[str | None, ...] = (None, *(game.name for game in games))
    by_scope: dict[str | None, dict[str, object]] = {scope: {} for scope in scopes}
    for kind, (items, chosen) in kinds.items():
        listed = list(items)
        by_labels = {}
        for labels, (answer, _) in _VARIANTS.items():
            pairs = [(item, chosen(item, labels)) for item in listed]
            by_labels[labels] = [
                _Sample(item.game, item.key % REJECTED, gold_of, answer(item))
                for item, gold_of in pairs
                if gold_of is not None
            ]
        for scope in scopes:
            by_scope[scope][kind] = {
                labels: _scoped([sample for sample in samples if scope in (None, sample.game)])
                for labels, samples in by_labels.items()
            }
    return by_scope


def _gold(gold: Selections, item: AuthorsItem, labels: str) -> tuple[str, ...]:
    """The gold labels from our log, or from the file if our log has no such selection."""
    stage: SelectionStage = "first" if item.stage == "form" else "final"
    chosen = gold.get((item.game, item.seat, item.key, stage))
    if chosen is None:
        chosen = tuple(intention for intention in map(normalise, item.gold) if intention is not None)
    return tuple(map(_VARIANTS[labels][1], chosen))


def _scoped(samples: Sequence[_Sample]) -> dict[str, object]:
    scopes: dict[str, Sequence[_Sample]] = {"pooled": samples}
    for round_ in sorted({sample.round for sample in samples}):
        scopes[f"round_{round_}"] = [sample for sample in samples if sample.round == round_]
    return {
        scope: {
            "as_released_counting": _counted(in_scope),
            "as_sets": _counted([_as_set(sample) for sample in in_scope]),
            "samples": len(in_scope),
        }
        for scope, in_scope in scopes.items()
    }


def _as_set(sample: _Sample) -> _Sample:
    return _Sample(
        sample.game,
        sample.round,
        tuple(dict.fromkeys(sample.chosen)),
        tuple(dict.fromkeys(sample.answer)),
    )


def _counted(samples: Iterable[_Sample]) -> Figure:
    """Precision, recall and F1 of the answered labels against the chosen ones (the gold). ``hits``: answered
    labels that were chosen; ``guessed``: all answered labels; ``selected``: the hits plus the chosen labels
    missing from the answer. A repeated answer counts each time. None where the denominator is 0.
    """
    hits = selected = guessed = 0
    for sample in samples:
        answered = sum(label in sample.chosen for label in sample.answer)
        hits += answered
        selected += answered + sum(label not in sample.answer for label in sample.chosen)
        guessed += len(sample.answer)
    precision = hits / guessed if guessed else None
    recall = hits / selected if selected else None
    f1 = None
    if precision is not None and recall is not None:
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return {
        "hits": hits,
        "selected": selected,
        "guessed": guessed,
        "precision": rounded(precision),
        "recall": rounded(recall),
        "f1": rounded(f1),
    }
