from types import SimpleNamespace

import pytest

from hedgerow.http.server.trace import SCOPE_KEY, Trace, get_trace
from tests.unit.http.asgi import http_scope


def id_for(sent: str | None) -> bytes:
    headers = {} if sent is None else {"X-Request-Id": sent}
    return Trace(http_scope(headers=headers)).id


@pytest.mark.parametrize(
    "sent", ["a", "7f3c-09", "0000:abc.DEF_1", "x" * 128, "01HZX4Q9V2J8T6W3Y5N7B1C0D"]
)
def test_safe_request_id_of_the_client_is_kept(sent: str) -> None:
    assert id_for(sent) == sent.encode()


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "é", "a\nb", '{"a":1}', "a/b", "a,b"])
def test_unsafe_request_id_is_replaced(sent: str) -> None:
    id = id_for(sent)
    assert id != sent.encode("latin-1")
    assert id_for(id.decode()) == id


def test_generated_ids_are_unique() -> None:
    assert len({id_for(None) for _ in range(1000)}) == 1000


def test_phases_measure_the_time_between_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 10.5, 10.75, 12.75])
    clock = SimpleNamespace(perf_counter=lambda: next(moments))
    monkeypatch.setattr("hedgerow.http.server.trace.time", clock)
    trace = Trace(http_scope())
    trace.mark("access")
    trace.mark("body")
    trace.mark("access")
    assert trace.started == 10.0
    assert trace.phases == {"access": 2500, "body": 250}


def test_trace_has_the_origin() -> None:
    assert Trace(http_scope(headers={"Origin": "https://shop.example"})).origin == (
        b"https://shop.example"
    )
    assert Trace(http_scope()).origin == b""


def test_scope_carries_the_trace() -> None:
    trace = Trace(http_scope())
    assert get_trace({SCOPE_KEY: trace}) is trace
