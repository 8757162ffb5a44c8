// Stored events: filtered by name, person, property and time; columns; CSV.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "preact/hooks";
import { ApiError, get } from "../../api/client";
import { credentials } from "../../api/session";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { buildUrl, useUrlState } from "../../lib/url";
import { useProject } from "../../shell/project";
import { Combobox, ValuesInput } from "../../ui/combobox";
import { Button, Select } from "../../ui/controls";
import { Page } from "../../ui/page";
import { Await, Empty, NoMatch } from "../../ui/states";
import { notify } from "../../ui/toasts";
import { EventTable, useEvents } from "./table";

const RANGES = [
  { value: "-1h", label: t("Last hour") },
  { value: "-24h", label: t("Last 24 hours") },
  { value: "-7d", label: t("Last 7 days") },
  { value: "-30d", label: t("Last 30 days") },
  { value: "-365d", label: t("Last year") },
];
const DEFAULT_RANGE = "-7d";

/** Complete the names of events that are stored. */
export function useEventNames(search: string) {
  const { api } = useProject();
  const settled = useSettled(search, 200);
  const names = useQuery({
    queryKey: ["event names", api, settled],
    queryFn: ({ signal }) => get<{ name: string }[]>(`${api}/events/values/`, { key: "custom_event", value: settled }, signal),
    staleTime: 60_000,
  });
  return (names.data ?? []).map((each) => ({ value: each.name }));
}

export function ExplorePage() {
  const { api } = useProject();
  const [url, change] = useUrlState();
  const event = url.get("event") ?? "";
  const after = url.get("after") ?? DEFAULT_RANGE;
  const distinctId = url.get("distinct_id") ?? "";
  const columns = url.getAll("columns").flatMap((each) => each.split(",")).filter(Boolean);
  const [name, setName] = useState(event);
  const [person, setPerson] = useState(distinctId);
  const settled = useSettled(person.trim());
  useEffect(() => {
    if (settled !== distinctId) change({ distinct_id: settled });
  }, [settled]);
  const names = useEventNames(name);
  const parameters = { event, after, distinct_id: distinctId };
  const events = useEvents(parameters);
  const known = [...new Set(events.results.slice(0, 100).flatMap((each) => Object.keys((each.properties ?? {}) as object)))].sort();
  const choose = (value: string) => {
    setName(value);
    change({ event: value });
  };
  const clear = () => {
    setName("");
    setPerson("");
    change({ event: null, distinct_id: null, after: null });
  };
  const download = async () => {
    const response = await fetch(buildUrl(`${api}/events.csv`, parameters), { headers: { ...credentials(), Accept: "text/csv" } });
    if (!response.ok) {
      notify(new ApiError(response.status, t("The download failed.")).detail, "bad");
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = "events.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <Page
      title={t("Explore")}
      sub={t("Stored events, newest first")}
      actions={
        <Button icon="download" onClick={() => void download()}>
          {t("Download CSV")}
        </Button>
      }
    >
      <div class="row">
        <div class="grow" style={{ flexBasis: "12rem", maxWidth: "18rem" }}>
          <Combobox
            label={t("Event")}
            placeholder={t("Any event")}
            value={name}
            options={names}
            onInput={(value) => {
              setName(value);
              if (!value) change({ event: null });
            }}
            onChoose={choose}
            onLeave={() => name !== event && choose(name)}
          />
        </div>
        <input class="input narrow" aria-label={t("Distinct id")} placeholder={t("Distinct id")} value={person} onInput={(input) => setPerson(input.currentTarget.value)} />
        <Select label={t("Time range")} isNarrow value={after} choices={RANGES} onChange={(value) => change({ after: value === DEFAULT_RANGE ? null : value })} />
        <div class="grow" style={{ flexBasis: "12rem" }}>
          <ValuesInput
            label={t("Columns")}
            placeholder={columns.length ? "" : t("Add a column")}
            values={columns}
            options={known.map((value) => ({ value }))}
            onSearch={() => {}}
            onChange={(values) => change({ columns: values.join(",") })}
          />
        </div>
      </div>
      <div class="panel flush">
        <Await query={events.query}>
          {() =>
            events.results.length ? (
              <EventTable events={events} columns={columns} />
            ) : event || distinctId || after !== "-365d" ? (
              <NoMatch onClear={clear} />
            ) : (
              <Empty title={t("No events yet")}>{t("Send one with an SDK: the home page has code to copy.")}</Empty>
            )
          }
        </Await>
      </div>
    </Page>
  );
}
