"""Another instance: events read from a PostHog-compatible service."""

from hedgerow.pipelines.component import Component, SettingField
from hedgerow.pipelines.components.fields import RUN_IMPORT, SCHEDULE, TEST_CONNECTION
from hedgerow.pipelines.model import Family

COMPONENT = Component(
    key="hedgerow/posthog-import",
    family=Family.IMPORT_APP,
    name="Another PostHog-compatible instance",
    description="Imports the events of a project of another Hedgerow or PostHog.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="personal_key", name="Personal key", required=True, secret=True),
        SettingField(key="project_id", name="Project id", required=True),
        SettingField(key="date_from", name="From", default="", hint="ISO time. Empty: the first."),
        SCHEDULE,
    ),
    jobs=(RUN_IMPORT, TEST_CONNECTION),
)
