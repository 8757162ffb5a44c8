// The differences of one flag between two environments.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Comparison, Page, Product } from "../../api/types";
import { t } from "../../lib/text";
import { Button, Select } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Await, Empty } from "../../ui/states";
import { Changes } from "../flag/review";
import { productPath, toChanges } from "./products";

export interface Route {
  from: string;
  to: string;
}

/** Two environments by name. */
export function RouteChoice({ product, route, onChange }: { product: Product; route: Route; onChange: (route: Route) => void }) {
  const choices = product.environments.map((each) => ({ value: each.name, label: each.is_protected ? t("{name} (protected)", { name: each.name }) : each.name }));
  return (
    <div class="row">
      <Select label={t("From")} isNarrow value={route.from} choices={choices} onChange={(from) => onChange({ from, to: route.to === from ? route.from : route.to })} />
      <span aria-hidden="true">→</span>
      <Select label={t("To")} isNarrow value={route.to} choices={choices} onChange={(to) => onChange({ from: route.from === to ? route.to : route.from, to })} />
    </div>
  );
}

export function CompareDialog({ product, flag, onPromote, onClose }: { product: Product; flag: string; onPromote: () => void; onClose: () => void }) {
  const names = product.environments.map((each) => each.name);
  const [route, setRoute] = useState<Route>({ from: names[0] ?? "", to: names.at(-1) ?? "" });
  const found = useQuery({
    queryKey: ["comparison", product.id, flag, route],
    queryFn: () => get<Page<Comparison>>(`${productPath(product)}compare/`, { flag, ...route }),
    placeholderData: keepPreviousData,
  });
  return (
    <Dialog
      title={t("Compare {flag}", { flag })}
      isOpen
      isWide
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t("Close")}</Button>
          <Button kind="primary" onClick={onPromote}>
            {t("Promote…")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        <RouteChoice product={product} route={route} onChange={setRoute} />
        <Await query={found} rows={3}>
          {({ results: [only] }) =>
            !only || only.state === "same" ? (
              <Empty title={t("The flag is the same in both")} />
            ) : only.from_version === null || only.to_version === null ? (
              <Empty title={t("The flag is only in {name}", { name: only.to_version === null ? route.from : route.to })} />
            ) : (
              <Changes changes={toChanges(only.changes)} labels={[route.from, route.to]} />
            )
          }
        </Await>
      </div>
    </Dialog>
  );
}
