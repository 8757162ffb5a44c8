// The frame of a page: title, tabs, pager.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { Link } from "wouter-preact";
import { t } from "../lib/text";
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
  const nav = useRef<HTMLElement>(null);
  // On a phone only some fit.
  useLayoutEffect(() => {
    const [box, tab] = [nav.current, nav.current?.querySelector<HTMLElement>("[aria-current]")];
    if (box && tab) box.scrollLeft = tab.offsetLeft - (box.clientWidth - tab.offsetWidth) / 2;
  }, [current, tabs.length]);
  return (
    <nav class="tabs" aria-label={label} ref={nav}>
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
  const range = { from: Math.min(offset + 1, count), to: Math.min(offset + limit, count), count };
  return (
    <CursorPager
      position={t("{from}–{to} of {count}", range)}
      toPrevious={offset > 0 ? () => onMove(Math.max(0, offset - limit)) : undefined}
      toNext={offset + limit < count ? () => onMove(offset + limit) : undefined}
    />
  );
}

/** A pager for pages whose number is not known. */
export function CursorPager({ position, toPrevious, toNext }: { position?: string; toPrevious: (() => void) | undefined; toNext: (() => void) | undefined }) {
  if (!toPrevious && !toNext) return null;
  return (
    <nav class="pager" aria-label={t("Pages")}>
      <span>{position}</span>
      <span class="row tight">
        <Button isSmall icon="left" disabled={!toPrevious} onClick={toPrevious}>
          {t("Previous")}
        </Button>
        <Button isSmall disabled={!toNext} onClick={toNext}>
          {t("Next")}
        </Button>
      </span>
    </nav>
  );
}
