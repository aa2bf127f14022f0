"""The paper's page: its tables come first and in its order, people beside models, who reads whom; LaTeX."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import islice, pairwise
from math import sqrt

import pytest

from engine.chance import draw
from engine.intentions import BY_ID
from engine.terms import Side
from evaluators.ground.answers import Guess
from evaluators.ground.items import Variant, items
from evaluators.ground.rows import row as item_row
from evaluators.measures.impact import Link, LinkRule
from evaluators.measures.scoring import Scores
from evaluators.report.builder import Answered, ReportBuilder, ReportedGame
from evaluators.report.latex import as_latex, escaped
from evaluators.report.page import as_html
from evaluators.report.plots import plot_files
from evaluators.report.reading import RaterKind
from evaluators.report.sections import make_report
from evaluators.report.tables import (
    PAPER,
    QUESTIONS,
    SECTIONS,
    Column,
    Report,
    ReportTable,
    TableRow,
    as_csv,
    public_part,
)
from evaluators.statistics.figures import Figure
from tests.evaluators.authors.association import theils_u
from tests.evaluators.report.test_contrasts import unpaired
from tests.evaluators.report.test_corrections import report as corrected
from tests.evaluators.report.test_report import judged
from tests.evaluators.scripted_games import scripted_game

SEEDS = range(4)
AGENTS = ("ada", "bo", "ada", "bo", "bo_2 & co")
ALL = Variant(reader="all")


def answers(
    seed: int, rater: str, kind: RaterKind, history: str = "all", *, dimension: str = "guessing"
) -> Answered:
    """Guesses of which about every second has one right intention; one option beside it is named too."""
    variant = replace(ALL, history=history)  # type: ignore[arg-type]
    guesses = []
    for item in items(scripted_game(seed), dimension, variant, with_gold=True):  # type: ignore[arg-type]
        lot = draw(5, rater, history, item.id)
        named = {item.options[lot % len(item.options)].id}
        if lot % 2:
            named.add(min(item.gold or ()))
        guesses.append(Guess(item.id, frozenset(named), rater=rater))
    return Answered(dimension, rater, guesses, variant, kind=kind)  # type: ignore[arg-type]


@cache
def built() -> ReportBuilder:
    builder = ReportBuilder("The paper's page")
    for seed in SEEDS:
        game = scripted_game(seed)
        given = [
            answers(seed, "model_1", "model"),
            answers(seed, "model_1", "model", "round"),
            *(answers(seed, name, "human") for name in ("ann", "bob", "cyd")),
            *(answers(seed, name, "human", dimension="summarisation") for name in ("ann", "bob")),
            answers(seed, "model_1", "model", dimension="summarisation"),
        ]
        builder.add(ReportedGame(game, judged(game), given, AGENTS, {"all": range(1, 6)}))
    return builder


@cache
def made() -> Report:
    return make_report(built())


@cache
def page() -> str:
    return as_html(made())


def scores(rater: str, kind: RaterKind, history: str = "all") -> Scores:
    counted = Scores()
    for seed in SEEDS:
        given = answers(seed, rater, kind, history)
        guesses = {guess.item_id: guess for guess in given.guesses}
        for item in items(scripted_game(seed), "guessing", ALL, with_gold=True):
            counted.add(item, guesses[item.id])
    return counted


# --- the order ------------------------------------------------------------------------------------------

OF_PAPER = (
    "dimensions", "selection", "following", "summarisation", "summarisation_followed", "guessing",
    "guessing_followed", "people", "guessers", "history", "confusions", "results", "play", "rounds", "roles",
    "link", "association", "impact", "agreement",
)  # fmt: skip


def test_the_paper_s_tables_come_first_then_the_study_s_questions_then_the_appendix() -> None:
    sections = [table.section for table in made().tables]
    assert sections == sorted(sections, key=SECTIONS.index)
    assert SECTIONS[:2] == (PAPER, QUESTIONS)
    assert tuple(table.name for table in made().tables if table.section == PAPER) == OF_PAPER
    assert all(made().table(name).rows for name in OF_PAPER)


class Outline(HTMLParser):
    """Headings, ids, links and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []
        self.images: list[str] = []
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if held.get("id"):
            self.ids.append(held["id"] or "")
        if tag == "a":
            self.links.append(held.get("href") or "")
        if tag == "svg":
            assert held.get("role") == "img"
            self.images.append(held.get("aria-label") or "")
        self._within = tag
        if tag in ("h1", "h2", "h3"):
            self.headings.append((tag, ""))
        elif tag in ("th", "td"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self._within in ("h1", "h2", "h3"):
            self.headings[-1] = (self._within, self.headings[-1][1] + data)
        elif self._within in ("th", "td"):
            self.cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


@cache
def outline() -> Outline:
    read = Outline()
    read.feed(page())
    return read


def test_every_table_of_the_page_has_a_heading_and_a_link_in_the_contents() -> None:
    titles = [text for tag, text in outline().headings if tag == "h3"]
    shown = [table for table in made().tables if table.rows or table.section == PAPER]
    assert titles == [table.title for table in shown]
    assert [f"#about-{table.name}" for table in shown] == [
        link for link in outline().links if "about-" in link
    ]
    assert not [link for link in outline().links if link[1:] not in outline().ids]
    assert not [name for name, n in Counter(outline().ids).items() if n > 1]
    # The contents show the paper's tables before anything else, the appendix folded.
    contents = page()[page().index("<nav") : page().index("</nav>")]
    assert contents.index("#about-agreement") < contents.index("<details>") < contents.index("#about-beliefs")


def test_the_appendix_hides_what_is_empty_and_says_why() -> None:
    empty = [table for table in made().tables if not table.rows]
    assert empty
    assert all(table.section != PAPER for table in empty)
    for table in empty:
        assert f'id="about-{table.name}"' not in page()
        assert f"<dt>{table.title}</dt><dd>{table.empty}</dd>" in page().replace("&#39;", "'")
    # Without games the paper's tables keep their places.
    bare = as_html(make_report(ReportBuilder()))
    assert all(f'id="about-{name}"' in bare for name in OF_PAPER)
    assert 'id="about-defaults"' not in bare


def test_each_figure_of_the_paper_is_named_in_the_contents_and_its_numbers_begin_the_table_s_place() -> None:
    contents = page()[page().index("<nav") : page().index("</nav>")].replace("&#39;", "'")
    for name in ("dimensions", "results", "play"):
        place_ = page()[page().index(f'id="about-{name}"') :]
        assert place_.index(f'<table id="{name}"') < place_.index(f'id="plot-{name}_plot"')
        for row in made().table(name).rows:
            if any(figure.method == "published" for figure in row.figures.values()):
                assert row.labels[0] in contents
    # From wherever a reader is, the contents are one click away.
    assert page().count('<a class="to" href="#contents">') == 1


def test_a_long_name_of_many_rows_stands_once_above_them_in_the_page() -> None:
    table = _long_names()
    assert table.names_apart
    text = as_html(Report("R", {"games": 1, "version": "1", "intervals": "t"}, {}, (table,)), drawn=False)
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert body.count("refinement − none") == 2
    assert body.count("</tr>") == 2 + len(table.rows)
    assert text.count('<th class="head"') == 1
    link = '<a href="#contrasts">'
    assert text.index("</nav>") > text.index(link)
    short = replace(table, rows=tuple(replace(row, labels=("a", row.labels[1])) for row in table.rows))
    assert not short.names_apart, "a short name may stand in every row"


def test_the_page_has_sentences_where_the_data_have_ids() -> None:
    ids = {label for table in made().tables for row in table.rows for label in row.labels if label in BY_ID}
    assert len(ids) > 10
    cells = {cell.strip() for cell in outline().cells}
    assert not cells & BY_ID.keys()
    assert {BY_ID[one].label for one in ids} <= cells


def test_every_plot_is_told_in_words_with_its_numbers() -> None:
    assert len(outline().images) >= 8
    for words in outline().images:
        assert re.search(r"\d %", words), words
        assert words.endswith("The table below has every number.")


def test_every_question_of_the_study_has_a_plot_after_the_paper_s_page() -> None:
    report = unpaired()
    asked = list(dict.fromkeys(row.labels[0] for row in report.table("contrasts").rows))
    shown = as_html(report)
    assert [f'id="plot-contrast_{n}"' in shown for n in range(1, len(asked) + 2)] == [True] * len(asked) + [
        False
    ]
    assert shown.index("about-agreement") < shown.index("about-contrasts") < shown.index("<details>")
    assert r"\label{tab:contrasts}" in as_latex(report)


# --- people ---------------------------------------------------------------------------------------------


def test_people_s_figure_is_the_mean_over_persons_beside_its_deviation_and_less_the_model_s() -> None:
    values = [float(scores(name, "human").micro) for name in ("ann", "bob", "cyd")]
    model = float(scores("model_1", "model").micro)
    mean = sum(values) / 3
    row = {one.labels: one.figures for one in made().table("people").rows}["guessing F1", "model_1"]
    assert row["people"].value == pytest.approx(mean)
    assert row["deviation"].value == pytest.approx(sqrt(sum((value - mean) ** 2 for value in values) / 3))
    assert row["persons"].value == 3
    assert row["model"].value == pytest.approx(model)
    difference = row["people minus model"]
    assert difference.value == pytest.approx(mean - model)
    assert difference.low is not None
    assert difference.low < mean - model < (difference.high or 0)
    assert difference.games == len(SEEDS)
    beside = made().table("dimensions").figure(("guessing F1, people",), "ours")
    assert beside.value == pytest.approx(mean)
    assert beside.note == f"± {100 * (row['deviation'].value or 0):.2f} over 3 persons"
    published = {one.labels: one.figures for one in made().table("people").rows}
    of_paper = published["guessing F1 on GPT-4's games", "GPT-4, published"]["people minus model"]
    assert of_paper.value == pytest.approx(0.6523 - 0.4687)
    # A model that was asked otherwise stands alone.
    alone = published["guessing F1 (round)", "model_1 (round)"]
    assert alone["people"].value is None
    assert "kind human" in alone["people"].note


def test_who_answers_as_a_program_once_is_no_person() -> None:
    builder = ReportBuilder()
    for seed, kind in ((0, "human"), (1, "program"), (2, "human")):
        builder.add(ReportedGame(scripted_game(seed), [], [answers(seed, "ann", kind)]))  # type: ignore[arg-type]
    assert builder.raters["ann"].kind == "program"
    assert builder.made_of()["answers"][0]["kind"] == "program"


# --- who reads whom -------------------------------------------------------------------------------------


def test_guesses_are_told_by_the_player_whose_speech_it_is() -> None:
    counted: dict[str, Scores] = {}
    for seed in SEEDS:
        guesses = {guess.item_id: guess for guess in answers(seed, "ann", "human").guesses}
        for item in items(scripted_game(seed), "guessing", ALL, with_gold=True):
            for player in ("all players", AGENTS[item.speaker - 1]):
                counted.setdefault(player, Scores()).add(item, guesses[item.id])
    assert counted.keys() == {"all players", *AGENTS}
    table = made().table("guessers")
    for player, score in counted.items():
        assert table.figure(("ann", player), "f1").value == pytest.approx(float(score.micro))
        assert table.figure(("ann", player), "f1").items == score.items
        assert table.figure(("ann", player), "chance").value == pytest.approx(score.chance)
    assert {row.labels[0] for row in table.rows} >= {"beliefs of ada", "beliefs of bo", "model_1 (round)"}
    assert "guessers" not in {one.name for one in public_part(made()).tables}


def test_the_ceiling_is_what_as_many_names_score_at_best() -> None:
    hits = pooled = 0
    for seed in SEEDS:
        guesses = {guess.item_id: guess for guess in answers(seed, "ann", "human").guesses}
        for item in items(scripted_game(seed), "guessing", ALL, with_gold=True):
            named, gold = len(guesses[item.id].intentions), len(item.gold or ())
            hits += min(named, gold)
            pooled += named + gold
    for table, labels in (("guessing", ("ann", "all", "all")), ("guessers", ("ann", "all players"))):
        ceiling = made().table(table).figure(labels, "ceiling")
        assert ceiling.value == pytest.approx(2 * hits / pooled)
    # Beside every F1 of whole items, never below it, and chance never above the ceiling.
    for row in made().table("guessing").rows:
        if row.labels[1] in ("all", "side", "role", "round", "stage"):
            chance, f1, ceiling_ = (row.figures[name].value for name in ("chance", "f1", "ceiling"))
            assert chance is not None
            assert f1 is not None
            assert ceiling_ is not None
            assert f1 <= ceiling_ + 1e-12
            assert chance <= ceiling_ + 1e-12


def test_rounds_with_and_without_history_stand_side_by_side() -> None:
    table = made().table("history")
    for history, column in (("all", "with history"), ("round", "without history")):
        counted = scores("model_1", "model", history)
        for round_, counts in counted.by_round.items():
            figure = table.figure(("model_1", str(round_)), column)
            assert figure.value == pytest.approx(float(counts.f1)), (history, round_)
    assert table.figure(("ann", "1"), "without history").value is None
    assert 'id="plot-rounds_f1"' in page()
    (words,) = (one for one in outline().images if one.startswith(table.title))
    assert "ann, with history, 1: " in words


def test_confusions_are_of_the_items_that_had_the_intention() -> None:
    counted = scores("ann", "human")
    told = made().table("confusions")
    rows = [row for row in told.rows if row.labels[0] == "ann"]
    commonest = sorted(counted.confusion.items(), key=lambda pair: (-pair[1], pair[0]))[:12]
    assert [row.labels[1:] for row in rows] == [pair for pair, _ in commonest]
    for row, ((missed, _), n) in zip(rows, commonest, strict=True):
        figure = row.figures["named instead"]
        assert (figure.num, figure.den) == (n, counted.by_intention[missed].gold)


@pytest.mark.long
def test_the_items_behind_a_figure_are_found_by_its_games_its_rater_and_its_group() -> None:
    told = made().as_json()
    games, sets = told["sources"]["games"], told["sources"]["sets"]
    by_id = {scripted_game(seed).id: seed for seed in SEEDS}
    checked = 0
    for table in told["tables"]:
        if table["name"] not in ("guessing", "summarisation"):
            continue
        assert table["items"]["followed"] is False
        for row in table["rows"]:
            wants = dict(row["items"])
            rater = wants.pop("rater")
            figure = row["figures"]["f1"]
            if not wants.keys() <= {"speaker_role", "round", "stage"} or rater.startswith("model_1 ("):
                assert wants.keys() <= {"category"} or rater.startswith("model_1 (")
                continue
            within = [game for at, game in enumerate(games) if int(sets[figure["from"]], 16) >> at & 1]
            found = 0
            for game_id in within:
                game = scripted_game(by_id[game_id])
                given = answers(by_id[game_id], rater, "human", dimension=table["items"]["dimension"])
                asked = {guess.item_id for guess in given.guesses}
                for item in items(game, table["items"]["dimension"], ALL, with_gold=True):
                    of_item = item_row(item)
                    fits = all(of_item[field] in values for field, values in wants.items())
                    found += item.id in asked and fits
            assert found == figure["items"], row["labels"]
            checked += 1
    assert checked > 40


def test_theil_s_u_is_of_the_quests_in_the_table_of_links() -> None:
    link = Link(LinkRule("selection"))
    for seed in SEEDS:
        link.add(scripted_game(seed), judged(scripted_game(seed)))
    pairs: Counter[tuple[bool, bool]] = Counter()
    for side in Side:
        for relation, rate in link.shares("quest", side).items():
            pairs[relation != "above", side is Side.LOYAL] += rate.num
    drawn = [pair for pair, n in pairs.items() for _ in range(n)]
    figure = made().table("association").figure(("selection, per teammates", "quests"), "r, by the result")
    assert figure.value == pytest.approx(theils_u(drawn))
    assert figure.value > 0
    other = made().table("association").figure(("selection, per teammates", "quests"), "result, by r")
    assert other.value == pytest.approx(theils_u([(won, higher) for higher, won in drawn]))


def test_theil_s_u_of_what_never_varies_is_undefined() -> None:
    builder = ReportBuilder()
    game = scripted_game(1)
    builder.add(ReportedGame(game, judged(game)))
    table = make_report(builder).table("association")
    figure = table.figure(("selection, per teammates", "games"), "result, by r")
    assert (figure.value, figure.low, figure.note) == (None, None, "undefined: one side always won")
    figure = table.figure(("selection, per teammates", "games"), "r, by the result")
    assert (figure.value, figure.note[:9]) == (None, "undefined")


# --- notices --------------------------------------------------------------------------------------------


def test_the_first_page_warns_of_small_groups_judges_and_defaults() -> None:
    text = page()[: page().index("<nav")]
    assert "Read this first" in text
    assert "fewer than 15 games" in text
    assert "all (4)" in text
    builder = ReportBuilder()
    game = scripted_game(1)
    said = [replace(one, rater="mod") for one in judged(game) if one.rater == "ann"]
    builder.add(ReportedGame(game, said, judges=frozenset({"mod"})))
    (told,) = (note for note in make_report(builder).notes_on_gold if note.startswith("Not corrected"))
    assert told.startswith("Not corrected by people's judgements: the verdicts of mod (")
    assert "think" in told
    # The paper's places for people's judgements are empty, and lead to what the model judged.
    text = as_html(make_report(builder), drawn=False)
    for table in ("selection", "following"):
        place_ = text[text.index(f'id="about-{table}"') :]
        assert '<a href="#about-judges">what models judged</a>' in place_[: place_.index("</article>")]
    assert 'id="about-judges"' in text
    # People judged enough of its selections, and nothing of what it says of following.
    (told,) = (
        note for note in corrected(agents=("a",) * 5).notes_on_gold if note.startswith("Not corrected")
    )
    assert told == "Not corrected by people's judgements: the verdicts of mild (think)."


# --- LaTeX and files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["p", "p, Holm", "sign test p", "worst case: p"])
def test_a_small_p_value_is_not_shown_as_nought(column: str) -> None:
    columns = (Column(column, "number"), Column("difference", "number"))
    row = TableRow(("row",), {column: Figure(0.00025), "difference": Figure(0.00025)})
    table = ReportTable("contrasts", QUESTIONS, "Title", "", ("head",), columns, (row,))
    report = replace(made(), tables=(table,), notes=(), notes_on_gold=())
    page = as_html(report, drawn=False)
    assert 'data-value="0.00025" data-low="" data-high="">&lt; 0.001' in page
    assert page.count(">0.000") == 1  # the difference
    if column != "worst case: p":  # which LaTeX leaves out
        assert r"row & $<$ 0.001 & 0.000 \\" in as_latex(report)
    assert "0.00025" in as_csv(report)


def test_latex_has_every_number_of_the_paper_s_tables_escaped_and_balanced() -> None:
    text = as_latex(made())
    begun = re.findall(r"\\begin\{(\w+)\}", text)
    assert sorted(begun) == sorted(re.findall(r"\\end\{(\w+)\}", text))
    assert text.count("\\toprule") >= text.count("\\begin{tab") // 2
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    for line in text.splitlines():
        if not line.startswith(("%", "\\providecommand")):
            assert not re.search(r"(?<!\\)[%#]", line), line
            assert not re.search(r"(?<!\\)_", re.sub(r"\\label\{.*?\}", "", line)), line
    for name in OF_PAPER:
        assert rf"\label{{tab:{name}}}" in text
        table = made().table(name)
        part = text[text.index(rf"\label{{tab:{name}}}") :]
        part = part[: re.search(r"\\end\{(tabular|longtable)\}", part).start()]  # type: ignore[union-attr]
        # As many cells in each row as the table has columns.
        width = len(table.heads) + len(table.columns)
        rows = [line for line in part.splitlines() if line.endswith(r"\\") and not line.startswith("\\")]
        for line in rows:
            if "\\label" not in line:
                assert len(re.findall(r"(?<!\\)&", line)) == width - 1, line
        for row in table.rows:
            for column in table.columns:
                figure = row.figures.get(column.name)
                if figure is not None and figure.value is not None and column.unit == "share":
                    assert f"{100 * abs(figure.value):.1f}" in part, (name, row.labels)
    assert r"bo\_2 \& co" in text
    assert not any(f" {id_} &" in text for id_ in BY_ID)


def _long_names() -> ReportTable:
    """A table like that of contrasts, with two long names of 24 rows each."""
    steps = "first_order+selection+formulation+second_order+modification+refinement"
    figure = Figure(0.5, 0.25, 0.75, games=20)
    columns = (
        "difference",
        "first",
        "second",
        "p",
        "as played",
        "worst case",
        "mixed model",
        "mixed model: p",
    )
    return ReportTable(
        "contrasts",
        QUESTIONS,
        "Contrasts",
        "How they differ.",
        ("contrast", "figure"),
        tuple(map(Column, columns)),
        tuple(
            TableRow(
                (f"{column}: {steps} − none", f"a figure with a long name {n}"),
                dict.fromkeys(columns, figure),
            )
            for column in ("steps", "evil_steps")
            for n in range(24)
        ),
    )


def test_latex_fits_a_page_whatever_is_long() -> None:
    table = _long_names()
    text = as_latex(Report("R", {"games": 1, "version": "1", "intervals": "t"}, {}, (table,)))
    first, second = re.findall(r"\\begin\{longtable\}.*?\\end\{longtable\}", text, re.DOTALL)
    for number, (part, column) in enumerate(((first, "steps"), (second, r"evil\_")), 1):
        assert rf"\label{{tab:contrasts-{number}}}" in part
        # The name stands above the heads of each page, once, and may be broken within.
        assert part.count(rf"\itshape {column}") == part.count(r"figure & difference \%") == 2
        assert r"modification+\allowbreak{}refinement" in part
        rows = [line for line in part.splitlines() if line.startswith(r"\raggedright")]
        assert len(rows) == 24
        # An interval stands in its figure's cell, so no page ends between them.
        assert all(line.count(r"\withinterval{50.0}{25.0, 75.0}") == 7 for line in rows)
        (spec,) = re.findall(r"longtable\}\{(.*)\}\n", part)
        assert spec.count("r") == 7
        broken = sum(map(float, re.findall(r"p\{([\d.]+)", spec)))
        assert 0.12 <= broken <= 1 - 7 * 0.095, "the names leave room for the numbers"
    # What fits one page does not break, what does not may.
    short = as_latex(
        Report(
            "R", {"games": 1, "version": "1", "intervals": "t"}, {}, (replace(table, rows=table.rows[:2]),)
        )
    )
    assert r"\begin{table}" in short
    assert "longtable}{" not in short


def test_latex_prints_letters_that_pdflatex_does_not_have() -> None:
    assert escaped("é Ł ñ ő — × …") == r"é Ł ñ ő --- $\times$ \dots{}"
    assert escaped("Ж漢") == r"\beyondlatin{Ж}{U+0416}\beyondlatin{漢}{U+6F22}"
    assert r"\providecommand{\beyondlatin}" in as_latex(made())


def test_what_latex_would_read_as_commands_is_text() -> None:
    assert escaped("a_b & 50 % #1 {x} $y$ \\z ~^") == (
        r"a\_b \& 50 \% \#1 \{x\} \$y\$ \textbackslash{}z \textasciitilde{}\textasciicircum{}"
    )
    assert escaped("[x]\n*") == "{}[x] *"


def test_names_of_many_lines_do_not_run_into_each_other() -> None:
    svg = next(plot.svg for plot in plot_files(made()) if plot.name == "dimensions_plot")
    names = svg.split("role-axis-label")[2].split("</g>")[0]
    rows = [
        (float(y), text.count("<tspan") or 1)
        for y, text in re.findall(r'translate\([^,]+,([\d.]+)\)"[^>]*>(.*?)</text>', names)
    ]
    assert max(lines for _, lines in rows) > 2
    for (y, lines), (below, _) in pairwise(rows):
        assert below - y > 11 * lines, "a line is 11 high"


def test_a_name_with_one_point_has_it_on_its_line() -> None:
    svg = next(plot.svg for plot in plot_files(made()) if plot.name == "dimensions_plot")
    axis = svg.split("role-axis-label")[2].split("</g>")[0]
    lines = {float(y) for y in re.findall(r"<text[^>]*translate\([^,]+,([\d.]+)\)", axis)}
    marks = svg.split("mark-symbol role-mark")[1].split("</g>")[0]
    ours = [mark for mark in marks.split("<path")[1:] if "#3b7dd8" in mark]
    points = [float(y) for mark in ours for y in re.findall(r"translate\([^,]+,([\d.]+)\)", mark)]
    alone = [
        row for row in made().table("dimensions").rows if set(row.figures) == {"ours", "chance", "ceiling"}
    ]
    on_a_line = [y for y in points if min(abs(y - line) for line in lines) < 5]
    assert len(on_a_line) == len(alone) >= 4


def test_totals_of_all_raters_come_before_their_parts() -> None:
    for name in ("summarisation", "guessing", "following"):
        parts = [row.labels[1] for row in made().table(name).rows]
        assert parts == sorted(parts, key=lambda part: part != "all")
        assert parts.count("all") > 1


def test_people_s_chance_and_ceiling_are_the_means_over_persons() -> None:
    table, each = made().table("dimensions"), made().table("guessing")
    for limit in ("chance", "ceiling"):
        values = [each.figure((name, "all", "all"), limit).value or 0 for name in ("ann", "bob", "cyd")]
        assert table.figure(("guessing F1, people",), limit).value == pytest.approx(sum(values) / 3)
    assert not [row for row in table.rows if row.labels[0].endswith(("ann", "bob", "cyd"))]


def test_plots_come_as_files_that_stand_alone() -> None:
    names = set()
    for plot, again in islice(zip(plot_files(made()), plot_files(made()), strict=True), 3):
        names.add(plot.name)
        assert 'xmlns="http://www.w3.org/2000/svg"' in plot.svg
        assert "currentColor" not in plot.svg
        assert plot.pdf.startswith(b"%PDF-")
        # Whoever packs a study twice packs the same files.
        assert plot == again
    assert len(names) == 3
