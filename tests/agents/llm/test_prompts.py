"""The words of the prompts: every element that the paper names is in them, whoever wrote the template."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from agents.agent import Setup
from agents.errors import InvalidAgent
from agents.llm.agent import LlmAgent
from agents.llm.session import MemorySession
from agents.llm.templates import TEMPLATES, Templates
from agents.model.model import Form, Message
from agents.table import MemoryJournal, step
from engine.events import ProposalOpened, TeamConfirmed, TeamProposed
from engine.profile import Profile, make_profile
from engine.rules import create
from engine.state import fold
from engine.terms import Role
from tests.agents.llm.models import FunctionModel, Sent, WatchedSession, noise, played, prose

FIVE = make_profile("interintent", 5)
DEAL = (Role.PERCIVAL, Role.MERLIN, Role.SERVANT, Role.ASSASSIN, Role.MORGANA)

# What the paper's section 2 demands of each step, by the words that our templates' comments use.
DEMANDED: Mapping[str, set[str]] = {
    "system": {
        "the rules",
        "objective of each side",
        "what each role is for",
        "how a round goes",
        "plays like a person",
        "nothing from other games",
        "given names aloud",
        "the table",
        "own role",
        "own knowledge",
        "the catalogue",
        "how to answer",
    },
    "brief": {
        "goal first",
        "two things that give the role away",
        "knows evil",
        "guides quietly, Percival above all",
        "avoids accusing too much",
        "avoids being too helpful",
        "wins unrecognised",
        "finds out which of the two is Merlin",
        "uses hints",
        "shields Merlin",
        "gives neither away",
        "knows nothing",
        "reads speeches, votes and quests",
        "helps quests succeed",
        "draws suspicion of being Merlin off Merlin",
        "poses as Merlin before Percival",
        "misleads loyal",
        "seeks Merlin throughout",
        "a short list with evidence",
        "three successes lose",
        "with two successes an evil seat must fail it",
        "who is not on it prepares the shot",
        "how two evil seats avoid two fails",
        "when passing a quest is worth it",
    },
    "secret": {"what must not be betrayed"},
    "first_order": {
        "about one other seat",
        "most likely role",
        "intentions",
        "reasoning",
        "confidence 0-5",
        "the snippets of speech it rests on",
        "to weigh, quest outcomes",
        "to weigh, the list of roles",
        "to weigh, claimed roles",
        "claims of evil roles taken with care",
        "earlier estimates as hints only",
        "to weigh, its own earlier estimates",
        "role options",
        "intention options",
    },
    "selection": {
        "the situation and the aim first",
        "two or three intentions",
        "out of its menu",
        "that do not conflict",
        "reasons that hold together",
        "with reasons",
    },
    "selection_generated": {"categories first", "at least one a category chosen", "10-15 words each"},
    "formulation": {
        "think",
        "the role's main goal in steps",
        "private sub-goals",
        "possible deceptions",
        "answers questions put to the seat",
        "says nothing that was said already",
        "sounds like this seat",
        "speak",
        "acting on the intentions",
        "real hints",
        "named players",
        "named concerns",
    },
    "second_order": {
        "how each other role would read that speech",
        "which hint or clue might betray",
        "whether it gives the role away",
    },
    "modification": {
        "the draft and the readings in view",
        "good for winning, in conflict, hard to carry out",
        "keep",
        "add",
        "drop",
        "a reason either way",
        "with reasons",
    },
    "refinement": {
        "draft in view",
        "final think",
        "does it fit the role, does it win",
        "what only this role could know",
        "what must not be betrayed",
        "thoughts are private, speech is used against the seat",
        "acts on the intentions concretely",
        "a hint is dosed to the role",
        "final speak",
        "an opening leader adds the team",
        "about 100 words",
    },
    "one_pass": {
        "selection",
        "think",
        "second-order",
        "modification",
        "refinement",
        "confidence 0-5",
        "a different team",
    },
    "first_pass": {
        "the situation and the aim first",
        "selection",
        "think",
        "confidence 0-5",
        "answers questions put to the seat",
    },
    "second_pass": {"the draft in view", "second-order", "modification", "refinement"},
    "draft_parts": {"selection"},
    "revision_parts": {"second-order", "modification", "refinement"},
    "direct": {"speak", "a different team"},
    "opening_team": {"an opening leader adds the team", "a different team"},
    "proposal": {"goal", "earlier results", "what is needed", "a team", "a different team"},
    "reconsideration": {
        "goal",
        "earlier results",
        "what is needed",
        "keeps or changes the team",
        "says why",
        "answers questions",
    },
    "vote": {"goal", "earlier results", "what is needed", "agree or disagree", "a private explanation"},
    "card": {"goal", "earlier results", "need", "success or failure"},
    "assassination": {"goal", "earlier results", "a seat", "why"},
    "summary": {
        "leader",
        "team",
        "why that team",
        "who disagreed and why",
        "result",
        "suspected evil",
        "how to protect the exposed one",
        "who claimed which role",
        "who may be Merlin and why",
        "promises and questions left open",
        "what the side must do next",
    },
    "joined": {"the second too", "where it stands"},
    "repair": {"what was wrong", "what is expected"},
}


def elements(name: str) -> list[tuple[str, str, str]]:
    """(condition or nothing, element, words that hold it), as the template's comment lists them."""
    source = files("agents.llm").joinpath("prompts", f"{name}.jinja").read_text("utf-8")
    comment = re.match(r"\{#\n(.*?)#\}", source, flags=re.S)
    assert comment, f"{name} begins with a comment"
    found = []
    condition = ""
    for line in comment[1].splitlines():
        if line.startswith("Elements"):
            condition = line.removeprefix("Elements").rstrip(":").strip()
        elif line.startswith("  ") and " :: " in line:
            element, _, words = line.strip().partition(" :: ")
            found.append((condition, element, words))
    return found


