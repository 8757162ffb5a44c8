"""`hedgerow flags`: why somebody gets what, and flags out of one project and into another."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, insert

from hedgerow.app.state import place_of
from hedgerow.errors import Conflict
from hedgerow.flags.as_code import FlagsAsCode
from hedgerow.lib.clock import utc_now
from hedgerow.lib.yamlio import decode
from hedgerow.persons.cohorts import CohortFields, Cohorts
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.model import ProjectId
from hedgerow.settings import load
from hedgerow.storage.cohorts import CohortRecords
from hedgerow.storage.connect import open_database
from hedgerow.storage.database import Database
from hedgerow.storage.directory import DirectoryRecords
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.persons import PersonRecords
from hedgerow.storage.tables import early_access_features, group_types
from tests.contract.stores.conftest import nothing_told
from tests.live import HEDGEROW, PROJECT_KEY, Installation, environment, seconds_until

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


class HalfWay(list[Any]):
    """Fails once it is looked at."""

    def __iter__(self) -> Iterator[Any]:
        raise Conflict("half way")


DOCUMENT = """\
version: 1
flags:
  - key: child
    filters:
      groups:
        - properties:
            - {key: checkout, type: flag, value: fast, operator: flag_evaluates_to}
  - key: checkout
    name: The new checkout
    tags: [shop]
    filters:
      groups:
        - properties:
            - {key: email, type: person, value: "@acme.com", operator: icontains}
            - {key: age, type: person, value: 40, operator: gt}
          rollout_percentage: 50
        - properties:
            - {key: id, type: cohort, value: 試験, operator: in}
          variant: fast
      multivariate:
        variants:
          - {key: slow, rollout_percentage: 25}
          - {key: fast, rollout_percentage: 75}
      payloads: {fast: {color: red}}
  - key: firm
    filters:
      aggregation_group_type_index: company
      groups:
        - properties:
            - {key: plan, type: group, group_type_index: company, value: pro, operator: exact}
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """On SQLite: what these verbs ask of a database is tried on both engines in contract/stores."""
    return Installation(data=tmp_path_factory.mktemp("installation") / "data", settings={})


@pytest.fixture(scope="module", autouse=True)
def _made(installation: Installation) -> None:
    assert installation.here("init").returncode == 0


@pytest.fixture
def here(installation: Installation) -> Run:
    """Runs a verb in this process, of `flags` unless another is named."""

    def run(*arguments: str, of: str = "flags") -> Done:
        return installation.here(of, *arguments)

    return run


@asynccontextmanager
async def opened(installation: Installation) -> AsyncIterator[Database]:
    given = environment(**installation.settings) | {"HEDGEROW_DATA": str(installation.data)}
    database = open_database(place_of(load(given)[0]))
    try:
        yield database
    finally:
        await database.close()


async def fill(installation: Installation, project: ProjectId, *, types: tuple[str, ...]) -> None:
    """Somebody known, somebody in a static cohort, and a group of each type."""
    async with opened(installation) as database:
        persons, cohorts = PersonRecords(database), Cohorts(CohortRecords(database))
        await persons.put_person(project, ["kim"], lambda _: {"age": 41}, nothing_told, utc_now())
        await persons.put_person(project, ["bob"], lambda _: {"age": 20}, nothing_told, utc_now())
        fields = CohortFields(name="試験", is_static=True)
        cohort = await cohorts.create(project, fields, TERMINAL, utc_now())
        await cohorts.add_members(cohort, ["bob"])
        for index, name in enumerate(types):
            row = {"project_id": project, "index": index, "name": name}
            await database.write(partial(_add_type, row))
            await persons.put_group(project, index, "acme", {"plan": "pro"}, utc_now())


def _add_type(row: dict[str, Any], connection: Connection) -> None:
    connection.execute(insert(group_types), row)


@pytest.fixture
def new_project(here: Run, installation: Installation) -> Callable[..., str]:
    def make(*types: str) -> str:
        """The id of a project without flags, with these group types."""
        id = json.loads(here("create", "Web shop", "--json", of="projects").stdout)["id"]
        asyncio.run(fill(installation, ProjectId(id), types=types))
        return str(id)

    return make


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "flags.yaml"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture
def filled(here: Run, new_project: Callable[..., str], file: Path) -> str:
    """The id of a project that the file was applied to."""
    project = new_project("company")
    done = here("apply", str(file), "--project", project, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("3 to create, 0 to change, 0 to delete.\nApplied.\n")
    return project


def check(here: Run, file: Path, project: str, *options: str) -> tuple[int, str]:
    done = here("apply", str(file), "--project", project, "--check", *options)
    assert done.stderr == ""
    return done.returncode, done.stdout


def exported(here: Run, project: str) -> list[dict[str, Any]]:
    done = here("export", "--project", project)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, Any]] = decode(done.stdout)["flags"]
    return found


