// Log lines of a record: by level, searched by the service, followed as they are written.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Page as PageOf } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { formatDate, t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button, SearchInput, Select } from "../../ui/controls";
import { Pager } from "../../ui/page";
import { Ago, copyText, Value } from "../../ui/show";
import { Await, Empty, NoMatch } from "../../ui/states";
import type { LogLine } from "./model";
import type { RecordProps } from "./record";

const LIMIT = 50;
const FOLLOW_MS = 2000;
const TONES: Record<string, string> = { error: "bad", warning: "warn", info: "info" };

export function Logs({ path }: RecordProps) {
  const { api } = useProject();
  const [url, change] = useUrlState();
  const [text, setText] = useState(url.get("search") ?? "");
  const search = useSettled(text.trim());
  const level = url.get("level") ?? "";
  const offset = Number(url.get("offset")) || 0;
  const [isFollowed, setFollowed] = useState(true);
  useEffect(() => {
    if (search !== (url.get("search") ?? "")) change({ search, offset: null });
  }, [search]);
  const isLive = isFollowed && offset === 0;
  const query = { level, search, limit: LIMIT, offset: offset || null };
  const logs = useQuery({
    queryKey: ["pipelines", api, path, "logs", query],
    queryFn: ({ signal }) => get<PageOf<LogLine>>(`${path}/logs/`, query, signal),
    placeholderData: keepPreviousData,
    refetchInterval: isLive ? FOLLOW_MS : false,
  });
  const clear = () => {
    setText("");
    change({ search: null, level: null, offset: null });
  };
  return (
    <>
      <div class="row">
        <SearchInput label={t("Search messages, or a uuid")} value={text} onInput={setText} />
        <Select
          label={t("Level")}
          isNarrow
          value={level}
          onChange={(value) => change({ level: value, offset: null })}
          choices={[
            { value: "", label: t("All levels") },
            { value: "error", label: t("Errors") },
            { value: "warning", label: t("Warnings") },
            { value: "info", label: t("Information") },
          ]}
        />
        <Button icon={isLive ? "pause" : "play"} aria-pressed={isLive} onClick={() => (offset ? change({ offset: null }) : setFollowed(!isFollowed))}>
          {isLive ? t("Following") : t("Follow")}
        </Button>
        <span class="grow" />
        <span class="muted small">{logs.data ? tn(logs.data.count, "{n} line", "{n} lines") : ""}</span>
      </div>
      <div class="panel flush">
        <Await query={logs}>
          {(page) =>
            page.results.length ? (
              <>
                <table class="table cards">
                  <thead>
                    <tr>
                      <th scope="col" class="shrink">
                        {t("When")}
                      </th>
                      <th scope="col" class="shrink">
                        {t("Level")}
                      </th>
                      <th scope="col">{t("Message")}</th>
                      <th scope="col" class="shrink">
                        {t("Event")}
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {page.results.map((line) => (
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
                    ))}
                  </tbody>
                </table>
                <Pager offset={offset} limit={LIMIT} count={page.count} onMove={(to) => change({ offset: to || null })} />
              </>
            ) : search || level ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty title={t("The log is empty")}>{t("Problems, jobs and pauses appear here. Events that arrive are only counted.")}</Empty>
            )
          }
        </Await>
      </div>
    </>
  );
}
