"""Copies of a service's own definitions on its disk, for a start while its database is away:
see hedgerow.edge.fallback."""

import asyncio
import time
from pathlib import Path

import structlog

from hedgerow.edge.copies import DocumentCopies
from hedgerow.edge.sources import EdgeSource
from hedgerow.errors import Unavailable
from hedgerow.flags.edge.documents import EdgeDocuments
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import ProjectId

FOLDER = "flag-copies"
SAVE_INTERVAL_S = 2.0

_log = structlog.get_logger("hedgerow")


class OwnCopies:
    def __init__(self, data_dir: Path) -> None:
        self._copies = DocumentCopies(data_dir, FOLDER)

    async def keep(self, documents: EdgeDocuments, directory: Directory) -> None:
        """Save the definitions of the projects in use after each change, until cancelled."""
        saved: dict[ProjectId, str] = {}
        problem = ""
        while True:
            await asyncio.sleep(SAVE_INTERVAL_S)
            try:
                for listed in documents.list_projects():
                    if saved.get(listed.id) != listed.version:
                        await self._save(documents, directory, listed.id)
                        saved[listed.id] = listed.version
                if directory.project_count:
                    await self._remove_others(directory)
                problem = ""
            except (OSError, Unavailable) as error:
                # Once, not every two seconds.
                if str(error) != problem:
                    problem = str(error)
                    _log.error("cannot save the definitions", reason=problem)

    async def _save(self, documents: EdgeDocuments, directory: Directory, id: ProjectId) -> None:
        project = directory.get_project(id)
        if project is not None:
            document = await documents.get(project)
            source, now_s = build_own_source(id), time.time()
            await run_in_thread(
                lambda: self._copies.save(source, document.body, document.etag, now_s)
            )

    async def _remove_others(self, directory: Directory) -> None:
        """Remove the copies of deleted projects."""
        sources = [build_own_source(each.id) for each in directory.list_projects()]
        await run_in_thread(lambda: self._copies.keep_only(sources))


def build_own_source(id: ProjectId) -> EdgeSource:
    return EdgeSource(url="", key="", project=str(id))
