"""Columns: what games and seats are told apart by, and what is said of those that nobody knows."""

from dataclasses import replace
from itertools import permutations

import pytest

from engine.events import AgentsSeated
from engine.seated import SeatedAgent
from engine.terms import Role
from evaluators.ground.turns import Game
from evaluators.report.columns import (
    Condition,
    Contrast,
    Factor,
    UnknownColumn,
    agent_names,
    column_name,
    columns_of,
    model_seats,
    pieces,
    read_conditions,
    read_contrasts,
    selected,
)
from tests.evaluators.scripted_games import scripted_game


def seated(game: Game, presets: str, models: str = "") -> Game:
    """The game with a record of agents: for each seat the letter of its preset and of its model; ``-``: a
    script."""
    names = {"p": "paper", "d": "direct"}
    agents = tuple(
        SeatedAgent("scripted", None, None, {})
        if preset == "-"
        else SeatedAgent(
            "llm",
            f"at-{model}",
            f"model-{model}",
            {
                "mechanism": names[preset],
                "steps": ["formulation"] if preset == "p" else [],
                "memory": "speeches",
            },
        )
        for preset, model in zip(presets, models or "a" * 5, strict=True)
    )
    return replace(game, log=[*game.log[:2], AgentsSeated(agents), *game.log[2:]])


def test_seats_are_told_apart_by_the_record_of_agents_and_the_deal() -> None:
    game = seated(scripted_game(1), "pd-pp", "abaab")
    columns = columns_of(game, file="some/where/a.ndjson", labels={"tone": "warm", "profile": "mine"})
    assert columns.seats("preset") == {"direct": {2}, "paper": {1, 4, 5}, "scripted": {3}}
    assert columns.seats("model") == {"model-a": {1, 4}, "model-b": {2, 5}, "scripted": {3}}
    assert columns.seats("steps") == {"formulation": {1, 4, 5}, "none": {2}, "scripted": {3}}
    assert columns.seats("agent") == {
        "llm model-a@at-a paper": {1, 4}, "llm model-b@at-b direct": {2}, "llm model-b@at-b paper": {5},
        "scripted": {3},
    }  # fmt: skip
    assert columns.seats("role")["merlin"] == {game.roles.index(Role.MERLIN) + 1}
    assert {len(seats) for seats in columns.seats("side").values()} == {2, 3}
    whole = frozenset(range(1, 6))
    for name, value in (
        ("file", "a.ndjson"), ("tone", "warm"), ("label:profile", "mine"), ("profile", "interintent"),
        ("players", "5 players"), ("seed", "1"),
    ):  # fmt: skip
        assert columns.seats(name) == {value: whole}
    assert columns.seats("mood") == {}
    assert agent_names(game) == (
        "llm model-a@at-a paper", "llm model-b@at-b direct", "scripted",
        "llm model-a@at-a paper", "llm model-b@at-b paper",
    )  # fmt: skip
    assert model_seats(game) == {1, 2, 4, 5}


def test_where_the_log_has_no_agents_those_that_are_named_count() -> None:
    game = scripted_game(1)
    assert agent_names(game) is None
    assert model_seats(game) is None
    named = columns_of(game, agents=("a", "b", "a", "b", "a"))
    assert named.seats("agent") == {"a": {1, 3, 5}, "b": {2, 4}}
    assert named.seats("agents") == {"a, b": {1, 2, 3, 4, 5}}
    assert named.seats("model") == {}
    small = SeatedAgent("llm", "small", None, {"mechanism": "direct"})
    stored = [small, *[SeatedAgent("remote", None, None, {})] * 4]
    assert columns_of(game, stored=stored).seats("preset") == {"direct": {1}, "remote": {2, 3, 4, 5}}
    assert agent_names(game, stored) == ("llm small direct", *["remote"] * 4)


def test_games_of_one_deal_belong_together_whatever_is_contrasted() -> None:
    paper, direct = (columns_of(seated(scripted_game(1), presets * 5)) for presets in "pd")
    other = columns_of(seated(scripted_game(2), "ppppp"))
    assert paper.deal == direct.deal != other.deal
    mirrored = [columns_of(seated(scripted_game(1), "ppppp", models)) for models in ("ababa", "babab")]
    assert mirrored[0].deal == mirrored[1].deal == paper.deal
    unknown = replace(mirrored[0], of_game={"profile": "interintent"})
    assert unknown.deal == unknown.trial == ""


def test_games_that_differ_in_their_seating_alone_are_one_trial() -> None:
    games = [seated(scripted_game(1), "ppppp", models) for models in ("ababa", "babab")]
    one, other = (columns_of(game, batch="b") for game in games)
    assert one.trial == other.trial
    assert one.trial != columns_of(games[1], batch="c").trial
    assert one.trial != columns_of(games[1], batch="b", labels={"mood": "wild"}).trial
    assert one.trial != columns_of(seated(scripted_game(2), "ppppp", "ababa"), batch="b").trial
    # A server plays each seating of a study's cell in a batch of its own.
    batches = [
        columns_of(game, batch=batch, labels={"cell": "1"}).trial
        for game, batch in zip(games, "bc", strict=True)
    ]
    assert batches[0] == batches[1]


