"""`hedgerow flags`: why somebody gets what, and a project's flags as a file, out and in."""

import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
import uvloop

from hedgerow.app.flags import opened_flags
from hedgerow.cli.explanations import explanation_lines, show_all
from hedgerow.cli.files import (
    CheckOption,
    FileArgument,
    OutputOption,
    ProjectOption,
    YesOption,
    change_line,
    is_agreed,
    kept_line,
    project_of,
    read,
    refusing,
    shown,
    summary,
    write,
)
from hedgerow.cli.options import DataOption, JsonOption
from hedgerow.cli.prepared import prepared_settings
from hedgerow.errors import Unready
from hedgerow.filters.values import MISSING
from hedgerow.flags.decide import Asked
from hedgerow.flags.document import Composed
from hedgerow.flags.explain import explained
from hedgerow.flags.model import DISTINCT_ID_MAX
from hedgerow.flags.plan import Plan, Step
from hedgerow.flags.snapshot import Snapshot
from hedgerow.flags.told import Explanation, plain
from hedgerow.lib import jsonio
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import on_one_line, why_unstorable
from hedgerow.projects.activity import TERMINAL
from hedgerow.projects.model import Project
from hedgerow.settings import Settings

flags = typer.Typer()

ALL = "-"


@flags.command()
def evaluate(  # noqa: PLR0913 - the options of a verb
    key: Annotated[str, typer.Argument(help="The flag's key, or - for all flags.")],
    distinct_id: Annotated[
        str | None, typer.Argument(help="Whom to evaluate for. Alone, it means all flags.")
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A person property, over the stored one."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=KEY", help="A group that they belong to.")
    ] = None,
    group_property: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE.NAME=VALUE", help="A group property, over the stored one."),
    ] = None,
    device_id: Annotated[
        str | None, typer.Option(help="Their device, for flags that count by devices.")
    ] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain what somebody gets from a flag, condition by condition, and why.

    The stored person and groups are read, and nothing is changed. A VALUE is JSON, or else text:
    age=41 is a number, version='"1.10"' is text. All options but --device-id may be repeated.
    """
    if distinct_id is None:
        key, distinct_id = ALL, key
    asked = Asked(
        distinct_id=_storable(distinct_id),
        person_properties=_values(property, "--property"),
        groups=dict(_pair(each, "--group") for each in group or ()),
        group_properties=_group_values(group_property),
        device_id=device_id,
        flag_keys=None if key == ALL else frozenset({key}),
    )

    async def run(settings: Settings) -> list[Explanation]:
        async with opened_flags(settings) as (state, rooms):
            found = project_of(state, project)
            snapshot = await rooms.board.snapshot(found)
            _check(snapshot, asked, found)
            types = snapshot.definitions.group_types
            stored = await rooms.subjects.subject(
                found.id,
                asked.distinct_id[:DISTINCT_ID_MAX],
                {types[name]: key for name, key in asked.groups.items()},
            )
            return explained(snapshot, asked, stored, utc_now())

    found = uvloop.run(run(prepared_settings(data)))
    if as_json:
        told = [plain(each) for each in found]
        print(json.dumps(told if key == ALL else told[0]))
    elif key == ALL:
        show_all(found)
    else:
        for line in explanation_lines(found[0], asked):
            print(on_one_line(line))


@flags.command()
def export(
    project: ProjectOption = None,
    output: OutputOption = None,
    data: DataOption = None,
) -> None:
    """Write all flags of a project as YAML.

    Other flags are named by key, and cohorts and group types by name, so that the file can be
    applied to another project. Flags with encrypted payloads and those of surveys are left out.
    """

    async def run(settings: Settings) -> tuple[Project, Composed]:
        async with opened_flags(settings) as (state, rooms):
            found = project_of(state, project)
            return found, await rooms.as_code.document(found)

    found, made = uvloop.run(run(prepared_settings(data)))
    for flag in made.left_out:
        print(f"left out: {flag.key}, whose payloads are encrypted", file=sys.stderr)
    for place in made.nameless:
        print(f"has no name of its own, so that only its id is written: {place}", file=sys.stderr)
    count = len(made.document["flags"])
    write(found, "Flags", made.document, output, f"{count} flag(s)")


@flags.command()
def apply(
    file: FileArgument,
    project: ProjectOption = None,
    yes: YesOption = False,
    check: CheckOption = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete flags that are not in the file.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Make a project's flags what a file says: show the difference, ask, then do it.

    Everything is applied, or nothing is. A flag is known by its key. What the file leaves out of a
    flag goes back to its default; flags that it leaves out stay, unless `--prune` is given.
    """
    document = read(file)

    async def run(settings: Settings) -> None:
        async with opened_flags(settings) as (state, rooms):
            target = project_of(state, project)
            with refusing(file):
                plan = await rooms.as_code.plan(
                    target, document, prune=prune, actor=TERMINAL, now=utc_now()
                )
            if is_agreed(_plan_lines(plan), is_empty=plan.is_empty, yes=yes, check=check):
                with refusing(file):
                    await rooms.as_code.apply(plan, TERMINAL, utc_now())
                print("Applied.")

    uvloop.run(run(prepared_settings(data)))


def _plan_lines(plan: Plan) -> Iterator[str]:
    if not plan.is_empty:
        yield "flags"
    for step in plan.created:
        yield f"  + {step.after.key}, new"
        yield from _change_lines(step)
    for step in plan.changed:
        yield f"  ~ {step.after.key}"
        yield from _change_lines(step)
    for flag in plan.deleted:
        yield f"  - {flag.key}"
    for flag in plan.kept:
        if flag.id in plan.held:
            yield f"  {flag.key} stays: {plan.held[flag.id]}"
    kept = [flag.key for flag in plan.kept if flag.id not in plan.held]
    if kept:
        yield kept_line(kept)
    yield summary(len(plan.created), len(plan.changed), len(plan.deleted))


def _change_lines(step: Step) -> Iterator[str]:
    for change in step.changes:
        yield change_line(change.field, change.before, change.after, MISSING)


# What the command line says about somebody.


def _storable(text: str) -> str:
    if unstorable := why_unstorable(text):
        raise Unready(f"This cannot be an id: {unstorable[1]}")
    return text


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Unready(f"{option} {shown(text)}: a name, = and a value are wanted.")
    return name, _storable(value)


def _values(pairs: Sequence[str] | None, option: str) -> dict[str, Any]:
    return {name: _value(text) for name, text in (_pair(each, option) for each in pairs or ())}


def _value(text: str) -> Any:
    try:
        return jsonio.parse(text.encode())
    except jsonio.JsonError:
        return text


def _group_values(pairs: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path, value in _values(pairs, "--group-property").items():
        type, dot, name = path.partition(".")
        if not type or not dot or not name:
            raise Unready(f"--group-property {shown(path)}: a group type, . and a name are wanted.")
        found.setdefault(type, {})[name] = value
    return found


def _check(snapshot: Snapshot, asked: Asked, project: Project) -> None:
    """What the service passes over in silence is most likely a slip here."""
    for key in asked.flag_keys or ():
        if snapshot.of(key) is None:
            keys = [each.flag.key for each in snapshot.everything]
            near = difflib.get_close_matches(key, keys, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise Unready(f"There is no flag {shown(key)} in project {project.id}.{hint}")
    types = snapshot.definitions.group_types
    for name in asked.groups:
        if name not in types:
            known = ", ".join(types) or "none"
            raise Unready(f"There is no group type {shown(name)}. The project has: {known}.")
    for name in asked.group_properties:
        if name not in asked.groups:
            raise Unready(f"Which {name}? Name the group with --group {name}=KEY.")
