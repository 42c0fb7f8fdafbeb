// The copy engine: boxes of tensors named by a tensor map (tile mode) and plain runs of bytes, both ways; on their way to
// global memory they may be added to what is there, or reduced with it otherwise.
//
// A load poisons its destination when it is issued and happens when a thread asks the barrier it reports to; a store
// happens when its group is waited for. Rows of a box lie one behind the other in shared memory; with a swizzle of
// 2^b * 16 bytes, b bits of the 16-byte chunk number are xored with the b address bits from bit 7 on.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "ptx_hopper.h"

namespace runner::ptx::hopper {
namespace {

constexpr size_t UNIT = 16;
constexpr int MAX_RANK = 5;

struct Copy {
  Place place;
  const char* opcode;
  const TensorMap* map;      // null: plain bytes
  int32_t at[MAX_RANK];      // coordinates of the box
  uintptr_t shared, global;  // `global` for plain bytes only
  uint32_t bytes;
  uintptr_t barrier;         // of a load
  uint32_t group;            // of a store, 0 while it is not committed
  Change change;             // of a store that is reduced with what is there; else null
  uint32_t item;             // its bytes of an element
};

// Copies under way, in the order of their issue.
constexpr int MOST_COPIES = 4096;
Copy loads[MOST_COPIES], stores[MOST_COPIES];
int load_count, store_count;
uint32_t committed[MAX_THREADS];  // store groups a thread has committed

Copy& add(const Call& call, Copy* list, int& count, Copy const& copy) {
  if (count == MOST_COPIES)
    fault(call, "UNSUPPORTED", "bulk-copy", "", "more than %d bulk copies under way that nobody waits for", MOST_COPIES);
  return list[count++] = copy;
}

void remove(Copy* list, int& count, int index) {
  memmove(&list[index], &list[index + 1], sizeof(Copy) * (size_t)(--count - index));
}

// -- tensor maps ------------------------------------------------------------------------------------------------------------

const TensorMap& tensor_map(const Call& call, uintptr_t address) {
  TensorMapDescriptor descriptor;
  memcpy(&descriptor, (const void*)address, sizeof descriptor);
  if (descriptor.mark != TENSOR_MAP_MARK || descriptor.number >= (uint64_t)spec.tensor_map_count)
    fault(call, "RUNTIME_ERROR", "tensor-map", "", "'%s' is given an address at which no tensor map lies; take it by const "
          "__grid_constant__ CUtensorMap and pass its own address", call.at->opcode);
  return spec.tensor_maps[descriptor.number];
}

uint32_t box_bytes(const TensorMap& map) {
  uint32_t bytes = map.itemsize;
  for (int i = 0; i < map.rank; ++i) bytes *= map.box[i];
  return bytes;
}

uintptr_t swizzled(uintptr_t address, int bits) {
  uintptr_t const mask = ((uintptr_t)1 << bits) - 1;
  return address ^ ((address >> 7 & mask) << 4);
}

// What lies outside of the tensor is filled; the special NaN of a floating tensor is any NaN here.
void fill(const TensorMap& map, uint8_t* place) {
  memset(place, 0, map.itemsize);
  if (!map.fills_nan) return;
  place[map.itemsize - 1] = 0x7F;
  memset(place, 0xFF, map.itemsize - 1u);
}

uint8_t* global_row(const TensorMap& map, const int64_t* at) {
  uint8_t* row = spec.buffers[map.buffer].data + map.offset;
  for (int i = 1; i < map.rank; ++i) row += (uint64_t)at[i] * map.strides[i];
  return row;
}

// Elements that lie one behind the other, in the order of their addresses.
void reduce(const Copy& copy, uintptr_t to, const uint8_t* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += copy.item) {
    uint64_t value = 0;
    memcpy(&value, from + at, copy.item);
    change_at(to + at, copy.item, copy.change, value);
  }
}

Access access_to_global(const Copy& copy, bool load) { return load ? Access::READ : copy.change ? Access::ATOMIC : Access::WRITE; }

// One row of the box: `shared` is where it would lie without a swizzle.
void move_row(const Copy& copy, const int64_t* at, uintptr_t shared, bool load) {
  const TensorMap& map = *copy.map;
  bool inside = true;
  for (int i = 1; i < map.rank; ++i) inside &= at[i] >= 0 && (uint64_t)at[i] < map.dims[i];
  int64_t const first = at[0] < 0 ? -at[0] : 0, room = (int64_t)map.dims[0] - at[0];
  int64_t const last = !inside ? 0 : room < (int64_t)map.box[0] ? room : (int64_t)map.box[0];
  uint8_t* const row = inside ? global_row(map, at) : nullptr;
  size_t const item = map.itemsize;
  if (spec.checked && first < last)
    check_access((uintptr_t)row + (size_t)(at[0] + first) * item, (size_t)(last - first) * item,
                 access_to_global(copy, load), copy.place.pc, copy.place.frame);
  for (int64_t x = 0; x < (int64_t)map.box[0]; ++x) {
    auto* const here = (uint8_t*)swizzled(shared + (size_t)x * item, map.swizzle);
    bool const there = x >= first && x < last;
    if (load && there) memcpy(here, row + (at[0] + x) * (int64_t)item, item);
    else if (load) fill(map, here);
    else if (there && copy.change) reduce(copy, (uintptr_t)row + (size_t)(at[0] + x) * item, here, item);
    else if (there) memcpy(row + (at[0] + x) * (int64_t)item, here, item);
  }
}

void move_box(const Copy& copy, bool load) {
  const TensorMap& map = *copy.map;
  uint32_t rows = 1;
  for (int i = 1; i < map.rank; ++i) rows *= map.box[i];
  for (uint32_t row = 0; row < rows; ++row) {
    int64_t at[MAX_RANK] = {copy.at[0]};
    uint32_t rest = row;
    for (int i = 1; i < map.rank; ++i) at[i] = copy.at[i] + (int64_t)(rest % map.box[i]), rest /= map.box[i];
    move_row(copy, at, copy.shared + (size_t)row * map.box[0] * map.itemsize, load);
  }
}

void perform(const Copy& copy, bool load) {
  As const issuer(copy.place);
  if (load) {
    copy_arrived(copy.place.thread, copy.shared, copy.bytes);
  } else if (spec.checked) {
    ByProxy const engine;
    check_access(copy.shared, copy.bytes, Access::READ, copy.place.pc, copy.place.frame);
  }
  if (copy.map) return move_box(copy, load);
  if (spec.checked) check_access(copy.global, copy.bytes, access_to_global(copy, load), copy.place.pc, copy.place.frame);
  if (copy.change) return reduce(copy, copy.global, (const uint8_t*)copy.shared, copy.bytes);
  memcpy((void*)(load ? copy.shared : copy.global), (const void*)(load ? copy.global : copy.shared), copy.bytes);
}

// -- issuing ----------------------------------------------------------------------------------------------------------------

void check_shared(const Call& call, uintptr_t address, uint32_t bytes, size_t alignment, Access kind) {
  access(call, address, bytes, kind, alignment);
  if (!in_shared(address, bytes))
    fault(call, "MEMORY_ERROR", "out-of-bounds", "", "'%s' of %u bytes reaches beyond the block's shared memory", call.at->opcode, bytes);
}

// detail[0]: dimensions the opcode names; detail[1]: the operand that is the tensor's address and coordinates.
Copy tensor_copy(const Call& call) {
  auto const operand = (int)call.at->detail[1];
  Operand const& where = call.at->operands[operand];
  const TensorMap& map = tensor_map(call, call.generic_address(operand));
  if (map.rank != call.at->detail[0])
    fault(call, "RUNTIME_ERROR", "tensor-map", map.name, "'%s' with tensor map %s, which has %d dimensions", call.at->opcode, map.name, map.rank);
  if (map.swizzle && map.box[0] * map.itemsize != UNIT << map.swizzle)
    fault(call, "UNSUPPORTED", "tensor-map", map.name, "tensor map %s: the emulator swizzles boxes whose rows are as long as the swizzle (%zu bytes) only",
          map.name, UNIT << map.swizzle);
  Copy copy = {here(call), call.at->opcode, &map, {}, 0, 0, box_bytes(map), 0, 0, nullptr, map.itemsize};
  for (int i = 0; i < map.rank; ++i) copy.at[i] = call.in<int32_t>(where.parts[1].parts[i]);
  if ((int64_t)copy.at[0] * map.itemsize % (int64_t)UNIT)
    fault(call, "RUNTIME_ERROR", "tensor-map", map.name, "'%s' of a box that begins at element %d of the first dimension of tensor map %s, which is "
          "no multiple of 16 bytes: a GPU ends the kernel there (illegal instruction)", call.at->opcode, copy.at[0], map.name);
  return copy;
}

void issue_load(const Call& call, Copy copy, int barrier, size_t alignment) {
  copy.shared = call.shared_address(0);
  copy.barrier = call.shared_address(barrier);
  check_barrier(call, copy.barrier);
  if (spec.checked) check_overwritten(copy.shared, copy.bytes, call.pc, call.frame);
  check_shared(call, copy.shared, copy.bytes, alignment, Access::COPY);
  memset((void*)copy.shared, 0xFF, copy.bytes);
  add(call, loads, load_count, copy);
  note_change();
}

void issue_store(const Call& call, Copy copy, int shared, size_t alignment) {
  copy.shared = call.shared_address(shared);
  {
    ByProxy const engine;
    check_shared(call, copy.shared, copy.bytes, alignment, Access::READ);
  }
  if (spec.checked) check_proxy(copy.shared, copy.bytes, call.pc, call.frame);
  add(call, stores, store_count, copy);
}

constexpr size_t BOX_ALIGNMENT = 128;

// One copy that comes to the same place of each block in a mask, and reports to the barrier at the same place there.
void issue_for_all(const Call& call, Copy const& copy, int barrier, int mask, size_t alignment) {
  auto const wanted = (uint32_t)call.in<uint16_t>(mask), blocks = clustered() ? cluster->blocks : 1, self = clustered() ? cluster_rank() : 0;
  if (wanted == 0 || wanted >> blocks)
    fault(call, "MEMORY_ERROR", "out-of-bounds", "", "'%s' for the blocks of mask 0x%x of a cluster of %u", call.at->opcode, wanted, blocks);
  uintptr_t const to = call.shared_address(0), at = call.shared_address(barrier);
  if (to % alignment || !in_shared(to, copy.bytes) || !in_shared(at, sizeof(uint64_t)))
    fault(call, "MEMORY_ERROR", to % alignment ? "misaligned" : "out-of-bounds", "", "'%s' of %u bytes to shared memory at %#lx", call.at->opcode,
          copy.bytes, (unsigned long)to);
  for (uint32_t rank = 0; rank < blocks; ++rank) {
    if (!(wanted >> rank & 1)) continue;
    if (rank == self) {
      issue_load(call, copy, barrier, alignment);
      continue;
    }
    RemoteOperation one = {};
    one.kind = RemoteKind::COPY, one.to = shared_byte(to).offset, one.barrier = shared_byte(at).offset, one.bytes = copy.bytes;
    one.map = copy.map ? (int32_t)(copy.map - spec.tensor_maps) : -1, one.global = copy.global;
    memcpy(one.at, copy.at, sizeof one.at);
    uintptr_t const there = address_in(rank, one.to);
    if (spec.checked) check_remote(there, copy.bytes, call.pc, call.frame);
    check_barrier_word(call, address_in(rank, one.barrier));
    memset((void*)there, 0xFF, copy.bytes);
    at_frames(call.pc, call.frame);
    send_remote(rank, one);
  }
}

void load_box(const Call& call) { issue_load(call, tensor_copy(call), 2, BOX_ALIGNMENT); }
void load_box_for_all(const Call& call) { issue_for_all(call, tensor_copy(call), 2, 3, BOX_ALIGNMENT); }
void store_box(const Call& call) { issue_store(call, tensor_copy(call), 1, BOX_ALIGNMENT); }

void reduce_box(const Call& call) {
  Copy copy = tensor_copy(call);
  copy.change = change_of(*call.at, copy.map->type);
  if (!copy.change)
    fault(call, "UNSUPPORTED", "tensor-map", copy.map->name, "'%s' with tensor map %s of type %s", call.at->opcode, copy.map->name, copy.map->type);
  issue_store(call, copy, 1, BOX_ALIGNMENT);
}

Copy plain_copy(const Call& call, int global) {
  Copy copy = {here(call), call.at->opcode, nullptr, {}, 0, call.generic_address(global), call.in<uint32_t>(2), 0, 0, nullptr, 0};
  if (copy.bytes % UNIT || copy.global % UNIT)
    fault(call, "MEMORY_ERROR", "misaligned", "", "'%s' of %u bytes: size and addresses must be multiples of 16", call.at->opcode, copy.bytes);
  return copy;
}
void load_bytes(const Call& call) {
  Copy const copy = plain_copy(call, 1);
  if (copy.bytes) issue_load(call, copy, 3, UNIT);
}
void load_bytes_for_all(const Call& call) { issue_for_all(call, plain_copy(call, 1), 3, 4, UNIT); }
void store_bytes(const Call& call) { issue_store(call, plain_copy(call, 0), 1, UNIT); }

// detail[0]: bytes of an element; [1]: what becomes of it.
void reduce_bytes(const Call& call) {
  Copy copy = plain_copy(call, 0);
  copy.item = (uint32_t)call.at->detail[0], copy.change = (Change)call.at->detail[1];
  issue_store(call, copy, 1, UNIT);
}

// -- stores to a block of the cluster -------------------------------------------------------------------------------------------

// detail[0]: bytes of an element; [1]: elements.
void store_remotely(const Call& call) {
  auto const bytes = (size_t)call.at->detail[0], all = bytes * (size_t)call.at->detail[1];
  uintptr_t const to = call.shared_address(0), barrier = call.shared_address(2);
  SharedByte const place = shared_byte(to), at = shared_byte(barrier);
  if (spec.checked) {
    check_remote(to, all, call.pc, call.frame);
    check_remote(barrier, sizeof(uint64_t), call.pc, call.frame);
  }
  if (place.rank < 0 || at.rank != place.rank)
    fault(call, "MEMORY_ERROR", "out-of-bounds", "", "'%s' stores to the shared memory of one block of a cluster, and reports to a barrier there",
          call.at->opcode);
  if (to % all != 0 || barrier % sizeof(uint64_t) != 0)
    fault(call, "MEMORY_ERROR", "misaligned", "", "'%s' of %zu bytes: addresses must be multiples of what is stored there", call.at->opcode, all);
  if (!in_shared(own_address(place.offset), all))
    fault(call, "MEMORY_ERROR", "out-of-bounds", "", "'%s' of %zu bytes reaches beyond the shared memory of block %d of the cluster", call.at->opcode, all, place.rank);
  check_barrier_word(call, barrier);
  RemoteOperation store = {};
  store.kind = RemoteKind::STORE;
  store.to = place.offset, store.barrier = at.offset, store.bytes = (uint32_t)all;
  const Operand& value = call.at->operands[1];
  for (int i = 0; i < call.at->detail[1]; ++i)
    call.read(value.kind == Operand::VECTOR ? value.parts[i] : value, store.value + bytes * (size_t)i, bytes);
  at_frames(call.pc, call.frame);
  if (clustered()) return send_remote((uint32_t)place.rank, store);
  access(call, to, all, Access::WRITE, all);
  memcpy((void*)to, store.value, all);
  complete_bytes(here(call), barrier, store.bytes);
}

Execute decode_remote_store(Instruction& i) {
  i.detail[0] = type_bits(i.last()) / 8;
  i.detail[1] = i.has("v2") ? 2 : i.has("v4") ? 4 : 1;
  bool const known = i.count == 3 && i.has("shared::cluster") && i.has("mbarrier::complete_tx::bytes");
  return known && (i.detail[0] == 4 || i.detail[0] == 8) && i.detail[0] * i.detail[1] <= REMOTE_BYTES ? store_remotely : nullptr;
}

// -- groups of stores ---------------------------------------------------------------------------------------------------------

void commit(const Call&) {
  uint32_t const group = ++committed[current.thread];
  for (int i = 0; i < store_count; ++i)
    if (stores[i].place.thread == current.thread && !stores[i].group) stores[i].group = group;
}

// All but the newest `operand` groups of this thread.
void wait(const Call& call) {
  int64_t const newest = (int64_t)committed[current.thread] - call.in<uint32_t>(0);
  for (int i = 0; i < store_count;) {
    Copy const store = stores[i];
    if (store.place.thread != current.thread || !store.group || store.group > newest) {
      ++i;
      continue;
    }
    remove(stores, store_count, i);
    perform(store, false);
  }
}

// -- decoding -----------------------------------------------------------------------------------------------------------------

void nothing(const Call&) {}
void touch_map(const Call& call) { tensor_map(call, call.generic_address(0)); }

bool to_shared(const Instruction& i) {
  int const from = i.has("tensor") ? 5 : 3;
  return i.word_count > from && strncmp(i.words[from], "shared", 6) == 0;
}

// `dimensions`: the word that names their number ("2d").
bool names_box(Instruction& i, int dimensions, int operand) {
  i.detail[0] = i.word_count > dimensions ? i.words[dimensions][0] - '0' : 0;
  i.detail[1] = operand;
  for (const char* mode : {"im2col", "im2col_no_offs", "im2col::w", "tile::gather4", "tile::scatter4", "cta_group::1", "cta_group::2"})
    if (i.has(mode)) return false;
  if (i.count <= operand || i.operands[operand].kind != Operand::ADDRESS || i.operands[operand].count != 2) return false;
  const Operand& coordinates = i.operands[operand].parts[1];
  return coordinates.kind == Operand::VECTOR && coordinates.count == i.detail[0];
}

Execute decode_tensor(Instruction& i) {
  bool const load = to_shared(i);
  if (!names_box(i, 4, load ? 1 : 0)) return nullptr;
  bool const known = load ? i.has("mbarrier::complete_tx::bytes") && i.count >= 3 : i.has("bulk_group") && i.count >= 2;
  if (!known) return nullptr;
  if (i.has("multicast::cluster")) return load && i.count >= 4 ? load_box_for_all : nullptr;
  return load ? load_box : store_box;
}

Execute decode_bulk(Instruction& i) {
  if (i.has("commit_group")) return commit;
  if (i.has("wait_group")) return i.count == 1 ? wait : nullptr;
  if (i.has("prefetch")) return nothing;
  if (i.has("tensor")) return decode_tensor(i);
  if (i.has("multicast::cluster")) return to_shared(i) && i.has("global") && i.count >= 5 ? load_bytes_for_all : nullptr;
  if (i.count < 3) return nullptr;
  if (to_shared(i)) return i.has("global") && i.count >= 4 ? load_bytes : nullptr;
  return i.has("bulk_group") && !i.has("cp_mask") ? store_bytes : nullptr;
}

// Into global memory; into that of another block of the cluster it is not known.
Execute decode_reduction(Instruction& i) {
  if (!i.has("bulk_group") || !i.has("global") || !i.has("shared::cta")) return nullptr;
  if (i.has("tensor")) return names_box(i, 5, 0) && i.count >= 2 ? reduce_box : nullptr;
  i.detail[0] = type_bits(i.last()) / 8, i.detail[1] = (int64_t)change_of(i, i.last());
  return i.count >= 3 && i.detail[0] && i.detail[1] ? reduce_bytes : nullptr;
}

Execute decode_prefetch_map(Instruction& i) { return i.count == 1 && i.operands[0].kind == Operand::ADDRESS ? touch_map : nullptr; }

}  // namespace

