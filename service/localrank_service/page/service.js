// The service that this page comes from: every figure of the page is one of its answers.

/** Why a request was not answered, as a sentence with what to do next. */
export class Refusal extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

const ADVICE = {
  401: "Enter a key under “Key”.",
  403: "Check the key under “Key”, and the address of this page.",
  404: "Choose another model or version.",
  413: "Send fewer documents.",
  429: "The service is overloaded; try again in a moment.",
  503: "Try again in a moment, and look at /readyz.",
};

// In memory only: the browser never writes it to the disk.
let key = "";

/** Send this key from now on; an empty one sends none. */
export function useKey(text) {
  key = text.trim();
}

export function hasKey() {
  return key !== "";
}

/** The address of a path of the service, also behind a proxy that moves it. */
export function address(path) {
  return new URL(path, document.baseURI).href;
}

/** Ask the service; without a body it is a GET. Throws a Refusal. */
export async function ask(path, body, signal) {
  // Nothing that the page asks is traffic of users.
  const headers = { "LocalRank-Trial": "true", ...(key && { "X-API-Key": key }), ...(body !== undefined && { "Content-Type": "application/json" }) };
  let response;
  let text;
  try {
    response = await fetch(address(path), {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "omit",
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The service does not answer. Check that it runs, then try again.");
  }
  if (response.ok) return JSON.parse(text);
  throw new Refusal(refusalOf(text, response), response.status);
}

function refusalOf(text, response) {
  let detail;
  try {
    detail = JSON.parse(text).detail;
  } catch {
    detail = null;
  }
  const said = detail || `The service answered ${response.status}`;
  const sentence = said.endsWith(".") ? said : `${said}.`;
  return [sentence, ADVICE[response.status]].filter(Boolean).join(" ");
}
