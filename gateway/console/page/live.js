// A topic, or the log, as it comes: the newest message first. The browser itself connects again from the last number.

import { at, element, instant, moment, whole } from "./parts.js";

const SHOWN_MAX = 200;
const seen = { stream: null, count: 0, name: "" };

export function stopWatching(text) {
  seen.stream?.close();
  seen.stream = null;
  at("live-button").textContent = "Watch";
  at("live-text").textContent = text;
}

function watch() {
  const topic = at("live-topic").value.trim(), from = at("live-from").value.trim() || "live";
  const address = `${topic ? `/api/topics/${encodeURIComponent(topic)}` : "/api/log"}?${new URLSearchParams({ from })}`;
  stopWatching("");
  at("live-list").replaceChildren();
  Object.assign(seen, { count: 0, name: topic || "the log" });
  at("live-button").textContent = "Stop";
  at("live-text").textContent = "connecting …";
  const stream = seen.stream = new EventSource(address);
  const on = (name, take) => stream.addEventListener(name, (event) => { if (seen.stream === stream) take(JSON.parse(event.data)); });
  on("begin", () => tell(""));
  on("message", (one) => { add(one); tell(""); });
  on("slow", (one) => tell(`; this page was slow: it took nothing for ${(one.waited_ms / 1000).toFixed(1)} s`));
  on("end", (one) => (one.can_resume ? tell(`; ended (${one.text}), and connects again`) : stopWatching(one.text)));
  stream.addEventListener("error", (event) => {
    if (seen.stream !== stream || event.data !== undefined) return;
    if (stream.readyState === EventSource.CLOSED) whyNot(address);
    else tell("; connection lost, and connects again");
  });
}

function tell(more) {
  at("live-text").textContent = `watching ${seen.name}: ${whole(seen.count)} ${seen.count === 1 ? "message" : "messages"}${more}`;
}

// The browser does not say why a stream was refused.
async function whyNot(address) {
  stopWatching("refused");
  const giveUp = new AbortController();
  const response = await fetch(address, { signal: giveUp.signal });
  if (!response.ok) stopWatching((await response.json()).error);
  giveUp.abort();
}

function add(one) {
  seen.count += 1;
  const head = element("header", {}, element("b", {}, `${one.sequence}`), element("span", {}, moment(one.time_ms)),
    element("span", {}, `position ${whole(one.position)}`), one.kind ? element("span", {}, one.kind) : null,
    one.arrival_ns ? element("span", {}, `arrived ${instant(one.arrival_ns)}`) : null,
    one.encoding === "base64" ? element("span", {}, "Base64") : null);
  at("live-list").prepend(element("article", { class: "entry" }, head, element("pre", {}, one.payload)));
  while (at("live-list").children.length > SHOWN_MAX) at("live-list").lastChild.remove();
}

at("live-form").onsubmit = (event) => {
  event.preventDefault();
  if (seen.stream) stopWatching(`stopped after ${whole(seen.count)} messages`);
  else watch();
};
