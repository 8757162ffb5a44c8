// The end of a flag: archived, stale and why, and where code still names it.
import { useMutation, useQuery } from "@tanstack/react-query";
import { call, get, queryClient } from "../../api/client";
import type { CodeReference, Flag, FlagStatus } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useLocalState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Button } from "../../ui/controls";
import { List, useList, useListStateIn } from "../../ui/list";
import { Panel } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";

const LIMIT = 20;

/** Change a flag at once, with a way back. */
export function useQuickChange(flag: Flag, onDone: () => void) {
  const { api } = useProject();
  return useMutation({
    mutationFn: (fields: Partial<Flag>) => call<Flag>("PATCH", `${api}/feature_flags/${flag.id}/`, { body: fields }),
    onSuccess: (saved) => {
      notify(saved.archived ? t("{key} is archived.", { key: flag.key }) : t("{key} is no longer archived.", { key: flag.key }));
      void queryClient.invalidateQueries({ queryKey: ["flags"] });
      onDone();
    },
    onError: notifyError,
  });
}

/** What a person must know before editing: the flag is archived, or stale. */
export function LifecycleNotice({ flag, onDone }: { flag: Flag; onDone: () => void }) {
  const { api } = useProject();
  const refusal = useRefusal("feature_flag:write");
  const edit = useQuickChange(flag, onDone);
  const isStale = flag.status === "STALE";
  const status = useQuery({ queryKey: ["flag status", api, flag.id, flag.version], queryFn: () => get<FlagStatus>(`${api}/feature_flags/${flag.id}/status/`), enabled: isStale });
  if (!flag.archived && !isStale) return null;
  const button = (label: string, fields: Partial<Flag>) => (
    <Button isSmall disabled={!!refusal || edit.isPending} title={refusal} onClick={() => edit.mutate(fields)}>
      {label}
    </Button>
  );
  return flag.archived ? (
    <p class="notice row spread">
      <span>{t("This flag is archived: it is off, and cannot be turned on.")}</span>
      {button(t("Take out of the archive"), { archived: false })}
    </p>
  ) : (
    <p class="notice warn row spread">
      <span>
        <strong>{t("Stale:")}</strong> {status.data ? status.data.reason : "…"}. {t("If no code needs it any more, archive it.")}
      </span>
      {button(t("Turn off and archive"), { active: false, archived: true })}
    </p>
  );
}

/** Where source code names the flag, as `hedgerow flags scan` has uploaded it. */
export function CodeReferences({ flag }: { flag: Flag }) {
  const { api } = useProject();
  const state = useListStateIn(useLocalState());
  const references = useList<CodeReference>("code references", `${api}/code_references/`, state, { key: flag.key }, { limit: LIMIT });
  return (
    <Panel title={t("In your code")} actions={references.data?.count ? <span class="muted">{tn(references.data.count, "{n} place", "{n} places")}</span> : undefined} isFlush>
      <List
        query={references}
        state={state}
        limit={LIMIT}
        columns={[t("File"), t("Repository"), t("Commit"), t("Found")]}
        empty={
          <Empty title={t("No known place")}>
            {t("Run this in your repository, for example in CI:")} <code>hedgerow flags scan . --server {location.origin}</code>
          </Empty>
        }
      >
        {(items) =>
          items.map((each) => (
            <tr key={each.id}>
              <td class="first mono">
                <Value value={`${each.file}:${each.line}`} maxChars={160} />
              </td>
              <td>
                <Value value={each.repository} maxChars={80} />
              </td>
              <td class="mono muted drop">
                <Value value={each.commit.slice(0, 10)} />
              </td>
              <td class="muted drop">
                <Ago at={each.created_at} />
              </td>
            </tr>
          ))
        }
      </List>
    </Panel>
  );
}
