// Models: the versions of a model, their aliases and figures, what it expects, what changed between two, and moving aliases.

import { card, element, table, terms } from "./element.js";
import { bytes, count, many, number, percent, plain, signed } from "./format.js";
import { intervals } from "./plots.js";
import { ask, hasKey } from "./service.js";
import { state } from "./state.js";

/** The largest number of features or changes that are shown at once. */
const SHOWN = 30;
const CHAMPION = "champion";

export class ModelsView {
  constructor(root) {
    this.root = root;
    this.readFor = null;
    this.build();
    state.addEventListener("model", () => {
      this.readFor = null;
      if (!this.root.hidden) this.show();
    });
  }

  build() {
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    this.done = element("p", { class: "good", role: "status", hidden: true });
    this.summary = element("div", { class: "card" });
    this.list = element("div", { class: "card" });
    this.figures = element("div", { class: "card", "aria-live": "polite" });
    this.changes = element("div", { class: "card" });
    this.contract = element("div", { class: "card" });
    this.buildMoving();
    this.body = element("div", { class: "stack first", hidden: true }, this.list,
      element("div", { class: "columns" }, element("div", { class: "stack first" }, this.summary, this.moving), this.figures), this.changes, this.contract);
    this.root.append(element("h1", { id: "title-models", tabindex: "-1" }, "Models"), this.problem, this.done, this.body, this.dialog);
  }

  /** The form that moves aliases, and the dialog that asks before it does. */
  buildMoving() {
    this.version = element("select", { id: "promote-version" });
    this.alias = element("input", { id: "promote-alias", value: CHAMPION, maxlength: "64", autocomplete: "off", spellcheck: "false", list: "aliases" });
    this.aliases = element("datalist", { id: "aliases" });
    this.keyHint = element("p", { class: "hint" });
    this.question = element("p", {});
    this.agree = element("button", { type: "submit", value: "yes", class: "primary" });
    this.dialog = element("dialog", { "aria-labelledby": "sure-title", onclose: () => this.answered() },
      element("form", { method: "dialog" }, element("h2", { id: "sure-title" }, "Are you sure?"), this.question,
        element("div", { class: "actions" }, this.agree, element("button", { type: "submit", value: "no" }, "Cancel"))));
    this.moving = card("Move an alias",
      element("p", { class: "hint" }, "Requests that name no version are answered by the champion. A version is verified before an alias moves to it, and every worker switches."),
      this.keyHint,
      element("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); this.ask("promote"); } },
        element("label", { for: "promote-alias" }, "Alias"), this.alias, this.aliases,
        element("label", { for: "promote-version" }, "Version"), this.version,
        element("div", { class: "actions" },
          element("button", { type: "submit" }, "Promote…"),
          element("button", { type: "button", onclick: () => this.ask("rollback") }, "Roll back…"))));
  }

  fail(message) {
    this.problem.textContent = message;
    this.problem.hidden = !message;
    if (message) this.done.hidden = true;
  }

  async show() {
    this.keyHint.textContent = hasKey() ? "" : "This takes an admin key: enter it under “Key” first.";
    this.keyHint.hidden = hasKey();
    const { model } = state;
    if (!model || this.readFor === model) return;
    try {
      const listed = await ask(`v1/models/${encodeURIComponent(model.name)}/versions`);
      if (state.model !== model) return;
      if (this.listed?.name !== listed.name) this.done.hidden = true;
      this.listed = listed;
      this.readFor = model;
      this.chosen = model.version;
      this.fail("");
      this.render();
    } catch (error) {
      this.body.hidden = true;
      this.fail(error.message);
    }
  }

  aliasesOf(version) {
    return Object.entries(this.listed.aliases).filter(([, one]) => one === version).map(([alias]) => alias);
  }

  render() {
    this.body.hidden = false;
    this.renderList();
    this.renderSummary();
    this.renderFigures();
    this.renderComparing();
    this.renderContract();
    const numbers = this.listed.versions.map((one) => one.version);
    const kept = Number(this.version.value);
    this.version.replaceChildren(...numbers.map((one) => element("option", { value: one, selected: one === kept }, String(one))));
    this.aliases.replaceChildren(...Object.keys({ [CHAMPION]: 0, challenger: 0, ...this.listed.aliases }).map((one) => element("option", { value: one })));
  }

  renderList() {
    const { versions, omitted } = this.listed;
    this.list.replaceChildren(element("h2", {}, `Versions of ${this.listed.name}`),
      table("Versions, the newest first", ["Version", "Aliases", "Published", "Clusters", "Against global", "Size", "State", "Figures"], versions.map((one) => {
        const best = headline(one.metrics);
        const aliases = this.aliasesOf(one.version);
        return [String(one.version),
          aliases.length ? element("span", { class: "chips" }, aliases.map((alias) => element("span", { class: "chip strong" }, alias))) : "–",
          one.created ? day(one.created) : "–", count(one.n_clusters),
          best ? element("span", { class: "nowrap" }, `${best.metric} ${signed(best.difference)}`) : "–",
          one.bytes === undefined ? "–" : bytes(one.bytes),
          one.broken ? element("span", { class: "problem" }, `broken: ${one.broken}`) : one.live ? "answers" : "not loaded",
          one.broken ? "" : element("button", { type: "button", class: "small", "aria-pressed": String(one.version === this.chosen), "data-version": one.version, onclick: () => this.choose(one.version), "aria-label": `Figures of version ${one.version}` }, "Show")];
      }), { numeric: [3, 5], hidden: true }),
      ...(omitted ? [element("p", { class: "hint" }, `${many(omitted, "older version")} without an alias, now or before, ${omitted === 1 ? "is" : "are"} left out.`)] : []));
  }

