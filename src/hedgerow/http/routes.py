"""The site map: every path and where it leads."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import FastAPI

from hedgerow import __version__
from hedgerow.http import (
    activity,
    cohorts,
    components,
    deliveries,
    docs,
    early_access,
    errors,
    event_deletion,
    events,
    experiments,
    flag_stream,
    flags,
    ingestion_warnings,
    jobs,
    keys,
    person_actions,
    persons,
    projects,
    query,
    record_actions,
    records,
    remote_config,
    sdk_extras,
    site_app,
    survey_stats,
    surveys,
    transformations,
    users,
)
from hedgerow.http.access import Rooms
from hedgerow.http.capture import EVENT_PATHS, CaptureDoor
from hedgerow.http.decide import Decide
from hedgerow.http.door import Lean
from hedgerow.http.health import Readiness, liveness
from hedgerow.http.local_evaluation import LocalEvaluationDoor
from hedgerow.http.metrics import Metrics
from hedgerow.http.ofrep import PATH as OFREP
from hedgerow.http.ofrep import OfrepDoor
from hedgerow.http.switchboard import Switchboard

FAMILIES = (
    docs.router,
    projects.router,
    keys.router,
    users.router,
    activity.router,
    components.router,
    record_actions.router,
    jobs.router,
    deliveries.router,
    transformations.router,
    records.router,
    site_app.router,
    remote_config.router,
    sdk_extras.router,
    flag_stream.router,
    flags.router,
    early_access.router,
    survey_stats.router,
    surveys.router,
    experiments.router,
    cohorts.router,
    persons.router,
    person_actions.router,
    ingestion_warnings.router,
    event_deletion.router,
    query.router,
    events.router,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """What apps and SDKs call, with keys of a project."""

    decide: Decide
    capture: CaptureDoor
    local_evaluation: LocalEvaluationDoor
    ofrep: OfrepDoor
    early_access: early_access.EarlyAccessDoor
    surveys: surveys.SurveysDoor
    extras: sdk_extras.ExtrasDoor


def lean_routes(readiness: Readiness, metrics: Metrics, doors: Doors) -> Mapping[str, Lean]:
    """Paths that are answered before FastAPI is reached."""
    decide, capture, ofrep = doors.decide, doors.capture, doors.ofrep
    events = Lean(handler=capture.events, methods=("GET", "POST"), public=True)
    engage = Lean(handler=capture.engage, methods=("GET", "POST"), public=True)
    return {
        **dict.fromkeys(EVENT_PATHS, events),
        "/engage": engage,
        "/i/v1/analytics/events": Lean(handler=capture.per_event, methods=("POST",), public=True),
        "/decide": Lean(handler=decide.decide, methods=("POST",), public=True, quick=True),
        "/flags": Lean(handler=decide.flags, methods=("POST",), public=True, quick=True),
        "/flags/definitions": Lean(
            handler=doors.local_evaluation.definitions, methods=("GET",), quick=True
        ),
        "/api/feature_flag/local_evaluation": Lean(
            handler=doors.local_evaluation.older, methods=("GET",), quick=True
        ),
        "/api/early_access_features": Lean(
            handler=doors.early_access.public, methods=("GET",), public=True
        ),
        "/api/surveys": Lean(handler=doors.surveys.public, methods=("GET",), public=True),
        "/s": Lean(handler=doors.extras.recordings, methods=("POST",), public=True),
        OFREP: Lean(handler=ofrep.evaluate_all, methods=("POST",), public=True, quick=True),
        f"{OFREP}/{{key}}": Lean(
            handler=ofrep.evaluate_one, methods=("POST",), public=True, quick=True
        ),
        "/ofrep/v1/configuration": Lean(
            handler=ofrep.configuration, methods=("GET",), public=True, quick=True
        ),
        "/_liveness": Lean(handler=liveness, methods=("GET",), public=True, probe=True),
        "/_readiness": Lean(handler=readiness.page, methods=("GET",), probe=True),
        "/metrics": Lean(handler=metrics.page, methods=("GET",), probe=True),
    }


def api(rooms: Rooms) -> FastAPI:
    """Everything else."""
    app = FastAPI(
        title="Hedgerow",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.router = Switchboard([route for family in FAMILIES for route in family.routes])
    app.state.rooms = rooms
    errors.install(app)
    return app
