// The pages that the navigation and the command palette lead to.
import { t } from "../lib/text";
import type { IconName } from "../ui/icons";

export interface Destination {
  path: string;
  label: string;
  icon: IconName;
  keys: string;
  section?: string;
  /** Not in the navigation: a tab of another page leads there. */
  isMinor?: boolean;
  /** Below the navigation, where it never scrolls out of sight. */
  isFoot?: boolean;
  /** The scope that it needs, or only for owners: others do not see it in the navigation. */
  needs?: string;
  isForOwners?: boolean;
  /** The start of the addresses that belong to it, if it is not its path. */
  below?: string | RegExp;
}

/** Whether an address belongs to a destination. */
export const isBelow = ({ below, path }: Destination, at: string): boolean => (below instanceof RegExp ? below.test(at) : at.startsWith(below ?? path));

export const DESTINATIONS: Destination[] = [
  { path: "/home", label: t("Home"), icon: "home", keys: "g h" },
  { path: "/dashboard", label: t("Dashboards"), icon: "dashboard", keys: "g d", section: t("Analytics") },
  { path: "/insights", label: t("Insights"), icon: "insight", keys: "g i" },
  { path: "/activity/explore", label: t("Explore"), icon: "list", keys: "g e" },
  { path: "/activity/live", label: t("Live events"), icon: "live", keys: "g l" },
  { path: "/sql", label: t("Query"), icon: "query", keys: "g q" },
  { path: "/feature_flags", label: t("Feature flags"), icon: "flag", keys: "g f", section: t("Releases"), below: /^\/(feature_flags|rollout_plans|environments)/ },
  { path: "/rollout_plans", label: t("Rollouts"), icon: "flag", keys: "g u", isMinor: true },
  { path: "/environments", label: t("Environments"), icon: "flag", keys: "g t", isMinor: true },
  { path: "/changes", label: t("Changes"), icon: "history", keys: "g b" },
  { path: "/experiments", label: t("Experiments"), icon: "experiment", keys: "g x" },
  { path: "/experiments/holdouts", label: t("Holdouts"), icon: "experiment", keys: "g k", isMinor: true },
  { path: "/early_access_features", label: t("Early access"), icon: "early", keys: "g w" },
  { path: "/surveys", label: t("Surveys"), icon: "survey", keys: "g v" },
  { path: "/persons", label: t("Persons"), icon: "person", keys: "g p", section: t("People") },
  { path: "/cohorts", label: t("Cohorts"), icon: "cohort", keys: "g c" },
  { path: "/groups", label: t("Groups"), icon: "group", keys: "g o" },
  { path: "/pipeline", label: t("Pipelines"), icon: "pipeline", keys: "g n", section: t("Project") },
  { path: "/data-management/events", label: t("Events and properties"), icon: "tag", keys: "g m", below: /^\/data-management\/(events|properties|actions)/ },
  { path: "/data-management/ingestion-warnings", label: t("Ingestion"), icon: "warning", keys: "g r" },
  { path: "/activity_log", label: t("Activity"), icon: "history", keys: "g a", needs: "activity_log:read" },
  { path: "/settings", label: t("Settings"), icon: "settings", keys: "g s", isFoot: true },
  { path: "/system", label: t("System"), icon: "system", keys: "g y", isForOwners: true },
];
