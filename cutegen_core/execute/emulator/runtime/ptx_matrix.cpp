// Matrix instructions of a warp. Fragments are laid out as the PTX ISA says; with g = lane / 4 and t = lane % 4:
//
//   A, register r: row g + 8 (r % 2), columns 4p (r / 2) + p t ... + p - 1, for p elements in a register
//   B, register r: rows 4p r + p t ... + p - 1, column g
//   C and D:       rows g and g + 8, columns 2t and 2t + 1
//
// Products are exact and summed in double (integers in 64 bits), then rounded once: a tensor core sums in another order
// and precision, a known difference.
#include <math.h>
#include "numbers.h"
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

constexpr uint32_t WARP = ~0u;

const Operand& part(const Instruction& at, int operand, int i) {
  const Operand& whole = at.operands[operand];
  return whole.kind == Operand::VECTOR ? whole.parts[i] : whole;
}
const Operand& part(const Call& call, int operand, int i) { return part(*call.at, operand, i); }

[[noreturn]] void missing_lane(const Call& call, int lane) {
  fault(call, "MEMORY_ERROR", "divergent-warp", "", "'%s' needs all 32 lanes; lane %d has left the kernel or does not exist",
        call.at->opcode, lane);
}

const Call& some_lane(const Call* const* lanes) {
  int lane = 0;
  while (!lanes[lane]) ++lane;
  return *lanes[lane];
}

// What a lane brings to an instruction and takes from it. Each copies its own variables, which are in the processor's
// cache while it runs; those of 31 others would have to be fetched one by one.
struct Fragments {
  uint32_t a[4], b[2], sums[4], results[4];
};
Fragments fragments[MAX_THREADS];

Fragments& mine() { return fragments[current.thread]; }
Fragments* of_warp() { return fragments + current.thread / 32 * 32; }

int registers_of(const Operand& operand) { return operand.kind == Operand::VECTOR ? operand.count : 1; }

template <class T>
void bring(const Call& call, const Operand& operand, uint32_t* to) {
  int const count = registers_of(operand);
  const Operand* const parts = operand.kind == Operand::VECTOR ? operand.parts : &operand;
  for (int r = 0; r < count; ++r) to[r] = bits_as<uint32_t>(call.in<T>(parts[r]));
}

template <class T>
void take(const Call& call, const Operand& operand, const uint32_t* from) {
  int const count = registers_of(operand);
  const Operand* const parts = operand.kind == Operand::VECTOR ? operand.parts : &operand;
  for (int r = 0; r < count; ++r) call.out(parts[r], bits_as<T>(from[r]));
}

void need_all(const Call* const* lanes) {
  for (int lane = 0; lane < 32; ++lane)
    if (!lanes[lane]) missing_lane(some_lane(lanes), lane);
}

// -- ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16-bit elements --------------------------------------------------

// detail: matrices, transposed?, operand of the address.
constexpr size_t ROW_BYTES = 16;

uintptr_t row_address(const Call& call) { return call.shared_address((int)call.at->detail[2]); }

void check_row(const Call& call, Access kind) {
  if (current.thread % 32 >= 8 * call.at->detail[0]) return;
  uintptr_t const row = row_address(call);
  access(call, row, ROW_BYTES, kind, ROW_BYTES);
  if (!emu_is_shared((const void*)row))
    fault(call, "MEMORY_ERROR", "out-of-bounds", "", "'%s' at an address outside of shared memory", call.at->opcode);
}

using Square = uint16_t[8][8];

void read_rows(const Call* const* lanes, int matrix, Square& square) {
  for (int row = 0; row < 8; ++row) memcpy(square[row], (const void*)row_address(*lanes[8 * matrix + row]), ROW_BYTES);
}

uint32_t pair_of(const Square& square, int lane, bool transposed) {
  int const g = lane / 4, c = lane % 4 * 2;
  uint16_t const low = transposed ? square[c][g] : square[g][c], high = transposed ? square[c + 1][g] : square[g][c + 1];
  return (uint32_t)high << 16 | low;
}

void load_together(const Call* const* lanes) {
  need_all(lanes);
  auto const matrices = (int)lanes[0]->at->detail[0];
  bool const transposed = lanes[0]->at->detail[1];
  Square squares[4];
  for (int m = 0; m < matrices; ++m) read_rows(lanes, m, squares[m]);
  Fragments* const warp = of_warp();
  for (int lane = 0; lane < 32; ++lane)
    for (int m = 0; m < matrices; ++m) warp[lane].results[m] = pair_of(squares[m], lane, transposed);
}

