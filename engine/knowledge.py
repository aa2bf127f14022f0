"""The seats that each role sees before the first proposal.

Source: InterIntent (EMNLP 2024), game rules; the board game's rulebook for Mordred and Oberon.
"""

from collections.abc import Sequence

from engine.terms import EVIL_ROLES, Role, Seat

__all__ = ["sees"]

_MERLIN_SEES = EVIL_ROLES - {Role.MORDRED}
_PERCIVAL_SEES = frozenset({Role.MERLIN, Role.MORGANA})
_EVIL_SEE = EVIL_ROLES - {Role.OBERON}
_NOTHING: frozenset[Role] = frozenset()

_SEEN_BY_ROLE = {
    Role.MERLIN: _MERLIN_SEES,
    Role.PERCIVAL: _PERCIVAL_SEES,
    Role.SERVANT: _NOTHING,
    Role.OBERON: _NOTHING,
    **dict.fromkeys(_EVIL_SEE, _EVIL_SEE),
}


def sees(roles: Sequence[Role], seat: Seat) -> tuple[Seat, ...]:
    """The seats that this seat is shown, ascending, without their roles.

    ``roles`` holds the role of seat 1 first. Merlin is shown evil without Mordred, Percival is
    shown Merlin and Morgana, evil is shown evil; Oberon neither sees other evil nor is seen by it.
    """
    shown = _SEEN_BY_ROLE[roles[seat - 1]]
    if not shown:
        return ()
    return tuple([other for other, role in enumerate(roles, 1) if role in shown and other != seat])
