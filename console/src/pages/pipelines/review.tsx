// Look at the changes of a record, then save. If someone else has saved meanwhile, merge.
import { useState } from "preact/hooks";
import { ApiError, buildCurl, call, get } from "../../api/client";
import { t } from "../../lib/text";
import { buildUrl } from "../../lib/url";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { copyText } from "../../ui/show";
import { Changes, ConflictRow } from "../flag/review";
import { type Draft, hide, listChanges, mergeParts, type PipelineRecord, readAttr, type RecordProps, type Setting, toBodies, toDraft, toParts } from "./model";

interface Props extends RecordProps {
  draft: Draft;
  settings: Setting[];
  onClose: () => void;
  onSaved: () => void;
  /** The service refused the value of a field. */
  onRefused: (key: string, detail: string) => void;
}

export function Review({ record, path, draft, settings, onClose, onSaved, onRefused }: Props) {
  const [theirs, setTheirs] = useState<PipelineRecord | null>(null);
  const [chosen, setChosen] = useState<Record<string, "mine" | "theirs">>({});
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const names = Object.fromEntries(settings.map((each) => [`config.${each.key}`, each.name]));
  const secrets = new Set(settings.filter((each) => each.secret).map((each) => `config.${each.key}`));
  const base = toParts(toDraft(record, settings), settings);
  const mine = toParts(draft, settings);
  const other = theirs ? toParts(toDraft(theirs, settings), settings) : null;
  const merge = other ? mergeParts(base, mine, other) : null;
  const parts = merge ? { ...merge.merged } : mine;
  for (const each of merge?.conflicts ?? []) if (chosen[each.path] === "theirs") parts[each.path] = each.theirs;
  const changes = listChanges(other ?? base, parts, secrets);
  const bodies = toBodies(changes, parts);
  const seen = (theirs ?? record).updated_at;
  const hasConfig = Object.keys(bodies.config).length > 0;
  const hasFields = Object.keys(bodies.record).length > 0;
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      // The settings first: they are what the service may refuse.
      if (hasConfig) await call("PATCH", buildUrl(`${path}/config/`, { if_updated_at: seen }), { body: bodies.config });
      if (hasFields) await call("PATCH", buildUrl(`${path}/`, { if_updated_at: hasConfig ? null : seen }), { body: bodies.record });
      onSaved();
    } catch (failure) {
      const known = failure instanceof ApiError ? failure : new ApiError(-1, String(failure));
      const key = readAttr(known.attr);
      if (known.status === 409) setTheirs(await get<PipelineRecord>(`${path}/`));
      else if (key && (key in draft || settings.some((each) => each.key === key))) onRefused(key, known.detail);
      else setError(known);
    } finally {
      setBusy(false);
    }
  };
  const curl = [hasConfig && buildCurl("PATCH", `${path}/config/`, maskSecrets(bodies.config, secrets)), hasFields && buildCurl("PATCH", `${path}/`, bodies.record)].filter(Boolean).join("\n");
  return (
    <Dialog
      title={merge ? t("Someone else changed this") : t("Review the changes")}
      isOpen
      isWide
      onClose={onClose}
      footer={
        <>
          <Button kind="quiet" onClick={() => void copyText(curl)}>
            {t("Copy as curl")}
          </Button>
          <Button onClick={onClose}>{t("Back to editing")}</Button>
          <Button kind="primary" disabled={isBusy || changes.length === 0} onClick={() => void save()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        {merge && (
          <p class="notice warn">
            {merge.conflicts.length ? t("Both of you changed the same parts. Choose for each part.") : t("You changed other parts than they did. Both changes are kept.")}
          </p>
        )}
        {merge?.conflicts.map((each) => (
          <ConflictRow
            key={each.path}
            conflict={{ path: each.path, base: hide(each.path, each.base, secrets), mine: hide(each.path, each.mine, secrets), theirs: hide(each.path, each.theirs, secrets) }}
            chosen={chosen[each.path] ?? "mine"}
            onChoose={(which) => setChosen({ ...chosen, [each.path]: which })}
          />
        ))}
        <Changes changes={changes} names={names} />
        {record.enabled && <p class="muted small">{t("It is on, so the changes count for every event from now on.")}</p>}
        {error && (
          <p class="notice bad" role="alert">
            {error.detail}
            {error.requestId && ` (${t("request id")} ${error.requestId})`}
          </p>
        )}
      </div>
    </Dialog>
  );
}

function maskSecrets(config: Record<string, unknown>, secrets: Set<string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(config).map(([key, value]) => [key, secrets.has(`config.${key}`) ? "…" : value]));
}
