"""`hedgerow pipelines`: copy records from one project to another by a file."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hedgerow.lib.yamlio import FromEnv, decode
from tests.support.live import Installation, wait_for

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]

SECRETS = {"CRM_SECRET": "hunter2-signing", "CRM_HEADERS": '{"X-Token": "hunter2-header"}'}
# The same, by the names that an export gives them.
EXPORTED_SECRETS = {
    "PIPELINE_ORDERS_TO_CRM_SECRET": SECRETS["CRM_SECRET"],
    "PIPELINE_ORDERS_TO_CRM_HEADERS": SECRETS["CRM_HEADERS"],
}
DOCUMENT = """\
version: 1
destinations:
  - name: Orders to CRM
    component: hedgerow/webhook
    enabled: true
    settings:
      url: https://crm.example.com/hook
      secret: !env CRM_SECRET
      headers: !env CRM_HEADERS
  - name: 注文
    component: hedgerow/webhook
    description: "${NOT_A_VARIABLE}"
    settings:
      url: https://example.jp/
      events: [bought]
frontend_apps:
  - component: hedgerow/custom-script
    settings:
      code: |
        posthog.capture('one')
        posthog.capture('two')
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """On SQLite only: tests/contract/stores runs the same queries on both engines."""
    return Installation(data=tmp_path_factory.mktemp("installation") / "data", settings={})


@pytest.fixture(scope="module", autouse=True)
def _made(installation: Installation) -> None:
    assert installation.run_in_process("init").returncode == 0


@pytest.fixture
def here(installation: Installation) -> Run:
    """Return a function that runs a command of `pipelines` in this process."""

    def run(*arguments: str, of: str = "pipelines") -> Done:
        return installation.run_in_process(of, *arguments)

    return run


