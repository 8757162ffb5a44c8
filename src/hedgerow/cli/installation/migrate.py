"""`hedgerow migrate`: apply pending migrations, or list them."""

from typing import Annotated

import typer

from hedgerow.app import commands
from hedgerow.cli.lock_retry import retry_while_locked
from hedgerow.cli.options import DataOption, JsonOption, load_command_settings
from hedgerow.cli.output import print_json


def migrate(
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing; exit with status 1 if migrations are pending."
        ),
    ] = False,
    clickhouse_cluster: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Change nothing; print the SQL for the tables of that cluster."
        ),
    ] = "",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply pending migrations to the database.

    `hedgerow serve` applies them when it starts; use this command to choose the time. Several
    processes may run it at once: one works and the others wait.

    Create the event tables of a ClickHouse cluster with its own client:
    `hedgerow migrate --clickhouse-cluster NAME | clickhouse-client --multiquery`.
    """
    if clickhouse_cluster:
        for statement in commands.installation.build_cluster_ddl(clickhouse_cluster):
            print(f"{statement};\n")
        return
    settings = load_command_settings(data_dir=data)
    if check:
        state = commands.state.check_migrations(settings)
        if as_json:
            print_json({"current": state.at, "newest": state.newest, "pending": state.pending})
        elif state.is_current:
            print(f"Up to date, at migration {state.at}.")
        else:
            print(f"{len(state.pending)} migration(s) pending: {', '.join(state.pending)}.")
        if not state.is_current:
            raise typer.Exit(1)
        return
    before = retry_while_locked(lambda: commands.installation.apply_migrations(settings))
    if as_json:
        print_json({"current": before.newest, "newest": before.newest, "applied": before.pending})
    elif before.is_current:
        print(f"Nothing to do: already at migration {before.at}.")
    else:
        print(f"Applied {', '.join(before.pending)}: now at migration {before.newest}.")
