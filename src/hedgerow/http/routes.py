"""The endpoint classes, and the routes that are built from their instances."""

from collections.abc import Mapping, Sequence

from starlette.applications import Starlette

from hedgerow.http.api.activity import ActivityEndpoints
from hedgerow.http.api.alerts.alerts import AlertEndpoints
from hedgerow.http.api.alerts.pictures import MessagePictureEndpoints, PictureEndpoints
from hedgerow.http.api.alerts.subscriptions import SubscriptionEndpoints
from hedgerow.http.api.cohorts import CohortEndpoints, CohortPreviewEndpoints
from hedgerow.http.api.dashboards.annotations import AnnotationEndpoints
from hedgerow.http.api.dashboards.dashboards import DashboardEndpoints
from hedgerow.http.api.dashboards.insights import InsightEndpoints
from hedgerow.http.api.dashboards.sharing import SharedEndpoints, SharingEndpoints
from hedgerow.http.api.dead_letters import DeadLetterEndpoints
from hedgerow.http.api.definitions.actions import ActionEndpoints
from hedgerow.http.api.definitions.event_definitions import EventDefinitionEndpoints
from hedgerow.http.api.definitions.property_definitions import PropertyDefinitionEndpoints
from hedgerow.http.api.environments.documents import ProductDocumentEndpoints
from hedgerow.http.api.environments.matrix import MatrixEndpoints
from hedgerow.http.api.environments.organization_flags import OrganizationFlagEndpoints
from hedgerow.http.api.environments.products import ProductEndpoints
from hedgerow.http.api.environments.promote import PromotionEndpoints
from hedgerow.http.api.events import EventEndpoints
from hedgerow.http.api.experiments import ExperimentEndpoints
from hedgerow.http.api.flags.approval_policies import ApprovalPolicyEndpoints
from hedgerow.http.api.flags.bandits import BanditEndpoints
from hedgerow.http.api.flags.change_requests import ChangeRequestEndpoints
from hedgerow.http.api.flags.code_references import CodeReferenceEndpoints
from hedgerow.http.api.flags.drafts import FlagDraftEndpoints
from hedgerow.http.api.flags.early_access import EarlyAccessEndpoints
from hedgerow.http.api.flags.evaluation import FlagEvaluationEndpoints
from hedgerow.http.api.flags.flags import FlagEndpoints
from hedgerow.http.api.flags.holdouts import HoldoutEndpoints
from hedgerow.http.api.flags.past_evaluation import PastEvaluationEndpoints
from hedgerow.http.api.flags.rollout_plans import RolloutPlanEndpoints
from hedgerow.http.api.flags.scheduled_changes import ScheduledChangeEndpoints
from hedgerow.http.api.flags.what_if import WhatIfEndpoints
from hedgerow.http.api.groups import GroupEndpoints
from hedgerow.http.api.ingestion_warnings import IngestionWarningEndpoints
from hedgerow.http.api.instance_status import InstanceStatusEndpoints
from hedgerow.http.api.people.account import AccountEndpoints, SessionEndpoints
from hedgerow.http.api.people.invites import InviteEndpoints
from hedgerow.http.api.people.keys import KeyEndpoints
from hedgerow.http.api.people.login import LoginEndpoints
from hedgerow.http.api.people.members import MemberEndpoints
from hedgerow.http.api.people.provider_login import ProviderLoginEndpoints
from hedgerow.http.api.people.users import UserEndpoints
from hedgerow.http.api.persons import PersonEndpoints
from hedgerow.http.api.pipelines.components import ComponentEndpoints
from hedgerow.http.api.pipelines.deliveries import DeliveryEndpoints
from hedgerow.http.api.pipelines.health import HealthEndpoints
from hedgerow.http.api.pipelines.jobs import JobEndpoints
from hedgerow.http.api.pipelines.record_actions import RecordActionEndpoints
from hedgerow.http.api.pipelines.records import RecordEndpoints
from hedgerow.http.api.pipelines.transformations import TransformationEndpoints
from hedgerow.http.api.projects import ProjectEndpoints
from hedgerow.http.api.query import QueryEndpoints
from hedgerow.http.api.surveys import SurveyEndpoints
from hedgerow.http.auth.access import Authenticator
from hedgerow.http.console.console import ConsoleEndpoints
from hedgerow.http.documents import DocumentEndpoints
from hedgerow.http.endpoint import Endpoint, Handler, endpoints_of
from hedgerow.http.mcp import McpEndpoints
from hedgerow.http.openapi.docs import DocsEndpoints
from hedgerow.http.route_tables import build_fast_table, build_routes
from hedgerow.http.sdk.capture import CaptureEndpoints
from hedgerow.http.sdk.decide import DecideEndpoints
from hedgerow.http.sdk.early_access import PublicFeatureEndpoints
from hedgerow.http.sdk.edge import EdgeEndpoints
from hedgerow.http.sdk.local_evaluation import LocalEvaluationEndpoints
from hedgerow.http.sdk.ofrep import OfrepEndpoints
from hedgerow.http.sdk.ofrep_stream import OfrepStreamEndpoints
from hedgerow.http.sdk.remote_config import RemoteConfigEndpoints
from hedgerow.http.sdk.sdk_stubs import RecordingEndpoints, ScriptEndpoints
from hedgerow.http.sdk.site_apps import SiteAppEndpoints
from hedgerow.http.sdk.stream import StreamEndpoints
from hedgerow.http.sdk.surveys import PublicSurveyEndpoints
from hedgerow.http.server.errors import EXCEPTION_HANDLERS
from hedgerow.http.server.gateway import FastRoute
from hedgerow.http.server.health import Readiness
from hedgerow.http.server.metrics import Metrics

