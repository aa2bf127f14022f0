"""bot-check passes correct bots and finds the faults of others."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import Result

from app.instruments.bot_check.findings import CHECKS, STOPPING, Findings
from app.instruments.bot_check.run import check_bot
from app.instruments.bot_check.session import Patience
from app.protocol.close_codes import CLOSE_CODES, ComeBack
from tests.app.typed import interintent
from tests.programs import EXAMPLES, command_of, environment

pytestmark = pytest.mark.long


async def checked(command: list[str], patience: Patience, endings: list[int] | None) -> Findings:
    findings = await check_bot(
        command, host="127.0.0.1", port=0, patience=patience, notify=lambda _: None, endings=endings
    )
    assert findings.way is not None
    return findings


@pytest.mark.timeout(240)
async def test_the_examples_pass_every_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    patience = Patience(answer=60, back=60, quiet=20)
    commands = [
        [*command_of("bot.py"), "{ws}", "{game}", "{token}"],
        [*command_of("bot.mjs"), "{ws}", "{game}", "{token}"],
        [*command_of("bot.sh"), "{url}", "{game}", "{token}"],
    ]
    assert len(commands) == len(EXAMPLES)
    every, some = list(STOPPING), [4401, 4409]
    for findings in await asyncio.gather(
        *(
            checked(command, patience, endings)
            for command, endings in zip(commands, (every, some, None), strict=True)
        )
    ):
        found = {one.name: (one.outcome, one.why) for one in findings.all()}
        left_out = {f"close-{code}" for code in every} if "close-1003" in found else set()
        for name, (outcome, why) in found.items():
            assert outcome == "ok" or (outcome == "not reached" and name in left_out), (name, outcome, why)


@pytest.mark.timeout(240)
async def test_a_bot_started_by_hand_is_awaited_and_passes(tmp_path: Path) -> None:
    started: list[asyncio.subprocess.Process] = []
    starting: list[asyncio.Task[None]] = []

    def by_hand(text: str) -> None:
        if found := re.match(r"start your bot: (\S+) \(or \S+\), game (\S+), token (\S+)", text):
            starting.append(asyncio.create_task(start(*found.groups())))

    async def start(*words: str) -> None:
        # People take longer than the bot may take for an answer.
        await asyncio.sleep(21)
        command = [*command_of("bot.py"), *words]
        started.append(
            await asyncio.create_subprocess_exec(
                *command, env=environment(tmp_path), stdout=asyncio.subprocess.DEVNULL
            )
        )

    patience = Patience(answer=20, back=60, quiet=2)
    findings = await check_bot([], host="127.0.0.1", port=0, patience=patience, notify=by_hand, endings=[])
    assert len(starting) == 1
    assert await asyncio.wait_for(started[0].wait(), 200) == 0
    wrong = {one.name: one.why for one in findings.all() if one.outcome == "wrong"}
    assert wrong == {}
    assert sum(one.outcome == "ok" for one in findings.all()) >= 25


@pytest.mark.timeout(240)
async def test_a_bot_that_nobody_starts_by_hand_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.instruments.bot_check.run.BY_HAND_S", 0.2)
    said: list[str] = []
    patience = Patience(answer=60, back=60, quiet=2)
    findings = await check_bot([], host="127.0.0.1", port=0, patience=patience, notify=said.append)
    assert findings.way is None
    assert "did not connect within 0.2 s" in said[-1]
    assert "waiting for 0.2 s" in said[1]


class Fault(NamedTuple):
    """What makes a sound bot of the examples wrong, and the check that must find it."""

    check: str
    changes: dict[str, str]
    bot: str = "bot.py"


AFTER = '"after": len(self.events)'
SENDS = "await socket.send(self.given[name])"
TRIES = "with contextlib.suppress(ConnectionClosed):  # frames"
READS = 'self.events += frame["items"]'
LOOP = "        async for text in socket:"
ERROR = 'elif frame["t"] == "error":'
LEGAL = 'random.choice(request["legal"])'
CONNECTED = 'self.last_fault = ""\n'
REPEATS = "000 | 429 | 5??) pause ;;"
ANEW = "await self.answer(socket, again)"
PINGS = """        for _ in range(60):
            await socket.send('{"t": "ping", "id": "p"}')
