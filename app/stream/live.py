"""What happens beside the log: how many watch, and what models are saying while they still say it.

Nothing here is stored, replayed or waited for. Models speak to the full viewer alone. Processes that share a
database tell each other in few and small notes; a process that does not answer any more is forgotten.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson
import structlog

from app.base.clock import now_ms, timestamp
from app.base.tasks import end_tasks, keep_going
from app.protocol.messages import Speaking, UtteranceDelta, UtteranceWithdrawn, Watchers
from engine.terms import FULL, Seat, Viewer

__all__ = ["Live", "Onlooker"]

log = structlog.get_logger()

TICK_S: Final = 0.1
"""What is said within this time goes out together."""

WATCHERS_S: Final = 1.0
"""Seconds between two counts of who watches."""

AGAIN_S: Final = 10.0
"""Seconds after which a process repeats who watches through it."""

FORGET_S: Final = 30.0
"""A process that has said nothing for so long is gone, and its watchers with it."""

MAX_NOTE: Final = 7_000
"""The most bytes of one note to other processes."""

_PIECE: Final = 800
"""The most characters of one piece of a speech, which so fits a note whatever it holds."""


class Onlooker(Protocol):
    """A connection that asked for the live layer."""

    def show(self, text: str) -> bool:
        """Sends a frame without waiting. False: nothing was sent."""
        ...


@dataclass(slots=True)
class _Voice:
    """What one seat's model is being asked, and what it has said so far."""

    seat: Seat
    request_id: str
    since: str
    step: str = ""
    asked: int = 0
    """Questions without an answer yet."""
    text: str = ""

    def speaking(self) -> str:
        frame = Speaking(seat=self.seat, request_id=self.request_id, since=self.since, step=self.step)
        return frame.model_dump_json()


@dataclass(slots=True)
class _Piece:
    """A piece of a speech that is still to be sent."""

    voice: _Voice
    start: int
    text: str

    def frame(self) -> str:
        voice = self.voice
        frame = UtteranceDelta(seat=voice.seat, request_id=voice.request_id, start=self.start, text=self.text)
        return frame.model_dump_json()


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """What another process has told of its watchers: by game, how many, and how many listen to models."""

    at: float
    watching: Mapping[str, tuple[int, int]]


