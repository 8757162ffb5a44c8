"""Webhook: each event, or a batch of them, as an HTTP request."""

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import BATCHING, FILTERS, REPLAY, TEST_CONNECTION
from hedgerow.pipelines.model import Family

COMPONENT = Component(
    key="hedgerow/webhook",
    family=Family.DESTINATION,
    name="Webhook",
    description="Sends events to any address as HTTP requests, signed if you like.",
    version="1.0.0",
    settings=(
        SettingField(key="url", name="Address", required=True, hint="https://example.com/hook"),
        SettingField(
            key="method",
            name="Method",
            type=SettingType.CHOICE,
            choices=("POST", "PUT", "PATCH"),
            default="POST",
        ),
        SettingField(
            key="headers",
            name="Headers",
            type=SettingType.JSON,
            default={},
            secret=True,
            hint="More headers, as an object. Kept secret: they often hold tokens.",
        ),
        SettingField(
            key="body",
            name="Body",
            type=SettingType.JSON,
            hint="A JSON template over event, person, groups and project. Empty: the whole event.",
        ),
        SettingField(
            key="secret",
            name="Signing secret",
            secret=True,
            hint="Signs each request with HMAC-SHA256, in the form of Standard Webhooks.",
        ),
        *FILTERS,
        *BATCHING,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
)
