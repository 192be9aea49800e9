// Live: the figures of all workers, now and in the last minutes, read again every few seconds.

import { card, element, styled, table, terms } from "./element.js";
import { bytes, count, many, milliseconds, number, percent } from "./format.js";
import { badge } from "./glyphs.js";
import { course, pairs } from "./plots.js";
import { ask } from "./service.js";
import { clusterName, state } from "./state.js";

const EVERY = 3000;
const WINDOWS = { "1m": "last minute", "5m": "last 5 minutes", "15m": "last 15 minutes" };
const QUANTILES = ["p50", "p90", "p95", "p99"];
const REFUSALS = {
  queue: "overload: too long a wait for a turn", requests: "overload: too many requests", documents: "overload: too many documents",
  bytes: "too many bytes of requests in memory", connections: "too many connections", head_timeout: "a head that did not arrive in time",
  body_timeout: "a body that did not arrive in time", slow_reader: "a client that did not take its answer", malformed: "what was not HTTP",
};
const STAGES = ["decode", "wait", "sign", "route", "score", "order", "explain", "encode"];
const RUNGS = { global: "the global scorer", first_trees: "the first trees", request_order: "the order of the request", feature_order: "the order of a feature" };
const FALLBACKS = {
  no_signature: "no signature: one document, or all alike", no_candidates: "no candidates in the hash tables",
  unknown_kind: "a kind without a cluster",
  low_similarity: "guard: too unlike its cluster", low_margin: "guard: hardly nearer than to the next cluster", far_outside: "guard: values far out of range",
};
/** The largest number of clusters that have a row. */
const LISTED = 24;

