// The data of a page that `--html` wrote, in an element of the document.
import type { ReportView } from './route';

interface Inlined {
  kind: ReportView;
  data: { title: string };
}

/** Null for a page that a server shows. */
export function readInlined(): Inlined | null {
  const text = document.querySelector('script#data[type="application/json"]')?.textContent;
  return text ? (JSON.parse(text) as Inlined) : null;
}
