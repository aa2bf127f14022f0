// Two builds of the same sources: the pages that the service serves, and the one script that every page of a
// static site holds. Both go into the Python package, and both are equal byte for byte on every machine.
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const out = process.env["WEB_OUT"] ?? here("../app/pages");

export default defineConfig(({ mode }) => ({
  // Relative: behind a proxy the service may stand under a prefix.
  base: "./",
  // The name of the mode must not change what is built.
  define: { "import.meta.env.SITE": JSON.stringify(mode === "site") },
  resolve: { alias: { "@interintent/client": here("client/src/index.ts") } },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: {
    proxy: {
      "^/(games|batches|intentions|profiles|evaluations|annotations|reports|readyz)": "http://localhost:8000",
      "/ws": { target: "ws://localhost:8000", ws: true },
    },
  },
  build:
    mode === "site"
      ? {
          outDir: `${out}/site`,
          emptyOutDir: true,
          copyPublicDir: false,
          cssCodeSplit: false,
          lib: { entry: here("src/site.tsx"), formats: ["iife"], name: "InterIntent", fileName: () => "site.js", cssFileName: "site" },
        }
      : {
          outDir: `${out}/ui`,
          emptyOutDir: true,
          // The policy of the pages allows no inline script, style or data address.
          assetsInlineLimit: 0,
          modulePreload: { polyfill: false },
          license: { fileName: "licenses.md" },
        },
}));
