"""The owner waits for what its readers hold, also while changes follow each other."""

import asyncio
import os

from hedgerow.app.http.readers import Listing, ReaderProcess, Readers
from hedgerow.flags.edge.document import OwnedProject
from tests.unit.fake_time import real_sleep
from tests.unit.flags.stores import FakeFlagStore, build_flag_cache
from tests.unit.projects.factories import ONE

# A process that runs.
READER = ReaderProcess(number=1, pid=os.getpid())


class Owner:
    """Readers of an owner with one project."""

    def __init__(self) -> None:
        self.version = 1
        self.replaced: list[ReaderProcess] = []
        self.stopping = asyncio.Event()
        self.readers = Readers(
            lambda: [OwnedProject(id=ONE, version=str(self.version))],
            build_flag_cache(FakeFlagStore()),
            self._refresh,
            self.stopping,
        )
        self.readers.replace = self.replaced.append

    async def _refresh(self) -> None: ...

    async def fetch(self, seen: str) -> Listing:
        found = await self.readers.follow(READER, seen)
        assert found is not None
        return found


async def start_following(owner: Owner) -> str:
    """Let the owner know the reader. Return the ETag that it holds."""
    etag = (await owner.fetch("")).etag
    assert await owner.readers.follow(READER, etag) is None
    return etag


async def run_until_idle() -> None:
    for _ in range(10):
        await real_sleep(0)


async def test_a_change_waits_for_a_reader_that_lacks_it() -> None:
    owner = Owner()
    etag = await start_following(owner)
    following = asyncio.ensure_future(owner.fetch(etag))
    owner.version = 2
    change = asyncio.ensure_future(owner.readers.wait_until_current())
    listing = await following
    await run_until_idle()
    assert not change.done()
    confirming = asyncio.ensure_future(owner.readers.follow(READER, listing.etag))
    await change
    owner.stopping.set()
    assert await confirming is None


async def test_a_change_does_not_wait_for_the_changes_after_it() -> None:
    owner = Owner()
    etag = await start_following(owner)
    owner.version = 2
    change = asyncio.ensure_future(owner.readers.wait_until_current())
    await run_until_idle()
    second = await owner.fetch(etag)
    owner.version = 3
    assert (await owner.fetch(second.etag)).etag != second.etag
    await change
    assert owner.replaced == []


async def test_no_change_waits_for_a_reader_that_has_nothing_yet() -> None:
    owner = Owner()
    await owner.fetch("")
    await owner.readers.wait_until_current()


async def test_an_etag_of_another_owner_is_none_of_this_one() -> None:
    etag = await start_following(Owner())
    found = await Owner().fetch(etag)
    assert found.etag != etag


async def test_a_reader_that_has_ended_is_not_waited_for() -> None:
    # Above the highest process id of Linux.
    owner, ended = Owner(), ReaderProcess(number=2, pid=2**22 + 1)
    listing = await owner.readers.follow(ended, "")
    assert listing is not None
    assert await owner.readers.follow(ended, listing.etag) is None
    owner.version = 2
    await owner.readers.wait_until_current()
    assert owner.replaced == []
