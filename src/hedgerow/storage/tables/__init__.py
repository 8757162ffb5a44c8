"""The tables of the state database, as the current version uses them.

Migrations define tables themselves: a change here needs a new migration.
"""

from hedgerow.storage.tables import ingestion as ingestion
from hedgerow.storage.tables.actions import actions as actions
from hedgerow.storage.tables.alerts import alert_checks as alert_checks
from hedgerow.storage.tables.alerts import alerts as alerts
from hedgerow.storage.tables.alerts import chart_pictures as chart_pictures
from hedgerow.storage.tables.alerts import subscriptions as subscriptions
from hedgerow.storage.tables.column_types import metadata as metadata
from hedgerow.storage.tables.dashboards import annotations as annotations
from hedgerow.storage.tables.dashboards import dashboard_tiles as dashboard_tiles
from hedgerow.storage.tables.dashboards import dashboards as dashboards
from hedgerow.storage.tables.dashboards import insight_results as insight_results
from hedgerow.storage.tables.dashboards import saved_insights as saved_insights
from hedgerow.storage.tables.dashboards import shared_links as shared_links
from hedgerow.storage.tables.definitions import definition_marks as definition_marks
from hedgerow.storage.tables.definitions import event_definitions as event_definitions
from hedgerow.storage.tables.definitions import event_properties as event_properties
from hedgerow.storage.tables.definitions import property_definitions as property_definitions
from hedgerow.storage.tables.flags import cohorts as cohorts
from hedgerow.storage.tables.flags import early_access_features as early_access_features
from hedgerow.storage.tables.flags import experiments as experiments
from hedgerow.storage.tables.flags import flag_calls as flag_calls
from hedgerow.storage.tables.flags import flag_hash_keys as flag_hash_keys
from hedgerow.storage.tables.flags import flags as flags
from hedgerow.storage.tables.flags import surveys as surveys
from hedgerow.storage.tables.persons import cohort_people as cohort_people
from hedgerow.storage.tables.persons import group_types as group_types
from hedgerow.storage.tables.persons import groups as groups
from hedgerow.storage.tables.persons import mirror_queue as mirror_queue
from hedgerow.storage.tables.persons import person_distinct_ids as person_distinct_ids
from hedgerow.storage.tables.persons import persons as persons
from hedgerow.storage.tables.pipelines import components as components
from hedgerow.storage.tables.pipelines import delivered_events as delivered_events
from hedgerow.storage.tables.pipelines import deliveries as deliveries
from hedgerow.storage.tables.pipelines import delivery_counts as delivery_counts
from hedgerow.storage.tables.pipelines import delivery_leases as delivery_leases
from hedgerow.storage.tables.pipelines import delivery_logs as delivery_logs
from hedgerow.storage.tables.pipelines import destination_states as destination_states
from hedgerow.storage.tables.pipelines import import_states as import_states
from hedgerow.storage.tables.pipelines import imported_files as imported_files
from hedgerow.storage.tables.pipelines import notifications as notifications
from hedgerow.storage.tables.pipelines import pipeline_jobs as pipeline_jobs
from hedgerow.storage.tables.pipelines import pipeline_records as pipeline_records
from hedgerow.storage.tables.pipelines import transformation_counts as transformation_counts
from hedgerow.storage.tables.projects import activity as activity
from hedgerow.storage.tables.projects import generations as generations
from hedgerow.storage.tables.projects import idempotency_keys as idempotency_keys
from hedgerow.storage.tables.projects import organizations as organizations
from hedgerow.storage.tables.projects import personal_keys as personal_keys
from hedgerow.storage.tables.projects import project_secrets as project_secrets
from hedgerow.storage.tables.projects import project_tokens as project_tokens
from hedgerow.storage.tables.projects import projects as projects
from hedgerow.storage.tables.projects import sealing_check as sealing_check
from hedgerow.storage.tables.projects import users as users
