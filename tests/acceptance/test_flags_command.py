"""`hedgerow flags`: explain values, and copy flags from one project to another."""

import asyncio
import json
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

from hedgerow.app.state import state_location
from hedgerow.errors import Conflict
from hedgerow.flags.as_code.apply import FlagsAsCode
from hedgerow.lib.clock import utc_now
from hedgerow.lib.yamlio import decode
from hedgerow.persons.cohorts import CohortFields, Cohorts
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import ProjectId
from hedgerow.settings import load_settings
from hedgerow.storage.connect import open_database
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.projects.directory import SqlDirectoryStore
from hedgerow.storage.tables import early_access_features, group_types
from tests.contract.storage.conftest import build_no_entry
from tests.support.live import PROJECT_KEY, Installation, build_environment, wait_for

Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


class HalfWay(list[Any]):
    """A sequence that fails when it is read."""

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
    """On SQLite only: tests/contract/stores runs the same queries on both engines."""
    return Installation(data=tmp_path_factory.mktemp("installation") / "data", settings={})


@pytest.fixture(scope="module", autouse=True)
def _made(installation: Installation) -> None:
    assert installation.run_in_process("init").returncode == 0


@pytest.fixture
def here(installation: Installation) -> Run:
    """Return a function that runs a command of `flags`, or of another group, in this process."""

    def run(*arguments: str, of: str = "flags") -> Done:
        return installation.run_in_process(of, *arguments)

    return run


@asynccontextmanager
async def opened(installation: Installation) -> AsyncIterator[Database]:
    given = build_environment(**installation.settings) | {
        "HEDGEROW_DATA_DIR": str(installation.data)
    }
    database = open_database(state_location(load_settings(given)[0]))
    try:
        yield database
    finally:
        await database.close()


async def fill(installation: Installation, project: ProjectId, *, types: tuple[str, ...]) -> None:
    """Store a person, a member of a static cohort, and a group of each type."""
    async with opened(installation) as database:
        persons, cohorts = SqlPersonStore(database), Cohorts(SqlCohortStore(database))
        await persons.upsert_person(
            project, ["kim"], lambda _: {"age": 41}, build_no_entry, utc_now()
        )
        await persons.upsert_person(
            project, ["bob"], lambda _: {"age": 20}, build_no_entry, utc_now()
        )
        fields = CohortFields(name="試験", is_static=True)
        cohort = await cohorts.create(project, fields, COMMAND_LINE, utc_now())
        await cohorts.add_members(cohort, ["bob"])
        for index, name in enumerate(types):
            row = {"project_id": project, "index": index, "name": name}
            await database.write(partial(_add_type, row))
            await persons.upsert_group(project, index, "acme", {"plan": "pro"}, utc_now())


def _add_type(row: dict[str, Any], connection: Connection) -> None:
    connection.execute(insert(group_types), row)


@pytest.fixture
def new_project(here: Run, installation: Installation) -> Callable[..., str]:
    def make(*types: str) -> str:
        """Return the id of a project without flags, with these group types."""
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
    """Return the id of a project that the file was applied to."""
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


