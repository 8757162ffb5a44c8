"""`hedgerow rollouts`: rollout plans of the running service, and why they are in their state."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import ServiceClient, connect_service
from hedgerow.lib.text import escape_control_characters

READ, WRITE = "feature_flag:read", "feature_flag:write"
PAGE_SIZE = 100
SHOWN_EVALUATIONS = 20
NO_VALUE = "-"

PlanArgument = Annotated[int, typer.Argument(help="Id of the rollout plan.", min=1)]


class StateFilter(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    ROLLED_BACK = "rolled_back"
    COMPLETED = "completed"
    STOPPED = "stopped"


def list_rollouts(
    state: Annotated[StateFilter | None, typer.Option(help="Only plans in this state.")] = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """List rollout plans, newest first.

    Needs a personal API key with the scope feature_flag:read.

    Example: hedgerow rollouts list --state running
    """
    service = connect_service(server, key, project, READ)
    plans = list(_fetch_plans(service, {"state": state.value} if state else {}))
    if as_json:
        print_json(plans)
        return
    print_table(
        ("id", "flag", "name", "state", "percentage", "reason"),
        [
            (
                str(each["id"]),
                each["flag_key"],
                each["name"],
                each["state"],
                _format_percentage(each),
                each["reason"],
            )
            for each in plans
        ],
        empty="No rollout plans.",
    )


def show_rollout(
    id: PlanArgument,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Show the state of a rollout plan, its latest evidence and its history.

    Needs a personal API key with the scope feature_flag:read.

    Example: hedgerow rollouts show 1
    """
    service = connect_service(server, key, project, READ)
    plan = service.request("GET", f"rollout_plans/{id}/")
    path = f"rollout_plans/{id}/evaluations/?limit={SHOWN_EVALUATIONS}"
    history = service.request("GET", path)["results"]
    if as_json:
        print_json(plan | {"evaluations": history})
        return
    _print_state(plan)
    for each in plan["evidence"]:
        print(escape_control_characters(f"  {each['name']}: {each['verdict']}, {each['why']}"))
    print_table(
        ("time", "what", "why"),
        [(each["created_at"][:19], each["kind"], each["why"]) for each in history],
    )


def start_rollout(
    id: PlanArgument,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Start a rollout plan: its condition gets the percentage of the first step.

    Needs a personal API key with the scope feature_flag:write.
    """
    _make(connect_service(server, key, project, WRITE), id, "start")


def pause_rollout(
    id: PlanArgument,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Pause a running rollout plan. The flag keeps its percentage.

    Needs a personal API key with the scope feature_flag:write.
    """
    _make(connect_service(server, key, project, WRITE), id, "pause")


def resume_rollout(
    id: PlanArgument,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Resume a paused rollout plan. Its step begins anew.

    Needs a personal API key with the scope feature_flag:write.
    """
    _make(connect_service(server, key, project, WRITE), id, "resume")


def stop_rollout(
    id: PlanArgument,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """End a rollout plan. The flag keeps its percentage.

    Needs a personal API key with the scope feature_flag:write.
    """
    _make(connect_service(server, key, project, WRITE), id, "stop")


def roll_back_rollout(
    id: PlanArgument,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """End a rollout plan, with the percentage from before it.

    Needs a personal API key with the scope feature_flag:write.
    """
    _make(connect_service(server, key, project, WRITE), id, "rollback")


def _make(service: ServiceClient, id: int, action: str) -> None:
    _print_state(service.request("POST", f"rollout_plans/{id}/{action}/"))


def _print_state(plan: Mapping[str, Any]) -> None:
    state = plan["state"].replace("_", " ")
    text = f"{plan['flag_key']}: {state}, step at {_format_percentage(plan)}. {plan['reason']}"
    print(escape_control_characters(text.strip()))


def _format_percentage(plan: Mapping[str, Any]) -> str:
    percentage = plan["rollout_percentage"]
    return NO_VALUE if percentage is None else f"{percentage:g} %"


def _fetch_plans(service: ServiceClient, filters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    offset, has_more = 0, True
    while has_more:
        query = urlencode({**filters, "limit": PAGE_SIZE, "offset": offset})
        page = service.request("GET", f"rollout_plans/?{query}")
        yield from page["results"]
        offset, has_more = offset + PAGE_SIZE, page["next"] is not None
