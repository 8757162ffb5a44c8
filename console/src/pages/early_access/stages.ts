import { t } from "../../lib/text";

/** The stages in the order that a feature goes through them, with what each means. */
export const STAGES = [
  { value: "draft", label: t("Draft"), tone: "", meaning: t("No one sees it, and opt-ins have no effect.") },
  { value: "concept", label: t("Concept"), tone: "info", meaning: t("People can say that they are interested. The flag does not follow them yet.") },
  { value: "alpha", label: t("Alpha"), tone: "warn", meaning: t("The flag is on for everyone who opted in.") },
  { value: "beta", label: t("Beta"), tone: "warn", meaning: t("The flag is on for everyone who opted in.") },
  { value: "general-availability", label: t("General availability"), tone: "on", meaning: t("The flag is on for everyone who opted in. Roll it out to the others in the flag itself.") },
  { value: "archived", label: t("Archived"), tone: "", meaning: t("It is over: no one sees it, and opt-ins have no effect.") },
];

export const findStage = (value: string) => STAGES.find((each) => each.value === value) ?? STAGES[0]!;

/** The parameters that find the persons who opted in to the feature of a flag. */
export const enrolledIn = (flagKey: string) => ({ properties: JSON.stringify([{ key: `$feature_enrollment/${flagKey}`, type: "person", operator: "exact", value: ["true"] }]) });
