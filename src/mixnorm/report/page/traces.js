// Over time, per electrode: evoked responses of both classes, activation pattern (Haufe), weights of the classifier.
// One scale per kind, the same for every electrode, so that amplitudes can be compared.

const CARD = { width: 190, left: 4, right: 4, high: 46, gap: 17, bottom: 18 };
const DETAIL = { left: 46, right: 12, top: 24 };
const FIRST_CARDS = 12;

/** Small plots of the chosen electrodes, and a large one of the current electrode. */
function makeTraces(selection) {
  const { times, evoked, source } = selection;
  const evokedRange = evoked && rangeOf(source.classes.flatMap((label) => Object.values(evoked[label])));
  const state = { montage: null, ranges: null, looked: null, all: false };

  /** The rows of plots of an electrode: without weights if it is not chosen. */
  function rowsOf(name) {
    const { patterns, weights } = state.montage;
    const { ranges } = state;
    const rows = [];
    if (evoked) {
      // targets are drawn over nontargets; the second class is the target
      const traces = source.classes.map((label) => evoked[label][name]);
      rows.push({ title: "evoked", unit: source.unit, range: evokedRange, kinds: ["nontarget", "target"], traces });
    }
    if (name in weights) {
      rows.push({ title: "pattern", range: ranges.pattern, kinds: ["pattern"], traces: [patterns[name]] });
      rows.push({ title: "weights", range: ranges.weight, kinds: ["weight"], traces: [weights[name]] });
    }
    return rows;
  }

  function show(montage) {
    state.montage = montage;
    const range = (traces) => rangeOf(Object.values(traces));
    state.ranges = { pattern: range(montage.patterns), weight: range(montage.weights) };
    const names = state.all ? montage.sensors : montage.sensors.slice(0, FIRST_CARDS);
    byId("cards").replaceChildren(...names.map((name) => drawCard(name, rowsOf(name), times)));
    const button = byId("all-cards");
    button.hidden = montage.sensors.length <= FIRST_CARDS;
    button.textContent = state.all ? `Show the first ${FIRST_CARDS} only` : `Show all ${montage.sensors.length}`;
    showDetail();
  }

  function showDetail() {
    const detail = byId("detail");
    if (!state.looked || !state.montage || !detail.clientWidth) return;
    const rows = rowsOf(state.looked);
    const plots = rows.map((row, i) => drawDetail(state.looked, row, times, detail.clientWidth, i === rows.length - 1));
    const left = state.looked in state.montage.weights ? "" : ", not in this montage";
    detail.replaceChildren(make("figcaption", {}, make("strong", {}, state.looked), left), ...plots);
  }

  byId("all-cards").addEventListener("click", () => {
    state.all = !state.all;
    show(state.montage);
  });
  makeTimeKey(source.classes, Boolean(evoked));
  onWidth(byId("detail"), showDetail);
  return {
    show,
    look(name) {
      state.looked = name;
      showDetail();
    },
  };
}

function rangeOf(traces) {
  let [low, high] = [0, 0];
  // not Math.min(...values): a long recording has more values than a call may have arguments
  for (const value of traces.flat()) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return high > low ? [low, high] : [-1, 1];
}

const timeTicks = (times, pieces) => multiples(times[0], times.at(-1), niceStep(times.at(-1) - times[0], pieces));
const milliseconds = (seconds) => String(Math.round(1000 * seconds));
const zeroLine = (left, right, y) => draw("line", { class: "zero", x1: left, x2: right, y1: y(0), y2: y(0) });

function timeLines(ticks, x, top, bottom) {
  const lines = ticks.map((t) => draw("line", { x1: x(t), x2: x(t), y1: top, y2: bottom }));
  return draw("g", { class: "axis" }, ...lines);
}

function traceLines({ kinds, traces }, times, x, y) {
  return traces.map((trace, i) => line(trace.map((v, t) => [x(times[t]), y(v)]), { class: `trace ${kinds[i]}` }));
}

function drawCard(name, rows, times) {
  const { width, left, right, high, gap, bottom } = CARD;
  const height = rows.length * (high + gap) + bottom;
  const titles = rows.map((row) => row.title).join(", ");
  const svg = canvas(width, height, { role: "img", "aria-label": `${name}: ${titles} over time` });
  const x = linear(times[0], times.at(-1), left, width - right);
  const ticks = timeTicks(times, 4);
  rows.forEach((row, i) => {
    const top = i * (high + gap) + gap;
    const y = linear(...row.range, top + high, top);
    svg.append(
      timeLines(ticks, x, top, top + high),
      zeroLine(left, width - right, y),
      label(left, top - 4, row.title, { class: "row-name" }),
      ...traceLines(row, times, x, y),
    );
  });
  const labels = ticks.map((t) => tickLabel(x(t), height - 3, t, t === ticks.at(-1), width));
  svg.append(draw("g", { class: "axis" }, ...labels));
  return make("figure", { class: "trace-card", "data-name": name }, make("figcaption", {}, name), svg);
}

/** The last one carries the unit; those at the edges stay inside. */
function tickLabel(x, y, time, last, width) {
  const anchor = x < 12 ? "start" : x > width - 34 ? "end" : "middle";
  return label(x, y, milliseconds(time) + (last ? " ms" : ""), { "text-anchor": anchor });
}

/** One kind of trace of one electrode, large, with its values; the lowest one has the time. */
function drawDetail(name, row, times, width, last) {
  const { left, right, top } = DETAIL;
  const { title, unit, range } = row;
  const bottom = last ? 38 : 12;
  const height = (title === "evoked" ? 190 : 110) + bottom;
  const svg = canvas(width, height, { role: "img", "aria-label": `${name}: ${title} over time` });
  const x = linear(times[0], times.at(-1), left, width - right);
  const y = linear(...range, height - bottom, top);
  const values = multiples(range[0], range[1], niceStep(range[1] - range[0], title === "evoked" ? 7 : 4));
  const ticks = timeTicks(times, 5);
  svg.append(
    label(left, top - 12, unit ? `${title}, ${unit}` : title, { class: "row-name" }),
    valueAxis(values, y, left, width - right, plain),
    timeLines(ticks, x, top, height - bottom),
    zeroLine(left, width - right, y),
    ...traceLines(row, times, x, y),
  );
  if (last) svg.append(baseAxis(ticks, x, height - bottom, milliseconds, "ms after the stimulus"));
  return svg;
}

function lineSample(kind) {
  const stroke = line([[1, 5], [27, 5]], { class: `trace ${kind}` });
  return draw("svg", { viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" }, stroke);
}

function makeTimeKey(classes, hasEvoked) {
  const entries = hasEvoked ? [["target", classes[1]], ["nontarget", classes[0]]] : [];
  entries.push(["pattern", "activation pattern (Haufe)"], ["weight", "weights of the classifier"]);
  const items = entries.map(([kind, text]) => make("li", {}, lineSample(kind), text));
  byId("time-key").replaceChildren(...items, make("li", {}, "same scale for all electrodes"));
}
