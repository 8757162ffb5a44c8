// What the parts of the project's settings share.
import { queryClient } from "../../api/client";
import type { Project } from "../../api/types";

export interface PartProps {
  project: Project;
  /** Why the person may not change it. */
  reason: string | undefined;
}

/** Keep the changed project where pages read it. */
export function keepProject(project: Project): void {
  queryClient.setQueryData(["project", String(project.id)], project);
  void queryClient.invalidateQueries({ queryKey: ["projects"] });
  void queryClient.invalidateQueries({ queryKey: ["me"] });
}
