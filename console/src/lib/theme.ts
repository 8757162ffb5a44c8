// Light or dark: what the person chose, otherwise what the system says.
export type Theme = "light" | "dark" | "system";
const KEY = "hedgerow.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");

export function readTheme(): Theme {
  const stored = localStorage.getItem(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(theme: Theme): void {
  if (theme === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  const isDark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

system.addEventListener("change", () => applyTheme(readTheme()));
