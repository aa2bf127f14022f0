"""The trial of a model: what is asked, what is made of the answers, and what a game is said to take."""

import dataclasses
from typing import Any

import pytest

from agents.model.model import Endpoint, ModelUnavailable, Prices
from app.instruments.fake_model import FakeOptions, read_fault
from app.instruments.fake_model.brains import BRAINS
from app.models.game_costs import GAMES, GamePlan, game_costs
from app.models.schemas import TrialView, TriedForm
from app.models.trial import MOST_TOKENS, plan_trial, try_endpoint
from bench.asked import asked_of
from tests.app.modelling import faking

STEPS = (
    *("first_order", "first_order", "selection", "formulation", "second_order", "modification", "refinement"),
    *("first_pass", "second_pass", "one_pass", "direct"),
    *("proposal", "reconsideration", "vote", "card", "summary", "assassination"),
    *("judge_selection", "judge_following", "judge_statements"),
)


async def tried(brain: str = "sensible", *faults: str, **more: Any) -> tuple[TrialView, int]:
    """A trial of a fake model, and how many requests it got."""
    most = more.pop("most_tokens", MOST_TOKENS)
    options = FakeOptions(brain=BRAINS[brain](1), faults=tuple(map(read_fault, faults)))
    options = dataclasses.replace(options, behave=more.pop("behave", None))
    async with faking(options) as fake:
        endpoint = Endpoint("small", f"{fake.url}/v1", "fake", **more)
        return await try_endpoint(endpoint, most), fake.counts.calls


async def test_a_trial_asks_one_question_of_each_form_and_one_of_them_again() -> None:
    trial, calls = await tried()
    assert tuple(one.step for one in trial.forms) == STEPS
    assert [one.step for one in trial.forms if one.again] == ["first_order"]
    assert calls == len(STEPS)


async def test_a_trial_says_before_what_it_sends() -> None:
    plan = await plan_trial()
    trial, _ = await tried()
    assert plan.calls == len(trial.forms)
    sent = sum(one.prompt_tokens for one in trial.forms)
    assert plan.prompt_tokens == pytest.approx(sent, rel=0.05)
    assert plan.most_written == 4096 * (len(STEPS) - 3) + 2000 * 3


async def test_every_form_of_a_sensible_model_can_be_used() -> None:
    trial, _ = await tried()
    assert (trial.usable, trial.unasked) == (len(STEPS), 0)
    assert all(one.finish == "stop" and one.first_s is not None for one in trial.forms)
    assert trial.cached_share is not None
    assert trial.cached_share > 0.9
    assert trial.tokens == sum(one.prompt_tokens + one.completion_tokens for one in trial.forms)
    assert trial.learnt.format == "schema"


async def test_an_answer_that_cannot_be_used_does_not_keep_the_next_question_from_being_asked() -> None:
    trial, _ = await tried("prose")
    assert trial.usable == 0
    assert tuple(one.step for one in trial.forms) == STEPS
    assert {one.requests for one in trial.forms[1:]} == {1}
    assert all((one.fault or "").startswith("it answered ") for one in trial.forms)


async def test_a_trial_tells_what_the_server_was_found_to_accept() -> None:
    trial, _ = await tried("sensible", "json_schema_400", "max_tokens_400")
    assert (trial.learnt.format, trial.learnt.limit) == ("object_with_schema", "max_completion_tokens")
    assert trial.learnt.format == trial.forms[-1].format
    assert trial.usable == len(STEPS)


async def test_a_trial_tells_each_question_before_it_is_asked() -> None:
    told: list[tuple[int, str]] = []
    async with faking(FakeOptions(brain=BRAINS["sensible"](1))) as fake:
        await try_endpoint(
            Endpoint("small", f"{fake.url}/v1", "fake"),
            on_question=lambda asked, step: told.append((asked, step)),
        )
    assert told == list(enumerate(STEPS))


async def test_what_a_provider_does_not_count_is_not_called_nothing() -> None:
    trial, _ = await tried("sensible", "usage_missing")
    assert (trial.cached_share, trial.reasoning_share) == (None, None)
    assert trial.usable == len(STEPS)
    assert not any(one.tokens_known for one in trial.forms)


async def test_a_question_that_is_turned_down_is_told_in_the_providers_words() -> None:
    trial, _ = await tried("sensible", "context_length")
    assert trial.usable == 0
    assert all(one.finish is None and one.fault for one in trial.forms)
    assert trial.games == []


