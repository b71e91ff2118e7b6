// The page: one montage is shown at a time, and one electrode is looked at.

const selection = JSON.parse(byId("selection").textContent);
const { source, sensors, montages, recommended } = selection;
const byCount = new Map(montages.map((montage) => [montage.n_sensors, montage]));
const sensorNamed = new Map(sensors.map((sensor) => [sensor.name, sensor]));
const intervalText = makeIntervalText(montages);
const state = { montage: byCount.get(recommended.n_sensors), sensor: null };
const timers = {};

writeAnswer();
writeSure();
fillSubjects(selection.by_subject);
const markRow = makeMontageTable(selection, intervalText);
const head = makeHead(sensors, look);
const curve = makeCurve(selection, choose);
const traces = makeTraces(selection);
const markPath = makePath(selection.path);
makeSlider();
makeCopyButton(byId("copy-recommended"), byId("recommended-names"));
makeCopyButton(byId("copy"), byId("names"));
makeTheme();
makePrint();
addEventListener("hashchange", fromHash);
if (!fromHash()) show(state.montage);
look(state.montage.sensors[0]);

/** Show the montage whose number of electrodes is nearest to `n`. */
function choose(n) {
  const montage = montages.reduce((best, m) => (Math.abs(m.n_sensors - n) < Math.abs(best.n_sensors - n) ? m : best));
  if (montage !== state.montage) show(montage);
  else byId("k").value = montage.n_sensors;
}

function show(montage) {
  state.montage = montage;
  const { n_sensors: n, drop } = montage;
  const interval = intervalText(montage);
  byId("k").value = n;
  set(byId("k"), { "aria-valuetext": `${count(n, "electrode")}, AUC ${aucText(montage.auc)}` });
  byId("n-sensors").textContent = n;
  byId("auc").textContent = aucText(montage.auc);
  byId("interval").textContent = interval;
  byId("drop-sensor").textContent = drop ? drop.sensor : DASH;
  byId("drop-change").textContent = drop ? `AUC ${changeText(drop.auc_change)}` : "nothing left to drop";
  byId("names").textContent = montage.sensors.join(", ");
  // not `disabled`, which would take the focus away from a reader who has just pressed it
  set(byId("fewer"), { "aria-disabled": String(montage === montages[0]) });
  set(byId("more"), { "aria-disabled": String(montage === montages.at(-1)) });
  set(byId("return"), { "aria-pressed": String(n === recommended.n_sensors) });
  const weights = new Map(montage.sensors.map((name) => [name, norm(montage.weights[name])]));
  head.show(weights, (name) => describe(name, weights));
  if (state.sensor) byId("looking").textContent = describe(state.sensor, weights);
  curve.show(montage);
  traces.show(montage);
  markRow(montage);
  markPath(montage);
  later("live", 250, () => (byId("live").textContent = `${count(n, "electrode")}: AUC ${aucText(montage.auc)} ${interval}. ${drop ? `Dropping ${dropText(drop)}.` : ""}`));
  later("hash", 250, () => history.replaceState(null, "", `#k=${n}`));
}

function look(name) {
  state.sensor = name;
  head.look(name);
  traces.look(name);
  byId("looking").textContent = describe(name, new Map(state.montage.sensors.map((s) => [s, norm(state.montage.weights[s])])));
}

/** "Pz: number 1 of 8, 23 % of the weight, stability 98 %" */
function describe(name, weights) {
  const sensor = sensorNamed.get(name);
  const rank = [...weights.keys()].indexOf(name) + 1;
  const total = [...weights.values()].reduce((a, b) => a + b, 0) || 1;
  const parts = rank ? [`number ${rank} of ${weights.size}`, `${percent(weights.get(name) / total)} of the weight`] : ["left out"];
  if (sensor.keep) parts.push("always kept");
  if (sensor.forbid) parts.push("not allowed");
  if (sensor.stability !== null) parts.push(`stability ${percent(sensor.stability)}`);
  return `${name}: ${parts.join(", ")}`;
}

/** Once things have settled: a slider on its way should neither chatter nor fill the history. */
function later(name, delay, action) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(action, delay);
}

function writeAnswer() {
  const best = state.montage;
  const whole = montages.at(-1);
  const rest = whole === best ? "" : `; ${whole.n_sensors === sensors.length ? "the whole cap" : `all ${whole.n_sensors} allowed`} ${aucText(whole.auc)}`;
  byId("recordings").textContent = `Which electrodes do I need? ${source.recordings.join(", ")}`;
  byId("answer").replaceChildren(make("strong", {}, `${best.n_sensors} of ${sensors.length} electrodes`), `: AUC ${aucText(best.auc)} ${intervalText(best)}${rest}`);
  byId("reason").textContent = recommended.reason;
  byId("recommended-names").textContent = best.sensors.join(", ");
  byId("n-all").textContent = `of ${sensors.length}`;
  byId("optimistic").hidden = !source.optimistic;
  byId("optimistic").textContent = source.optimistic ?? "";
}

