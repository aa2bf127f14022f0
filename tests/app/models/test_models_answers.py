"""Recorded answers: exported from a service, kept by a simulation, and played again without any model."""

import asyncio
import contextlib
import json
import resource
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from agents.llm.session import CallKey
from agents.llm.templates import Templates
from agents.model.model import Form, Message, ModelUnavailable, Reply, Spent, Usage
from app.cli.simulate_models import print_uses
from app.instruments.fake_model import FakeModel, FakeOptions, read_fault, read_latency
from app.models.recording import AnswersFile, CannotStore, InvalidAnswers, Recording, Signature, line_of
from app.runner.simulate import game_hash
from app.store.call import StoredQuestion, Use, UseKey, answered, failed
from engine.events import UtteranceMade
from engine.profile import make_profile
from engine.rules import create
from tests.app.calling import WITHIN_S, calling, problem, read_ndjson, without_place, without_times
from tests.app.modelling import COMPACT, calling_with, faking
from tests.app.typed import interintent

SEEDS = {"from": 70}
WISH: dict[str, Any] = {"seats": COMPACT, "count": 2, "seeds": SEEDS}
MESSY = FakeOptions(faults=(read_fault("status_500:0.02"), read_fault("choices_empty:0.05")))
"""So that failures are part of what is recorded."""


def done(result: Result) -> Result:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@contextlib.contextmanager
def fake_in_a_thread(options: FakeOptions | None = None) -> Iterator[FakeModel]:
    """A fake model for commands that have a loop of their own."""
    loop = asyncio.new_event_loop()
    fake = FakeModel(options)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(fake.start(), loop).result(WITHIN_S)
        yield fake
    finally:
        asyncio.run_coroutine_threadsafe(fake.stop(), loop).result(WITHIN_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WITHIN_S)
        loop.close()


