"""Limits on open connections, in total and per client address.

Every connection takes a file descriptor. Without one, the process can neither accept connections
nor open its database, so some are kept in reserve. When all others are in use, a new connection
replaces the slowest one.
"""

import resource
from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum
from itertools import islice
from operator import itemgetter
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl

from hedgerow.errors import Unavailable
from hedgerow.http.server.proxies import group_address

# More than this brings nothing, and some libraries allocate memory for each.
MAX_FILE_LIMIT = 65_536
# For databases, the event store, files, and connections to other systems.
MIN_RESERVED_FILES = 100
MAX_RESERVED_FILES = 4096
MIN_CONNECTIONS = 16
# Connections over the limit that may still request a health check.
MAX_SURPLUS = 32
# A request that takes longer may be disconnected to accept another connection.
LONG_REQUEST_S = 5.0
# How many connections to compare in search of the one that has waited longest.
SAMPLE_SIZE = 16


class ConnectionState(IntEnum):
    """In the order in which connections are closed, last first."""

    BUSY = 0
    # Between two requests.
    IDLE = 1
    # The client is slow to send a request or to read the response.
    SLOW = 2


class Connection(Protocol):
    """An open connection. `address` is that of the client, as text."""

    address: str

    def describe(self) -> tuple[ConnectionState, float]:
        """Return the state of the connection, and since how many seconds it has it."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


# The rank of a connection that is not closed.
KEEP = (ConnectionState.BUSY, 0.0)


class ConnectionTable:
    """The open connections of this process. Connections of `is_proxy` addresses have no limit per
    address, since they come from many clients."""

    def __init__(self, max_connections: int, is_proxy: Callable[[str], bool]) -> None:
        self._max = max_connections
        self._max_per_address = max(1, max_connections // 2)
        self.is_proxy = is_proxy
        self._all: OrderedDict[Connection, None] = OrderedDict()
        self._by_address: dict[str, OrderedDict[Connection, None]] = {}
        # For the metrics.
        self.replaced = self.refused = 0

    @property
    def open(self) -> int:
        return len(self._all)

    @property
    def limit(self) -> int:
        return self._max

    @property
    def has_surplus(self) -> bool:
        """Whether more connections are open than the limit allows."""
        return len(self._all) > self._max

    @property
    def is_exhausted(self) -> bool:
        """Whether even health checks get no connection."""
        return len(self._all) > self._max + MAX_SURPLUS

    def add(self, connection: Connection) -> bool:
        """Add a connection, and close another one if it is over a limit. Return False if no other
        could be closed."""
        client = group_address(connection.address)
        same = self._by_address.get(client, OrderedDict())
        is_accepted = True
        if len(same) >= self._max_per_address and not self.is_proxy(connection.address):
            is_accepted = self._close_one_of(same)
        elif len(self._all) >= self._max:
            is_accepted = self._close_one_of(self._all)
        self._all[connection] = None
        self._by_address.setdefault(client, OrderedDict())[connection] = None
        self.refused += not is_accepted
        return is_accepted

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is still in the table."""
        if connection not in self._all:
            return
        del self._all[connection]
        client = group_address(connection.address)
        del self._by_address[client][connection]
        if not self._by_address[client]:
            del self._by_address[client]

    def _close_one_of(self, connections: OrderedDict[Connection, None]) -> bool:
        """Close the slowest connection, else the one that is idle for longest, else the longest
        request. Compares a sample, in turns, so that a flood of connections costs little."""
        sample = list(islice(connections, SAMPLE_SIZE))
        for each in sample:
            connections.move_to_end(each)
        rank, longest = max(((_rank(each), each) for each in sample), key=itemgetter(0))
        if rank == KEEP:
            return False
        self.remove(longest)
        longest.abort()
        self.replaced += 1
        return True


def _rank(connection: Connection) -> tuple[ConnectionState, float]:
    state, seconds = connection.describe()
    if state is ConnectionState.BUSY and seconds < LONG_REQUEST_S:
        return KEEP
    return state, seconds


def raise_file_limit() -> int:
    """Raise the limit of open files of this process as far as permitted, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = MAX_FILE_LIMIT if hard == unlimited else min(hard, MAX_FILE_LIMIT)
    if soft == unlimited or soft >= wanted:
        return MAX_FILE_LIMIT if soft == unlimited else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # the system permits less than it reports
        return soft
    return wanted


class HoldingFlowControl(FlowControl):
    """Reads no more while bytes are held, although a handler waits for more of its body."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


def compute_max_connections(file_limit: int, database_connections: int) -> int:
    """Return how many connections leave enough file descriptors for everything else."""
    reserved = max(file_limit // 4, MIN_RESERVED_FILES + database_connections)
    return max(MIN_CONNECTIONS, file_limit - min(reserved, MAX_RESERVED_FILES) - MAX_SURPLUS)


def build_surplus_error() -> Unavailable:
    return Unavailable("Too many connections are open. Try again shortly.", retry_after_s=1)
