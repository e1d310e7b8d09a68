import js from "@eslint/js";
import globals from "globals";

// The scripts of the report are no modules, because a page opened from a file may load none: each defines one of these.
const shared = { Axes: "readonly", Charts: "readonly", Dom: "readonly", Theme: "readonly", Votes: "readonly" };

export default [
  js.configs.recommended,
  {
    files: ["src/hedgerow/**/*.js"],
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: { ...globals.browser, ...shared } },
  },
  {
    files: ["src/hedgerow/report/*.js"],
    languageOptions: { sourceType: "script" },
    rules: {
      "no-redeclare": ["error", { builtinGlobals: false }],
      "no-unused-vars": ["error", { vars: "local" }],
    },
  },
];