# The gateway serves these before the framework: the hot paths of SDKs, and the probes.
FAST_ENDPOINT_CLASSES: tuple[type[Handler], ...] = (
    DecideEndpoints,
    LocalEvaluationEndpoints,
    CaptureEndpoints,
    RecordingEndpoints,
    PublicFeatureEndpoints,
    PublicSurveyEndpoints,
    OfrepEndpoints,
    Readiness,
    Metrics,
)

# Every class with endpoints. The container builds one instance of each.
ENDPOINT_CLASSES: tuple[type[Handler], ...] = (
    ConsoleEndpoints,
    DocsEndpoints,
    McpEndpoints,
    ProjectEndpoints,
    DocumentEndpoints,
    KeyEndpoints,
    UserEndpoints,
    SessionEndpoints,
    MemberEndpoints,
    InviteEndpoints,
    ActivityEndpoints,
    InstanceStatusEndpoints,
    ComponentEndpoints,
    RecordActionEndpoints,
    RecordEndpoints,
    JobEndpoints,
    DeliveryEndpoints,
    HealthEndpoints,
    TransformationEndpoints,
    FlagEndpoints,
    FlagEvaluationEndpoints,
    FlagDraftEndpoints,
    WhatIfEndpoints,
    CodeReferenceEndpoints,
    ChangeRequestEndpoints,
    ApprovalPolicyEndpoints,
    ScheduledChangeEndpoints,
    RolloutPlanEndpoints,
    BanditEndpoints,
    PastEvaluationEndpoints,
    OrganizationFlagEndpoints,
    ProductEndpoints,
    ProductDocumentEndpoints,
    MatrixEndpoints,
    PromotionEndpoints,
    EarlyAccessEndpoints,
    SurveyEndpoints,
    EventDefinitionEndpoints,
    PropertyDefinitionEndpoints,
    AlertEndpoints,
    SubscriptionEndpoints,
    PictureEndpoints,
    ExperimentEndpoints,
    HoldoutEndpoints,
    CohortEndpoints,
    CohortPreviewEndpoints,
    PersonEndpoints,
    GroupEndpoints,
    IngestionWarningEndpoints,
    DeadLetterEndpoints,
    EventEndpoints,
    QueryEndpoints,
    ActionEndpoints,
    InsightEndpoints,
    DashboardEndpoints,
    AnnotationEndpoints,
    SharingEndpoints,
    SharedEndpoints,
    StreamEndpoints,
    OfrepStreamEndpoints,
    EdgeEndpoints,
    RemoteConfigEndpoints,
    ScriptEndpoints,
    SiteAppEndpoints,
    MessagePictureEndpoints,
    LoginEndpoints,
    ProviderLoginEndpoints,
    AccountEndpoints,
)


def documented_endpoints() -> list[tuple[str, Endpoint]]:
    """Return every endpoint with its tag, for the OpenAPI document."""
    classes = (*ENDPOINT_CLASSES, *FAST_ENDPOINT_CLASSES)
    return [(each.tag, found) for each in classes for found in endpoints_of(each)]


def build_api(handlers: Sequence[Handler], authenticator: Authenticator) -> Starlette:
    """Build the application behind the gateway, from one instance of each endpoint class."""
    _check_complete(handlers, ENDPOINT_CLASSES)
    app = Starlette(
        routes=[build_routes(handlers, authenticator)], exception_handlers=dict(EXCEPTION_HANDLERS)
    )
    # The gateway adds a missing trailing slash.
    app.router.redirect_slashes = False
    return app


def build_fast_routes(handlers: Sequence[Handler]) -> Mapping[str, FastRoute]:
    """Build the gateway's table, from one instance of each fast endpoint class."""
    _check_complete(handlers, FAST_ENDPOINT_CLASSES)
    return build_fast_table(handlers, CaptureEndpoints)


def _check_complete(handlers: Sequence[Handler], classes: Sequence[type[Handler]]) -> None:
    missing = set(classes) ^ {type(each) for each in handlers}
    if missing:
        names = ", ".join(sorted(each.__name__ for each in missing))
        raise ValueError(f"Expected one instance of each endpoint class. Check: {names}.")
