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
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    others = [logging.getLogger(name) for name in (*logs.SILENT, *logs.QUIET)]
    before = list(root.handlers), root.level, [logger.level for logger in others]
    yield
    root.handlers[:], level, levels = before
    root.setLevel(level)
    for logger, own in zip(others, levels, strict=True):
        logger.setLevel(own)
    structlog.reset_defaults()


def written(format: str, log: Callable[[], None], level: str = "info") -> str:
    """What `log` leaves on a stream that is no terminal."""
    stream = io.StringIO()
    logs.configure(level, format, stream)
    log()
    return stream.getvalue()


def ours(event: str, **fields: object) -> None:
    structlog.get_logger("hedgerow.test").warning(event, **fields)


def failing(key: str) -> None:
    raise ValueError(f"no such key: {key}")


def our_exception() -> None:
    try:
        failing(SECRET)
    except ValueError:
        structlog.get_logger("hedgerow.test").exception("it failed")


def their_exception() -> None:
    try:
        failing(SECRET)
    except ValueError:
        logging.getLogger("alembic").exception("it failed")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "log",
    [
        lambda: ours(f"the key {SECRET} is bad"),
        lambda: ours("bad key", key=SECRET),
        lambda: ours("bad key", headers={"authorization": f"Bearer {SECRET}"}),
        lambda: ours("bad keys", keys=[SECRET, SECRET]),
        lambda: ours("bad key", error=ValueError(SECRET)),
        lambda: ours("bad key", raw=SECRET.encode()),
        lambda: structlog.get_logger("hedgerow.test").warning("bad key %s", SECRET),
        lambda: logging.getLogger("alembic").warning("bad key %s", SECRET),
        our_exception,
        their_exception,
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
def test_no_secret_reaches_the_line(format: str, log: Callable[[], None]) -> None:
    line = written(format, log)
    assert SECRET not in line
    assert "phx_***" in line


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("log", [our_exception, their_exception])
def test_an_exception_is_told_with_its_traceback_and_no_local_variables(
    format: str, log: Callable[[], None]
) -> None:
    line = written(format, log)
    assert "ValueError: no such key" in line
    assert "in failing" in line
    assert "locals" not in line


def test_a_json_line_is_one_object_with_level_logger_and_utc_time() -> None:
    line = written("json", lambda: ours("something\nhappened", count=3))
    assert line.count("\n") == 1
    entry = json.loads(line)
    assert entry.pop("timestamp").endswith("Z")
    assert entry == {
        "event": "something\nhappened",
        "level": "warning",
        "logger": "hedgerow.test",
        "count": 3,
    }


def test_a_line_for_people_reads_without_json_or_colours_off_a_terminal() -> None:
    line = written("human", lambda: ours("something happened", count=3))
    assert "something happened" in line
    assert "count=3" in line
    assert "{" not in line
    assert "\x1b" not in line


def test_lines_below_the_level_are_not_written() -> None:
    assert written("json", lambda: ours("quiet"), level="error") == ""


def test_libraries_are_heard_from_warnings_up_only() -> None:
    stream = io.StringIO()
    logs.configure("debug", "json", stream)
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
def test_auto_writes_for_people_on_a_terminal_only(
    format: str, stream: io.StringIO, expected: bool
) -> None:
    assert logs.wants_people(format, stream) is expected
