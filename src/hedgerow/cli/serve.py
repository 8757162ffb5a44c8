"""`hedgerow serve`: the service, and on its very first start a screen that says what to do next."""

import gc
from typing import Annotated

import structlog
import typer
import uvloop

from hedgerow import __version__
from hedgerow.app.serve import Events, service
from hedgerow.app.sharing import SPLIT_EVENTS, check_shared, splits_events
from hedgerow.app.state import ensure_data_folder
from hedgerow.cli.options import DataOption, command, kept_in, settings_with
from hedgerow.http.server import address_of, listen, server
from hedgerow.projects.bootstrap import FirstKeys
from hedgerow.settings import Settings


def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on [env HEDGEROW_HOST; default 127.0.0.1]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port, 0 for any [env HEDGEROW_PORT; default 8000]."),
    ] = None,
    data: DataOption = None,
    no_worker: Annotated[
        bool,
        typer.Option(
            "--no-worker",
            help="Only answer requests; leave the chores to others. Needs PostgreSQL and ClickHouse.",
        ),
    ] = False,
) -> None:
    """Start the service. Makes everything it needs on the first start.

    Stop it with Ctrl-C: requests under way are finished, then it ends.
    """
    settings = settings_with(host=host, port=port, data=data)
    if no_worker:
        check_shared(settings, "--no-worker")
    elif splits_events(settings):
        structlog.get_logger("hedgerow").warning(SPLIT_EVENTS)
    ensure_data_folder(settings.data)
    uvloop.run(run(settings, worker=not no_worker))


async def run(settings: Settings, *, worker: bool) -> None:
    """Serve until told to stop. Without a worker, somebody else has to work on the events."""
    listening = listen(settings.host, settings.port)
    address = settings.public_url or address_of(listening)
    failure: list[Exception] = []

    def ready(first: FirstKeys | None) -> None:
        # What start made stays; looking through it again and again would keep requests waiting.
        gc.collect()
        gc.freeze()
        print(first_screen(address, settings, first), flush=True)

    def failed(error: Exception) -> None:
        failure.append(error)
        running.should_exit = True

    async with service(settings, Events(ready=ready, failed=failed), worker=worker) as door:
        running = server(
            door, header_timeout_s=settings.body_timeout_s, grace_s=settings.shutdown_grace_s
        )
        await running.serve(sockets=[listening])
    if failure:
        raise failure[0]


def first_screen(address: str, settings: Settings, first: FirstKeys | None) -> str:
    """What a start prints: on the first one the keys, this once, and lines to paste."""
    heading = f"Hedgerow {__version__} is ready at {address}"
    docs = f"API docs:  {address}/api/docs/"
    new_keys = f"New keys:  {command('keys create --label my-laptop', settings)}"
    if first is None:
        return f"{heading}\n{docs}\n{new_keys}\n"
    return f"""{heading}

  Project key   {first.project_key}   public: for your apps
  Personal key  {first.personal_key}   secret: shown only now, keep it

Try it:
  # your pipeline destinations
  curl -H 'Authorization: Bearer {first.personal_key}' {address}/api/environments/1/pipeline_destination_configs/
  # what your flags say to somebody
  curl -H 'Content-Type: application/json' '{address}/decide?v=3' -d '{{"api_key": "{first.project_key}", "distinct_id": "somebody"}}'
  # something that somebody did
  curl -H 'Content-Type: application/json' '{address}/capture/' -d '{{"api_key": "{first.project_key}", "event": "signed up", "distinct_id": "somebody"}}'

{docs}
{new_keys}
Data:      {kept_in(settings)}
"""
