// Destinations that can get messages: webhooks and Slack. Alerts and subscriptions choose among them.
import { useQuery } from "@tanstack/react-query";
import { get } from "../../../api/client";
import type { Page } from "../../../api/types";
import { t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { Value } from "../../../ui/show";

export interface Destination {
  id: number;
  name: string;
  enabled: boolean;
  plugin?: number | null;
  plugin_info?: { url?: string | null; name?: string } | null;
  [name: string]: unknown;
}

export function useDestinations() {
  const { api } = useProject();
  return useQuery({ queryKey: ["destinations", api], queryFn: () => get<Page<Destination>>(`${api}/pipeline_destination_configs/`, { limit: 100 }), staleTime: 30_000 });
}

export function DestinationChecks({ chosen, onChange }: { chosen: number[]; onChange: (ids: number[]) => void }) {
  const destinations = useDestinations();
  const all = destinations.data?.results ?? [];
  return (
    <fieldset class="plain">
      <legend class="label">{t("Messages go to")}</legend>
      {destinations.isPending ? (
        <span class="muted">{t("Loading…")}</span>
      ) : destinations.error ? (
        <span class="muted">{t("You may not see destinations. An alert without one is only shown here.")}</span>
      ) : all.length ? (
        <div class="stack s">
          {all.map((each) => (
            <label class="check" key={each.id}>
              <input type="checkbox" checked={chosen.includes(each.id)} onChange={(event) => onChange(event.currentTarget.checked ? [...chosen, each.id] : chosen.filter((id) => id !== each.id))} />
              <Value value={each.name} maxChars={60} />
              {!each.enabled && <span class="tag">{t("off")}</span>}
            </label>
          ))}
          {!chosen.length && <span class="hint">{t("None is chosen: no message is sent.")}</span>}
        </div>
      ) : (
        <span class="muted">{t("There is no destination yet. Create a webhook or a Slack message under Pipelines first.")}</span>
      )}
    </fieldset>
  );
}
