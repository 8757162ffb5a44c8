// The environments of a product: each flag in each of them, where they differ, and what to promote.
import { useEffect, useState } from "preact/hooks";
import type { MatrixRow, Product } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { OWNERS_ONLY, useRights } from "../../shell/rights";
import { Button, Choices, Select } from "../../ui/controls";
import { List, Table, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Await, Empty } from "../../ui/states";
import { FlagTabs } from "../flags/tabs";
import { CompareDialog } from "./compare";
import { listHeads, MatrixRowView } from "./matrix";
import { ProductDialog } from "./product-form";
import { productPath, useOwnProduct, useProducts } from "./products";
import { PromoteDialog } from "./promote";

export function EnvironmentsPage() {
  const { isOwner } = useRights();
  const products = useProducts();
  const own = useOwnProduct();
  const [url, change] = useUrlState();
  const [edited, setEdited] = useState<Product | "new" | null>(null);
  const all = products.data?.results ?? [];
  const shown = all.find((each) => String(each.id) === url.get("product")) ?? own ?? all[0];
  const create = (
    <Button kind={shown ? undefined : "primary"} disabled={!isOwner} title={isOwner ? undefined : OWNERS_ONLY} onClick={() => setEdited("new")}>
      {t("Join projects as environments")}
    </Button>
  );
  return (
    <Page
      title={shown ? t("Environments of {name}", { name: shown.name }) : t("Environments")}
      sub={shown && shown.environments.map((each) => each.name + (each.is_protected ? ` (${t("protected")})` : "")).join(" → ")}
      actions={
        shown && (
          <>
            <Button disabled={!isOwner} title={isOwner ? undefined : OWNERS_ONLY} onClick={() => setEdited(shown)}>
              {t("Change the environments")}
            </Button>
            {create}
          </>
        )
      }
    >
      <FlagTabs current="environments" />
      {all.length > 1 && (
        <div class="row">
          <Select label={t("Product")} isNarrow value={String(shown?.id ?? "")} choices={all.map((each) => ({ value: String(each.id), label: each.name }))} onChange={(id) => change({ product: id, search: null, offset: null, baseline: null })} />
        </div>
      )}
      {shown ? (
        <Matrix key={shown.id} product={shown} />
      ) : (
        <div class="panel">
          <Await query={products}>
            {() => (
              <Empty title={t("No environments yet")} action={isOwner ? create : undefined}>
                {t("Join projects such as development, staging and production. Each keeps its own keys, people and events; flags line up by key, so that you see where they differ and can promote them.")} {!isOwner && OWNERS_ONLY}
              </Empty>
            )}
          </Await>
        </div>
      )}
      {edited && <ProductDialog edited={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Page>
  );
}

function Matrix({ product }: { product: Product }) {
  const state = useListState("drifting", "baseline");
  const { drifting = "", baseline = "" } = state.filters;
  const rows = useList<MatrixRow>("matrix", `${productPath(product)}matrix/`, state, { drifting, baseline });
  const [selected, setSelected] = useState<string[]>([]);
  const [compared, setCompared] = useState<string | null>(null);
  const [promoted, setPromoted] = useState<string[] | null>(null);
  useEffect(() => setSelected([]), [state.search, drifting, state.offset]);
  const select = (key: string, isIn: boolean) => setSelected(isIn ? [...selected, key] : selected.filter((each) => each !== key));
  return (
    <>
      <List
        query={rows}
        state={state}
        search={t("Search by key or description")}
        controls={
          <>
            <Choices
              label={t("Which flags")}
              value={drifting}
              choices={[
                { value: "", label: t("All flags") },
                { value: "true", label: t("Only those that differ") },
              ]}
              onChange={(value) => state.setFilter("drifting", value)}
            />
            {product.environments.length > 1 && (
              <Select
                label={t("Compare with")}
                isNarrow
                value={baseline}
                choices={product.environments.map((each, index) => ({ value: index ? each.name : "", label: t("Compared with {name}", { name: each.name }) }))}
                onChange={(value) => state.setFilter("baseline", value)}
              />
            )}
          </>
        }
        empty={<Empty title={t("No flags in these environments yet")}>{t("Create a flag in one of the projects. It appears here with its state in each environment.")}</Empty>}
      >
        {(items) => (
          <>
            {selected.length > 0 && (
              <div class="bulk" role="region" aria-label={t("Chosen flags")}>
                <span>{tn(selected.length, "{n} flag chosen", "{n} flags chosen")}</span>
                <span class="row">
                  <Button isSmall onClick={() => setSelected([])}>
                    {t("Clear")}
                  </Button>
                  <Button isSmall kind="primary" onClick={() => setPromoted(selected)}>
                    {t("Promote…")}
                  </Button>
                </span>
              </div>
            )}
            <Table class="selectable" columns={listHeads(items[0]?.environments ?? [], product)}>
              {items.map((row) => (
                <MatrixRowView key={row.key} row={row} isSelected={selected.includes(row.key)} onSelect={(isIn) => select(row.key, isIn)} onCompare={() => setCompared(row.key)} />
              ))}
            </Table>
          </>
        )}
      </List>
      {compared && (
        <CompareDialog
          product={product}
          flag={compared}
          onPromote={() => {
            setPromoted([compared]);
            setCompared(null);
          }}
          onClose={() => setCompared(null)}
        />
      )}
      {promoted && (
        <PromoteDialog
          product={product}
          keys={promoted}
          onClose={() => setPromoted(null)}
          onDone={() => {
            setPromoted(null);
            setSelected([]);
          }}
        />
      )}
    </>
  );
}
