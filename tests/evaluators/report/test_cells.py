"""No text of a CSV file is a formula, and none is lost."""

import pytest

from evaluators.report.cells import inert, plain


@pytest.mark.parametrize("sign", "=+-@＝＋－＠")
@pytest.mark.parametrize("before", ["", " ", "\t", "\u00a0", "\u3000", "\n "])
def test_what_a_spreadsheet_may_read_as_a_formula_has_a_quote_before_it(before: str, sign: str) -> None:
    text = f"{before}{sign}HYPERLINK(1)"
    assert inert(text) == f"'{text}"
    assert plain(inert(text)) == text


@pytest.mark.parametrize("text", ["", " ", "1-1", "a = b", "'quoted'", "me@home"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert inert(text) == plain(text) == text
