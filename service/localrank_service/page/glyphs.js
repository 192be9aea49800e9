// The marks of clusters: eight colours and eight shapes, so that nobody needs to tell colours apart.

import { svg } from "./element.js";

const KINDS = 8;
const SHAPES = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
  (r) => polygon([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]], r),
  (r) => polygon([[0, -1.25], [1.15, 0.8], [-1.15, 0.8]], r),
  (r) => polygon([[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]], r),
  (r) => polygon([[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]], r),
  (r) => polygon([[0, 1.25], [1.15, -0.8], [-1.15, -0.8]], r),
  (r) => polygon([[0, -1.15], [1, -0.55], [1, 0.55], [0, 1.15], [-1, 0.55], [-1, -0.55]], r),
  (r) => polygon([[-1.1, -1.1], [0, -0.45], [1.1, -1.1], [0.45, 0], [1.1, 1.1], [0, 0.45], [-1.1, 1.1], [-0.45, 0]], r),
];

function polygon(corners, r) {
  return `M${corners.map(([x, y]) => `${(x * r).toFixed(2)},${(y * r).toFixed(2)}`).join("L")}z`;
}

/** The class that gives an element the colour of a cluster, as --mark. */
export function markClass(cluster) {
  return Number.isInteger(cluster) ? `mark mark-${cluster % KINDS}` : "mark";
}

/** Draw the mark of a cluster at a place; the global scorer has a circle. */
export function mark(cluster, x, y, r = 4.5, attributes = {}) {
  const shape = SHAPES[Number.isInteger(cluster) ? cluster % KINDS : 0];
  return svg("path", { d: shape(r), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, class: markClass(cluster), ...attributes });
}

/** The mark of a cluster in a line of text. */
export function badge(cluster) {
  return svg("svg", { viewBox: "-8 -8 16 16", width: "16", height: "16", class: "badge", "aria-hidden": "true" }, mark(cluster, 0, 0, 5.5));
}
