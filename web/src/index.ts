// The one entry: `lowtide view` reaches it through boot.js, TensorBoard imports it and calls `render` in the plugin's frame,
// and the files of `--html` contain it.
import { createInlinedApi, createServerApi } from './api';
import { readInlined } from './inlined';
import { startPage } from './main';
import stylesheet from './styles/page.css?url';

const here = import.meta.url;

export async function render(): Promise<void> {
  await loadStylesheet(new URL(stylesheet, here).href);
  startPage(document.body, createServerApi(new URL('.', here)));
}

// A file that `--html` wrote carries its data, this script and the stylesheet, and calls nothing.
const inlined = readInlined();
if (inlined) {
  const { kind, data } = inlined;
  startPage(document.body, createInlinedApi(kind, data.title, data), { view: kind, id: 0, options: {} });
}

function loadStylesheet(address: string): Promise<void> {
  // The page of `lowtide view` names it itself, to have it sooner; the frame of TensorBoard does not.
  if ([...document.styleSheets].some((sheet) => sheet.href === address)) return Promise.resolve();
  return new Promise((resolve) => {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = address;
    link.onload = () => resolve();
    // An unstyled page is better than a blank one.
    link.onerror = () => resolve();
    document.head.append(link);
  });
}
