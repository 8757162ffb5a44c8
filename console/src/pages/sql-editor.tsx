// CodeMirror with HogQL: completion, highlighting, and errors where they are. Loaded with the query page only.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { sql, StandardSQL } from "@codemirror/lang-sql";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { nonce } from "../nonce";

const SCHEMA = {
  events: ["uuid", "event", "timestamp", "created_at", "distinct_id", "person_id", "properties", "elements_chain", "person", "$session_id"],
  persons: ["id", "created_at", "properties", "is_identified", "distinct_ids"],
  groups: ["index", "key", "created_at", "properties"],
  cohort_people: ["person_id", "cohort_id"],
  person_distinct_ids: ["distinct_id", "person_id"],
};
const highlight = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--warning)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--info)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
]);
// Marks the place of an error. Its message stands below the editor.
const setProblem = StateEffect.define<{ from: number; to: number } | null>();
const problems = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, change) {
    for (const effect of change.effects)
      if (effect.is(setProblem)) return effect.value ? Decoration.set(Decoration.mark({ class: "cm-problem" }).range(effect.value.from, effect.value.to)) : Decoration.none;
    return change.docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});
const theme = EditorView.theme({
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)" },
  ".cm-gutters": { background: "var(--sunken)", color: "var(--faint)", border: "0", borderRadius: "6px 0 0 6px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "var(--accent-soft) !important" },
  ".cm-tooltip": { background: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent-soft)", color: "var(--accent-strong)" },
});

interface Props {
  label: string;
  value: string;
  problem: { line: number; column: number; message: string } | null;
  onChange: (text: string) => void;
  onRun: () => void;
}

/** Return the word at the place of a problem, null if there is no text. */
function findRange(state: EditorState, problem: { line: number; column: number }): { from: number; to: number } | null {
  const line = state.doc.line(Math.min(Math.max(problem.line, 1), state.doc.lines));
  const from = Math.min(line.from + problem.column - 1, Math.max(line.to - 1, line.from));
  const to = Math.min(state.wordAt(from)?.to ?? from + 1, state.doc.length);
  return to > from ? { from, to } : null;
}

export function SqlEditor({ label, value, problem, onChange, onRun }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef({ onChange, onRun });
  latest.current = { onChange, onRun };
  useEffect(() => {
    const run = () => {
      latest.current.onRun();
      return true;
    };
    view.current = new EditorView({
      parent: place.current!,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          lineNumbers(),
          history(),
          closeBrackets(),
          autocompletion(),
          keymap.of([{ key: "Mod-Enter", run }, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
          sql({ dialect: StandardSQL, schema: SCHEMA, defaultTable: "events" }),
          syntaxHighlighting(highlight),
          theme,
          problems,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    return () => view.current?.destroy();
  }, []);
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    editor.dispatch({ effects: setProblem.of(problem && findRange(editor.state, problem)) });
  }, [problem?.message, problem?.line, problem?.column]);
  return <div class="editor-host" ref={place} />;
}
