// Look at the changes, then save. If someone else has saved meanwhile, merge.
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { ApiError, buildCurl, call, get, queryClient } from "../../api/client";
import type { Flag } from "../../api/types";
import { showValue, t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Choices } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { copyText, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import { describeChange, FLAG_FIELDS } from "./describe";
import { type Change, type Conflict, diff, type Draft, mergeEdits, takeTheirs, toDraft, toFields } from "./draft";
import { useCohorts } from "./properties";

/** What changed, before and after. `names` has the names of fields, by path. */
export function Changes({ changes, names, labels = [t("Before"), t("After")] }: { changes: Change[]; names?: Record<string, string>; labels?: [string, string] }) {
  const cohorts = useCohorts(changes.some((each) => /"(static-)?cohort"/.test(JSON.stringify([each.before, each.after]))));
  const nameCohort = (id: unknown) => cohorts.find((each) => each.id === Number(id))?.name ?? showValue(id);
  if (!changes.length) return <Empty title={t("No changes")} />;
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label={t("Changes")}>
      <table class="table diff">
        <thead>
          <tr>
            <th scope="col">{t("Field")}</th>
            {labels.map((each) => (
              <th scope="col" key={each}>
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {changes.map((each) => ({ ...describeChange(each, nameCohort), key: each.path })).map(({ key, ...change }) => (
            <tr key={key}>
              <td>
                <Value value={names?.[change.path] ?? change.path} maxChars={120} />
              </td>
              <td class="before">
                <Value value={change.before} />
              </td>
              <td class="after">
                <Value value={change.after} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// A new flag is compared with it, so that each of its conditions is a change.
const NOTHING = { key: undefined, name: "", active: undefined, ensure_experience_continuity: false, filters: { groups: [] } };

interface Props {
  saved: Flag | null;
  draft: Draft;
  isOpen: boolean;
  onClose: () => void;
  onSaved: (flag: Flag) => void;
}

/** The dialog before a change is stored. */
export function Review({ saved, draft, isOpen, onClose, onSaved }: Props) {
  const { api, root } = useProject();
  const [theirs, setTheirs] = useState<Flag | null>(null);
  const [chosen, setChosen] = useState<Record<string, "mine" | "theirs">>({});
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const mine = toFields(draft);
  const base = saved ? toFields(toDraft(saved)) : NOTHING;
  const other = theirs ? toFields(toDraft(theirs)) : null;
  const merge = other ? mergeEdits(base, mine, other) : null;
  const fields = merge ? merge.conflicts.reduce((all, each) => (chosen[each.path] === "theirs" ? takeTheirs(all, each) : all), merge.merged) : mine;
  const version = theirs?.version ?? saved?.version;
  const path = saved ? `${api}/feature_flags/${saved.id}/` : `${api}/feature_flags/`;
  const changes = diff(other ?? base, fields);
  // Only what differs is sent, so that stored fields which the form does not show stay.
  const changed = Object.fromEntries(Object.entries(fields).filter(([name]) => changes.some((each) => each.path === name || each.path.startsWith(`${name}.`) || each.path.startsWith(`${name}[`))));
  const method = saved ? "PATCH" : "POST";
  const original = theirs ?? saved;
  const body = saved && original ? { ...changed, version, original_flag: Object.fromEntries(Object.keys(changed).map((name) => [name, original[name as keyof Flag]])) } : fields;
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      const flag = await call<Flag>(method, path, { body });
      await queryClient.invalidateQueries({ queryKey: ["flags"] });
      setTheirs(null);
      onSaved(flag);
    } catch (failure) {
      if (failure instanceof ApiError && failure.body.change_request_id) setError(failure);
      else if (failure instanceof ApiError && failure.status === 409 && saved) setTheirs(await get<Flag>(path));
      else setError(failure instanceof ApiError ? failure : new ApiError(-1, String(failure)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={merge ? t("Someone else changed this flag") : saved ? t("Review the changes") : t("Review the new flag")}
      isOpen={isOpen}
      isWide
      onClose={onClose}
      footer={
        <>
          <Button kind="quiet" onClick={() => void copyText(buildCurl(method, path, body))}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Back to editing")}</Button>
          <Button kind="primary" disabled={isBusy || (!!saved && changes.length === 0)} onClick={() => void save()}>
            {saved ? t("Save") : t("Create the flag")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        {merge && (
          <p class="notice warn">
            {merge.conflicts.length
              ? t("Both of you changed the same parts. Choose for each part.")
              : t("You changed other parts than they did. Both changes are kept.")}
          </p>
        )}
        {merge?.conflicts.map((conflict) => (
          <ConflictRow key={conflict.path} conflict={conflict} chosen={chosen[conflict.path] ?? "mine"} onChoose={(which) => setChosen({ ...chosen, [conflict.path]: which })} />
        ))}
        <Changes changes={changes} names={FLAG_FIELDS} />
        {error?.body.change_request_id ? (
          <p class="notice warn" role="alert">
            {t("This change waits for approval.")} {error.detail} <Link href={`${root}/changes/${String(error.body.change_request_id)}`}>{t("Show the change request")}</Link>
          </p>
        ) : null}
        {error && !error.body.change_request_id && (
          <p class="notice bad" role="alert">
            {error.attr ? `${error.attr}: ` : ""}
            {error.detail}
            {error.requestId && ` (${t("request id")} ${error.requestId})`}
          </p>
        )}
      </div>
    </Dialog>
  );
}

export function ConflictRow({ conflict, chosen, onChoose }: { conflict: Conflict; chosen: "mine" | "theirs"; onChoose: (which: "mine" | "theirs") => void }) {
  return (
    <div class="panel">
      <div class="head">
        <h3 class="mono">{conflict.path}</h3>
        <Choices
          label={t("Which {path} to keep", { path: conflict.path })}
          value={chosen}
          choices={[
            { value: "mine", label: t("Mine") },
            { value: "theirs", label: t("Theirs") },
          ]}
          onChange={onChoose}
        />
      </div>
      <dl class="body keys small">
        {(["base", "mine", "theirs"] as const).map((side) => (
          <>
            <dt class="muted">{{ base: t("Before"), mine: t("Mine"), theirs: t("Theirs") }[side]}</dt>
            <dd class="mono">
              <Value value={showValue(conflict[side])} />
            </dd>
          </>
        ))}
      </dl>
    </div>
  );
}
