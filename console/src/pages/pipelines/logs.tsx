// Log lines of a record: by level, searched by the service, followed as they are written.
import { useState } from "preact/hooks";
import { formatDate, t, tn } from "../../lib/text";
import { useProject } from "../../shell/project";
import { Button, Select } from "../../ui/controls";
import { List, useList, useListState } from "../../ui/list";
import { Ago, copyText, Value } from "../../ui/show";
import { Empty } from "../../ui/states";
import type { LogLine, RecordProps } from "./model";

const FOLLOW_MS = 2000;
const TONES: Record<string, string> = { error: "bad", warning: "warn", info: "info" };

export function Logs({ path }: RecordProps) {
  const { api } = useProject();
  const state = useListState("level");
  const [isFollowed, setFollowed] = useState(true);
  const isLive = isFollowed && state.offset === 0;
  const { level = "" } = state.filters;
  const logs = useList<LogLine>(["pipelines", api, path, "logs"], `${path}/logs/`, state, { level }, { everyMs: isLive && FOLLOW_MS });
  return (
    <List
      query={logs}
      state={state}
      search={t("Search messages, or a uuid")}
      controls={
        <>
          <Select
            label={t("Level")}
            isNarrow
            value={level}
            onChange={(value) => state.setFilter("level", value)}
            choices={[
              { value: "", label: t("All levels") },
              { value: "error", label: t("Errors") },
              { value: "warning", label: t("Warnings") },
              { value: "info", label: t("Information") },
            ]}
          />
          <Button icon={isLive ? "pause" : "play"} aria-pressed={isLive} onClick={() => (state.offset ? state.move({}) : setFollowed(!isFollowed))}>
            {isLive ? t("Following") : t("Follow")}
          </Button>
          <span class="grow" />
          <span class="muted small">{logs.data ? tn(logs.data.count, "{n} line", "{n} lines") : ""}</span>
        </>
      }
      empty={<Empty title={t("The log is empty")}>{t("Problems, jobs and pauses appear here. Events that arrive are only counted.")}</Empty>}
      columns={[{ label: t("When"), class: "shrink" }, { label: t("Level"), class: "shrink" }, t("Message"), { label: t("Event"), class: "shrink" }]}
    >
      {(items) =>
        items.map((line) => (
          <tr key={line.id}>
            <td class="shrink top muted first" title={formatDate(line.timestamp)}>
              <Ago at={line.timestamp} />
            </td>
            <td class="shrink top end">
              <span class={`tag ${TONES[line.level] ?? ""}`}>{line.level}</span>
            </td>
            <td class="wide">
              <Value value={line.message} maxChars={500} />
            </td>
            <td class="shrink top wide">
              {line.uuid && (
                <Button isSmall kind="quiet" class="mono" title={line.uuid} aria-label={t("Copy the uuid {uuid}", { uuid: line.uuid })} onClick={() => void copyText(line.uuid)}>
                  {line.uuid.slice(0, 8)}
                </Button>
              )}
            </td>
          </tr>
        ))
      }
    </List>
  );
}
