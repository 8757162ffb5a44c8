"""What services log during a test, for the report of its failure. Many tests share a service, and
its log is not in the output of the test."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_LINES = 60
HELD = '"the event loop was held"'
# Handlers that may use the event loop for 50 ms at a time, with the reason.
ALLOWED_HOLDS: Mapping[str, str] = {
    "edge.reader._follow": "A reader reports that it is ready, which is its start.",
}


@dataclass(slots=True)
class ServiceLog:
    """The lines that a process wrote to standard error. A thread appends to them."""

    name: str
    lines: list[str] = field(default_factory=list)
    is_open: bool = True
    # Lines of earlier tests.
    skipped: int = 0


_logs: list[ServiceLog] = []


def open_log(name: str) -> ServiceLog:
    log = ServiceLog(name)
    _logs.append(log)
    return log


def begin_test() -> None:
    """Forget processes that ended before, and what the others logged before."""
    _logs[:] = [log for log in _logs if log.is_open]
    for log in _logs:
        log.skipped = len(log.lines)


def list_sections() -> list[tuple[str, str]]:
    """Return a title and the last lines for each process that logged something in this test."""
    found = [(log, log.lines[log.skipped :]) for log in _logs]
    return [
        (f"Log of {log.name} during this test", "".join(lines[-MAX_LINES:]))
        for log, lines in found
        if lines
    ]


def list_holds() -> list[str]:
    """Return what held the event loop of a service in this test for too long."""
    lines = [line for log in _logs for line in log.lines[log.skipped :] if HELD in line]
    holds = [json.loads(line) for line in lines]
    return [
        f"{each['handler']} held the event loop for {each['cpu_ms']} ms: {each['stack']}"
        for each in holds
        if each["handler"] not in ALLOWED_HOLDS
    ]
