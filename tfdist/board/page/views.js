// What the page shows: the list of runs, one run, several runs. Each view is made anew from the answer and the reader's
// choices; `act` has what the reader may do.

import { h } from "./dom.js";
import { COLOURS, lineChart, spark, wallTime } from "./charts.js";

const FEW_CHARTS = 12;

const name = (text, more = {}) => h("bdi", { class: "name", title: text, ...more }, text);
const pill = (state) => h("span", { class: `pill ${state.replace(/[^a-z]/g, "-")}` }, state);
const empty = (...said) => h("p", { class: "empty" }, said);
const section = (title, ...body) => h("section", { key: title }, h("h2", null, title), body);

function table(columns, rows, more = {}) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": more.label || "Table" }, h("table", null,
    h("thead", null, h("tr", null, columns.map((column) => h("th", { class: column.align, scope: "col" }, column.name)))),
    h("tbody", null, rows)));
}

export function header(state) {
  const here = state.route.view, data = state.data;
  return [
    h("a", { class: "brand", href: "#/" }, h("img", { src: "/icon.svg", alt: "", width: 24, height: 24 }), "tfdist board"),
    data?.folder && name(data.folder, { class: "name where" }),
    here !== "list" && !state.single && h("a", { class: "back", href: "#/" }, "All runs"),
    h("span", { class: `live ${state.trouble ? "lost" : data && !data.over ? "on" : ""}`, role: "status" },
      state.trouble || (data ? (!data.over ? "live" : here === "list" ? "nothing runs" : "over") : "reading")),
  ];
}

export function listView(state, act) {
  const data = state.data, chosen = state.chosen;
  if (!data.all) return [h("h1", null, "No runs yet"), empty("There is no run in this folder. ", h("code", null, "tfdist train CONFIG.yaml"), " makes one; it appears here by itself.")];
  const few = chosen.size < 2, many = chosen.size > 8;
  const rows = data.runs.map((run) => h("tr", { key: run.key, class: chosen.has(run.key) ? "chosen" : "" },
    h("td", { class: "pick" }, h("input", { type: "checkbox", checked: chosen.has(run.key), "aria-label": `Compare ${run.cells[0]}`, onchange: () => act.choose(run.key) })),
    h("td", { class: "l" }, h("a", { href: `#/run/${run.key}` }, name(run.cells[0]))),
    h("td", { class: "l" }, pill(run.state)),
    h("td", { class: "l" }, spark(run.spark.values, run.spark.name)),
    run.cells.slice(2).map((cell, place) => h("td", { class: data.columns[place + 2].align, title: cell.length > 60 ? cell : null }, h("bdi", null, cell)))));
  const [first, second, ...others] = data.columns;
  return [
    h("div", { class: "bar" },
      h("h1", null, data.all === 1 ? "1 run" : `${data.all.toLocaleString("en")} runs`),
      h("label", { class: "find" }, h("span", { class: "hidden" }, "Find by name"), h("input", { type: "search", placeholder: "Find by name", value: state.find, maxlength: 100, oninput: (event) => act.find(event.target.value) })),
      h("a", { class: `button ${few || many ? "off" : ""}`, href: few || many ? null : `#/compare/${[...chosen].join(",")}`, "aria-disabled": String(few || many) },
        many ? "At most 8 can be compared" : few ? "Choose two or more to compare" : `Compare ${chosen.size} runs`),
      chosen.size > 0 && h("button", { type: "button", class: "quiet", onclick: act.clear }, "Clear")),
    rows.length ? h("div", { class: "card listed" }, table([{ name: "", align: "l" }, first, second, { name: "loss", align: "l" }, ...others], rows, { label: "Runs" }))
      : empty(state.find ? "No run has this in its name." : "None of the runs can be read."),
    data.unreadable.map((run) => h("p", { class: "note" }, name(run.name), ` cannot be read: ${run.why}`)),
    data.note && h("p", { class: "note" }, data.note),
    (data.first > 0 || data.found > data.first + data.page) && h("nav", { class: "pages", "aria-label": "Pages" },
      h("button", { type: "button", disabled: data.first <= 0, onclick: () => act.page(data.first - data.page) }, "Newer"),
      h("span", null, `${data.first + 1} to ${Math.min(data.found, data.first + data.page)} of ${data.found}`),
      h("button", { type: "button", disabled: data.found <= data.first + data.page, onclick: () => act.page(data.first + data.page) }, "Older")),
  ];
}

