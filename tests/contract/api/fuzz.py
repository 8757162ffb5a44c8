"""Sends random and boundary requests generated from the OpenAPI document.

Each case is sent with existing ids, so that it reaches the body, and alternately with generated ids
or with a key without access. A generated project is rarer: the service looks for unknown projects
in the database at most 20 times a second, and a sender waits for that. SDK operations are sent as
generated, and then with a valid project key. All requests use one connection, which must never
break.
"""

import http.client
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import requests
import schemathesis
from hypothesis.control import BuildContext
from hypothesis.errors import StopTest, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.strategies import SearchStrategy
from schemathesis import APIOperation, BaseSchema, GenerationMode
from schemathesis import Case as AnyCase
from schemathesis.core.result import Ok

from tests.contract.api.shape import find_format_errors

Operation = APIOperation[Any, Any, Any, Any]
Case = AnyCase[Any]

GENERATED_PROJECT_INTERVAL = 16
MOST_EDGES = 22
# How often an example is drawn that must not meet the schema, but does.
MOST_DRAWS = 5

SENT_PARTS = ("method", "url", "headers", "params", "data", "json", "files")


@dataclass(slots=True, kw_only=True)
class Fuzz:
    base_url: str
    known_ids: dict[str, str]
    key: str
    limited_key: str
    project_key: str
    status_counts: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _sent_count: int = 0
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        host = self.base_url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(host, timeout=120)

    def run(self, document: dict[str, Any]) -> None:
        """Run all operations in a fixed order. Deletions come last, so that ids stay valid."""
        schema = schemathesis.openapi.from_dict(document)
        found = list(schema.get_all_operations())
        operations = [each.ok() for each in found if isinstance(each, Ok)]
        assert len(operations) == len(found), "the document has operations that cannot be read"
        for operation in sorted(operations, key=_rank_by_danger):
            self._try_edges(schema, operation)
            for mode in GenerationMode:
                self._try_random(operation.as_strategy(generation_mode=mode))
        self._connection.close()

    def _try_edges(self, schema: BaseSchema, operation: Operation) -> None:
        """Try boundary values of the document and undocumented methods, evenly chosen if many."""
        config = schema.config.generation_for(operation=operation)
        cases = list(
            schema.iter_coverage_cases(
                operation, generation_modes=list(GenerationMode), generation_config=config
            )
        )
        for case in cases[:: 1 + len(cases) // MOST_EDGES]:
            self._try(case)

    def _try_random(self, cases: SearchStrategy[Case]) -> None:
        """Try one random example. An operation without input has no invalid one."""
        for number in range(MOST_DRAWS):
            case = draw(cases, Random(number))
            if case is not None:
                self._try(case)
                return

    def _try(self, case: Case) -> None:
        security = case.operation.definition.raw["security"]
        if "x-scope" not in case.operation.definition.raw:
            self._try_as_sdk(case, self.key if {"personalKey": []} in security else None)
            return
        self._sent_count += 1
        has_generated_ids = bool(self._sent_count % 2)
        if case.path_parameters:
            known = {name: self.known_ids[name] for name in case.path_parameters}
            if has_generated_ids:
                if "project_id" in known and self._sent_count % GENERATED_PROJECT_INTERVAL != 1:
                    case.path_parameters["project_id"] = known["project_id"]
                self._send(case, self.key)
            case.path_parameters = known
        self._send(case, self.key)
        if not has_generated_ids:
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
        created = requests.Request(**{name: parts[name] for name in SENT_PARTS if name in parts})
        request = created.prepare()
        body = request.body.encode() if isinstance(request.body, str) else request.body
        assert request.method is not None
        assert body is None or isinstance(body, bytes)
        headers = {**request.headers, "Authorization": f"Bearer {key}"}
        self._connection.request(request.method, request.path_url, body, headers)
        response = self._connection.getresponse()
        content = response.read()
        self.status_counts[response.status] += 1
        if response.status >= 400 and request.method != "HEAD":
            self.errors += [
                f"{request.method} {request.path_url} {body!r}: {fault}"
                for fault in find_format_errors(
                    response.status, response.headers["content-type"], content
                )
                if not case.operation.path.startswith("/ofrep/") or b'"errorCode"' not in content
            ]


def draw(cases: SearchStrategy[Case], source: Random) -> Case | None:
    """Draw an example, or None if it does not meet what the strategy assumes. A test of Hypothesis
    with one example would first run several times and then use the simplest one."""
    data = ConjectureData(random=source)
    try:
        with BuildContext(data, wrapped_test=draw):
            return data.draw(cases)
    except (StopTest, UnsatisfiedAssumption):
        return None


def _rank_by_danger(operation: Operation) -> int:
    """PATCH can delete a record too, with `deleted`."""
    changes_record = operation.method == "patch" and operation.path.endswith("/{record_id}/")
    return 2 if operation.method == "delete" else int(changes_record)
