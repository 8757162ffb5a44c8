// What the person may do in the project. The service decides; pages only do not offer what it would refuse.
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/client";
import { t } from "../lib/text";
import { useProject } from "./project";

interface Rights {
  scopes: Record<string, string[]>;
}

/** Return whether the person has a scope such as `cohort:write`. True while that is not known. */
export function useMay(scope: string): boolean {
  const { id, project } = useProject();
  const rights = useQuery({
    queryKey: ["member", "@me"],
    queryFn: () => get<Rights>("/api/organizations/@current/members/@me/"),
    staleTime: 60_000,
    retry: false,
  });
  const scopes = rights.data?.scopes[String(project?.id ?? id)];
  return !scopes || scopes.includes(scope);
}

export const NOT_ALLOWED = t("Your role in this project may only look at this.");