/** The curves of one or more runs, those of a metric and of its validation in one chart, the loss first. */
function charts(runs, state, act) {
  const groups = new Map([["loss", []]]);
  runs.forEach((run, number) => run.series.forEach((one) => {
    const validates = one.name.startsWith("val_"), group = validates ? one.name.slice(4) : one.name;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push({
      name: runs.length > 1 ? run.name : one.name, beside: runs.length > 1 && validates ? "validation" : "", y: one.values, dashed: validates,
      x: one.places.map((place) => (state.unit === "time" ? run.seconds : run.epochs)[place]), colour: (runs.length > 1 ? number : validates ? 1 : 0) % COLOURS,
    });
  }));
  const shown = [...groups].filter(([, series]) => series.length), few = state.all ? shown : shown.slice(0, FEW_CHARTS);
  if (!shown.length) return empty("No epoch has ended yet: the curves begin after the first.");
  const unit = (value, text) => h("button", { type: "button", class: "quiet", "aria-pressed": String(state.unit === value), onclick: () => act.unit(value) }, text);
  return [
    h("div", { class: "choices", role: "group", "aria-label": "What is below the curves" }, unit("epoch", "by epoch"), unit("time", "by time since the start")),
    h("div", { class: "grid" }, few.map(([title, series]) => lineChart({ title, series, unit: state.unit, log: state.log.get(title) ?? null }, state.at, act.at,
      (event) => act.log(title, event.currentTarget.getAttribute("aria-pressed") !== "true")))),
    shown.length > few.length && h("button", { type: "button", onclick: act.all }, `Show ${shown.length - few.length} more`),
    runs.some((run) => run.more) && h("p", { class: "hint" }, "Metrics beyond the first 60 are not drawn."),
  ];
}

export function runView(state, act) {
  const run = state.data;
  return [
    h("div", { class: "bar" }, h("h1", null, name(run.name)), pill(run.state), h("span", { class: "muted" }, run.started)),
    h("p", { class: "path" }, name(run.path)),
    h("div", { class: `said ${run.state.replace(/[^a-z]/g, "-")}` }, run.said.map((line) => h("p", null, h("bdi", null, line)))),
    run.metrics.length > 0 && h("dl", { class: "tiles" }, run.metrics.slice(0, 8).map((metric) => h("div", { class: "card" },
      h("dt", null, name(metric.name)), h("dd", null, metric.value), h("dd", { class: "muted" }, metric.best || " ")))),
    run.failures.length > 0 && section("Failures", run.failures.map((failure, place) => h("details", { key: failure.title, open: place === 0 },
      h("summary", null, failure.title), h("pre", { tabindex: 0, "aria-label": failure.title }, failure.lines.join("\n"))))),
    section("Curves", charts([{ ...run.curves, name: run.name }], state, act), run.curves.said && h("p", { class: "hint" }, run.curves.said)),
    section("Workers", workers(run.workers)),
    section("Where the time went", ledger(run.ledger)),
    section("Logs", logs(run, state, act)),
  ];
}

function workers(found) {
  const most = Math.max(...found.busy, 0), busy = found.columns.findIndex((column) => column.name === "busy a step");
  const rows = found.rows.map((cells, number) => h("tr", { key: found.keys[number], class: found.unusual[number] ? "unusual" : "" },
    cells.map((cell, place) => h("td", { class: found.columns[place].align },
      place === 3 ? pill(cell) : place === busy && most ? [h("i", { class: "busy", style: { width: `${Math.round((60 * found.busy[number]) / most)}px` } }), cell]
        : place === cells.length - 1 ? h("bdi", null, [found.slowest === found.keys[number] && "slowest", cell].filter(Boolean).join("; ")) : h("bdi", null, cell)))));
  return [
    rows.length > 0 && h("div", { class: "card" }, table(found.columns, rows, { label: "Workers" })),
    found.more > 0 && h("p", { class: "hint" }, `and ${found.more.toLocaleString("en")} faster workers`),
    found.notes.map((note) => h("p", { class: "note" }, h("bdi", null, note))),
  ];
}

