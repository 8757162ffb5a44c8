"""`GET /api/early_access_features/`: the public features of a project, for web pages."""

from starlette.types import Receive, Scope

from hedgerow.flags.early_access import (
    EarlyAccessFeature,
    EarlyAccessFeatures,
    FeatureStage,
)
from hedgerow.flags.model import Flag
from hedgerow.http.auth.project_key import find_project_in_query, parse_query
from hedgerow.http.endpoint import fast_endpoint
from hedgerow.http.openapi.sdk_types import IN_QUERY, STAGE, PublicFeature, PublicFeatures
from hedgerow.http.server.response import Reply, build_json_reply
from hedgerow.http.server.trace import Trace
from hedgerow.projects.directory import Directory


def render_public_feature(feature: EarlyAccessFeature, flag: Flag) -> PublicFeature:
    """Render the fields that web pages and the flag of the feature show."""
    return PublicFeature(
        id=feature.id,
        name=feature.name,
        description=feature.description,
        stage=feature.stage.value,
        documentationUrl=feature.documentation_url,
        payload=feature.payload,
        flagKey=flag.key,
    )


class PublicFeatureEndpoints:
    tag = "Pages"

    def __init__(self, directory: Directory, early_access: EarlyAccessFeatures) -> None:
        self._directory = directory
        self._early_access = early_access

    @fast_endpoint(
        "GET",
        "/api/early_access_features",
        is_public=True,
        name="public_features",
        keys=IN_QUERY,
        query=(STAGE,),
        response=PublicFeatures,
    )
    async def list_features(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        """List the features that end users can opt in to."""
        query = parse_query(scope)
        project = await find_project_in_query(self._directory, query)
        trace.project_id = project.id
        trace.mark("access")
        stages = query.get("stage") or [FeatureStage.BETA.value]
        features = [
            render_public_feature(feature, flag)
            for feature, flag in await self._early_access.list_features(project)
            if feature.stage.is_public and feature.stage.value in stages
        ]
        return build_json_reply(200, {"earlyAccessFeatures": features})
