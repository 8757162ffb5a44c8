// The frame around every page: navigation, project, search, keys.
import { useQuery } from "@tanstack/react-query";
import type { ComponentChildren } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { Link, useLocation } from "wouter-preact";
import { call, get, queryClient } from "../api/client";
import { forget, usesKey } from "../api/session";
import type { Page, Project } from "../api/types";
import { PALETTE_KEY, useShortcuts } from "../lib/keys";
import { t, tn } from "../lib/text";
import { applyTheme, readTheme, type Theme } from "../lib/theme";
import { Button, IconButton } from "../ui/controls";
import { Dialog } from "../ui/dialog";
import { Refusal, TextField, useSubmit } from "../ui/forms";
import { Icon, Logo } from "../ui/icons";
import { Menu } from "../ui/menu";
import { Boundary } from "./boundary";
import { type Destination, DESTINATIONS, isBelow } from "./destinations";
import { useProject } from "./project";
import { useRights } from "./rights";

const loadPalette = () => import("./palette");
const Palette = lazy(() => loadPalette().then((module) => ({ default: module.Palette })));
const IDLE_MS = 1500;

export function Shell({ children }: { children: ComponentChildren }) {
  const { root } = useProject();
  const [path, navigate] = useLocation();
  const [hasPalette, setPalette] = useState(false);
  const [hasHelp, setHelp] = useState(false);
  const [isOpen, setOpen] = useState(false);
  // Loaded before it is needed: keys that are typed right after Ctrl K must arrive there.
  useEffect(() => {
    const timer = setTimeout(() => void loadPalette().catch(() => undefined), IDLE_MS);
    return () => clearTimeout(timer);
  }, []);
  useShortcuts({
    "mod+k": () => setPalette(true),
    "?": () => setHelp(true),
    "/": () => {
      const field = document.querySelector<HTMLInputElement>("[data-search]");
      if (field) field.focus();
      else setPalette(true);
    },
    ...Object.fromEntries(DESTINATIONS.map((each) => [each.keys, () => navigate(root + each.path)])),
  });
  return (
    <div class="app">
      <a class="skip" href="#content">
        {t("Skip to the content")}
      </a>
      <header class="topbar">
        <IconButton label={t("Open the navigation")} icon="menu" onClick={() => setOpen(true)} />
        <Link href={`${root}/home`} class="brand">
          <Logo />
          {t("Hedgerow")}
        </Link>
        <IconButton label={t("Search and commands")} icon="search" onClick={() => setPalette(true)} />
      </header>
      {isOpen && <div class="scrim" onClick={() => setOpen(false)} />}
      <Sidebar isOpen={isOpen} onClose={() => setOpen(false)} onPalette={() => setPalette(true)} onHelp={() => setHelp(true)} />
      <div class="main">
        <Boundary address={path}>{children}</Boundary>
      </div>
      {hasPalette && (
        <Suspense fallback={null}>
          <Palette onClose={() => setPalette(false)} onHelp={() => setHelp(true)} />
        </Suspense>
      )}
      <Help isOpen={hasHelp} onClose={() => setHelp(false)} />
    </div>
  );
}

function Sidebar(props: { isOpen: boolean; onClose: () => void; onPalette: () => void; onHelp: () => void }) {
  const { root, user } = useProject();
  const [path] = useLocation();
  const rights = useRights();
  const isShown = ({ needs, isForOwners, isMinor, isFoot }: Destination) => !isMinor && !isFoot && (!needs || rights.may(needs)) && (!isForOwners || rights.isOwner || !rights.isKnown);
  const link = (each: Destination) => (
    <Link key={each.path} href={root + each.path} aria-current={isBelow(each, path.slice(root.length)) ? "page" : undefined}>
      <Icon name={each.icon} />
      {each.label}
    </Link>
  );
  return (
    <aside class={`sidebar ${props.isOpen ? "open" : ""}`} aria-label={t("Navigation")} onKeyDown={(event) => event.key === "Escape" && props.onClose()}>
      <Link href={`${root}/home`} class="brand">
        <Logo />
        {t("Hedgerow")}
      </Link>
      <ProjectSwitcher />
      <Button icon="search" class="project-button" onClick={props.onPalette}>
        <span class="grow" style={{ textAlign: "left" }}>
          {t("Search")}
        </span>
        <span class="kbd" aria-hidden="true">
          {PALETTE_KEY}
        </span>
      </Button>
      <nav class="nav" aria-label={t("Main")} onClick={props.onClose}>
        {DESTINATIONS.filter(isShown).map((each) => (
          <>
            {each.section && <span class="section">{each.section}</span>}
            {link(each)}
          </>
        ))}
      </nav>
      <div class="foot nav">
        <div onClick={props.onClose}>{DESTINATIONS.filter((each) => each.isFoot).map(link)}</div>
        <a href="/api/docs/">
          <Icon name="book" />
          {t("API documentation")}
        </a>
        <div class="row tight" style={{ paddingTop: "var(--s2)" }}>
          <Link href={`${root}/settings/user`} class="grow small" title={t("Your account: {email}", { email: user?.email ?? "" })}>
            <span class="cut">{user?.email}</span>
          </Link>
          <IconButton label={t("Keys")} icon="help" isSmall onClick={props.onHelp} />
          <ThemeMenu />
          <IconButton label={t("Log out")} icon="logout" isSmall onClick={() => void logOut()} />
        </div>
      </div>
    </aside>
  );
}

