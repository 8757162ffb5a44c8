// Change several flags at once: what happens in numbers first, then one call for each flag, and a way back.
import { useState } from "preact/hooks";
import { call, get, queryClient } from "../../api/client";
import { explain } from "../../api/errors";
import type { Flag, Page as PageOf } from "../../api/types";
import { t, tn } from "../../lib/text";
import type { Parameters } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { TextField } from "../../ui/forms";
import { Value } from "../../ui/show";
import { notify, notifyError } from "../../ui/toasts";
import { type BulkAction, describeBulk, planBulk } from "./bulk-plan";

const PARALLEL = 4;
const PAGE = 500;

interface Failure {
  key: string;
  reason: string;
}

/** Make one call for each flag, a few at a time. Returns those that were refused. */
async function runAll(calls: { flag: Flag; body: object }[], api: string, onDone: (count: number) => void): Promise<Failure[]> {
  const failures: Failure[] = [];
  const waiting = [...calls];
  let done = 0;
  const work = async () => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const { flag, body } = next;
      try {
        await call("PATCH", `${api}/feature_flags/${flag.id}/`, { body });
      } catch (error) {
        failures.push({ key: flag.key, reason: explain(error) });
      }
      onDone(++done);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return failures;
}

/** Load all flags that match the filters of the list. */
async function loadAll(api: string, parameters: Parameters): Promise<Flag[]> {
  const found: Flag[] = [];
  for (;;) {
    const page = await get<PageOf<Flag>>(`${api}/feature_flags/`, { ...parameters, limit: PAGE, offset: found.length || null });
    found.push(...page.results);
    if (!page.next || !page.results.length) return found;
  }
}

interface Props {
  selected: Flag[];
  /** How many flags match the filters, and the parameters that find them. */
  count: number;
  parameters: Parameters;
  onSelect: (flags: Flag[]) => void;
}

export function BulkBar({ selected, count, parameters, onSelect }: Props) {
  const { api } = useProject();
  const [asked, setAsked] = useState<BulkAction["kind"] | null>(null);
  const [tag, setTag] = useState("");
  const [done, setDone] = useState<number | null>(null);
  const [failures, setFailures] = useState<Failure[]>([]);
  if (!selected.length) return null;
  const action: BulkAction | null = asked && (asked === "tag" || asked === "untag" ? { kind: asked, tag: tag.trim() } : { kind: asked });
  const plan = action ? planBulk(selected, action) : [];
  const close = () => {
    setAsked(null);
    setFailures([]);
    setDone(null);
    setTag("");
  };
  const refresh = () => queryClient.invalidateQueries({ queryKey: ["flags"] });
  const undo = async (changed: typeof plan) => {
    const failed = await runAll(changed.map(({ flag, undo: body }) => ({ flag, body })), api, () => {});
    await refresh();
    notify(failed.length ? t("{n} could not be undone: {reason}", { n: failed.length, reason: failed[0]!.reason }) : t("Undone."), failed.length ? "bad" : "good");
  };
  const run = async () => {
    setDone(0);
    const failed = await runAll(plan, api, setDone);
    const keys = new Set(failed.map((each) => each.key));
    const changed = plan.filter(({ flag }) => !keys.has(flag.key));
    await refresh();
    if (changed.length) notify(tn(changed.length, "{n} flag is changed.", "{n} flags are changed."), "good", { label: t("Undo"), run: () => void undo(changed) });
    if (failed.length) {
      setDone(null);
      setFailures(failed);
      onSelect(plan.filter(({ flag }) => keys.has(flag.key)).map(({ flag }) => flag));
    } else {
      close();
      onSelect([]);
    }
  };
  const labels: Record<BulkAction["kind"], string> = { on: t("Turn on"), off: t("Turn off"), tag: t("Add a tag"), untag: t("Remove a tag"), delete: t("Delete") };
  const tags = [...new Set(selected.flatMap((flag) => flag.tags))].sort();
  return (
    <div class="bulk" role="region" aria-label={t("Selected flags")}>
      <span>
        <strong>{tn(selected.length, "{n} flag selected", "{n} flags selected")}</strong>{" "}
        {count > selected.length && (
          <Button kind="quiet" isSmall onClick={() => void loadAll(api, parameters).then(onSelect, notifyError)}>
            {t("Select all {n} that match", { n: count })}
          </Button>
        )}
      </span>
      <span class="row">
        {(Object.keys(labels) as BulkAction["kind"][]).map((kind) => (
          <Button key={kind} isSmall {...(kind === "delete" ? { kind: "danger" as const } : {})} onClick={() => setAsked(kind)}>
            {labels[kind]}…
          </Button>
        ))}
        <Button isSmall kind="quiet" onClick={() => onSelect([])}>
          {t("Clear")}
        </Button>
      </span>
      <Confirm
        title={asked ? tn(selected.length, "{action}: {n} flag", "{action}: {n} flags", { action: labels[asked] }) : ""}
        action={failures.length ? t("Try these again") : tn(plan.length, "Change {n} flag", "Change {n} flags")}
        isDangerous={asked === "delete"}
        isOpen={asked !== null}
        isBusy={done !== null || !plan.length}
        onConfirm={() => void run()}
        onClose={close}
      >
        {(asked === "tag" || asked === "untag") && <TextField label={t("Tag")} value={tag} onInput={setTag} hint={tags.length ? t("On the selected flags: {tags}", { tags: tags.slice(0, 12).join(", ") }) : undefined} />}
        {action && describeBulk(selected, plan, action).map((line) => <p key={line}>{line}</p>)}
        {done !== null && (
          <p role="status">
            <progress max={plan.length} value={done} aria-label={t("Progress")} /> {t("{done} of {n}", { done, n: plan.length })}
          </p>
        )}
        {failures.length > 0 && (
          <div class="notice bad" role="alert">
            {failures.slice(0, 10).map((each) => (
              <p key={each.key}>
                <code>
                  <Value value={each.key} maxChars={60} />
                </code>{" "}
                {each.reason}
              </p>
            ))}
          </div>
        )}
      </Confirm>
    </div>
  );
}
