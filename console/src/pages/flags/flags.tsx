// The list of flags: searched, filtered and paged by the service.
import { useMutation } from "@tanstack/react-query";
import { memo } from "preact/compat";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { buildCurl, call, queryClient } from "../../api/client";
import type { Flag } from "../../api/types";
import { formatPercent, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { useRefusal } from "../../shell/rights";
import { IconButton, Select, Switch } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { ACTIONS, CreateLink, List, NameCell, Table, TagFilter, toTags, useList, useListState } from "../../ui/list";
import { Menu } from "../../ui/menu";
import { Page } from "../../ui/page";
import { Ago, copyText } from "../../ui/show";
import { Empty } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { BulkBar } from "./bulk";
import { FlagTabs } from "./tabs";

export function FlagsPage() {
  const { api, root } = useProject();
  const refusal = useRefusal("feature_flag:write");
  const state = useListState("active", "type", "tag");
  const { active = "", type = "", tag = "" } = state.filters;
  const [selected, setSelected] = useState<Flag[]>([]);
  const isArchived = active === "archived";
  const parameters = { search: state.search, active: isArchived ? "" : active, archived: isArchived ? "true" : "", type, tags: toTags(state) };
  const flags = useList<Flag>("flags", `${api}/feature_flags/`, state, parameters);
  useEffect(() => setSelected([]), [state.search, active, type, tag]);
  // The same functions each time: a row is drawn again only if its flag changes.
  const current = useRef(state);
  current.current = state;
  const filterByTag = useCallback((value: string) => current.current.setFilter("tag", value), []);
  const create = (label: string, isQuiet = false) => (
    <CreateLink to={`${root}/feature_flags/new`} scope="feature_flag:write" isQuiet={isQuiet}>
      {label}
    </CreateLink>
  );
  return (
    <Page title={t("Feature flags")} sub={flags.data ? tn(flags.data.count, "{n} flag", "{n} flags") : undefined} actions={create(t("New feature flag"))}>
      <FlagTabs current="flags" />
      <List
        query={flags}
        state={state}
        search={t("Search by key or description")}
        controls={
          <>
            <Select
              label={t("State")}
              isNarrow
              value={active}
              onChange={(value) => state.setFilter("active", value)}
              choices={[
                { value: "", label: t("Any state") },
                { value: "true", label: t("On") },
                { value: "false", label: t("Off") },
                { value: "STALE", label: t("Stale") },
                { value: "archived", label: t("Archived") },
              ]}
            />
            <Select
              label={t("Type")}
              isNarrow
              value={type}
              onChange={(value) => state.setFilter("type", value)}
              choices={[
                { value: "", label: t("Any type") },
                { value: "boolean", label: t("On or off") },
                { value: "multivariant", label: t("Variants") },
                { value: "experiment", label: t("Experiment") },
                { value: "remote_config", label: t("Remote config") },
              ]}
            />
            <TagFilter state={state} />
          </>
        }
        empty={
          <Empty title={t("No feature flags yet")} action={create(t("Create the first one"), true)}>
            {t("A flag turns a part of your product on for some people. Create one, roll it out to 10 %, and see who gets it.")}
          </Empty>
        }
      >
        {(items, page) => (
          <>
            <BulkBar selected={selected.map((each) => items.find((flag) => flag.id === each.id) ?? each)} count={page.count} parameters={parameters} onSelect={setSelected} />
            <FlagTable flags={items} selected={refusal ? null : selected} onSelect={setSelected} onTag={filterByTag} />
          </>
        )}
      </List>
    </Page>
  );
}

/** Say in short who gets a flag. */
export function describeRelease(flag: Flag): string {
  const groups = flag.filters.groups ?? [];
  const [first] = groups;
  if (!first) return t("No one");
  const share = formatPercent(first.rollout_percentage ?? 100);
  if (groups.length > 1) return tn(groups.length, "{n} condition", "{n} conditions");
  const filters = first.properties?.length ?? 0;
  return filters ? tn(filters, "{share} of those matching {n} filter", "{share} of those matching {n} filters", { share }) : t("{share} of everyone", { share });
}

interface TableProps {
  flags: Flag[];
  /** Null if the person may not change flags. */
  selected: Flag[] | null;
  onSelect: (change: Flag[] | ((selected: Flag[]) => Flag[])) => void;
  onTag: (tag: string) => void;
}

// As many rows as most screens show. The others follow when these are drawn.
const FIRST_ROWS = 20;

function FlagTable({ flags, selected, onSelect, onTag }: TableProps) {
  const { api, root } = useProject();
  const [isWhole, setWhole] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setWhole(true));
    return () => clearTimeout(timer);
  }, []);
  const toggle = useCallback(
    (flag: Flag, isSelected: boolean) => onSelect((all) => (isSelected ? [...all, flag] : all.filter((each) => each.id !== flag.id))),
    [onSelect],
  );
  const ids = new Set(selected?.map((each) => each.id));
  const chosen = flags.filter((each) => ids.has(each.id)).length;
  const toggleAll = () => onSelect(chosen === flags.length ? (selected ?? []).filter((each) => !flags.some((flag) => flag.id === each.id)) : [...(selected ?? []), ...flags.filter((each) => !ids.has(each.id))]);
  return (
    <Table
      class="selectable"
      columns={[
        ...(selected
          ? [{ label: <input type="checkbox" aria-label={t("Select all flags of this page")} checked={chosen === flags.length} indeterminate={chosen > 0 && chosen < flags.length} onChange={toggleAll} />, class: "shrink" as const }]
          : []),
        { label: t("On"), class: "shrink" },
        t("Flag"),
        t("Released to"),
        t("Last called"),
        t("Changed"),
        ACTIONS,
      ]}
    >
      {(isWhole ? flags : flags.slice(0, FIRST_ROWS)).map((flag) => (
        <FlagRow key={flag.id} api={api} root={root} flag={flag} mayChange={!!selected} isSelected={ids.has(flag.id)} onToggle={toggle} onTag={onTag} />
      ))}
    </Table>
  );
}

