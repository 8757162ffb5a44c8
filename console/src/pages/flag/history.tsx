// Who changed the flag, what, and a way back.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Activity, ActivityPage, Flag } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Pager } from "../../ui/page";
import { Ago } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { diff } from "./draft";
import { Changes } from "./review";

const LIMIT = 10;

interface FieldChange {
  field: string;
  before: unknown;
  after: unknown;
}

export function readChanges(entry: Activity): FieldChange[] {
  return ((entry.detail.changes ?? []) as FieldChange[]).filter((each) => each.field !== "version");
}

export function History({ flag, onRestore }: { flag: Flag; onRestore: (fields: Record<string, unknown>) => void }) {
  const { api } = useProject();
  const [offset, setOffset] = useState(0);
  const history = useQuery({
    queryKey: ["history", api, flag.id, flag.version, offset],
    queryFn: () => get<ActivityPage>(`${api}/feature_flags/${flag.id}/activity/`, { limit: LIMIT, page: offset / LIMIT + 1 }),
  });
  return (
    <section class="panel" aria-label={t("History")}>
      <Await query={history}>
        {(page) =>
          page.results.length ? (
            <>
              <ol>
                {page.results.map((entry) => (
                  <Entry key={entry.id} entry={entry} onRestore={onRestore} />
                ))}
              </ol>
              <Pager offset={offset} limit={LIMIT} count={page.total_count} onMove={setOffset} />
            </>
          ) : (
            <Empty title={t("No changes yet")} />
          )
        }
      </Await>
    </section>
  );
}

function Entry({ entry, onRestore }: { entry: Activity; onRestore: (fields: Record<string, unknown>) => void }) {
  const changes = readChanges(entry);
  const isCreated = entry.activity === "created";
  return (
    <li class="body stack" style={{ padding: "var(--s4)", borderBottom: "1px solid var(--line)" }}>
      <div class="row spread">
        <span>
          <strong>{entry.user.first_name}</strong> {entry.activity} · <Ago at={entry.created_at} />
        </span>
        {!isCreated && changes.length > 0 && (
          <Button isSmall onClick={() => onRestore(Object.fromEntries(changes.map((each) => [each.field, each.before])))}>
            {t("Restore what was before")}
          </Button>
        )}
      </div>
      {!isCreated && changes.length > 0 && <Changes changes={changes.flatMap((each) => diff(each.before, each.after, each.field))} />}
    </li>
  );
}
