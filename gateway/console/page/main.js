// The console's page: logs in, listens to the gateway's events, shows what they say, and gives orders.

import { at, bytes, clock, element, instant, milliseconds, moment, notes, seconds, short, table, whole } from "./parts.js";
import { chart, logLine } from "./draw.js";
import { stopWatching } from "./live.js";

const NOTES_MAX = 100;
const LIST_INTERVAL_MS = 5000;
// What the log's own state lists: each view has its table and its line of trouble, and is asked for while it is open.
const LISTS = {
  apps: {
    rows: (found) => found.instances, none: "There are no applications.",
    columns: [
      { title: "group", text: true, show: (one) => one.group }, { title: "instance", text: true, show: (one) => one.instance },
      { title: "", text: true, show: (one) => (one.canary ? "compares" : one.active ? "writes" : "follows") },
      { title: "version", text: true, show: (one) => one.version },
      { title: "position", show: (one) => whole(one.position) }, { title: "lag", show: (one) => bytes(one.lag) },
      { title: "outputs", show: (one) => whole(one.outputs_executed) }, { title: "seen", show: (one) => `${(Number(one.reported_ms) / 1000).toFixed(1)} s ago` },
    ],
  },
  consumers: {
    rows: (found) => found.consumers, none: "There are no durable consumers.",
    columns: [
      { title: "consumer", text: true, show: (one) => one.name }, { title: "mode", text: true, show: (one) => one.mode },
      { title: "position", show: (one) => whole(one.position) }, { title: "lag", show: (one) => bytes(one.lag) }, { title: "members", show: (one) => whole(one.members) },
      { title: "", show: (one) => consumerButton(one) },
    ],
  },
};
const RETRY_MS = 2000;
const VIEWS = ["overview", "log", "sessions", "apps", "consumers", "messages", "live", "errors", "orders"];
const seen = { state: null, details: {}, points: [], room: 300, notes: [], mayOrder: false, stream: null, given: [] };

// -- asking the gateway --------------------------------------------------------------------------------------------

async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", "X-Ordo-Console": "1" },
  };
  const response = await fetch(path, options);
  const found = await response.json();
  if (!response.ok) throw Object.assign(new Error(found.error), { status: response.status });
  return found;
}

async function begin() {
  try {
    if (!(await ask("/api/session")).is_in) await ask("/api/login", { token: "" });
    enter();
  } catch (error) {
    if (error.status === 403) return showLogin("");
    at("leader").textContent = error.status ? error.message : "the gateway does not answer";
    at("leader").className = "pill bad";
    setTimeout(begin, RETRY_MS);
  }
}

function showLogin(problem) {
  seen.stream?.close();
  stopWatching("");
  for (const id of ["tabs", "logout", ...VIEWS]) at(id).hidden = true;
  at("login").hidden = false;
  at("login-problem").textContent = problem;
  at("leader").textContent = "not logged in";
  at("leader").className = "pill";
  at("token").focus();
}

function enter() {
  at("login").hidden = true;
  at("tabs").hidden = at("logout").hidden = false;
  showView();
  listen();
}

// -- events --------------------------------------------------------------------------------------------------------

function listen() {
  seen.stream?.close();
  const stream = seen.stream = new EventSource("/api/events");
  const on = (name, take) => stream.addEventListener(name, (event) => { take(JSON.parse(event.data)); show(); });
  on("history", (found) => { seen.points = found.points; seen.room = found.points_max; seen.notes = []; });
  on("state", takeState);
  on("details", (found) => { seen.details = found; });
  stream.onopen = () => { at("link").hidden = true; };
  stream.onerror = () => {
    at("link").hidden = false;
    if (stream.readyState === EventSource.CLOSED) {
      setTimeout(() => ask("/api/session").then((found) => (found.is_in ? listen() : begin()), listen), RETRY_MS);
    }
  };
}

function takeState(found) {
  seen.state = found;
  seen.mayOrder = found.may_order;
  seen.notes = [...found.notes.slice().reverse(), ...seen.notes].slice(0, NOTES_MAX);
  if (found.point && found.point.time_ms !== seen.points[seen.points.length - 1]?.time_ms) {
    seen.points = [...seen.points, found.point].slice(-seen.room);
  }
}

// -- what is shown -------------------------------------------------------------------------------------------------

const view = () => (VIEWS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "overview");

