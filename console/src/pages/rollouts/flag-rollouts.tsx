// The part of the flag editor about rollouts.
import type { Flag } from "../../api/types";
import { t } from "../../lib/text";
import { buildUrl, useLocalState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { CreateLink, useListStateIn } from "../../ui/list";
import { FlagBandits } from "./flag-bandits";
import { PlanList, usePlans } from "./rollouts";

export function FlagRollouts({ flag }: { flag: Flag }) {
  const { root } = useProject();
  const state = useListStateIn(useLocalState(), "state");
  const plans = usePlans(state, { flag: flag.id });
  return (
    <section class="stack" aria-label={t("Rollout")}>
      {(plans.data?.count ?? 0) > 0 && (
        <div class="row end">
          <CreateLink to={buildUrl(`${root}/rollout_plans/new`, { flag: flag.id })} scope="feature_flag:write">
            {t("New rollout")}
          </CreateLink>
        </div>
      )}
      <PlanList plans={plans} state={state} flag={flag.id} />
      <FlagBandits flag={flag} />
    </section>
  );
}
