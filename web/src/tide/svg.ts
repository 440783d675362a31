// A picture as SVG: as elements of the page, and as the text of a file.
import { escapeUnseen } from '../names';
import { escape } from '../graph/svg';
import { fontFamily, fontSize, haloWidth, type Picture, type Points, type Shape } from './picture';

const namespace = 'http://www.w3.org/2000/svg';

/** An element before it is one; its texts are data, and are escaped or set as text. */
interface SvgNode {
  tag: string;
  attributes: Record<string, string>;
  text?: string;
}

function svgNodes(shapes: readonly Shape[]): SvgNode[] {
  return shapes.map(describe);
}

export function svgElements(shapes: readonly Shape[]): SVGElement[] {
  return svgNodes(shapes).map(({ tag, attributes, text }) => {
    const made = document.createElementNS(namespace, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = escapeUnseen(text);
    return made;
  });
}

/** The text of an SVG file. */
export function svgText({ width, height, background, title, shapes }: Picture): string {
  const ground: Shape = { kind: 'boxes', boxes: [0, 0, width, height], fill: background };
  const size = { width: String(width), height: String(height), viewBox: `0 0 ${width} ${height}` };
  const root = { xmlns: namespace, ...size, role: 'img', 'font-family': fontFamily, 'font-size': String(fontSize) };
  return [
    `<svg${attributesText(root)}>`,
    `<title>${escape(escapeUnseen(title))}</title>`,
    ...svgNodes([ground, ...shapes]).map(
      ({ tag, attributes, text }) => `<${tag}${attributesText(attributes)}>${escape(escapeUnseen(text ?? ''))}</${tag}>`,
    ),
    '</svg>\n',
  ].join('\n');
}

function attributesText(attributes: Record<string, string>): string {
  return Object.entries(attributes)
    .map(([name, value]) => ` ${name}="${escape(value)}"`)
    .join('');
}

function describe(shape: Shape): SvgNode {
  const common = {
    ...(shape.name === undefined ? {} : { 'data-name': shape.name }),
    ...('opacity' in shape && shape.opacity !== undefined ? { opacity: String(shape.opacity) } : {}),
  };
  switch (shape.kind) {
    case 'polygon':
      return { tag: 'polygon', attributes: { ...common, fill: shape.fill, points: pointsText(shape.points) } };
    case 'line':
      return {
        tag: 'polyline',
        attributes: {
          ...common,
          fill: 'none',
          stroke: shape.stroke,
          'stroke-width': String(shape.width ?? 1),
          'stroke-linejoin': 'round',
          ...(shape.dash ? { 'stroke-dasharray': shape.dash.join(' ') } : {}),
          points: pointsText(shape.points),
        },
      };
    case 'boxes':
      return {
        tag: 'path',
        attributes: {
          ...common,
          fill: shape.fill,
          d: boxesText(shape.boxes),
          ...(shape.edge ? { stroke: shape.edge, 'stroke-width': String(shape.edgeWidth ?? 1) } : {}),
        },
      };
    case 'dot':
      return {
        tag: 'circle',
        attributes: {
          ...common,
          cx: round(shape.x),
          cy: round(shape.y),
          r: String(shape.radius),
          fill: shape.fill,
          ...(shape.edge ? { stroke: shape.edge, 'stroke-width': '2' } : {}),
        },
      };
    case 'label':
      return {
        tag: 'text',
        attributes: {
          ...common,
          x: round(shape.x),
          y: round(shape.y),
          fill: shape.fill,
          'text-anchor': shape.anchor ?? 'start',
          ...(shape.bold ? { 'font-weight': '600' } : {}),
          ...(shape.halo
            ? {
                stroke: shape.halo,
                'stroke-width': String(haloWidth),
                'stroke-linejoin': 'round',
                'paint-order': 'stroke',
              }
            : {}),
        },
        text: shape.text,
      };
  }
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function pointsText(points: Points): string {
  const pairs: string[] = [];
  for (let index = 0; index + 1 < points.length; index += 2)
    pairs.push(`${round(points[index]!)},${round(points[index + 1]!)}`);
  return pairs.join(' ');
}

function boxesText(boxes: number[]): string {
  const parts: string[] = [];
  for (let index = 0; index + 3 < boxes.length; index += 4) {
    const [x, y, width, height] = [boxes[index]!, boxes[index + 1]!, boxes[index + 2]!, boxes[index + 3]!];
    parts.push(`M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}z`);
  }
  return parts.join('');
}
