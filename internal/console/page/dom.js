// Elements, made without markup: what programs and peers say is text only.

const svgSpace = "http://www.w3.org/2000/svg";

// fill sets attributes and adds children. Functions named on… are listeners, null children are left out.
function fill(e, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(name, String(value));
  }
  for (const c of children.flat(2)) if (c !== null && c !== undefined) e.append(c);
  return e;
}

// el makes an element of HTML, svg one of SVG.
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => fill(document.createElementNS(svgSpace, name), attributes, children);

// say sets the text of an element, unless it has it.
export function say(e, text) {
  text = String(text);
  if (e.textContent !== text) e.textContent = text;
}

// act makes an element that is not a button act as one.
export function act(e, label, f) {
  e.setAttribute("tabindex", "0");
  e.setAttribute("role", "button");
  e.setAttribute("aria-label", label);
  e.addEventListener("click", f);
  e.addEventListener("keydown", (k) => {
    if (k.key === "Enter" || k.key === " ") { k.preventDefault(); f(k); }
  });
  return e;
}

// empty says that there is nothing to show, and which commands change that.
export function empty(title, text, ...commands) {
  return el("section", { class: "empty" }, el("h2", {}, title), el("p", { class: "faint" }, text),
    commands.map((c) => el("pre", {}, c)));
}

// titled makes a panel with a title, other things beside that, and content to scroll.
export const titled = (kind, title, content, ...beside) => el("section", { class: "panel titled " + kind },
  el("div", { class: "bar" }, el("h2", {}, title), beside),
  el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, content));

// list replaces the lines of a list, unless it has them.
export function list(e, texts) {
  if ([...e.children].map((c) => c.textContent).join("\n") === texts.join("\n")) return;
  e.replaceChildren(...texts.map((t) => el("li", {}, t)));
}

// copy puts a text on the clipboard and says so on the button.
export async function copy(button, text) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "No access to the clipboard";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

// start is what makes devices with traffic, in two terminals.
export const start = ["softrdma perf write bw --keep -d 127.0.0.1", "softrdma perf write bw -d 127.0.0.2 -D 60 127.0.0.1"];
