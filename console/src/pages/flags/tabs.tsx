// The pages about flags.
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Tabs } from "../../ui/page";

export function FlagTabs({ current }: { current: "flags" | "rollouts" | "scheduled" | "environments" }) {
  const { root } = useProject();
  return (
    <Tabs
      label={t("Parts of feature flags")}
      current={current}
      tabs={[
        { name: "flags", label: t("Flags"), to: `${root}/feature_flags` },
        { name: "rollouts", label: t("Rollouts"), to: `${root}/rollout_plans` },
        { name: "scheduled", label: t("Scheduled changes"), to: `${root}/feature_flags/scheduled_changes` },
        { name: "environments", label: t("Environments"), to: `${root}/environments` },
      ]}
    />
  );
}