  choose(version) {
    this.chosen = version;
    for (const button of this.list.querySelectorAll("button")) button.setAttribute("aria-pressed", String(Number(button.dataset.version) === version));
    this.renderFigures();
  }

  renderSummary() {
    const { model } = state;
    const history = (this.listed.history[CHAMPION] ?? []).slice(-5).map((one) => `${one.version} (${one.since.slice(0, 10)})`);
    this.summary.replaceChildren(element("h2", {}, `What ${model.name} is`), terms([
      ["Answers", `version ${model.version}`],
      ["Champions so far", history.length ? history.join(" → ") : "–"],
      ["Queries are compared by", model.representation.method],
      ["Router", `${model.routing}, ${many(model.n_clusters, "cluster")}`],
      ["Map", model.map ? element("a", { href: "#map" }, `${many(model.map.queries, "training query", "training queries")}`) : "none"],
      ["Fingerprint", element("code", {}, (model.sha256 ?? "–").slice(0, 16))],
    ]));
  }

  renderFigures() {
    const one = this.listed.versions.find(({ version }) => version === this.chosen) ?? this.listed.versions[0];
    const { figures = [], held_out: held, basis, baseline } = one?.metrics ?? {};
    const head = element("h2", {}, `Figures of version ${one?.version}`);
    if (!figures.length) {
      this.figures.replaceChildren(head, element("p", {}, "It was published without held-out figures. localrank train with --validation measures them."));
      return;
    }
    const importances = one.version === state.model.version ? state.model.metrics?.importances ?? [] : [];
    this.figures.replaceChildren(head,
      element("p", { class: "hint" }, `On ${held ?? "held-out queries"}, against its own global model. ${basis ? `Basis: ${basis}.` : ""}`),
      ...(baseline ? [element("p", { class: "hint" }, `${baseline.sentence[0].toUpperCase()}${baseline.sentence.slice(1)}.`)] : []),
      intervals("Held-out figures", figures.map((figure) => ({ ...figure, name: figure.metric }))),
      ...(importances.length ? [element("h3", {}, "Features that matter most"),
        element("ol", { class: "importances" }, importances.slice(0, 8).map(({ feature, importance }) => element("li", {}, element("span", {}, feature),
          element("span", { class: "number" }, percent(importance, 1)))))] : []));
  }

  renderComparing() {
    const { name, versions } = this.listed;
    const numbers = versions.filter((one) => one.live).map((one) => one.version);
    const other = versions.find((one) => !one.live && !one.broken)?.version;
    const head = element("h2", {}, "What changed between two versions");
    const hint = other === undefined ? [] : [element("p", { class: "hint" },
      `Only loaded versions are compared here. An alias, an experiment or localrank serve --preload ${name}@${other} loads one. localrank models diff compares any two.`)];
    if (numbers.length < 2) {
      this.changes.replaceChildren(head, ...(hint.length ? hint : [element("p", {}, "There is one version only. Train and publish another to compare them.")]));
      return;
    }
    const choice = (label, chosen) => element("select", { "aria-label": label }, numbers.map((one) => element("option", { value: one, selected: one === chosen }, `version ${one}`)));
    const latest = numbers.find((one) => one !== state.model.version);
    this.before = choice("From", state.model.version);
    this.after = choice("To", latest);
    this.compared = element("div", { "aria-live": "polite" });
    this.changes.replaceChildren(head,
      element("form", { class: "actions", onsubmit: (event) => { event.preventDefault(); this.compare(); } },
        element("span", {}, "From"), this.before, element("span", {}, "to"), this.after, element("button", { type: "submit" }, "Compare")),
      ...hint, this.compared);
  }

  async compare() {
    const { name } = this.listed;
    this.compared.replaceChildren(element("p", { class: "hint" }, "Reading both versions and ranking their probes…"));
    try {
      const found = await ask(`v1/models/${encodeURIComponent(name)}/diff?before=${this.before.value}&after=${this.after.value}`);
      this.compared.replaceChildren(...difference(found));
    } catch (error) {
      this.compared.replaceChildren(element("p", { class: "problem" }, error.message));
    }
  }

