// Log in: with a password, with a personal API key, or for the first time with the setup link.
import { useState } from "preact/hooks";
import { ApiError, call, queryClient } from "../api/client";
import { forget, HAS_PASSWORDS, keepKey, markLoggedIn, rememberSession } from "../api/session";
import { t } from "../lib/text";
import { Button, Field } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Logo } from "../ui/icons";

type Way = "password" | "key";
type LinkKind = "setup" | "reset" | "invite";

const LINK_PATHS: Record<LinkKind, string> = { setup: "/api/setup/", reset: "/api/reset/confirm/", invite: "/api/signup/" };

/** Read a token that a link carries in its fragment, which no server sees. */
export function readLink(): { kind: LinkKind; token: string } | null {
  const match = /^#(setup|reset|invite)=(.+)$/.exec(location.hash);
  return match ? { kind: match[1] as LinkKind, token: decodeURIComponent(match[2] ?? "") } : null;
}

function useSubmit(work: () => Promise<void>): { submit: (event: Event) => void; error: string; isBusy: boolean } {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await work();
    } catch (failure) {
      setError(failure instanceof ApiError ? failure.detail : String(failure));
    } finally {
      setBusy(false);
    }
  };
  return { submit: (event) => void submit(event), error, isBusy };
}

async function finish(): Promise<void> {
  markLoggedIn();
  await queryClient.invalidateQueries();
}

function KeyForm() {
  const [key, setKey] = useState("");
  const { submit, error, isBusy } = useSubmit(async () => {
    // Checked before it is kept, so that a wrong one changes nothing.
    await call("GET", "/api/users/@me/", { headers: { Authorization: `Bearer ${key.trim()}` } });
    keepKey(key.trim());
    await finish();
  });
  return (
    <form class="stack" onSubmit={submit}>
      <Field
        label={t("Personal API key")}
        error={error}
        hint={t("It starts with phx_. `hedgerow keys create` makes one. This tab forgets it when you close it.")}
      >
        {(attributes) => (
          <input
            {...attributes}
            class="input mono"
            type="password"
            autocomplete="off"
            required
            autofocus
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        )}
      </Field>
      <Button kind="primary" type="submit" disabled={isBusy}>
        {t("Log in")}
      </Button>
    </form>
  );
}

function PasswordForm() {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [wantsCode, setWantsCode] = useState(false);
  const { submit, error, isBusy } = useSubmit(async () => {
    try {
      await call("POST", "/api/login/", { body: { email, password, ...(code ? { token: code } : {}) } });
    } catch (failure) {
      if (failure instanceof ApiError && /2fa|totp|code/.test(failure.code)) setWantsCode(true);
      throw failure;
    }
    rememberSession();
    await finish();
  });
  return (
    <form class="stack" onSubmit={submit}>
      <Field label={t("Email")}>
        {(attributes) => (
          <input {...attributes} class="input" type="email" autocomplete="username" required value={email} onInput={(event) => setEmail(event.currentTarget.value)} />
        )}
      </Field>
      <Field label={t("Password")} error={error}>
        {(attributes) => (
          <input {...attributes} class="input" type="password" autocomplete="current-password" required value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
        )}
      </Field>
      {wantsCode && (
        <Field label={t("Code of your authenticator app")}>
          {(attributes) => (
            <input {...attributes} class="input" inputMode="numeric" autocomplete="one-time-code" value={code} onInput={(event) => setCode(event.currentTarget.value)} />
          )}
        </Field>
      )}
      <Button kind="primary" type="submit" disabled={isBusy}>
        {t("Log in")}
      </Button>
    </form>
  );
}

function LinkForm({ kind, token }: { kind: LinkKind; token: string }) {
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const { submit, error, isBusy } = useSubmit(async () => {
    const body = { token, password, ...(kind === "setup" ? { email } : {}), ...(kind === "reset" ? {} : { first_name: name }) };
    await call("POST", LINK_PATHS[kind], { body });
    history.replaceState(null, "", "/");
    if (kind === "reset") forget();
    else {
      rememberSession();
      await finish();
    }
    // The link worked once; the page starts anew without it.
    location.reload();
  });
  return (
    <form class="stack" onSubmit={submit}>
      {kind !== "reset" && (
        <Field label={t("Your name")}>
          {(attributes) => <input {...attributes} class="input" required autocomplete="name" value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
      )}
      {kind === "setup" && (
        <>
          <Field label={t("Email")}>
            {(attributes) => (
              <input {...attributes} class="input" type="email" autocomplete="username" required value={email} onInput={(event) => setEmail(event.currentTarget.value)} />
            )}
          </Field>
        </>
      )}
      <Field label={t("New password")} error={error} hint={t("At least 12 characters.")}>
        {(attributes) => (
          <input {...attributes} class="input" type="password" autocomplete="new-password" minLength={12} required value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
        )}
      </Field>
      <Button kind="primary" type="submit" disabled={isBusy}>
        {kind === "setup" ? t("Set up Hedgerow") : kind === "invite" ? t("Join") : t("Save the password")}
      </Button>
    </form>
  );
}

function LoginForms() {
  const [way, setWay] = useState<Way>(HAS_PASSWORDS ? "password" : "key");
  const link = readLink();
  if (link) return <LinkForm kind={link.kind} token={link.token} />;
  return (
    <div class="stack">
      {way === "password" ? <PasswordForm /> : <KeyForm />}
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
