"""Where a newcomer can go from ``/``."""

from typing import Final

from pydantic import BaseModel

__all__ = ["LINKS", "Home", "PageLink"]


class PageLink(BaseModel):
    href: str
    title: str
    media_type: str


class Home(BaseModel):
    """Where to begin."""

    name: str
    socket: str
    links: list[PageLink]


def _guide(name: str, title: str) -> PageLink:
    return PageLink(href=f"/docs/{name}.md", title=title, media_type="text/markdown")


def _data(href: str, title: str) -> PageLink:
    return PageLink(href=href, title=title, media_type="application/json")


LINKS: Final = (
    PageLink(href="/docs", title="The API, to read and to try out", media_type="text/html"),
    _guide("bots", "Write a bot, in any language"),
    _guide("websocket", "Watch games live"),
    _guide("evaluation", "Items, scores, raters and judges"),
    _guide("reports", "Reports of your own games"),
    _guide("models", "Language models as players"),
    _guide("operating", "Settings, databases, metrics, containers"),
    _guide("glossary", "What each word means"),
    _guide("architecture", "Where things are in the source"),
    _guide("performance", "How fast it is, and how that is measured"),
    _data("/openapi.json", "OpenAPI document of the HTTP API"),
    _data("/asyncapi.json", "AsyncAPI document of the socket"),
    _data("/intentions", "The catalogue of intentions"),
    _data("/profiles", "The rule sets"),
    _data("/games", "Games, the newest first"),
    _data("/readyz", "Can the service take requests?"),
)
