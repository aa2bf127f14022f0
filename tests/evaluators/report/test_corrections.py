"""Judges corrected by people, and what the rules refuse, in a report."""

from collections.abc import Iterator

from engine.chance import unit
from evaluators.ground.items import items
from evaluators.ground.judgements import Judgement
from evaluators.ground.turns import Game
from evaluators.report.builder import ReportBuilder, ReportedGame
from evaluators.report.corrections import correction_of, count_overlap
from evaluators.report.page import as_html
from evaluators.report.sections import make_report
from evaluators.report.tables import Report, public_part
from evaluators.statistics.figures import FigureTally
from tests.evaluators.talk import by_hand, chose, scripted

GAMES = range(1, 11)


def judgements(game: Game, *, people: bool) -> Iterator[Judgement]:
    """People find about seven of ten selections reasonable; the judge says so of nearly all. People judge
    every third item.
    """
    for number, item in enumerate(items(game, "selection")):
        for choice in item.asked:
            key = (item.game_id, item.request_id, item.stage, choice.id)
            good = unit("people", *key) < 0.7
            mild = good or unit("judge", *key) < 0.8
            yield Judgement(*key, mild, 4 if mild else 2, None, "mild")
            if people and number % 3 == 0:
                yield Judgement(*key, good, None, None, "ann")


def report(*, people: bool = True, agents: tuple[str, ...] | None = None) -> Report:
    builder = ReportBuilder()
    for seed in GAMES:
        game = scripted(seed)
        builder.add(
            ReportedGame(
                game, list(judgements(game, people=people)), agents=agents, judges=frozenset({"mild"})
            )
        )
    return make_report(builder)


def test_a_judge_appears_raw_and_corrected_by_what_people_say_of_the_same_items() -> None:
    table = report(agents=("a", "a", "b", "b", "b")).table("judges_corrected")
    every = next(row for row in table.rows if row.labels == ("mild", "reasonable", "all", "all")).figures
    raw, value = every["raw"], every["corrected"]
    assert raw.value is not None
    assert value.value is not None
    assert value.low is not None
    assert value.high is not None
    assert raw.value > 0.9
    # What people say of all items, which the report does not know.
    said = [
        unit("people", item.game_id, item.request_id, item.stage, choice.id) < 0.7
        for seed in GAMES
        for item in items(scripted(seed), "selection")
        for choice in item.asked
    ]
    assert value.low < sum(said) / len(said) < value.high < raw.value
    assert every["sensitivity"].value == 1
    assert 0.1 < (every["specificity"].value or 0) < 0.4
    assert every["items of both"].value == value.den
    groups = {row.labels[2:] for row in table.rows if row.labels[1] == "reasonable"}
    assert {("side", "loyal"), ("side", "evil"), ("role", "merlin"), ("agent", "a"), ("agent", "b")} <= groups


def test_what_no_person_judged_says_uncorrected() -> None:
    made = report(people=False)
    rows = made.table("judges_corrected").rows
    assert {row.labels[1] for row in rows} == {"reasonable", "think"}
    for row in rows:
        assert row.figures["raw"].value is not None
        assert row.figures["corrected"].value is None
        assert row.figures["corrected"].note.startswith(
            "uncorrected: people judged the judge's items in 0 games"
        )
    assert "uncorrected: people judged" in as_html(made)
    # People judged selection alone.
    thinking = [row for row in report().table("judges_corrected").rows if row.labels[1] == "think"]
    assert {row.figures["corrected"].value for row in thinking} == {None}


def test_a_final_selection_that_stands_is_no_second_item() -> None:
    # Nobody is asked whether it is reasonable, but how the speech follows it.
    game = by_hand(
        {
            "1.1.speak.2": chose(2, "defend_self"),
            "1.1.speak.3": chose(3, "defend_self", "counter_not_on_team"),
        }
    )
    said = [
        Judgement("g", f"1.1.speak.{seat}", stage, intention, stage == "first", 5, None, "mild")
        for seat, stage, intention in (
            (2, "first", "defend_self"),
            (2, "final", "defend_self"),
            (3, "first", "defend_self"),
            (3, "final", "counter_not_on_team"),
        )
    ]
    tally = FigureTally()
    tally.begin("g")
    count_overlap(tally, game, "mild", said, (), None)
    assert correction_of(tally, "mild", "reasonable").raw.value == 2 / 3
    assert correction_of(tally, "mild", "think").raw.value == 1


def test_corrections_and_rulings_are_for_those_who_may_see_whole_logs() -> None:
    names = {table.name for table in public_part(report()).tables}
    assert not {"judges_corrected", "rulings"} & names


def test_the_refusals_of_the_rules_stand_by_intention() -> None:
    builder = ReportBuilder()
    # Nobody has failed a quest in round 1, and no vote was taken: these are offered only later.
    notes = {
        "1.1.speak.2": chose(2, "support_proposal pretend_merlin_hints"),
        "2.1.speak.3": chose(3, "support_proposal"),
    }
    builder.add(ReportedGame(by_hand(notes)))
    table = make_report(builder).table("rulings")
    selected = {row.labels: (row.figures["refused"].num, row.figures["refused"].den) for row in table.rows}
    assert selected["intention", "support_proposal"][1] == 2
    assert selected["all", "all"][1] == 3
    total = [
        sum(row.figures[name].num or 0 for name in ("role", "fact", "contradiction")) for row in table.rows
    ]
    assert total == [row.figures["refused"].num for row in table.rows]
