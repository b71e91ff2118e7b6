// The head seen from above. Every electrode is drawn at its position and nothing is interpolated in between:
// hollow if it is not chosen, filled if it is chosen, larger with more weight, with a wider ring if it is more stable.

const TALLEST_HEAD = 460;
const LETTER = 0.66; // mean width of a letter, as a share of the font size, in a wide bold font
const LISTED = { smallest: 8, largest: 8 }; // beside the head there is room for one size only

/** `onLook(name)` is called when an electrode is clicked, focused or pointed at. */
function makeHead(sensors, onLook) {
  const placed = sensors.filter((sensor) => sensor.x !== null && sensor.y !== null);
  const glyphs = new Map();
  let sizes = null;
  let shown = null;

  for (const sensor of sensors) glyphs.set(sensor.name, makeElectrode(sensor, placed.includes(sensor), onLook));
  listUnplaced(sensors.filter((sensor) => !placed.includes(sensor)).map((sensor) => glyphs.get(sensor.name)));
  if (placed.length) onWidth(byId("head"), layOut);
  else showNoHead();
  makeHeadKey(sensors);

  function layOut(width) {
    const frame = frameHead(placed, width);
    sizes = electrodeSizes(placed, frame.radius);
    const svg = canvas(frame.width, frame.height, { role: "group", "aria-label": "Electrodes on the head" });
    svg.append(outline(frame));
    for (const sensor of placed) {
      const glyph = glyphs.get(sensor.name);
      [glyph.x, glyph.y] = frame.place(sensor);
      set(glyph.element, { transform: translate(glyph.x, glyph.y) });
      svg.append(glyph.element);
    }
    svg.addEventListener("keydown", (event) => walk(event, placed.map((sensor) => glyphs.get(sensor.name))));
    byId("head").replaceChildren(svg);
    if (shown) paint();
  }

  function paint() {
    const largest = Math.max(...shown.weights.values(), 1e-300);
    for (const glyph of glyphs.values()) {
      const share = shown.weights.has(glyph.name) ? shown.weights.get(glyph.name) / largest : null;
      paintElectrode(glyph, share, glyph.placed ? sizes : LISTED, shown.describe(glyph.name));
    }
    writeNames([...glyphs.values()].filter((glyph) => glyph.placed), sizes);
  }

  return {
    /** Show the electrodes of a montage: `weights` maps chosen name → norm, `describe` name → sentence. */
    show(weights, describe) {
      shown = { weights, describe };
      paint();
    },
    look(name) {
      for (const glyph of glyphs.values()) {
        glyph.element.classList.toggle("looked", glyph.name === name);
        if (glyph.placed) set(glyph.element, { tabindex: glyph.name === name ? 0 : -1 });
      }
      // one electrode can always be reached by Tab, also if the current one has no position on the head
      if (placed.length && !placed.some((sensor) => sensor.name === name)) {
        set(glyphs.get(placed[0].name).element, { tabindex: 0 });
      }
    },
  };
}

function makeElectrode({ name, stability, keep, forbid }, isPlaced, onLook) {
  const circle = draw("circle", { class: "disc" });
  const halo = draw("circle", { class: "halo" });
  const text = draw("text", { y: "0.35em" }, name);
  const title = draw("title");
  const element = isPlaced
    ? draw("g", { role: "button", tabindex: -1 }, title, halo, circle, text)
    : make("button", { type: "button" }, listedPicture(circle), make("span", {}, name));
  set(element, { class: `electrode${forbid ? " forbidden" : ""}${keep ? " kept" : ""}`, "data-name": name });
  for (const kind of ["click", "focus", "pointerenter"]) element.addEventListener(kind, () => onLook(name));
  return { name, stability, placed: isPlaced, element, circle, halo, text, title, x: 0, y: 0 };
}

const listedPicture = (...parts) =>
  draw("svg", { viewBox: "-10 -10 20 20", width: 20, height: 20, "aria-hidden": "true" }, ...parts);

function paintElectrode(glyph, share, sizes, sentence) {
  const chosen = share !== null;
  const wanted = chosen ? sizes.smallest + (sizes.largest - sizes.smallest) * Math.sqrt(share) : sizes.smallest;
  const radius = Math.min(wanted, Math.max(5, sizes.rooms?.get(glyph.name) ?? wanted));
  const ring = 1 + (glyph.stability ?? 0) * 0.22 * radius;
  set(glyph.circle, { r: (radius - ring / 2).toFixed(2), "stroke-width": ring.toFixed(2) });
  set(glyph.halo, { r: (radius + 2.5).toFixed(2) });
  set(glyph.element, { "aria-label": sentence, "data-chosen": chosen ? "true" : "false" });
  glyph.title.textContent = sentence;
}