def test_every_template_has_its_file_and_every_file_its_template() -> None:
    there = {path.name.removesuffix(".jinja") for path in files("agents.llm").joinpath("prompts").iterdir()}
    assert there == set(TEMPLATES) == set(DEMANDED)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_templates_comment_names_the_elements_that_the_paper_demands(name: str) -> None:
    assert DEMANDED[name] <= {element for _, element, _ in elements(name)}


async def all_prompts() -> list[tuple[str, str, set[str]]]:
    """(template, the words it gave, what holds there) of games that reach every step."""
    quick = {"vote": "agree", "card": "success"}

    def winning(messages, form):  # type: ignore[no-untyped-def]
        values = noise()(messages, form)
        return {**values, **{k: v for k, v in quick.items() if k in values}}  # type: ignore[dict-item]

    found = []
    games: list[tuple[Profile, dict[str, object]]] = [
        (FIVE, {}),
        (FIVE, {"selection": "generated"}),
        (FIVE, {"mechanism": "one_pass"}),
        (FIVE, {"mechanism": "two_pass"}),
        (FIVE, {"steps": ["first_order", "selection", "formulation"]}),
        (FIVE, {"mechanism": "contemplation"}),
        (FIVE, {"mechanism": "direct"}),
        (make_profile("official", 5), {"mechanism": "direct"}),
    ]
    for profile, options in games:
        _, sessions = await played(profile, 3, winning, options, deal=DEAL)
        for seat, session in sessions.items():
            for one in session.sent:
                name, text, holds = prompt(one, seat, options)
                system = one.messages[0].content
                found += [(name, text, holds), ("system", system, set()), ("brief", system, holds)]
                if name in ("refinement", "direct", "one_pass", "second_pass", "proposal", "reconsideration"):
                    found.append(("secret", text, holds))
                if name in ("one_pass", "first_pass"):
                    found.append(("draft_parts", text, holds))
                if (
                    name in ("refinement", "direct", "one_pass", "second_pass")
                    and "of an opening leader" in holds
                ):
                    found.append(("opening_team", text, holds))
                if name in ("one_pass", "second_pass"):
                    found.append(("revision_parts", text, holds))
    _, sessions = await played(FIVE, 3, prose, deal=DEAL)
    for session in sessions.values():
        found += [("repair", one.messages[-1].content, set()) for one in session.sent if one.key.attempt == 2]
    # Where every team is rejected: the next leader opens, or proposes after the talk. With so few tokens
    # no opening is asked for in the answer of a summary.
    games = [
        (FIVE, {"mechanism": "one_pass", "max_output_tokens": 1500}),
        (FIVE, {"mechanism": "direct"}),
        (make_profile("official", 5), {"mechanism": "direct"}),
    ]
    for profile, options in games:
        _, sessions = await played(profile, 3, rejecting, options, deal=DEAL)
        for seat, session in sessions.items():
            for one in session.sent:
                name, text, holds = prompt(one, seat, options)
                found.append((name, text, holds))
                if name in ("direct", "one_pass") and "of an opening leader" in holds:
                    found.append(("opening_team", text, holds))
    return found