function ledger(found) {
  if (found.error) return empty(found.error);
  const text = (...names) => names.map((each) => ({ name: each, align: "r" }));
  const [first, ...others] = found.said;
  const cells = (rows, words) => rows.map((row, place) => h("tr", { key: place }, row.map((cell, number) => h("td", { class: words && number === row.length - 1 ? "l" : "r" }, h("bdi", null, cell)))));
  return h("div", { class: "card ledger" },
    h("p", { class: "goodput" }, h("b", null, found.goodput), " goodput"),
    h("p", null, first.replace(/^goodput [^:]*: /, "")), others.map((line) => h("p", null, line)),
    wallTime(found.kinds, found.columns),
    h("p", { class: "hint" }, `The bar is the whole wall time, ${found.wall}; each column below it is a slice of the run.`),
    h("div", { class: "parts" }, table([{ name: "", align: "l" }, ...text("time", "share")], found.kinds.filter((kind) => kind.time !== "0:00.0").map((kind) => h("tr", { key: kind.label },
      h("td", { class: "l" }, h("i", { class: "key block", style: { background: kind.hatched ? "repeating-linear-gradient(135deg, #d55e00 0 4px, var(--surface) 4px 7px)" : kind.colour } }), kind.label),
      h("td", { class: "r" }, kind.time), h("td", { class: "r" }, kind.percent))), { label: "Where the time went" }),
    h("div", null, found.attempts.length > 0 && [h("h3", null, "Attempts"), table([...text("attempt", "started", "wall time", "goodput", "steps"), { name: "how it ended", align: "l" }], cells(found.attempts, true), { label: "Attempts" })],
    found.recoveries.length > 0 && [h("h3", null, "Restarts: seconds from the notice of a failure to the first step after it"), table(text(...found.parts), cells(found.recoveries), { label: "Restarts" })])));
}

function logs(run, state, act) {
  if (!run.logs.length) return empty("No worker has left a log here; other machines may have run directories of their own.");
  const log = state.log_text, chosen = act.log_of(run);
  return [
    h("div", { class: "choices" },
      h("label", null, "Log of ", h("select", { value: chosen.join("."), onchange: (event) => act.choose_log(event.target.value) },
        run.logs.map(([worker, attempt]) => h("option", { key: `${worker}.${attempt}`, value: `${worker}.${attempt}`, selected: `${worker}.${attempt}` === chosen.join(".") }, `worker ${worker}, attempt ${attempt}`)))),
      h("label", null, h("input", { type: "checkbox", checked: state.tf, onchange: (event) => act.tf(event.target.checked) }), " lines of TensorFlow itself")),
    !log ? empty("Reading the log.") : log.error ? empty(log.error) : [
      h("pre", { class: "log", tabindex: 0, "aria-label": log.name, key: log.name }, log.lines.length ? log.lines.join("\n") : "Nothing is in it yet."),
      h("p", { class: "hint" }, `${log.name}, ${log.size}${log.cut ? "; its end alone is shown" : ""}${log.hidden ? `; ${log.hidden} lines of TensorFlow are hidden` : ""}`)],
  ];
}

export function compareView(state, act) {
  const { runs, facts, metrics, settings } = state.data;
  const heading = h("tr", { key: "heading" }, h("td", null), runs.map((run, number) => h("th", { class: "l", scope: "col" },
    h("i", { class: `key c${number % COLOURS}` }), h("a", { href: `#/run/${run.key}` }, name(run.name)))));
  const rows = (found) => [heading, found.map((row, place) => h("tr", { key: place }, h("th", { class: "l", scope: "row" }, name(row.label)),
    row.cells.map((cell, number) => h("td", { class: row.best.includes(number) ? "l best" : "l", title: cell }, h("bdi", null, cell)))))];
  const card = (found, label) => h("div", { class: "card compared" }, table([], rows(found), { label }));
  return [
    h("div", { class: "bar" }, h("h1", null, `${runs.length} runs compared`)),
    section("Curves", charts(runs, state, act)),
    section("How they ended", card(facts, "How they ended")),
    section("Metrics", metrics.length ? [card(metrics, "Metrics"), h("p", { class: "hint" }, "The best value of a row is bold, where the metric's name says which way is better.")] : empty("No epoch has ended yet.")),
    section("Where their configs differ", settings.length ? card(settings, "Configs") : empty(state.data.has_configs < 2
      ? "Fewer than two of them have a config: a script's settings are in the script." : "They do not: all settings are the same.")),
  ];
}
