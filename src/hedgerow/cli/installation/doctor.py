"""`hedgerow doctor`: check an installation, one line per check."""

from dataclasses import asdict
from typing import Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.options import DataOption, JsonOption, format_command, load_command_settings
from hedgerow.cli.output import colorize, print_json
from hedgerow.lib.text import escape_control_characters

VERDICT_COLORS = {"ok": "green", "warning": "yellow", "problem": "red"}
_VERDICT_WIDTH = max(map(len, VERDICT_COLORS))


def doctor(
    clickhouse: Annotated[
        bool,
        typer.Option(
            "--clickhouse",
            help="Also check the ClickHouse server: version, settings, macros, and a row that is "
            "written and read. Creates a table for this time.",
        ),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check storage, keys, the clock, and work that waits: events, destinations and jobs.

    Exits with status 1 if there is a problem, such as a paused destination, dead letters of events
    or events that no process works on. Warnings, such as dead letters of a destination, leave the
    status at 0.
    """
    settings = load_command_settings(data_dir=data)

    def format_for_settings(arguments: str) -> str:
        return format_command(arguments, settings)

    results = commands.doctor.Doctor(
        settings,
        format_for_settings,
        lambda connection: commands.doctor_checks.check_workload(
            connection, settings, format_for_settings
        ),
        lambda expected: commands.doctor_events.check_events(settings, expected, server=clickhouse),
    ).run()
    if as_json:
        print_json([asdict(result) for result in results])
    else:
        for result in results:
            verdict = colorize(result.verdict.ljust(_VERDICT_WIDTH), VERDICT_COLORS[result.verdict])
            page = f" Console: {result.page}" if result.page else ""
            print(f"{verdict} {result.check}: {escape_control_characters(result.detail)}{page}")
    if any(result.verdict == "problem" for result in results):
        raise typer.Exit(1)