function writeSure() {
  const { stability } = selection;
  byId("stability").textContent = stability
    ? `${stability.statement} Chosen in at least ${percent(stability.threshold)} of ${stability.n_resamplings} resamplings: ${stability.selected.join(", ") || "none"}.`
    : "Stability was not computed for this selection.";
  byId("scoring").textContent = `AUC by nested cross-validation, ${source.folds.count} folds by ${source.folds.by}: nothing about a test fold was used in choosing. Intervals are at 95 %, corrected for overlapping training sets (Nadeau and Bengio).`;
  byId("source").textContent = `${source.recordings.join(", ")}; ${count(source.subjects.length, "subject")}; ${source.n_trials} trials, ${source.n_targets} of them ${source.classes[1]}; ${source.preparation}. Made by mixnorm.`;
}

function makeSlider() {
  const slider = byId("k");
  const [fewest, most] = [montages[0].n_sensors, montages.at(-1).n_sensors];
  set(slider, { min: fewest, max: most });
  slider.addEventListener("input", () => choose(Number(slider.value)));
  const step = (by) => show(montages[montages.indexOf(state.montage) + by] ?? state.montage);
  byId("fewer").addEventListener("click", () => step(-1));
  byId("more").addEventListener("click", () => step(1));
  byId("return").textContent = `Recommended: ${recommended.n_sensors}`;
  byId("return").addEventListener("click", () => choose(recommended.n_sensors));
  byId("mark").style.setProperty("--at", (recommended.n_sensors - fewest) / (most - fewest || 1));
}

function makePath(path) {
  byId("path").hidden = !path;
  if (!path) return () => {};
  const reached = (n) => path.n_selected.findIndex((selected) => selected >= n);
  let mark = () => {};
  onWidth(byId("path-plot"), (width) => {
    const drawn = drawPath(path, width);
    byId("path-plot").replaceChildren(drawn.svg);
    mark = drawn.mark;
    mark(reached(state.montage.n_sensors));
  });
  return ({ n_sensors }) => {
    const at = reached(n_sensors);
    mark(at);
    byId("path-text").textContent = at < 0
      ? `The path ends at alpha = ${plain(path.alphas.at(-1))} with ${count(path.n_selected.at(-1), "electrode")}.`
      : `Loosening the penalty, the path first takes in ${n_sensors} or more electrodes at alpha = ${plain(path.alphas[at])} (${path.n_selected[at]} of them, AUC ${aucText(path.auc?.[at])}).`;
  };
}

function drawPath(path, width) {
  const [height, left, right, top, bottom] = [150, 38, 14, 10, 36];
  const svg = canvas(width, height, { role: "img", "aria-label": "Electrodes taken in along the path of alphas" });
  const x = logarithmic(path.alphas[0], path.alphas.at(-1), left, width - right);
  const most = Math.max(1, ...path.n_selected);
  const y = linear(0, most, height - bottom, top);
  const powers = multiples(Math.log10(path.alphas.at(-1)), Math.log10(path.alphas[0]), 1).map((power) => 10 ** power);
  const steps = path.alphas.flatMap((alpha, i) => (i ? [[x(alpha), y(path.n_selected[i - 1])], [x(alpha), y(path.n_selected[i])]] : [[x(alpha), y(path.n_selected[i])]]));
  const dot = draw("circle", { class: "here-dot", r: 6 });
  svg.append(
    valueAxis(multiples(0, most, Math.max(1, niceStep(most, 4))), y, left, width - right, String),
    baseAxis(powers, x, height - bottom, plain),
    label((left + width - right) / 2, height - 4, "alpha, the strength of the penalty", { "text-anchor": "middle", class: "axis-name" }),
    line(steps, { class: "trace weight" }),
    dot,
  );
  const mark = (at) => set(dot, at < 0 ? { visibility: "hidden" } : { visibility: null, cx: x(path.alphas[at]), cy: y(path.n_selected[at]) });
  return { svg, mark };
}

function makeTheme() {
  const button = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  const name = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
}

/** On paper: the recommended montage, whatever is on the screen. */
function makePrint() {
  let before = null;
  addEventListener("beforeprint", () => {
    before = state.montage;
    choose(recommended.n_sensors);
  });
  addEventListener("afterprint", () => before && choose(before.n_sensors));
}

function fromHash() {
  const n = Number(/^#k=(\d+)$/.exec(location.hash)?.[1]);
  if (!n) return false;
  const montage = montages.reduce((best, m) => (Math.abs(m.n_sensors - n) < Math.abs(best.n_sensors - n) ? m : best));
  show(montage);
  return true;
}