def anyone(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of a log, whoever gave the models' answers."""
    return [
        {**line, "agents": None} if line["type"] == "agents_seated" else without_place(line)
        for line in without_times(log)
        if line["type"] != "provenance"
    ]


def events(path: Path) -> list[dict[str, Any]]:
    return [line for line in read_ndjson(path.read_bytes()) if "type" in line]


@pytest.mark.long
async def test_an_exported_batch_is_repeated_without_a_model_byte_for_byte(
    database_url: str, tmp_path: Path
) -> None:
    file, out = tmp_path / "answers.ndjson", tmp_path / "games.ndjson"
    async with faking(MESSY) as fake, calling_with(fake, database_url) as caller:
        batch, games = await caller.played(**WISH)
        logs = [await caller.lines(f"/games/{game}/events") for game in games]
        tokens = (await caller.get(f"/batches/{batch}")).json()["tokens"]
        assert fake.counts.faults
    await asyncio.to_thread(
        lambda: done(
            interintent("answers", "export", batch, "--out", str(file), "--database-url", database_url)
        )
    )
    calls = fake.counts.calls
    # On a service …
    replaying = f"sqlite:///{tmp_path}/replayed.db"
    async with calling(replaying, models={"published": {"recorded": str(file)}}) as caller:
        seats = [{**COMPACT[0], "model": "published"}]
        batch, games = await caller.played(**{**WISH, "seats": seats})
        replayed = [await caller.lines(f"/games/{game}/events") for game in games]
        assert [anyone(log) for log in replayed] == [anyone(log) for log in logs]
        [seated] = {str(line["agents"]["1"]) for log in replayed for line in log if "agents" in line}
        assert "'endpoint': 'published', 'model': None" in seated
        assert (await caller.get(f"/batches/{batch}")).json()["tokens"] == tokens
    # … and without one.
    arguments = ("simulate", "-n", "2", "--agents", "llm", "--mechanism", "compact", "--seed", "70")
    await asyncio.to_thread(lambda: done(interintent(*arguments, "--answers", str(file), "--out", str(out))))
    assert anyone(events(out)) == [line for log in logs for line in anyone(log)]
    assert fake.counts.calls == calls


async def test_a_game_is_played_anew_from_its_first_default_and_both_are_exported(
    database_url: str, tmp_path: Path
) -> None:
    file, replaying = tmp_path / "answers.ndjson", f"sqlite:///{tmp_path}/replayed.db"
    seats = [{"agent": "llm", "model": "fake", "mechanism": "direct"}, *[{"agent": "random"}] * 4]
    async with faking() as fake, calling_with(fake, database_url) as caller:
        brain = fake._brain
        fake._brain = lambda *asked: brain(*asked) if fake.counts.answered < 5 else "no JSON"
        wish = {"profile": "interintent", "seats": seats, "count": 1, "seeds": SEEDS}
        batch, [spoilt] = await caller.played(**wish, on_unusable="default")
        fake._brain = brain
        [anew] = (await caller.post(f"/batches/{batch}/retry", json={})).json()["anew"]
        assert (await caller.over(batch))["games"]["finished"] == 2
        was, now = [await caller.lines(f"/games/{game}/events") for game in (spoilt, anew["game_id"])]
        taken = (await caller.get(f"/games/{anew['game_id']}")).json()["forked_from"]["events"]
        first = next(place for place, line in enumerate(was) if line["type"] == "action_defaulted")
        assert 3 < taken <= first
        assert anyone(was[:taken]) == anyone(now[:taken])
        assert not any(line["type"] == "action_defaulted" for line in now)
        calls = caller.services.models.calls
        old, new = [await calls.of_game(game) for game in (spoilt, anew["game_id"])]
        used = {key.request_id for key, call in old.items() if call.value is not None}
        assert len(used) == 5
        assert not used & {key.request_id for key in new}
    await asyncio.to_thread(
        lambda: done(
            interintent("answers", "export", batch, "--out", str(file), "--database-url", database_url)
        )
    )
    recorded = Recording.read(file).calls("70")
    assert len(recorded) == len(old) + len(new)
    assert sum(call.usage.prompt for call in recorded.values()) == sum(
        call.usage.prompt for call in (*old.values(), *new.values())
    )
    async with calling(replaying, models={"published": {"recorded": str(file)}}) as caller:
        _, [game] = await caller.played(**{**wish, "seats": [{**seats[0], "model": "published"}, *seats[1:]]})
        assert anyone(await caller.lines(f"/games/{game}/events")) == anyone(now)


async def test_an_answer_that_is_not_recorded_fails_the_game_and_nothing_is_made_up(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.ndjson"
    async with faking() as fake, calling_with(fake, database_url) as caller:
        batch, _ = await caller.played(**{**WISH, "count": 1})
    await asyncio.to_thread(
        lambda: done(
            interintent("answers", "export", batch, "--out", str(file), "--database-url", database_url)
        )
    )
    seats = [{**COMPACT[0], "model": "published"}]
    async with calling(database_url, models={"published": {"recorded": str(file)}}) as caller:
        for wish in ({"seeds": {"from": 71}}, {"seats": [{**seats[0], "mechanism": "direct"}]}):
            _, [game] = await caller.played(**{**WISH, "count": 1, "seats": seats, **wish})
            view = (await caller.get(f"/games/{game}")).json()
            assert view["status"] == "failed"
            assert view["fault"]
        said = capfd.readouterr()
        assert "no answer is recorded for seed 71" in " ".join((said.out + said.err).split())
        _, [game] = await caller.create(
            **{**WISH, "count": 1, "seats": seats, "seeds": {"from": 71}}, drive="manual"
        )
        answer = await caller.post(f"/games/{game}/step", json={"until": "end"})
        assert "seed 71" in problem(answer, 409, "missing-answer")["detail"]


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    key, asked = CallKey("1.1.vote.3", "vote", "", 1), [Message("user", "Vote.")]
    usage = Usage(1, 0, 1, True)
    sent = {"max_completion_tokens": 50}
    question = StoredQuestion(key, asked, Form("vote", {}), 0.8, 50)
    call = answered(question, "m1", Reply("{}", {}, usage, 0.5, 1.5, "fake", "stop", 2, sent), whole=True)
    now = line_of("7", call)
    then = json.loads(now)
    assert (then["temperature"], then["max_tokens"], then["parameters"]) == (None, 50, sent)
    assert then.pop("asked") == {"temperature": 0.8, "max_tokens": 50}
    del then["parameters"]
    then["temperature"] = 0.8
    for line, found in (
        (now, call),
        (json.dumps(then).encode() + b"\n", replace(call, temperature=0.8, parameters=None)),
    ):
        file = tmp_path / "answers.ndjson"
        signature = Signature()
        file.write_bytes(signature.add(line) + signature.line())
        assert Recording.read(file).calls("7") == {key: found}


def test_a_simulation_keeps_its_answers_and_pays_for_none_twice(tmp_path: Path) -> None:
    file = tmp_path / "answers.ndjson"
    with fake_in_a_thread(MESSY) as fake:
        asking = ("--model", "fake", "--base-url", f"{fake.url}/v1", "--answers", str(file))
        common = (
            "simulate",
            "--agents",
            "llm,random,llm,random,random",
            "--mechanism",
            "compact",
            "--seed",
            "3",
            "--json",
        )
        first = json.loads(
            done(interintent(*common, "-n", "3", *asking, "--out", str(tmp_path / "a"))).stdout
        )
        calls = fake.counts.calls
        assert sum(model["http_calls"] for model in first["models"]) == calls > 0
        assert first["tokens"] > 0
        # The same again costs nothing; one game more costs that game.
        again = json.loads(
            done(interintent(*common, "-n", "3", *asking, "--out", str(tmp_path / "b"))).stdout
        )
        assert fake.counts.calls == calls
        for figure in (
            "calls",
            "failed",
            "http_calls",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
        ):
            assert again["models"][0][figure] == first["models"][0][figure], figure
        done(interintent(*common, "-n", "4", *asking))
        assert fake.counts.calls > calls
    # Without a model, one at a time: the same bytes.
    alone = (*common, "-n", "3", "--answers", str(file), "--parallel", "1", "--out", str(tmp_path / "c"))
    done(interintent(*alone))
    logs = [(tmp_path / name).read_bytes() for name in "abc"]
    assert logs[0] == logs[1]
    assert anyone(events(tmp_path / "a")) == anyone(events(tmp_path / "c"))
    # Who answered is the only difference.
    differing = [
        one for one, other in zip(*map(bytes.splitlines, (logs[0], logs[2])), strict=True) if one != other
    ]
    assert {json.loads(line).get("type", "end") for line in differing} == {
        "provenance",
        "agents_seated",
        "end",
    }
    refused = interintent(*common, "-n", "5", "--answers", str(file))
    assert refused.exit_code == 2
    assert "no answer is recorded for seed 7" in " ".join(refused.output.split())
    refused = interintent(*common, "-n", "3", "--answers", str(file), "--option", "menu=impactful")
    assert refused.exit_code == 2
    assert "answer" in refused.output


def test_a_simulation_stops_at_its_budget_and_goes_on_later(tmp_path: Path) -> None:
    file, out, whole = (tmp_path / name for name in ("answers", "out", "whole"))
    with fake_in_a_thread(FakeOptions(latency=read_latency("0.002"))) as fake:
        common = ("simulate", "-n", "6", "--agents", "llm", "--mechanism", "direct", "--seed", "5", "--json")
        asking = ("--model", "fake", "--base-url", f"{fake.url}/v1")
        stopped = interintent(
            *common,
            *asking,
            "--answers",
            str(file),
            "--out",
            str(out),
            "--max-tokens",
            "500000",
            "--parallel",
            "2",
        )
        assert stopped.exit_code == 3, stopped.output
        report = json.loads(stopped.stdout)
        assert report["budget_spent"]
        assert report["games"] < 6
        # Overdrawn by the calls in flight at most: 16, of some 4,000 tokens each.
        assert 500_000 <= report["tokens"] < 500_000 + 16 * 5_000
        assert len(Recording.read(file)) == fake.counts.calls
        calls = fake.counts.calls
        again = (*common, *asking, "--answers", str(file), "--out", str(out), "--resume")
        # Answers that were asked for otherwise are not mixed in.
        hotter = ("--option", "temperature=0.9")
        refused = interintent(*common, "-n", "1", *asking, "--answers", str(file), *hotter)
        assert refused.exit_code == 2
        assert "belongs to another question" in " ".join(refused.output.split())
        done(interintent(*again))
        calls = fake.counts.calls
        refused = interintent(*again, "-n", "7", *hotter)
        assert refused.exit_code == 2
        assert "other agents: seat 1, parameters/temperature was 0.8, is 0.9" in refused.output
        assert fake.counts.calls == calls
        assert len(Recording.read(file)) == fake.counts.calls
        done(interintent(*common, "--answers", str(file), "--out", str(whole)))
    assert anyone(events(out)) == anyone(events(whole))


@pytest.mark.parametrize(
    ("fault", "said"), [("quota", "fake: quota: "), ("context_length", "fake: context_length: ")]
)
def test_a_simulation_that_its_model_stops_says_why_and_goes_on_later(
    tmp_path: Path, fault: str, said: str
) -> None:
    file, whole = tmp_path / "answers", tmp_path / "whole"
    with fake_in_a_thread() as fake:
        common = ("simulate", "-n", "2", "--agents", "llm", "--mechanism", "direct", "--seed", "5", "--json")
        asking = ("--model", "fake", "--base-url", f"{fake.url}/v1", "--answers", str(file))
        fake.faults = (read_fault(fault),)
        stopped = interintent(*common, *asking)
        assert stopped.exit_code == 3, stopped.output
        report = json.loads(stopped.stdout)
        assert (report["games"], report["budget_spent"]) == (0, False)
        assert said.replace("fake", "model") in report["stopped"]
        fake.faults = ()
        done(interintent(*common, *asking, "--out", str(whole)))
        assert b"action_defaulted" not in whole.read_bytes()


def test_games_of_models_that_said_something_else_have_other_ids() -> None:
    log, other = (
        [*create(make_profile("interintent", 5), 7), UtteranceMade(1, 1, 1, 1, "discuss", text)]
        for text in "ab"
    )
    assert game_hash(log, {}) == game_hash(other, {})
    assert game_hash(log, {}, {1: ["small"]}) == game_hash(list(log), {}, {1: {"small"}})
    assert game_hash(log, {}, {1: ["small"]}) != game_hash(other, {}, {1: ["small"]})
    assert game_hash(log, {}, {}) != game_hash(other, {}, {})


def test_a_simulation_puts_unusable_answers_aside_and_asks_anew(tmp_path: Path) -> None:
    file, out, again = (tmp_path / name for name in ("answers", "out", "again"))
    with fake_in_a_thread() as fake:
        common = ("simulate", "-n", "1", "--agents", "llm", "--mechanism", "direct", "--seed", "5", "--json")
        asking = ("--model", "fake", "--base-url", f"{fake.url}/v1", "--answers", str(file))
        brain = fake._brain
        fake._brain = lambda *_: "no JSON"
        stopped = interintent(*common, *asking)
        assert stopped.exit_code == 3, stopped.output
        assert "unusable_answers" in json.loads(stopped.stdout)["stopped"]
        assert "answers export" not in stopped.stdout, "there is no database, but the file of answers"
        fake._brain = brain
        done(interintent(*common, *asking, "--out", str(out)))
        assert b"action_defaulted" not in out.read_bytes()
        kept = Recording.read(file).calls("5").values()
        assert sum(call.http_calls for call in kept) == fake.counts.answered
        done(interintent(*common, "--answers", str(file), "--out", str(again)))
    assert anyone(events(again)) == anyone(events(out))


@pytest.mark.long
def test_order_and_bytes_of_a_simulation_do_not_depend_on_who_was_answered_first(tmp_path: Path) -> None:
    with fake_in_a_thread(FakeOptions(latency=read_latency("exponential:0.003"))) as fake:
        for name, parallel in (("one", "1"), ("many", "8")):
            done(
                interintent(
                    *("simulate", "-n", "2", "--agents", "llm", "--mechanism", "paper", "--seed", "8"),
                    *("--model", "fake", "--base-url", f"{fake.url}/v1", "--parallel", parallel),
                    *("--out", str(tmp_path / name)),
                )
            )
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--model and --base-url"),
        (["--model", "x"], "say where x is"),
        (["--base-url", "http://127.0.0.1:9/v1"], "go with --model"),
        (["--model", "x", "--base-url", "ftp://y"], "http:// or https://"),
        (["--model", "x", "--base-url", "http://y/v1", "--api-key-env", "NOT_SET_AT_ALL"], "NOT_SET_AT_ALL"),
        (["--model", "x", "--base-url", "http://y/v1", "--max-cost", "1"], "needs prices"),
        (["--model", "x", "--base-url", "http://y/v1", "--mechanism", "fast"], "paper, one_pass"),
        (["--model", "x", "--base-url", "http://y/v1", "--option", "menu"], "name=value"),
        (["--answers", "no/such/file"], "cannot be read"),
    ],
)
def test_a_simulation_that_has_nobody_to_ask_says_what_is_missing(arguments: list[str], said: str) -> None:
    refused = interintent("simulate", "-n", "1", "--agents", "llm", *arguments)
    assert refused.exit_code == 2, refused.output
    assert said in " ".join(refused.output.split())


