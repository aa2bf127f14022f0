"""Which speaking turns people are asked to judge."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from engine.terms import Role
from evaluators.ground.drawing import Candidate, Drawing, DrawnTurn, candidates, why_nothing
from tests.evaluators.talk import by_hand, chose, scripted

ROLES = (Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA)


def turns_of(agents: Sequence[str] = ("",) * 5, rounds: int = 3) -> list[Candidate]:
    return [
        Candidate(f"{round_}.1.speak.{seat}", role, agents[seat - 1])
        for round_ in range(1, rounds + 1)
        for seat, role in enumerate(ROLES, 1)
    ]


def drawn(
    games: Mapping[str, str], held: Mapping[str, list[Candidate]], n: int, seed: str = "0"
) -> list[DrawnTurn]:
    drawing, turns = Drawing(games, seed), []
    while len(turns) < n and (game := drawing.game) is not None:
        if not drawing.knows(game):
            drawing.hold(game, held[game])
        if (turn := drawing.draw()) is not None:
            turns.append(turn)
    return turns


def test_thirty_turns_of_twenty_games_come_from_all_games_and_each_role_equally_often() -> None:
    games = {f"g_{n}": "batch" for n in range(20)}
    turns = drawn(games, dict.fromkeys(games, turns_of()), 30)
    assert len(set(turns)) == 30
    assert Counter(Counter(game for game, _ in turns).values()) == {1: 10, 2: 10}
    seats = Counter(request.rpartition(".")[2] for _, request in turns)
    assert seats == dict.fromkeys("12345", 6)


def test_conditions_take_turns_though_one_has_ten_times_the_games() -> None:
    games = {f"a_{n}": "paper" for n in range(20)} | {"b_1": "direct", "b_2": "direct"}
    turns = drawn(games, dict.fromkeys(games, turns_of()), 40)
    assert Counter(games[game] for game, _ in turns) == {"paper": 20, "direct": 20}
    assert Counter(game for game, _ in turns if game[0] == "b") == {"b_1": 10, "b_2": 10}
    # What one condition lacks, the other gives.
    every = drawn(games, dict.fromkeys(games, turns_of()), 10_000)
    assert len(every) == len(set(every)) == 22 * 15


def test_the_models_of_one_table_are_drawn_alike_and_each_in_all_its_roles() -> None:
    first, mirrored = turns_of(("x", "x", "x", "y", "y")), turns_of(("y", "y", "y", "x", "x"))
    games = {f"g_{n}": "batch" for n in range(10)}
    held = {game: first if n % 2 else mirrored for n, game in enumerate(games)}
    turns = drawn(games, held, 40)
    by_id = {(game, turn.request_id): turn for game in games for turn in held[game]}
    assert Counter(by_id[turn].agent for turn in turns) == {"x": 20, "y": 20}
    cells = Counter((by_id[turn].agent, by_id[turn].role) for turn in turns)
    assert set(cells.values()) <= {3, 4, 5}
    assert len(cells) == 10


def test_the_seed_fixes_the_draw_and_more_turns_begin_with_the_same_ones() -> None:
    games = {f"g_{n}": "batch" for n in range(7)}
    held = dict.fromkeys(games, turns_of())
    forty = drawn(games, held, 40)
    assert drawn(dict(reversed(games.items())), held, 12) == forty[:12]
    assert drawn(games, held, 12, seed="1") != forty[:12]


def test_a_game_without_turns_is_passed_over_and_says_why() -> None:
    games = {"g_1": "batch", "g_2": "batch"}
    turns = drawn(games, {"g_1": [], "g_2": turns_of(rounds=1)}, 9)
    assert {game for game, _ in turns} == {"g_2"}
    assert len(turns) == 5
    silent = by_hand({"1.1.speak.2": chose(2, "")})
    assert candidates(silent) == []
    assert why_nothing(silent) == (
        "none of 15 turns can be judged: 14 × no selection was recorded, as in imported games and by plain "
        "bots; 1 × the selection is empty"
    )


def test_the_turns_of_a_game_carry_the_speakers_role_and_agent() -> None:
    game = scripted(1)
    turns = candidates(game, ("a", "b", "c", "d", "e"))
    assert len(turns) == len(game.turns)
    for turn in turns:
        seat = int(turn.request_id.rpartition(".")[2])
        assert (turn.role, turn.agent) == (game.role(seat), "abcde"[seat - 1])


def test_a_game_that_was_not_handed_in_is_an_error() -> None:
    with pytest.raises(KeyError):
        Drawing({"g_1": "batch"}, "0").draw()


def test_raters_who_take_turns_do_not_get_one_condition_each() -> None:
    games = {f"{letter}_{n}": letter for letter in "ab" for n in range(20)}
    turns = drawn(games, dict.fromkeys(games, turns_of()), 40)
    halves = [Counter(game[0] for game, _ in turns[start::2]) for start in (0, 1)]
    assert min(half[letter] for half in halves for letter in "ab") >= 5
    assert all(Counter(game[0] for game, _ in turns[:n])["a"] in (n // 2, n - n // 2) for n in range(40))
