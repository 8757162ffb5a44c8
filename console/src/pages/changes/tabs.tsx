// The pages about changes that need approval.
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Tabs } from "../../ui/page";

export function ChangeTabs({ current }: { current: "requests" | "policies" }) {
  const { root } = useProject();
  return (
    <Tabs
      label={t("Parts of changes")}
      current={current}
      tabs={[
        { name: "requests", label: t("Requests"), to: `${root}/changes` },
        { name: "policies", label: t("Approval policies"), to: `${root}/changes/policies` },
      ]}
    />
  );
}
