// Builds the console into the Python package, which serves it from memory.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const OUTPUT = "../src/hedgerow/http/console/static";
// Python replaces it in each response.
const NONCE = "__NONCE__";
const LARGE_BYTES = 1_000_000;

/** Writes each file also compressed, so that the service never compresses. */
function compress(): Plugin {
  return {
    name: "compress",
    apply: "build",
    closeBundle() {
      for (const name of readdirSync(OUTPUT)) {
        if (/\.(html|gz|br)$/.test(name)) continue;
        const content = readFileSync(join(OUTPUT, name));
        writeFileSync(join(OUTPUT, `${name}.gz`), gzipSync(content, { level: 9 }));
        // The best quality takes seconds for a large file.
        const params = { [constants.BROTLI_PARAM_QUALITY]: content.length > LARGE_BYTES ? 9 : 11 };
        writeFileSync(join(OUTPUT, `${name}.br`), brotliCompressSync(content, { params }));
      }
    },
  };
}

/**
 * Moves the script that begins the first requests before the styles: a script after them waits until they are loaded. The
 * browser has found the module script by then, so that it is requested first.
 */
function beginEarly(): Plugin {
  return {
    name: "begin-early",
    apply: "build",
    closeBundle() {
      const path = join(OUTPUT, "index.html");
      const page = readFileSync(path, "utf8");
      const script = /<script(?![^>]*\bsrc=)[^>]*>[^]*?<\/script>/.exec(page)?.[0];
      const styles = page.indexOf('<link rel="stylesheet"');
      if (!script || styles < 0) throw new Error("index.html has no inline script or no styles");
      const rest = page.slice(styles).replace(script, () => "");
      writeFileSync(path, `${page.slice(0, styles)}${script}\n    ${rest}`);
    },
  };
}

export default defineConfig({
  base: "/console/",
  html: { cspNonce: NONCE },
  plugins: [compress(), beginEarly()],
  resolve: {
    alias: {
      react: "preact/compat",
      "react-dom": "preact/compat",
      "react/jsx-runtime": "preact/jsx-runtime",
    },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: OUTPUT,
    emptyOutDir: true,
    assetsDir: "",
    target: "es2022",
    reportCompressedSize: false,
    // The viewer of the API documentation is one file, loaded by its page only.
    chunkSizeWarningLimit: 1600,
    // Icons and the like become files: `img-src` and the cache handle them alike.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: ["index.html", "api-docs.html"],
      // Libraries mark their modules for another framework.
      onLog: (level, log, report) => log.code !== "MODULE_LEVEL_DIRECTIVE" && report(level, log),
      output: {
        entryFileNames: "[name]-[hash].js",
        chunkFileNames: "[name]-[hash].js",
        assetFileNames: "[name]-[hash][extname]",
        // What every page needs is one file: a browser has six connections to a server without HTTP/2.
        codeSplitting: { groups: [{ name: "base", tags: ["$initial"], test: (id) => !/\/src\/docs\/|\.(html|css)/.test(id) }] },
      },
    },
  },
  server: { proxy: { "/api": process.env.HEDGEROW_ADDRESS ?? "http://127.0.0.1:8000" } },
});
