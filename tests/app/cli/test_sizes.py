"""How much room the tables take is shown by a command and published."""

import asyncio
import json
import re

from app.store.rows import METADATA
from tests.app.calling import calling
from tests.app.typed import interintent


async def test_the_bytes_of_each_table_are_shown_and_published(database_url: str) -> None:
    async with calling(database_url) as caller:
        await caller.played(count=10, seats=[{"agent": "random"}])
        text = (await caller.get("/metrics")).text
        published = {
            table: float(size)
            for table, size in re.findall(r'interintent_database_bytes\{table="(\w+)"\} (\S+)', text)
        }
        rows = (await caller.rows())["events"]
    words = ("database", "--database-url", database_url)
    shown = json.loads((await asyncio.to_thread(interintent, *words, "--json")).stdout)
    by_name = {one["table"]: one for one in shown["tables"]}
    assert by_name["events"]["rows"] == rows
    assert {table.name for table in METADATA.sorted_tables} <= by_name.keys() & published.keys()
    # Hundreds of events a game: nothing else is as large.
    assert next(iter(by_name)) == "events"
    assert by_name["events"]["bytes"] >= 50 * rows
    assert published["events"] >= 50 * rows
    assert shown["schema"] == shown["newest"]
    assert "events" in (await asyncio.to_thread(interintent, *words)).stdout
