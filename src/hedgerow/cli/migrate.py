"""`hedgerow migrate`: bring the database to this version's shape, or only say how far it is."""

from typing import Annotated

import typer

from hedgerow.app.state import ensure_data_folder, place_of
from hedgerow.cli.options import DataOption, settings_with
from hedgerow.cli.patience import patiently
from hedgerow.storage import events_schema, mirror_schema
from hedgerow.storage.migrate import migrate as run_steps
from hedgerow.storage.schema import schema_state


def migrate(
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; exit status 1 if steps are missing."),
    ] = False,
    clickhouse_cluster: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Change nothing; print the SQL for that cluster's tables.",
        ),
    ] = "",
    data: DataOption = None,
) -> None:
    """Apply the migration steps that the database lacks.

    `hedgerow serve` does this by itself; use this verb to do it at a time of your choosing. Any
    number of processes may do it at once: one works, the others wait.

    The tables of events on a ClickHouse cluster are made by its own client:
    `hedgerow migrate --clickhouse-cluster NAME | clickhouse-client --multiquery`.
    """
    if clickhouse_cluster:
        for schema in (events_schema, mirror_schema):
            for statement in schema.cluster_ddl(clickhouse_cluster):
                print(f"{statement};\n")
        return
    settings = settings_with(data=data)
    place = place_of(settings)
    if check:
        state = schema_state(place)
        if state.is_current:
            print(f"Up to date, at step {state.at}.")
            return
        print(f"{len(state.pending)} step(s) to apply: {', '.join(state.pending)}.")
        raise typer.Exit(1)
    ensure_data_folder(settings.data)
    before = patiently(lambda: run_steps(place))
    if before.is_current:
        print(f"Nothing to do: already at step {before.at}.")
    else:
        print(f"Applied {', '.join(before.pending)}: now at step {before.newest}.")
