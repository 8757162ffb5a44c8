// Choose scopes: what a key or a role may read and change.
import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import type { Role } from "../../api/types";
import { type Level, nameObject, readLevels } from "../../lib/scopes";
import { t } from "../../lib/text";
import { Button, Choices } from "../../ui/controls";
import { Await } from "../../ui/states";

export const ROLES_PATH = "/api/organizations/@current/roles/";
export const useRoles = () => useQuery({ queryKey: ["roles"], queryFn: () => get<Role[]>(ROLES_PATH), staleTime: 30_000 });

export function ScopePicker({ scopes, onChange, allowsAll }: { scopes: string[]; onChange: (scopes: string[]) => void; allowsAll: boolean }) {
  const roles = useRoles();
  const levels = readLevels(scopes);
  const change = (object: string, level: Level) => {
    const rest = scopes.filter((each) => each !== "*" && each.split(":")[0] !== object);
    onChange(level === "none" ? rest : [...rest, `${object}:${level}`]);
  };
  return (
    <Await query={roles} rows={4}>
      {(found) => {
        const admin = found.find((each) => each.id === "admin")?.scopes ?? [];
        const objects = [...new Set(admin.map((each) => each.split(":")[0]!))].sort();
        const all = (level: Level) => objects.map((each) => `${each}:${level}`);
        return (
          <fieldset class="stack plain">
            <legend class="label">{t("What it may do")}</legend>
            <div class="row">
              {allowsAll && (
                <Button isSmall onClick={() => onChange(["*"])} aria-pressed={scopes.includes("*")}>
                  {t("Everything")}
                </Button>
              )}
              <Button isSmall onClick={() => onChange(all("read"))}>
                {t("Read everything")}
              </Button>
              {found
                .filter((each) => each.id === "editor" || each.id === "viewer")
                .map((each) => (
                  <Button key={each.id} isSmall onClick={() => onChange([...each.scopes].filter((scope) => !(scope.endsWith(":read") && each.scopes.includes(scope.replace(/read$/, "write")))))}>
                    {t("Like {role}", { role: each.name })}
                  </Button>
                ))}
              <Button isSmall onClick={() => onChange([])}>
                {t("Nothing")}
              </Button>
            </div>
            {scopes.includes("*") ? (
              <p class="notice warn">{t("It may do everything that you may do, now and later: also create keys.")}</p>
            ) : (
              <ul class="scopes" tabIndex={0} aria-label={t("Scopes")}>
                {objects.map((object) => (
                  <li class="row spread" key={object}>
                    <span>{nameObject(object)}</span>
                    <Choices<Level>
                      label={nameObject(object)}
                      value={levels.get(object) ?? "none"}
                      choices={[
                        { value: "none", label: t("No") },
                        { value: "read", label: t("Read") },
                        { value: "write", label: t("Write") },
                      ]}
                      onChange={(level) => change(object, level)}
                    />
                  </li>
                ))}
              </ul>
            )}
          </fieldset>
        );
      }}
    </Await>
  );
}
