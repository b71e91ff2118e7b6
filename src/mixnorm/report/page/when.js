// When the response occurs: the windows of time as a strip over the evoked responses, and a map of electrodes and windows.

const STRIP = { left: 46, right: 16, top: 18, high: 16, gap: 26, plot: 150, bottom: 38 };
const MAP = { row: 20, right: 16, top: 2, bottom: 38, letter: 7.2 };
const FIRST_ROWS = 16;
const PERCENT_WIDTH = 38; // pixels that "100 %" needs

/** The strip follows the electrode that is looked at, and the map marks the electrodes of the montage shown. */
function makeWhen(selection) {
  const { windows } = selection;
  for (const id of ["when", "where", "windows"]) byId(id).hidden = !windows;
  if (!windows) return { show() {}, look() {} };
  document.querySelector("main").classList.add("with-windows");
  const state = { looked: null, chosen: new Set(), all: false };
  const largest = Math.max(...windows.map((w) => w.norm), 1e-300);
  const drawWhen = () => state.looked && redraw("when-plot", (width) => drawStrip(selection, state.looked, largest, width));
  const drawWhere = () => redraw("where-plot", (width) => drawMap(selection, state, width));
  writeWhen(selection);
  fillWindows(selection);
  makeWhenKeys(selection);
  byId("all-rows").addEventListener("click", () => {
    state.all = !state.all;
    drawWhere();
  });
  onWidth(byId("when-plot"), drawWhen);
  onWidth(byId("where-plot"), drawWhere);
  return {
    show(montage) {
      state.chosen = new Set(montage.sensors);
      drawWhere();
    },
    look(name) {
      state.looked = name;
      drawWhen();
    },
  };
}

function redraw(id, picture) {
  const holder = byId(id);
  if (holder.clientWidth) holder.replaceChildren(picture(holder.clientWidth));
}

const windowText = ({ start, stop }) => `${milliseconds(start)}–${milliseconds(stop)} ms`;
const foldsText = ({ frequency }, { n_folds: n }) => `${Math.round(frequency * n)} of ${count(n, "fold")}`;
/** Never quite transparent: only what is not chosen is empty. */
const shade = (norm, largest) => (0.14 + 0.86 * (norm / largest)).toFixed(3);

function drawStrip({ windows, window_scores: scores, times, evoked, source }, name, largest, width) {
  const { left, right, top, high, gap, plot, bottom } = STRIP;
  const from = top + high + gap;
  const to = evoked ? from + plot : top + high;
  const text = `Windows of time${evoked ? ` over the evoked responses of ${name}` : ""}; the numbers are in the table of windows`;
  const svg = canvas(width, to + bottom, { role: "img", "aria-label": text });
  const x = linear(windows[0].start, windows.at(-1).stop, left, width - right);
  const narrow = windows.some((w) => x(w.stop) - x(w.start) < PERCENT_WIDTH);
  byId("when-often").hidden = narrow;
  for (const w of windows) {
    const [begin, wide] = [x(w.start), x(w.stop) - x(w.start)];
    const said = `${windowText(w)}: ${w.selected ? "chosen" : "not chosen"}, in ${foldsText(w, scores)}; norm ${plain(w.norm)}`;
    const cell = { x: begin + 1, width: Math.max(wide - 2, 1) };
    if (w.selected && evoked) {
      const faint = (0.3 * shade(w.norm, largest)).toFixed(3);
      svg.append(draw("rect", { class: "cell", ...cell, y: from, height: plot, "fill-opacity": faint }));
    }
    svg.append(drawCell({ ...cell, y: top, height: high }, w.norm, largest, said));
    const often = label(begin + wide / 2, top - 5, percent(w.frequency), { "text-anchor": "middle" });
    if (!narrow) svg.append(draw("g", { class: "axis" }, often));
  }
  if (evoked) svg.append(...drawEvoked({ times, evoked, source }, name, x, [from, to], width));
  svg.append(baseAxis(edgeTicks(windows, x), x, to, milliseconds, "ms after the stimulus"));
  return svg;
}

/** Both classes at one electrode, on the scale of all electrodes. */
function drawEvoked({ times, evoked, source }, name, x, [from, to], width) {
  const { left, right } = STRIP;
  const range = rangeOf(source.classes.flatMap((kind) => Object.values(evoked[kind])));
  const y = linear(...range, to, from);
  const row = { kinds: ["nontarget", "target"], traces: source.classes.map((kind) => evoked[kind][name]) };
  return [
    label(left, from - 8, `${name}: evoked, ${source.unit}`, { class: "row-name" }),
    valueAxis(multiples(range[0], range[1], niceStep(range[1] - range[0], 6)), y, left, width - right, plain),
    zeroLine(left, width - right, y),
    ...traceLines(row, times, x, y),
  ];
}

/** The edges of windows, as many as can be written side by side. */
function edgeTicks(windows, x) {
  const ticks = [];
  for (const edge of [...windows.map((w) => w.start), windows.at(-1).stop]) {
    if (!ticks.length || x(edge) - x(ticks.at(-1)) >= 34) ticks.push(edge);
  }
  return ticks;
}

