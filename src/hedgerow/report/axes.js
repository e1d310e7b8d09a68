"use strict";

/**
 * Numbers as text, and the linear and logarithmic axes of charts.
 *
 * A scale is "linear" or "log". A view is the pair of ends of an axis in units of its scale: logarithms on a log axis.
 */
const Axes = (() => {
  const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

  function written(value, digits = 4) {
    if (!isNumber(value)) return "–";
    if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e7)) return powerOfTen(value, digits);
    return value.toLocaleString("en", { maximumSignificantDigits: digits });
  }

  function powerOfTen(value, digits) {
    const exponent = Math.floor(Math.log10(Math.abs(value)));
    const factor = Number((value / 10 ** exponent).toPrecision(digits));
    const raised = (exponent < 0 ? "⁻" : "") + [...String(Math.abs(exponent))].map((d) => SUPERSCRIPTS[d]).join("");
    return `${factor === 1 ? "" : `${factor}·`}10${raised}`;
  }

  const onto = (scale) => (scale === "log" ? Math.log10 : (value) => value);
  const back = (scale) => (scale === "log" ? (value) => 10 ** value : (value) => value);

  function axis(scale, view, from, to) {
    const transform = onto(scale);
    return {
      at: (value) => (isNumber(value) ? from + ((transform(value) - view[0]) / (view[1] - view[0])) * (to - from) : NaN),
      value: (pixel) => back(scale)(view[0] + ((pixel - from) / (to - from)) * (view[1] - view[0])),
      unit: (pixel) => view[0] + ((pixel - from) / (to - from)) * (view[1] - view[0]),
    };
  }

  function linearTicks([low, high], count) {
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const decimals = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) {
      const value = i * step || 0; // never -0
      const plain = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
      ticks.push([value, decimals > 5 ? written(value) : value.toLocaleString("en", plain)]);
    }
    return ticks;
  }

  function logTicks([low, high], count) {
    const ends = [10 ** low, 10 ** high];
    if (high - low < 0.7) return linearTicks(ends, count).filter(([value]) => value > 0);
    const factors = high - low <= 2 && count >= 4 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil((high - low) / Math.max(2, count)));
    const raised = low < -3.01 || high > 4.01;
    const ticks = [];
    for (let power = Math.floor(low); power <= high; power++) {
      if (power % every) continue;
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value < ends[0] * (1 - 1e-9) || value > ends[1] * (1 + 1e-9)) continue;
        ticks.push([value, raised && value !== 1 ? powerOfTen(value, 1) : written(value)]);
      }
    }
    return ticks;
  }

  /** Places and their names, about `count` of them. */
  const ticks = (scale, view, count) => (scale === "log" ? logTicks : linearTicks)(view, count);

  /** The view that holds all values, with a little room where the ends are not asked for. */
  function wholeView(scale, limits, values, room) {
    if (limits) return limits.map(onto(scale));
    const shown = values.filter((value) => isNumber(value) && (scale === "linear" || value > 0)).map(onto(scale));
    if (!shown.length) return [0, 1];
    let low = shown.reduce((a, b) => Math.min(a, b));
    let high = shown.reduce((a, b) => Math.max(a, b));
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    return [low - room * (high - low), high + room * (high - low)];
  }

  return { axis, isNumber, onto, ticks, wholeView, written };
})();
