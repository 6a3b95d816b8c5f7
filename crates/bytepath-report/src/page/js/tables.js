// Tables that can be sorted, arms that can be hidden, and the table of single samples.

// The figure with which a cell begins; words have none. Ratios end in x, after the letter of thousands too.
function figureIn(text) {
  const found = /^[[≤]?\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([kMGT](?=x?(?![a-zA-Z]))|[KMGTPE]iB|ns|µs|ms)?/.exec(text);
  if (!found) return null;
  const times = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, EiB: 2 ** 60, ns: 1e-9, µs: 1e-6, ms: 1e-3 };
  return Number(found[1]) * (times[found[2]] ?? 1);
}

function compared(a, b) {
  const [left, right] = [figureIn(a), figureIn(b)];
  if (left !== null && right !== null) return left - right;
  // Whatever has no figure comes after those that have one.
  if (left !== null || right !== null) return left !== null ? -1 : 1;
  return a.localeCompare(b);
}

function sortable(table, sorted) {
  const heads = [...table.tHead.rows[0].cells].filter((cell) => !cell.classList.contains("pick"));
  const body = table.tBodies[0];
  for (const head of heads) {
    const button = make("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = head.classList.contains("figure") ? "descending" : "ascending";
      const way = before === null ? first : before === "ascending" ? "descending" : "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", way);
      const sign = way === "ascending" ? 1 : -1;
      const at = head.cellIndex;
      const key = (row) => row.cells[at].textContent;
      const blank = (row) => key(row) === "–" || key(row) === "n/a";
      const rows = [...body.rows].sort((a, b) => blank(a) - blank(b) || sign * compared(key(a), key(b)));
      body.append(...rows);
      sorted?.(rows.map((row) => Number(row.dataset.arm)));
      say(`sorted by ${button.textContent}, ${way}`);
    });
  }
}

// A box before each arm that takes it out of the charts.
function choosable(table, view) {
  const all = make("input", { type: "checkbox", checked: true, "aria-label": "show all arms in the charts" });
  table.tHead.rows[0].prepend(make("th", { class: "pick", scope: "col" }, all));
  const boxes = [];
  for (const row of table.tBodies[0].rows) {
    const index = Number(row.dataset.arm);
    const box = make("input", { type: "checkbox", checked: true, "aria-label": `show ${view.run.arms[index].name} in the charts` });
    box.addEventListener("change", () => { choose(index, row, box.checked); all.checked = !view.hidden.size; view.changed(); });
    row.prepend(make("td", { class: "pick" }, box));
    boxes.push([index, row, box]);
  }
  const choose = (index, row, on) => {
    if (on) view.hidden.delete(index); else view.hidden.add(index);
    row.classList.toggle("hidden-arm", !on);
  };
  all.addEventListener("change", () => {
    for (const [index, row, box] of boxes) { box.checked = all.checked; choose(index, row, all.checked); }
    view.changed();
  });
}

// So many rows of single samples at once; a page of more is slow.
const SAMPLE_ROWS = 2000;

function sampleTools(bar, view, place) {
  const arms = view.run.arms.map((arm, index) => ({ arm, index })).filter(({ arm }) => arm.samples.length);
  const choice = make("select", { onchange: () => fillSamples(place, view, choice.value) },
    make("option", { value: "" }, "no table"), make("option", { value: "all" }, "all arms"),
    ...arms.map(({ arm, index }) => make("option", { value: index }, arm.name)));
  bar.append(make("label", {}, "Table of ", choice));
}

function fillSamples(place, view, choice) {
  place.replaceChildren();
  if (choice === "") return;
  const arms = choice === "all" ? view.run.arms : [view.run.arms[Number(choice)]];
  const rows = arms.flatMap((arm) => arm.samples.map((sample) => [arm, sample]));
  const missing = d3.sum(arms, (arm) => arm.taken - arm.samples.length) + Math.max(0, rows.length - SAMPLE_ROWS);
  const heads = ["arm", "block", "place in it", "value", "unit", "seconds", "disturbed"];
  const head = make("tr", {}, ...heads.map((text, at) => make("th", { scope: "col", class: [1, 2, 3, 5].includes(at) ? "figure" : null }, text)));
  const cells = (arm, [block, order, value, seconds, flags, why]) =>
    [arm.name, block + 1, order + 1, value, arm.unit, seconds, (flags & 1 ? why ?? "yes" : "") + (flags & 2 ? "; measured again" : "")];
  const body = rows.slice(0, SAMPLE_ROWS).map(([arm, sample]) => make("tr", {}, ...cells(arm, sample).map((text, at) =>
    at === 0 ? make("th", { scope: "row" }, text) : make("td", { class: [1, 2, 3, 5].includes(at) ? "figure" : null }, String(text)))));
  const table = make("table", { class: "sortable" }, make("caption", {}, `Samples${choice === "all" ? "" : ` of ${arms[0].name}`}`), make("thead", {}, head), make("tbody", {}, ...body));
  place.append(table);
  if (missing) place.append(make("p", { class: "small" }, `Not on this page, for want of room: ${counted(missing, "more sample")} of the record.`));
  sortable(table);
}

