// Holdouts: people who get no variant of several experiments, to see what all of them together changed.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Holdout, Page as PageOf } from "../../api/types";
import { formatPercent, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { Button, IconButton, Percent } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { ACTIONS, List, NameCell, useList, useListState } from "../../ui/list";
import { Menu } from "../../ui/menu";
import { Page } from "../../ui/page";
import { Ago, copyText } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { ExperimentTabs } from "./tabs";

const refresh = () => Promise.all(["holdouts", "experiments", "experiment"].map((key) => queryClient.invalidateQueries({ queryKey: [key] })));
export const readShare = (holdout: Holdout): number => Number(holdout.filters[0]?.rollout_percentage ?? 0);

/** All holdouts of the project, for a choice. */
export function useHoldouts(): Holdout[] {
  const { api } = useProject();
  const found = useQuery({ queryKey: ["holdouts", api, "all"], queryFn: () => get<PageOf<Holdout>>(`${api}/experiment_holdouts/`, { limit: 500 }), staleTime: 60_000 });
  return found.data?.results ?? [];
}

export function HoldoutsPage() {
  const { api } = useProject();
  const refusal = useRefusal("experiment:write");
  const state = useListState();
  const [edited, setEdited] = useState<Holdout | "new" | null>(null);
  const holdouts = useList<Holdout>("holdouts", `${api}/experiment_holdouts/`, state);
  const create = (
    <Button kind="primary" disabled={!!refusal} title={refusal} onClick={() => setEdited("new")}>
      {t("New holdout")}
    </Button>
  );
  return (
    <Page title={t("Holdouts")} sub={holdouts.data ? tn(holdouts.data.count, "{n} holdout", "{n} holdouts") : undefined} actions={create}>
      <ExperimentTabs current="holdouts" />
      <List
        query={holdouts}
        state={state}
        search={t("Search by name or description")}
        empty={
          <Empty title={t("No holdouts yet")} action={refusal ? undefined : create}>
            {t("The people of a holdout get no variant of any experiment that uses it. Compare them with everyone else to see what all these experiments changed together.")}
          </Empty>
        }
        columns={[t("Holdout"), { label: t("Held out"), class: "num" }, t("Changed"), ACTIONS]}
      >
        {(items) => items.map((each) => <Row key={each.id} holdout={each} refusal={refusal} onEdit={() => setEdited(each)} />)}
      </List>
      {edited && <HoldoutDialog edited={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
    </Page>
  );
}

function Row({ holdout, refusal, onEdit }: { holdout: Holdout; refusal: string | undefined; onEdit: () => void }) {
  const { api } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const remove = useMutation({
    mutationFn: () => call("DELETE", `${api}/experiment_holdouts/${holdout.id}/`),
    onSuccess: () => notify(t("{name} is deleted.", { name: holdout.name })),
    onError: notifyError,
    onSettled: () => {
      setDeleting(false);
      return refresh();
    },
  });
  return (
    <tr>
      <NameCell name={holdout.name} description={holdout.description} />
      <td class="num" data-label={t("Held out")}>
        {formatPercent(readShare(holdout))}
      </td>
      <td class="muted drop">
        <Ago at={holdout.updated_at} />
      </td>
      <td class="shrink end corner">
        <Menu
          trigger={<IconButton label={t("Actions for {name}", { name: holdout.name })} icon="more" isSmall disabled={!!refusal} title={refusal ?? t("Actions")} />}
          entries={[
            { label: t("Change…"), onSelect: onEdit },
            { label: t("Delete…"), isDangerous: true, onSelect: () => setDeleting(true) },
          ]}
        />
        <Confirm title={t("Delete {name}?", { name: holdout.name })} action={t("Delete the holdout")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
          <p>{t("Its people, {share} of everyone, can get variants of its experiments then. While one of them is running, the holdout cannot be deleted.", { share: formatPercent(readShare(holdout)) })}</p>
        </Confirm>
      </td>
    </tr>
  );
}

function HoldoutDialog({ edited, onClose }: { edited: Holdout | null; onClose: () => void }) {
  const { api } = useProject();
  const [name, setName] = useState(edited?.name ?? "");
  const [description, setDescription] = useState(edited?.description ?? "");
  const [share, setShare] = useState(edited ? readShare(edited) : 10);
  const method = edited ? "PATCH" : "POST";
  const path = `${api}/experiment_holdouts/${edited ? `${edited.id}/` : ""}`;
  // The share of a running experiment cannot change, so that it is sent only if it does.
  const filters = edited && readShare(edited) === share ? {} : { filters: [{ properties: [], rollout_percentage: share }] };
  const body = { name: name.trim(), description, ...filters };
  const form = useSubmit(async () => {
    await call(method, path, { body });
    await refresh();
    notify(t("{name} is saved.", { name: body.name }));
    onClose();
  });
  return (
    <Dialog title={edited ? t("Change the holdout") : t("New holdout")} description={t("Choose the holdout in the setup of an experiment.")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["name", "description"]} />
        <TextField label={t("Name")} required autofocus maxLength={400} error={form.errorOf("name")} value={name} onInput={setName} />
        <TextField label={t("Description")} maxLength={400} error={form.errorOf("description")} value={description} onInput={setDescription} />
        <div class="stack s">
          <span class="label">{t("Share of everyone who is held out")}</span>
          <Percent label={t("Share of everyone who is held out")} value={share} onChange={setShare} />
        </div>
        <div class="row end">
          <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, body))}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy || !name.trim()}>
            {edited ? t("Save") : t("Create the holdout")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
