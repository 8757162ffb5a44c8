// The changes of one object, newest first.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../api/client";
import type { ActivityPage } from "../api/types";
import { t } from "../lib/text";
import { Pager } from "../ui/page";
import { Ago, Value } from "../ui/show";
import { Await, Empty } from "../ui/states";
import { diff } from "./flag/draft";
import { readChanges } from "./flag/history";
import { Changes } from "./flag/review";

const LIMIT = 10;

/** `path` is the address of the activity in the API. */
export function HistoryList({ path }: { path: string }) {
  const [offset, setOffset] = useState(0);
  const history = useQuery({
    queryKey: ["history", path, offset],
    queryFn: () => get<ActivityPage>(path, { limit: LIMIT, page: offset / LIMIT + 1 }),
  });
  return (
    <section class="panel" aria-label={t("History")}>
      <Await query={history}>
        {(page) =>
          page.results.length ? (
            <>
              <ol>
                {page.results.map((entry) => {
                  const changes = entry.activity === "created" ? [] : readChanges(entry).flatMap((each) => diff(each.before, each.after, each.field));
                  return (
                    <li key={entry.id} class="entry stack">
                      <span>
                        <strong>
                          <Value value={entry.user.first_name} maxChars={60} />
                        </strong>{" "}
                        <Value value={entry.activity.replaceAll("_", " ")} maxChars={60} /> · <Ago at={entry.created_at} />
                      </span>
                      {changes.length > 0 && <Changes changes={changes} />}
                    </li>
                  );
                })}
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
