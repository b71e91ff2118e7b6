// Over time, per electrode: evoked responses of both classes, activation pattern (Haufe), weights of the classifier.
// One scale per kind, the same for every electrode, so that heights can be compared.

const CARD = { width: 190, left: 4, right: 4, row: 46, gap: 17, bottom: 18 };
const DETAIL = { left: 46, right: 12, top: 8 };
const FIRST_CARDS = 12;

/** Small plots of the chosen electrodes, and a large one of the electrode that is looked at. */
function makeTraces(selection) {
  const { times, evoked, source } = selection;
  const evokedRange = evoked && rangeOf(source.classes.flatMap((label) => Object.values(evoked[label])));
  const state = { montage: null, looked: null, all: false };

  /** What there is to draw of an electrode: without weights when it is left out. */
  function rowsOf(name) {
    const { patterns, weights } = state.montage;
    const rows = [];
    if (evoked) {
      // targets over the others; the second class is the target
      const lines = source.classes.map((label, i) => ({ kind: i ? "target" : "nontarget", trace: evoked[label][name] }));
      rows.push({ title: "evoked", unit: source.unit, range: evokedRange, lines });
    }
    if (name in weights) {
      rows.push({ title: "pattern", range: rangeOf(Object.values(patterns)), lines: [{ kind: "pattern", trace: patterns[name] }] });
      rows.push({ title: "weights", range: rangeOf(Object.values(weights)), lines: [{ kind: "weight", trace: weights[name] }] });
    }
    return rows;
  }

  function show(montage) {
    state.montage = montage;
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
    const left = state.looked in state.montage.weights ? "" : ", left out of this montage";
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
  const values = traces.flat();
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  return high > low ? [low, high] : [-1, 1];
}

const timeTicks = (times, pieces) => multiples(times[0], times.at(-1), niceStep(times.at(-1) - times[0], pieces));
const milliseconds = (seconds) => String(Math.round(1000 * seconds));
const traceLine = ({ kind, trace }, times, x, y) => line(trace.map((v, t) => [x(times[t]), y(v)]), { class: `trace ${kind}` });
const zeroLine = (left, right, y) => draw("line", { class: "zero", x1: left, x2: right, y1: y(0), y2: y(0) });

function drawCard(name, rows, times) {
  const { width, left, right, row, gap, bottom } = CARD;
  const height = rows.length * (row + gap) + bottom;
  const svg = canvas(width, height, { role: "img", "aria-label": `${name}: ${rows.map((r) => r.title).join(", ")} over time` });
  const x = linear(times[0], times.at(-1), left, width - right);
  const ticks = timeTicks(times, 2.5);
  rows.forEach(({ title, range, lines }, i) => {
    const top = i * (row + gap) + gap;
    const y = linear(range[0], range[1], top + row, top);
    svg.append(
      draw("g", { class: "axis" }, ...ticks.map((t) => draw("line", { x1: x(t), x2: x(t), y1: top, y2: top + row }))),
      zeroLine(left, width - right, y),
      label(left, top - 4, title, { class: "row-name" }),
      ...lines.map((one) => traceLine(one, times, x, y)),
    );
  });
  svg.append(draw("g", { class: "axis" }, ...ticks.map((t, i) => tickLabel(x(t), height - 3, t, i === ticks.length - 1, width))));
  return make("figure", { class: "trace-card", "data-name": name }, make("figcaption", {}, name), svg);
}

/** The last one carries the unit; those at the edges stay inside. */
function tickLabel(x, y, time, last, width) {
  const anchor = x < 12 ? "start" : x > width - 34 ? "end" : "middle";
  return label(x, y, milliseconds(time) + (last ? " ms" : ""), { "text-anchor": anchor });
}

/** One kind of trace of one electrode, large, with its values; the lowest one has the time. */
function drawDetail(name, { title, unit, range, lines }, times, width, last) {
  const { left, right, top } = DETAIL;
  const bottom = last ? 38 : 12;
  const height = (title === "evoked" ? 190 : 110) + bottom;
  const svg = canvas(width, height, { role: "img", "aria-label": `${name}: ${title} over time` });
  const x = linear(times[0], times.at(-1), left, width - right);
  const y = linear(range[0], range[1], height - bottom, top + 16);
  const values = multiples(range[0], range[1], niceStep(range[1] - range[0], title === "evoked" ? 6 : 3));
  const ticks = timeTicks(times, 5);
  svg.append(
    label(left, top + 4, unit ? `${title}, ${unit}` : title, { class: "row-name" }),
    valueAxis(values, y, left, width - right, (v) => plain(v).replace("-", "−")),
    draw("g", { class: "axis" }, ...ticks.map((t) => draw("line", { x1: x(t), x2: x(t), y1: top + 16, y2: height - bottom }))),
    zeroLine(left, width - right, y),
    ...lines.map((one) => traceLine(one, times, x, y)),
  );
  if (last) {
    svg.append(
      baseAxis(ticks, x, height - bottom, milliseconds),
      label((left + width - right) / 2, height - 4, "ms after the stimulus", { "text-anchor": "middle", class: "axis-name" }),
    );
  }
  return svg;
}

function makeTimeKey(classes, hasEvoked) {
  const sample = (kind) => draw("svg", { viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" }, line([[1, 5], [27, 5]], { class: `trace ${kind}` }));
  const entries = hasEvoked ? [["target", classes[1]], ["nontarget", classes[0]]] : [];
  entries.push(["pattern", "activation pattern (Haufe)"], ["weight", "weights of the classifier"]);
  byId("time-key").replaceChildren(...entries.map(([kind, text]) => make("li", {}, sample(kind), text)), make("li", {}, "one scale for all electrodes"));
}
