"""What routes ask of this room: the seats, and the feed that tells of news for them."""

from typing import Annotated

from fastapi import Depends, Request

from app.seats.seats import Seats
from app.stream.feed import Feed

__all__ = ["FeedDep", "SeatsDep", "seats_of"]


def seats_of(request: Request) -> Seats:
    """The seats that are played from outside."""
    seats: Seats = request.app.state.seats
    return seats


def _feed(request: Request) -> Feed:
    feed: Feed = request.app.state.feed
    return feed


SeatsDep = Annotated[Seats, Depends(seats_of)]
FeedDep = Annotated[Feed, Depends(_feed)]
