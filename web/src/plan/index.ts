import type { Mount } from '../context';

export const mount: Mount = (container) => {
  container.textContent = '';
  return { update: () => undefined, destroy: () => container.replaceChildren() };
};
