"""Contrasts of a report: the games' own counts, paired by deals, with and without excluded games."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from engine.profile import make_profile
from engine.terms import Role, Side
from evaluators.ground.turns import Game
from evaluators.measures.hallucination import Hallucinations, statements_of
from evaluators.measures.judged import CorrectionScores
from evaluators.measures.play import PlayMetrics
from evaluators.report.builder import ReportBuilder, ReportedGame
from evaluators.report.columns import columns_of, pooled, read_conditions, read_contrasts, rule_set
from evaluators.report.contrasts import NO_MIXED, figure_names, figures_of_cells, is_compared, range_of
from evaluators.report.page import as_html
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, ReportTable, public_part
from evaluators.statistics.contrasts import contrast
from evaluators.statistics.mixed import Mixed, MixedRow, mixed
from tests.evaluators.report.test_columns import seated
from tests.evaluators.report.test_report import given, guessed, judged
from tests.evaluators.scripted_games import scripted_game


def labelled(seed: int, mood: str, *, name: str = "", **more: Any) -> ReportedGame:
    game = replace(scripted_game(seed), id=name or f"{mood} {seed}")
    return ReportedGame(game, columns=columns_of(game, labels={"mood": mood}), **more)


def reported(
    games: Sequence[ReportedGame], *contrasts: str, where: Sequence[str] = (), **more: Any
) -> Report:
    builder = ReportBuilder(contrasts=read_contrasts(contrasts), where=read_conditions(where), **more)
    for game in games:
        builder.add(game)
    return make_report(builder)


def row(report: Report, *labels: str, name: str = "contrasts") -> dict[str, Any]:
    (found,) = [one for one in report.table(name).rows if one.labels[-len(labels) :] == labels]
    return dict(found.figures)


def won(seed: int) -> int:
    return int(scripted_game(seed).winner is Side.LOYAL)


CALM, WILD = range(1, 9), range(9, 17)


@cache
def unpaired() -> Report:
    games = [*(labelled(seed, "calm") for seed in CALM), *(labelled(seed, "wild") for seed in WILD)]
    return reported(games, "mood=calm,wild")


def test_what_stands_in_the_table_is_the_contrast_of_the_games_own_counts() -> None:
    cells = [{str(seed): (won(seed), 1) for seed in seeds} for seeds in (CALM, WILD)]
    expected = contrast(cells, "share", paired=False)
    told = row(unpaired(), "win rate, loyal")
    assert (told["difference"].value, told["difference"].low, told["difference"].high) == (
        expected.value, expected.low, expected.high,
    )  # fmt: skip
    assert told["p"].value == told["p, Holm"].value == expected.p_value
    assert (told["first"].num, told["first"].den, told["second"].den) == (sum(map(won, CALM)), 8, 8)
    changed = []
    for seeds in (CALM, WILD):
        cell = {}
        for seed in seeds:
            scores = CorrectionScores()
            scores.add(scripted_game(seed))
            cell[str(seed)] = tuple(scores.changed)
        changed.append(cell)
    expected = contrast(changed, "share", paired=False)
    told = row(unpaired(), "modification changes the choice")
    assert (told["difference"].value, told["p"].value) == (expected.value, expected.p_value)
    assert {one.labels[-2] for one in unpaired().table("contrast_parts").rows} >= {"side", "role", "round"}


def test_a_game_is_read_once_however_many_contrasts_and_groups_count_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    def counted(log: Any) -> Any:
        read.append(len(log))
        return statements_of(log)

    monkeypatch.setattr("evaluators.report.builder.statements_of", counted)
    game = labelled(3, "calm", groups={"evil": (1, 2)})
    reported([game], "role=merlin,percival", "side=loyal,evil")
    assert len(read) == 1


def test_a_mixed_model_over_games_stands_beside_the_contrast() -> None:
    rows = []
    for level, seeds in (("0", CALM), ("1", WILD)):
        for seed in seeds:
            scores = CorrectionScores()
            scores.add(scripted_game(seed))
            rows.append(MixedRow(scores.changed.num / scores.changed.den, level, str(seed)))
    expected = mixed(rows, "0", "1")
    told = row(unpaired(), "modification changes the choice")
    seen = told["mixed model"]
    assert (seen.value, seen.low, seen.high) == pytest.approx((expected.effect, expected.low, expected.high))
    assert (seen.games, told["mixed model: p"].value) == (16, pytest.approx(expected.p))
    parts = unpaired().table("contrast_parts")
    assert "mixed model" not in [column.name for column in parts.columns]


def test_a_missing_mixed_model_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    games = [*(labelled(seed, "calm") for seed in (1, 2)), *(labelled(seed, "wild") for seed in (3, 4))]
    monkeypatch.setattr("evaluators.report.contrasts.mixed", lambda *_: Mixed(None, note="did not converge"))
    told = reported(games, "mood=calm,wild")
    assert any(re.search(r"no mixed model for .*\(did not converge\)", note) for note in told.notes_on_gold)
    monkeypatch.setattr("evaluators.report.contrasts.find_spec", lambda _: None)
    told = reported(games, "mood=calm,wild")
    assert NO_MIXED in told.notes_on_gold
    assert "mixed model" not in [column.name for column in told.table("contrasts").columns]


def test_every_question_has_its_sentence_on_the_first_page() -> None:
    first, second = unpaired().notes_on_gold[:2]
    assert first.startswith("mood: calm − wild (games: calm 8, wild 8; not paired): ")
    assert second.startswith("mood: calm − wild: fewer than 15 games")
    assert "8 games, fewer than 15: rough" in row(unpaired(), "win rate, loyal")["first"].note
    assert "no difference found: " in row(unpaired(), "win rate, loyal")["difference"].note
    page = as_html(unpaired(), drawn=False)
    assert first in page
    assert 'id="contrasts"' in page
    assert not public_part(unpaired()).notes_on_gold
    assert "contrasts" not in {table.name for table in public_part(unpaired()).tables}


def test_games_of_one_deal_are_paired_and_equal_games_do_not_differ() -> None:
    games = [labelled(seed, mood) for seed in range(1, 6) for mood in ("calm", "wild")]
    report = reported(games, "mood=calm,wild")
    assert "paired by 5 deals or games" in report.notes_on_gold[0]
    for table in ("contrasts", "contrast_parts", "contrast_means"):
        for one in report.table(table).rows:
            assert one.figures["difference"].value in (0, None), one.labels
            assert one.figures["p"].value in (1, None), one.labels


def test_a_deal_that_is_played_in_several_seatings_counts_once() -> None:
    def played(*seatings: str) -> Report:
        games = []
        for models in seatings:
            for mood, shift in (("calm", 0), ("wild", 20)):
                for seed in range(1, 16):
                    game = seated(scripted_game(seed + shift), "ppppp", models)
                    game = replace(game, id=f"{mood} {seed} {models}")
                    columns = columns_of(game, labels={"mood": mood})
                    columns = replace(columns, of_game={**columns.of_game, "seed": str(seed)})
                    games.append(ReportedGame(game, columns=columns))
        return reported(games, "mood=calm,wild")

    once, twice = played("ababa"), played("ababa", "babab")
    assert "(games: calm 15, wild 15; paired by 15 deals or games)" in once.notes_on_gold[0]
    assert "(games: calm 30, wild 30; paired by 15 deals or games)" in twice.notes_on_gold[0]
    for name in ("approve ballot rate, loyal", "modification changes the choice"):
        first, second = row(once, name), row(twice, name)
        for column in ("difference", "first", "second"):
            limits = [(told[column].low, told[column].high) for told in (first, second)]
            assert limits[1] == pytest.approx(limits[0]), name
        assert second["p"].value == pytest.approx(first["p"].value)
        assert second["mixed model: p"].note == first["mixed model: p"].note
    first, second = (row(one, "win rate, loyal")["difference"] for one in (once, twice))
    assert second.high - second.low > 0.95 * (first.high - first.low)
    # So does a figure of all games.
    totals = [
        next(one for one in report.table("play").rows if one.labels[0] == "approve ballot rate")
        for report in (once, twice)
    ]
    limits = [(one.figures["ours"].low, one.figures["ours"].high) for one in totals]
    assert limits[1] == pytest.approx(limits[0])


@pytest.mark.long
def test_seats_of_one_table_are_paired_by_their_game() -> None:
    games = []
    for seed in range(1, 7):
        game = seated(scripted_game(seed), "ppdpd" if seed % 2 else "dpdpp")
        games.append(ReportedGame(game, judged(game), [guessed(game, "r")]))
    report = reported(games, "preset=paper,direct")
    assert "(games: paper 6, direct 6; paired by 6 deals or games)" in report.notes_on_gold[0]
    cells: list[dict[str, tuple[int, int]]] = [{}, {}]
    spoke: list[dict[str, tuple[int, int]]] = [{}, {}]
    for game_ in games:
        places = columns_of(game_.game).seats("preset")
        for at, preset in enumerate(("paper", "direct")):
            metrics, said = PlayMetrics(), Hallucinations()
            metrics.add(game_.game.log, places[preset])
            said.add(statements_of(game_.game.log), game_.game.roles, places[preset])
            cells[at][game_.game.id] = tuple(metrics.approve_ballots(Side.LOYAL))
            spoke[at][game_.game.id] = tuple(said.speeches())
    for name, counted in (("approve ballot rate, loyal", cells), ("speeches that the record refutes", spoke)):
        expected = contrast(counted, "share", paired=True)
        told = row(report, name)
        assert told["difference"].value == pytest.approx(expected.value)
        assert told["p"].value == pytest.approx(expected.p_value)
    assert row(report, "guessing f1, r")["difference"].value is not None
    assert row(report, "selection accuracy")["difference"].value is not None
    # Rounds and who won are the whole table's, and nobody's alone.
    assert not [
        one for one in report.table("contrast_parts").rows if one.labels[1].startswith("quest played")
    ]
    assert row(report, "seats won, evil")["difference"].value is not None


def test_seats_add_up_to_the_game() -> None:
    for seed in range(3):
        game = scripted_game(seed)
        whole, parts = PlayMetrics(), PlayMetrics()
        whole.add(game.log)
        for seats in ({1, 4}, {2}, {3, 5}):
            part = PlayMetrics()
            part.add(game.log, seats)
            parts.merge(part)
        told, added = whole.as_json(), parts.as_json()
        of_games = {"games", "loyal_win_rate", "evil_win_rate", "quest_win_rate_loyal", "quest_win_rate_evil"}
        assert {name: told[name] for name in told.keys() - of_games} == {
            name: added[name] for name in added.keys() - of_games
        }
        assert added["games"] == 0


def test_each_contrast_stands_as_excluded_as_played_and_in_the_worst_case() -> None:
    out = [16, 12, 15]
    games = [
        *(labelled(seed, "calm") for seed in CALM),
        *(labelled(seed, "wild", invalid=seed in out) for seed in WILD),
    ]
    told = row(reported(games, "mood=calm,wild"), "win rate, loyal")
    calm = {str(seed): (won(seed), 1) for seed in CALM}
    left = {str(seed): (won(seed), 1) for seed in WILD if seed not in out}
    sound = contrast((calm, left), "share", paired=False)
    assert told["difference"].value == sound.value
    assert told["as played"].value == row(unpaired(), "win rate, loyal")["difference"].value
    best = int(sound.value > 0)
    worst = contrast((calm, {**left, **{str(seed): (best, 1) for seed in out}}), "share", paired=False)
    assert (told["worst case"].value, told["worst case: p"].value) == (worst.value, worst.p_value)
    excluded = row(reported(games, "mood=calm,wild"), "games excluded")
    assert (excluded["first"].num, excluded["second"].num, excluded["second"].den) == (0, 3, 8)


def test_a_sign_that_exclusion_changes_is_told_first() -> None:
    winners = [seed for seed in range(30) if won(seed)][:6]
    losers = [seed for seed in range(30) if not won(seed)][:6]
    games = [labelled(seed, "calm", name=f"c{seed}") for seed in (*winners[:2], *losers[:2])]
    games += [labelled(seed, "wild", name=f"w{seed}") for seed in (winners[2], *losers[2:4])]
    games += [labelled(seed, "wild", invalid=True, name=f"x{seed}") for seed in winners[3:6]]
    report = reported(games, "mood=calm,wild")
    played = [note for note in report.notes_on_gold if "With the excluded games in the sign" in note]
    assert any("win rate, loyal" in note for note in played)
    assert "the sign changes" in row(report, "win rate, loyal")["as played"].note


def test_holms_adjustment_is_over_the_contrasts_asked() -> None:
    games = [labelled(seed, ("a", "b", "c")[seed % 3]) for seed in range(1, 16)]
    report = reported(games, "mood=a,b,c")
    rows = [one.figures for one in report.table("contrasts").rows if one.labels[1] == "win rate, loyal"]
    assert len(rows) == 3
    least = min(rows, key=lambda figures: figures["p"].value)  # type: ignore[arg-type, return-value]
    assert least["p, Holm"].value == pytest.approx(min(1, 3 * least["p"].value))  # type: ignore[operator]
    assert least["p, Holm"].note == "of 3 contrasts"


def test_a_contrast_counts_also_where_another_figure_is_its_own() -> None:
    games = [labelled(seed, ("a", "b")[seed % 2]) for seed in range(1, 13)]
    report = reported(games, "mood=a,b", "mood=a,b where role=merlin")
    for name in ("win rate, loyal", "seats won, loyal"):
        (figures,) = [one.figures for one in report.table("contrasts").rows if one.labels[1] == name]
        assert figures["p"].value is not None
        assert figures["p, Holm"].value == pytest.approx(min(1, 2 * figures["p"].value))
        assert figures["p, Holm"].note == "of 2 contrasts"


def test_the_first_page_counts_games_and_pairs_without_the_excluded_ones() -> None:
    games = [labelled(seed, "calm") for seed in range(1, 17)]
    games += [labelled(seed, "wild", invalid=seed > 6) for seed in range(1, 17)]
    first, second = reported(games, "mood=calm,wild").notes_on_gold[:2]
    assert first.startswith("mood: calm − wild (games: calm 16, wild 6 of 16; paired by 6 deals or games)")
    assert second.endswith("intervals and tests are rough: wild (6).")


def test_levels_that_play_at_other_tables_are_not_compared_without_a_word() -> None:
    same = [labelled(seed, mood) for seed in range(1, 6) for mood in ("calm", "wild")]
    columns = columns_of(scripted_game(6), labels={"mood": "calm"})
    official = {**columns.of_game, "profile": "official"}
    other = ReportedGame(scripted_game(6), columns=replace(columns, of_game=official))
    words = "the levels did not play at the same tables"
    (note,) = [one for one in reported([*same, other], "mood=calm,wild").notes_on_gold if words in one]
    assert "(calm interintent, 5 players and official, 5 players; wild interintent, 5 players)" in note
    assert not any(words in one for one in reported(same, "mood=calm,wild").notes_on_gold)


def test_crossed_contrasts_are_interactions() -> None:
    games = []
    for seed in range(1, 13):
        game = replace(scripted_game(seed), id=f"g{seed}")
        labels = {"mood": ("calm", "wild")[seed % 2], "talk": ("long", "short")[seed // 2 % 2]}
        games.append(ReportedGame(game, columns=columns_of(game, labels=labels)))
    told = row(reported(games, "mood=calm,wild x talk=long,short"), "win rate, loyal")
    shares = {}
    for at, one in enumerate(games, 1):
        assert one.columns is not None
        cell = one.columns.of_game["mood"], one.columns.of_game["talk"]
        shares.setdefault(cell, []).append(won(at))
    means = {cell: sum(wins) / len(wins) for cell, wins in shares.items()}
    simple = [means["calm", talk] - means["wild", talk] for talk in ("long", "short")]
    assert [told["first"].value, told["second"].value] == pytest.approx(simple)
    assert told["difference"].value == pytest.approx(simple[0] - simple[1])


def test_where_restricts_every_table_that_has_seats_and_says_where_it_cannot() -> None:
    def at_merlin(game: Game) -> frozenset[int]:
        return frozenset({game.roles.index(Role.MERLIN) + 1})

    games = [replace(given(seed), groups={"all": range(1, 6)}) for seed in range(3)]
    report = reported(games, where=["role=merlin"])
    assert report.notes[0] == "Only seats with role=merlin: figures of whole games are left out."
    scores = CorrectionScores()
    for one in games:
        scores.add(one.game.of(at_merlin(one.game)))
    told = report.table("correction").figure(("all", "all"), "changed")
    assert (told.num, told.den) == tuple(scores.changed)
    assert {one.labels[-1] for one in report.table("selection").rows if one.labels[0] == "role"} == {"merlin"}
    for name in ("results", "rounds", "link"):
        assert not report.table(name).rows
        assert "figures of whole games" in report.table(name).empty
    wins = report.table("seats").figure(("loyal",), "won")
    assert (wins.num, wins.den) == (sum(one.game.winner is Side.LOYAL for one in games), 3)
    grouped = table_of(report, "groups_correction")
    assert grouped.rows[0].figures["all"].den == told.den
    by_game = reported(games, where=["seed=1"])
    assert by_game.made_of["games"] == 1
    assert by_game.table("results").rows
    assert by_game.excluded["games"] == {"no seat with seed=1": 2}


def table_of(report: Report, name: str) -> ReportTable:
    return report.table(name)


def test_a_question_is_answered_by_the_figure_that_decides_it() -> None:
    games = [*(labelled(seed, "calm") for seed in CALM), *(labelled(seed, "wild") for seed in WILD)]
    (asked,) = read_contrasts(["mood=calm,wild where side=evil"])
    for measure, says in (
        (
            "seats won, evil",
            r"Do they\? mood: calm − wild, side=evil, seats won, evil: calm .* %; no diff",
        ),
        ("luck", "no figure is called 'luck'; there are seats won, evil, "),
    ):
        builder = ReportBuilder(contrasts=[asked._replace(question="Do they?", measure=measure)])
        for game in games:
            builder.add(game)
        assert re.match(f".*{says}", make_report(builder).notes_on_gold[0])


def test_a_difference_without_an_interval_says_why_and_keeps_its_p() -> None:
    def scored(mood: str, seeds: Sequence[int]) -> Iterator[ReportedGame]:
        for seed in seeds:
            every = judged(replace(scripted_game(seed), id=f"{mood} {seed}"))
            score = 4 if mood == "calm" else 2
            judgements = [replace(one, think=score, speak=score) for one in every if one.rater == "ann"]
            yield labelled(seed, mood, judgements=judgements)

    def sentence(calm: Sequence[int], wild: Sequence[int]) -> str:
        report = reported([*scored("calm", calm), *scored("wild", wild)], "mood=calm,wild")
        told = row(report, "mean following score (think, both stages)", "all", "all", name="contrast_means")
        assert told["difference"].low is None
        return str(told["difference"].note)

    assert sentence(CALM, WILD) == "+2.00: no interval, since the difference has no spread (p < 0.001)"
    assert sentence(CALM, CALM) == "+2.00: no interval, since the difference has no spread (p 0.004)"
    assert sentence(CALM, (9,)) == "one game or deal in a level: no interval and no test"
    assert sentence(CALM, (1,)) == "one game or deal in a level: no interval and no test"


def test_at_an_early_look_less_counts_as_found() -> None:
    games = [*(labelled(seed, "calm") for seed in CALM), *(labelled(seed, "wild") for seed in WILD)]
    notes = [reported(games, "mood=calm,wild", level=level).notes_on_gold[0] for level in (0.9, 1e-9, 0)]
    assert "differ" in notes[0].partition("no difference")[0]
    assert "no difference was found in any" in notes[1]
    assert notes[2].endswith(": nothing can count as found: earlier looks have spent the error.")
    spent = row(reported(games, "mood=calm,wild", level=0), "win rate, loyal")["difference"].note
    assert spent.startswith("nothing can count as found")


def served(number: int, version: str, mood: str) -> ReportedGame:
    """A game in which a model, served in this version, holds seats 1 and 2."""
    game = replace(seated(scripted_game(number), "pp---"), id=f"{mood} {number}")
    columns = columns_of(game, labels={"mood": mood}, served={1: [version], 2: [version]})
    return ReportedGame(game, columns=columns, groups=columns.seats("mood"))


def test_two_served_versions_of_a_model_are_never_pooled_without_a_word() -> None:
    games = [served(number, "v1", "calm") for number in (1, 2)]
    games += [served(number, version, "wild") for number, version in ((3, "v1"), (4, "v2"))]
    builders = [ReportBuilder(contrasts=read_contrasts(["mood=calm,wild"])) for _ in range(3)]
    for place, game in enumerate(games):
        builders[0].add(game)
        builders[1 + place % 2].add(game)
    builders[1].merge(builders[2])
    for builder in builders[:2]:
        notes = [note for note in make_report(builder).notes_on_gold if "served" in note]
        pools = "model-a was served as v1, v2, and these are pooled (column served)."
        assert notes == [f"group wild: {pools}", f"mood: calm − wild, wild: {pools}"]
    assert games[0].columns is not None
    assert games[0].columns.seats("served") == {"scripted": {3, 4, 5}, "v1": {1, 2}}
    games = [replace(game, groups={}) for game in games]
    apart = reported(games, "served=v1,v2", "mood=calm,wild where served=v1")
    assert not [note for note in apart.notes_on_gold if "these are pooled" in note]
    # Nobody recorded what served these seats: that is no version.
    unknown = seated(scripted_game(5), "p----")
    assert columns_of(unknown).seats("served") == {"not known": {1}, "scripted": {2, 3, 4, 5}}
    mixed_ = [ReportedGame(unknown, columns=columns_of(unknown, labels={"mood": "wild"})), games[2]]
    assert not [note for note in reported(mixed_, "mood=calm,wild").notes_on_gold if "these are" in note]


def test_rule_sets_are_never_pooled_without_a_word() -> None:
    game = scripted_game(1)
    other = replace(game, id="other", profile=make_profile("interintent", 5, rules={"summaries": False}))
    report = reported([ReportedGame(game), ReportedGame(other)])
    (note,) = [note for note in report.notes if note.startswith("2 rule sets are pooled")]
    assert note.endswith("interintent, 5 players: 1; interintent, 5 players, summaries=False: 1.")
    assert not any("pooled" in note for note in reported([ReportedGame(game)]).notes)
    alone = reported([ReportedGame(game), ReportedGame(other)], where=["rules=interintent, 5 players"])
    assert alone.made_of["profiles"] == {"interintent, 5 players": 1}


def test_rule_sets_of_records_are_told_apart_by_what_they_state() -> None:
    official = make_profile("official", 7)
    record = replace(official, name="replay")
    assert rule_set(record) == "replay, 7 players"
    # What a record does not state, or a game's course decides, makes no other rule set.
    assert rule_set(replace(record, first_leader=3, missed_shot="play_on")) == "replay, 7 players"
    assert rule_set(replace(record, max_rejections=3, on_max_rejections="quest_fails")) == (
        "replay, 7 players, max_rejections=3, on_max_rejections=quest_fails"
    )
    many = {f"rules {number:02}": number for number in range(1, 15)}
    assert pooled(many).endswith("rules 14: 14; 2 others: 3")
    assert pooled(many).startswith("rules 03: 3; ")


def test_every_contrast_names_the_games_behind_it() -> None:
    told = unpaired().as_json()
    (table,) = [one for one in told["tables"] if one["name"] == "contrasts"]
    (row_,) = [one for one in table["rows"] if one["labels"][1] == "win rate, loyal"]
    games, sets = told["sources"]["games"], told["sources"]["sets"]
    for column, seeds in (("first", CALM), ("second", WILD), ("difference", None)):
        mask = int(sets[row_["figures"][column]["from"]], 16)
        behind = {game for place, game in enumerate(games) if mask >> place & 1}
        named = (
            [("calm", CALM), ("wild", WILD)]
            if seeds is None
            else [("calm" if seeds is CALM else "wild", seeds)]
        )
        assert behind == {f"{mood} {seed}" for mood, these in named for seed in these}


def test_a_plan_knows_every_figure_that_a_report_contrasts_by_its_name_and_range() -> None:
    games = []
    for seed in range(1, 7):
        for mood in ("calm", "wild"):
            game = scripted_game(seed)
            games.append(labelled(seed, mood, judgements=judged(game), answers=[guessed(game, "r")]))
    contrasts = read_contrasts(
        ["mood=calm,wild", "mood=calm,wild where side=evil,loyal and role=merlin,assassin"]
    )
    builder = ReportBuilder(contrasts=contrasts[:1])
    both = ReportBuilder(contrasts=contrasts)
    for game_ in games:
        both.add(game_)
        builder.add(game_)
    planned = list(figures_of_cells(builder.contrasts[0]))
    report = make_report(builder)
    main = [one.labels[1] for one in report.table("contrasts").rows]
    assert main
    assert [one.name for one in planned if one.is_main and one.unit == "share"] == main
    rows = [*report.table("contrast_parts").rows, *report.table("contrast_means").rows]
    named = {one.labels[1] if one.labels[2] == "all" else f"{one.labels[1]}, {one.labels[3]}" for one in rows}
    assert named <= {one.name for one in planned}
    assert all(one.paired for one in planned)
    for one in planned:
        assert range_of(one.name) == (one.unit, one.limits), one.name
    of_games, of_seats = ({one.name for one in figures_of_cells(counts)} for counts in both.contrasts)
    assert {name for name in of_games | of_seats if is_compared(name, of_seats=False)} >= of_games
    assert {name for name in of_games | of_seats if is_compared(name, of_seats=True)} >= of_seats
    # Of the whole table alone, and of seats alone.
    assert not any(is_compared(name, of_seats=True) for name in ("win rate, loyal", "quest played, 2"))
    assert not any(
        is_compared(name, of_seats=True) for name in of_games if name.startswith("evil above loyal")
    )
    assert not is_compared("seats won, evil", of_seats=False)
    for name in ("joy", "win rate", "win rate, evil", "seats won"):
        assert range_of(name) is None, name
    assert range_of("seats won, evil") == ("share", (0, 1))
    assert {"win rate, loyal", "seats won, …", "guessing f1, …"} <= set(figure_names())
