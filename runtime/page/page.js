"use strict";
// Shows the values under the pointer. chart.x and chart.y are [position, position, value, value] of the two ends of an axis, in the drawing's units.
const tip = document.getElementById("tip");
const short = (value) => (Math.abs(value) >= 1e6 ? value.toExponential(3) : String(Number(value.toPrecision(5))));

function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return Math.abs(xs[high] - x) < Math.abs(xs[low] - x) ? high : low;
}

function show(event) {
  const figure = event.target.closest && event.target.closest("figure.chart");
  if (!figure) { tip.hidden = true; return; }
  const chart = figure.chart || (figure.chart = JSON.parse(figure.dataset.chart));
  const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  const [left, right, least, greatest] = chart.x;
  const at = ((event.clientX - box.left) * view.width) / box.width;
  if (at < left || at > right) { tip.hidden = true; return; }
  const x = least + ((at - left) / (right - left)) * (greatest - least);
  tip.replaceChildren();
  const line = (text, colour) => {
    const row = document.createElement("div");
    if (colour) { const mark = document.createElement("i"); mark.style.background = colour; row.append(mark); }
    row.append(text);
    tip.append(row);
  };
  const first = chart.curves[0];
  line(`${chart.across} ${short(first.xs[nearest(first.xs, x)])}`);
  for (const curve of chart.curves) line(`${curve.label} ${short(curve.ys[nearest(curve.xs, x)])}`, curve.colour);
  tip.hidden = false;
  const wide = tip.offsetWidth;
  tip.style.left = `${event.clientX + 14 + wide > innerWidth ? Math.max(0, event.clientX - wide - 10) : event.clientX + 14}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight)}px`;
}
document.addEventListener("pointermove", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

// The page of a living run reloads itself regularly, and replaces its contents. Open details stay open.
const refresh = Number(document.body.dataset.refresh || 0);
async function renew() {
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = [...document.querySelectorAll("details")].map((one) => one.open);
    const main = page.querySelector("main");
    if (!main) return;
    main.querySelectorAll("details").forEach((one, number) => { one.open = Boolean(open[number]); });
    document.querySelector("main").replaceWith(main);
    document.title = page.title;
  } catch { /* the run is over and no longer serves the page: the last contents stay */ }
}
if (refresh) setInterval(renew, 1000 * refresh);
