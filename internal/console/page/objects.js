// Objects as tables.

import { el, empty, say, start } from "./dom.js";
import { bytes, bytesRate, count, plural, qpn, rate, time, window } from "./format.js";
import { ask, findsDevice, matches, model, path } from "./model.js";
import { table } from "./table.js";

const hex = (n) => "0x" + n.toString(16);
const device = { title: "Device", width: "minmax(110px, 1.3fr)", cell: (r) => r.device.name };
const program = { title: "Program", width: "minmax(90px, 1fr)", cell: (r) => r.device.program };
const pid = { title: "PID", width: "80px", right: true, cell: (r) => r.pid || r.device.pid };
const number = (title, name, width = "90px") => ({ title, width, right: true, cell: (r) => r[name] ?? "–", value: (r) => r[name] ?? -1 });
const text = (title, name, width) => ({ title, width, cell: (r) => r[name] ?? "–" });

const kinds = [
  {
    id: "qps", title: "Queue pairs", columns: [
      { title: "QPN", width: "92px", cell: (q) => qpn(q.qpn) }, program, pid, device, text("Type", "type", "62px"),
      { title: "State", width: "62px", cell: (q) => q.state, mark: (q) => (q.state === "ERR" ? "bad" : q.state === "RTS" ? "good" : "") },
      text("Peer", "peer", "minmax(120px, 1.2fr)"),
      { title: "Sent", width: "92px", right: true, cell: (q) => bytesRate(q.rates?.sent_bytes), value: (q) => q.rates?.sent_bytes ?? -1 },
      {
        title: "Received", width: "92px", right: true, cell: (q) => bytesRate(q.rates?.received_bytes),
        value: (q) => q.rates?.received_bytes ?? -1,
      },
      { title: "Round trip", width: "92px", right: true, cell: (q) => time(q.measured?.round_trip_ns), value: (q) => q.measured?.round_trip_ns ?? -1 },
      { title: "Window", width: "88px", right: true, cell: (q) => window(q.measured), value: (q) => q.measured?.window ?? -1 },
      {
        title: "Retransmits", width: "100px", right: true, cell: (q) => (q.measured ? count(q.measured.retransmissions ?? 0) : "–"),
        value: (q) => q.measured?.retransmissions ?? -1,
      },
    ],
  },
  {
    id: "devices", title: "Devices", columns: [
      text("Device", "name", "minmax(110px, 1.3fr)"), text("Program", "program", "minmax(90px, 1fr)"), number("PID", "pid", "80px"),
      text("Protocol", "protocol", "100px"), text("Interface", "interface", "100px"),
      { title: "Port", width: "76px", cell: (d) => d.state, mark: (d) => (d.state === "active" ? "good" : "bad") }, number("MTU", "mtu", "76px"),
      { title: "QPs", width: "76px", right: true, cell: (d) => d.queue_pairs.length },
      { title: "Sent", width: "104px", right: true, cell: (d) => bytesRate(d.rates?.sent_bytes), value: (d) => d.rates?.sent_bytes ?? -1 },
      { title: "Received", width: "104px", right: true, cell: (d) => bytesRate(d.rates?.received_bytes), value: (d) => d.rates?.received_bytes ?? -1 },
      { title: "Retransmits", width: "110px", right: true, cell: (d) => rate(d.rates?.retransmissions), value: (d) => d.rates?.retransmissions ?? -1 },
      { title: "Reasons", width: "92px", right: true, cell: (d) => rate(d.rates?.reasons), value: (d) => d.rates?.reasons ?? -1 },
    ],
  },
  {
    id: "cqs", number: "cqn", title: "Completion queues", columns: [number("CQ", "cqn", "80px"), program, pid, device, number("Depth", "depth"),
      number("Not polled", "entries", "110px"), number("Users", "users"),
      { title: "State", width: "120px", cell: (c) => (c.overflowed ? "overflowed" : "good"), mark: (c) => (c.overflowed ? "bad" : "good") }],
  },
  {
    id: "mrs", number: "mrn", title: "Regions", columns: [number("MR", "mrn", "80px"), text("Kind", "kind", "64px"), program, pid, device,
      { title: "Key", width: "110px", cell: (m) => hex(m.key), value: (m) => m.key }, number("PD", "pdn", "64px"),
      { title: "Address", width: "150px", cell: (m) => hex(m.address), value: (m) => m.address },
      { title: "Length", width: "100px", right: true, cell: (m) => bytes(m.length), value: (m) => m.length },
      text("Access", "access", "minmax(140px, 1.2fr)")],
  },
  { id: "pds", number: "pdn", title: "Domains", columns: [number("PD", "pdn", "80px"), program, pid, device, number("Users", "users")] },
  {
    id: "srqs", number: "srqn", title: "Shared receive queues",
    columns: [number("SRQ", "srqn", "80px"), program, pid, device, number("PD", "pdn"), number("Posted", "posted"), number("Users", "users")],
  },
  {
    id: "cm_ids", number: "cm_idn", title: "Connection ids", columns: [number("ID", "cm_idn", "80px"), program, pid, device, text("State", "state", "150px"),
      text("Type", "type", "70px"), text("Ports", "port_space", "80px"), text("Source", "source", "minmax(130px, 1fr)"),
      text("Peer", "peer", "minmax(130px, 1fr)"),
      { title: "QPN", width: "92px", cell: (i) => (i.qpn ? qpn(i.qpn) : "–") }],
  },
];

