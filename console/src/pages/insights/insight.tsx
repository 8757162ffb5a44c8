// One insight: left the question, right the answer.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { useLocation, useParams } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Insight } from "../../api/types";
import { saveCsv, saveFromApi, toFileName } from "../../lib/download";
import { t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, IconButton } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page, Tabs } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { toCsv } from "../query-text";
import { Alerts } from "./notify/alerts";
import { Answered } from "./results/answer";
import { DashboardsDialog, type Details, DetailsDialog, SharingDialog } from "./details";
import { Question } from "./editor/question";
import { describeSource, isSame, KINDS, type Kind, nameInsight, newSource, type Source, toRunnable, unwrap, wrap } from "./query";
import { toTable } from "./results/results";
import { useRefusal } from "../../shell/rights";
import { useAnswer } from "./run";
import { Subscriptions } from "./notify/subscriptions";
import "./insights.css";

export function InsightPage() {
  const { api, root } = useProject();
  const { insight: id } = useParams<{ insight: string }>();
  const insight = useQuery({
    queryKey: ["insight", api, id],
    queryFn: () => get<Insight>(`${api}/insights/${encodeURIComponent(id)}/`),
    enabled: id !== "new",
    refetchOnWindowFocus: false,
  });
  if (id === "new") return <Editor key="new" saved={null} />;
  if (!insight.data)
    return (
      <Page title={t("Insight")} crumbs={[{ label: t("Insights"), to: `${root}/insights` }]}>
        <div class="panel">
          <Await query={insight}>{() => null}</Await>
        </div>
      </Page>
    );
  return <Editor key={insight.data.id} saved={insight.data} />;
}

/** Read a query from the address: it survives a reload and can be sent to others. */
function readDraft(text: string | null): Source | null {
  try {
    const found = JSON.parse(text ?? "null") as Source | null;
    return found && typeof found.kind === "string" ? found : null;
  } catch {
    return null;
  }
}

type Open = "" | "save" | "save as" | "details" | "dashboards" | "sharing" | "delete";

