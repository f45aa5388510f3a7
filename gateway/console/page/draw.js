// Charts and the line of the log, as SVG.

import { bytes, short, whole } from "./parts.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

function shape(name, attributes, text) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The least round number that is not below a value.
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value * 0.999);
}

// `lines`: [{key, style}]; values below 0 are gaps. `points` come each second; there is room for `room` of them.
export function chart(box, points, room, lines, describe = short) {
  const width = box.clientWidth, height = box.clientHeight;
  if (!width) return;
  const left = 44, top = 6, bottom = height - 18, right = width - 4;
  const highest = ceiling(Math.max(0, ...points.flatMap((one) => lines.map((line) => one[line.key]))));
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const share of [0, 0.5, 1]) {
    const y = bottom - share * (bottom - top);
    svg.append(shape("line", { x1: left, x2: right, y1: y, y2: y, class: "grid" }));
    svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, share ? (highest * share < 1 && describe === short ? "" : describe(highest * share)) : "0"));
  }
  const newest = points.length ? points[points.length - 1].time_ms : 0;
  const minutes = Math.min(room / 60, Math.max(1, Math.ceil((newest - (points[0]?.time_ms ?? 0)) / 60000)));
  svg.append(shape("text", { x: left, y: height - 3 }, `${minutes} min ago`));
  svg.append(shape("text", { x: right, y: height - 3, "text-anchor": "end" }, "now"));
  const x = (point) => Math.max(left, right - ((newest - point.time_ms) / 60000 / minutes) * (right - left));
  const y = (value) => bottom - (value / highest) * (bottom - top);
  for (const line of lines) {
    for (const stretch of stretches(points, line.key)) {
      const path = stretch.map((one) => `${x(one).toFixed(1)},${y(one[line.key]).toFixed(1)}`);
      if (path.length === 1) path.push(`${(x(stretch[0]) + 1).toFixed(1)},${y(stretch[0][line.key]).toFixed(1)}`);
      if (lines.length === 1) {
        const ends = `${x(stretch[stretch.length - 1]).toFixed(1)},${bottom} ${x(stretch[0]).toFixed(1)},${bottom}`;
        svg.append(shape("polygon", { points: `${path.join(" ")} ${ends}`, class: "fill" }));
      }
      svg.append(shape("polyline", { points: path.join(" "), class: line.style }));
    }
  }
  box.replaceChildren(svg);
}

function stretches(points, key) {
  const found = [];
  let before = null;
  for (const one of points) {
    const follows = before !== null && one.time_ms - before.time_ms < 5000;
    if (one[key] >= 0) {
      if (follows && found.length) found[found.length - 1].push(one);
      else found.push([one]);
      before = one;
    } else before = null;
  }
  return found;
}

// The log from its oldest position to the newest: terms as bands, snapshots as marks, members where they are.
export function logLine(box, log, members) {
  const width = box.clientWidth - 26, height = box.clientHeight - 20;
  const end = Math.max(0, ...members.filter((one) => !one.trouble).map((one) => one.commit));
  const start = Math.max(0, log.log_start ?? 0);
  if (width <= 0 || end <= start) return;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const x = (position) => ((Math.min(Math.max(position, start), end) - start) / (end - start)) * width;
  const middle = height * 0.42;
  const terms = log.terms.filter(([, base], index, all) => (index + 1 < all.length ? all[index + 1][1] : end) > start);
  terms.forEach(([term, base], index) => {
    const from = x(base), to = x(index + 1 < terms.length ? terms[index + 1][1] : end);
    const band = shape("rect", { x: from, y: middle - 14, width: Math.max(1, to - from), height: 28, class: index % 2 ? "band other" : "band" });
    band.append(shape("title", {}, `term ${term} begins at ${whole(base)}`));
    svg.append(band);
    if (to - from > 46) svg.append(shape("text", { x: (from + to) / 2, y: middle + 4, "text-anchor": "middle", class: "strong" }, `term ${term}`));
  });
  for (const [position] of log.snapshots) {
    const at = x(position);
    const mark = shape("path", { d: `M${at} ${middle - 16} l6 -10 h-12 z`, class: "snapshot" });
    mark.append(shape("title", {}, `snapshot at ${whole(position)}`));
    svg.append(mark);
  }
  svg.append(shape("text", { x: 0, y: 12 }, "▼ snapshots"));
  let taken = Infinity, row = 0;
  const known = members.filter((one) => !one.trouble).sort((a, b) => position(b, end) - position(a, end));
  for (const one of known) {
    const at = x(position(one, end));
    row = taken - at < 90 ? row + 1 : 0;
    taken = at;
    const y = middle + 30 + row * 14;
    svg.append(shape("line", { x1: at, x2: at, y1: middle - 14, y2: y - 4, class: one.role === "LEADER" ? "member leader" : "member" }));
    svg.append(shape("text", { x: at - 4, y, "text-anchor": at < 80 ? "start" : "end" }, `member ${one.member}`));
  }
  svg.append(shape("text", { x: 0, y: height - 2 }, bytes(start)));
  svg.append(shape("text", { x: width, y: height - 2, "text-anchor": "end" }, bytes(end)));
  box.replaceChildren(svg);
}

const position = (member, end) => end - Math.max(0, member.lag);
