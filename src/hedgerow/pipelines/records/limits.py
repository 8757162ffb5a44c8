"""Limits on the enabled records of a project: each destination and transformation works on every
event."""

from collections.abc import Mapping
from dataclasses import dataclass

from hedgerow.errors import Invalid
from hedgerow.plugin.component import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledLimits:
    destinations: int = 100
    transformations: int = 100

    def check(self, before: Mapping[Family, int], after: Mapping[Family, int]) -> None:
        """Raise Invalid if a change enables records beyond a limit. `before` and `after` count the
        enabled ones. A project that has more keeps them, and may change them."""
        for family, limit in (
            (Family.DESTINATION, self.destinations),
            (Family.TRANSFORMATION, self.transformations),
        ):
            if after.get(family, 0) > max(limit, before.get(family, 0)):
                raise Invalid(
                    f"A project can have no more than {limit} enabled {family.value}s. Disable or"
                    " delete another one first, or ask the operator of this instance to raise"
                    f" HEDGEROW_MAX_ENABLED_{family.value.upper()}S.",
                    attr="enabled",
                )
