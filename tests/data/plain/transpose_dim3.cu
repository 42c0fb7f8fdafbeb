// dim3 variables filled member by member, a launch by cudaLaunchKernel.
#include <cuda_runtime.h>

static const int TILE = 32;

__global__ void transpose_tile(const float* src, float* dst, int rows, int cols) {
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += 8)
    if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = src[(y + j) * cols + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += 8)
    if (x < rows && y + j < cols) dst[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" cudaError_t transpose(const float* src, float* dst, int rows, int cols, cudaStream_t stream) {
  dim3 grid, block(TILE, 8);
  grid.x = (cols + TILE - 1) / TILE;
  grid.y = (rows + TILE - 1) / TILE;
  void* args[] = {(void*)&src, (void*)&dst, (void*)&rows, (void*)&cols};
  return cudaLaunchKernel((const void*)transpose_tile, grid, block, args, 0, stream);
}
