"""Reading what raters answer: ids, labels, other wordings, replies of models, samples."""

import pytest

from engine.intentions import BY_ID, CATALOGUE, WORDINGS
from engine.terms import Role
from evaluators.ground.answers import CLOSE, Guess, majority, read_answer, read_intention, read_reply


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.id)
def test_ids_labels_and_aliases_are_read_whatever_their_case_and_punctuation(one: object) -> None:
    intention = BY_ID[one.id]  # type: ignore[attr-defined]
    for wording in (intention.id, intention.label, *intention.aliases):
        for said in (wording, wording.upper(), f" {wording}. ", f"“{wording}!”"):
            assert read_intention(said) == intention.id


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.id)
def test_a_slip_of_the_pen_in_a_label_is_forgiven(one: object) -> None:
    label = BY_ID[one.id].label  # type: ignore[attr-defined]
    assert read_intention(label[:5] + label[6:]) == one.id  # type: ignore[attr-defined]
    assert read_intention(f"To {label}") == one.id  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Express you are a loyal player", "express_loyalty"),
        ("express that you are a loyal player", "express_loyalty"),
        ("Express you are not a loyal player", None),
        ("Reveal identity by telling others you are Merlin to persuade other loyal players", None),
        (
            "Reveal identity by telling other you are Servant to persuade other loyal players",
            "reveal_servant",
        ),
        ("Cast suspic", "cast_suspicion"),  # 88.0, which is close enough
        ("Win the game", None),
        ("defend", None),
        ("", None),
    ],
)
def test_only_what_is_close_to_one_alone_is_taken_for_it(said: str, meant: str | None) -> None:
    assert read_intention(said) == meant


def test_no_wording_is_close_to_another_intentions() -> None:
    # Else the threshold would turn one published label into another.
    for wording, id_ in WORDINGS.items():
        assert read_intention(f"{wording} x", 100.0) is None
        assert read_intention(wording) == id_


def test_the_threshold_is_the_callers() -> None:
    said = "Express that one is a loyal player"
    assert read_intention(said, CLOSE) is None
    assert read_intention(said, 70.0) == "express_loyalty"


@pytest.mark.parametrize("said", ["not on team", "support on the team"])
def test_what_is_nearly_as_close_to_another_intention_is_taken_for_neither(said: str) -> None:
    # 73.3 and 71.0; 72.7 and 69.8, of which the second alone would not be close enough.
    assert read_intention(said, 70.0) is None


def test_duplicates_are_merged_and_what_names_nothing_is_kept_as_it_was() -> None:
    guess = read_answer(
        "g/x", ["express_loyalty", "Express you are a loyal player", "Win!", "win", " ", "Be nice"], rater="m"
    )
    assert guess.intentions == {"express_loyalty"}
    assert guess.unmapped == ("Win!", "Be nice")
    assert guess.named() == {"express_loyalty", "? win", "? be nice"}
    assert guess.named("discard") == {"express_loyalty"}


@pytest.mark.parametrize(
    "text",
    [
        '{"intentions": ["express_loyalty", "Defend yourself against allegations that you could be evil"]}',
        'I think so.\n```json\n{"intentions": ["defend_self", "express_loyalty"]}\n```',
        '{"thought": {"intentions": ["stay_hidden"]}}\n{"intentions": ["defend_self", "express_loyalty"]}',
        '{not json} {"intentions": ["defend_self", "express_loyalty", 7]}',
        "1. Express you are a loyal player\n2) Defend yourself against allegations that you could be evil",
        "It means:\n- express_loyalty\n* defend_self\nThat is all.",
    ],
)
def test_a_models_reply_is_read_in_the_forms_they_come_in(text: str) -> None:
    assert read_reply("i", text).intentions == {"express_loyalty", "defend_self"}


def test_a_reply_that_lists_other_words_is_unmapped_and_prose_is_silence() -> None:
    assert read_reply("i", "- to win\n- to lose").unmapped == ("to win", "to lose")
    silent = read_reply("i", "I cannot tell what they want.")
    assert (silent.intentions, silent.unmapped) == (frozenset(), ())
    assert read_reply("i", '{"intentions": []}') == Guess("i", frozenset())
    assert read_reply("i", "{" * 5000).intentions == frozenset()


def sample(*ids: str, **how: object) -> Guess:
    return Guess("i", frozenset(ids), **how)  # type: ignore[arg-type]


def test_of_several_answers_in_a_reply_the_last_counts() -> None:
    first, second = '{"intentions": ["defend_self"]}', '{"intentions": ["express_loyalty"]}'
    for said in (f"{first} No, rather: {second}", f"{first}\n{second}\nI looked at {{}} and {{3}}."):
        assert read_reply("i", said).intentions == {"express_loyalty"}


def test_a_majority_keeps_what_more_than_half_of_the_samples_name() -> None:
    joined = majority([sample("a", "b"), sample("a", "c"), sample("a", "b"), sample("b"), sample("d")])
    assert joined.intentions == {"a", "b"}
    # Exactly half is none.
    assert majority([sample("a", "b"), sample("b")]).intentions == {"b"}
    assert majority([sample("a"), sample("b")]).intentions == frozenset()
    assert majority([sample("a")]).intentions == {"a"}


def test_unmapped_text_needs_a_majority_too() -> None:
    joined = majority([sample(unmapped=("Win!", "x")), sample(unmapped=("win",)), sample(unmapped=("y",))])
    assert joined.unmapped == ("Win!",)
    assert majority([sample(unmapped=("win",)), sample()]).unmapped == ()  # exactly half is none


def test_the_role_is_the_one_named_most_then_the_surer_one() -> None:
    morgana, assassin = Role.MORGANA, Role.ASSASSIN
    most = majority(
        [sample(role=morgana, confidence=1), sample(role=assassin, confidence=5), sample(role=morgana)]
    )
    assert (most.role, most.confidence) == (morgana, 1.0)
    surer = majority([sample(role=morgana, confidence=1), sample(role=assassin, confidence=4)])
    assert (surer.role, surer.confidence) == (assassin, 4.0)
    first = majority([sample(role=morgana, confidence=3), sample(role=assassin, confidence=3)])
    assert first.role is morgana
    assert majority([sample()]).role is None


def test_samples_of_several_items_or_raters_have_no_majority() -> None:
    for samples in ([], [sample(), Guess("j", frozenset())], [sample(rater="a"), sample(rater="b")]):
        with pytest.raises(ValueError, match="one item by one rater"):
            majority(samples)


def test_a_joined_role_has_the_mean_of_the_confidences_that_were_stated_with_it() -> None:
    stated = ((Role.MERLIN, 5.0), (Role.MERLIN, 2.0), (Role.MERLIN, None), (Role.PERCIVAL, 1.0))
    joined = majority([Guess("i", frozenset(), role=role, confidence=sure) for role, sure in stated])
    assert (joined.role, joined.confidence) == (Role.MERLIN, 3.5)
