// Description, tags and visibility of a definition, in a dialog.
import { useMutation } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { ApiError } from "../../api/client";
import { t } from "../../lib/text";
import { ValuesInput } from "../../ui/combobox";
import { Button, Field } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";

interface Described {
  description: string;
  tags: readonly string[];
  hidden: boolean;
}

export function DetailsDialog({ title, definition, onSave, onClose }: { title: string; definition: Described; onSave: (body: object) => Promise<unknown>; onClose: () => void }) {
  const [draft, setDraft] = useState({ description: definition.description, tags: [...definition.tags], hidden: definition.hidden });
  const save = useMutation({ mutationFn: () => onSave({ ...draft, ...(draft.hidden ? { verified: false } : {}) }), onSuccess: onClose });
  const error = save.error instanceof ApiError ? save.error : null;
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" disabled={save.isPending} onClick={() => save.mutate()}>
            {t("Save")}
          </Button>
        </>
      }
    >
      <div class="body stack">
        <Field label={t("Description")} error={error?.attr === "description" ? error.detail : undefined}>
          {(attributes) => <textarea {...attributes} class="input" autofocus value={draft.description} onInput={(event) => setDraft({ ...draft, description: event.currentTarget.value })} />}
        </Field>
        <div class="field">
          <span class="label">{t("Tags")}</span>
          <ValuesInput label={t("Tags")} values={draft.tags} options={[]} onSearch={() => {}} onChange={(tags) => setDraft({ ...draft, tags })} />
        </div>
        <label class="check">
          <input type="checkbox" checked={draft.hidden} onChange={(event) => setDraft({ ...draft, hidden: event.currentTarget.checked })} />
          {t("Hidden: editors do not offer it, and it is not verified")}
        </label>
        {error && error.attr !== "description" && (
          <p class="notice bad" role="alert">
            {error.detail}
          </p>
        )}
      </div>
    </Dialog>
  );
}