def rejecting(messages: Sequence[Message], form: Form) -> object:
    """Chatter of a seat that disagrees with every team."""
    values = noise()(messages, form)
    assert isinstance(values, dict)
    for part in (values, values.get("then", {})):
        part |= {"vote": "disagree"} if "vote" in part else {}
    return values


@pytest.mark.parametrize(
    ("rule", "told", "votes_count"),
    [
        ("last_team_goes", "the last: its team goes whatever the vote says", False),
        ("forced_team", "the last: its team goes without a vote", False),
        ("evil_wins", "the last: if its team is rejected, evil wins", True),
        ("quest_fails", "the last: if its team is rejected, the quest fails", True),
    ],
)
async def test_what_hangs_on_the_last_proposal_of_a_round_is_told_before_its_vote(
    rule: str, told: str, votes_count: bool
) -> None:
    profile = make_profile("interintent", 5, rules={"on_max_rejections": rule})
    _, sessions = await played(profile, 3, rejecting, {"mechanism": "direct"})
    seen = set()
    for session in sessions.values():
        for one in session.sent:
            _, attempt, kind, _ = one.key.request_id.split(".")
            words = one.messages[-1].content
            is_last = attempt == "2" and kind in ("propose_team", "speak", "reconsider", "vote")
            assert (told in words) is is_last, (one.key, words[-900:])
            if kind == "reconsider":
                assert ("how the others will vote" in words) is (votes_count or attempt == "1")
            seen.add((attempt, kind))
    assert {("1", "reconsider"), ("2", "propose_team"), ("2", "reconsider")} <= seen


async def test_a_shooter_is_not_asked_whether_a_partner_may_be_merlin() -> None:
    def winning(messages: Sequence[Message], form: Form) -> object:
        values = noise()(messages, form)
        assert isinstance(values, dict)
        wins = {"vote": "agree", "card": "success"}
        return {name: wins.get(name, value) for name, value in values.items()}

    _, sessions = await played(FIVE, 3, winning, {"mechanism": "direct"}, deal=DEAL)
    [shot] = [one for one in sessions[4].sent if one.key.step == "assassination"]
    assert shot.form.schema["properties"]["target"]["enum"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("missed", "told"),
    [
        ("loyal_wins", "after a miss loyal wins at once"),
        ("play_on", "after a miss the game goes on without it"),
    ],
)
async def test_a_shooter_that_may_hold_fire_is_told_what_that_costs(missed: str, told: str) -> None:
    def holding(messages: Sequence[Message], form: Form) -> object:
        values = noise()(messages, form)
        assert isinstance(values, dict)
        plays = {"vote": "agree", "card": "success", "target": None}
        return {name: plays.get(name, value) for name, value in values.items()}

    rules = {"assassination": "after_any_quest", "missed_shot": missed}
    profile = make_profile("interintent", 5, rules=rules)
    _, sessions = await played(profile, 3, holding, {"mechanism": "direct"}, deal=DEAL)
    *early, last = [one for one in sessions[4].sent if one.key.step == "assassination"]
    assert len(early) == 2
    assert all(told in one.question and "keep it for later" in one.question for one in early)
    assert "This is the last chance: whoever misses or holds fire with null now loses." in last.question
    assert told not in last.question, "a miss after the third success ends the game"
    system = last.messages[0].content
    assert "loyal wins, unless the shot hits merlin then" in system
    assert "unless the shot is left and hits Merlin then" in system


