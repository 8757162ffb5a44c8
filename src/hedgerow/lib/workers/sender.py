"""Whose work runs. Resources that all projects share limit the part that one sender may use."""

from contextvars import ContextVar

# "" is the service itself, or a request that is short by construction: neither is limited.
current_sender: ContextVar[str] = ContextVar("current_sender", default="")
