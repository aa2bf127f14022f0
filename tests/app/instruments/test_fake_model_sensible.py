"""The brain that plays: it understands our prompts, answers every step in the right form, and plays well."""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agents.agent import Setup
from agents.llm.agent import LlmAgent
from agents.llm.options import SeatOptions
from agents.llm.session import MemorySession
from agents.llm.talk import ModelTurn
from agents.llm.templates import our_templates
from agents.model.client import OpenAIModel
from agents.model.model import Endpoint, Form, Message, Reply, Usage
from agents.model.request import reduced
from agents.scripted.agent import RandomAgent, ScriptedAgent
from agents.scripted.phrases import WORDING
from agents.table import MemoryJournal, play, step
from app.instruments.fake_model import FakeModel, FakeOptions, read_fault
from app.instruments.fake_model.brains import BRAINS
from app.instruments.fake_model.filling import fitted, spans
from app.instruments.fake_model.prompt import NotOurs, read_prompt, seen
from app.instruments.fake_model.sensible import answer, seed_of
from engine.actions import SeatAction, Summarise
from engine.chance import secret
from engine.events import (
    ActionDefaulted,
    ActionRefused,
    BeliefsFormed,
    Event,
    IntentionsSelected,
    ReadingsImagined,
    ReplyUnusable,
    SpeechDrafted,
    UtteranceMade,
)
from engine.profile import Profile, make_profile
from engine.rules import create, pending
from engine.state import State, fold
from engine.terms import Kind, Side, side_of
from engine.view import Observation, observe

MISHAPS = (ActionDefaulted, ActionRefused, ReplyUnusable)
INTERINTENT = make_profile("interintent", 5)

Asked = tuple[list[dict[str, Any]], dict[str, Any]]
"""Messages, and the schema asked for."""


def valid(value: object, schema: Mapping[str, Any]) -> bool:
    return Draft202012Validator(schema).is_valid(value)


class SensibleModel:
    """Asks the brain itself. A prompt that it cannot read is an error here, not noise."""

    def __init__(self, seed: int = 7, *, bounds: bool = True) -> None:
        self.seed = seed
        self.bounds = bounds
        self.asked: list[Asked] = []

    async def complete(
        self, messages: Sequence[Message], form: Form, *, temperature: float, max_tokens: int
    ) -> Reply:
        sent = [{"role": one.role, "content": one.content} for one in messages]
        schema = dict(form.schema) if self.bounds else reduced(form.schema)
        self.asked.append((sent, schema))
        text = answer(sent, schema, self.seed)
        assert valid(json.loads(text), form.schema)
        return Reply(text, json.loads(text), Usage(0, 0, 0, False), 0.0, 0.0, "sensible", "stop", 1)


async def played(
    profile: Profile, seed: int, options: Mapping[str, Any], model: Any, side: Side | None = None
) -> State:
    """A whole game; ``side`` names the one that the model plays, against random seats; None: both."""
    log = create(profile, seed)
    roles = fold(log).roles
    assert roles is not None
    agents: dict[int, Any] = {}
    for seat, role in enumerate(roles, 1):
        setup = Setup(seat, secret(seed, seat), options)
        ours = side is None or side_of(role) is side
        agents[seat] = LlmAgent(setup, MemorySession(model)) if ours else RandomAgent(setup)
    return await play(log, agents, MemoryJournal())


# --- reading the prompt back ---------------------------------------------------------------------------


class ForgetfulAgent(ScriptedAgent):
    """Sums up now and then only, so that some closed attempts keep their speeches."""

    def act(self, observation: Observation) -> SeatAction:
        request = observation.request
        if request.kind is Kind.SUMMARISE and (request.round + request.attempt + request.seat) % 3 == 0:
            return Summarise(())
        return super().act(observation)


def public_facts(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, UtteranceMade)]


def said_in_this_round(events: Sequence[Event], round_: int) -> list[Event]:
    return [event for event in events if isinstance(event, UtteranceMade) and event.round == round_]


