"""The PettingZoo environment passes PettingZoo's own tests, plays the engine's games and leaks nothing."""

import contextlib
import itertools
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

from agents.environment import AvalonEnv, env, raw_env
from engine.chance import draw, ordered, pick
from engine.errors import IllegalAction, InvalidAction, InvalidProfile
from engine.knowledge import sees
from engine.profile import make_profile, without_talk
from engine.rules import create, decide, legal, pending
from engine.state import State, apply, fold
from engine.terms import Phase, Role

TABLES = [
    {"profile": "interintent", "players": 5},
    {"profile": "official", "players": 7},
    {"profile": "official", "players": 10},
    {
        "players": 6,
        "rules": {
            "assassination": "after_any_quest",
            "missed_shot": "play_on",
            "on_max_rejections": "quest_fails",
        },
    },
]
tables = pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.get('profile', 'rules')}-{t['players']}")

FOR_ANY_MASKED_ROW = {
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
}
"""What api_test warns every environment of that it does not know by name and that gives a mask."""


@contextlib.contextmanager
def only_the_known_warnings() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert {str(one.message) for one in caught} <= FOR_ANY_MASKED_ROW


def play(game: AvalonEnv, seed: int, deal: list[Role] | None = None) -> State:
    """A game of the random policy, which draws from the mask by the seed and the number of the step."""
    game.reset(seed=seed, options=None if deal is None else {"deal": deal})
    for step in itertools.count():
        view, _, over, _, _ = game.last()
        if over:
            return game.state_of_play
        game.step(pick([int(one) for one in np.flatnonzero(view["action_mask"])], seed, "policy", step))
    raise AssertionError("a game ends")


@tables
@pytest.mark.parametrize("make", [env, raw_env])
def test_pettingzoos_own_tests_pass(table: dict[str, Any], make: Any) -> None:
    with only_the_known_warnings():
        api_test(make(**table), num_cycles=150)
        seed_test(lambda: make(**table), num_cycles=60)


@tables
def test_games_are_those_of_the_engine(table: dict[str, Any]) -> None:
    game = raw_env(**table)
    for seed in range(25):
        played = play(game, seed)
        rules = dict(table)
        state = fold(
            create(
                without_talk(
                    make_profile(
                        rules.get("profile", "interintent"), rules["players"], rules=rules.get("rules")
                    )
                ),
                seed,
            )
        )
        step = itertools.count()
        while requests := pending(state):
            # The engine is asked in one step for what the environment asks seat after seat.
            answers = []
            for request in requests:
                options = legal(state.table, state.hand(request.seat))
                assert options
                ordered = sorted(options, key=game.actions.number.__getitem__)
                answers.append((request.seat, pick(ordered, seed, "policy", next(step))))
            apply(state, decide(state, answers))
        assert played.log == state.log


@tables
def test_the_end_pays_the_winners_and_nobody_before(table: dict[str, Any]) -> None:
    game = raw_env(**table)
    for seed in range(10):
        game.reset(seed=seed)
        total = dict.fromkeys(game.possible_agents, 0.0)
        for step, agent in enumerate(game.agent_iter()):
            view, reward, over, _, _ = game.last()
            total[agent] += reward
            assert over or reward == 0
            game.step(
                None if over else pick([int(n) for n in np.flatnonzero(view["action_mask"])], seed, step)
            )
        state = game.state_of_play
        for agent, reward in total.items():
            won = state.hand(int(agent.removeprefix("seat_"))).side is state.table.winner
            assert reward == (1 if won else -1)


def rows(
    game: AvalonEnv, viewer: int, seed: int, deal: list[Role], cards: dict[int, bool], flip: int | None
) -> list[bytes]:
    """Everything ``viewer`` could look at, step by step, in a game whose public course is fixed.

    Teams and the shot are drawn; every seat approves save by the draw; evil plays as ``cards`` says.
    ``flip`` turns that seat's first ballot round, and the game stops before the reveal.
    """
    game.reset(seed=seed, options={"deal": deal})
    state = game.state_of_play
    seen = []
    while True:
        view = game.observe(f"seat_{viewer}")
        seen.append(view["observation"].tobytes() + view["action_mask"].tobytes())
        requests = pending(state)
        if not requests:
            return seen
        seat = requests[0].seat
        if flip is not None and state.table.phase is Phase.VOTE and len(requests) == 1:
            return seen
        public = (seed, state.table.round, state.table.attempt, state.table.phase, seat)
        names = game.actions
        if state.table.phase is Phase.VOTE:
            yes = pick((True, True, False), *public)
            action = int(yes != (seat == flip))
        elif state.table.phase is Phase.QUEST:
            action = 2 if cards.get(seat) is False else 3
        else:
            action = pick(names.open(state.table, state.hand(seat)), *public)
        game.step(action)


