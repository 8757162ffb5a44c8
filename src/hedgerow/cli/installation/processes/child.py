"""What a process of the supervisor does besides serving: its sockets, its settings, its control."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvloop

from hedgerow.cli.installation.processes.plan import ProcessPlan
from hedgerow.cli.installation.processes.supervisor import READY, REPLACE
from hedgerow.cli.options import load_command_settings
from hedgerow.cli.root import run_reporting_errors
from hedgerow.settings import Settings

_log = structlog.get_logger("hedgerow")


def run_process(run: Callable[[ProcessPlan, Settings], Coroutine[Any, Any, None]]) -> None:
    """Run one of the supervisor's processes, with the plan in its arguments."""
    plan = msgspec.json.decode(sys.argv[1], type=ProcessPlan)
    sys.argv = [plan.program]
    run_reporting_errors(lambda: uvloop.run(run(plan, _load_settings(plan))))


def _load_settings(plan: ProcessPlan) -> Settings:
    data_dir = plan.overrides["data_dir"]
    overrides = {**plan.overrides, "data_dir": data_dir and Path(data_dir)}
    settings = load_command_settings(lambda _: None, **overrides)
    # Each process has metrics of its own.
    port = settings.metrics_port and settings.metrics_port + plan.number
    return replace(settings, metrics_port=port, shutdown_drain_s=plan.drain_s)


def _tell_supervisor(plan: ProcessPlan, line: bytes) -> None:
    with suppress(OSError):  # it has ended
        os.write(plan.control, line + b"\n")


def request_replacement(plan: ProcessPlan, number: int, pid: int) -> None:
    """Ask the supervisor to end a reader, and to start another one."""
    _tell_supervisor(plan, b"%s %d %d" % (REPLACE, number, pid))


def open_sockets(plan: ProcessPlan) -> list[socket.socket]:
    return [socket.socket(fileno=each) for each in plan.sockets]


def follow_supervisor(plan: ProcessPlan) -> None:
    """Stop, as after Ctrl-C, when the supervisor has ended without stopping this process."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(plan.control)
        _log.warning("the supervisor has ended: stopping")
        os.kill(os.getpid(), signal.SIGINT)

    loop.add_reader(plan.control, end)


def report_ready(plan: ProcessPlan) -> None:
    gc.collect()
    gc.freeze()
    _tell_supervisor(plan, READY)
    if not plan.announces:
        _log.info("process is ready", number=plan.number)
