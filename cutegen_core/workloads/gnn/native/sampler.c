/* Draw neighbourhoods: unbiased, without replacement, reproducible, and as fast as memory answers.

   1. A hop draws for the nodes of one range of the list `nodes`, in blocks whose drawn places fit a small buffer.
   2. Of a block, first every row's places are drawn and fetched ahead, then the ids that lie there are read and their
      cells of the map are fetched ahead, and only then every id is looked up: three waits for memory become one.
   3. What is drawn for a node depends on (key of the hop, node) alone, never on threads or buffers.
   Every function returns 0 or more, or one of the negative codes below, and touches nothing outside its arguments. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_FULL = -1, INDPTR_FULL = -2, IDX_FULL = -3, OUT_OF_MEMORY = -4, BAD_ID = -5, BAD_ROW = -6, REPEATED = -7 };
enum { BLOCK = 512, SCANNED = 48 };

typedef struct { uint32_t id, stamp; } Cell;

/* Node id -> position in `nodes`. A cell is taken if its stamp - base is a position below `count`; a new batch moves
   base beyond all stamps, which empties the map without touching it. */
typedef struct {
  Cell *cells;
  int shift;         /* 64 - log2(cells) */
  uint64_t mask;     /* cells - 1 */
  uint32_t base;
  uint32_t count;
  int64_t *places;   /* of a block: where in `indices` its ids lie, then the ids */
  int64_t room;      /* of places */
  uint64_t *chosen;  /* set of drawn places for large fan-outs: place + 1, 0 is free */
  int64_t chosen_room;
} Map;

typedef struct {
  const int64_t *indptr;
  const void *indices;
  int64_t nodes, edges;
  int32_t wide; /* indices are int64 */
} Rows;

typedef struct {
  int64_t *nodes, *indptr, *idx;
  int64_t nodes_room, indptr_room, idx_room;
} Output;

