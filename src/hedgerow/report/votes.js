"use strict";

/**
 * The votes of the members on a label, and its uncertainty.
 *
 *     Votes.strip(prediction)                        an SVG picture: a bar to the mean, and a dot per member, from 0 to 1
 *     Votes.uncertainty(prediction, input = "text")  { kind: "low" | "data" | "knowledge", words }
 *     Votes.parts(prediction)                        a bar of its data and its knowledge uncertainty
 *     Votes.part(kind, width)                        one part of such a bar
 *
 * `prediction` has the fields of hedgerow.report.Prediction.
 */
const Votes = (() => {
  const { html, svg } = Dom;
  const WIDTH = 240;
  const HEIGHT = 28;
  const EDGE = 6;
  const RADIUS = 3.5;
  const COIN_TOSS = Math.log(2); // no label can be more uncertain

  function strip(prediction) {
    const at = (p) => EDGE + p * (WIDTH - 2 * EDGE);
    const votes = prediction.votes.filter((p) => p !== null).sort((a, b) => a - b);
    const middle = HEIGHT / 2;
    const picture = svg("svg", {
      class: "strip",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": spoken(prediction, votes),
    });
    picture.append(
      svg("rect", { class: "strip-track", x: at(0), y: middle - 4, width: at(1) - at(0), height: 8, rx: 2 }),
      svg("rect", { class: "strip-mean", x: at(0), y: middle - 4, width: at(prediction.probability) - at(0), height: 8, rx: 2 }),
      svg("path", { class: "strip-axis", d: `M${at(0)},3V${HEIGHT - 3}M${at(0.5)},3V${HEIGHT - 3}M${at(1)},3V${HEIGHT - 3}` }),
    );
    // Equal votes lie above and below one another: 0, -1, 1, -2, 2 rows from the middle.
    const last = [];
    for (const p of votes) {
      const left = at(p);
      let row = 0;
      while (row < 4 && row < last.length && left - last[row] < 2 * RADIUS) row++;
      row %= 5;
      last[row] = left;
      const rows = Math.ceil(row / 2) * (row % 2 ? -1 : 1);
      picture.append(svg("circle", { class: "vote", cx: left.toFixed(1), cy: middle + rows * 4.5, r: RADIUS }));
    }
    return picture;
  }

  function spoken(prediction, votes) {
    const percent = (p) => `${Math.round(100 * p)} %`;
    const mean = `mean probability ${percent(prediction.probability)}`;
    if (votes.length < 2) return mean;
    return `${votes.length} members, from ${percent(votes[0])} to ${percent(votes.at(-1))}, ${mean}`;
  }

  // Little uncertainty about an improbable label is not little doubt about the input: so it says which way.
  function uncertainty({ probability, total, data, knowledge }, input = "text") {
    if (total < COIN_TOSS / 3) return { kind: "low", words: `nearly sure that it is ${probability < 0.5 ? "wrong" : "right"}` };
    if (knowledge < data / 3) return { kind: "data", words: "data uncertainty: could be right or wrong" };
    // Without any data uncertainty there is one member, and it has learned nothing of the label.
    const why = data > 0 ? "the members disagree" : `no training ${input} has this label`;
    return { kind: "knowledge", words: `knowledge uncertainty: ${why}` };
  }

  function part(kind, width) {
    const box = svg("svg", { class: `part ${kind}`, width, height: 8, "aria-hidden": "true" });
    box.append(svg("rect", { width, height: 8, rx: 1 }));
    return box;
  }

  function parts({ data, knowledge }) {
    const share = (nats) => Math.round((64 * Math.max(0, nats ?? 0)) / COIN_TOSS);
    return html("span", { class: "parts" }, part("data", share(data)), part("knowledge", share(knowledge)));
  }

  return { strip, uncertainty, part, parts };
})();
