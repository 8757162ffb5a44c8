"""Whose work runs. Resources that all projects share limit the part that one sender may use."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# "" is the service itself, or a request that is short by construction.
current_sender: ContextVar[str] = ContextVar("current_sender", default="")


@contextmanager
def work_for(sender: str) -> Iterator[None]:
    """Let what runs in the block, and the tasks that it starts, be the work of this sender."""
    token = current_sender.set(sender)
    try:
        yield
    finally:
        current_sender.reset(token)
