// A ladder: a line for each end of a connection, and an arrow for each packet between them. The server says what
// is on it. Only lines in view have elements.

import { el, say } from "./dom.js";
import { qpn } from "./format.js";
import { explain } from "./explain.js";

const high = 22; // of a line
const beyond = 8; // lines above and below the view

const name = (end) => `${end.address}  ${end.qpn === undefined ? "QP unknown" : "QP " + qpn(end.qpn)}`;

// ladder makes a ladder. chosen is called when the reader chooses a packet.
export function ladder({ chosen = () => {} } = {}) {
  const left = el("span"), kind = el("span", { class: "faint" }), right = el("span");
  const room = el("div", { class: "room", role: "presentation" });
  const body = el("div", {
    class: "rungs", role: "listbox", tabindex: "0", "aria-label": "Packets", "aria-keyshortcuts": "ArrowUp ArrowDown Home End n p Enter",
  }, room);
  const nothing = el("p", { class: "faint nothing" });
  const root = el("div", { class: "ladder" }, el("div", { class: "ends" }, left, kind, right), body, nothing);
  const pool = [];
  let lines = [], rungs = [], first = [], at = -1, words = "", asked = 0;

  function line() {
    const number = el("span", { class: "number" }), time = el("span", { class: "time" }), label = el("span", { class: "what" });
    const lane = el("span", { class: "lane" }, label);
    const e = el("div", { class: "rung" }, number, time, lane);
    const x = { e, number, time, lane, label, of: null };
    e.addEventListener("click", () => { if (x.of) { select(x.of.i); body.focus(); } });
    e.addEventListener("dblclick", open);
    room.append(e);
    return x;
  }

  function paint() {
    const from = Math.max(Math.floor(body.scrollTop / high) - beyond, 0);
    const n = Math.min(Math.ceil(body.clientHeight / high) + 2 * beyond, lines.length - from);
    while (pool.length < n) pool.push(line());
    pool.forEach((x, k) => {
      x.e.hidden = k >= n;
      x.of = x.e.hidden ? null : lines[from + k];
      if (x.of) fill(x, from + k);
    });
  }

  function fill(x, k) {
    const { i, note } = x.of, r = rungs[i];
    x.e.style.transform = `translateY(${k * high}px)`;
    const found = words !== "" && finds(r);
    x.e.className = "rung" + (note !== undefined ? " note" : r.there ? " there" : " back") + (r.at_fault ? " fault" : "") +
      (note !== undefined && r.level !== "note" ? " " + r.level : "") + (i === at ? " chosen" : "") + (found ? " found" : "") +
      (r.received && r.sent ? "" : r.received ? " unsent" : " lost");
    x.e.id = note === undefined ? "rung-" + i : "";
    x.e.setAttribute("role", note === undefined ? "option" : "presentation");
    x.e.setAttribute("aria-selected", String(i === at));
    say(x.number, note === undefined ? (r.at_fault ? "★ " : "") + r.numbers.map((v) => v || "–").join("/") : "");
    say(x.time, note === undefined ? r.seconds.toFixed(6) : "");
    say(x.label, note ?? r.label);
    x.e.title = note ?? [r.label, ...r.notes].join("\n");
  }

  const finds = (r) => [r.label, ...r.notes].some((t) => t.toLowerCase().includes(words));

  function show(k) {
    const view = body.clientHeight;
    if (k * high < body.scrollTop + high) body.scrollTop = Math.max(0, (k - 2) * high);
    if ((k + 3) * high > body.scrollTop + view) body.scrollTop = (k + 4) * high - view;
    paint();
  }

  function select(i) {
    if (i < 0 || i >= rungs.length) return;
    at = i;
    show(first[i]);
    body.setAttribute("aria-activedescendant", "rung-" + i);
    chosen(rungs[i]);
  }

  // jump goes to the next packet with a remark, or that the search finds.
  function jump(by) {
    const is = words !== "" ? finds : (r) => r.at_fault || r.remark;
    for (let i = at + by; i >= 0 && i < rungs.length; i += by) if (is(rungs[i])) { select(i); return; }
  }

  // words of a packet that explain knows: its own reason, or that of the NAK that refuses it.
  function reason(i) {
    const named = (r) => r.notes.find((t) => /[A-Z]{2,}_[A-Z]/.test(t));
    const r = rungs[i];
    return named(r) ?? (r.at_fault && rungs.slice(i + 1).map(named).find(Boolean)) ?? r.label;
  }

  function open() {
    if (rungs[at]) explain(reason(at) || rungs[at].label);
  }

  body.addEventListener("keydown", (k) => {
    if (k.ctrlKey || k.metaKey || k.altKey) return;
    const page = Math.max(Math.floor(body.clientHeight / high) - 2, 1);
    const go = {
      ArrowDown: () => select(at + 1), ArrowUp: () => select(Math.max(at - 1, 0)), PageDown: () => select(Math.min(at + page, rungs.length - 1)),
      PageUp: () => select(Math.max(at - page, 0)), Home: () => select(0), End: () => select(rungs.length - 1),
      n: () => jump(1), p: () => jump(-1), Enter: open,
    }[k.key];
    if (!go) return;
    k.preventDefault();
    k.stopPropagation();
    go();
  });
  body.addEventListener("scroll", () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(paint);
  });
  const sizes = new ResizeObserver(paint);
  sizes.observe(body);

  return {
    root, explain: open,
    jump(by) { jump(by); body.focus(); },
    // set shows a connection; null with a text instead. A ladder that was at its end stays there.
    set(c, text = "") {
      const end = body.scrollTop + body.clientHeight >= room.clientHeight - high;
      const before = rungs[at];
      say(left, c ? name(c.left) : "");
      say(kind, c ? c.transport : "");
      say(right, c ? name(c.right) : "");
      say(nothing, c ? "" : text);
      nothing.hidden = Boolean(c);
      body.hidden = !c;
      rungs = c ? c.rungs : [];
      lines = [];
      first = [];
      rungs.forEach((r, i) => {
        first.push(lines.length);
        lines.push({ i });
        for (const note of r.notes) lines.push({ i, note });
      });
      at = before ? rungs.findIndex((r) => r.label === before.label && r.there === before.there && r.notes.join() === before.notes.join()) : -1;
      room.style.height = lines.length * high + "px";
      if (end && before === undefined) body.scrollTop = room.clientHeight;
      paint();
    },
    // fault chooses the packet at fault, or the first that is lost, or has a remark.
    fault() {
      const k = [(r) => r.at_fault, (r) => !r.received, (r) => r.remark].map((is) => rungs.findIndex(is)).find((i) => i >= 0) ?? -1;
      if (k >= 0) select(k); else { body.scrollTop = 0; paint(); }
    },
    // search marks packets, and returns how many there are.
    search(text) {
      text = text.trim().toLowerCase();
      if (text !== words) { words = text; paint(); }
      return words === "" ? 0 : rungs.filter(finds).length;
    },
    get chosen() { return rungs[at] ?? null; },
    focus: () => body.focus(),
    close: () => sizes.disconnect(),
  };
}