@pytest.fixture
def project(here: Run) -> str:
    """Return the id of a project without records."""
    return str(json.loads(here("create", "Web shop", "--json", of="projects").stdout)["id"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipelines.yaml"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture
def filled(here: Run, project: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the id of a project that the file was applied to, without its variables."""
    with monkeypatch.context() as patched:
        for name, value in SECRETS.items():
            patched.setenv(name, value)
        done = here("apply", str(file), "--project", project, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("3 to create, 0 to change, 0 to delete.\nApplied.\n")
    assert "hunter2" not in done.stdout
    return project


def check(here: Run, file: Path, project: str, *options: str) -> tuple[int, str]:
    done = here("apply", str(file), "--project", project, "--check", *options)
    assert done.stderr == ""
    assert "hunter2" not in done.stdout
    return done.returncode, done.stdout


def destinations(here: Run, project: str) -> list[dict[str, Any]]:
    done = here("export", "--project", project)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = decode(done.stdout)["destinations"]
    return found


def assert_one_line(done: Done, *words: str) -> None:
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.count("\n") == 1, done.stderr[-2000:]
    assert done.stderr.startswith("hedgerow: ")
    assert done.stderr[:-1].isprintable()
    assert [word for word in words if word not in done.stderr] == [], done.stderr


def test_records_are_copied_to_a_project_with_other_secrets(
    installation: Installation,
    here: Run,
    filled: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "exported.yaml"
    done = installation.run_in_process(
        "pipelines", "export", "--project", filled, "--output", str(out)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Wrote 3 record(s) to {out}.\n"
    assert "hunter2" not in out.read_text()
    assert "$sealed" not in out.read_text()

    made = here("create", "Production", "--json", of="projects")
    other = str(json.loads(made.stdout)["id"])
    apply = ("pipelines", "apply", str(out), "--project", other, "--yes")
    assert_one_line(
        installation.run(*apply), "Orders to CRM", "PIPELINE_ORDERS_TO_CRM_HEADERS is not set"
    )
    for name, value in EXPORTED_SECRETS.items():
        monkeypatch.setenv(name, value)
    done = installation.run(*apply)
    assert (done.returncode, done.stderr) == (0, "")
    assert "      settings.secret: (secret) set\n" in done.stdout
    assert "hunter2" not in done.stdout

    assert check(here, out, other, "--prune") == (0, "Nothing to change.\n")
    assert check(here, out, filled, "--prune") == (0, "Nothing to change.\n")
    monkeypatch.setenv("PIPELINE_ORDERS_TO_CRM_SECRET", "hunter2-another")
    status, output = check(here, out, other)
    assert (status, "settings.secret: (secret) changed" in output) == (1, True)
    exported = [here("export", "--project", id).stdout for id in (filled, other)]
    assert len({text.partition("\n")[2] for text in exported}) == 1


def test_export_prints_the_document(here: Run, filled: str) -> None:
    done = here("export", "--project", filled)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f'# Pipeline records of project {filled}, "Web shop".\n')
    first, second = decode(done.stdout)["destinations"]
    assert first["settings"] == {
        "url": "https://crm.example.com/hook",
        "headers": FromEnv("PIPELINE_ORDERS_TO_CRM_HEADERS"),
        "secret": FromEnv("PIPELINE_ORDERS_TO_CRM_SECRET"),
    }
    assert (second["name"], second["description"]) == ("注文", "${NOT_A_VARIABLE}")
    assert "hunter2" not in done.stdout


def test_check_exits_with_1_if_something_differs_and_changes_nothing(
    here: Run, filled: str, file: Path
) -> None:
    assert check(here, file, filled) == (0, "Nothing to change.\n")
    file.write_text(DOCUMENT.replace("enabled: true", "enabled: false").replace("bought", "paid"))
    changes = (
        "destinations\n"
        '  ~ "Orders to CRM"\n'
        "      enabled: true -> false\n"
        '  ~ "注文"\n'
        '      settings.events: ["bought"] -> ["paid"]\n'
        "0 to create, 2 to change, 0 to delete.\n"
    )
    assert check(here, file, filled) == (1, changes)
    assert check(here, file, filled) == (1, changes)


def test_records_that_are_not_in_the_file_are_kept_unless_pruned(
    here: Run, filled: str, file: Path
) -> None:
    file.write_text("destinations:\n  - {name: New, component: hedgerow/webhook}\n")
    kept = 'Not in the file, and kept: "Orders to CRM", "注文". --prune deletes them.\n'
    assert check(here, file, filled) == (
        1,
        'destinations\n  + "New", new hedgerow/webhook\n'
        f"{kept}1 to create, 0 to change, 0 to delete.\n",
    )
    arguments = ("apply", str(file), "--project", filled, "--prune", "--yes")
    done = here(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert '  - "Orders to CRM"\n  - "注文"\n' in done.stdout
    assert [item["name"] for item in destinations(here, filled)] == ["New"]
    assert "hedgerow/custom-script" in here("export", "--project", filled).stdout


def test_a_new_order_is_shown_and_applied(here: Run, filled: str, file: Path) -> None:
    file.write_text(
        "destinations:\n"
        "  - {name: 注文, component: hedgerow/webhook, description: '${NOT_A_VARIABLE}',\n"
        "     settings: {url: https://example.jp/, events: [bought]}}\n"
        "  - {name: Between, component: hedgerow/webhook}\n"
    )
    done = here("apply", str(file), "--project", filled, "-y")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  order: " not in done.stdout
    file.write_text(file.read_text() + "  - {name: Orders to CRM, component: hedgerow/webhook}\n")
    done = here("apply", str(file), "--project", filled, "-y")
    assert '  order: "注文", "Between", "Orders to CRM"\n' in done.stdout
    names = [item["name"] for item in destinations(here, filled)]
    assert names == ["注文", "Between", "Orders to CRM"]


def test_nothing_is_changed_without_a_terminal_to_ask_on(
    installation: Installation, here: Run, filled: str, file: Path
) -> None:
    file.write_text("destinations: []\n")
    for source, stdin in ((str(file), ""), ("-", file.read_text())):
        arguments = ("pipelines", "apply", source, "--project", filled, "--prune")
        done = installation.run_with_input(*arguments, stdin=stdin)
        assert done.returncode == 1
        assert done.stdout.endswith("0 to create, 0 to change, 2 to delete.\n")
        assert_one_line(Done([], 1, "", done.stderr), "Nothing was changed", "--yes")
    assert len(destinations(here, filled)) == 2


@pytest.mark.parametrize(("answer", "left", "status"), [("n", 2, 1), ("y", 0, 0)])
def test_a_terminal_is_asked_for_confirmation(
    installation: Installation,
    here: Run,
    filled: str,
    file: Path,
    answer: str,
    left: int,
    status: int,
) -> None:
    file.write_text("destinations: []\n")
    arguments = ("pipelines", "apply", str(file), "--project", filled, "--prune")
    done = installation.run_with_input(*arguments, stdin=f"{answer}\n", on_terminal=True)
    assert done.returncode == status, done.stderr
    assert "Apply this? [y/N]: " in done.stdout
    assert len(destinations(here, filled)) == left


def test_the_audit_trail_names_the_command_line_and_a_running_server_sees_the_records(
    installation: Installation, project: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    records = f"/api/projects/{project}/pipeline_destination_configs/"
    with installation.server() as server, server.client() as client:
        assert client.get(records).json()["count"] == 0
        done = installation.run("pipelines", "apply", str(file), "--project", project, "--yes")
        assert done.returncode == 0, done.stderr
        wait_for(lambda: client.get(records).json()["count"] == 2, at_most_s=60)
        first, second = client.get(records).json()["results"]
        assert (first["name"], first["enabled"], second["name"]) == ("Orders to CRM", True, "注文")
        config = client.get(f"{records}{first['id']}/config/").text
        assert "https://crm.example.com/hook" in config
        trail = client.get(f"/api/projects/{project}/activity_log/").text
    assert trail.count("hedgerow command line") >= 3
    assert "hunter2" not in config + trail + server.output + server.errors


PLACES = {
    "destinations:\n  - component: nobody/nothing\n": "destinations[0].component",
    "destinations:\n  - {component: hedgerow/webhook, enabled: 1}\n": "destinations[0].enabled",
    "destinations: {}\n": "destinations",
    "version: 9\n": "version",
    "": "sections",
    "stuff: 1\n": "`stuff`",
    "destinations:\n  - {name: A, component: hedgerow/webhook, settings: {url: 5}}\n": (
        "destinations[0] (A): url"
    ),
    "destinations:\n  - {name: A, component: hedgerow/webhook, settings: {secret: hunter2}}\n": (
        "destinations[0] (A): secret"
    ),
    "a: 1\na: 2\n": "line 2, column 1",
    "a: [": "line 1, column 5",
    "a: \x07": "#x0007",
}


@pytest.mark.parametrize("text", PLACES)
def test_an_error_is_one_line_that_names_the_file_and_the_field(
    here: Run, file: Path, text: str
) -> None:
    file.write_text(text)
    done = here("apply", str(file), "--project", "1", "--yes")
    assert_one_line(done, str(file), PLACES[text])
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "destinations:\n  - {name: 'a\n\n    b', component: hedgerow/webhook, settings: {x: 1}}\n",
        'destinations:\n  - {name: "\\e[31m", component: hedgerow/webhook, settings: {x: 1}}\n',
        'destinations:\n  - {"a\\nb": 1}\n',
        '"a\\nb": 1\n',
        f"destinations: {'9' * 5000}\n",
        'destinations:\n  - {component: hedgerow/webhook, settings: {url: !env "\\ud800"}}\n',
    ],
)
def test_an_error_is_one_printable_line(here: Run, file: Path, text: str) -> None:
    file.write_text(text)
    assert_one_line(here("apply", str(file), "--project", "1", "--yes"))


def test_invalid_yaml_is_one_line(installation: Installation, file: Path) -> None:
    file.write_text("destinations:\n  - component: hedgerow/webhook\n    component: again\n")
    done = installation.run_in_process("pipelines", "apply", str(file), "--project", "1", "--yes")
    assert_one_line(done, f"{file} cannot be read: line 3, column 5", "'component'")


def test_unknown_files_and_projects_are_one_line(
    here: Run, project: str, tmp_path: Path, file: Path
) -> None:
    (tmp_path / "latin").write_bytes(b"a: \xff")
    complaints = {
        ("apply", str(tmp_path / "none"), "--project", "1"): "No such file",
        ("apply", str(tmp_path), "--project", "1"): "directory",
        ("apply", str(tmp_path / "latin"), "--project", "1"): "UTF-8",
        ("apply", str(file), "--project", "999"): "no project 999",
        ("apply", str(file)): f"{project} (Web shop)",
        ("export",): "--project",
        ("export", "--project", "1", "-o", str(tmp_path / "none" / "x")): "No such file",
    }
    for arguments, complaint in complaints.items():
        assert_one_line(here(*arguments), complaint)


def test_records_of_a_missing_component_are_left_out(
    installation: Installation, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    facts = packages / "acme_dove-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_dove\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[hedgerow.components]\ndove = acme_dove:COMPONENT\n")
    (packages / "acme_dove.py").write_text(
        "from hedgerow.plugin.component import Component\n"
        "from hedgerow.pipelines.model import Family\n"
        "COMPONENT = Component(key='acme/dove', family=Family.DESTINATION, name='Dove',\n"
        "                      description='Flies.', version='1')\n"
    )
    file = tmp_path / "dove.yaml"
    file.write_text("destinations:\n  - {name: A dove, component: acme/dove}\n")
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(packages))
        done = installation.run("pipelines", "apply", str(file), "--project", project, "--yes")
        assert done.returncode == 0, done.stderr
    done = installation.run("pipelines", "export", "--project", project)
    assert done.returncode == 0
    assert decode(done.stdout)["destinations"] == []
    assert re.fullmatch(
        r'left out: record \d+ "A dove", because its component is not installed\n', done.stderr
    )
