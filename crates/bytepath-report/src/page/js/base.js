// What everything else uses: the data, making elements, figures as text, the tooltip, the theme.

const data = JSON.parse(document.getElementById("data").textContent);
const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;

// An element with attributes and children. Text only ever becomes text.
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// So many of a thing whose plural ends in s.
function counted(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

// A figure with about three digits, as the tables of the record have it.
function figure(value) {
  if (value == null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.0009995 || size >= 999.5e12) return value.toExponential(2).replace("e+", "e");
  if (size >= 9999.5) {
    let scaled = value, step = 0;
    while (Math.abs(scaled) >= 999.5 && step < 4) { scaled /= 1000; step += 1; }
    return fixed(scaled, decimals(Math.abs(scaled))) + ["", "k", "M", "G", "T"][step];
  }
  return fixed(value, decimals(size));
}

// With so many decimals; a tie goes to the even digit, as in the record's tables.
function fixed(value, digits) {
  const exact = value.toFixed(digits + 40);
  const down = exact.slice(0, -40).replace(/\.$/, "");
  const tie = exact.endsWith(`5${"0".repeat(39)}`);
  return tie && Number(down.at(-1)) % 2 === 0 ? down : value.toFixed(digits);
}

function decimals(size) {
  return size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : size >= 0.09995 ? 3 : size >= 0.009995 ? 4 : 5;
}

function interval(ends) {
  return ends ? `[${figure(ends[0])}, ${figure(ends[1])}]` : "";
}

// A ratio, and its interval: near 1 this holds all of it, only an end that is 1 reads as 1, and the ratio
// lies within, as in the record's tables.
function ratioWithin(value, ends) {
  const usual = figure(value);
  const outside = ends && (Number(usual) < ends[0] || Number(usual) > ends[1]);
  return `${outside ? nearOne(value, 0) : usual}x`;
}

function ratioInterval(ends) {
  return ends ? `[${nearOne(ends[0], -1)}, ${nearOne(ends[1], 1)}]` : "";
}

// Rounded down where the side is -1, up where it is 1, else to the nearest.
function nearOne(value, side) {
  if (value === 1 || !(Math.abs(value - 1) < 0.1)) return figure(value);
  const rounded = (digits) => {
    const nearest = fixed(value, digits);
    const lacks = side * (value - Number(nearest)) > 1e-12;
    return lacks ? fixed(Number(nearest) + side * 0.1 ** digits, digits) : nearest;
  };
  let digits = 3;
  while (digits < 16 && Number(rounded(digits)) === 1) digits += 1;
  return rounded(digits);
}

const percent = (share) => `${figure(share * 100)}%`;

// Says something to those who listen to the page.
function say(text) {
  document.getElementById("said").textContent = text;
}

const tip = document.getElementById("tip");

// Shows the tip again where it belongs, while it is that of what has the focus.
let follow = null;

function showTip(text, event) {
  follow = null;
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
  const below = event.clientY + 18;
  const y = below + box.height > innerHeight ? event.clientY - box.height - 10 : below;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

// The tip of what has the focus: it stays there when the page is scrolled, as focusing does.
function showTipAt(node, text, right, down) {
  const box = node.getBoundingClientRect();
  showTip(text, { clientX: box.left + right, clientY: box.bottom + down });
  tip.hidden = box.bottom < 0 || box.top > innerHeight;
  follow = () => showTipAt(node, text, right, down);
}

function hideTip() {
  follow = null;
  tip.hidden = true;
}

addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", () => { if (follow) follow(); else hideTip(); }, { passive: true });

// Remembers how somebody likes the page; where a browser keeps nothing for files, nothing is kept.
function remembered(key, value) {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch { /* no storage here */ }
  return null;
}

function themeButton() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const saved = remembered("bytepath-theme");
  if (saved === "dark" || saved === "light") root.dataset.theme = saved;
  const word = () => (dark() ? "Light" : "Dark");
  const button = make("button", { type: "button", onclick: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remembered("bytepath-theme", root.dataset.theme);
    button.textContent = word();
  } }, word());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { button.textContent = word(); });
  return button;
}

// Colours for kinds of things, of which none is grey (after Paul Tol's schemes).
const kinds = d3.range(15).map((at) => `var(--line-${at < 7 ? at : at + 1})`);

// Lines are told apart by dashes too. As there are 8 colours, 40 lines differ.
const DASHES = ["none", "7,3", "2,3", "9,3,2,3", "14,4"];
const lineOf = (at) => ({ colour: `var(--line-${at % 8})`, dash: DASHES[at % DASHES.length] });

const verdictColour = (arm) =>
  arm.verdict === "faster" ? "var(--faster)" : arm.verdict === "slower" ? "var(--slower)" : "var(--other)";

