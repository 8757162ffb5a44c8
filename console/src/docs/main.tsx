// The documentation of the API: a page of its own, without a login.
import { render } from "preact";
import { applyTheme, readTheme } from "../lib/theme";
import { DocsPage } from "./page";
import "../styles/tokens.css";
import "../styles/base.css";
import "../styles/ui.css";
import "./docs.css";

// The viewer knows a dark theme by another name.
const root = document.documentElement;
const copyTheme = () => root.classList.toggle("dark-mode", root.dataset.theme === "dark");
new MutationObserver(copyTheme).observe(root, { attributeFilter: ["data-theme"] });
applyTheme(readTheme());
const place = document.getElementById("docs");
if (place) render(<DocsPage />, place);
