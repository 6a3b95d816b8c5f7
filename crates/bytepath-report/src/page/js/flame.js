// Flame graphs, drawn from call trees: the root on top, each call below its caller, as wide as its
// share of the samples.

const FLAME_ROW = 20;

// The tree as D3 has it, heaviest calls first.
function flameRoot(tree) {
  const nodes = tree.nodes.map(([name, , total]) => ({ name: data.frames[name], total, children: [] }));
  tree.nodes.forEach(([, parent], at) => { if (at > 0) nodes[parent].children.push(nodes[at]); });
  const root = d3.hierarchy(nodes[0]).each((node) => { node.value = node.data.total; });
  root.each((node) => node.children?.sort((a, b) => b.value - a.value));
  return root;
}

// A call's colour: the kernel's warm, the program's own cooler, the same in every graph. Of a lightness that stands out
// from light and dark, and from which the name stands out.
function flameColour(name) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  const vary = (hash % 997) / 997;
  if (name === "all" || name.startsWith("(") || name.startsWith("[")) return "#8d939e";
  return name.endsWith("_[k]") ? d3.hcl(45 + 25 * vary, 52, 56 + 5 * vary).formatHex() : d3.hcl(105 + 50 * vary, 48, 56 + 5 * vary).formatHex();
}

function drawFlame(box, arm) {
  const root = flameRoot(arm.tree);
  const state = { top: root, search: "" };
  const find = make("input", { type: "search", placeholder: "part of a function's name", size: 26, oninput: () => { state.search = find.value; mark(); } });
  const found = make("span", { role: "status", class: "small" });
  const whole = make("button", { type: "button", onclick: () => zoom(root) }, "Whole graph");
  const place = make("div", {});
  const cut = arm.tree.cut ? ` ${arm.tree.cut} rare calls are drawn as “(rare)”.` : "";
  box.replaceChildren(
    make("div", { class: "toolbar" }, make("label", {}, "Find ", find), whole, found),
    place,
    make("p", { class: "small" }, `Click or Enter zooms in, Escape out; arrow keys go to callers and calls. Kernel functions end in _[k].${cut}`));

  const share = (node) => node.value / root.value;
  const words = (node) => `${node.data.name}\n${percent(share(node))}, ${counted(node.value, "sample")}`;
  const hit = (node) => state.search && node.data.name.toLowerCase().includes(state.search.toLowerCase());
  let groups = null;

  function mark() {
    groups?.classed("match", hit);
    if (!state.search) { found.textContent = ""; return; }
    // A call within a call that was found is counted once.
    const count = (node) => (hit(node) ? node.value : d3.sum(node.children ?? [], count));
    found.textContent = `${percent(count(root) / root.value)} of the samples are in what was found`;
  }

  function zoom(node) {
    state.top = node;
    draw();
    groups.filter((drawn) => drawn === node).node()?.focus();
  }

  function draw() {
    const width = widthOf(box);
    const top = state.top;
    const above = top.ancestors().reverse().slice(0, -1);
    const placed = [];
    above.forEach((node, row) => placed.push({ node, row, x: 0, width }));
    const lay = (node, x, span, row) => {
      if (span < 1) return;
      placed.push({ node, row, x, width: span });
      let at = x;
      for (const child of node.children ?? []) {
        const part = (span * child.value) / node.value;
        lay(child, at, part, row + 1);
        at += part;
      }
    };
    lay(top, 0, width, above.length);
    const rows = d3.max(placed, ({ row }) => row) + 1;
    const svg = d3.create("svg").attr("viewBox", `0 0 ${width} ${rows * FLAME_ROW}`).attr("role", "tree").attr("aria-label", `Flame graph of ${arm.name}`);
    groups = svg.selectAll("g").data(placed.map(({ node }) => node)).join("g")
      .attr("role", "treeitem").attr("aria-level", (node) => node.depth + 1).attr("aria-label", (node) => words(node).replace("\n", ", "))
      .attr("aria-expanded", (node) => (node.children ? "true" : null))
      .attr("tabindex", (node) => (node === top ? 0 : -1));
    groups.each(function (node, at) {
      const { x, row, width: span } = placed[at];
      const group = d3.select(this);
      group.append("rect").attr("x", x).attr("y", row * FLAME_ROW).attr("width", Math.max(0.5, span)).attr("height", FLAME_ROW - 1)
        .attr("rx", 2).attr("fill", flameColour(node.data.name));
      const letters = Math.floor((span - 6) / 6.8);
      if (letters >= 3) {
        const name = node.data.name;
        group.append("text").attr("x", x + 4).attr("y", row * FLAME_ROW + 14).text(name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
      }
    });
    groups.on("click", (_, node) => zoom(node))
      .on("pointermove", (event, node) => showTip(words(node), event))
      .on("pointerleave", hideTip)
      .on("focus", (event, node) => showTipAt(event.currentTarget, words(node), 0, 0))
      .on("blur", hideTip)
      .on("keydown", keyed);
    place.replaceChildren(svg.node());
    mark();
  }

  function keyed(event, node) {
    const drawn = groups.data();
    const beside = (step) => {
      const siblings = (node.parent?.children ?? [node]).filter((sibling) => drawn.includes(sibling));
      return siblings[siblings.indexOf(node) + step];
    };
    const to = { ArrowUp: () => node.parent, ArrowDown: () => node.children?.find((child) => drawn.includes(child)), ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), Home: () => drawn[0] };
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(node); return; }
    if (event.key === "Escape") { event.preventDefault(); zoom(state.top.parent ?? root); return; }
    const next = to[event.key]?.();
    if (!to[event.key]) return;
    event.preventDefault();
    if (!next) return;
    groups.attr("tabindex", (other) => (other === next ? 0 : -1));
    groups.filter((other) => other === next).node()?.focus();
  }

  draw();
  return draw;
}

