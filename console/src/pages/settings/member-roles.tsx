// The level of a member, and its role in each project.
import { t } from "../../lib/text";
import { OWNER_LEVEL } from "../../shell/rights";
import { Choices, IconButton, Select } from "../../ui/controls";
import type { Submission } from "../../ui/forms";
import { ProjectName, ProjectSearch } from "./project-picker";
import { useRoles } from "./scopes";

const MEMBER_LEVEL = 1;

export interface MemberRoles {
  level: number;
  project_roles: Record<string, string>;
}

export function LevelAndRoles({ value, onChange, form }: { value: MemberRoles; onChange: (value: MemberRoles) => void; form: Submission }) {
  const roles = useRoles();
  const choices = (roles.data ?? []).map((each) => ({ value: each.id, label: each.name }));
  const setRole = (id: string, role: string) => onChange({ ...value, project_roles: { ...value.project_roles, [id]: role } });
  const remove = (id: string) => onChange({ ...value, project_roles: Object.fromEntries(Object.entries(value.project_roles).filter(([each]) => each !== id)) });
  return (
    <>
      <div class="field">
        <span class="label">{t("In the organization")}</span>
        <Choices
          label={t("In the organization")}
          value={value.level === OWNER_LEVEL ? "owner" : "member"}
          choices={[
            { value: "member", label: t("Member") },
            { value: "owner", label: t("Owner") },
          ]}
          onChange={(level) => onChange({ ...value, level: level === "owner" ? OWNER_LEVEL : MEMBER_LEVEL })}
        />
        {form.errorOf("level") && <span class="error-text">{form.errorOf("level")}</span>}
      </div>
      {value.level === OWNER_LEVEL ? (
        <p class="notice warn">{t("An owner may do everything in all projects, and change members.")}</p>
      ) : (
        <fieldset class="stack s plain">
          <legend class="label">{t("Role in each project")}</legend>
          {Object.keys(value.project_roles).length === 0 && <p class="hint">{t("Without a role the member sees no project.")}</p>}
          {Object.entries(value.project_roles).map(([id, role]) => (
            <div class="row" key={id}>
              <span class="grow cut">
                <ProjectName id={Number(id)} />
              </span>
              <Select label={t("Role in project {id}", { id })} isNarrow value={role} choices={choices} onChange={(next) => setRole(id, next)} />
              <IconButton isSmall icon="close" label={t("No role in project {id}", { id })} onClick={() => remove(id)} />
            </div>
          ))}
          <ProjectSearch label={t("Add a project")} without={Object.keys(value.project_roles).map(Number)} onChoose={(id) => setRole(String(id), "viewer")} />
          {form.errorOf("project_roles") && <span class="error-text">{form.errorOf("project_roles")}</span>}
        </fieldset>
      )}
    </>
  );
}
