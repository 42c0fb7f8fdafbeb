/* Transpose a batch's rows: what a gradient that adds up in one order reads. */
#include <stdint.h>
#include <string.h>

/* List for each source the rows that have it as an entry, ascending: those of source s are users[starts[s] ..
   starts[s + 1] - 1]. Counts, adds up, and puts each row in its place (counting sort, which keeps the order). */
void transpose_rows(const int64_t *indptr, const int64_t *idx, int64_t rows, int64_t sources, int64_t *users,
                    int64_t *starts) {
  enum { ENTRIES_AHEAD = 16 };
  int64_t entries = indptr[rows], before = 0;
  int64_t *next = starts + 1; /* where the next row of each source goes; in the end, where the rows of the next begin */
  memset(starts, 0, (size_t)(sources + 1) * sizeof(int64_t));
  for (int64_t i = 0; i < entries; i++) next[idx[i]]++;
  for (int64_t s = 0; s < sources; s++) {
    int64_t count = next[s];
    next[s] = before;
    before += count;
  }
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = indptr[row]; i < indptr[row + 1]; i++) {
      if (i + ENTRIES_AHEAD < entries) __builtin_prefetch(next + idx[i + ENTRIES_AHEAD], 1);
      users[next[idx[i]]++] = row;
    }
}
