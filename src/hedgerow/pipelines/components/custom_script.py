"""Custom script: JavaScript of your own on your pages."""

from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.model import Family

SCRIPT = """\
function inject({ config, posthog }) {
  new Function('posthog', config.code)(posthog)
}
"""

COMPONENT = Component(
    key="hedgerow/custom-script",
    family=Family.FRONTEND_APP,
    name="Custom script",
    description="Runs JavaScript of your own on your pages, with posthog at hand.",
    version="1.0.0",
    settings=(
        SettingField(
            key="code",
            name="Code",
            type=SettingType.TEXT,
            required=True,
            site=True,
            hint="Runs once per page. `posthog` is the SDK.",
        ),
    ),
    script=SCRIPT,
)
