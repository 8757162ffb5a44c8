// Which projects are the environments of a product, in which order, and which are protected.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { call, get } from "../../api/client";
import { explain } from "../../api/errors";
import type { Page, Product, Project } from "../../api/types";
import { t, tn } from "../../lib/text";
import { Button, IconButton, Select } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Check, Refusal, TextField, useSubmit } from "../../ui/forms";
import { notify, notifyError } from "../../ui/toasts";
import { newUid } from "../flag/draft";
import { productPath, PRODUCTS, refreshEnvironments } from "./products";

interface DraftEnvironment {
  uid: string;
  name: string;
  project: string;
  isProtected: boolean;
}

const NAMES = ["development", "staging", "production"];
const newEnvironment = (name: string): DraftEnvironment => ({ uid: newUid(), name, project: "", isProtected: false });

export function ProductDialog({ edited, onClose }: { edited: Product | null; onClose: () => void }) {
  const projects = useQuery({ queryKey: ["projects"], queryFn: () => get<Page<Project>>("/api/projects/", { limit: 100 }), staleTime: 60_000 });
  const [name, setName] = useState(edited?.name ?? "");
  const [isDeleting, setDeleting] = useState(false);
  const [environments, setEnvironments] = useState<DraftEnvironment[]>(() =>
    edited ? edited.environments.map((each) => ({ uid: newUid(), name: each.name, project: String(each.project_id), isProtected: each.is_protected })) : [newEnvironment(NAMES[1]!), newEnvironment(NAMES[2]!)],
  );
  const change = (uid: string, part: Partial<DraftEnvironment>) => setEnvironments(environments.map((each) => (each.uid === uid ? { ...each, ...part } : each)));
  const swap = (index: number, to: number) => {
    const moved = [...environments];
    [moved[index], moved[to]] = [moved[to]!, moved[index]!];
    setEnvironments(moved);
  };
  const problem = !name.trim() ? t("A product needs a name.") : environments.some((each) => !each.project || !each.name.trim()) ? t("Every environment needs a name and a project.") : undefined;
  const form = useSubmit(async () => {
    const body = { name: name.trim(), environments: environments.map((each) => ({ name: each.name.trim(), project_id: Number(each.project), is_protected: each.isProtected })) };
    await (edited ? call("PATCH", productPath(edited), { body }) : call("POST", PRODUCTS, { body }));
    await refreshEnvironments();
    notify(t("{name} is saved.", { name: name.trim() }));
    onClose();
  });
  const remove = useMutation({
    mutationFn: () => call("DELETE", productPath(edited!)),
    onSuccess: async () => {
      await refreshEnvironments();
      notify(t("The projects of {name} are separate again.", { name: edited!.name }));
      onClose();
    },
    onError: notifyError,
  });
  const known = (projects.data?.results ?? []).map((each) => ({ value: String(each.id), label: each.name }));
  return (
    <>
      <Dialog title={edited ? t("Environments of {name}", { name: edited.name }) : t("Join projects as environments")} description={t("In the order in which changes are promoted. A project belongs to one product at most.")} isWide isOpen={!isDeleting} onClose={onClose}>
        <form class="body stack" onSubmit={form.submit}>
          <Refusal error={form.error} shown={["name"]} />
          <TextField label={t("Name of the product")} required autofocus={!edited} error={form.errorOf("name")} value={name} onInput={setName} />
          {environments.map((each, index) => {
            const number = index + 1;
            const choices = known.some((one) => one.value === each.project) ? known : [{ value: each.project, label: each.project ? t("Project {id}", { id: each.project }) : t("Choose a project") }, ...known];
            return (
              <div key={each.uid} class="row" role="group" aria-label={t("Environment {number}", { number })}>
                <input class="input narrow" aria-label={t("Name of environment {number}", { number })} placeholder={t("Name")} required value={each.name} onInput={(event) => change(each.uid, { name: event.currentTarget.value })} />
                <div class="grow">
                  <Select label={t("Project of environment {number}", { number })} value={each.project} choices={choices} onChange={(project) => change(each.uid, { project })} />
                </div>
                <Check label={t("Protected")} isOn={each.isProtected} onChange={(isProtected) => change(each.uid, { isProtected })} />
                <IconButton isSmall icon="up" label={t("Move environment {number} up", { number })} disabled={index === 0} onClick={() => swap(index, index - 1)} />
                <IconButton isSmall icon="down" label={t("Move environment {number} down", { number })} disabled={index === environments.length - 1} onClick={() => swap(index, index + 1)} />
                <IconButton isSmall icon="trash" label={t("Remove environment {number}", { number })} onClick={() => setEnvironments(environments.filter((one) => one !== each))} />
              </div>
            );
          })}
          <div>
            <Button isSmall icon="plus" onClick={() => setEnvironments([...environments, newEnvironment(NAMES.find((one) => !environments.some((each) => each.name === one)) ?? "")])}>
              {t("Add an environment")}
            </Button>
          </div>
          <p class="hint">{t("In a protected environment every change of a flag needs the approval of another person.")}</p>
          <div class="row end">
            {edited && (
              <Button kind="danger" onClick={() => setDeleting(true)}>
                {t("Separate the projects…")}
              </Button>
            )}
            <span class="muted small grow">{problem}</span>
            <Button onClick={onClose}>{t("Cancel")}</Button>
            <Button kind="primary" type="submit" disabled={form.isBusy || !!problem}>
              {t("Save")}
            </Button>
          </div>
        </form>
      </Dialog>
      <Confirm title={t("Separate the projects of {name}?", { name: edited?.name ?? "" })} action={t("Separate them")} isDangerous isOpen={isDeleting} isBusy={remove.isPending} onConfirm={() => remove.mutate()} onClose={() => setDeleting(false)}>
        <p>{tn(edited?.environments.length ?? 0, "{n} project keeps its flags, people, events and keys. It is no longer compared, and its protection ends.", "{n} projects keep their flags, people, events and keys. They are no longer compared, and their protection ends.")}</p>
        {remove.error && <p class="error-text">{explain(remove.error)}</p>}
      </Confirm>
    </>
  );
}
