"""What every kind of test may ask for: a place for the state on either engine, and a live
server. Each is loaded when it is asked for: unit tests need none of it, and every process that
runs tests would wait for all.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from hedgerow.storage.connect import Place
    from tests.browser.chromium import Opened
    from tests.browser.pages import PageServer
    from tests.clickhouse_http import OwnClickHouse
    from tests.live import LiveServer
    from tests.postgres import OwnPostgres

TOLD = "told"


@pytest.fixture(scope="session")
def postgres() -> Iterator["OwnPostgres"]:
    """One real PostgreSQL server for the whole run; each test takes a database of its own."""
    server: OwnPostgres = import_module("tests.postgres").OwnPostgres()
    yield server
    server.close()


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator["OwnClickHouse"]:
    """One ClickHouse server for the whole run; each test takes a database of its own."""
    folder = tmp_path_factory.mktemp("clickhouse")
    server: OwnClickHouse = import_module("tests.clickhouse_http").OwnClickHouse(folder)
    yield server
    server.kill()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> "Place":
    """An empty place for the state: everything that asks for it runs on both engines."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    made: Place = import_module("hedgerow.storage.connect").Place(
        url=url, path=tmp_path / "hedgerow.db", timeout_s=20, pool_size=5
    )
    return made


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LiveServer"]:
    """One service for tests that leave it as they found it, or do not care."""
    with import_module("tests.live").LiveServer(tmp_path_factory.mktemp("live")) as server:
        yield server


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """A browser, where there is one with posthog-js to load into it. By module, for it takes the
    thread's event loop, which other tests want."""
    browser = _browser()
    if lacks := browser.missing("posthog-js"):
        pytest.skip(f"{' and '.join(lacks)} missing: tests/browser/install brings them")
    with browser.running() as running:
        yield running


@pytest.fixture
def opened(chromium: "Browser") -> Iterator["Opened"]:
    """A new page in it."""
    with _browser().opened(chromium) as page:
        yield page


@pytest.fixture(scope="module")
def pages() -> Iterator["PageServer"]:
    """Somebody's site."""
    with import_module("tests.browser.pages").PageServer(_browser().PACKAGES) as server:
        yield server


def _browser() -> Any:
    return import_module("tests.browser.chromium")


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says how a long test went, at the end of the run, whichever process it ran in."""
    return lambda line: record_property(TOLD, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for kind in ("passed", "failed"):
        for report in terminalreporter.getreports(kind):
            for name, line in report.user_properties:
                if name == TOLD:
                    terminalreporter.write_line(str(line))
