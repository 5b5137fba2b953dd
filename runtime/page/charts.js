"use strict";
// The charts of the page, drawn by uPlot. The format of their data is in chart_data.py.

// -- numbers and their texts

const trimmed = (text) => text.replace(/\.?0+(e|$)/, "$1");

// A value with six digits.
function exact(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 1e7 || (size > 0 && size < 1e-4)) return trimmed(value.toExponential(5));
  return String(Number(value.toPrecision(6)));
}

// A value on an axis whose marks are `step` apart, with as many digits as tell the marks apart.
function tickText(value, step) {
  const size = Math.abs(value);
  if (size < step / 1e6) return "0";
  if (size >= 1e7 || size < 1e-4) {
    const digits = Math.max(0, Math.ceil(Math.log10(size / step) + 0.4));
    return trimmed(value.toExponential(Math.min(digits, 15)));
  }
  let decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const marks = step * 10 ** decimals;
  if (Math.abs(marks - Math.round(marks)) > 1e-6) decimals += 1;
  return value.toFixed(Math.min(decimals, 15));
}

// A round distance of marks: 1, 2 or 5 times a power of ten, for at most `most` marks in a range.
function roundStep(range, most) {
  const power = 10 ** Math.floor(Math.log10(range / most));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => range / step <= most);
}

// The marks of a logarithmic axis: powers of ten with 2 and 5, or round steps in a narrow range.
function logMarks(least, greatest) {
  if (greatest / least < 5) {
    const step = roundStep(greatest - least, 6);
    const first = Math.ceil(least / step);
    const count = Math.max(0, Math.floor(greatest / step) - first + 1);
    return Array.from({ length: count }, (_, number) => (first + number) * step);
  }
  const factors = greatest / least < 2e4 ? [1, 2, 5] : [1];
  const found = [];
  const every = Math.ceil(Math.log10(greatest / least) / 8);
  for (let power = Math.floor(Math.log10(least)); 10 ** power <= greatest; power += every)
    for (const factor of factors) found.push(Number(`${factor}e${power}`));
  return found.filter((mark) => mark >= least && mark <= greatest);
}

// The range of an axis for values from `least` to `greatest`.
function padded(least, greatest, log, zero) {
  if (least == null || greatest == null) return log ? [0.1, 1] : [0, 1];
  if (log) return least === greatest ? [least / 2, greatest * 2] : [least / 1.1, greatest * 1.1];
  if (zero && least >= 0) return [0, greatest * 1.08 || 1];
  const margin = 0.05 * (greatest - least) || 0.05 * Math.abs(greatest) || 1;
  return [least - margin, greatest + margin];
}

// The value at x on the line through the points, extended beyond its ends.
function onLine([xs, ys], x) {
  if (xs.length < 2) return xs.length && xs[0] ? (ys[0] * x) / xs[0] : null;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low]);
}

// The mean of the values up to each point. The weight of a value shrinks to `weight` over the mean
// distance of two points.
function smoothed(xs, ys, weight) {
  if (!weight || ys.length < 3) return ys;
  const step = (xs[xs.length - 1] - xs[0]) / (xs.length - 1) || 1;
  let sum = 0, mass = 0;
  return ys.map((y, at) => {
    const kept = at ? weight ** ((xs[at] - xs[at - 1]) / step) : 0;
    sum = kept * sum + y;
    mass = kept * mass + 1;
    return sum / mass;
  });
}

// The points of a curve on the chosen axis, in ascending order.
function pointsOf(curve, data, across) {
  const line = data.runs[curve.run].epochs;
  if (across === "epochs" && !line) return [[], []];
  const places = {
    iterations: () => curve.x,
    epochs: () => curve.x.map((x) => onLine(line, x)),
    time: () => curve.t.map((t) => t / data.unit[1]),
  }[across]();
  const xs = [], ys = [];
  places.forEach((x, at) => {
    if (xs.length && x <= xs[xs.length - 1]) return;
    xs.push(x);
    ys.push(curve.y[at]);
  });
  return [xs, ys];
}

// Adds a point. Points of this iteration and of later ones are removed first: the run went back.
function addPoint(curve, iteration, seconds, value) {
  let keep = curve.x.length;
  while (keep && curve.x[keep - 1] >= iteration) keep -= 1;
  curve.x.splice(keep, Infinity, iteration);
  curve.t.splice(keep, Infinity, seconds);
  curve.y.splice(keep, Infinity, value);
}

