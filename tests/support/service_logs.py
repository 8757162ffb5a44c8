"""What services log during a test, for the report of its failure. Many tests share a service, and
its log is not in the output of the test."""

from dataclasses import dataclass, field

MAX_LINES = 60


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
