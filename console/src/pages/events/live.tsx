// Events as they arrive. The page asks again while it is visible; older rows leave the list.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { EventRecord } from "../../api/types";
import { t, tn } from "../../lib/text";
import { useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Button } from "../../ui/controls";
import { Combobox } from "../../ui/combobox";
import { Page } from "../../ui/page";
import { Empty, Failed, Loading } from "../../ui/states";
import { useEventNames } from "./explore";
import { EventTable } from "./table";

const EVERY_MS = 2000;
const MAX_SHOWN = 200;
const LIMIT = 100;

export function LivePage() {
  const { api } = useProject();
  const [url, change] = useUrlState();
  const event = url.get("event") ?? "";
  const [name, setName] = useState(event);
  const [isPaused, setPaused] = useState(false);
  const [shown, setShown] = useState<EventRecord[]>([]);
  const [seen, setSeen] = useState(0);
  const [isSampled, setSampled] = useState(false);
  const ids = useRef(new Set<string>());
  const names = useEventNames(name);
  const latest = useQuery({
    queryKey: ["live", api, event],
    queryFn: ({ signal }) => get<{ results: EventRecord[] }>(`${api}/events/`, { event, after: "-1h", limit: LIMIT }, signal),
    refetchInterval: isPaused ? false : EVERY_MS,
    refetchIntervalInBackground: false,
    gcTime: 0,
  });
  useEffect(() => {
    ids.current.clear();
    setShown([]);
    setSeen(0);
  }, [event]);
  useEffect(() => {
    if (!latest.data || isPaused) return;
    const isFirst = ids.current.size === 0;
    const fresh = latest.data.results.filter((each) => !ids.current.has(each.id));
    setSampled(!isFirst && fresh.length === LIMIT);
    if (!fresh.length) return;
    setShown((before) => {
      const after = [...fresh, ...before].slice(0, MAX_SHOWN);
      ids.current = new Set(after.map((each) => each.id));
      return after;
    });
    if (!isFirst) setSeen((count) => count + fresh.length);
  }, [latest.data, isPaused]);
  return (
    <Page
      title={t("Live events")}
      sub={isPaused ? t("Paused") : tn(seen, "{n} event since you opened this page", "{n} events since you opened this page")}
      actions={
        <Button icon={isPaused ? "play" : "pause"} onClick={() => setPaused(!isPaused)}>
          {isPaused ? t("Continue") : t("Pause")}
        </Button>
      }
    >
      <div class="row">
        <div class="grow" style={{ maxWidth: "18rem" }}>
          <Combobox
            label={t("Event")}
            placeholder={t("Any event")}
            value={name}
            options={names}
            onInput={(value) => {
              setName(value);
              if (!value) change({ event: null });
            }}
            onChoose={(value) => {
              setName(value);
              change({ event: value });
            }}
          />
        </div>
        {isSampled && <span class="tag warn">{t("Events arrive faster than they are shown: only the newest {n} of each two seconds", { n: LIMIT })}</span>}
      </div>
      <div class="panel flush">
        {shown.length ? (
          <EventTable events={{ results: shown, hasMore: false, isLoadingMore: false, loadMore: () => {} }} />
        ) : latest.error ? (
          <Failed error={latest.error} onRetry={() => void latest.refetch()} />
        ) : latest.isPending ? (
          <Loading />
        ) : (
          <Empty title={t("Waiting for events")}>{t("No event arrived in the last hour. New ones appear here by themselves.")}</Empty>
        )}
      </div>
    </Page>
  );
}