// -- charts

const HEIGHT = 230, LARGE = 460;
const MOST_DOTS = 100; // of a curve; more dots would overlap
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

// One chart. `view` has the settings of all charts: across, smoothing, hidden (places of runs).
class Plot {
  constructor(view, data, spec) {
    this.view = view;
    this.log = spec.log;
    this.off = new Set(); // keys of curves that a person has hidden in this chart
    this.logButton = element("button", { type: "button", className: "log", textContent: "log" });
    this.logButton.title = "Logarithmic or linear axis of values";
    const large = element("button", { type: "button", className: "enlarge", textContent: "⤢" });
    large.title = "Larger or smaller";
    const head = element("figcaption", {}, element("b", { textContent: spec.title }));
    head.append(this.logButton, large);
    this.box = element("div", { className: "plot" });
    this.figure = element("figure", { className: "chart" }, head, this.box);
    this.logButton.onclick = () => { this.log = !this.log; this.build(); };
    large.onclick = () => { this.figure.classList.toggle("large"); this.resize(); };
    this.set(data, spec);
  }

  set(data, spec) {
    this.data = data;
    this.spec = spec;
  }

  // The lines to draw: of a smoothed curve the mean, and the values behind it.
  lines() {
    const found = [];
    for (const curve of this.spec.curves) {
      const [xs, all] = pointsOf(curve, this.data, this.view.across);
      const ys = this.log ? all.map((y) => (y > 0 ? y : null)) : all;
      const exactOnes = this.spec.steps || curve.dots; // a rate, or the score of a test, has no noise
      const mean = exactOnes ? ys : smoothed(xs, ys, this.view.smoothing);
      if (mean !== ys) found.push({ curve, xs, ys, faint: true });
      found.push({ curve, xs, ys: mean, faint: false });
    }
    return found;
  }

  isShown(curve) {
    return !this.view.hidden.has(curve.run) && !this.off.has(this.keyOf(curve));
  }

  keyOf(curve) {
    return `${curve.run} ${curve.key}`;
  }

  table(lines) {
    return uPlot.join(lines.map((line) => [line.xs, line.ys]));
  }

  // Draws the chart anew, with the present settings.
  build() {
    const old = this.plot;
    const zoom = old && this.across === this.view.across && this.zoomed(old);
    if (old) old.destroy();
    this.across = this.view.across;
    this.logButton.setAttribute("aria-pressed", String(this.log));
    this.drawn = this.lines();
    this.plot = new uPlot(this.options(), this.table(this.drawn), this.box);
    if (zoom) this.plot.setScale("x", zoom);
  }

  // Shows new points. A chart that is zoomed stays where it is.
  update() {
    const lines = this.lines();
    if (lines.length !== this.drawn.length) return this.build();
    const zoom = this.zoomed(this.plot), y = this.plot.scales.y;
    const range = { min: y.min, max: y.max };
    this.drawn = lines;
    this.plot.setData(this.table(lines), !zoom);
    if (zoom) this.plot.setScale("y", range);
    if (zoom) this.plot.redraw();
  }

  // The range of x that a person has chosen; null if the whole curve is shown.
  zoomed(plot) {
    const xs = plot.data[0], { min, max } = plot.scales.x;
    return xs.length && (min > xs[0] || max < xs[xs.length - 1]) ? { min, max } : null;
  }

  resize() {
    const height = this.figure.classList.contains("large") ? LARGE : HEIGHT;
    if (this.plot) this.plot.setSize({ width: this.box.clientWidth, height });
  }

  // Shows and hides curves as the settings say.
  show() {
    this.drawn.forEach(({ curve }, at) => {
      const show = this.isShown(curve);
      if (this.plot.series[at + 1].show !== show) this.plot.setSeries(at + 1, { show });
    });
  }

  // A click on the legend hides a curve: uPlot reports it.
  toggled(at, show) {
    if (at == null || show == null || !this.drawn[at - 1]) return;
    const { curve } = this.drawn[at - 1];
    if (this.view.hidden.has(curve.run)) return;
    if (show) this.off.delete(this.keyOf(curve)); else this.off.add(this.keyOf(curve));
    this.show();
  }