class Reread:
    """Plays as another agent does; before that, reads the seat's own prompt and compares."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.compared = 0

    def act(self, observation: Observation) -> SeatAction:
        turn = ModelTurn(observation, SeatOptions(), MemorySession(SensibleModel()), our_templates())
        # The record's own headers are no part of it.
        record = "\n".join(turn.record.splitlines()[1:])
        again = seen(turn.system, record, observation.request)
        table, hand = observation.table, observation.hand
        assert again.table == table
        for name in ("seat", "role", "side", "sees", "shoots", "vote", "success", "answered"):
            assert getattr(again.hand, name) == getattr(hand, name), name
        assert public_facts(again.public) == public_facts(observation.public)
        assert said_in_this_round(again.public, table.round) == said_in_this_round(
            observation.public, table.round
        )
        self.compared += 1
        return self.agent.act(observation)


SEVEN = ("merlin", "percival", "servant", "servant", "morgana", "mordred", "oberon")
SUMMED_UP = {"summaries": True, "reconsideration": True}
PROFILES: list[Profile] = [
    INTERINTENT,
    make_profile("official", 5),
    make_profile("interintent", 10),
    make_profile("official", 7, roles=SEVEN, rules=SUMMED_UP),
    make_profile("official", 5, rules={"on_max_rejections": "quest_fails", "max_rejections": 2, **SUMMED_UP}),
    make_profile("official", 6, rules={"on_max_rejections": "forced_team", "max_rejections": 2}),
    make_profile("interintent", 5, rules={"assassination": "after_any_quest", "missed_shot": "play_on"}),
    make_profile("interintent", 5, rules={"discussion": "none", "leader_step": -1}),
]


@pytest.mark.parametrize("profile", PROFILES, ids=range(len(PROFILES)))
@pytest.mark.parametrize("kind", [ScriptedAgent, ForgetfulAgent, RandomAgent])
async def test_a_prompt_tells_the_table_and_the_hand(profile: Profile, kind: Any) -> None:
    for seed in range(4):
        log = create(profile, seed)
        agents = {s: Reread(kind(Setup(s, secret(seed, s)))) for s in range(1, profile.players + 1)}
        state = await play(log, agents, MemoryJournal())
        assert state.table.over
        assert sum(agent.compared for agent in agents.values()) > profile.players


async def test_a_seat_that_waits_for_others_votes_reads_as_one_that_was_not_asked_yet() -> None:
    agents = {seat: Reread(ScriptedAgent(Setup(seat, secret(3, seat)))) for seat in range(1, 6)}
    state = fold(create(INTERINTENT, 3))
    while await step(state, agents, MemoryJournal(), alone=True):
        pass
    assert state.table.over


def test_a_record_of_no_game_is_not_ours() -> None:
    observation = first_observation()
    system, request = system_of(observation), observation.request
    opened = "round 1 attempt 1: seat 1 leads"
    assert seen(system, opened, request).table == observation.table
    for record in (
        "",
        "round 1 attempt 1: seat 9 leads",
        "round 2 attempt 1: seat 1 leads",
        f"{opened}\nseat 1 winks",
        f'{opened}\nseat 1 proposes team 1 2\nseat 1 says "unfinished',
        f"{opened}\nvotes: yes 1 2; no 3 4; approved",
        f"{opened}\nseat 1 proposes team 1 2",
    ):
        with pytest.raises(NotOurs):
            seen(system, record, request)


def first_observation() -> Observation:
    state = fold(create(INTERINTENT, 1))
    return observe(state, pending(state)[0])


def system_of(observation: Observation) -> str:
    return ModelTurn(observation, SeatOptions(), MemorySession(SensibleModel()), our_templates()).system


# --- whole games ---------------------------------------------------------------------------------------

PRESETS: list[dict[str, Any]] = [
    {"mechanism": "paper"},
    {"mechanism": "paper", "timing": "eager"},
    {"mechanism": "paper", "selection": "generated"},
    {"mechanism": "paper", "menu": "impactful"},
    {"mechanism": "compact"},
    {"mechanism": "compact", "selection": "generated", "min_intentions": 3},
    {"mechanism": "contemplation"},
    {"mechanism": "direct"},
]


@pytest.mark.parametrize("options", PRESETS, ids=lambda one: "-".join(map(str, one.values())))
@pytest.mark.parametrize("profile", PROFILES[:2], ids=lambda one: one.name)
async def test_every_seat_plays_to_the_end_without_a_mishap(
    profile: Profile, options: Mapping[str, Any]
) -> None:
    state = await played(profile, 2, options, SensibleModel())
    assert state.table.winner is not None
    assert not [event for event in state.log if isinstance(event, MISHAPS)]


@pytest.mark.parametrize("mechanism", ["paper", "compact"])
async def test_ten_seats_play_to_the_end_without_a_mishap(mechanism: str) -> None:
    state = await played(make_profile("interintent", 10), 2, {"mechanism": mechanism}, SensibleModel())
    assert state.table.winner is not None
    assert not [event for event in state.log if isinstance(event, MISHAPS)]


@pytest.mark.parametrize("mechanism", ["paper", "compact"])
async def test_every_turn_leaves_every_record(mechanism: str) -> None:
    state = await played(INTERINTENT, 2, {"mechanism": mechanism}, SensibleModel())
    kinds = Counter(type(event) for event in state.log)
    turns = sum(isinstance(e, UtteranceMade) and e.phase == "discuss" for e in state.log)
    assert kinds[IntentionsSelected] == kinds[SpeechDrafted] == 2 * turns
    assert kinds[ReadingsImagined] == turns
    assert kinds[BeliefsFormed] == turns - 1, "the first speaker of a game has heard nobody"


async def test_a_turn_of_six_questions_is_the_turn_of_one() -> None:
    # The brain thinks a turn once, so what differs is how it is asked.
    paper = await played(INTERINTENT, 4, {"mechanism": "paper"}, SensibleModel())
    options = {"mechanism": "compact", "one_option": "asked"}
    compact = await played(INTERINTENT, 4, options, SensibleModel())
    assert paper.log == compact.log


async def test_with_the_whole_record_before_it_a_seat_leaves_the_scripted_log() -> None:
    # Nobody sums up in this profile, so nothing is left out of the record.
    profile = make_profile("official", 5)
    model = SensibleModel()
    state = await played(
        profile, 4, {"mechanism": "compact", "one_option": "asked", "menu": "published"}, model
    )
    prompts = [read_prompt(messages) for messages, _ in model.asked]
    seeds = {one.question.request.seat: seed_of(one, model.seed) for one in prompts}
    scripted = {seat: ScriptedAgent(Setup(seat, seed)) for seat, seed in seeds.items()}
    assert state.log == (await play(create(profile, 4), scripted, MemoryJournal())).log


async def test_intentions_written_in_words_are_known_again() -> None:
    chosen = await played(INTERINTENT, 4, {"mechanism": "paper"}, SensibleModel())
    written = await played(INTERINTENT, 4, {"mechanism": "paper", "selection": "generated"}, SensibleModel())
    assert chosen.log == written.log


async def test_a_speech_acts_on_an_impactful_menu() -> None:
    state = await played(INTERINTENT, 4, {"mechanism": "paper", "menu": "impactful"}, SensibleModel())
    finals = [e for e in state.log if isinstance(e, IntentionsSelected) and e.stage == "final"]
    drafts = [e for e in state.log if isinstance(e, SpeechDrafted) and e.stage == "refinement"]
    # The private plan names a goal for every intention that stands; its words up to the first seat.
    planned = [
        WORDING[choice.id].goal.split("{")[0] in draft.think
        for selected, draft in zip(finals, drafts, strict=True)
        for choice in selected.intentions
    ]
    assert sum(planned) > 0.9 * len(planned)


async def test_a_schema_without_bounds_is_answered_within_them() -> None:
    # SensibleModel holds the answer against the whole schema.
    options = {"mechanism": "paper", "min_intentions": 3}
    state = await played(INTERINTENT, 4, options, SensibleModel(bounds=False))
    assert not [event for event in state.log if isinstance(event, MISHAPS)]


async def test_answers_depend_on_the_messages_and_the_seed_alone() -> None:
    model = SensibleModel()
    await played(INTERINTENT, 5, {"mechanism": "compact"}, model)
    texts = [answer(*asked, 7) for asked in model.asked]
    random.Random(1).shuffle(model.asked)
    assert sorted(answer(*asked, 7) for asked in model.asked) == sorted(texts)
    assert sorted(answer(*asked, 8) for asked in model.asked) != sorted(texts)


# --- playing well ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["interintent", "official"])
async def test_loyal_and_evil_play_far_better_than_chance(name: str) -> None:
    profile = make_profile(name, 5)
    options = {"mechanism": "direct"}
    three: Counter[str] = Counter()
    for seed in range(20):
        log = create(profile, seed)
        agents = {seat: RandomAgent(Setup(seat, secret(seed, seat))) for seat in range(1, 6)}
        games = {
            "nobody": await play(log, agents, MemoryJournal()),
            "loyal": await played(profile, seed, options, SensibleModel(), Side.LOYAL),
            "evil": await played(profile, seed, options, SensibleModel(), Side.EVIL),
        }
        # Three quests, not the game: against loyal play a random shot still finds Merlin one time in four.
        three.update(who for who, state in games.items() if state.table.succeeded == 3)
    assert three["loyal"] >= 18
    assert 5 <= three["nobody"] <= 15
    assert three["evil"] <= 2


# --- what is not ours ------------------------------------------------------------------------------------


@pytest.mark.parametrize("messages", [
    [{"role": "user", "content": "Are you there?"}],
    [{"role": "user", "content": None}],
    [{"role": "system", "content": "=== RECORD ==="}, {"role": "user", "content": "=== END OF RECORD ==="}],
    [{"role": "user", "content": "x\n=== RECORD ===\n\n=== END OF RECORD ===\n\n"
      "=== QUESTION 1.1.vote.1 vote ===\nAnswer with this JSON: {}"}],
])  # fmt: skip
def test_other_prompts_are_answered_with_noise(messages: list[dict[str, Any]]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with pytest.raises(NotOurs):
        answer(messages, schema, 1)
    assert BRAINS["sensible"](1)(messages, schema) == BRAINS["noise"](1)(messages, schema)


async def test_a_mutilated_prompt_is_answered_in_form_all_the_same() -> None:
    model = SensibleModel()
    await played(INTERINTENT, 6, {"mechanism": "paper"}, model)
    await played(make_profile("official", 7), 6, {"mechanism": "compact"}, model)
    chance = random.Random(11)
    brain = BRAINS["sensible"](1)
    for _ in range(600):
        messages, schema = chance.choice(model.asked)
        messages = [dict(one) for one in messages]
        for _ in range(chance.randint(1, 3)):
            one = messages[chance.randrange(2)]
            one["content"] = mutilated(one["content"], chance)
        assert valid(json.loads(brain(messages, schema)), schema)


def mutilated(text: str, chance: random.Random) -> str:
    """The text with lines gone, doubled, moved or with other numbers."""
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            del lines[at : at + chance.randint(1, 20)]
        case 1:
            lines.insert(chance.randrange(len(lines)), lines[at])
        case 2:
            lines.append(lines.pop(at))
        case _:
            lines[at] = "".join(str(chance.randint(0, 9)) if c.isdigit() else c for c in lines[at])
    return "\n".join(lines)


# --- fitting ---------------------------------------------------------------------------------------------


def choices(*values: object) -> dict[str, Any]:
    return {"type": "array", "items": {"enum": list(values)}, "minItems": 2, "maxItems": 2}


def test_a_wish_is_kept_where_the_schema_allows_it() -> None:
    chance = random.Random(1)
    assert fitted(choices("a", "b", "c"), ["c", "a"], chance, {}) == ["c", "a"]
    assert fitted(choices("a", "b"), ["z", "b"], chance, {}) == ["b", "a"], "what is no choice is replaced"
    assert fitted(choices(1, 2, 3), [3, 3, 2, 1], chance, {}) == [3, 2], "each choice once, the first ones"
    assert fitted({"enum": [1, 0]}, True, chance, {}) in (0, 1), "true is no number"
    assert fitted({"type": "string", "maxLength": 3}, "abcdef", chance, {}) == "abc"


def test_lengths_are_read_out_of_the_form_in_short() -> None:
    sketch = (
        '{"why": <why>, "intentions": [{"intention": "a"|"b"}, … 2 to 3 of them], "team": [1|2, … 2 of them]}'
    )
    assert spans(sketch) == {"intentions": (2, 3), "team": (2, 2)}


# --- over HTTP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "faults"),
    [
        ("paper", ()),
        ("compact", ("schema_bounds_400", "system_400")),
        ("compact", ("response_format_400", "roles_400")),
    ],
)
async def test_a_whole_game_over_http(mechanism: str, faults: tuple[str, ...]) -> None:
    options = FakeOptions(brain=BRAINS["sensible"](7), faults=tuple(map(read_fault, faults)))
    async with FakeModel(options).serving() as server:
        model = OpenAIModel(Endpoint("here", f"{server.url}/v1", "fake"))
        try:
            state = await played(INTERINTENT, 2, {"mechanism": mechanism}, model)
        finally:
            await model.aclose()
    assert not [event for event in state.log if isinstance(event, MISHAPS)]
    assert state.log == (await played(INTERINTENT, 2, {"mechanism": mechanism}, SensibleModel())).log
