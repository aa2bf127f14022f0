"""The game as a PettingZoo environment for training policies; see ``docs/pettingzoo.md``.

Needs the extra ``interintent-server[pettingzoo]``; no other part of the service imports it.
"""

try:
    import pettingzoo
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing.name} is not installed: pip install gymnasium numpy pettingzoo",
        name=missing.name,
    ) from None

from agents.environment.avalon import AvalonEnv, env, raw_env
from agents.environment.encoding import Actions, Features

__all__ = ["Actions", "AvalonEnv", "Features", "env", "raw_env"]

del pettingzoo
