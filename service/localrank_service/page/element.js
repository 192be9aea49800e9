// Elements of the page, made without HTML text, so that nothing that a service answers is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Attributes that begin with "on" are listeners; those that are null or false are left out. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Set the styles of an element that are figures, such as the width of a bar. */
export function styled(node, styles) {
  for (const [name, value] of Object.entries(styles)) node.style.setProperty(name, value);
  return node;
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Make a list of names and what they stand for. */
export function terms(pairs) {
  return element("dl", { class: "terms" }, pairs.map(([name, ...values]) => element("div", {}, element("dt", {}, name), element("dd", {}, values))));
}

/** Make a card: a title and what is in it. */
export function card(title, ...children) {
  return element("div", { class: "card" }, element("h2", {}, title), children);
}

/** Make a table: a caption, the heads of its columns, and rows of texts or elements; the first cell names the row. */
export function table(caption, heads, rows, { numeric = [], hidden = false } = {}) {
  const align = (column) => (numeric.includes(column) ? "number" : null);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {},
      element("caption", { class: hidden ? "unseen" : null }, caption),
      element("thead", {}, element("tr", {}, heads.map((head, i) => element("th", { scope: "col", class: align(i) }, head || element("span", { class: "unseen" }, "As a bar"))))),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell, i) => i === 0
        ? element("th", { scope: "row" }, cell)
        : element("td", { class: align(i) }, cell)))))));
}
