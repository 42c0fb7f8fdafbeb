// cp.async: copies from global to shared memory that arrive later.
//
// Late (the default), the bytes arrive when the issuing thread waits for their group, and its target holds NaN until then;
// eager, they arrive at once. A right kernel computes the same both ways. A checked run also marks the target as under way
// between issue and wait, so that it names an access in between whenever it happens.
#include <stdlib.h>
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

// A copy that was issued, or (bytes 0) something to be done once those before it have arrived.
struct Copy {
  uintptr_t to, from;
  uint32_t bytes, given;    // `given` bytes are copied, the rest is filled with zeros
  uint32_t group;           // groups are numbered by the commits of the thread
  void (*then)(int thread, uint64_t argument);
  uint64_t argument;
};

struct Queue {
  Copy* copies;
  int count, room;
  uint32_t group;           // what is issued now belongs to this one
};
Queue queues[MAX_THREADS];
bool used;                  // by this block

constexpr int MOST_COPIES = 4096;  // of one thread

void add(Queue& queue, Copy const& copy) {
  if (queue.count == MOST_COPIES)
    fail("UNSUPPORTED", "memory", "", "more than %d asynchronous copies of one thread that it has not waited for", MOST_COPIES);
  if (queue.count == queue.room) {
    queue.room = queue.room ? queue.room * 2 : 16;
    queue.copies = (Copy*)realloc((void*)queue.copies, (size_t)queue.room * sizeof(Copy));
    if (!queue.copies) fail("UNSUPPORTED", "memory", "", "out of memory for asynchronous copies");
  }
  queue.copies[queue.count++] = copy;
  used = true;
}

void move(Copy const& copy) {
  memcpy((void*)copy.to, (const void*)copy.from, copy.given);
  memset((void*)(copy.to + copy.given), 0, copy.bytes - copy.given);
}

void arrive(int thread, Copy const& copy) {
  if (copy.then) return copy.then(thread, copy.argument);
  if (!spec.eager) move(copy);
  if (spec.checked) copy_arrived(thread, copy.to, copy.bytes);
}

// The first `done` of a thread's copies arrive.
void deliver(int thread, int done) {
  Queue& queue = queues[thread];
  if (!done) return;
  for (int i = 0; i < done; ++i) arrive(thread, queue.copies[i]);
  queue.count -= done;
  memmove((void*)queue.copies, (const void*)(queue.copies + done), (size_t)queue.count * sizeof(Copy));
}

void deliver_groups_before(uint32_t end) {
  const Queue& queue = queues[current.thread];
  int done = 0;
  while (done < queue.count && queue.copies[done].group < end) ++done;
  deliver(current.thread, done);
}

// Nobody can go on: the copies of one thread arrive as far as somebody may be waiting for them.
bool deliver_one() {
  for (int t = 0; t < MAX_THREADS; ++t)
    for (int i = 0; i < queues[t].count; ++i)
      if (queues[t].copies[i].then) return deliver(t, i + 1), true;
  return false;
}

// detail[1]: operand with the source size or a predicate that ignores the source (-1: none); [2]: is it a predicate?
void issue(const Call& call) {
  auto const bytes = call.in<uint32_t>(2);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fault(call, "RUNTIME_ERROR", "cp-async", "", "'%s' copies 4, 8 or 16 bytes, not %u", call.at->opcode, bytes);
  uintptr_t const to = call.shared_address(0), from = call.generic_address(1);
  auto const extra = (int)call.at->detail[1];
  uint32_t given = bytes;
  if (extra >= 0) given = !call.at->detail[2] ? call.in<uint32_t>(extra) : call.predicate(call.at->operands[extra]) ? 0 : bytes;
  if (given > bytes)
    fault(call, "RUNTIME_ERROR", "cp-async", "", "'%s' of %u bytes is to copy %u", call.at->opcode, bytes, given);
  access(call, to, bytes, Access::COPY, bytes);
  if (given) {
    if (emu_is_shared((const void*)from))
      fault(call, "MEMORY_ERROR", "out-of-bounds", "", "'%s' reads from shared memory; its source is global memory", call.at->opcode);
    access(call, from, given, Access::READ, 1);
    if (from % bytes != 0) access(call, from, given, Access::READ, bytes);
  }
  Copy const copy = {to, from, bytes, given, queues[current.thread].group, nullptr, 0};
  at_frames(call.pc, call.frame);
  if (spec.eager) move(copy);
  else memset((void*)to, 0xFF, bytes);
  if (!spec.eager || spec.checked) add(queues[current.thread], copy);
}

void commit(const Call&) { ++queues[current.thread].group; }

void wait_group(const Call& call) {
  auto const keep = call.in<uint32_t>(0), group = queues[current.thread].group;
  if (group > keep) deliver_groups_before(group - keep);
}

void wait_all(const Call&) { deliver_groups_before(++queues[current.thread].group); }

Execute decode_issue(Instruction& i) {
  bool const all_levels = i.has("ca"), hinted = i.has("L2::cache_hint");
  int const count = i.count - (hinted ? 1 : 0);
  if ((!all_levels && !i.has("cg")) || count < 3 || count > 4 || i.has("bulk") || i.has("mbarrier")) return nullptr;
  i.detail[1] = count == 4 ? 3 : -1;
  i.detail[2] = count == 4 && i.operands[3].predicate;
  return issue;
}

Execute decode_async(Instruction& i) {
  if (i.has("commit_group") && i.count == 0) return commit;
  if (i.has("wait_group") && i.count == 1) return wait_group;
  if (i.has("wait_all") && i.count == 0) return wait_all;
  return decode_issue(i);
}

}  // namespace

void begin_block() {
  if (!used) return;
  used = false;
  for (Queue& queue : queues) queue.count = 0, queue.group = 0;
}

void after_copies(void (*then)(int thread, uint64_t argument), uint64_t argument) {
  Queue& queue = queues[current.thread];
  if (queue.count == 0) return then(current.thread, argument);
  when_idle(deliver_one);
  add(queue, {0, 0, 0, 0, queue.group, then, argument});
}

const Family async_family[] = {{"cp.async", decode_async}, {}};

}  // namespace runner::ptx
