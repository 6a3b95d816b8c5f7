// What the work cost, and where its time went: bars.

const COSTS = [
  ["CPU seconds per GiB", ["cpu_user_s_per_gib", "cpu_system_s_per_gib"]],
  ["CPU seconds per run", ["cpu_user_s_per_run", "cpu_system_s_per_run"]],
  ["CPU nanoseconds per operation", ["cpu_ns_per_op"]],
  ["system calls per GiB", ["syscalls_per_gib"]],
  ["system calls per operation", ["syscalls_per_op"]],
  ["context switches per GiB", ["context_switches_per_gib"]],
  ["context switches per operation", ["context_switches_per_op"]],
  ["context switches per run", ["context_switches_per_run"]],
  ["page faults per GiB", ["page_faults_per_gib"]],
  ["page faults per run", ["page_faults_per_run"]],
  ["peak memory, bytes", ["peak_memory_bytes"]],
];
const PARTS = { cpu_user_s_per_gib: "user", cpu_system_s_per_gib: "system", cpu_user_s_per_run: "user", cpu_system_s_per_run: "system" };

function knownCosts(run) {
  return COSTS.filter(([, fields]) => run.arms.some((arm) => fields.some((field) => arm.costs?.[field] != null)));
}

function costTools(bar, view) {
  const known = knownCosts(view.run);
  view.cost = known[0]?.[0];
  if (known.length < 2) return;
  const choice = make("select", { onchange: () => { view.cost = choice.value; view.changed(); } },
    ...known.map(([name]) => make("option", { value: name }, name)));
  bar.append(make("label", {}, "Cost ", choice));
}

function drawCosts(box, view) {
  box.replaceChildren();
  const fields = COSTS.find(([name]) => name === view.cost)?.[1];
  if (!fields) return;
  const entries = view.shown().filter(({ arm }) => fields.some((field) => arm.costs?.[field] != null));
  const bars = entries.flatMap((entry) => fields.map((field, part) => ({ entry, part, name: PARTS[field], value: entry.arm.costs[field] ?? 0 })));
  if (!bars.length) return;
  const width = widthOf(box);
  const lanes = lanesOf(width, entries.map(({ arm }) => arm.name));
  const { margin, above } = lanes;
  const colours = ["var(--accent)", "var(--published)"];
  const sum = ({ arm }) => d3.sum(fields, (field) => arm.costs[field] ?? 0);
  const y = ({ index }) => index;
  const axis = axisOf(entries.map(sum), "auto");
  // Bars begin at 0, which a logarithmic axis does not have: there, dots tell the sums.
  const decades = axis.type === "log";
  const ticks = ticksOf(axis, width - margin - 76);
  const words = (entry) => `${entry.arm.name}\n${fields.map((field) => `${PARTS[field] ?? view.cost}: ${figure(entry.arm.costs[field])}`).join("\n")}`;
  box.append(Plot.plot({
    width, height: (22 + above) * entries.length + 52, marginLeft: margin, marginRight: 60, marginTop: 8, marginBottom: 40, style: styled,
    ariaLabel: view.cost,
    x: { ...axis, ticks, inset: decades ? 8 : 0, grid: true },
    y: lanes.axis(entries.map(y), (index) => view.run.arms[index].name),
    color: { type: "identity" },
    marks: [
      labelsX(ticks, textsOf(ticks), `${view.cost}${logarithmic(axis)} →`),
      decades ? null : Plot.barX(bars, Plot.stackX({ x: "value", y: ({ entry }) => entry.index, fill: ({ part }) => colours[part], z: "part", insetTop: 3 + above, insetBottom: 3 })),
      decades ? Plot.dot(entries.filter((entry) => sum(entry) > 0), { x: sum, y, r: 5, fill: colours[0] }) : null,
      Plot.text(entries, { x: (entry) => (decades && sum(entry) <= 0 ? axis.domain[0] : sum(entry)), y, text: (entry) => figure(sum(entry)), textAnchor: "start", dx: 9, dy: decades ? 0 : above / 2, fill: "var(--soft)" }),
      ...lanes.marks(entries, y, ({ arm }) => arm.name),
      Plot.tip(entries, Plot.pointerY({ x: (entry) => Math.max(sum(entry), axis.domain[0]), y, title: words })),
    ],
  }));
  if (fields.length > 1 && !decades) box.append(swatches(fields.map((field, part) => [PARTS[field], colours[part]])));
}

