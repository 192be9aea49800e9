// Bars: contributions to both sides of zero, stages of a request one after the other, shares side by side.

import { element, styled, table } from "./element.js";
import { milliseconds, signed } from "./format.js";

/** Show amounts by name, the largest first, as bars to the right or left of zero. */
export function diverging(caption, amounts, { most = 8, head = "Adds" } = {}) {
  const sorted = [...amounts].sort((a, b) => Math.abs(b.amount) - Math.abs(a.amount));
  const shown = sorted.slice(0, most);
  const left = sorted.slice(most);
  if (left.length) shown.push({ name: `${left.length} others`, amount: left.reduce((sum, one) => sum + one.amount, 0) });
  const largest = Math.max(...shown.map((one) => Math.abs(one.amount)), 1e-300);
  return table(caption, ["Feature", head, ""], shown.map(({ name, amount }) => {
    const width = (50 * Math.abs(amount)) / largest;
    const fill = styled(element("span", { class: amount < 0 ? "fill minus" : "fill plus" }), { width: `${width}%`, left: `${amount < 0 ? 50 - width : 50}%` });
    return [name, signed(amount, 3), element("span", { class: "axis", "aria-hidden": "true" }, fill)];
  }), { numeric: [1] });
}

/** Show the stages of one request, each from where the one before ended. */
export function waterfall(timings) {
  const total = timings.total;
  let begun = 0;
  const stages = Object.entries(timings).filter(([name]) => name !== "total");
  const known = stages.reduce((sum, [, elapsed]) => sum + elapsed, 0);
  const rest = total - known;
  if (rest > 0.0005) stages.push(["between stages", rest]);
  return table("Where the time went", ["Stage", "Time", ""], [
    ...stages.map(([name, elapsed], i) => {
      const fill = styled(element("span", { class: `fill stage-${i % 6}` }), {
        left: `${(100 * begun) / total}%`, width: `${Math.max(0.6, (100 * elapsed) / total)}%`,
      });
      begun += elapsed;
      return [name, milliseconds(elapsed), element("span", { class: "axis plain", "aria-hidden": "true" }, fill)];
    }),
    ["total", milliseconds(total), ""],
  ], { numeric: [1], hidden: true });
}
