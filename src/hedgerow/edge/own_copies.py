"""Copies of a service's own definitions on its disk, for a start while its database is away.

They are those of an edge process, and so are the answers: flags that need stored data fail.
"""

import asyncio
import time
from collections.abc import Mapping

import structlog

from hedgerow.edge.copies import DocumentCopies, UnusableCopy
from hedgerow.edge.http import EdgeServices, build_lenient_table
from hedgerow.edge.sources import EdgeSource
from hedgerow.edge.state import EdgeDirectoryStore, EdgeFlagStore, EdgeState, build_unavailable
from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.http.server.gateway import FastHandler
from hedgerow.lib.clock import utc_now
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.origin_client import OriginClient
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId
from hedgerow.settings import Settings

FOLDER = "flag-copies"
SAVE_INTERVAL_S = 2.0

_log = structlog.get_logger("hedgerow")


class FrozenDirectoryStore(EdgeDirectoryStore):
    """Keys as they were. Whether another key is valid is unknown."""

    is_frozen = False

    async def generation(self) -> int:
        if self.is_frozen:
            raise build_unavailable()
        return await super().generation()


class OwnCopies:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._copies = DocumentCopies(settings.data_dir, FOLDER)

    async def build_fallback(self) -> Mapping[str, FastHandler]:
        """Return handlers for the paths that can be answered without the database."""
        state = EdgeState()
        store = FrozenDirectoryStore(state)
        directory = Directory(store, utc_now, time.monotonic)
        flag_cache = FlagCache(EdgeFlagStore(state), run_in_thread)
        oldest_s = time.time()
        for found in await run_in_thread(lambda: list(self._copies.load_all())):
            if isinstance(found, UnusableCopy):
                _log.error("a copy of the definitions cannot be used", reason=str(found))
                continue
            document, copy = found
            source = _build_source(document.project.id)
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
        services = EdgeServices(self._settings, state, directory, flag_cache, OriginClient("", ""))
        return {path: route.handler for path, route in build_lenient_table(services).items()}

    async def keep(self, documents: EdgeDocuments, directory: Directory) -> None:
        """Save the definitions of the projects in use after each change, until cancelled."""
        saved: dict[ProjectId, str] = {}
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            try:
                for listed in documents.list_projects():
                    if saved.get(listed.id) != listed.version:
                        await self._save(documents, directory, listed.id)
                        saved[listed.id] = listed.version
                if directory.project_count:
                    await self._remove_others(directory)
            except OSError as error:
                _log.error("cannot save the definitions", reason=error.strerror or str(error))

    async def _save(self, documents: EdgeDocuments, directory: Directory, id: ProjectId) -> None:
        project = directory.get_project(id)
        if project is not None:
            document = await documents.get(project)
            source, now_s = _build_source(id), time.time()
            await run_in_thread(
                lambda: self._copies.save(source, document.body, document.etag, now_s)
            )

    async def _remove_others(self, directory: Directory) -> None:
        """Remove the copies of deleted projects."""
        sources = [_build_source(each.id) for each in directory.list_projects()]
        await run_in_thread(lambda: self._copies.keep_only(sources))


def _build_source(id: ProjectId) -> EdgeSource:
    return EdgeSource(url="", key="", project=str(id))
