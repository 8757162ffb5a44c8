from types import SimpleNamespace

import pytest

from hedgerow.http.trace import SCOPE_KEY, Trace, trace_of
from tests.unit.http.asgi import http_scope


def id_for(given: str | None) -> bytes:
    headers = {} if given is None else {"X-Request-Id": given}
    return Trace(http_scope(headers=headers)).id


@pytest.mark.parametrize(
    "given", ["a", "7f3c-09", "0000:abc.DEF_1", "x" * 128, "01HZX4Q9V2J8T6W3Y5N7B1C0D"]
)
def test_a_plain_id_of_the_caller_is_kept(given: str) -> None:
    assert id_for(given) == given.encode()


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "é", "a\nb", '{"a":1}', "a/b", "a,b"])
def test_any_other_id_is_replaced_by_ours(given: str) -> None:
    id = id_for(given)
    assert id != given.encode("latin-1")
    assert id_for(id.decode()) == id


def test_ids_of_our_own_do_not_repeat() -> None:
    assert len({id_for(None) for _ in range(1000)}) == 1000


def test_phases_add_up_to_the_time_between_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 10.5, 10.75, 12.75])
    clock = SimpleNamespace(perf_counter=lambda: next(moments))
    monkeypatch.setattr("hedgerow.http.trace.time", clock)
    trace = Trace(http_scope())
    trace.mark("access")
    trace.mark("body")
    trace.mark("access")
    assert trace.started == 10.0
    assert trace.phases == {"access": 2500, "body": 250}


def test_a_trace_knows_the_page_that_asks() -> None:
    assert Trace(http_scope(headers={"Origin": "https://shop.example"})).origin == (
        b"https://shop.example"
    )
    assert Trace(http_scope()).origin == b""


def test_a_request_carries_its_trace() -> None:
    trace = Trace(http_scope())
    assert trace_of({SCOPE_KEY: trace}) is trace
