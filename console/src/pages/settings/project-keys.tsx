// The public key and the secret keys of a project.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Project, ProjectSecrets } from "../../api/types";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Select } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Refusal, useSubmit } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { Code } from "../../ui/show";
import { notify } from "../../ui/toasts";
import { keepProject, type PartProps } from "./project-part";
import { SecretDialog } from "./secret";

const HOUR_S = 3600;
const GRACE = [
  { value: "0", label: t("at once") },
  { value: String(HOUR_S), label: t("after an hour") },
  { value: String(24 * HOUR_S), label: t("after a day") },
  { value: String(7 * 24 * HOUR_S), label: t("after a week") },
  { value: String(30 * 24 * HOUR_S), label: t("after 30 days") },
];

export function ProjectKeys({ project, reason }: PartProps) {
  const { api } = useProject();
  const [asked, setAsked] = useState<"token" | "secret" | "backup" | null>(null);
  const [grace, setGrace] = useState(String(24 * HOUR_S));
  const [issued, setIssued] = useState<ProjectSecrets | null>(null);
  const rotate = useSubmit(async () => {
    keepProject(await call<Project>("PATCH", `${api}/reset_token/`, { body: { grace_s: Number(grace) } }));
    setAsked(null);
    notify(t("The project has a new public key."));
  });
  const renew = useSubmit(async () => {
    setIssued(await call<ProjectSecrets>("PATCH", `${api}/rotate_secret_token/`));
    setAsked(null);
  });
  const drop = useSubmit(async () => {
    await call("PATCH", `${api}/delete_secret_token_backup/`);
    setAsked(null);
    notify(t("Only the newest secret key works now."));
  });
  const close = () => setAsked(null);
  return (
    <Panel title={t("Keys of the project")}>
      <div class="body stack">
        <h3>{t("Public key")}</h3>
        <p class="muted">{t("Apps and web pages send events and ask for flags with it. It is no secret.")}</p>
        <Code label={t("public key")} text={project.api_token} />
        <div>
          <Button disabled={!!reason} title={reason} onClick={() => setAsked("token")}>
            {t("New public key…")}
          </Button>
        </div>
        <h3>{t("Secret key")}</h3>
        <p class="muted">{t("Servers read flag definitions and remote configurations with it. It starts with phs_ and is shown once, when you create it.")}</p>
        <div class="row">
          <Button disabled={!!reason} title={reason} onClick={() => setAsked("secret")}>
            {t("New secret key…")}
          </Button>
          <Button disabled={!!reason} title={reason} onClick={() => setAsked("backup")}>
            {t("Revoke the previous one…")}
          </Button>
        </div>
      </div>
      <Confirm title={t("Replace the public key?")} action={t("Replace the key")} isDangerous isOpen={asked === "token"} isBusy={rotate.isBusy} onConfirm={() => rotate.submit()} onClose={close}>
        <Refusal error={rotate.error} />
        <div class="row">
          <span>{t("The old key stops working")}</span>
          <Select label={t("The old key stops working")} isNarrow value={grace} choices={GRACE} onChange={setGrace} />
        </div>
        <p class="muted">{t("Until then apps with either key work. After it, events and flags of apps with the old key are refused.")}</p>
      </Confirm>
      <Confirm title={t("Create a new secret key?")} action={t("Create the key")} isOpen={asked === "secret"} isBusy={renew.isBusy} onConfirm={() => renew.submit()} onClose={close}>
        <Refusal error={renew.error} />
        <p>{t("The key that works now stays valid until you revoke it or create another one; one before it stops working.")}</p>
      </Confirm>
      <Confirm title={t("Revoke the previous secret key?")} action={t("Revoke it")} isDangerous isOpen={asked === "backup"} isBusy={drop.isBusy} onConfirm={() => drop.submit()} onClose={close}>
        <Refusal error={drop.error} />
        <p>{t("Servers that still use it are refused. The newest key stays.")}</p>
      </Confirm>
      {issued?.secret_api_token && (
        <SecretDialog
          title={t("The new secret key")}
          label={t("secret key")}
          value={issued.secret_api_token}
          note={issued.secret_api_token_backup_mask ? t("The previous key {mask} stays valid until you revoke it.", { mask: issued.secret_api_token_backup_mask }) : t("It is the only secret key of the project.")}
          onClose={() => setIssued(null)}
        />
      )}
    </Panel>
  );
}
