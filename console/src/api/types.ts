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
export type Holdout = Schemas["HoldoutItem"];
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
export type ScheduledChange = Omit<Schemas["ScheduledChangeItem"], "payload" | "created_by"> & { payload: { operation?: string; value?: unknown }; created_by: { first_name?: string; email?: string } | null };
export type Product = Schemas["ProductItem"];
export type MatrixRow = Schemas["MatrixItem"];
export type MatrixCell = Schemas["FlagCell"];
export type FieldDifference = Schemas["FieldDifference"];
export type Comparison = Schemas["ComparisonItem"];
export type Promotion = Schemas["PromotionItem"];
export type CodeReference = Schemas["CodeReferenceItem"];
export type FlagStatus = Schemas["FlagStatus"];
export type MetricEvidence = Schemas["MetricEvidence"];
export type Bandit = Schemas["BanditItem"];
export type BanditAllocation = Schemas["AllocationItem"];
export type RolloutEvaluation = Schemas["EvaluationItem"];
export type RolloutPlan = Omit<Schemas["RolloutPlanItem"], "steps" | "metrics" | "created_by"> & { steps: RolloutStep[]; metrics: Guardrail[]; created_by: { first_name?: string; email?: string } | null };
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

export interface RolloutStep {
  rollout_percentage: number;
  duration_seconds: number;
}

/** A metric that must not get worse while a flag is rolled out. */
export interface Guardrail {
  name: string;
  type: string;
  harm: string;
  min_persons: number;
  event?: string;
  properties?: PropertyFilter[];
  denominator_event?: string;
  denominator_properties?: PropertyFilter[];
  property?: string;
  expression?: string;
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

/** Which changes of flags need how many approvals of whom. */
export interface ApprovalPolicy {
  id: string;
  action_key: string;
  conditions: { tags: string[]; fields: string[]; protected: boolean; changed_percent: number | null; properties: PropertyFilter[] };
  approver_config: { quorum: number; users: number[]; roles: string[] };
  expires_after: string;
  enabled: boolean;
  version: number;
  created_at: string;
  updated_at: string;
}

export interface WhatIfFigures {
  error?: string;
  days: number;
  total_persons: number;
  evaluated_persons: number;
  is_complete: boolean;
  changed_persons: number;
  changes: { before: string; after: string; persons: number }[];
}

/** A change that waits for approvals, or waited for them. */
export interface ChangeRequest {
  id: string;
  action_key: string;
  resource_type: string;
  resource_id: string | null;
  resource_name: string;
  intent: { gated_changes: Record<string, unknown>; current_state: Record<string, unknown> };
  required_approvals: { policy_id: string; quorum: number; approvals: number; roles: string[]; reason: string }[];
  state: string;
  created_by: { first_name: string };
  created_at: string;
  expires_at: string;
  apply_error: string;
  what_if: WhatIfFigures | null;
  approvals: { id: string; created_by: { first_name: string }; decision: string; reason: string; created_at: string }[];
  comments: { id: string; created_by: { first_name: string }; content: string; created_at: string }[];
  can_approve: boolean;
  can_cancel: boolean;
  can_break_glass: boolean;
  is_requester: boolean;
  user_decision: string | null;
}
