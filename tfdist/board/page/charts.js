// Charts as SVG: curves with a readout, sparklines, and the shares of a run's wall time.

import { h } from "./dom.js";

const W = 480, H = 210, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 26;
const LOGARITHMIC_FROM = 50; // as the picture of `tfdist ledger` has it

export const COLOURS = 8;

/** A number in four digits, as the tables have it. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(4));
  return size && (size < 1e-4 || size >= 1e6) ? rounded.toExponential() : String(rounded);
}

/** Seconds as `45 s`, `12 min`, `3.5 h`. */
export function clock(seconds) {
  if (seconds < 120) return `${short(seconds)} s`;
  return seconds < 7200 ? `${short(seconds / 60)} min` : `${short(seconds / 3600)} h`;
}

function steps(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const marks = [];
  for (let mark = Math.ceil(low / step); mark * step <= high * (1 + 1e-9) && marks.length < 20; mark++) marks.push(mark * step);
  return marks;
}

function scale(values, wantsLog) {
  let low = Math.min(...values), high = Math.max(...values);
  const log = low > 0 && (wantsLog ?? high / low > LOGARITHMIC_FROM);
  const of = log ? Math.log10 : (value) => value;
  const pad = (of(high) - of(low)) * 0.06 || Math.abs(of(high)) * 0.1 || 1;
  const from = of(low) - pad, to = of(high) + pad;
  const marks = log ? powers(from, to) : steps(from, to, 4);
  return { log, marks, y: (value) => TOP + (H - TOP - BOTTOM) * (1 - (of(value) - from) / (to - from)) };
}

function powers(from, to) {
  const factors = to - from < 1.5 ? [1, 2, 5] : [1], marks = [];
  const every = Math.max(1, Math.ceil((to - from) / 5));
  for (let power = Math.floor(from); power <= to; power += every)
    for (const factor of factors) if (Math.log10(factor) + power >= from && Math.log10(factor) + power <= to) marks.push(factor * 10 ** power);
  return marks;
}