const every = 2000; // ms between requests for the objects that are not in the snapshot

export function open(root, page, args) {
  const kind = kinds.find((k) => k.id === args[0]) ?? kinds[0];
  const only = args[1] ?? "";
  const number = el("span", { class: "faint push", role: "status" });
  const tabs = el("div", { class: "tabs", role: "group", "aria-label": "Kind of object" }, kinds.map((k) =>
    el("button", { "aria-pressed": String(k === kind), onclick: () => page.go("objects", k.id, ...(only ? [only] : [])) }, k.title)));
  const clear = el("button", { hidden: only === "", onclick: () => page.go("objects", kind.id) });
  const keyOf = (r) => (kind.number ? r.device.key + " " + r[kind.number] : r.key);
  const t = table(kind.columns, {
    label: kind.title, key: keyOf, sort: kind.number ? undefined : "Sent", reverse: !kind.number,
    enter: kind.id === "qps" ? (q) => page.go("connection", q.device.pid, q.device.name, q.qpn)
      : kind.id === "devices" ? (d) => page.go("objects", "qps", d.key) : null,
  });
  const none = el("section", { class: "panel split", hidden: true });
  root.append(el("div", { class: "bar" }, tabs, clear, number), t.root, none);
  let fetched = null, asked = -every, closed = false;

  async function look() {
    if (fetched) show(fetched);
    if (performance.now() - asked < every) return;
    asked = performance.now();
    const devices = model.devices.filter((d) => only === "" || d.key === only);
    const lists = await Promise.all(devices.map((d) => ask(path(d, "objects"))
      .then((l) => (l[kind.id] ?? []).map((o) => ({ ...o, device: d })), () => []))); // a device may have closed
    if (closed) return;
    fetched = lists.flat();
    show(fetched);
  }

  function show(all) {
    const search = page.search();
    const found = all.filter((r) => {
      const d = r.device ?? r;
      if (only !== "" && d.key !== only) return false;
      return findsDevice(search, d) || matches(search, ...kind.columns.map((c) => c.cell(r)));
    });
    say(number, found.length === all.length ? plural(all.length, "row") : `${found.length} of ${plural(all.length, "row")}`);
    const d = model.byDevice.get(only);
    say(clear, only === "" ? "" : `Only ${d ? `${d.program} ${d.pid}, ${d.name}` : only}  ✕`);
    t.root.hidden = found.length === 0;
    none.hidden = found.length > 0;
    if (found.length === 0) none.replaceChildren(nothing(kind, search !== "" || only !== ""));
    else t.set(found);
  }

  return {
    update() {
      if (kind.id === "qps") show(model.qps);
      else if (kind.id === "devices") show(model.devices);
      else look();
    },
    close() { closed = true; t.close(); },
  };
}

function nothing(kind, filtered) {
  const title = `No ${kind.title.toLowerCase()}`;
  if (filtered) return empty(title, "None of this device and search. Press Esc to clear the search.");
  if (model.devices.length > 0) return empty(title, "The programs that run have made none.");
  return empty(title, "No program has a device. Start one in two terminals, for example:", ...start);
}
