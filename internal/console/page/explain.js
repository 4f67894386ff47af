// What softrdma explain says, in a dialog over the page.

import { el } from "./dom.js";
import { ask } from "./model.js";

const title = el("h2", { id: "explained" }), body = el("div", { class: "scroll explained", tabindex: "0" });
const dialog = el("dialog", { "aria-labelledby": "explained" }, el("div", { class: "bar" }, title,
  el("button", { class: "push", onclick: () => dialog.close() }, "Close")), body);
document.body.append(dialog);
dialog.addEventListener("click", (c) => { if (c.target === dialog) dialog.close(); }); // beside it

// explain explains a name, or a line that has names.
export async function explain(words) {
  title.textContent = words;
  title.title = words;
  body.replaceChildren(el("p", { class: "faint" }, "…"));
  if (!dialog.open) dialog.showModal();
  body.scrollTop = 0;
  try {
    body.replaceChildren(...(await ask("explain?q=" + encodeURIComponent(words))).map(entry));
  } catch (err) {
    body.replaceChildren(el("p", {}, err.message));
  }
}

function entry(e) {
  const rows = [["Meaning", e.meaning], ["Cause", e.cause], ["Look at", e.look], ["Remedy", e.remedy], ["Clause", e.clause]].filter(([, t]) => t);
  return el("section", {}, el("h2", { class: "mono" }, e.name, " ", el("span", { class: "faint" }, e.label)),
    el("dl", {}, rows.map(([n, t]) => [el("dt", {}, n), el("dd", {}, t)]),
      e.see.length > 0 ? [el("dt", {}, "See also"), el("dd", {}, e.see.map((n) => el("button", { class: "small", onclick: () => explain(n) }, n)))] : []));
}

// why is a button that explains a name.
export const why = (name) => el("button", { class: "small", onclick: () => explain(name) }, name);