@pytest.mark.parametrize("discussion", ["after_proposal", "before_proposal", "none"])
@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": "paper"},
        {"mechanism": "paper", "timing": "eager"},
        {"mechanism": "paper", "selection": "generated"},
        {"mechanism": "one_pass"},
        {"mechanism": "one_pass", "instructions": "each"},
        {"mechanism": "one_pass", "max_output_tokens": 1500},
        {"mechanism": "two_pass"},
        {"steps": ["selection", "formulation"]},
        {"mechanism": "contemplation"},
        {"mechanism": "direct"},
    ],
)
async def test_whoever_leads_after_a_rejection_is_asked_for_a_different_team(
    options: dict[str, object], discussion: str
) -> None:
    # The second team of a round goes on the quest whatever the vote says, so there is one rejection a round.
    profile = make_profile("interintent", 5, rules={"discussion": discussion})
    state, sessions = await played(profile, 3, rejecting, options)
    asked, team = 0, ""
    for event in state.log:
        if isinstance(event, TeamProposed | TeamConfirmed):
            team = " ".join(map(str, event.team))
        if not isinstance(event, ProposalOpened) or event.attempt == 1:
            continue
        asked += 1
        where = {f"{event.round}.2.{kind}.{event.leader}" for kind in ("propose_team", "speak")}
        # In compact the opening may be asked for in the answer of the summary before it.
        texts = [
            one.text
            for one in sessions[event.leader].sent
            if one.key.request_id in where
            or ("+" in one.key.step and one.key.request_id == f"{event.round}.1.summarise.{event.leader}")
        ]
        theirs = f"The team of the last attempt, {team}, was rejected: propose a different one."
        assert any(theirs in text for text in texts), texts
    assert asked == state.table.round
    for session in sessions.values():
        for one in session.sent:
            fresh = one.key.request_id.split(".")[1] == "1" and "+" not in one.key.step
            assert not (fresh and "propose a different one" in one.text)


def prompt(one: Sent, seat: int, options: Mapping[str, object]) -> tuple[str, str, set[str]]:
    role = DEAL[seat - 1]
    evil = role in (Role.ASSASSIN, Role.MORGANA)
    holds = {"an evil seat" if evil else "a loyal seat"}
    holds.add("of an evil seat" if evil else "of a loyal seat")
    holds.add(f"of {role.value}")
    holds.add("of Merlin" if role is Role.MERLIN else "unless Merlin")
    if evil:
        holds |= {"of an evil role", "of evil seats that know each other"}
    if role is Role.ASSASSIN:
        holds.add("of the shooter")
    if any(
        int(other) != seat for other in re.findall(r'^seat (\d+) says (?:on the team )?"', one.text, re.M)
    ):
        holds.add("after others have spoken")
    if options.get("mechanism", "paper") in ("paper", "one_pass", "two_pass"):
        holds.add("with intentions")
    _, attempt, kind, _ = one.key.request_id.split(".")
    if kind == "propose_team":
        holds.add("of an opening leader")
        if int(attempt) > 1:
            holds |= {"of an opening leader after a rejection", "after a rejection"}
    if "snippets" in one.form.schema["properties"]:
        holds.add("about a seat whose speech is in sight")
    if "beliefs" in one.form.schema["properties"]:
        holds.add("with seats to analyse")
    name, joined, _ = one.key.step.partition("+")
    if joined:
        return "joined", one.question, holds
    text = one.question
    if options.get("mechanism") == "one_pass":
        # What its steps ask is told once, in the system message.
        text = f"{one.messages[0].content}\n{text}"
    if name == "selection" and options.get("selection") == "generated":
        name = "selection_generated"
    return name, text, holds


@pytest.fixture(scope="module")
def prompts(anyio_backend: str) -> list[tuple[str, str, set[str]]]:
    import asyncio

    return asyncio.run(all_prompts())


@pytest.mark.parametrize("name", TEMPLATES)
def test_each_element_is_in_the_prompt_as_it_is_sent(
    name: str, prompts: list[tuple[str, str, set[str]]]
) -> None:
    sent = [(text, holds) for template, text, holds in prompts if template == name]
    assert sent, f"no game asked for {name}"
    for condition, element, words in elements(name):
        if name == "system" and element == "the catalogue":
            # Only where intentions are asked for at all.
            assert any(words in text for text, _ in sent)
            continue
        # Before the discussion nobody opens with a team.
        where = [text for text, holds in sent if not condition or condition in holds]
        assert where, f"{name}: no prompt {condition}"
        for text in where:
            assert words in text, f"{name}: {element} is missing"


