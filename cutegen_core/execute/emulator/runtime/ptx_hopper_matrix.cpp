// The matrix unit of a warp group: wgmma on tiles in shared memory (and A in registers), accumulated in float.
//
// The product of a warp needs nothing of the group's other warps, so every warp keeps its own list of products under
// way. They are computed when all four warps wait for them; until then the accumulators hold NaN. Layout of operands and
// fragments: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions". Sums are kept in float and rounded at every
// step; the hardware adds the products of an instruction with fewer guard bits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"
#include "ptx_hopper.h"

namespace runner::ptx::hopper {
namespace {

constexpr int MAX_N = 256, ROWS = 16, MAX_K = 16;  // of one warp's part
constexpr size_t CHUNK = 16;
constexpr uint32_t POISON = 0x7FC0DEAD;
constexpr int WARPS = MAX_THREADS / 32;

enum Element : int64_t { BF16, F16, TF32 };
enum Detail { ELEMENT, N, REGISTERS, FIRST_SCALE };  // of Instruction::detail

// A matrix descriptor: where a tile lies in shared memory. Offsets are in units of 16 bytes.
struct Tile {
  uint32_t start, leading, stride;
  int swizzle;      // bits
  bool mn_major;
  explicit Tile(uint64_t word, bool mn)
      : start((uint32_t)(word & 0x3FFF) << 4), leading(word >> 16 & 0x3FFF), stride(word >> 32 & 0x3FFF),
        swizzle((int)(4 - (word >> 62)) % 4), mn_major(mn) {}
};

struct Product {
  Product* next;
  Place place;
  const char* opcode;
  int64_t element;
  int n;
  bool accumulates, negates, superseded;
  Product* successor;                  // continues on the same accumulators
  uint64_t a, b;                       // descriptors
  bool a_transposed, b_transposed, a_in_registers;
  uint32_t a_values[32][4];
  uint32_t group;                      // 0 while it is not committed
  float* accumulators[32][MAX_N / 2];
  float values[32][MAX_N / 2];
};

// Of a warp.
struct Unit {
  Product *first, *last;
  uint32_t committed;
  int64_t wanted;          // groups up to this one are waited for
  bool fenced;
};
Unit units[WARPS];

// Four warps, which wait together.
constexpr int GROUP_WARPS = 4;
struct Group {
  int arrived;
  uint32_t generation;
  Clock clock;
};
Group groups[WARPS / GROUP_WARPS];

// -- operands in shared memory ------------------------------------------------------------------------------------------------

// Descriptors hold 18 bits of an address, which is enough on a GPU; here two windows share them.
uintptr_t resolve_start(Product const& product, uint32_t start) {
  bool const dynamic = start < emu_dynamic_smem_bytes();
  uintptr_t const mask = DESCRIBED - 1, low = (uintptr_t)shared_begin();
  uintptr_t fixed = (low & ~mask) | start;
  if (fixed < low) fixed += mask + 1;
  size_t count = 0;
  const EmuShared* const records = shared_records(&count);
  bool in_variable = false;
  for (size_t i = 0; i < count; ++i) {
    auto const begin = (uintptr_t)records[i].address;
    in_variable |= begin && fixed >= begin && fixed + 256 <= begin + records[i].bytes;
  }
  if (dynamic && in_variable)
    fault_at(product.place, "UNSUPPORTED", "wgmma", "", "the matrix descriptor fits a static and the dynamic shared memory; use one of them for tiles");
  if (!dynamic && !in_variable)
    fault_at(product.place, "MEMORY_ERROR", "out-of-bounds", "", "'%s' with a matrix descriptor that points to no shared memory (start 0x%x)",
             product.opcode, start);
  return dynamic ? DYNAMIC_BASE + start : fixed;
}

const uint8_t* chunk_at(Product const& product, uintptr_t address, int bits) {
  uintptr_t const mask = ((uintptr_t)1 << bits) - 1;
  address ^= (address >> 7 & mask) << 4;
  if (spec.checked) {
    ByProxy const unit;
    check_access(address, CHUNK, Access::READ, product.place.pc, product.place.frame);
    check_proxy(address, CHUNK, product.place.pc, product.place.frame);
  }
  if (!in_shared(address, CHUNK))
    fault_at(product.place, "MEMORY_ERROR", "out-of-bounds", "", "'%s' reads a tile that reaches beyond the block's shared memory", product.opcode);
  return (const uint8_t*)address;
}

float widen(int64_t element, const uint8_t* at) {
  uint32_t word = 0;
  if (element == TF32) return memcpy(&word, at, 4), tf32(word);
  memcpy(&word, at, 2);
  return element == BF16 ? bits_as<float>(word << 16) : (float)Half{(uint16_t)word}.wide();
}

int k_of(int64_t element) { return element == TF32 ? 8 : 16; }
size_t bytes_of(int64_t element) { return element == TF32 ? 4 : 2; }

// Rows `first`.. of a tile whose rows run along K: 8 rows of 16-byte chunks are a core matrix.
void read_k_major(Product const& product, Tile const& tile, uintptr_t start, int first, int rows, float* out) {
  size_t const item = bytes_of(product.element);
  int const k = k_of(product.element), per_chunk = (int)(CHUNK / item), pitch = 1 << tile.swizzle;
  for (int row = first; row < first + rows; ++row)
    for (int chunk = 0; chunk < k / per_chunk; ++chunk) {
      size_t const beside = tile.swizzle ? (size_t)chunk : (size_t)chunk * tile.leading;
      size_t const offset = (size_t)(row % 8 * pitch) + (size_t)(row / 8) * tile.stride + beside;
      const uint8_t* const data = chunk_at(product, start + offset * CHUNK, tile.swizzle);
      for (int i = 0; i < per_chunk; ++i)
        out[(row - first) * k + chunk * per_chunk + i] = widen(product.element, data + (size_t)i * item);
    }
}

// The same of a tile whose rows run along M or N. Without a swizzle the two offsets change their parts.
void read_mn_major(Product const& product, Tile const& tile, uintptr_t start, int first, int rows, float* out) {
  size_t const item = bytes_of(product.element);
  int const k = k_of(product.element), per_chunk = (int)(CHUNK / item), width = 1 << tile.swizzle;
  size_t const across = tile.swizzle ? tile.leading : tile.stride, down = tile.swizzle ? tile.stride : tile.leading;
  for (int at = 0; at < k; ++at)
    for (int chunk = first / per_chunk; chunk < (first + rows + per_chunk - 1) / per_chunk; ++chunk) {
      size_t const offset = (size_t)(chunk % width) + (size_t)(chunk / width) * across + (size_t)(at % 8 * width) + (size_t)(at / 8) * down;
      const uint8_t* const data = chunk_at(product, start + offset * CHUNK, tile.swizzle);
      for (int i = 0; i < per_chunk; ++i) {
        int const row = chunk * per_chunk + i - first;
        if (row >= 0 && row < rows) out[row * k + at] = widen(product.element, data + (size_t)i * item);
      }
    }
}

void read_tile(Product const& product, uint64_t descriptor, bool mn_major, int first, int rows, float* out) {
  if (descriptor >> 49 & 7)
    fault_at(product.place, "UNSUPPORTED", "wgmma", "", "the emulator reads matrix descriptors without a base offset only");
  Tile const tile(descriptor, mn_major);
  uintptr_t const start = resolve_start(product, tile.start);
  if (mn_major) read_mn_major(product, tile, start, first, rows, out);
  else read_k_major(product, tile, start, first, rows, out);
}

// A in registers: lane l holds rows l / 4 and l / 4 + 8 of two 32-bit columns each.
void read_registers(Product const& product, float* out) {
  size_t const item = bytes_of(product.element);
  int const k = k_of(product.element), per_word = (int)(4 / item);
  for (int lane = 0; lane < 32; ++lane)
    for (int word = 0; word < 4; ++word)
      for (int i = 0; i < per_word; ++i) {
        int const row = lane / 4 + 8 * (word % 2), column = (lane % 4 + 4 * (word / 2)) * per_word + i;
        out[row * k + column] = widen(product.element, (const uint8_t*)&product.a_values[lane][word] + (size_t)i * item);
      }
}

// -- one product ----------------------------------------------------------------------------------------------------------------

float& sum_at(Product& product, int row, int column) {
  return product.values[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
}

void multiply(Product& product, int warp) {
  static float a[ROWS * MAX_K], b[MAX_N * MAX_K], across[MAX_K][MAX_N], sums[MAX_N];
  int const k = k_of(product.element), n = product.n;
  if (product.a_in_registers) read_registers(product, a);
  else read_tile(product, product.a, product.a_transposed, warp % 4 * ROWS, ROWS, a);
  read_tile(product, product.b, product.b_transposed, 0, n, b);
  for (int at = 0; at < k; ++at)
    for (int column = 0; column < n; ++column) across[at][column] = product.negates ? -b[column * k + at] : b[column * k + at];
  for (int row = 0; row < ROWS; ++row) {
    for (int column = 0; column < n; ++column) sums[column] = product.accumulates ? sum_at(product, row, column) : 0.f;
    for (int at = 0; at < k; ++at)
      for (int column = 0; column < n; ++column) sums[column] += a[row * k + at] * across[at][column];
    for (int column = 0; column < n; ++column) sum_at(product, row, column) = sums[column];
  }
}

void perform(Product& product, int warp) {
  {
    As const issuer(product.place);
    multiply(product, warp);
  }
  if (product.successor) {
    memcpy(product.successor->values, product.values, sizeof product.values);
    return;
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < product.n / 2; ++i) *product.accumulators[lane][i] = product.values[lane][i];
}

// -- instructions ---------------------------------------------------------------------------------------------------------------

constexpr uint32_t ALL = ~0u;

const Call& first_of(const Call* const* lanes) {
  for (int lane = 0; lane < 32; ++lane)
    if (!lanes[lane])
      for (int other = 0; other < 32; ++other)
        if (lanes[other])
          fault(*lanes[other], "MEMORY_ERROR", "divergent-warp", "", "'%s' without lane %d: all threads of the warp must execute it",
                lanes[other]->at->opcode, lane);
  return *lanes[0];
}

Unit& unit() { return units[current.thread / 32]; }

void take_operands(Product& product, const Call* const* lanes) {
  const Call& call = *lanes[0];
  const Instruction& i = *call.at;
  product.a_in_registers = i.detail[REGISTERS];
  if (!product.a_in_registers) product.a = call.in<uint64_t>(1);
  product.b = call.in<uint64_t>(2);
  product.accumulates = call.predicate(i.operands[3]);
  product.negates = (call.in<int32_t>(4) < 0) != (call.in<int32_t>(5) < 0);
  if (product.element != TF32) {
    product.a_transposed = !product.a_in_registers && call.in<int32_t>(6) != 0;
    product.b_transposed = call.in<int32_t>(product.a_in_registers ? 6 : 7) != 0;
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (product.a_in_registers)
      for (int word = 0; word < 4; ++word) product.a_values[lane][word] = lanes[lane]->in<uint32_t>(i.operands[1].parts[word]);
    for (int j = 0; j < product.n / 2; ++j)
      product.accumulators[lane][j] = (float*)lanes[lane]->arguments[i.operands[0].parts[j].index].address;
  }
}

// The accumulators' values: of the product under way that works on them, or those in the registers.
void take_accumulators(Product& product, Unit& unit) {
  for (Product* earlier = unit.first; earlier; earlier = earlier->next)
    if (earlier->accumulators[0][0] == product.accumulators[0][0] && !earlier->successor && earlier->n == product.n) {
      earlier->successor = &product;
      return;
    }
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < product.n / 2; ++j) {
      product.values[lane][j] = *product.accumulators[lane][j];
      memcpy(product.accumulators[lane][j], &POISON, sizeof POISON);
    }
}

void start_for_all(const Call* const* lanes) {
  const Call& call = first_of(lanes);
  Unit& mine = unit();
  if (!mine.fenced)
    fault(call, "MEMORY_ERROR", "wgmma", "", "'%s' before any wgmma.fence: its registers and tiles may not be ready (warpgroup_arrive())", call.at->opcode);
  auto* const product = (Product*)calloc(1, sizeof(Product));
  if (!product) fail("MACHINE_ERROR", "", "", "out of memory for the matrix products under way");
  product->place = here(call);
  product->opcode = call.at->opcode;
  product->element = call.at->detail[ELEMENT];
  product->n = (int)call.at->detail[N];
  take_operands(*product, lanes);
  take_accumulators(*product, mine);
  (mine.last ? mine.last->next : mine.first) = product;
  mine.last = product;
}
void start(const Call& call) { warp_together(call, ALL, start_for_all); }

void commit_for_all(const Call* const* lanes) {
  first_of(lanes);
  Unit& mine = unit();
  ++mine.committed;
  for (Product* product = mine.first; product; product = product->next)
    if (!product->group) product->group = mine.committed;
}
void commit(const Call& call) { warp_together(call, ALL, commit_for_all); }

void finish(int warp) {
  Unit& mine = units[warp];
  while (mine.first && mine.first->group && mine.first->group <= mine.wanted) {
    Product* const done = mine.first;
    perform(*done, warp);
    if (spec.checked) {
      As const issuer(done->place);
      release_into(groups[warp / GROUP_WARPS].clock);
    }
    mine.first = done->next;
    if (!mine.first) mine.last = nullptr;
    free(done);
  }
}

void wait_for_all(const Call* const* lanes) {
  const Call& call = first_of(lanes);
  int const warp = current.thread / 32, first = warp / GROUP_WARPS * GROUP_WARPS;
  Group& group = groups[warp / GROUP_WARPS];
  units[warp].wanted = (int64_t)units[warp].committed - call.in<uint32_t>(0);
  if (++group.arrived < GROUP_WARPS) return;
  for (int w = first; w < first + GROUP_WARPS; ++w) finish(w);
  group.arrived = 0;
  ++group.generation;
  note_change();
}

void wait(const Call& call) {
  Group const& group = groups[current.thread / 32 / GROUP_WARPS];
  uint32_t const generation = group.generation;
  warp_together(call, ALL, wait_for_all);
  while (group.generation == generation)
    wait_for_change("wgmma.wait_group for the other warps of its warp group", call.pc, call.frame);
  if (spec.checked) acquire_for(current.thread, group.clock);
}

void fence_for_all(const Call* const* lanes) {
  first_of(lanes);
  unit().fenced = true;
}
void fence(const Call& call) { warp_together(call, ALL, fence_for_all); }

// -- decoding -------------------------------------------------------------------------------------------------------------------

Execute decode_product(Instruction& i) {
  // wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
  if (i.word_count != 8 || strcmp(i.words[5], "f32") != 0 || strcmp(i.words[6], i.words[7]) != 0) return nullptr;
  int n = 0, k = 0;
  if (sscanf(i.words[4], "m64n%dk%d", &n, &k) != 2 || n < 8 || n > MAX_N || n % 8) return nullptr;
  const char* const type = i.words[6];
  i.detail[ELEMENT] = strcmp(type, "bf16") == 0 ? BF16 : strcmp(type, "f16") == 0 ? F16 : strcmp(type, "tf32") == 0 ? TF32 : -1;
  i.detail[N] = n;
  if (i.detail[ELEMENT] < 0 || k != k_of(i.detail[ELEMENT]) || i.count < 6) return nullptr;
  i.detail[REGISTERS] = i.operands[1].kind == Operand::VECTOR;
  int const modes = i.detail[ELEMENT] == TF32 ? 0 : i.detail[REGISTERS] ? 1 : 2;
  if (i.count != 6 + modes || i.operands[0].kind != Operand::VECTOR || i.operands[0].count != n / 2) return nullptr;
  if (i.detail[REGISTERS] && i.operands[1].count != 4) return nullptr;
  for (int j = 0; j < n / 2; ++j)
    if (i.operands[0].parts[j].kind != Operand::ARGUMENT) return nullptr;
  return start;
}

Execute decode_fence(Instruction&) { return fence; }
Execute decode_commit(Instruction&) { return commit; }
Execute decode_wait(Instruction& i) { return i.count == 1 ? wait : nullptr; }

}  // namespace

void begin_products() {
  for (Unit& mine : units) {
    while (mine.first) {
      Product* const next = mine.first->next;
      free(mine.first);
      mine.first = next;
    }
    mine = {};
  }
  memset(groups, 0, sizeof groups);
}

void end_products() {
  for (Unit const& mine : units) {
    if (!mine.first) continue;
    As const issuer(mine.first->place);
    warn("wgmma", "", "the block ends with matrix products nobody waited for");
    return;
  }
}

const Family matrix_family[] = {{"wgmma.mma_async", decode_product}, {"wgmma.fence", decode_fence},
                                {"wgmma.commit_group", decode_commit}, {"wgmma.wait_group", decode_wait}, {}};

}  // namespace runner::ptx::hopper
