"""Values that callers make up create no metric series."""

from app.base.metrics import REGISTRY
from app.base.problem_kinds import PROBLEMS
from tests.app.calling import Caller

BY_US = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "other"}


def series() -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for metric in REGISTRY.collect()
        for sample in metric.samples
    }


def labels(name: str, of: str = "") -> set[str]:
    """The values of a label, in series whose names begin so."""
    return {dict(pairs)[name] for metric, pairs in series() if metric.startswith(of) and name in dict(pairs)}


async def hammer(caller: Caller, word: str) -> None:
    """A request of each kind in which a caller chooses a word."""
    for method in (word.upper(), word, "get", "TRACE", "CONNECT", "PROPFIND", "GETGET", "M-" + word):
        for path in ("/games", "/livez", "/nothing", f"/{word}"):
            await caller.request(method, path)
    for path in (
        *(f"/{word}", f"/{word}/{word}", f"/games/g_{word}", f"/games/{word}/events", f"/docs/{word}.md"),
        *(
            f"/problems/{word}",
            f"/schemas/{word}",
            f"/batches/b_{word}",
            f"/games?cursor={word}&{word}={word}",
        ),
    ):
        for headers in (
            {},
            {"origin": f"https://{word}.example"},
            {"host": f"{word}.example"},
            {"user-agent": word, "x-forwarded-for": word, "content-type": f"{word}/{word}", word: word},
            {"authorization": f"Bearer ik_{word:x<43}"},
        ):
            await caller.get(path, headers=headers)
    for body in (
        {"profile": word},
        {"seats": [{"agent": word}]},
        {"seats": [{"agent": "llm", "model": word}]},
        {"label": word, word: word},
    ):
        await caller.post("/games", json=body, headers={"idempotency-key": word})
    await caller.post("/games/g_abc/requests/1.1.vote.1/action", json={"action": {word: True}})
    await caller.post("/evaluations", json={"dimension": word, "rater": {"name": word, "kind": word}})


async def test_invented_words_make_no_series(caller: Caller) -> None:
    await hammer(caller, "first")
    before = series()
    for number in range(10):
        await hammer(caller, f"word{number}")
    # The same answers to other words: not one series more.
    assert series() == before
    assert labels("method") <= BY_US
    assert "other" in labels("method")


async def test_a_route_is_its_template(caller: Caller) -> None:
    await hammer(caller, "word")
    templates = set(caller.app.openapi()["paths"]) | {"/ui/{path:path}"}
    # OpenAPI's own document is not in it, and what no route takes has one label.
    assert labels("route") <= templates | {"-", "/openapi.json"}


async def test_labels_are_words_of_ours(caller: Caller) -> None:
    _, [game] = await caller.create(seats=[{"agent": "remote"}, *[{"agent": "random"}] * 4])
    path = f"/games/{game}/requests"
    for number in range(5):
        for action in ({}, {"team": [number]}, {"text": str(number)}, {f"key{number}": True}):
            await caller.post(f"{path}/1.{number}.vote.1/action?viewer=seat:1", json={"action": action})
    codes = {problem.code for problem in PROBLEMS.values()}
    assert labels("outcome", "interintent_remote") <= codes | {"accepted", "duplicate", "ok"}
    assert labels("code") <= {str(code) for code in (1000, 1002, 1003, 1007, 1009, 1011, 1012, 1013)} | {
        "peer",
        *(str(code) for code in (4400, 4401, 4403, 4408, 4409, 4413, 4416, 4426, 4429)),
    }
