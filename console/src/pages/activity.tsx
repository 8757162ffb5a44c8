// Who changed what in the project, with the values before and after.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { Activity } from "../api/types";
import { t, tn } from "../lib/text";
import { useProject } from "../shell/project";
import { IconButton, Select } from "../ui/controls";
import { DETAILS, List, useListState } from "../ui/list";
import { Page } from "../ui/page";
import { Ago, Value } from "../ui/show";
import { Empty } from "../ui/states";
import { loadActivity, readDiff } from "./history";
import { Changes } from "./flag/review";

const LIMIT = 30;
const SCOPES = ["FeatureFlag", "Cohort", "Person", "Experiment", "Survey", "EarlyAccessFeature", "PluginConfig", "Project", "PersonalAPIKey"];

const ACTIVITIES = [
  { value: "", label: t("Any action") },
  { value: "created", label: t("created") },
  { value: "updated", label: t("updated") },
  { value: "deleted", label: t("deleted") },
];
const PERIODS = [
  { value: "", label: t("All time") },
  { value: "-24h", label: t("Last 24 hours") },
  { value: "-7d", label: t("Last 7 days") },
  { value: "-30d", label: t("Last 30 days") },
];

// The pages of objects, by their scope in the log.
const ADDRESSES: Record<string, string> = { FeatureFlag: "feature_flags", Cohort: "cohorts", Experiment: "experiments", Survey: "surveys", EarlyAccessFeature: "early_access_features" };

export function ActivityPage() {
  const { api } = useProject();
  const state = useListState("scope", "activity", "start_date");
  const parameters = { ...state.filters, search: state.search };
  const log = useQuery({
    queryKey: ["activity", api, parameters, state.offset],
    queryFn: () => loadActivity(`${api}/activity_log/`, state.offset, LIMIT, parameters),
    placeholderData: keepPreviousData,
  });
  return (
    <Page title={t("Activity")} sub={log.data ? tn(log.data.count, "{n} change", "{n} changes") : undefined}>
      <List
        query={log}
        state={state}
        limit={LIMIT}
        search={t("Search by person or name")}
        controls={
          <>
            {[
              { name: "scope", label: t("Kind"), choices: [{ value: "", label: t("Everything") }, ...SCOPES.map((value) => ({ value, label: value.replace(/(?<=[a-z])(?=[A-Z])/g, " ") }))] },
              { name: "activity", label: t("Action"), choices: ACTIVITIES },
              { name: "start_date", label: t("Period"), choices: PERIODS },
            ].map(({ name, label, choices }) => (
              <Select key={name} label={label} isNarrow value={state.filters[name] ?? ""} choices={choices} onChange={(value) => state.setFilter(name, value)} />
            ))}
          </>
        }
        empty={<Empty title={t("Nothing has changed yet")} />}
        columns={[DETAILS, t("Who"), t("What"), t("When")]}
      >
        {(items) => items.map((entry) => <Row key={entry.id} entry={entry} />)}
      </List>
    </Page>
  );
}

function Row({ entry }: { entry: Activity }) {
  const { root } = useProject();
  const [isOpen, setOpen] = useState(false);
  const changes = readDiff(entry);
  const name = (entry.detail.name as string | null) ?? entry.item_id;
  return (
    <>
      <tr>
        <td class="shrink end">
          <IconButton isSmall icon={isOpen ? "down" : "right"} label={t("Changes of {name}", { name })} aria-expanded={isOpen} disabled={!changes.length} onClick={() => setOpen(!isOpen)} />
        </td>
        <td class="wide">
          <Value value={entry.user.first_name} maxChars={60} />
        </td>
        <td class="first">
          <Value value={entry.activity.replaceAll("_", " ")} maxChars={60} /> <span class="muted">{entry.scope.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()}</span>{" "}
          {ADDRESSES[entry.scope] && entry.activity !== "deleted" ? (
            <Link href={`${root}/${ADDRESSES[entry.scope]}/${entry.item_id}`} class="name">
              <Value value={name} maxChars={80} />
            </Link>
          ) : (
            <span class="name">
              <Value value={name} maxChars={80} />
            </span>
          )}
        </td>
        <td class="muted">
          <Ago at={entry.created_at} />
        </td>
      </tr>
      {isOpen && (
        <tr>
          <td colSpan={4}>
            <Changes changes={changes} />
          </td>
        </tr>
      )}
    </>
  );
}
