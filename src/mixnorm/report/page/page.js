// The page: one montage is shown at a time, and one electrode in detail.

const selection = JSON.parse(byId("selection").textContent);
const { source, sensors, montages, recommended } = selection;
const sensorNamed = new Map(sensors.map((sensor) => [sensor.name, sensor]));
const intervalText = makeIntervalText(montages);
// what the montage put forward is called in marks: "recommended", "asked for", …
const { label: mark } = document.body.dataset;
const chosen = nearest(recommended.n_sensors);
const state = { montage: chosen, weights: new Map(), sensor: chosen.sensors[0] };
const timers = {};

writeAnswer();
writeSure();
fillSubjects(selection.by_subject);
fillLetters(selection);
const markRow = makeMontageTable(selection, mark, intervalText);
const markPath = makePath(selection.path);
const head = makeHead(sensors, look);
const curve = makeCurve(selection, mark, choose);
const markGain = makeGains(montages);
const traces = makeTraces(selection);
const when = makeWhen(selection);
makeSlider();
makeCopyButton(byId("copy-recommended"), byId("recommended-names"));
makeCopyButton(byId("copy"), byId("names"));
makeCopyButton(byId("copy-decoder"), byId("decoder-code"));
makeTheme();
// from the event: the address may have been overwritten by the previous montage
addEventListener("hashchange", (event) => show(fromHash(new URL(event.newURL).hash)));
show(fromHash(location.hash));
look(state.montage.sensors[0]);

function nearest(n) {
  const far = (montage) => Math.abs(montage.n_sensors - n);
  return montages.reduce((found, montage) => (far(montage) < far(found) ? montage : found));
}

/** Show the montage whose number of electrodes is nearest to `n`. */
function choose(n) {
  show(nearest(n));
}

function fromHash(hash) {
  const asked = /^#k=(\d+)$/.exec(hash);
  return asked ? nearest(Number(asked[1])) : chosen;
}

function show(montage) {
  state.montage = montage;
  state.weights = new Map(montage.sensors.map((name) => [name, norm(montage.weights[name])]));
  writeFigures(montage);
  head.show(state.weights, describe);
  byId("looking").textContent = describe(state.sensor);
  curve.show(montage);
  traces.show(montage);
  when.show(montage);
  markRow(montage);
  markPath(montage);
  markGain(montage);
  later("live", () => (byId("live").textContent = spoken(montage)));
  later("hash", () => history.replaceState(null, "", `#k=${montage.n_sensors}`));
}

function writeFigures(montage) {
  const { n_sensors: n, drop } = montage;
  const slider = byId("k");
  slider.value = n;
  set(slider, { "aria-valuetext": `${count(n, "electrode")}, AUC ${aucText(montage.auc)}` });
  byId("n-sensors").textContent = n;
  byId("auc").textContent = aucText(montage.auc);
  byId("interval").textContent = intervalText(montage);
  byId("drop-sensor").textContent = drop ? drop.sensor : DASH;
  byId("drop-change").textContent = drop
    ? `without it: AUC ${changeText(drop.auc_change, drop.standard_error)}`
    : "the only electrode";
  const next = montages[montages.indexOf(montage) + 1]?.drop;
  byId("next-sensor").textContent = next ? next.sensor : DASH;
  byId("next-gain").textContent = next ? `with it: AUC ${gainText(next)}` : "there is no other";
  byId("all-gain").textContent =
    montage === montages.at(-1) ? "this montage" : `AUC ${changeText(montage.below_all, montage.below_all_error)}`;
  writeDecoder(montage);
  byId("names").textContent = montage.sensors.join(", ");
  // not `disabled`, which would take the focus away from a button that was just pressed
  set(byId("fewer"), { "aria-disabled": String(montage === montages[0]) });
  set(byId("more"), { "aria-disabled": String(montage === montages.at(-1)) });
  set(byId("return"), { "aria-pressed": String(montage === chosen) });
}

/** Where the decoder of a montage is or, if none was made, the command that makes it. */
function writeDecoder({ n_sensors: n, decoder }) {
  const { command } = selection;
  byId("decoder").hidden = !decoder && !command;
  byId("decoder-text").textContent = decoder ? "Decoder of this montage:" : "To get the decoder of this montage:";
  byId("decoder-code").textContent = decoder ?? `${command} --sensors ${n} --out electrodes-${n}`;
}

function look(name) {
  state.sensor = name;
  head.look(name);
  traces.look(name);
  when.look(name);
  byId("looking").textContent = describe(name);
}

