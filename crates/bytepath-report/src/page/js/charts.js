// The chart of the arms, that of their samples, and that of their latencies.

// From so many times on between the smallest and the largest figure, an axis is logarithmic.
const LOG_FROM = 20;

// What somebody chose to see of a run.
class View {
  constructor(run) {
    this.run = run;
    this.hidden = new Set();
    this.filter = "";
    this.order = run.arms.map((_, index) => index);
    this.ratios = false;
    this.scale = "auto";
    // By the names of axes.
    this.zoom = new Map();
    this.watchers = [];
  }
  // Arms to be shown, in order.
  shown() {
    const wanted = this.filter.toLowerCase();
    return this.order
      .filter((index) => !this.hidden.has(index))
      .map((index) => ({ index, arm: this.run.arms[index] }))
      .filter(({ arm }) => !wanted || arm.name.toLowerCase().includes(wanted));
  }
  changed() {
    for (const watcher of this.watchers) watcher();
  }
}

// An axis for these figures: its type and ends.
function axisOf(figures, wish) {
  const positive = figures.filter((value) => Number.isFinite(value) && value > 0);
  const [low, high] = d3.extent(positive);
  if (low === undefined) return { type: "linear", domain: [0, 1] };
  const type = wish === "auto" ? (high / low >= LOG_FROM ? "log" : "linear") : wish;
  if (type === "log") return { type, domain: low === high ? [low / 2, high * 2] : [low / 1.08, high * 1.08] };
  return { type, domain: [0, high * 1.04] };
}

// What is as wide as a large window has letters too small to read once it is as wide as paper.
const PAPER_WIDTH = 680;
let onPaper = false;

const widthOf = (box) => (onPaper ? PAPER_WIDTH : Math.max(280, Math.floor(box.getBoundingClientRect().width) || 900));

