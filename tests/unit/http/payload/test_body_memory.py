import pytest

from hedgerow.errors import Unavailable
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.limits import CAPTURE_LIMITS
from tests.unit.http.asgi import http_scope, make_receive
from tests.unit.http.payload.readers import make_reader


def test_each_sender_has_a_share_of_the_total() -> None:
    memory = BodyMemory(max_bytes=100, max_bytes_per_sender=60)
    with memory.reserve("a") as first, memory.reserve("a") as second, memory.reserve("b") as other:
        first.add(40)
        second.add(20)
        with pytest.raises(Unavailable):
            second.add(1)
        other.add(40)
        with pytest.raises(Unavailable) as refused:
            other.add(1)
        assert refused.value.headers == {"Retry-After": "5"}
        assert memory.used_bytes == 100
    assert memory.used_bytes == 0
    with memory.reserve("a") as again:
        again.add(60)


async def test_bytes_count_as_they_arrive_and_are_given_back() -> None:
    memory = BodyMemory(max_bytes=1000, max_bytes_per_sender=500)
    reader = make_reader(CAPTURE_LIMITS, max_bytes=10_000, memory=memory)
    scope = http_scope("POST", headers={"Content-Length": "9999"})
    assert await reader.read(scope, make_receive(b'"', b"a" * 498, b'"')) == "a" * 498
    with pytest.raises(Unavailable):
        await reader.read(scope, make_receive(b'"', b"a" * 499, b'"'))
    assert memory.used_bytes == 0
