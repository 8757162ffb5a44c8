"""Small components of every kind, a record, and a sealer whose seal can be seen through."""

from dataclasses import replace
from typing import Any

from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.pipelines.component import Component, JobField, JobOffer, SettingField, SettingType
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START

PROJECT = ProjectId(1)
SOMEBODY = Actor(kind="key", id="k1", name="a key's label")
SEALER = SealingKeys([new_sealing_key()])
OTHER_SEALER = SealingKeys([new_sealing_key()])

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


def sealed(value: Any) -> dict[str, str]:
    return {"$sealed": SEALER.seal(value)}


def a_record(id: int = 1, **fields: Any) -> Record:
    return replace(RECORD, id=RecordId(id), **fields)
