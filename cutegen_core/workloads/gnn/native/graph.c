/* Build the rows of a graph from pairs of nodes, and draw the pairs of generated graphs. */
#include <stdint.h>

#define ID int32_t
#define NAME(x) x##32
#include "rows.h"
#undef ID
#undef NAME
#define ID int64_t
#define NAME(x) x##64
#include "rows.h"

/* Count the entries of every row. Returns -1, or the first pair with an end that is no node. */
int64_t count_rows(const int64_t *row, const int64_t *entry, int64_t count, int64_t nodes, int64_t *counts) {
  for (int64_t i = 0; i < count; i++) {
    if ((uint64_t)row[i] >= (uint64_t)nodes || (uint64_t)entry[i] >= (uint64_t)nodes) return i;
    counts[row[i]]++;
  }
  return -1;
}

static inline uint64_t random64(uint64_t *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static inline double unit(uint64_t *state) { return (double)(random64(state) >> 11) * 0x1p-53; }

/* What pairs are drawn from. Rank r has a weight of (r + offset)^(1/power - 1), and the class r modulo classes. */
typedef struct {
  int64_t nodes, classes;
  double same;      /* probability that both ends have the same class */
  double low, high; /* offset^(1/power), (nodes + offset)^(1/power) */
  double offset;
  int64_t power;
} PairModel;

/* Invert the distribution function of the weights, which is linear in (rank + offset)^(1/power). */
static inline int64_t draw_rank(const PairModel *model, uint64_t *state) {
  double root = model->low + unit(state) * (model->high - model->low), x = root;
  for (int64_t i = 1; i < model->power; i++) x *= root;
  int64_t rank = (int64_t)(x - model->offset);
  return rank < 0 ? 0 : rank < model->nodes ? rank : model->nodes - 1;
}

/* Draw an end of the wanted class: the weights of neighbouring ranks are as good as equal. */
static inline int64_t draw_of_class(const PairModel *model, int64_t class, uint64_t *state) {
  for (;;) {
    int64_t rank = draw_rank(model, state);
    rank += class - rank % model->classes;
    if (rank < model->nodes) return rank;
  }
}

/* Draw pairs of different nodes; names[rank] is the node. `nodes` must be larger than `classes`. */
void draw_pairs(const PairModel *model, uint64_t state, int64_t count, const int64_t *names, int64_t *from, int64_t *to) {
  for (int64_t i = 0; i < count; i++) {
    int64_t first = draw_rank(model, &state), class = first % model->classes, second;
    if (model->classes > 1 && unit(&state) >= model->same)
      class = (class + 1 + (int64_t)(unit(&state) * (double)(model->classes - 1))) % model->classes;
    int64_t tries = 0;
    do second = draw_of_class(model, class, &state);
    while (second == first && ++tries < 64);
    if (second == first) second = (first + model->classes) % model->nodes;
    from[i] = names[first];
    to[i] = names[second];
  }
}
