"use strict";
// Histograms of parameters and gradients as heat maps: iterations across, values upwards. The format
// of their data is in histograms.py.

const LEFT = 62, BELOW = 22; // pixels for the texts of the axes
const HUES = { values: "37, 99, 235", gradients: "217, 119, 6" };

// The places of the columns: each reaches half way to its neighbours.
function edgesOf(xs) {
  if (xs.length === 1) return [xs[0] - 0.5, xs[0] + 0.5];
  const middles = xs.slice(1).map((x, at) => (x + xs[at]) / 2);
  return [xs[0], ...middles, xs[xs.length - 1]];
}

// One heat map, of one array.
class Heat {
  constructor(map) {
    this.map = map;
    this.said = element("span", { className: "quiet" });
    const kind = map.of === "gradients" ? "gradient" : "values";
    this.canvas = element("canvas", { className: "heat" });
    this.canvas.onpointermove = (event) => this.tell(event.offsetX);
    this.canvas.onpointerleave = () => this.tell(null);
    const head = element("figcaption", {}, element("b", { textContent: `${map.name}, ${kind}` }));
    this.figure = element("figure", { className: "chart" }, head, this.canvas, this.said);
    this.edges = edgesOf(map.x);
    this.tell(null);
  }

  across(x) {
    const first = this.edges[0], last = this.edges[this.edges.length - 1];
    return LEFT + ((x - first) / (last - first)) * (this.canvas.clientWidth - LEFT);
  }

  draw() {
    const { map, canvas, edges } = this, wide = canvas.clientWidth, high = canvas.clientHeight;
    if (!wide) return;
    canvas.width = wide * devicePixelRatio;
    canvas.height = high * devicePixelRatio;
    const least = Math.min(...map.low), greatest = Math.max(...map.high);
    const range = greatest - least || 1, bottom = high - BELOW;
    const up = (value) => bottom - 6 - ((value - least) / range) * (bottom - 12);
    const pen = canvas.getContext("2d");
    pen.scale(devicePixelRatio, devicePixelRatio);
    map.bins.forEach((bins, at) => {
      const left = this.across(edges[at]), width = this.across(edges[at + 1]) - left;
      const step = (map.high[at] - map.low[at]) / bins.length;
      bins.forEach((shade, bin) => {
        if (!shade) return;
        const top = up(map.low[at] + (bin + 1) * step), tall = up(map.low[at] + bin * step) - top;
        pen.fillStyle = `rgba(${HUES[map.of]}, ${0.06 + 0.84 * (shade / 255)})`;
        pen.fillRect(left, top, width + 0.3, Math.max(tall, 1) + 0.3);
      });
    });
    pen.strokeStyle = colourOf("--ink");
    pen.beginPath();
    map.mean.forEach((mean, at) => pen.lineTo(this.across(map.x[at]), up(mean)));
    pen.stroke();
    pen.fillStyle = colourOf("--quiet");
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "right";
    for (const value of [least, (least + greatest) / 2, greatest]) pen.fillText(brief(value), LEFT - 6, up(value) + 4);
    pen.fillText(map.x[map.x.length - 1], wide, high - 6);
    pen.textAlign = "left";
    pen.fillText(`iteration ${map.x[0]}`, LEFT, high - 6);
  }

  // Shows the numbers of the column at a place; of the last one without a place.
  tell(place) {
    const { map, edges } = this, last = map.x.length - 1;
    const found = place === null ? last : edges.findIndex((edge) => this.across(edge) > place) - 1;
    const at = Math.max(0, found < 0 ? last : Math.min(found, last));
    this.said.textContent = `iteration ${map.x[at]}: mean ${brief(map.mean[at])}, deviation `
      + `${brief(map.deviation[at])}, from ${brief(map.low[at])} to ${brief(map.high[at])}, `
      + `${brief(100 * map.zeros[at])} % zeros`;
  }
}

// A value with three digits, or two if it is small.
function brief(value) {
  const isSmall = value && Math.abs(value) < 1e-3;
  return isSmall ? trimmed(value.toExponential(1)) : String(Number(value.toPrecision(3)));
}
let heats = [];

const drawHeats = () => heats.forEach((heat) => heat.draw());

// The layers that can be chosen: their titles, and the maps of each.
function layersOf(data) {
  const found = new Map();
  for (const run of data.runs)
    for (const map of run.histograms || []) {
      const title = data.runs.length > 1 ? `${run.name}: ${map.layer}` : map.layer;
      found.set(title, [...(found.get(title) || []), map]);
    }
  return found;
}

// Shows the histograms of new data. The chosen layer stays.
function setHistograms(data) {
  const layers = layersOf(data), choice = document.getElementById("layer"), old = choice.value;
  document.getElementById("histograms").hidden = !layers.size;
  choice.replaceChildren(...[...layers.keys()].map((title) => element("option", { value: title, textContent: title })));
  if (layers.has(old)) choice.value = old;
  choice.onchange = () => {
    heats = (layers.get(choice.value) || []).map((map) => new Heat(map));
    document.getElementById("heats").replaceChildren(...heats.map((heat) => heat.figure));
    drawHeats();
  };
  choice.onchange();
}
