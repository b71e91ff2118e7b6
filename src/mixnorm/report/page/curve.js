// AUC against the number of electrodes: our curve with its interval, the compared methods, the montage on the screen.

const CURVE = { left: 38, right: 14, top: 12, bottom: 40 };
const OURS = "mixnorm";
const CHANCE = 0.5;
const MANY = 16; // electrodes; with more, the axis is logarithmic
const TRIANGLE = "M0 0 6 9H-6Z";

function makeCurve(selection, name, choose) {
  const curves = oursFirst(selection);
  const counts = selection.montages.map((montage) => montage.n_sensors);
  const holder = byId("curve");
  const values = makeCurveKey(curves, name);
  let plot = null;
  let shown = null;
  set(holder, {
    tabindex: 0,
    role: "slider",
    "aria-label": "Number of electrodes, on the curve of AUC",
    "aria-valuemin": counts[0],
    "aria-valuemax": counts.at(-1),
  });
  onWidth(holder, (width) => {
    plot = drawCurves(curves, counts, selection.recommended.n_sensors, width);
    holder.replaceChildren(plot.svg);
    if (shown) show(shown);
  });

  function chooseAt(event) {
    const box = plot.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * plot.width;
    const far = (n) => Math.abs(plot.x(n) - at);
    choose(counts.reduce((best, n) => (far(n) < far(best) ? n : best)));
  }
  holder.addEventListener("pointerdown", chooseAt);
  holder.addEventListener("pointermove", (event) => event.buttons && chooseAt(event));
  holder.addEventListener("keydown", (event) => {
    const to = keyTarget(event.key, counts.indexOf(shown.n_sensors), counts.length - 1);
    if (to === null) return;
    event.preventDefault();
    choose(counts[to]);
  });

  function show(montage) {
    shown = montage;
    const { n_sensors: n } = montage;
    set(plot.here, { x1: plot.x(n), x2: plot.x(n) });
    set(plot.dot, { cx: plot.x(n), cy: plot.y(montage.auc) });
    values.forEach((value, i) => (value.textContent = scoreText(curves[i], n)));
    set(holder, { "aria-valuenow": n, "aria-valuetext": `${count(n, "electrode")}, AUC ${aucText(montage.auc)}` });
  }
  return { show };
}

/** All curves, ours first; if ours is missing it is made from the montages. */
function oursFirst({ curves, montages }) {
  const ours = curves.find((curve) => curve.method === OURS) ?? {
    method: OURS,
    n_sensors: montages.map((m) => m.n_sensors),
    ...Object.fromEntries(["auc", "low", "high"].map((key) => [key, montages.map((m) => m[key])])),
  };
  return [ours, ...curves.filter((curve) => curve !== ours)];
}

/** New position on a slider of positions 0 … last after a key was pressed, or null. */
function keyTarget(key, at, last) {
  const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5 };
  const to = { Home: 0, End: last }[key] ?? (key in steps ? at + steps[key] : null);
  return to === null ? null : Math.max(0, Math.min(last, to));
}

/** AUC of a method with `n` electrodes; if it was not scored there, with the nearest number that was. */
function scoreText(curve, n) {
  const scored = curve.n_sensors.filter((_, i) => curve.auc[i] !== null);
  if (!scored.length) return DASH;
  const closest = scored.reduce((found, m) => (Math.abs(m - n) < Math.abs(found - n) ? m : found));
  const score = aucText(curve.auc[curve.n_sensors.indexOf(closest)]);
  return closest === n ? score : `${score} with ${closest}`;
}

