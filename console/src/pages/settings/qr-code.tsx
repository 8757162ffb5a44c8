import { useMemo } from "preact/hooks";
import { encodeQr } from "./qr";

const QUIET_MODULES = 4;

/** A QR code, always dark on light, as phones expect. Nothing if the text is too long. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const modules = useMemo(() => encodeQr(text), [text]);
  if (!modules) return null;
  const size = modules.length + 2 * QUIET_MODULES;
  const path = modules.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? `M${x + QUIET_MODULES} ${y + QUIET_MODULES}h1v1h-1z` : []))).join("");
  return (
    <svg viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#ffffff" />
      <path d={path} fill="#000000" />
    </svg>
  );
}