function showView() {
  for (const name of VIEWS) at(name).hidden = name !== view();
  for (const link of at("tabs").children) {
    if (link.hash === `#${view()}`) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
  if (view() in LISTS) showList();
  show();
}

function show() {
  if (!seen.state || at("login").hidden === false) return;
  showLeader();
  ({ overview: showOverview, log: showLog, sessions: showSessions, errors: showErrors, orders: showOrders })[view()]?.();
  const count = errors().length;
  at("error-count").hidden = !count;
  at("error-count").textContent = count;
}

function showLeader() {
  const { leader, term, members } = seen.state;
  const silent = members.filter((one) => one.trouble).length;
  const pill = at("leader");
  pill.textContent = leader === null ? "no leader" : `member ${leader} leads term ${term}${silent ? `, ${silent} silent` : ""}`;
  pill.className = `pill ${leader === null ? "bad" : silent ? "warn" : "good"}`;
}

function showOverview() {
  const { members } = seen.state;
  const point = seen.points[seen.points.length - 1] ?? {};
  const commit = Math.max(-1, ...members.map((one) => one.commit));
  const tile = (title, value) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, title));
  at("tiles").replaceChildren(
    tile("committed log", bytes(commit)), tile("log growth", `${bytes(point.log_rate)}${point.log_rate >= 0 ? "/s" : ""}`),
    tile("answers", `${short(point.answers)}/s`), tile("median round trip", milliseconds(point.p50_ms)),
    tile("99 % round trip", milliseconds(point.p99_ms)), tile("sessions", whole(Math.max(-1, ...members.map((one) => one.sessions)))));
  at("members").replaceChildren(...members.map(card));
  chart(at("chart-log"), seen.points, seen.room, [{ key: "log_rate", style: "first" }]);
  chart(at("chart-answers"), seen.points, seen.room, [{ key: "answers", style: "first" }]);
  chart(at("chart-latency"), seen.points, seen.room, [{ key: "p50_ms", style: "first" }, { key: "p99_ms", style: "second" }], plain);
  chart(at("chart-lag"), seen.points, seen.room, [{ key: "lag", style: "first" }]);
  at("notes").replaceChildren(...(seen.notes.length ? notes(seen.notes) : [element("li", { class: "muted" }, "nothing yet")]));
}

const plain = (value) => (value >= 10 ? value.toFixed(0) : String(Number(value.toPrecision(2))));

function card(one) {
  const name = one.member < 0 ? "member ?" : `member ${one.member}`;
  if (one.trouble) {
    return element("div", { class: "card trouble" }, element("h3", {}, name, element("span", { class: "pill bad" }, "no answer")),
      element("small", {}, one.ingress), element("p", {}, one.trouble));
  }
  const electing = one.state.startsWith("election");
  const doubt = electing || one.lost || one.no_room || one.damaged > 0 || one.state !== "ACTIVE";
  const kind = one.lost || electing ? "doubt" : one.role === "LEADER" ? "leader" : doubt ? "doubt" : "";
  const pill = element("span", { class: `pill ${doubt ? "warn" : one.role === "LEADER" ? "good" : ""}` }, `${one.role.toLowerCase()}${one.state === "ACTIVE" ? "" : `, ${one.state.toLowerCase()}`}`);
  const rows = [["term", whole(one.term)], ["sessions", whole(one.sessions)], ["log", bytes(one.commit)], ["growth", `${bytes(one.commit_rate)}/s`],
    ["lag", bytes(one.lag)], ["service lag", bytes(one.service_lag)], ["since snapshot", bytes(one.snapshot_age)], ["errors", whole(one.errors)],
    ["disk free", bytes(one.disk_free)], ["pressure", `${short(one.back_pressure_rate)}/s`]];
  if (one.standby_lag >= 0) rows.push(["behind its primary", bytes(one.standby_lag)], ["at most, in time", seconds(one.standby_lag_ms)]);
  return element("div", { class: `card ${kind}` }, element("h3", {}, name, pill), element("small", {}, `${one.ingress}${one.version ? ` · ${one.version}` : ""}`),
    element("dl", {}, ...rows.flatMap(([title, value]) => [element("dt", {}, title), element("dd", {}, value)])),
    one.lost ? element("p", { class: "problem" }, `distrusted: ${one.lost}`) : null,
    one.damaged > 0 ? element("p", { class: "problem" }, `damaged on disk: ${whole(one.damaged)}`) : null,
    one.no_room ? element("p", { class: "problem" }, `no room: ${one.no_room}`) : null);
}

