// The conditions of a flag, in order: moved by drag, buttons or Alt with arrows.
import { useEffect, useRef, useState } from "preact/hooks";
import { formatNumber, t } from "../../lib/text";
import { Button, IconButton, Percent, Select } from "../../ui/controls";
import { Icon } from "../../ui/icons";
import { type Draft, type DraftCondition, move, newCondition, newUid } from "./draft";
import { Filters } from "./filters";
import type { ConditionCounts } from "./preview";

interface Props {
  draft: Draft;
  counts: Map<string, ConditionCounts>;
  onChange: (conditions: DraftCondition[]) => void;
}

export function Conditions({ draft, counts, onChange }: Props) {
  const { conditions } = draft;
  const [dragged, setDragged] = useState<string | null>(null);
  const [over, setOver] = useState<string | null>(null);
  const [said, setSaid] = useState("");
  const focused = useRef<string | null>(null);
  useEffect(() => {
    if (focused.current) document.getElementById(`condition-${focused.current}`)?.focus();
    focused.current = null;
  });
  const moveTo = (from: number, to: number) => {
    const moved = move(conditions, from, to);
    if (moved === conditions) return;
    focused.current = conditions[from]!.uid;
    setSaid(t("Condition {from} is now condition {to}.", { from: from + 1, to: to + 1 }));
    onChange(moved);
  };
  const drop = (uid: string) => {
    const from = conditions.findIndex((each) => each.uid === dragged);
    const to = conditions.findIndex((each) => each.uid === uid);
    setDragged(null);
    setOver(null);
    if (from >= 0 && to >= 0 && from !== to) moveTo(from, to);
  };
  const copy = (condition: DraftCondition, index: number) => {
    const same = { ...condition, uid: newUid(), filters: condition.filters.map((each) => ({ ...each, uid: newUid() })) };
    onChange([...conditions.slice(0, index + 1), same, ...conditions.slice(index + 1)]);
  };
  return (
    <section class="stack" aria-label={t("Conditions")}>
      <span class="hidden-text" role="status">
        {said}
      </span>
      {conditions.map((condition, index) => {
        const number = index + 1;
        const change = (part: Partial<DraftCondition>) => onChange(conditions.map((each) => (each.uid === condition.uid ? { ...each, ...part } : each)));
        return (
          <div
            key={condition.uid}
            class={`condition ${dragged === condition.uid ? "dragged" : ""} ${over === condition.uid && dragged !== condition.uid ? "over" : ""}`}
            role="group"
            aria-label={t("Condition {number}", { number })}
            onDragOver={(event) => {
              if (!dragged) return;
              event.preventDefault();
              setOver(condition.uid);
            }}
            onDrop={(event) => {
              event.preventDefault();
              drop(condition.uid);
            }}
            onKeyDown={(event) => {
              const step = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
              if (!event.altKey || !step) return;
              event.preventDefault();
              moveTo(index, index + step);
            }}
          >
            <header>
              <span
                class="grip"
                draggable
                title={t("Drag to move")}
                onDragStart={(event) => {
                  event.dataTransfer?.setData("text/plain", condition.uid);
                  setDragged(condition.uid);
                }}
                onDragEnd={() => {
                  setDragged(null);
                  setOver(null);
                }}
              >
                <Icon name="grip" />
              </span>
              <h2 class="grow" tabIndex={-1} id={`condition-${condition.uid}`}>
                {t("Condition {number}", { number })}
              </h2>
              <IconButton isSmall icon="up" label={t("Move condition {number} up", { number })} disabled={index === 0} onClick={() => moveTo(index, index - 1)} />
              <IconButton isSmall icon="down" label={t("Move condition {number} down", { number })} disabled={number === conditions.length} onClick={() => moveTo(index, index + 1)} />
              <IconButton isSmall icon="top" label={t("Move condition {number} to the top", { number })} disabled={index === 0} onClick={() => moveTo(index, 0)} />
              <IconButton isSmall icon="copy" label={t("Copy condition {number}", { number })} onClick={() => copy(condition, index)} />
              <IconButton
                isSmall
                icon="trash"
                label={t("Remove condition {number}", { number })}
                disabled={conditions.length === 1}
                onClick={() => onChange(conditions.filter((each) => each.uid !== condition.uid))}
              />
            </header>
            <div class="body">
              <Filters filters={condition.filters} onChange={(filters) => change({ filters })} />
              <div class="row">
                <span class="label">{t("Roll out to")}</span>
                <div class="grow" style={{ maxWidth: "22rem" }}>
                  <Percent label={t("Rollout of condition {number} in percent", { number })} value={condition.rollout} onChange={(rollout) => change({ rollout })} />
                </div>
              </div>
              {draft.variants.length > 0 && (
                <div class="row">
                  <span class="label">{t("Variant")}</span>
                  <Select
                    isNarrow
                    label={t("Variant of condition {number}", { number })}
                    value={condition.variant}
                    choices={[{ value: "", label: t("By share") }, ...draft.variants.map((each) => ({ value: each.key, label: t("Always {key}", { key: each.key }) }))]}
                    onChange={(variant) => change({ variant })}
                  />
                </div>
              )}
            </div>
            <Counts counts={counts.get(condition.uid)} />
          </div>
        );
      })}
      <div>
        <Button icon="plus" onClick={() => onChange([...conditions, newCondition()])}>
          {t("Add a condition")}
        </Button>
      </div>
    </section>
  );
}

function Counts({ counts }: { counts: ConditionCounts | undefined }) {
  if (!counts) return <footer>{t("Counting…")}</footer>;
  const earlier = counts.gets - counts.decides;
  return (
    <footer>
      {t("matches {n}", { n: formatNumber(counts.matches) })} · {t("in the rollout {n}", { n: formatNumber(counts.gets) })} ·{" "}
      {t("decided here {n}", { n: formatNumber(counts.decides) })}
      {earlier > 0 && ` · ${t("{n} already decided above", { n: formatNumber(earlier) })}`}
    </footer>
  );
}
