"""The Inspect task ``playing``: any model that Inspect supports plays games of Avalon.

    inspect eval interintent/playing -T games=5 -T seats=loyal -T out=games.ndjson --model openai/gpt-5

Each sample is one game, by its seed. The model under test holds the seats that ``seats`` names; scripted
seats hold the others. Needs the extra ``interintent-server[inspect]``; nothing else imports this module.
"""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final, get_args

import orjson
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from agents.agent import Agent, Setup
from agents.kinds import make_agent
from agents.llm.agent import LlmAgent
from agents.llm.options import Mechanism
from agents.llm.session import MemorySession
from agents.model.answer import find_value
from agents.model.model import PLAIN_SAMPLING, Form, Message, Reply, Sampling, Usage
from agents.table import MemoryJournal, play
from app.runner.simulate import lines_of
from engine.chance import secret
from engine.profile import make_profile
from engine.rules import create
from engine.seated import SeatedAgent
from engine.state import fold
from engine.terms import Role, Seat, Side, side_of
from evaluators.ground.provenance import catalogue_digest, package_version, provenance_of
from evaluators.ground.transcript import transcript
from evaluators.measures.defaults import DecisionCounter

__all__ = ["playing"]

WHOSE: Final = ("all", "loyal", "evil")


@task
def playing(
    games: int = 5,
    seats: str = "all",
    mechanism: str = "paper",
    profile: str = "interintent",
    players: int = 5,
    seed: int = 1,
    out: str = "",
) -> Task:
    """The model under test plays.

    ``games``: how many, with the seeds from ``seed`` on. ``seats``: all, loyal, evil, or a seat's number;
    scripted seats hold the others. ``mechanism``: the preset by which the model plays. ``profile``,
    ``players``: the rules. ``out``: a file to which every finished game is added as NDJSON, for interintent
    report.
    """
    if games < 1:
        raise ValueError(f"games must be 1 or more, got {games}")
    named = str(seats)
    if named not in WHOSE and not (named.isdigit() and 1 <= int(named) <= players):
        raise ValueError(f"seats must be {', '.join(WHOSE)}, or a seat from 1 to {players}, got {seats!r}")
    if mechanism not in get_args(Mechanism):
        raise ValueError(f"mechanism must be {', '.join(get_args(Mechanism))}, got {mechanism!r}")
    make_profile(profile, players)  # refuses rules that there are not
    samples = [
        Sample(
            id=f"seed {seed + number}",
            input=f"A game of Avalon by the profile {profile} with {players} players, seed {seed + number}. "
            f"The model holds {'seat ' if named.isdigit() else ''}{named}; scripted seats hold the others.",
            target="",
            metadata={"seed": seed + number, "profile": profile, "players": players, "seats": named},
        )
        for number in range(games)
    ]
    return Task(
        dataset=MemoryDataset(samples, name="games"),
        solver=game(mechanism=mechanism, out=out),
        scorer=result(),
    )


