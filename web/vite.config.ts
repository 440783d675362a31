import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

// File names carry no hashes and addresses are relative: the built page is committed, must come out the same from the
// same sources, and is served below any prefix (TensorBoard's is /data/plugin/lowtide/).
const names = { entryFileNames: '[name].js', chunkFileNames: '[name].js', assetFileNames: '[name][extname]' };

// What the licences of the bundled libraries ask for; the worker is a bundle of its own, which Vite's own list leaves out.
const bundled = ['@dagrejs/dagre', '@dagrejs/graphlib'];
const licences = {
  name: 'licences',
  generateBundle(this: { emitFile(file: { type: 'asset'; fileName: string; source: string }): void }) {
    const texts = bundled.map((name) => `${name}\n\n${readFileSync(`node_modules/${name}/LICENSE`, 'utf8').trim()}\n`);
    this.emitFile({ type: 'asset', fileName: 'licences.txt', source: texts.join('\n\n') });
  },
};

export default defineConfig({
  base: './',
  plugins: [licences],
  build: {
    outDir: '../src/lowtide/view/page',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: { index: 'src/index.ts' },
      preserveEntrySignatures: 'strict',
      output: names,
    },
  },
  worker: { format: 'es', rolldownOptions: { output: names } },
  test: { include: ['tests/**/*.test.ts'] },
});
