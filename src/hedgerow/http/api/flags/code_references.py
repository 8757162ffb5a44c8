"""Code references: where source code names flags, as `hedgerow flags scan` uploads it."""

from typing import Annotated, Any, ClassVar

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.flags.code_references.scanner import CodeReference
from hedgerow.flags.code_references.source_files import MAX_REFERENCES
from hedgerow.flags.code_references.store import (
    CodeReferenceStore,
    CodeScan,
    ReferenceFilter,
    StoredReference,
    UnknownKey,
    UnusedFlag,
)
from hedgerow.flags.validate import check_key
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter, parse_text
from hedgerow.http.payload.fields import INT32_MAX, Fields, Text
from hedgerow.http.server.response import JsonResponse
from hedgerow.lib.clock import format_iso
from hedgerow.lib.shape import Shape
from hedgerow.projects.validation import check_known_fields, check_storable

READ = in_project("feature_flag:read")
WRITE = in_project("feature_flag:write")
REPOSITORY_MAX = 200
COMMIT_MAX = 100
FILE_MAX = 1000
REFERENCE_FIELDS = ("key", "file", "line")
FILTERS = (
    Parameter("key", "Only references to the flag with this key."),
    Parameter("repository", "Only references in this repository."),
)


class CodeReferenceItem(msgspec.Struct, kw_only=True):
    id: int
    key: str
    repository: str
    file: str
    line: int
    commit: str
    created_at: str


class UnusedFlagItem(msgspec.Struct, kw_only=True):
    id: int
    key: str
    name: str
    active: bool
    last_called_at: str | None


class UnknownKeyItem(msgspec.Struct, kw_only=True):
    """`file` and `line` are those of the first reference."""

    key: str
    references: int
    repository: str
    file: str
    line: int


class UploadItem(msgspec.Struct, kw_only=True):
    repository: str
    commit: str
    references: int


class CodeScanBody(Fields):
    """All references in a repository; those of an earlier upload are replaced. Each has a `key`, a
    `file` and a `line`."""

    ignored_fields: ClassVar[frozenset[str] | None] = frozenset()

    repository: Annotated[str, Text(REPOSITORY_MAX)]
    commit: Annotated[str, Text(COMMIT_MAX, blank=True)] = ""
    references: list[dict[str, Any]]

    def to_scan(self) -> CodeScan:
        if len(self.references) > MAX_REFERENCES:
            raise Invalid(f"No more than {MAX_REFERENCES} references.", attr="references")
        return CodeScan(
            repository=self.repository,
            commit=self.commit,
            references=[
                _parse_reference(each, f"references.{number}")
                for number, each in enumerate(self.references)
            ],
        )


def _parse_reference(value: dict[str, Any], place: str) -> CodeReference:
    check_known_fields(value, Shape(*REFERENCE_FIELDS), place)
    key, file, line = (value.get(name) for name in REFERENCE_FIELDS)
    if not isinstance(key, str):
        raise Invalid("Not a valid string.", attr=f"{place}.key")
    try:
        check_key(key, {})
    except Invalid as error:
        raise Invalid(error.detail, attr=f"{place}.key", code=error.code) from None
    if not isinstance(file, str) or not 0 < len(file) <= FILE_MAX:
        detail = f"Expected a path of 1 to {FILE_MAX} characters."
        raise Invalid(detail, attr=f"{place}.file")
    check_storable(file, f"{place}.file")
    if not isinstance(line, int) or isinstance(line, bool) or not 0 < line <= INT32_MAX:
        raise Invalid("Expected a line number, from 1 on.", attr=f"{place}.line")
    return CodeReference(file=file, line=line, key=key)


def _render_reference(stored: StoredReference) -> CodeReferenceItem:
    return CodeReferenceItem(
        id=stored.id,
        key=stored.reference.key,
        repository=stored.repository,
        file=stored.reference.file,
        line=stored.reference.line,
        commit=stored.commit,
        created_at=format_iso(stored.created_at),
    )


def _render_unused(flag: UnusedFlag) -> UnusedFlagItem:
    called = flag.last_called_at
    return UnusedFlagItem(
        id=flag.id,
        key=flag.key,
        name=flag.name,
        active=flag.active,
        last_called_at=None if called is None else format_iso(called),
    )


def _render_unknown(unknown: UnknownKey) -> UnknownKeyItem:
    return UnknownKeyItem(
        key=unknown.key,
        references=unknown.references,
        repository=unknown.repository,
        file=unknown.file,
        line=unknown.line,
    )


def _parse_filter(call: ProjectCall) -> ReferenceFilter:
    key, repository = call.query_param("key"), call.query_param("repository")
    return ReferenceFilter(
        key=parse_text(key, "key") if key else None,
        repository=parse_text(repository, "repository") if repository else None,
        limit=call.window.limit,
        offset=call.window.offset,
    )


class CodeReferenceEndpoints:
    tag = "Feature flags"

    def __init__(self, references: CodeReferenceStore) -> None:
        self._references = references

    @endpoint(
        "GET",
        *project_paths("code_references/"),
        access=READ,
        response=Page[CodeReferenceItem],
        query=PAGE_PARAMETERS + FILTERS,
    )
    async def list_code_references(self, call: ProjectCall) -> Response:
        """List where source code names flags, by repository, file and line."""
        found, count = await self._references.references(call.project.id, _parse_filter(call))
        return JsonResponse(call.page(count, [_render_reference(each) for each in found]))

    @endpoint(
        "POST",
        *project_paths("code_references/"),
        access=WRITE,
        response=UploadItem,
        status=201,
        body=CodeScanBody,
    )
    async def upload_code_references(self, call: ProjectCall) -> Response:
        """Replace all references of a repository. Without references, the repository is removed."""
        scan = (await call.body(CodeScanBody)).to_scan()
        await self._references.replace_scan(call.project.id, scan, call.actor, call.now)
        item = UploadItem(
            repository=scan.repository,
            commit=scan.commit,
            references=len(set(scan.references)),
        )
        return JsonResponse(item, status_code=201)

    @endpoint(
        "GET",
        *project_paths("code_references/unused_flags/"),
        access=READ,
        response=Page[UnusedFlagItem],
        query=PAGE_PARAMETERS,
    )
    async def list_unused_flags(self, call: ProjectCall) -> Response:
        """List the flags that no reference names, without deleted and archived ones."""
        window = call.window
        found, count = await self._references.unused_flags(
            call.project.id, window.limit, window.offset
        )
        return JsonResponse(call.page(count, [_render_unused(each) for each in found]))

    @endpoint(
        "GET",
        *project_paths("code_references/unknown_keys/"),
        access=READ,
        response=Page[UnknownKeyItem],
        query=PAGE_PARAMETERS,
    )
    async def list_unknown_keys(self, call: ProjectCall) -> Response:
        """List the keys that references name and no flag has."""
        window = call.window
        found, count = await self._references.unknown_keys(
            call.project.id, window.limit, window.offset
        )
        return JsonResponse(call.page(count, [_render_unknown(each) for each in found]))
