// The documents of a query as a list that moves from the given order to the service's.

import { element, styled } from "./element.js";
import { count, number } from "./format.js";

/** The largest number of documents that are shown; a request may hold thousands. */
export const SHOWN = 200;
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

export class RankingList {
  /** `choose(index)` returns what a document shows when it is opened. */
  constructor(open) {
    this.open = open;
    this.list = element("ol", { class: "ranking" });
    this.note = element("p", { class: "hint" });
    this.root = element("div", {}, this.list, this.note);
    this.items = new Map();
  }

  /** Show the documents in the given order. */
  given(documents) {
    this.documents = documents;
    this.items.clear();
    this.list.replaceChildren();
    this.place(documents.rows.map((_, index) => ({ index })), { still: true });
  }

  /** Move the documents to their ranks. */
  ranked(results) {
    const scores = results.map((one) => one.score);
    const [low, high] = [Math.min(...scores), Math.max(...scores)];
    this.place(results.map((one) => ({ ...one, share: high > low ? (one.score - low) / (high - low) : 1 })));
  }

  place(results, { still = false } = {}) {
    const before = new Map([...this.items].map(([index, item]) => [index, item.getBoundingClientRect().top]));
    const shown = results.slice(0, SHOWN);
    this.list.replaceChildren(...shown.map((one) => this.item(one)));
    this.note.textContent = results.length > SHOWN ? `The first ${SHOWN} of ${count(results.length)} documents.` : "";
    if (still || CALM.matches) return;
    for (const { index } of shown) {
      const item = this.items.get(index);
      const moved = (before.get(index) ?? window.innerHeight) - item.getBoundingClientRect().top;
      if (!moved) continue;
      item.animate([{ transform: `translateY(${moved}px)` }, { transform: "none" }], { duration: 600, easing: "cubic-bezier(.2,.8,.2,1)" });
    }
  }

  item({ index, rank, score, share }) {
    const name = this.documents.ids?.[index] ?? `document ${index + 1}`;
    const label = this.documents.labels?.[index];
    const moved = rank === undefined ? 0 : index + 1 - rank;
    const panel = element("div", { class: "why" });
    const details = element("details", { "data-index": index },
      element("summary", {},
        element("span", { class: "rank" }, String(rank ?? index + 1)),
        element("span", { class: "name" }, name, label !== undefined && label !== null && element("span", { class: "tag" }, `judged ${label}`)),
        element("span", { class: moved > 0 ? "move up" : moved < 0 ? "move down" : "move" }, this.movement(rank, moved)),
        element("span", { class: "track" }, score !== undefined && styled(element("span", { class: "fill" }), { width: `${Math.max(1, 100 * share)}%` })),
        element("span", { class: "score" }, score === undefined ? "" : number(score, 4))),
      panel);
    details.addEventListener("toggle", () => {
      if (details.open) panel.replaceChildren(...this.open(index));
    });
    const item = element("li", {}, details);
    this.items.set(index, item);
    return item;
  }

  movement(rank, moved) {
    if (rank === undefined) return "";
    if (!moved) return element("span", {}, element("span", { "aria-hidden": "true" }, "="), element("span", { class: "unseen" }, "stays"));
    const sign = moved > 0 ? "▲" : "▼";
    return element("span", {}, element("span", { "aria-hidden": "true" }, `${sign} ${Math.abs(moved)}`),
      element("span", { class: "unseen" }, `moves ${moved > 0 ? "up" : "down"} by ${Math.abs(moved)}`));
  }
}
