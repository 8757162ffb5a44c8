"""What the supervisor and its processes are started with. Numbers of sockets are file descriptors,
which they inherit."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class SupervisorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One socket per process. If `owner_socket` is set, only the first process opens the data, and
    the others are its readers."""

    program: str
    address: str
    sockets: Sequence[int]
    overrides: Mapping[str, Any]
    has_worker: bool
    drain_s: float
    grace_s: float
    owner_socket: int | None = None
    owner_path: str = ""


class ProcessPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`sockets` begin with the own one. `announces` prints the start screen. The end of `control`
    is the end of the supervisor; a byte on it says that the process is ready."""

    program: str
    address: str
    number: int
    sockets: Sequence[int]
    control: int
    overrides: Mapping[str, Any]
    has_worker: bool
    announces: bool
    drain_s: float
    owner_socket: int | None = None
    owner_path: str = ""