void load_matrix(const Call& call) {
  check_row(call, Access::READ);
  warp_together(call, WARP, load_together);
  take<uint32_t>(call, call.at->operands[0], mine().results);
}

void put_pair(Square& square, int lane, bool transposed, uint32_t pair) {
  int const g = lane / 4, c = lane % 4 * 2;
  (transposed ? square[c][g] : square[g][c]) = (uint16_t)pair;
  (transposed ? square[c + 1][g] : square[g][c + 1]) = (uint16_t)(pair >> 16);
}

void store_together(const Call* const* lanes) {
  need_all(lanes);
  auto const matrices = (int)lanes[0]->at->detail[0];
  for (int m = 0; m < matrices; ++m) {
    Square square;
    for (int lane = 0; lane < 32; ++lane)
      put_pair(square, lane, lanes[0]->at->detail[1], lanes[lane]->in<uint32_t>(part(*lanes[lane], 1, m)));
    for (int row = 0; row < 8; ++row) memcpy((void*)row_address(*lanes[8 * m + row]), square[row], ROW_BYTES);
  }
}

void store_matrix(const Call& call) {
  check_row(call, Access::WRITE);
  warp_together(call, WARP, store_together);
}

bool decode_squares(Instruction& i, int values, int address) {
  i.detail[0] = i.has("x4") ? 4 : i.has("x2") ? 2 : 1;
  i.detail[1] = i.has("trans"), i.detail[2] = address;
  if (!i.has("m8n8") || i.count != 2 || strcmp(i.last(), "b16") != 0 || i.operands[address].kind != Operand::ADDRESS) return false;
  const Operand& registers = i.operands[values];
  return registers_of(registers) == i.detail[0];
}

Execute decode_load(Instruction& i) { return decode_squares(i, 0, 1) ? load_matrix : nullptr; }
Execute decode_store(Instruction& i) { return decode_squares(i, 1, 0) ? store_matrix : nullptr; }

void transpose_together(const Call* const* lanes) {
  need_all(lanes);
  Square square;
  for (int lane = 0; lane < 32; ++lane) put_pair(square, lane, false, lanes[lane]->in<uint32_t>(1));
  for (int lane = 0; lane < 32; ++lane) lanes[lane]->out(0, pair_of(square, lane, true));
}

void transpose_matrix(const Call& call) { warp_together(call, WARP, transpose_together); }
Execute decode_transpose(Instruction& i) {
  return strcmp(i.opcode, "movmatrix.sync.aligned.m8n8.trans.b16") == 0 ? transpose_matrix : nullptr;
}

// -- mma ------------------------------------------------------------------------------------------------------------------

enum class Element : uint8_t { NONE, F16, BF16, TF32, F64, S8, U8, S4, U4, E4M3, E5M2, F32, S32 };

struct Shape {
  const char* name;
  int m, n, k;
};
constexpr Shape shapes[] = {{"m16n8k4", 16, 8, 4}, {"m16n8k8", 16, 8, 8}, {"m16n8k16", 16, 8, 16}, {"m16n8k32", 16, 8, 32},
                            {"m16n8k64", 16, 8, 64}, {"m8n8k4", 8, 8, 4}, {"m8n8k16", 8, 8, 16}, {"m8n8k32", 8, 8, 32}};

Element element_of(const char* type) {
  struct Entry { const char* name; Element element; };
  for (Entry const& e : {Entry{"f16", Element::F16}, {"bf16", Element::BF16}, {"tf32", Element::TF32}, {"f64", Element::F64},
                         {"s8", Element::S8}, {"u8", Element::U8}, {"s4", Element::S4}, {"u4", Element::U4},
                         {"e4m3", Element::E4M3}, {"e5m2", Element::E5M2}, {"f32", Element::F32}, {"s32", Element::S32}})
    if (strcmp(type, e.name) == 0) return e.element;
  return Element::NONE;
}

constexpr int elements_in_register(Element e) {
  switch (e) {
    case Element::F16: case Element::BF16: return 2;
    case Element::S8: case Element::U8: case Element::E4M3: case Element::E5M2: return 4;
    case Element::S4: case Element::U4: return 8;
    default: return 1;
  }
}

