"""Requests that nobody would send on purpose, made up from the OpenAPI document.

Each case is sent with ids that exist, so that it gets as far as the body, and by turns as it was
made up or by a key that may not see them. What SDKs call is sent as it was made up, and then with
a good project's key. All go over one connection, which must never break.
"""

import http.client
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import APIOperation, BaseSchema, GenerationMode
from schemathesis import Case as AnyCase
from schemathesis.core.result import Ok

from tests.contract.api.shape import faults

Operation = APIOperation[Any, Any, Any, Any]
Case = AnyCase[Any]

SENT_PARTS = ("method", "url", "headers", "params", "data", "json", "files")


@dataclass(slots=True, kw_only=True)
class Fuzz:
    base_url: str
    known_ids: dict[str, str]
    key: str
    limited_key: str
    project_key: str
    examples: int
    answers: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _tried: int = 0
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        host = self.base_url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(host, timeout=120)

    def run(self, document: dict[str, Any]) -> None:
        """Everything, the same each time. What may delete comes last: ids live till then."""
        schema = schemathesis.openapi.from_dict(document)
        found = list(schema.get_all_operations())
        operations = [each.ok() for each in found if isinstance(each, Ok)]
        assert len(operations) == len(found), "the document has operations that cannot be read"
        for operation in sorted(operations, key=_danger):
            self._try_edges(schema, operation)
            for mode in GenerationMode:
                self._try_random(operation.as_strategy(generation_mode=mode))
        self._connection.close()

    def _try_edges(self, schema: BaseSchema, operation: Operation) -> None:
        """The values at the edges of what the document allows, and methods that it does not."""
        config = schema.config.generation_for(operation=operation)
        for case in schema.iter_coverage_cases(
            operation, generation_modes=list(GenerationMode), generation_config=config
        ):
            self._try(case)

    def _try_random(self, cases: SearchStrategy[Case]) -> None:
        @settings(
            max_examples=self.examples,
            database=None,
            derandomize=True,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases)
        def each(case: Case) -> None:
            self._try(case)

        with suppress(Unsatisfiable):  # who takes nothing can be sent nothing wrong
            each()

    def _try(self, case: Case) -> None:
        security = case.operation.definition.raw["security"]
        if "x-scope" not in case.operation.definition.raw:
            self._try_as_sdk(case, self.key if {"personalKey": []} in security else None)
            return
        self._tried += 1
        is_made_up = bool(self._tried % 2)
        if case.path_parameters:
            if is_made_up:
                self._send(case, self.key)
            known = {name: self.known_ids[name] for name in case.path_parameters}
            case.path_parameters = known
        self._send(case, self.key)
        if not is_made_up:
            self._send(case, self.limited_key)

    def _try_as_sdk(self, case: Case, key: str | None) -> None:
        key = key or self.project_key
        self._send(case, key)
        case.path_parameters = {name: self.known_ids[name] for name in case.path_parameters or ()}
        case.query = {**(case.query or {}), "token": self.project_key}
        if isinstance(case.body, dict):
            case.body = {**case.body, "api_key": self.project_key}
            case.body.pop("token", None)
        self._send(case, key)

    def _send(self, case: Case, key: str) -> None:
        parts = case.as_transport_kwargs(base_url=self.base_url)
        made = requests.Request(**{name: parts[name] for name in SENT_PARTS if name in parts})
        request = made.prepare()
        body = request.body.encode() if isinstance(request.body, str) else request.body
        assert request.method is not None
        assert body is None or isinstance(body, bytes)
        headers = {**request.headers, "Authorization": f"Bearer {key}"}
        self._connection.request(request.method, request.path_url, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        self.answers[answer.status] += 1
        if answer.status >= 400 and request.method != "HEAD":
            self.wrong += [
                f"{request.method} {request.path_url} {body!r}: {fault}"
                for fault in faults(answer.status, answer.headers["content-type"], content)
                if not case.operation.path.startswith("/ofrep/") or b'"errorCode"' not in content
            ]


def _danger(operation: Operation) -> int:
    """A record can be deleted by a change of its `deleted`, too."""
    changes_record = operation.method == "patch" and operation.path.endswith("/{record_id}/")
    return 2 if operation.method == "delete" else int(changes_record)