def test_arguments_for_models_need_a_seat_that_has_one() -> None:
    refused = interintent("simulate", "-n", "1", "--model", "x")
    assert refused.exit_code == 2
    assert "llm seats" in " ".join(refused.output.split())


def test_a_file_of_answers_that_was_changed_or_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "answers"
    with fake_in_a_thread() as fake:
        done(
            interintent(
                *(
                    "simulate",
                    "-n",
                    "1",
                    "--agents",
                    "llm,random,random,random,random",
                    "--mechanism",
                    "direct",
                ),
                *("--model", "fake", "--base-url", f"{fake.url}/v1", "--answers", str(file)),
            )
        )
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert (
        json.loads(lines[-1])["answers"] == len(lines) - 1 == len(Recording.read(file)) == fake.counts.calls
    )
    assert whole.isascii()
    file.write_bytes(b"".join(lines[1:]))
    with pytest.raises(InvalidAnswers, match="was altered"):
        Recording.read(file)
    file.write_bytes(b"\n" + whole)
    with pytest.raises(InvalidAnswers, match="line 1"):
        Recording.read(file)
    # What a dying process had not finished to write is asked for again, and the file is sound.
    file.write_bytes(b"".join(lines[:-2]) + lines[-2][:40])
    kept = AnswersFile(file)
    assert len(kept.recording) == len(lines) - 2
    kept.close()
    assert len(Recording.read(file)) == len(lines) - 2


