import { describe, expect, it } from 'vitest';
import { countFolded, Scene, splitKey } from '../src/graph/scene';
import { item, screen } from './scenes';

function nested(): Scene {
  const scene = new Scene(screen('', [item('a'), item('b'), item('c')]));
  scene.open('a', { screen: screen('a', [item('a/x'), item('a/y', 'node')]), enters: false });
  scene.open('a/x', { screen: screen('a/x', [item('a/x/1', 'node')]), enters: false });
  scene.open('b', { screen: screen('b', [item('b/z', 'node')]), enters: false });
  return scene;
}

describe('a scene', () => {
  it('holds the boxes of all open screens', () => {
    const scene = nested();
    expect(scene.openIds).toEqual(['a', 'a/x', 'b']);
    expect(scene.count).toBe(7);
    expect(scene.ancestors('a/x/1').map(({ id }) => id)).toEqual(['a', 'a/x']);
  });

  it('forgets what is inside a box that closes', () => {
    const scene = nested();
    scene.close('a');
    expect(scene.openIds).toEqual(['b']);
    expect(scene.box('a/x/1')).toBeNull();
    expect(scene.count).toBe(4);
  });

  it('closes what was opened first when it is full, but nothing around the focus', () => {
    const scene = nested();
    expect(scene.closeOldest(6, 'a/x/1')).toEqual(['b']);
    expect(scene.closeOldest(6, 'a/x/1')).toEqual([]);
    expect(scene.closeOldest(3, null)).toEqual(['a']);
  });

  it('lists closed boxes, which legends and differences count', () => {
    expect(nested().closed().map(({ id }) => id)).toEqual(['c', 'a/y', 'a/x/1', 'b/z']);
  });

  it('tells the same function apart when two nodes call it', () => {
    const scene = new Scene(screen('', [item('f', 'node', { calls: [1] }), item('g', 'node', { calls: [1] })]));
    const body = screen('', [item('add', 'node')], [], { part: 1 });
    scene.open('f', { screen: body, enters: true });
    scene.open('g', { screen: body, enters: true });
    expect(scene.box('f→1:add')).not.toBeNull();
    expect(scene.box('g→1:add')).not.toBeNull();
  });

  it('tells a node from the scope of the same name that it is in', () => {
    const scene = new Scene(screen('', [item('dense')]));
    scene.open('dense', { screen: screen('dense', [item('dense', 'node', { label: '(dense)' })]), enters: false });
    expect(scene.box('dense')?.item.kind).toBe('scope');
    expect(scene.box('dense/(dense)')?.item.kind).toBe('node');
  });

  it('counts what is folded and what is left out', () => {
    const scene = new Scene(screen('', [item('a'), item('b', 'node')], [], { hidden_items: 3, hidden_edges: 4 }));
    expect(countFolded(scene)).toEqual({ nodes: 10, groups: 1, hiddenItems: 3, hiddenEdges: 4 });
  });
});

it('a key is a scope and what is folded in it', () => {
  expect(splitKey('a/b')).toEqual({ path: 'a/b', fold: '' });
  expect(splitKey('a/b|MatMul|@0-99')).toEqual({ path: 'a/b', fold: 'MatMul|@0-99' });
  expect(splitKey('|*op Const')).toEqual({ path: '', fold: '*op Const' });
});