// How wide a text is in a chart, by the page's own letters.
const pen = document.createElement("canvas").getContext("2d");
function lengthOf(text) {
  pen.font = `${styled.fontSize} ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// What is left free beside a name.
const GAP = 12;

// Room for the names beside a chart of this width.
function marginFor(names, width) {
  return Math.min((d3.max(names, lengthOf) ?? 0) + GAP + 1, Math.max(90, width * 0.34));
}

// Names of arms differ at their ends as often as at their beginnings: what does not fit is left out
// in the middle.
function fitted(name, room) {
  const letters = [...name];
  const of = (most) => {
    const end = Math.floor((most - 1) * 0.45);
    return most >= letters.length ? name : `${letters.slice(0, most - 1 - end).join("")}…${letters.slice(letters.length - end).join("")}`;
  };
  const fit = d3.bisector((most) => lengthOf(of(most))).right(d3.range(1, letters.length + 1), room);
  return of(Math.max(2, fit));
}

// Below this width names stand above their rows, as beside them they would all be cut alike.
const NARROW = 560;

// Where the names of rows stand: how much room they take beside the chart and above each row, the
// axis of the rows, and what draws names above them.
function lanesOf(width, names) {
  const narrow = width < NARROW;
  const margin = narrow ? 10 : marginFor(names, width);
  const tick = (name) => (narrow ? "" : fitted(name, margin - GAP));
  return {
    margin,
    above: narrow ? 16 : 0,
    // The type is said, as two rows that are numbers would be taken for the ends of an axis of numbers.
    axis: (rows, name) => ({ type: "band", domain: rows, tickFormat: (row) => tick(name(row)), label: null, tickSize: 0 }),
    marks: (rows, y, name) => (narrow ? [Plot.text(rows, { frameAnchor: "left", textAnchor: "start", y, text: (row) => fitted(name(row), width - margin - 24), dy: -14, fill: "var(--soft)", stroke: "var(--back)" })] : []),
  };
}

// Labels of these places below a chart. They are marks of their own, as a logarithmic scale leaves out some of those
// that it makes itself.
function labelsX(ticks, texts, label) {
  return Plot.axisX(ticks, { text: (_, at) => texts[at], label, labelAnchor: "right" });
}

// Places as figures, or, where two of them would read alike, with the decimals of the step between them.
function textsOf(ticks) {
  const usual = ticks.map(figure);
  if (new Set(usual).size === usual.length) return usual;
  const step = Number((ticks[1] - ticks[0]).toPrecision(3));
  return ticks.map((tick) => tick.toFixed(Math.min(100, d3.precisionFixed(step))));
}

const logarithmic = (axis) => (axis.type === "log" ? ", logarithmic" : "");

// The places that are labelled: on a logarithmic axis 1, 2 and 5 of each decade, or 1 alone, or 1 of
// every few decades, as there is room.
function ticksOf(axis, length, room = 75) {
  const most = Math.max(2, Math.floor(length / room));
  if (axis.type !== "log") {
    // More may come than were asked for, and some are longer than others.
    const fit = (values) => values.length < 3 || (d3.max(textsOf(values), lengthOf) + 10) * (axis.domain[1] - axis.domain[0]) <= length * (values[1] - values[0]);
    const counts = d3.range(Math.min(most, 10), 0, -1);
    return counts.map((count) => d3.ticks(...axis.domain, count)).find(fit);
  }
  const [low, high] = axis.domain;
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const within = (value) => value >= low && value <= high;
  const decades = d3.range(first, last + 1);
  const steps = [[1, 2, 5], [1, 3], [1]].map((digits) => decades.flatMap((power) => digits.map((digit) => digit * 10 ** power)).filter(within));
  const powers = steps[2];
  const sparse = powers.filter((_, at) => at % Math.ceil(powers.length / most) === 0);
  return steps.find((values) => values.length >= 2 && values.length <= most) ?? (sparse.length >= 2 ? sparse : d3.ticks(low, high, Math.min(most, 4)));
}

const styled = { fontSize: "12px", background: "transparent", "--plot-background": "var(--panel)" };

function groupsOf(entries) {
  return d3.groups(entries, ({ arm }) => `${arm.section ?? ""}\u0000${arm.unit}`).map(([, group]) => group);
}

// How an arm stands, in words: for the tooltip and for those who listen.
function told(arm) {
  const lines = [arm.name];
  if (arm.median == null) return `${arm.name}\ncould not run`;
  lines.push(`${figure(arm.median)} ${arm.unit} ${interval(arm.ci95)}`);
  if (arm.reference) lines.push("the reference");
  else if (arm.ratio != null) lines.push(`${ratioWithin(arm.ratio, arm.ratio_ci95)} the reference ${ratioInterval(arm.ratio_ci95)}${arm.verdict ? `, ${arm.verdict}` : ""}`);
  if (arm.published != null) lines.push(`published: ${figure(arm.published)} ${arm.unit}, on another machine`);
  if (!arm.touched) lines.push("bytes moved, but never looked at");
  lines.push(`${counted(arm.taken, "sample")}${arm.flagged ? `, ${arm.flagged} of them disturbed` : ""}; exactly ${arm.median}`);
  return lines.join("\n");
}

// The arms that are drawn.
function drawnArms(view) {
  return view.shown().filter(({ arm }) => arm.ok && (view.ratios ? arm.ratio : arm.median) != null);
}

// Their whole axis. Sections of one unit share it, so that they can be compared by eye.
function axisOfArms(view, unit) {
  const alike = drawnArms(view).filter(({ arm }) => view.ratios || arm.unit === unit);
  return axisOf(alike.flatMap(({ arm }) => (view.ratios ? [arm.ratio, ...(arm.ratio_ci95 ?? [])] : [arm.median, arm.published, ...(arm.ci95 ?? [])])), view.scale);
}

function drawArms(box, view) {
  const entries = drawnArms(view);
  box.replaceChildren();
  if (!entries.length) {
    box.append(make("p", { class: "small" }, "No arm to show: none is chosen, or none gave a figure."));
    return;
  }
  const ends = ({ arm }) => (view.ratios ? arm.ratio_ci95 : arm.ci95) ?? [];
  const value = ({ arm }) => (view.ratios ? arm.ratio : arm.median);
  const published = ({ arm }) => (view.ratios ? null : arm.published);
  const width = widthOf(box);
  const groups = groupsOf(entries);
  // All panels have the same margin, so that what is above another is as much as it.
  const lanes = lanesOf(width, entries.map(({ arm }) => arm.name));
  const { margin, above } = lanes;
  for (const group of groups) {
    const unit = group[0].arm.unit;
    const whole = axisOfArms(view, unit);
    const axis = { type: whole.type, domain: zoomed(view, unit, whole) };
    const ticks = ticksOf(axis, width - margin - 40);
    const floor = axis.domain[0];
    const inside = (figureAt) => (axis.type === "log" ? Math.max(figureAt, floor) : figureAt);
    const low = (entry) => inside(ends(entry)[0] ?? value(entry));
    const high = (entry) => inside(ends(entry)[1] ?? value(entry));
    const colour = ({ arm }) => verdictColour(arm);
    const reference = view.ratios ? 1 : group.find(({ arm }) => arm.reference)?.arm.median;
    const row = (entry) => entry.index;
    const svg = Plot.plot({
      width, height: (26 + above) * group.length + 52, marginLeft: margin, marginRight: 24, marginTop: 8, marginBottom: 40, style: styled, clip: true,
      ariaLabel: `Medians and intervals, ${view.ratios ? "as ratios to the reference" : `in ${unit}`}`,
      x: { ...axis, ticks, inset: 8, grid: true },
      y: lanes.axis(group.map(row), (index) => view.run.arms[index].name),
      color: { type: "identity" },
      marks: [
        labelsX(ticks, textsOf(ticks), `${view.ratios ? "ratio to the reference" : unit}${logarithmic(axis)} →`),
        reference > 0 ? Plot.ruleX([reference], { stroke: "var(--soft)", strokeDasharray: "3,3" }) : null,
        Plot.ruleY(group, { x1: low, x2: high, y: row, stroke: colour, strokeWidth: 2 }),
        Plot.tickX(group, { x: low, y: row, stroke: colour, strokeWidth: 2, insetTop: 7 + above / 2, insetBottom: 7 + above / 2 }),
        Plot.tickX(group, { x: high, y: row, stroke: colour, strokeWidth: 2, insetTop: 7 + above / 2, insetBottom: 7 + above / 2 }),
        Plot.dot(group.filter((entry) => published(entry) > 0), { x: published, y: row, symbol: "diamond", r: 5, stroke: "var(--published)", strokeWidth: 2 }),
        Plot.dot(group.filter(({ arm }) => arm.touched), { x: value, y: row, r: 5, fill: colour }),
        Plot.dot(group.filter(({ arm }) => !arm.touched), { x: value, y: row, r: 4.5, fill: "var(--back)", stroke: colour, strokeWidth: 2.2 }),
        ...lanes.marks(group, row, ({ arm }) => arm.name),
      ],
    });
    if (group[0].arm.section) box.append(make("h3", {}, group[0].arm.section));
    box.append(svg);
    rowsOf(svg, group, width, margin);
    zoomable(svg, margin, width, (domain) => { zoomTo(view, unit, whole, domain); view.changed(); }, () => { view.zoom.delete(axisName(view, unit)); view.changed(); });
  }
}

// Every arm's row can be pointed at, and reached by the arrow keys.
function rowsOf(svg, group, width, margin) {
  const y = svg.scale("y");
  const rows = d3.select(svg).append("g").attr("role", "list").attr("aria-label", "Arms; arrow keys go from one to the next")
    .selectAll("rect").data(group).join("rect")
    .attr("role", "listitem").attr("aria-label", ({ arm }) => told(arm).replaceAll("\n", ", "))
    .attr("x", 0).attr("width", width).attr("y", ({ index }) => y.apply(index)).attr("height", y.bandwidth)
    .attr("fill", "var(--accent)").attr("fill-opacity", 0)
    .attr("tabindex", (_, at) => (at === 0 ? 0 : -1));
  const lit = (node, on) => node.setAttribute("fill-opacity", on ? 0.1 : 0);
  rows.on("pointermove", (event, { arm }) => { lit(event.currentTarget, true); showTip(told(arm), event); })
    .on("pointerleave", (event) => { lit(event.currentTarget, false); hideTip(); })
    .on("focus", (event, { arm }) => {
      lit(event.currentTarget, true);
      showTipAt(event.currentTarget, told(arm), margin, -10);
    })
    .on("blur", (event) => { lit(event.currentTarget, false); hideTip(); })
    .on("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const nodes = rows.nodes();
      const next = nodes[nodes.indexOf(event.currentTarget) + step];
      if (!next) return;
      event.currentTarget.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
}

// Where a figure stands on an axis of this type, and which figure stands there.
const SCALES = { log: [Math.log, Math.exp], linear: [Number, Number] };

// Charts of one unit share an axis, as do all of ratios.
const axisName = (view, unit) => (view.ratios ? "" : unit);

// An axis goes on beyond each end of the whole one for so many times its length at the most.
const BEYOND_MAX = 2;

// Makes this the part of an axis that is seen, where there is such a part. A linear one begins at 0 at the least, as no
// figure is below.
function zoomTo(view, unit, { type, domain }, ends) {
  const seen = type === "log" ? ends : ends.map((end) => Math.max(0, end));
  const [[first, last], [low, high]] = [domain, seen].map((of) => of.map(SCALES[type][0]));
  const beyond = BEYOND_MAX * (last - first);
  // Nor is there one between ends that are no numbers.
  if (!(first - beyond <= low && low < high && high <= last + beyond)) return;
  view.zoom.set(axisName(view, unit), { type, domain: seen });
}

// The part of an axis that is seen: what was chosen, if that was for this unit and type, or the whole.
function zoomed(view, unit, { type, domain }) {
  const chosen = view.zoom.get(axisName(view, unit));
  return chosen?.type === type ? chosen.domain : domain;
}

// Dragging over the axis zooms into what was passed over; a double click goes back.
function zoomable(svg, margin, width, chosen, reset) {
  const x = svg.scale("x");
  const place = (event) => {
    const at = svg.getBoundingClientRect();
    return Math.min(width - 24, Math.max(margin, (event.clientX - at.left) * (width / at.width)));
  };
  let from = null, mark = null;
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType === "mouse") from = place(event); });
  svg.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const [low, high] = d3.extent([from, place(event)]);
    if (high - low < 6) return;
    mark ??= d3.select(svg).append("rect").attr("y", 0).attr("height", svg.getAttribute("height")).attr("fill", "var(--accent)").attr("fill-opacity", 0.2).style("pointer-events", "none");
    mark.attr("x", low).attr("width", high - low);
  });
  const end = (event) => {
    if (from === null) return;
    const ends = d3.extent([from, place(event)]);
    mark?.remove();
    from = mark = null;
    if (ends[1] - ends[0] >= 6) chosen(ends.map((at) => x.invert(at)));
  };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointerleave", end);
  svg.addEventListener("dblclick", reset);
}

// The same by keys and buttons, of every axis: narrower and wider around the middle, or, where it begins at 0, at its end
// alone.
function zoomBy(view, factor) {
  const units = new Map(drawnArms(view).map(({ arm: { unit } }) => [axisName(view, unit), unit]));
  for (const unit of units.values()) zoomAxisBy(view, unit, factor);
  view.changed();
}

function zoomAxisBy(view, unit, factor) {
  const whole = axisOfArms(view, unit);
  const [there, back] = SCALES[whole.type];
  const [low, high] = zoomed(view, unit, whole).map(there);
  const begins = whole.type === "linear" && low === 0;
  const middle = begins ? 0 : (low + high) / 2;
  const half = (high - middle) * factor;
  zoomTo(view, unit, whole, [back(begins ? 0 : middle - half), back(middle + half)]);
}

function armTools(bar, view, charts) {
  const pressed = (button, on) => button.setAttribute("aria-pressed", String(on));
  const ratios = make("button", { type: "button", "aria-pressed": "false", onclick: () => {
    view.ratios = !view.ratios;
    view.zoom.clear();
    pressed(ratios, view.ratios);
    view.changed();
  } }, "Ratios to the reference");
  const scale = make("select", { onchange: () => { view.scale = scale.value; view.zoom.clear(); view.changed(); } },
    ...[["auto", "by itself"], ["log", "logarithmic"], ["linear", "linear, from 0"]].map(([value, text]) => make("option", { value }, text)));
  const find = make("input", { type: "search", placeholder: "part of a name", size: 16, oninput: () => { view.filter = find.value; view.changed(); } });
  const button = (text, does, label) => make("button", { type: "button", onclick: does, "aria-label": label }, text);
  bar.append(ratios, make("label", {}, "Axis ", scale), make("label", {}, "Arms ", find),
    button("+", () => zoomBy(view, 0.6), "Zoom in"), button("−", () => zoomBy(view, 1 / 0.6), "Zoom out"),
    button("Whole axis", () => { view.zoom.clear(); view.changed(); }));
  if (view.run.arms.some((arm) => arm.ratio == null) && !view.run.arms.some((arm) => arm.ratio != null && !arm.reference)) ratios.hidden = true;
}

const sampleWords = (entry, sample) =>
  `${entry.arm.name}, block ${sample[0] + 1}, place ${sample[1] + 1}: ${figure(sample[2])} ${entry.arm.unit} in ${figure(sample[3])} s` +
  (sample[4] & 1 ? `, disturbed${sample[5] ? `: ${sample[5]}` : ""}` : "") + (sample[4] & 2 ? ", measured again" : "");

function drawSamples(box, view) {
  box.replaceChildren();
  const entries = view.shown().filter(({ arm }) => arm.samples.length);
  const width = widthOf(box);
  const lanes = lanesOf(width, entries.map(({ arm }) => arm.name));
  const margin = lanes.margin;
  for (const group of groupsOf(entries)) {
    const points = group.flatMap((entry) => entry.arm.samples.map((sample) => ({ entry, sample })));
    const axis = axisOf(points.map(({ sample }) => sample[2]), view.scale);
    const ticks = ticksOf(axis, width - margin - 40);
    const x = ({ sample }) => sample[2];
    const y = ({ entry }) => entry.index;
    const title = ({ entry, sample }) => sampleWords(entry, sample);
    const kept = points.filter(({ sample }) => sample[2] > 0 || axis.type === "linear");
    if (group[0].arm.section) box.append(make("h3", {}, group[0].arm.section));
    box.append(Plot.plot({
      width, height: (22 + lanes.above) * group.length + 52, marginLeft: margin, marginRight: 24, marginTop: 8, marginBottom: 40, style: styled,
      ariaLabel: "Every sample of every arm",
      x: { ...axis, ticks, inset: 8, grid: true },
      y: lanes.axis(group.map(({ index }) => index), (index) => view.run.arms[index].name),
      marks: [
        labelsX(ticks, textsOf(ticks), `${group[0].arm.unit}${logarithmic(axis)} →`),
        Plot.dot(kept.filter(({ sample }) => !(sample[4] & 1)), { x, y, r: 3, fill: "var(--accent)", fillOpacity: 0.75 }),
        Plot.dot(kept.filter(({ sample }) => sample[4] & 1), { x, y, r: 3.5, symbol: "times", stroke: "var(--slower)", strokeWidth: 1.5 }),
        ...lanes.marks(group, ({ index }) => index, ({ arm }) => arm.name),
        Plot.tip(kept, Plot.pointer({ x, y, title, maxRadius: 20 })),
      ],
    }));
  }
  if (entries.some(({ arm }) => arm.samples.some((sample) => sample[4] & 1))) {
    box.append(make("p", { class: "legend" }, "× disturbed by others on the machine; all are kept in the record"));
  }
}

// Percentiles as people write them, by how many requests there are to one that is slower.
const PERCENTILES = [[1, "0"], [2, "50"], [10, "90"], [100, "99"], [1000, "99.9"], [1e4, "99.99"], [1e5, "99.999"], [1e6, "99.9999"]];

function drawLatency(box, view) {
  box.replaceChildren();
  const entries = view.shown().filter(({ arm }) => arm.latency?.length);
  if (!entries.length) return;
  const width = widthOf(box);
  const points = entries.flatMap((entry) => entry.arm.latency.map(([share, ns]) => ({ entry, rank: 1 / (1 - share), share, us: ns / 1000 })))
    .filter(({ us }) => us > 0);
  const most = d3.max(points, ({ rank }) => rank) ?? 10;
  // Sections share both axes.
  const across = d3.extent(points, ({ us }) => us);
  const upright = { type: "log", domain: [across[0] / 1.2, across[1] * 1.2] };
  const groups = groupsOf(entries);
  const height = groups.length > 1 ? 240 : Math.min(420, Math.max(260, width * 0.45));
  const [ticks, upTicks] = [PERCENTILES.filter(([rank]) => rank <= most * 1.1), ticksOf(upright, height, 30)];
  for (const group of groups) {
    const lines = new Map(group.map(({ index }, at) => [index, lineOf(at)]));
    const of = points.filter(({ entry }) => lines.has(entry.index));
    const stroke = ({ entry }) => lines.get(entry.index).colour;
    const dashed = d3.groups(of, ({ entry }) => lines.get(entry.index).dash);
    if (group[0].arm.section) box.append(make("h3", {}, group[0].arm.section));
    box.append(Plot.plot({
      width, height, marginLeft: 64, marginRight: 24, marginBottom: 44, style: styled,
      ariaLabel: "How long requests took, by percentile",
      x: { type: "log", domain: [1, most * 1.1], ticks: ticks.map(([rank]) => rank), grid: true },
      y: { ...upright, ticks: upTicks, grid: true },
      color: { type: "identity" },
      marks: [
        labelsX(ticks.map(([rank]) => rank), ticks.map(([, percentile]) => percentile), "percentile →"),
        Plot.axisY(upTicks, { text: figure, label: "↑ µs, logarithmic" }),
        ...dashed.map(([strokeDasharray, some]) => Plot.line(some, { x: "rank", y: "us", z: ({ entry }) => entry.index, stroke, strokeDasharray, strokeWidth: 2, curve: "monotone-x" })),
        Plot.dot(of, Plot.pointer({ x: "rank", y: "us", r: 4, fill: stroke })),
        Plot.tip(of, Plot.pointer({ x: "rank", y: "us", title: ({ entry, share, us }) => `${entry.arm.name}\n${+(share * 100).toFixed(5)}% took at most ${figure(us)} µs` })),
      ],
    }), swatches(group.map(({ index, arm }) => [arm.name, lines.get(index)])));
  }
}

// What stands for what: a colour, or a line with its dashes.
function swatches(pairs) {
  const square = (colour) => {
    const key = make("i", { "aria-hidden": "true" });
    key.style.background = colour;
    return key;
  };
  const line = ({ colour, dash }) => d3.create("svg").attr("viewBox", "0 0 32 12").attr("aria-hidden", "true")
    .call((svg) => svg.append("line").attr("x2", 32).attr("y1", 6).attr("y2", 6).attr("stroke-width", 2).attr("stroke", colour).attr("stroke-dasharray", dash)).node();
  return make("ul", { class: "swatches" }, ...pairs.map(([name, key]) => make("li", {}, key.dash ? line(key) : square(key), name)));
}