@pytest.mark.parametrize("more", ["whole", "incomplete"])
async def test_joined_files_of_answers_are_refused_and_left_as_they_are(tmp_path: Path, more: str) -> None:
    parts = []
    for seed in ("5", "7"):
        part = AnswersFile(tmp_path / seed)
        question = StoredQuestion(CallKey("1.1.vote.3", "vote", "", 1), [], Form("vote", {}), 0.8, 50)
        reply = Reply("{}", {}, Usage(1, 0, 9, True), 0, 0, "fake", "stop", 1)
        await part.keep(seed, answered(question, "m1", reply, whole=True))
        part.close()
        parts.append((tmp_path / seed).read_bytes())
    whole = parts[0] + (parts[1] if more == "whole" else parts[1][:40])
    file = tmp_path / "all"
    file.write_bytes(whole)
    for read in (Recording.read, AnswersFile):
        with pytest.raises(InvalidAnswers, match=r"after its end, line 2: .* head -n 2 .* tail -n \+3"):
            read(file)
    assert file.read_bytes() == whole
    # A blank line that an editor added is nothing to lose.
    file.write_bytes(parts[0] + b"\n")
    AnswersFile(file).close()
    assert file.read_bytes() == parts[0]


async def test_a_file_of_answers_keeps_what_was_paid_for_tries(tmp_path: Path) -> None:
    file, key = tmp_path / "answers", CallKey("1.1.vote.3", "vote", "", 1)
    question = StoredQuestion(key, [Message("user", "Vote.")], Form("vote", {}), 0.8, 50)
    fault = ModelUnavailable("no", "timeout", Spent(Usage(40, 0, 9, False), 0.5, 1.0, 1), "outage")
    answer = answered(
        question, "m1", Reply("{}", {}, Usage(1, 0, 9, True), 0, 0, "fake", "stop", 1), whole=True
    )
    kept = AnswersFile(file)
    for _ in range(2):
        tried = failed(question, "m1", "fake", fault, whole=True)
        await kept.keep("7", replace(tried, key=await kept.key_of_try("7", key)))
    await kept.keep("7", answer)
    await kept.put_aside("7", [key])
    kept.close()
    calls = Recording.read(file).calls("7")
    assert calls == kept.recording.calls("7")
    assert {one.attempt: call.usage.prompt for one, call in calls.items()} == {-1: 40, -2: 40, -3: 1}


