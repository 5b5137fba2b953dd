"use strict";
// The page of a run that goes on: new lines of its journal become points and figures.

let serial = null; // of the newest page of the run, once the server has named it

// The time for people, as the server writes it.
function duration(seconds) {
  if (0 < seconds && seconds < 0.9995) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (seconds < 100) return `${Number(seconds.toPrecision(3))} s`;
  for (const [small, name, large, above] of [[1, "s", 60, "min"], [60, "min", 3600, "h"], [3600, "h", 86400, "days"]])
    if (seconds < 100 * large || large === 86400) {
      const units = Math.round(seconds / small), per = large / small;
      return `${Math.floor(units / per)} ${above} ${units % per} ${name}`;
    }
}

const grouped = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 0 });
const short = (value) => (Math.abs(value) >= 1000 ? grouped(value) : String(Number(value.toPrecision(4))));

function parsed(line) {
  try { return JSON.parse(line); } catch { return null; } // the end of a line, or damage
}

function setFigure(key, text, value, label) {
  const box = document.querySelector(`[data-figure="${CSS.escape(key)}"]`);
  if (!box) return;
  box.querySelector("strong").textContent = text;
  if (label) box.querySelector("span").textContent = label;
  box.dataset.value = value;
}

// The seconds until the last iteration, at the speed of the last 20 points; null if not known.
function secondsLeft(curve, last) {
  const count = curve ? curve.x.length : 0, first = Math.max(0, count - 21);
  if (count < 2 || !Number.isFinite(last)) return null;
  const iterations = curve.x[count - 1] - curve.x[first];
  return Math.max(0, last - curve.x[count - 1]) * (curve.t[count - 1] - curve.t[first]) / iterations;
}

function tellProgress(event) {
  const { iteration, max_iter: last, epoch, loss, images_per_second: speed } = event;
  setFigure("iterations", last > iteration ? `${grouped(iteration)} of ${grouped(last)}` : grouped(iteration), iteration);
  if (Number.isFinite(epoch)) setFigure("epoch", short(epoch), epoch);
  if (Number.isFinite(loss)) setFigure("loss", short(loss), loss);
  if (Number.isFinite(speed)) setFigure("images_per_second", short(speed), speed);
  const curve = curves().find((one) => one.key.startsWith("progress "));
  const left = secondsLeft(curve, last);
  if (left !== null) setFigure("left", duration(left), left);
}

function tellScore(name, value, iteration) {
  setFigure(`test ${name}`, short(value), value);
  const box = document.querySelector(`[data-figure="${CSS.escape(`best ${name}`)}"]`);
  const old = box ? Number(box.dataset.value) : NaN;
  if (!(name.endsWith("loss") ? value < old : value > old)) return;
  setFigure(`best ${name}`, short(value), value, `best ${name.replaceAll("_", " ")}, iteration ${grouped(iteration)}`);
}

const curves = () => data.charts.flatMap((chart) => chart.curves);

// Takes one event of the journal. Returns whether a curve has a new point.
function hear(event) {
  const isProgress = event && event.event === "progress";
  if (!isProgress && !(event && event.event === "test")) return false;
  const { t, iteration } = event;
  if (!Number.isFinite(t) || !Number.isFinite(iteration)) return false;
  const kind = event.net ? `${event.event} ${event.net}` : event.event, seconds = t + data.live.since;
  let added = false;
  for (const curve of curves()) {
    const field = curve.key.startsWith(`${kind} `) ? curve.key.slice(kind.length + 1) : null;
    if (field === null || !Number.isFinite(event[field])) continue;
    addPoint(curve, iteration, seconds, event[field]);
    added = true;
  }
  const { epochs } = data.runs[0];
  if (epochs && Number.isFinite(event.epoch) && isProgress && iteration > epochs[0][epochs[0].length - 1]) {
    epochs[0].push(iteration);
    epochs[1].push(event.epoch);
  }
  if (isProgress) tellProgress(event);
  else for (const [name, value] of Object.entries(event)) if (Number.isFinite(value)) tellScore(name, value, iteration);
  setFigure("seconds", duration(seconds), seconds);
  return added;
}

// Asks for the new lines of the journal, until all are there.
async function listen() {
  const url = new URL(location.href);
  for (let more = true, added = false; more;) {
    url.searchParams.set("from", data.live.read);
    const answer = await fetch(url, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const text = await answer.text();
    for (const line of text.split("\n")) added = hear(parsed(line)) || added;
    data.live.read = Number(answer.headers.get("Convoy-Offset"));
    more = answer.headers.get("Convoy-More") === "1";
    if (!more && added) plots.forEach((plot) => plot.update());
    const newest = answer.headers.get("Convoy-Page");
    const isNew = serial !== null && newest !== serial;
    serial = newest;
    if (isNew) await renew();
  }
}

// Takes the parts of the newest page. Open details stay open, and charts keep their settings.
async function renew() {
  const answer = await fetch(location.href, { cache: "no-store" });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const told = page.getElementById("data");
  if (!answer.ok || !told) return;
  const open = [...document.querySelectorAll("details")].map((one) => one.open);
  page.querySelectorAll("details").forEach((one, number) => { one.open = Boolean(open[number]); });
  for (const id of ["made", "overview", "details"]) at(id).replaceWith(page.getElementById(id));
  document.title = page.title;
  data = JSON.parse(told.textContent);
  setCharts();
  setHistograms(data);
  await listen();
}

// A failed request may be the last: the run is over. The page says so, and goes on asking.
async function live() {
  try {
    await listen();
    at("silent").hidden = true;
  } catch {
    at("silent").hidden = false;
  }
  setTimeout(live, 1000 * data.live.every);
}
if (data.live) live();
