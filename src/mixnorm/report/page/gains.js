// What each further electrode adds: the gain in AUC from one montage to the next, with its paired standard error.

const GAINS = { height: 170, left: 46, right: 14, top: 8, bottom: 40 };

/** Returns a function that marks the electrode that would be added next to the montage shown. */
function makeGains(montages) {
  const gains = montages
    .filter(({ drop }) => drop && drop.auc_change !== null)
    .map(({ n_sensors: n, drop }) => ({ n, gain: -drop.auc_change, error: drop.standard_error ?? 0 }));
  byId("further").hidden = !gains.length;
  if (!gains.length) return () => {};
  let plot = null;
  let shown = null;
  const mark = () => {
    const next = gains.find(({ n }) => n > shown.n_sensors);
    const at = next && { cx: plot.x(next.n), cy: plot.y(next.gain) };
    set(plot.dot, { visibility: next ? null : "hidden", ...at });
  };
  onWidth(byId("gains"), (width) => {
    plot = drawGains(gains, [montages[0].n_sensors, montages.at(-1).n_sensors], width);
    byId("gains").replaceChildren(plot.svg);
    if (shown) mark();
  });
  return (montage) => {
    shown = montage;
    if (plot) mark();
  };
}

function drawGains(gains, [fewest, most], width) {
  const { height, left, right, top, bottom } = GAINS;
  const text = "AUC gain of each further electrode; the numbers are in the table of all montages";
  const svg = canvas(width, height, { role: "img", "aria-label": text });
  // the same kind of axis as that of the curve
  const x = (most > MANY ? logarithmic : linear)(fewest, most, left, width - right - 8);
  const low = Math.min(0, ...gains.map(({ gain, error }) => gain - error));
  const high = Math.max(0.001, ...gains.map(({ gain, error }) => gain + error));
  const y = linear(low, high, height - bottom, top);
  const step = niceStep(high - low, 4);
  const value = (gain) => (gain < 0 ? "−" : "") + aucText(Math.abs(gain), step < 0.01 ? 3 : 2);
  const bars = gains.map(({ n, gain, error }) =>
    draw("line", { x1: x(n), x2: x(n), y1: y(gain - error), y2: y(gain + error) }),
  );
  const points = gains.map(({ n, gain }) => draw("circle", { cx: x(n), cy: y(gain), r: 2.6 }));
  const dot = draw("circle", { class: "here-dot", r: 5 });
  svg.append(
    valueAxis(multiples(low, high, step), y, left - 8, width - right, value),
    draw("line", { class: "zero", x1: left - 8, x2: width - right, y1: y(0), y2: y(0) }),
    baseAxis(countTicks(fewest, most), x, height - bottom, String, "number of the electrode"),
    draw("g", { class: "gains" }, ...bars, ...points),
    dot,
  );
  return { svg, x, y, dot };
}
