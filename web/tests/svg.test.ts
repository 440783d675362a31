import { describe, expect, it } from 'vitest';
import { buildMarks } from '../src/graph/display';
import { readGeometry } from '../src/graph/geometry';
import { layoutSheet } from '../src/graph/layout/nest';
import { layoutInput } from '../src/graph/measures';
import { Scene } from '../src/graph/scene';
import { escape, marksToSvg } from '../src/graph/svg';
import { item, look, measure, screen } from './scenes';

function draw(scene: Scene): string {
  const geometry = readGeometry(scene, layoutSheet(layoutInput(scene.root, '', measure)));
  const shown = look([...scene.all()].map((box) => box.item));
  return marksToSvg(buildMarks(scene, geometry, shown), { x: 0, y: 0, width: geometry.width, height: geometry.height }, '#fff');
}

describe('the SVG of a scene', () => {
  it('shows every box with its name and count, and every edge', () => {
    const svg = draw(new Scene(screen('', [item('one'), item('two', 'node', { op: 'MatMul', shape: '32×64' })], [[0, 1, 5, 2048, 0]])));
    for (const text of ['one', 'two', '10 nodes', 'MatMul · 32×64', '5× 2 KiB']) expect(svg).toContain(`>${text}</text>`);
    expect(svg.match(/<path /g)).toHaveLength(1);
  });

  it('shows what is inside an open box, and what of it is hidden', () => {
    const scene = new Scene(screen('', [item('a')]));
    scene.open('a', { screen: screen('a', [item('a/x', 'node')], [], { hidden_edges: 12, incoming: [[0, 3, 0]] }), enters: false });
    const svg = draw(scene);
    for (const text of ['x', '12 edges not drawn', '3']) expect(svg).toContain(`>${text}</text>`);
  });

  it('dashes edges that only wait', () => {
    expect(draw(new Scene(screen('', [item('a'), item('b')], [[0, 1, 2, 0, 2]])))).toContain('stroke-dasharray');
  });

  it('keeps names as text', () => {
    const svg = draw(new Scene(screen('', [item('<script>', 'node', { label: '<script>&"\'', op: '</text>' })])));
    expect(svg).not.toContain('<script>');
    expect(svg).toContain('&lt;script&gt;&amp;&quot;&#39;');
    expect(svg).toContain('&lt;/text&gt;');
  });

  it('has no characters that XML forbids', () => {
    expect(escape('a\u0000b\ud800c\u{1f600}')).toBe('a\ufffdb\ufffdc\u{1f600}');
  });
});
