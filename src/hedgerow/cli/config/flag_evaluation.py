"""`hedgerow flags evaluate`: the value of a flag for a distinct id, and the reason for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from hedgerow.app import commands
from hedgerow.cli.config.flag_explanation import describe_explanation, print_explanations
from hedgerow.cli.existing_installation import (
    check_installation,
    choose_project,
    load_installation_settings,
)
from hedgerow.cli.options import DataOption, JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json
from hedgerow.cli.service_client import (
    ServiceClient,
    find_service,
    load_service_settings,
    resolve_service_url,
    use_stored_login,
)
from hedgerow.errors import NotFound, OperatorError
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explanation import to_json
from hedgerow.lib import jsonio
from hedgerow.lib.clock import utc_now
from hedgerow.lib.text import escape_control_characters, explain_unstorable, format_value

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
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Evaluate the flag as it was then, for the person as it was known then: "
            "2026-01-31T12:00:00Z, or -7d.",
        ),
    ] = None,
    project: ProjectOption = None,
    server: ServerOption = None,
    personal_key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate flags for a distinct id and explain why.

    Reads the stored person and groups and changes nothing. On a service, the personal API key needs
    the scopes feature_flag:read and person:read. A VALUE is JSON, or else text: age=41
    is a number, version='"1.10"' is text. Property and group options are repeatable.

    With --at, the flag comes from the activity log and the person from the events of then. With a
    personal API key (scopes feature_flag:read and person:read) the running service answers. Without
    one the command opens the events of the data directory, which no running service may have open.
    """
    if distinct_id is None:
        key, distinct_id = ALL_FLAGS, key
    fields: dict[str, Any] = {
        "distinct_id": _check_storable(distinct_id),
        "person_properties": _parse_values(property, "--property"),
        "groups": dict(_parse_pair(each, "--group") for each in group or ()),
        "group_properties": _parse_group_values(group_property),
        "device_id": device_id,
    }
    for name in fields["group_properties"].keys() - fields["groups"].keys():
        raise OperatorError(f"--group-property {name}: choose the group with --group {name}=KEY.")
    if at is not None:
        settings = load_service_settings(server, personal_key, data_dir=data)
        if data is None:
            settings = use_stored_login(settings)
        _print_past(_evaluate_past(settings, project, key, {**fields, "timestamp": at}), as_json)
        return

    keys = None if key == ALL_FLAGS else [key]
    service = find_service(data, server, personal_key, project, "feature_flag:read")
    if service is not None:
        explained = service.request(
            "POST", "feature_flags/explanations/", {**fields, "flag_keys": keys}
        )
    else:
        chosen = None if keys is None else frozenset(keys)
        request = EvaluationRequest(**fields, flag_keys=chosen)
        explained = asyncio.run(_explain(load_installation_settings(data), project, request))
    if as_json:
        print_json(explained if key == ALL_FLAGS else explained[0])
    elif key == ALL_FLAGS:
        print_explanations(explained)
    else:
        _print_lines(describe_explanation(explained[0], distinct_id))


async def _explain(
    settings: Settings, project: int | None, request: EvaluationRequest
) -> list[dict[str, Any]]:
    async with commands.flags.open_flags(settings) as flags:
        chosen = choose_project(flags.state, project)
        found = await flags.explainer.explain(chosen, request, utc_now())
        return [to_json(each) for each in found]


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(escape_control_characters(line))


def _evaluate_past(
    settings: Settings, project: int | None, key: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Evaluate a flag at an earlier time, in the running service or here."""
    if key == ALL_FLAGS:
        raise OperatorError(
            "--at needs the key of a flag: hedgerow flags evaluate KEY ID --at TIME."
        )
    if settings.personal_key:
        service = ServiceClient(resolve_service_url(settings), settings.personal_key, project)
        path = f"feature_flags/{quote(key, safe='')}/test_evaluation/"
        answer: dict[str, Any] = service.request("POST", path, fields)
        return answer

    async def run() -> dict[str, Any]:
        async with commands.flag_history.open_past_flags(settings) as past:
            chosen = choose_project(past.state, project)
            try:
                return {
                    **await past.evaluate(chosen, key, **fields),
                    "evaluation_distinct_id": fields["distinct_id"],
                }
            except NotFound:
                raise OperatorError(
                    f'There is no flag "{key}" in project {chosen.id}, and there was none.'
                ) from None

    check_installation(settings)
    try:
        return asyncio.run(run())
    except commands.flag_history.FolderInUseError as error:
        raise OperatorError(
            f"{error} If that is the service, ask it: set a personal API key with --key or "
            "HEDGEROW_PERSONAL_KEY."
        ) from None


def _print_past(answer: Mapping[str, Any], as_json: bool) -> None:
    explanation = answer["explanation"]
    facts = {name: answer[name] for name in ("timestamp", "flag_changes_since", "notes")}
    if as_json:
        print_json({**explanation, **facts})
        return
    lines = describe_explanation(explanation, answer["evaluation_distinct_id"])
    print(escape_control_characters(next(lines)))
    changes = facts["flag_changes_since"]
    since = "has not changed since" if not changes else f"has changed {changes} time(s) since"
    print(f"  at       {facts['timestamp']}; the flag {since}")
    _print_lines(lines)
    _print_lines(f"note: {note}" for note in facts["notes"])


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
