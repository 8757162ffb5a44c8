// The groups of one type, such as companies.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link, Redirect, useLocation, useParams } from "wouter-preact";
import { call, get, queryClient } from "../../api/client";
import type { Group, GroupType } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { NOT_ALLOWED, useMay } from "../../shell/rights";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { findError, Refusal, TextField } from "../../ui/forms";
import { List, useList, useListState } from "../../ui/list";
import { Page, Tabs } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Empty } from "../../ui/states";

const SHOWN = 3;
const MAX_TYPES = 5;

export function useGroupTypes() {
  const { api } = useProject();
  return useQuery({ queryKey: ["group types", api], queryFn: () => get<GroupType[]>(`${api}/groups_types/`), staleTime: 30_000 });
}

export function GroupsPage() {
  const { root } = useProject();
  const { type } = useParams<{ type?: string }>();
  const types = useGroupTypes();
  const first = types.data?.[0];
  if (type === undefined && first) return <Redirect to={`${root}/groups/${first.group_type_index}`} replace />;
  const found = types.data?.find((each) => String(each.group_type_index) === type);
  if (found) return <GroupsOfType key={found.group_type_index} type={found} types={types.data ?? []} />;
  return (
    <Page title={t("Groups")} actions={types.data && <NewGroup type={null} isFull={false} />}>
      <div class="panel">
        <Await query={types}>
          {(all) => (
            <Empty title={all.length ? t("This group type does not exist") : t("No groups yet")}>
              {t("Groups are what persons belong to, such as companies. SDKs send them with events (posthog.group), and flags can apply to them.")}
            </Empty>
          )}
        </Await>
      </div>
    </Page>
  );
}

function GroupsOfType({ type, types }: { type: GroupType; types: GroupType[] }) {
  const { api, root } = useProject();
  const state = useListState();
  const groups = useList<Group>("groups", `${api}/groups/`, state, { group_type_index: type.group_type_index });
  return (
    <Page title={t("Groups")} sub={groups.data ? tn(groups.data.count, "{n} group of the type {type}", "{n} groups of the type {type}", { type: type.group_type }) : undefined} actions={<NewGroup type={type.group_type} isFull={types.length >= MAX_TYPES} />}>
      <Tabs label={t("Group types")} current={type.group_type} tabs={types.map((each) => ({ name: each.group_type, label: each.group_type, to: `${root}/groups/${each.group_type_index}` }))} />
      <List
        query={groups}
        state={state}
        search={t("Search by key or name")}
        empty={<Empty title={t("No groups of this type yet")}>{t("A group appears with the first event that names it.")}</Empty>}
        columns={[t("Group"), t("Key"), t("Properties"), t("First seen")]}
      >
        {(items) => items.map((group) => <GroupRow key={group.group_key} group={group} to={`${root}/groups/${type.group_type_index}/${encodeURIComponent(group.group_key)}`} />)}
      </List>
    </Page>
  );
}

export const nameGroup = (group: Group): string => (typeof group.group_properties.name === "string" && group.group_properties.name ? group.group_properties.name : group.group_key);

function GroupRow({ group, to }: { group: Group; to: string }) {
  const names = Object.keys(group.group_properties).filter((name) => name !== "name");
  return (
    <tr>
      <td class="first">
        <Link href={to} class="name">
          <Value value={nameGroup(group)} maxChars={80} />
        </Link>
      </td>
      <td class="mono drop">
        <Value value={group.group_key} maxChars={60} />
      </td>
      <td class="muted small wide">
        {names.slice(0, SHOWN).map((name) => (
          <span key={name}>
            <code>
              <Value value={name} maxChars={40} />
            </code>{" "}
            <Value value={group.group_properties[name]} maxChars={40} />{" "}
          </span>
        ))}
        {names.length > SHOWN && t("and {n} more", { n: names.length - SHOWN })}
      </td>
      <td class="muted drop">
        <Ago at={group.created_at} />
      </td>
    </tr>
  );
}

/** The dialog that creates a group, and its type if that is new. */
function NewGroup({ type, isFull }: { type: string | null; isFull: boolean }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const mayEdit = useMay("group:write");
  const [isOpen, setOpen] = useState(false);
  const [of, setOf] = useState(type ?? "");
  const [key, setKey] = useState("");
  const [name, setName] = useState("");
  const save = useMutation({
    mutationFn: () => call<Group>("POST", `${api}/groups/`, { body: { group_type: of, group_key: key, ...(name ? { group_properties: { name } } : {}) } }),
    onSuccess: (group) => {
      for (const each of ["groups", "group types", "group"]) void queryClient.invalidateQueries({ queryKey: [each] });
      navigate(`${root}/groups/${group.group_type_index}/${encodeURIComponent(group.group_key)}`);
    },
  });
  if (!mayEdit) return <span class="muted small">{NOT_ALLOWED}</span>;
  return (
    <>
      <Button kind="primary" onClick={() => setOpen(true)}>
        {t("New group")}
      </Button>
      <Dialog title={t("New group")} isOpen={isOpen} onClose={() => setOpen(false)}>
        <form
          class="body stack"
          onSubmit={(event) => {
            event.preventDefault();
            save.mutate();
          }}
        >
          <TextField label={t("Type")} required value={of} onInput={setOf} disabled={isFull} hint={isFull ? t("A project has at most five types.") : t("Such as company. A new type is created if there is none of this name.")} error={findError(save.error, "group_type")} />
          <TextField label={t("Key")} required isCode value={key} onInput={setKey} hint={t("SDKs name the group by its key. A group that exists is kept.")} error={findError(save.error, "group_key")} />
          <TextField label={t("Name")} value={name} onInput={setName} error={findError(save.error, "group_properties")} />
          <Refusal error={save.error} shown={["group_type", "group_key", "group_properties"]} />
          <Button kind="primary" type="submit" disabled={save.isPending}>
            {t("Create the group")}
          </Button>
        </form>
      </Dialog>
    </>
  );
}
