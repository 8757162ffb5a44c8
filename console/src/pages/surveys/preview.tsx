// How a survey looks, question by question. Texts only: markup is shown without its tags.
import { useState } from "preact/hooks";
import { t } from "../../lib/text";
import { Button } from "../../ui/controls";
import { Value } from "../../ui/show";
import { type DraftQuestion, stripTags, type SurveyDraft } from "./draft";

const COLOR = /^(#[0-9a-f]{3,8}|[a-z]{3,20})$/i;
const FACES: Record<number, string[]> = { 2: ["👍", "👎"], 3: ["🙁", "😐", "🙂"], 5: ["😡", "🙁", "😐", "🙂", "😍"] };

const color = (value: unknown): string | undefined => (typeof value === "string" && COLOR.test(value) ? value : undefined);

export function SurveyPreview({ draft }: { draft: SurveyDraft }) {
  const [step, setStep] = useState(0);
  const index = Math.min(step, draft.questions.length);
  const question = draft.questions[index];
  const { appearance } = draft;
  const button = { background: color(appearance.submitButtonColor), color: color(appearance.submitButtonTextColor), borderColor: color(appearance.submitButtonColor) };
  return (
    <section class="panel" aria-label={t("Preview")}>
      <div class="head">
        <h2>{t("Preview")}</h2>
        <span class="row tight">
          <Button isSmall icon="left" disabled={index === 0} onClick={() => setStep(index - 1)} aria-label={t("Previous question of the preview")} />
          <span class="muted small">{t("{n} of {count}", { n: index + 1, count: draft.questions.length + 1 })}</span>
          <Button isSmall icon="right" disabled={!question} onClick={() => setStep(index + 1)} aria-label={t("Next question of the preview")} />
        </span>
      </div>
      <div class="body">
        <div class="survey-card" style={{ background: color(appearance.backgroundColor), borderColor: color(appearance.borderColor), color: color(appearance.textColor) }}>
          {question ? (
            <>
              <strong>
                <Value value={stripTags(question.question) || t("Your question")} maxChars={300} />
                {!question.optional && question.type !== "link" && <span aria-hidden="true"> *</span>}
              </strong>
              {question.description && (
                <p class="small">
                  <Value value={stripTags(question.description)} maxChars={300} />
                </p>
              )}
              <Answer question={question} placeholder={stripTags(appearance.placeholder)} />
              <button type="button" class="button primary" style={button} onClick={() => setStep(index + 1)}>
                {stripTags(question.buttonText) || stripTags(appearance.submitButtonText) || (question.type === "link" ? t("Open") : t("Submit"))}
              </button>
            </>
          ) : (
            <>
              <strong>
                <Value value={stripTags(appearance.thankYouMessageHeader) || t("Thank you for your feedback!")} maxChars={200} />
              </strong>
              <p class="small">
                <Value value={stripTags(appearance.thankYouMessageDescription)} maxChars={300} />
              </p>
            </>
          )}
        </div>
      </div>
    </section>
  );
}

function Answer({ question, placeholder }: { question: DraftQuestion; placeholder: string }) {
  if (question.type === "open") return <div class="fake-input">{placeholder || t("Start typing…")}</div>;
  if (question.type === "rating") {
    const scale = question.scale ?? 10;
    const faces = question.display === "emoji" ? FACES[scale] : undefined;
    const marks = faces ?? Array.from({ length: scale === 10 ? 11 : scale }, (_, index) => String(scale === 10 ? index : index + 1));
    return (
      <div class="stack s">
        <div class={`scale ${faces ? "faces" : ""}`}>
          {marks.map((mark) => (
            <span key={mark}>{mark}</span>
          ))}
        </div>
        <div class="row spread small">
          <span>
            <Value value={question.lowerBoundLabel} maxChars={40} />
          </span>
          <span>
            <Value value={question.upperBoundLabel} maxChars={40} />
          </span>
        </div>
      </div>
    );
  }
  return (
    <ul class="stack s">
      {(question.choices ?? []).map((choice, index, all) => (
        <li key={index} class="fake-input">
          {question.type === "single_choice" ? "○ " : "☐ "}
          <Value value={choice} maxChars={80} />
          {question.hasOpenChoice && index === all.length - 1 && ": ______"}
        </li>
      ))}
    </ul>
  );
}