@pytest.mark.parametrize(("fault", "words"), [("status_401", "key"), ("quota", "quota"), ("status_404", "")])
async def test_an_endpoint_that_refuses_is_asked_once(fault: str, words: str) -> None:
    async with faking(FakeOptions(faults=(read_fault(fault),))) as fake:
        with pytest.raises(ModelUnavailable) as refused:
            await try_endpoint(Endpoint("small", f"{fake.url}/v1", "fake"))
        assert refused.value.kind == "account"
        assert words in refused.value.words
        assert fake.counts.calls == 1


async def test_no_call_is_made_once_the_bound_is_reached() -> None:
    trial, calls = await tried(most_tokens=6_000)
    assert calls == len(trial.forms) == 3
    assert trial.unasked == len(STEPS) - 3


def form(step: str, **more: Any) -> TriedForm:
    usual = {
        "again": False, "usable": True, "finish": "stop", "fault": None, "seconds": 2.0, "first_s": 0.5,
        "requests": 1, "prompt_tokens": 1000, "cached_tokens": 0, "completion_tokens": 100,
        "reasoning_tokens": None, "tokens_known": True, "cost": 0.0, "format": "schema",
    }  # fmt: skip
    return TriedForm(step=step, **{**usual, **more})


def test_a_game_costs_its_calls_at_the_size_and_speed_of_the_trial() -> None:
    forms = [form(step) for step in dict.fromkeys(STEPS)]
    prices = Prices(prompt=1.0, cached=0.0, completion=10.0)
    costs = {
        (one.preset, one.timing): one for one in game_costs(forms, prices, token_ratio=2.0, cached_share=0.0)
    }
    direct = costs["direct", "exact"]
    # 15 speeches, 3 decisions on the team, 15 votes, 7 cards, 10 summaries and the shot.
    assert direct.calls.low == 15 + 3 + 15 + 7 + 10 + 1 == 51
    assert direct.prompt_tokens.low == 2 * 85_000
    assert direct.completion_tokens.low == 51 * 100
    assert direct.cost is not None
    assert direct.cost.low == pytest.approx((170_000 + 10 * 5_100) / 1e6)
    # In a row: 15 speeches, 3 decisions, 3 votes, 3 cards, 2 summaries, the shot; two seconds each.
    assert direct.hours.low == pytest.approx(27 * 2 / 3600)
    # docs/models.md: 34 x rounds - 1 in a row, and 24 x rounds + 1 for eager seats.
    assert costs["paper", "exact"].hours.high == pytest.approx(169 * 2 / 3600)
    assert costs["paper", "eager"].hours.low == pytest.approx(73 * 2 / 3600)


def test_what_a_cache_finds_costs_the_price_of_cached_tokens() -> None:
    forms = [form(step) for step in dict.fromkeys(STEPS)]
    prices = Prices(prompt=1.0, cached=0.0, completion=0.0)
    direct = game_costs(forms, prices, token_ratio=1.0, cached_share=0.5)[-1]
    assert direct.cost is not None
    # 74 % of the prompts were sent before, and half of that is found.
    assert direct.cost.low == pytest.approx(85_000 * (1 - 0.37) / 1e6)


def test_without_prices_a_game_costs_what_the_provider_charged_for_as_many_tokens() -> None:
    forms = [form(step, cost=0.0011) for step in dict.fromkeys(STEPS)]
    direct = game_costs(forms, Prices(), token_ratio=1.0, cached_share=0.0)[-1]
    assert direct.cost is not None
    assert direct.cost.low == pytest.approx((85_000 + 5_100) * 1e-6)
    free = game_costs([form("vote")], Prices(), token_ratio=1.0, cached_share=0.0)[-1]
    assert free.cost is None


@pytest.mark.parametrize("plan", [one for one in GAMES if one.timing == "exact"], ids=lambda one: one.preset)
def test_the_known_calls_of_a_preset_are_those_of_a_game(plan: GamePlan) -> None:
    game = asked_of(plan.preset, 0)
    # The bench leaves out the shot. Evil seats' cards differ from game to game.
    cards = 1 if plan.preset == "one_pass" else 0
    assert abs(plan.calls(game.rounds) - 1 - game.calls) <= cards
    assert plan.prompt_tokens[game.rounds] == pytest.approx(game.prompt / 4, rel=0.03)
    assert plan.repeated == pytest.approx(game.to_seat / game.prompt, abs=0.02)
