export function startPage(container: HTMLElement, base: URL): void {
  container.textContent = base.href;
}