class Live:
    """The live layer of one process."""

    def __init__(self) -> None:
        self._present: dict[str, int] = {}
        self._onlookers: dict[str, dict[Onlooker, int]] = {}
        """By game, those that asked for the live layer, each with the last count that it was shown."""
        self._listeners: dict[str, set[Onlooker]] = {}
        """Those of them that view as full."""
        self._elsewhere: dict[str, _Elsewhere] = {}
        self._voices: dict[str, dict[Seat, _Voice]] = {}
        self._unsent: dict[str, list[str | _Piece]] = {}
        """By game, frames for listeners, oldest first."""
        self._outgoing: dict[str, list[str]] = {}
        """By game, frames for the listeners of other processes."""
        self._counted: set[str] = set()
        """Games whose count may have changed."""
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._noted_at = 0.0
        self.on_note: Callable[[str], None] | None = None
        """Passes a note to the other processes; None: there are none."""

    def start(self) -> None:
        self._task = keep_going(self._run, "live")

    async def stop(self) -> None:
        await end_tasks(self._task)

    # --- who watches --------------------------------------------------------------------------------------

    @contextmanager
    def present(self, game_id: str) -> Iterator[None]:
        """Counts one more watcher of the game while the block lasts."""
        self._count(game_id, 1)
        try:
            yield
        finally:
            self._count(game_id, -1)

    def _count(self, game_id: str, more: int) -> None:
        self._present[game_id] = self._present.get(game_id, 0) + more
        if not self._present[game_id]:
            del self._present[game_id]
        self._counted.add(game_id)
        self._awake.set()

    @contextmanager
    def looking_on(self, game_id: str, viewer: Viewer, onlooker: Onlooker) -> Iterator[list[str]]:
        """Shows the connection what happens while the block lasts. Yields the frames that it gets first."""
        count = self.watchers(game_id)
        self._onlookers.setdefault(game_id, {})[onlooker] = count
        first = [Watchers(n=count).model_dump_json()]
        if viewer == FULL:
            self._flush(game_id)
            first += self._so_far(game_id)
            self._listeners.setdefault(game_id, set()).add(onlooker)
            self._counted.add(game_id)
            self._awake.set()
        try:
            yield first
        finally:
            onlookers, listeners = self._onlookers[game_id], self._listeners.get(game_id, set())
            onlookers.pop(onlooker, None)
            listeners.discard(onlooker)
            if not onlookers:
                del self._onlookers[game_id]
            if not listeners and self._listeners.pop(game_id, None) is not None:
                self._counted.add(game_id)
                self._awake.set()

    def watchers(self, game_id: str) -> int:
        """How many watch the game, over all processes, as far as this one knows."""
        others = (one.watching.get(game_id, (0, 0))[0] for one in self._elsewhere.values())
        return self._present.get(game_id, 0) + sum(others)

    # --- what models say ----------------------------------------------------------------------------------

    def has_listeners(self, game_id: str) -> bool:
        """Whether anybody listens to the game's models, here or elsewhere."""
        return game_id in self._listeners or any(
            one.watching.get(game_id, (0, 0))[1] for one in self._elsewhere.values()
        )

    @contextmanager
    def asking(self, game_id: str, request_id: str, step: str) -> Iterator[None]:
        """Tells that a seat's model is being asked while the block lasts."""
        seat = _seat_of(request_id)
        voices = self._voices.setdefault(game_id, {})
        voice = voices.get(seat)
        if voice is None or voice.request_id != request_id:
            voice = voices[seat] = _Voice(seat, request_id, timestamp(now_ms()))
        voice.asked += 1
        if voice.step != step:
            voice.step = step
            self._say(game_id, voice.speaking())
        answered = False
        try:
            yield
            answered = True
        finally:
            voice.asked -= 1
            if not answered:
                self.withdraw(game_id, request_id)
            if not voice.asked and not voice.text:
                self._forget(game_id, seat, voice)

    def spoke(self, game_id: str, request_id: str, text: str) -> None:
        """A model has said more of what it says aloud."""
        seat = _seat_of(request_id)
        voice = self._voices.get(game_id, {}).get(seat)
        if voice is None or voice.request_id != request_id or not text:
            return
        for first in range(0, len(text), _PIECE):
            piece = text[first : first + _PIECE]
            last = (self._unsent.get(game_id) or [""])[-1]
            if isinstance(last, _Piece) and last.voice is voice and len(last.text) + len(piece) <= _PIECE:
                last.text += piece
            else:
                self._say(game_id, _Piece(voice, len(voice.text), piece))
            voice.text += piece

    def withdraw(self, game_id: str, request_id: str) -> None:
        """What the model has said to this request does not count."""
        seat = _seat_of(request_id)
        voice = self._voices.get(game_id, {}).get(seat)
        if voice is not None and voice.request_id == request_id and voice.text:
            voice.text = ""
            self._say(game_id, UtteranceWithdrawn(seat=seat, request_id=request_id).model_dump_json())

    def settled(self, game_id: str, request_id: str) -> None:
        """An answer to the request could be used: the log goes on from here."""
        seat = _seat_of(request_id)
        voice = self._voices.get(game_id, {}).get(seat)
        if voice is not None and voice.request_id == request_id and not voice.asked:
            self._flush(game_id)  # before the event that the answer becomes
            self._forget(game_id, seat, voice)

    def _forget(self, game_id: str, seat: Seat, voice: _Voice) -> None:
        voices = self._voices.get(game_id, {})
        if voices.get(seat) is voice:
            del voices[seat]
        if not voices:
            self._voices.pop(game_id, None)

    def _so_far(self, game_id: str) -> list[str]:
        """Frames for a listener that has just come."""
        frames = []
        for _, voice in sorted(self._voices.get(game_id, {}).items()):
            frames.append(voice.speaking())
            for start in range(0, len(voice.text), _PIECE):
                frames.append(_Piece(voice, start, voice.text[start : start + _PIECE]).frame())
        return frames

    def _say(self, game_id: str, item: str | _Piece) -> None:
        if self.has_listeners(game_id):
            self._unsent.setdefault(game_id, []).append(item)
            self._awake.set()

    # --- sending ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        counted_at = 0.0
        while True:
            try:
                # Without news, only what must be repeated to others.
                async with asyncio.timeout(None if self.on_note is None else AGAIN_S / 2):
                    await self._awake.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(TICK_S)
            self._awake.clear()
            now = time.monotonic()
            try:
                for game_id in list(self._unsent):
                    self._flush(game_id)
                if now - counted_at >= WATCHERS_S:
                    counted_at = now
                    self._tell_counts(now)
                elif self._counted:
                    self._awake.set()
                self._pass_on()
            except Exception as fault:
                log.warning("live updates are late", cause=type(fault).__name__)

    def _flush(self, game_id: str) -> None:
        """Shows listeners what is unsent."""
        unsent = self._unsent.pop(game_id, ())
        frames = [item if isinstance(item, str) else item.frame() for item in unsent]
        self._show(game_id, frames)
        if frames and self.on_note is not None:
            self._outgoing.setdefault(game_id, []).extend(frames)

    def _show(self, game_id: str, frames: list[str]) -> None:
        for listener in tuple(self._listeners.get(game_id, ())):
            for frame in frames:
                listener.show(frame)

    def _tell_counts(self, now: float) -> None:
        gone = {name for name, one in self._elsewhere.items() if now - one.at > FORGET_S}
        for name in gone:
            self._counted |= self._elsewhere.pop(name).watching.keys()
        changed, self._counted = self._counted, set()
        for game_id in changed:
            self._show_count(game_id)
        if self.on_note is not None and (changed or now - self._noted_at >= AGAIN_S):
            self._noted_at = now
            mine = [
                (game_id, (count, len(self._listeners.get(game_id, ()))))
                for game_id, count in self._present.items()
            ]
            # The first note replaces what was told before; the others add to it.
            for place, part in enumerate(_parts(mine) or [[]]):
                self.on_note(orjson.dumps({"watch": dict(part), "more": place > 0}).decode())

    def _show_count(self, game_id: str) -> None:
        onlookers = self._onlookers.get(game_id)
        if not onlookers:
            return
        count = self.watchers(game_id)
        frame = Watchers(n=count).model_dump_json()
        for onlooker, shown in tuple(onlookers.items()):
            if shown != count and onlooker.show(frame):
                onlookers[onlooker] = count

    def _pass_on(self) -> None:
        """Passes frames to the processes where somebody listens."""
        outgoing, self._outgoing = self._outgoing, {}
        for game_id, frames in outgoing.items():
            if self.on_note is not None and any(
                one.watching.get(game_id, (0, 0))[1] for one in self._elsewhere.values()
            ):
                for part in _parts(frames):
                    self.on_note(orjson.dumps({"game": game_id, "frames": part}).decode())

    def take(self, sender: str, note: str) -> None:
        """Takes a note of another process."""
        read = orjson.loads(note)
        if "frames" in read:
            self._show(read["game"], read["frames"])
            return
        before = self._elsewhere.get(sender)
        watching = {game_id: (n, full) for game_id, (n, full) in read["watch"].items()}
        if read["more"] and before is not None:
            watching = {**before.watching, **watching}
        self._elsewhere[sender] = _Elsewhere(time.monotonic(), watching)
        self._counted |= watching.keys() | (before.watching.keys() if before is not None else set())
        self._awake.set()


def _seat_of(request_id: str) -> Seat:
    return int(request_id.rpartition(".")[2])


def _parts(items: list[Any]) -> list[list[Any]]:
    """The items in parts that each fit a note."""
    parts: list[list[Any]] = []
    size = 0
    for item in items:
        length = len(orjson.dumps(item)) + 1
        if not parts or size + length > MAX_NOTE:
            parts.append([])
            size = 0
        parts[-1].append(item)
        size += length
    return parts
