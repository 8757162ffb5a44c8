"""Invalid, revoked and rotated keys with posthog-python and posthog-node.

By their source code, a 401 is final for the events of that request, and the client continues. On a
401 for definitions, the current posthog-python discards them; the others keep them and poll less
often. Flags that cannot be evaluated locally are then requested with the project key.
"""

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.sdk.projects import Project, new_project
from tests.contract.sdk.sdk_process import SDKS, Sdk, SdkProcess
from tests.support.faulty_proxy import FaultyProxy
from tests.support.live import LiveServer, wait_for

# Paths of the definitions, in both generations.
NEW, OLD = "/flags/definitions", "/api/feature_flag/local_evaluation"


@pytest.fixture(scope="module", params=SDKS, ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    found: Sdk = request.param
    return found


@pytest.fixture(scope="module")
def process(sdk: Sdk) -> Iterator[SdkProcess]:
    with sdk.start() as client:
        yield client


@pytest.fixture
def client(process: SdkProcess) -> Iterator[SdkProcess]:
    yield process
    process.close()


@pytest.fixture
def project(live_admin: httpx.Client) -> Project:
    created = new_project(live_admin)
    created.create_flag("on")
    return created


@pytest.fixture
def proxy(live: LiveServer) -> Iterator[FaultyProxy]:
    """A proxy that records the requests of the clients."""
    with FaultyProxy(live.address) as proxy:
        yield proxy


def open_client(
    client: SdkProcess, proxy: FaultyProxy, token: str, secret: str | None = None
) -> None:
    client.open(host=proxy.address, token=token, secret=secret, poll_s=0.1)


def list_statuses(proxy: FaultyProxy, path: str) -> list[int]:
    return [each.status for each in proxy.requests_to(path)]


def list_event_names(project: Project) -> set[str]:
    return {event["event"] for event in project.events()}


def capture_and_flush(client: SdkProcess, event: str) -> None:
    client.capture(id="ann", event=event, properties={})
    client.flush()


def assert_definitions_rejected(
    sdk: Sdk, client: SdkProcess, project: Project, proxy: FaultyProxy
) -> None:
    """Check that the definitions are rejected and the client behaves as its source code says."""
    path = OLD if sdk.is_legacy else NEW
    wait_for(lambda: 401 in list_statuses(proxy, path), at_most_s=60)
    discards = sdk.is_python and not sdk.is_legacy
    if discards:
        wait_for(lambda: client.flag(key="on", id="x", local=True) is None, at_most_s=60)
    else:
        assert client.flag(key="on", id="x", local=True) is True
    assert client.flag(key="on", id="x") is True
    capture_and_flush(client, "continued")
    assert "continued" in list_event_names(project)


def test_events_with_an_invalid_project_key_are_not_retried(
    sdk: Sdk, client: SdkProcess, project: Project, proxy: FaultyProxy
) -> None:
    open_client(client, proxy, "phc_no-such-key", secret="phs_no-such-key")
    # The older posthog-node retries every failure up to its configured limit.
    attempts = 3 if sdk.is_legacy and not sdk.is_python else 1
    for number, event in enumerate(("lost", "lost as well"), start=1):
        capture_and_flush(client, event)
        assert list_statuses(proxy, "/batch/") == [401] * attempts * number
    client.reload()
    assert client.flag(key="on", id="x", local=True) is None
    assert client.flag(key="on", id="x") in (None, False)
    assert list_event_names(project) == set()


def test_revoked_personal_key_stops_only_local_evaluation(
    sdk: Sdk, client: SdkProcess, project: Project, proxy: FaultyProxy
) -> None:
    key = {"label": "Server", "scopes": ["feature_flag:read"]}
    issued = project.admin.post("/api/personal_api_keys/", json=key).json()
    open_client(client, proxy, project.token, secret=issued["value"])
    client.reload()
    assert client.flag(key="on", id="x", local=True) is True
    deleted = project.admin.delete(f"/api/personal_api_keys/{issued['id']}/")
    assert deleted.status_code == 204
    assert_definitions_rejected(sdk, client, project, proxy)


def test_rotated_secret_key_works_until_deleted(
    sdk: Sdk, client: SdkProcess, project: Project, proxy: FaultyProxy
) -> None:
    first = project.update("rotate_secret_token")["secret_api_token"]
    open_client(client, proxy, project.token, secret=first)
    client.reload()
    second = project.update("rotate_secret_token")["secret_api_token"]
    project.create_flag("late")
    wait_for(lambda: client.flag(key="late", id="x", local=True) is True, at_most_s=60)
    assert 401 not in list_statuses(proxy, "/")
    project.update("delete_secret_token_backup")
    assert_definitions_rejected(sdk, client, project, proxy)
    client.close()
    open_client(client, proxy, project.token, secret=second)
    client.reload()
    assert client.flag(key="late", id="x", local=True) is True


def test_rotated_project_key_works_during_the_grace_period(
    client: SdkProcess, project: Project, proxy: FaultyProxy
) -> None:
    second = project.update("reset_token", grace_s=600)["api_token"]
    open_client(client, proxy, project.token)  # with the previous key
    assert client.flag(key="on", id="x") is True
    capture_and_flush(client, "in time")
    client.close()
    open_client(client, proxy, second)
    assert client.flag(key="on", id="x") is True
    project.update("reset_token")
    assert client.flag(key="on", id="y") in (None, False)
    capture_and_flush(client, "too late")
    assert list_statuses(proxy, "/batch/")[-1] == 401
    assert list_event_names(project) == {"in time", "$feature_flag_called"}
