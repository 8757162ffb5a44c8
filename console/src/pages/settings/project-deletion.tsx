// Delete a project, after saying in numbers what goes with it.
import { useQueries } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { call, get, queryClient } from "../../api/client";
import { formatNumber, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { notify } from "../../ui/toasts";
import type { PartProps } from "./project-part";

const COUNTED: [string, string][] = [
  ["persons", t("Persons")],
  ["feature_flags", t("Feature flags")],
  ["cohorts", t("Cohorts")],
  ["experiments", t("Experiments")],
  ["surveys", t("Surveys")],
  ["insights", t("Insights")],
  ["dashboards", t("Dashboards")],
  ["pipeline_destination_configs", t("Destinations")],
];

async function countEvents(api: string): Promise<number> {
  const answer = await call<{ results: [number][] }>("POST", `${api}/query/`, { body: { query: { kind: "HogQLQuery", query: "select count() from events" } } });
  return answer.results[0]?.[0] ?? 0;
}

export function DeleteProject({ project, reason }: PartProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <Panel title={t("Delete the project")}>
      <div class="body row spread">
        <p class="muted">{t("Its keys are refused at once, and all its data is deleted from the disk soon after. This cannot be undone.")}</p>
        <Button kind="danger" disabled={!!reason} title={reason} onClick={() => setOpen(true)}>
          {t("Delete the project…")}
        </Button>
      </div>
      {isOpen && <DeleteDialog project={project} onClose={() => setOpen(false)} />}
    </Panel>
  );
}

function DeleteDialog({ project, onClose }: { project: PartProps["project"]; onClose: () => void }) {
  const { api } = useProject();
  const [, navigate] = useLocation();
  const [typed, setTyped] = useState("");
  const counts = useQueries({
    queries: [
      { queryKey: ["count", api, "events"], queryFn: () => countEvents(api), retry: false },
      ...COUNTED.map(([path]) => ({ queryKey: ["count", api, path], queryFn: async () => (await get<{ count: number }>(`${api}/${path}/`, { limit: 1 })).count, retry: false })),
    ],
  });
  const form = useSubmit(async () => {
    await call("DELETE", `${api}/`);
    notify(t("{name} is deleted. Its data is removed from the disk now.", { name: project.name }));
    navigate("/");
    queryClient.clear();
  });
  const labels = [t("Events"), ...COUNTED.map(([, label]) => label)];
  return (
    <Dialog title={t("Delete {name}?", { name: project.name })} description={t("This deletes for good:")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <dl class="facts">
          {labels.map((label, index) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{counts[index]?.data === undefined ? (counts[index]?.error ? "?" : "…") : formatNumber(counts[index]!.data as number)}</dd>
            </div>
          ))}
        </dl>
        <Refusal error={form.error} />
        <TextField label={t("Type the name of the project: {name}", { name: project.name })} autocomplete="off" autofocus value={typed} onInput={setTyped} />
        <div class="row end">
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="danger" type="submit" disabled={form.isBusy || typed.trim() !== project.name.trim()}>
            {t("Delete the project")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
