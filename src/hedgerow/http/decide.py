"""`POST /decide` and `/flags`: what a public key may ask. Plain handlers in front of FastAPI."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.types import Receive, Scope

from hedgerow.errors import Invalid
from hedgerow.flags.decide import Asked, Decider, Decision, nowhere
from hedgerow.flags.model import DISTINCT_ID_MAX, Runtime
from hedgerow.http.flag_answers import Form, answer
from hedgerow.http.payload.errors import NoData
from hedgerow.http.payload.reader import PayloadReader
from hedgerow.http.project_key import project_of
from hedgerow.http.reply import JSON_TYPE, Reply, reply
from hedgerow.http.sdk_config import OF_DECIDE, SdkConfigs, newer
from hedgerow.http.trace import Trace
from hedgerow.lib.clock import Clock
from hedgerow.projects.directory import Directory
from hedgerow.projects.token_places import token_in

TRUTHS = (True, "true", "True", "1")
# Whoever says no more than this is spared the questions for all else that may be said.
USUAL = frozenset(("api_key", "token", "distinct_id", "person_properties"))
ANONYMOUS_ID = "$anon_distinct_id"
NOTHING = Decision(outcomes=(), has_errors=False)
# What SDKs that run on servers call themselves.
SERVER_AGENTS = (
    "posthog-python",
    "posthog-node",
    "posthog-ruby",
    "posthog-php",
    "posthog-go",
    "posthog-java",
    "posthog-dotnet",
    "posthog-elixir",
    "python-requests",
    "curl",
)
CLIENT_AGENTS = (
    "posthog-android",
    "posthog-ios",
    "posthog-react-native",
    "posthog-flutter",
    "mozilla/",
)


# Makes what is told besides flags of the part that all doors have, and the project's key.
ConfigForm = Callable[[bytes, str], bytes]
# The properties of the place that a request comes from.
Places = Callable[[Scope], Mapping[str, str]]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a query string asks for."""

    form: Form
    config: bool
    time: bool
    only_surveys: bool


