"""`hedgerow flags list`, `show`, `create`, `enable`, `disable`, `rollout`, on a running service."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer

from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import ServiceClient, connect_service
from hedgerow.errors import OperatorError
from hedgerow.lib.text import escape_control_characters, format_value

READ, WRITE = "feature_flag:read", "feature_flag:write"
PAGE_SIZE = 100

FlagArgument = Annotated[str, typer.Argument(metavar="FLAG", help="Key of the flag.")]
PercentArgument = Annotated[
    float, typer.Argument(metavar="PERCENT", min=0, max=100, help="From 0 to 100.")
]


class FlagState(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"
    STALE = "stale"


_ACTIVE = {FlagState.ENABLED: "true", FlagState.DISABLED: "false", FlagState.STALE: "STALE"}


def list_flags(
    search: Annotated[
        str | None, typer.Option(help="Only flags with this text in the key or name.")
    ] = None,
    state: Annotated[FlagState | None, typer.Option(help="Only flags in this state.")] = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """List the flags of a project, newest first.

    Needs a personal API key with the scope feature_flag:read.

    Example: hedgerow flags list --state enabled
    """
    service = connect_service(server, key, project, READ)
    chosen = {"search": search, "active": state and _ACTIVE[state]}
    flags = list(_fetch_flags(service, {name: text for name, text in chosen.items() if text}))
    if as_json:
        print_json(flags)
        return
    print_table(
        ("key", "state", "rollout", "name"),
        [(flag["key"], _name_state(flag), _describe_rollout(flag), flag["name"]) for flag in flags],
        empty="No flags.",
    )


def show_flag(
    flag: FlagArgument,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Show a flag with its conditions and variants.

    Needs a personal API key with the scope feature_flag:read.
    """
    found = _fetch_flag(connect_service(server, key, project, READ), flag)
    if as_json:
        print_json(found)
        return
    for line in _describe_flag(found):
        print(escape_control_characters(line))


def create_flag(  # noqa: PLR0913 - the options of a command
    flag: FlagArgument,
    name: Annotated[str, typer.Option(help="What the flag is for.")] = "",
    rollout: Annotated[
        float, typer.Option(min=0, max=100, help="Percentage of persons who get it. Default: 0.")
    ] = 0,
    property: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Only persons with this property. Repeatable."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=PERCENT", help="A variant and its share. Repeatable."),
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Create it disabled.")] = False,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Create a flag with one condition.

    Needs a personal API key with the scope feature_flag:write.

    Example: hedgerow flags create new-cart --property plan=pro --rollout 10
    """
    properties = [
        {"key": each, "value": value, "operator": "exact", "type": "person"}
        for each, value in _split_pairs("--property", property or ())
    ]
    condition = {"properties": properties, "rollout_percentage": _shorten(rollout)}
    filters: dict[str, Any] = {"groups": [condition]}
    if variant:
        filters["multivariate"] = {"variants": list(_parse_variants(variant))}
    body = {"key": flag, "name": name, "active": not disabled, "filters": filters}
    service = connect_service(server, key, project, WRITE)
    _report(service.request("POST", "feature_flags/", body), "Created", as_json)


def enable_flag(
    flag: FlagArgument,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Enable a flag. Its conditions decide who gets it.

    Needs a personal API key with the scope feature_flag:write. Enabling it again changes nothing.
    """
    service = connect_service(server, key, project, WRITE)
    _report(_change_flag(service, flag, {"active": True}), "Enabled", as_json)


