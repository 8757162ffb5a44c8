// Dialogs around an insight: name and tags, dashboards that show it, and its shared link.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError, call, get, queryClient } from "../../api/client";
import type { DashboardBasics, Insight, Page } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { ValuesInput } from "../../ui/combobox";
import { Button, Field, SearchInput, Switch } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Code, Value } from "../../ui/show";
import { Await } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";

export interface Details {
  name: string;
  description: string;
  tags: string[];
}

/** Ask for name, description and tags. `onSave` rejects with the error of the API, which is shown at its field. */
export function DetailsDialog(props: { title: string; action: string; initial: Details; onSave: (details: Details) => Promise<unknown>; onClose: () => void; hint?: string }) {
  const [draft, setDraft] = useState(props.initial);
  const save = useMutation({ mutationFn: () => props.onSave({ ...draft, name: draft.name.trim() }), onSuccess: props.onClose });
  const error = save.error instanceof ApiError ? save.error : null;
  const of = (name: string) => (error?.attr?.startsWith(name) ? error.detail : undefined);
  return (
    <Dialog
      title={props.title}
      {...(props.hint ? { description: props.hint } : {})}
      isOpen
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={save.isPending || !draft.name.trim()} onClick={() => save.mutate()}>
            {props.action}
          </Button>
        </>
      }
    >
      <form
        class="body stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (draft.name.trim()) save.mutate();
        }}
      >
        <Field label={t("Name")} error={of("name")}>
          {(attributes) => <input {...attributes} class="input" autofocus maxLength={400} value={draft.name} onInput={(event) => setDraft({ ...draft, name: event.currentTarget.value })} />}
        </Field>
        <Field label={t("Description")} error={of("description")}>
          {(attributes) => <textarea {...attributes} class="input" value={draft.description} onInput={(event) => setDraft({ ...draft, description: event.currentTarget.value })} />}
        </Field>
        <div class="field">
          <span class="label">{t("Tags")}</span>
          <ValuesInput label={t("Tags")} values={draft.tags} options={[]} onSearch={() => {}} onChange={(tags) => setDraft({ ...draft, tags })} />
          {of("tags") && <span class="error-text">{of("tags")}</span>}
        </div>
        {error && !["name", "description", "tags"].some((name) => error.attr?.startsWith(name)) && (
          <p class="notice bad" role="alert">
            {error.detail}
          </p>
        )}
      </form>
    </Dialog>
  );
}

/** Choose the dashboards that show an insight. */
export function DashboardsDialog({ insight, onClose }: { insight: Insight; onClose: () => void }) {
  const { api } = useProject();
  const [text, setText] = useState("");
  const [shown, setShown] = useState<readonly number[]>(insight.dashboards);
  const search = useSettled(text.trim());
  const boards = useQuery({ queryKey: ["dashboards", api, search, 0], queryFn: ({ signal }) => get<Page<DashboardBasics>>(`${api}/dashboards/`, { search, limit: 50 }, signal) });
  const change = useMutation({
    mutationFn: (dashboards: number[]) => call<Insight>("PATCH", `${api}/insights/${insight.id}/`, { body: { dashboards } }),
    onSuccess: (saved) => {
      setShown(saved.dashboards);
      void queryClient.invalidateQueries({ queryKey: ["insight", api] });
    },
    onError: notifyError,
  });
  const create = useMutation({
    mutationFn: () => call<DashboardBasics>("POST", `${api}/dashboards/`, { body: { name: text.trim() } }),
    onSuccess: (made) => {
      void queryClient.invalidateQueries({ queryKey: ["dashboards"] });
      change.mutate([...shown, made.id]);
    },
    onError: notifyError,
  });
  return (
    <Dialog title={t("Show on dashboards")} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body stack">
        <SearchInput label={t("Search dashboards")} value={text} onInput={setText} />
        <Await query={boards} rows={3}>
          {(page) => (
            <ul class="stack s" aria-label={t("Dashboards")}>
              {page.results.map((each) => (
                <li key={each.id}>
                  <label class="row spread">
                    <Value value={each.name || t("Dashboard {id}", { id: String(each.id) })} maxChars={80} />
                    <Switch
                      isOn={shown.includes(each.id)}
                      disabled={change.isPending}
                      label={t("Show on {name}", { name: each.name })}
                      onChange={(isOn) => change.mutate(isOn ? [...shown, each.id] : shown.filter((id) => id !== each.id))}
                    />
                  </label>
                </li>
              ))}
              {page.results.length === 0 && !search && <li class="muted">{t("There is no dashboard yet. Type a name to create one.")}</li>}
            </ul>
          )}
        </Await>
        {text.trim() && (
          <Button icon="plus" disabled={create.isPending} onClick={() => create.mutate()}>
            {t("Create the dashboard “{name}” and add the insight", { name: text.trim() })}
          </Button>
        )}
      </div>
    </Dialog>
  );
}

interface Sharing {
  enabled: boolean;
  access_token: string | null;
}

/** The link of an insight or a dashboard, which works without a login. */
export function SharingDialog({ path, title, onClose }: { path: string; title: string; onClose: () => void }) {
  const [isReplacing, setReplacing] = useState(false);
  const refusal = useRefusal("sharing_configuration:write");
  const sharing = useQuery({ queryKey: ["sharing", path], queryFn: () => get<Sharing>(path) });
  const done = (state: Sharing) => queryClient.setQueryData(["sharing", path], state);
  const toggle = useMutation({ mutationFn: (enabled: boolean) => call<Sharing>("PATCH", path, { body: { enabled } }), onSuccess: done, onError: notifyError });
  const replace = useMutation({
    mutationFn: () => call<Sharing>("POST", `${path}refresh/`),
    onSuccess: (state) => {
      done(state);
      setReplacing(false);
      notify(t("The link is replaced. The old one no longer works."));
    },
    onError: notifyError,
  });
  return (
    <Dialog title={title} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body stack">
        <Await query={sharing} rows={2}>
          {(state) => (
            <>
              <div class="row spread">
                <span>{state.enabled ? t("Everyone who has the link can see it, without a login.") : t("Only people with access to this project can see it.")}</span>
                <Switch isOn={state.enabled} disabled={toggle.isPending || !!refusal} label={t("The link works")} onChange={(enabled) => toggle.mutate(enabled)} />
              </div>
              {refusal && <p class="muted small">{refusal}</p>}
              {state.enabled && state.access_token && (
                <>
                  <Code label={t("link")} text={`${location.origin}/shared_dashboard/${state.access_token}`} />
                  <p class="muted small">{t("The link shows the kept results. Visitors cannot change anything and see no other data.")}</p>
                  {isReplacing ? (
                    <div class="row">
                      <span class="grow">{t("The link stops working for everyone who has it.")}</span>
                      <Button onClick={() => setReplacing(false)}>{t("Cancel")}</Button>
                      <Button kind="danger" disabled={replace.isPending} onClick={() => replace.mutate()}>
                        {t("Replace it")}
                      </Button>
                    </div>
                  ) : (
                    <div>
                      <Button isSmall disabled={!!refusal} title={refusal} onClick={() => setReplacing(true)}>
                        {t("Replace the link…")}
                      </Button>
                    </div>
                  )}
                </>
              )}
            </>
          )}
        </Await>
      </div>
    </Dialog>
  );
}
