import type { FlagFilters } from "../../api/types";

const ALL = 100;

/** Return the filters that give one variant to everyone: a first condition for everyone, and all of the variants' share. */
export function shipVariant(filters: FlagFilters, key: string): FlagFilters {
  const variants = (filters.multivariate?.variants ?? []).map((each) => ({ ...each, rollout_percentage: each.key === key ? ALL : 0 }));
  const groups = filters.groups ?? [];
  // A condition may force a variant of its own, so the rest goes behind one that holds for everyone.
  return {
    ...filters,
    groups: holdsForEveryone(groups[0]) ? groups : [{ properties: [], rollout_percentage: ALL }, ...groups],
    multivariate: { ...filters.multivariate, variants },
  };
}

/** Return the variant that everyone gets, null if people get different ones. */
export function findShipped(filters: FlagFilters): string | null {
  if (!holdsForEveryone(filters.groups?.[0])) return null;
  return filters.multivariate?.variants?.find((each) => each.rollout_percentage === ALL)?.key ?? null;
}

function holdsForEveryone(group: NonNullable<FlagFilters["groups"]>[number] | undefined): boolean {
  return !!group && !group.properties?.length && (group.rollout_percentage ?? ALL) === ALL && !group.variant;
}
