// The frame of the page: views, keys, and the poll for snapshots.

import { el, say } from "./dom.js";
import { bytesRate, plural } from "./format.js";
import { ask, model, take } from "./model.js";
import * as captures from "./captures.js";
import * as connection from "./connection.js";
import * as fabric from "./fabric.js";
import * as faults from "./faults.js";
import * as lessons from "./lessons.js";
import * as map from "./map.js";
import * as objects from "./objects.js";

const views = [
  { id: "map", title: "Map", of: map },
  { id: "objects", title: "Objects", of: objects },
  { id: "connection", title: "Connection", of: connection },
  { id: "faults", title: "Faults", of: faults },
  { id: "fabric", title: "Fabric", of: fabric },
  { id: "captures", title: "Captures", of: captures },
  { id: "lessons", title: "Lessons", of: lessons },
];

const view = document.getElementById("view");
const alarm = document.getElementById("alarm");
const search = document.getElementById("search");
const totals = document.getElementById("totals");
let current = null;
let failed = "";

// route returns the view of the address and its arguments: #objects/4711/lo.
function route() {
  const [id, ...args] = location.hash.slice(1).split("/").map(decodeURIComponent);
  return { view: views.find((v) => v.id === id) ?? views[0], args };
}

// context is what a view can use of the page.
const context = {
  search: () => search.value,
  go(...parts) { location.hash = parts.map(encodeURIComponent).join("/"); },
  redirect(...parts) { location.replace("#" + parts.map(encodeURIComponent).join("/")); },
  fail(err) { failed = err ? err.message : ""; showAlarm(); },
};

function showAlarm() {
  const text = [failed, ...model.errors].filter(Boolean).join(" · ");
  say(alarm, text);
  alarm.hidden = text === "";
}

function open() {
  const { view: v, args } = route();
  current?.close?.();
  view.replaceChildren();
  document.title = v.title + " – softrdma console";
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.id === v.id) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  current = v.of.open(view, context, args);
  if (model.at) current.update();
}

// show shows a snapshot. Between its steps the browser can draw frames, as ten thousand queue pairs take time.
export async function show(snapshot) {
  take(snapshot);
  await new Promise((next) => setTimeout(next));
  failed = "";
  showTotals();
  current.update();
}

async function poll() {
  let wait = 1000;
  if (!document.hidden) {
    const began = performance.now();
    try {
      await show(await ask("snapshot"));
    } catch (err) {
      failed = err.message;
    }
    showAlarm();
    const took = performance.now() - began;
    wait = Math.max(1000 - took, Math.min(took * 3, 2000), 200); // the console may have waited for a program
  }
  setTimeout(poll, wait);
}

function showTotals() {
  let sent = 0, received = 0;
  for (const d of model.devices) {
    sent += d.rates?.sent_bytes ?? 0;
    received += d.rates?.received_bytes ?? 0;
  }
  say(totals, `${plural(model.devices.length, "device")} · ${plural(model.qps.length, "QP")} · ↑ ${bytesRate(sent)} ↓ ${bytesRate(received)}`);
}

document.getElementById("views").append(...views.map((v, i) =>
  el("a", { href: "#" + v.id, "data-id": v.id, "aria-keyshortcuts": i + 1 }, v.title, el("kbd", { "aria-hidden": "true" }, i + 1))));

const keys = [
  ["1 to " + views.length, views.map((v) => v.title).join(", ")],
  ["/", "search programs, devices, addresses, queue pairs, switches and ports"],
  ["Esc", "end the search, or leave a field"],
  ["Tab", "to the next link, button, node, cable or row"],
  ["Enter", "open or switch it"],
  ["↑ ↓", "rows of a table, packets of a ladder"],
  ["n p", "next and previous remark or search result of a ladder"],
  ["o", "in Captures: open files"],
  ["?", "this list"],
];
const help = el("dialog", { class: "keys", "aria-label": "Keys" }, el("h2", {}, "Keys"),
  el("dl", {}, keys.flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])),
  el("button", { onclick: () => help.close() }, "Close"));
document.body.append(help);
document.getElementById("help").addEventListener("click", () => help.showModal());

addEventListener("hashchange", open);
search.addEventListener("input", () => current.update());
addEventListener("keydown", (k) => {
  if (k.ctrlKey || k.metaKey || k.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (k.key === "Escape") {
    if (search.value !== "") { search.value = ""; current.update(); }
    document.activeElement?.blur();
    view.focus();
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) return;
  const i = Number(k.key) - 1;
  if (k.key === "?") {
    help.showModal();
  } else if (k.key === "/") {
    k.preventDefault();
    search.focus();
    search.select();
  } else if (views[i]) {
    location.hash = views[i].id;
  }
});

open();
poll();