/** Chosen names first; a name that would overlap one already written is shown only when it is pointed at. */
function writeNames(glyphs, sizes) {
  const written = [];
  const isChosen = (glyph) => glyph.element.dataset.chosen === "true";
  for (const glyph of [...glyphs.filter(isChosen), ...glyphs.filter((glyph) => !isChosen(glyph))]) {
    set(glyph.text, { "font-size": sizes.font.toFixed(1) });
    const half = glyph.text.getComputedTextLength() / 2 + 1;
    const apart = ({ x, y, half: theirs }) =>
      Math.abs(glyph.y - y) > 1.1 * sizes.font || Math.abs(glyph.x - x) > half + theirs;
    const free = written.every(apart);
    set(glyph.text, { visibility: free ? null : "hidden" });
    if (free) written.push({ x: glyph.x, y: glyph.y, half });
  }
}

/** Layout of a drawing `width` pixels wide: the head has radius 1, and electrodes may lie outside it. */
function frameHead(placed, width) {
  const margin = 0.12;
  const across = Math.max(1.12, ...placed.map((sensor) => Math.abs(sensor.x) + margin));
  const top = Math.max(1.16, ...placed.map((sensor) => sensor.y + margin));
  const bottom = Math.max(1.02, ...placed.map((sensor) => margin - sensor.y));
  const radius = Math.min(width / (2 * across), TALLEST_HEAD / (top + bottom));
  const middle = width / 2;
  return {
    width,
    radius,
    height: radius * (top + bottom),
    place: ({ x, y }) => [middle + radius * x, radius * (top - y)],
  };
}

/** Radii and font at which neighbours do not touch. */
function electrodeSizes(placed, radius) {
  const toNearest = (a) => {
    const distances = placed.map((b) => Math.hypot(a.x - b.x, a.y - b.y));
    return Math.min(2, ...distances.filter((distance) => distance > 0.02));
  };
  const rooms = new Map(placed.map((sensor) => [sensor.name, 0.49 * radius * toNearest(sensor)]));
  // a few close pairs should not make all the others small: only these are drawn smaller
  const usual = [...rooms.values()].sort((a, b) => a - b)[Math.floor(placed.length / 5)];
  const largest = Math.max(6, Math.min(21, usual));
  const letters = Math.max(2, ...placed.map((sensor) => sensor.name.length));
  const smallest = 0.75 * largest;
  const font = Math.max(8.5, Math.min(12, (1.9 * smallest) / (LETTER * letters)));
  return { largest, smallest, font, rooms };
}

function outline(frame) {
  const [x, y] = frame.place({ x: 0, y: 0 });
  const point = (dx, dy) => `${(x + frame.radius * dx).toFixed(1)} ${(y - frame.radius * dy).toFixed(1)}`;
  const ear = (side) => `M${point(side * 0.985, 0.17)} Q${point(side * 1.13, 0)} ${point(side * 0.985, -0.17)}`;
  const path = `M${point(-0.11, 0.994)} L${point(0, 1.12)} L${point(0.11, 0.994)} ${ear(-1)} ${ear(1)}`;
  return draw("g", { class: "outline" }, draw("circle", { cx: x, cy: y, r: frame.radius }), draw("path", { d: path }));
}

/** Arrow keys go to the nearest electrode in that direction. */
function walk(event, glyphs) {
  const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  const from = glyphs.find((glyph) => glyph.element === document.activeElement);
  if (!direction || !from) return;
  event.preventDefault();
  const [dx, dy] = direction;
  let best = null;
  for (const glyph of glyphs) {
    const ahead = (glyph.x - from.x) * dx + (glyph.y - from.y) * dy;
    const aside = Math.abs((glyph.x - from.x) * dy) + Math.abs((glyph.y - from.y) * dx);
    const far = ahead + 2 * aside;
    if (ahead > 1 && aside <= 1.5 * ahead && (!best || far < best.far)) best = { far, glyph };
  }
  best?.glyph.element.focus();
}

function showNoHead() {
  byId("scalp-title").textContent = "Electrodes";
  document.querySelector("main").classList.add("no-head");
}

function listUnplaced(glyphs) {
  byId("unplaced").hidden = !glyphs.length;
  byId("unplaced").querySelector("ul").replaceChildren(...glyphs.map((glyph) => make("li", {}, glyph.element)));
}

function makeHeadKey(sensors) {
  const sample = (chosen, radius, ring, kind = "") => {
    const disc = draw("circle", { class: "disc", r: radius - ring / 2, "stroke-width": ring });
    return listedPicture(draw("g", { class: `electrode${kind}`, "data-chosen": String(chosen) }, disc));
  };
  const entries = [
    [[sample(true, 6, 1), sample(true, 9, 1)], "chosen; larger: more weight"],
    [[sample(false, 7, 1)], "not chosen"],
  ];
  if (sensors.some((sensor) => sensor.stability !== null)) {
    entries.push([[sample(true, 8, 1), sample(true, 8, 4)], "wider ring: more stable"]);
  }
  if (sensors.some((sensor) => sensor.keep)) entries.push([[sample(true, 8, 1.5, " kept")], "always kept"]);
  if (sensors.some((sensor) => sensor.forbid)) entries.push([[sample(false, 8, 1.5, " forbidden")], "forbidden"]);
  byId("head-key").replaceChildren(...entries.map(([samples, label]) => make("li", {}, ...samples, label)));
}