function drawCell(box, norm, largest, said) {
  const style = norm > 0 ? { class: "cell", "fill-opacity": shade(norm, largest) } : { class: "cell empty" };
  return draw("rect", { ...style, ...box }, draw("title", {}, said));
}

/** Chosen electrodes, the one with the largest norm first. */
function chosenRows({ sensors, windows }) {
  const rows = sensors.map(({ name }) => ({ name, norms: windows.map((w) => w.norms[name]) }));
  return rows.filter(({ norms }) => norms.some((value) => value > 0)).sort((a, b) => norm(b.norms) - norm(a.norms));
}

function drawMap(selection, { chosen, all }, width) {
  const { windows } = selection;
  const every = chosenRows(selection);
  const rows = all ? every : every.slice(0, FIRST_ROWS);
  const button = byId("all-rows");
  button.hidden = every.length <= FIRST_ROWS;
  button.textContent = all ? `Show the first ${FIRST_ROWS} only` : `Show all ${every.length}`;
  const longest = Math.max(3, ...rows.map(({ name }) => name.length));
  const left = Math.min(0.3 * width, MAP.letter * longest + 12);
  const height = MAP.top + MAP.row * rows.length;
  const text = "Norms of the coefficients by electrode and window; the chosen ones are in the table of windows";
  const svg = canvas(width, height + MAP.bottom, { role: "img", "aria-label": text });
  const x = linear(windows[0].start, windows.at(-1).stop, left, width - MAP.right);
  const largest = Math.max(...every.flatMap(({ norms }) => norms), 1e-300);
  rows.forEach(({ name, norms }, i) => {
    const y = MAP.top + MAP.row * i;
    const shown = shortened(name, Math.floor((left - 8) / MAP.letter));
    const kind = chosen.has(name) ? "row-name in-montage" : "row-name";
    svg.append(draw("text", { x: left - 6, y: y + 14, class: kind, "text-anchor": "end" }, shown, draw("title", {}, name)));
    windows.forEach((w, k) => {
      const box = { x: x(w.start) + 1, y: y + 1, width: Math.max(x(w.stop) - x(w.start) - 2, 1), height: MAP.row - 2 };
      const said = norms[k] > 0 ? `norm ${plain(norms[k])}` : "not chosen";
      svg.append(drawCell(box, norms[k], largest, `${name}, ${windowText(w)}: ${said}`));
    });
  });
  svg.append(baseAxis(edgeTicks(windows, x), x, height, milliseconds, "ms after the stimulus"));
  return svg;
}

const shortened = (name, most) => (name.length > most ? `${name.slice(0, Math.max(1, most - 1))}…` : name);

function writeWhen({ window_scores: scores, window_share: share }) {
  byId("when-text").textContent = scores.statement;
  byId("where-text").textContent =
    "A classifier that chooses electrodes and windows together, fitted on all trials. It chooses its electrodes by " +
    "itself: they need not be those of the montage. A cell is the norm of the coefficients of one electrode in one " +
    "window, for scaled signals. Like all weights, it does not show where activity comes from. Window share " +
    `${plain(share)} (0: electrodes only, 1: windows only) and the strength of the penalty were chosen inside the training ` +
    "trials, again for every fold.";
}

function fillWindows(selection) {
  const { windows, window_scores: scores } = selection;
  const names = (w) => chosenRows(selection).map(({ name }) => name).filter((name) => w.norms[name] > 0)
    .sort((a, b) => w.norms[b] - w.norms[a]).join(", ") || DASH;
  const rows = windows.map((w) => [windowText(w), w.selected ? "yes" : "no", foldsText(w, scores), plain(w.norm), names(w)]);
  const heads = ["Window", "Chosen", "Chosen in", "Norm", "Electrodes, largest norm first"];
  fillTable(byId("window-table"), "Windows of time", heads, rows);
}

function makeWhenKeys({ source, evoked }) {
  const box = (...cells) => draw("svg", { viewBox: "0 0 34 14", width: 34, height: 14, "aria-hidden": "true" }, ...cells);
  const sample = (value, x = 1) => drawCell({ x, y: 1, width: 14, height: 12 }, value, 1, "");
  const entries = () => [
    [box(sample(0.1), sample(1, 18)), "chosen; stronger colour: larger norm"],
    [box(sample(0, 10)), "not chosen"],
  ];
  const item = ([picture, text]) => make("li", {}, picture, text);
  const often = make("li", { id: "when-often" }, "above: share of the folds in which it was chosen");
  const lines = evoked ? [["target", source.classes[1]], ["nontarget", source.classes[0]]] : [];
  byId("when-key").replaceChildren(
    ...entries().map(item),
    often,
    ...lines.map(([kind, text]) => item([lineSample(kind), text])),
  );
  byId("where-key").replaceChildren(...entries().map(item), make("li", {}, make("strong", {}, "bold"), "in the montage shown"));
}