void copy_for(Place const& place, RemoteOperation const& one, uintptr_t to) {
  Copy copy = {place, "", one.map < 0 ? nullptr : &spec.tensor_maps[one.map], {}, to, one.global, one.bytes, 0, 0, nullptr, 0};
  memcpy(copy.at, one.at, sizeof copy.at);
  perform(copy, true);
}

void arrive_loads(uintptr_t barrier) {
  for (int i = 0; i < load_count;) {
    if (loads[i].barrier != barrier) {
      ++i;
      continue;
    }
    Copy const load = loads[i];
    remove(loads, load_count, i);
    perform(load, true);
    complete_bytes(load.place, barrier, load.bytes);
  }
}

void begin_copies() {
  load_count = store_count = 0;
  memset(committed, 0, sizeof committed);
}

void end_copies() {
  end_remote();
  if (load_count) {
    As const issuer(loads[0].place);
    fail("MEMORY_ERROR", "bulk-copy", "", "the block ends while a bulk copy it started still writes to its shared memory: wait for its barrier");
  }
  if (store_count) {
    As const issuer(stores[0].place);
    fail("MEMORY_ERROR", "bulk-copy", "", "the block ends while a bulk store may still read its shared memory: commit the group and wait for it");
  }
}

const Family copy_family[] = {{"st.async", decode_remote_store}, {"cp.async.bulk", decode_bulk},
                              {"cp.reduce.async.bulk", decode_reduction}, {"prefetch.tensormap", decode_prefetch_map}, {}};

}  // namespace runner::ptx::hopper
