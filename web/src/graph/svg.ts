// The display list as an SVG file. Text from graphs is escaped: names are data here too.
import type { Rectangle } from './geometry';
import { arrowTip, type CurveMark, type Mark, type RectangleMark, type TextMark } from './marks';
import { fontFamily } from './text';

export function marksToSvg(marks: Mark[], view: Rectangle, background: string): string {
  const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${round(view.width)}" height="${round(view.height)}" `
    + `viewBox="${round(view.x)} ${round(view.y)} ${round(view.width)} ${round(view.height)}" font-family="${escape(fontFamily)}">`;
  const page = `<rect x="${round(view.x)}" y="${round(view.y)}" width="100%" height="100%" fill="${escape(background)}"/>`;
  return [head, page, ...marks.map(markToSvg), '</svg>', ''].join('\n');
}

function markToSvg(mark: Mark): string {
  if (mark.type === 'rectangle') return rectangleToSvg(mark);
  return mark.type === 'curve' ? curveToSvg(mark) : textToSvg(mark);
}

function rectangleToSvg({ x, y, width, height, radius, fill, stroke, lineWidth }: RectangleMark): string {
  const line = stroke ? ` stroke="${escape(stroke)}" stroke-width="${lineWidth}"` : '';
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="${round(radius)}" `
    + `fill="${fill ? escape(fill) : 'none'}"${line}/>`;
}

function curveToSvg({ route, stroke, lineWidth, dashed, arrow, opacity }: CurveMark): string {
  const colour = escape(stroke);
  const [x = 0, y = 0, ...rest] = route.map(round);
  const path = `<path d="M${x} ${y}${rest.length ? `C${rest.join(' ')}` : ''}" fill="none" stroke="${colour}" `
    + `stroke-width="${round(lineWidth)}" opacity="${opacity}"${dashed ? ' stroke-dasharray="5 4"' : ''}/>`;
  if (!arrow) return path;
  return `${path}<polygon points="${arrowTip(route, lineWidth).map(round).join(' ')}" fill="${colour}" opacity="${opacity}"/>`;
}

function textToSvg({ x, y, text, font, fill, align }: TextMark): string {
  return `<text x="${round(x)}" y="${round(y)}" font-size="${font.size}" font-weight="${font.weight}" fill="${escape(fill)}" `
    + `text-anchor="${align}">${escape(text)}</text>`;
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Characters that XML gives a meaning become entities; those it forbids, a replacement character. */
export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
