"""The environment: seats are asked one after another, and each sees only its own view."""

import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper

from agents.environment.encoding import HIGHEST, LOWEST, Actions, Features
from engine.chance import draw
from engine.errors import InvalidAction, InvalidProfile
from engine.playthrough import playthrough
from engine.profile import make_profile, without_talk
from engine.rules import Request, create, decide, pending
from engine.state import State, apply, fold
from engine.terms import Role, Seat
from engine.view import read_viewer

__all__ = ["AvalonEnv", "env", "raw_env"]

RenderMode = Literal["human", "ansi"]

_TALK: Final = frozenset({"discussion", "reconsideration", "summaries"})

View = dict[str, Any]
"""``observation`` and ``action_mask``, as the observation space defines them."""


class AvalonEnv(AECEnv[str, View, int]):  # type: ignore[misc, unused-ignore]
    """One table of Avalon without talk: proposals, votes, quests and the shot.

    Agents are ``seat_1`` … ``seat_n`` and stay to the end, when the winners get 1 and the others -1; all
    earlier rewards are 0. An illegal step raises IllegalAction and changes nothing.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  # as PettingZoo declares it
        "name": "interintent_avalon_v0",
        "render_modes": ["human", "ansi"],
        "is_parallelizable": False,
    }

    def __init__(
        self,
        profile: str = "interintent",
        players: int = 5,
        *,
        roles: Sequence[Role | str] | None = None,
        rules: Mapping[str, Any] | None = None,
        render_mode: RenderMode | None = None,
        viewer: str = "full",
    ) -> None:
        """``viewer`` is the viewer whose view ``render`` shows. Raises InvalidProfile or InvalidInput."""
        super().__init__()  # type: ignore[no-untyped-call]
        if talk := _TALK & set(rules or {}):
            raise InvalidProfile(f"this environment plays without talk, got {sorted(talk)[0]}", "/rules")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is human, ansi or None, got {render_mode!r}")
        self.profile: Final = without_talk(make_profile(profile, players, roles=roles, rules=rules))
        self.actions: Final = Actions(self.profile)
        self.features: Final = Features(self.profile)
        self.render_mode = render_mode
        self._viewer = read_viewer(viewer, players)
        self.possible_agents = [f"seat_{seat}" for seat in range(1, players + 1)]
        self._seats: dict[str, Seat] = {name: seat for seat, name in enumerate(self.possible_agents, 1)}
        self.agents: list[str] = []
        self.infos: dict[str, dict[str, Any]] = {}
        # Each agent has its own spaces, since a space has its own random generator.
        self._action_spaces = {agent: Discrete(len(self.actions)) for agent in self.possible_agents}
        self._observation_spaces = {
            agent: Dict(
                {
                    "observation": Box(LOWEST, HIGHEST, (self.features.length,), np.int8),
                    "action_mask": Box(0, 1, (len(self.actions),), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        self._seed: int | None = None
        self._games = 0
        self._state: State | None = None
        self._open: tuple[Request, ...] = ()
        self._shown = 0

    def observation_space(self, agent: str) -> Dict:
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete[Any]:
        return self._action_spaces[agent]

    @property
    def state_of_play(self) -> State:
        """The full state with its log, for analysis, not for policies. Do not change it."""
        if self._state is None:
            raise RuntimeError("reset() deals the first game")
        return self._state

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Deals a new game. With ``seed``, it is the game that the engine deals from that seed.

        Without a seed, it is the next game of the series that follows from the last seed given, or from 128
        random bits if none was given. ``options`` may have ``deal``, the roles of seats 1 to n; other options
        are ignored, as in PettingZoo. Raises InvalidProfile.
        """
        if seed is not None:
            self._seed, self._games = seed, 0
            game_seed = seed
        else:
            self._seed = secrets.randbits(128) if self._seed is None else self._seed
            self._games += 1
            game_seed = draw(self._seed, "environment", self._games)
        deal = (options or {}).get("deal")
        self._state = fold(
            create(self.profile, game_seed, deal=None if deal is None else list(map(Role, deal)))
        )
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self._shown = 0
        self._ask()

    def observe(self, agent: str) -> View:
        """The seat's view; the mask is all zeros while the seat is not being asked."""
        state = self.state_of_play
        seat = self._seats[agent]
        hand = state.hand(seat)
        # An answer that waits for the other seats' answers is only in the hand of its own seat.
        open_ = self.actions.open(state.table, hand) if agent == self.agent_selection else []
        mask = np.zeros(len(self.actions), np.int8)
        mask[open_] = 1
        row = self.features.row(state.table, hand, state.public, asked=bool(open_))
        return {"observation": row, "action_mask": mask}

    def step(self, action: int | None) -> None:
        """Plays the selected agent's action, given by its number, or None once the game is over."""
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)  # type: ignore[arg-type]
            return
        if action is None or not 0 <= action < len(self.actions):
            raise InvalidAction(f"actions are 0 to {len(self.actions) - 1}, got {action!r}", "/action")
        state = self.state_of_play
        apply(state, decide(state, [(self._seats[agent], self.actions.all[action])]))
        self._cumulative_rewards[agent] = 0.0
        self._ask()
        self._accumulate_rewards()

    def _ask(self) -> None:
        """Selects the next agent, in seat order, or ends the game."""
        state = self.state_of_play
        self._clear_rewards()
        requests = pending(state)
        if requests:
            self.agent_selection = self.possible_agents[requests[0].seat - 1]
        else:
            for agent, seat in self._seats.items():
                self.rewards[agent] = 1.0 if state.hand(seat).side is state.table.winner else -1.0
            self.terminations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[0]
        if self.render_mode == "human":
            self.render()

    def render(self) -> str | None:
        """For ``ansi``, returns the game so far as text; for ``human``, prints the new part of it."""
        if self.render_mode is None:
            return None
        text = playthrough(self.state_of_play.log, self._viewer)
        if self.render_mode == "ansi":
            return text
        sys.stdout.write(text[self._shown :])
        self._shown = len(text)
        return None

    def close(self) -> None:
        """Does nothing: there is nothing to release."""


def raw_env(**settings: Any) -> AvalonEnv:
    """The environment without wrappers: illegal actions raise."""
    return AvalonEnv(**settings)


def env(**settings: Any) -> AECEnv[str, View, int]:
    """The environment with PettingZoo's usual guards: an illegal action ends the game; its seat gets -1."""
    guarded = TerminateIllegalWrapper(AvalonEnv(**settings), illegal_reward=-1)
    return OrderEnforcingWrapper(AssertOutOfBoundsWrapper(guarded))
