// Parts of all plots: scales, axes, lines, dashes and markers.

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

function logarithmic(low, high, from, to) {
  const straight = linear(Math.log(low), Math.log(high), from, to);
  return (value) => straight(Math.log(value));
}

const MARKERS = {
  circle: "M0-4a4 4 0 1 0 .01 0Z",
  triangle: "M0-4.6 4.3 3.4H-4.3Z",
  square: "M-3.7-3.7H3.7V3.7H-3.7Z",
  diamond: "M0-5 5 0 0 5-5 0Z",
  down: "M0 4.6-4.3-3.4H4.3Z",
  cross: "M-4-2.2-2.2-4 0-1.8 2.2-4 4-2.2 1.8 0 4 2.2 2.2 4 0 1.8-2.2 4-4 2.2-1.8 0Z",
  bar: "M-2-5H2V5H-2Z",
};

// ours first; methods differ in dash and marker, not only in colour
const STYLES = [
  { marker: "circle", dash: null },
  { marker: "triangle", dash: "7 4" },
  { marker: "square", dash: "2 3" },
  { marker: "diamond", dash: "9 3 2 3" },
  { marker: "down", dash: "4 2" },
  { marker: "cross", dash: "1 4" },
  { marker: "bar", dash: "12 4" },
];

/** The number of a method's style; there are as many colours in the style sheet. */
const styleNumber = (index) => (index < STYLES.length ? index : 1 + ((index - 1) % (STYLES.length - 1)));

const translate = (x, y) => `translate(${x.toFixed(1)} ${y.toFixed(1)})`;

function markerAt(x, y, index) {
  return draw("path", { d: MARKERS[STYLES[styleNumber(index)].marker], class: "marker", transform: translate(x, y) });
}

const pointList = (points) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

const line = (points, attributes = {}) => draw("polyline", { points: pointList(points), ...attributes });

function label(x, y, text, attributes = {}) {
  return draw("text", { x: x.toFixed(1), y: y.toFixed(1), ...attributes }, text);
}

/** Horizontal lines with their values on the left. */
function valueAxis(values, y, left, right, text) {
  const parts = values.flatMap((value) => [
    draw("line", { x1: left, x2: right, y1: y(value), y2: y(value) }),
    label(left - 6, y(value) + 4, text(value), { "text-anchor": "end" }),
  ]);
  return draw("g", { class: "axis" }, ...parts);
}

/** Values below the plot, and below them the name of the axis. */
function baseAxis(values, x, bottom, text, name) {
  const [first, last] = [x(values[0]), x(values.at(-1))];
  return draw(
    "g",
    { class: "axis" },
    ...values.map((value) => label(x(value), bottom + 16, text(value), { "text-anchor": "middle" })),
    label((first + last) / 2, bottom + 33, name, { "text-anchor": "middle" }),
  );
}
