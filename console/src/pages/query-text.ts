// Texts of queries: where an error is, and rows as CSV. Pure.

/** Read the place that an error message names. */
export function findErrorPlace(detail: string): { line: number; column: number } {
  const match = /line (\d+), column (\d+)/.exec(detail);
  return { line: Number(match?.[1] ?? 1), column: Number(match?.[2] ?? 1) };
}

/** A spreadsheet would run a cell that starts like a formula. */
function writeCell(value: unknown): string {
  const text = value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function toCsv(columns: string[], rows: unknown[][]): string {
  return [columns, ...rows].map((row) => row.map(writeCell).join(",")).join("\r\n");
}