export class LiveView {
  constructor(root) {
    this.root = root;
    this.window = "5m";
    this.whole = true;
    this.paused = false;
    this.build();
    state.addEventListener("model", () => this.stats && this.render());
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.root.hidden || this.start()));
    new ResizeObserver(() => this.stats && this.drawCharts()).observe(this.charts);
  }

  build() {
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    this.age = element("span", { class: "hint" });
    this.pauseButton = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.pause() }, "Pause");
    const radio = (group, value, text, checked, choose) => element("label", {}, element("input", { type: "radio", name: group, value, checked, onchange: choose }), text);
    const windows = element("fieldset", { class: "segmented" }, element("legend", { class: "unseen" }, "Time"),
      Object.entries(WINDOWS).map(([name, text]) => radio("window", name, text, name === this.window, () => { this.window = name; this.render(); })));
    this.scope = element("span");
    const scopes = element("fieldset", { class: "segmented" }, element("legend", { class: "unseen" }, "Models"),
      radio("scope", "all", "all models", true, () => { this.whole = true; this.render(); }),
      element("label", {}, element("input", { type: "radio", name: "scope", value: "one", onchange: () => { this.whole = false; this.render(); } }), this.scope));
    this.tiles = element("dl", { class: "tiles" });
    this.charts = element("div", { class: "columns" });
    this.stages = element("div", { class: "card" });
    this.routes = element("div", { class: "card" });
    this.trouble = element("div", { class: "card" });
    this.online = element("div", { class: "card below" });
    this.body = element("div", { hidden: true }, this.tiles, this.charts,
      element("div", { class: "columns rest" }, element("div", { class: "stack first" }, this.stages, this.trouble), this.routes),
      this.online);
    this.root.append(element("h1", { id: "title-live", tabindex: "-1" }, "Live"),
      element("div", { class: "actions" }, windows, scopes, this.pauseButton, this.age), this.problem, this.body);
  }

  show() {
    this.start();
  }

  hide() {
    this.stop();
  }

  start() {
    if (this.timer !== undefined || this.paused) return;
    const turn = async () => {
      this.timer = null;
      await this.read();
      // It was stopped meanwhile. The next start has its own timer.
      if (this.timer === null) this.timer = setTimeout(turn, EVERY);
    };
    turn();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  pause() {
    this.paused = !this.paused;
    this.pauseButton.setAttribute("aria-pressed", String(this.paused));
    this.pauseButton.textContent = this.paused ? "Go on" : "Pause";
    if (this.paused) this.stop();
    else this.start();
    this.tellAge();
  }

  async read() {
    try {
      const stats = await ask("v1/stats?series=true");
      // Ask only if experiments are on, because otherwise the answer is an error.
      this.experiments = stats.experiments ? await ask("v1/experiments") : null;
      this.stats = stats;
      this.readAt = new Date();
      this.problem.hidden = true;
      this.body.hidden = false;
      this.render();
    } catch (error) {
      this.problem.textContent = `${error.message} The figures below are from the last successful reading. The page tries again every ${EVERY / 1000} seconds.`;
      this.problem.hidden = false;
    }
  }

  tellAge() {
    if (!this.readAt) return;
    this.age.textContent = `${this.paused ? "Paused; read" : "Read"} at ${this.readAt.toLocaleTimeString("en-GB")}, again every ${EVERY / 1000} s`;
  }

  get name() {
    return state.model?.name;
  }

  render() {
    if (!this.stats) return;
    this.scope.textContent = `only ${this.name ?? "the model"}`;
    this.tellAge();
    const window = this.stats.windows[this.window];
    const nothing = { requests: { ok: 0, invalid: 0, error: 0 }, per_second: 0, milliseconds: {} };
    this.figures = this.whole ? window : (window.models[this.name] ?? nothing);
    this.renderTiles();
    this.drawCharts();
    this.renderStages();
    this.renderRoutes();
    this.renderTrouble();
    this.renderOnline();
  }

  renderTiles() {
    const { requests, per_second: rate, milliseconds: times } = this.figures;
    const { stats } = this;
    const refused = Object.values(stats.refused).reduce((sum, one) => sum + one, 0);
    const tile = (name, value, note, bad) => element("div", { class: bad ? "tile bad" : "tile" }, element("dt", {}, name), element("dd", {}, value), note && element("dd", { class: "hint" }, note));
    this.tiles.replaceChildren(
      tile("Requests per second", number(rate, 3), `${many(requests.ok + requests.invalid + requests.error, "request")} in the ${WINDOWS[this.window]}`),
      tile("Median time", milliseconds(times.total?.p50), `99 % of the requests: ${milliseconds(times.total?.p99)} or less`),
      tile("Invalid", count(requests.invalid), "the caller's fault"),
      tile("Failed", count(requests.error), requests.error ? "look at the log" : "the service's fault", requests.error > 0),
      tile("Refused", count(refused), "since the start", refused > 0),
      tile("Degraded", count(this.degraded()), "since the start", this.degraded() > 0),
      tile("In flight", count(stats.in_flight), many(stats.connections, "connection")),
      tile("Workers", count(stats.workers), `for ${duration(stats.uptime_seconds)}`));
  }

  models() {
    return this.whole ? Object.values(this.stats.models) : [this.stats.models[this.name]].filter(Boolean);
  }

  degraded() {
    return this.models().flatMap((one) => one.degraded).reduce((sum, one) => sum + one.requests, 0);
  }

  drawCharts() {
    const { series } = this.stats;
    const own = this.whole ? series : (series.models[this.name] ?? { ok: series.ok.map(() => 0), invalid: series.ok.map(() => 0), error: series.ok.map(() => 0), p50: series.ok.map(() => null), p99: series.ok.map(() => null) });
    const last = own.ok.length - 1;
    // Leave out slices from before the start of the service, and the last slice if it is still very short.
    const reach = Math.ceil((this.stats.uptime_seconds - series.latest_seconds) / series.seconds);
    const first = Math.max(0, last - Math.max(reach, 1));
    const seconds = own.ok.map((_, i) => (i === last ? series.latest_seconds : i === last - reach ? Math.max(series.seconds - (reach * series.seconds + series.latest_seconds - this.stats.uptime_seconds), 1) : series.seconds));
    const kept = (values) => values.slice(first);
    const ages = kept(own.ok.map((_, i) => (i === last ? 0 : series.latest_seconds + (last - 1 - i) * series.seconds + series.seconds / 2)));
    const rate = (values) => kept(values.map((value, i) => (i === last && series.latest_seconds < 3 ? null : value / seconds[i])));
    const width = Math.max(280, Math.min(620, (this.charts.firstElementChild?.clientWidth ?? this.charts.clientWidth) - 36 || 560));
    const wrong = own.invalid.map((value, i) => value + own.error[i]);
    this.charts.replaceChildren(
      element("div", { class: "card" }, course("Requests per second", [
        { name: "ranked", values: rate(own.ok), kind: "one" }, { name: "invalid or failed", values: rate(wrong), kind: "two" }], ages, { width })),
      element("div", { class: "card" }, course("Time of a request, ms", [
        { name: "median", values: kept(own.p50), kind: "one" }, { name: "99 %", values: kept(own.p99), kind: "two" }], ages, { width, unit: " ms" })));
  }

  renderStages() {
    const { milliseconds: times } = this.figures;
    const place = (stage) => (stage === "total" ? 99 : STAGES.indexOf(stage) + 1 || 50);
    const stages = Object.entries(times).sort(([a], [b]) => place(a) - place(b));
    const head = element("h2", {}, "Time by stage");
    if (!stages.length) {
      this.stages.replaceChildren(head, element("p", {}, `No request in the ${WINDOWS[this.window]}.`));
      return;
    }
    const largest = Math.max(...stages.filter(([name]) => name !== "total").map(([, one]) => one.p50), 1e-9);
    this.stages.replaceChildren(head, table("Milliseconds by quantile, each within 10 %", ["Stage", ...QUANTILES, ""], stages.map(([stage, one]) => [
      stage, ...QUANTILES.map((name) => number(one[name], 3)),
      stage === "total" ? "" : element("span", { class: "axis plain", "aria-hidden": "true" }, styled(element("span", { class: "fill" }), { left: "0", width: `${(100 * one.p50) / largest}%` }))]),
    { numeric: [1, 2, 3, 4] }));
  }

  /** Where the requests of the chosen model went, against its training queries. */
  renderRoutes() {
    const head = element("h2", {}, `Routes of ${this.name}`);
    const versions = Object.entries(this.stats.models[this.name]?.versions ?? {}).sort(([a], [b]) => (Number(b) === state.model?.version) - (Number(a) === state.model?.version) || b - a);
    const shown = versions.filter(([version, { requests }]) => Number(version) === state.model?.version || Object.values(requests).some(Boolean)).slice(0, 3);
    this.routes.replaceChildren(head, ...shown.flatMap(([version, one]) => this.version(version, one, shown.length > 1)),
      ...(shown.length ? [] : [element("p", {}, "It has answered no request since the start.")]));
  }

  version(version, { clusters, kinds, fallbacks, drift, drift_missing: missing }, titled) {
    const total = clusters.reduce((sum, one) => sum + one.requests, 0);
    const listed = clusters.filter((one) => one.requests || one.training_share).sort((a, b) => b.requests - a.requests || (b.training_share ?? 0) - (a.training_share ?? 0)).slice(0, LISTED)
      .sort((a, b) => clusters.indexOf(a) - clusters.indexOf(b));
    const title = titled ? [element("h3", {}, `Version ${version}`)] : [];
    if (!total) return [...title, element("p", {}, `Version ${version} has answered no request since the start.`)];
    const label = ({ cluster }) => element("span", { class: "marked" }, Number.isInteger(cluster) && badge(cluster), cluster === "other" ? "other clusters" : clusterName(cluster));
    return [...title,
      pairs(`Version ${version}: share of the requests since the start, and share of the training queries`, ["Answered by", "Requests", "Traffic", "Training"],
        listed.map((one) => ({ name: label(one), first: one.requests / total, second: one.training_share, cells: [count(one.requests)] }))),
      ...(clusters.length > LISTED ? [element("p", { class: "hint" }, `The ${LISTED} largest of ${count(clusters.length)}.`)] : []),
      element("p", {}, driftSentence(drift, missing, kinds ?? clusters, kinds)),
      ...(Object.keys(fallbacks).length ? [table(`Version ${version}: requests that were not routed as usual`, ["Why", "Requests"], Object.entries(fallbacks).map(([why, n]) => [FALLBACKS[why] ?? why.replaceAll("_", " "), count(n)]), { numeric: [1] })] : [])];
  }

  renderTrouble() {
    const { refused, deaths } = this.stats;
    const degraded = this.models().flatMap((one) => one.degraded);
    const [imputed, outside] = ["imputed", "out_of_range"].map((name) => this.models().reduce((sum, one) => sum + one[name], 0));
    const rows = [
      ...Object.entries(refused).map(([why, n]) => ["Refused", REFUSALS[why] ?? why.replaceAll("_", " "), n]),
      ...degraded.map(({ rung, reason, requests }) => ["Degraded", `${RUNGS[rung] ?? rung} answered: ${reason}`, requests]),
      ...Object.entries(deaths).map(([why, n]) => ["Worker ended", why, n]),
      ...(imputed ? [["Values replaced", "missing, as the contract says", imputed]] : []),
      ...(outside ? [["Values out of range", "of what training saw", outside]] : []),
    ];
    this.trouble.replaceChildren(element("h2", {}, "Out of the ordinary, since the start"),
      rows.length ? table("Out of the ordinary", ["What", "Why", "Count"], rows.map(([what, why, n]) => [what, why, count(n)]), { numeric: [2], hidden: true })
        : element("p", {}, "Nothing: no request was refused or degraded, no worker has ended, no value was missing or out of range."));
  }

  /** What is learned from traffic: the impression log, and experiments. */
  renderOnline() {
    const { impressions } = this.stats;
    const log = impressions
      ? [`${percent(impressions.share, 1)} of the rankings: ${count(impressions.logged)} logged`, impressions.dropped ? `, ${count(impressions.dropped)} dropped` : "",
        impressions.over_quota ? `, ${count(impressions.over_quota)} over the quota of their caller` : "",
        impressions.lost ? `, ${count(impressions.lost)} lost` : "", `; ${bytes(impressions.bytes)} of ${bytes(impressions.most_bytes)}.`,
        ` ${many(Object.values(impressions.feedback ?? {}).reduce((sum, one) => sum + one, 0), "event")} of feedback.`]
      : ["off. Set LOCALRANK_IMPRESSION_LOG to a share of the requests, such as 0.1, and start the service again."];
    const off = !this.stats.experiments;
    const none = off ? "off. Set LOCALRANK_EXPERIMENTS_FILE to the path of a JSON file, which need not exist yet, and start the service again." : "none is defined.";
    const { experiments = [], problem } = this.experiments ?? {};
    this.online.replaceChildren(element("h2", {}, "Learning from traffic"),
      terms([["Impression log", log.join("")], ...(experiments.length ? [] : [["Experiments", none]])]),
      ...(problem ? [element("p", { class: "problem" }, problem)] : []),
      ...(experiments.length ? [table("Experiments, and how many requests each version has answered", ["Experiment", "State", "Versions", "Share", "Requests", "p95, ms"],
        experiments.map((one) => experiment(one)), { numeric: [3, 4, 5] }),
      element("p", { class: "hint" }, "Which version is better is in the impression log: localrank experiments report says it.")] : []));
  }
}

