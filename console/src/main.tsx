// The entry: styles, theme, and the application.
import { QueryClientProvider } from "@tanstack/react-query";
import { render } from "preact";
import { queryClient } from "./api/client";
import { App } from "./app";
import { applyTheme, readTheme } from "./lib/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/ui.css";
import "./styles/shell.css";
import "./styles/objects.css";

applyTheme(readTheme());
const place = document.getElementById("console");
if (place)
  render(
    <QueryClientProvider client={queryClient}>
      <App />
    </QueryClientProvider>,
    place,
  );
