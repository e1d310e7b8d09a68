"use strict";

// Builds the report from the data block of the page.
(() => {
  const { html, svg, shortened } = Dom;
  const content = JSON.parse(document.getElementById("content").textContent);
  const main = document.getElementById("main");
  const SHORT_TEXT = 420;
  const SHORT_LABEL = 140;
  const TABLE_STEP = 50;

  const count = (number) => number.toLocaleString("en");
  const percent = (share) => (share === null ? "–" : `${Math.round(100 * share)} %`);
  const decimal = (number, digits = 2) => (number === null ? "–" : number.toFixed(digits));
  const named = (label) => html("bdi", { title: label.length > SHORT_LABEL ? label.slice(0, 1000) : null }, shortened(label, SHORT_LABEL));
  const names = new Map(content.names.map(({ label, name }) => [label, name]));
  /** What people call a label. */
  const called = (label) => names.get(label) ?? label;
  /** A label by its name, with its id as the tooltip. */
  const labelled = (label) => (names.has(label) ? html("bdi", { title: label.slice(0, 1000) }, shortened(called(label), SHORT_LABEL)) : named(label));
  const unseen = (text) => html("span", { class: "unseen" }, text);

  function section(id, title, introduction, ...children) {
    const heading = html("h2", { id: `${id}-title` }, title);
    const lead = introduction ? html("p", { class: "lead" }, introduction) : null;
    const made = html("section", { id, "aria-labelledby": `${id}-title` }, heading, lead, ...children);
    main.append(made);
    return { id, title, made, heading };
  }

  /* Over the page */

  function header() {
    const titles = html("div", {}, html("h1", { dir: "auto" }, content.title));
    if (content.subtitle) titles.append(html("p", { class: "subtitle", dir: "auto" }, content.subtitle));
    document.getElementById("top").append(titles, Theme.button());
  }

  function summary() {
    if (!content.headline.length) return null;
    const tile = ({ name, value, explanation }) =>
      html(
        "div",
        { class: "tile" },
        html("dt", {}, name),
        html("dd", { class: "value" }, value),
        html("dd", { class: "explanation" }, explanation),
      );
    const tiles = html("dl", { class: "tiles" }, ...content.headline.map(tile));
    // Rows of the same length, at most five in each.
    const rows = Math.ceil(content.headline.length / 5);
    tiles.style.setProperty("--columns", Math.ceil(content.headline.length / rows));
    return section("summary", "Summary", "", tiles);
  }

  function figures() {
    if (!content.figures.length) return null;
    const grid = html("div", { class: "figures" });
    const made = section(
      "figures",
      "Figures",
      "Drag over a figure to zoom, double-click to reset. Click a name in the legend to hide or show it.",
      grid,
    );
    for (const figure of content.figures) {
      const drawn = html("div");
      const anchor = `figure-${figure.id}`;
      grid.append(
        html("figure", { id: anchor }, html("figcaption", {}, html("h3", {}, figure.title), html("p", {}, figure.caption)), drawn),
      );
      Charts.draw(drawn, figure);
    }
    return made;
  }

  /* Examples */

  function key() {
    const sample = { probability: 0.55, votes: [0.3, 0.38, 0.5, 0.52, 0.62, 0.7, 0.8] };
    const mark = (isTrue, words) => html("span", { class: "key-item" }, verdict(isTrue), words);
    return html(
      "div",
      { class: "key" },
      html("span", { class: "key-item" }, Votes.strip(sample), "Each dot is the probability that one member gives, from 0 to 1; the bar is their mean."),
      mark(true, "right: the input has this label"),
      mark(false, "wrong: the input does not have it"),
      html("span", { class: "key-item" }, Votes.part("data", 16), "data (aleatoric) uncertainty: each member is unsure by itself"),
      html("span", { class: "key-item" }, Votes.part("knowledge", 16), "knowledge (epistemic) uncertainty: the members disagree, or no training input has the label"),
    );
  }

  function verdict(isTrue) {
    const mark = svg("svg", { class: isTrue ? "mark right" : "mark wrong", viewBox: "0 0 16 16", "aria-hidden": "true" });
    mark.append(svg("path", { d: isTrue ? "M2.5,8.5L6.5,12.5L13.5,4" : "M4,4L12,12M12,4L4,12" }));
    return mark;
  }

  function prediction(found, input) {
    const uncertainty = Votes.uncertainty(found, input);
    return html(
      "li",
      { class: "prediction" },
      html("span", { class: "name" }, verdict(found.is_true), unseen(found.is_true ? "right: " : "wrong: "), labelled(found.label)),
      Votes.strip(found),
      html("span", { class: "probability" }, percent(found.probability)),
      html(
        "span",
        { class: `uncertainty ${uncertainty.kind}` },
        Votes.parts(found),
        html("span", {}, uncertainty.words),
      ),
      reasons(found),
    );
  }

  /** How the judge came to a probability; nothing where there is none. */
  function reasons({ reasons: sentences }) {
    if (!sentences?.length) return null;
    const list = html("ul", {}, ...sentences.map((one) => html("li", {}, one)));
    return html("details", { class: "values reasons" }, html("summary", {}, "Why this probability?"), list);
  }

  function passage(text) {
    if (text === null) return null;
    if (text.length <= SHORT_TEXT * 1.2) return html("p", { class: "text", dir: "auto" }, text);
    const short = shortened(text, SHORT_TEXT);
    const shown = html("p", { class: "text", dir: "auto" }, short);
    const button = html(
      "button",
      {
        type: "button",
        class: "more",
        "aria-expanded": "false",
        click: () => {
          const open = button.getAttribute("aria-expanded") === "true";
          button.setAttribute("aria-expanded", String(!open));
          button.textContent = open ? "Show more" : "Show less";
          shown.textContent = open ? short : text;
        },
      },
      "Show more",
    );
    return html("div", {}, shown, button);
  }

  function trueLabels(example) {
    const found = new Set(example.predicted.map(({ label }) => label));
    const missed = example.true_labels.filter((label) => !found.has(label));
    if (!example.true_labels.length) return html("p", { class: "truth" }, "The input has no labels.");
    if (!missed.length) return html("p", { class: "truth" }, "All true labels are among these.");
    return html(
      "div",
      { class: "truth" },
      html("span", {}, `True labels that are not among these (${missed.length} of ${example.true_labels.length}):`),
      html("ul", { class: "missed" }, ...missed.map((label) => html("li", {}, labelled(label)))),
    );
  }

  function card(example) {
    const measures = [
      ["expected number of labels", decimal(example.expected, 1)],
      ["total uncertainty of the best five labels, in nats", decimal(example.total)],
      ["knowledge uncertainty among it", decimal(example.knowledge)],
    ];
    if (example.ood !== null) measures.push(["OOD p-value", decimal(example.ood, 3)]);
    const input = example.text === null ? "input" : "text";
    return html(
      "article",
      { class: "card" },
      html("h3", {}, named(example.id)),
      html("p", { class: "why" }, example.why),
      passage(example.text),
      html("ol", { class: "predictions", "aria-label": "Predicted labels" }, ...example.predicted.map((found) => prediction(found, input))),
      trueLabels(example),
      html("dl", { class: "measures" }, ...measures.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, value)))),
    );
  }

  function searchable(example) {
    const labels = example.predicted.map(({ label }) => label);
    const known = [...example.true_labels, ...labels];
    return [example.id, example.text ?? "", example.why, ...known, ...known.map(called)].join("\n").toLocaleLowerCase();
  }

  function examples(id, title, introduction, list, withKey) {
    if (!list.length) return null;
    const cards = list.map((example) => ({ card: card(example), words: searchable(example) }));
    const none = html("p", { class: "none", hidden: true }, "No example has all words of the filter.");
    const made = section(id, title, introduction, withKey ? key() : null, ...cards.map((one) => one.card), none);
    const filter = (matches) => {
      let shown = 0;
      for (const one of cards) {
        one.card.hidden = !matches(one.words);
        shown += one.card.hidden ? 0 : 1;
      }
      none.hidden = shown > 0;
      return { shown, all: cards.length };
    };
    return { ...made, filter, noun: "examples" };
  }

  /* Labels */

  function labels() {
    if (!content.labels.length) return null;
    const columns = [
      { field: "label", title: "Label", show: (row) => labelled(row.label) },
      { field: "training_count", title: "Training examples", show: (row) => count(row.training_count) },
      { field: "test_count", title: "Test examples", show: (row) => count(row.test_count) },
      { field: "found", title: "Found", show: (row) => percent(row.found) },
      { field: "probability", title: "Mean probability where true", show: (row) => decimal(row.probability) },
      { field: "knowledge", title: "Mean knowledge uncertainty where true", show: (row) => decimal(row.knowledge, 3) },
    ];
    const words = new Map(content.labels.map((row) => [row, `${row.label}\n${called(row.label)}`.toLocaleLowerCase()]));
    let rows = content.labels;
    let chosen = content.labels;
    let limit = TABLE_STEP;
    let order = null;

    const heads = columns.map((column) =>
      html(
        "th",
        { scope: "col", "aria-sort": "none" },
        html("button", { type: "button", click: () => sort(column) }, column.title, html("span", { class: "arrow", "aria-hidden": "true" })),
      ),
    );
    const body = html("tbody");
    const more = html("button", { type: "button", class: "more", click: () => ((limit += 4 * TABLE_STEP), show()) });
    const none = html("p", { class: "none", hidden: true }, "No label has all words of the filter.");
    const table = html(
      "table",
      { class: "labels" },
      html("caption", { class: "unseen" }, "Labels; the buttons in the head sort"),
      html("thead", {}, html("tr", {}, ...heads)),
      body,
    );
    const made = section(
      "labels",
      "Labels",
      "Labels that the model finds least often come first. Found is the share of a label’s test examples where it is among the five most probable labels.",
      html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of labels" }, table),
      more,
      none,
    );

    function sort(column) {
      // Numbers are of interest from the largest, names from A.
      const first = column.field === "label" ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      order = { field: column.field, direction: order?.field === column.field && order.direction === first ? other : first };
      columns.forEach((one, i) => heads[i].setAttribute("aria-sort", one === column ? order.direction : "none"));
      const sign = order.direction === "ascending" ? 1 : -1;
      const collator = new Intl.Collator("en", { numeric: true });
      chosen = [...content.labels].sort((a, b) => {
        const [left, right] = [a[column.field], b[column.field]];
        if (left === null || right === null) return (left === null) - (right === null);
        return sign * (column.field === "label" ? collator.compare(called(left), called(right)) : left - right);
      });
      filter(matching);
    }

    function show() {
      body.replaceChildren(
        ...rows.slice(0, limit).map((row) =>
          html("tr", {}, ...columns.map((column, i) => html(i ? "td" : "th", i ? {} : { scope: "row" }, column.show(row)))),
        ),
      );
      more.hidden = rows.length <= limit;
      more.textContent = `Show more (${count(Math.max(0, rows.length - limit))} left)`;
      none.hidden = rows.length > 0;
    }

    let matching = () => true;
    function filter(matches) {
      if (matches !== matching) limit = TABLE_STEP;
      matching = matches;
      rows = chosen.filter((row) => matches(words.get(row)));
      show();
      return { shown: rows.length, all: content.labels.length };
    }
    show();
    return { ...made, filter, noun: "labels" };
  }

  function details() {
    if (!content.settings.length && !content.notes.length) return null;
    const setting = ({ name, value }) => html("div", {}, html("dt", {}, name), html("dd", { dir: "auto" }, value));
    return section(
      "details",
      "How this report was made",
      "",
      content.settings.length ? html("dl", { class: "settings" }, ...content.settings.map(setting)) : null,
      ...content.notes.map((note) => html("p", { class: "note" }, note)),
    );
  }

  /* Sections and the filter */

  function navigation(sections) {
    const links = sections.map(({ id, title }) => html("a", { href: `#${id}` }, title));
    const bar = document.getElementById("sections");
    bar.append(html("div", { class: "links" }, ...links));
    const filtered = sections.filter((one) => one.filter);
    if (filtered.length) bar.append(filterBox(filtered));
    const watch = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries)
          if (isIntersecting)
            links.forEach((link) => {
              if (link.hash === `#${target.id}`) link.setAttribute("aria-current", "true");
              else link.removeAttribute("aria-current");
            });
      },
      { rootMargin: "-20% 0px -70% 0px" },
    );
    sections.forEach(({ made }) => watch.observe(made));
  }

  function filterBox(filtered) {
    const status = html("span", { class: "filter-status", role: "status" });
    const input = html("input", {
      type: "search",
      id: "filter",
      placeholder: "Filter by words",
      "aria-label": "Filter examples and labels by words",
      autocomplete: "off",
      input: apply,
    });
    function apply() {
      const wanted = input.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
      const matches = (words) => wanted.every((word) => words.includes(word));
      const sums = {};
      for (const { filter, noun } of filtered) {
        const { shown, all } = filter(matches);
        sums[noun] = { shown: (sums[noun]?.shown ?? 0) + shown, all: (sums[noun]?.all ?? 0) + all };
      }
      const shares = Object.entries(sums).map(([noun, { shown, all }]) => `${count(shown)} of ${count(all)} ${noun}`);
      status.textContent = wanted.length ? shares.join(", ") : "";
    }
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input") || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      input.focus();
    });
    return html("div", { class: "filter" }, input, status);
  }

  header();
  const hasUncertain = content.uncertain.length > 0;
  navigation(
    [
      summary(),
      figures(),
      examples("uncertain", "Most uncertain", "The inputs whose most probable label is least probable.", content.uncertain, true),
      examples("wrong", "Confidently wrong", "The most probable label is wrong, and its probability is high. Check the data for errors, too.", content.wrong, !hasUncertain),
      labels(),
      details(),
    ].filter(Boolean),
  );
})();