def test_other_roles_change_no_byte_of_a_seats_rows() -> None:
    game = raw_env(profile="official", players=7)
    deck = list(game.profile.roles)
    compared = 0
    for seed in range(12):
        deal = list(fold(create(game.profile, seed)).roles or ())
        shooter = deal.index(Role.ASSASSIN)
        for viewer in range(1, 8):
            twins = {
                tuple(other)
                for n in range(40)
                if (other := ordered(deal, draw(seed, "twin", n)))[viewer - 1] is deal[viewer - 1]
                and sees(other, viewer) == sees(deal, viewer)
                and other.index(Role.ASSASSIN) == shooter
            } - {tuple(deal)}
            for other in sorted(twins)[:2]:
                assert sorted(other) == sorted(deck)
                # Whether the shot hits is public and differs with the roles: compared up to the shot.
                before = rows(game, viewer, seed, deal, {}, None)
                after = rows(game, viewer, seed, list(other), {}, None)
                n = len(before) - 1 if len(before) == len(after) else min(len(before), len(after)) - 1
                assert before[:n] == after[:n]
                compared += n
    assert compared > 500


def test_a_ballot_that_is_not_revealed_changes_no_byte_of_another_seats_rows() -> None:
    game = raw_env()
    for seed in range(10):
        deal = list(fold(create(game.profile, seed)).roles or ())
        for viewer, other in itertools.permutations(range(1, 5), 2):
            # Seat 5 votes last, and the game stops before it does.
            twin = rows(game, viewer, seed, deal, {}, other)
            assert rows(game, viewer, seed, deal, {}, None)[: len(twin)] == twin


def test_who_played_the_fail_changes_no_byte_of_another_seats_rows() -> None:
    game = raw_env(profile="interintent", players=5)
    different = 0
    for seed in range(60):
        deal = list(fold(create(game.profile, seed)).roles or ())
        evil = [seat for seat, role in enumerate(deal, 1) if role in (Role.MORGANA, Role.ASSASSIN)]
        games = [play_with_one_fail(game, seed, deal, failing) for failing in evil]
        if games[0] is None or games[1] is None:
            continue
        different += 1
        for viewer in set(range(1, 6)) - set(evil):
            assert games[0][viewer] == games[1][viewer]
        assert games[0][evil[0]] != games[1][evil[0]]
    assert different >= 5


def play_with_one_fail(game: AvalonEnv, seed: int, deal: list[Role], failing: int) -> dict[int, bytes] | None:
    """All seats' rows after a first quest with both evil seats on it, of whom one fails it."""
    game.reset(seed=seed, options={"deal": deal})
    evil = tuple(seat for seat, role in enumerate(deal, 1) if role in (Role.MORGANA, Role.ASSASSIN))
    state = game.state_of_play
    while not state.table.quests:
        seat = pending(state)[0].seat
        if state.table.phase is Phase.PROPOSE:
            game.step(game.actions.names().index(f"team {evil[0]},{evil[1]}"))
        elif state.table.phase is Phase.VOTE:
            game.step(1)
        else:
            game.step(2 if seat == failing else 3)
    return {seat: game.observe(f"seat_{seat}")["observation"].tobytes() for seat in range(1, 6)}