static inline uint64_t mix(uint64_t x) { /* the finaliser of splitmix64 (Steele, Lea, Flood 2014) */
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static inline uint64_t next(uint64_t *state) { return mix(*state += 0x9E3779B97F4A7C15u); }

/* A number in [0, bound), every one as likely: multiply-shift with rejection (Lemire 2019). */
static inline uint64_t below(uint64_t *state, uint64_t bound) {
  unsigned __int128 product = (unsigned __int128)next(state) * bound;
  if ((uint64_t)product < bound) {
    uint64_t least = -bound % bound;
    while ((uint64_t)product < least) product = (unsigned __int128)next(state) * bound;
  }
  return (uint64_t)(product >> 64);
}

static inline uint64_t home_of(const Map *map, uint32_t id) { return (id * 0x9E3779B97F4A7C15u) >> map->shift; }

/* Return the cell that holds `id`, or the free one where it belongs. */
static inline Cell *find(const Map *map, uint32_t id) {
  for (uint64_t at = home_of(map, id);; at = (at + 1) & map->mask) {
    Cell *cell = map->cells + at;
    if (cell->stamp - map->base >= map->count || cell->id == id) return cell;
  }
}

static int resize(Map *map, int bits) {
  Cell *cells = calloc((size_t)1 << bits, sizeof(Cell));
  if (!cells) return OUT_OF_MEMORY;
  free(map->cells);
  map->cells = cells;
  map->shift = 64 - bits;
  map->mask = ((uint64_t)1 << bits) - 1;
  map->base = 1; /* a fresh cell's stamp is 0: 0 - 1 is no position */
  return 0;
}

Map *map_new(void) {
  Map *map = calloc(1, sizeof(Map));
  if (map && resize(map, 12) < 0) { free(map); map = NULL; }
  return map;
}

void map_free(Map *map) {
  if (!map) return;
  free(map->cells);
  free(map->places);
  free(map->chosen);
  free(map);
}

static void empty(Map *map) {
  if ((uint64_t)map->base + map->count > UINT32_MAX - ((uint64_t)1 << 31)) { /* stamps would come round */
    memset(map->cells, 0, (map->mask + 1) * sizeof(Cell));
    map->base = 1;
  } else {
    map->base += map->count;
  }
  map->count = 0;
}

/* Make room so that `more` further ids leave at least half of the cells free. */
static int reserve(Map *map, const int64_t *nodes, int64_t more) {
  uint64_t wanted = 2 * ((uint64_t)map->count + (uint64_t)more);
  if (wanted <= map->mask + 1) return 0;
  if (wanted > (uint64_t)1 << 32) return OUT_OF_MEMORY; /* a batch of 2^31 nodes */
  int bits = 64 - map->shift;
  while (((uint64_t)1 << bits) < wanted) bits++;
  if (resize(map, bits) < 0) return OUT_OF_MEMORY;
  uint32_t all = map->count;
  for (map->count = 0; map->count < all; map->count++) {
    uint32_t id = (uint32_t)nodes[map->count];
    *find(map, id) = (Cell){id, map->base + map->count};
  }
  return 0;
}

/* Whether a place was drawn before; remembers it. For fan-outs too large to scan what was drawn. */
static int seen_before(Map *map, uint64_t place) {
  uint64_t mask = (uint64_t)map->chosen_room - 1, at = (mix(place)) & mask;
  for (; map->chosen[at]; at = (at + 1) & mask)
    if (map->chosen[at] == place + 1) return 1;
  map->chosen[at] = place + 1;
  return 0;
}

static int ready_chosen(Map *map, int64_t fanout) {
  int64_t wanted = 64;
  while (wanted < 2 * fanout) wanted *= 2;
  if (map->chosen_room < wanted) {
    free(map->chosen);
    map->chosen_room = 0;
    if (!(map->chosen = malloc((size_t)wanted * sizeof(uint64_t)))) return OUT_OF_MEMORY;
    map->chosen_room = wanted;
  }
  memset(map->chosen, 0, (size_t)map->chosen_room * sizeof(uint64_t));
  return 0;
}

/* Draw `fanout` of `degree` places, each set as likely (Floyd; Bentley and Floyd 1987), and add `start` to each. */
static int draw(Map *map, int64_t start, int64_t degree, int64_t fanout, uint64_t state, int64_t *out) {
  if (fanout <= SCANNED) {
    for (int64_t i = 0, j = degree - fanout; i < fanout; i++, j++) {
      int64_t place = start + (int64_t)below(&state, (uint64_t)j + 1);
      int again = 0;
      for (int64_t k = 0; k < i; k++) again |= out[k] == place;
      out[i] = again ? start + j : place;
    }
    return 0;
  }
  if (ready_chosen(map, fanout) < 0) return OUT_OF_MEMORY;
  for (int64_t i = 0, j = degree - fanout; i < fanout; i++, j++) {
    int64_t place = (int64_t)below(&state, (uint64_t)j + 1);
    if (seen_before(map, (uint64_t)place)) { place = j; seen_before(map, (uint64_t)j); }
    out[i] = start + place;
  }
  return 0;
}

static inline const char *address(const Rows *rows, int64_t place) {
  return (const char *)rows->indices + place * (rows->wide ? 8 : 4);
}

static inline int64_t id_at(const Rows *rows, int64_t place) {
  return rows->wide ? ((const int64_t *)rows->indices)[place] : ((const int32_t *)rows->indices)[place];
}

static int make_places(Map *map, int64_t wanted) {
  if (wanted <= map->room) return 0;
  free(map->places);
  map->room = 0;
  if (!(map->places = malloc((size_t)wanted * sizeof(int64_t)))) return OUT_OF_MEMORY;
  map->room = wanted;
  return 0;
}

/* Look a node up, or add it as the newest. */
static inline int64_t position_of(Map *map, const Rows *rows, Output *out, int64_t id) {
  if ((uint64_t)id >= (uint64_t)rows->nodes) return BAD_ID;
  Cell *cell = find(map, (uint32_t)id);
  uint32_t position = cell->stamp - map->base;
  if (position < map->count) return position;
  if (map->count >= out->nodes_room) return NODES_FULL;
  *cell = (Cell){(uint32_t)id, map->base + map->count};
  out->nodes[map->count] = id;
  return map->count++;
}

static int64_t add_seeds(Map *map, const Rows *rows, const int64_t *seeds, int64_t count, Output *out) {
  empty(map);
  if (reserve(map, out->nodes, count) < 0) return OUT_OF_MEMORY;
  for (int64_t i = 0; i < count; i++) {
    int64_t position = position_of(map, rows, out, seeds[i]);
    if (position < 0) return position;
    if (position != i) return REPEATED;
  }
  return count;
}

/* Draw the places of rows first..last-1 into map->places and write where each row ends. Returns how many. */
static int64_t draw_block(Map *map, const Rows *rows, int64_t first, int64_t last, int64_t fanout, uint64_t key,
                          const int64_t *nodes, int64_t *ends, int64_t before) {
  int64_t drawn = 0;
  for (int64_t i = first; i < last; i++) {
    int64_t node = nodes[i], start = rows->indptr[node], degree = rows->indptr[node + 1] - start;
    if (start < 0 || degree < 0 || degree > rows->edges - start) return BAD_ROW;
    if (degree <= fanout) {
      for (int64_t k = 0; k < degree; k++) {
        map->places[drawn + k] = start + k;
        __builtin_prefetch(address(rows, start + k));
      }
      drawn += degree;
    } else {
      if (draw(map, start, degree, fanout, mix(key ^ ((uint64_t)node * 0xD1342543DE82EF95u)), map->places + drawn) < 0)
        return OUT_OF_MEMORY;
      for (int64_t k = 0; k < fanout; k++) __builtin_prefetch(address(rows, map->places[drawn + k]));
      drawn += fanout;
    }
    ends[i] = before + drawn;
  }
  return drawn;
}

/* Draw for the nodes first..last-1 of the list. `ends[i]` becomes the end of row i in idx, counted from `origin`; the
   first row begins at `before`. Returns the end of idx. */
static int64_t hop(Map *map, const Rows *rows, int64_t first, int64_t last, int64_t fanout, uint64_t key, int64_t *ends,
                   int64_t before, int64_t origin, Output *out) {
  if (fanout > rows->edges) fanout = rows->edges > 0 ? rows->edges : 1;
  int64_t per_block = BLOCK / fanout > 1 ? BLOCK / fanout : 1;
  if (make_places(map, per_block * fanout) < 0) return OUT_OF_MEMORY;
  for (int64_t begin = first; begin < last; begin += per_block) {
    int64_t end = begin + per_block < last ? begin + per_block : last;
    for (int64_t i = end; i < end + per_block && i < last; i++) __builtin_prefetch(rows->indptr + out->nodes[i]);
    int64_t drawn = draw_block(map, rows, begin, end, fanout, key, out->nodes, ends, before - origin);
    if (drawn < 0) return drawn;
    if (before + drawn > out->idx_room) return IDX_FULL;
    if (reserve(map, out->nodes, drawn) < 0) return OUT_OF_MEMORY;
    for (int64_t i = 0; i < drawn; i++) {
      map->places[i] = id_at(rows, map->places[i]);
      __builtin_prefetch(map->cells + home_of(map, (uint32_t)map->places[i]), 1);
    }
    for (int64_t i = 0; i < drawn; i++) {
      int64_t position = position_of(map, rows, out, map->places[i]);
      if (position < 0) return position;
      out->idx[before + i] = position;
    }
    before += drawn;
  }
  return before;
}

/* Sample a batch. known[h] becomes the number of nodes known before hop h, known[hops] that of all nodes; ends[h] the
   end of hop h in idx. A frontier has one indptr over all rows, in layers every hop has its own. Returns ends[hops-1],
   0 without a hop. */
int64_t sample(Map *map, const Rows *rows, const int64_t *seeds, int64_t count, const int64_t *fanouts, int64_t hops,
               int32_t layered, uint64_t seed, uint64_t batch, Output *out, int64_t *known, int64_t *ends) {
  int64_t edges = 0, row = 0, first = 0;
  if ((known[0] = add_seeds(map, rows, seeds, count, out)) < 0) return known[0];
  for (int64_t h = 0; h < hops; h++) {
    uint64_t key = mix(mix(mix(seed + 1) + batch) + (uint64_t)h);
    int64_t targets = known[h];
    if (layered) first = 0;
    if (row + targets - first + 1 > out->indptr_room) return INDPTR_FULL;
    if (layered || h == 0) out->indptr[row++] = 0;
    edges = hop(map, rows, first, targets, fanouts[h], key, out->indptr + row - first, edges, layered ? edges : 0, out);
    if (edges < 0) return edges;
    row += targets - first;
    first = targets;
    known[h + 1] = map->count;
    ends[h] = edges;
  }
  return edges;
}

/* Copy rows of `bytes` bytes: dst[i] = table[ids[i]]. */
void gather_rows(const char *table, int64_t bytes, const int64_t *ids, int64_t count, char *dst) {
  enum { LINES_AHEAD = 16 };
  for (int64_t i = 0; i < count; i++) {
    if (i + LINES_AHEAD < count) {
      const char *later = table + ids[i + LINES_AHEAD] * bytes;
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(later + at);
    }
    memcpy(dst + i * bytes, table + ids[i] * bytes, (size_t)bytes);
  }
}
