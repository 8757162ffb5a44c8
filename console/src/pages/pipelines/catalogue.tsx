// Choose a component, name the record, and go on with its settings.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Redirect, useLocation, useParams } from "wouter-preact";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { Page as PageOf } from "../../api/types";
import { t } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, Field, SearchInput } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Page } from "../../ui/page";
import { copyText, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { type Component, type Family, findFamily, type PipelineRecord } from "./model";
import { useRefusal } from "../../shell/rights";
import "./pipelines.css";

export function CataloguePage() {
  const { root } = useProject();
  const family = findFamily(useParams<{ family: string }>().family);
  return family ? <Catalogue key={family.name} family={family} /> : <Redirect to={`${root}/pipeline/destinations`} replace />;
}

function Catalogue({ family }: { family: Family }) {
  const { root } = useProject();
  const [url, change] = useUrlState();
  const [search, setSearch] = useState("");
  const refusal = useRefusal("plugin:write");
  const components = useQuery({
    queryKey: ["components", family.components],
    queryFn: () => get<PageOf<Component>>(`/api/organizations/@current/${family.components}/`, { limit: 500 }),
    staleTime: 60_000,
  });
  const words = search.trim().toLowerCase();
  const all = components.data?.results ?? [];
  const found = all.filter((each) => `${each.name} ${each.description}`.toLowerCase().includes(words));
  const chosen = all.find((each) => String(each.id) === url.get("component"));
  return (
    <Page title={t("New {one}", { one: family.one })} sub={family.empty} crumbs={[{ label: family.label, to: `${root}/pipeline/${family.name}` }]}>
      <div class="row">
        <SearchInput label={t("Search components")} value={search} onInput={setSearch} />
      </div>
      {refusal && <p class="notice warn">{refusal}</p>}
      <Await query={components}>
        {() =>
          found.length ? (
            <ul class="catalogue">
              {found.map((component) => (
                <li key={component.id} class="panel">
                  <div class="body stack">
                    <h2>
                      <Value value={component.name} maxChars={80} />
                    </h2>
                    <p class="muted grow">
                      <Value value={component.description} maxChars={300} />
                    </p>
                    <div class="row spread">
                      <span class="muted small">{t("Version {version}", { version: component.version })}</span>
                      <Button isSmall disabled={!!refusal} aria-label={t("Use {name}", { name: component.name })} onClick={() => change({ component: component.id })}>
                        {t("Use")}
                      </Button>
                    </div>
                  </div>
                </li>
              ))}
            </ul>
          ) : all.length ? (
            <NoMatch onClear={() => setSearch("")} />
          ) : (
            <Empty title={t("No components are installed")}>{t("A Python package can add some.")}</Empty>
          )
        }
      </Await>
      {chosen && !refusal && <Create key={chosen.id} family={family} component={chosen} onClose={() => change({ component: null })} />}
    </Page>
  );
}

function Create({ family, component, onClose }: { family: Family; component: Component; onClose: () => void }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [name, setName] = useState(component.name);
  // A repeated click creates nothing twice.
  const [key] = useState(() => `console-${Date.now()}-${Math.random()}`);
  const path = `${api}/${family.records}/`;
  const body = { plugin: component.id, name: name.trim(), enabled: false };
  const create = useMutation({
    mutationFn: () => call<PipelineRecord>("POST", path, { body, headers: { "Idempotency-Key": key } }),
    onSuccess: async (record) => {
      await queryClient.invalidateQueries({ queryKey: ["pipelines"] });
      navigate(`${root}/pipeline/${family.name}/${record.id}?tab=configuration`);
    },
  });
  const error = create.error instanceof ApiError ? create.error : null;
  return (
    <Dialog
      title={t("New {name}", { name: component.name })}
      description={component.description}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button kind="quiet" onClick={() => void copyText(buildCurl("POST", path, body))}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={create.isPending} onClick={() => create.mutate()}>
            {t("Create and configure")}
          </Button>
        </>
      }
    >
      <form
        class="body stack"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <Field label={t("Name")} hint={t("What people see in lists. It is created off, and does nothing until you turn it on.")} error={error ? error.detail : undefined}>
          {(attributes) => <input {...attributes} class="input" maxLength={400} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
      </form>
    </Dialog>
  );
}
