// Elements with text: nothing from the selection is ever parsed as HTML.

const byId = (id) => document.getElementById(id);

/** An HTML element; children are elements or strings. */
function make(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function draw(tag, attributes = {}, ...children) {
  return dress(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function dress(element, attributes, children) {
  set(element, attributes);
  element.append(...children);
  return element;
}

/** Attributes of an element; null or false removes one. */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

/** A drawing of `width` × `height` pixels that shrinks if there is less space. */
function canvas(width, height, attributes = {}) {
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, ...attributes });
}

/** Call `redraw(width)` now and, a frame later, whenever the width of an element changes. */
function onWidth(element, redraw) {
  let last = 0;
  const look = () => {
    const width = Math.round(element.clientWidth);
    if (width > 0 && width !== last) redraw((last = width));
  };
  look();
  // in the next frame: drawing may change the sizes being reported, which browsers report as an error
  new ResizeObserver(() => requestAnimationFrame(look)).observe(element);
}

/** Copy text; if the browser refuses, select it in `shown`, so that Ctrl+C copies it. */
async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    getSelection().selectAllChildren(shown);
    return document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
  }
}

/** A button that copies the current text of `shown`. */
function makeCopyButton(button, shown) {
  const label = button.textContent;
  button.addEventListener("click", async () => {
    button.textContent = await copyText(shown.textContent, shown);
    setTimeout(() => (button.textContent = label), 1500);
  });
}
