"""Small components of every family, a record, and two ciphers."""

from dataclasses import replace
from typing import Any

from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.plugin.component import (
    Component,
    Family,
    JobField,
    JobOffer,
    SettingField,
    SettingType,
)
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START

PROJECT = ProjectId(1)
ACTOR = Actor(kind="key", id="k1", name="a key's label")
CIPHER = EncryptionKeys([generate_encryption_key()])
OTHER_CIPHER = EncryptionKeys([generate_encryption_key()])

HOOK = Component(
    key="acme/hook",
    family=Family.DESTINATION,
    name="Hook",
    description="Sends.",
    version="1.0.0",
    settings=(
        SettingField(key="url", name="Address", required=True),
        SettingField(key="note", name="Note", type=SettingType.TEXT, default="hello"),
        SettingField(key="loud", name="Loud", type=SettingType.BOOLEAN, default=False),
        SettingField(key="size", name="Size", type=SettingType.INTEGER, default=5),
        SettingField(key="method", name="Method", type=SettingType.CHOICE, choices=("POST", "PUT")),
        SettingField(key="body", name="Body", type=SettingType.JSON),
        SettingField(key="token", name="Token", secret=True),
        SettingField(key="headers", name="Headers", type=SettingType.JSON, secret=True),
    ),
    jobs=(
        JobOffer(
            type="replay",
            title="Again",
            payload=(
                JobField(key="since", title="Since", required=True),
                JobField(key="until", title="Until", default="now"),
            ),
        ),
        JobOffer(type="test", title="Test", is_default=True),
    ),
)
BAR = Component(
    key="acme/bar",
    family=Family.FRONTEND_APP,
    name="Bar",
    description="Shows.",
    version="2.0.0",
    settings=(
        SettingField(key="message", name="Message", site=True, default="hi"),
        SettingField(key="hidden", name="Hidden"),
        SettingField(key="token", name="Token", secret=True),
    ),
    script="function inject() {}",
)

RECORD = Record(
    id=RecordId(1),
    project_id=PROJECT,
    family=Family.DESTINATION,
    component_id=ComponentId(1000),
    component_version="1.0.0",
    enabled=True,
    order=1,
    name="Mine",
    description="",
    deleted=False,
    config={},
    web_token="token",
    created_at=START,
    updated_at=START,
)


def encrypted(value: Any) -> dict[str, str]:
    return {"$sealed": CIPHER.encrypt(value)}


def build_record(id: int = 1, **fields: Any) -> Record:
    return replace(RECORD, id=RecordId(id), **fields)
