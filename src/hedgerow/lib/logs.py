"""How log lines look: for people on a terminal, JSON lines otherwise. No secret passes through."""

import logging
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from hedgerow.lib.tokens import without_secrets

# What they have to say we say ourselves, or it is about what some client did.
SILENT = ("uvicorn", "uvicorn.error")
QUIET = ("alembic", "sqlalchemy", "psycopg")


def wants_people(format: str, stream: TextIO) -> bool:
    """Whether lines go to somebody's eyes rather than to a collector."""
    return format == "human" or (format == "auto" and stream.isatty())


def configure(level: str, format: str, stream: TextIO) -> None:
    """Send our lines and those of the libraries we use through one formatter."""
    for_people = wants_people(format, stream)
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(
            fmt="%H:%M:%S" if for_people else "iso", utc=not for_people
        ),
    ]
    render: Processor
    if for_people:
        render = structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    else:
        render = structlog.processors.JSONRenderer(ensure_ascii=False)
        before.append(structlog.processors.format_exc_info)

    def render_without_secrets(logger: WrappedLogger, name: str, event: EventDict) -> str:
        # Over the finished line, so that no secret can hide in a value of some other type.
        return without_secrets(str(render(logger, name, event)))

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
