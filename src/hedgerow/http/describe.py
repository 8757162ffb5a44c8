"""What an endpoint takes and gives, noted beside it for the API's documentation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hedgerow.http.fields import Fields

E = TypeVar("E", bound=Callable[..., Any])

ATTRIBUTE = "__hedgerow_description__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    answer: Any = None
    status: int = 200
    body: type[Fields] | None = None
    media_type: str = "application/json"


def describes(
    *,
    answer: Any = None,
    status: int = 200,
    body: type[Fields] | None = None,
    media_type: str = "application/json",
) -> Callable[[E], E]:
    """Decorate an endpoint with the type of its answer (None: no body) and of its request body."""

    def note(endpoint: E) -> E:
        description = Description(answer=answer, status=status, body=body, media_type=media_type)
        setattr(endpoint, ATTRIBUTE, description)
        return endpoint

    return note


def description_of(endpoint: Any) -> Description | None:
    found = getattr(endpoint, ATTRIBUTE, None)
    return found if isinstance(found, Description) else None
