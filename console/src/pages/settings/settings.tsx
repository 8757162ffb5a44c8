// The settings of the person, the project and the organization, each at its own address.
import type { FunctionComponent } from "preact";
import { useParams } from "wouter-preact";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Page, Tabs } from "../../ui/page";
import { Empty } from "../../ui/states";
import { AccountSettings } from "./account";
import { KeySettings } from "./keys";
import { MemberSettings } from "./members";
import { ProjectSettings } from "./project";
import { RoleSettings } from "./roles";

// The names in addresses are PostHog's where it has them.
const SECTIONS: { name: string; label: string; content: FunctionComponent }[] = [
  { name: "user", label: t("Your account"), content: AccountSettings },
  { name: "user-api-keys", label: t("Personal API keys"), content: KeySettings },
  { name: "project", label: t("Project"), content: ProjectSettings },
  { name: "organization-members", label: t("Members"), content: MemberSettings },
  { name: "organization-roles", label: t("Roles"), content: RoleSettings },
];

export function SettingsPage() {
  const { root } = useProject();
  const { section = "user" } = useParams<{ section?: string }>();
  const found = SECTIONS.find((each) => each.name === section);
  const tabs = SECTIONS.map((each) => ({ name: each.name, label: each.label, to: `${root}/settings/${each.name}` }));
  return (
    <Page title={t("Settings")}>
      <Tabs label={t("Settings")} tabs={tabs} current={section} />
      {found ? <found.content /> : <Empty title={t("There are no such settings")} />}
    </Page>
  );
}
