// The records of one pipeline family, with how they are doing.
import { Redirect, useParams } from "wouter-preact";
import { formatNumber, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Select } from "../../ui/controls";
import { CreateLink, List, LIST_LIMIT, Table, useList, useListState } from "../../ui/list";
import { Page, Tabs } from "../../ui/page";
import { Empty } from "../../ui/states";
import { FAMILIES, type Family, findFamily, type Health, type PipelineRecord } from "./model";
import { TransformationOrder } from "./order";
import { RecordCells, recordColumns } from "./row";
import "./pipelines.css";

const EVERY_MS = 5000;

export function PipelinesPage() {
  const { root } = useProject();
  const family = findFamily(useParams<{ family: string }>().family);
  return family ? <FamilyPage key={family.name} family={family} /> : <Redirect to={`${root}/pipeline/destinations`} replace />;
}

function FamilyPage({ family }: { family: Family }) {
  const { api, root } = useProject();
  const state = useListState("state");
  const shown = state.filters.state;
  const refusal = useRefusal("plugin:write");
  const parameters = {
    enabled: shown === "on" ? "true" : shown === "off" ? "false" : null,
    failing: shown === "failing" ? "true" : null,
  };
  const kept = ["pipelines", api, family.name];
  const path = `${api}/${family.records}/`;
  const records = useList<PipelineRecord>([...kept, "records"], path, state, parameters, { everyMs: EVERY_MS });
  const health = useList<Health>([...kept, "health"], `${path}health/`, state, parameters, { everyMs: EVERY_MS });
  const found = new Map((health.data?.results ?? []).map((each) => [each.id, each]));
  const create = (isQuiet = false) => (
    <CreateLink to={`${root}/pipeline/${family.name}/new`} scope="plugin:write" isQuiet={isQuiet}>
      {t("New {one}", { one: family.one })}
    </CreateLink>
  );
  return (
    <Page title={t("Pipelines")} sub={records.data ? `${family.label} · ${formatNumber(records.data.count)}` : family.label} actions={create()}>
      <Tabs label={t("Families")} current={family.name} tabs={FAMILIES.map((each) => ({ name: each.name, label: each.label, to: `${root}/pipeline/${each.name}` }))} />
      <List
        query={records}
        state={state}
        search={t("Search by name or description")}
        controls={
          <Select
            label={t("State")}
            isNarrow
            value={shown ?? ""}
            onChange={(value) => state.setFilter("state", value)}
            choices={[
              { value: "", label: t("Any state") },
              { value: "on", label: t("On") },
              { value: "off", label: t("Off") },
              { value: "failing", label: t("Failing") },
            ]}
          />
        }
        empty={
          <Empty title={t("No {family} yet", { family: family.label.toLowerCase() })} action={create(true)}>
            {family.empty}
          </Empty>
        }
      >
        {(items, page) =>
          family.name === "transformations" && !state.isFiltered && page.count <= LIST_LIMIT ? (
            <TransformationOrder family={family} records={items} health={found} refusal={refusal} />
          ) : (
            <RecordTable family={family} records={items} health={found} refusal={refusal} />
          )
        }
      </List>
    </Page>
  );
}

function RecordTable({ family, records, health, refusal }: { family: Family; records: PipelineRecord[]; health: Map<number, Health>; refusal: string | undefined }) {
  return (
    <Table columns={recordColumns(family)}>
      {records.map((record) => (
        <tr key={record.id}>
          <RecordCells family={family} record={record} health={health.get(record.id)} refusal={refusal} />
        </tr>
      ))}
    </Table>
  );
}
