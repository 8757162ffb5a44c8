// Two-factor authentication: set up an authenticator app, recovery codes, turn it off.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { call, get, queryClient } from "../../api/client";
import { usesKey } from "../../api/session";
import type { User } from "../../api/types";
import { t, tn } from "../../lib/text";
import { Button } from "../../ui/controls";
import { Confirm, Dialog } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { Code } from "../../ui/show";
import { notify } from "../../ui/toasts";
import { QrCode } from "./qr-code";

const BASE = "/api/users/@me/two_factor_";

interface Secret {
  secret: string;
  uri: string;
}

interface Codes {
  backup_codes: string[];
}

export function TwoFactor({ user }: { user: User }) {
  const [secret, setSecret] = useState<Secret | null>(null);
  const [codes, setCodes] = useState<string[] | null>(null);
  const [isEnding, setEnding] = useState(false);
  const status = useQuery({
    queryKey: ["two factor"],
    queryFn: () => get<{ is_enabled: boolean; backup_codes_left: number }>(`${BASE}status/`),
    enabled: !usesKey(),
  });
  const isOn = status.data?.is_enabled ?? user.is_2fa_enabled;
  const refresh = () => Promise.all([queryClient.invalidateQueries({ queryKey: ["me"] }), queryClient.invalidateQueries({ queryKey: ["two factor"] })]);
  const start = useSubmit(async () => setSecret(await call<Secret>("POST", `${BASE}start_setup/`)));
  const renew = useSubmit(async () => {
    setCodes((await call<Codes>("POST", `${BASE}backup_codes/`)).backup_codes);
    await refresh();
  });
  const disable = useSubmit(async () => {
    await call("POST", `${BASE}disable/`);
    setEnding(false);
    notify(t("Two-factor authentication is off."));
    await refresh();
  });
  return (
    <Panel title={t("Two-factor authentication")} actions={isOn ? <span class="tag on">{t("On")}</span> : <span class="tag">{t("Off")}</span>}>
      <div class="body stack">
        <Refusal error={start.error} />
        <Refusal error={renew.error} />
        <p class="muted">{t("A login then needs a code of an app on your phone besides the password.")}</p>
        {isOn ? (
          <>
            {status.data && <p>{tn(status.data.backup_codes_left, "{n} recovery code is left.", "{n} recovery codes are left.")}</p>}
            <div class="row">
              <Button disabled={usesKey() || renew.isBusy} onClick={() => renew.submit()}>
                {t("New recovery codes")}
              </Button>
              <Button kind="danger" disabled={usesKey()} onClick={() => setEnding(true)}>
                {t("Turn off…")}
              </Button>
            </div>
          </>
        ) : (
          <div>
            <Button disabled={usesKey() || start.isBusy} onClick={() => start.submit()}>
              {t("Set up an authenticator app")}
            </Button>
          </div>
        )}
      </div>
      {secret && (
        <SetupDialog
          secret={secret}
          onClose={() => setSecret(null)}
          onDone={(found) => {
            setSecret(null);
            setCodes(found);
            void refresh();
          }}
        />
      )}
      {codes && <CodesDialog codes={codes} onClose={() => setCodes(null)} />}
      <Confirm
        title={t("Turn off two-factor authentication?")}
        action={t("Turn it off")}
        isDangerous
        isOpen={isEnding}
        isBusy={disable.isBusy}
        onConfirm={() => disable.submit()}
        onClose={() => setEnding(false)}
      >
        <Refusal error={disable.error} />
        <p>{tn(status.data?.backup_codes_left ?? 0, "Your password alone is enough then. The secret and {n} recovery code are deleted.", "Your password alone is enough then. The secret and {n} recovery codes are deleted.")}</p>
      </Confirm>
    </Panel>
  );
}

function SetupDialog({ secret, onClose, onDone }: { secret: Secret; onClose: () => void; onDone: (codes: string[]) => void }) {
  const [code, setCode] = useState("");
  const form = useSubmit(async () => {
    const found = await call<Codes>("POST", `${BASE}validate/`, { body: { token: code.replaceAll(" ", "") } });
    onDone(found.backup_codes);
  });
  return (
    <Dialog title={t("Set up an authenticator app")} description={t("Scan this code with the app, or enter the secret. Then enter the code that the app shows.")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <div class="qr">
          <QrCode text={secret.uri} label={t("QR code for an authenticator app")} />
        </div>
        <Code label={t("secret")} text={secret.secret} />
        <Refusal error={form.error} shown={["token"]} />
        <TextField label={t("Code of the app")} inputMode="numeric" autocomplete="one-time-code" required autofocus error={form.errorOf("token")} value={code} onInput={setCode} />
        <div class="row end">
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy}>
            {t("Turn it on")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function CodesDialog({ codes, onClose }: { codes: string[]; onClose: () => void }) {
  return (
    <Dialog
      title={t("Your recovery codes")}
      description={t("Each works once, instead of a code of the app. Store them now: they are shown only here, and older ones no longer work.")}
      isOpen
      onClose={onClose}
      footer={
        <Button kind="primary" onClick={onClose}>
          {t("I have stored them")}
        </Button>
      }
    >
      <div class="body">
        <Code label={t("recovery codes")} text={codes.join("\n")} />
      </div>
    </Dialog>
  );
}
