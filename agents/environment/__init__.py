"""The game as a PettingZoo environment, for people who train policies: ``docs/pettingzoo.md``.

Needs the extra ``interintent-server[pettingzoo]``; nothing else of the service imports it.
"""

try:
    import pettingzoo
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing.name} is not installed; it comes with: pip install 'interintent-server[pettingzoo]'",
        name=missing.name,
    ) from None

from agents.environment.actions import Actions
from agents.environment.avalon import AvalonEnv, env, raw_env
from agents.environment.features import Features

__all__ = ["Actions", "AvalonEnv", "Features", "env", "raw_env"]

del pettingzoo
