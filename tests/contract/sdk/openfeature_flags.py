"""Flags of every type for the tests of OpenFeature SDKs."""

from typing import Any

from tests.contract.sdk.projects import EVERYBODY, Project

PRO = {"properties": [{"key": "plan", "value": "pro"}], "rollout_percentage": 100}
PAYLOADS = {"limits": '{"uploads": 3}', "share": "0.5", "tries": "3", "greeting": '"hello"'}
FLAGS: dict[str, dict[str, Any]] = {
    "beta": {"filters": {"groups": [PRO]}},
    "shades": {
        "filters": {
            "groups": [PRO],
            "multivariate": {"variants": [{"key": "dark", "rollout_percentage": 100}]},
        }
    },
    **{
        key: {
            "is_remote_configuration": True,
            "filters": {"groups": [EVERYBODY], "payloads": {"true": payload}},
        }
        for key, payload in PAYLOADS.items()
    },
}


def create_flags(project: Project) -> Project:
    for key, fields in FLAGS.items():
        project.create("feature_flags", key=key, **fields)
    return project
