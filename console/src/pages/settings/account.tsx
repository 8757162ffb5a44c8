// The own account: name, password, two-factor authentication and sessions.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { call, get, queryClient } from "../../api/client";
import { usesKey } from "../../api/session";
import type { LoginSession, User } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Confirm } from "../../ui/dialog";
import { Refusal, TextField, useSubmit } from "../../ui/forms";
import { Panel } from "../../ui/page";
import { Ago, Value } from "../../ui/show";
import { Await, Loading } from "../../ui/states";
import { notify, notifyError } from "../../ui/toasts";
import { describeBrowser } from "./browser";
import { TwoFactor } from "./two-factor";

export function AccountSettings() {
  const { user } = useProject();
  if (!user) return <Loading />;
  return (
    <>
      {usesKey() && <p class="notice">{t("This tab uses a personal API key. Log in with your password to change your name, your password or your authenticator.")}</p>}
      <div class="columns">
        <Profile key={user.first_name} user={user} />
        <Password user={user} />
        <TwoFactor user={user} />
      </div>
      <Sessions />
    </>
  );
}

function Profile({ user }: { user: User }) {
  const [name, setName] = useState(user.first_name);
  const form = useSubmit(async () => {
    const changed = await call<User>("PATCH", "/api/users/@me/", { body: { first_name: name.trim() } });
    queryClient.setQueryData(["me"], changed);
    notify(t("Your name is saved."));
  });
  return (
    <Panel title={t("Your name")}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["first_name"]} />
        <TextField label={t("Name")} autocomplete="name" required maxLength={150} error={form.errorOf("first_name")} value={name} onInput={setName} />
        <TextField label={t("Email")} readOnly hint={t("The audit trail names you by it. An owner can invite you with another one.")} value={user.email} onInput={() => {}} />
        <div>
          <Button type="submit" disabled={form.isBusy || usesKey() || name.trim() === user.first_name}>
            {t("Save the name")}
          </Button>
        </div>
      </form>
    </Panel>
  );
}

function Password({ user }: { user: User }) {
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const form = useSubmit(async () => {
    await call("PATCH", "/api/users/@me/", { body: { current_password: current, password } });
    setCurrent("");
    setPassword("");
    notify(t("Your password is changed. All your other sessions have ended."));
    await queryClient.invalidateQueries({ queryKey: ["sessions"] });
  });
  if (!user.has_password)
    return (
      <Panel title={t("Password")}>
        <p class="body muted">
          {t("You have no password yet. An owner can create a link with which you choose one:")} <code>hedgerow users reset-password {user.email}</code>
        </p>
      </Panel>
    );
  return (
    <Panel title={t("Password")}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["current_password", "password"]} />
        <TextField label={t("Current password")} type="password" autocomplete="current-password" required error={form.errorOf("current_password")} value={current} onInput={setCurrent} />
        <TextField
          label={t("New password")}
          type="password"
          autocomplete="new-password"
          minLength={12}
          required
          hint={t("At least 12 characters. All your other sessions end.")}
          error={form.errorOf("password")}
          value={password}
          onInput={setPassword}
        />
        <div>
          <Button type="submit" disabled={form.isBusy || usesKey()}>
            {t("Change the password")}
          </Button>
        </div>
      </form>
    </Panel>
  );
}

function Sessions() {
  const [isEnding, setEnding] = useState(false);
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: () => get<LoginSession[]>("/api/users/@me/sessions/") });
  const end = useMutation({
    mutationFn: (id: string | null) => call("DELETE", id ? `/api/users/@me/sessions/${id}/` : "/api/users/@me/sessions/"),
    onSuccess: () => setEnding(false),
    onError: notifyError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["sessions"] }),
  });
  const others = (sessions.data ?? []).filter((each) => !each.is_current).length;
  return (
    <Panel
      title={t("Sessions")}
      actions={
        <Button isSmall disabled={others === 0} onClick={() => setEnding(true)}>
          {t("End all others")}
        </Button>
      }
      isFlush
    >
      <Await query={sessions} rows={2}>
        {(found) =>
          found.length ? (
            <table class="table cards">
              <thead>
                <tr>
                  <th scope="col">{t("Browser")}</th>
                  <th scope="col">{t("Address")}</th>
                  <th scope="col">{t("Last used")}</th>
                  <th scope="col">{t("Logged in")}</th>
                  <th scope="col" class="shrink">
                    <span class="hidden-text">{t("Actions")}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {found.map((each) => (
                  <tr key={each.id}>
                    <td class="first" title={each.user_agent}>
                      <span class="name">{describeBrowser(each.user_agent)}</span> {each.is_current && <span class="tag on">{t("This one")}</span>}
                    </td>
                    <td class="mono">
                      <Value value={each.address} maxChars={60} />
                    </td>
                    <td class="muted">
                      <Ago at={each.last_used_at} />
                    </td>
                    <td class="muted drop">
                      <Ago at={each.created_at} />
                    </td>
                    <td class="shrink end corner">
                      <Button isSmall disabled={each.is_current || end.isPending} title={each.is_current ? t("Log out to end it") : undefined} onClick={() => end.mutate(each.id)}>
                        {t("End")}
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <p class="body muted">{t("There is no open session: this tab uses a personal API key.")}</p>
          )
        }
      </Await>
      <Confirm
        title={t("End all other sessions?")}
        action={tn(others, "End {n} session", "End {n} sessions")}
        isDangerous
        isOpen={isEnding}
        isBusy={end.isPending}
        onConfirm={() => end.mutate(null)}
        onClose={() => setEnding(false)}
      >
        <p>{tn(others, "{n} other browser has to log in again. This one stays.", "{n} other browsers have to log in again. This one stays.")}</p>
      </Confirm>
    </Panel>
  );
}
