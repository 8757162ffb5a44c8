"""What-if: what a flag that is not saved yet would change for the people of the last days."""

from typing import Annotated

from starlette.responses import Response

from hedgerow.flags.evaluation.what_if import (
    MAX_DAYS,
    MAX_PEOPLE,
    Population,
    WhatIf,
    WhatIfQuestion,
)
from hedgerow.http.api.flags.drafts import PERSON_SCOPE, DraftBody
from hedgerow.http.api.flags.what_if_figures import WhatIfItem, render_what_if
from hedgerow.http.auth.access import in_project
from hedgerow.http.auth.personal_key import check_scope
from hedgerow.http.call import ProjectCall
from hedgerow.http.definitions import compile_patterns
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.payload.fields import Between, Text
from hedgerow.http.server.response import JsonResponse


class WhatIfBody(DraftBody):
    """A flag as it would be saved, and the people to evaluate it for: those `seen`, or `evaluated`
    for this flag, in the last `days`. `segment` is a person property to count by, `metric` an
    event."""

    days: Annotated[int, Between(1, MAX_DAYS)] = 7
    population: Population = Population.SEEN
    segment: Annotated[str, Text(400)] | None = None
    metric: Annotated[str, Text(200)] | None = None
    max_people: Annotated[int, Between(1, MAX_PEOPLE)] = MAX_PEOPLE

    def to_question(self) -> WhatIfQuestion:
        return WhatIfQuestion(
            days=self.days,
            population=self.population,
            segment=self.segment or "",
            metric=self.metric or "",
            max_people=self.max_people,
        )


class WhatIfEndpoints:
    tag = "Feature flags"

    def __init__(self, what_if: WhatIf) -> None:
        self._what_if = what_if

    @endpoint(
        "POST",
        *project_paths("feature_flags/what_if/"),
        access=in_project("feature_flag:read"),
        response=WhatIfItem,
        body=WhatIfBody,
    )
    async def ask_what_if(self, call: ProjectCall) -> Response:
        """Evaluate a flag as it is saved and as it would be saved, for the people of the last days,
        and count who would get another value. The key also needs the scope `person:read`, because
        the response names some of these people. Evaluates at most 200,000 people, for at most 15
        seconds."""
        check_scope(call.caller, PERSON_SCOPE, call.project)
        body = await call.body(WhatIfBody)
        await compile_patterns(body.filters)
        result = await call.while_connected(
            self._what_if.ask(
                call.project, body.to_draft(), body.to_question(), call.actor, call.now
            )
        )
        return JsonResponse(render_what_if(result))
