"""`hedgerow experiments`: which there are and what they have shown, from the running service."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from hedgerow.cli.options import JsonOption
from hedgerow.cli.running import ServerOption, Service, ServiceProjectOption, service_of
from hedgerow.cli.tables import show, table
from hedgerow.lib.text import on_one_line

experiments = typer.Typer()

SCOPE = "experiment:read"
PAGE = 100
NOTHING = "-"

ReadKeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help=f"A personal key with the scope {SCOPE} [env HEDGEROW_PERSONAL_KEY].",
    ),
]


class Standing(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


@experiments.command("list")
def list_all(
    status: Annotated[
        Standing | None, typer.Option(help="Only those that stand so; paused: the flag is off.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="Those that are archived instead.")
    ] = False,
    as_json: JsonOption = False,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: ReadKeyOption = None,
) -> None:
    """List experiments, newest first.

    Example: hedgerow experiments list --status running
    """
    service = service_of(server, key, project, SCOPE)
    asked = {"archived": str(archived).lower()} | ({"status": status.value} if status else {})
    found = list(_listed(service, asked))
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    shown = table("id", "name", "status", "flag", "start", "end")
    for each in found:
        dates = [(each[name] or NOTHING)[:10] for name in ("start_date", "end_date")]
        name, flag = on_one_line(each["name"]), on_one_line(each["feature_flag_key"])
        shown.add_row(str(each["id"]), name, each["status"], flag, *dates)
    show(shown)


@experiments.command()
def results(
    id: Annotated[int, typer.Argument(help="The experiment's id.", min=1)],
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Count anew, whatever is kept.")
    ] = False,
    as_json: JsonOption = False,
    project: ServiceProjectOption = None,
    server: ServerOption = None,
    key: ReadKeyOption = None,
) -> None:
    """Show what an experiment has shown: who was exposed, what they did, how the variants compare.

    Example: hedgerow experiments results 1
    """
    service = service_of(server, key, project, SCOPE)
    found = service.ask("GET", f"experiments/{id}/results/?refresh={str(refresh).lower()}")
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    print(f"{found['feature_flag_key']}: {found['status']}, {found['method']} {found['level']:.3g}")
    exposed = table("variant", "people")
    for variant, people in found["exposures"]["total_exposures"].items():
        exposed.add_row(on_one_line(variant), str(people))
    show(exposed)
    mismatch = found["exposures"]["sample_ratio_mismatch"] or {}
    warnings = [
        ": ".join(part for part in (each["attr"], each["detail"]) if part)
        for each in found["warnings"]
    ]
    for warning in (*warnings, mismatch.get("warning")):
        if warning:
            print(f"Warning: {on_one_line(warning)}")
    for metric in (*found["metrics"], *found["metrics_secondary"]):
        _show_metric(metric, is_tested=found["method"] == "frequentist")


def _listed(service: Service, asked: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    offset, has_more = 0, True
    while has_more:
        query = urlencode({**asked, "limit": PAGE, "offset": offset})
        page = service.ask("GET", f"experiments/?{query}")
        yield from page["results"]
        offset, has_more = offset + PAGE, page["next"] is not None


def _show_metric(metric: Mapping[str, Any], *, is_tested: bool) -> None:
    print(f"\n{on_one_line(metric['name'])} ({on_one_line(metric['metric_type'])})")
    if metric["error"]:
        print(f"Cannot be measured: {on_one_line(metric['error']['detail'])}")
        return
    chance = ("p_value", "p") if is_tested else ("chance_to_win", "chance to win")
    between = "confidence_interval" if is_tested else "credible_interval"
    shown = table("variant", "people", "sum", "value", "lift", "interval", chance[1], "significant")
    # A flag may have lost its variants.
    variants = [each for each in (metric["baseline"], *metric["variant_results"]) if each]
    for each in variants:
        shown.add_row(
            on_one_line(each["key"]),
            str(each["number_of_samples"]),
            _number(each["sum"]),
            _number(each["value"]),
            _percent(each["lift"]),
            _interval(each[between]),
            _number(each[chance[0]]),
            {True: "yes", False: "no", None: NOTHING}[each["significant"]],
        )
    show(shown)
    for each in variants:
        if each["validation_failures"]:
            print(f"{on_one_line(each['key'])}: {', '.join(each['validation_failures'])}")


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:+.1%}"


def _interval(value: Sequence[float] | None) -> str:
    return NOTHING if value is None else " to ".join(_percent(each) for each in value)
