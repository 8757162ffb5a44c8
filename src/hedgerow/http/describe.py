"""What an endpoint takes and gives, noted beside it for the API's documentation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hedgerow.http.fields import Fields

E = TypeVar("E", bound=Callable[..., Any])

ATTRIBUTE = "__hedgerow_description__"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter. Endpoints read it as text with `call.asked`: FastAPI's own way of reading
    parameters takes longer than most answers."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    answer: Any = None
    status: int = 200
    query: Sequence[Parameter] = ()
    body: type[Fields] | None = None
    media_type: str = "application/json"


def describes(
    *,
    answer: Any = None,
    status: int = 200,
    query: Sequence[Parameter] = (),
    body: type[Fields] | None = None,
    media_type: str = "application/json",
) -> Callable[[E], E]:
    """Decorate an endpoint with the type of its answer (None: no body), its query parameters and
    the type of its request body."""

    def note(endpoint: E) -> E:
        description = Description(
            answer=answer, status=status, query=query, body=body, media_type=media_type
        )
        setattr(endpoint, ATTRIBUTE, description)
        return endpoint

    return note


def description_of(endpoint: Any) -> Description | None:
    found = getattr(endpoint, ATTRIBUTE, None)
    return found if isinstance(found, Description) else None
