// The ports of a fabric as a table.

import { sent } from "./fold.js";
import { bytesRate, count, time } from "./format.js";
import { matches } from "./model.js";
import { table } from "./table.js";

const number = (title, name, format = count) => ({ title, width: "84px", right: true, cell: (r) => format(r.end[name]), value: (r) => r.end[name] });

// portTable makes the table. enter is called with the name of the cable of the port that was chosen.
export function portTable(page, enter) {
  const t = table([
    { title: "Port", width: "minmax(110px, 1fr)", cell: (r) => r.end.name },
    { title: "Leads to", width: "minmax(110px, 1fr)", cell: (r) => r.other.name },
    { title: "State", width: "70px", cell: (r) => r.link.state, mark: (r) => (r.link.state === "active" ? "good" : "bad") },
    { title: "Sent", width: "92px", right: true, cell: (r) => bytesRate(r.sent), value: (r) => r.sent },
    { title: "Load", width: "62px", right: true, cell: (r) => `${(100 * r.end.load).toFixed(0)} %`, value: (r) => r.end.load },
    number("Waited", "wait", time), number("Errors", "errors"), number("Discards", "discards"), number("Downed", "downed"),
  ], { label: "Ports", key: (r) => r.end.name, sort: "Sent", reverse: true, enter: (r) => enter(r.link.ends[0].name) });
  return {
    root: t.root, close: t.close,
    set(f) {
      const rows = f.links.flatMap((l) => l.ends.map((end, i) => ({ link: l, end, other: l.ends[1 - i], sent: sent(l, i) })))
        .filter((r) => r.end.port > 0 && matches(page.search(), r.end.name, r.other.name, r.link.state));
      t.set(rows);
    },
  };
}
