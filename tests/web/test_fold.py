"""The pages fold a game as the engine does: after every event, through any eyes."""

import json
import subprocess
from pathlib import Path
from typing import Any

from engine.events import Event, payload, type_name
from engine.state import State, Table, apply
from engine.terms import FULL, PUBLIC
from engine.view import project, viewer_name
from tests.golden.games import GOLDEN
from tests.nodejs import NODE

FOLD = Path(__file__).parent / "fold.mjs"


def _shown(table: Table) -> dict[str, Any]:
    """What the pages keep of a table, in the form of the wire."""
    return {
        "names": list(table.names),
        "players": table.players,
        "phase": table.phase.value,
        "round": table.round,
        "attempt": table.attempt,
        "leader": table.leader,
        "proposed": list(table.proposed),
        "team": list(table.team),
        "turn": table.turn,
        "succeeded": table.succeeded,
        "failed": table.failed,
        "missed": table.missed,
        "quests": [
            {"round": q.round, "team": list(q.team), "fails": q.fails, "succeeded": q.succeeded}
            for q in table.quests
        ],
        "tallies": [
            {
                "round": t.round,
                "attempt": t.attempt,
                "leader": t.leader,
                "proposed": list(t.proposed),
                "team": list(t.team),
                "votes": {str(seat): vote for seat, vote in enumerate(t.votes, 1)},
                "approved": t.approved,
                "forced": t.forced,
            }
            for t in table.tallies
        ],
        "winner": table.winner and table.winner.value,
        "ending": table.ending and table.ending.value,
        "cancelled": table.cancelled,
    }


def _items(log: list[Event]) -> list[dict[str, Any]]:
    return [{"seq": seq, "type": type_name(event), **payload(event)} for seq, event in enumerate(log, 1)]


def test_the_pages_fold_every_golden_game_as_the_engine_does_after_every_event() -> None:
    games = {name: golden.state() for name, golden in GOLDEN.items()}
    asked = [
        (name, viewer) for name, game in games.items() for viewer in (FULL, PUBLIC, 1, game.table.players)
    ]
    lines = [
        json.dumps({"log": _items(games[name].log), "eyes": viewer_name(viewer)}) for name, viewer in asked
    ]
    done = subprocess.run(
        [NODE, FOLD], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=200
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(asked)
    moments = 0
    for (name, viewer), page in zip(asked, told, strict=True):
        seen = project(games[name].log, viewer)
        assert page["seen"] == [type_name(event) for event in seen], (name, viewer)
        state = State()
        for event, table in zip(seen, page["tables"], strict=True):
            apply(state, (event,))
            shown = _shown(state.table)
            assert {key: table[key] for key in shown} == shown, (name, viewer, moments)
            moments += 1
    assert moments > 2000


def test_names_of_another_script_are_set_apart_in_sentences() -> None:
    names = ["Ada", "\u05e9\u05dc\u05d5\u05dd", "Zo\u00eb"]
    words = (FOLD.parent.parent.parent / "web" / "src" / "game" / "words.ts").as_uri()
    script = f"""import {{ namesOf }} from {json.dumps(words)};
        console.log(namesOf({{ names: {json.dumps(names)} }}, [2, 1, 3]));"""
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.strip() == f"\u2068{names[1]}\u2069, Ada and {names[2]}"
