"""posthog-python and posthog-node with two processes that share PostgreSQL and ClickHouse: one
service, whichever of them a client knows.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hedgerow.lib.sealing import new_sealing_key
from tests.clickhouse_http import OwnClickHouse
from tests.contract.sdk.driven import SDKS, Driven, Sdk, all_driven
from tests.contract.sdk.projects import Project, new_project
from tests.live import PERSONAL_KEY, LiveServer, free_port, seconds_until, side_by_side
from tests.postgres import OwnPostgres

CURRENT = [sdk for sdk in SDKS if not sdk.is_old]
PEOPLE = [f"person-{n}" for n in range(8)]
VARIANTS = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]
HALF = {"properties": [], "rollout_percentage": 50}
NUMBERED = 20


@dataclass(slots=True)
class Pair:
    """Two servers, of which the other can be started again where it was."""

    one: LiveServer
    other: LiveServer
    folder: Path
    settings: dict[str, str]

    def starts_other(self) -> None:
        self.other = LiveServer(self.folder / "other", **self.settings).wait_ready()


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, postgres: OwnPostgres, clickhouse: OwnClickHouse
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    settings = {
        "database_url": postgres.new_database(),
        "clickhouse_url": clickhouse.new_database(),
        "sealing_keys": new_sealing_key(),
        "read_wait_s": "30",
    }
    others = {**settings, "port": free_port()}
    with LiveServer(folder / "one", **settings) as one:
        with LiveServer(folder / "other", **others) as other:
            pair = Pair(one, other, folder, others)
            yield pair
        pair.other.stop()


@pytest.fixture(scope="module")
def project(pair: Pair) -> Iterator[Project]:
    """Made and looked at by the one process."""
    with pair.one.client() as admin:
        project = new_project(admin)
        project.makes("groups", group_type="company", group_key="acme", group_properties={})
        project.makes_flag("on")
        project.makes_flag("half", groups=[HALF])
        project.makes_flag("shades", multivariate={"variants": VARIANTS})
        yield project


@pytest.fixture(scope="module")
def clients(pair: Pair, project: Project) -> Iterator[dict[Sdk, Driven]]:
    """Each has a client at either process; the one at the other evaluates flags by itself."""
    with ExitStack() as open_:
        found = all_driven(open_, CURRENT)
        for client in found.values():
            local = {"secret": PERSONAL_KEY, "poll_s": 0.1, "retries": 60, "name": "other"}
            client.open(host=pair.other.address, token=project.token, **local)
            client.open(host=pair.one.address, token=project.token, secret=None, name="one")
        yield found


@pytest.fixture(params=CURRENT, ids=lambda sdk: sdk.name)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    found: Sdk = request.param
    return found


@pytest.fixture
def client(sdk: Sdk, clients: dict[Sdk, Driven]) -> Driven:
    if sdk not in clients:
        sdk.driven()  # says what is missing
    return clients[sdk]


def test_who_came_by_one_and_logged_in_by_the_other_is_one_person(
    sdk: Sdk, client: Driven, project: Project
) -> None:
    visitor, user = f"{sdk.name} visitor", f"{sdk.name} user"
    client.use(name="one")
    client.capture(id=visitor, event="seen", properties={"n": 1})
    client.flush()
    client.use(name="other")
    client.identify(id=user, properties={"plan": "pro"})
    client.alias(before=visitor, id=user)
    client.group(type="company", key=f"{sdk.name} ltd", properties={"size": 7})
    client.flush()
    assert project.event(visitor, "seen")["properties"]["n"] == 1
    seconds_until(
        lambda: set(project.person(visitor)["distinct_ids"]) == {visitor, user}, at_most_s=60
    )
    assert project.person(user)["properties"]["plan"] == "pro"
    seconds_until(lambda: project.group_sizes().get(f"{sdk.name} ltd") == 7, at_most_s=60)


def test_both_decide_alike_and_as_the_client_does(client: Driven, project: Project) -> None:
    def answers(name: str, local: bool) -> list[dict[str, object]]:
        client.use(name=name)
        return [client.everything(id=id, local=local)[0] for id in PEOPLE]

    by_one = answers("one", local=False)
    assert {answer["half"] for answer in by_one} == {True, False}
    assert by_one == [project.decided(id) for id in PEOPLE]
    client.use(name="other")
    seconds_until(lambda: client.flag(key="shades", id="x", local=True) is not None, at_most_s=60)
    assert answers("other", local=True) == by_one
    assert answers("other", local=False) == by_one


def test_a_change_by_one_reaches_who_polls_the_other(client: Driven, project: Project) -> None:
    client.use(name="other")
    for active in (False, True):
        project.does("feature_flags/on", active=active)
        seconds_until(
            lambda active=active: client.flag(key="on", id="x", local=True) is active,  # type: ignore[misc]
            at_most_s=60,
        )


def test_one_is_restarted_and_nothing_is_lost(
    pair: Pair, project: Project, clients: dict[Sdk, Driven]
) -> None:
    def captures(first: int, last: int) -> None:
        for sdk, client in clients.items():
            for name in ("one", "other"):
                client.use(name=name)
                for n in range(first, last):
                    client.capture(id=f"{sdk.name} {name}", event="numbered", properties={"n": n})

    captures(0, NUMBERED // 2)
    pair.other.stop()
    captures(NUMBERED // 2, NUMBERED)
    pair.starts_other()
    side_by_side([client.flush for client in clients.values()])
    for sdk, client in clients.items():
        for name in ("one", "other"):
            client.use(name=name)

            def are_there(client: Driven = client, id: str = f"{sdk.name} {name}") -> bool:
                client.flush()
                return project.numbers(id) == list(range(NUMBERED))

            seconds_until(are_there, at_most_s=60)
