"use strict";

/**
 * Light or dark: as the system says, until the reader chooses.
 *
 *     Theme.button()  a button that turns the page dark or light, and remembers it
 */
const Theme = (() => {
  const { html, svg } = Dom;

  function button() {
    const key = "hedgerow-theme";
    // Where storage is forbidden, the choice lasts as long as the page.
    const stored = (act) => {
      try {
        return act(window.localStorage);
      } catch {
        return null;
      }
    };
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const icon = svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" });
    icon.append(
      svg("circle", { class: "theme-ring", cx: 10, cy: 10, r: 7.5 }),
      svg("path", { class: "theme-half", d: "M10,2.5a7.5,7.5 0 0,1 0,15z" }),
    );
    const button = html("button", { type: "button", class: "theme", click: turn }, icon);
    const words = html("span");
    button.append(words);
    const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    const show = () => (words.textContent = isDark() ? "Light" : "Dark");
    function turn() {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      stored((storage) => storage.setItem(key, document.documentElement.dataset.theme));
      show();
    }
    const kept = stored((storage) => storage.getItem(key));
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
    system.addEventListener("change", show);
    show();
    return button;
  }

  return { button };
})();
