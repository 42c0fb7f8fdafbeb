// Barriers that live in shared memory and count arrivals and bytes (mbarrier), and what else sm_90 synchronises with.
//
// A thread that asks for a phase which is not over sleeps until something changes and then gets an answer, yes or no.
// When nobody can go on, all sleepers get their answer a few times more: some only looked and have other work to do.
//
// State, in the barrier's own 8 bytes: arrivals expected a phase (20 bits), arrivals missing (20), bytes announced and
// not arrived (21, signed), parity of the phase (1), and a mark that tells an initialised barrier from other bytes.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cluster.h"
#include "ptx_hopper.h"

namespace runner::ptx::hopper {

void fault_at(Place const& place, const char* status, const char* kind, const char* variable, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  As const blamed(place);
  fail(status, kind, variable, "%s", text);
}

bool in_shared(uintptr_t address, size_t bytes) {
  if (of_another_block(address))
    fail("UNSUPPORTED", "unsupported-ptx", "", "the emulator has no barriers, bulk copies or products in the shared memory of another block of a cluster");
  auto const inside = [&](uintptr_t low, size_t size) { return address >= low && address - low <= size && bytes <= size - (address - low); };
  return inside(DYNAMIC_BASE, emu_dynamic_smem_bytes()) || inside((uintptr_t)shared_begin(), shared_bytes());
}

const char* shared_name(uintptr_t address) { return spec.checked ? name_at(address) : ""; }

namespace {

constexpr uint64_t MOST_ARRIVALS = (1u << 20) - 1;
constexpr int64_t MOST_BYTES = (1 << 20) - 1;

struct Barrier {
  uint32_t expected, missing;
  int32_t bytes;
  bool parity;

