"""Wrong, revoked and rotated keys, as posthog-python and posthog-node take them.

What their authors intend, read in their code: a 401 is final for the events that were sent with it,
and the client goes on. For definitions it means: the current python forgets them, for its key may
not see them any more; the others keep what they have and ask less often. What cannot be evaluated
then is asked of the server, with the project key.
"""

from collections.abc import Iterator

import httpx
import pytest

from tests.contract.sdk.driven import SDKS, Driven, Sdk
from tests.contract.sdk.projects import Project, new_project
from tests.faulty_proxy import FaultyProxy
from tests.live import LiveServer, seconds_until

# Where definitions are, in both ages.
NEW, OLD = "/flags/definitions", "/api/feature_flag/local_evaluation"


@pytest.fixture(scope="module", params=SDKS, ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    found: Sdk = request.param
    return found


@pytest.fixture(scope="module")
def driven(sdk: Sdk) -> Iterator[Driven]:
    with sdk.driven() as client:
        yield client


@pytest.fixture
def client(driven: Driven) -> Iterator[Driven]:
    yield driven
    driven.close()


@pytest.fixture
def project(live_admin: httpx.Client) -> Project:
    made = new_project(live_admin)
    made.makes_flag("on")
    return made


@pytest.fixture
def proxy(live: LiveServer) -> Iterator[FaultyProxy]:
    """Tells how clients fared."""
    with FaultyProxy(live.address) as proxy:
        yield proxy


def opens(client: Driven, proxy: FaultyProxy, token: str, secret: str | None = None) -> None:
    client.open(host=proxy.address, token=token, secret=secret, poll_s=0.1)


def answered(proxy: FaultyProxy, path: str) -> list[int]:
    return [seen.status for seen in proxy.seen_at(path)]


def names(project: Project) -> set[str]:
    return {event["event"] for event in project.events()}


def captures(client: Driven, event: str) -> None:
    client.capture(id="ann", event=event, properties={})
    client.flush()


def is_refused(sdk: Sdk, client: Driven, project: Project, proxy: FaultyProxy) -> None:
    """Its definitions are refused, and it does what its authors intend."""
    path = OLD if sdk.is_old else NEW
    seconds_until(lambda: 401 in answered(proxy, path), at_most_s=60)
    forgets = sdk.is_python and not sdk.is_old
    if forgets:
        seconds_until(lambda: client.flag(key="on", id="x", local=True) is None, at_most_s=60)
    else:
        assert client.flag(key="on", id="x", local=True) is True
    assert client.flag(key="on", id="x") is True
    captures(client, "went on")
    assert "went on" in names(project)


def test_a_wrong_project_key_is_final_for_what_was_sent_with_it(
    sdk: Sdk, client: Driven, project: Project, proxy: FaultyProxy
) -> None:
    opens(client, proxy, "phc_no-such-key", secret="phs_no-such-key")
    # The older node tries all that failed again, as often as it is told to, and gives it up then.
    tries = 3 if sdk.is_old and not sdk.is_python else 1
    for number, event in enumerate(("lost", "lost as well"), start=1):
        captures(client, event)
        assert answered(proxy, "/batch/") == [401] * tries * number
    client.reload()
    assert client.flag(key="on", id="x", local=True) is None
    assert client.flag(key="on", id="x") in (None, False)
    assert names(project) == set()


def test_a_revoked_personal_key_ends_local_evaluation_alone(
    sdk: Sdk, client: Driven, project: Project, proxy: FaultyProxy
) -> None:
    key = {"label": "Of a server", "scopes": ["feature_flag:read"]}
    issued = project.admin.post("/api/personal_api_keys/", json=key).json()
    opens(client, proxy, project.token, secret=issued["value"])
    client.reload()
    assert client.flag(key="on", id="x", local=True) is True
    gone = project.admin.delete(f"/api/personal_api_keys/{issued['id']}/")
    assert gone.status_code == 204
    is_refused(sdk, client, project, proxy)


def test_a_rotated_secret_key_works_until_it_is_ended(
    sdk: Sdk, client: Driven, project: Project, proxy: FaultyProxy
) -> None:
    first = project.does("rotate_secret_token")["secret_api_token"]
    opens(client, proxy, project.token, secret=first)
    client.reload()
    second = project.does("rotate_secret_token")["secret_api_token"]
    project.makes_flag("late")
    seconds_until(lambda: client.flag(key="late", id="x", local=True) is True, at_most_s=60)
    assert 401 not in answered(proxy, "/")
    project.does("delete_secret_token_backup")
    is_refused(sdk, client, project, proxy)
    client.close()
    opens(client, proxy, project.token, secret=second)
    client.reload()
    assert client.flag(key="late", id="x", local=True) is True


def test_a_rotated_project_key_works_for_its_grace_time(
    client: Driven, project: Project, proxy: FaultyProxy
) -> None:
    second = project.does("reset_token", grace_s=600)["api_token"]
    opens(client, proxy, project.token)  # with the key before
    assert client.flag(key="on", id="x") is True
    captures(client, "in time")
    client.close()
    opens(client, proxy, second)
    assert client.flag(key="on", id="x") is True
    project.does("reset_token")
    assert client.flag(key="on", id="y") in (None, False)
    captures(client, "too late")
    assert answered(proxy, "/batch/")[-1] == 401
    assert names(project) == {"in time", "$feature_flag_called"}
