"""`hedgerow dashboards`: insights and dashboards as a file."""

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from hedgerow.lib import yamlio
from tests.support.live import Installation

Done = CompletedProcess[str]

DOCUMENT = """\
version: 1
insights:
  - short_id: signups
    name: Sign-ups
    description: New people.
    tags: [growth, growth]
    query: {kind: TrendsQuery, series: [{kind: EventsNode, event: signed up}]}
  - short_id: raw
    query: {kind: DataTableNode, source: {kind: HogQLQuery, query: select 1}}
dashboards:
  - name: Growth
    pinned: true
    filters: {date_from: -30d}
    tiles:
      - insight: signups
        layouts: {sm: {x: 0, y: 0, w: 6, h: 5}}
        color: blue
      - text: "Größe: **no employees**."
  - name: Empty
"""


@pytest.fixture(scope="module", autouse=True)
def _made(installation: Installation) -> None:
    assert installation.run_in_process("init").returncode == 0


class Files:
    def __init__(self, installation: Installation, folder: Path) -> None:
        self.installation = installation
        self._file = folder / "dashboards.yaml"

    def apply(self, text: str, *options: str) -> Done:
        self._file.write_text(text, encoding="utf-8")
        return self.installation.run_in_process("dashboards", "apply", str(self._file), *options)

    def plan(self, text: str, *options: str) -> dict[str, Any]:
        done = self.apply(text, "--check", "--json", *options)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def export(self) -> str:
        done = self.installation.run_in_process("dashboards", "export")
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def files(installation: Installation, tmp_path: Path) -> Files:
    return Files(installation, tmp_path)


def test_a_file_is_applied_once_and_exported_as_it_is(files: Files) -> None:
    planned = files.plan(DOCUMENT)
    assert planned["created"] == [
        "insight signups", "insight raw", "dashboard Growth", "dashboard Empty",
    ]  # fmt: skip
    done = files.apply(DOCUMENT, "--yes")
    assert done.returncode == 0, done.stderr
    assert "  + dashboard Growth, new" in done.stdout.splitlines()
    again = files.apply(DOCUMENT, "--check")
    assert (again.returncode, again.stdout) == (0, "Nothing to change.\n")
    exported = yamlio.decode(files.export())
    assert [each["short_id"] for each in exported["insights"]] == ["raw", "signups"]
    growth = exported["dashboards"][1]
    assert growth == {
        "name": "Growth",
        "pinned": True,
        "filters": {"date_from": "-30d"},
        "tiles": [
            {
                "insight": "signups",
                "layouts": {"sm": {"x": 0, "y": 0, "w": 6, "h": 5}},
                "color": "blue",
            },
            {"text": "Größe: **no employees**."},
        ],
    }
    assert files.apply(files.export(), "--check").returncode == 0


def test_changes_are_shown_and_what_is_left_out_is_kept(files: Files) -> None:
    changed = {
        "version": 1,
        "dashboards": [
            {"name": "Growth", "tiles": [{"insight": "raw"}, {"insight": "signups"}]},
        ],
    }
    done = files.apply(json.dumps(changed), "--yes")
    assert done.returncode == 0, done.stderr
    assert "  ~ dashboard Growth" in done.stdout
    assert "      pinned: true -> false" in done.stdout
    assert "Not in the file, and kept: insight raw, insight signups, dashboard Empty" in (
        done.stdout
    )
    exported = yamlio.decode(files.export())
    assert len(exported["insights"]) == 2
    assert {"name": "Growth", "tiles": [{"insight": "signups"}, {"insight": "raw"}]} in (
        exported["dashboards"]
    )
    activity = {each["scope"] for each in _list_activity(files)}
    assert {"Insight", "Dashboard"} <= activity


def _list_activity(files: Files) -> list[dict[str, Any]]:
    with files.installation.server() as server, server.client() as client:
        found: list[dict[str, Any]] = client.get("/api/projects/1/activity_log/?limit=100").json()[
            "results"
        ]
        boards = client.get("/api/projects/1/dashboards/").json()["results"]
        assert {each["name"] for each in boards} == {"Growth", "Empty"}
        insight = client.get("/api/projects/1/insights/signups/?refresh=force_cache").json()
        assert (insight["name"], insight["tags"], insight["saved"]) == (
            "Sign-ups", ["growth"], True,
        )  # fmt: skip
        return found


def test_prune_deletes_and_a_later_file_restores(files: Files) -> None:
    only = {"version": 1, "insights": [yamlio.decode(DOCUMENT)["insights"][0]]}
    assert files.plan(json.dumps(only), "--prune")["deleted"] == [
        "insight raw", "dashboard Empty", "dashboard Growth",
    ]  # fmt: skip
    assert files.apply(json.dumps(only), "--prune", "--yes").returncode == 0
    exported = yamlio.decode(files.export())
    assert [each["short_id"] for each in exported["insights"]] == ["signups"]
    assert not exported["dashboards"]
    assert files.apply(DOCUMENT, "--yes").returncode == 0
    assert files.apply(DOCUMENT, "--check").returncode == 0


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"insight": []}, "Unknown field `insight`"),
        ({"insights": [{"short_id": "12", "query": {}}]}, "insights[0]: short_id"),
        ({"insights": [{"short_id": "a"}]}, "insights[0] (a): query"),
        ({"insights": [{"short_id": "a", "colour": 1}]}, "Unknown field `colour`"),
        (
            {"insights": [{"short_id": "a", "query": {"kind": "TrendsQuery", "serie": []}}]},
            "Unknown field `serie`",
        ),
        ({"dashboards": [{"name": "a", "filters": {"day": 1}}]}, "Unknown field `day`"),
        ({"dashboards": [{"name": "a"}, {"name": "a"}]}, "dashboards[0] (a) is the same"),
        ({"dashboards": [{"name": "a", "tiles": [{}]}]}, "either `insight` or `text`"),
        ({"dashboards": [{"name": "a", "tiles": [{"insight": "b"}]}]}, 'no insight "b"'),
        ({"dashboards": [{"name": "a", "tiles": [{"text": "b", "x": 1}]}]}, "Unknown field `x`"),
        ({"dashboards": [{"tiles": []}]}, "dashboards[0]"),
        ([], "Expected an object"),
    ],
)
def test_an_error_names_its_place_and_changes_nothing(
    files: Files, document: Any, message: str
) -> None:
    before = files.export()
    if isinstance(document, dict) and "insights" not in document:
        document["insights"] = [
            {"short_id": "valid", "query": {"kind": "HogQLQuery", "query": "select 1"}}
        ]
    done = files.apply(json.dumps(document), "--yes")
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert files.export() == before
