// Maps the tensors of a run into memory with canary bytes around them, reads inputs from files and writes outputs back.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "runner.h"

namespace runner {

namespace {

constexpr size_t GUARD = 16 * PAGE;
constexpr size_t ALIGNMENT = 256;  // alignment of a device allocation
constexpr size_t FLUSH = 32;       // of the largest access; the data ends this close to unmapped memory
constexpr uint8_t CANARY = 0xFF;   // makes every float NaN, so that reading past the end becomes visible

size_t room_for(const Buffer& buffer) {
  size_t const alignment = spec.checked ? ALIGNMENT : FLUSH;
  return (buffer.bytes + alignment - 1) / alignment * alignment;
}

// One reservation for all buffers, in their order: an access that misses one meets the same neighbour in every run.
uint8_t* reserve() {
  size_t total = 2 * APART;
  for (int i = 0; i < spec.buffer_count; ++i) {
    Buffer& buffer = spec.buffers[i];
    buffer.mapped = (room_for(buffer) + PAGE - 1) / PAGE * PAGE;
    if (buffer.mapped == 0) buffer.mapped = PAGE;
    total += buffer.mapped + 2 * GUARD;
  }
  void* const place = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("MACHINE_ERROR", "cannot reserve %zu bytes for the tensors", total);
  return (uint8_t*)place + APART;
}

// Layout: [unmapped | canary | data | canary | unmapped]. A checked run knows the exact bounds. In a plain run the data ends
// as close to the unmapped pages as the accesses' alignment allows; in reverse order it begins right behind them.
void map_buffer(Buffer& buffer, uint8_t* place) {
  void* const mapped = mmap(place, buffer.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) refuse("MACHINE_ERROR", "cannot map %zu bytes for %s", buffer.bytes, buffer.name);
  buffer.mapping = place;
  size_t const room = room_for(buffer);
  bool const front = !spec.checked && spec.order == Order::REVERSE;
  buffer.data = front ? buffer.mapping : buffer.mapping + buffer.mapped - room;
  memset(buffer.mapping, CANARY, (size_t)(buffer.data - buffer.mapping));
  memset(buffer.data + buffer.bytes, CANARY, (size_t)(buffer.mapping + buffer.mapped - buffer.data) - buffer.bytes);
}

void fill_buffer(Buffer& buffer) {
  if (buffer.role != Role::INPUT) {
    memset(buffer.data, buffer.zero ? 0 : spec.poison, buffer.bytes);
    return;
  }
  for (size_t done = 0; done < buffer.bytes;) {
    ssize_t const got = read(buffer.fd, buffer.data + done, buffer.bytes - done);
    if (got <= 0) refuse("MACHINE_ERROR", "the file of %s is shorter than its shape", buffer.name);
    done += (size_t)got;
  }
  mprotect(buffer.mapping, buffer.mapped, PROT_READ);
}

bool all_canary(const uint8_t* from, const uint8_t* to) {
  for (; from < to; ++from)
    if (*from != CANARY) return false;
  return true;
}

}  // namespace

void map_buffers() {
  uint8_t* place = reserve();
  for (int i = 0; i < spec.buffer_count; ++i) {
    Buffer& buffer = spec.buffers[i];
    map_buffer(buffer, place + GUARD);
    fill_buffer(buffer);
    place += buffer.mapped + 2 * GUARD;
  }
}

void check_canaries() {
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    bool const before = all_canary(buffer.mapping, buffer.data);
    bool const after = all_canary(buffer.data + buffer.bytes, buffer.mapping + buffer.mapped);
    if (!before || !after)
      refuse("MEMORY_ERROR out-of-bounds", "writes %s %s", before ? "past the end of" : "before the start of", buffer.name);
  }
}

void write_outputs() {
  for (int i = 0; i < spec.buffer_count; ++i) {
    const Buffer& buffer = spec.buffers[i];
    if (buffer.role != Role::OUTPUT) continue;
    for (size_t done = 0; done < buffer.bytes;) {
      ssize_t const put = pwrite(buffer.fd, buffer.data + done, buffer.bytes - done, (off_t)done);
      if (put <= 0) refuse("MACHINE_ERROR", "cannot write the file of %s", buffer.name);
      done += (size_t)put;
    }
  }
}

}  // namespace runner
