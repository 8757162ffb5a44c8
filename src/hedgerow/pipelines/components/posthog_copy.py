"""Another instance: events passed on to a PostHog-compatible service."""

from hedgerow.pipelines.component import Component, SettingField
from hedgerow.pipelines.components.fields import BATCHING, FILTERS, REPLAY, TEST_CONNECTION
from hedgerow.pipelines.model import Family

COMPONENT = Component(
    key="hedgerow/posthog-copy",
    family=Family.DESTINATION,
    name="Another PostHog-compatible instance",
    description="Passes events on to another Hedgerow or PostHog, with their uuid and time.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="project_key", name="Project key", required=True, hint="phc_…"),
        *FILTERS,
        *BATCHING,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
)