  static bool valid(uint64_t word) { return word >> 62 == 1; }
  explicit Barrier(uint64_t word)
      : expected(word & MOST_ARRIVALS), missing(word >> 20 & MOST_ARRIVALS),
        bytes((int32_t)(word >> 40 & 0x1FFFFF) - (1 << 20)), parity(word >> 61 & 1) {}
  uint64_t word() const {
    return (uint64_t)1 << 62 | (uint64_t)parity << 61 | (uint64_t)(uint32_t)(bytes + (1 << 20)) << 40 |
           (uint64_t)missing << 20 | expected;
  }
};

// What a barrier orders, for the checker: what those that arrived in this phase had done, and in the one before.
struct Order {
  Order* next;
  uintptr_t address;
  Clock arrived, over;
};
Order* orders;

Order& order_of(uintptr_t address) {
  for (Order* known = orders; known; known = known->next)
    if (known->address == address) return *known;
  auto* const made = (Order*)calloc(1, sizeof(Order));
  if (!made) fail("MACHINE_ERROR", "", "", "out of memory for the order of barriers");
  made->next = orders, made->address = address;
  return *(orders = made);
}

// A barrier that was initialised behind a fence of its own (fence.mbarrier_init) is known to all who have waited at the next
// barrier of the cluster, even where who made it arrived there relaxed, which orders nothing else.
struct Initialised {
  uintptr_t address;
  int thread;
  uint32_t known_after;  // barrier of the cluster; 0: there was no fence
};
constexpr int MOST_INITIALISED = 256;
Initialised initialised[MOST_INITIALISED];
int initialised_count;

void note_initialised(uintptr_t address) {
  if (!clustered() || initialised_count == MOST_INITIALISED) return;
  initialised[initialised_count++] = {address, current.thread, 0};
}

void fence_initialised(const Call&) {
  for (int i = 0; i < initialised_count; ++i)
    if (initialised[i].thread == current.thread && !initialised[i].known_after) initialised[i].known_after = next_cluster_arrival();
}

void order_initialised(uintptr_t address) {
  for (int i = 0; i < initialised_count; ++i) {
    Initialised const& one = initialised[i];
    if (one.address != address || !one.known_after || !has_waited_for(one.known_after)) continue;
    order_atomics_after(address, sizeof(uint64_t));
    initialised[i] = initialised[--initialised_count];
    return;
  }
}

constexpr int MOST_ANSWERS = 64, FIRST_ANSWERS = 4;
uint64_t events;                // arrivals, bytes and copies
uint64_t events_at_idle;
int answers;                    // given since without anything having happened
int sleepers;                   // threads that want one
char waits_for[MAX_THREADS][200];

void happened() {
  ++events;
  note_change();
}

bool answer_sleepers() {
  if (sleepers == 0) return false;
  if (remote_came()) return true;
  if (events != events_at_idle) answers = 0;
  events_at_idle = events;
  if (++answers > (clustered() ? FIRST_ANSWERS : MOST_ANSWERS)) return false;
  note_change();
  return true;
}

uint64_t& word_at(uintptr_t address) { return *(uint64_t*)address; }

uintptr_t address_of(const Call& call, int operand) {
  return call.at->detail[0] ? call.shared_address(operand) : call.generic_address(operand);
}

// The phase is over when nobody and no byte is missing. What happened before it is ordered before what comes after.
void store(uintptr_t address, Barrier barrier) {
  if (barrier.missing == 0 && barrier.bytes == 0) {
    barrier.parity = !barrier.parity;
    barrier.missing = barrier.expected;
    if (spec.checked) {
      Order& order = order_of(address);
      order.over = order.arrived;
      order.arrived = {};
    }
  }
  word_at(address) = barrier.word();
  happened();
}

void add_bytes(Place const& place, uintptr_t address, Barrier& barrier, int64_t bytes) {
  int64_t const sum = barrier.bytes + bytes;
  if (sum > MOST_BYTES || sum < -MOST_BYTES)
    fault_at(place, "MEMORY_ERROR", "mbarrier", shared_name(address), "the barrier would count %ld bytes; at most %ld are possible",
             (long)sum, (long)MOST_BYTES);
  barrier.bytes = (int32_t)sum;
}

struct BarrierName {
  char text[80];
};
BarrierName name_of_barrier(uintptr_t address) {
  BarrierName name;
  const char* const variable = address >= DYNAMIC_BASE ? "" : shared_name(address);
  if (address >= DYNAMIC_BASE)
    snprintf(name.text, sizeof name.text, "mbarrier at byte %lu of dynamic shared memory", (unsigned long)(address - DYNAMIC_BASE));
  else snprintf(name.text, sizeof name.text, "mbarrier%s%s", variable[0] ? " " : "", variable);
  return name;
}

void arrive_at(const Call& call, uintptr_t address, Barrier barrier, uint32_t count) {
  if (count > barrier.missing)
    fault(call, "MEMORY_ERROR", "mbarrier", shared_name(address),
          "%u arrival%s at %s, which waits for %u more in this phase (it was made for %u)", count, count == 1 ? "" : "s",
          name_of_barrier(address).text, barrier.missing, barrier.expected);
  barrier.missing -= count;
  if (spec.checked && (!call.at->detail[4] || any_fence())) release_into(order_of(address).arrived);
  store(address, barrier);
}

// -- instructions ---------------------------------------------------------------------------------------------------------

void init(const Call& call) {
  uintptr_t const address = address_of(call, 0);
  auto const count = call.in<uint32_t>(1);
  access(call, address, 8, Access::WRITE, 8);
  if (!in_shared(address, 8)) fault(call, "MEMORY_ERROR", "out-of-bounds", "", "a barrier must lie in shared memory");
  if (count == 0 || count > MOST_ARRIVALS)
    fault(call, "MEMORY_ERROR", "mbarrier", shared_name(address), "a barrier for %u arrivals; 1 to %lu are possible", count,
          (unsigned long)MOST_ARRIVALS);
  word_at(address) = Barrier{(uint64_t)1 << 60 | (uint64_t)count << 20 | count}.word();
  if (spec.checked) order_of(address).arrived = {};
  if (spec.checked) note_initialised(address);
  when_idle(answer_sleepers);
}

void invalidate(const Call& call) {
  uintptr_t const address = address_of(call, 0);
  check_barrier(call, address);
  word_at(address) = ~(uint64_t)0;
}

void arrive_remotely(const Call& call, uintptr_t address, int operand, bool announces, bool drops) {
  if (drops) fault(call, "UNSUPPORTED", "unsupported-ptx", "", "the emulator does not drop arrivals at barriers of another block of a cluster");
  if (spec.checked) check_remote(address, sizeof(uint64_t), call.pc, call.frame);
  check_barrier_word(call, address);
  RemoteOperation one = {};
  one.kind = RemoteKind::ARRIVAL, one.barrier = shared_byte(address).offset;
  if (announces) one.bytes = call.in<uint32_t>(operand + 1);
  one.count = !announces && call.at->count > operand + 1 ? call.in<uint32_t>(operand + 1) : 1;
  at_frames(call.pc, call.frame);
  send_remote((uint32_t)shared_byte(address).rank, one, !call.at->detail[4] || any_fence());
}

// detail[1]: also announces bytes; detail[2]: the operand of the address (behind an optional state).
void arrive(const Call& call) {
  bool const announces = call.at->detail[1], drops = call.at->detail[3];
  auto const at = (int)call.at->detail[2];
  uintptr_t const address = address_of(call, at);
  if (of_another_block(address)) return arrive_remotely(call, address, at, announces, drops);
  check_barrier(call, address);
  Barrier barrier(word_at(address));
  uint64_t const before = word_at(address);
  if (announces) add_bytes(here(call), address, barrier, call.in<uint32_t>(at + 1));
  uint32_t const count = !announces && call.at->count > at + 1 ? call.in<uint32_t>(at + 1) : 1;
  if (drops) barrier.expected -= count;
  arrive_at(call, address, barrier, count);
  if (at == 1) call.out(0, before);
}

void expect_bytes(const Call& call) {
  uintptr_t const address = address_of(call, 0);
  check_barrier(call, address);
  Barrier barrier(word_at(address));
  add_bytes(here(call), address, barrier, call.in<uint32_t>(1));
  word_at(address) = barrier.word();
  happened();
}

void bytes_done(const Call& call) {
  uintptr_t const address = address_of(call, 0);
  check_barrier(call, address);
  complete_bytes(here(call), address, call.in<uint32_t>(1));
}

// In words, for the report of a deadlock.
const char* describe(uintptr_t address, bool parity) {
  Barrier const barrier(word_at(address));
  char* const text = waits_for[current.thread];
  size_t const room = sizeof waits_for[0];
  auto const used = (size_t)snprintf(text, room, "%s for the phase of parity %d, which misses %u of %u arrivals", name_of_barrier(address).text,
                                     parity, barrier.missing, barrier.expected);
  if (barrier.bytes > 0) snprintf(text + used, room - used, " and %d bytes that were announced and that no copy brings", barrier.bytes);
  if (barrier.bytes < 0) snprintf(text + used, room - used, "; copies brought %d bytes more than were announced", -barrier.bytes);
  return text;
}

// detail[1]: asks for a parity, else for the phase of a state.
void poll(const Call& call) {
  uintptr_t const address = address_of(call, 1);
  check_barrier(call, address);
  bool const parity = call.at->detail[1] ? call.in<uint32_t>(2) & 1 : Barrier(call.in<uint64_t>(2)).parity;
  auto const over = [&] { return Barrier(word_at(address)).parity != parity; };
  auto const let_come = [&] {
    if (!over()) arrive_loads(address);
    while ((spec.eager || !over()) && perform_remote(address, call.pc, call.frame)) {
    }
  };
  let_come();
  if (!over()) {
    ++sleepers;
    wait_for_change(describe(address, parity), call.pc, call.frame);
    --sleepers;
  }
  let_come();
  bool const yes = over();
  if (yes && spec.checked) acquire_for(current.thread, order_of(address).over);
  call.out(0, (uint32_t)yes);
}

Execute decode_mbarrier(Instruction& i) {
  const char* const what = i.word_count > 1 ? i.words[1] : "";
  auto const is = [&](const char* word) { return strcmp(what, word) == 0; };
  i.detail[0] = i.has("shared") || i.has("shared::cta") || i.has("shared::cluster");
  i.detail[1] = i.has("expect_tx");
  i.detail[2] = i.count > 0 && i.operands[0].kind != Operand::ADDRESS;
  i.detail[4] = i.has("relaxed");
  if (is("init") && i.count == 2) return init;
  if (is("inval") && i.count == 1) return invalidate;
  if (is("expect_tx") && i.count == 2) return expect_bytes;
  if (is("complete_tx") && i.count == 2) return bytes_done;
  bool const drops = is("arrive_drop");
  i.detail[3] = drops;
  if ((is("arrive") || drops) && !i.has("noComplete")) return i.count > i.detail[2] + i.detail[1] ? arrive : nullptr;
  if (is("try_wait") || is("test_wait")) {
    i.detail[1] = i.has("parity");
    return i.count >= 3 ? poll : nullptr;
  }
  return nullptr;
}

// Arrives once the thread's cp.async copies have. Without `noinc` (detail[1]) the phase waits for one arrival more.
void copies_arrived(int thread, uint64_t address) {
  Place const copier = {thread, 0, 0, {}};
  As const issuer(copier);
  Barrier barrier(word_at(address));
  if (!Barrier::valid(word_at(address)) || barrier.missing == 0)
    fail("MEMORY_ERROR", "mbarrier", shared_name(address), "the copies of this thread arrive at a barrier that does not wait for them");
  --barrier.missing;
  if (spec.checked) release_into(order_of(address).arrived);
  store(address, barrier);
}

void arrive_after_copies(const Call& call) {
  uintptr_t const address = address_of(call, 0);
  check_barrier(call, address);
  if (!call.at->detail[1]) {
    Barrier barrier(word_at(address));
    ++barrier.missing;
    word_at(address) = barrier.word();
  }
  after_copies(copies_arrived, address);
}

Execute decode_copy_arrive(Instruction& i) {
  i.detail[0] = i.has("shared") || i.has("shared::cta") || i.has("shared::cluster");
  i.detail[1] = i.has("noinc");
  return i.has("arrive") && i.count == 1 ? arrive_after_copies : nullptr;
}

// -- the rest ---------------------------------------------------------------------------------------------------------------

void nothing(const Call&) {}

void proxy_fence(const Call&) {
  if (spec.checked) note_proxy_fence();
}
Execute decode_proxy_fence(Instruction& i) { return i.has("async") ? proxy_fence : nothing; }

Execute decode_nothing(Instruction&) { return nothing; }
Execute decode_fence_initialised(Instruction&) { return fence_initialised; }

// The hardware may choose any lane; the lowest it is here.
void elect_for_all(const Call* const* lanes) {
  int leader = 0;
  while (!lanes[leader]) ++leader;
  for (int lane = 0; lane < 32; ++lane) {
    if (!lanes[lane]) continue;
    const Operand& result = lanes[lane]->at->operands[0];
    lanes[lane]->out(result.parts[0], (uint32_t)leader);
    lanes[lane]->out(result.parts[1], (uint32_t)(lane == leader));
  }
}
void elect(const Call& call) { warp_together(call, call.in<uint32_t>(1), elect_for_all); }
Execute decode_elect(Instruction& i) {
  return i.count == 2 && i.operands[0].kind == Operand::VECTOR && i.operands[0].count == 2 ? elect : nullptr;
}

void map_address(const Call& call) {
  bool const offset = call.at->detail[0];
  uintptr_t const address = offset ? (uintptr_t)emu_shared_to_generic(call.in<uint32_t>(1)) : call.in<uint64_t>(1);
  auto const mapped = (uintptr_t)emu_map_shared((void*)address, call.in<uint32_t>(2));
  if (offset) call.out(0, (uint32_t)emu_generic_to_shared((void*)mapped));
  else call.out(0, (uint64_t)mapped);
}
Execute decode_map_address(Instruction& i) {
  i.detail[0] = i.has("shared::cluster");
  return i.count == 3 ? map_address : nullptr;
}

// A block alone is a cluster of one: its threads meet where they wait.
void cluster_arrive(const Call& call) {
  if (clustered()) arrive_at_cluster(call.at->detail[0], call.pc, call.frame);
}
void cluster_wait(const Call& call) {
  if (clustered()) wait_for_cluster(0, "", call.pc, call.frame);
  else emu_barrier(0, "");
}
Execute decode_cluster_barrier(Instruction& i) {
  i.detail[0] = i.has("relaxed");
  return i.has("wait") ? cluster_wait : i.has("arrive") ? cluster_arrive : nullptr;
}

}  // namespace

void complete_bytes(Place const& place, uintptr_t address, uint32_t bytes) {
  if (!Barrier::valid(word_at(address)))
    fault_at(place, "MEMORY_ERROR", "mbarrier", shared_name(address), "this copy reports to a barrier that is not initialised");
  Barrier barrier(word_at(address));
  add_bytes(place, address, barrier, -(int64_t)bytes);
  if (spec.checked) {
    As const issuer(place);
    release_into(order_of(address).arrived);
  }
  store(address, barrier);
}

void arrive_for(Place const& place, uintptr_t address, uint32_t count, uint32_t bytes) {
  Barrier barrier(word_at(address));
  if (!Barrier::valid(word_at(address)) || count > barrier.missing)
    fault_at(place, "MEMORY_ERROR", "mbarrier", shared_name(address),
             "%u arrival%s of another block of the cluster at %s, which waits for %u more in this phase (it was made for %u)", count,
             count == 1 ? "" : "s", name_of_barrier(address).text, barrier.missing, barrier.expected);
  add_bytes(place, address, barrier, bytes);
  barrier.missing -= count;
  if (spec.checked) release_into(order_of(address).arrived);
  store(address, barrier);
}

// The blocks of a cluster are asked after a few answers; when none of them can do anything, there are more.
bool ask_others() {
  if (!clustered() || sleepers == 0) return false;
  if (await_remote()) return true;
  if (answers > MOST_ANSWERS) return false;
  note_change();
  return true;
}

void begin_barriers() {
  events_at_idle = events, answers = sleepers = initialised_count = 0;
  for (Order* known = orders; known; known = known->next) known->arrived = known->over = {};
}

void begin_block() {
  begin_barriers();
  begin_copies();
  begin_products();
}

void end_block() {
  end_products();
  end_copies();
}

void check_barrier(const Call& call, uintptr_t address) {
  if (spec.checked && initialised_count) order_initialised(address);
  access(call, address, 8, Access::ATOMIC, 8);
  if (!in_shared(address, 8)) fault(call, "MEMORY_ERROR", "out-of-bounds", "", "a barrier must lie in shared memory");
  check_barrier_word(call, address);
}

void check_barrier_word(const Call& call, uintptr_t address) {
  if (!Barrier::valid(word_at(address)))
    fault(call, "MEMORY_ERROR", "mbarrier", shared_name(address), "'%s' on a barrier that is not initialised", call.at->opcode);
}

const Family barrier_family[] = {
    {"mbarrier", decode_mbarrier}, {"cp.async.mbarrier", decode_copy_arrive}, {"barrier.cluster", decode_cluster_barrier}, {"fence.proxy", decode_proxy_fence},
    {"fence.mbarrier_init", decode_fence_initialised}, {"setmaxnreg", decode_nothing}, {"elect", decode_elect},
    {"mapa", decode_map_address}, {}};

}  // namespace runner::ptx::hopper
