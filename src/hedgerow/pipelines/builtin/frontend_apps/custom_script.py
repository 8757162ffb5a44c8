"""Custom script: runs your own JavaScript on your pages."""

from hedgerow.plugin.component import Component, Family, SettingField, SettingType

SCRIPT = """\
function inject({ config, posthog }) {
  new Function('posthog', config.code)(posthog)
}
"""

COMPONENT = Component(
    key="hedgerow/custom-script",
    family=Family.FRONTEND_APP,
    name="Custom script",
    description="Runs your own JavaScript on your pages, with access to posthog.",
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
