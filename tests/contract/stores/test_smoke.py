from hedgerow.kit.clock import utc_now
from hedgerow.projects.bootstrap import first_keys
from hedgerow.storage.connect import Place
from hedgerow.storage.migrate import prepare
from tests.live import LiveServer


def test_prepare_once(place: Place) -> None:
    keys = first_keys("", "")
    assert prepare(place, keys, utc_now())
    assert not prepare(place, keys, utc_now())


def test_live(live: LiveServer) -> None:
    with live.client() as client:
        assert client.get("/api/projects/").json()["count"] == 1
