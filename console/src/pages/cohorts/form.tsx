// The form of a cohort: name, and either filters with a live count or a list to upload.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { buildCurl, call, queryClient } from "../../api/client";
import { explain } from "../../api/errors";
import type { Cohort } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatNumber, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useMay } from "../../shell/rights";
import { Button, Choices, Field } from "../../ui/controls";
import { findError, Refusal, SaveBar, TextField } from "../../ui/forms";
import { copyText } from "../../ui/show";
import { Loading } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { isJson, isSame } from "../flag/draft";
import { countIds, type FilterGroup, findProblem, readDefinition, writeDefinition } from "./definition";
import { FilterGroups, newGroup } from "./groups";

const SHOWN = ["name", "description", "csv"];

export function CohortForm({ saved }: { saved: Cohort | null }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const mayEdit = useMay("cohort:write");
  const stored = (saved?.filters as { properties?: unknown } | undefined)?.properties ?? {};
  const [name, setName] = useState(saved?.name ?? "");
  const [description, setDescription] = useState(saved?.description ?? "");
  const [isStatic, setStatic] = useState(saved?.is_static ?? false);
  const [groups, setGroups] = useState<FilterGroup[] | null>(() => (saved ? readDefinition(stored) : [newGroup()]));
  const [json, setJson] = useState(() => JSON.stringify(stored, null, 2));
  const [csv, setCsv] = useState("");
  const definition: unknown = groups ? writeDefinition(groups) : isJson(json) ? JSON.parse(json) : undefined;
  const before = groups && saved ? writeDefinition(readDefinition(stored) ?? []) : stored;
  const fields: Record<string, unknown> = { name, description };
  if (!saved) fields.is_static = isStatic;
  if (!isStatic && (!saved || !isSame(definition, before))) fields.filters = { properties: definition };
  if (isStatic && csv.trim()) fields.csv = csv;
  const isChanged = !saved || name !== saved.name || description !== saved.description || "filters" in fields || "csv" in fields;
  const filterProblem = groups ? findProblem(groups) : definition === undefined ? t("The filters are not valid JSON.") : undefined;
  const problem = !name.trim() ? t("A cohort needs a name.") : isStatic ? undefined : filterProblem;
  const method = saved ? "PATCH" : "POST";
  const path = saved ? `${api}/cohorts/${saved.id}/` : `${api}/cohorts/`;
  const save = useMutation({
    mutationFn: () => call<Cohort>(method, path, { body: fields }),
    onSuccess: (cohort) => {
      for (const key of ["cohorts", "cohort", "persons", "history"]) void queryClient.invalidateQueries({ queryKey: [key] });
      setCsv("");
      notify(t("{name} is saved.", { name: cohort.name }));
      if (!saved) navigate(`${root}/cohorts/${cohort.id}`);
    },
  });
  const editAsJson = (present: FilterGroup[]) => {
    setJson(JSON.stringify(writeDefinition(present), null, 2));
    setGroups(null);
  };
  const discard = () => {
    setName(saved?.name ?? "");
    setDescription(saved?.description ?? "");
    setGroups(saved ? readDefinition(stored) : [newGroup()]);
    setJson(JSON.stringify(stored, null, 2));
    setCsv("");
    save.reset();
  };
  return (
    <>
      <div class="split">
        <fieldset class="plain stack" disabled={!mayEdit}>
          <section class="panel" aria-label={t("Name")}>
            <div class="body columns">
              <TextField label={t("Name")} value={name} onInput={setName} required error={findError(save.error, "name")} />
              <TextField label={t("Description")} value={description} onInput={setDescription} error={findError(save.error, "description")} />
            </div>
            {!saved && (
              <div class="body">
                <Choices
                  label={t("Kind")}
                  value={isStatic ? "static" : "dynamic"}
                  choices={[
                    { value: "dynamic", label: t("By filters") },
                    { value: "static", label: t("By a list") },
                  ]}
                  onChange={(value) => setStatic(value === "static")}
                />
                <p class="hint">{isStatic ? t("Who is in it changes only when you upload more. A cohort cannot change its kind later.") : t("Everyone who matches, always as of now. A cohort cannot change its kind later.")}</p>
              </div>
            )}
          </section>
          {isStatic ? (
            <Upload csv={csv} onChange={setCsv} error={findError(save.error, "csv")} isNew={!saved} />
          ) : groups ? (
            <>
              <FilterGroups hasBehaviors groups={groups} onChange={setGroups} none={t("Without filters no one is in the cohort.")} />
              <p class="hint">
                {t("Filters that nest or negate are written as JSON.")}{" "}
                <Button isSmall kind="quiet" onClick={() => editAsJson(groups)}>
                  {t("Edit as JSON")}
                </Button>
              </p>
            </>
          ) : (
            <section class="panel" aria-label={t("Filters")}>
              <div class="body stack">
                <p class="notice">{t("Filters that nest or negate, and some that ask what people did, are edited as JSON.")}</p>
                <TextField label={t("Filters as JSON")} isLong isCode value={json} onInput={setJson} error={findError(save.error, "filters")} />
              </div>
            </section>
          )}
          <Refusal error={save.error} shown={groups ? SHOWN : [...SHOWN, "filters"]} />
        </fieldset>
        <aside aria-label={t("Who is in it")}>{isStatic ? <StaticNote saved={saved} csv={csv} /> : <LiveCount definition={definition} problem={filterProblem ?? (groups?.length === 0 ? t("There are no filters.") : undefined)} />}</aside>
      </div>
      <SaveBar isShown={mayEdit && isChanged} isBusy={save.isPending} label={saved ? t("Save") : t("Create the cohort")} problem={problem} onSave={() => save.mutate()} onDiscard={saved ? discard : undefined}>
        <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, fields))}>
          {t("Copy as curl")}
        </Button>
      </SaveBar>
    </>
  );
}

