// What went wrong with a call.

/** A refused or failed call. `status` is 0 if no response arrived. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly code = "",
    readonly attr: string | null = null,
    readonly requestId = "",
    readonly retryAfterS = 0,
    readonly body: Record<string, unknown> = {},
  ) {
    super(detail);
  }

  /** Whether the same call may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/** Say why something failed. */
export function explain(error: unknown): string {
  return error instanceof ApiError ? error.detail : String(error);
}
