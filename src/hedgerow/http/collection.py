"""The operations that the collections of a project have in common.

ANNOTATIONS = Collection(name="annotation", page=Page[AnnotationItem], item=AnnotationItem)

class AnnotationEndpoints:
    @ANNOTATIONS.retrieve_endpoint()
    async def retrieve_annotation(self, call: ProjectCall) -> Response: ...
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hedgerow.http.auth.access import Access, in_project
from hedgerow.http.endpoint import M, endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS
from hedgerow.http.parameters import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Objects of one kind. `name` is that of the kind, in paths and scopes. `page` and `item` are
    the types of the responses."""

    name: str
    page: Any
    item: Any

    @property
    def path(self) -> str:
        return f"{self.name}s/"

    @property
    def item_path(self) -> str:
        return f"{self.path}{{{self.name}_id}}/"

    @property
    def read(self) -> Access:
        return in_project(f"{self.name}:read")

    @property
    def write(self) -> Access:
        return in_project(f"{self.name}:write")

    def list_endpoint(self, *query: Parameter) -> Callable[[M], M]:
        return endpoint(
            "GET",
            *project_paths(self.path),
            access=self.read,
            response=self.page,
            query=PAGE_PARAMETERS + query,
        )

    def create_endpoint(self, body: Any, *query: Parameter) -> Callable[[M], M]:
        return endpoint(
            "POST",
            *project_paths(self.path),
            access=self.write,
            response=self.item,
            status=201,
            body=body,
            query=query,
        )

    def retrieve_endpoint(self, *query: Parameter) -> Callable[[M], M]:
        return endpoint(
            "GET",
            *project_paths(self.item_path),
            access=self.read,
            response=self.item,
            query=query,
        )

    def change_endpoint(self, body: Any, *query: Parameter) -> Callable[[M], M]:
        return endpoint(
            "PATCH",
            *project_paths(self.item_path),
            access=self.write,
            response=self.item,
            body=body,
            query=query,
        )

    def delete_endpoint(self) -> Callable[[M], M]:
        return endpoint("DELETE", *project_paths(self.item_path), access=self.write, status=204)
