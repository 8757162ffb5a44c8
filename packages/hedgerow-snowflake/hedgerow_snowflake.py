"""Snowflake: inserts one row per event into a table over the SQL API, with a key pair."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import jwt
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

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

TOKEN_AGE = timedelta(minutes=30)
STATEMENT_TIMEOUT_S = 30
UNKNOWN_OBJECT = "002003"
NAMES = ("database", "schema", "table", "warehouse")
COLUMNS = {
    "project_id": "NUMBER(38, 0)",
    "uuid": "VARCHAR",
    "event": "VARCHAR",
    "distinct_id": "VARCHAR",
    "timestamp": "TIMESTAMP_TZ",
    "created_at": "TIMESTAMP_TZ",
    "properties": "VARIANT",
    "elements_chain": "VARCHAR",
    "person_id": "VARCHAR",
    "person_properties": "VARIANT",
}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,254}")
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")


class RefusedError(Exception):
    """The settings cannot be used."""


def check(settings: Settings) -> None:
    for key in NAMES:
        if not _NAME.fullmatch(settings[key]):
            detail = "Use letters, digits, _ and $, and begin with a letter or _."
            raise Invalid(detail, attr=f"config__{key}")
    if not _ACCOUNT.fullmatch(settings["account"]):
        detail = "An account identifier is required, such as myorg-myaccount."
        raise Invalid(detail, attr="config__account")
    if settings["url"]:
        check_url(settings, "url")


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    try:
        merge = build_merge(settings)
        rows = json.dumps([build_row(event) for event in events], ensure_ascii=False)
        answer = await _run(merge, [rows], settings, ctx)
        if _read_code(answer) == UNKNOWN_OBJECT:
            created = await _run(build_create(settings), [], settings, ctx)
            if created.status != 200:
                return [_wait(created, ctx)] * len(events)
            answer = await _run(merge, [rows], settings, ctx)
    except (RefusedError, TransportError) as error:
        return [Failed(reason=str(error))] * len(events)
    return [Delivered() if answer.status == 200 else _wait(answer, ctx)] * len(events)


def build_create(settings: Settings) -> str:
    columns = ", ".join(f"{name} {type} NOT NULL" for name, type in COLUMNS.items())
    return f"CREATE TABLE IF NOT EXISTS {_table(settings)} ({columns})"


def build_merge(settings: Settings) -> str:
    """Build the statement that inserts rows of a JSON list that the table does not have."""
    values = ", ".join(_read_column(name, type) for name, type in COLUMNS.items())
    names = ", ".join(COLUMNS)
    source = f"SELECT {values} FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?)))"
    return (
        f"MERGE INTO {_table(settings)} AS target USING ({source}) AS source "
        "ON target.project_id = source.project_id AND target.uuid = source.uuid "
        f"WHEN NOT MATCHED THEN INSERT ({names}) "
        f"VALUES ({', '.join(f'source.{name}' for name in COLUMNS)})"
    )


def _read_column(name: str, type: str) -> str:
    value = f"value:{name}::{type if type != 'VARIANT' else 'VARCHAR'}"
    return f"{f'PARSE_JSON({value})' if type == 'VARIANT' else value} AS {name}"


def _table(settings: Settings) -> str:
    return ".".join(settings[key] for key in ("database", "schema", "table"))


async def _run(
    statement: str, bindings: Sequence[str], settings: Settings, ctx: DeliveryContext
) -> Response:
    body: dict[str, Any] = {
        "statement": statement,
        "timeout": STATEMENT_TIMEOUT_S,
        "warehouse": settings["warehouse"],
        "bindings": {
            str(number): {"type": "TEXT", "value": value}
            for number, value in enumerate(bindings, 1)
        },
    }
    if settings["role"]:
        body["role"] = settings["role"]
    # Reading a key takes a tenth of a second, during which the service could not answer.
    token = await asyncio.to_thread(_build_token, settings, ctx)
    default_url = f"https://{settings['account'].lower()}.snowflakecomputing.com"
    return await ctx.http.send(
        Request(
            method="POST",
            url=f"{(settings['url'] or default_url).rstrip('/')}/api/v2/statements?"
            + urlencode({"requestId": str(uuid4())}),
            headers={
                "authorization": f"Bearer {token}",
                "x-snowflake-authorization-token-type": "KEYPAIR_JWT",
                "content-type": "application/json",
                "accept": "application/json",
                "user-agent": "hedgerow",
            },
            body=json.dumps(body, ensure_ascii=False).encode(),
            timeout_s=STATEMENT_TIMEOUT_S + 10,
        )
    )


def _build_token(settings: Settings, ctx: DeliveryContext) -> str:
    try:
        key = load_pem_private_key(settings["private_key"].encode(), None)
    except (ValueError, TypeError):
        raise RefusedError("The private key is not an unencrypted key in PEM format.") from None
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    fingerprint = "SHA256:" + b64encode(sha256(public).digest()).decode()
    # Without region and cloud, which older identifiers have after a dot.
    subject = f"{settings['account'].partition('.')[0]}.{settings['user']}".upper()
    claims = {
        "iss": f"{subject}.{fingerprint}",
        "sub": subject,
        "iat": ctx.now,
        "exp": ctx.now + TOKEN_AGE,
    }
    return jwt.encode(claims, settings["private_key"], algorithm="RS256")


def _read_code(answer: Response) -> str:
    try:
        return str(json.loads(answer.body).get("code", ""))
    except (ValueError, AttributeError):
        return ""


def _wait(answer: Response, ctx: DeliveryContext) -> Failed:
    """A statement that failed or is not done is not the fault of the events, so they wait. The
    statement inserts only what is missing, so it may run again."""
    if answer.status == 202:
        return Failed(reason=f"Snowflake was not done within {STATEMENT_TIMEOUT_S} s.")
    outcome = classify_response(answer, ctx.now)
    reason = outcome.reason if isinstance(outcome, Failed) else f"HTTP {answer.status}"
    return Failed(reason=f"Snowflake: {reason}")


COMPONENT = Component(
    key="hedgerow/snowflake-table",
    family=Family.DESTINATION,
    name="Snowflake table",
    description="Inserts events into a Snowflake table, once each; creates the table if needed.",
    version="1.0.0",
    settings=(
        SettingField(
            key="account",
            name="Account",
            required=True,
            is_address=True,
            hint="The account identifier, such as myorg-myaccount.",
        ),
        SettingField(key="user", name="User", required=True),
        SettingField(
            key="private_key",
            name="Private key",
            type=SettingType.TEXT,
            required=True,
            secret=True,
            hint="The key in PEM format whose public half the user has as RSA_PUBLIC_KEY.",
        ),
        SettingField(key="warehouse", name="Warehouse", required=True, is_address=False),
        SettingField(key="database", name="Database", required=True, is_address=False),
        SettingField(key="schema", name="Schema", default="PUBLIC", is_address=False),
        SettingField(key="table", name="Table", default="HEDGEROW_EVENTS", is_address=False),
        SettingField(key="role", name="Role", default="", is_address=False),
        SettingField(key="url", name="URL", default="", hint="Of a private link, if there is one."),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=500, seconds=10),
    ),
    jobs=(REPLAY_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
