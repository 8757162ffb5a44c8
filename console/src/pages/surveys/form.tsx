// The form of a survey: questions, who sees it, how it looks; beside it a preview.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { buildCurl, call, get, queryClient } from "../../api/client";
import type { Flag, FlagSummary, Page as PageOf, Survey } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useMay } from "../../shell/rights";
import { Button, Field, Select } from "../../ui/controls";
import { Combobox } from "../../ui/combobox";
import { Check, findError, Refusal, SaveBar, TextField } from "../../ui/forms";
import { copyText } from "../../ui/show";
import { notify } from "../../ui/toasts";
import { FilterGroups } from "../cohorts/groups";
import { findProblem, readDraft, type SurveyDraft, toFields } from "./draft";
import { SurveyPreview } from "./preview";
import { Questions } from "./questions";

const SHOWN = ["name", "description", "conditions__url", "conditions__seenSurveyWaitPeriodInDays", "responses_limit", "linked_flag_id"];
const TYPES = [
  { value: "popover", label: t("Pop-up on the page") },
  { value: "widget", label: t("Feedback button") },
  { value: "api", label: t("By your own code") },
];
const MATCHES = [
  { value: "icontains", label: t("contains") },
  { value: "exact", label: t("is") },
  { value: "regex", label: t("matches pattern") },
  { value: "not_icontains", label: t("does not contain") },
];

export function SurveyForm({ saved }: { saved: Survey | null }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const mayEdit = useMay("survey:write");
  const [draft, setDraft] = useState(() => readDraft(saved));
  const change = (part: Partial<SurveyDraft>) => setDraft((current) => ({ ...current, ...part }));
  const fields = toFields(draft, saved);
  const method = saved ? "PATCH" : "POST";
  const path = saved ? `${api}/surveys/${saved.id}/` : `${api}/surveys/`;
  const save = useMutation({
    mutationFn: () => call<Survey>(method, path, { body: fields }),
    onSuccess: (survey) => {
      for (const key of ["surveys", "survey", "flags", "history"]) void queryClient.invalidateQueries({ queryKey: [key] });
      notify(t("{name} is saved.", { name: survey.name }));
      if (!saved) navigate(`${root}/surveys/${survey.id}`);
    },
  });
  const types = TYPES.some((each) => each.value === draft.type) ? TYPES : [...TYPES, { value: draft.type, label: draft.type }];
  return (
    <>
      <div class="split">
        <fieldset class="plain stack" disabled={!mayEdit}>
          <section class="panel" aria-label={t("Name")}>
            <div class="body stack">
              <div class="columns narrow">
                <TextField label={t("Name")} required value={draft.name} onInput={(name) => change({ name })} error={findError(save.error, "name")} />
                <Field label={t("Shown")}>{(attributes) => <Select {...attributes} label={t("Shown")} value={draft.type} choices={types} onChange={(type) => change({ type })} />}</Field>
              </div>
              <TextField label={t("Description, for your team")} value={draft.description} onInput={(description) => change({ description })} error={findError(save.error, "description")} />
            </div>
          </section>
          <Questions questions={draft.questions} error={save.error} onChange={(questions) => change({ questions })} />
          <Targeting draft={draft} saved={saved} error={save.error} onChange={change} />
          <Appearance draft={draft} onChange={change} />
          <Refusal error={save.error} shown={[...SHOWN, ...draft.questions.map((_, index) => `questions__${index}`)]} />
        </fieldset>
        <aside aria-label={t("How it looks")}>
          <SurveyPreview draft={draft} />
        </aside>
      </div>
      <SaveBar isShown={mayEdit && (!saved || Object.keys(fields).length > 0)} isBusy={save.isPending} label={saved ? t("Save") : t("Create as a draft")} problem={findProblem(draft)} onSave={() => save.mutate()} onDiscard={saved ? () => setDraft(readDraft(saved)) : undefined}>
        <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, fields))}>
          {t("Copy as curl")}
        </Button>
      </SaveBar>
    </>
  );
}

