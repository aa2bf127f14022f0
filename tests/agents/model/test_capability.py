"""What a refusal teaches, and for how long."""

import pytest

from agents.model.capability import DOUBT_S, Capability, Format, Ladder, ServerRefusal, lower, read_refusal

FULL = Capability()


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ("use 'max_completion_tokens', not 'max_tokens'", Capability(limit="max_completion_tokens")),
        ("'temperature' does not support 0.8 with this model.", Capability(temperature=False)),
        ("Invalid schema for response_format 'vote'", Capability(Format.REDUCED)),
        ("This model does not support structured outputs", Capability(Format.REDUCED)),
        ("failed to compile grammar", Capability(Format.REDUCED)),
        ("System role not supported", Capability(system=False)),
        ("Conversation roles must alternate user/assistant", Capability(system=False)),
    ],
)  # fmt: skip
def test_a_refusal_is_understood_and_remembered(said: str, then: Capability) -> None:
    ladder = Ladder()
    assert ladder.refused(FULL, "vote", ServerRefusal(said)) == then
    assert ladder.now("vote") == then
    assert ladder.now("other") == then


def test_the_parameter_that_is_named_counts_more_than_the_words() -> None:
    why = ServerRefusal("temperature is fine, but not this", names="response_format")
    assert Ladder().refused(FULL, "vote", why) == Capability(Format.REDUCED)


def test_every_way_down_ends() -> None:
    for said in ("response_format", "max_tokens", "temperature", "system role", "Bad Request"):
        ladder, asked, steps = Ladder(), FULL, 0
        while (less := ladder.refused(asked, "vote", ServerRefusal(said))) is not None:
            assert lower(less, asked) == less != asked
            asked, steps = less, steps + 1
            assert steps < 20
        assert steps > 0


def test_what_nobody_named_is_remembered_once_less_has_worked() -> None:
    ladder = Ladder()
    less = ladder.refused(FULL, "vote", ServerRefusal("Bad Request"))
    assert less == Capability(Format.REDUCED)
    assert ladder.now("vote") == FULL
    assert ladder.answered(less, "vote", kept=True) is None
    assert ladder.now("vote") == less


def test_what_an_outage_may_have_taught_is_tried_again_later() -> None:
    now = [0.0]
    ladder = Ladder(clock=lambda: now[0])
    less = ladder.suspect(FULL, "vote")
    assert less is not None
    ladder.answered(less, "vote", kept=True)
    assert ladder.now("vote").format is Format.REDUCED
    now[0] = DOUBT_S
    assert ladder.now("vote").format is Format.SCHEMA


def test_what_has_worked_is_not_suspected() -> None:
    ladder = Ladder()
    ladder.answered(FULL, "vote", kept=True)
    assert ladder.suspect(FULL, "vote") is None
    assert ladder.refused(FULL, "vote", ServerRefusal("Bad Request")) is None
    assert ladder.suspect(FULL, "speech") is not None


def test_prose_after_a_length_limit_says_nothing_of_the_server() -> None:
    ladder = Ladder()
    assert ladder.answered(FULL, "vote", kept=None) is None
    assert ladder.now("vote") == FULL
    assert ladder.answered(FULL, "vote", kept=False) == Capability(show_schema=True)


@pytest.mark.parametrize(
    ("body", "names", "text"),
    [
        ({"error": {"message": "no", "param": "temperature", "code": None}}, "temperature", "no"),
        ({"error": "no"}, "", "no"),
        ({"message": "no", "object": "error"}, "", "no"),
        ({"detail": [{"loc": ["body", "response_format"], "msg": "extra"}]}, "body response_format", "raw"),
        ({"message": "[{'loc': ('body', 'max_tokens'), 'input': 'x'}]"}, "'body', 'max_tokens'", None),
        (None, "", "raw"),
        ([1], "", "raw"),
    ],
)
def test_refusals_are_read_in_every_form_they_come_in(body: object, names: str, text: str | None) -> None:
    why = read_refusal(body, "raw")
    assert why.names == names
    assert text is None or why.text == text
