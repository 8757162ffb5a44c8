"""`hedgerow rollouts`: rollout plans of the running service, and why they are in their state."""

from enum import StrEnum
from typing import Annotated

import typer

from hedgerow.cli.data.guided_flags import READ, GuideCommands, format_percentage
from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.service_client import connect_service


class PlanStateFilter(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    ROLLED_BACK = "rolled_back"
    COMPLETED = "completed"
    STOPPED = "stopped"


PLANS = GuideCommands(
    path="rollout_plans",
    history="evaluations",
    column="percentage",
    empty="No rollout plans.",
    verb="step at",
    describe=lambda plan: format_percentage(plan["rollout_percentage"]),
    list_evidence=lambda plan: [
        f"{each['name']}: {each['verdict']}, {each['why']}" for each in plan["evidence"]
    ],
)


def list_rollouts(
    state: Annotated[PlanStateFilter | None, typer.Option(help="Only plans in this state.")] = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """List rollout plans, newest first.

    Needs a personal API key with the scope feature_flag:read.

    Example: hedgerow rollouts list --state running
    """
    PLANS.print_list(connect_service(server, key, project, READ), state, as_json=as_json)


show_rollout = PLANS.build_show(
    "Show the state of a rollout plan, its latest evidence and its history.",
    "hedgerow rollouts show 1",
)
start_rollout = PLANS.build_action(
    "start", "Start a rollout plan: its condition gets the percentage of the first step."
)
pause_rollout = PLANS.build_action(
    "pause", "Pause a running rollout plan. The flag keeps its percentage."
)
resume_rollout = PLANS.build_action("resume", "Resume a paused rollout plan. Its step begins anew.")
stop_rollout = PLANS.build_action("stop", "End a rollout plan. The flag keeps its percentage.")
roll_back_rollout = PLANS.build_action(
    "rollback", "End a rollout plan, with the percentage from before it."
)
