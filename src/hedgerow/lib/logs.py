"""Log format: human-readable in a terminal, JSON lines otherwise. Secret keys are redacted."""

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hedgerow.lib.tokens import redact_secrets

# Their messages repeat our own, or are about faults of clients.
SILENT = ("uvicorn", "uvicorn.error")
QUIET = ("alembic", "sqlalchemy", "psycopg")


def is_human_readable(format: str, stream: TextIO) -> bool:
    """Return whether the log is for people rather than for a log collector."""
    return format == "human" or (format == "auto" and stream.isatty())


def configure_logging(level: str, format: str, stream: TextIO) -> None:
    """Send our log lines and those of libraries through one formatter."""
    for_humans = is_human_readable(format, stream)
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(
            fmt="%H:%M:%S" if for_humans else "iso", utc=not for_humans
        ),
    ]
    render: Processor
    if for_humans:
        render = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    else:
        render = structlog.processors.JSONRenderer(ensure_ascii=False)
        before.append(structlog.processors.format_exc_info)

    def render_without_secrets(logger: WrappedLogger, name: str, event: EventDict) -> str:
        # Applied to the finished line, because a secret may be inside a value of any type.
        return redact_secrets(str(render(logger, name, event)))

    after: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        render_without_secrets,
    ]
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=after)
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
