// The list of early access features.
import { Link } from "wouter-preact";
import type { Feature } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { SearchInput } from "../../ui/controls";
import { List, useList, useListState } from "../../ui/list";
import { Page } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { COUNTED_ROWS, PersonCount } from "../persons/list";
import { enrolledIn, findStage } from "./stages";

export function FeaturesPage() {
  const { api, root } = useProject();
  const state = useListState();
  const features = useList<Feature>("features", `${api}/early_access_feature/`, state);
  const mayEdit = useMay("early_access_feature:write");
  const create = (label: string) =>
    mayEdit ? (
      <Link href={`${root}/early_access_features/new`} class="button primary">
        {label}
      </Link>
    ) : (
      <span class="muted small">{NOT_ALLOWED}</span>
    );
  return (
    <Page title={t("Early access")} sub={features.data ? tn(features.data.count, "{n} feature", "{n} features") : undefined} actions={create(t("New feature"))}>
      <div class="row">
        <SearchInput label={t("Search by name, description or flag")} value={state.text} onInput={state.setText} />
      </div>
      <List
        query={features}
        state={state}
        empty={
          <Empty title={t("No early access features yet")} action={create(t("Create the first one"))}>
            {t("People opt in to a feature by themselves, and its flag is on for them.")}
          </Empty>
        }
      >
        {(items) => (
          <table class="table cards">
            <thead>
              <tr>
                <th scope="col">{t("Feature")}</th>
                <th scope="col">{t("Stage")}</th>
                <th scope="col">{t("Flag")}</th>
                <th scope="col" class="num">
                  {t("Opted in")}
                </th>
                <th scope="col">{t("Created")}</th>
              </tr>
            </thead>
            <tbody>
              {items.map((feature) => (
                <tr key={feature.id}>
                  <td class="first">
                    <Link href={`${root}/early_access_features/${feature.id}`} class="name">
                      <Value value={feature.name} maxChars={120} />
                    </Link>
                    {feature.description && (
                      <div class="muted small">
                        <Value value={feature.description} maxChars={140} />
                      </div>
                    )}
                  </td>
                  <td class="end">
                    <Stage value={feature.stage} />
                  </td>
                  <td class="mono">
                    <Value value={feature.feature_flag.key} maxChars={60} />
                  </td>
                  <td class="num">
                    <Enrolled flagKey={feature.feature_flag.key} isLazy={items.length > COUNTED_ROWS} />
                  </td>
                  <td class="muted drop">
                    <Ago at={feature.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
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
