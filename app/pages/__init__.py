"""What the service shows people: where to begin, its documentation, and the API to try out."""

from app.pages.routes import router

__all__ = ["router"]