def test_a_row_says_what_happened() -> None:
    game = raw_env(profile="interintent", players=5)
    deal = [Role.MERLIN, Role.PERCIVAL, Role.SERVANT, Role.ASSASSIN, Role.MORGANA]
    game.reset(seed=1, options={"deal": deal})
    names = game.actions.names()
    for action in ["team 1,4", "approve", "approve", "reject", "approve", "reject", "success", "fail"]:
        game.step(names.index(action))
    layout = game.features.layout

    def part(seat: int, name: str) -> list[int]:
        return [int(n) for n in game.observe(f"seat_{seat}")["observation"][layout[name]]]

    assert part(1, "seat") == [1, 0, 0, 0, 0]
    assert part(1, "role") == [1, 0, 0, 0, 0, 0, 0, 0]
    assert part(1, "sees") == [0, 0, 0, 1, 1]
    assert part(2, "sees") == [1, 0, 0, 0, 1]
    assert part(3, "sees") == [0, 0, 0, 0, 0]
    assert [part(seat, "shoots") for seat in (1, 4)] == [[0], [1]]
    assert [part(seat, "asked") for seat in (1, 2)] == [[0], [1]]
    assert part(4, "cards") == [-1, 0, 0, 0, 0]
    assert part(1, "cards") == [1, 0, 0, 0, 0]
    assert part(2, "cards") == [0, 0, 0, 0, 0]
    for seat in range(1, 6):
        assert part(seat, "phase") == [1, 0, 0, 0, 0]
        assert part(seat, "round") == [0, 1, 0, 0, 0]
        assert part(seat, "leader") == [0, 1, 0, 0, 0]
        # Over, failed, one fail card; seats 1 and 4 went.
        assert part(seat, "quests")[:8] == [1, -1, 1, 1, 0, 0, 1, 0]
        # Approved, not forced; seat 1 led; seats 1 and 4; the ballots.
        assert part(seat, "proposals")[:17] == [1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, -1, 1, -1]
        assert not any(part(seat, "proposals")[17:])


def test_the_layout_covers_the_row_without_a_gap() -> None:
    for table in TABLES:
        features = raw_env(**table).features
        ends = [part.stop for part in features.layout.values()]
        assert [part.start for part in features.layout.values()] == [0, *ends[:-1]]
        assert ends[-1] == features.length


def test_games_without_a_seed_of_their_own_follow_from_the_last_one() -> None:
    def deals(game: AvalonEnv) -> list[Any]:
        game.reset(seed=3)
        found = [game.state_of_play.roles]
        for _ in range(8):
            game.reset()
            found.append(game.state_of_play.roles)
        return found

    first = deals(raw_env())
    assert deals(raw_env()) == first
    assert len(set(first)) > 4


def test_an_illegal_action_raises_or_ends_the_game_at_minus_one() -> None:
    raw = raw_env()
    raw.reset(seed=1)
    before = len(raw.state_of_play.log)
    with pytest.raises(IllegalAction, match="asked for propose_team"):
        raw.step(1)
    with pytest.raises(InvalidAction, match="actions are 0 to"):
        raw.step(9999)
    assert len(raw.state_of_play.log) == before
    guarded = env()
    guarded.reset(seed=1)
    guarded.last()
    guarded.step(1)
    assert guarded.rewards["seat_1"] == -1
    assert all(guarded.terminations.values())


def test_settings_that_make_no_such_game_are_refused() -> None:
    with pytest.raises(InvalidProfile, match="without talk"):
        raw_env(rules={"summaries": True})
    with pytest.raises(InvalidProfile, match="players must be 5 to 10"):
        raw_env(players=4)
    with pytest.raises(ValueError, match="render_mode"):
        raw_env(render_mode="rgb_array")


def test_render_tells_the_game_through_the_viewers_eyes(capsys: pytest.CaptureFixture[str]) -> None:
    full = raw_env(render_mode="ansi")
    play(full, 4)
    text = full.render()
    assert text is not None
    assert "WINS" in text
    assert "is merlin" in text
    public = raw_env(render_mode="ansi", viewer="public")
    public.reset(seed=4)
    assert "is merlin" not in (public.render() or "")
    printing = raw_env(render_mode="human")
    play(printing, 4)
    assert capsys.readouterr().out == text
    assert raw_env().render() is None


def test_the_program_of_the_document_runs() -> None:
    text = (Path(__file__).parents[3] / "docs/pettingzoo.md").read_text("utf-8")
    found = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", found[1]],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[0] for line in done.stdout.splitlines()) == [f"seat_{n}" for n in range(1, 6)]


def test_the_document_lists_every_part_of_a_row() -> None:
    text = (Path(__file__).parents[3] / "docs/pettingzoo.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)
    assert listed == list(raw_env().features.layout)


def test_without_the_extra_the_import_says_what_to_install() -> None:
    program = "import sys; sys.modules['pettingzoo'] = None\nimport agents.environment"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert "pip install gymnasium numpy pettingzoo" in done.stderr