def test_flags_are_copied_to_a_project_with_other_ids(
    installation: Installation,
    here: Run,
    filled: str,
    new_project: Callable[..., str],
    tmp_path: Path,
) -> None:
    out = tmp_path / "exported.yaml"
    done = installation.run_in_process("flags", "export", "--project", filled, "--output", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Wrote 3 flag(s) to {out}.\n"
    other = new_project("team", "company")
    done = installation.run_in_process("flags", "apply", str(out), "--project", other, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert check(here, out, other, "--prune") == (0, "Nothing to change.\n")
    assert check(here, out, filled, "--prune") == (0, "Nothing to change.\n")
    assert exported(here, other) == exported(here, filled)
    for project in (filled, other):
        done = here("evaluate", "child", "bob", "--project", project)
        assert "  value    true\n" in done.stdout
        done = here("evaluate", "firm", "bob", "--group", "company=acme", "--project", project)
        assert "  value    true\n" in done.stdout


def test_an_unknown_cohort_or_group_type_is_named(
    here: Run, new_project: Callable[..., str], file: Path
) -> None:
    project = new_project()
    apply = ("apply", str(file), "--project", project, "--yes")
    place = "flags[2] (firm): filters.aggregation_group_type_index: "
    assert_one_line(here(*apply), f'{file}: {place}There is no group type "company"')
    file.write_text(DOCUMENT.replace("試験", "Unknown"))
    place = "flags[1] (checkout): filters.groups[1].properties[0].value: "
    assert_one_line(here(*apply), f'{file}: {place}There is no cohort "Unknown" in this project')
    assert exported(here, project) == []


def test_export_prints_the_document(here: Run, filled: str) -> None:
    done = here("export", "--project", filled)
    assert here("export", "--project", filled, "--output", "-").stdout == done.stdout
    assert done.stdout.startswith(f'# Flags of project {filled}, "Web shop".\nversion: 1\n')
    checkout, child, firm = decode(done.stdout)["flags"]
    assert list(checkout) == ["key", "name", "tags", "filters"]
    assert checkout["filters"]["payloads"] == {"fast": '{"color":"red"}'}
    assert list(child) == ["key", "filters"]
    assert firm["filters"]["aggregation_group_type_index"] == "company"


def test_a_json_file_is_accepted(here: Run, filled: str, tmp_path: Path) -> None:
    file = tmp_path / "flags.json"
    items = exported(here, filled)
    items[0]["name"] = "Smile 😀\x7f"
    file.write_text(json.dumps({"version": 1, "flags": items}, indent="\t"))
    done = here("apply", str(file), "--project", filled, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(here, filled) == items


def test_check_exits_with_1_if_something_differs_and_changes_nothing(
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


def test_flags_that_are_not_in_the_file_are_kept_unless_pruned(
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


async def add_feature(installation: Installation, project: str, key: str) -> None:
    """Add an early access feature of a flag."""
    async with opened(installation) as database:
        found = await SqlFlagStore(database).definitions(ProjectId(int(project)), "UTC")
        [flag] = [flag for flag in found.flags if flag.key == key]
        feature = {
            "id": str(uuid4()),
            "project_id": flag.project_id,
            "flag_id": flag.id,
            "name": key.title(),
            "description": "",
            "stage": "beta",
            "documentation_url": "",
            "payload": {},
            "created_at": utc_now(),
        }
        await database.write(lambda c: c.execute(insert(early_access_features), feature).close())


def test_check_reports_the_error_of_apply(
    installation: Installation, here: Run, filled: str, file: Path
) -> None:
    """A feature cannot use a flag with variants, which only the database knows."""
    asyncio.run(add_feature(installation, filled, "child"))
    before = exported(here, filled)
    variants = "{variants: [{key: a, rollout_percentage: 100}]}"
    file.write_text(
        f"flags: [{{key: child, filters: {{groups: [{{}}], multivariate: {variants}}}}}]\n"
    )
    checked = here("apply", str(file), "--project", filled, "--check")
    applied = here("apply", str(file), "--project", filled, "--yes")
    assert_one_line(checked, f"{file}: child: filters: Multivariate", "belongs to 'Child'")
    assert (checked.returncode, checked.stderr) == (applied.returncode, applied.stderr)
    assert exported(here, filled) == before


def test_a_flag_of_a_feature_is_not_pruned(
    installation: Installation, here: Run, filled: str, file: Path
) -> None:
    asyncio.run(add_feature(installation, filled, "checkout"))
    file.write_text("flags: []\n")
    assert check(here, file, filled, "--prune") == (
        1,
        "flags\n"
        "  - child\n"
        "  - firm\n"
        "  checkout is kept: it belongs to the early access feature 'Checkout'. Delete the early "
        "access feature first.\n"
        "0 to create, 0 to change, 2 to delete.\n",
    )
    done = here("apply", str(file), "--project", filled, "--prune", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert [item["key"] for item in exported(here, filled)] == ["checkout"]


def test_nothing_is_changed_without_a_terminal_to_ask_on(
    installation: Installation, here: Run, filled: str, file: Path
) -> None:
    file.write_text("flags: []\n")
    for source, stdin in ((str(file), ""), ("-", file.read_text())):
        arguments = ("flags", "apply", source, "--project", filled, "--prune")
        done = installation.run_with_input(*arguments, stdin=stdin)
        assert done.stdout.endswith("0 to create, 0 to change, 3 to delete.\n")
        assert_one_line(Done([], done.returncode, "", done.stderr), "Nothing was changed", "--yes")
    assert len(exported(here, filled)) == 3


@pytest.mark.parametrize(("answer", "left", "status"), [("n", 3, 1), ("y", 0, 0)])
def test_a_terminal_is_asked_for_confirmation(
    installation: Installation,
    here: Run,
    filled: str,
    file: Path,
    answer: str,
    left: int,
    status: int,
) -> None:
    file.write_text("flags: []\n")
    arguments = ("flags", "apply", str(file), "--project", filled, "--prune")
    done = installation.run_with_input(*arguments, stdin=f"{answer}\n", on_terminal=True)
    assert done.returncode == status, done.stderr
    assert "Apply this? [y/N]: " in done.stdout
    assert len(exported(here, filled)) == left


def test_a_concurrent_change_is_not_overwritten(
    installation: Installation,
    here: Run,
    filled: str,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text(DOCUMENT.replace("The new checkout", "Theirs"))

    def meddle(question: str) -> None:
        done = installation.run("flags", "apply", str(theirs), "--project", filled, "--yes")
        assert done.returncode == 0, done.stderr

    monkeypatch.setattr(sys.modules["hedgerow.cli.config.as_code"], "confirm", meddle)
    file.write_text(DOCUMENT.replace("The new checkout", "Ours") + "  - {key: x, filters: {}}\n")
    file.write_text(file.read_text().replace("filters: {}", "filters: {groups: [{}]}"))
    done = here("apply", str(file), "--project", filled)
    assert done.stdout.endswith("1 to create, 1 to change, 0 to delete.\n")
    assert_one_line(Done([], done.returncode, "", done.stderr), "have changed since")
    assert [item.get("name") for item in exported(here, filled)] == ["Theirs", None, None]


def test_all_flags_are_stored_or_none(
    installation: Installation, here: Run, new_project: Callable[..., str]
) -> None:
    id = ProjectId(int(new_project("company")))

    async def run() -> list[int]:
        async with opened(installation) as database:
            project = (await SqlDirectoryStore(database).snapshot()).projects[id]
            store = SqlFlagStore(database)
            as_code = FlagsAsCode(store)
            options: Any = {"prune": False, "actor": COMMAND_LINE, "now": utc_now()}
            plan = await as_code.plan(project, decode(DOCUMENT), **options)
            before = await store.generation(id)
            with pytest.raises(Conflict, match="half way"):
                await as_code.apply(replace(plan, deleted=HalfWay()), COMMAND_LINE, utc_now())
            steps = [await store.generation(id) - before]
            assert (await store.definitions(id, "UTC")).flags == []
            await as_code.apply(plan, COMMAND_LINE, utc_now())
            return [*steps, await store.generation(id) - before]

    assert asyncio.run(run()) == [0, 1]
    assert len(exported(here, str(id))) == 3


def test_the_audit_trail_names_the_command_line_and_a_running_server_sees_the_flags(
    installation: Installation, file: Path
) -> None:
    file.write_text("flags:\n  - {key: seen, filters: {groups: [{}]}}\n")
    with installation.server() as server, server.client() as client:
        body = {"api_key": PROJECT_KEY, "distinct_id": "kim"}

        def decided() -> bool:
            return bool(client.post("/decide/?v=3", json=body).json()["featureFlags"].get("seen"))

        assert not decided()
        done = installation.run("flags", "apply", str(file), "--project", "1", "--yes")
        assert done.returncode == 0, done.stderr
        wait_for(decided, at_most_s=60)
        trail = client.get("/api/projects/1/feature_flags/activity/").text
    assert "hedgerow command line" in trail


PLACES = {
    "flags: {}\n": "flags: ",
    "version: 9\nflags: []\n": "version: ",
    "": "Expected an object with",
    "stuff: 1\n": "`stuff`",
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
def test_an_error_is_one_line_that_names_the_file_and_the_field(
    here: Run, file: Path, text: str
) -> None:
    file.write_text(text)
    done = here("apply", str(file), "--project", "1", "--yes")
    assert_one_line(done, str(file), PLACES[text])


def test_unknown_files_projects_and_flags_are_one_line(
    here: Run, filled: str, tmp_path: Path, file: Path
) -> None:
    complaints = {
        ("apply", str(tmp_path / "none"), "--project", "1"): "No such file",
        ("apply", str(file), "--project", "999"): "no project 999",
        ("apply", str(file)): f"{filled} (Web shop)",
        ("export",): "--project",
        ("export", "--project", "1", "-o", str(tmp_path / "none" / "x")): "No such file",
        ("evaluate", "checkot", "kim", "--project", filled): "Did you mean checkout?",
        ("evaluate", "firm", "kim", "--group", "moon=1", "--project", filled): "one of: company",
        ("evaluate", "firm", "kim", "--group", "moon", "--project", filled): "--group",
        ("evaluate", "firm", "kim", "--property", "=1", "--project", filled): "--property",
        ("evaluate", "firm", "kim", "--group-property", "a=1", "--project", filled): "TYPE.NAME",
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
        "condition 2: not reached (does not match)\n"
        '  no   cohort "試験" in: is not in it\n'
        '  rollout of 100 %: distinct id "kim" is at 12.1731 %, in\n'
        "  variant fast: fixed by this condition\n"
    )
    explanation = json.loads(here("evaluate", "child", "bob", "--project", filled, "--json").stdout)
    assert (explanation["value"], explanation["reason"]) == (True, "condition_match")
    assert explanation["dependencies"] == [{"key": "checkout", "value": "fast", "problem": ""}]


def test_evaluate_shows_all_flags_on_one_line_each(here: Run, filled: str) -> None:
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
    explanations = json.loads(here("evaluate", "bob", "--project", filled, "--json").stdout)
    assert [(each["key"], each["variant"]) for each in explanations] == [
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
EXPECTED_WORDS = {
    "off": ("flag_disabled: Feature flag is disabled",),
    "nobody": ("no_condition_match: ", 'no   person plan exact "x": missing'),
    "none": ("out_of_rollout_bound: ", "condition 1: matches, but is out of the rollout", "not in"),
    "firm": ("no_group_type: ", "condition 1 on company: not asked", "no company to bucket by"),
    "held": ("holdout_condition_value", "holdout: decides", "holdout of 100 %: ", ", held out"),
    "joined": ("super_condition_value", "enrolment: decides", '"true" (given)', "not reached"),
    "phone": ("out_of_rollout_bound: ", "no device id was given", "no device id to bucket by"),
}


def test_evaluate_explains_every_reason(
    here: Run, new_project: Callable[..., str], file: Path
) -> None:
    project = new_project("company")
    file.write_text(REASONS)
    assert here("apply", str(file), "--project", project, "--yes").returncode == 0
    for key, words in EXPECTED_WORDS.items():
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
