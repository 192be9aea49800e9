// The request of the Try view as code to send it again: curl, Python, and a client of Triton.

import { element } from "./element.js";
import { address, hasKey } from "./service.js";

/** The largest number of characters that are shown; the copy is complete. */
const SHOWN = 4000;

export const SNIPPETS = { curl, Python: python, tritonclient: triton };

/** Write a request as a command of a shell. */
export function curl(request) {
  const key = hasKey() ? ` -H "x-api-key: $LOCALRANK_API_KEY"` : "";
  return `curl -s ${quoted(address("v1/rerank"))} -H 'content-type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(request))}\n`;
}

/** Write a request for httpx. */
export function python(request) {
  const key = hasKey() ? `, headers={"x-api-key": os.environ["LOCALRANK_API_KEY"]}` : "";
  return `import json
${hasKey() ? "import os\n" : ""}
import httpx

query = json.loads(r"""${inPython(request)}""")
answer = httpx.post(${JSON.stringify(address("v1/rerank"))}, json=query${key}).raise_for_status().json()
for result in answer["results"]:
    print(result["rank"], result.get("id", result["index"]), result["score"])
`;
}

/** Write a request for tritonclient, of the Open Inference Protocol. */
export function triton(request, features) {
  const url = new URL(address("."));
  const place = `${url.host}${url.pathname.replace(/\/$/, "")}`;
  const key = hasKey() ? `, headers={"x-api-key": os.environ["LOCALRANK_API_KEY"]}` : "";
  const codes = features.map((one) => one.values && new Map(one.values.map((value, code) => [value, code])));
  const rows = request.features.map((row) => row.map((value, i) => (codes[i] && value !== null ? (codes[i].get(String(value)) ?? codes[i].size) : value)));
  return `import json
${hasKey() ? "import os\n" : ""}
import numpy as np
import tritonclient.http as triton

# The columns are the model's, in its order; null is a missing value${codes.some(Boolean) ? ", and a category has its codes" : ""}.
documents = np.array(json.loads("""${JSON.stringify(rows)}"""), np.float32)
features = triton.InferInput("features", documents.shape, "FP32")
features.set_data_from_numpy(documents)
with triton.InferenceServerClient(${JSON.stringify(place)}${url.protocol === "https:" ? ", ssl=True" : ""}) as client:
    answer = client.infer(${JSON.stringify(request.model)}, [features]${key})
for position in answer.as_numpy("ranking"):
    print(position, answer.as_numpy("scores")[position])
`;
}

// A text of the request must not end the literal, or the shell's word.
function inPython(request) {
  return JSON.stringify(request).replaceAll('"""', '\\u0022""').replace(/[^\x20-\x7e]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Show a request in each form, with a button that copies it. */
export function snippets(request, features) {
  const code = element("code");
  const said = element("span", { role: "status", class: "hint" });
  let whole = "";
  const choose = (name) => {
    whole = SNIPPETS[name](request, features);
    code.textContent = whole.length > SHOWN ? `${whole.slice(0, SHOWN)}\n… copy it to see the rest` : whole;
    said.textContent = "";
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(whole);
      said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(code);
      said.textContent = "The browser does not let a page copy here. The text is selected: press Ctrl+C.";
    }
  };
  const names = Object.keys(SNIPPETS);
  const fields = names.map((name, i) => element("label", {},
    element("input", { type: "radio", name: "snippet", value: name, checked: i === 0, onchange: () => choose(name) }), name));
  choose(names[0]);
  return [
    element("div", { class: "actions" },
      element("fieldset", { class: "segmented" }, element("legend", { class: "unseen" }, "Language"), fields),
      element("button", { type: "button", onclick: copy }, "Copy"), said),
    element("pre", { tabindex: "0", role: "region", "aria-label": "The request as code" }, code),
  ];
}
