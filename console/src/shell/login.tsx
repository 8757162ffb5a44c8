// Log in: with a password, a provider, a personal API key, or with a link.
import { useEffect, useState } from "preact/hooks";
import { ApiError, call, queryClient } from "../api/client";
import { explain } from "../api/errors";
import { endConfirmation, forget, keepKey, LOGIN, markLoggedIn, rememberSession, usesKey } from "../api/session";
import { signal, useSignal } from "../api/signal";
import type { User } from "../api/types";
import { t } from "../lib/text";
import { Button } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Refusal, TextField, useSubmit } from "../ui/forms";
import { Logo } from "../ui/icons";
import { notify } from "../ui/toasts";

type Way = "password" | "key" | "provider" | "forgotten";
type LinkKind = "setup" | "reset" | "invite" | "login";

const LINK_PATHS: Record<LinkKind, string> = {
  setup: "/api/setup/",
  reset: "/api/reset/confirm/",
  invite: "/api/signup/",
  login: "/api/login/link/",
};
const LINK_TITLES: Record<LinkKind, string> = {
  setup: t("Set up your installation"),
  reset: t("Choose a new password"),
  invite: t("Join the organization"),
  login: t("Log in"),
};
const LINK_ACTIONS: Record<LinkKind, string> = {
  setup: t("Set up Hedgerow"),
  reset: t("Save the password"),
  invite: t("Join"),
  login: t("Log in"),
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

interface TokenLink {
  kind: LinkKind;
  token: string;
}

/** Read a token that a link carries in its fragment, which no server sees. */
function readLink(): TokenLink | null {
  const match = /^#(setup|reset|invite|login)=([\w-]+)$/.exec(location.hash);
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
        error={form.error ? explain(form.error) : undefined}
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
      <Refusal error={form.error} shown={["email"]} />
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
  const form = useSubmit(async () => {
    await call("POST", "/api/reset/", { body: { email: email.trim() } });
    setSent(true);
  });
  if (isSent)
    return <p role="status">{t("If there is an account with this email address, a link is on its way to it. It works for an hour.")}</p>;
  return (
    <form class="stack" onSubmit={form.submit}>
      <TextField
        label={t("Email")}
        type="email"
        autocomplete="username"
        required
        autofocus
        error={form.error ? explain(form.error) : undefined}
        hint={t("You get a link with which you choose a new password.")}
        value={email}
        onInput={setEmail}
      />
      <Button kind="primary" type="submit" disabled={form.isBusy}>
        {t("Send the link")}
      </Button>
    </form>
  );
}

/** A link of the operator. It works once, so that a person has to press a button. */
function LoginLinkForm({ token }: { token: string }) {
  const form = useSubmit(async () => {
    await call("POST", LINK_PATHS.login, { body: { token } });
    await leaveLink();
  });
  return (
    <form class="stack" onSubmit={form.submit}>
      <Refusal error={form.error} />
      <Button kind="primary" type="submit" disabled={form.isBusy}>
        {LINK_ACTIONS.login}
      </Button>
    </form>
  );
}

/** The link worked once; the page that it names goes on without it, logged in unless `isOut`. */
async function leaveLink(isOut = false): Promise<void> {
  history.replaceState(null, "", location.pathname);
  queryClient.clear();
  tokenLink.set(null);
  if (isOut) return forget();
  rememberSession();
  await finish();
}

function LinkForm({ kind, token }: { kind: LinkKind; token: string }) {
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const form = useSubmit(async () => {
    const body = { token, password, ...(kind === "setup" ? { email: email.trim() } : {}), ...(kind === "reset" ? {} : { first_name: name.trim() }) };
    await call("POST", LINK_PATHS[kind], { body });
    await leaveLink(kind === "reset");
    if (kind === "reset") notify(t("The password is saved. Log in with it."));
  });
  return (
    <form class="stack" onSubmit={form.submit}>
      <h2>{LINK_TITLES[kind]}</h2>
      <Refusal error={form.error} shown={["email", "first_name", "password"]} />
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

function LoginForms({ isOverPage = false }: { isOverPage?: boolean }) {
  const usual: Way = LOGIN.password ? "password" : LOGIN.provider ? "provider" : "key";
  const [way, setWay] = useState<Way>(usesKey() ? "key" : usual);
  const known = queryClient.getQueryData<User>(["me"])?.email ?? "";
  const link = useSignal(tokenLink);
  const refusal = location.pathname === "/login" ? new URLSearchParams(location.search).get("error") : null;
  if (link?.kind === "login") return <LoginLinkForm token={link.token} />;
  // Without passwords an invite counts when the person logs in with the provider.
  if (link && (LOGIN.password || link.kind === "setup")) return <LinkForm kind={link.kind} token={link.token} />;
  return (
    <div class="stack">
      {refusal && <p role="alert" class="notice bad">{describeRefusal(refusal)}</p>}
      {way === "password" && <PasswordForm known={known} />}
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
          {way === usual ? t("Use a personal API key") : way === "key" && usual === "password" ? t("Use a password") : t("Back")}
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

/** The login before a change of keys, members, secrets or how a person logs in. */
export function ConfirmLoginDialog() {
  return (
    <Dialog
      title={t("Confirm that it is you")}
      description={t("Keys, members and secrets can be changed for 10 minutes after a login. Nothing that you entered is lost.")}
      isOpen
      onClose={() => endConfirmation(false)}
    >
      <div class="body stack">
        {LOGIN.password && <PasswordForm known={queryClient.getQueryData<User>(["me"])?.email ?? ""} />}
        {LOGIN.provider && <ProviderLink isPrimary={!LOGIN.password} isOverPage />}
        <Button onClick={() => endConfirmation(false)}>{t("Cancel")}</Button>
      </div>
    </Dialog>
  );
}
