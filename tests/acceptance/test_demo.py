"""`hedgerow demo`: what it makes, and the pictures of it in the documentation."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.browser import chromium, pictures
from tests.browser.console import list_missing
from tests.support.live import Installation, LiveServer, wait_for

DEMO = 2


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Made by the demo itself, while no service runs."""
    return pictures.build_world(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[LiveServer]:
    with installation.server() as running:
        yield running


def fetch(client: httpx.Client, path: str) -> Any:
    response = client.get(f"/api/projects/{DEMO}/{path}")
    assert response.status_code == 200, response.text
    return response.json()


def test_demo_has_something_on_every_page(server: LiveServer) -> None:
    with server.client() as client:
        counts = {
            path: fetch(client, f"{path}/?limit=1")["count"]
            for path in ("persons", "feature_flags", "cohorts", "experiments", "surveys", "actions")
        }
        assert counts["persons"] == int(pictures.PERSONS)
        assert min(counts.values()) >= 2
        assert len(fetch(client, "groups/?group_type_index=0")["results"]) >= 3
        delivered, failed = 0, set()
        for record in fetch(client, "pipeline_destination_configs/")["results"]:
            path = f"pipeline_destination_configs/{record['id']}/"
            delivered += fetch(client, f"{path}metrics/")["delivered"]
            failed |= {each["status"] for each in fetch(client, f"{path}deliveries/")["results"]}
        assert delivered > 0
        assert failed == {"dead"}
        alerts = fetch(client, "alerts/")["results"]
        assert len(alerts) == 2


def test_flags_give_the_variants_that_the_events_have(server: LiveServer) -> None:
    """Otherwise no one could find out why a person of the demo got a value."""
    query = (
        "select distinct_id, properties.$feature_flag_response from events "
        "where properties.$feature_flag = 'reminder-tone' limit 20"
    )
    with server.client() as client:
        token = fetch(client, "")["api_token"]
        found = client.post(
            f"/api/projects/{DEMO}/query/", json={"query": {"kind": "HogQLQuery", "query": query}}
        ).json()["results"]
        assert len(found) == 20
        for id, variant in found:
            decided = client.post("/decide?v=3", json={"api_key": token, "distinct_id": id}).json()
            assert decided["featureFlags"]["reminder-tone"] == variant


def test_experiments_have_exposures_and_results(server: LiveServer) -> None:
    with server.client() as client:
        experiments = {each["name"]: each for each in fetch(client, "experiments/")["results"]}
        running = [each["id"] for each in experiments.values() if each["status"] == "running"]
        results = [fetch(client, f"experiments/{id}/results/") for id in running]
    assert len(results) == 2
    for result in results:
        assert min(result["exposures"]["total_exposures"].values()) >= 5
        assert [metric["error"] for metric in result["metrics"]] == [None, None]
    assert experiments["Yearly plan first"]["status"] == "draft"


def test_second_demo_through_the_running_service(
    installation: Installation, server: LiveServer
) -> None:
    done = installation.run(
        "demo", "--persons", "50", "--seed", "2", "--json", "--server", server.address
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["project_id"] == DEMO + 1
    assert made["personal_key"] is None
    with server.client() as client:
        # The service notices within a second that the key of the demo is revoked.
        wait_for(lambda: len(client.get("/api/personal_api_keys/").json()) == 1, at_most_s=120)
        assert fetch(client, "persons/?limit=1")["count"] == int(pictures.PERSONS)
    removed = installation.run_in_process("projects", "delete", str(made["project_id"]), "--yes")
    assert removed.returncode == 0, removed.stderr


def test_pictures_show_the_pages_of_today(server: LiveServer) -> None:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    outlines = json.loads(pictures.OUTLINES.read_text())
    assert set(outlines) == set(pictures.PICTURES)
    with chromium.running() as browser:
        desk = browser.new_page()
        for name, picture in pictures.PICTURES.items():
            page = browser.new_context(viewport=pictures.SIZE).new_page()  # type: ignore[arg-type]
            pictures.open_page(page, server, DEMO, picture)
            hint = f"{name} has changed: run `.venv/bin/python -m tests.browser.pictures`"
            assert pictures.describe_page(page, picture) == outlines[name], hint
            for theme in pictures.THEMES:
                stored = (pictures.FOLDER / f"{name}-{theme}.webp").read_bytes()
                taken = pictures.take_picture(page, theme)
                difference = pictures.compare(desk, taken, stored)
                assert difference <= pictures.MAX_DIFFERENCE, f"{hint} ({difference:.1f})"
            page.context.close()
