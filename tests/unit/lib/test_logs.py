import io
import json
import logging
from collections.abc import Callable, Iterator

import pytest
import structlog

from hedgerow.lib import logs

SECRET = "phx_0123456789abcdefABCDEF"
FORMATS = ["human", "json"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    others = [logging.getLogger(name) for name in (*logs.SILENT, *logs.QUIET)]
    before = list(root.handlers), root.level, [logger.level for logger in others]
    yield
    root.handlers[:], level, levels = before
    root.setLevel(level)
    for logger, own in zip(others, levels, strict=True):
        logger.setLevel(own)
    structlog.reset_defaults()


def captured_output(format: str, log: Callable[[], None], level: str = "info") -> str:
    """Return the output of `log` on a stream that is not a terminal."""
    stream = io.StringIO()
    logs.configure_logging(level, format, stream)
    log()
    return stream.getvalue()


def log_warning(event: str, **fields: object) -> None:
    structlog.get_logger("hedgerow.test").warning(event, **fields)


def failing(key: str) -> None:
    raise ValueError(f"no such key: {key}")


def log_own_exception() -> None:
    try:
        failing(SECRET)
    except ValueError:
        structlog.get_logger("hedgerow.test").exception("it failed")


def log_library_exception() -> None:
    try:
        failing(SECRET)
    except ValueError:
        logging.getLogger("alembic").exception("it failed")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "log",
    [
        lambda: log_warning(f"the key {SECRET} is bad"),
        lambda: log_warning("bad key", key=SECRET),
        lambda: log_warning("bad key", headers={"authorization": f"Bearer {SECRET}"}),
        lambda: log_warning("bad keys", keys=[SECRET, SECRET]),
        lambda: log_warning("bad key", error=ValueError(SECRET)),
        lambda: log_warning("bad key", raw=SECRET.encode()),
        lambda: structlog.get_logger("hedgerow.test").warning("bad key %s", SECRET),
        lambda: logging.getLogger("alembic").warning("bad key %s", SECRET),
        log_own_exception,
        log_library_exception,
    ],
    ids=[
        "in the event",
        "in a field",
        "in a mapping",
        "in a list",
        "in an error",
        "in bytes",
        "as a positional argument",
        "from a library",
        "in our exception",
        "in a library's exception",
    ],
)
def test_secrets_are_redacted(format: str, log: Callable[[], None]) -> None:
    line = captured_output(format, log)
    assert SECRET not in line
    assert "phx_***" in line


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("log", [log_own_exception, log_library_exception])
def test_exception_is_logged_with_traceback_and_no_locals(
    format: str, log: Callable[[], None]
) -> None:
    line = captured_output(format, log)
    assert "ValueError: no such key" in line
    assert "in failing" in line
    assert "locals" not in line


def test_json_line_has_level_logger_and_utc_time() -> None:
    line = captured_output("json", lambda: log_warning("something\nhappened", count=3))
    assert line.count("\n") == 1
    entry = json.loads(line)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "something\nhappened",
        "level": "warning",
        "logger": "hedgerow.test",
        "count": 3,
    }


def test_human_format_without_terminal_has_no_colours() -> None:
    line = captured_output("human", lambda: log_warning("something happened", count=3))
    assert "something happened" in line
    assert "count=3" in line
    assert "{" not in line
    assert "\x1b" not in line


def test_lines_below_the_level_are_dropped() -> None:
    assert captured_output("json", lambda: log_warning("quiet"), level="error") == ""


def test_libraries_log_warnings_and_above_only() -> None:
    stream = io.StringIO()
    logs.configure_logging("debug", "json", stream)
    logging.getLogger("alembic").info("chatter")
    logging.getLogger("alembic").warning("trouble")
    logging.getLogger("uvicorn.error").error("what some client did")
    assert "chatter" not in stream.getvalue()
    assert "trouble" in stream.getvalue()
    assert "client" not in stream.getvalue()


@pytest.mark.parametrize(
    ("format", "stream", "expected"),
    [
        ("auto", Terminal(), True),
        ("auto", io.StringIO(), False),
        ("human", io.StringIO(), True),
        ("json", Terminal(), False),
    ],
)
def test_auto_format_is_human_in_a_terminal_only(
    format: str, stream: io.StringIO, expected: bool
) -> None:
    assert logs.is_human_readable(format, stream) is expected
