// The persons behind a number of an insight, page by page.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import { call } from "../../../api/client";
import { t } from "../../../lib/text";
import { useProject } from "../../../shell/project";
import { Button } from "../../../ui/controls";
import { Dialog } from "../../../ui/dialog";
import { Value } from "../../../ui/show";
import { Await, Empty } from "../../../ui/states";
import type { Source } from "../query";

/** Which number: of a series at an interval, of a step of a funnel, or of the start of a retention. */
export type Actors = { title: string; value?: unknown; breakdown?: string | undefined } & (
  | { kind: "trend"; series: number; day?: string; isPrevious?: boolean }
  | { kind: "funnel"; step: number }
  | { kind: "retention"; interval: number }
);
interface Actor {
  id: string;
  type?: string;
  distinct_ids?: string[];
  properties: Record<string, unknown>;
}
const LIMIT = 50;

export function toActorsSource(source: Source, actors: Actors): Record<string, unknown> {
  const breakdown = actors.value === undefined ? {} : { breakdown: actors.value };
  if (actors.kind === "funnel") return { kind: "FunnelsActorsQuery", source, funnelStep: actors.step, ...(actors.value === undefined ? {} : { funnelStepBreakdown: actors.value }) };
  if (actors.kind === "retention") return { kind: "InsightActorsQuery", source, interval: actors.interval };
  return {
    kind: "InsightActorsQuery",
    source,
    series: actors.series,
    ...(actors.day ? { day: actors.day } : {}),
    ...breakdown,
    ...(source.compareFilter?.compare ? { compare: actors.isPrevious ? "previous" : "current" } : {}),
  };
}

export function ActorsDialog({ source, actors, onClose }: { source: Source; actors: Actors; onClose: () => void }) {
  const { api, root } = useProject();
  const [offset, setOffset] = useState(0);
  const query = { kind: "ActorsQuery", source: toActorsSource(source, actors), select: ["actor"], limit: LIMIT, offset };
  const found = useQuery({
    queryKey: ["actors", api, JSON.stringify(query)],
    queryFn: ({ signal }) => call<{ results: [Actor][]; hasMore: boolean }>("POST", `${api}/query/`, { body: { query }, signal }),
    placeholderData: keepPreviousData,
  });
  const name = (actor: Actor) => String(actor.properties.email ?? actor.properties.name ?? actor.distinct_ids?.[0] ?? actor.id);
  return (
    <Dialog title={actors.breakdown ? `${actors.title} · ${actors.breakdown}` : actors.title} isOpen onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <div class="body stack">
        <Await query={found}>
          {(page) =>
            page.results.length ? (
              <>
                <ul class="stack s" aria-label={t("Persons")}>
                  {page.results.map(([actor]) => (
                    <li key={actor.id} class="row spread">
                      {actor.type === "group" ? (
                        <Value value={name(actor)} maxChars={80} />
                      ) : (
                        <Link href={`${root}/persons/${actor.id}`}>
                          <Value value={name(actor)} maxChars={80} />
                        </Link>
                      )}
                    </li>
                  ))}
                </ul>
                {(offset > 0 || page.hasMore) && (
                  <div class="row spread">
                    <Button isSmall icon="left" disabled={!offset} onClick={() => setOffset(offset - LIMIT)}>
                      {t("Previous")}
                    </Button>
                    <Button isSmall disabled={!page.hasMore} onClick={() => setOffset(offset + LIMIT)}>
                      {t("Next")}
                    </Button>
                  </div>
                )}
              </>
            ) : (
              <Empty title={t("No one")}>{t("No person is behind this number.")}</Empty>
            )
          }
        </Await>
      </div>
    </Dialog>
  );
}