  options() {
    const large = this.figure.classList.contains("large");
    const label = { iterations: "iteration", epochs: "epoch", time: this.data.unit[0] }[this.across];
    return {
      width: this.box.clientWidth || 350,
      height: large ? LARGE : HEIGHT,
      scales: {
        x: { time: false },
        y: {
          distr: this.log ? 3 : 1,
          range: (_, least, greatest) => padded(least, greatest, this.log, this.spec.zero),
        },
      },
      axes: [this.axis({}), this.axis(this.log ? LOG_AXIS : {}, true)],
      series: [{ label, value: (_, x) => exact(x) }, ...this.drawn.map((one) => this.series(one))],
      cursor: {
        drag: { x: true, y: true, uni: 24 },
        dataIdx: nearest,
        sync: { key: "charts", scales: ["x", null], filters: { pub: isMove } },
        points: { size: 6 },
      },
      legend: { markers: { width: 0, fill: (_, at) => this.drawn[at - 1].curve.colour } },
      hooks: {
        setSeries: [(_, at, { show }) => this.toggled(at, show)],
        draw: [(plot) => this.drawMarks(plot)],
      },
    };
  }

  axis(more, isY = false) {
    const line = { stroke: colourOf("--line"), width: 1 };
    return {
      stroke: colourOf("--quiet"),
      font: "11px system-ui, sans-serif",
      grid: line,
      ticks: { ...line, size: 4 },
      space: isY ? 30 : 60,
      size: isY ? widthOfAxis : 28,
      values: (_, marks) => textsOf(marks),
      ...more,
    };
  }

  series({ curve, ys, faint }) {
    const only = ys.length === 1 || (curve.dots && ys.length <= MOST_DOTS);
    return {
      label: curve.label || this.spec.title,
      class: faint ? "faint" : "clear",
      stroke: faint ? `${curve.colour}44` : curve.colour,
      width: faint ? 1 : 1.6,
      dash: curve.dashed && !faint ? [6, 4] : undefined,
      show: this.isShown(curve),
      points: { show: only && !faint, size: 5, fill: curve.colour },
      paths: this.spec.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
      value: (_, y) => exact(y),
    };
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot, named = new Set();
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colourOf("--quiet");
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const mark of this.spec.marks) {
      const [x] = pointsOf(
        { run: 0, x: [mark.iteration], t: [mark.seconds], y: [0] }, this.data, this.across)[0];
      if (x == null || x < plot.scales.x.min || x > plot.scales.x.max) continue;
      const at = Math.round(plot.valToPos(x, "x", true));
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      const wide = ctx.measureText(mark.text).width + 4;
      const fits = at + wide <= bbox.left + bbox.width;
      if (!named.has(mark.text))
        ctx.fillText(mark.text, fits ? at + 4 : at - wide, bbox.top + 11 * devicePixelRatio);
      named.add(mark.text);
    }
    ctx.restore();
  }
}

const isMove = (type) => type === "mousemove" || type === "mouseleave";
// uPlot leaves out texts of a logarithmic axis, unless `filter` keeps them
const LOG_AXIS = {
  splits: (plot, _, least, greatest) => logMarks(least, greatest),
  filter: (plot, marks) => marks,
};

function textsOf(marks) {
  const gaps = marks.slice(1).map((mark, at) => mark - marks[at]);
  const same = gaps.length && Math.max(...gaps) < 1.01 * Math.min(...gaps);
  return marks.map((mark) => (same ? tickText(mark, gaps[0]) : exact(mark)));
}

function widthOfAxis(plot, texts) {
  if (!texts) return 40;
  plot.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  const wide = Math.max(...texts.map((text) => plot.ctx.measureText(text).width));
  return Math.ceil(wide / devicePixelRatio) + 14;
}

// The place of the value of a curve that is nearest to the pointer: curves have different points.
function nearest(plot, at, place) {
  const ys = plot.data[at];
  if (at === 0 || ys[place] != null) return place;
  for (let away = 1; away < ys.length; away += 1) {
    if (ys[place - away] != null) return place - away;
    if (ys[place + away] != null) return place + away;
  }
  return place;
}
