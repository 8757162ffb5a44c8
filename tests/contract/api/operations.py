"""Every operation of the API, read off the routes as the OpenAPI document is."""

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from hedgerow.http.routes import FAMILIES
from hedgerow.http.schema import openapi

DOCUMENT = openapi(FastAPI(routes=[route for family in FAMILIES for route in family.routes]))
ANY_KEY = "any key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    method: str
    path: str
    scope: str
    body: dict[str, Any] | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def in_project(self) -> bool:
        return "{project_id}" in self.path

    def url(self, project_id: object = "1", key_id: object = "no-such-key") -> str:
        return self.path.format(project_id=project_id, key_id=key_id)


def operations_of(document: dict[str, Any]) -> list[Operation]:
    return [
        Operation(
            method=method.upper(),
            path=path,
            scope=operation["x-scope"],
            body=operation.get("requestBody"),
        )
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


OPERATIONS = operations_of(DOCUMENT)


def methods_of(path: str) -> list[str]:
    """What the Allow header of a documented path should say."""
    given = {operation.method for operation in OPERATIONS if operation.path == path}
    if "GET" in given:
        given.add("HEAD")
    order = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
    return [*(method for method in order if method in given), "OPTIONS"]
