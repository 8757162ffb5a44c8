"""Readers for the guides: a fresh installation, with the other systems that a guide names."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.support.forks.server import FORK_SERVER
from tests.support.guides import NODE_PACKAGES, ROOT, Reader, blocks_of, guide_pages
from tests.support.live import build_environment, copy_migrated_database, find_free_port
from tests.support.postgres import PostgresTestServer

PAGES = guide_pages()
# Their commands are processes of their own, as are those of a page that installs modules.
FIRST_PAGES = ("README.md", "docs/start.md")
NODE_PAGES = [page for page in PAGES if any(block.needs_node for block in blocks_of(page))]
HAS_NODE = NODE_PACKAGES.exists()
SETTINGS = {"HEDGEROW_READ_AFTER_WRITE_TIMEOUT_S": "30"}


def list_fresh_pages(half: int) -> list[str]:
    """List every second page, without those that run with their Node examples, if they can."""
    return [page for page in PAGES[half::2] if not (HAS_NODE and page in NODE_PAGES)]


def follow_page(page: str, folder: Path, postgres: PostgresTestServer) -> None:
    """Run all blocks of a page but those that need Node, in a fresh installation."""
    text = (ROOT / page).read_text()
    with new_reader(
        folder,
        postgres,
        has_source="POSTHOG_HOST" in text,
        is_forked=page not in FIRST_PAGES and "pip install ./" not in text,
    ) as reader:
        reader.follow(page)


@contextmanager
def new_reader(
    folder: Path,
    postgres: PostgresTestServer,
    *,
    has_source: bool = True,
    is_forked: bool = True,
) -> Iterator[Reader]:
    """A reader with a running service and an empty PostgreSQL database. The source is a second
    installation, for the import from another instance."""
    with ExitStack() as stack:
        reader = stack.enter_context(_running(folder / "clone", is_forked=is_forked))
        reader.values["HEDGEROW_DATABASE_URL"] = postgres.create_database()
        if has_source:
            source = stack.enter_context(_running(folder / "source", is_forked=True))
            _fill(source)
            reader.values |= {
                "POSTHOG_HOST": source.address,
                "POSTHOG_PROJECT": "1",
                "POSTHOG_PERSONAL_API_KEY": source.values["KEY"],
                "POSTHOG_PROJECT_KEY": source.values["PROJECT_KEY"],
            }
        yield reader


@contextmanager
def _running(folder: Path, *, is_forked: bool) -> Iterator[Reader]:
    forks_from = FORK_SERVER.listen(build_environment()) if is_forked else ""
    reader = Reader(folder=folder, port=find_free_port(), settings=SETTINGS, forks_from=forks_from)
    if is_forked:
        # The other pages show that the first start migrates.
        copy_migrated_database(folder / "hedgerow-data")
    try:
        reader.start_service()
        yield reader
    finally:
        reader.stop_service()


def _fill(source: Reader) -> None:
    key, project_key = source.values["KEY"], source.values["PROJECT_KEY"]
    flag = {"key": "imported-flag", "filters": {"groups": [{"properties": []}]}}
    event = {"event": "imported event", "distinct_id": "imported-ann", "api_key": project_key}
    with httpx.Client(base_url=source.address, timeout=60, verify=False) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.post("/api/projects/1/feature_flags/", json=flag).status_code == 201
        assert client.post("/capture/", json=event).status_code == 200
