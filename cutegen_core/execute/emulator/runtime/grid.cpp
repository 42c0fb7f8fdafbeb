// The barrier of a cooperative launch: every block is a process of its own, so all of them are there at once.
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "runner.h"

namespace runner {

Grid* grid;

namespace {

long futex(uint32_t* word, int operation, uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, word, operation, value, limit, nullptr, 0);
}

void open_grid() {
  grid->arrived = 0;
  __atomic_add_fetch(&grid->generation, 1, __ATOMIC_SEQ_CST);
  futex(&grid->generation, FUTEX_WAKE, MAX_TOGETHER, nullptr);
}

}  // namespace

void wait_for_grid() {
  uint32_t const generation = __atomic_load_n(&grid->generation, __ATOMIC_SEQ_CST);
  if (__atomic_add_fetch(&grid->arrived, 1, __ATOMIC_SEQ_CST) == grid->blocks) return open_grid();
  while (__atomic_load_n(&grid->generation, __ATOMIC_SEQ_CST) == generation) {
    uint32_t const ended = __atomic_load_n(&grid->ended, __ATOMIC_SEQ_CST);
    if (ended && __atomic_load_n(&grid->arrived, __ATOMIC_SEQ_CST) + ended == grid->blocks)
      fail("MEMORY_ERROR", "divergent-barrier", "", "this block waits at grid.sync(), but %u of %u blocks have left the kernel "
           "without reaching it", ended, grid->blocks);
    timespec const moment = {0, 20000000};  // the last to end may do so just before this
    futex(&grid->generation, FUTEX_WAIT, generation, &moment);
  }
}

void leave_grid() {
  __atomic_add_fetch(&grid->ended, 1, __ATOMIC_SEQ_CST);
  futex(&grid->generation, FUTEX_WAKE, MAX_TOGETHER, nullptr);
}

void nap() {
  timespec const moment = {0, 200000};
  static uint32_t word;
  futex(&word, FUTEX_WAIT, 0, &moment);
}

}  // namespace runner
