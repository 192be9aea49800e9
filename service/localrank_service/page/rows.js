// The documents of one query, from what people paste: JSON, CSV or LETOR.
//
// All become { ids, names, rows, labels, note }: names are those of the columns if the text has them, a missing value is
// null, and labels are shown beside documents that have been judged. An error is thrown with a sentence that says what is wrong.

const IDS = new Set(["id", "doc_id", "docid", "document", "document_id"]);
const LABELS = new Set(["label", "grade", "relevance", "judgement", "judgment"]);
const QUERIES = new Set(["qid", "query", "query_id"]);
/** A feature and its value in LETOR text; "?" is a missing value. */
const LETOR_PAIR = /^(\d+):(\?|[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)$/;

/** Read the documents for a model with these features. */
export function readRows(text, features) {
  const trimmed = text.trim();
  const isCategory = (name, at) => (name == null ? features[at] : features.find((one) => one.name === name))?.kind === "category";
  if (!trimmed) throw new Error("There are no documents. Paste rows, drop a file or take a sample query.");
  const isHead = (value, at) => features.some((one) => one.name === value) || (value !== "" && Number.isNaN(Number(value)) && !isCategory(null, at));
  if (/^[[{]/.test(trimmed)) return fromJson(trimmed, isCategory);
  const first = trimmed.split("\n", 1)[0];
  if (/^#|^\S+\s+(qid|\d+):/.test(first)) return fromLetor(trimmed, features.length);
  return fromCsv(trimmed, isCategory, isHead);
}

function documents(rows, more = {}) {
  return { ids: null, names: null, labels: null, note: null, rows, ...more };
}

function fromJson(text, isCategory) {
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new Error(`This text begins like JSON but is not valid JSON: ${error.message}.`);
  }
  const listed = Array.isArray(found) ? found : (found.documents ?? found.features);
  if (!Array.isArray(listed)) {
    throw new Error("Expected a list of rows, or a request with “documents” or “features”; found an object without them.");
  }
  if (listed.length && typeof listed[0] === "number") throw new Error("Expected a list of rows; found a list of numbers.");
  const ids = listed.map((one, i) => found.ids?.[i] ?? one?.id ?? null);
  const features = listed.map((one) => (Array.isArray(one) ? one : (one?.features ?? withoutId(one))));
  const named = features.some((one) => one && !Array.isArray(one) && typeof one === "object");
  const names = named ? [...new Set(features.flatMap((one) => Object.keys(one ?? {})))] : (found.feature_names ?? null);
  const rows = features.map((one, i) => {
    if (!one || typeof one !== "object" || (named && Array.isArray(one))) {
      throw new Error(`Document ${i + 1}: expected ${named ? "features by name" : "a list of numbers"}.`);
    }
    return (named ? names.map((name) => one[name] ?? null) : one).map((value, j) => checked(value, `Document ${i + 1}, ${names?.[j] ?? `feature ${j + 1}`}`, isCategory(names?.[j], j)));
  });
  return documents(rows, { names, ids: ids.every((id) => id === null) ? null : ids.map((id, i) => id ?? `d${i + 1}`) });
}

function withoutId(one) {
  if (!one || typeof one !== "object") return one;
  return Object.fromEntries(Object.entries(one).filter(([name]) => !IDS.has(name)));
}

function checked(value, where, isCategory) {
  if (value === null || (isCategory && /^(string|boolean)$/.test(typeof value)) || (typeof value === "number" && Number.isFinite(value))) return value;
  throw new Error(`${where}: expected a number or null, found ${JSON.stringify(value)}.`);
}

function fromLetor(text, width) {
  const rows = [];
  const labels = [];
  const ids = [];
  const queries = new Set();
  for (const [at, line] of text.split("\n").entries()) {
    const [content, comment = ""] = line.split(/#(.*)/);
    const words = content.trim().split(/\s+/);
    if (!words[0]) continue;
    const query = words[1]?.startsWith("qid:") ? words[1].slice(4) : "";
    queries.add(query);
    if (queries.size > 1 && query !== [...queries][0]) continue;
    const row = new Array(width).fill(0);
    for (const word of words.slice(query ? 2 : 1)) {
      const [, index, value] = LETOR_PAIR.exec(word) ?? [];
      if (!index) throw new Error(`Line ${at + 1}: expected feature:value, found “${word.slice(0, 40)}”.`);
      if (Number(index) < 1 || Number(index) > width) {
        throw new Error(`Line ${at + 1}: feature ${index} is out of range; the model has features 1 to ${width}.`);
      }
      row[Number(index) - 1] = value === "?" ? null : Number(value);
    }
    rows.push(row);
    labels.push(words[0]);
    ids.push(/docid\s*=\s*(\S+)/.exec(comment)?.[1] ?? comment.trim().split(/\s+/)[0] ?? "");
  }
  const named = ids.every(Boolean);
  return documents(rows, { labels, ids: named ? ids : null, note: firstOf(queries) });
}

function firstOf(queries) {
  return queries.size > 1 ? `The text has ${queries.size} queries. Only the first one is ranked.` : null;
}

function fromCsv(text, isCategory, isHead) {
  const lines = text.split("\n").map((line, at) => ({ at: at + 1, line: line.replace(/\r$/, "") })).filter(({ line }) => line.trim());
  const separator = ["\t", ";", ","].find((one) => lines[0].line.includes(one)) ?? ",";
  const cells = lines.map(({ at, line }) => ({ at, values: cellsOf(line, separator) }));
  const heads = cells[0].values.some(isHead) ? cells.shift().values : null;
  if (!cells.length) throw new Error("There is a head, but no document below it.");
  const columns = (heads ?? cells[0].values).map((head, i) => kindOf(heads ? head.toLowerCase() : "", i));
  const width = columns.length;
  const names = heads && heads.filter((_, i) => columns[i] === "feature");
  const [idColumn, labelColumn, queryColumn] = ["id", "label", "query"].map((kind) => columns.indexOf(kind));
  const queries = new Set();
  const kept = cells.filter(({ values }) => {
    if (queryColumn < 0) return true;
    queries.add(values[queryColumn]);
    return values[queryColumn] === [...queries][0];
  });
  const rows = kept.map(({ at, values }) => {
    if (values.length !== width) throw new Error(`Line ${at}: expected ${width} values, found ${values.length}.`);
    return values.filter((_, i) => columns[i] === "feature").map((value, i) => {
      if (value !== "" && isCategory(names?.[i], i)) return value;
      if (value === "" || /^(null|nan|na)$/i.test(value)) return null;
      if (Number.isNaN(Number(value))) throw new Error(`Line ${at}, feature ${i + 1}: expected a number, found “${value.slice(0, 40)}”.`);
      return Number(value);
    });
  });
  const column = (at) => (at < 0 ? null : kept.map(({ values }) => values[at]));
  return documents(rows, {
    names,
    ids: column(idColumn),
    labels: column(labelColumn),
    note: firstOf(queries),
  });
}

function kindOf(head) {
  if (IDS.has(head)) return "id";
  if (LABELS.has(head)) return "label";
  return QUERIES.has(head) ? "query" : "feature";
}

function cellsOf(line, separator) {
  const cells = [];
  let rest = line;
  for (;;) {
    const quoted = /^\s*"((?:[^"]|"")*)"\s*/.exec(rest);
    const next = rest.indexOf(separator);
    const end = quoted ? quoted[0].length : next < 0 ? rest.length : next;
    cells.push(quoted ? quoted[1].replaceAll('""', '"') : rest.slice(0, end).trim());
    if (rest[end] !== separator) return cells;
    rest = rest.slice(end + 1);
  }
}
