import { t } from "../../lib/text";
import { Button } from "../../ui/controls";
import { Dialog } from "../../ui/dialog";
import { Code } from "../../ui/show";

/** A value that the API returns only once. */
export function SecretDialog({ title, label, value, note, onClose }: { title: string; label: string; value: string; note: string; onClose: () => void }) {
  return (
    <Dialog
      title={title}
      description={t("Copy it now: it is shown only here.")}
      isOpen
      onClose={onClose}
      footer={
        <Button kind="primary" onClick={onClose}>
          {t("Done")}
        </Button>
      }
    >
      <div class="body stack">
        <Code label={label} text={value} />
        <p class="muted">{note}</p>
      </div>
    </Dialog>
  );
}