def assert_one_line(done: Done, *words: str) -> None:
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    assert done.stderr.count("\n") == 1, done.stderr[-2000:]
    assert done.stderr.startswith("hedgerow: ")
    assert done.stderr[:-1].isprintable()
    assert [word for word in words if word not in done.stderr] == [], done.stderr


def test_flags_go_from_one_project_to_another_where_ids_are_others(
    installation: Installation,
    here: Run,
    filled: str,
    new_project: Callable[..., str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "exported.yaml"
    done = installation.run("flags", "export", "--project", filled, "--output", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Wrote 3 flag(s) to {out}.\n"
    other = new_project("team", "company")
    done = installation.run("flags", "apply", str(out), "--project", other, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert check(here, out, other, "--prune") == (0, "Nothing to change.\n")
    assert check(here, out, filled, "--prune") == (0, "Nothing to change.\n")
    assert exported(here, other) == exported(here, filled)
    for project in (filled, other):
        done = here("evaluate", "child", "bob", "--project", project)
        assert "  value    true\n" in done.stdout
        done = here("evaluate", "firm", "bob", "--group", "company=acme", "--project", project)
        assert "  value    true\n" in done.stdout


def test_a_cohort_or_group_type_that_is_not_there_is_named(
    here: Run, new_project: Callable[..., str], file: Path
) -> None:
    project = new_project()
    apply = ("apply", str(file), "--project", project, "--yes")
    place = "flags[2] (firm): filters.aggregation_group_type_index: "
    assert_one_line(here(*apply), f'{file}: {place}There is no group type "company"')
    file.write_text(DOCUMENT.replace("試験", "Nobody"))
    place = "flags[1] (checkout): filters.groups[1].properties[0].value: "
    assert_one_line(here(*apply), f'{file}: {place}There is no cohort "Nobody" in this project')
    assert exported(here, project) == []


def test_an_export_to_the_screen_is_the_document(here: Run, filled: str) -> None:
    done = here("export", "--project", filled)
    assert done.stdout.startswith(f'# Flags of project {filled}, "Web shop".\nversion: 1\n')
    checkout, child, firm = decode(done.stdout)["flags"]
    assert list(checkout) == ["key", "name", "tags", "filters"]
    assert checkout["filters"]["payloads"] == {"fast": '{"color":"red"}'}
    assert list(child) == ["key", "filters"]
    assert firm["filters"]["aggregation_group_type_index"] == "company"


def test_json_files_work_too(here: Run, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "flags.json"
    items = exported(here, filled)
    items[0]["name"] = "Smile 😀\x7f"
    file.write_text(json.dumps({"version": 1, "flags": items}, indent="\t"))
    done = here("apply", str(file), "--project", filled, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(here, filled) == items


def test_check_tells_by_its_status_whether_something_would_change_and_changes_nothing(
    here: Run, filled: str, file: Path
) -> None:
    assert check(here, file, filled) == (0, "Nothing to change.\n")
    text = DOCUMENT.replace("rollout_percentage: 50", "rollout_percentage: 60")
    text = text.replace("value: pro", "value: [pro, team]").replace("    tags: [shop]\n", "")
    file.write_text(text.replace("  - key: child\n", "  - key: child\n    active: false\n"))
    changes = (
        "flags\n"
        "  ~ checkout\n"
        "      filters.groups[0].rollout_percentage: 50 -> 60\n"
        '      tags: ["shop"] -> cleared\n'
        "  ~ firm\n"
        '      filters.groups[0].properties[0].value: "pro" -> ["pro", "team"]\n'
        "  ~ child\n"
        "      active: false\n"
        "0 to create, 3 to change, 0 to delete.\n"
    )
    assert check(here, file, filled) == (1, changes)
    assert check(here, file, filled) == (1, changes)


def test_what_the_file_leaves_out_is_kept_named_and_pruned_on_demand(
    here: Run, filled: str, file: Path
) -> None:
    file.write_text("flags:\n  - {key: new, filters: {groups: [{rollout_percentage: 5}]}}\n")
    assert check(here, file, filled) == (
        1,
        "flags\n"
        "  + new, new\n"
        '      filters.groups[0]: {"rollout_percentage": 5}\n'
        "Not in the file, and kept: checkout, child, firm. --prune deletes them.\n"
        "1 to create, 0 to change, 0 to delete.\n",
    )
    done = here("apply", str(file), "--project", filled, "--prune", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  - checkout\n  - child\n  - firm\n" in done.stdout
    assert [item["key"] for item in exported(here, filled)] == ["new"]


def test_what_a_feature_needs_is_not_pruned_and_the_difference_says_so(
    installation: Installation, here: Run, filled: str, file: Path
) -> None:
    async def add_feature() -> None:
        async with opened(installation) as database:
            found = await FlagRecords(database).definitions(ProjectId(int(filled)), "UTC")
            [flag] = [flag for flag in found.flags if flag.key == "checkout"]
            feature = {
                "id": str(uuid4()),
                "project_id": flag.project_id,
                "flag_id": flag.id,
                "name": "Checkout",
                "description": "",
                "stage": "beta",
                "documentation_url": "",
                "payload": {},
                "created_at": utc_now(),
            }
            await database.write(
                lambda c: c.execute(insert(early_access_features), feature).close()
            )

    asyncio.run(add_feature())
    file.write_text("flags: []\n")
    assert check(here, file, filled, "--prune") == (
        1,
        "flags\n"
        "  - child\n"
        "  - firm\n"
        "  checkout stays: it belongs to the early access feature 'Checkout'. Delete that first.\n"
        "0 to create, 0 to change, 2 to delete.\n",
    )
    done = here("apply", str(file), "--project", filled, "--prune", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert [item["key"] for item in exported(here, filled)] == ["checkout"]


def test_without_anybody_to_ask_nothing_is_changed(
    installation: Installation, here: Run, filled: str, file: Path
) -> None:
    file.write_text("flags: []\n")
    for source, stdin in ((str(file), ""), ("-", file.read_text())):
        done = subprocess.run(
            [
                *(HEDGEROW, "flags", "apply", source, "--project", filled, "--prune"),
                *("--data", str(installation.data)),
            ],
            env=environment(**installation.settings),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.endswith("0 to create, 0 to change, 3 to delete.\n")
        assert_one_line(Done([], done.returncode, "", done.stderr), "Nothing was changed", "--yes")
    assert len(exported(here, filled)) == 3


@pytest.mark.parametrize(("answer", "left", "status"), [("n", 3, 1), ("y", 0, 0)])
def test_somebody_at_a_terminal_is_asked(
    installation: Installation,
    here: Run,
    filled: str,
    file: Path,
    answer: str,
    left: int,
    status: int,
) -> None:
    file.write_text("flags: []\n")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    try:
        done = subprocess.run(
            [
                *(HEDGEROW, "flags", "apply", str(file), "--project", filled, "--prune"),
                *("--data", str(installation.data)),
            ],
            env=environment(**installation.settings),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == status, done.stderr
    assert "Apply this? [y/N]: " in done.stdout
    assert len(exported(here, filled)) == left


def test_a_change_by_somebody_else_meanwhile_is_not_run_over(
    installation: Installation,
    here: Run,
    filled: str,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text(DOCUMENT.replace("The new checkout", "Theirs"))

    def meddle() -> None:
        done = installation.run("flags", "apply", str(theirs), "--project", filled, "--yes")
        assert done.returncode == 0, done.stderr

    monkeypatch.setattr(sys.modules["hedgerow.cli.files"], "ask", meddle)
    file.write_text(DOCUMENT.replace("The new checkout", "Ours") + "  - {key: x, filters: {}}\n")
    file.write_text(file.read_text().replace("filters: {}", "filters: {groups: [{}]}"))
    done = here("apply", str(file), "--project", filled)
    assert done.stdout.endswith("1 to create, 1 to change, 0 to delete.\n")
    assert_one_line(Done([], done.returncode, "", done.stderr), "changed meanwhile")
    assert [item.get("name") for item in exported(here, filled)] == ["Theirs", None, None]


def test_all_flags_are_stored_in_one_step_or_none_is(
    installation: Installation, here: Run, new_project: Callable[..., str]
) -> None:
    id = ProjectId(int(new_project("company")))

    async def run() -> list[int]:
        async with opened(installation) as database:
            project = (await DirectoryRecords(database).snapshot()).projects[id]
            store = FlagRecords(database)
            room = FlagsAsCode(store)
            options: Any = {"prune": False, "actor": TERMINAL, "now": utc_now()}
            plan = await room.plan(project, decode(DOCUMENT), **options)
            before = await store.generation(id)
            with pytest.raises(Conflict, match="half way"):
                await room.apply(replace(plan, deleted=HalfWay()), TERMINAL, utc_now())
            steps = [await store.generation(id) - before]
            assert (await store.definitions(id, "UTC")).flags == []
            await room.apply(plan, TERMINAL, utc_now())
            return [*steps, await store.generation(id) - before]

    assert asyncio.run(run()) == [0, 1]
    assert len(exported(here, str(id))) == 3


def test_the_trail_names_the_terminal_and_a_running_server_sees_the_flags(
    installation: Installation, file: Path
) -> None:
    file.write_text("flags:\n  - {key: seen, filters: {groups: [{}]}}\n")
    with installation.server() as server, server.client() as client:
        asked = {"api_key": PROJECT_KEY, "distinct_id": "kim"}

        def decided() -> bool:
            return bool(client.post("/decide/?v=3", json=asked).json()["featureFlags"].get("seen"))

        assert not decided()
        done = installation.run("flags", "apply", str(file), "--project", "1", "--yes")
        assert done.returncode == 0, done.stderr
        seconds_until(decided, at_most_s=60)
        trail = client.get("/api/projects/1/feature_flags/activity/").text
    assert "hedgerow command line" in trail


PLACES = {
    "flags: {}\n": "flags: ",
    "version: 9\nflags: []\n": "version: ",
    "": "A document has",
    "stuff: 1\n": '"stuff"',
    "flags:\n  - {key: a, active: 1}\n": "flags[0] (a): active: ",
    "flags:\n  - {key: a, filters: {groups: []}}\n": "flags[0] (a): filters.groups: ",
    "flags: [{key: a, filters: {groups: [{properties: [{key: b, operator: gt, value: x}]}]}}]": (
        "flags[0] (a): filters.groups[0].properties[0].value: A number is required."
    ),
    "flags:\n  - {key: a, filters: {groups: [{properties: [{key: b, type: flag}]}]}}\n": (
        'properties[0].key: There is no flag "b"'
    ),
    'flags:\n  - {key: a, filters: {groups: [{properties: [{key: b, type: "x\\ny"}]}]}}\n': (
        "properties[0].type: "
    ),
    'flags:\n  - {key: a, filters: {groups: [{}], payloads: {"x\\e": 1}}}\n': "filters.payloads.x",
    "flags:\n  - {key: a, filters: {groups: [{}], payloads: {true: 1}}}\n": "put True in quotes",
    "a: 1\na: 2\n": "line 2, column 1",
    '{"flags": [\t}': "line 1",
}


@pytest.mark.parametrize("text", PLACES)
def test_an_error_is_one_line_that_names_the_file_and_the_place(
    here: Run, file: Path, text: str
) -> None:
    file.write_text(text)
    done = here("apply", str(file), "--project", "1", "--yes")
    assert_one_line(done, str(file), PLACES[text])


def test_files_and_projects_that_are_not_there_are_one_line(
    here: Run, filled: str, tmp_path: Path, file: Path
) -> None:
    complaints = {
        ("apply", str(tmp_path / "none"), "--project", "1"): "No such file",
        ("apply", str(file), "--project", "999"): "no project 999",
        ("apply", str(file)): f"{filled} (Web shop)",
        ("export",): "--project",
        ("export", "--project", "1", "-o", str(tmp_path / "none" / "x")): "No such file",
        ("evaluate", "checkot", "kim", "--project", filled): "Did you mean checkout?",
        ("evaluate", "firm", "kim", "--group", "moon=1", "--project", filled): "has: company",
        ("evaluate", "firm", "kim", "--group", "moon", "--project", filled): "--group",
        ("evaluate", "firm", "kim", "--property", "=1", "--project", filled): "--property",
        ("evaluate", "firm", "kim", "--group-property", "a=1", "--project", filled): "type",
        ("evaluate", "firm", "kim", "--group-property", "company.a=1", "--project", filled): (
            "--group company=KEY"
        ),
    }
    for arguments, complaint in complaints.items():
        assert_one_line(here(*arguments), complaint)


def test_evaluate_explains_condition_by_condition(here: Run, filled: str) -> None:
    done = here(
        "evaluate", "checkout", "kim", "--property", "email=a@acme.com", "--project", filled
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        'checkout for "kim"\n'
        "  value    true\n"
        '  variant  "fast"\n'
        '  payload  {"color":"red"}\n'
        "  reason   condition_match: Matched condition set 1\n"
        "condition 1: matches\n"
        '  yes  person email icontains "@acme.com": "a@acme.com" (given)\n'
        "  yes  person age gt 40: 41 (stored)\n"
        '  rollout of 50 %: distinct id "kim" is at 12.1731 %, in\n'
        "  variants slow 0-25 %, fast 25-100 %: 59.9398 % is fast\n"
        "condition 2: not reached, as it was decided before (does not match)\n"
        '  no   cohort "試験" in: is not in it\n'
        '  rollout of 100 %: distinct id "kim" is at 12.1731 %, in\n'
        "  variant fast: this condition gives it to all of its own\n"
    )
    told = json.loads(here("evaluate", "child", "bob", "--project", filled, "--json").stdout)
    assert (told["value"], told["reason"]) == (True, "condition_match")
    assert told["dependencies"] == [{"key": "checkout", "value": "fast", "problem": ""}]


def test_evaluate_tells_of_all_flags_on_one_line_each(here: Run, filled: str) -> None:
    for all_flags in (("-", "bob"), ("bob",)):
        done = here("evaluate", *all_flags, "--project", filled)
        assert (done.returncode, done.stderr) == (0, "")
        assert [line.split()[:2] for line in done.stdout.splitlines()] == [
            ["flag", "value"],
            ["checkout", '"fast"'],
            ["child", "true"],
            ["firm", "false"],
        ]
        assert "no_group_type: No group type" in done.stdout
    told = json.loads(here("evaluate", "bob", "--project", filled, "--json").stdout)
    assert [(each["key"], each["variant"]) for each in told] == [
        ("checkout", "fast"),
        ("child", None),
        ("firm", None),
    ]


REASONS = """\
flags:
  - {key: off, active: false, filters: {groups: [{}]}}
  - {key: nobody, filters: {groups: [{properties: [{key: plan, value: x, operator: exact}]}]}}
  - {key: none, filters: {groups: [{rollout_percentage: 0}]}}
  - {key: firm, filters: {aggregation_group_type_index: company, groups: [{}]}}
  - {key: held, filters: {groups: [{}], holdout: {id: 4, exclusion_percentage: 100}}}
  - {key: joined, filters: {groups: [{}], feature_enrollment: true}}
  - {key: phone, bucketing_identifier: device_id, filters: {groups: [{rollout_percentage: 50}]}}
"""
SAID = {
    "off": ("flag_disabled: Feature flag is disabled",),
    "nobody": ("no_condition_match: ", 'no   person plan exact "x": missing'),
    "none": ("out_of_rollout_bound: ", "condition 1: matches, but is out of the rollout", "not in"),
    "firm": ("no_group_type: ", "condition 1 on company: not asked", "no company to count by"),
    "held": ("holdout_condition_value", "holdout: decides", "holdout of 100 %: ", ", held out"),
    "joined": ("super_condition_value", "enrolment: decides", '"true" (given)', "not reached"),
    "phone": ("out_of_rollout_bound: ", "no device id was given", "no device id to count by"),
}


def test_evaluate_says_why_for_every_kind_of_reason(
    here: Run, new_project: Callable[..., str], file: Path
) -> None:
    project = new_project("company")
    file.write_text(REASONS)
    assert here("apply", str(file), "--project", project, "--yes").returncode == 0
    for key, words in SAID.items():
        choice = '$feature_enrollment/joined="true"'
        done = here("evaluate", key, "kim", "--property", choice, "--project", project)
        assert (done.returncode, done.stderr) == (0, "")
        assert [word for word in words if word not in done.stdout] == [], done.stdout
    done = here("evaluate", "phone", "kim", "--device-id", "p1", "--project", project)
    assert 'device id "p1" is at ' in done.stdout
    done = here(
        *("evaluate", "firm", "kim", "--group", "company=acme", "--project", project),
        *("--group-property", "company.plan=free"),
    )
    assert 'company "acme" is at ' in done.stdout
