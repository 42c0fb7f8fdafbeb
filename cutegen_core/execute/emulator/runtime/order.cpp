// What each thread knows to have happened before: by warp operations, and by barriers of parts of the block.
#include <string.h>
#include "checker.h"

namespace runner {

uint32_t stamp_counter;
uint32_t stamps[MAX_THREADS];
uint32_t seen[MAX_THREADS][32];
uint32_t proxy_fences[MAX_THREADS];
bool partial;
uint32_t far[MAX_THREADS][MAX_THREADS];
Clock cluster_clocks[4];
uint8_t cluster_seen[MAX_THREADS];

namespace {

uint32_t closed;  // the barrier of the cluster whose clock was closed last

bool newer_clock(uint8_t one, uint8_t other) { return one != other && one == cluster_clock_of(closed); }

bool acquired;  // since the last barrier of the block: `far` is not all zeros

void share_seen(int first_thread, uint32_t lanes) {
  uint8_t newest = CLUSTER_NONE;
  for (int lane = 0; lane < 32; ++lane) {
    uint8_t const one = cluster_seen[first_thread + lane];
    if ((lanes >> lane & 1) && one && (!newest || newer_clock(one, newest))) newest = one;
  }
  for (int lane = 0; newest && lane < 32; ++lane)
    if (lanes >> lane & 1) cluster_seen[first_thread + lane] = newest;
}

// What one lane has acquired from a barrier, the others it meets know too.
void share_far(int first_thread, uint32_t lanes) {
  share_seen(first_thread, lanes);
  if (!acquired) return;
  uint32_t known[MAX_THREADS] = {};
  auto const count = (int)spec.launches[current.launch].block.count();
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      for (int t = 0; t < count; ++t)
        if (far[first_thread + lane][t] > known[t]) known[t] = far[first_thread + lane][t];
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) memcpy(far[first_thread + lane], known, (size_t)count * sizeof *known);
}

}  // namespace

void begin_order() {
  memset(stamps, 0, sizeof stamps);
  memset(proxy_fences, 0, sizeof proxy_fences);
  memset(seen, 0, sizeof seen);
  forget_far();
  stamp_counter = last_proxy_fence = 0;
}

void begin_cluster_clocks() {
  memset(cluster_clocks, 0, sizeof cluster_clocks);
  memset(cluster_seen, CLUSTER_NONE, sizeof cluster_seen);
}

void close_cluster_clock(uint32_t barrier) {
  closed = barrier;
  cluster_clocks[cluster_clock_of(barrier)] = cluster_clocks[CLUSTER_ARRIVING];
}

// A barrier of the block orders more than any of its parts.
void forget_far() {
  if (!acquired) return;
  acquired = false;
  for (size_t t = 0; t < spec.launches[current.launch].block.count(); ++t) memset(far[t], 0, sizeof far[t]);
}

// Every lane that took part now knows what the others knew, and that they came this far.
void checker_warp(int first_thread, uint32_t lanes) {
  uint32_t known[32] = {};
  ++stamp_counter;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      for (int l = 0; l < 32; ++l)
        if (seen[first_thread + lane][l] > known[l]) known[l] = seen[first_thread + lane][l];
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) known[lane] = stamp_counter;
  for (int lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) {
      memcpy(seen[first_thread + lane], known, sizeof known);
      stamps[first_thread + lane] = stamp_counter;
    }
  if (partial) share_far(first_thread, lanes);
  join_fences_of_warp(first_thread, lanes);
}

void release_into(Clock& clock) {
  int const self = current.thread, first = self / 32 * 32;
  for (int t = 0; acquired && t < MAX_THREADS; ++t)
    if (far[self][t] > clock.known[t]) clock.known[t] = far[self][t];
  if (cluster_seen[self] && &clock != &cluster_clocks[CLUSTER_ARRIVING])
    for (int t = 0; t < MAX_THREADS; ++t)
      if (cluster_clocks[cluster_seen[self]].known[t] > clock.known[t]) clock.known[t] = cluster_clocks[cluster_seen[self]].known[t];
  for (int lane = 0; lane < 32; ++lane)
    if (seen[self][lane] > clock.known[first + lane]) clock.known[first + lane] = seen[self][lane];
  clock.known[self] = ++stamp_counter;
  stamps[self] = stamp_counter;  // what comes later is not part of it
}

void acquire_for(int thread, const Clock& clock) {
  acquired = true;
  for (int t = 0; t < MAX_THREADS; ++t)
    if (clock.known[t] > far[thread][t]) far[thread][t] = clock.known[t];
}

uint32_t last_proxy_fence;
void note_proxy_fence() { last_proxy_fence = proxy_fences[current.thread] = stamps[current.thread] = ++stamp_counter; }

}  // namespace runner