function drawCurves(curves, counts, recommended, width) {
  const { left, right, top, bottom } = CURVE;
  const height = width > 500 ? 370 : 270;
  const svg = canvas(width, height, { "aria-hidden": "true" });
  const all = [...counts, ...curves.flatMap((curve) => curve.n_sensors)];
  const [fewest, most] = [Math.min(...all), Math.max(...all)];
  // the first electrodes matter most: with many, each doubling gets the same width
  const x = (most > MANY ? logarithmic : linear)(fewest, most, left + 8, width - right - 8);
  const [low, high] = aucRange(curves);
  const inside = linear(low, high, height - bottom, top);
  const y = (value) => inside(Math.max(low, Math.min(high, value)));
  const ticks = countTicks(fewest, most);
  const name = most > MANY ? "electrodes (log scale)" : "electrodes";
  const here = draw("line", { class: "here", y1: top - 8, y2: height - bottom });
  const dot = draw("circle", { class: "here-dot", r: 6.5 });
  const [ours, ...others] = curves.map((curve, i) => drawMethod(curve, i, x, y, ticks));
  svg.append(
    valueAxis(multiples(low, high, niceStep(high - low, 6)), y, left, width - right, (v) => aucText(v, 2)),
    ...(low <= CHANCE && CHANCE <= high ? [chanceLine(left, width - right, y(CHANCE))] : []),
    baseAxis(ticks, x, height - bottom, String, name),
    draw("path", { class: "recommended-mark", d: TRIANGLE, transform: translate(x(recommended), height - bottom - 9) }),
    ...others,
    here,
    ours,
    dot,
  );
  return { svg, width, x, y, here, dot };
}

/** Every number if they are few, else powers of two and the last one, unless it would overlap the one before. */
function countTicks(fewest, most) {
  if (most <= MANY) return multiples(fewest, most, 1);
  const powers = multiples(0, Math.log2(most), 1).map((power) => 2 ** power).filter((n) => n >= fewest);
  return most / powers.at(-1) > 1.3 ? [...powers, most] : powers;
}

function chanceLine(left, right, y) {
  const word = label(right, y - 4, "chance", { "text-anchor": "end" });
  return draw("g", { class: "chance" }, draw("line", { x1: left, x2: right, y1: y, y2: y }), word);
}

/** Range of all curves and of our whole interval, within 0 and 1: a clipped interval would look too narrow. */
function aucRange(curves) {
  const known = (lists) => lists.flatMap((list) => list ?? []).filter((value) => value !== null);
  const values = [...known(curves.map((curve) => curve.auc)), ...known([curves[0].low, curves[0].high])];
  const step = 0.05;
  const low = Math.floor(Math.min(...values) / step + 1e-9) * step;
  const high = Math.min(1, Math.ceil(Math.max(...values) / step - 1e-9) * step);
  const top = Math.min(1, Math.max(high, low + 2 * step));
  return [Math.max(0, Math.min(low, top - 2 * step)), top];
}

function drawMethod(curve, index, x, y, ticks) {
  const at = (values) =>
    curve.n_sensors.map((n, i) => ({ n, value: values?.[i] ?? null })).filter(({ value }) => value !== null);
  const place = ({ n, value }) => [x(n), y(value)];
  const group = draw("g", { class: `method method-${styleNumber(index)}` });
  const points = at(curve.auc);
  if (index === 0 && curve.low && curve.high) {
    const edge = [...at(curve.high).map(place), ...at(curve.low).map(place).reverse()];
    group.append(draw("polygon", { class: "band", points: pointList(edge) }));
  }
  if (points.length > 1) {
    group.append(line(points.map(place), { "stroke-dasharray": STYLES[styleNumber(index)].dash }));
  }
  const marked = points.length <= MANY ? points : points.filter(({ n }) => ticks.includes(n));
  group.append(...marked.map((point) => markerAt(...place(point), index)));
  return group;
}

/** The legend, with the AUC of each method at the current number of electrodes. Returns the elements of these values. */
function makeCurveKey(curves, name) {
  const picture = (width, ...parts) =>
    draw("svg", { viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" }, ...parts);
  const values = curves.map(() => make("span", { class: "value" }));
  const entries = curves.map((curve, i) => {
    const sample = draw("g", { class: `method method-${styleNumber(i)}` }, markerAt(17, 7, i));
    if (curve.n_sensors.length > 1) {
      sample.prepend(line([[1, 7], [33, 7]], { "stroke-dasharray": STYLES[styleNumber(i)].dash }));
    }
    return make("li", {}, picture(34, sample), `${curve.method} `, values[i]);
  });
  const mark = draw("path", { class: "recommended-mark", d: TRIANGLE, transform: translate(8, 2) });
  byId("curve-key").replaceChildren(...entries, make("li", {}, picture(16, mark), name));
  return values;
}