function Targeting({ draft, saved, error, onChange }: { draft: SurveyDraft; saved: Survey | null; error: unknown; onChange: (part: Partial<SurveyDraft>) => void }) {
  const { root } = useProject();
  const condition = (part: object) => onChange({ conditions: { ...draft.conditions, ...part } });
  const url = String(draft.conditions.url ?? "");
  const days = draft.conditions.seenSurveyWaitPeriodInDays;
  return (
    <section class="panel" aria-label={t("Who sees it")}>
      <div class="head">
        <h2>{t("Who sees it")}</h2>
      </div>
      <div class="body stack">
        <p class="muted">{t("Everyone who matches all of this, once each, while the survey runs.")}</p>
        <div class="columns narrow">
          <Field label={t("Address of the page")}>{(attributes) => <Select {...attributes} label={t("Address of the page")} value={String(draft.conditions.urlMatchType || "icontains")} choices={MATCHES} onChange={(urlMatchType) => condition({ urlMatchType })} />}</Field>
          <TextField label={t("Text of the address")} placeholder={t("any page")} value={url} onInput={(value) => condition({ url: value, ...(value && !draft.conditions.urlMatchType ? { urlMatchType: "icontains" } : {}) })} error={findError(error, "conditions__url")} />
        </div>
        <div class="columns narrow">
          <LinkedFlag draft={draft} saved={saved} error={findError(error, "linked_flag_id")} onChange={onChange} />
          <TextField label={t("Days since they saw another survey")} type="number" placeholder="0" value={days === undefined || days === null ? "" : String(days)} onInput={(text) => condition({ seenSurveyWaitPeriodInDays: text === "" ? null : Number(text) })} error={findError(error, "conditions__seenSurveyWaitPeriodInDays")} />
          <TextField label={t("End after this many answers")} type="number" placeholder={t("no limit")} value={draft.limit} onInput={(limit) => onChange({ limit })} error={findError(error, "responses_limit")} />
        </div>
        <h3>{t("Properties of the person")}</h3>
        {draft.groups ? (
          <FilterGroups groups={draft.groups} none={t("Everyone, whatever their properties.")} onChange={(groups) => onChange({ groups })} />
        ) : (
          <p class="notice">
            {t("Its conditions have shares or variants.")}{" "}
            {saved?.targeting_flag && <Link href={`${root}/feature_flags/${(saved.targeting_flag as unknown as FlagSummary).id}`}>{t("Edit them in the flag.")}</Link>}
          </p>
        )}
      </div>
    </section>
  );
}

function LinkedFlag({ draft, saved, error, onChange }: { draft: SurveyDraft; saved: Survey | null; error: string | undefined; onChange: (part: Partial<SurveyDraft>) => void }) {
  const { api } = useProject();
  const linked = saved?.linked_flag as unknown as FlagSummary | null | undefined;
  const [text, setText] = useState(linked?.key ?? "");
  const search = useSettled(text.trim(), 200);
  const flags = useQuery({
    queryKey: ["flags", api, "keys", search],
    queryFn: ({ signal }) => get<PageOf<Flag>>(`${api}/feature_flags/`, { search, limit: 20 }, signal),
    placeholderData: keepPreviousData,
  });
  const found = flags.data?.results ?? [];
  const choose = (key: string) => {
    setText(key);
    const flag = found.find((each) => each.key === key.trim());
    onChange({ flagId: flag?.id ?? (key.trim() && key.trim() === linked?.key ? linked.id : null) });
  };
  const isUnknown = text.trim() !== "" && draft.flagId === null;
  return (
    <Field label={t("Only with the flag")} error={error ?? (isUnknown ? t("No flag with this key is chosen.") : undefined)}>
      {() => <Combobox label={t("Only with the flag")} placeholder={t("any")} value={text} options={found.map((each) => ({ value: each.key }))} onInput={choose} onChoose={choose} />}
    </Field>
  );
}

const COLORS: [string, string][] = [
  ["backgroundColor", t("Background")],
  ["textColor", t("Text")],
  ["submitButtonColor", t("Button")],
  ["submitButtonTextColor", t("Text of the button")],
];

function Appearance({ draft, onChange }: { draft: SurveyDraft; onChange: (part: Partial<SurveyDraft>) => void }) {
  const set = (part: object) => onChange({ appearance: { ...draft.appearance, ...part } });
  const text = (name: string) => String(draft.appearance[name] ?? "");
  return (
    <section class="panel" aria-label={t("Look and thanks")}>
      <div class="head">
        <h2>{t("Look and thanks")}</h2>
      </div>
      <div class="body stack">
        <div class="columns tiny">
          {COLORS.map(([name, label]) => (
            <TextField key={name} label={label} isCode placeholder="#ffffff" value={text(name)} onInput={(value) => set({ [name]: value })} />
          ))}
        </div>
        <Check label={t("Say thank you at the end")} isOn={draft.appearance.displayThankYouMessage !== false} onChange={(isOn) => set({ displayThankYouMessage: isOn })} />
        <div class="columns narrow">
          <TextField label={t("Thank you")} placeholder={t("Thank you for your feedback!")} value={text("thankYouMessageHeader")} onInput={(value) => set({ thankYouMessageHeader: value })} />
          <TextField label={t("And then")} value={text("thankYouMessageDescription")} onInput={(value) => set({ thankYouMessageDescription: value })} />
        </div>
      </div>
    </section>
  );
}
