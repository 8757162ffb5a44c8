"""`hedgerow bandits`: bandits of the running service, and why they split people as they do."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from hedgerow.cli.data.guided_flags import (
    NO_VALUE,
    READ,
    GuideCommands,
    format_percentage,
)
from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.service_client import connect_service


class BanditStateFilter(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


def _describe_split(bandit: Mapping[str, Any]) -> str:
    parts = [f"{key} {format_percentage(share)}" for key, share in bandit["split"].items()]
    return ", ".join(parts) or NO_VALUE


def _describe_variant(variant: Mapping[str, Any]) -> str:
    value, chance = variant["value"], variant["probability_best"]
    return (
        f"{variant['key']}: {variant['persons']} people,"
        f" value {NO_VALUE if value is None else f'{value:.4g}'},"
        f" best with a probability of {NO_VALUE if chance is None else f'{chance:.1%}'}"
    )


BANDITS = GuideCommands(
    path="bandits",
    history="allocations",
    column="split",
    verb="split",
    empty="No bandits.",
    describe=_describe_split,
    list_evidence=lambda bandit: [_describe_variant(each) for each in bandit["variants"]],
)


def list_bandits(
    state: Annotated[
        BanditStateFilter | None, typer.Option(help="Only bandits in this state.")
    ] = None,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """List bandits, newest first.

    Needs a personal API key with the scope feature_flag:read.

    Example: hedgerow bandits list --state running
    """
    BANDITS.print_list(connect_service(server, key, project, READ), state, as_json=as_json)


show_bandit = BANDITS.build_show(
    "Show the split of a bandit, its latest evidence and its history.", "hedgerow bandits show 1"
)
start_bandit = BANDITS.build_action(
    "start", "Start a bandit: from now on it moves the split of its flag."
)
pause_bandit = BANDITS.build_action("pause", "Pause a running bandit. The flag keeps its split.")
resume_bandit = BANDITS.build_action("resume", "Resume a paused bandit.")
stop_bandit = BANDITS.build_action("stop", "End a bandit. The flag keeps its split.")
