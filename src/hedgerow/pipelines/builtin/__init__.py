"""The components that ship with Hedgerow, by their permanent ids. Each module declares one."""

from hedgerow.pipelines.builtin.destinations import (
    local_files,
    postgres_table,
    posthog_copy,
    s3_storage,
    slack_message,
    webhook,
)
from hedgerow.pipelines.builtin.frontend_apps import custom_script, notification_bar
from hedgerow.pipelines.builtin.imports import file_import, postgres_query, posthog_import
from hedgerow.pipelines.builtin.transformations import (
    bot_filter,
    drop_events,
    hash_properties,
    mask_ip,
    remove_properties,
    rename_properties,
    user_agent,
)
from hedgerow.plugin.component import Component

BUILTIN_COMPONENTS: dict[int, Component] = {
    1: webhook.COMPONENT,
    2: slack_message.COMPONENT,
    3: local_files.COMPONENT,
    4: s3_storage.COMPONENT,
    5: postgres_table.COMPONENT,
    6: posthog_copy.COMPONENT,
    21: notification_bar.COMPONENT,
    22: custom_script.COMPONENT,
    41: file_import.COMPONENT,
    42: postgres_query.COMPONENT,
    43: posthog_import.COMPONENT,
    61: drop_events.COMPONENT,
    62: rename_properties.COMPONENT,
    63: remove_properties.COMPONENT,
    64: hash_properties.COMPONENT,
    65: mask_ip.COMPONENT,
    66: user_agent.COMPONENT,
    67: bot_filter.COMPONENT,
}
