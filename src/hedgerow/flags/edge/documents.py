"""The encoded documents for edge processes, kept until a definition or the project changes."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from hedgerow.flags.edge.document import (
    EdgeProject,
    OwnedProject,
    describe_project,
    encode_document,
)
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.local_evaluation.cache import CachedBody
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project, ProjectId, ProjectToken

RunInThread = Callable[[Callable[[], CachedBody]], Awaitable[CachedBody]]
# Returns the SDK configuration of a project.
GetConfig = Callable[[ProjectId], Mapping[str, Any]]

# Edge processes of more projects than this cause their documents to be encoded more often.
MAX_DOCUMENTS = 100


class EdgeDocuments:
    def __init__(
        self,
        flag_cache: FlagCache,
        directory: Directory,
        get_config: GetConfig,
        run_in_thread: RunInThread,
    ) -> None:
        self._flag_cache = flag_cache
        self._directory = directory
        self._get_config = get_config
        self._run_in_thread = run_in_thread
        # By project, with the generation of the definitions and the project as it was.
        self._documents: dict[ProjectId, tuple[int, bytes, CachedBody]] = {}
        self._lock = asyncio.Lock()

    async def get(self, project: Project) -> CachedBody:
        """Return the document and its ETag, which is the same in every process."""
        async with self._lock:
            # A stream holds the project as it was when the stream began.
            project = self._directory.get_project(project.id) or project
            definitions = (await self._flag_cache.snapshot(project)).definitions
            shown = self._describe(project, self._directory.list_tokens(project.id))
            generation, state = definitions.generation, msgspec.json.encode(shown)
            known = self._documents.get(project.id)
            if known is not None and known[:2] == (generation, state):
                return known[2]
            document = await self._run_in_thread(
                lambda: _build_body(encode_document(shown, definitions))
            )
            self._documents.pop(project.id, None)
            self._documents[project.id] = (generation, state, document)
            if len(self._documents) > MAX_DOCUMENTS:
                del self._documents[next(iter(self._documents))]
            return document

    async def get_etag(self, project: Project) -> str:
        return (await self.get(project)).etag

    def list_projects(self) -> list[OwnedProject]:
        """List the projects whose flags are in memory. Encodes no document."""
        tokens, secrets = defaultdict(list), defaultdict(list)
        for token in self._directory.list_all_tokens():
            tokens[token.project_id].append(token)
        for hash, id in self._directory.list_secret_hashes().items():
            secrets[id].append(hash)
        listed = []
        for id in sorted(self._flag_cache.project_ids):
            project = self._directory.get_project(id)
            snapshot = None if project is None else self._flag_cache.get_cached(project)
            if project is None or snapshot is None:
                continue
            state = msgspec.json.encode(self._describe(project, tokens[id]))
            text = b"%d %s" % (snapshot.definitions.generation, state)
            version = hashlib.sha256(text).hexdigest()[:32]
            listed.append(OwnedProject(id=id, version=version, secret_hashes=sorted(secrets[id])))
        return listed

    def _describe(self, project: Project, tokens: Sequence[ProjectToken]) -> EdgeProject:
        ordered = sorted(tokens, key=lambda each: each.value)
        return describe_project(project, ordered, self._get_config(project.id))


def _build_body(body: bytes) -> CachedBody:
    return CachedBody(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