def test_an_export_of_a_batch_that_is_not_there_leaves_no_file(tmp_path: Path) -> None:
    refused = interintent(
        *("answers", "export", "b_none", "--out", str(tmp_path / "x")),
        *("--database-url", f"sqlite:///{tmp_path}/none.db"),
    )
    assert refused.exit_code == 2
    assert not (tmp_path / "x").exists()
    assert "no database" in " ".join(refused.output.split())


def test_what_was_thought_and_who_served_it_is_exported_and_read(tmp_path: Path) -> None:
    key, asked = CallKey("1.1.vote.3", "vote", "", 1), [Message("user", "Vote.")]
    usage = Usage(1, 0, 9, True, 7, 0.25)
    reply = Reply("{}", {}, usage, 0.5, 1.5, "fake", "stop", 2, {}, "Hm. \ud83d", "Together", "fp_1")
    call = answered(StoredQuestion(key, asked, Form("vote", {}), 0.8, 50), "m1", reply, whole=True)
    assert call.answer() == reply
    line = line_of("7", call)
    told = json.loads(line)
    assert (told["reasoning"], told["reasoning_tokens"], told["reported_cost"]) == ("Hm. \ud83d", 7, 0.25)
    file = tmp_path / "answers.ndjson"
    signature = Signature()
    file.write_bytes(signature.add(line) + signature.line())
    assert Recording.read(file).calls("7") == {key: call}


