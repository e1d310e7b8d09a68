"use strict";

/**
 * Interactive charts in SVG.
 *
 *     const chart = Charts.draw(element, figure);
 *
 * appends a chart, its legend and a table of its values to `element`, keeps it as wide as `element`, and returns
 * `{ redraw, reset, remove }`. `figure` has the fields of hedgerow.report.Figure:
 *
 *     { id, title, caption, alternative, x_title, y_title, x_scale, y_scale, x_limits, y_limits, x_ticks,
 *       series: [{ name, kind: "line" | "points" | "bars" | "band" | "diagonal", x, y, low, high }] }
 *
 * Numbers may be null: gaps. Colours are the custom properties --hue-0 to --hue-5; lines also differ in their
 * dashes and points in their shapes. Drag, wheel (with the chart in focus, or Ctrl), buttons and + - 0 zoom; arrow
 * keys read values.
 */
const Charts = (() => {
  const { html, svg } = Dom;
  const { axis, isNumber, onto, ticks, wholeView, written } = Axes;
  const HUES = 6;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 3"];
  const TABLE_ROWS = 12;
  const DRAG = 6; // pixels: less is a click
  const SMALLEST_VIEW = 1e-4; // of the whole axis
  let charts = 0;

  /* Series */

  /** The points of a series in ascending order of x, with their places before that. */
  function sorted(series) {
    const points = series.x.map((x, i) => ({ x, y: series.y[i], low: series.low[i], high: series.high[i] }));
    return points.filter((point) => isNumber(point.x)).sort((a, b) => a.x - b.x);
  }

  /** The values at x: of a line or a band between its points, of others only at a point; null where there are none. */
  function valuesAt(kind, points, x) {
    const after = points.findIndex((point) => point.x >= x);
    if (after < 0) return null;
    if (points[after].x === x) return points[after];
    if (after === 0 || (kind !== "line" && kind !== "band")) return null;
    const [a, b] = [points[after - 1], points[after]];
    const share = (x - a.x) / (b.x - a.x);
    const between = (name) => (isNumber(a[name]) && isNumber(b[name]) ? a[name] + share * (b[name] - a[name]) : null);
    return { x, y: between("y"), low: between("low"), high: between("high") };
  }

  function describe(kind, values) {
    if (!values) return "–";
    if (kind !== "band") return written(values.y);
    const range = `${written(values.low)} to ${written(values.high)}`;
    return isNumber(values.y) ? `${written(values.y)} (${range})` : range;
  }

  function path(points, x, y, name) {
    let drawing = false;
    let d = "";
    for (const point of points) {
      const [left, top] = [x.at(point.x), y.at(point[name])];
      if (!Number.isFinite(left) || !Number.isFinite(top)) drawing = false;
      else {
        d += `${drawing ? "L" : "M"}${left.toFixed(1)},${top.toFixed(1)}`;
        drawing = true;
      }
    }
    return d;
  }

  function marker(index, left, top, size = 4.5) {
    const s = size;
    const shapes = [
      `M${-s},0a${s},${s} 0 1,0 ${2 * s},0a${s},${s} 0 1,0 ${-2 * s},0z`,
      `M${-s},${-s}h${2 * s}v${2 * s}h${-2 * s}z`,
      `M0,${-1.2 * s}L${1.2 * s},${s}H${-1.2 * s}z`,
      `M0,${-1.3 * s}L${1.3 * s},0L0,${1.3 * s}L${-1.3 * s},0z`,
    ];
    return svg("path", {
      class: "marker",
      d: shapes[index % shapes.length],
      transform: `translate(${left.toFixed(1)},${top.toFixed(1)})`,
    });
  }

  function swatch(kind, index) {
    const picture = svg("svg", { class: `swatch hue-${index % HUES}`, width: 22, height: 12, "aria-hidden": "true" });
    if (kind === "bars") picture.append(svg("rect", { class: "bar", x: 5, y: 1, width: 12, height: 10 }));
    if (kind === "band") picture.append(svg("rect", { class: "band", x: 0, y: 1, width: 22, height: 10 }));
    if (kind === "line" || kind === "band")
      picture.append(svg("path", { class: "line", d: "M0,6H22", "stroke-dasharray": DASHES[index % HUES] }));
    if (kind === "diagonal") picture.append(svg("path", { class: "diagonal", d: "M0,6H22" }));
    if (kind === "points") picture.append(marker(index, 11, 6));
    return picture;
  }

  /* The chart */

  function draw(parent, figure) {
    const id = `chart-${charts++}`;
    let ordinal = 0;
    const all = figure.series.map((series) => ({
      name: series.name,
      kind: series.kind,
      points: series.kind === "diagonal" ? [] : sorted(series),
      // A diagonal has a colour of its own.
      index: series.kind === "diagonal" ? 0 : ordinal++,
      hidden: false,
    }));
    const visible = () => all.filter((series) => !series.hidden);
    const bars = all.filter((series) => series.kind === "bars");
    const home = homeView();
    let view = { x: [...home.x], y: [...home.y] };
    let size = { width: 0, height: 0 };
    let frame = null; // of the plot within the picture: left, top, right, bottom, and both axes
    let drag = null;
    let cursor = null; // an x that is read

    const picture = svg("svg", { role: "img", "aria-label": alternative() });
    const tip = html("div", { class: "tip", role: "status", hidden: true });
    const plot = html(
      "div",
      {
        class: "plot",
        tabindex: 0,
        role: "group",
        "aria-label": `${figure.title}: arrow keys read values, plus and minus zoom, 0 resets`,
        pointerdown: startDrag,
        pointermove: move,
        pointerup: endDrag,
        pointercancel: () => stopDrag(),
        pointerleave: () => !drag && read(null),
        dblclick: reset,
        keydown: onKey,
        blur: () => read(null),
      },
      picture,
      tip,
    );
    // Passive by default, which could not keep the page from scrolling.
    plot.addEventListener("wheel", onWheel, { passive: false });
    const resetButton = html("button", { type: "button", class: "zoom", hidden: true, click: reset }, "Reset zoom");
    const zoomButton = (sign, name, factor) =>
      html("button", { type: "button", class: "zoom", "aria-label": name, click: () => zoomBy(factor) }, sign);
    const tools = html(
      "div",
      { class: "tools" },
      resetButton,
      zoomButton("−", "Zoom out", 1.6),
      zoomButton("+", "Zoom in", 1 / 1.6),
    );
    const root = html("div", { class: "chart" }, plot, html("div", { class: "below" }, legend(), tools), table());
    parent.append(root);
    const observer = new ResizeObserver(() => redraw());
    observer.observe(plot);
    redraw();
    return { redraw, reset, remove: () => (observer.disconnect(), root.remove()) };

    function homeView() {
      const values = (...names) => all.flatMap((s) => s.points.flatMap((point) => names.map((name) => point[name])));
      const xs = values("x");
      const spread = new Set(bars.flatMap((series) => series.points.map((point) => point.x))).size;
      const onlyPoints = all.every((series) => series.kind === "points" || series.kind === "diagonal");
      const room = spread > 1 ? 0.5 / (spread - 1) : onlyPoints ? 0.05 : 0;
      return {
        x: wholeView(figure.x_scale, figure.x_limits, xs, room),
        y: yView(values("y", "low", "high")),
      };
    }

    function yView(values) {
      const whole = wholeView(figure.y_scale, figure.y_limits, values, 0.05);
      // Bars without their foot would lie.
      if (bars.length && figure.y_scale === "linear" && !figure.y_limits)
        whole[0] = values.some((value) => value < 0) ? whole[0] : 0;
      return whole;
    }

    function alternative() {
      const ranges = all
        .filter((series) => series.points.some((point) => isNumber(point.y)))
        .map((series) => {
          const ys = series.points.map((point) => point.y).filter(isNumber);
          const range = [ys.reduce((a, b) => Math.min(a, b)), ys.reduce((a, b) => Math.max(a, b))];
          return `${series.name}: ${range.map((y) => written(y, 3)).join(" to ")}.`;
        });
      return [`${figure.title}.`, figure.alternative || figure.caption, ...ranges].join(" ");
    }

    function legend() {
      if (all.length < 2) return html("div");
      const button = (series) =>
        html(
          "button",
          {
            type: "button",
            "aria-pressed": "true",
            click: (event) => {
              series.hidden = !series.hidden;
              event.currentTarget.setAttribute("aria-pressed", String(!series.hidden));
              redraw();
            },
          },
          swatch(series.kind, series.index),
          html("span", { dir: "auto" }, series.name),
        );
      const items = all.map((series) => html("li", {}, button(series)));
      return html("ul", { class: "legend", "aria-label": "Shown" }, ...items);
    }

    function table() {
      const shown = all.filter((series) => series.points.length);
      const names = new Map((figure.x_ticks || []).map(([value, name]) => [value, name]));
      let xs = [...new Set(shown.flatMap((series) => series.points.map((point) => point.x)))].sort((a, b) => a - b);
      if (xs.length > TABLE_ROWS) {
        const transform = onto(figure.x_scale);
        const usable = xs.filter((x) => Number.isFinite(transform(x)));
        const [low, high] = [transform(usable[0]), transform(usable.at(-1))];
        const chosen = Array.from({ length: TABLE_ROWS }, (_, i) => low + (i / (TABLE_ROWS - 1)) * (high - low));
        const distance = (x, target) => Math.abs(transform(x) - target);
        const nearest = (target) => usable.reduce((a, b) => (distance(b, target) < distance(a, target) ? b : a));
        xs = [...new Set(chosen.map(nearest))];
      }
      const head = [figure.x_title, ...shown.map((series) => series.name)];
      const row = (x) =>
        html(
          "tr",
          {},
          html("th", { scope: "row" }, names.get(x) ?? written(x)),
          ...shown.map((series) => html("td", {}, describe(series.kind, valuesAt(series.kind, series.points, x)))),
        );
      return html(
        "details",
        { class: "values" },
        html("summary", {}, "Show as table"),
        html(
          "div",
          { class: "scroll", tabindex: 0, role: "region", "aria-label": `Values of ${figure.title}` },
          html(
            "table",
            {},
            html("caption", {}, `${figure.y_title} by ${figure.x_title}`),
            html("thead", {}, html("tr", {}, ...head.map((name) => html("th", { scope: "col" }, name)))),
            html("tbody", {}, ...xs.map(row)),
          ),
        ),
      );
    }

    function redraw() {
      const width = plot.clientWidth;
      if (!width) return;
      size = { width, height: Math.round(Math.min(360, Math.max(230, width * 0.58))) };
      const yTicks = ticks(figure.y_scale, view.y, (size.height - 60) / 36);
      const left = 14 + 6.8 * Math.max(2, ...yTicks.map(([, text]) => text.length));
      frame = { left, top: 28, right: width - 14, bottom: size.height - 44 };
      frame.x = axis(figure.x_scale, view.x, frame.left, frame.right);
      frame.y = axis(figure.y_scale, view.y, frame.bottom, frame.top);
      picture.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
      picture.replaceChildren(
        // Lines on the edge are drawn in their whole width.
        svg("clipPath", { id }, rectangle("", frame.left - 2, frame.top - 2, frame.right + 2, frame.bottom + 1)),
        rectangle("frame", frame.left, frame.top, frame.right, frame.bottom),
        ...yTicks.flatMap(([value, text]) => yTick(frame.y.at(value), text)),
        ...xTicks().flatMap(([value, text]) => xTick(frame.x.at(value), text)),
        svg("path", { class: "axis", d: `M${frame.left},${frame.bottom}H${frame.right}` }),
        svg("text", { class: "axis-title", x: 2, y: 12 }, figure.y_title),
        svg("text", { class: "axis-title", x: frame.right, y: size.height - 6, "text-anchor": "end" }, figure.x_title),
        ...visible().map(drawSeries),
        svg("g", { class: "cursor" }),
      );
      resetButton.hidden = isHome();
      read(cursor);
    }

    function rectangle(name, left, top, right, bottom) {
      const width = Math.max(0, right - left);
      return svg("rect", { class: name, x: left, y: top, width, height: Math.max(0, bottom - top) });
    }

    function yTick(top, text) {
      return [
        svg("path", { class: "grid", d: `M${frame.left},${top.toFixed(1)}H${frame.right}` }),
        svg("text", { class: "tick tick-y", x: frame.left - 8, y: top + 4, "text-anchor": "end" }, text),
      ];
    }

    function xTick(left, text) {
      return [
        svg("path", { class: "axis", d: `M${left.toFixed(1)},${frame.bottom}v5` }),
        svg("text", { class: "tick tick-x", x: left, y: frame.bottom + 19, "text-anchor": "middle" }, text),
      ];
    }

    function xTicks() {
      const width = frame.right - frame.left;
      if (!figure.x_ticks?.length) return ticks(figure.x_scale, view.x, width / 75);
      const inside = figure.x_ticks.filter(([value]) => {
        const left = frame.x.at(value);
        return left >= frame.left - 1 && left <= frame.right + 1;
      });
      const longest = Math.max(0, ...inside.map(([, text]) => 7 * text.length + 10));
      const every = Math.max(1, Math.ceil((longest * inside.length) / width));
      return inside.filter((_, i) => i % every === 0);
    }

    function drawSeries(series) {
      const { x, y } = frame;
      const group = svg("g", {
        class: `series hue-${series.index % HUES}`,
        "data-kind": series.kind,
        // A point on the edge is drawn whole; one beyond it is not drawn.
        "clip-path": series.kind === "points" ? null : `url(#${id})`,
      });
      const dashes = DASHES[series.index % DASHES.length];
      const line = () => svg("path", { class: "line", d: path(series.points, x, y, "y"), "stroke-dasharray": dashes });
      if (series.kind === "band") {
        // On a log axis a band that reaches 0 runs down to the edge.
        const floor = figure.y_scale === "log" ? 10 ** (home.y[0] - 10) : null;
        const edge = series.points
          .filter((point) => isNumber(point.low) && isNumber(point.high))
          .map((point) => ({ ...point, low: floor === null ? point.low : Math.max(floor, point.low) }));
        const around = path(edge, x, y, "high") + path([...edge].reverse(), x, y, "low").replace("M", "L");
        if (edge.length) group.append(svg("path", { class: "band", d: `${around}Z` }));
        if (series.points.some((point) => isNumber(point.y))) group.append(line());
      } else if (series.kind === "line") group.append(line());
      else if (series.kind === "diagonal") group.append(svg("path", { class: "diagonal", d: diagonal() }));
      else
        for (const point of series.points) {
          const [left, top] = [x.at(point.x), y.at(point.y)];
          if (!Number.isFinite(left) || !Number.isFinite(top)) continue;
          if (series.kind === "bars") group.append(bar(series, left, top));
          else if (isShown(left, top)) group.append(marker(series.index, left, top));
        }
      return group;
    }

    function isShown(left, top) {
      return left >= frame.left - 1 && left <= frame.right + 1 && top >= frame.top - 1 && top <= frame.bottom + 1;
    }

    function diagonal() {
      const { x, y } = frame;
      const steps = Array.from({ length: 65 }, (_, i) => x.value(frame.left + (i / 64) * (frame.right - frame.left)));
      return path(steps.map((value) => ({ x: value, y: value })), x, y, "y");
    }

    function bar(series, left, top) {
      const shown = bars.filter((other) => !other.hidden);
      const lefts = [...new Set(bars.flatMap((other) => other.points.map((point) => frame.x.at(point.x))))].sort((a, b) => a - b);
      const gaps = lefts.slice(1).map((value, i) => value - lefts[i]);
      const slot = 0.86 * Math.min(frame.right - frame.left, ...gaps.filter((gap) => gap > 0));
      const width = slot / shown.length;
      const start = left - slot / 2 + shown.indexOf(series) * width;
      const foot = figure.y_scale === "log" ? frame.bottom + 1 : frame.y.at(0);
      return rectangle("bar", start, Math.min(top, foot), start + Math.max(1, width - 1), Math.max(top, foot));
    }

    /* Reading values */

    function position(event) {
      const box = picture.getBoundingClientRect();
      const scale = size.width / box.width;
      return { left: (event.clientX - box.left) * scale, top: (event.clientY - box.top) * scale };
    }

    function inside({ left, top }) {
      return left >= frame.left && left <= frame.right && top >= frame.top - 8 && top <= frame.bottom + 8;
    }

    /** The x of the point next to a place: sideways for curves and bars, in both directions for points. */
    function nearestX({ left, top }) {
      let best = { distance: Infinity, x: null };
      for (const series of visible())
        for (const point of series.points) {
          const across = frame.x.at(point.x) - left;
          const down = series.kind === "points" ? frame.y.at(point.y) - top : 0;
          const distance = Math.hypot(across, down);
          if (distance < best.distance) best = { distance, x: point.x };
        }
      return best.x;
    }

    function read(x) {
      cursor = x;
      const marks = picture.querySelector(".cursor");
      marks?.replaceChildren();
      const left = x === null ? NaN : frame.x.at(x);
      tip.hidden = !(left >= frame.left - 1 && left <= frame.right + 1);
      if (tip.hidden) return;
      marks.append(svg("path", { class: "crosshair", d: `M${left.toFixed(1)},${frame.top}V${frame.bottom}` }));
      const name = (figure.x_ticks || []).find(([value]) => value === x)?.[1] ?? written(x);
      const rows = [];
      for (const series of visible()) {
        const values = valuesAt(series.kind, series.points, x);
        if (!values) continue;
        rows.push(
          html(
            "li",
            {},
            swatch(series.kind, series.index),
            html("span", { dir: "auto" }, series.name),
            html("b", {}, describe(series.kind, values)),
          ),
        );
        const top = frame.y.at(values.y);
        if (isShown(left, top))
          marks.append(svg("circle", { class: `read hue-${series.index % HUES}`, cx: left, cy: top, r: 4 }));
      }
      tip.replaceChildren(html("p", {}, `${figure.x_title}: `, html("b", {}, name)), html("ul", {}, ...rows));
      const right = left > (frame.left + frame.right) / 2;
      tip.classList.toggle("leftwards", right);
      tip.style.left = right ? "auto" : `${left + 12}px`;
      tip.style.right = right ? `${size.width - left + 12}px` : "auto";
      tip.style.maxWidth = `${Math.max(120, (right ? left : size.width - left) - 16)}px`;
    }

    /* Zooming */

    function isHome() {
      return ["x", "y"].every((name) => view[name].every((end, i) => Math.abs(end - home[name][i]) < 1e-12));
    }

    function reset() {
      view = { x: [...home.x], y: [...home.y] };
      redraw();
    }

    function limited(name, [low, high]) {
      const whole = home[name][1] - home[name][0];
      if (high - low < SMALLEST_VIEW * whole) return view[name];
      if (high - low >= whole) return [...home[name]];
      const shift = Math.max(0, home[name][0] - low) - Math.max(0, high - home[name][1]);
      return [low + shift, high + shift];
    }

    function zoomBy(factor, place = { left: (frame.left + frame.right) / 2, top: (frame.top + frame.bottom) / 2 }) {
      const about = (ends, centre) => ends.map((end) => centre + (end - centre) * factor);
      view = {
        x: limited("x", about(view.x, frame.x.unit(place.left))),
        y: limited("y", about(view.y, frame.y.unit(place.top))),
      };
      redraw();
    }

    function onWheel(event) {
      const meant = event.ctrlKey || document.activeElement === plot;
      // With nothing to zoom out of, the page scrolls on.
      if (!meant || (event.deltaY > 0 && isHome())) return;
      event.preventDefault();
      zoomBy(1.0015 ** event.deltaY, position(event));
    }

    function startDrag(event) {
      // Fingers scroll the page and read values.
      if (event.button !== 0 || event.pointerType === "touch" || !inside(position(event))) return;
      drag = position(event);
      plot.setPointerCapture(event.pointerId);
    }

    function move(event) {
      const place = position(event);
      if (!drag) return read(inside(place) ? nearestX(place) : null);
      const marks = picture.querySelector(".cursor");
      tip.hidden = true;
      const box = dragged(place);
      marks.replaceChildren(rectangle("selection", box.left, box.top, box.right, box.bottom));
    }

    /** The dragged box within the plot; a flat one spans the whole height. */
    function dragged(place) {
      const [left, right] = [drag.left, place.left].sort((a, b) => a - b);
      const [top, bottom] = [drag.top, place.top].sort((a, b) => a - b);
      const flat = bottom - top < 3 * DRAG;
      return {
        left: Math.max(left, frame.left),
        right: Math.min(right, frame.right),
        top: flat ? frame.top : Math.max(top, frame.top),
        bottom: flat ? frame.bottom : Math.min(bottom, frame.bottom),
      };
    }

    function endDrag(event) {
      if (!drag) return;
      const box = dragged(position(event));
      stopDrag();
      if (box.right - box.left < DRAG) return;
      view = {
        x: limited("x", [frame.x.unit(box.left), frame.x.unit(box.right)]),
        y: limited("y", [frame.y.unit(box.bottom), frame.y.unit(box.top)]),
      };
      redraw();
    }

    function stopDrag() {
      drag = null;
      picture.querySelector(".cursor").replaceChildren();
    }

    function onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const actions = {
        ArrowRight: () => step(1),
        ArrowLeft: () => step(-1),
        "+": () => zoomBy(1 / 1.6),
        "=": () => zoomBy(1 / 1.6),
        "-": () => zoomBy(1.6),
        0: reset,
        Escape: () => (cursor === null ? reset() : read(null)),
      };
      if (!(event.key in actions)) return;
      event.preventDefault();
      actions[event.key]();
    }

    /** Read the next point in view; in long series a fiftieth of the way on. */
    function step(direction) {
      const xs = [...new Set(visible().flatMap((series) => series.points.map((point) => point.x)))]
        .filter((x) => frame.x.at(x) >= frame.left - 1 && frame.x.at(x) <= frame.right + 1)
        .sort((a, b) => a - b);
      if (!xs.length) return;
      const stride = Math.max(1, Math.floor(xs.length / 50));
      const next = cursor === null ? (direction > 0 ? 0 : xs.length - 1) : xs.indexOf(cursor) + direction * stride;
      read(xs[Math.min(xs.length - 1, Math.max(0, next))]);
    }
  }

  return { draw };
})();
