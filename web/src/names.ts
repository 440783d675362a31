// Names from files as they are shown: what would be invisible, or would reorder the text around it, is written as an escape.

// Control characters, marks and overrides of the writing direction, characters without a width, and separators of lines.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const unseenButSpace = new RegExp(unseen.source.replace('\\u0000-\\u001f', '\\u0000-\\u0008\\u000b-\\u001f'), 'g');

/** Text that may contain names; tabs and line ends stay, because a page's own text may have them. */
export function escapeUnseen(text: string): string {
  return text.replace(unseenButSpace, escapeCharacter);
}

/** One name on one line. An empty one is shown as the two quotes around nothing. */
export function showName(name: string): string {
  return name === '' ? '""' : name.replace(unseen, escapeCharacter);
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
