// Puts everything in its place: charts as they come into sight, all of them before printing.

const pending = new Set();
const drawn = new Set();

function soon(box, draw) {
  const job = { box, done: false };
  // One that fails says so in its place, and the others are drawn.
  job.draw = () => {
    try {
      draw();
    } catch (error) {
      console.error(error);
      box.replaceChildren(make("p", { class: "small" }, `This cannot be drawn: ${error.message}`));
    }
  };
  job.run = () => {
    job.done = true;
    pending.delete(job);
    seen.unobserve(box);
    job.draw();
    drawn.add(job);
  };
  pending.add(job);
  seen.observe(box);
  box.job = job;
  return job;
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) entry.target.job.run();
}, { rootMargin: "400px" });

const DRAW = { arms: drawArms, samples: drawSamples, latency: drawLatency, costs: drawCosts, classes: drawClasses };
const TOOLS = { arms: armTools, costs: costTools };

for (const article of document.querySelectorAll("article.run")) {
  const view = new View(data.runs[Number(article.dataset.run)]);
  for (const bar of article.querySelectorAll("[data-tools]")) {
    if (bar.dataset.tools === "samples") sampleTools(bar, view, article.querySelector('[data-table="samples"]'));
    else TOOLS[bar.dataset.tools](bar, view);
  }
  for (const table of article.querySelectorAll("table.sortable")) {
    const arms = table.id.startsWith("arms-");
    if (arms) choosable(table, view);
    sortable(table, arms ? (order) => { view.order = order; view.changed(); } : null);
  }
  for (const box of article.querySelectorAll("[data-chart]")) {
    const job = soon(box, () => DRAW[box.dataset.chart](box, view));
    view.watchers.push(() => { if (job.done) job.draw(); });
  }
  for (const box of article.querySelectorAll("[data-flame]")) {
    const arm = view.run.arms[Number(box.dataset.flame)];
    if (!arm.tree) continue;
    let again = null;
    soon(box, () => { if (again) again(); else again = drawFlame(box, arm); });
  }
}

document.getElementById("tools").append(themeButton(),
  make("button", { type: "button", onclick: () => print() }, "Print"));

function redraw() {
  for (const job of drawn) job.draw();
}

// What is narrow now may be wide in a moment.
let waiting = null, width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(redraw, 150);
});

// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) {
    details.open = true;
    details.dataset.printed = "";
  }
  onPaper = true;
  redraw();
  for (const job of [...pending]) job.run();
});
addEventListener("afterprint", () => {
  onPaper = false;
  redraw();
  for (const details of document.querySelectorAll("details[data-printed]")) {
    details.open = false;
    delete details.dataset.printed;
  }
});
document.documentElement.dataset.ready = "";
