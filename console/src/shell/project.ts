// The project of the page, and the person who looks at it.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Project, User } from "../api/types";

export interface InProject {
  id: string;
  /** The start of the addresses of its pages. */
  root: string;
  /** The start of the addresses of its API. */
  api: string;
  project: Project | undefined;
  user: User | undefined;
}

export const ProjectContext = createContext<InProject | null>(null);

export function useProject(): InProject {
  const found = useContext(ProjectContext);
  if (!found) throw new Error("This part works in a project only.");
  return found;
}
