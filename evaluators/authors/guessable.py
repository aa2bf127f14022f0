"""Which turns become guessing items: those whose final speech is scored 3 or more for every intention.

By the right key, and as the released script looks the scores up: crossed between the two attempts.
"""

from collections.abc import Iterable

from evaluators.authors.shapes import Value
from evaluators.authors.taking import TakenGame
from evaluators.authors.turns import REJECTED

__all__ = ["guess_items"]

_LEAST = 3


def guess_items(games: Iterable[TakenGame]) -> dict[str, Value]:
    """The section ``guess_items``. A blank cell passes."""
    released: set[str] = set()
    right: set[str] = set()
    for game in games:
        tried_twice = {tally.round for tally in game.state.table.tallies if tally.attempt == 2}
        low = {
            one.request_id
            for one in game.judgements
            if one.rater == game.rater
            and one.stage == "final"
            and one.speak is not None
            and one.speak < _LEAST
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
