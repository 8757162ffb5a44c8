"""What a destination component works with: events, its settings, a way out, and what it answers.

A component's `deliver` is given some events and says for each what became of it. It keeps nothing:
the loop in deliver.py retries, counts and remembers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from hedgerow.events.model import Event


@dataclass(frozen=True, slots=True)
class Sent:
    """The other side has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It has not, and why. `is_final` if trying again would change nothing; otherwise the other
    side may have said how long to wait. What `is_events_fault` says nothing about the destination,
    and where a whole batch failed, it may be the fault of one event in it."""

    reason: str
    is_final: bool = False
    is_events_fault: bool = False
    retry_after_s: float | None = None


Outcome = Sent | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """`headers` by their lower-case names; of `body` as much as anybody may need to see."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CannotSend(Exception):
    """There was no answer: the address is refused, nobody listens, or it takes too long."""


class Outbound(Protocol):
    async def send(self, request: Request) -> Response:
        """The answer, or CannotSend. Redirects are answers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else a component may use."""

    http: Outbound
    now: datetime


Deliver = Callable[[Sequence[Event], Mapping[str, Any], Surroundings], Awaitable[Sequence[Outcome]]]