  renderContract() {
    const { model } = state;
    const range = (one) => (one.kind === "category" ? [element("span", { title: one.values.slice(0, SHOWN).join(", ") }, `${count(one.values.length)} values`), ""] : [plain(one.lowest), plain(one.highest)]);
    const rows = (features) => features.map((one) => [one.scope === "query" ? `${one.name} (of the query)` : one.name, one.missing, ...range(one)]);
    const lengths = Object.values(model.list_lengths);
    const heads = ["Feature", "If missing", "Lowest", "Highest"];
    const place = element("div", {}, table("Features in the order of the contract, with their range in training", heads, rows(model.features.slice(0, SHOWN)), { numeric: [2, 3] }));
    const all = model.features.length > SHOWN && element("button", { type: "button", onclick: () => {
      place.replaceChildren(table("Features in the order of the contract, with their range in training", heads, rows(model.features), { numeric: [2, 3] }));
      all.remove();
    } }, `Show all ${count(model.features.length)}`);
    this.contract.replaceChildren(element("h2", {}, "What it expects of documents"),
      terms([["Features", count(model.n_features)], ["Normalised by", model.normalise], ["Contract", element("code", {}, model.contract)],
        ["Documents of a training query", `${plain(lengths[0])} to ${plain(lengths.at(-1))}`]]),
      place, ...(all ? [all] : []));
  }

  ask(what) {
    this.fail("");
    const { name, aliases, history } = this.listed;
    const alias = this.alias.value.trim() || CHAMPION;
    const now = aliases[alias];
    const version = Number(this.version.value);
    if (what === "rollback") {
      const before = (history[alias] ?? []).at(-2)?.version;
      if (before === undefined) {
        this.fail(`${name}@${alias} never named another version. Choose a version and promote it.`);
        return;
      }
      this.question.textContent = `${name}@${alias} will go back from version ${now} to version ${before} in every worker.`;
    } else if (now === version) {
      this.fail(`${name}@${alias} is version ${version} already. Choose another version.`);
      return;
    } else {
      this.question.textContent = `${name}@${alias} becomes version ${version}${now === undefined ? "" : ` instead of ${now}`}, in every worker.`
        + (alias === CHAMPION ? " Requests that name no version are answered by it from then on." : "");
    }
    this.asked = { what, alias, version, name };
    this.agree.textContent = what === "promote" ? "Promote" : "Roll back";
    this.dialog.returnValue = "";
    this.dialog.showModal();
  }

  async answered() {
    if (this.dialog.returnValue !== "yes") return;
    const { what, alias, version, name } = this.asked;
    try {
      const switched = await ask(`v1/models/${encodeURIComponent(name)}/${what}`, what === "promote" ? { version, alias } : { alias });
      this.fail("");
      this.done.textContent = `${name}@${alias} is version ${switched.version} now${switched.previous === null ? "" : `; it was ${switched.previous}`}. ${many(switched.workers.length, "worker")} switched.`;
      this.done.hidden = false;
      state.dispatchEvent(new Event("reread"));
    } catch (error) {
      this.fail(error.message);
    }
  }
}

function headline(metrics) {
  const { figures = [] } = metrics ?? {};
  return figures.find((one) => one.metric === "ndcg@10") ?? figures.at(-1);
}

/** Show what differs: settings, figures, contract, and how the two rank the queries of their probes. */
function difference({ settings, metrics, contract, probe, before, after }) {
  const heads = ["What", `Version ${before}`, `Version ${after}`];
  const section = (title, changes, none) => [element("h3", {}, title), changes.length
    ? table(title, heads, changes.slice(0, SHOWN).map((one) => [one.path, shown(one.before), shown(one.after)]), { hidden: true })
    : element("p", { class: "hint" }, none),
  ...(changes.length > SHOWN ? [element("p", { class: "hint" }, `${many(changes.length - SHOWN, "more change")}: localrank models diff lists all.`)] : [])];
  return [...probes(probe), ...section("Settings", settings, "The settings are the same."),
    ...section("Held-out figures", metrics, "The figures are the same."), ...section("Feature contract", contract, "The contract is the same.")];
}

function probes(probe) {
  if (!probe) return [element("h3", {}, "Rankings"), element("p", { class: "hint" }, "The features, or their rules for missing values, are not the same, so neither ranks the other's probe.")];
  const same = probe.filter((one) => one.same_first).length;
  const routed = probe.filter(({ clusters }) => clusters[0] !== clusters[1]).length;
  const tau = probe.reduce((sum, one) => sum + one.tau, 0) / Math.max(probe.length, 1);
  const worst = Math.max(0, ...probe.map((one) => one.furthest));
  return [element("h3", {}, "Rankings of their probe queries"), terms([
    ["Same first document", `${same} of ${many(probe.length, "query", "queries")}`],
    ["Order alike (Kendall's τ)", `${number(tau, 3)} on average; 1 is the same order, −1 the reverse`],
    ["Furthest move", many(worst, "rank")],
    ["Another cluster", routed ? `${routed} of ${many(probe.length, "query", "queries")}` : "none"],
  ])];
}

/** A value of a manifest in a cell. */
function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return plain(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

function day(text) {
  return element("time", { datetime: text, title: text, class: "nowrap" }, text.slice(0, 10));
}
