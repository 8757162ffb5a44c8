"""posthog-python and posthog-node with two processes that share PostgreSQL and ClickHouse."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.contract.sdk.projects import Project, new_project
from tests.contract.sdk.sdk_process import SDKS, Sdk, SdkProcess, start_installed
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import PERSONAL_KEY, LiveServer, find_free_port, run_concurrently, wait_for
from tests.support.postgres import PostgresTestServer

CURRENT = [sdk for sdk in SDKS if not sdk.is_legacy]
PEOPLE = [f"person-{n}" for n in range(8)]
VARIANTS = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]
HALF = {"properties": [], "rollout_percentage": 50}
NUMBERED = 20


@dataclass(slots=True)
class Pair:
    """Two servers; the second can be restarted on its port."""

    one: LiveServer
    other: LiveServer
    folder: Path
    settings: dict[str, str]

    def restart_other(self) -> None:
        self.other = LiveServer(self.folder / "other", **self.settings).wait_ready()


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
        "read_after_write_timeout_s": "30",
    }
    others = {**settings, "port": find_free_port()}
    with LiveServer(folder / "one", **settings) as one:
        with LiveServer(folder / "other", **others) as other:
            pair = Pair(one, other, folder, others)
            yield pair
        pair.other.stop()


@pytest.fixture(scope="module")
def project(pair: Pair) -> Iterator[Project]:
    """The project, managed through the first process."""
    with pair.one.client() as admin:
        project = new_project(admin)
        project.create("groups", group_type="company", group_key="acme", group_properties={})
        project.create_flag("on")
        project.create_flag("half", groups=[HALF])
        project.create_flag("shades", multivariate={"variants": VARIANTS})
        yield project


@pytest.fixture(scope="module")
def clients(pair: Pair, project: Project) -> Iterator[dict[Sdk, SdkProcess]]:
    """A client per process and SDK; the client of the second process evaluates locally."""
    with ExitStack() as open_:
        found = start_installed(open_, CURRENT)
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
def client(sdk: Sdk, clients: dict[Sdk, SdkProcess]) -> SdkProcess:
    if sdk not in clients:
        sdk.start()  # reports a missing SDK
    return clients[sdk]


def test_identify_across_processes_merges_the_person(
    sdk: Sdk, client: SdkProcess, project: Project
) -> None:
    visitor, user = f"{sdk.name} visitor", f"{sdk.name} user"
    client.use(name="one")
    client.capture(id=visitor, event="seen", properties={"n": 1})
    client.flush()
    client.use(name="other")
    client.identify(id=user, properties={"plan": "pro"})
    client.alias(previous=visitor, id=user)
    client.group(type="company", key=f"{sdk.name} ltd", properties={"size": 7})
    client.flush()
    assert project.wait_for_event(visitor, "seen")["properties"]["n"] == 1
    wait_for(lambda: set(project.person(visitor)["distinct_ids"]) == {visitor, user}, at_most_s=60)
    assert project.person(user)["properties"]["plan"] == "pro"
    wait_for(lambda: project.group_sizes().get(f"{sdk.name} ltd") == 7, at_most_s=60)


def test_both_processes_and_local_evaluation_agree(client: SdkProcess, project: Project) -> None:
    def evaluate_all(name: str, local: bool) -> list[dict[str, object]]:
        client.use(name=name)
        return [client.all_flags(id=id, local=local)[0] for id in PEOPLE]

    expected = evaluate_all("one", local=False)
    assert {each_values["half"] for each_values in expected} == {True, False}
    assert expected == [project.evaluate_flags(id) for id in PEOPLE]
    client.use(name="other")
    wait_for(lambda: client.flag(key="shades", id="x", local=True) is not None, at_most_s=60)
    assert evaluate_all("other", local=True) == expected
    assert evaluate_all("other", local=False) == expected


def test_change_in_one_process_reaches_clients_of_the_other(
    client: SdkProcess, project: Project
) -> None:
    client.use(name="other")
    for active in (False, True):
        project.update("feature_flags/on", active=active)
        wait_for(
            lambda active=active: client.flag(key="on", id="x", local=True) is active,  # type: ignore[misc]
            at_most_s=60,
        )


def test_restart_of_one_process_loses_nothing(
    pair: Pair, project: Project, clients: dict[Sdk, SdkProcess]
) -> None:
    def capture_numbers(first: int, last: int) -> None:
        for sdk, client in clients.items():
            for name in ("one", "other"):
                client.use(name=name)
                for n in range(first, last):
                    client.capture(id=f"{sdk.name} {name}", event="numbered", properties={"n": n})

    capture_numbers(0, NUMBERED // 2)
    pair.other.stop()
    capture_numbers(NUMBERED // 2, NUMBERED)
    pair.restart_other()
    run_concurrently([client.flush for client in clients.values()])
    for sdk, client in clients.items():
        for name in ("one", "other"):
            client.use(name=name)

            def are_stored(client: SdkProcess = client, id: str = f"{sdk.name} {name}") -> bool:
                client.flush()
                return project.numbers(id) == list(range(NUMBERED))

            wait_for(are_stored, at_most_s=60)
