// One flag in each environment.
import { Link } from "wouter-preact";
import type { MatrixCell, MatrixRow, Product } from "../../api/types";
import { t } from "../../lib/text";
import { Button } from "../../ui/controls";
import { type Column, NameCell } from "../../ui/list";
import { Value } from "../../ui/show";
import { describeParts } from "./products";

/** The heads of the columns. Only environments whose flags the person may read are in the rows. */
export function listHeads(cells: readonly MatrixCell[], product: Product): Column[] {
  const isProtected = (name: string) => product.environments.find((each) => each.name === name)?.is_protected;
  return [
    { label: t("Choose"), isHidden: true, class: "shrink" },
    t("Flag"),
    ...cells.map((each) => (
      <>
        {each.environment} {isProtected(each.environment) && <span class="tag">{t("Protected")}</span>}
      </>
    )),
    { label: t("Actions"), isHidden: true, class: "shrink" },
  ];
}

interface RowProps {
  row: MatrixRow;
  isSelected: boolean;
  onSelect: (isIn: boolean) => void;
  onCompare: () => void;
}

export function MatrixRowView({ row, isSelected, onSelect, onCompare }: RowProps) {
  return (
    <tr>
      <td class="pick shrink">
        <input type="checkbox" aria-label={t("Choose {key}", { key: row.key })} checked={isSelected} onChange={(event) => onSelect(event.currentTarget.checked)} />
      </td>
      <NameCell name={row.key} description={row.name} isCode>
        {row.is_drifting && <span class="tag warn">{t("Differs")}</span>}
      </NameCell>
      {row.environments.map((cell) => (
        <td key={cell.environment}>
          <CellState cell={cell} />
        </td>
      ))}
      <td class="shrink end">
        {row.environments.length > 1 && (
          <Button isSmall onClick={onCompare} aria-label={t("Compare {key}", { key: row.key })}>
            {t("Compare")}
          </Button>
        )}
      </td>
    </tr>
  );
}

/** The state of a flag in an environment, with a link to it. On a phone there is no head of the column. */
export function CellState({ cell, hidesName }: { cell: MatrixCell; hidesName?: boolean }) {
  const name = !hidesName && <span class="phone muted small">{cell.environment}: </span>;
  if (!cell.exists)
    return (
      <>
        {name}
        <span class="muted">{t("Not here")}</span>
      </>
    );
  return (
    <>
      {name}
      <Link href={`/project/${cell.project_id}/feature_flags/${cell.flag_id}`} class="row tight" title={t("Open the flag in {name}", { name: cell.environment })}>
        <span class={`tag ${cell.active ? "on" : ""}`}>{cell.archived ? t("Archived") : cell.active ? t("On") : t("Off")}</span>
        <span>
          <Value value={cell.rollout} maxChars={80} />
        </span>
      </Link>
      {cell.state === "differs" && <div class="warning-text small">{t("Other: {parts}", { parts: describeParts(cell.differs) })}</div>}
    </>
  );
}