// Classes that are not known to be the work's are grey, and the smallest where there are more than colours.
const GREY = Object.fromEntries(["idle", "other programs", "threads of the kernel", "unclaimed", "others"]
  .map((name, at) => [name, `color-mix(in oklab, var(--ink) ${25 * at}%, var(--soft))`]));

function drawClasses(box, view) {
  box.replaceChildren();
  const entries = view.shown().filter(({ arm }) => arm.classes?.length);
  if (!entries.length) return;
  const totals = d3.rollup(entries.flatMap(({ arm }) => arm.classes), (rows) => d3.sum(rows, (row) => row[1]), (row) => row[0]);
  const names = [...totals.keys()].sort((a, b) => (a in GREY) - (b in GREY) || totals.get(b) - totals.get(a));
  const colour = (name) => GREY[name] ?? kinds[names.indexOf(name)] ?? GREY.others;
  const bars = [], rows = [];
  for (const { index, arm } of entries) {
    const row = `${index}`;
    rows.push([row, arm.name]);
    for (const [name, share, low, high] of arm.classes) bars.push({ row, arm, name, share, words: `${percent(share)} [${percent(low)}, ${percent(high)}]` });
    if (arm.classes.some((of) => of[4] != null)) {
      // Others divide the time in which CPUs were busy.
      rows.push([`${index}p`, "published, of busy time"]);
      for (const [name, , , , published] of arm.classes) if (published != null) bars.push({ row: `${index}p`, arm, name, share: published, words: `${percent(published)} of busy time, published` });
    }
  }
  const width = widthOf(box);
  const label = new Map(rows);
  const lanes = lanesOf(width, rows.map(([, name]) => name));
  const { margin, above } = lanes;
  const wide = (bar) => bar.share * (width - margin - 24) > 44;
  box.append(Plot.plot({
    width, height: (26 + above) * rows.length + 52, marginLeft: margin, marginRight: 24, marginTop: 8, marginBottom: 40, style: styled,
    ariaLabel: "Shares of the classes of cost",
    x: { domain: [0, Math.max(100, 100 * d3.max(d3.rollups(bars, (of) => d3.sum(of, (bar) => bar.share), (bar) => bar.row), ([, sum]) => sum))], percent: true, label: "share of the time, % →", labelAnchor: "right", grid: true, ticks: Math.max(2, Math.min(10, (width - margin) / 70)) },
    y: lanes.axis(rows.map(([row]) => row), (row) => label.get(row)),
    color: { type: "identity" },
    marks: [
      Plot.barX(bars, Plot.stackX({ x: "share", y: "row", z: "name", order: names, fill: ({ name }) => colour(name), stroke: "var(--back)", strokeWidth: 0.7, title: ({ arm, name, words }) => `${arm.name}\n${name}: ${words}`, insetTop: 3 + above, insetBottom: 3, tip: true })),
      Plot.text(bars, Plot.stackX({ x: "share", y: "row", z: "name", order: names, text: (bar) => (wide(bar) ? percent(bar.share) : ""), fill: "var(--back)", fontSize: 11, dy: above / 2 })),
      ...lanes.marks(rows, ([row]) => row, ([, name]) => name),
    ],
  }), swatches([...d3.group(names, colour)].map(([colour, [name, ...more]]) => [more.length ? `${more.length + 1} others` : name, colour])));
}

