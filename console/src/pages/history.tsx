// The changes of one object, newest first.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { get } from "../api/client";
import type { Activity, ActivityPage, Page } from "../api/types";
import { t } from "../lib/text";
import { type Parameters, useLocalState } from "../lib/url";
import { List, useListStateIn } from "../ui/list";
import { Ago, Value } from "../ui/show";
import { Empty } from "../ui/states";
import { type Change, diff } from "./flag/draft";
import { Changes } from "./flag/review";

const LIMIT = 10;

export interface FieldChange {
  field: string;
  before: unknown;
  after: unknown;
}

export function readChanges(entry: Activity): FieldChange[] {
  return ((entry.detail.changes ?? []) as FieldChange[]).filter((each) => each.field !== "version");
}

/** Return every value that a change replaced, with its place. */
export function readDiff(entry: Activity): Change[] {
  return readChanges(entry).flatMap((each) => diff(each.before, each.after, each.field));
}

/** Load a page of an activity log. It counts pages, not entries. */
export async function loadActivity(path: string, offset: number, limit: number, parameters: Parameters = {}): Promise<Page<Activity>> {
  const page = await get<ActivityPage>(path, { ...parameters, limit, page: Math.floor(offset / limit) + 1 });
  return { ...page, count: page.total_count };
}

interface Props {
  /** The address of the activity in the API. */
  path: string;
  parameters?: Parameters;
  /** Changes when the object does. */
  version?: unknown;
  /** What the activity is in words. */
  describe?: (entry: Activity) => ComponentChildren;
  /** A way back. */
  action?: (entry: Activity) => ComponentChildren;
}

export function History({ path, parameters, version, describe, action }: Props) {
  const state = useListStateIn(useLocalState());
  const history = useQuery({
    queryKey: ["history", path, version, state.offset],
    queryFn: () => loadActivity(path, state.offset, LIMIT, parameters),
    placeholderData: keepPreviousData,
  });
  return (
    <section aria-label={t("History")}>
      <List query={history} state={state} limit={LIMIT} empty={<Empty title={t("No changes yet")} />}>
        {(entries) => (
          <ol>
            {entries.map((entry) => (
              <Entry key={entry.id} entry={entry} describe={describe} action={action} />
            ))}
          </ol>
        )}
      </List>
    </section>
  );
}

function Entry({ entry, describe, action }: { entry: Activity } & Pick<Props, "describe" | "action">) {
  const changes = entry.activity === "created" ? [] : readDiff(entry);
  const { reason } = entry.detail;
  return (
    <li class="entry stack">
      <div class="row spread">
        <span>
          <strong>
            <Value value={entry.user.first_name} maxChars={60} />
          </strong>{" "}
          {describe?.(entry) ?? <Value value={entry.activity.replaceAll("_", " ")} maxChars={60} />} · <Ago at={entry.created_at} />
        </span>
        {changes.length > 0 && action?.(entry)}
      </div>
      {typeof reason === "string" && reason && (
        <span class="error-text">
          <Value value={reason} />
        </span>
      )}
      {changes.length > 0 && <Changes changes={changes} />}
    </li>
  );
}