/** Say what the drift means. With few requests, chance alone makes a drift, which means nothing. */
function driftSentence(drift, missing, clusters, signed) {
  const total = clusters.reduce((sum, one) => sum + one.requests, 0);
  if (missing === null) return "Nothing is known of drift: the version has no clusters.";
  if (drift === null) return `Nothing is known of drift yet: it takes ${many(missing, signed ? "more signed request" : "more request")} to tell${signed ? "; one in many is signed, as LOCALRANK_SIGN_EVERY says" : ""}.`;
  const shares = clusters.map((one) => one.training_share ?? 0);
  const chance = shares.reduce((sum, p) => sum + Math.sqrt((2 * p * (1 - p)) / (Math.PI * total)), 0) / 2;
  const told = `drift ${number(drift, 2)}; 0 is the same, 1 is completely different`;
  if (drift < 2 * chance) return `The traffic is like the training queries, as far as ${many(total, "request")} can show: ${told}.`;
  if (drift < 0.15) return `The traffic is much like the training queries: ${told}.`;
  if (drift < 0.35) return `The traffic differs from the training queries: ${told}.`;
  return `The traffic differs strongly from the training queries: ${told}. Train again with newer queries.`;
}

/** One experiment in a row: both arms one below the other. */
function experiment({ name, kind, state, reason, percent: share, versions, arms, shadow }) {
  const both = (of) => element("span", { class: "lines" }, ["baseline", "candidate"].map((arm) => element("span", {}, of(arm))));
  const answered = (arm) => Object.values(arms?.[arm]?.requests ?? {}).reduce((sum, one) => sum + one, 0);
  const alike = shadow?.ranked && `${count(shadow.ranked)} ranked in the shadow${shadow.kendall_tau === null || shadow.kendall_tau === undefined ? "" : `, τ ${number(shadow.kendall_tau, 2)}`}`;
  return [element("span", { class: "lines" }, element("span", {}, name), element("span", { class: "hint" }, kind)),
    element("span", { class: "lines" }, element("span", {}, state), reason && element("span", { class: "hint reason" }, reason), alike ? element("span", { class: "hint" }, alike) : null),
    both((arm) => versions?.[arm] ?? "–"), share === null || share === undefined ? "–" : `${number(share, 3)}\u00a0%`,
    both((arm) => count(answered(arm))), both((arm) => number(arms?.[arm]?.rank_ms?.p95, 3))];
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${number(seconds / 3600, 2)} h` : `${Math.round(seconds / 86400)} days`;
}