// The details of the leader, or of any member that told some.
function leaderDetails() {
  const ingress = seen.state.members.find((one) => one.member === seen.state.leader && !one.trouble)?.ingress;
  return seen.details[ingress] ?? Object.values(seen.details)[0] ?? { terms: [], snapshots: [], sessions: [], errors: [], log_start: 0 };
}

function showLog() {
  const log = leaderDetails();
  logLine(at("line"), log, seen.state.members);
  const ends = log.terms.map((one, index) => log.terms[index + 1]?.[1]);
  at("terms").replaceChildren(table([
    { title: "term", show: (one) => whole(one.id) }, { title: "begins at", show: (one) => whole(one.base) },
    { title: "bytes", show: (one) => (one.end === undefined ? "open" : whole(one.end - one.base)) },
  ], log.terms.map(([id, base], index) => ({ id, base, end: ends[index] })).reverse(), "no term yet"));
  at("snapshots").replaceChildren(table([
    { title: "position", show: (one) => whole(one[0]) }, { title: "term", show: (one) => whole(one[1]) }, { title: "taken", show: (one) => moment(one[2]) },
  ], log.snapshots.slice().reverse(), "no snapshot yet"));
}

function showSessions() {
  const { sessions } = leaderDetails();
  const all = Math.max(0, ...seen.state.members.map((one) => one.sessions));
  at("sessions-text").textContent = all > sessions.length ? `The newest ${sessions.length} of ${all}.` : `${all} open.`;
  at("session-table").replaceChildren(table([
    { title: "session", text: true, show: (one) => String(one.id) }, { title: "principal", text: true, show: (one) => one.principal || "–" },
    { title: "address", text: true, show: (one) => one.address || "–" }, { title: "opened at", show: (one) => whole(one.opened) },
    { title: "last heard", show: (one) => (one.active_ms > 0 ? clock(one.active_ms) : "–") },
    { title: "waits", text: true, show: (one) => (one.held ? "for its quota" : "–") },
  ], sessions.slice().reverse(), "no sessions"));
}

function errors() {
  return seen.state.members.flatMap((one) => (seen.details[one.ingress]?.errors ?? []).map((found) => ({ ...found, member: one.member })))
    .sort((a, b) => b.last_ms - a.last_ms);
}

function showErrors() {
  const found = errors();
  at("error-list").replaceChildren(...(found.length ? found.map((one) => element("div", { class: "error" },
    element("small", {}, `member ${one.member} · ${moment(one.last_ms)}${one.count > 1 ? ` · ${one.count} times` : ""}`), element("pre", {}, one.text),
  )) : [element("p", { class: "muted" }, "No member has met an error.")]));
}

async function showList() {
  const name = view(), list = LISTS[name];
  clearTimeout(showList.again);
  if (!list || at(name).hidden) return;
  try {
    const found = list.rows(await ask(`/api/${name}`));
    at(`${name}-problem`).textContent = "";
    at(`${name}-table`).replaceChildren(table(list.columns, found, list.none));
  } catch (error) {
    at(`${name}-problem`).textContent = error.message;
  }
  clearTimeout(showList.again);
  showList.again = setTimeout(showList, LIST_INTERVAL_MS);
}

function consumerButton(one) {
  const button = element("button", { class: "quiet small", disabled: !seen.mayOrder }, one.paused ? "Resume" : "Pause");
  const order = one.paused ? "resume-consumer" : "pause-consumer";
  button.onclick = () => give(order, `${one.paused ? "Resume" : "Pause"} ${one.name}`, one.paused ? "Its members are handed messages again." : "Its members are handed nothing until it is resumed.", { consumer: one.name });
  return button;
}

// -- messages ------------------------------------------------------------------------------------------------------

async function readMessages(from, add) {
  const query = new URLSearchParams({ from, kinds: at("kind").value, session: at("session").value.trim() });
  at("messages-text").textContent = "reading …";
  try {
    const found = await ask(`/api/messages?${query}`);
    if (!add) at("message-list").replaceChildren();
    at("message-list").append(...found.entries.map(entry));
    const count = at("message-list").children.length;
    at("messages-text").textContent = found.is_cut ? `${count} entries so far; the log was read up to ${whole(found.next)} in the time that one page may take`
      : `${count} ${count === 1 ? "entry" : "entries"}, up to position ${whole(found.next)}`;
    at("more").hidden = false;
    at("more").onclick = () => readMessages(String(found.next), true);
  } catch (error) {
    at("messages-text").textContent = error.message;
  }
}

