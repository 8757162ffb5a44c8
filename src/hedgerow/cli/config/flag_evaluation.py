"""`hedgerow flags evaluate`: the value of a flag for a distinct id, and the reason for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hedgerow.app import commands
from hedgerow.cli.config.flag_explanation import describe_explanation, print_explanations
from hedgerow.cli.existing_installation import choose_project, load_installation_settings
from hedgerow.cli.options import DataOption, JsonOption, ProjectOption
from hedgerow.cli.output import format_value, print_json
from hedgerow.errors import OperatorError
from hedgerow.flags.evaluation.explanation import Explanation, to_json
from hedgerow.lib import jsonio
from hedgerow.lib.text import escape_control_characters, explain_unstorable

if TYPE_CHECKING:
    from hedgerow.settings import Settings

ALL_FLAGS = "-"


def evaluate_flags(  # noqa: PLR0913 - the options of a command
    key: Annotated[str, typer.Argument(help="Key of the flag, or - for all flags.")],
    distinct_id: Annotated[
        str | None,
        typer.Argument(help="Distinct id to evaluate for. As the only argument: all flags."),
    ] = None,
    property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Person property that overrides the stored one."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="TYPE=KEY", help="Group of the person.")
    ] = None,
    group_property: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE.NAME=VALUE", help="Group property that overrides the stored one."
        ),
    ] = None,
    device_id: Annotated[
        str | None, typer.Option(help="Device id, for flags that bucket by device.")
    ] = None,
    project: ProjectOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate flags for a distinct id and explain why.

    Reads the stored person and groups and changes nothing. A VALUE is JSON, or else text: age=41
    is a number, version='"1.10"' is text. All options except --device-id are repeatable.
    """
    if distinct_id is None:
        key, distinct_id = ALL_FLAGS, key
    fields: dict[str, Any] = {
        "distinct_id": _check_storable(distinct_id),
        "person_properties": _parse_values(property, "--property"),
        "groups": dict(_parse_pair(each, "--group") for each in group or ()),
        "group_properties": _parse_group_values(group_property),
        "device_id": device_id,
        "flag_keys": None if key == ALL_FLAGS else frozenset({key}),
    }

    async def run(settings: Settings) -> Sequence[Explanation]:
        async with commands.flags.open_flags(settings) as flags:
            return await flags.explain(choose_project(flags.state, project), **fields)

    explanations = asyncio.run(run(load_installation_settings(data)))
    if as_json:
        values = [to_json(each) for each in explanations]
        print_json(values if key == ALL_FLAGS else values[0])
    elif key == ALL_FLAGS:
        print_explanations(explanations)
    else:
        for line in describe_explanation(explanations[0], distinct_id):
            print(escape_control_characters(line))


def _check_storable(text: str) -> str:
    if problem := explain_unstorable(text):
        raise OperatorError(f"This cannot be an id: {problem[1]}")
    return text


def _parse_pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise OperatorError(f"{option} {format_value(text)}: expected NAME=VALUE.")
    return name, _check_storable(value)


def _parse_values(pairs: Sequence[str] | None, option: str) -> dict[str, Any]:
    parsed = (_parse_pair(each, option) for each in pairs or ())
    return {name: _parse_value(text) for name, text in parsed}


def _parse_value(text: str) -> Any:
    try:
        return jsonio.parse(text.encode())
    except jsonio.JsonError:
        return text


def _parse_group_values(pairs: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    for path, value in _parse_values(pairs, "--group-property").items():
        group_type, dot, name = path.partition(".")
        if not group_type or not dot or not name:
            raise OperatorError(f"--group-property {format_value(path)}: expected TYPE.NAME=VALUE.")
        values.setdefault(group_type, {})[name] = value
    return values
