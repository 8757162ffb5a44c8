// The list of flags: searched, filtered and paged by the service.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { Flag, Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatPercent, t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { useRights } from "../../shell/rights";
import { IconButton, SearchInput, Select, Switch } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Menu } from "../../ui/menu";
import { Page, Pager } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { BulkBar } from "./bulk";

const LIMIT = 50;
const SETTLED_MS = 120;

export function FlagsPage() {
  const { api, root } = useProject();
  const reason = useRights().reason("feature_flag:write");
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim(), SETTLED_MS);
  const active = url.get("active") ?? "";
  const type = url.get("type") ?? "";
  const tag = url.get("tag") ?? "";
  const [selected, setSelected] = useState<Flag[]>([]);
  const mayEdit = !reason;
  const parameters = { search, active, type, tags: tag ? JSON.stringify([tag]) : null };
  const offset = Number(url.get("offset")) || 0;
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const flags = useQuery({
    queryKey: ["flags", api, parameters, offset],
    queryFn: ({ signal }) => get<PageOf<Flag>>(`${api}/feature_flags/`, { ...parameters, offset: offset || null, limit: LIMIT }, signal),
    placeholderData: keepPreviousData,
  });
  const isFiltered = !!(search || active || type || tag);
  useEffect(() => setSelected([]), [search, active, type, tag]);
  const clear = () => {
    setText("");
    change({ search: null, active: null, type: null, tag: null, offset: null });
  };
  return (
    <Page
      title={t("Feature flags")}
      sub={flags.data ? tn(flags.data.count, "{n} flag", "{n} flags") : undefined}
      actions={
        reason ? (
          <span class="muted">{reason}</span>
        ) : (
          <Link href={`${root}/feature_flags/new`} class="button primary">
            {t("New feature flag")}
          </Link>
        )
      }
    >
      <div class="row">
        <SearchInput label={t("Search by key or description")} value={text} onInput={setText} />
        <Select
          label={t("State")}
          isNarrow
          value={active}
          onChange={(value) => change({ active: value, offset: null })}
          choices={[
            { value: "", label: t("Any state") },
            { value: "true", label: t("On") },
            { value: "false", label: t("Off") },
            { value: "STALE", label: t("Stale") },
          ]}
        />
        <Select
          label={t("Type")}
          isNarrow
          value={type}
          onChange={(value) => change({ type: value, offset: null })}
          choices={[
            { value: "", label: t("Any type") },
            { value: "boolean", label: t("On or off") },
            { value: "multivariant", label: t("Variants") },
            { value: "experiment", label: t("Experiment") },
            { value: "remote_config", label: t("Remote config") },
          ]}
        />
        {tag && (
          <span class="tag info">
            <span class="cut">
              {t("Tag:")} <Value value={tag} maxChars={60} />
            </span>
            <button type="button" aria-label={t("Remove the filter by tag")} onClick={() => change({ tag: null, offset: null })}>
              ×
            </button>
          </span>
        )}
      </div>
      <div class="panel flush" aria-busy={flags.isFetching}>
        <Await query={flags}>
          {(page) =>
            page.results.length ? (
              <>
                <BulkBar selected={selected.map((each) => page.results.find((flag) => flag.id === each.id) ?? each)} count={page.count} parameters={parameters} onSelect={setSelected} />
                <FlagTable flags={page.results} selected={mayEdit ? selected : null} onSelect={setSelected} onTag={(value) => change({ tag: value, offset: null })} />
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : isFiltered ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty
                title={t("No feature flags yet")}
                action={
                  <Link href={`${root}/feature_flags/new`} class="button primary">
                    {t("Create the first one")}
                  </Link>
                }
              >
                {t("A flag turns a part of your product on for some people. Create one, roll it out to 10 %, and see who gets it.")}
              </Empty>
            )
          }
        </Await>
      </div>
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

interface Selection {
  /** Null if the person may not change flags. */
  selected: Flag[] | null;
  onSelect: (flags: Flag[]) => void;
  onTag: (tag: string) => void;
}

function FlagTable({ flags, ...selection }: { flags: Flag[] } & Selection) {
  const { selected, onSelect } = selection;
  const ids = new Set(selected?.map((each) => each.id));
  const chosen = flags.filter((each) => ids.has(each.id)).length;
  const toggleAll = () => onSelect(chosen === flags.length ? (selected ?? []).filter((each) => !flags.some((flag) => flag.id === each.id)) : [...(selected ?? []), ...flags.filter((each) => !ids.has(each.id))]);
  return (
    <table class="table cards selectable">
      <thead>
        <tr>
          {selected && (
            <th scope="col" class="shrink">
              <input type="checkbox" aria-label={t("Select all flags of this page")} checked={chosen === flags.length} indeterminate={chosen > 0 && chosen < flags.length} onChange={toggleAll} />
            </th>
          )}
          <th scope="col" class="shrink">
            {t("On")}
          </th>
          <th scope="col">{t("Flag")}</th>
          <th scope="col">{t("Released to")}</th>
          <th scope="col">{t("Last called")}</th>
          <th scope="col">{t("Changed")}</th>
          <th scope="col" class="shrink">
            <span class="hidden-text">{t("Actions")}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {flags.map((flag) => (
          <FlagRow key={flag.id} flag={flag} isSelected={ids.has(flag.id)} {...selection} />
        ))}
      </tbody>
    </table>
  );
}

function FlagRow({ flag, isSelected, selected, onSelect, onTag }: { flag: Flag; isSelected: boolean } & Selection) {
  const { api, root } = useProject();
  const [isDeleting, setDeleting] = useState(false);
  const path = `${api}/feature_flags/${flag.id}/`;
  const edit = useMutation({
    mutationFn: (body: Partial<Flag>) => call<Flag>("PATCH", path, { body }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["flags"] }),
    onError: (error) => notify(error instanceof ApiError ? error.detail : String(error), "bad"),
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
      {selected && (
        <td class="shrink pick">
          <input type="checkbox" aria-label={t("Select {key}", { key: flag.key })} checked={isSelected} onChange={() => onSelect(isSelected ? selected.filter((each) => each.id !== flag.id) : [...selected, flag])} />
        </td>
      )}
      <td class="shrink end">
        <Switch isOn={isOn} disabled={edit.isPending || !selected} label={t("{key} is on", { key: flag.key })} onChange={toggle} />
      </td>
      <td class="first">
        <div class="row">
          <Link href={`${root}/feature_flags/${flag.id}`} class="name mono">
            <Value value={flag.key} maxChars={120} />
          </Link>
          {flag.status === "STALE" && <span class="tag warn">{t("Stale")}</span>}
          {flag.experiment_set.length > 0 && <span class="tag info">{t("Experiment")}</span>}
          {flag.features.length > 0 && <span class="tag info">{t("Early access")}</span>}
          {variants.length > 0 && <span class="tag">{tn(variants.length, "{n} variant", "{n} variants")}</span>}
          {flag.tags.slice(0, 3).map((tag) => (
            <button type="button" class="tag" key={tag} aria-label={t("Only flags with the tag {tag}", { tag })} onClick={() => onTag(tag)}>
              <Value value={tag.slice(0, 30)} />
            </button>
          ))}
        </div>
        {flag.name && (
          <div class="muted small">
            <Value value={flag.name} maxChars={140} />
          </div>
        )}
      </td>
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
            { label: t("Delete…"), isDangerous: true, isDisabled: !selected, onSelect: () => setDeleting(true) },
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
}
