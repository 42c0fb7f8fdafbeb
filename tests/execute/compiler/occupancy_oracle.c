/* NVIDIA's own occupancy calculator over a stream of cases, for test_occupancy.py.
   In, a line a case: major minor threads_sm smem_block_optin smem_sm | block regs static_smem dynamic_smem. Out: blocks per SM. */
#include <stddef.h>
#include <stdio.h>
#include <cuda_occupancy.h>

int main(void) {
  int major, minor, threads, block, regs;
  size_t optin, sm, fixed, dynamic;
  while (scanf("%d %d %d %zu %zu %d %d %zu %zu", &major, &minor, &threads, &optin, &sm, &block, &regs, &fixed, &dynamic) == 9) {
    struct cudaOccDeviceProp device = {
        .computeMajor = major, .computeMinor = minor, .maxThreadsPerBlock = 1024, .maxThreadsPerMultiprocessor = threads,
        .regsPerBlock = 65536, .regsPerMultiprocessor = 65536, .warpSize = 32, .sharedMemPerBlock = 48 << 10,
        .sharedMemPerMultiprocessor = sm, .numSms = 1, .sharedMemPerBlockOptin = optin, .reservedSharedMemPerBlock = 1024};
    struct cudaOccFuncAttributes kernel = {
        .maxThreadsPerBlock = 1024, .numRegs = regs, .sharedSizeBytes = fixed, .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, .maxDynamicSharedSizeBytes = dynamic, .numBlockBarriers = 1};
    struct cudaOccDeviceState state = {.cacheConfig = CACHE_PREFER_NONE, .carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED};
    struct cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block, dynamic) != CUDA_OCC_SUCCESS)
      return 1;
    printf("%d\n", result.activeBlocksPerMultiprocessor);
  }
  return 0;
}
