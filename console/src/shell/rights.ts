// What the person may do here. Only the API decides; pages use it to say so before a person tries.
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/client";
import { usesKey } from "../api/session";
import type { Member, PersonalKey } from "../api/types";
import { includes } from "../lib/scopes";
import { t } from "../lib/text";
import { useProject } from "./project";

export const OWNER_LEVEL = 15;
export const OWNERS_ONLY = t("Only owners of the organization may do this.");
export const NOT_ALLOWED = t("Your role in this project does not include this. Ask an owner of the organization.");
const STALE_MS = 60_000;

export interface Rights {
  isKnown: boolean;
  isOwner: boolean;
  /** Whether the person has a scope in the project of the page. True until it is known. */
  may: (scope: string) => boolean;
  /** Why not, as a tip on a disabled control; undefined if the person may. */
  reason: (scope: string) => string | undefined;
}

export function useRights(): Rights {
  const { id } = useProject();
  const member = useQuery({ queryKey: ["member", "@me"], queryFn: () => get<Member>("/api/organizations/@current/members/@me/"), staleTime: STALE_MS });
  const key = useQuery({ queryKey: ["key", "@current"], queryFn: () => get<PersonalKey>("/api/personal_api_keys/@current/"), enabled: usesKey(), staleTime: STALE_MS });
  const may = (scope: string) => (!member.data || includes(member.data.scopes[id] ?? [], scope)) && (!key.data || includes(key.data.scopes, scope));
  return {
    isKnown: !!member.data,
    isOwner: member.data?.level === OWNER_LEVEL,
    may,
    reason: (scope) => (may(scope) ? undefined : NOT_ALLOWED),
  };
}

/** Return whether the person has a scope such as `cohort:write`. True while that is not known. */
export function useMay(scope: string): boolean {
  return useRights().may(scope);
}

/** Return why the person may not use a scope, as a tip on a disabled control; undefined if the person may. */
export function useRefusal(scope: string): string | undefined {
  return useRights().reason(scope);
}
