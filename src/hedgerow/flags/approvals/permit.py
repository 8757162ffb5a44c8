"""Break-glass: a change without the approvals that it needs, with a reason that is recorded.

It is a context variable, so that it holds for all that one request or command writes, whichever
service writes it, and for nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from hedgerow.errors import Invalid
from hedgerow.lib.text import explain_unstorable
from hedgerow.projects.activity import Actor

REASON_MAX_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakGlass:
    reason: str
    actor: Actor


current_break_glass: ContextVar[BreakGlass | None] = ContextVar("break_glass", default=None)


def build_break_glass(reason: str, actor: Actor, *, attr: str = "reason") -> BreakGlass:
    """Raises Invalid for a reason that says nothing."""
    text = reason.strip()
    if not text:
        raise Invalid("Give the reason for a change without approval.", attr=attr, code="required")
    if len(text) > REASON_MAX_CHARS or explain_unstorable(text):
        raise Invalid(
            f"Expected a reason of at most {REASON_MAX_CHARS} characters of text.", attr=attr
        )
    return BreakGlass(reason=text, actor=actor)


@contextmanager
def break_glass(permit: BreakGlass | None) -> Iterator[None]:
    """Let the writes of the block pass without approvals; None changes nothing."""
    if permit is None:
        yield
        return
    token = current_break_glass.set(permit)
    try:
        yield
    finally:
        current_break_glass.reset(token)