def disable_flag(
    flag: FlagArgument,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Disable a flag: no person gets it any more.

    Needs a personal API key with the scope feature_flag:write. Disabling it again changes nothing.
    """
    service = connect_service(server, key, project, WRITE)
    _report(_change_flag(service, flag, {"active": False}), "Disabled", as_json)


def roll_out_flag(  # noqa: PLR0913 - the options of a command
    flag: FlagArgument,
    percent: PercentArgument,
    condition: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Condition, counted from 1, if it has several."),
    ] = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Set the percentage of a flag's condition.

    Needs a personal API key with the scope feature_flag:write. If the flag is changed in between,
    the command fails and changes nothing.

    Example: hedgerow flags rollout new-cart 25
    """
    service = connect_service(server, key, project, WRITE)
    found = _fetch_flag(service, flag)
    filters = found["filters"]
    place = _choose_condition(found, condition)
    groups = [
        {**group, "rollout_percentage": _shorten(percent)} if number == place else group
        for number, group in enumerate(filters["groups"])
    ]
    edit = {"filters": {**filters, "groups": groups}, "version": found["version"]}
    original = {"original_flag": {"filters": filters}}
    _report(_change_flag(service, flag, edit | original), "Changed", as_json)


def _choose_condition(flag: Mapping[str, Any], number: int | None) -> int:
    count = len(flag["filters"].get("groups") or ())
    if number is None and count == 1:
        return 0
    if number is None or number > count:
        raise OperatorError(
            f"The flag has {count} condition(s). Choose one with --condition: `hedgerow flags show "
            f"{flag['key']}` lists them."
        )
    return number - 1


def _fetch_flags(service: ServiceClient, chosen: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    offset, total = 0, 1
    while offset < total:
        query = urlencode({**chosen, "limit": PAGE_SIZE, "offset": offset})
        page = service.request("GET", f"feature_flags/?{query}")
        yield from page["results"]
        offset, total = offset + PAGE_SIZE, page["count"]


def _fetch_flag(service: ServiceClient, flag: str) -> dict[str, Any]:
    found: dict[str, Any] = service.request("GET", _build_path(flag))
    return found


def _change_flag(service: ServiceClient, flag: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = service.request("PATCH", _build_path(flag), fields)
    return changed


def _build_path(flag: str) -> str:
    return f"feature_flags/{quote(flag, safe='')}/"


def _split_pairs(option: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise OperatorError(f"{option} {text!r} is not NAME=VALUE, such as plan=pro.")
        yield name, value


def _parse_variants(texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name, text in _split_pairs("--variant", texts):
        try:
            share = float(text)
        except ValueError:
            detail = f"--variant {name}={text} has no percentage, such as test=50."
            raise OperatorError(detail) from None
        yield {"key": name, "rollout_percentage": _shorten(share)}


def _shorten(percent: float) -> int | float:
    return int(percent) if percent == int(percent) else percent


def _report(flag: dict[str, Any], done: str, as_json: bool) -> None:
    if as_json:
        print_json(flag)
        return
    line = f"{done} {flag['key']}: {_name_state(flag)}, {_describe_rollout(flag)}."
    print(escape_control_characters(line))


def _name_state(flag: Mapping[str, Any]) -> str:
    return "enabled" if flag["active"] else "disabled"


def _describe_rollout(flag: Mapping[str, Any]) -> str:
    groups = flag["filters"].get("groups") or ()
    shares = [_describe_share(each) for each in groups]
    return ", ".join(shares) if shares else "no conditions"


def _describe_share(group: Mapping[str, Any]) -> str:
    share = group.get("rollout_percentage")
    share = 100 if share is None else share
    count = len(group.get("properties") or ())
    filters = f" of persons with {count} filter(s)" if count else " of all"
    return f"{share:g} %{filters}"


def _describe_flag(flag: Mapping[str, Any]) -> Iterator[str]:
    yield f"{flag['key']}: {_name_state(flag)}"
    if flag["name"]:
        yield f"  {flag['name']}"
    for number, group in enumerate(flag["filters"].get("groups") or (), start=1):
        yield f"  condition {number}: {_describe_share(group)}"
        for each in group.get("properties") or ():
            operator = each.get("operator") or "exact"
            yield f"      {each.get('key')} {operator} {format_value(each.get('value'))}"
    variants = (flag["filters"].get("multivariate") or {}).get("variants") or ()
    for each in variants:
        yield f"  variant {each['key']}: {each['rollout_percentage']:g} %"
