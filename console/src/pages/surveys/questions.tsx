// The questions of a survey, in order.
import { t } from "../../lib/text";
import { Button, Field, IconButton, Select } from "../../ui/controls";
import { Check, findError, TextField } from "../../ui/forms";
import { move } from "../flag/draft";
import { type DraftQuestion, newQuestion, type QuestionType, setType } from "./draft";

const TYPES: { value: QuestionType; label: string }[] = [
  { value: "open", label: t("Free text") },
  { value: "rating", label: t("Rating") },
  { value: "single_choice", label: t("One choice") },
  { value: "multiple_choice", label: t("Several choices") },
  { value: "link", label: t("Link") },
];

interface Props {
  questions: DraftQuestion[];
  error: unknown;
  onChange: (questions: DraftQuestion[]) => void;
}

export function Questions({ questions, error, onChange }: Props) {
  return (
    <section class="stack" aria-label={t("Questions")}>
      {questions.map((question, index) => {
        const number = index + 1;
        return (
          <div class="condition" key={question.uid} role="group" aria-label={t("Question {number}", { number })}>
            <header>
              <h2 class="grow">{t("Question {number}", { number })}</h2>
              {question.branching ? <span class="tag">{t("with branching")}</span> : null}
              <IconButton isSmall icon="up" label={t("Move question {number} up", { number })} disabled={index === 0} onClick={() => onChange(move(questions, index, index - 1))} />
              <IconButton isSmall icon="down" label={t("Move question {number} down", { number })} disabled={number === questions.length} onClick={() => onChange(move(questions, index, index + 1))} />
              <IconButton isSmall icon="trash" label={t("Remove question {number}", { number })} disabled={questions.length === 1} onClick={() => onChange(questions.filter((each) => each !== question))} />
            </header>
            <div class="body">
              <QuestionForm question={question} error={findError(error, `questions__${index}`)} onChange={(changed) => onChange(questions.map((each) => (each === question ? changed : each)))} />
            </div>
          </div>
        );
      })}
      <div>
        <Button icon="plus" onClick={() => onChange([...questions, newQuestion()])}>
          {t("Add a question")}
        </Button>
      </div>
    </section>
  );
}

function QuestionForm({ question, error, onChange }: { question: DraftQuestion; error: string | undefined; onChange: (question: DraftQuestion) => void }) {
  const change = (part: Partial<DraftQuestion>) => onChange({ ...question, ...part });
  return (
    <>
      <div class="columns narrow">
        <Field label={t("Kind")}>{(attributes) => <Select {...attributes} label={t("Kind")} value={question.type} choices={TYPES} onChange={(type) => onChange(setType(question, type))} />}</Field>
        <TextField label={t("Question")} required value={question.question} onInput={(text) => change({ question: text })} error={error} />
      </div>
      <TextField label={t("Description")} value={question.description ?? ""} onInput={(description) => change({ description })} />
      {question.type === "link" && <TextField label={t("Address")} type="url" placeholder="https://" value={question.link ?? ""} onInput={(link) => change({ link })} />}
      {question.type === "rating" && (
        <>
          <div class="columns narrow">
            <Field label={t("Shown as")}>
              {(attributes) => (
                <Select
                  {...attributes}
                  label={t("Shown as")}
                  value={question.display ?? "number"}
                  choices={[
                    { value: "number", label: t("Numbers") },
                    { value: "emoji", label: t("Faces") },
                  ]}
                  onChange={(display) => change({ display, scale: display === "emoji" ? 5 : question.scale ?? 10 })}
                />
              )}
            </Field>
            <Field label={t("Scale")}>
              {(attributes) => (
                <Select
                  {...attributes}
                  label={t("Scale")}
                  value={String(question.scale ?? 10)}
                  choices={(question.display === "emoji" ? [2, 3, 5] : [3, 5, 7, 10]).map((value) => ({ value: String(value), label: value === 10 ? t("0 to 10 (NPS)") : value === 2 ? t("Thumbs") : t("1 to {n}", { n: value }) }))}
                  onChange={(value) => change({ scale: Number(value) })}
                />
              )}
            </Field>
          </div>
          <div class="columns narrow">
            <TextField label={t("At the low end")} value={question.lowerBoundLabel ?? ""} onInput={(lowerBoundLabel) => change({ lowerBoundLabel })} />
            <TextField label={t("At the high end")} value={question.upperBoundLabel ?? ""} onInput={(upperBoundLabel) => change({ upperBoundLabel })} />
          </div>
        </>
      )}
      {question.choices && (
        <>
          <TextField label={t("Choices, one on each line")} isLong value={question.choices.join("\n")} onInput={(text) => change({ choices: text.split("\n") })} />
          <div class="row">
            <Check label={t("The last choice is a text of their own")} isOn={!!question.hasOpenChoice} onChange={(hasOpenChoice) => change({ hasOpenChoice })} />
            <Check label={t("In random order")} isOn={!!question.shuffleOptions} onChange={(shuffleOptions) => change({ shuffleOptions })} />
          </div>
        </>
      )}
      <div class="row">
        <Check label={t("May be skipped")} isOn={!!question.optional} onChange={(optional) => change({ optional })} />
      </div>
    </>
  );
}