/** Where the curve is unbroken: a value that is no number breaks it, and so does a second `fit`, which counts anew. */
function path(series, x, y) {
  let line = "", last = null;
  const alone = [];
  series.x.forEach((at, place) => {
    const value = series.y[place] ?? null, joins = last !== null && at > last;
    if (value === null || at === null) { last = null; return; }
    if (!joins && (series.y[place + 1] ?? null) === null) alone.push([x(at), y(value)]);
    line += `${joins ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    last = at;
  });
  return { line, alone };
}

/**
 * A chart of curves.
 *
 * chart: title, unit ("epoch" or "time"), series of {name, x, y, colour (0 to 7), dashed}, log (true, false, null for
 * as it fits); at: the place under the pointer on the x axis, or null; move: called with another one; toggle: called to
 * change `log`.
 */
export function lineChart(chart, at, move, toggle) {
  const values = chart.series.flatMap((one) => one.y.filter((value) => value !== null));
  const places = [...new Set(chart.series.flatMap((one) => one.x.filter((place) => place !== null)))].sort((a, b) => a - b);
  const missing = chart.series.some((one) => one.y.includes(null));
  const head = (body, scaled) => h("figure", { class: "card chart" }, h("figcaption", null, h("bdi", { class: "name", title: chart.title }, chart.title),
    scaled && h("button", { class: "quiet", type: "button", onclick: toggle, "aria-pressed": String(scaled.log),
      "aria-label": `Logarithmic scale of ${chart.title}` }, "log")), body);
  if (!values.length || !places.length) return head(h("p", { class: "empty" }, "No finite number in any epoch."));
  const first = places[0], last = places[places.length - 1], scaled = scale(values, chart.log);
  const x = (place) => LEFT + (last > first ? ((place - first) / (last - first)) * (W - LEFT - RIGHT) : (W - LEFT - RIGHT) / 2);
  const nearest = at === null ? null : places.reduce((best, place) => (Math.abs(place - at) < Math.abs(best - at) ? place : best));
  const said = (place) => (chart.unit === "time" ? clock(place) : `epoch ${place}`);
  const curves = chart.series.map((one) => {
    const { line, alone } = path(one, x, scaled.y);
    return h("g", { class: `curve c${one.colour}${one.dashed ? " dashed" : ""}` }, h("path", { d: line, "vector-effect": "non-scaling-stroke" }),
      alone.map(([left, top]) => h("circle", { cx: left, cy: top, r: 3 })));
  });
  const read = (one) => { // the value at the pointer, or the last one
    const place = nearest === null ? one.y.length - 1 : one.x.indexOf(nearest);
    return place < 0 ? null : one.y[place];
  };
  const dots = nearest === null ? [] : chart.series.map((one) => [one, read(one)]).filter(([, value]) => value !== null && value !== undefined)
    .map(([one, value]) => h("circle", { class: `dot c${one.colour}`, cx: x(nearest), cy: scaled.y(value), r: 4 }));
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT);
    move(first + Math.min(1, Math.max(0, part)) * (last - first));
  };
  const step = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") move(null);
    if (by === undefined) return;
    event.preventDefault();
    const now = nearest === null ? (by > 0 ? -1 : places.length) : places.indexOf(nearest);
    move(places[Math.min(places.length - 1, Math.max(0, now + by))]);
  };
  const marks = chart.unit === "time" ? steps(first, last, 4) : steps(first, last, 6).filter(Number.isInteger);
  return head([
    h("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", tabindex: 0, "aria-label": `${chart.title}: ${chart.series.map((one) => `${one.name} ${one.beside || ""} ${short(read(one))}`).join(", ")}. Arrow keys read the values.`,
      onpointermove: point, onpointerleave: () => move(null), onkeydown: step, onblur: () => move(null) },
      scaled.marks.map((mark) => h("g", { class: "mark" }, h("path", { d: `M${LEFT} ${scaled.y(mark).toFixed(1)}H${W - RIGHT}` }),
        h("text", { x: LEFT - 8, y: scaled.y(mark) + 4, "text-anchor": "end" }, short(mark)))),
      (marks.length ? marks : [first]).map((mark) => h("text", { x: x(mark), y: H - 8, "text-anchor": "middle" }, chart.unit === "time" ? clock(mark) : short(mark))),
      nearest !== null && h("path", { class: "cross", d: `M${x(nearest).toFixed(1)} ${TOP}V${H - BOTTOM}` }), curves, dots),
    h("p", { class: "legend", "aria-live": at === null ? "off" : "polite" },
      h("span", { class: "at" }, nearest === null ? `last${chart.unit === "time" ? "" : ` epoch ${last}`}` : said(nearest)),
      chart.series.map((one) => h("span", { class: "item" }, h("i", { class: `key c${one.colour}${one.dashed ? " dashed" : ""}` }),
        h("bdi", { class: "name", title: one.name }, one.name),
        one.beside && h("span", { class: "muted" }, one.beside), h("b", null, short(read(one)))))),
    missing && h("p", { class: "hint" }, "A gap is an epoch without a finite number."),
  ], scaled);
}

/** A small curve for a row of a table. */
export function spark(values, name) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return h("span", { class: "muted" }, "");
  const low = Math.min(...known), high = Math.max(...known);
  const line = path({ x: values.map((_, place) => place), y: values }, (place) => 2 + (place / (values.length - 1)) * 86,
    (value) => (high > low ? 2 + (1 - (value - low) / (high - low)) * 20 : 12)).line;
  return h("svg", { class: "spark", viewBox: "0 0 90 24", role: "img", "aria-label": `${name} from ${short(known[0])} to ${short(known[known.length - 1])}` },
    h("path", { d: line }));
}

const fill = (kind) => ({ fill: kind.hatched ? "url(#hatch)" : kind.colour });

function hatch() {
  return h("defs", null, h("pattern", { id: "hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    h("rect", { width: 8, height: 8, style: { fill: "#d55e00" } }), h("path", { d: "M0 0V8", style: { stroke: "var(--surface)", "stroke-width": "3" } })));
}

/** The wall time as one bar, above its slices over the course of the run; `kinds` as the answer has them. */
export function wallTime(kinds, columns) {
  let left = 0;
  const bar = kinds.map((kind) => {
    const begun = left;
    left += kind.share * 960;
    return kind.share > 0 && h("rect", { x: begun.toFixed(2), y: 0, width: (kind.share * 960).toFixed(2), height: 30, style: fill(kind) },
      h("title", null, `${kind.label}: ${kind.percent}`));
  });
  const width = 960 / Math.max(1, columns.length);
  const slices = columns.map((shares, place) => {
    let top = 170;
    return shares.map((share, number) => {
      if (!share) return null;
      top -= share * 120;
      return h("rect", { x: (place * width).toFixed(2), y: top.toFixed(2), width: width.toFixed(2), height: (share * 120).toFixed(2),
        "shape-rendering": "crispEdges", style: fill(kinds[number]) }, h("title", null, kinds[number].label));
    });
  });
  const spoken = kinds.filter((kind) => kind.share > 0).map((kind) => `${kind.label} ${kind.percent}`).join(", ");
  return h("svg", { class: "wall", viewBox: "0 0 960 172", role: "img", "aria-label": `Shares of the wall time: ${spoken}` }, hatch(), bar, slices);
}
