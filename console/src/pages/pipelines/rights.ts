// What the person may do in this project. The API decides; this only explains beforehand.
import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import { usesKey } from "../../api/session";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";

interface Member {
  scopes: Record<string, string[]>;
}

/** Return why the person may not do this; empty if they may, or if only the API knows. */
export function useRefusal(scope: string): string {
  const { id } = useProject();
  const member = useQuery({
    queryKey: ["rights"],
    queryFn: () => get<Member>("/api/organizations/@current/members/@me/"),
    staleTime: 60_000,
    // A personal key has scopes of its own, which it may not read.
    enabled: !usesKey(),
    retry: false,
  });
  const scopes = member.data?.scopes[id];
  if (!scopes || scopes.includes("*") || scopes.includes(scope)) return "";
  return t("Your role does not include this. Ask an admin of the project.");
}
