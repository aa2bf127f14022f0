"""Sheets for raters: what is written blank, filled in and read back, in every form."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest
from openpyxl import Workbook, load_workbook

from app.base.errors import InvalidRequest
from app.files import rater_sheets
from app.files.label_studio import CONFIG, label_studio_tasks, read_label_studio
from app.files.rater_rows import NOT_ASKED, Filled, RaterRow, rater_rows
from app.files.rater_sheets import csv_sheet, read_csv, read_xlsx, xlsx_sheet
from tests.app.altering import altered
from tests.evaluators.talk import by_hand, chose, scripted

HOSTILE = "=HYPERLINK(\"http://x\")\n“so”, he said;\t'quoted' 🜁 \u2028 -1 @me"
GAME = by_hand(
    {
        "1.1.speak.2": chose(2, "defend_self stay_hidden", "defend_self"),
        "1.1.speak.3": chose(3, "support_proposal"),
    }
)
ROWS = [
    [
        replace(row, context=HOSTILE, speech=HOSTILE, reason=" ＝2", thinking="+1")
        for row in rater_rows(GAME, turn)
    ]
    for turn in ("1.1.speak.2", "1.1.speak.3")
]
FLAT = [row for rows in ROWS for row in rows]

Answers = Mapping[str, Mapping[str, Any]]
"""What is filled in, by key and column."""


def fill_csv(path: Path, content: bytes, answers: Answers) -> Path:
    table = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    header = table[0]
    for cells in table[1:]:
        for name, value in answers.get(cells[header.index("key")], {}).items():
            cells[header.index(name)] = str(value)
    text = io.StringIO()
    csv.writer(text).writerows(table)
    path.write_bytes(text.getvalue().encode("utf-8-sig"))
    return path


DIMENSION = b'<dimension ref="A1:XFD300"'
"""How a small file says that it has 16,384 columns."""


def fill_xlsx(path: Path, content: bytes, answers: Answers) -> Path:
    book: Workbook = load_workbook(io.BytesIO(content))
    sheet = book["Judgements"]
    header = [cell.value for cell in sheet[1]]
    for row in sheet.iter_rows(min_row=2):
        for name, value in answers.get(row[header.index("key")].value, {}).items():
            row[header.index(name)].value = value
    book.save(path)
    return path


CHOICES = {
    1: "1 absent or contrary",
    2: "2 only repeated",
    3: "3 on wrong facts",
    4: "4 nearly",
    5: "5 fully",
}


def fill_label_studio(path: Path, content: bytes, answers: Answers) -> Path:
    """As Label Studio exports it: the task, with an annotation if somebody answered."""
    tasks = json.loads(content)
    for number, task in enumerate(tasks, 1):
        result = []
        for name, value in answers.get(task["data"]["key"], {}).items():
            if name == "comment":
                given: Any = {"text": [value]}
            elif name == "reasonable":
                given = {"choices": ["reasonable" if value else "unreasonable"]}
            else:
                given = {"choices": [CHOICES[value]]}
            assert name == "comment" or given["choices"][0] in [
                choice["value"] for choice in task["data"][name]
            ]
            # As its pages store it (1.23).
            form = "textarea" if name == "comment" else "choices"
            stored = {"id": f"zz1FnYFT{len(result)}", "type": form, "origin": "manual"}
            result.append({"from_name": name, "to_name": "intention", "value": given, **stored})
        annotation = {"id": number, "completed_by": 1, "was_cancelled": False, "result": result}
        task |= {"id": number, "annotations": [annotation] if result else [], "predictions": []}
    path.write_text(json.dumps(tasks))
    return path


FORMS: dict[str, tuple[Any, Any, Any]] = {
    "csv": (csv_sheet, fill_csv, read_csv),
    "xlsx": (xlsx_sheet, fill_xlsx, read_xlsx),
    "json": (label_studio_tasks, fill_label_studio, read_label_studio),
}


def given(filled: list[Filled]) -> list[tuple[Any, ...]]:
    return [
        (one.rater.name, one.rater.kind, w.item_id, w.intention, w.reasonable, w.think, w.speak, w.comment)
        for one in filled
        for w in (one.judgement,)
    ]


def test_the_rows_are_what_the_paper_asks() -> None:
    assert [(row.key, sorted(row.asked)) for row in FLAT] == [
        ("g/1.1.speak.2/first/defend_self", ["reasonable", "speak", "think"]),
        ("g/1.1.speak.2/first/stay_hidden", ["reasonable", "speak", "think"]),
        ("g/1.1.speak.2/final/defend_self", ["reasonable", "speak", "think"]),
        ("g/1.1.speak.3/first/support_proposal", ["reasonable", "speak", "think"]),
        # Modification left it unchanged, so the selection was judged with the first stage.
        ("g/1.1.speak.3/final/support_proposal", ["speak", "think"]),
    ]
    plain = next(iter(rater_rows(GAME, "1.1.speak.2")))
    assert plain.intention != "defend_self"
    assert plain.reason == "why defend_self"
    assert (plain.thinking, plain.speech) == ("I plan defend_self stay_hidden", "draft of seat 2")
    assert "You are seat 2" in plain.context or "seat 2" in plain.context.lower()


@pytest.mark.parametrize("form", FORMS)
def test_what_a_rater_fills_in_is_read_back(tmp_path: Path, form: str) -> None:
    write, fill, read = FORMS[form]
    answers = {
        FLAT[0].key: {"reasonable": 1, "think": 4, "speak": 5, "comment": "=so, it is\n“good” 🜁"},
        FLAT[2].key: {"reasonable": 0},
        FLAT[4].key: {"speak": 1},
    }
    path = fill(tmp_path / f"sheet.{form}", write(ROWS, "ann b"), answers)
    if form == "xlsx":  # a formula is refused: the comment is typed as text
        book = load_workbook(path)
        cell = book["Judgements"].cell(2, [c.value for c in book["Judgements"][1]].index("comment") + 1)
        cell.data_type = "s"
        book.save(path)
    mute: list[str] = []
    comment = "=so, it is\n“good” 🜁"
    assert given(list(read(path, None, "human", mute))) == [
        ("ann b", "human", "g/selection/1.1.speak.2/first/-", "defend_self", True, None, None, comment),
        ("ann b", "human", "g/following/1.1.speak.2/first/-", "defend_self", None, 4, 5, comment),
        ("ann b", "human", "g/selection/1.1.speak.2/final/-", "defend_self", False, None, None, None),
        ("ann b", "human", "g/following/1.1.speak.3/final/-", "support_proposal", None, None, 1, None),
    ]
    assert mute == []
    assert {one.rater.name for one in read(path, "bob", "program", mute)} == {"bob"}
    blank = tmp_path / f"blank.{form}"
    blank.write_bytes(write(ROWS, ""))
    if form == "json":
        with pytest.raises(InvalidRequest, match="this is the import file, not an export"):
            list(read(blank, None, "human", mute))
    else:
        assert list(read(blank, None, "human", mute)) == []


def test_no_text_of_a_sheet_is_a_formula_and_none_is_lost() -> None:
    table = list(csv.DictReader(io.StringIO(csv_sheet(ROWS).decode("utf-8-sig"), newline="")))
    assert {cell[:1] for row in table for cell in row.values()}.isdisjoint("=+-@＝ \t\r\n")
    assert table[0]["speech"] == f"'{HOSTILE}"
    assert table[4]["reasonable"] == NOT_ASKED
    sheet = load_workbook(io.BytesIO(xlsx_sheet(ROWS)))["Judgements"]
    header = [cell.value for cell in sheet[1]]
    row = dict(zip(header, sheet[2], strict=True))
    assert (row["speech"].data_type, row["speech"].value) == ("s", HOSTILE)
    assert {cell.data_type for cells in sheet.iter_rows() for cell in cells} <= {"s", "inlineStr", "n"}
    guidelines = "\n".join(
        str(cells[0].value or "")
        for cells in load_workbook(io.BytesIO(xlsx_sheet(ROWS)))["Guidelines"].iter_rows()
    )
    assert "Thinking is private" in guidelines


def test_a_long_context_goes_on_in_a_second_column(tmp_path: Path) -> None:
    long = [[replace(FLAT[0], context="a" * 32_000 + "b" * 5)]]
    for content, read in ((csv_sheet(long), read_csv), (xlsx_sheet(long), read_xlsx)):
        if read is read_csv:
            (row,) = csv.DictReader(io.StringIO(content.decode("utf-8-sig")))
        else:
            header, cells = load_workbook(io.BytesIO(content))["Judgements"].iter_rows(values_only=True)
            row = dict(zip(map(str, header), map(str, cells), strict=True))
        assert (row["context"], row["context_2"]) == ("a" * 32_000, "b" * 5)
        (path := tmp_path / "long").write_bytes(content)
        assert list(read(path, None, "human", [])) == []


KEY = FLAT[0].key


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("think", 4.5, "row 2, think: expected a score of 1, 2, 3, 4 or 5, or nothing, got '4.5'"),
        ("think", 6, "row 2, think: expected a score"),
        ("speak", True, "row 2, speak: expected a score"),
        ("speak", date(2026, 4, 3), "row 2, speak: the spreadsheet made a date of it"),
        ("reasonable", "maybe", "row 2, reasonable: expected 1 or 0"),
        ("reasonable", 2, "row 2, reasonable: expected 1 or 0"),
        ("think", "=1+3", "a formula"),
        ("key", 12, "row 2, key: expected game/request/stage/intention"),
        ("key", "g/1.1.speak.2/second/defend_self", "row 2, key: expected game/request/stage"),
        ("key", "g/1.1.speak.2/first/dance", "row 2, key: no intention is called 'dance'"),
        ("rater", "", "row 2, rater: who judged?"),
        ("rater", "=x", "row 2, rater: "),
    ],
)
@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_a_wrong_cell_is_named(tmp_path: Path, form: str, column: str, value: Any, told: str) -> None:
    if form == "csv" and isinstance(value, date):
        value, told = "04.03.", "row 2, speak: expected a score"
    if form == "xlsx" and value == "=x":
        told = "a formula"
    write, fill, read = FORMS[form]
    answers = {KEY: {"reasonable": 1, "think": 4, "speak": 4} | {column: value}}
    path = fill(tmp_path / f"sheet.{form}", write(ROWS, "ann"), answers)
    with pytest.raises(InvalidRequest) as refused:
        list(read(path, None, "human", []))
    assert told in str(refused.value), refused.value
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("form", ["csv", "xlsx"])
def test_a_key_of_another_row_is_refused(tmp_path: Path, form: str) -> None:
    write, fill, read = FORMS[form]
    other = "g/1.1.speak.3/final/support_proposal"
    moved = {"key": other, "reasonable": 1}
    path = fill(tmp_path / f"sheet.{form}", write(ROWS, "ann"), {KEY: moved})
    with pytest.raises(
        InvalidRequest, match=r"row 2, key: .* is not of this row's seat and stage and intention"
    ):
        list(read(path, None, "human", []))
    for column, value in {
        "round": 2,
        "attempt": 2,
        "seat": 4,
        "stage": "final",
        "intention": "stay_hidden",
    }.items():
        path = fill(path, write(ROWS, "ann"), {KEY: {column: value, "reasonable": 1}})
        with pytest.raises(InvalidRequest, match=rf"row 2, key: .* is not of this row's {column};"):
            list(read(path, None, "human", []))
    same = {"round": "1.0", "attempt": " 1 ", "seat": "", "intention": "my wording", "reasonable": 1}
    path = fill(path, write(ROWS, "ann"), {KEY: same})
    assert [one.judgement.intention for one in read(path, None, "human", [])] == ["defend_self"]


@pytest.mark.parametrize(
    ("value", "read_as"),
    [(4.0, 4), ("4", 4), (" 4,0 ", 4), ("4.", 4), ("", None), (None, None), (NOT_ASKED, None)],
)
def test_a_score_counts_however_a_spreadsheet_writes_it(
    tmp_path: Path, value: Any, read_as: int | None
) -> None:
    for form in ("csv", "xlsx"):
        write, fill, read = FORMS[form]
        answers = {KEY: {"reasonable": "yes", "think": value if value is not None or form == "xlsx" else ""}}
        path = fill(tmp_path / f"sheet.{form}", write(ROWS, "ann"), answers)
        following = [one.judgement.think for one in read(path, None, "human", []) if one.judgement.think]
        assert following == ([] if read_as is None else [read_as])


def test_a_csv_may_come_back_with_semicolons_or_tabs_and_in_utf_16(tmp_path: Path) -> None:
    table = [["key", "reasonable", "think", "speak", "comment"], [KEY, "TRUE", "3", "", "a; b\nc"]]
    for delimiter, encoding in ((";", "utf-8"), ("\t", "utf-16"), (",", "utf-8-sig")):
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter).writerows(table)
        (path := tmp_path / "sheet.csv").write_bytes(text.getvalue().encode(encoding))
        first, second = read_csv(path, "ann", "human", [])
        assert (first.judgement.reasonable, second.judgement.think) == (True, 3)
        assert first.judgement.comment == "a; b\nc"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the file is empty"),
        (b"key,think,speak\n", "row 1: the header lacks reasonable"),
        (b"key,reasonable,think,speak,mood\n", "row 1: no such column: 'mood'"),
        (b"key,key,reasonable,think,speak\n", "row 1: a column appears twice"),
        (b"key,reasonable,think,speak\na,1,2,3,4\n", "row 2: 5 cells, the header has 4"),
        (b"key,reasonable,think,speak\n\xff", "about line 2: not UTF-8"),
        (b'key,reasonable,think,speak\n"a', "about line 2: "),
    ],
)
def test_a_broken_csv_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    (path := tmp_path / "sheet.csv").write_bytes(content)
    with pytest.raises(InvalidRequest) as refused:
        list(read_csv(path, "ann", "human", []))
    assert told in str(refused.value), refused.value


def test_a_broken_workbook_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "sheet.xlsx").write_bytes(b"PK no zip")
    with pytest.raises(InvalidRequest, match="not a workbook"):
        list(read_xlsx(path, "ann", "human", []))


@pytest.mark.parametrize("packing", [ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA])
def test_a_damaged_workbook_is_refused_in_a_sentence(tmp_path: Path, packing: int) -> None:
    path, made = tmp_path / "sheet.xlsx", io.BytesIO()
    with ZipFile(io.BytesIO(xlsx_sheet(ROWS, "ann"))) as plain, ZipFile(made, "w", packing) as packed:
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    refused: Counter[bool] = Counter()
    for content in altered(made.getvalue(), 300):
        path.write_bytes(content)
        try:
            list(read_xlsx(path, None, "human", []))
        except InvalidRequest as fault:
            refused[str(fault).startswith(f"{path}: ")] += 1
    assert refused[True] > 100
    assert not refused[False]


def test_an_encrypted_workbook_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "sheet.xlsx"
    # The flag of each member in the directory at the end.
    path.write_bytes(re.sub(rb"(PK\x01\x02.{4}).", b"\\1\x01", xlsx_sheet(ROWS, "ann"), flags=re.DOTALL))
    with pytest.raises(InvalidRequest, match="save it again, without a password"):
        list(read_xlsx(path, None, "human", []))


def test_a_number_of_thousands_of_digits_is_no_score(tmp_path: Path) -> None:
    path = fill_csv(tmp_path / "sheet.csv", csv_sheet(ROWS, "ann"), {KEY: {"think": "9" * 5000}})
    with pytest.raises(InvalidRequest, match="row 2, think: expected a score"):
        list(read_csv(path, None, "human", []))


def test_merged_cells_are_refused(tmp_path: Path) -> None:
    path = fill_xlsx(tmp_path / "sheet.xlsx", xlsx_sheet(ROWS, "ann"), {KEY: {"reasonable": 1}})
    book = load_workbook(path)
    column = next(cell.column for cell in book["Judgements"][1] if cell.value == "reasonable")
    book["Judgements"].merge_cells(start_row=2, end_row=4, start_column=column, end_column=column)
    book.save(path)
    with pytest.raises(InvalidRequest, match=r"there are merged cells, .*: unmerge them"):
        list(read_xlsx(path, None, "human", []))


def test_a_workbook_takes_no_more_than_it_holds_and_holds_no_more_than_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sheet.xlsx"
    with ZipFile(io.BytesIO(xlsx_sheet(ROWS))) as made, ZipFile(path, "w") as claims:
        for name in made.namelist():
            claims.writestr(name, re.sub(rb'<dimension ref="[^"]*"', DIMENSION, made.read(name)))
    assert max(len(cells) for _, cells in rater_sheets._cells_of_xlsx(path)) < 100
    for name, bound, words in (("_ROWS", 2, "more than 2 rows"), ("_UNPACKED", 999, "at most 999")):
        with monkeypatch.context() as patched:
            patched.setattr(rater_sheets, name, bound)
            with pytest.raises(InvalidRequest, match=f"{words}: split it"):
                list(read_xlsx(path, "ann", "human", []))


def test_a_comment_without_a_judgement_is_told(tmp_path: Path) -> None:
    mute: list[str] = []
    path = fill_csv(tmp_path / "sheet.csv", csv_sheet(ROWS, "ann"), {FLAT[1].key: {"comment": "?"}})
    assert list(read_csv(path, None, "human", mute)) == []
    assert mute == [f"{path}: row 3"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tasks: {"tasks": tasks}, "expected a list of tasks"),
        (lambda tasks: [{"think": "4 nearly", "id": 1}], "task 1, data: expected the data of a task"),
        (lambda tasks: _answered(tasks, "think", ["4 nearly", "5 fully"]), "task 1, think: expected one of"),
        (lambda tasks: _answered(tasks, "mood", ["good"]), "task 1, mood: no such question"),
        (lambda tasks: _answered(tasks, "think", ["great"]), "task 1, think: expected one of"),
        (lambda tasks: _answered(tasks, "think", [{}]), "task 1, think: expected one of"),
        (lambda tasks: _answered(tasks, ["think"], ["4 nearly"]), "task 1, ['think']: no such question"),
    ],
)
def test_a_wrong_export_of_label_studio_is_refused(tmp_path: Path, change: Any, told: str) -> None:
    path = tmp_path / "export.json"
    fill_label_studio(path, label_studio_tasks(ROWS, "ann"), {KEY: {"think": 4}})
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InvalidRequest) as refused:
        list(read_label_studio(path, None, "human", []))
    assert told in str(refused.value), refused.value


def _answered(tasks: Any, name: Any, choices: list[Any]) -> Any:
    tasks[0]["annotations"][0]["result"] = [{"from_name": name, "value": {"choices": choices}}]
    return tasks


def test_an_export_of_label_studio_as_csv_says_which_form_to_take(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    path.write_text("_data_think,annotation_id,annotator,key\n[],1,1,g/1.1.speak.2/first/defend_self\n")
    with pytest.raises(InvalidRequest, match="export as JSON"):
        list(read_csv(path, None, "human", []))


def test_label_studio_names_its_annotators_and_skipped_tasks_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    fill_label_studio(path, label_studio_tasks(ROWS), {KEY: {"think": 4}})
    tasks = json.loads(path.read_text())
    own = tasks[0]["annotations"][0]
    tasks[0]["annotations"] = [
        own,
        {**own, "completed_by": {"id": 2, "email": "ann@example.org"}},
        {**own, "completed_by": 3, "was_cancelled": True},
    ]
    path.write_text(json.dumps(tasks))
    names = [one.rater.name for one in read_label_studio(path, None, "human", [])]
    assert names == ["label studio 1", "ann@example.org"]


def test_the_labelling_configuration_asks_for_what_the_tasks_hold() -> None:
    config = ET.fromstring(CONFIG)
    data = json.loads(label_studio_tasks([list(rater_rows(scripted(1), scripted(1).turns[1].request_id))]))[
        0
    ]["data"]
    shown = {
        element.get("value", "").removeprefix("$")
        for element in config.iter()
        if "$" in element.get("value", "")
    }
    assert shown <= data.keys()
    named = {element.get("name") for element in config.iter() if element.get("name")}
    assert {element.get("toName") for element in config.iter("Choices")} <= named
    assert {"reasonable", "think", "speak", "comment"} <= named
    asked: RaterRow = FLAT[4]
    task = json.loads(label_studio_tasks([[asked]]))[0]["data"]
    assert (task["reasonable"], len(task["think"])) == ([], 5)
