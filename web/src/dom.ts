import { escapeUnseen } from './names';

// Elements are always created, never parsed from text: names of nodes, tensors and files are untrusted.

const read = new Set(['title', 'aria-label', 'label', 'placeholder']);

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener>;

/** An element with attributes (`on…` are listeners, `true` is a bare attribute, null and false leave it out) and children. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[Name] {
  return setUp(document.createElement(name), attributes, children);
}

export function shape<Name extends keyof SVGElementTagNameMap>(
  name: Name, attributes: Attributes = {}, ...children: Child[]
): SVGElementTagNameMap[Name] {
  return setUp(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

function setUp<Made extends Element>(made: Made, attributes: Attributes, children: Child[]): Made {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, read.has(name) ? escapeUnseen(String(value)) : String(value));
  }
  const given = children.filter((child): child is Node | string => Boolean(child));
  made.append(...given.map((child) => (typeof child === 'string' ? escapeUnseen(child) : child)));
  return made;
}

/** A coloured square; the colour is set from script, which the page's security policy allows. */
export function swatch(colour: string): HTMLElement {
  const made = element('span', { class: 'swatch', 'aria-hidden': 'true' });
  made.style.background = colour;
  return made;
}
