// Small parts of the page: elements, tables, numbers and times as people read them. Text is only ever set as text.

export const at = (id) => document.getElementById(id);

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

// `columns`: {title, show(row) -> text or element, text: left-aligned}
export function table(columns, rows, empty) {
  if (!rows.length) return element("p", { class: "muted" }, empty);
  const side = (column) => ({ class: column.text ? "text" : undefined });
  const head = element("tr", {}, ...columns.map((one) => element("th", { scope: "col", ...side(one) }, one.title)));
  const body = rows.map((row) => element("tr", {}, ...columns.map((one) => element("td", side(one), one.show(row)))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}

export function short(value) {
  if (value === null || value === undefined || value < 0) return "–";
  for (const unit of ["", "k", "M", "G", "T"]) {
    if (value < 1000 || unit === "T") return value >= 100 || !unit ? `${Math.round(value)}${unit}` : `${value.toFixed(1)}${unit}`;
    value /= 1000;
  }
}

export const bytes = (value) => (value < 0 || value === undefined ? "–" : `${short(value).replace(/[kMGT]?$/, "\u00a0$&")}B`);
export const milliseconds = (value) => (value < 0 || value === undefined ? "–" : `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`);
export const seconds = (ms) => (ms < 0 || ms === undefined ? "–" : `${(ms / 1000).toFixed(1)} s`);
export const whole = (value) => (value < 0 || value === undefined ? "–" : Number(value).toLocaleString("en"));
export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export const moment = (ms) => (ms > 0 ? new Date(ms).toISOString().replace("T", " ").slice(0, 19) : "–");
// Of nanoseconds since 1970, as digits.
export const instant = (ns) => `${moment(Number(BigInt(ns) / 1000000n))}.${ns.padStart(9, "0").slice(-9)}`;

// A list of {time_ms, level, text}, the newest first.
export function notes(list) {
  return list.map((one) => element("li", {},
    element("time", { datetime: new Date(one.time_ms).toISOString() }, clock(one.time_ms)),
    element("span", { class: one.level }, one.text)));
}