def test_a_simulation_takes_prompts_from_a_directory(tmp_path: Path) -> None:
    folder, out = tmp_path / "short", tmp_path / "out"
    folder.mkdir()
    (folder / "vote.jinja").write_text("Aye or nay?", "utf-8")
    with fake_in_a_thread() as fake:
        common = ("simulate", "-n", "1", "--agents", "llm", "--mechanism", "direct", "--seed", "5", "--model")
        asking = (*common, "fake", "--base-url", f"{fake.url}/v1", "--option", "prompts=short")
        done(interintent(*asking, "--prompts", f"short={folder}", "--out", str(out)))
        [agents] = [line["agents"] for line in events(out) if line["type"] == "agents_seated"]
        assert agents["5"]["parameters"]["prompts_hash"] == Templates(folder).digest
        for arguments, said in (
            (asking, "no prompts are called 'short'"),
            ((*asking, "--prompts", f"short={folder}/none"), "there is no directory"),
            ((*asking, "--prompts", "short"), "name=value"),
        ):
            refused = interintent(*arguments)
            assert refused.exit_code == 2
            assert said in " ".join(refused.output.split())


@pytest.mark.parametrize("reasoning", [None, 123_456_789])
def test_the_table_of_what_models_took_cuts_no_figure(
    reasoning: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    use = Use(54_321, 21, 0, 60_000, 1_222_400_111, 900_000, 120_378_222, reasoning, 1234.0, 40_000.0)
    print_uses({UseKey("m", "gpt-5-mini", "reconsideration+vote"): use})
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert ("reasoning" in printed, "123,456,789" in printed) == (reasoning is not None,) * 2
    for figure in ("54,321", "1,222,400,111", "120,378,222", "1,234", "40,000 s", "reconsideration+vote"):
        assert figure in printed


def test_a_run_that_stops_says_whether_its_answers_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "answers.ndjson"
    with fake_in_a_thread(FakeOptions(faults=(read_fault("status_401"),))) as fake:
        asked = ("simulate", "-n", "1", "--agents", "llm", "--model", "fake", "--base-url", f"{fake.url}/v1")
        lost = interintent(*asked)
        stored = interintent(*asked, "--answers", str(kept))
    assert (lost.exit_code, stored.exit_code) == (3, 3)
    assert "with --answers FILE, a run keeps what it has paid for" in " ".join(lost.output.split())
    assert f"the answers are in {kept}:" in " ".join(stored.output.split())


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """In this block no file of this process grows beyond ``size`` bytes, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_what_a_full_disk_does_not_take_is_neither_in_the_file_nor_signed(tmp_path: Path) -> None:
    file, key = tmp_path / "answers", CallKey("1.1.vote.3", "vote", "", 1)
    question = StoredQuestion(key, [Message("user", "Vote.")], Form("vote", {}), 0.8, 50)
    reply = Reply("{}", {}, Usage(1, 0, 9, True), 0, 0, "fake", "stop", 1)
    first = answered(question, "m1", reply, whole=True)
    second = replace(first, key=replace(key, attempt=2))
    kept = AnswersFile(file)
    await kept.keep("7", first)
    before = file.read_bytes()
    for room in (0, 20):
        with files_up_to(len(before) + room):
            for _ in range(2):
                with pytest.raises(CannotStore, match=f"^cannot write {file}: File too large$"):
                    await kept.keep("7", second)
                with pytest.raises(CannotStore):
                    await kept.put_aside("7", [key])
        assert file.read_bytes() == before
        assert set(kept.recording.calls("7")) == {key}
    # With room again it goes on, and a call that is there is not written twice.
    await kept.keep("7", second)
    await kept.keep("7", second)
    whole = file.read_bytes()
    with files_up_to(len(whole)), pytest.raises(CannotStore):
        kept.close()
    assert file.read_bytes() == whole
    AnswersFile(file).close()
    assert file.read_bytes().count(b"\n") == 3
    assert Recording.read(file).calls("7") == {key: first, second.key: second}


def test_a_simulation_on_a_full_disk_says_so_and_asks_nothing_again(tmp_path: Path) -> None:
    file, out = tmp_path / "answers.ndjson", tmp_path / "games.ndjson"
    with fake_in_a_thread() as fake:
        command = (
            *("simulate", "-n", "1", "--agents", "llm,random,random,random,random", "--mechanism", "direct"),
            *("--model", "fake", "--base-url", f"{fake.url}/v1", "--seed", "5"),
            *("--answers", str(file), "--out", str(out)),
        )
        with files_up_to(6000):
            full = interintent(*command)
        assert full.exit_code == 2
        assert full.stderr.splitlines()[-1] == (
            f"interintent: cannot write {file}: File too large; its answers are kept, "
            "continue with --resume --seed 5"
        )
        *held, _ = file.read_bytes().splitlines()  # the last line signs the others
        assert 0 < len(held) == len(Recording.read(file)) < 20
        before = fake.counts.calls
        done(interintent(*command, "--resume"))
        assert before + len(Recording.read(file)) - len(held) == fake.counts.calls
        assert file.read_bytes().splitlines()[: len(held)] == held
