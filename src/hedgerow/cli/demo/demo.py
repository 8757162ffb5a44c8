"""`hedgerow demo`: create a project that shows what full pages look like."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.demo.build import BuiltDemo, DemoBuilder
from hedgerow.cli.demo.connect import DemoService, open_service
from hedgerow.cli.options import (
    DataOption,
    JsonOption,
    KeyOption,
    ServerOption,
    format_command,
    load_command_settings,
)
from hedgerow.cli.output import print_json, print_table, show_progress
from hedgerow.cli.service_client import get_public_address, resolve_service_url
from hedgerow.lib.clock import utc_now
from hedgerow.people.model import build_url

if TYPE_CHECKING:
    from hedgerow.settings import Settings

DEFAULT_PERSONS = 1_500
MIN_PERSONS, MAX_PERSONS = 50, 20_000


def demo(
    persons: Annotated[
        int,
        typer.Option(min=MIN_PERSONS, max=MAX_PERSONS, help="Number of persons in the project."),
    ] = DEFAULT_PERSONS,
    seed: Annotated[
        int, typer.Option(help="Another number makes other people with other habits.")
    ] = 1,
    server: ServerOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a project with a made-up product, full of data to look at.

    The product is Fernleaf, an invoicing app for small studios. The project is a new one: your
    other projects stay as they are. It has 45 days of events, the last ones of today.

    Without --key it works on the data directory, also if it is empty, whether the service runs or
    not. With --key it uses a running service. It sends nothing to other systems.
    """
    settings = load_command_settings(server_url=server, personal_key=key, data_dir=data)
    print("Making a demo project. This takes about half a minute.", file=sys.stderr)
    with open_service(settings) as service, show_progress() as progress:
        builder = DemoBuilder(
            client=service.client, progress=progress, seed=seed, persons=persons, now=utc_now()
        )
        try:
            built = builder.build()
        finally:
            if builder.is_incomplete:
                remove = _format_removal(builder.project_id, settings)
                print(f"The demo is not complete. Remove it: {remove}", file=sys.stderr)
    if as_json:
        print_json(
            {
                "project_id": built.project_id,
                "project_key": built.project_key,
                "counts": built.counts,
                "personal_key": service.first.generated_personal_key if service.first else None,
            }
        )
    else:
        _report(built, service, settings)


def _report(built: BuiltDemo, service: DemoService, settings: Settings) -> None:
    print(f"Created project {built.project_id}, the demo of Fernleaf, with:\n")
    print_table(("number", "of"), [(f"{count:,}", name) for name, count in built.counts.items()])
    address = get_public_address(settings)
    print()
    if service.first is not None:
        print("This installation is new. Keep its keys, they are shown only once:\n")
        # Of project 1, which is empty.
        print(service.first.describe())
        if service.first.setup_token:
            # It opens the demo, not the empty project.
            page = f"{address}/project/{built.project_id}"
            print(f"  Setup link    {build_url(page, 'setup', service.first.setup_token)}")
        print()
    if not service.is_running_on:
        print(f"Start:   {format_command('serve', settings)}")
    print(f"Open:    {address}/project/{built.project_id}/")
    if service.first is None:
        print(
            f"Log in:  with a key of yours, or {format_command('keys create --label me', settings)}"
        )
    print(f"Remove:  {_format_removal(built.project_id, settings)}")


def _format_removal(project: int, settings: Settings) -> str:
    """Return the command that deletes the demo. The data of a service may be on another machine."""
    if settings.personal_key:
        url = f"{resolve_service_url(settings)}/api/projects/{project}/"
        return f"curl -X DELETE -H 'Authorization: Bearer phx_…' {url}"
    return format_command(f"projects delete {project}", settings)