function Editor({ saved }: { saved: Insight | null }) {
  const { api, root } = useProject();
  const [url, change] = useUrlState();
  const [path, navigate] = useLocation();
  const stored = saved ? unwrap(saved.query) : null;
  const [source, setSource] = useState<Source>(() => readDraft(url.get("q")) ?? stored ?? newSource(KINDS.find((each) => each.value === url.get("kind"))?.value as Kind | undefined));
  const [open, setOpen] = useState<Open>("");
  const refusal = useRefusal("insight:write");
  const { answer, refresh } = useAnswer(source);
  const isChanged = !stored || !isSame(source, stored);
  const tab = (saved && url.get("tab")) || "insight";
  const title = saved ? nameInsight(saved) : t("New insight");
  useEffect(() => {
    const text = isChanged ? JSON.stringify(source) : null;
    if (text === url.get("q") || tab !== "insight") return;
    const timer = setTimeout(() => change({ q: text, kind: null }), 400);
    return () => clearTimeout(timer);
  }, [source, isChanged, tab]);
  const edit = (part: Partial<Source>) => setSource((current) => ({ ...current, ...part }));
  const keep = (changed: Insight) => {
    for (const key of [changed.short_id, String(changed.id)]) queryClient.setQueryData(["insight", api, key], changed);
    void queryClient.invalidateQueries({ queryKey: ["insights"] });
  };
  const update = useMutation({
    mutationFn: (body: object) => call<Insight>("PATCH", `${api}/insights/${saved!.id}/`, { body }),
    onSuccess: keep,
    onError: notifyError,
  });
  const create = async (details: Details) => {
    const made = await call<Insight>("POST", `${api}/insights/`, { body: { ...details, saved: true, query: wrap(toRunnable(source)) } });
    keep(made);
    notify(t("“{name}” is saved.", { name: details.name }));
    navigate(`${root}/insights/${made.short_id}`);
  };
  const save = () => {
    if (!saved) return setOpen("save");
    const query = saved.query.source ? { ...saved.query, source: toRunnable(source) } : toRunnable(source);
    return update.mutate({ query }, { onSuccess: () => { setSource(toRunnable(source)); notify(t("The insight is saved.")); } });
  };
  const remove = () =>
    update.mutate(
      { deleted: true },
      {
        onSuccess: () => {
          notify(t("“{name}” is deleted.", { name: title }), "good", { label: t("Undo"), run: () => void call("PATCH", `${api}/insights/${saved!.id}/`, { body: { deleted: false } }).then(() => queryClient.invalidateQueries({ queryKey: ["insights"] })) });
          navigate(`${root}/insights`);
        },
      },
    );
  const data = answer.data;
  const downloadCsv = () => {
    if (!data) return;
    const { columns, rows } = toTable(data.source, data.response.results, data.response.columns);
    saveCsv(toCsv(columns, rows), title);
  };
  const picture = (form: "png" | "svg") => ({
    label: saved && !isChanged ? t("Download {form}", { form: form.toUpperCase() }) : t("Download {form} (save first)", { form: form.toUpperCase() }),
    isDisabled: !saved || isChanged,
    onSelect: () => void saveFromApi(`${api}/insights/${saved?.id}/chart.${form}/`, `${toFileName(title)}.${form}`),
  });
  const tabs = [
    ["insight", t("Insight")],
    ["alerts", t("Alerts")],
    ["subscriptions", t("Subscriptions")],
  ].map(([name, label]) => ({ name: name!, label: label!, to: buildUrl(path, { tab: name === "insight" ? null : name! }) }));
  const isEditable = KINDS.some((each) => each.value === source.kind);
  return (
    <Page
      title={title}
      crumbs={[{ label: t("Insights"), to: `${root}/insights` }]}
      sub={saved && <About insight={saved} />}
      actions={
        <>
          {saved && <IconButton icon="star" class={saved.favorited ? "starred" : ""} aria-pressed={saved.favorited} label={refusal ?? (saved.favorited ? t("Remove from the favorites") : t("Add to the favorites"))} disabled={!!refusal} onClick={() => update.mutate({ favorited: !saved.favorited })} />}
          <Menu
            trigger={<IconButton icon="more" label={t("More actions")} />}
            entries={[
              ...(saved ? [{ label: t("Name, description, tags…"), isDisabled: !!refusal, onSelect: () => setOpen("details") }, { label: t("Share by a link…"), onSelect: () => setOpen("sharing") }] : []),
              { label: t("Download CSV"), isDisabled: !data, onSelect: downloadCsv },
              picture("png"),
              picture("svg"),
              { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("POST", `${api}/query/`, { query: toRunnable(source) })) },
              ...(saved ? [{ label: t("Delete…"), isDangerous: true, isDisabled: !!refusal, onSelect: () => setOpen("delete") }] : []),
            ]}
          />
          {saved && (
            <Button icon="dashboard" disabled={!!refusal} title={refusal} onClick={() => setOpen("dashboards")}>
              {t("Show on dashboards…")}
            </Button>
          )}
          {saved && isChanged && <Button onClick={() => setSource(stored!)}>{t("Discard")}</Button>}
          {saved && <Button disabled={!!refusal} title={refusal} onClick={() => setOpen("save as")}>{t("Save as…")}</Button>}
          <Button kind="primary" disabled={!isChanged || update.isPending || !!refusal} title={refusal} onClick={save}>
            {saved ? t("Save") : t("Save…")}
          </Button>
        </>
      }
    >
      {saved && <Tabs label={t("Parts of the insight")} tabs={tabs} current={tab} />}
      {tab === "alerts" && saved ? (
        <Alerts insight={saved} />
      ) : tab === "subscriptions" && saved ? (
        <Subscriptions target={{ insight: saved.id }} />
      ) : (
        <div class={isEditable ? "insight" : ""}>
          {isEditable ? <Question source={source} error={answer.error} onChange={edit} onReplace={setSource} /> : <SqlNote source={source} />}
          <Answered label={title} source={source} answer={answer} insightId={saved?.id ?? null} onChange={edit} onRefresh={refresh} isEditable={isEditable} />
        </div>
      )}
      {(open === "save" || open === "save as") && (
        <DetailsDialog title={open === "save" ? t("Save the insight") : t("Save as a new insight")} action={t("Save")} initial={{ name: saved && open === "save as" ? t("{name} (copy)", { name: title }) : describeSource(source).slice(0, 400), description: saved?.description ?? "", tags: [...(saved?.tags ?? [])] }} onSave={create} onClose={() => setOpen("")} />
      )}
      {open === "details" && saved && (
        <DetailsDialog title={t("Describe the insight")} action={t("Save")} initial={{ name: title, description: saved.description ?? "", tags: [...saved.tags] }} onSave={(details) => call<Insight>("PATCH", `${api}/insights/${saved.id}/`, { body: details }).then(keep)} onClose={() => setOpen("")} />
      )}
      {open === "dashboards" && saved && <DashboardsDialog insight={saved} onClose={() => setOpen("")} />}
      {open === "sharing" && saved && <SharingDialog title={t("Share this insight")} path={`${api}/insights/${saved.id}/sharing/`} onClose={() => setOpen("")} />}
      {saved && (
        <Confirm title={t("Delete “{name}”?", { name: title })} action={t("Delete the insight")} isDangerous isOpen={open === "delete"} isBusy={update.isPending} onConfirm={remove} onClose={() => setOpen("")}>
          <p>{saved.dashboards.length ? t("{n} dashboards show it and lose the tile. You can undo it.", { n: saved.dashboards.length }) : t("No dashboard shows it. You can undo it.")}</p>
        </Confirm>
      )}
    </Page>
  );
}

function About({ insight }: { insight: Insight }) {
  return (
    <div class="stack s">
      {insight.description && <Value value={insight.description} maxChars={300} />}
      <div class="row">
        <span class="small">
          {t("changed")} <Ago at={insight.last_modified_at} />
        </span>
        {insight.tags.map((tag) => (
          <span class="tag" key={tag}>
            <Value value={tag} maxChars={30} />
          </span>
        ))}
      </div>
    </div>
  );
}

function SqlNote({ source }: { source: Source }) {
  const { root } = useProject();
  if (source.kind !== "HogQLQuery") return <Empty title={source.kind}>{t("The console shows this kind of insight, and the API changes it.")}</Empty>;
  return (
    <p class="row">
      <a class="button" href={buildUrl(`${root}/sql`, { q: source.query ?? "" })}>
        {t("Open in the query page")}
      </a>
    </p>
  );
}
