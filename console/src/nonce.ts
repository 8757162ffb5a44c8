// Libraries that write styles of their own need the nonce of the page.
import { setNonce } from "get-nonce";

export const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.nonce ?? "";
setNonce(nonce);
