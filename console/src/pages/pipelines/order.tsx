// Transformations in the order in which they run: moved by drag, buttons or Alt with arrows.
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, queryClient } from "../../api/client";
import { t } from "../../lib/text";
import { useProject } from "../../shell/project";
import { IconButton } from "../../ui/controls";
import { Icon } from "../../ui/icons";
import { Table } from "../../ui/list";
import { notify, notifyError } from "../../ui/toasts";
import { move } from "../flag/draft";
import { RecordCells, recordColumns } from "./row";
import type { Family, Health, PipelineRecord } from "./model";

interface Props {
  family: Family;
  records: PipelineRecord[];
  health: Map<number, Health>;
  refusal: string | undefined;
}

export function TransformationOrder({ family, records, health, refusal }: Props) {
  const { api } = useProject();
  const [dragged, setDragged] = useState<number | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const [said, setSaid] = useState("");
  const focused = useRef("");
  const save = useMutation({
    mutationFn: (moved: PipelineRecord[]) =>
      call<PipelineRecord[]>("PATCH", `${api}/${family.records}/rearrange/?format=json`, { body: { orders: Object.fromEntries(moved.map((each, index) => [each.id, index + 1])) } }),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["pipelines"] }),
    onError: notifyError,
  });
  // What was moved stays moved until the list is loaded again.
  const shown = save.isPending ? save.variables : records;
  useEffect(() => {
    if (focused.current) document.getElementById(focused.current)?.focus();
    focused.current = "";
  });
  const moveTo = (from: number, to: number, control = "") => {
    const moved = move(shown, from, to);
    if (moved === shown || refusal || save.isPending) return;
    focused.current = control;
    const name = shown[from]!.name;
    setSaid(t("{name} now runs at position {to} of {count}.", { name, to: to + 1, count: shown.length }));
    save.mutate(moved, { onSuccess: () => notify(t("The new order is saved."), "good", { label: t("Undo"), run: () => save.mutate(records) }) });
  };
  const drop = (id: number) => {
    const from = shown.findIndex((each) => each.id === dragged);
    const to = shown.findIndex((each) => each.id === id);
    setDragged(null);
    setOver(null);
    if (from >= 0 && to >= 0 && from !== to) moveTo(from, to);
  };
  return (
    <>
      <span class="hidden-text" role="status">
        {said}
      </span>
      <Table label={t("Transformations in their order")} columns={[{ label: t("Order"), class: "shrink" }, ...recordColumns(family)]}>
        {shown.map((record, index) => (
          <tr
            key={record.id}
            class={`${dragged === record.id ? "dragged" : ""} ${over === record.id && dragged !== record.id ? "over" : ""}`}
            onDragOver={(event) => {
              if (dragged === null) return;
              event.preventDefault();
              setOver(record.id);
            }}
            onDrop={(event) => {
              event.preventDefault();
              drop(record.id);
            }}
            onKeyDown={(event) => {
              const step = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
              if (!event.altKey || !step) return;
              event.preventDefault();
              moveTo(index, index + step, (event.target as HTMLElement).id);
            }}
          >
            <td class="shrink wide">
              <div class="row tight">
                <span
                  class="grip"
                  draggable={!refusal}
                  title={refusal || t("Drag to move")}
                  onDragStart={(event) => {
                    event.dataTransfer?.setData("text/plain", String(record.id));
                    setDragged(record.id);
                  }}
                  onDragEnd={() => {
                    setDragged(null);
                    setOver(null);
                  }}
                >
                  <Icon name="grip" />
                </span>
                <span class="muted small position">{index + 1}</span>
                <IconButton
                  id={`up-${record.id}`}
                  isSmall
                  icon="up"
                  label={t("Run {name} earlier", { name: record.name })}
                  aria-disabled={index === 0 || !!refusal}
                  onClick={() => moveTo(index, index - 1, `up-${record.id}`)}
                />
                <IconButton
                  id={`down-${record.id}`}
                  isSmall
                  icon="down"
                  label={t("Run {name} later", { name: record.name })}
                  aria-disabled={index === shown.length - 1 || !!refusal}
                  onClick={() => moveTo(index, index + 1, `down-${record.id}`)}
                />
              </div>
            </td>
            <RecordCells family={family} record={record} health={health.get(record.id)} refusal={refusal} />
          </tr>
        ))}
      </Table>
      <p class="muted small note-row">{t("Every event goes through these from top to bottom. Move one by dragging, with the arrows, or with Alt and an arrow key.")}</p>
    </>
  );
}
