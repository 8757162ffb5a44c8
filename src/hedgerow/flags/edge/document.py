"""The document from which an edge process evaluates the flags of a project. Pure.

Definitions for SDKs leave out what SDKs evaluate otherwise. This document has all of it, because an
edge process runs the same engine. Encrypted payloads and the names of people stay at the origin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.payloads import redact_filters
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import Project, ProjectId, ProjectToken

# An edge process refuses a document of another format.
FORMAT = 1


class InvalidDocument(Exception):
    """The bytes are no document that this version understands."""


class EdgeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A public key of the project; a rotated one expires."""

    value: str
    expires_at: datetime | None = None


class EdgeProject(msgspec.Struct, frozen=True, kw_only=True):
    """`config` is the SDK configuration in responses of /decide."""

    id: ProjectId
    uuid: str
    name: str
    timezone: str
    api_token: str
    created_at: datetime
    updated_at: datetime
    tokens: Sequence[EdgeToken]
    config: Mapping[str, Any]


class EdgeDocument(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    project: EdgeProject
    definitions: FlagDefinitions


class OwnedProject(msgspec.Struct, frozen=True, kw_only=True):
    """A project that the other processes of this machine may answer for. `version` changes with its
    document."""

    id: ProjectId
    version: str
    secret_hashes: Sequence[str] = ()


class _AnyFormat(msgspec.Struct):
    format: int


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(EdgeDocument)
_format_decoder = msgspec.json.Decoder(_AnyFormat)


def describe_project(
    project: Project, tokens: Sequence[ProjectToken], config: Mapping[str, Any]
) -> EdgeProject:
    return EdgeProject(
        id=project.id,
        uuid=project.uuid,
        name=project.name,
        timezone=project.timezone,
        api_token=project.api_token,
        created_at=project.created_at,
        updated_at=project.updated_at,
        tokens=[EdgeToken(value=each.value, expires_at=each.expires_at) for each in tokens],
        config=config,
    )


def encode_document(project: EdgeProject, definitions: FlagDefinitions) -> bytes:
    shown = replace(
        definitions,
        flags=[_hide_private_parts(flag) for flag in definitions.flags if not flag.deleted],
        cohorts=[_hide_author(cohort) for cohort in definitions.cohorts],
    )
    return _encode(EdgeDocument(format=FORMAT, project=project, definitions=shown))


def decode_document(body: bytes) -> EdgeDocument:
    try:
        number = _format_decoder.decode(body).format
        if number != FORMAT:
            raise InvalidDocument(f"format {number}, expected {FORMAT}: update the older process")
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidDocument(str(error)) from None


def _hide_private_parts(flag: Flag) -> Flag:
    """Remove encrypted payloads and people. When a flag was last called would change too often."""
    return replace(
        flag,
        filters=redact_filters(flag),
        created_by="",
        last_modified_by="",
        owners=(),
        tags=(),
        last_called_at=None,
    )


def _hide_author(cohort: Cohort) -> Cohort:
    return replace(cohort, created_by="", description="")
