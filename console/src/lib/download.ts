// Files for the person: made here, or fetched with the credentials of the page.
import { ApiError } from "../api/client";
import { credentials } from "../api/session";
import { notify } from "../ui/toasts";
import { t } from "./text";

export function saveFile(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function saveCsv(text: string, name: string): void {
  saveFile(new Blob([text], { type: "text/csv" }), `${toFileName(name)}.csv`);
}

/** Fetch a file of the API and save it. */
export async function saveFromApi(path: string, name: string): Promise<void> {
  try {
    const response = await fetch(path, { headers: credentials(), credentials: "same-origin" });
    if (!response.ok) throw new ApiError(response.status, t("The download failed with status {status}.", { status: response.status }));
    saveFile(await response.blob(), name);
  } catch (error) {
    notify(error instanceof ApiError ? error.detail : t("The service cannot be reached."), "bad");
  }
}

/** Return a name without characters that file systems refuse. */
export const toFileName = (text: string): string =>
  text
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 60) || "insight";
