// The project: name, time zone, retention, internal users, keys, and its end.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Project, PropertyFilter } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRights } from "../../shell/rights";
import { Combobox } from "../../ui/combobox";
import { Button, Field, Select } from "../../ui/controls";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { Loading } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { newUid } from "../flag/draft";
import { Filters } from "../flag/filters";
import { DeleteProject } from "./project-deletion";
import { ProjectKeys } from "./project-keys";
import { keepProject, type PartProps } from "./project-part";

const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone")];
const MAX_SHOWN = 50;

export function ProjectSettings() {
  const { project } = useProject();
  const rights = useRights();
  if (!project) return <Loading />;
  const reason = rights.reason("project:write");
  return (
    <>
      {reason && <p class="notice">{reason}</p>}
      <div class="columns">
        <General key={project.updated_at} project={project} reason={reason} />
        <ProjectKeys project={project} reason={reason} />
      </div>
      <TestAccounts key={`filters-${project.updated_at}`} project={project} reason={reason} />
      <DeleteProject project={project} reason={reason} />
    </>
  );
}

function General({ project, reason }: PartProps) {
  const { api } = useProject();
  const [name, setName] = useState(project.name);
  const [zone, setZone] = useState(project.timezone);
  const [days, setDays] = useState(project.retention_days === null ? "" : String(project.retention_days));
  const [weekStart, setWeekStart] = useState(String(project.week_start_day));
  const [mode, setMode] = useState<string>(project.schema_mode);
  const form = useSubmit(async () => {
    const body = { name: name.trim(), timezone: zone.trim(), retention_days: days.trim() === "" ? null : Number(days), week_start_day: Number(weekStart), schema_mode: mode };
    keepProject(await call<Project>("PATCH", `${api}/`, { body }));
    notify(t("The project is saved."));
  });
  const matching = ZONES.filter((each) => each.toLowerCase().includes(zone.trim().toLowerCase().replaceAll(" ", "_"))).slice(0, MAX_SHOWN);
  return (
    <Panel title={t("Project")}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["name", "timezone", "retention_days"]} />
        <TextField label={t("Name")} required maxLength={200} disabled={!!reason} error={form.errorOf("name")} value={name} onInput={setName} />
        <div class="field">
          <span class="label">{t("Time zone")}</span>
          <Combobox label={t("Time zone")} disabled={!!reason} value={zone} hasError={!!form.errorOf("timezone")} options={matching.map((value) => ({ value }))} onInput={setZone} onChoose={setZone} />
          <span class={form.errorOf("timezone") ? "error-text" : "hint"}>{form.errorOf("timezone") ?? t("Days of charts and dates without a zone are read in it.")}</span>
        </div>
        <TextField
          label={t("Keep events for days")}
          type="number"
          min={1}
          step={1}
          disabled={!!reason}
          hint={t("Empty keeps them forever. Older events are deleted for good.")}
          error={form.errorOf("retention_days")}
          value={days}
          onInput={setDays}
        />
        <Field label={t("A week begins on")}>
          {(attributes) => <Select id={attributes.id} label={t("A week begins on")} disabled={!!reason} value={weekStart} onChange={setWeekStart} choices={[{ value: "0", label: t("Sunday") }, { value: "1", label: t("Monday") }]} />}
        </Field>
        <Field label={t("An event that breaks its schema")} hint={t("The definition of an event may choose otherwise.")}>
          {(attributes) => <Select id={attributes.id} label={t("An event that breaks its schema")} disabled={!!reason} value={mode} onChange={setMode} choices={[{ value: "off", label: t("is stored like any other") }, { value: "warn", label: t("is stored with a warning") }, { value: "reject", label: t("is rejected") }]} />}
        </Field>
        <div>
          <Button type="submit" disabled={form.isBusy || !!reason} title={reason}>
            {t("Save the project")}
          </Button>
        </div>
      </form>
    </Panel>
  );
}

function TestAccounts({ project, reason }: PartProps) {
  const { api } = useProject();
  const [filters, setFilters] = useState(() => (project.test_account_filters as unknown as PropertyFilter[]).map((each) => ({ ...each, uid: newUid() })));
  const form = useSubmit(async () => {
    const body = { test_account_filters: filters.map(({ uid: _, ...each }) => each) };
    keepProject(await call<Project>("PATCH", `${api}/`, { body }));
    notify(t("The filters are saved."));
  });
  return (
    <Panel title={t("Real users")}>
      <form class="body stack" onSubmit={form.submit}>
        <p class="muted">{t("Charts that leave out internal and test users count events of those who match all these filters, such as: email does not contain @example.com.")}</p>
        <Refusal error={form.error} />
        <fieldset class="plain" disabled={!!reason}>
          <Filters filters={filters} onChange={setFilters} />
        </fieldset>
        <div>
          <Button type="submit" disabled={form.isBusy || !!reason} title={reason}>
            {t("Save the filters")}
          </Button>
        </div>
      </form>
    </Panel>
  );
}
