"""Fixtures of all tests: databases on either engine, live servers, a browser. They import their
modules on first use, because unit tests need none of them.
"""

import gc
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import service_logs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

    from hedgerow.storage.connect import DatabaseLocation
    from tests.browser.chromium import Opened
    from tests.browser.pages import PageServer
    from tests.support.clickhouse_http import ClickHouseTestServer
    from tests.support.live import LiveServer
    from tests.support.postgres import PostgresTestServer

# Thousands of collected tests stay in memory: frequent collections would cost a tenth of the time.
gc.set_threshold(100_000, 20, 20)

# Their tests start whole installations.
WAITING_FOLDERS = frozenset(("acceptance", "fault"))
# Files that take minutes. They come first: at the end, one process would run while the others idle.
LONG_FILES = frozenset(
    (
        "acceptance/test_distribution.py",
        "acceptance/test_edge_inbox.py",
        "acceptance/test_guides.py",
        "acceptance/test_guides_second_half.py",
        "acceptance/test_processes.py",
        "contract/flags/test_vectors.py",
        "contract/pipelines/test_vectors.py",
        "contract/storage/events/test_events.py",
        "contract/test_openapi_fuzz.py",
    )
)
TESTS = Path(__file__).parent
REPORT_LINE = "told"
MAX_NAMED_BYTES = 40
GZIP_MAGIC = b"\x1f\x8b"


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresTestServer"]:
    """A real PostgreSQL server for the whole run; each test creates its own database."""
    server: PostgresTestServer = import_module("tests.support.postgres").PostgresTestServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator["ClickHouseTestServer"]:
    """A ClickHouse server for the whole run; each test creates its own database."""
    folder = tmp_path_factory.mktemp("clickhouse")
    server: ClickHouseTestServer = import_module(
        "tests.support.clickhouse_http"
    ).ClickHouseTestServer(folder)
    yield server
    server.kill()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["DatabaseLocation"]:
    """An empty state database. Tests with this fixture run on both engines."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create_database()
    made: DatabaseLocation = import_module("hedgerow.storage.connect").DatabaseLocation(
        url=url, path=tmp_path / "hedgerow.db", timeout_s=20, pool_size=5
    )
    yield made
    if url:
        request.getfixturevalue("postgres").drop_database(url)


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LiveServer"]:
    """A service shared by tests that do not depend on its contents."""
    with import_module("tests.support.live").LiveServer(tmp_path_factory.mktemp("live")) as server:
        yield server


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """A browser, if one is installed with posthog-js. Per module, because it occupies the event
    loop of the thread."""
    browser = _load_browser_support()
    if lacks := browser.missing("posthog-js"):
        pytest.skip(f"{' and '.join(lacks)} missing: tests/browser/install brings them")
    with browser.running() as running:
        yield running


@pytest.fixture
def opened(chromium: "Browser") -> Iterator["Opened"]:
    """A new page in the browser."""
    with _load_browser_support().opened(chromium) as page:
        yield page


@pytest.fixture(scope="module")
def profile(chromium: "Browser") -> Iterator["BrowserContext"]:
    """One profile of the browser for a file of tests."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def tab(profile: "BrowserContext") -> Iterator["Opened"]:
    """A new tab of the profile. Tabs share the cache, so that each test loads the console faster,
    and `localStorage`, but not `sessionStorage`."""
    page = profile.new_page()
    yield _load_browser_support().Opened(page)
    page.close()


@pytest.fixture(scope="module")
def pages() -> Iterator["PageServer"]:
    """A web site that embeds posthog-js."""
    with import_module("tests.browser.pages").PageServer(
        _load_browser_support().PACKAGES
    ) as server:
        yield server


def _load_browser_support() -> Any:
    return import_module("tests.browser.chromium")


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Print a line at the end of the run, from whichever process the test ran in."""
    return lambda line: record_property(REPORT_LINE, line)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    service_logs.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail a test in which a handler of a service has held the event loop."""
    yield
    holds = service_logs.list_holds()
    assert not holds, holds


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of services in the report of a failure."""
    report = yield
    if report.failed:
        report.sections.extend(service_logs.list_sections())
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files that wait for services evenly among those that use the CPU, so that the
    processes of a run do both at any time."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    position: dict[Path, float] = {}
    for is_waiting in (True, False):
        alike = [path for path in files if WAITING_FOLDERS.isdisjoint(path.parts) != is_waiting]
        position |= {path: (number + 0.5) / len(alike) for number, path in enumerate(alike)}
    position |= {path: 0.0 for path in files if _is_long(path)}
    items[:] = chain.from_iterable(files[path] for path in sorted(files, key=position.__getitem__))


def _is_long(path: Path) -> bool:
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in LONG_FILES


def pytest_collection_finish() -> None:
    """Keep the collector from scanning the collected tests again."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind in ("passed", "failed"):
        for report in terminalreporter.getreports(kind):
            for name, line in report.user_properties:
                if name == REPORT_LINE:
                    terminalreporter.write_line(str(line))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a test after the argument instead of binary or long bytes: compressed bytes contain the
    time, so that two test processes would collect different names."""
    if not isinstance(val, bytes):
        return None
    is_binary = val.startswith(GZIP_MAGIC) or not val.isascii()
    return argname if is_binary or len(val) > MAX_NAMED_BYTES else None
