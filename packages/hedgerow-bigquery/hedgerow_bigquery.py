"""BigQuery: streams one row per event into a table, with the key of a service account."""

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import jwt

from hedgerow.plugin import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    TEST_CONNECTION_JOB,
    Component,
    Delivered,
    DeliveryContext,
    Event,
    Failed,
    Family,
    Invalid,
    Outcome,
    Request,
    Response,
    SettingField,
    Settings,
    SettingType,
    TransportError,
    batch_settings,
    build_row,
    check_url,
    classify_response,
)

API = "https://bigquery.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/bigquery"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
KEY_FIELDS = ("client_email", "private_key", "token_uri", "project_id")
TOKEN_S = 3600
# Renewed this early, so that no token expires on its way.
TOKEN_MARGIN_S = 300
MAX_TOKENS = 100
# An error of one row that a retry does not change.
ROW_ERRORS = frozenset({"invalid", "notFound"})
COLUMNS = {
    "project_id": "INTEGER",
    "uuid": "STRING",
    "event": "STRING",
    "distinct_id": "STRING",
    "timestamp": "TIMESTAMP",
    "created_at": "TIMESTAMP",
    "properties": "JSON",
    "elements_chain": "STRING",
    "person_id": "STRING",
    "person_properties": "JSON",
}

_NAME = re.compile(r"[A-Za-z0-9_]{1,1024}")


@dataclass(slots=True)
class TokenCache:
    """Access tokens by service account and key."""

    tokens: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)

    def find(self, key: tuple[str, str]) -> str | None:
        token, expires_s = self.tokens.get(key, ("", 0.0))
        return token if time.monotonic() < expires_s else None

    def add(self, key: tuple[str, str], token: str, valid_s: float) -> None:
        if len(self.tokens) >= MAX_TOKENS:
            self.tokens.clear()
        self.tokens[key] = token, time.monotonic() + valid_s - TOKEN_MARGIN_S


_tokens = TokenCache()


