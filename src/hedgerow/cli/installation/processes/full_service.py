"""A whole service among the processes of `hedgerow serve --processes N`."""

import socket

from hedgerow.cli.installation.processes.child import (
    follow_supervisor,
    open_sockets,
    report_ready,
    request_replacement,
    run_process,
)
from hedgerow.cli.installation.processes.plan import ProcessPlan
from hedgerow.cli.installation.serve import OwnerSocket, format_start_screen, run_on_sockets
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.settings import Settings


async def run_service_process(plan: ProcessPlan, settings: Settings) -> None:
    def ready(first: InitialKeys | None) -> None:
        report_ready(plan)
        if plan.announces:
            print(format_start_screen(plan.address, settings, first), flush=True)

    follow_supervisor(plan)
    owner = None
    if plan.owner_socket is not None:
        owner = OwnerSocket(
            listening=socket.socket(fileno=plan.owner_socket),
            readers=range(1, len(plan.sockets)),
            replace=lambda reader: request_replacement(plan, reader.number, reader.pid),
        )
    await run_on_sockets(
        settings,
        open_sockets(plan),
        ready,
        worker=plan.has_worker,
        owner=owner,
        is_replacement=not plan.announces,
    )


if __name__ == "__main__":
    run_process(run_service_process)
