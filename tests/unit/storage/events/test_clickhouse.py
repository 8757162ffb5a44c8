import pytest

from hedgerow.storage.events.clickhouse import ClientSockets


def test_a_call_that_must_not_be_repeated_sends_one_request() -> None:
    sockets = ClientSockets()
    with sockets.send_once():
        sockets.count_request()
        with pytest.raises(OSError, match="not repeated"):
            sockets.count_request()
    for _ in range(2):
        sockets.count_request()