@solver
def game(mechanism: str, out: str = "") -> Solver:
    """Plays one game to its end. A model that does not answer fails the sample: that is no finding."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        given = state.metadata
        seed, rules = given["seed"], make_profile(given["profile"], given["players"])
        asked = str(state.model)
        model = _InspectModel()
        deal = fold(create(rules, seed)).roles
        assert deal is not None
        own = [seat for seat, role in enumerate(deal, 1) if _holds(given["seats"], seat, side_of(role))]
        agents: dict[Seat, Agent] = {}
        seated = []
        for seat in range(1, rules.players + 1):
            private = secret(seed, "agent", seat)
            if seat in own:
                agent = LlmAgent(Setup(seat, private, {"mechanism": mechanism}), MemorySession(model))
                agents[seat] = agent
                seated.append(SeatedAgent("llm", "inspect", asked, agent.described(rules)))
            else:
                agents[seat] = make_agent("scripted", Setup(seat, private))
                seated.append(SeatedAgent("scripted", None, None, {}))
        # The parameters as the log holds them.
        seated = [SeatedAgent(one.agent, one.endpoint, one.model, _plain(one.parameters)) for one in seated]
        played = await play(create(rules, seed, agents=seated), agents, MemoryJournal())
        log = list(played.log)
        game_id = f"inspect-{state.uuid}"
        provenance = provenance_of(
            game_id,
            log,
            served=dict.fromkeys(own, model.served),
            server=package_version(),
            catalogue=catalogue_digest(),
        )
        counted = DecisionCounter(log)
        table = played.table
        assert table.winner is not None
        state.metadata |= {
            "game_id": game_id,
            "winner": table.winner.value,
            "ending": None if table.ending is None else table.ending.value,
            "roles": [role.value for role in deal],
            "of_model": own,
            "defaults": counted.as_json(),
            "defaulted": counted.of_models(own).rate or 0.0,
            "provenance": provenance.as_json(full=True),
        }
        transcribed = transcript(log)
        state.messages = [
            ChatMessageAssistant(content=line.text)
            if line.role == "assistant"
            else ChatMessageUser(content=line.text)
            for line in transcribed
        ]
        state.output = ModelOutput.from_content(asked, f"{table.winner.value} won")
        if out:
            # In one piece, since games end side by side.
            with Path(out).open("ab") as file:  # noqa: ASYNC230  # a game's log is written in a millisecond
                file.write(lines_of(played, game_id, provenance))
        return state

    return solve


def _holds(seats: str, seat: Seat, side: Side) -> bool:
    return seats in ("all", side.value, str(seat))


def _plain(values: Any) -> Any:
    return orjson.loads(orjson.dumps(values))


class _InspectModel:
    """The model under test, as our agents ask it. The form of an answer is described in words, which every
    model understands; what it answers is read as from any other server.
    """

    def __init__(self) -> None:
        self.served: set[str] = set()
        """The models that answered, as their provider names them."""

    async def complete(
        self,
        messages: Sequence[Message],
        form: Form,
        *,
        temperature: float,
        max_tokens: int,
        sampling: Sampling = PLAIN_SAMPLING,
        cache_key: str = "",
    ) -> Reply:
        schema = orjson.dumps(form.schema).decode()
        instruction = (
            "Answer with one JSON object and nothing before or after it. It follows this JSON Schema:\n"
            f"{schema}"
        )
        begun = monotonic()
        output = await get_model().generate(
            [*map(_message, messages), ChatMessageUser(content=instruction)],
            config=GenerateConfig(temperature=temperature, max_tokens=max_tokens),
        )
        self.served.add(output.model)
        used = output.usage
        usage = Usage(
            0 if used is None else used.input_tokens,
            0 if used is None else used.input_tokens_cache_read or 0,
            0 if used is None else used.output_tokens,
            used is not None,
        )
        text = output.completion
        value = find_value(text, frozenset(form.schema.get("required", ())))
        return Reply(text, value, usage, 0.0, monotonic() - begun, output.model, output.stop_reason, 1)


def _message(message: Message) -> ChatMessage:
    if message.role == "system":
        return ChatMessageSystem(content=message.content)
    if message.role == "assistant":
        return ChatMessageAssistant(content=message.content)
    return ChatMessageUser(content=message.content)


@scorer(metrics={"won": [mean(), stderr()], "loyal_won": [mean(), stderr()], "defaulted": [mean()]})
def result() -> Scorer:
    """``won``: the share of the model's seats whose side won. ``loyal_won``: 1 or 0. ``defaulted``: the share
    of the model's decisions for which the default was played; above 0.05 reports exclude the game.
    """

    async def score(state: TaskState, target: Target) -> Score:
        played = state.metadata
        sides = [side_of(Role(played["roles"][seat - 1])).value for seat in played["of_model"]]
        won = sum(side == played["winner"] for side in sides) / len(sides)
        return Score(
            value={
                "won": won,
                "loyal_won": float(played["winner"] == Side.LOYAL.value),
                "defaulted": played["defaulted"],
            },
            answer=f"{played['winner']} won ({played['ending']})",
            metadata={"game_id": played["game_id"], "provenance": played["provenance"]},
        )

    return score
