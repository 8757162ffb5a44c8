"""`GET /api/surveys/`: the running surveys of a project, for web pages and apps."""

from starlette.types import Receive, Scope

from hedgerow.http.auth.project_key import find_project_in_query, parse_query
from hedgerow.http.endpoint import fast_endpoint
from hedgerow.http.openapi.sdk_types import IN_QUERY, PublicSurveys
from hedgerow.http.server.response import JSON_TYPE, Reply, build_reply
from hedgerow.http.server.trace import Trace
from hedgerow.projects.directory import Directory
from hedgerow.surveys.cache import SurveyCache


class PublicSurveyEndpoints:
    tag = "Pages"

    def __init__(self, directory: Directory, cache: SurveyCache) -> None:
        self._directory = directory
        self._cache = cache

    @fast_endpoint(
        "GET",
        "/api/surveys",
        is_public=True,
        name="public_surveys",
        keys=IN_QUERY,
        response=PublicSurveys,
    )
    async def list_surveys(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """List the surveys that pages can show. The list is the same for all users of a project."""
        project = await find_project_in_query(self._directory, parse_query(scope))
        trace.project_id = project.id
        trace.mark("access")
        return build_reply(200, self._cache.get(project.id).body, JSON_TYPE)
