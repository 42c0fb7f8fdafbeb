/* The builder's steps that depend on the type of an id; included once for each, with ID and NAME(x) defined. */

/* Write the pairs whose rows are `row` into their rows; cursor[r] is where the next entry of row r goes. */
void NAME(place_)(const int64_t *row, const int64_t *entry, int64_t count, int64_t *cursor, ID *indices) {
  enum { PAIRS_AHEAD = 16 };
  for (int64_t i = 0; i < count; i++) {
    if (i + PAIRS_AHEAD < count) __builtin_prefetch(cursor + row[i + PAIRS_AHEAD], 1);
    indices[cursor[row[i]]++] = (ID)entry[i];
  }
}

static void NAME(sift_)(ID *ids, int64_t root, int64_t count) {
  for (int64_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && ids[child] < ids[child + 1]) child++;
    if (ids[root] >= ids[child]) return;
    ID swapped = ids[root];
    ids[root] = ids[child];
    ids[child] = swapped;
  }
}

static void NAME(sort_)(ID *ids, int64_t count) {
  enum { SHORT = 40 };
  if (count > SHORT) { /* heapsort: no memory, and no input makes it slow */
    for (int64_t root = count / 2; root-- > 0;) NAME(sift_)(ids, root, count);
    for (int64_t last = count - 1; last > 0; last--) {
      ID largest = ids[0];
      ids[0] = ids[last];
      ids[last] = largest;
      NAME(sift_)(ids, 0, last);
    }
    return;
  }
  for (int64_t i = 1; i < count; i++) {
    ID id = ids[i];
    int64_t at = i;
    for (; at > 0 && ids[at - 1] > id; at--) ids[at] = ids[at - 1];
    ids[at] = id;
  }
}

/* Sort every row, keep one of equal entries, and close the gaps. Returns how many entries are left. */
int64_t NAME(sort_rows_)(int64_t *indptr, int64_t nodes, ID *indices) {
  int64_t kept = 0, begin = 0;
  for (int64_t node = 0; node < nodes; node++) {
    int64_t end = indptr[node + 1];
    NAME(sort_)(indices + begin, end - begin);
    for (int64_t i = begin; i < end; i++)
      if (i == begin || indices[i] != indices[i - 1]) indices[kept++] = indices[i];
    begin = end;
    indptr[node + 1] = kept;
  }
  return kept;
}

/* Check rows that come from a file. Returns -1, or the first entry that is no node. */
int64_t NAME(first_bad_)(const ID *ids, int64_t count, int64_t nodes) {
  for (int64_t i = 0; i < count; i++)
    if ((uint64_t)ids[i] >= (uint64_t)nodes) return i;
  return -1;
}
