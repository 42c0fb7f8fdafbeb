#pragma once
namespace runner {
// Resource limits, no new privileges, and a system call filter that leaves reading and writing open files, anonymous
// memory, forking workers and ending. Irreversible; the filter is inherited by the workers.
void shut_in();
}  // namespace runner
