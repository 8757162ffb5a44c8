// Groups of filters of which one must hold, with the editor of filters that flags use.
import { Fragment } from "preact";
import { t } from "../../lib/text";
import { Button, IconButton } from "../../ui/controls";
import { newUid } from "../flag/draft";
import { Filters, type Others } from "../flag/filters";
import { BEHAVIORAL, newBehavior } from "./behavior";
import { BehaviorRow } from "./behavior-row";
import type { FilterGroup } from "./definition";

const BEHAVIORS: Others = { isOther: (filter) => filter.type === BEHAVIORAL, Row: BehaviorRow, label: t("Add what people did"), create: newBehavior };

export function newGroup(): FilterGroup {
  return { uid: newUid(), filters: [{ uid: newUid(), key: "", type: "person", operator: "exact", value: [] }] };
}

interface Props {
  groups: FilterGroup[];
  onChange: (groups: FilterGroup[]) => void;
  /** What it means that there is no group. */
  none: string;
  /** Whether filters can ask what people did. */
  hasBehaviors?: boolean;
}

export function FilterGroups({ groups, onChange, none, hasBehaviors }: Props) {
  return (
    <section class="stack" aria-label={t("Filters")}>
      {groups.length === 0 && <p class="muted">{none}</p>}
      {groups.map((group, index) => {
        const number = index + 1;
        return (
          <Fragment key={group.uid}>
            {index > 0 && <span class="and">{t("or")}</span>}
            <div class="condition" role="group" aria-label={t("Group {number}", { number })}>
              <header>
                <h2 class="grow">{t("Group {number}", { number })}</h2>
                <IconButton isSmall icon="trash" label={t("Remove group {number}", { number })} onClick={() => onChange(groups.filter((each) => each !== group))} />
              </header>
              <div class="body">
                <Filters {...(hasBehaviors ? { others: BEHAVIORS } : {})} filters={group.filters} empty={t("Add a filter, or remove the group.")} onChange={(filters) => onChange(groups.map((each) => (each === group ? { ...group, filters } : each)))} />
              </div>
            </div>
          </Fragment>
        );
      })}
      <div>
        <Button icon="plus" onClick={() => onChange([...groups, newGroup()])}>
          {groups.length ? t("Add a group") : t("Add filters")}
        </Button>
      </div>
    </section>
  );
}
