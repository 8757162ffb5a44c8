"""Open the flags of an installation: to evaluate them, to manage them as a file, and to compare and
promote them between the environments of a product.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.app.commands.state import open_state
from hedgerow.app.state import State, state_location
from hedgerow.errors import OperatorError
from hedgerow.flags.as_code.apply import FlagsAsCode
from hedgerow.flags.as_code.plan import FIRST_PROVISIONAL_ID, FlagChange
from hedgerow.flags.edits import public_value
from hedgerow.flags.environments.as_code import ProductAsCode
from hedgerow.flags.environments.documents import FlagDocuments
from hedgerow.flags.environments.matrix import (
    EnvironmentProject,
    FlagMatrix,
    MatrixQuery,
    MatrixRow,
)
from hedgerow.flags.environments.parts import PARTS
from hedgerow.flags.environments.promotion_plan import PromotionPlan, PromotionRequest
from hedgerow.flags.environments.promotions import Promotions
from hedgerow.flags.evaluation.explainer import FlagExplainer
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import AUDITED
from hedgerow.flags.validate import referenced_flag_ids
from hedgerow.lib.threads import run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.projects.products import Product, Products
from hedgerow.settings import Settings
from hedgerow.storage.flags.environments import SqlEnvironmentStore
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.persons.person_scanner import WORKER_LIMITS, SqlPersonScanner
from hedgerow.storage.projects.products import SqlProductStore

# More than the flags of all environments.
MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagCommands:
    """Flags of an installation, for commands."""

    state: State
    explainer: FlagExplainer
    as_code: FlagsAsCode


@asynccontextmanager
async def open_flags(settings: Settings) -> AsyncIterator[FlagCommands]:
    async with open_state(settings) as state:
        with _open_flag_store(settings, state) as store:
            yield FlagCommands(
                state=state,
                explainer=FlagExplainer(
                    FlagCache(store, run_in_thread), SqlEvaluationDataStore(state.database)
                ),
                as_code=FlagsAsCode(store),
            )


@contextmanager
def _open_flag_store(settings: Settings, state: State) -> Iterator[SqlFlagStore]:
    """The consequences of a change are measured in worker processes."""
    workers = FunctionPool(WORKER_LIMITS)
    try:
        yield SqlFlagStore(state.database, SqlPersonScanner(state_location(settings), workers))
    finally:
        workers.close()


def build_draft_body(step: FlagChange) -> dict[str, Any]:
    """Return a planned flag as a body of the API. Raises OperatorError for one that depends on
    another new flag."""
    after = step.after
    if any(id >= FIRST_PROVISIONAL_ID for id in referenced_flag_ids(after.filters)):
        raise OperatorError(
            f"{after.key} depends on another flag of the file, which does not exist yet. Apply "
            "that one first."
        )
    body = {name: public_value(after, name) for name in AUDITED if name != "deleted"}
    return body if step.before is None else {"id": after.id, **body}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """Products of an installation, and what can be done with their flags."""

    state: State
    products: Products
    matrix: FlagMatrix
    promotions: Promotions
    documents: FlagDocuments

    def list_environments(self, product: Product) -> list[EnvironmentProject]:
        """Return the environments of a product with their projects."""
        return [
            EnvironmentProject(environment=each, project=self.products.get_project(each))
            for each in product.environments
        ]

    async def list_matrix(
        self,
        environments: Sequence[EnvironmentProject],
        *,
        baseline: str,
        search: str,
        only_drifting: bool,
    ) -> Sequence[MatrixRow]:
        """Return the flags of all environments by key."""
        query = MatrixQuery(
            baseline=baseline,
            search=search,
            only_drifting=only_drifting,
            limit=MAX_ROWS,
            offset=0,
        )
        rows, _ = await self.matrix.list_rows(environments, query, lambda row: row)
        return rows


def build_environments(
    state: State, flag_store: SqlFlagStore, flag_cache: FlagCache
) -> Environments:
    store = SqlEnvironmentStore(flag_store)
    products = Products(SqlProductStore(state.database), state.directory)
    return Environments(
        state=state,
        products=products,
        matrix=FlagMatrix(flag_cache, run_in_thread),
        promotions=Promotions(store, flag_cache, run_in_thread),
        documents=FlagDocuments(
            FlagsAsCode(flag_store), ProductAsCode(flag_store, store), products, flag_cache
        ),
    )


@asynccontextmanager
async def open_environments(settings: Settings) -> AsyncIterator[Environments]:
    async with open_state(settings) as state:
        with _open_flag_store(settings, state) as flag_store:
            yield build_environments(state, flag_store, FlagCache(flag_store, run_in_thread))


def build_request(
    keys: Sequence[str] | None, parts: Sequence[str] | None, *, with_cohorts: bool
) -> PromotionRequest:
    """Raise OperatorError for an unknown part."""
    for part in parts or ():
        if part not in PARTS:
            raise OperatorError(f"There is no part {part}. Expected one of: {', '.join(PARTS)}.")
    return PromotionRequest(keys=keys, parts=parts or PARTS, with_cohorts=with_cohorts)


def require_versions(request: PromotionRequest, plan: PromotionPlan) -> PromotionRequest:
    """Return the request for exactly the flags of a plan, as they were then."""
    return replace(request, keys=list(plan.versions), versions=plan.versions)
