import { defineConfig } from 'vitest/config';

// File names carry no hashes and addresses are relative: the built page is committed, must come out the same from the
// same sources, and is served below any prefix (TensorBoard's is /data/plugin/lowtide/).
const names = { entryFileNames: '[name].js', chunkFileNames: '[name].js', assetFileNames: '[name][extname]' };

export default defineConfig({
  base: './',
  build: {
    outDir: '../src/lowtide/view/page',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: 'licenses.md' },
    rolldownOptions: {
      input: { index: 'src/index.ts' },
      preserveEntrySignatures: 'strict',
      output: names,
    },
  },
  worker: { format: 'es', rolldownOptions: { output: names } },
  test: { include: ['tests/**/*.test.ts'] },
});
