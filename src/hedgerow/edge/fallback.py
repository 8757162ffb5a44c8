"""Answers of a service that starts while its database is away, with the copies on its disk.

They are those of an edge process without its origin: flags that need stored data fail.
"""

import time
from collections.abc import Mapping

import structlog

from hedgerow.edge.copies import DocumentCopies, UnusableCopy
from hedgerow.edge.http import EdgeServices, build_lenient_table
from hedgerow.edge.own_copies import FOLDER, build_own_source
from hedgerow.edge.state import EdgeDirectoryStore, EdgeFlagStore, EdgeState, build_unavailable
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.http.server.gateway import FastHandler
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.origin_client import OriginClient
from hedgerow.projects.directory import Directory
from hedgerow.settings import Settings

_log = structlog.get_logger("hedgerow")


class FrozenDirectoryStore(EdgeDirectoryStore):
    """Keys as they were. Whether another key is valid is unknown."""

    is_frozen = False

    async def generation(self) -> int:
        if self.is_frozen:
            raise build_unavailable()
        return await super().generation()


async def build_fallback(settings: Settings) -> Mapping[str, FastHandler]:
    """Return handlers for the paths that can be answered without the database."""
    copies = DocumentCopies(settings.data_dir, FOLDER)
    state = EdgeState()
    store = FrozenDirectoryStore(state)
    directory = Directory(store, utc_now, time.monotonic)
    flag_cache = FlagCache(EdgeFlagStore(state), run_in_thread)
    oldest_s = time.time()
    for found in await run_in_thread(lambda: list(copies.load_all())):
        if isinstance(found, UnusableCopy):
            _log.error("a copy of the definitions cannot be used", reason=str(found))
            continue
        document, copy = found
        source = build_own_source(document.project.id)
        await flag_cache.refresh(state.replace_document(source, document, ()))
        oldest_s = min(oldest_s, copy.saved_at_s)
    await directory.refresh()
    store.is_frozen = True
    if not directory.project_count:
        return {}
    _log.warning(
        "the database is away: flags are evaluated with the copies on disk",
        projects=directory.project_count,
        oldest_s=round(time.time() - oldest_s),
    )
    services = EdgeServices(settings, state, directory, flag_cache, OriginClient("", ""))
    return {path: route.handler for path, route in build_lenient_table(services).items()}
