"""The site map: every path and where it leads."""

from collections.abc import Mapping

from fastapi import FastAPI

from hedgerow import __version__
from hedgerow.http import (
    activity,
    cohorts,
    components,
    deliveries,
    docs,
    errors,
    event_deletion,
    events,
    flags,
    ingestion_warnings,
    keys,
    person_actions,
    persons,
    projects,
    query,
    record_actions,
    records,
    remote_config,
    site_app,
    transformations,
    users,
)
from hedgerow.http.access import Rooms
from hedgerow.http.capture import CaptureDoor
from hedgerow.http.decide import Decide
from hedgerow.http.door import Lean
from hedgerow.http.health import Readiness, liveness
from hedgerow.http.metrics import Metrics
from hedgerow.http.switchboard import Switchboard

FAMILIES = (
    docs.router,
    projects.router,
    keys.router,
    users.router,
    activity.router,
    components.router,
    record_actions.router,
    deliveries.router,
    transformations.router,
    records.router,
    site_app.router,
    remote_config.router,
    flags.router,
    cohorts.router,
    persons.router,
    person_actions.router,
    ingestion_warnings.router,
    event_deletion.router,
    query.router,
    events.router,
)


# Older and newer libraries send events to different paths; all of them are alike.
EVENT_PATHS = ("/capture", "/e", "/track", "/batch", "/i/v0/e")


def lean_routes(
    readiness: Readiness, metrics: Metrics, decide: Decide, capture: CaptureDoor
) -> Mapping[str, Lean]:
    """Paths that are answered before FastAPI is reached."""
    events = Lean(handler=capture.events, methods=("GET", "POST"), public=True)
    engage = Lean(handler=capture.engage, methods=("GET", "POST"), public=True)
    return {
        **dict.fromkeys(EVENT_PATHS, events),
        "/engage": engage,
        "/decide": Lean(handler=decide.decide, methods=("POST",), public=True, quick=True),
        "/flags": Lean(handler=decide.flags, methods=("POST",), public=True, quick=True),
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
