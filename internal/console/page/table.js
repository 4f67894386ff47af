// A table of any number of rows, of which only those in view have elements.

import { el, say } from "./dom.js";

const high = 28; // of a row
const headHigh = 33;
const beyond = 6; // rows above and below the view

// table makes a table. A column has title, width, cell(row) and, where it sorts by something else,
// value(row); right says that it has numbers. enter is called for the row that was chosen.
export function table(columns, { label, enter, key, sort, reverse }) {
  let all = [], rows = [], order = { column: sort ?? columns[0].title, reverse: reverse ?? false };
  const pool = [];
  const heads = columns.map((c) => el("button", {
    class: c.right ? "right" : "", role: "columnheader", onclick: () => {
      order = { column: c.title, reverse: order.column === c.title ? !order.reverse : Boolean(c.right) };
      show();
    },
  }, c.title));
  const inner = el("div", { class: "room", role: "presentation" });
  const body = el("div", { class: "rows", role: "rowgroup", tabindex: "-1" }, el("div", { class: "head", role: "row" }, heads), inner);
  const root = el("div", { class: "panel table", role: "table", "aria-label": label }, body);
  root.style.setProperty("--columns", columns.map((c) => c.width).join(" "));

  function row() {
    const cells = columns.map((c) => el("span", { role: "cell", class: c.right ? "right" : "" }));
    const e = el("div", { class: "row", role: "row" }, cells);
    const x = { e, cells, of: null };
    if (enter) {
      e.setAttribute("tabindex", "0");
      e.addEventListener("click", () => enter(x.of));
      e.addEventListener("keydown", (k) => {
        const i = rows.indexOf(x.of);
        if (k.key === "Enter") enter(x.of);
        else if (k.key === "ArrowDown") focus(i + 1, k);
        else if (k.key === "ArrowUp") focus(i - 1, k);
      });
    }
    inner.append(e);
    return x;
  }

  function focus(i, k) {
    k.preventDefault();
    if (i < 0 || i >= rows.length) return;
    if (i * high < body.scrollTop) body.scrollTop = i * high;
    const room = body.clientHeight - headHigh;
    if ((i + 1) * high > body.scrollTop + room) body.scrollTop = (i + 1) * high - room;
    paint();
    pool.find((x) => x.of === rows[i])?.e.focus();
  }

  // paint gives each row in view an element. A row keeps its element while it is in view.
  function paint() {
    const first = Math.max(Math.floor(body.scrollTop / high) - beyond, 0);
    const n = Math.min(Math.ceil(body.clientHeight / high) + 2 * beyond, rows.length - first);
    while (pool.length < n) pool.push(row());
    pool.forEach((x, slot) => {
      // The slot of row i is i modulo the number of elements.
      const i = first + ((slot - first) % pool.length + pool.length) % pool.length;
      x.e.hidden = i >= first + n;
      if (x.e.hidden) { x.of = null; return; }
      x.of = rows[i];
      x.e.style.transform = `translateY(${i * high}px)`;
      x.e.setAttribute("aria-rowindex", i + 2);
      columns.forEach((c, k) => {
        const text = String(c.cell(x.of));
        if (x.cells[k].textContent !== text) { x.cells[k].textContent = text; x.cells[k].title = text; }
        if (c.mark) x.cells[k].className = (c.right ? "right " : "") + c.mark(x.of);
      });
    });
  }

  function show() {
    const c = columns.find((x) => x.title === order.column);
    const value = c.value ?? c.cell;
    rows = all.map((r) => [value(r), r]).sort(([a, x], [b, y]) => {
      const by = a < b ? -1 : a > b ? 1 : key(x) < key(y) ? -1 : 1;
      return order.reverse && a !== b ? -by : by;
    }).map(([, r]) => r);
    heads.forEach((h, i) => {
      const on = columns[i].title === order.column;
      h.setAttribute("aria-sort", on ? (order.reverse ? "descending" : "ascending") : "none");
      say(h, columns[i].title + (on ? (order.reverse ? " ↓" : " ↑") : ""));
    });
    root.setAttribute("aria-rowcount", rows.length + 1);
    inner.style.height = rows.length * high + "px";
    paint();
  }

  let asked = 0;
  body.addEventListener("scroll", () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(paint);
  });
  const sizes = new ResizeObserver(paint);
  sizes.observe(body);
  return { root, set(list) { all = list; show(); }, close: () => sizes.disconnect() };
}
