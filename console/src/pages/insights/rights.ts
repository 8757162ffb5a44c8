// Whether the person may change something. Only the API decides; pages say so before someone tries.
import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";

interface Member {
  scopes: Record<string, string[]>;
}

/** Return why the person may not use a scope such as `insight:write`, undefined if the person may or that is not known. */
export function useRefusal(scope: string): string | undefined {
  const { id } = useProject();
  const member = useQuery({ queryKey: ["member", "@me"], queryFn: () => get<Member>("/api/organizations/@current/members/@me/"), staleTime: 60_000, retry: false });
  const scopes = member.data?.scopes[id];
  return !scopes || scopes.includes(scope) ? undefined : t("Your role in this project may look at this, not change it.");
}
