"""Judgements as CSV: out of one database and into another, all of a file or none of it."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.app.calling import calling
from tests.app.evaluations.test_evaluations_api import deal, games_of, judged
from tests.app.typed import interintent


@pytest.fixture
def run() -> Any:

    def invoke(url: str, *arguments: str, given: str | None = None) -> Result:
        words = ["annotations", *arguments, "--database-url", url]
        return interintent(*words, stdin=given)

    return invoke


async def _judged_batch(url: str) -> tuple[str, str]:
    """A batch that ann has judged, and her judgements as the service gives them."""
    async with calling(url) as caller:
        batch, _ = await games_of(caller, 1)
        tasks = (await deal(caller, "ann", batch=batch, limit=3))["tasks"]
        words = [{**word, "comment": "=so, it is\n“good”\u2028."} for task in tasks for word in judged(task)]
        body = {"rater": {"name": "ann", "kind": "human"}, "judgements": words}
        assert (await caller.post("/annotations", json=body)).status_code == 201
        sheet = await caller.get("/annotations", params={"batch": batch, "format": "csv"})
        return batch, sheet.content.decode()


def test_what_is_exported_is_read_back_as_it_was(tmp_path: Path, run: Any) -> None:
    import asyncio

    url = f"sqlite:///{tmp_path / 'games.sqlite'}"
    batch, sheet = asyncio.run(_judged_batch(url))
    assert len(list(csv.DictReader(io.StringIO(sheet)))) > 10
    exported = run(url, "export", "--batch", batch)
    assert exported.exit_code == 0, exported.output
    assert exported.stdout_bytes.decode() == sheet
    # One row of selection and one of following can stand in one line; empty lines judge nothing.
    stored = run(url, "import", "-", "--rater", "bob", given=f"\ufeff{sheet}\r\n,,,,,,,,,\r\n")
    assert stored.exit_code == 0, stored.output
    assert "0 of them replace earlier ones" in stored.stdout
    bobs = run(url, "export", "--batch", batch, "--rater", "bob").stdout_bytes.decode()
    assert bobs.replace(",bob,", ",ann,") == sheet
    again = run(url, "import", "-", "--rater", "bob", given=sheet)
    assert again.exit_code == 2
    assert "line 3: bob has judged this already" in again.stderr
    revised = run(url, "import", "-", "--rater", "bob", "--revise", given=sheet.replace(",4,4,", ",2,2,"))
    assert revised.exit_code == 0, revised.output
    assert ",2,2,bob," in run(url, "export", "--batch", batch, "--rater", "bob").stdout

    rows = list(csv.reader(io.StringIO(sheet)))
    header, one = rows[0], rows[1]

    def changed(column: str, value: str) -> str:
        text = io.StringIO()
        bad = [value if name == column else cell for name, cell in zip(header, rows[2], strict=True)]
        csv.writer(text).writerows([header, [*one[:7], "cid", *one[8:]], [*bad[:7], "cid", *bad[8:]]])
        return text.getvalue()

    for given, told in (
        (changed("think", "6"), "think: a score is 1, 2, 3, 4 or 5"),
        (changed("reasonable", "perhaps"), "reasonable: must be 1 or 0"),
        (changed("stage", "second"), "stage: must be first or final"),
        (changed("intention", "dance"), "intention: the item asks about"),
        (changed("request_id", "9.9.speak.1"), "game_id, request_id, stage: there is no such"),
        (changed("game_id", "g_none"), "game_id, request_id, stage: there is no such"),
        (changed("kind", "cat"), "kind: "),
        (sheet.replace("stage", "phase", 1), "line 1: no such column: phase"),
        (f"{','.join(header)}\na,b\n", f"line 2: 2 cells, the header has {len(header)}"),
        ("", "the file is empty"),
        (",".join(header), "the file holds no judgement"),
        (f'{",".join(header)}\n"a', "line 2: "),
    ):
        refused = run(url, "import", "-", given=given)
        assert refused.exit_code == 2, (told, refused.output)
        assert told in refused.stderr.replace("\n", " "), (told, refused.stderr)
        assert "nothing was stored" in refused.stderr
    assert "cid" not in run(url, "export", "--batch", batch).stdout
