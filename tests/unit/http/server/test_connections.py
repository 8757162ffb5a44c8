"""Limits on connections: who is closed when a limit is reached, and the size of the limits."""

import resource
from unittest.mock import patch

import pytest

from hedgerow.http.server.connections import (
    LONG_REQUEST_S,
    MAX_FILE_LIMIT,
    MAX_SURPLUS,
    SAMPLE_SIZE,
    ConnectionState,
    ConnectionTable,
    compute_max_connections,
    raise_file_limit,
)

PROXY = "10.0.0.1"
BUSY, IDLE, SLOW = ConnectionState.BUSY, ConnectionState.IDLE, ConnectionState.SLOW


class FakeConnection:
    def __init__(
        self, address: str = "192.0.2.1", state: ConnectionState = SLOW, seconds: float = 1.0
    ) -> None:
        self.address = address
        self.is_aborted = False
        self._described = state, seconds

    def describe(self) -> tuple[ConnectionState, float]:
        return self._described

    def abort(self) -> None:
        self.is_aborted = True


def fill(table: ConnectionTable, *connections: FakeConnection) -> None:
    for each in connections:
        assert table.add(each)


def build_table(max_connections: int = 4) -> ConnectionTable:
    return ConnectionTable(max_connections, lambda address: address == PROXY)


def from_many(*states: tuple[ConnectionState, float]) -> list[FakeConnection]:
    """Connections of different clients."""
    return [
        FakeConnection(f"192.0.2.{number}", *each) for number, each in enumerate(states, start=10)
    ]


def test_new_connection_replaces_the_slowest() -> None:
    table = build_table()
    connections = from_many((SLOW, 2), (SLOW, 9), (IDLE, 60), (BUSY, 60))
    fill(table, *connections)
    assert table.add(FakeConnection())
    assert [each.is_aborted for each in connections] == [False, True, False, False]
    assert (table.open, table.replaced, table.refused) == (4, 1, 0)


def test_idle_connection_is_closed_before_a_long_request() -> None:
    table = build_table()
    connections = from_many((BUSY, 60), (IDLE, 1), (BUSY, 1), (BUSY, 1))
    fill(table, *connections)
    assert table.add(FakeConnection(state=BUSY))
    assert [each.is_aborted for each in connections] == [False, True, False, False]
    assert table.add(FakeConnection("192.0.2.2", state=BUSY))
    assert [each.is_aborted for each in connections] == [True, True, False, False]


def test_short_requests_are_never_closed() -> None:
    table = build_table()
    connections = from_many(*[(BUSY, LONG_REQUEST_S - 1)] * 4)
    fill(table, *connections)
    assert not table.has_surplus
    assert not table.add(FakeConnection(state=BUSY))
    assert table.has_surplus
    assert not any(each.is_aborted for each in connections)
    assert (table.open, table.replaced, table.refused) == (5, 0, 1)


def test_surplus_connections_are_bounded() -> None:
    table = build_table()
    fill(table, *from_many(*[(BUSY, 0.0)] * 4))
    for number in range(MAX_SURPLUS):
        assert not table.add(FakeConnection(f"198.51.100.{number}", BUSY))
        assert not table.is_exhausted
    table.add(FakeConnection("198.51.100.99", BUSY))
    assert table.is_exhausted


@pytest.mark.parametrize(
    ("first", "second"),
    [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2"), ("::ffff:192.0.2.1", "192.0.2.1")],
)
def test_one_client_gets_half_of_the_connections(first: str, second: str) -> None:
    table = build_table()
    earlier = [FakeConnection(first), FakeConnection(first)]
    other = FakeConnection("192.0.2.99", SLOW, 60)
    fill(table, other, *earlier)
    assert table.add(FakeConnection(second))
    assert sum(each.is_aborted for each in earlier) == 1
    assert not other.is_aborted


def test_trusted_proxy_has_no_limit_of_its_own() -> None:
    table = build_table()
    connections = [FakeConnection(PROXY) for _ in range(4)]
    fill(table, *connections)
    assert not any(each.is_aborted for each in connections)


def test_closed_connections_make_space() -> None:
    table = build_table()
    connections = from_many(*[(SLOW, 1.0)] * 4)
    fill(table, *connections)
    table.remove(connections[0])
    table.remove(connections[0])
    assert table.add(FakeConnection())
    assert table.replaced == 0


def test_every_connection_is_in_a_sample_some_time() -> None:
    number = 3 * SAMPLE_SIZE
    table = ConnectionTable(number, lambda _: True)
    connections = [FakeConnection(PROXY, BUSY) for _ in range(number - 1)]
    slow = FakeConnection(PROXY)
    fill(table, *connections, slow)
    results = [table.add(FakeConnection(PROXY, BUSY)) for _ in range(3)]
    assert results == [False, False, True]
    assert slow.is_aborted


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((1024, 4096), 4096),
        ((1024, resource.RLIM_INFINITY), MAX_FILE_LIMIT),
        ((1024, 1_000_000), MAX_FILE_LIMIT),
        ((300, 300), 300),
        ((200_000, 200_000), 200_000),
    ],
)
def test_file_limit_is_raised_within_bounds(limits: tuple[int, int], expected: int) -> None:
    with (
        patch.object(resource, "getrlimit", return_value=limits),
        patch.object(resource, "setrlimit") as set_limit,
    ):
        assert raise_file_limit() == expected
    assert [call.args[1][0] for call in set_limit.call_args_list] in ([], [expected])


def test_file_limit_that_cannot_be_raised_is_used() -> None:
    with (
        patch.object(resource, "getrlimit", return_value=(1024, 4096)),
        patch.object(resource, "setrlimit", side_effect=ValueError),
    ):
        assert raise_file_limit() == 1024


@pytest.mark.parametrize(
    ("files", "connections"), [(300, 158), (1024, 736), (65_536, 61_408), (50, 16)]
)
def test_some_files_are_reserved(files: int, connections: int) -> None:
    assert compute_max_connections(files, database_connections=10) == connections
