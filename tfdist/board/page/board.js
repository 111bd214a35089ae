// The page: which view the address asks for, what it was answered, and when to ask again.

import { patch } from "./dom.js";
import { compareView, header, listView, runView } from "./views.js";

const LIVE_MS = 2000, OVER_MS = 5000, MOST_WAIT_MS = 10000;

const state = {
  route: { view: "list" }, data: null, error: "", trouble: "", single: false, chosen: new Set(), find: "", first: 0,
  unit: "epoch", log: new Map(), at: null, all: false, log_choice: null, log_text: null, tf: false,
};
let round = 0, timer = 0, failed = 0;

const act = {
  choose(key) { state.chosen.has(key) ? state.chosen.delete(key) : state.chosen.add(key); draw(); },
  clear() { state.chosen.clear(); draw(); },
  find(text) { state.find = text; state.first = 0; clearTimeout(timer); timer = setTimeout(refresh, 250); },
  page(first) { state.first = Math.max(0, first); refresh(); },
  unit(unit) { state.unit = unit; state.at = null; draw(); },
  log(title, log) { state.log.set(title, log); draw(); },
  at(place) { if (state.at !== place) { state.at = place; draw(); } },
  all() { state.all = true; draw(); },
  tf(shown) { state.tf = shown; refresh(); },
  choose_log(choice) { state.log_choice = choice.split(".").map(Number); state.log_text = null; draw(); refresh(); },
  log_of(run) { return run.logs.find((log) => log.join() === state.log_choice?.join()) || run.logs[0]; },
};

function draw() {
  const main = document.getElementById("main"), pre = main.querySelector("pre.log");
  const follows = !pre || pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 30;
  patch(document.getElementById("top"), header(state).flat().filter(Boolean).map(asChild));
  if (state.error) patch(main, [asChild(said(state.error))]);
  else if (state.data) {
    const view = { list: listView, run: runView, compare: compareView }[state.route.view];
    patch(main, view(state, act).flat(Infinity).filter(Boolean).map(asChild));
  }
  const log = main.querySelector("pre.log");
  if (log && follows) log.scrollTop = log.scrollHeight;
  const named = state.data && (state.route.view === "run" ? `${state.data.state}: ${state.data.name}` : state.route.view === "compare" ? "comparison" : "runs");
  document.title = named ? `${named} - tfdist board` : "tfdist board";
}

const asChild = (child) => (child.tag ? child : String(child));
const said = (text) => ({ tag: "p", props: { class: "empty" }, children: [text] });

async function ask(path, values) {
  const answer = await fetch(`${path}?${new URLSearchParams(values)}`, { cache: "no-store" });
  if (answer.status === 403) throw new Error("This board has begun anew, or another has its port: open the address that `tfdist board` has printed.");
  const content = await answer.json().catch(() => ({}));
  return answer.ok || content.error ? content : Promise.reject(new Error(`The board answered with ${answer.status}; its terminal says why.`));
}

async function look() {
  const { view, keys } = state.route;
  if (view === "list") return ask("/api/runs", { find: state.find, first: state.first });
  if (view === "compare") return ask("/api/compare", keys.map((key) => ["run", key]));
  const run = await ask("/api/run", { run: keys[0] });
  if (!run.error && run.logs.length) {
    const [worker, attempt] = act.log_of(run);
    state.log_text = await ask("/api/log", { run: keys[0], worker, attempt, tf: state.tf ? 1 : 0 });
  }
  return run;
}

/** Asks now, and again after a while; what an earlier call answers later is left out. */
async function refresh() {
  const mine = ++round;
  clearTimeout(timer);
  let wait = OVER_MS;
  try {
    const data = await look();
    if (mine !== round) return;
    failed = 0;
    state.trouble = "";
    state.error = data.error || "";
    state.data = data.error ? state.data : data;
    if (data.single && !state.single) { state.single = true; location.replace(`#/run/${data.runs[0]?.key ?? ""}`); return; }
    wait = data.error || data.over ? OVER_MS : LIVE_MS;
  } catch (error) {
    if (mine !== round) return;
    failed += 1;
    state.trouble = error instanceof TypeError ? "no answer: the board has ended, or the tunnel to it" : error.message;
    wait = Math.min(MOST_WAIT_MS, LIVE_MS * failed);
  }
  draw();
  if (!document.hidden) timer = setTimeout(refresh, wait);
}

function route() {
  const [, view, keys] = location.hash.match(/^#\/(run|compare)\/([0-9a-f,]+)$/) || [];
  state.route = { view: view || "list", keys: keys ? keys.split(",") : [] };
  Object.assign(state, { data: null, error: "", at: null, all: false, log_choice: null, log_text: null });
  window.scrollTo(0, 0);
  refresh();
}

// The token has become a cookie: it need not stay in the address.
if (location.search) history.replaceState(null, "", `/${location.hash}`);
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
route();