interface RowProps {
  api: string;
  root: string;
  flag: Flag;
  mayChange: boolean;
  isSelected: boolean;
  onToggle: (flag: Flag, isSelected: boolean) => void;
  onTag: (tag: string) => void;
}

const FlagRow = memo(function FlagRow({ api, root, flag, mayChange, isSelected, onToggle, onTag }: RowProps) {
  const [isDeleting, setDeleting] = useState(false);
  const path = `${api}/feature_flags/${flag.id}/`;
  const edit = useMutation({
    mutationFn: (body: Partial<Flag>) => call<Flag>("PATCH", path, { body }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["flags"] }),
    onError: notifyError,
  });
  const isOn = edit.isPending && edit.variables.active !== undefined ? edit.variables.active : flag.active;
  const toggle = (active: boolean) =>
    edit.mutate(
      { active },
      {
        onSuccess: () =>
          notify(active ? t("{key} is on.", { key: flag.key }) : t("{key} is off.", { key: flag.key }), "good", {
            label: t("Undo"),
            run: () => edit.mutate({ active: !active }),
          }),
      },
    );
  const archive = (archived: boolean) =>
    edit.mutate(
      { archived },
      {
        onSuccess: () =>
          notify(archived ? t("{key} is archived.", { key: flag.key }) : t("{key} is no longer archived.", { key: flag.key }), "good", {
            label: t("Undo"),
            run: () => edit.mutate({ archived: !archived }),
          }),
      },
    );
  const remove = () =>
    edit.mutate(
      { deleted: true },
      {
        onSuccess: () => {
          setDeleting(false);
          notify(t("{key} is deleted.", { key: flag.key }), "good", { label: t("Undo"), run: () => edit.mutate({ deleted: false, active: flag.active }) });
        },
      },
    );
  const variants = flag.filters.multivariate?.variants ?? [];
  return (
    <tr>
      {mayChange && (
        <td class="shrink pick">
          <input type="checkbox" aria-label={t("Select {key}", { key: flag.key })} checked={isSelected} onChange={() => onToggle(flag, !isSelected)} />
        </td>
      )}
      <td class="shrink end">
        <Switch isOn={isOn} disabled={edit.isPending || !mayChange || flag.archived} label={t("{key} is on", { key: flag.key })} onChange={toggle} />
      </td>
      <NameCell to={`${root}/feature_flags/${flag.id}`} name={flag.key} description={flag.name} isCode tags={flag.tags.slice(0, 3)} onTag={onTag}>
        {flag.archived && <span class="tag">{t("Archived")}</span>}
        {flag.status === "STALE" && <span class="tag warn">{t("Stale")}</span>}
        {flag.experiment_set.length > 0 && <span class="tag info">{t("Experiment")}</span>}
        {flag.features.length > 0 && <span class="tag info">{t("Early access")}</span>}
        {variants.length > 0 && <span class="tag">{tn(variants.length, "{n} variant", "{n} variants")}</span>}
      </NameCell>
      <td class="muted">{describeRelease(flag)}</td>
      <td class="muted drop">{flag.last_called_at ? <Ago at={flag.last_called_at} /> : t("Never")}</td>
      <td class="muted drop">
        <Ago at={flag.updated_at} />
      </td>
      <td class="shrink end">
        <Menu
          trigger={<IconButton label={t("Actions for {key}", { key: flag.key })} icon="more" isSmall />}
          entries={[
            { label: t("Copy the key"), onSelect: () => void copyText(flag.key) },
            { label: t("Copy as curl"), onSelect: () => void copyText(buildCurl("PATCH", path, { active: !flag.active })) },
            flag.archived
              ? { label: t("Take out of the archive"), isDisabled: !mayChange, onSelect: () => archive(false) }
              : // A flag that is on cannot be archived.
                { label: t("Archive"), isDisabled: !mayChange || flag.active, onSelect: () => archive(true) },
            { label: t("Delete…"), isDangerous: true, isDisabled: !mayChange, onSelect: () => setDeleting(true) },
          ]}
        />
        <Confirm
          title={t("Delete {key}?", { key: flag.key })}
          action={t("Delete the flag")}
          isDangerous
          isOpen={isDeleting}
          isBusy={edit.isPending}
          onConfirm={remove}
          onClose={() => setDeleting(false)}
        >
          <p>{t("Everyone who asks for this flag gets false. You can undo it.")}</p>
          <p class="muted">{flag.last_called_at ? t("Last called {when}.", { when: new Date(flag.last_called_at).toLocaleString() }) : t("It was never called.")}</p>
        </Confirm>
      </td>
    </tr>
  );
});
