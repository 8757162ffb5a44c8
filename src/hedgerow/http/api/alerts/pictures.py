"""Pictures of charts: of a saved insight, and those that messages link to."""

import re

from starlette.responses import Response

from hedgerow.dashboards.model import InsightId
from hedgerow.dashboards.store import InsightStore
from hedgerow.errors import NotFound
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall, PublicCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.openapi.sdk_types import NO_KEY
from hedgerow.http.parameters import parse_positive
from hedgerow.http.payload.fields import INT64_MAX
from hedgerow.subscriptions.pictures import ChartPictures
from hedgerow.subscriptions.store import SubscriptionStore

PNG = "image/png"
SVG = "image/svg+xml"
# A browser opens it as a document of our own origin, where a script would have a session.
SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
# A picture never changes. Search engines must not list it.
_HEADERS = {"Cache-Control": "public, max-age=604800, immutable", "X-Robots-Tag": "noindex"}
_NAME = re.compile(r"([0-9A-Za-z]{20,50})\.png")


class PictureEndpoints:
    tag = "Pictures"

    def __init__(self, insights: InsightStore, pictures: ChartPictures) -> None:
        self._insights = insights
        self._pictures = pictures

    @endpoint(
        "GET",
        *project_paths("insights/{insight_id}/chart.png/"),
        access=in_project("insight:read"),
        response=bytes,
        media_type=PNG,
    )
    async def draw_insight_png(self, call: ProjectCall) -> Response:
        """Draw the chart of a saved insight as PNG, from a result of at most a minute ago."""
        return Response(await self._draw(call, "png"), media_type=PNG)

    @endpoint(
        "GET",
        *project_paths("insights/{insight_id}/chart.svg/"),
        access=in_project("insight:read"),
        response=bytes,
        media_type=SVG,
    )
    async def draw_insight_svg(self, call: ProjectCall) -> Response:
        """Draw the chart of a saved insight as SVG, from a result of at most a minute ago."""
        return Response(await self._draw(call, "svg"), media_type=SVG, headers=SVG_HEADERS)

    async def _draw(self, call: ProjectCall, form: str) -> bytes:
        number = parse_positive(call.path_param("insight_id"))
        found = None
        if number is not None and number <= INT64_MAX:
            found = await self._insights.insight(call.project.id, InsightId(number))
        if found is None or found.insight.deleted:
            raise NotFound("Insight not found.")
        insight = found.insight
        title = insight.name or insight.derived_name
        return await call.while_connected(
            self._pictures.draw(call.project, title, insight.query, form)
        )


class MessagePictureEndpoints:
    tag = "Pictures"

    def __init__(self, subscriptions: SubscriptionStore) -> None:
        self._subscriptions = subscriptions

    @endpoint(
        "GET",
        "/exporter/{picture}",
        access=None,
        keys=NO_KEY,
        response=bytes,
        media_type=PNG,
    )
    async def retrieve_picture(self, call: PublicCall) -> Response:
        """Retrieve a picture of a message of the last seven days. Its name is the permission."""
        found = _NAME.fullmatch(call.path_param("picture"))
        picture = await self._subscriptions.picture(found[1]) if found else None
        if picture is None:
            raise NotFound("Picture not found.")
        return Response(picture, media_type=PNG, headers=_HEADERS)