class RefusedError(Exception):
    """Google refused a request that is not about the events."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.reason)
        self.failed = failed


def check(settings: Settings) -> None:
    check_url(settings, "api")
    for key in ("dataset", "table"):
        if not _NAME.fullmatch(settings[key]):
            raise Invalid("Use letters, digits and _.", attr=f"config__{key}")
    if settings["service_account"]:
        _read_account(settings)


def _read_account(settings: Settings) -> Mapping[str, str]:
    try:
        account = json.loads(settings["service_account"])
        if not all(isinstance(account[name], str) for name in KEY_FIELDS):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        detail = f"The JSON key of a service account is required, with {', '.join(KEY_FIELDS)}."
        raise Invalid(detail, attr="config__service_account") from None
    return dict(account)


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    try:
        account = _read_account(settings)
        token = await _fetch_token(account, ctx)
        answer = await _insert(events, account, token, settings, ctx)
        if answer.status == 404:
            await _create_table(account, token, settings, ctx)
            answer = await _insert(events, account, token, settings, ctx)
    except RefusedError as error:
        return [error.failed] * len(events)
    except Invalid as error:
        return [Failed(reason=error.detail)] * len(events)
    except TransportError as error:
        return [Failed(reason=str(error))] * len(events)
    if answer.status != 200:
        return [_wait(answer, ctx)] * len(events)
    return _read_outcomes(answer, len(events))


async def _fetch_token(account: Mapping[str, str], ctx: DeliveryContext) -> str:
    key = account["client_email"], account["private_key"]
    if (known := _tokens.find(key)) is not None:
        return known
    now_s = int(ctx.now.timestamp())
    claims = {
        "iss": account["client_email"],
        "scope": SCOPE,
        "aud": account["token_uri"],
        "iat": now_s,
        "exp": now_s + TOKEN_S,
    }
    try:
        # Reading a key takes a tenth of a second, during which the service could not answer.
        assertion = await asyncio.to_thread(
            jwt.encode, claims, account["private_key"], algorithm="RS256"
        )
    except (ValueError, TypeError, jwt.PyJWTError):
        raise RefusedError(Failed(reason="The private key cannot be read.")) from None
    answer = await ctx.http.send(
        Request(
            method="POST",
            url=account["token_uri"],
            headers={"content-type": "application/x-www-form-urlencoded"},
            body=urlencode({"grant_type": GRANT_TYPE, "assertion": assertion}).encode(),
        )
    )
    if answer.status != 200:
        raise RefusedError(_wait(answer, ctx))
    found = json.loads(answer.body)
    token = str(found["access_token"])
    _tokens.add(key, token, float(found.get("expires_in", TOKEN_S)))
    return token


async def _insert(
    events: Sequence[Event],
    account: Mapping[str, str],
    token: str,
    settings: Settings,
    ctx: DeliveryContext,
) -> Response:
    # Google drops rows whose id it saw within about a minute.
    rows = [{"insertId": event.uuid, "json": build_row(event)} for event in events]
    path = f"tables/{quote(settings['table'])}/insertAll"
    return await _call(path, {"rows": rows, "skipInvalidRows": True}, account, token, settings, ctx)


async def _create_table(
    account: Mapping[str, str], token: str, settings: Settings, ctx: DeliveryContext
) -> None:
    columns = [{"name": name, "type": type, "mode": "REQUIRED"} for name, type in COLUMNS.items()]
    body = {
        "tableReference": {
            "projectId": account["project_id"],
            "datasetId": settings["dataset"],
            "tableId": settings["table"],
        },
        "schema": {"fields": columns},
        "timePartitioning": {"type": "DAY", "field": "timestamp"},
        "clustering": {"fields": ["event", "distinct_id"]},
    }
    answer = await _call("tables", body, account, token, settings, ctx)
    if answer.status not in (200, 409):
        raise RefusedError(_wait(answer, ctx))


async def _call(
    path: str,
    body: Any,
    account: Mapping[str, str],
    token: str,
    settings: Settings,
    ctx: DeliveryContext,
) -> Response:
    place = f"projects/{quote(account['project_id'])}/datasets/{quote(settings['dataset'])}"
    return await ctx.http.send(
        Request(
            method="POST",
            url=f"{settings['api'].rstrip('/')}/bigquery/v2/{place}/{path}",
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
            body=json.dumps(body, ensure_ascii=False).encode(),
            timeout_s=30,
        )
    )


def _wait(answer: Response, ctx: DeliveryContext) -> Failed:
    """Wrong settings are not the fault of the events, so they wait."""
    outcome = classify_response(answer, ctx.now)
    if isinstance(outcome, Failed):
        return Failed(reason=f"BigQuery: {outcome.reason}", retry_after_s=outcome.retry_after_s)
    return Failed(reason="BigQuery sent an unexpected response.")


def _read_outcomes(answer: Response, count: int) -> list[Outcome]:
    """Return one outcome for each row: the response names the rows that were not stored."""
    outcomes: list[Outcome] = [Delivered()] * count
    for each in json.loads(answer.body or b"{}").get("insertErrors", ()):
        errors = each.get("errors") or [{}]
        reason = f"BigQuery: {errors[0].get('message') or errors[0].get('reason')}"
        is_rejected = errors[0].get("reason") in ROW_ERRORS
        outcomes[each["index"]] = Failed(
            reason=reason, is_final=is_rejected, event_rejected=is_rejected
        )
    return outcomes


COMPONENT = Component(
    key="hedgerow/bigquery-table",
    family=Family.DESTINATION,
    name="BigQuery table",
    description="Streams events into a BigQuery table; creates the table if needed.",
    version="1.0.0",
    settings=(
        SettingField(
            key="service_account",
            name="Service account",
            type=SettingType.TEXT,
            required=True,
            secret=True,
            hint="The JSON key of an account that may edit data in the dataset.",
        ),
        SettingField(key="dataset", name="Dataset", required=True, is_address=False),
        SettingField(key="table", name="Table", default="hedgerow_events", is_address=False),
        SettingField(key="api", name="API", default=API, is_address=True),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=500, seconds=5),
    ),
    jobs=(REPLAY_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