async def test_a_folder_of_templates_replaces_ours_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "vote.jinja").write_text("Daumen hoch oder runter, Platz {{ seat }}?", "utf-8")
    session = WatchedSession(FunctionModel(noise()))
    state = fold(create(make_profile("official", 5, rules={"discussion": "none", "first_leader": 1}), 3))
    agents = {
        seat: LlmAgent(
            Setup(seat, "1", {"prompts": "german"}),
            session if seat == 2 else MemorySession(FunctionModel(noise())),
            {"german": words},
        )
        for seat, words in ((seat, Templates(tmp_path)) for seat in range(1, 6))
    }
    for _ in range(2):
        await step(state, agents, MemoryJournal())
    (vote,) = session.sent
    assert "Daumen hoch oder runter, Platz 2?" in vote.question
    assert "agree or disagree" not in vote.question
    assert "=== THE RULES ===" in vote.messages[0].content


def test_a_value_that_nobody_gives_is_an_error_and_no_gap(tmp_path: Path) -> None:
    (tmp_path / "vote.jinja").write_text("{{ nobody_gives_this }}", "utf-8")
    with pytest.raises(UndefinedError):
        Templates(tmp_path).render("vote")


async def test_the_last_line_of_a_question_is_its_form_or_what_it_is_about() -> None:
    _, sessions = await played(FIVE, 3, noise())
    for session in sessions.values():
        for one in session.sent:
            lines = one.question.splitlines()
            assert lines[0] == f"=== QUESTION {one.key.request_id} {one.key.step} ==="
            if one.key.about:
                assert lines.pop() == f"This question is about: {one.key.about}"
            assert lines[-1].startswith("Answer with this JSON: {")


@pytest.mark.parametrize("players", [5, 7, 10])
async def test_the_rules_are_told_as_this_very_profile_has_them(players: int) -> None:
    profile = make_profile(
        "official", players, rules={"max_rejections": 3, "on_max_rejections": "quest_fails"}
    )
    _, sessions = await played(profile, 3, noise(), {"mechanism": "direct"})
    rules = sessions[1].sent[0].messages[0].content
    assert f"There are {players} seats, numbered 1 to {players};" in rules
    assert "at most 3 proposals: if the last one is rejected, the quest fails and nobody goes." in rules
    two_fails = "; 1, 1, 1, 2, 1 fail cards fail them."
    assert (two_fails if 2 in profile.fails_needed else "; one fail card fails a quest.") in rules
    assert "then the leader proposes a team" in rules
    assert "sums it up" not in rules


@pytest.mark.parametrize("players", range(5, 11))
async def test_where_nobody_speaks_no_prompt_tells_of_speeches(players: int) -> None:
    profile = make_profile("official", players, rules={"discussion": "none", "reconsideration": True})
    _, sessions = await played(profile, 3, rejecting, {"mechanism": "direct"})
    for session in sessions.values():
        for text in {words for one in session.sent for words in (one.messages[0].content, one.question)}:
            told = re.search(
                r"\b(speech|speeches|hint|hints|aloud|loud|was said|says|talking|defend)\b", text
            )
            assert told is None, text[max(told.start() - 80, 0) : told.end() + 40]


async def test_a_speech_must_not_betray_what_the_seat_was_shown_whatever_it_may_choose_to_say() -> None:
    for options in ({"mechanism": "paper"}, {"mechanism": "one_pass"}, {"mechanism": "direct"}):
        _, sessions = await played(FIVE, 3, noise(), options, deal=DEAL)
        sentences = [
            (DEAL[seat - 1], sentence)
            for seat, session in sessions.items()
            for one in session.sent
            for sentence in re.split(r"(?<=[.?!:])\s+", one.question)
            if "must not show" in sentence
        ]
        assert {role for role, _ in sentences} == set(DEAL)
        # What must not show is always the speech: no other sentence stands before it in every question.
        assert all(sentence.startswith("Your speech must not show") for _, sentence in sentences)
        # Percival may choose to say who it is (reveal_percival), and still must not name the two.
        told = {sentence for role, sentence in sentences if role is Role.PERCIVAL}
        (sentence,) = told
        assert "whom you were shown, seats 2 and 5, nor which" in sentence
        assert sentence.endswith("even if you say that you are Percival.")


