// The edited survey: what the form changes and what the API gets. Pure.
import type { FlagFilters, PropertyFilter, Survey } from "../../api/types";
import type { FilterGroup } from "../cohorts/definition";
import { isSame, newUid } from "../flag/draft";

export type QuestionType = "open" | "link" | "rating" | "single_choice" | "multiple_choice";

/** A question as it is stored, with an id of its own for the form. */
export interface DraftQuestion {
  uid: string;
  id?: string;
  type: QuestionType;
  question: string;
  description?: string | null;
  optional?: boolean;
  buttonText?: string | null;
  link?: string | null;
  display?: string;
  scale?: number;
  lowerBoundLabel?: string;
  upperBoundLabel?: string;
  choices?: string[];
  hasOpenChoice?: boolean;
  shuffleOptions?: boolean;
  branching?: unknown;
  [name: string]: unknown;
}

type Document = Record<string, unknown>;

export interface SurveyDraft {
  name: string;
  description: string;
  type: string;
  questions: DraftQuestion[];
  conditions: Document;
  appearance: Document;
  flagId: number | null;
  /** Who sees it; null if the conditions of the flag are more than the form can show. */
  groups: FilterGroup[] | null;
  limit: string;
}

/** Return what a question of a type has, keeping its texts. */
export function setType(question: DraftQuestion, type: QuestionType): DraftQuestion {
  const { uid, id, question: text, description, optional, buttonText, branching } = question;
  const base = Object.fromEntries(Object.entries({ id, description, optional, buttonText, branching }).filter(([, value]) => value !== undefined));
  const own: Record<QuestionType, object> = {
    open: {},
    link: { link: "" },
    rating: { display: "number", scale: 10, lowerBoundLabel: "Unlikely", upperBoundLabel: "Very likely" },
    single_choice: { choices: question.choices ?? ["Yes", "No"] },
    multiple_choice: { choices: question.choices ?? ["Tutorials", "Examples", "Other"] },
  };
  return { uid, question: text, ...base, ...own[type], type } as DraftQuestion;
}

export const newQuestion = (): DraftQuestion => ({ uid: newUid(), type: "open", question: "" });

/** Return the groups that the conditions of a targeting flag mean; null if they have shares or variants. */
export function readTargeting(filters: FlagFilters | null | undefined): FilterGroup[] | null {
  const groups = filters?.groups ?? [];
  if (groups.some((each) => (each.rollout_percentage ?? 100) !== 100 || each.variant)) return null;
  // A condition without filters is for everyone, as if there were none.
  if (groups.some((each) => !each.properties?.length)) return [];
  return groups.map((each) => ({ uid: newUid(), filters: (each.properties ?? []).map((filter: PropertyFilter) => ({ ...filter, uid: newUid() })) }));
}

export function writeTargeting(groups: FilterGroup[]): FlagFilters {
  return { groups: groups.map((group) => ({ properties: group.filters.map(({ uid: _, ...filter }) => filter as PropertyFilter), rollout_percentage: 100 })) };
}

export function readDraft(saved: Survey | null): SurveyDraft {
  const questions = (saved?.questions ?? []) as Omit<DraftQuestion, "uid">[];
  return {
    name: saved?.name ?? "",
    description: saved?.description ?? "",
    type: saved?.type ?? "popover",
    questions: saved ? questions.map((each) => ({ ...each, uid: newUid() }) as DraftQuestion) : [newQuestion()],
    conditions: { ...(saved?.conditions ?? {}) },
    appearance: { ...(saved?.appearance ?? {}) },
    flagId: saved?.linked_flag_id ?? null,
    groups: readTargeting((saved?.targeting_flag as { filters?: FlagFilters } | null | undefined)?.filters),
    limit: saved?.responses_limit ? String(saved.responses_limit) : "",
  };
}

/** Leave out what is empty: missing, null and "" mean the same to a survey. */
function compact(document: Document): Document | null {
  const kept = Object.fromEntries(Object.entries(document).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  return Object.keys(kept).length ? kept : null;
}

function writeAll(draft: SurveyDraft): Document {
  return {
    name: draft.name,
    description: draft.description,
    type: draft.type,
    questions: draft.questions.map(({ uid: _, ...question }) => (question.choices ? { ...question, choices: question.choices.filter((each) => each.trim()) } : question)),
    conditions: compact(draft.conditions),
    appearance: compact(draft.appearance),
    linked_flag_id: draft.flagId,
    responses_limit: Number(draft.limit) > 0 ? Number(draft.limit) : null,
  };
}

/** The fields that the API gets: all of a new survey, only what differs of a saved one. */
export function toFields(draft: SurveyDraft, saved: Survey | null): Document {
  const all = writeAll(draft);
  const before = writeAll(readDraft(saved));
  const fields = saved ? Object.fromEntries(Object.entries(all).filter(([name, value]) => !isSame(value, before[name]))) : Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
  const stored = readDraft(saved).groups;
  if (draft.groups && stored && !isSame(writeTargeting(draft.groups), writeTargeting(stored))) {
    if (draft.groups.length) fields.targeting_flag_filters = writeTargeting(draft.groups);
    else fields.remove_targeting_flag = true;
  }
  return fields;
}

export function findProblem(draft: SurveyDraft): string | undefined {
  if (!draft.name.trim()) return "A survey needs a name.";
  if (!draft.questions.length) return "A survey needs a question.";
  if (draft.questions.some((each) => !each.question.trim())) return "Every question needs its text.";
  if (draft.questions.some((each) => each.choices && !each.choices.some((choice) => choice.trim()))) return "A question has no choices.";
  if (draft.groups?.some((group) => !group.filters.length || group.filters.some((each) => !each.key))) return "A filter has no property.";
  return undefined;
}

export type SurveyState = "draft" | "running" | "ended" | "archived";

export function getState(survey: Survey): SurveyState {
  return survey.archived ? "archived" : !survey.start_date ? "draft" : survey.end_date ? "ended" : "running";
}

/** Text without tags, for places that show text only. */
export const stripTags = (text: unknown): string => String(text ?? "").replace(/<(br|\/p|\/div|\/li)\b[^>]*>/gi, " ").replace(/<[^>]*>/g, "").replace(/\s+/g, " ").trim();
