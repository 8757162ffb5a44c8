// Which flags a change of several flags concerns, and what it does, in numbers. Pure.
import type { Flag } from "../../api/types";
import { t, tn } from "../../lib/text";

export type BulkAction = { kind: "on" | "off" | "delete" } | { kind: "tag" | "untag"; tag: string };

export interface Planned {
  flag: Flag;
  body: Partial<Flag>;
  undo: Partial<Flag>;
}

function plan(flag: Flag, action: BulkAction): Planned | null {
  if (action.kind === "delete") return { flag, body: { deleted: true }, undo: { deleted: false, active: flag.active } };
  if (action.kind === "tag" || action.kind === "untag") {
    const has = flag.tags.includes(action.tag);
    if (!action.tag || has === (action.kind === "tag")) return null;
    const tags = has ? flag.tags.filter((each) => each !== action.tag) : [...flag.tags, action.tag];
    return { flag, body: { tags }, undo: { tags: flag.tags } };
  }
  const active = action.kind === "on";
  return flag.active === active ? null : { flag, body: { active }, undo: { active: !active } };
}

/** Return the flags that really change, with what each call sends and what takes it back. */
export function planBulk(flags: Flag[], action: BulkAction): Planned[] {
  return flags.flatMap((flag) => plan(flag, action) ?? []);
}

const DAY_MS = 86_400_000;

/** Say what happens before it does. */
export function describeBulk(flags: Flag[], planned: Planned[], action: BulkAction, now = Date.now()): string[] {
  const lines: string[] = [];
  const same = flags.length - planned.length;
  if ((action.kind === "tag" || action.kind === "untag") && !action.tag) return [t("Enter a tag.")];
  const verbs = {
    on: tn(planned.length, "{n} flag is turned on, as its conditions say.", "{n} flags are turned on, as their conditions say."),
    off: tn(planned.length, "{n} flag is turned off: everyone gets false.", "{n} flags are turned off: everyone gets false."),
    tag: tn(planned.length, "{n} flag gets the tag.", "{n} flags get the tag."),
    untag: tn(planned.length, "{n} flag loses the tag.", "{n} flags lose the tag."),
    delete: tn(planned.length, "{n} flag is deleted: everyone gets false.", "{n} flags are deleted: everyone gets false."),
  };
  lines.push(verbs[action.kind]);
  if (same) lines.push(tn(same, "{n} is so already and stays.", "{n} are so already and stay."));
  if (action.kind === "off" || action.kind === "delete") {
    const called = planned.filter(({ flag }) => flag.last_called_at && now - Date.parse(flag.last_called_at) < DAY_MS).length;
    if (called) lines.push(tn(called, "{n} of them was called in the last 24 hours.", "{n} of them were called in the last 24 hours."));
    const used = planned.filter(({ flag }) => flag.experiment_set.length || flag.features.length || flag.surveys.length).length;
    if (used) lines.push(tn(used, "{n} of them has an experiment, a survey or an early access feature.", "{n} of them have an experiment, a survey or an early access feature."));
  }
  if (planned.length) lines.push(t("You can undo it."));
  return lines;
}
