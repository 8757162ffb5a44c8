"""`hedgerow experiments`: experiments and their results, from the running service."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from hedgerow.cli.options import JsonOption, KeyOption, ProjectOption, ServerOption
from hedgerow.cli.output import print_json, print_table
from hedgerow.cli.service_client import connect_service
from hedgerow.lib.text import escape_control_characters

SCOPE = "experiment:read"
NO_VALUE = "-"


class StatusFilter(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


def list_experiments(
    status: Annotated[
        StatusFilter | None,
        typer.Option(help="Only experiments with this status; paused: the flag is off."),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="List archived experiments instead.")
    ] = False,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """List experiments, newest first.

    Needs a personal API key with the scope experiment:read.

    Example: hedgerow experiments list --status running
    """
    service = connect_service(server, key, project, SCOPE)
    filters = {"archived": str(archived).lower()} | ({"status": status.value} if status else {})
    experiments = list(service.list_all("experiments/", filters))
    if as_json:
        print_json(experiments)
        return
    print_table(
        ("id", "name", "status", "flag", "start", "end"),
        [
            (
                str(each["id"]),
                each["name"],
                each["status"],
                each["feature_flag_key"],
                *((each[name] or NO_VALUE)[:10] for name in ("start_date", "end_date")),
            )
            for each in experiments
        ],
        empty="No experiments.",
    )


def show_results(
    id: Annotated[int, typer.Argument(help="Id of the experiment.", min=1)],
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Compute anew instead of using cached results.")
    ] = False,
    as_json: JsonOption = False,
    project: ProjectOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Show the exposures and the metric results of an experiment.

    Needs a personal API key with the scope experiment:read.

    Example: hedgerow experiments results 1
    """
    service = connect_service(server, key, project, SCOPE)
    path = f"experiments/{id}/results/?refresh={str(refresh).lower()}"
    results = service.request("GET", path)
    if as_json:
        print_json(results)
        return
    method, level = results["method"], results["level"]
    print(f"{results['feature_flag_key']}: {results['status']}, {method} {level:.3g}")
    exposures = results["exposures"]
    print_table(
        ("variant", "people"),
        [(variant, str(count)) for variant, count in exposures["total_exposures"].items()],
    )
    mismatch = exposures["sample_ratio_mismatch"] or {}
    warnings = [
        ": ".join(part for part in (each["attr"], each["detail"]) if part)
        for each in results["warnings"]
    ]
    for warning in (*warnings, mismatch.get("warning")):
        if warning:
            print(f"Warning: {escape_control_characters(warning)}")
    for metric in (*results["metrics"], *results["metrics_secondary"]):
        _print_metric(metric, is_frequentist=method == "frequentist")


def _print_metric(metric: Mapping[str, Any], *, is_frequentist: bool) -> None:
    title = f"{metric['name']} ({metric['metric_type']})"
    print(f"\n{escape_control_characters(title)}")
    if metric["error"]:
        print(f"Cannot be computed: {escape_control_characters(metric['error']['detail'])}")
        return
    chance = ("p_value", "p") if is_frequentist else ("chance_to_win", "chance to win")
    interval = "confidence_interval" if is_frequentist else "credible_interval"
    # A flag may have lost its variants.
    variants = [each for each in (metric["baseline"], *metric["variant_results"]) if each]
    print_table(
        ("variant", "people", "sum", "value", "lift", "interval", chance[1], "significant"),
        [
            (
                each["key"],
                str(each["number_of_samples"]),
                _format_number(each["sum"]),
                _format_number(each["value"]),
                _format_percent(each["lift"]),
                _format_interval(each[interval]),
                _format_number(each[chance[0]]),
                {True: "yes", False: "no", None: NO_VALUE}[each["significant"]],
            )
            for each in variants
        ],
    )
    for each in variants:
        if each["validation_failures"]:
            failures = ", ".join(each["validation_failures"])
            print(escape_control_characters(f"{each['key']}: {failures}"))


def _format_number(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.4g}"


def _format_percent(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:+.1%}"


def _format_interval(value: Sequence[float] | None) -> str:
    return NO_VALUE if value is None else " to ".join(_format_percent(each) for each in value)
