// Log in: with a password, with a personal API key, or with a link for the first time, an invite or a new password.
import { useState } from "preact/hooks";
import { ApiError, call, queryClient } from "../api/client";
import { endConfirmation, forget, HAS_PASSWORDS, keepKey, markLoggedIn, rememberSession, usesKey } from "../api/session";
import { signal, useSignal } from "../api/signal";
import type { User } from "../api/types";
import { t } from "../lib/text";
import { Button } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { FormError, TextField, useSubmit } from "../ui/form";
import { Logo } from "../ui/icons";
import { notify } from "../ui/toasts";

type Way = "password" | "key";
type LinkKind = "setup" | "reset" | "invite";

const LINK_PATHS: Record<LinkKind, string> = { setup: "/api/setup/", reset: "/api/reset/confirm/", invite: "/api/signup/" };
const LINK_TITLES: Record<LinkKind, string> = {
  setup: t("Set up your installation"),
  reset: t("Choose a new password"),
  invite: t("Join the organization"),
};
const LINK_ACTIONS: Record<LinkKind, string> = { setup: t("Set up Hedgerow"), reset: t("Save the password"), invite: t("Join") };

interface TokenLink {
  kind: LinkKind;
  token: string;
}

/** Read a token that a link carries in its fragment, which no server sees. */
function readLink(): TokenLink | null {
  const match = /^#(setup|reset|invite)=([\w-]+)$/.exec(location.hash);
  return match ? { kind: match[1] as LinkKind, token: match[2] ?? "" } : null;
}

/** The link that the page was opened with, until it has been used. */
export const tokenLink = signal(readLink());
window.addEventListener("hashchange", () => tokenLink.set(readLink()));

async function finish(): Promise<void> {
  markLoggedIn();
  endConfirmation(true);
  await queryClient.invalidateQueries();
}

function KeyForm() {
  const [key, setKey] = useState("");
  const form = useSubmit(async () => {
    // Checked before it is kept, so that a wrong one changes nothing.
    await call("GET", "/api/users/@me/", { headers: { Authorization: `Bearer ${key.trim()}` } });
    keepKey(key.trim());
    await finish();
  });
  return (
    <form class="stack" onSubmit={form.submit}>
      <TextField
        label={t("Personal API key")}
        class="mono"
        type="password"
        autocomplete="off"
        required
        autofocus
        error={form.error?.detail}
        hint={t("It starts with phx_. `hedgerow keys create` makes one. This tab forgets it when you close it.")}
        value={key}
        onInput={setKey}
      />
      <Button kind="primary" type="submit" disabled={form.isBusy}>
        {t("Log in")}
      </Button>
    </form>
  );
}

function PasswordForm({ known }: { known: string }) {
  const [email, setEmail] = useState(known);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [wantsCode, setWantsCode] = useState(false);
  const form = useSubmit(async () => {
    try {
      await call("POST", "/api/login/", { body: { email: email.trim(), password, ...(code ? { token: code.trim() } : {}) } });
    } catch (failure) {
      if (failure instanceof ApiError && failure.code.startsWith("2fa") && !wantsCode) return setWantsCode(true);
      throw failure;
    }
    rememberSession();
    await finish();
  });
  return (
    <form class="stack" onSubmit={form.submit}>
      <FormError of={form} fields={["email"]} />
      <TextField label={t("Email")} type="email" autocomplete="username" required autofocus={!known} error={form.errorOf("email")} value={email} onInput={setEmail} />
      <TextField label={t("Password")} type="password" autocomplete="current-password" required autofocus={!!known} value={password} onInput={setPassword} />
      {wantsCode && (
        <TextField
          label={t("Code")}
          inputMode="numeric"
          autocomplete="one-time-code"
          required
          autofocus
          hint={t("Of your authenticator app, or one of your recovery codes.")}
          value={code}
          onInput={setCode}
        />
      )}
      <Button kind="primary" type="submit" disabled={form.isBusy}>
        {t("Log in")}
      </Button>
    </form>
  );
}

function LinkForm({ kind, token }: { kind: LinkKind; token: string }) {
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const form = useSubmit(async () => {
    const body = { token, password, ...(kind === "setup" ? { email: email.trim() } : {}), ...(kind === "reset" ? {} : { first_name: name.trim() }) };
    await call("POST", LINK_PATHS[kind], { body });
    // The link worked once; the page goes on without it.
    history.replaceState(null, "", "/");
    queryClient.clear();
    tokenLink.set(null);
    if (kind === "reset") {
      forget();
      notify(t("The password is saved. Log in with it."));
    } else {
      rememberSession();
      await finish();
    }
  });
  return (
    <form class="stack" onSubmit={form.submit}>
      <h2>{LINK_TITLES[kind]}</h2>
      <FormError of={form} fields={["email", "first_name", "password"]} />
      {kind !== "reset" && <TextField label={t("Your name")} autocomplete="name" required autofocus maxLength={150} error={form.errorOf("first_name")} value={name} onInput={setName} />}
      {kind === "setup" && <TextField label={t("Email")} type="email" autocomplete="username" required error={form.errorOf("email")} value={email} onInput={setEmail} />}
      <TextField
        label={t("New password")}
        type="password"
        autocomplete="new-password"
        minLength={12}
        required
        hint={t("At least 12 characters.")}
        error={form.errorOf("password")}
        value={password}
        onInput={setPassword}
      />
      <Button kind="primary" type="submit" disabled={form.isBusy}>
        {LINK_ACTIONS[kind]}
      </Button>
    </form>
  );
}

function LoginForms() {
  const [way, setWay] = useState<Way>(HAS_PASSWORDS && !usesKey() ? "password" : "key");
  const known = queryClient.getQueryData<User>(["me"])?.email ?? "";
  const link = useSignal(tokenLink);
  if (link) return <LinkForm kind={link.kind} token={link.token} />;
  return (
    <div class="stack">
      {way === "password" ? <PasswordForm known={known} /> : <KeyForm />}
      {HAS_PASSWORDS && (
        <Button kind="quiet" isSmall onClick={() => setWay(way === "password" ? "key" : "password")}>
          {way === "password" ? t("Use a personal API key") : t("Use a password")}
        </Button>
      )}
    </div>
  );
}

export function LoginPage() {
  return (
    <main class="login">
      <div class="panel">
        <div class="body stack">
          <div class="brand">
            <Logo />
            <h1>{t("Hedgerow")}</h1>
          </div>
          <LoginForms />
          <p class="small muted">
            <a href="/api/docs/">{t("API documentation")}</a>
          </p>
        </div>
      </div>
    </main>
  );
}

/** The login over a page whose session has ended. The page keeps what was entered. */
export function LoginDialog() {
  return (
    <Dialog title={t("Log in again")} description={t("Your session has ended. The page behind keeps what you entered.")} isOpen onClose={() => {}}>
      <div class="body">
        <LoginForms />
      </div>
    </Dialog>
  );
}

/** The login before a change of keys, members, secrets or how somebody logs in. */
export function ConfirmLoginDialog() {
  return (
    <Dialog
      title={t("Confirm that it is you")}
      description={t("Keys, members and secrets can be changed for 10 minutes after a login. Nothing that you entered is lost.")}
      isOpen
      onClose={() => endConfirmation(false)}
    >
      <div class="body stack">
        <PasswordForm known={queryClient.getQueryData<User>(["me"])?.email ?? ""} />
        <Button onClick={() => endConfirmation(false)}>{t("Cancel")}</Button>
      </div>
    </Dialog>
  );
}
