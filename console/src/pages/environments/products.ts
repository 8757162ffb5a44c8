// Products, whose environments are projects.
import { useQuery } from "@tanstack/react-query";
import { ApiError, get, queryClient } from "../../api/client";
import type { FieldDifference, Page, Product } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import type { Change } from "../flag/draft";

export const PRODUCTS = "/api/organizations/@current/products/";
export const productPath = (product: Product): string => `${PRODUCTS}${product.id}/`;
const LIMIT = 200;
const STALE_MS = 30_000;

/** What a promotion can be limited to, as the API names it. */
export const PARTS: Record<string, string> = {
  active: t("On and off"),
  conditions: t("Conditions"),
  variants: t("Variants"),
  payloads: t("Payloads"),
  name: t("Description"),
  tags: t("Tags"),
  settings: t("Other settings"),
};
export const describeParts = (parts: readonly string[]): string => parts.map((each) => (PARTS[each] ?? each).toLowerCase()).join(", ");

export function useProducts() {
  return useQuery({ queryKey: ["products"], queryFn: () => get<Page<Product>>(PRODUCTS, { limit: LIMIT }), staleTime: STALE_MS, retry: (count, error) => count < 2 && error instanceof ApiError && error.isTemporary });
}

/** The product of which the project of the page is an environment; null if there is none, undefined until it is known. */
export function useOwnProduct(): Product | null | undefined {
  const { id } = useProject();
  const products = useProducts();
  if (!products.data) return products.error ? null : undefined;
  return products.data.results.find((each) => each.environments.some((environment) => String(environment.project_id) === id)) ?? null;
}

export async function refreshEnvironments(): Promise<void> {
  for (const key of ["products", "matrix", "comparison", "promotion", "flags", "flag", "change_requests"]) await queryClient.invalidateQueries({ queryKey: [key] });
}

/** Differences as the table of changes shows them. */
export const toChanges = (found: readonly FieldDifference[]): Change[] => found.map((each) => ({ path: each.field, before: each.kind === "added" ? undefined : each.from, after: each.kind === "removed" ? undefined : each.to }));
