// A tree of elements as it should be, and the few changes that make the page so: what is focused, selected or scrolled
// stays. Texts become text nodes and attributes alone, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: its tag, its properties (`on...` for handlers, `key` for rows that move), its children. */
export function h(tag, props, ...children) {
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return { tag, props: props || {}, children: shown.map((child) => (child.tag ? child : String(child))) };
}

/** Makes the children of `parent` what `children` says. */
export function patch(parent, children) {
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.shown?.key !== undefined) keyed.set(node.shown.key, node);
  children.forEach((child, place) => {
    const here = parent.childNodes[place];
    let node = child.tag && child.props.key !== undefined ? keyed.get(child.props.key) : here;
    if (!node || !fits(node, child)) node = made(child, parent);
    if (node !== here) parent.insertBefore(node, here || null);
    update(node, child);
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}

function fits(node, child) {
  if (!child.tag) return node.nodeType === Node.TEXT_NODE;
  return node.localName === child.tag && node.shown?.key === child.props.key;
}

function made(child, parent) {
  if (!child.tag) return document.createTextNode(child);
  const inSvg = child.tag === "svg" || (parent.namespaceURI === SVG && parent.localName !== "foreignObject");
  return inSvg ? document.createElementNS(SVG, child.tag) : document.createElement(child.tag);
}

function update(node, child) {
  if (!child.tag) {
    if (node.data !== child) node.data = child;
    return;
  }
  const before = node.shown || {};
  for (const name in before) if (!(name in child.props)) set(node, name, null);
  for (const [name, value] of Object.entries(child.props)) if (before[name] !== value || name in LIVE) set(node, name, value);
  node.shown = child.props;
  patch(node, child.children);
}

const LIVE = { value: 1, checked: 1 }; // what the reader changes as well

function set(node, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) node[name] = value;
  else if (name in LIVE) { if (node[name] !== value) node[name] = value; }
  else if (name === "style") for (const [part, is] of Object.entries(value || {})) node.style.setProperty(part, is);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}
