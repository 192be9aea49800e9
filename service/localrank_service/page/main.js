// The page: which view is shown, which model is chosen, and the key.

import { element } from "./element.js";
import { LiveView } from "./live.js";
import { MapView } from "./map.js";
import { ModelsView } from "./models.js";
import { ask, hasKey, useKey } from "./service.js";
import { state } from "./state.js";
import { TryView } from "./try.js";

const VIEWS = {
  try: new TryView(document.getElementById("view-try")),
  map: new MapView(document.getElementById("view-map")),
  models: new ModelsView(document.getElementById("view-models")),
  live: new LiveView(document.getElementById("view-live")),
};

const trouble = document.getElementById("trouble");
const picker = document.getElementById("model");
// Counts the readings of the models: an answer that arrives after a newer reading began is left out.
let turns = 0;

function viewOf(hash) {
  return Object.keys(VIEWS).find((name) => `#${name}` === hash);
}

/** Show the view that the address names. The focus goes to its title, so that screen readers read it. */
function show({ focus = true } = {}) {
  const wanted = viewOf(location.hash);
  if (!wanted && document.querySelector("section.shown")) return;
  const name = wanted ?? "try";
  for (const [other, view] of Object.entries(VIEWS)) {
    const shown = other === name;
    view.root.hidden = !shown;
    view.root.classList.toggle("shown", shown);
    const link = document.querySelector(`nav a[href="#${other}"]`);
    if (shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (shown) view.show?.();
    else view.hide?.();
  }
  const title = VIEWS[name].root.querySelector("h1");
  document.title = `${title?.textContent ?? "LocalRank"} · LocalRank`;
  if (focus) title?.focus();
}

function say(message) {
  trouble.textContent = message;
  trouble.hidden = !message;
}

/** Read which models there are, and choose one. */
function readModels(name) {
  state.reading = chooseModel(name);
}

async function chooseModel(name = picker.value) {
  const turn = (turns += 1);
  try {
    const { models, broken, loading } = await ask("v1/models");
    if (turn !== turns) return;
    picker.replaceChildren(...models.map((one) => element("option", { value: one.name }, one.name)));
    const chosen = models.find((one) => one.name === name) ?? models.find((one) => one.default) ?? models[0];
    const unserved = Object.entries(broken).map(([address, reason]) => `Model ${address} is broken: ${reason}.`);
    if (!chosen) {
      const waits = Object.keys(loading).length ? "Models are being loaded; reload the page in a moment." : "No model is served. Publish one with localrank train, and promote it.";
      say([...unserved, waits].join(" "));
      return;
    }
    picker.value = chosen.name;
    const model = await ask(`v1/models/${encodeURIComponent(chosen.name)}`);
    if (turn !== turns) return;
    state.set("model", model);
    say(unserved.join(" "));
  } catch (error) {
    if (turn === turns) say(error.message);
  }
}

function openKey() {
  document.getElementById("key-dialog").showModal();
}

document.getElementById("key-button").addEventListener("click", openKey);
document.getElementById("key-dialog").addEventListener("close", ({ target }) => {
  const field = document.getElementById("key");
  if (target.returnValue === "use") useKey(field.value);
  if (target.returnValue === "forget") useKey("");
  field.value = "";
  document.getElementById("key-button").textContent = hasKey() ? "Key: set" : "Key";
  if (target.returnValue) readModels();
});
picker.addEventListener("change", () => readModels());
state.addEventListener("reread", () => readModels());
window.addEventListener("hashchange", () => show());

show({ focus: false });
readModels();
