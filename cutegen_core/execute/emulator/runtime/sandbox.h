#pragma once
namespace runner {
// From now on the system kills this process with the one that started it, however that ended.
void end_with_parent();
// Resource limits, no new privileges, and a system call filter that leaves reading and writing open files, anonymous
// memory, forking workers and ending. Irreversible; the filter is inherited by the workers.
void shut_in();
// More of the same for a worker, before it executes the kernel: no handlers of signals, no timers, no processes, no memory
// that is not fresh, no files but the log, and that one short. The limits bind root, too.
void shut_in_worker();
}  // namespace runner
