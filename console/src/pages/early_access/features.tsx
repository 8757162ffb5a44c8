// The list of early access features.
import type { Feature } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { CreateLink, List, NameCell, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { COUNTED_ROWS, PersonCount } from "../persons/list";
import { enrolledIn, findStage } from "./stages";

export function FeaturesPage() {
  const { api, root } = useProject();
  const state = useListState();
  const features = useList<Feature>("features", `${api}/early_access_feature/`, state);
  const create = (label: string, isQuiet = false) => (
    <CreateLink to={`${root}/early_access_features/new`} scope="early_access_feature:write" isQuiet={isQuiet}>
      {label}
    </CreateLink>
  );
  return (
    <Page title={t("Early access")} sub={features.data ? tn(features.data.count, "{n} feature", "{n} features") : undefined} actions={create(t("New feature"))}>
      <List
        query={features}
        state={state}
        search={t("Search by name, description or flag")}
        empty={
          <Empty title={t("No early access features yet")} action={create(t("Create the first one"), true)}>
            {t("People opt in to a feature by themselves, and its flag is on for them.")}
          </Empty>
        }
        columns={[t("Feature"), t("Stage"), t("Flag"), { label: t("Opted in"), class: "num" }, t("Created")]}
      >
        {(items) =>
          items.map((feature) => (
            <tr key={feature.id}>
              <NameCell to={`${root}/early_access_features/${feature.id}`} name={feature.name} description={feature.description} />
              <td class="end">
                <Stage value={feature.stage} />
              </td>
              <td class="mono">
                <Value value={feature.feature_flag.key} maxChars={60} />
              </td>
              <td class="num" data-label={t("Opted in")}>
                <Enrolled flagKey={feature.feature_flag.key} isLazy={items.length > COUNTED_ROWS} />
              </td>
              <td class="muted drop">
                <Ago at={feature.created_at} />
              </td>
            </tr>
          ))
        }
      </List>
    </Page>
  );
}

export function Stage({ value }: { value: string }) {
  const stage = findStage(value);
  return <span class={`tag ${stage.tone}`}>{stage.label}</span>;
}

/** How many persons have opted in. */
export function Enrolled({ flagKey, isLazy = false }: { flagKey: string; isLazy?: boolean }) {
  return <PersonCount parameters={enrolledIn(flagKey)} isLazy={isLazy} label={t("Count who opted in to {key}", { key: flagKey })} />;
}
