"""`/ofrep/v1`: flags by the OpenFeature Remote Evaluation Protocol, for OpenFeature's SDKs. Plain
handlers in front of FastAPI.

A boolean flag is true or false, one with variants is the variant's key, a remote configuration is
its payload. What has no value for somebody is told without one: the app's own default counts.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope

from hedgerow.errors import AppError
from hedgerow.flags.decide import Asked, Decider, nowhere
from hedgerow.flags.model import Flag, Outcome, Reason
from hedgerow.flags.rules import condition_sets, variant_keys
from hedgerow.http.decide import Places, runtime_of
from hedgerow.http.origin import header
from hedgerow.http.payload.errors import NoData
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.project_key import NoProjectKey, project_of
from hedgerow.http.reply import JSON_TYPE, Header, Reply, json_reply, reply
from hedgerow.http.request_headers import bearer, has_answer
from hedgerow.http.trace import Trace
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.text import cut_short
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project

PATH = "/ofrep/v1/evaluate/flags"
# A browser shows a page no other header of an answer than these.
EXPOSED: Header = (b"access-control-expose-headers", b"ETag")
CONFIGURATION = jsonio.encode(
    {
        "name": "Hedgerow",
        "capabilities": {
            "cacheInvalidation": {"polling": {"enabled": True, "minPollingIntervalMs": 1000}},
            "flagEvaluation": {"supportedTypes": ["boolean", "string", "int", "float", "object"]},
            "caching": {"enabled": False},
        },
    }
)
NO_KEY = (
    "Project API key not provided: send it as `Authorization: Bearer` or as `X-API-Key`. "
    "`hedgerow projects list` shows it."
)
TARGETING_KEY = "targetingKey"
# What a context may say besides properties of the person.
GROUPS, GROUP_PROPERTIES, DEVICE_ID = "$groups", "$group_properties", "$device_id"


class Refused(Exception):
    """The protocol's own form of an error."""

    def __init__(self, code: str, details: str, status: int = 400) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.status = status


