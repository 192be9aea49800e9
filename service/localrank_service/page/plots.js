// Drawings of figures: lines over time, intervals, pairs of shares. Beside each stands a table or a text with the same figures.

import { element, styled, svg, table } from "./element.js";
import { number, percent, plain, signed } from "./format.js";

const HEIGHT = 170;
const LEFT = 46;
const BOTTOM = 24;

/** Return round numbers from zero to at least the largest. */
export function ticks(largest, most = 4) {
  if (!(largest > 0)) return [0, 1];
  const rough = largest / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  return Array.from({ length: Math.ceil(largest / step - 1e-9) + 1 }, (_, i) => i * step);
}

/**
 * Draw lines over the last minutes.
 *
 * `lines` are { name, values, kind }, the oldest value first and null where there is none; `ages` are the seconds since each.
 */
export function course(label, lines, ages, { width = 560, unit = "", format = number } = {}) {
  const largest = Math.max(0, ...lines.flatMap(({ values }) => values.filter((value) => value !== null)));
  const rounds = ticks(largest);
  const top = rounds.at(-1);
  const span = Math.max(...ages, 120);
  const x = (age) => width - 10 - ((width - LEFT - 14) * age) / span;
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 12) * value) / top;
  const grid = rounds.map((value) => svg("g", {},
    svg("line", { x1: LEFT, x2: width - 10, y1: y(value), y2: y(value), class: "grid" }),
    svg("text", { x: LEFT - 6, y: y(value) + 4, class: "tick end" }, value >= 1000 ? value.toLocaleString("en") : plain(value, 3))));
  const step = [30, 60, 300].find((one) => span / one <= 6) ?? 300;
  const times = Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => i * step).filter((age) => x(age) > LEFT + 12)
    .map((age) => svg("text", { x: x(age), y: HEIGHT - 6, class: age ? "tick middle" : "tick end" }, age ? `−${age < 60 ? `${age} s` : `${age / 60} min`}` : "now"));
  const drawn = lines.flatMap(({ values, kind }) => runs(values).map((run) => (run.length === 1
    ? svg("circle", { cx: x(ages[run[0]]), cy: y(values[run[0]]), r: 2.5, class: `dot ${kind}` })
    : svg("polyline", { points: run.map((i) => `${x(ages[i]).toFixed(1)},${y(values[i]).toFixed(1)}`).join(" "), class: `line ${kind}` }))));
  const latest = lines.map(({ name, values }) => {
    const last = values.filter((value) => value !== null).at(-1);
    return `${name}: ${last === undefined ? "none" : `${format(last)}${unit}`}`;
  });
  return element("figure", {},
    element("figcaption", {}, element("h2", {}, label), legend(lines)),
    svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "plot", role: "img", "aria-label": `${label}. Latest of ${latest.join(", ")}.` }, ...grid, ...times, ...drawn));
}

/** Split positions into runs without a gap. */
function runs(values) {
  const found = [[]];
  values.forEach((value, i) => {
    if (value === null) found.push([]);
    else found.at(-1).push(i);
  });
  return found.filter((run) => run.length);
}

function legend(lines) {
  return element("ul", { class: "legend" }, lines.map(({ name, kind }) => element("li", {}, element("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), name)));
}

/** Show differences with their intervals: { name, model, global, difference, low, high, p, note } each. */
export function intervals(caption, figures) {
  const reach = Math.max(...figures.flatMap(({ low, high, difference }) => [low ?? difference, high ?? difference].map((one) => Math.abs(one ?? 0))), 1e-12);
  const at = (value) => 50 + (50 * value) / (reach * 1.05);
  return table(caption, ["Metric", "Model", "Global", "Difference", "95 % interval", ""], figures.map((one) => {
    const known = one.low !== undefined && one.low !== null;
    const [from, to] = known ? [at(one.low), at(one.high)] : [at(one.difference ?? 0), at(one.difference ?? 0)];
    const kind = !known || (one.low <= 0 && one.high >= 0) ? "even" : one.low > 0 ? "plus" : "minus";
    const bar = styled(element("span", { class: `fill whisker ${kind}` }), { left: `${from}%`, width: `${Math.max(to - from, 0.5)}%` });
    const dot = styled(element("span", { class: `point ${kind}` }), { left: `${at(one.difference ?? 0)}%` });
    return [one.name, number(one.model), number(one.global), signed(one.difference, 3), known ? `${signed(one.low)} to ${signed(one.high)}` : "–",
      element("span", { class: "axis", "aria-hidden": "true" }, bar, dot)];
  }), { numeric: [1, 2, 3, 4] });
}

/** Show two shares of each row side by side: { name, first, second, count }. */
export function pairs(caption, heads, rows) {
  const largest = Math.max(...rows.flatMap(({ first, second }) => [first ?? 0, second ?? 0]), 1e-12);
  const bar = (share, kind) => styled(element("span", { class: `half ${kind}` }), { width: `${(100 * (share ?? 0)) / largest}%` });
  return table(caption, [...heads, ""], rows.map(({ name, first, second, cells = [] }) => [name, ...cells, percent(first), percent(second),
    element("span", { class: "halves", "aria-hidden": "true" }, bar(first, "now"), bar(second, "before"))]),
  { numeric: Array.from({ length: heads.length - 1 }, (_, i) => i + 1) });
}
