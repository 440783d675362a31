"use strict";
// What the scripts of all pages share: amounts as text, elements, and where things are on an axis.

// A number half-way between two goes to the even one, as in Python; toFixed would take the larger.
function toDigits(value, digits) {
  const last = 10 ** digits, halves = 2 ** (digits + 1);
  const even = Math.floor(value * last) % 2 === 0;
  const halfway = Number.isInteger(value * halves) && !Number.isInteger((value * halves) / 2);
  return (halfway && even ? Math.floor(value * last) / last : value).toFixed(digits);
}

// Amounts as lowtide.units.format_bytes writes them.
function formatBytes(count) {
  if (count < 1024) return `${count} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = count, unit = -1;
  do { size /= 1024; unit += 1; } while (size >= 1023.95 && unit < units.length - 1);
  const text = size < 9.995 ? toDigits(size, 2) : toDigits(size, 1);
  return `${text.replace(/\.?0+$/, "")} ${units[unit]}`;
}

// Elements are always built, never parsed from text: names of tensors and files are not ours.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return dress(made, attributes, children);
}
function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  return dress(made, attributes, children);
}
function dress(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}
const swatch = (colour) => element("span", { class: "swatch", style: `background:${colour}` });

// Amounts from 0 to `top`, a power of two apart so that they read as round, about `most` of them.
function byteTicks(top, most) {
  let step = 1;
  while (top / step > most) step *= 2;
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, tick) => tick * step);
}

// Where in a sorted list the number is that is nearest to `value`.
function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}
