// Log in: with a password, a provider, a personal API key, or with a link.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, queryClient } from "../api/client";
import { forget, keepKey, LOGIN, markLoggedIn, rememberSession } from "../api/session";
import { t } from "../lib/text";
import { Button, Field } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Logo } from "../ui/icons";

type Way = "password" | "key" | "provider" | "forgotten";
type LinkKind = "setup" | "reset" | "invite" | "login";

const LINK_PATHS: Record<LinkKind, string> = {
  setup: "/api/setup/",
  reset: "/api/reset/confirm/",
  invite: "/api/signup/",
  login: "/api/login/link/",
};

/** Why a login with the provider failed, by the code in the address. */
function describeRefusal(code: string): string {
  const texts: Record<string, string> = {
    login_expired: t("The login took too long, or began in another tab. Try again."),
    login_canceled: t("The provider did not log you in. Try again."),
    too_many_attempts: t("Too many attempts to log in. Try again in a few minutes."),
    email_not_verified: t("The provider has not verified your email address. Verify it there, then log in again."),
    domain_not_allowed: t("People with your email address cannot log in here."),
    not_invited: t("You have no account here yet. Ask an owner for an invite."),
    other_account: t("Your email address belongs to another account of the provider. Ask the operator for help."),
    password_needed: t("Your account has two-factor authentication. Log in with your password first, then once with the provider."),
  };
  return texts[code] ?? t("The provider does not work at the moment. Try again later, or ask the operator.");
}

/** Read a token that a link carries in its fragment, which no server sees. */
export function readLink(): { kind: LinkKind; token: string } | null {
  const match = /^#(setup|reset|invite|login)=(.+)$/.exec(location.hash);
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

/** A page of the provider; it leads back to this one. In a dialog it opens in another tab, so that the page keeps what was entered. */
function ProviderLink({ isPrimary, isOverPage }: { isPrimary: boolean; isOverPage: boolean }) {
  useEffect(() => {
    if (!isOverPage) return;
    const check = () => void call("GET", "/api/users/@me/").then(finish, () => {});
    addEventListener("focus", check);
    return () => removeEventListener("focus", check);
  }, [isOverPage]);
  const next = location.pathname === "/login" || isOverPage ? "/" : location.pathname + location.search;
  const target = isOverPage ? { target: "_blank", rel: "noopener" } : {};
  return (
    <a class={`button ${isPrimary ? "primary" : ""}`} href={`/api/login/oidc/?next=${encodeURIComponent(next)}`} {...target}>
      {t("Log in with {name}", { name: LOGIN.provider })}
    </a>
  );
}

function ForgottenForm() {
  const [email, setEmail] = useState("");
  const [isSent, setSent] = useState(false);
  const { submit, error, isBusy } = useSubmit(async () => {
    await call("POST", "/api/reset/", { body: { email } });
    setSent(true);
  });
  if (isSent)
    return <p role="status">{t("If there is an account with this email address, a link is on its way to it. It works for an hour.")}</p>;
  return (
    <form class="stack" onSubmit={submit}>
      <Field label={t("Email")} error={error} hint={t("You get a link with which you choose a new password.")}>
        {(attributes) => (
          <input {...attributes} class="input" type="email" autocomplete="username" required value={email} onInput={(event) => setEmail(event.currentTarget.value)} />
        )}
      </Field>
      <Button kind="primary" type="submit" disabled={isBusy}>
        {t("Send the link")}
      </Button>
    </form>
  );
}

/** A link of the operator. It works once, so that a person has to press a button. */
function LoginLinkForm({ token }: { token: string }) {
  const { submit, error, isBusy } = useSubmit(async () => {
    await call("POST", LINK_PATHS.login, { body: { token } });
    history.replaceState(null, "", "/");
    rememberSession();
    await finish();
    location.reload();
  });
  return (
    <form class="stack" onSubmit={submit}>
      {error && <p role="alert" class="error-text">{error}</p>}
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

function LoginForms({ isOverPage = false }: { isOverPage?: boolean }) {
  const usual: Way = LOGIN.password ? "password" : LOGIN.provider ? "provider" : "key";
  const [way, setWay] = useState<Way>(usual);
  const link = readLink();
  const refusal = location.pathname === "/login" ? new URLSearchParams(location.search).get("error") : null;
  if (link?.kind === "login") return <LoginLinkForm token={link.token} />;
  // Without passwords an invite counts when the person logs in with the provider.
  if (link && (LOGIN.password || link.kind === "setup")) return <LinkForm kind={link.kind} token={link.token} />;
  return (
    <div class="stack">
      {refusal && <p role="alert" class="error-text">{describeRefusal(refusal)}</p>}
      {way === "password" && <PasswordForm />}
      {way === "key" && <KeyForm />}
      {way === "forgotten" && <ForgottenForm />}
      {LOGIN.provider && way !== "forgotten" && <ProviderLink isPrimary={way === "provider"} isOverPage={isOverPage} />}
      {way === "password" && LOGIN.reset && (
        <Button kind="quiet" isSmall onClick={() => setWay("forgotten")}>
          {t("Forgot your password?")}
        </Button>
      )}
      {usual !== "key" && (
        <Button kind="quiet" isSmall onClick={() => setWay(way === usual ? "key" : usual)}>
          {way === usual ? t("Use a personal API key") : t("Back")}
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
        <LoginForms isOverPage />
      </div>
    </Dialog>
  );
}