function entry(one) {
  const head = element("header", {}, element("b", {}, one.kind), element("span", {}, `position ${whole(one.position)}`), element("span", {}, moment(one.time_ms)),
    one.arrival_ns ? element("span", {}, `arrived ${instant(one.arrival_ns)}`) : null, element("span", {}, `term ${one.term}`), one.session ? element("span", {}, `session ${one.session}`) : null,
    one.length ? element("span", {}, `${whole(one.length)} bytes`) : null);
  const parts = [];
  if (one.decoded !== undefined) parts.push(element("pre", { class: "decoded" }, one.decoded));
  if (one.problem !== undefined) parts.push(element("p", { class: "problem" }, `the decoder failed: ${one.problem}`));
  if (one.decoded === undefined && one.text) parts.push(element("pre", {}, one.text));
  if (one.decoded === undefined && one.hex) parts.push(element("pre", {}, one.hex));
  if (!one.length && one.values) parts.push(element("pre", {}, Object.entries(one.values).map(([name, value]) => `${name} = ${value}`).join("\n")));
  return element("article", { class: "entry" }, head, ...parts);
}

// -- orders --------------------------------------------------------------------------------------------------------

function showOrders() {
  at("orders-text").textContent = seen.mayOrder ? "Each order is confirmed first; the members check that your token has the role operator."
    : "This cluster authenticates nobody, so its members take no orders from here (docs/SECURITY.md).";
  for (const button of document.querySelectorAll("[data-order]")) button.disabled = !seen.mayOrder || button.dataset.busy === "1";
  const others = seen.state.members.filter((one) => one.member >= 0 && one.member !== seen.state.leader).map((one) => String(one.member));
  const target = at("target");
  if (JSON.stringify(others) !== target.dataset.known) {
    target.dataset.known = JSON.stringify(others);
    target.replaceChildren(element("option", { value: "" }, "to whoever has most of the log"), ...others.map((one) => element("option", { value: one }, `to member ${one}`)));
  }
  at("order-log").replaceChildren(...(seen.given.length ? notes(seen.given) : [element("li", { class: "muted" }, "none yet")]));
}

function confirmed(title, text) {
  const dialog = at("confirm");
  at("confirm-title").textContent = at("confirm-ok").textContent = title;
  at("confirm-text").textContent = text;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok"), { once: true }));
}

async function give(order, title, text, more = {}) {
  if (!(await confirmed(title, text))) return;
  const note = { time_ms: Date.now(), level: "plain", text: `${title}: under way` };
  seen.given.unshift(note);
  show();
  try {
    const { done } = await ask("/api/orders", { order, confirmed: true, ...more });
    Object.assign(note, { level: "good", text: `${title}: ${done}` });
  } catch (error) {
    Object.assign(note, { level: "bad", text: `${title}: ${error.message}` });
  }
  if (more.consumer) {
    at("consumers-problem").textContent = note.level === "bad" ? note.text : "";
    showList();
  }
  show();
}

// -- the page's own events -----------------------------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-order]")) {
  button.onclick = () => {
    const order = button.dataset.order;
    const target = at("target").value;
    const more = order === "transfer" && target ? { member: Number(target) } : {};
    const text = button.parentElement.querySelector("p").textContent;
    const said = order === "transfer" ? `The leader hands over to ${target ? `member ${target}` : "the member that has most of the log"}. Clients go on with the new leader.` : text;
    give(order, button.textContent, said, more);
  };
}
at("login-form").onsubmit = async (event) => {
  event.preventDefault();
  try {
    await ask("/api/login", { token: at("token").value });
    at("token").value = "";
    enter();
  } catch (error) {
    at("login-problem").textContent = error.message;
  }
};
at("messages-form").onsubmit = (event) => { event.preventDefault(); readMessages(at("from").value.trim(), false); };
at("logout").onclick = async () => { await ask("/api/logout", {}); showLogin(""); };
addEventListener("hashchange", showView);
addEventListener("resize", show);
begin();
