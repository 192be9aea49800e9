// Map: the training queries in two dimensions, the query that was tried last among them, and what each cluster is like.

import { element, styled, svg, terms } from "./element.js";
import { count, many, number, percent, signed } from "./format.js";
import { badge, mark, markClass } from "./glyphs.js";
import { pairs } from "./plots.js";
import { ask } from "./service.js";
import { clusterName, state } from "./state.js";

/** The largest number of clusters in the list; a click on the map finds the others. */
const LISTED = 60;
const MARGIN = 30;

export class MapView {
  constructor(root) {
    this.root = root;
    this.drawnFor = null;
    this.chosen = null;
    this.singled = false;
    this.build();
    state.addEventListener("model", () => this.outdated());
    state.addEventListener("trial", () => { this.placed = null; });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  build() {
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    this.said = element("p", { class: "hint" });
    this.canvas = element("div", { class: "canvas" });
    this.query = element("div", { class: "card", "aria-live": "polite" });
    this.hint = element("p", { class: "hint" });
    this.legend = element("ul", { class: "clusters" });
    this.more = element("p", { class: "hint" });
    this.detail = element("div", { "aria-live": "polite" });
    this.body = element("div", { class: "columns wide", hidden: true },
      element("div", { class: "stack first" },
        element("div", { class: "card" }, this.canvas, this.said),
        this.query),
      element("div", { class: "card" },
        element("h2", {}, "Clusters"),
        this.hint,
        this.legend, this.more, this.detail));
    this.root.append(element("h1", { id: "title-map", tabindex: "-1" }, "Map of queries"), this.problem, this.body);
  }

  outdated() {
    this.drawnFor = this.placed = null;
    if (!this.root.hidden) this.show();
  }

  say(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
    this.body.hidden = Boolean(message);
  }

  async show() {
    const { model } = state;
    if (!model) return;
    try {
      if (this.drawnFor !== model) {
        await this.read(model);
        if (state.model !== model) return;
        this.drawnFor = model;
        this.singled = false;
      }
      if (!this.map) return;
      if (!this.placed) await this.place();
      if (!this.singled) this.chosen = this.placed.route?.cluster ?? this.clusters[0]?.cluster ?? null;
      this.render();
    } catch (error) {
      this.say(error.message);
    }
  }

  async read(model) {
    const address = encodeURIComponent(`${model.name}@${model.version}`);
    this.map = null;
    // Ask only if there is a map, because otherwise the answer is an error.
    if (!model.map) {
      this.say(model.n_clusters
        ? `Model ${model.name}, version ${model.version}, has no map: it was published without one. Train it again with localrank train, and promote the new version.`
        : `Model ${model.name}, version ${model.version}, has no clusters, so there is no map: the global scorer answers every query. Only models whose training looked for clusters have a map.`);
      return;
    }
    const [map, clusters, stats] = await Promise.all([ask(`v1/models/${address}/map`), ask(`v1/models/${address}/clusters`), ask("v1/stats")]);
    // Another model was chosen meanwhile.
    if (state.model !== model) return;
    this.map = map;
    const counted = stats.models[model.name]?.versions[model.version];
    this.without = !clusters.clusters.length;
    this.clusters = this.without ? kindsOf(map.clusters, clusters.global.scorer) : clusters.clusters;
    this.traffic = (this.without ? counted?.kinds : counted?.clusters) ?? [];
    this.hint.textContent = this.without
      ? "This version has no clusters, and the global scorer answers every query. These are the kinds of queries that training told apart; they need no models of their own."
      : "Choose a cluster here or on the map to see what it is like.";
    this.say("");
  }

  /** Ask for the place of the last query of the Try view. */
  async place() {
    const { trial, model } = state;
    this.placed = { sentence: "Rank a query under Try, or take a sample query, to see where it belongs." };
    if (!trial) return;
    if (trial.answer.model !== model.name) {
      this.placed = { sentence: `The query that you tried last went to model ${trial.answer.model}. Rank it with ${model.name} to see it here.` };
      return;
    }
    await this.explain(trial.request, "The query that you tried last");
  }

  async explain(request, name) {
    const { model } = state;
    const asked = { ...request, model: `${model.name}@${model.version}`, top_n: 1, explain: "route" };
    const { explanation, route } = await ask("v1/rerank", asked);
    this.placed = { explanation, route, name };
  }

  async takeSample() {
    const { model } = state;
    try {
      this.sample = ((this.sample ?? -1) + 1) % model.samples;
      const { features } = await ask(`v1/models/${encodeURIComponent(`${model.name}@${model.version}`)}/sample?query=${this.sample}`);
      await this.explain({ features }, `Sample query ${this.sample + 1}`);
      this.singled = false;
      this.chosen = this.placed.route.cluster ?? this.chosen;
      this.render();
      this.query.querySelector("button").focus();
    } catch (error) {
      this.say(error.message);
    }
  }

  render() {
    const { map } = this;
    this.said.textContent = `${many(map.queries.length, "training query", "training queries")}, near each other if their documents are similar. `
      + `The two dimensions show ${percent(map.shown, 0)} of the similarities.`;
    const listed = [...this.clusters].sort((a, b) => (b.size ?? 0) - (a.size ?? 0)).slice(0, LISTED).sort((a, b) => a.cluster - b.cluster);
    this.more.textContent = this.clusters.length > LISTED ? `The largest ${LISTED} of ${count(this.clusters.length)} clusters.` : "";
    this.legend.replaceChildren(...listed.map(({ cluster, size }) => element("li", {},
      element("button", { type: "button", "aria-pressed": String(this.singled && cluster === this.chosen), "data-cluster": cluster, onclick: () => this.choose(cluster) },
        badge(cluster), element("span", {}, `Cluster ${cluster}`), element("span", { class: "hint" }, many(size ?? 0, "query", "queries"))))));
    this.describeQuery();
    this.describeCluster();
    this.draw();
  }

  choose(cluster) {
    // A second click on the same cluster shows all clusters equally again.
    this.singled = !(this.singled && this.chosen === cluster);
    this.chosen = cluster;
    for (const button of this.legend.querySelectorAll("button")) button.setAttribute("aria-pressed", String(this.singled && Number(button.dataset.cluster) === this.chosen));
    this.describeCluster();
    this.draw();
  }

  draw() {
    if (!this.map || this.body.hidden || !this.canvas.clientWidth) return;
    const { coordinates, clusters, queries } = this.map;
    const explanation = this.placed?.explanation;
    const place = explanation?.place;
    const near = (explanation?.neighbours ?? []).filter((one) => one.place);
    const all = [...coordinates, ...(place ? [place] : []), ...near.map((one) => one.place)];
    const [left, right] = extent(all.map(([x]) => x));
    const [low, high] = extent(all.map(([, y]) => y));
    const width = this.canvas.clientWidth;
    const height = Math.round(Math.min(Math.max(width * 0.72, 260), 560));
    // Both axes have the same scale, because the map shows distances.
    const scale = Math.min((width - 2 * MARGIN) / (right - left), (height - 2 * MARGIN) / (high - low));
    const at = ([x, y]) => [width / 2 + (x - (left + right) / 2) * scale, height / 2 - (y - (low + high) / 2) * scale];
    const dim = (cluster) => (this.singled && cluster !== this.chosen ? "faint" : "");
    const r = coordinates.length > 400 ? 3.2 : 4.5;
    const points = coordinates.map((where, i) => mark(clusters[i], ...at(where), r, {
      class: `${markClass(clusters[i])} point ${dim(clusters[i])}`, onclick: () => this.choose(clusters[i]),
    }));
    points.forEach((point, i) => point.append(svg("title", {}, `training query ${queries[i]}, ${clusterName(clusters[i])}`)));
    const spots = coordinates.map(at);
    const labels = labelsOf(clusters, spots, place ? [...spots, at(place)] : spots, width, height)
      .map(({ cluster, x, y }) => svg("text", { x, y: y + 5, class: `name middle ${dim(cluster)}` }, `Cluster ${cluster}`));
    const links = place ? near.map((one) => {
      const [[x1, y1], [x2, y2]] = [at(place), at(one.place)];
      return svg("g", {}, svg("line", { x1, y1, x2, y2, class: "link" }), svg("circle", { cx: x2, cy: y2, r: r + 3, class: "near" }));
    }) : [];
    const here = [];
    if (place) {
      const [x, y] = at(place);
      const side = x > width - 110 ? -1 : 1;
      here.push(svg("g", { class: "here" }, svg("circle", { cx: x, cy: y, r: 10, class: "halo" }), svg("circle", { cx: x, cy: y, r: 10 }), svg("circle", { cx: x, cy: y, r: 2.5, class: "core" }),
        svg("text", { x: x + side * 16, y: y + 4, class: side < 0 ? "end" : null }, "your query")));
    }
    this.canvas.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": this.summary() }, ...links, ...points, ...labels, ...here));
  }

  /** Say in words what the picture shows. */
  summary() {
    const groups = this.clusters.length;
    const where = this.placed?.explanation?.place ? ` ${this.placed.name} is among those of ${clusterName(this.placed.explanation.neighbours[0]?.cluster ?? this.placed.route.cluster)}.` : "";
    return `Map of ${many(this.map.queries.length, "training query", "training queries")} in ${many(groups, "cluster")}.${where} The lists beside the map show the same.`;
  }

  describeQuery() {
    const { explanation, route, name, sentence } = this.placed ?? {};
    const again = element("div", { class: "actions" }, element("button", { type: "button", onclick: () => this.takeSample() }, "Place a sample query"));
    const head = element("h2", {}, "Present query");
    if (!explanation) {
      this.query.replaceChildren(head, element("p", {}, sentence ?? ""), again);
      return;
    }
    const to = route.cluster === null ? "the global scorer" : clusterName(route.cluster);
    const why = explanation.place ? ""
      : this.map.places ? " It has no place: a query of one document, or of documents that are all alike, cannot be compared with others."
        : " It has no place: the router of this model keeps no training queries to compare it with.";
    const near = explanation.neighbours.length
      ? element("ol", { class: "near-list" }, explanation.neighbours.map((one) => element("li", {}, badge(one.cluster),
        element("span", {}, `Training query ${one.query} of cluster ${one.cluster}`), element("span", { class: "number" }, number(one.similarity, 3)))))
      : element("p", { class: "hint" }, explanation.said ?? "The router names no training queries.");
    this.query.replaceChildren(head, element("p", {}, `${name} goes to ${to}.${why}`),
      element("h3", {}, "Nearest training queries, by similarity"), near, again);
  }

  describeCluster() {
    if (this.chosen === null) {
      this.detail.replaceChildren();
      return;
    }
    const cluster = this.clusters.find((one) => one.cluster === this.chosen);
    const total = this.clusters.reduce((sum, one) => sum + (one.size ?? 0), 0);
    const { validation = {}, exemplar, size, scorer } = cluster;
    const requests = this.traffic.reduce((sum, one) => sum + one.requests, 0);
    const own = this.traffic.find((one) => one.cluster === this.chosen);
    this.detail.replaceChildren(
      element("h2", { class: "chosen" }, badge(this.chosen), `Cluster ${this.chosen}`),
      terms([
        ["Training queries", size === undefined ? "–" : `${count(size)} of ${count(total)} (${percent(size / total, 0)})`],
        ["Typical query", exemplar ? `query ${exemplar}` : "–"],
        ["Scorer", scorer],
        ["What matters", validation.features?.length ? element("span", { class: "chips" }, validation.features.map((one) => element("span", { class: "chip" }, one)))
          : "not known: its scorer is no sum over features"],
      ]),
      ...quality(validation),
      requests ? pairs("Share of the traffic since the start, and of the training queries", ["Cluster", "Traffic", "Training"],
        [{ name: `Cluster ${this.chosen}`, first: (own?.requests ?? 0) / requests, second: own?.training_share ?? (total ? size / total : null) }])
        : element("p", { class: "hint" }, "This version has answered no request yet."));
  }
}

/** The kinds of queries on the map of a version without clusters, in the shape of clusters. */
function kindsOf(clusters, scorer) {
  return [...new Set(clusters)].sort((a, b) => a - b).map((cluster) => ({ cluster, scorer, size: clusters.filter((one) => one === cluster).length }));
}

/** Compare a cluster's own scorer with the global one on held-out queries. */
function quality(validation) {
  const { local, global: whole, metric, queries } = validation;
  if (typeof local !== "number" || typeof whole !== "number") return [element("p", { class: "hint" }, "No held-out queries tell how well it ranks.")];
  const bar = (name, value, kind) => element("div", { class: "versus" }, element("span", {}, name),
    element("span", { class: "track", "aria-hidden": "true" }, styled(element("span", { class: `fill ${kind}` }), { width: `${Math.max(0, Math.min(100, 100 * value))}%` })),
    element("span", { class: "number" }, number(value, 3)));
  return [
    element("h3", {}, `Quality: ${metric ?? "held-out metric"}`),
    bar("Own scorer", local, "plus"), bar("Global scorer", whole, "even"),
    element("p", { class: "hint" }, `${signed(local - whole, 3)} on ${many(queries ?? 0, "held-out query", "held-out queries")} of this cluster.`),
  ];
}

/** Find a place beside each cluster for its name: the one of four that covers least. */
function labelsOf(clusters, spots, taken, width, height) {
  const names = [...new Set(clusters)].sort((a, b) => a - b);
  if (names.length > 24) return [];
  const placed = [];
  for (const cluster of names) {
    const own = spots.filter((_, i) => clusters[i] === cluster);
    const [xs, ys] = [own.map(([x]) => x), own.map(([, y]) => y)];
    const [x, y] = [middle(xs), middle(ys)];
    const spread = [[x, Math.min(...ys) - 16], [x, Math.max(...ys) + 18], [Math.max(...xs) + 52, y], [Math.min(...xs) - 52, y]]
      .map(([a, b]) => ({ cluster, x: Math.max(44, Math.min(width - 44, a)), y: Math.max(12, Math.min(height - 12, b)) }));
    const covered = (one) => taken.filter(([a, b]) => Math.abs(a - one.x) < 46 && Math.abs(b - one.y) < 14).length
      + 50 * placed.filter((other) => Math.abs(other.x - one.x) < 84 && Math.abs(other.y - one.y) < 22).length;
    placed.push(spread.reduce((best, one) => (covered(one) < covered(best) ? one : best)));
  }
  return placed;
}

function extent(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return high - low > 1e-9 ? [low, high] : [low - 0.5, high + 0.5];
}

/** The median: unlike the mean, it lies inside its cluster. */
function middle(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}
