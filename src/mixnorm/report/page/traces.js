// Over time, per electrode: evoked responses of both classes, activation pattern (Haufe), weights of the classifier.
// One scale per row of small plots, the same for every electrode, so that heights can be compared.

const CARD = { width: 190, left: 6, right: 6, row: 46, gap: 14, bottom: 16 };
const FIRST_CARDS = 12;

function makeTraces(selection) {
  const classes = selection.source.classes;
  const evoked = selection.evoked;
  const times = selection.times;
  // targets are drawn over the others; by the contract the second class is the target
  const evokedOf = (name) => (evoked ? classes.map((label, i) => ({ kind: i ? "target" : "nontarget", trace: evoked[label][name] })) : []);
  const evokedRange = evoked ? rangeOf(classes.flatMap((label) => Object.values(evoked[label]))) : null;
  let all = false;
  let shown = null;
  byId("all-cards").addEventListener("click", () => {
    all = !all;
    show(shown);
  });
  makeTimeKey(classes, Boolean(evoked), selection.source.unit);

  function show(montage) {
    shown = montage;
    const names = all ? montage.sensors : montage.sensors.slice(0, FIRST_CARDS);
    const ranges = { pattern: rangeOf(Object.values(montage.patterns)), weight: rangeOf(Object.values(montage.weights)) };
    byId("cards").replaceChildren(...names.map((name) => drawCard(name, [
      { title: "evoked", range: evokedRange, lines: evokedOf(name) },
      { title: "pattern", range: ranges.pattern, lines: [{ kind: "pattern", trace: montage.patterns[name] }] },
      { title: "weights", range: ranges.weight, lines: [{ kind: "weight", trace: montage.weights[name] }] },
    ].filter((row) => row.range), times)));
    const button = byId("all-cards");
    button.hidden = montage.sensors.length <= FIRST_CARDS;
    button.textContent = all ? `Show the first ${FIRST_CARDS} only` : `Show all ${montage.sensors.length}`;
  }

  let looked = null;
  const look = (name) => {
    looked = name;
    if (evoked && byId("evoked").clientWidth) drawEvoked(name, evokedOf(name), evokedRange, times, selection.source, byId("evoked").clientWidth);
  };
  if (evoked) onWidth(byId("evoked"), () => looked && look(looked));
  else byId("evoked").remove();
  return { show, look };
}

function rangeOf(traces) {
  const values = traces.flat();
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  return high > low ? [low, high] : [-1, 1];
}

function timeTicks(times, pieces) {
  const span = times.at(-1) - times[0];
  return multiples(times[0], times.at(-1), niceStep(span, pieces));
}

const milliseconds = (seconds) => String(Math.round(1000 * seconds));

function drawCard(name, rows, times) {
  const { width, left, right, row, gap, bottom } = CARD;
  const height = rows.length * (row + gap) + bottom;
  const svg = canvas(width, height, { role: "img", "aria-label": `${name}: ${rows.map((r) => r.title).join(", ")} over time` });
  const x = linear(times[0], times.at(-1), left, width - right);
  const ticks = timeTicks(times, 2.5);
  rows.forEach(({ title, range, lines }, i) => {
    const top = i * (row + gap) + gap;
    const y = linear(range[0], range[1], top + row, top);
    svg.append(draw("g", { class: "axis" }, ...ticks.map((t) => draw("line", { x1: x(t), x2: x(t), y1: top, y2: top + row }))));
    svg.append(draw("line", { class: "zero", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
    svg.append(label(left, top - 3, title, { class: "row-name" }));
    svg.append(...lines.map(({ kind, trace }) => line(trace.map((v, t) => [x(times[t]), y(v)]), { class: `trace ${kind}` })));
  });
  svg.append(draw("g", { class: "axis" }, ...ticks.map((t, i) => label(x(t), height - 3, milliseconds(t) + (i === ticks.length - 1 ? " ms" : ""), { "text-anchor": t === times[0] ? "start" : i === ticks.length - 1 && x(t) > width - 30 ? "end" : "middle" }))));
  return make("figure", { class: "trace-card", "data-name": name }, make("figcaption", {}, name), svg);
}

/** The evoked responses of one electrode, large, with its values. */
function drawEvoked(name, lines, range, times, source, width) {
  const height = 250;
  const [left, right, top, bottom] = [44, 12, 8, 36];
  const svg = canvas(width, height, { role: "img", "aria-label": `${name}: mean responses of ${source.classes.join(" and ")}` });
  const x = linear(times[0], times.at(-1), left, width - right);
  const y = linear(range[0], range[1], height - bottom, top);
  svg.append(
    valueAxis(multiples(range[0], range[1], niceStep(range[1] - range[0], 6)), y, left, width - right, (v) => plain(v).replace("-", "−")),
    draw("line", { class: "zero", x1: left, x2: width - right, y1: y(0), y2: y(0) }),
    baseAxis(timeTicks(times, 6), x, height - bottom, milliseconds),
    label((left + width - right) / 2, height - 3, "ms after the stimulus", { "text-anchor": "middle", class: "axis-name" }),
    ...lines.map(({ kind, trace }) => line(trace.map((v, t) => [x(times[t]), y(v)]), { class: `trace ${kind}` })),
  );
  byId("evoked").replaceChildren(make("figcaption", {}, make("strong", {}, name), ` evoked responses, ${source.unit}`), svg);
}

function makeTimeKey(classes, hasEvoked, unit) {
  const sample = (kind) => draw("svg", { viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": "true" }, line([[1, 5], [27, 5]], { class: `trace ${kind}` }));
  const entries = hasEvoked ? [["target", classes[1]], ["nontarget", classes[0]]] : [];
  entries.push(["pattern", "activation pattern (Haufe)"], ["weight", "weights of the classifier"]);
  byId("time-key").replaceChildren(...entries.map(([kind, text]) => make("li", {}, sample(kind), text)), make("li", {}, "each row: one scale for all electrodes"));
}