"""

FAULTS = {
    "stays away from a stopping replica": Fault("close-1012", {"1011, 1012, ": "1011, "}),
    "fights over its seat": Fault("close-4409", {"4408, 4413": "4408, 4409, 4413"}),
    "hammers": Fault("backoff", {"random.uniform(0, min(30, 0.5 * 2**self.failures))": "0"}),
    "does not wait as asked": Fault("rate", {"wait = int(": "wait = 0 * int("}),
    "starts from nothing each time": Fault("resume", {AFTER: '"after": 0'}),
    "counts itself ahead": Fault("resume", {AFTER: f"{AFTER} + 1"}),
    "says something else when asked again": Fault(
        "one-answer",
        {
            "COME_BACK = {": "turns = iter(range(10**6))\nCOME_BACK = {",
            LEGAL: 'request["legal"][next(turns) % len(request["legal"])]',
            SENDS: "await socket.send(self.given.pop(name))",
        },
    ),
    "says another text when asked twice": Fault(
        "one-answer",
        {
            'nobody yet."': 'nobody: {random.random()}."',
            "if name not in self.given:": 'if name not in self.given or request["kind"] == "speak":',
        },
    ),
    "forgets its text when the connection breaks": Fault(
        "answer-lost",
        {'nobody yet."': 'nobody: {random.random()}."', CONNECTED: f"{CONNECTED[:-1]}; self.given = {{}}\n"},
    ),
    "sends another text again over HTTP": Fault(
        "one-answer",
        {
            'text: "I trust nobody yet."': 'text: "I trust nobody: \\($r)."',
            REPEATS: f'{REPEATS[:-3]}; action=$(printf %s "$request" | choose) ;;',
        },
        "bot.sh",
    ),
    "forgets its text when no reply comes over HTTP": Fault(
        "answer-lost",
        {
            'text: "I trust nobody yet."': 'text: "I trust nobody: \\($r)."',
            REPEATS: f"{REPEATS[:-3]}; break ;;",
        },
        "bot.sh",
    ),
    "sends a field of its own": Fault("frames", {'act = {"t": "act"': 'act = {"mood": 1, "t": "act"'}),
    "votes with a word": Fault("legal", {f"return {LEGAL}": 'return {"approve": "yes"}'}),
    "falls over what it does not know": Fault(
        "unknown",
        {ERROR: f'elif frame["t"] == "weather":\n                raise KeyError\n            {ERROR}'},
    ),
    "gives up when a text is refused": Fault(
        "text-refused", {'in {"illegal-action", "invalid-action"}': 'in {"illegal-action"}'}
    ),
    "sends a wrong thought": Fault(
        "thoughts", {'act = {"t": "act"': 'act = {"thoughts": [{"type": "guess"}], "t": "act"'}
    ),
    "falls over a thought that is left out": Fault(
        "thought-refused",
        {ERROR: f'elif frame.get("thoughts_refused"):\n                raise KeyError\n            {ERROR}'},
    ),
    "gives up when refused": Fault("refused", {'again = frame.get("request")': "again = None"}),
    "thinks it has answered": Fault("answer-lost", {TRIES: f"    {TRIES}", SENDS: f"    {SENDS}"}),
    "answers twice what an error shows": Fault(
        "one-answer",
        {
            "COME_BACK = {": "turns = iter(range(10**6))\nCOME_BACK = {",
            LEGAL: 'request["legal"][next(turns) % len(request["legal"])]',
            'if again and frame["code"] in {"illegal-action", "invalid-action"}:': "if again:",
            ANEW: f"{ANEW}\n                    self.given.pop(again['request_id'])",
        },
    ),
    "never stops": Fault("over", {"4408, 4413": "1000, 4408, 4413"}),
    "says nothing at the door": Fault(
        "identify",
        {
            LOOP: f"        await asyncio.sleep(0)\n{LOOP}",
            "await socket.send(json.dumps({**self.identify": "str(({**self.identify",
        },
    ),
    "sends bytes": Fault("frames", {SENDS: "await socket.send(self.given[name].encode())"}),
    "chatters": Fault("flood", {LOOP: PINGS + LOOP}),
    "answers what it pleases": Fault(
        "what-is-asked", {'"request_id": name, "action"': '"request_id": "1.1.vote.1", "action"'}
    ),
    "crashes at the end": Fault("runs", {READS: f"{READS}; assert 'game_ended' not in text"}),
}


@pytest.mark.timeout(240)
async def test_the_faults_of_a_bot_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    patience = Patience(answer=40, back=40, quiet=20)
    jobs = {}
    for number, (name, fault) in enumerate(FAULTS.items()):
        *starter, example = command_of(fault.bot)
        source = Path(example).read_text("utf-8")
        for old, new in fault.changes.items():
            assert old in source, f"the example does not hold {old!r} any more"
            source = source.replace(old, new)
        if example.endswith(".py"):
            compile(source, name, "exec")
        program = tmp_path / f"wrong{number}{Path(example).suffix}"
        program.write_text(source)
        url = "{url}" if fault.bot == "bot.sh" else "{ws}"
        jobs[name] = [*starter, str(program), url, "{game}", "{token}"]
    limit = asyncio.Semaphore(9)

    async def wrong_with(name: str, command: list[str]) -> set[str]:
        async with limit:
            findings = await checked(command, patience, [4409] if FAULTS[name].check == "close-4409" else [])
        return {one.name for one in findings.all() if one.outcome == "wrong"}

    found = dict(zip(jobs, await asyncio.gather(*(wrong_with(*job) for job in jobs.items())), strict=True))
    missed = {name: found[name] for name, fault in FAULTS.items() if fault.check not in found[name]}
    assert not missed


def test_every_close_code_has_its_check() -> None:
    for one in CLOSE_CODES:
        if one.code in (1000, 4429):
            continue  # `over` and `rate`
        assert f"close-{one.code}" in CHECKS["socket"]
    assert {one.code for one in CLOSE_CODES if one.come_back == ComeBack.LATER} == {4429}


def run(*words: str) -> Result:
    return interintent("bot-check", "--listen", "127.0.0.1:0", *words)


def test_the_command_says_what_it_found_and_exits_so() -> None:
    nobody = run("--patience", "60", "--json", "--", sys.executable, "-c", "raise SystemExit('no such seat')")
    assert nobody.exit_code == 2
    report = json.loads(nobody.stdout)
    assert report["way"] is None
    assert "no such seat" in str(report["checks"])
    no_command = run("--", "/nowhere/bot")
    assert no_command.exit_code == 2
    assert "/nowhere/bot" in no_command.stderr
    assert run("--listen", "here").exit_code == 2
    # It comes, and leaves without a word.
    rude = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1].split(':')[2]))); "
    rude += "s.sendall(b'GET /games/x HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); s.recv(100); "
    rude += "[print(f'line {n}', file=sys.stderr) for n in range(12)]; sys.exit(3)"
    gone = run("--patience", "60", "--quiet", "1", "--", sys.executable, "-c", rude, "{url}")
    assert gone.exit_code == 1
    assert "wrong       credential: sends its token" in gone.stdout
    assert "the bot ended with status 3; its last lines:" in gone.stdout
    assert [int(n) for n in re.findall(r"^ +line (\d+)$", gone.stdout, re.MULTILINE)] == list(range(2, 12))
