"""Reads SDK payloads. The event loop parses small ones, worker processes parse large ones, after
the project key is known.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from starlette.types import Receive, Scope

from hedgerow.errors import TooLarge
from hedgerow.http.auth.project_key import find_project_by_token
from hedgerow.http.payload.body_memory import BodyMemory
from hedgerow.http.payload.documents import OPENERS, parse_json
from hedgerow.http.payload.layers import decode
from hedgerow.http.payload.limits import INLINE_LIMITS, UNIDENTIFIED_LIMITS, PayloadLimits
from hedgerow.http.payload.raw import RawPayload, read_hints
from hedgerow.http.payload.receive import check_announced_size, receive_body, take_complete_body
from hedgerow.http.payload.token_search import TokenHints, search_token
from hedgerow.http.payload.workers import (
    CaptureArguments,
    ParsedPayload,
    PayloadRequest,
    PayloadWorkers,
)
from hedgerow.http.server.proxies import Origins
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project

# Compressed data may grow a thousand times, and lz64 takes long to decompress.
INLINE_PACKED_BYTES = 16 * 1024


class PayloadServices(msgspec.Struct, frozen=True, kw_only=True):
    """What all readers share."""

    directory: Directory
    origins: Origins
    workers: PayloadWorkers
    memory: BodyMemory
    timeout_s: float


class PayloadReader:
    """Reads the payload of a request: `data` of the query string if present, else the body. With
    `is_lenient`, the reader ignores unknown compressions, cuts values that are nested too deep, and
    keeps lone surrogates; the caller must reject or sanitize these."""

    def __init__(
        self,
        services: PayloadServices,
        limits: PayloadLimits,
        *,
        max_bytes: int,
        is_lenient: bool = False,
    ) -> None:
        self._services = services
        self._limits = limits
        self._max_bytes = max_bytes
        self._is_lenient = is_lenient

    async def read(self, scope: Scope, receive: Receive, project: Project | None = None) -> Any:
        """Return the JSON value. The key of a large payload must be valid, unless the caller has
        authenticated the `project`."""
        raw, parsed = await self._read(scope, receive, lambda value: value, project=project)
        return raw if parsed is None else parsed.value

    async def read_events(
        self,
        scope: Scope,
        receive: Receive,
        parse: Callable[[Any], Any],
        arguments: CaptureArguments,
    ) -> Any:
        """Return `parse(value)` for a small payload, which may raise TooLarge, and a ParsedPayload
        with a batch for a large one."""
        result, parsed = await self._read(scope, receive, parse, arguments=arguments)
        return result if parsed is None else parsed

    async def _read(
        self,
        scope: Scope,
        receive: Receive,
        then: Callable[[Any], Any],
        arguments: CaptureArguments | None = None,
        project: Project | None = None,
    ) -> tuple[Any, ParsedPayload | None]:
        hints = read_hints(scope, is_lenient=self._is_lenient)
        body = hints.data if hints.is_query else take_complete_body(scope, self._max_bytes)
        if body is None:
            check_announced_size(scope, self._max_bytes)
        else:
            try:
                return then(_decode_inline(hints, body)), None
            except TooLarge:
                pass
        address = str(self._services.origins.client_address(scope))
        with self._services.memory.reserve(address) as reservation:
            if body is None:
                body = await receive_body(
                    receive,
                    reservation,
                    max_bytes=self._max_bytes,
                    timeout_s=self._services.timeout_s,
                )
                with suppress(TooLarge):
                    return then(_decode_inline(hints, body)), None
            else:
                reservation.add(len(body))
            raw = msgspec.structs.replace(hints, data=body)
            return None, await self._parse_large(raw, address, arguments, project)

    async def _parse_large(
        self,
        raw: RawPayload,
        address: str,
        arguments: CaptureArguments | None,
        project: Project | None,
    ) -> ParsedPayload:
        """Parse in a worker process, in the queue of the project, or of the address until the
        project is known."""
        workers = self._services.workers
        request = PayloadRequest(raw=raw, limits=self._limits, capture=arguments)
        if project is None:
            project = await self._identify(_find_hints(raw, arguments))
        if project is None:
            parsed = await workers.parse(
                msgspec.structs.replace(request, limits=_restrict(self._limits), finds_token=True),
                f"address {address}",
            )
            if parsed.token is None:
                return parsed
            project = await find_project_by_token(self._services.directory, parsed.token)
        return await workers.parse(request, f"project {project.id}")

    async def _identify(self, hints: TokenHints) -> Project | None:
        """Return the project of the first known token. Raises InvalidProjectKey for a decisive
        token that is unknown."""
        directory = self._services.directory
        for token in hints.others:
            if (project := directory.find_token(token)) is not None:
                return project
        if hints.decisive is None:
            return None
        return await find_project_by_token(directory, hints.decisive)


def _decode_inline(hints: RawPayload, body: bytes) -> Any:
    """Raises TooLarge for a payload that would block the event loop."""
    if not hints.has_hints and body.startswith(OPENERS):
        if len(body) > INLINE_LIMITS.max_unpacked_bytes:
            raise TooLarge
        return parse_json(body, hints.is_lenient, INLINE_LIMITS)
    if len(body) > INLINE_PACKED_BYTES:
        raise TooLarge
    return decode(msgspec.structs.replace(hints, data=body), INLINE_LIMITS)


def _find_hints(raw: RawPayload, arguments: CaptureArguments | None) -> TokenHints:
    if arguments is not None and arguments.v1 is not None and arguments.v1.token:
        return TokenHints(arguments.v1.token)
    if arguments is not None and arguments.segment is not None:
        return TokenHints(arguments.segment.token)
    return search_token(raw)


def _restrict(limits: PayloadLimits) -> PayloadLimits:
    """Return the limits for a payload without a known key."""
    most = UNIDENTIFIED_LIMITS
    return msgspec.structs.replace(
        most,
        max_unpacked_bytes=min(limits.max_unpacked_bytes, most.max_unpacked_bytes),
        max_objects=min(limits.max_objects, most.max_objects),
        max_values=min(limits.max_values, most.max_values),
    )
