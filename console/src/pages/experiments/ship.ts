import type { FlagFilters } from "../../api/types";

/** Return the filters that give one variant to everyone: a first condition for everyone, and all of the variants' share. */
export function shipVariant(filters: FlagFilters, key: string): FlagFilters {
  const variants = (filters.multivariate?.variants ?? []).map((each) => ({ ...each, rollout_percentage: each.key === key ? 100 : 0 }));
  // A condition may force a variant of its own, so the rest goes behind one that holds for everyone.
  return {
    ...filters,
    groups: [{ properties: [], rollout_percentage: 100 }, ...(filters.groups ?? [])],
    multivariate: { ...filters.multivariate, variants },
  };
}
