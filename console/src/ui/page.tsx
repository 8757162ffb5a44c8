// The frame of a page: title, tabs, pager.
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Link } from "wouter-preact";
import { formatNumber, t } from "../lib/text";
import { Button } from "./controls";

export function Page(props: {
  title: string;
  sub?: ComponentChildren;
  crumbs?: { label: string; to: string }[];
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${props.title} · Hedgerow`;
  }, [props.title]);
  return (
    <main class="page" id="content" tabIndex={-1}>
      <div class="page-head">
        <div class="grow">
          {props.crumbs && (
            <nav class="crumbs" aria-label={t("Breadcrumbs")}>
              {props.crumbs.map((each) => (
                <Link key={each.to} href={each.to}>
                  {each.label}
                </Link>
              ))}
            </nav>
          )}
          <h1>{props.title}</h1>
          {props.sub && <div class="sub">{props.sub}</div>}
        </div>
        {props.actions && <div class="row">{props.actions}</div>}
      </div>
      {props.children}
    </main>
  );
}

/** A part of a page, with its heading. */
export function Panel(props: { title: string; actions?: ComponentChildren; isFlush?: boolean; children: ComponentChildren }) {
  return (
    <section class={`panel ${props.isFlush ? "flush" : ""}`} aria-label={props.title}>
      <div class="head">
        <h2>{props.title}</h2>
        {props.actions && <div class="row">{props.actions}</div>}
      </div>
      {props.children}
    </section>
  );
}

export function Tabs({ label, tabs, current }: { label: string; tabs: { label: string; to: string; name: string }[]; current: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link key={tab.name} href={tab.to} replace aria-current={tab.name === current ? "page" : undefined}>
          {tab.label}
        </Link>
      ))}
    </nav>
  );
}

export function Pager({ offset, limit, count, onMove }: { offset: number; limit: number; count: number; onMove: (offset: number) => void }) {
  if (count <= limit && offset === 0) return null;
  return (
    <nav class="pager" aria-label={t("Pages")}>
      <span>
        {t("{from}–{to} of {count}", {
          from: formatNumber(Math.min(offset + 1, count)),
          to: formatNumber(Math.min(offset + limit, count)),
          count: formatNumber(count),
        })}
      </span>
      <span class="row tight">
        <Button isSmall icon="left" disabled={offset === 0} onClick={() => onMove(Math.max(0, offset - limit))}>
          {t("Previous")}
        </Button>
        <Button isSmall disabled={offset + limit >= count} onClick={() => onMove(offset + limit)}>
          {t("Next")}
        </Button>
      </span>
    </nav>
  );
}
