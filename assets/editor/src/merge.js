// Two changes of one text, as ranges of it.

/** What to put where, so that `old` becomes `text`: {from, to, insert}, the smallest single one. */
export function change(old, text) {
  let from = 0;
  const shorter = Math.min(old.length, text.length);
  while (from < shorter && old[from] === text[from]) from += 1;
  let tail = 0;
  while (tail < shorter - from && old[old.length - 1 - tail] === text[text.length - 1 - tail]) tail += 1;
  return { from, to: old.length - tail, insert: text.slice(from, text.length - tail) };
}

/** `mine` with the change that made `theirs` of `old`, or null where both have changed the same lines. */
export function merge(old, mine, theirs) {
  const [one, other] = [change(old, mine), change(old, theirs)];
  const apart = one.to < other.from ? old.slice(one.to, other.from) : other.to < one.from ? old.slice(other.to, one.from) : "";
  if (!apart.includes("\n")) return null;
  const by = one.to < other.from ? one.insert.length - (one.to - one.from) : 0;
  return mine.slice(0, other.from + by) + other.insert + mine.slice(other.to + by);
}
