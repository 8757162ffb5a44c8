// What uses a flag: experiments, surveys, early access features, other flags; and what it uses itself.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter-preact";
import { get } from "../../api/client";
import type { Experiment, Flag, Page } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { useCohorts } from "./properties";

interface User {
  kind: string;
  name: string;
  to: string;
  note: string;
}

/** Return the flag's own parts that name others: cohorts and flags. */
function listUsed(flag: Flag): { cohorts: number[]; flags: string[] } {
  const filters = (flag.filters.groups ?? []).flatMap((group) => group.properties ?? []);
  const of = (...types: string[]) => filters.filter((each) => types.includes(each.type));
  return {
    cohorts: [...new Set(of("cohort", "static-cohort").map((each) => Number(each.value)))],
    flags: [...new Set(of("flag").map((each) => each.key))],
  };
}

export function UsedBy({ flag }: { flag: Flag }) {
  const { api, root } = useProject();
  const cohorts = useCohorts();
  const users = useQuery({
    queryKey: ["used by", api, flag.id, flag.version],
    queryFn: async (): Promise<User[]> => {
      const [dependents, ...experiments] = await Promise.all([
        get<{ id: number; key: string; name: string }[]>(`${api}/feature_flags/${flag.id}/dependent_flags/`),
        ...(flag.experiment_set.length ? [false, true].map((archived) => get<Page<Experiment>>(`${api}/experiments/`, { feature_flag_id: flag.id, archived: String(archived), limit: 100 })) : []),
      ]);
      return [
        ...experiments.flatMap((page) => page.results).map((each) => ({ kind: t("Experiment"), name: each.name, to: `${root}/experiments/${each.id}`, note: each.archived ? t("archived") : each.status })),
        ...(flag.surveys as { id: string; name: string }[]).map((each) => ({ kind: t("Survey"), name: each.name, to: `${root}/surveys/${each.id}`, note: "" })),
        ...flag.features.map((each) => ({ kind: t("Early access"), name: each.name, to: `${root}/early_access_features/${each.id}`, note: each.stage })),
        ...dependents.map((each) => ({ kind: t("Flag"), name: each.key, to: `${root}/feature_flags/${each.id}`, note: t("has a condition on this flag") })),
      ];
    },
  });
  const used = listUsed(flag);
  const needs: User[] = [
    ...used.cohorts.map((id) => ({ kind: t("Cohort"), name: cohorts.find((each) => each.id === id)?.name ?? String(id), to: `${root}/cohorts/${id}`, note: "" })),
    ...used.flags.map((id) => ({ kind: t("Flag"), name: id, to: `${root}/feature_flags/${encodeURIComponent(id)}`, note: "" })),
  ];
  return (
    <div class="columns">
      <section class="panel" aria-label={t("What uses this flag")}>
        <div class="head">
          <h2>{t("What uses this flag")}</h2>
        </div>
        <Await query={users}>{(found) => (found.length ? <Users users={found} /> : <Empty title={t("Nothing uses this flag")}>{t("No experiment, survey, early access feature or other flag depends on it. Code may still ask for it.")}</Empty>)}</Await>
      </section>
      <section class="panel" aria-label={t("What this flag uses")}>
        <div class="head">
          <h2>{t("What this flag uses")}</h2>
          {needs.length > 0 && <span class="muted">{tn(needs.length, "{n} object", "{n} objects")}</span>}
        </div>
        {needs.length ? <Users users={needs} /> : <Empty title={t("No cohort and no other flag")} />}
      </section>
    </div>
  );
}

function Users({ users }: { users: User[] }) {
  return (
    <ul class="links">
      {users.map((each) => (
        <li key={each.to}>
          <span class="tag">{each.kind}</span>
          <Link href={each.to}>
            <Value value={each.name} maxChars={120} />
          </Link>
          {each.note && <span class="muted">{each.note}</span>}
        </li>
      ))}
    </ul>
  );
}
