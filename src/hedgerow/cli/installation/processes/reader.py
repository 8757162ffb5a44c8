"""A reader among the processes of `hedgerow serve --processes N`: see hedgerow.edge.reader."""

from hedgerow.cli.installation.processes.child import (
    follow_supervisor,
    open_sockets,
    report_ready,
    run_process,
)
from hedgerow.cli.installation.processes.plan import ProcessPlan
from hedgerow.edge.reader import run_reader
from hedgerow.http.server.server import build_server
from hedgerow.settings import Settings


async def run_reader_process(plan: ProcessPlan, settings: Settings) -> None:
    follow_supervisor(plan)

    def ready() -> None:
        report_ready(plan)
        running.start_accepting()

    async with run_reader(settings, plan.owner_path, plan.number, ready) as gateway:
        running = build_server(
            gateway,
            header_timeout_s=settings.request_read_timeout_s,
            drain_s=settings.shutdown_drain_s,
            grace_s=settings.shutdown_grace_s,
            is_replacement=True,
        )
        await running.serve(sockets=open_sockets(plan))


if __name__ == "__main__":
    run_process(run_reader_process)