def test_conditions_select_seats() -> None:
    columns = columns_of(seated(scripted_game(1), "pd-pp"))
    assert selected(columns, []) == {1, 2, 3, 4, 5}
    assert selected(columns, read_conditions(["preset=paper, direct", "players=5"])) == {1, 2, 4, 5}
    assert selected(columns, read_conditions(["side=evil", "side=loyal"])) == frozenset()
    assert selected(columns, read_conditions(["mood=good"])) == frozenset()
    assert read_conditions(["mechanism=paper"])[0].column == "preset"


def test_contrasts_are_pairs_of_levels_or_crossed() -> None:
    assert read_contrasts(["preset=paper,direct"]) == (Contrast(Factor("preset", "paper", "direct")),)
    assert len(read_contrasts(["model=a,b,c", "memory=speeches,summaries"])) == 4
    (crossed,) = read_contrasts(["preset=paper,direct x model=model-a,model-b"])
    assert str(crossed) == "preset: paper − direct × model: model-a − model-b"
    columns = columns_of(seated(scripted_game(1), "pdppd", "aabbb"))
    assert crossed.seats(columns) == ({1}, {2}, {3, 4}, {5})
    (some,) = read_contrasts(["preset=paper,direct where model=model-b and players=5"])
    assert some.seats(columns) == ({3, 4}, {5})
    assert str(some) == "preset: paper − direct, model=model-b and players=5 players"
    assert crossed.cells == ("paper, model-a", "direct, model-a", "paper, model-b", "direct, model-b")


def test_a_value_with_a_comma_stands_in_quotes() -> None:
    (contrast,) = read_contrasts(['cond="a, b",é=ü where cond="a, b", 5" and mood=x'])
    assert contrast.factor == Factor("cond", "a, b", "é=ü")
    assert contrast.where[0] == Condition("cond", ("a, b", '5"'))
    assert str(contrast.where[0]) == 'cond="a, b",5"'
    assert read_conditions([str(contrast.where[0])]) == contrast.where[:1]


ODD = ("r,1", "a x b", "c where side=evil and f=g", 'q"r', '"', "d;e", 'f="g,h', " i\n", "\tj k ", "l × m")
"""Levels that would be read as something else if they were not quoted."""


def quoted(level: str) -> str:
    return '"' + level.replace('"', '""') + '"'


def test_any_level_can_be_asked_for_in_quotes() -> None:
    for one, other in permutations(ODD, 2):
        both = f"{quoted(one)}, {quoted(other)}"
        text = f"cond={both} x mood={both} where size={both} and tone={both}"
        (asked,) = pieces(f"{text};mood=a,b", ";")[:-1]
        (contrast,) = read_contrasts([asked])
        assert contrast.factor == Factor("cond", one, other)
        assert contrast.by == Factor("mood", one, other)
        assert contrast.where == (Condition("size", (one, other)), Condition("tone", (one, other)))
    assert pieces("", ";") == [""]


def test_every_restriction_of_a_contrast_holds() -> None:
    (contrast,) = read_contrasts(["mood=a,b where side=evil where role=merlin"])
    assert contrast.where == (Condition("side", ("evil",)), Condition("role", ("merlin",)))


def test_a_label_may_be_a_column_however_long_its_name_is() -> None:
    assert column_name("a" * 64) == "a" * 64


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("preset", "column=value"),
        ("preset=paper", "two to 6 levels"),
        ("preset=a,b,c,d,e,f,g", "got 7"),
        ("preset=paper,", "column=value"),
        ("preset=", "column=value"),
        ('preset="paper,direct', "column=value"),
        ('preset="paper"s,direct', "column=value"),
        ("Preset!=a,b", "no column is called 'Preset!'"),
        ("role=merlin,wizard", "no role is called 'wizard'; there are merlin"),
        ("preset=a,b x preset=a,b", "two different columns"),
        ("preset=a,b x model=a,b x memory=a,b", "two columns at most"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(text: str, says: str) -> None:
    with pytest.raises(UnknownColumn) as told:
        read_contrasts([text])
    assert says in str(told.value)
    with pytest.raises(UnknownColumn):
        column_name("no column")


def test_long_levels_are_named_once_and_then_by_their_place() -> None:
    steps = "first_order+selection+formulation+second_order"
    long = Contrast(Factor("label:steps", steps, "selection"), where=(Condition("side", ("evil",)),))
    assert str(long) == f"steps: {steps} − selection, side=evil"
    assert (long.short, long.cells) == ("steps: first − second, side=evil", ("first", "second"))
    assert long.whole_cells == (steps, "selection")
    crossed = long._replace(by=Factor("memory", "summaries", "speeches"))
    assert crossed.short == "steps: first − second × memory: summaries − speeches, side=evil"
    assert crossed.cells[:2] == ("first, summaries", "second, summaries")
    assert crossed.whole_cells[3] == "selection, speeches"
    plain = Contrast(Factor("preset", "paper", "direct"))
    assert plain.short == str(plain)
    assert plain.cells == plain.whole_cells == ("paper", "direct")