class Decide:
    """The handlers, with what they work with."""

    def __init__(
        self,
        directory: Directory,
        decider: Decider,
        configs: SdkConfigs,
        payloads: PayloadReader,
        places: Places | None,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._decider = decider
        self._configs = configs
        self._payloads = payloads
        self._places = places
        self._clock = clock

    async def decide(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        wish = _decide_wish(scope["query_string"])
        return await self._answer(scope, receive, trace, wish, _of_decide)

    async def flags(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        wish = _flags_wish(scope["query_string"])
        return await self._answer(scope, receive, trace, wish, newer)

    async def _answer(
        self, scope: Scope, receive: Receive, trace: Trace, wish: Wish, told: ConfigForm
    ) -> Reply:
        try:
            body = await self._payloads.read(scope, receive)
        except NoData:
            body = {}
        trace.mark("body")
        if isinstance(body, list):
            body = body[0] if body else {}
        if not isinstance(body, dict):
            raise Invalid("A JSON object is required.", code="malformed_data")
        token = token_in(body)
        project = await project_of(self._directory, token)
        trace.project_id = project.id
        trace.mark("access")
        decision = NOTHING
        if body.get("disable_flags") not in TRUTHS:
            asked = _asked(body, scope, self._place(body, scope), only_surveys=wish.only_surveys)
            decision = await self._decider.decide(project, asked, self._clock())
            trace.mark("evaluate")
        config = told(self._configs.part(project.id), token) if wish.config else b""
        evaluated_at = self._clock() if wish.time else None
        return reply(200, answer(decision, wish.form, config, evaluated_at), JSON_TYPE)

    def _place(self, body: Mapping[str, Any], scope: Scope) -> Callable[[], Mapping[str, str]]:
        places = self._places
        # The second is what posthog-python said before version 4, and meant.
        is_unwanted = body.get("geoip_disable") in TRUTHS or body.get("disable_geoip") in TRUTHS
        if places is None or is_unwanted:
            return nowhere
        return lambda: places(scope)


def _of_decide(part: bytes, token: str) -> bytes:
    return part + OF_DECIDE


def _asked(
    body: Mapping[str, Any],
    scope: Scope,
    place: Callable[[], Mapping[str, str]],
    *,
    only_surveys: bool,
) -> Asked:
    properties = _object(body, "person_properties", "$properties")
    if body.keys() <= USUAL and ANONYMOUS_ID not in properties:
        return Asked(
            distinct_id=_distinct_id(body),
            person_properties=properties,
            runtime=lambda: runtime_of(body, scope),
            only_surveys=only_surveys,
            place=place,
        )
    keys = _given(body, "flag_keys", "flag_keys_to_evaluate")
    contexts = _given(body, "evaluation_contexts", "evaluation_environments")
    groups = _object(body, "groups", "$groups")
    described = _object(body, "group_properties", "$group_properties")
    before = _text(body, ANONYMOUS_ID, "anon_distinct_id")
    if before is None:
        before = _text(properties, ANONYMOUS_ID)
    return Asked(
        distinct_id=_distinct_id(body),
        person_properties=properties,
        groups=_groups(groups) if groups else groups,
        group_properties=_objects(described) if described else described,
        anonymous_id=before and before[:DISTINCT_ID_MAX],
        device_id=_text(body, "$device_id", "device_id"),
        flag_keys=_texts(keys, "flag_keys"),
        contexts=_texts(contexts, "evaluation_contexts") or None,
        runtime=lambda: runtime_of(body, scope),
        only_surveys=only_surveys,
        place=place,
    )


def _distinct_id(body: Mapping[str, Any]) -> str:
    value = _given(body, "distinct_id", "$distinct_id")
    if isinstance(value, str):
        return value
    if value is None:
        raise Invalid("A distinct_id is required.", code="missing_distinct_id")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid("A text or a number is required.", attr="distinct_id")
    return str(value)


def _given(body: Mapping[str, Any], name: str, alias: str) -> Any:
    value = body.get(name)
    return body.get(alias) if value is None else value


def _object(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = body.get(name)
        if value is not None:
            if not isinstance(value, dict):
                raise Invalid("A JSON object is required.", attr=name, code="malformed_data")
            return value
    return {}


def _groups(given: Mapping[str, Any]) -> dict[str, str]:
    """A group's key is text or a number; anything else is as if it were not there."""
    return {
        name: str(key)
        for name, key in given.items()
        if key != "" and isinstance(key, str | int | float) and not isinstance(key, bool)
    }


def _objects(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in given.items() if isinstance(each, dict)}


def _text(body: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = body.get(name)
        if isinstance(value, str):
            return value
    return None


def _texts(value: Any, name: str) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise Invalid("A list is required.", attr=name)
    return frozenset(each for each in value if isinstance(each, str))


def runtime_of(body: Mapping[str, Any], scope: Scope) -> Runtime | None:
    """Where the caller says it runs, or looks as if it did; None when nobody can tell."""
    said = body.get("evaluation_runtime")
    if said in ("client", "server", "all"):
        return Runtime(said)
    agent = b""
    for name, value in scope["headers"]:
        if name == b"user-agent":
            agent = value
        elif name in (b"origin", b"referer", b"sec-fetch-mode"):
            return Runtime.CLIENT
    text = agent[:200].decode("latin-1").lower()
    if text.startswith(SERVER_AGENTS):
        return Runtime.SERVER
    return Runtime.CLIENT if text.startswith(CLIENT_AGENTS) else None


@lru_cache(maxsize=256)
def _decide_wish(query_string: bytes) -> Wish:
    query = _query(query_string)
    version = min(max(_number(query.get("v"), 1), 1), 4)
    return Wish(
        form=(Form.KEYS, Form.ON, Form.VALUES, Form.DETAILS)[version - 1],
        config=True,
        time=False,
        only_surveys=_wants_only_surveys(query),
    )


@lru_cache(maxsize=256)
def _flags_wish(query_string: bytes) -> Wish:
    query = _query(query_string)
    version, config = query.get("v"), query.get("config")
    return Wish(
        form=Form.VALUES if _number(version, 2 if config is None else 1) < 2 else Form.DETAILS,
        config=config in ("true", "1") or (version is None and config is None),
        time=True,
        only_surveys=_wants_only_surveys(query),
    )


def _wants_only_surveys(query: Mapping[str, str]) -> bool:
    return query.get("only_evaluate_survey_feature_flags") in ("true", "1")


def _query(query_string: bytes) -> dict[str, str]:
    parsed = parse_qs(query_string[:2000].decode("latin-1"), keep_blank_values=True)
    return {name: values[-1] for name, values in parsed.items()}


def _number(text: str | None, default: int) -> int:
    if text is None:
        return default
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        return 1
    return int(text[:10])
