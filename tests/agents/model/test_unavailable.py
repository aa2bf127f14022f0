"""Why there is no answer: an outage, the account, or the question itself."""

from typing import Any

import orjson
import pytest

from agents.model.answer import Failed, HttpAnswer
from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, ModelUnavailable
from agents.model.wire import Wire
from tests.agents.model.serving import ASKED, VOTE

QUOTA = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
NO_CREDIT = {"type": "error", "error": {"message": "Your credit balance is too low to use the API."}}
TOO_LONG = {"error": {"message": "This model's maximum context length is 8192 tokens.", "code": None}}


def answer(status: int, body: Any = None, **headers: str) -> HttpAnswer:
    return HttpAnswer(status, headers, orjson.dumps(body or {"error": {"message": "no"}}))


@pytest.mark.parametrize(
    ("given", "cause", "kind"),
    [
        (Failed("refused", None, 0, False), "refused", "outage"),
        (Failed("timeout", 200, 10, True), "timeout", "outage"),
        (Failed("truncated", 200, 10, True), "truncated", "outage"),
        (answer(408), "status_408", "outage"),
        (answer(425), "status_425", "outage"),
        (answer(429), "rate_limited", "outage"),
        (answer(500), "status_500", "outage"),
        (answer(529), "status_529", "outage"),
        (answer(401), "status_401", "account"),
        (answer(402), "status_402", "account"),
        (answer(402, {"error": {"message": "Insufficient Balance"}}), "quota", "account"),
        (answer(403), "status_403", "account"),
        (answer(404), "status_404", "account"),
        (answer(429, QUOTA), "quota", "account"),
        (answer(400, NO_CREDIT), "quota", "account"),
        (answer(400, TOO_LONG), "context_length", "question"),
        (answer(400, {"error": {"message": "no", "code": "content_filter"}}), "content_filter", "question"),
        (answer(422, {"detail": "messages are wrong"}), "status_422", "question"),
        (answer(410), "status_410", "question"),
        (Failed("too_large", 200, 10**6, True), "too_large", "question"),
        (HttpAnswer(200, {"content-type": "text/html"}, b"<html>"), "not_json", "question"),
        (answer(200, {"choices": []}), "no_choices", "question"),
    ],
)
async def test_what_stands_between_us_and_an_answer_is_told_apart(
    given: HttpAnswer | Failed, cause: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def post(*_: object) -> HttpAnswer | Failed:
        return given

    monkeypatch.setattr(Wire, "post", post)
    endpoint = Endpoint("m1", "http://127.0.0.1:9/v1", "fake", attempts=1)
    model = OpenAIModel(endpoint)
    with pytest.raises(ModelUnavailable) as fault:
        await model.complete(ASKED, VOTE, temperature=0.8, max_tokens=50)
    assert (fault.value.cause, fault.value.kind) == (cause, kind)
    await model.aclose()


async def test_how_long_the_server_asks_us_to_wait_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def post(*_: object) -> HttpAnswer:
        return answer(429, None, **{"retry-after": "500"})

    monkeypatch.setattr(Wire, "post", post)
    model = OpenAIModel(Endpoint("m1", "http://127.0.0.1:9/v1", "fake", attempts=1))
    with pytest.raises(ModelUnavailable) as fault:
        await model.complete(ASKED, VOTE, temperature=0.8, max_tokens=50)
    assert fault.value.after_s == 500
    await model.aclose()