class OfrepDoor:
    """The handlers, with what they work with."""

    def __init__(
        self,
        directory: Directory,
        decider: Decider,
        payloads: PayloadReader,
        places: Places | None,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._decider = decider
        self._payloads = payloads
        self._places = places
        self._clock = clock

    async def evaluate_all(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        project = await self._project(scope, trace)
        try:
            outcomes = await self._outcomes(project, scope, receive, trace)
        except Refused as refused:
            return _error(refused)
        told = [_told(each) for each in outcomes if not each.flag.has_encrypted_payloads]
        return _marked(scope, jsonio.encode({"flags": told}))

    async def evaluate_one(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        project = await self._project(scope, trace)
        key = scope["path"].removeprefix(f"{PATH}/").rstrip("/")
        try:
            outcomes = await self._outcomes(project, scope, receive, trace, key)
            outcome = next((each for each in outcomes if each.flag.key == key), None)
            if outcome is None or outcome.flag.has_encrypted_payloads:
                raise Refused("FLAG_NOT_FOUND", f"There is no flag {cut_short(key)!r} to ask.", 404)
            told = _told(outcome)
        except Refused as refused:
            return _error(refused, key)
        return json_reply(400 if "errorCode" in told else 200, told)

    async def configuration(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        await self._project(scope, trace)
        return _marked(scope, CONFIGURATION)

    async def _project(self, scope: Scope, trace: Trace) -> Project:
        key = bearer(scope) or header(scope, b"x-api-key")
        if not key:
            raise NoProjectKey(NO_KEY)
        project = await project_of(self._directory, key)
        trace.project_id = project.id
        trace.mark("access")
        return project

    async def _outcomes(
        self,
        project: Project,
        scope: Scope,
        receive: Receive,
        trace: Trace,
        key: str | None = None,
    ) -> list[Outcome]:
        asked = _asked(await self._context(scope, receive), scope, self._places, key)
        trace.mark("body")
        decision = await self._decider.decide(project, asked, self._clock())
        trace.mark("evaluate")
        return sorted(decision.outcomes, key=lambda outcome: outcome.flag.key)

    async def _context(self, scope: Scope, receive: Receive) -> Mapping[str, Any]:
        try:
            body = await self._payloads.read(scope, receive)
        except NoData:
            body = {}
        except AppError as error:
            if error.status != 400:
                raise
            raise Refused("PARSE_ERROR", error.detail) from None
        if not isinstance(body, dict):
            raise Refused("PARSE_ERROR", "A JSON object is required.")
        context = body.get("context")
        if not isinstance(context, dict | None):
            raise Refused("INVALID_CONTEXT", "The context must be an object.")
        return context or {}


def _asked(
    context: Mapping[str, Any], scope: Scope, places: Places | None, key: str | None
) -> Asked:
    id = context.get(TARGETING_KEY)
    if id is None or id == "":
        raise Refused("TARGETING_KEY_MISSING", "A targetingKey is required: the distinct id.")
    if isinstance(id, bool) or not isinstance(id, str | int | float):
        raise Refused("INVALID_CONTEXT", "The targetingKey must be a text.")
    device = context.get(DEVICE_ID)
    special = (TARGETING_KEY, GROUPS, GROUP_PROPERTIES, DEVICE_ID)
    return Asked(
        distinct_id=str(id),
        person_properties={name: each for name, each in context.items() if name not in special},
        groups={name: str(each) for name, each in _object(context, GROUPS).items() if each},
        group_properties={
            name: each
            for name, each in _object(context, GROUP_PROPERTIES).items()
            if isinstance(each, dict)
        },
        device_id=device if isinstance(device, str) else None,
        flag_keys=None if key is None else frozenset((key,)),
        runtime=lambda: runtime_of({}, scope),
        place=nowhere if places is None else lambda: places(scope),
    )


def _object(context: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = context.get(name)
    if not isinstance(value, dict | None):
        raise Refused("INVALID_CONTEXT", f"{name} must be an object.")
    return value or {}


def _told(outcome: Outcome) -> dict[str, Any]:
    flag = outcome.flag
    if outcome.failed:
        details = outcome.error or outcome.reason.description(None)
        return {"key": flag.key, "errorCode": "GENERAL", "errorDetails": details}
    told = {
        "key": flag.key,
        "reason": _reason(outcome),
        "variant": outcome.variant or ("true" if outcome.value else "false"),
        "metadata": {
            "id": flag.id,
            "version": flag.version,
            "reason": outcome.reason.value,
            **({} if outcome.payload is None else {"payload": _text(outcome.payload)}),
        },
    }
    return told | _value(outcome)


def _value(outcome: Outcome) -> dict[str, Any]:
    """Nothing where the flag has no value of its own type for somebody."""
    if outcome.flag.is_remote_configuration:
        found = _parsed(outcome.payload)
        return {} if found is None else {"value": found}
    if outcome.value is False and variant_keys(outcome.flag.filters):
        return {}
    return {"value": outcome.value}


def _parsed(payload: Any) -> Any:
    try:
        return jsonio.parse(payload.encode()) if isinstance(payload, str) else payload
    except jsonio.JsonError:  # stored by a mistake
        return None


def _text(payload: Any) -> str:
    return payload if isinstance(payload, str) else jsonio.encode(payload).decode()


def _reason(outcome: Outcome) -> str:
    """OpenFeature's word for it."""
    match outcome.reason:
        case Reason.DISABLED:
            return "DISABLED"
        case Reason.MATCH:
            return _reason_of_match(outcome.flag, outcome)
        case Reason.SUPER_CONDITION:
            return "TARGETING_MATCH"
        case Reason.OUT_OF_ROLLOUT | Reason.HOLDOUT:
            return "SPLIT"
        case _:
            return "DEFAULT"


def _reason_of_match(flag: Flag, outcome: Outcome) -> str:
    groups = condition_sets(flag.filters)
    index = outcome.condition_index or 0
    group = groups[index] if index < len(groups) else {}
    if group.get("properties"):
        return "TARGETING_MATCH"
    is_drawn = outcome.variant is not None and not group.get("variant")
    is_whole = group.get("rollout_percentage") in (None, 100)
    return "STATIC" if is_whole and not is_drawn else "SPLIT"


def _marked(scope: Scope, body: bytes) -> Reply:
    """304 to whoever has this very answer."""
    mark = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    etag = (b"etag", mark.encode())
    if has_answer(scope, mark):
        return reply(304, b"", etag, EXPOSED)
    return reply(200, body, JSON_TYPE, etag, EXPOSED)


def _error(refused: Refused, key: str | None = None) -> Reply:
    named = {} if key is None else {"key": key}
    body = {**named, "errorCode": refused.code, "errorDetails": refused.details}
    return json_reply(refused.status, body)