export async function logOut(): Promise<void> {
  if (!usesKey()) await call("POST", "/api/logout/").catch(() => undefined);
  queryClient.clear();
  forget();
}

function ThemeMenu() {
  const [theme, setTheme] = useState(readTheme());
  const choose = (next: Theme) => {
    applyTheme(next);
    setTheme(next);
  };
  const labels: Record<Theme, string> = { light: t("Light"), dark: t("Dark"), system: t("Like the system") };
  return (
    <Menu
      trigger={<IconButton label={t("Theme")} icon="sun" isSmall />}
      entries={(Object.keys(labels) as Theme[]).map((each) => ({ label: labels[each], isChosen: each === theme, onSelect: () => choose(each) }))}
    />
  );
}

function ProjectSwitcher() {
  const { project, id } = useProject();
  const { isOwner } = useRights();
  const [, navigate] = useLocation();
  const [isNew, setNew] = useState(false);
  const projects = useQuery({
    queryKey: ["projects"],
    queryFn: () => get<Page<Project>>("/api/projects/", { limit: 100 }),
    staleTime: 60_000,
  });
  const others = (projects.data?.count ?? 0) - (projects.data?.results.length ?? 0);
  return (
    <>
      <Menu
        align="start"
        trigger={
          <Button class="project-button" aria-label={t("Project: {name}", { name: project?.name ?? id })}>
            <span class="cut">{project?.name ?? "…"}</span>
            <Icon name="chevrons" />
          </Button>
        }
        entries={[
          ...(projects.data?.results ?? []).map((each) => ({
            label: each.name,
            isChosen: String(each.id) === id,
            onSelect: () => navigate(`/project/${each.id}/home`),
          })),
          ...(others > 0 ? [{ label: tn(others, "{n} more: search with {key}", "{n} more: search with {key}", { key: PALETTE_KEY }), isDisabled: true, onSelect: () => {} }] : []),
          ...(isOwner ? [{ label: t("New project…"), onSelect: () => setNew(true) }] : []),
        ]}
      />
      {isNew && <NewProject onClose={() => setNew(false)} />}
    </>
  );
}

function NewProject({ onClose }: { onClose: () => void }) {
  const [, navigate] = useLocation();
  const [name, setName] = useState("");
  const form = useSubmit(async () => {
    const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
    const project = await call<Project>("POST", "/api/projects/", { body: { name: name.trim(), timezone } });
    await queryClient.invalidateQueries({ queryKey: ["projects"] });
    onClose();
    navigate(`/project/${project.id}/home`);
  });
  return (
    <Dialog title={t("New project")} description={t("A project has its own events, persons, flags and keys.")} isOpen onClose={onClose}>
      <form class="body stack" onSubmit={form.submit}>
        <Refusal error={form.error} shown={["name"]} />
        <TextField label={t("Name")} required autofocus maxLength={200} error={form.errorOf("name")} value={name} onInput={setName} />
        <div class="row end">
          <Button onClick={onClose}>{t("Cancel")}</Button>
          <Button kind="primary" type="submit" disabled={form.isBusy}>
            {t("Create the project")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function Help({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const keys: [string, string][] = [
    [PALETTE_KEY, t("Search and commands")],
    ["/", t("Search on this page")],
    ["?", t("Show these keys")],
    ...DESTINATIONS.map((each): [string, string] => [each.keys, each.label]),
    ["Alt ↑ / Alt ↓", t("Move a condition of a flag or a transformation")],
    ["Ctrl Enter", t("Run a query")],
    ["Esc", t("Close")],
  ];
  return (
    <Dialog title={t("Keys")} isOpen={isOpen} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <dl class="body keys" tabIndex={0}>
        {keys.map(([key, meaning]) => (
          <>
            <dt>
              <span class="kbd">{key}</span>
            </dt>
            <dd>{meaning}</dd>
          </>
        ))}
      </dl>
    </Dialog>
  );
}