function Upload(props: { csv: string; onChange: (csv: string) => void; error: string | undefined; isNew: boolean }) {
  const read = async (file: File | undefined) => file && props.onChange(await file.text());
  const count = countIds(props.csv);
  return (
    <section class="panel" aria-label={t("List")}>
      <div class="body stack">
        <Field label={props.isNew ? t("CSV file") : t("CSV file with persons to add")} hint={t("The first column has distinct ids. A header distinct_id is skipped.")}>
          {(attributes) => <input {...attributes} class="input" type="file" accept=".csv,text/csv,text/plain" onChange={(event) => void read(event.currentTarget.files?.[0])} />}
        </Field>
        <TextField label={t("Or one distinct id on each line")} isLong isCode value={props.csv.slice(0, 20_000)} onInput={props.onChange} disabled={props.csv.length > 20_000} error={props.error} />
        {count > 0 && <p>{tn(count, "{n} distinct id in the list. Ids that belong to no person yet are skipped.", "{n} distinct ids in the list. Ids that belong to no person yet are skipped.")}</p>}
      </div>
    </section>
  );
}

function StaticNote({ saved, csv }: { saved: Cohort | null; csv: string }) {
  return (
    <section class="panel" aria-label={t("Size")}>
      <div class="body stack s">
        <span class="figure">
          <span class="value">{formatNumber(saved?.count ?? 0)}</span> {t("persons are in it")}
        </span>
        <p class="muted">{csv.trim() ? t("Saving adds those of the list who are not in it yet. No one is removed.") : t("Upload a list to add persons.")}</p>
      </div>
    </section>
  );
}

interface Counts {
  count: number;
  total_persons: number;
  groups: number[];
}

/** Count who matches the draft, as the Members tab does once it is saved. */
function LiveCount({ definition, problem }: { definition: unknown; problem: string | undefined }) {
  const { api } = useProject();
  const body = useSettled(problem ? "" : JSON.stringify({ filters: { properties: definition } }), 300);
  const counts = useQuery({
    queryKey: ["cohort preview", api, body],
    queryFn: ({ signal }) => call<Counts>("POST", `${api}/cohorts/preview/`, { body: JSON.parse(body) as unknown, signal }),
    enabled: body !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });
  const found = counts.data;
  return (
    <section class="panel" aria-label={t("Who is in it now")} aria-busy={counts.isFetching}>
      <div class="head">
        <h2>{t("Who is in it now")}</h2>
      </div>
      <div class="body stack s" role="status">
        {problem ? (
          <p class="muted">{t("Complete the filters to count who matches.")}</p>
        ) : counts.error ? (
          <p class="notice warn">{explain(counts.error)}</p>
        ) : !found ? (
          <Loading rows={2} />
        ) : (
          <>
            <span class="figure">
              <span class="value">{formatNumber(found.count)}</span> {t("of {n} persons", { n: found.total_persons })}
            </span>
            {found.groups.map((count, index) => (
              <span key={index} class="muted">
                {t("Group {number}: {n}", { number: index + 1, n: count })}
              </span>
            ))}
          </>
        )}
      </div>
    </section>
  );
}
