"""The flags of all environments of a product as one document."""

from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.flags.environments.documents import FlagDocuments
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.http.api.environments.access import READ_SCOPE, WRITE_SCOPE, check_may_act
from hedgerow.http.api.environments.matrix import READ_FLAGS
from hedgerow.http.api.environments.products import PRODUCT, ProductFinder
from hedgerow.http.api.environments.promote import WRITE_FLAGS
from hedgerow.http.call import Call
from hedgerow.http.documents import (
    DocumentBody,
    DocumentFields,
    DocumentPlanItem,
    answer_plan,
    render_export,
)
from hedgerow.http.endpoint import endpoint
from hedgerow.http.server.response import JsonResponse
from hedgerow.projects.products import Product, Products

FLAGS = PRODUCT + "documents/flags/"


class ProductDocumentItem(DocumentFields, kw_only=True):
    """What the flags of all environments share, and their differences. `notes` say what the
    document lacks."""

    product_id: int
    product_name: str


class ProductDocumentBody(DocumentBody):
    """A document with the flags of all environments. Without `plan` nothing changes, and the
    response says what would. `plan` is from that response: the document is applied if it still
    changes the same. `prune` deletes what the document leaves out."""


class ProductDocumentEndpoints:
    tag = "Documents"

    def __init__(self, products: Products, finder: ProductFinder, documents: FlagDocuments) -> None:
        self._products = products
        self._finder = finder
        self._documents = documents

    @endpoint("GET", FLAGS, access=READ_FLAGS, response=ProductDocumentItem)
    async def export_product_flags(self, call: Call) -> Response:
        """Export the flags of a product. The caller needs to read the flags of every
        environment."""
        product = await self._finder.find(call)
        environments = self._list_allowed(call, product, READ_SCOPE)
        exported = await self._documents.export_product(environments)
        return JsonResponse(
            ProductDocumentItem(
                product_id=product.id, product_name=product.name, **render_export(exported)
            )
        )

    @endpoint(
        "POST",
        FLAGS,
        access=WRITE_FLAGS,
        response=DocumentPlanItem,
        body=ProductDocumentBody,
    )
    async def apply_product_flags(self, call: Call) -> Response:
        """Plan the changes that a document requires in the environments of a product, and apply all
        of them or none with `plan`. Responds 409 if the plan would be another one now. The caller
        needs to write the flags of every environment."""
        product = await self._finder.find(call)
        environments = self._list_allowed(call, product, WRITE_SCOPE)
        body = await call.body(ProductDocumentBody)
        plan = await self._documents.plan_environments(environments, body.to_request(call))
        return await answer_plan(body, plan, "product")

    def _list_allowed(self, call: Call, product: Product, scope: str) -> list[EnvironmentProject]:
        if not product.environments:
            raise Invalid("The product has no environments.", code="empty")
        allowed = []
        for each in product.environments:
            project = self._products.get_project(each)
            check_may_act(call, project, scope)
            allowed.append(EnvironmentProject(environment=each, project=project))
        return allowed
