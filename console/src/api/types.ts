// The objects of the API, as its OpenAPI document describes them.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Flag = Omit<Schemas["FlagItem"], "filters"> & { filters: FlagFilters };
export type Person = Schemas["PersonItem"];
export type Activity = Omit<Schemas["ActivityItem"], "detail"> & { detail: Record<string, unknown> };
export type ActivityPage = Omit<Schemas["ActivityPage"], "results"> & { results: Activity[] };
export type Cohort = Schemas["CohortItem"];
export type Project = Schemas["ProjectDetail"];
export type User = Schemas["UserDetail"];
export type CohortDependents = Schemas["CohortDependents"];
export type Group = Schemas["GroupItem"] & { group_properties: Record<string, unknown> };
export type GroupType = Schemas["GroupTypeItem"];
export type Experiment = Omit<Schemas["ExperimentItem"], "feature_flag"> & { feature_flag: Flag };
export type ExperimentResults = Schemas["ExperimentResults"];
export type MetricResult = Schemas["MetricResult"];
export type VariantResult = Schemas["VariantResult"];
export type Survey = Schemas["SurveyItem"];
export type SurveyStats = Schemas["SurveyStats"];
export type Feature = Omit<Schemas["FeatureItem"], "feature_flag"> & { feature_flag: FlagSummary };
export type EventRecord = Schemas["EventRecord"];
export type Member = Schemas["MemberRights"];
export type MemberItem = Schemas["MemberItem"];
export type Role = Schemas["RoleItem"];
export type Invite = Schemas["InviteItem"];
export type PersonalKey = Schemas["KeyDetail"];
export type LoginSession = Schemas["SessionItem"];
export type ProjectSecrets = Schemas["ProjectSecrets"];
export type InstanceStatus = Schemas["InstanceStatus"];
export type Insight = Omit<Schemas["InsightItem"], "query" | "result"> & { query: Record<string, unknown>; result: unknown };
export type DashboardBasics = Schemas["DashboardBasics"];
export type Tile = Omit<Schemas["TileItem"], "insight" | "layouts"> & { insight: Insight | null; layouts: Record<string, unknown> };
export type Dashboard = Omit<Schemas["DashboardItem"], "tiles" | "filters"> & { tiles: Tile[]; filters: Record<string, unknown> };
export type Alert = Schemas["AlertItem"];
export type Subscription = Schemas["SubscriptionItem"];
export type Annotation = Schemas["AnnotationItem"];
export type EventDefinition = Schemas["EventDefinitionItem"];
export type PropertyDefinition = Schemas["PropertyDefinitionItem"];
export type Action = Omit<Schemas["ActionItem"], "steps"> & { steps: ActionStep[] };

/** An event matches a step if it matches all its fields. */
export interface ActionStep {
  event: string | null;
  url: string | null;
  url_matching: string | null;
  text: string | null;
  text_matching: string | null;
  href: string | null;
  href_matching: string | null;
  selector: string | null;
  tag_name: string | null;
  properties: PropertyFilter[];
}

export interface FlagSummary {
  id: number;
  key: string;
  name: string;
  active: boolean;
  deleted: boolean;
  filters: FlagFilters;
}

export interface Page<T> {
  count: number;
  next: string | null;
  previous: string | null;
  results: T[];
}

/** One filter of a condition. */
export interface PropertyFilter {
  key: string;
  type: string;
  operator?: string;
  value?: unknown;
  group_type_index?: number | null;
  [name: string]: unknown;
}

export interface ConditionSet {
  properties?: PropertyFilter[] | null;
  rollout_percentage?: number | null;
  variant?: string | null;
  description?: string | null;
  [name: string]: unknown;
}

export interface Variant {
  key: string;
  name?: string | null;
  rollout_percentage: number;
  [name: string]: unknown;
}

/** `payloads` are JSON texts by variant, or by "true". */
export interface FlagFilters {
  groups?: ConditionSet[];
  multivariate?: { variants: Variant[] } | null;
  payloads?: Record<string, unknown>;
  aggregation_group_type_index?: number | null;
  [name: string]: unknown;
}
