"use strict";
// The controls of the page.

let data = JSON.parse(document.getElementById("data").textContent);
const view = { across: "iterations", smoothing: 0, hidden: new Set() };
const plots = new Map(); // title -> Plot
const at = (id) => document.getElementById(id);

// -- colours: those of the system, unless a person has chosen

const system = matchMedia("(prefers-color-scheme: dark)");
const kept = {
  get: () => { try { return localStorage.getItem("convoy-theme"); } catch { return null; } },
  set: (theme) => { try { localStorage.setItem("convoy-theme", theme); } catch { /* not allowed */ } },
};

function paint(theme) {
  document.documentElement.dataset.theme = theme;
  at("theme").textContent = theme === "dark" ? "☀ light" : "☾ dark";
  plots.forEach((plot) => plot.build());
  drawHeats();
}

at("theme").onclick = () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  kept.set(theme);
  paint(theme);
};
system.addEventListener("change", () => { if (!kept.get()) paint(system.matches ? "dark" : "light"); });

// -- charts

// Charts of new data: those that exist keep their settings.
function setCharts() {
  const titles = new Set(data.charts.map((spec) => spec.title));
  for (const [title, plot] of plots) {
    if (titles.has(title)) continue;
    plot.figure.remove();
    plots.delete(title);
  }
  for (const spec of data.charts) {
    const known = plots.get(spec.title);
    if (known) {
      known.set(data, spec);
      known.update();
      continue;
    }
    const plot = new Plot(view, data, spec);
    plots.set(spec.title, plot);
    at("charts").append(plot.figure);
    plot.build();
    sizes.observe(plot.box);
  }
  at("tools").hidden = !data.charts.length;
  at("none").hidden = Boolean(data.charts.length);
  at("across").querySelector("[value=epochs]").disabled = !data.runs.some((run) => run.epochs);
}

const sizes = new ResizeObserver(() => {
  plots.forEach((plot) => plot.resize());
  drawHeats();
});
const rebuild = () => plots.forEach((plot) => plot.build());

at("across").onchange = () => { view.across = at("across").value; rebuild(); };
at("smoothing").oninput = () => {
  view.smoothing = Number(at("smoothing").value);
  at("smooth").textContent = view.smoothing ? view.smoothing.toFixed(2) : "off";
  rebuild();
};
at("whole").onclick = () => plots.forEach((plot) => plot.plot.setData(plot.plot.data, true));

// The checkboxes of the table of runs hide and show the curves of a run.
document.addEventListener("change", (event) => {
  const run = event.target.dataset.run;
  if (run === undefined) return;
  if (event.target.checked) view.hidden.delete(Number(run)); else view.hidden.add(Number(run));
  plots.forEach((plot) => plot.show());
});

// A click on the head of a column of the table of runs sorts by it; a second click turns the order.
function sorted(event) {
  const head = event.target.closest("#runs th");
  if (!head) return;
  const place = [...head.parentNode.children].indexOf(head), body = document.querySelector("#runs tbody");
  const key = (row) => row.children[place].dataset.value ?? row.children[place].textContent;
  const order = (a, b) => (isNaN(a) || isNaN(b) || !a || !b ? a.localeCompare(b) : a - b);
  const down = head.dataset.order === "up" ? -1 : 1;
  head.dataset.order = down > 0 ? "up" : "down";
  body.append(...[...body.rows].sort((a, b) => down * order(key(a), key(b))));
}
document.addEventListener("click", sorted);

paint(kept.get() || (system.matches ? "dark" : "light"));
setCharts();
setHistograms(data);
sizes.observe(at("histograms"));