/** "Pz: rank 1 of 8, 23 % of the weight, stability 98 %" */
function describe(name) {
  const { keep, forbid, stability } = sensorNamed.get(name);
  const rank = [...state.weights.keys()].indexOf(name) + 1;
  const total = [...state.weights.values()].reduce((a, b) => a + b, 0) || 1;
  const parts = rank ? [`rank ${rank} of ${state.weights.size}`] : ["not chosen"];
  if (rank) parts.push(`${percent(state.weights.get(name) / total)} of the weight`);
  if (keep) parts.push("always kept");
  if (forbid) parts.push("forbidden");
  if (stability !== null) parts.push(`stability ${percent(stability)}`);
  return `${name}: ${parts.join(", ")}`;
}

/** ".903 [.88, .92]", or the score alone where there is no interval. */
function scoreWithInterval(montage) {
  return `${aucText(montage.auc)} ${intervalText(montage)}`.trim();
}

function spoken(montage) {
  const score = `${count(montage.n_sensors, "electrode")}: AUC ${scoreWithInterval(montage)}.`;
  const { drop } = montage;
  return drop ? `${score} Least important: ${drop.sensor}: ${changeText(drop.auc_change)}.` : score;
}

/** Wait until the slider rests: screen readers and the browser history should not get every step. */
function later(name, action) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(action, 250);
}

function writeAnswer() {
  const whole = montages.at(-1);
  const all = whole.n_sensors === sensors.length ? "all electrodes" : `all ${whole.n_sensors} allowed electrodes`;
  const rest = whole === chosen ? "" : `; ${all}: ${aucText(whole.auc)}`;
  byId("recordings").textContent = `Which electrodes do I need? ${firstFew(source.recordings)}`;
  const asked = recommended.verdict === "asked" ? ", as asked for" : "";
  const few = `${chosen.n_sensors} of ${count(sensors.length, "electrode")}${asked}`;
  const score = `: AUC ${scoreWithInterval(chosen)}${rest}`;
  if (recommended.verdict === "unsure") {
    // the headline is in the page already, and says that no montage is recommended
    byId("answer").after(byId("caution"));
    const which = `${capital(mark)}: ${chosen.sensors.join(", ")} (${few}${score}).`;
    byId("reason").textContent = `${which} ${recommended.reason}`;
  } else {
    byId("answer").replaceChildren(make("strong", {}, few), score);
    byId("reason").textContent = recommended.reason;
  }
  writeWarning("caution", recommended.caution);
  byId("recommended-names").textContent = chosen.sensors.join(", ");
  byId("n-all").textContent = `of ${sensors.length}`;
  byId("trade").textContent = recommended.verdict === "unsure" ? "" : recommended.trade ?? "";
  byId("all-head").textContent = `All ${whole.n_sensors}${whole.n_sensors === sensors.length ? "" : " allowed"}`;
  byId("all-auc").textContent = aucText(whole.auc);
  writeWarning("one-subject", source.one_subject);
  writeWarning("optimistic", source.optimistic);
}

function writeWarning(id, sentence) {
  byId(id).hidden = !sentence;
  byId(id).textContent = sentence ?? "";
}

function writeSure() {
  const { stability } = selection;
  const { by } = source.folds;
  const folds = count(source.folds.count, "fold");
  byId("stability").textContent = stability
    ? `Stability selection: ${stability.selected.join(", ") || "no electrode"}. ${stability.statement}`
    : "Stability selection was turned off.";
  byId("scoring").textContent =
    `AUC by nested cross-validation, ${folds} by ${by}: electrodes and classifier were chosen without the ` +
    "held-out fold. The intervals have a level of 95 %, corrected for overlapping training sets (Nadeau and Bengio 2003)." +
    (chosen.high - chosen.low > 0.5 ? ` With ${folds} they are too wide to be useful.` : "");
  byId("source").textContent =
    `${source.recordings.join(", ")}; ${count(source.subjects.length, "subject")}; ${count(source.n_trials, "trial")}, ` +
    `${source.n_targets} of them of class ${source.classes[1]}; ${source.preparation}. Created by mixnorm.`;
}

function makeSlider() {
  const slider = byId("k");
  const [fewest, most] = [montages[0].n_sensors, montages.at(-1).n_sensors];
  const step = (by) => show(montages[montages.indexOf(state.montage) + by] ?? state.montage);
  set(slider, { min: fewest, max: most });
  slider.addEventListener("input", () => choose(Number(slider.value)));
  byId("fewer").addEventListener("click", () => step(-1));
  byId("more").addEventListener("click", () => step(1));
  byId("return").textContent = `${capital(mark)}: ${chosen.n_sensors}`;
  byId("return").addEventListener("click", () => show(chosen));
  byId("mark").style.setProperty("--at", (chosen.n_sensors - fewest) / (most - fewest || 1));
}

function makeTheme() {
  const button = byId("theme");
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const rename = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    rename();
  });
  dark.addEventListener("change", rename);
  rename();
}
