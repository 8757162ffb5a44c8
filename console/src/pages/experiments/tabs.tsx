// The pages about experiments.
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Tabs } from "../../ui/page";

export function ExperimentTabs({ current }: { current: "experiments" | "holdouts" }) {
  const { root } = useProject();
  return (
    <Tabs
      label={t("Parts of experiments")}
      current={current}
      tabs={[
        { name: "experiments", label: t("Experiments"), to: `${root}/experiments` },
        { name: "holdouts", label: t("Holdouts"), to: `${root}/experiments/holdouts` },
      ]}
    />
  );
}
