// The command palette: go anywhere, find flags and persons, change the theme.
import { useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { useLocation } from "wouter-preact";
import { get } from "../api/client";
import type { Flag, Page, Person, Project } from "../api/types";
import { useSettled } from "../lib/debounce";
import { t } from "../lib/text";
import { applyTheme } from "../lib/theme";
import { Dialog } from "../ui/dialog";
import { Value } from "../ui/show";
import { useProject } from "./project";
import { DESTINATIONS } from "./destinations";

interface Command {
  id: string;
  label: string;
  group: string;
  note?: string;
  run: () => void;
}

export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const { api, root } = useProject();
  const [, navigate] = useLocation();
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const search = useSettled(text.trim(), 150);
  const flags = useQuery({
    queryKey: ["palette", api, "flags", search],
    queryFn: ({ signal }) => get<Page<Flag>>(`${api}/feature_flags/`, { search, limit: 6 }, signal),
    enabled: search !== "",
  });
  const persons = useQuery({
    queryKey: ["palette", api, "persons", search],
    queryFn: ({ signal }) => get<Page<Person>>(`${api}/persons/`, { search, limit: 4 }, signal),
    enabled: search !== "",
  });
  const projects = useQuery({
    queryKey: ["palette", "projects", search],
    queryFn: ({ signal }) => get<Page<Project>>("/api/projects/", { search, limit: 4 }, signal),
    enabled: search !== "",
  });
  const words = text.trim().toLowerCase();
  const fixed: Command[] = [
    ...DESTINATIONS.map((each) => ({ id: each.path, label: each.label, group: t("Go to"), note: each.keys, run: () => navigate(root + each.path) })),
    { id: "new", label: t("New feature flag"), group: t("Do"), run: () => navigate(`${root}/feature_flags/new`) },
    ...[
      ["user", t("Your account")],
      ["user-api-keys", t("Personal API keys")],
      ["project", t("Settings of the project")],
      ["organization-members", t("Members and invites")],
      ["organization-roles", t("Roles")],
    ].map(([name, label]) => ({ id: `settings-${name}`, label: label!, group: t("Settings"), run: () => navigate(`${root}/settings/${name}`) })),
    { id: "dark", label: t("Dark theme"), group: t("Do"), run: () => applyTheme("dark") },
    { id: "light", label: t("Light theme"), group: t("Do"), run: () => applyTheme("light") },
    { id: "keys", label: t("Show keys"), group: t("Do"), note: "?", run: onHelp },
  ].filter((each) => each.label.toLowerCase().includes(words));
  const found: Command[] = [
    ...(flags.data?.results ?? []).map((each) => ({
      id: `flag-${each.id}`,
      label: each.key,
      group: t("Feature flags"),
      note: each.active ? t("on") : t("off"),
      run: () => navigate(`${root}/feature_flags/${each.id}`),
    })),
    ...(persons.data?.results ?? []).map((each) => ({
      id: `person-${each.uuid}`,
      label: each.name,
      group: t("Persons"),
      run: () => navigate(`${root}/persons/${each.uuid}`),
    })),
    ...(projects.data?.results ?? []).map((each) => ({
      id: `project-${each.id}`,
      label: each.name,
      group: t("Projects"),
      run: () => navigate(`/project/${each.id}/home`),
    })),
  ];
  const commands = [...(search ? found : []), ...fixed];
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) {
      event.preventDefault();
      setActive((active + step + commands.length) % Math.max(commands.length, 1));
    } else if (event.key === "Enter") run(commands[active]);
  };
  return (
    <Dialog title={t("Search and commands")} hidesTitle className="palette" isOpen onClose={onClose}>
      <input
        class="input"
        role="combobox"
        aria-label={t("Search and commands")}
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={commands[active] ? `palette-${active}` : undefined}
        placeholder={t("Find a flag, a person or a page…")}
        autofocus
        autocomplete="off"
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setActive(0);
        }}
        onKeyDown={press}
      />
      <div class="options" role="listbox" id="palette-list" aria-label={t("Results")} tabIndex={-1}>
        {commands.map((command, index) => (
          <div
            key={command.id}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === active}
            onMouseMove={() => setActive(index)}
            onClick={() => run(command)}
          >
            <span class="cut">
              <Value value={command.label} maxChars={80} />
            </span>
            <span class="muted">{command.note ? `${command.group} · ${command.note}` : command.group}</span>
          </div>
        ))}
        {commands.length === 0 && (
          <div class="note" role="option" aria-selected={false} aria-disabled="true">
            {flags.isFetching || persons.isFetching ? t("Searching…") : t("Nothing matches.")}
          </div>
        )}
      </div>
    </Dialog>
  );
}
