"""The components that ship with Hedgerow. Each file declares one; the number is its id for ever."""

from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components import (
    bot_filter,
    custom_script,
    drop_events,
    file_import,
    hash_properties,
    local_files,
    mask_ip,
    notification_bar,
    postgres_query,
    postgres_table,
    posthog_copy,
    posthog_import,
    remove_properties,
    rename_properties,
    s3_storage,
    slack_message,
    user_agent,
    webhook,
)

BUILT_IN: dict[int, Component] = {
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
