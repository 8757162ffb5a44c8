// Choose projects by name; the service searches.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import type { Page as PageOf, Project } from "../../api/types";
import { useSettled } from "../../lib/debounce";
import { t } from "../../lib/text";
import { Combobox } from "../../ui/combobox";
import { IconButton } from "../../ui/controls";
import { Value } from "../../ui/show";

/** The name of a project, its id until it is known. */
export function ProjectName({ id }: { id: number }) {
  const project = useQuery({ queryKey: ["project", String(id)], queryFn: () => get<Project>(`/api/projects/${id}/`), staleTime: 60_000, retry: false });
  return <Value value={project.data?.name ?? t("Project {id}", { id: String(id) })} maxChars={60} />;
}

export function ProjectSearch({ label, without, onChoose }: { label: string; without: number[]; onChoose: (id: number) => void }) {
  const [text, setText] = useState("");
  const search = useSettled(text.trim(), 150);
  const projects = useQuery({
    queryKey: ["projects", search],
    queryFn: ({ signal }) => get<PageOf<Project>>("/api/projects/", { search, limit: 20 }, signal),
    placeholderData: keepPreviousData,
  });
  const options = (projects.data?.results ?? []).filter((each) => !without.includes(each.id)).map((each) => ({ value: String(each.id), label: each.name, note: `#${each.id}` }));
  const choose = (value: string) => {
    const found = options.find((each) => each.value === value) ?? options.find((each) => each.label === value);
    if (!found) return;
    setText("");
    onChoose(Number(found.value));
  };
  return <Combobox label={label} placeholder={t("Find a project…")} value={text} options={options} isLoading={projects.isFetching} onInput={setText} onChoose={choose} />;
}

export function ProjectPicker({ ids, onChange, error }: { ids: number[]; onChange: (ids: number[]) => void; error: string | undefined }) {
  return (
    <fieldset class="stack s plain">
      <legend class="label">{t("Only in these projects")}</legend>
      {ids.length === 0 && <p class="hint">{t("All projects that you may see, also those of the future.")}</p>}
      {ids.map((id) => (
        <div class="row spread" key={id}>
          <ProjectName id={id} />
          <IconButton isSmall icon="close" label={t("Remove project {id}", { id: String(id) })} onClick={() => onChange(ids.filter((each) => each !== id))} />
        </div>
      ))}
      <ProjectSearch label={t("Add a project")} without={ids} onChoose={(id) => onChange([...ids, id])} />
      {error && <p class="error-text">{error}</p>}
    </fieldset>
  );
}
