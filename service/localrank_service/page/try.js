// Try: documents in, their order out, and why.

import { diverging, waterfall } from "./bars.js";
import { element } from "./element.js";
import { count, many, number } from "./format.js";
import { RankingList, SHOWN } from "./ranking.js";
import { readRows } from "./rows.js";
import { ask } from "./service.js";
import { snippets } from "./snippets.js";
import { clusterName, state } from "./state.js";

const FALLBACKS = {
  no_signature: "The query has no signature (one document, or all alike), so the global scorer answered.",
  unknown_kind: "No cluster is for queries of this kind, so the global scorer answered.",
  no_candidates: "The hash tables held no similar query, so the clusters' exemplars were compared.",
};

/** A feature's name; if it is a category, with its value. */
function withValue(name, value) {
  return value === undefined ? name : `${name}: ${value ?? "none"}`;
}

export class TryView {
  constructor(root) {
    this.root = root;
    this.sample = 0;
    // Counts what was asked for or typed: an answer that arrives after something newer is left out.
    this.turn = 0;
    // Whether the rows are the user's own. Another model leaves those alone.
    this.own = false;
    // The reading of a sample that a new model began with.
    this.sampling = null;
    this.build();
    state.addEventListener("model", () => this.modelChosen());
  }

  build() {
    this.text = element("textarea", { id: "rows", rows: "12", spellcheck: "false", "aria-describedby": "rows-hint", oninput: () => this.typed() });
    this.file = element("input", { type: "file", id: "file", accept: ".json,.csv,.tsv,.txt,.letor,.svm", onchange: () => this.readFile(this.file.files[0]) });
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    this.said = element("p", { role: "status", class: "hint" });
    this.button = element("button", { type: "submit", class: "primary" }, "Rank");
    this.list = new RankingList((index) => this.why(index));
    this.facts = element("div", { class: "stack facts", hidden: true });
    this.after = element("div", { class: "stack", hidden: true });
    const form = element("form", { class: "card", onsubmit: (event) => { event.preventDefault(); this.rank(); } },
      element("h2", {}, "Documents of one query"),
      element("p", { class: "hint", id: "rows-hint" }, "One row for each document: JSON, CSV or LETOR. Paste them, drop a file here, or take a sample query."),
      element("div", { class: "actions" },
        element("button", { type: "button", onclick: () => this.takeSample() }, "Take a sample query"),
        element("label", { class: "button", for: "file" }, "Open a file", this.file)),
      element("label", { for: "rows", class: "unseen" }, "Rows"),
      this.text, this.problem,
      element("div", { class: "actions" }, this.button));
    form.addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("dropping"); });
    form.addEventListener("dragleave", () => form.classList.remove("dropping"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      form.classList.remove("dropping");
      this.readFile(event.dataTransfer.files[0]);
    });
    this.listTitle = element("h2", {}, "Order");
    this.root.append(
      element("h1", { id: "title-try", tabindex: "-1" }, "Try a ranking"),
      element("div", { class: "columns trial" }, form,
        element("div", { class: "card order" }, this.listTitle, this.said, this.list.root), this.facts),
      this.after);
  }

  async modelChosen() {
    this.sample = 0;
    if (this.own) this.showGiven();
    else await (this.sampling = this.takeSample());
  }

  typed() {
    this.turn += 1;
    this.own = this.text.value.trim() !== "";
  }

  fail(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
    this.text.toggleAttribute("aria-invalid", Boolean(message));
  }

  async takeSample() {
    const { model } = state;
    if (!model) return;
    const turn = (this.turn += 1);
    try {
      const { name, version, samples } = model;
      const query = await ask(`v1/models/${encodeURIComponent(`${name}@${version}`)}/sample?query=${this.sample}`);
      if (turn !== this.turn) return;
      this.sample = (this.sample + 1) % Math.max(samples, 1);
      this.own = false;
      const cell = (value) => (/[",\n;\t]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value ?? "");
      this.text.value = query.features.map((row) => row.map(cell).join(",")).join("\n");
      const heads = model.features.map((feature) => cell(feature.name));
      this.text.value = `${heads.join(",")}\n${this.text.value}`;
      this.showGiven();
    } catch (error) {
      if (turn === this.turn) this.fail(error.message);
    }
  }

  async readFile(file) {
    if (!file) return;
    if (file.size > 32 * 2 ** 20) {
      this.fail(`${file.name} has ${count(file.size / 2 ** 20)} MB. Choose a file with the rows of one query.`);
      return;
    }
    const turn = (this.turn += 1);
    const text = await file.text();
    if (turn !== this.turn) return;
    this.text.value = text;
    this.own = true;
    this.showGiven();
  }

  read() {
    return readRows(this.text.value, state.model.features);
  }

  showGiven() {
    this.after.hidden = this.facts.hidden = true;
    try {
      const documents = this.read();
      this.documents = documents;
      this.list.given(documents);
      this.listTitle.textContent = "Order as given";
      this.said.textContent = [documents.note, `${many(documents.rows.length, "document")}. Press Rank to reorder.`].filter(Boolean).join(" ");
      this.fail("");
    } catch (error) {
      this.fail(error.message);
    }
  }

  async rank() {
    this.fail("");
    this.button.disabled = true;
    try {
      // The model, or its first sample, may be on its way.
      await state.reading;
      if (!this.own) await this.sampling;
      if (!state.model) throw new Error("There is no model to rank with. See the message above.");
      const documents = this.read();
      const request = {
        model: state.model.name,
        ...(documents.ids && { ids: documents.ids }),
        ...(documents.names && { feature_names: documents.names }),
        features: documents.rows,
      };
      this.documents = documents;
      this.list.given(documents);
      // The first request has no explanation, so that the times are those of a plain request.
      const answer = await ask("v1/rerank", request);
      const explained = await this.explained(request);
      // Other documents have come meanwhile.
      if (this.documents !== documents) return;
      this.trial = { request, answer, documents, explained };
      this.list.ranked(answer.results);
      this.report();
      state.set("trial", this.trial);
    } catch (error) {
      this.fail(error.message);
    } finally {
      this.button.disabled = false;
    }
  }

  /** Return what each feature adds, or a sentence that says why this is not known. */
  async explained(request) {
    try {
      const { explanation, results } = await ask("v1/rerank", { ...request, top_n: SHOWN, explain: "contributions" });
      // Where the row of each document stands; the answer above may have another order.
      const places = new Map(results.map((one, place) => [one.index, place]));
      return { ...explanation, places };
    } catch (error) {
      return { refusal: error.message };
    }
  }

  report() {
    const { answer, request } = this.trial;
    // A proxy may have removed the header that keeps the page out of experiments.
    const { experiment } = answer;
    const mixed = experiment?.arm === "interleaved";
    this.listTitle.textContent = mixed ? "Order of an experiment" : "Order of the model";
    this.said.textContent = [
      `Ranked ${many(answer.results.length, "document")} with ${answer.model}, version ${answer.version}.`,
      mixed && `Experiment ${experiment.name} has interleaved the first results with those of another version.`,
      experiment && !mixed && `Experiment ${experiment.name} chose this version.`,
      "Open a document to see how its score is composed.",
    ].filter(Boolean).join(" ");
    this.facts.replaceChildren(
      element("div", { class: "card" }, element("h2", {}, "The way it took"), ...this.route()),
      element("div", { class: "card" }, element("h2", {}, "Where the time went"), waterfall(answer.timings_ms),
        element("p", { class: "hint" }, "Measured by the service, from the whole request to the answer.")),
      this.compareCard());
    this.after.replaceChildren(
      element("div", { class: "card" }, element("h2", {}, "The same request"), ...snippets(this.plain(request), state.model.features)));
    this.after.hidden = this.facts.hidden = false;
  }

  /** The request with its columns in the model's order; wires without names need it. */
  plain(request) {
    if (!request.feature_names) return request;
    const { feature_names: names, features, ...rest } = request;
    const columns = state.model.features.map((feature) => names.indexOf(feature.name));
    return { ...rest, features: features.map((row) => columns.map((column) => row[column] ?? null)) };
  }

  route() {
    const { route, warnings, degraded } = this.trial.answer;
    const near = route.similarity === null ? "" : ` The similarity is ${number(route.similarity)}${route.margin === null ? "" : `, ${number(route.margin)} ahead of the next cluster`}.`;
    const own = route.local === false && route.cluster !== null ? " This cluster has no scorer of its own, so the global one answered." : "";
    const facts = [
      route.strategy === "global" ? "The version has no clusters, so the global scorer answered; the query was not routed." : `The router ${route.strategy} compared ${many(route.candidates, "training query", "training queries")} and chose ${route.cluster === null ? "the" : ""} ${clusterName(route.cluster)}.${near}${own}`.replace("  ", " "),
      route.fallback && (FALLBACKS[route.fallback] ?? `Fallback: ${route.fallback}.`),
      degraded && `The answer is degraded: ${typeof degraded === "string" ? degraded : JSON.stringify(degraded)}.`,
      ...warnings.map((one) => `${one.feature || "Features"}: ${one.code.replaceAll("_", " ")} (${many(one.count, "value")}).`),
    ];
    return [...facts.filter(Boolean).map((fact) => element("p", {}, fact)),
      element("p", {}, element("a", { href: "#map" }, "See it on the map"))];
  }

  why(index) {
    if (!this.trial) return [element("p", { class: "hint" }, "Press Rank to see what the score is made of.")];
    const { explained, answer } = this.trial;
    if (explained.refusal) return [element("p", {}, explained.refusal)];
    const place = answer.results.findIndex((one) => one.index === index);
    const at = explained.places.get(index);
    if (at === undefined) return [element("p", {}, "The model itself ranks this document lower than those that are explained here.")];
    const amounts = explained.contributions[at].map((amount, i) => ({ name: withValue(explained.features[i], explained.values?.[explained.features[i]]?.[at]), amount }));
    return [
      element("p", { class: "hint" }, `The score ${number(answer.results[place].score, 4)} is the list's mean ${number(explained.base, 4)} plus what each feature adds.`),
      diverging(`What adds to the score of ${this.nameOf(index)}`, amounts),
    ];
  }

  nameOf(index) {
    const id = this.trial.documents.ids?.[index];
    return id === undefined ? `document ${index + 1}` : String(id);
  }

  compareCard() {
    const { answer, explained } = this.trial;
    const card = element("div", { class: "card" }, element("h2", {}, "Why is one above another?"));
    if (answer.results.length < 2) card.append(element("p", {}, "This takes two documents."));
    else if (explained.refusal) card.append(element("p", {}, explained.refusal));
    else {
      const select = (label, chosen) => element("select", { "aria-label": label, onchange: () => this.compare() },
        answer.results.slice(0, 200).map((one, i) => element("option", { value: one.index, selected: i === chosen }, `${one.rank}. ${this.nameOf(one.index)}`)));
      this.above = select("This document", 0);
      this.below = select("Compared with", 1);
      this.comparison = element("div", { "aria-live": "polite" });
      card.append(element("p", { class: "sentence" }, "Why is ", this.above, " above ", this.below, "?"), this.comparison);
      this.compare();
    }
    return card;
  }

  async compare() {
    const pair = [Number(this.above.value), Number(this.below.value)];
    try {
      const { explanation } = await ask("v1/rerank", { ...this.trial.request, top_n: 1, explain: "contributions", compare: pair });
      const { difference, features } = explanation.comparison;
      const [first, second] = pair.map((index) => this.nameOf(index));
      const verdict = difference > 0 ? `${first} scores ${number(difference)} more than ${second}.`
        : difference < 0 ? `It is not: ${first} scores ${number(-difference)} less than ${second}.`
          : `Both score the same; ${first === second ? "it is the same document." : "they keep the order of the request."}`;
      this.comparison.replaceChildren(element("p", {}, verdict),
        diverging(`What speaks for ${first} (right) and for ${second} (left)`, features.map((one) => ({ name: withValue(one.feature, one.values?.map((value) => value ?? "none").join(" and ")), amount: one.difference })), { head: "Difference" }));
    } catch (error) {
      this.comparison.replaceChildren(element("p", { class: "problem" }, error.message));
    }
  }
}
