// The part of the flag editor about environments: this flag in each of them.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Flag, MatrixRow, Page, Product } from "../../api/types";
import { t } from "../../lib/text";
import { Button } from "../../ui/controls";
import { Table } from "../../ui/list";
import { Ago } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { CompareDialog } from "./compare";
import { CellState } from "./matrix";
import { productPath } from "./products";
import { PromoteDialog } from "./promote";

export function FlagEnvironments({ flag, product }: { flag: Flag; product: Product }) {
  const [shown, setShown] = useState<"compare" | "promote" | null>(null);
  const row = useQuery({
    queryKey: ["matrix", product.id, "one", flag.key, flag.version],
    queryFn: async () => (await get<Page<MatrixRow>>(`${productPath(product)}matrix/`, { search: flag.key, limit: 100 })).results.find((each) => each.key === flag.key) ?? null,
  });
  return (
    <section class="panel flush" aria-label={t("Environments")}>
      <div class="head">
        <h2>{product.name}</h2>
        <div class="row">
          <Button onClick={() => setShown("compare")}>{t("Compare")}</Button>
          <Button kind="primary" onClick={() => setShown("promote")}>
            {t("Promote…")}
          </Button>
        </div>
      </div>
      <Await query={row} rows={3}>
        {(found) =>
          found ? (
            <Table columns={[t("Environment"), t("State"), t("Version"), t("Changed")]}>
              {found.environments.map((cell) => (
                <tr key={cell.environment}>
                  <td class="first name">{cell.environment}</td>
                  <td class="wide">
                    <CellState cell={cell} hidesName />
                  </td>
                  <td class="muted drop">{cell.version}</td>
                  <td class="muted drop">{cell.updated_at && <Ago at={cell.updated_at} />}</td>
                </tr>
              ))}
            </Table>
          ) : (
            <Empty title={t("The flag is in no environment that you may read")} />
          )
        }
      </Await>
      {shown === "compare" && <CompareDialog product={product} flag={flag.key} onPromote={() => setShown("promote")} onClose={() => setShown(null)} />}
      {shown === "promote" && <PromoteDialog product={product} keys={[flag.key]} onClose={() => setShown(null)} onDone={() => setShown(null)} />}
    </section>
  );
}
