// Makes bundle.js and LICENSES.txt from src/ and the locked packages: `npm ci --ignore-scripts && npm run build`.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const read = (...path) => readFileSync(join(here, ...path), "utf8");

// A test compares this with the files, so that nobody changes them and forgets to build.
const hash = createHash("sha256");
for (const name of [...readdirSync(join(here, "src")).sort().map((file) => `src/${file}`), "package-lock.json"]) {
  hash.update(read(name));
}

const { metafile } = await build({
  entryPoints: [join(here, "src", "main.js")],
  outfile: join(here, "bundle.js"),
  banner: {
    js: `// Built by assets/editor/build.mjs; do not edit. Sources: ${hash.digest("hex")}\n// Contains CodeMirror 6 and others under the MIT licence: see LICENSES.txt beside this file.`,
  },
  bundle: true,
  format: "esm",
  minify: true,
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  logLevel: "info",
});

const packages = new Set(
  Object.keys(metafile.inputs).flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
);
const texts = [...packages].sort().map((name) => {
  const { version, license } = JSON.parse(read("node_modules", name, "package.json"));
  return `${name} ${version} (${license})\n\n${read("node_modules", name, "LICENSE").trim()}\n`;
});
writeFileSync(join(here, "LICENSES.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));