double small_float(uint32_t bits, int exponent_bits, int mantissa_bits, bool infinities) {
  uint32_t const fraction = bits & ((1u << mantissa_bits) - 1), exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  int const bias = (1 << (exponent_bits - 1)) - 1;
  bool const top = exponent == (1u << exponent_bits) - 1;
  double value = exponent ? ldexp((1u << mantissa_bits) + fraction, (int)exponent - bias - mantissa_bits)
                          : ldexp(fraction, 1 - bias - mantissa_bits);
  if (infinities && top) value = fraction ? NAN : INFINITY;
  if (!infinities && top && fraction == (1u << mantissa_bits) - 1) value = NAN;
  return bits >> (exponent_bits + mantissa_bits) & 1 ? -value : value;
}

__attribute__((always_inline)) inline double number_of(uint32_t word, int i, Element e) {
  switch (e) {
    case Element::F16: return Half{(uint16_t)(word >> 16 * i)}.wide();
    case Element::BF16: return Bfloat{(uint16_t)(word >> 16 * i)}.wide();
    case Element::TF32: return tf32(word);
    case Element::S8: return (int8_t)(word >> 8 * i);
    case Element::U8: return (uint8_t)(word >> 8 * i);
    case Element::S4: return (int8_t)((word >> 4 * i & 15) << 4) >> 4;
    case Element::U4: return word >> 4 * i & 15;
    case Element::E4M3: return small_float(word >> 8 * i & 0xFF, 4, 3, false);
    case Element::E5M2: return small_float(word >> 8 * i & 0xFF, 5, 2, true);
    default: return bits_as<float>(word);
  }
}

// detail: index into `shapes`, elements of A, B, C and D, saturation.
struct Product {
  const Shape& shape;
  Element a, b, sum;
  int p;                       // elements of A and B in a register
  explicit Product(const Instruction& i)
      : shape(shapes[i.detail[0]]), a((Element)i.detail[1]), b((Element)i.detail[2]), sum((Element)i.detail[3]),
        p(elements_in_register(a)) {}
};

// Puts the elements of a register at places that are `apart` from one another.
void read_elements(const Call& call, const Operand& operand, Element e, int count, double* to, int apart) {
  if (e == Element::F64) {
    *to = call.in<double>(operand);
    return;
  }
  uint32_t const word = call.in<uint32_t>(operand);
  for (int i = 0; i < count; ++i) to[i * apart] = number_of(word, i, e);
}

template <int K>
void read_a(const Call* const* lanes, Product const& x, double (&a)[16][K]) {
  int const rows = x.shape.m / 8, registers = x.shape.m * x.shape.k / (32 * x.p);
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < registers; ++r)
      read_elements(*lanes[lane], part(*lanes[lane], 1, r), x.a, x.p,
                    &a[lane / 4 + 8 * (r % rows)][4 * x.p * (r / rows) + x.p * (lane % 4)], 1);
}

template <int K>
void read_b(const Call* const* lanes, Product const& x, double (&b)[K][8]) {
  for (int lane = 0; lane < 32; ++lane)
    for (int r = 0; r < x.shape.n * x.shape.k / (32 * x.p); ++r)
      read_elements(*lanes[lane], part(*lanes[lane], 2, r), x.b, x.p, &b[4 * x.p * r + x.p * (lane % 4)][lane / 4], 8);
}

// Value `i` of C (of 2 in each of the rows g and g + 8), wherever it lies.
__attribute__((always_inline)) inline double read_sum(const Call& call, Element e, int i) {
  if (e == Element::F32) return call.in<float>(part(call, 3, i));
  if (e == Element::F16) return Half{(uint16_t)(call.in<uint32_t>(part(call, 3, i / 2)) >> 16 * (i % 2))}.wide();
  if (e == Element::F64) return call.in<double>(part(call, 3, i));
  return call.in<int32_t>(part(call, 3, i));
}

