"""The guesses and summaries of a run, as answers to items of ours.

The files do not say which seat guessed: the reader is the one that ``Variant(reader="drawn")`` draws. With
the impactful options neither gold nor options depend on it. The items are of the view ``release``, since the
authors' scripts made their contexts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.chance import pick
from engine.terms import Seat
from engine.thoughts import SelectionStage
from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.results import REJECTED
from evaluators.authors.run import AuthorsItem, Run
from evaluators.ground.items import AnsweredDimension, make_id
from evaluators.ground.turns import Turn, read_game

__all__ = ["VARIANT", "TakenAnswer", "answers_of", "turns_by_key"]

VARIANT: Final[Mapping[str, str]] = {"context": "release"}
"""How the answered items were made, apart from the defaults."""

_RATERS: Final[Mapping[str, tuple[str, AnsweredDimension]]] = {
    "guesses.json": ("guesses", "guessing"),
    "guesses_second_order.json": ("guesses second order", "guessing"),
    "summaries.json": ("summaries", "summarisation"),
}
"""The rater and the dimension of each file. The files do not say whether people or models answered."""


@dataclass(frozen=True, slots=True)
class TakenAnswer:
    """One answer of a run, to one item of ours."""

    rater: str
    dimension: AnsweredDimension
    item_id: str
    intentions: tuple[str, ...]
    """In the words of the file."""


def turns_by_key(game: ConvertedGame) -> dict[tuple[int, Seat], Turn]:
    """The speaking turns of a game by the key of their attempt in results.json, and seat."""
    again = {tally.round for tally in game.state.table.tallies if tally.attempt == 2}
    return {
        (turn.round + (REJECTED if turn.attempt == 1 and turn.round in again else 0), turn.seat): turn
        for turn in read_game(game.game_id, game.state.log).turns
    }


def answers_of(run: Run, games: Sequence[ConvertedGame]) -> tuple[list[TakenAnswer], list[str]]:
    """All answers about these games, and sentences about the ones that are left out."""
    turns = {game.name: (game, turns_by_key(game)) for game in games}
    taken: dict[tuple[str, str], TakenAnswer] = {}
    odd: list[str] = []
    for file, (rater, dimension) in _RATERS.items():
        for item in run.items.get(file, ()):
            game, of_game = turns.get(item.game, (None, {}))
            turn = of_game.get((item.key, item.seat))
            if game is None or turn is None:
                odd.append(f"{file}: {item.id}: the run has no such turn: left out")
                continue
            answer = TakenAnswer(rater, dimension, _item_id(game, turn, item, dimension), _texts(item))
            if taken.setdefault((rater, answer.item_id), answer) is not answer:
                odd.append(f"{file}: {item.id}: answered twice: the first answer is taken")
    return list(taken.values()), odd


def _item_id(game: ConvertedGame, turn: Turn, item: AuthorsItem, dimension: AnsweredDimension) -> str:
    stage: SelectionStage = "first" if item.stage == "form" else "final"
    reader = None
    if dimension == "guessing":
        others = [seat for seat in range(1, game.state.table.players + 1) if seat != turn.seat]
        reader = pick(others, 0, game.game_id, turn.request_id)
    return make_id(game.game_id, dimension, turn.request_id, stage, reader)


_MOST: Final = 20
_LONGEST: Final = 300
"""What an answer may hold."""


def _texts(item: AuthorsItem) -> tuple[str, ...]:
    return tuple(text[:_LONGEST] for text in item.answer[:_MOST])