@pytest.mark.parametrize("options", [{}, {"timing": "eager"}, {"selection": "generated"}])
async def test_an_opening_leader_chooses_its_intentions_knowing_that_it_proposes_the_team(
    options: dict[str, object],
) -> None:
    _, sessions = await played(FIVE, 3, noise(), options)
    openers = 0
    for session in sessions.values():
        for one in session.sent:
            if one.key.step == "selection":
                opens = ".propose_team." in one.key.request_id
                openers += opens
                told = "You lead and open the discussion with the team of" in one.question
                assert told is opens, one.question
    assert openers >= 3


@pytest.mark.parametrize(("players", "doubled"), [(5, set()), (7, {Role.SERVANT})])
async def test_a_seat_whose_role_was_dealt_twice_learns_that_another_one_reads_it(
    players: int, doubled: set[Role]
) -> None:
    profile = make_profile("interintent", players)
    assert {role for role in profile.roles if profile.roles.count(role) > 1} == doubled
    state, sessions = await played(profile, 3, noise(), {"mechanism": "one_pass"})
    for seat, session in sessions.items():
        role = state.hands[seat - 1].role
        for one in session.sent:
            if one.key.step == "one_pass":
                assert ("The others' roles: " in one.question) is (role in doubled)
                readers = one.form.schema["properties"]["reading"]["properties"]["readings"]["properties"]
                assert (role in readers) is (role in doubled)


async def test_a_question_about_a_seat_with_one_possible_role_states_it() -> None:
    _, sessions = await played(FIVE, 3, noise(), deal=DEAL)
    about_partner = [one for one in sessions[4].sent if one.key.about == "seat 5"]
    assert about_partner
    for one in about_partner:
        assert "The seat to think about now: seat 5. As far as you know, it is: morgana." in one.question
    # To everybody else the role is open.
    others = [one for one in sessions[3].sent if one.key.about == "seat 5"]
    assert others
    assert all("As far as you know, it may be: merlin, " in one.question for one in others)


@pytest.mark.parametrize(("memory", "told"), [("summaries", True), ("speeches", False)])
async def test_a_seat_is_told_that_its_summaries_stand_for_earlier_speeches(memory: str, told: bool) -> None:
    _, sessions = await played(FIVE, 3, noise(), {"mechanism": "direct", "memory": memory})
    system = sessions[1].sent[0].messages[0].content
    assert ("it keeps your own summaries instead of the speeches" in system) is told


async def test_in_one_pass_every_step_of_the_system_message_has_its_form() -> None:
    _, sessions = await played(FIVE, 3, noise(), {"mechanism": "one_pass"})
    steps = sessions[1].sent[0].messages[0].content.partition("=== THE STEPS ===")[2].partition("=== YOUR")[0]
    assert "… stands for what the form of the step has there" in steps
    parts = re.split(r"^step (\w+): ", steps, flags=re.M)
    assert parts[1::2] == ["vote", "one_pass", "summary"]
    assert all(re.search(r"^form: \{", part, re.M) for part in parts[2::2])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ('{{ cycler["__init__"]["__globals__"].os.getcwd() }}', "'__init__'"),
        ('{{ (seat | attr("__class__")).mro() }}', "'__class__'"),
        ('{{ "{0.__class__}".format(seat) }}', "'__class__'"),
        ("{{ seats.append(6) }}", "unsafe"),
        ('{% include "ANOTHER" %}', "there is no template '"),
        ('{% include "../another.jinja" %}', "there is no template '"),
        ('{{ "x" * 10_000_000_000 }}', "whole numbers alone"),
        ("{{ 9 ** 9 ** 9 }}", "may not use \\*\\*"),
        (
            "{% for a in range(99_999) %}{% for b in range(99_999) %}x{% endfor %}{% endfor %}",
            "more than 1,000,000 characters",
        ),
    ],
)
def test_a_template_reaches_nothing_but_its_values(tmp_path: Path, words: str, why: str) -> None:
    another, folder = tmp_path / "another.jinja", tmp_path / "words"
    another.write_text("somebody's own", "utf-8")
    folder.mkdir()
    (folder / "vote.jinja").write_text(words.replace("ANOTHER", str(another)), "utf-8")
    with pytest.raises(InvalidAgent, match=f"the template vote.jinja: .*{why}"):
        Templates(folder).render("vote", seat=1, seats=[1, 2])