int32_t to_word(double x, bool saturate) {
  if (!saturate) return (int32_t)(uint32_t)(uint64_t)(int64_t)x;
  return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

__attribute__((always_inline)) inline void write_sums(const Call& call, Element e, const double* values, int count, bool saturate) {
  for (int i = 0; i < count; ++i) {
    if (e == Element::F32) call.out(part(call, 0, i), (float)values[i]);
    else if (e == Element::F64) call.out(part(call, 0, i), values[i]);
    else if (e == Element::S32) call.out(part(call, 0, i), to_word(values[i], saturate));
    else if (i % 2 == 0)
      call.out(part(call, 0, i / 2), (uint32_t)Half::from(values[i + 1]).bits << 16 | Half::from(values[i]).bits);
  }
}

// Sums a row of A times B, eight columns at once, each along k in its order.
template <int K>
void multiply_row(const double (&row)[K], const double (&b)[K][8], int k_count, double (&sums)[8]) {
  for (double& sum : sums) sum = 0;
  for (int k = 0; k < k_count; ++k)
    for (int j = 0; j < 8; ++j) sums[j] += row[k] * b[k][j];
}

// Of all kinds of elements: lanes are read where they are.
template <int K>
void multiply_together(const Call* const* lanes) {
  need_all(lanes);
  Product const x(*lanes[0]->at);
  double a[16][K], b[K][8], sums[16][8];
  read_a(lanes, x, a);
  read_b(lanes, x, b);
  for (int row = 0; row < x.shape.m; ++row) multiply_row(a[row], b, x.shape.k, sums[row]);
  int const count = x.shape.m == 16 ? 4 : 2;
  for (int lane = 0; lane < 32; ++lane) {
    double values[4];
    for (int i = 0; i < count; ++i)
      values[i] = sums[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2] + read_sum(*lanes[lane], x.sum, i);
    write_sums(*lanes[lane], x.sum, values, count, lanes[0]->at->detail[4]);
  }
}

template <int K>
void multiply(const Call& call) { warp_together(call, WARP, multiply_together<K>); }

// Of the usual kinds, whose loops are compiled for them: 16 rows, sums that are floats or, where HALVES, pairs of halves.
template <Element KIND, bool HALVES>
void multiply_usual_together(const Call* const* lanes) {
  need_all(lanes);
  constexpr int K = 16, P = elements_in_register(KIND);
  int const k_count = shapes[lanes[0]->at->detail[0]].k, steps = k_count / (4 * P);
  double a[16][K], b[K][8], sums[16][8];
  Fragments* const warp = of_warp();
  for (int lane = 0; lane < 32; ++lane) {
    int const g = lane / 4, t = lane % 4;
    for (int step = 0; step < steps; ++step) {
      int const k = P * (4 * step + t);
      for (int i = 0; i < P; ++i) {
        a[g][k + i] = number_of(warp[lane].a[2 * step], i, KIND);
        a[g + 8][k + i] = number_of(warp[lane].a[2 * step + 1], i, KIND);
        b[k + i][g] = number_of(warp[lane].b[step], i, KIND);
      }
    }
  }
  for (int row = 0; row < 16; ++row) multiply_row(a[row], b, k_count, sums[row]);
  for (int lane = 0; lane < 32; ++lane) {
    Fragments& own = warp[lane];
    for (int r = 0; r < 2; ++r) {
      double const* const pair = &sums[lane / 4 + 8 * r][lane % 4 * 2];
      if constexpr (HALVES) {
        auto const half = [&](int i) { return Half::from(pair[i] + Half{(uint16_t)(own.sums[r] >> 16 * i)}.wide()).bits; };
        own.results[r] = (uint32_t)half(1) << 16 | half(0);
      } else {
        for (int i = 0; i < 2; ++i) {
          auto const sum = (float)(pair[i] + bits_as<float>(own.sums[2 * r + i]));
          memcpy(&own.results[2 * r + i], &sum, sizeof sum);
        }
      }
    }
  }
}

template <Element KIND, bool HALVES>
void multiply_usual(const Call& call) {
  using Sum = std::conditional_t<HALVES, uint32_t, float>;
  Fragments& own = mine();
  const Operand* const operands = call.at->operands;
  bring<uint32_t>(call, operands[1], own.a);
  bring<uint32_t>(call, operands[2], own.b);
  bring<Sum>(call, operands[3], own.sums);
  warp_together(call, WARP, multiply_usual_together<KIND, HALVES>);
  take<Sum>(call, operands[0], own.results);
}

// Registers of an instruction that are neighbouring arguments of the statement, as CuTe writes them: the number of the
// first one of each operand, D, A, B and C, in a byte each of detail[5].
const EmuOperand* in_a_row(const Call& call, int operand) { return call.arguments + (call.at->detail[5] >> 8 * operand & 0xFF); }

template <int N>
bool are_words(const EmuOperand* first) {
  uint8_t differ = 0;
  for (int r = 0; r < N; ++r) differ |= first[r].bytes ^ sizeof(uint32_t);
  return differ == 0;
}

// An output that is no variable of a thread is stored to memory: `Call::write` tells the checker.
template <int N>
bool are_variables(const EmuOperand* first) {
  bool all = true;
  for (int r = 0; r < N; ++r) all &= is_local(first[r].address);
  return all;
}

template <int N>
void copy_words(const EmuOperand* first, uint32_t* to) {
  for (int r = 0; r < N; ++r) memcpy(to + r, first[r].address, sizeof *to);
}

template <Element KIND, int A, int B, int SUMS>
void multiply_in_a_row(const Call& call) {
  constexpr bool HALVES = SUMS == 2;
  const EmuOperand *const d = in_a_row(call, 0), *const a = in_a_row(call, 1), *const b = in_a_row(call, 2), *const c = in_a_row(call, 3);
  if ((spec.checked && !are_variables<SUMS>(d)) || !are_words<SUMS>(d) || !are_words<A>(a) || !are_words<B>(b) || !are_words<SUMS>(c)) {
    multiply_usual<KIND, HALVES>(call);
    return;
  }
  Fragments& own = mine();
  copy_words<A>(a, own.a);
  copy_words<B>(b, own.b);
  copy_words<SUMS>(c, own.sums);
  warp_together(call, WARP, multiply_usual_together<KIND, HALVES>);
  for (int r = 0; r < SUMS; ++r) memcpy(d[r].address, &own.results[r], sizeof own.results[r]);
}

bool registers_fit(const Instruction& i, int operand, int wanted) {
  const Operand& given = i.operands[operand];
  return registers_of(given) == wanted;
}

bool types_fit(Element a, Element b, Element c) {
  bool const integers = a >= Element::S8 && a <= Element::U4;
  if (elements_in_register(a) != elements_in_register(b) || a == Element::NONE || b == Element::NONE) return false;
  if (integers) return c == Element::S32;
  if (a == Element::F64) return c == Element::F64;
  return c == Element::F32 || (c == Element::F16 && (a == Element::F16 || a == Element::E4M3 || a == Element::E5M2));
}

// Whether each operand is a row of arguments; leaves where they begin.
bool find_rows(Instruction& i) {
  for (int operand = 0; operand < 4; ++operand) {
    int const first = part(i, operand, 0).index;
    for (int r = 0; r < registers_of(i.operands[operand]); ++r)
      if (part(i, operand, r).kind != Operand::ARGUMENT || part(i, operand, r).index != first + r) return false;
    i.detail[5] |= (int64_t)first << 8 * operand;
  }
  return true;
}

template <Element KIND, bool HALVES>
Execute usual(Instruction& i) {
  constexpr int SUMS = HALVES ? 2 : 4;
  if (!find_rows(i)) return multiply_usual<KIND, HALVES>;
  return registers_of(i.operands[1]) == 4 ? multiply_in_a_row<KIND, 4, 2, SUMS> : multiply_in_a_row<KIND, 2, 1, SUMS>;
}

// mma.sync.aligned.SHAPE.row.col{.satfinite}.D.A.B.C d, a, b, c
Execute decode_mma(Instruction& i) {
  if (i.count != 4 || i.word_count < 10 || i.has("sp") || i.has("xor") || i.has("and") || !i.has("row") || !i.has("col")) return nullptr;
  int const shape = [&] {
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); ++s)
      if (strcmp(i.words[3], shapes[s].name) == 0) return s;
    return -1;
  }();
  Element const d = element_of(i.words[i.word_count - 4]), a = element_of(i.words[i.word_count - 3]),
                b = element_of(i.words[i.word_count - 2]), c = element_of(i.last());
  if (shape < 0 || d != c || !types_fit(a, b, c)) return nullptr;
  Shape const& s = shapes[shape];
  int const p = elements_in_register(a), sums = s.m * s.n / 32 / (c == Element::F16 ? 2 : 1);
  if (s.m == 8 && a == Element::F16) return nullptr;  // the fragments of m8n8k4 are laid out differently
  bool const fit = registers_fit(i, 0, sums) && registers_fit(i, 1, s.m * s.k / (32 * p)) &&
                   registers_fit(i, 2, s.n * s.k / (32 * p)) && registers_fit(i, 3, sums);
  if (!fit) return nullptr;
  i.detail[0] = shape, i.detail[1] = (int64_t)a, i.detail[2] = (int64_t)b, i.detail[3] = (int64_t)c, i.detail[4] = i.has("satfinite");
  if (s.k > 16) return multiply<64>;
  if (a != b || s.m != 16) return multiply<16>;
  switch (a) {
    case Element::F16: return c == Element::F16 ? usual<Element::F16, true>(i) : usual<Element::F16, false>(i);
    case Element::BF16: return usual<Element::BF16, false>(i);
    case Element::TF32: return usual<Element::TF32, false>(i);
    default: return multiply<16>;
  }
}

}  // namespace

const Family matrix_family[] = {{"ldmatrix", decode_load}, {"stmatrix", decode_store}, {"movmatrix", decode_transpose},
                                {"mma", decode_mma}, {}};

}  // namespace runner::ptx
