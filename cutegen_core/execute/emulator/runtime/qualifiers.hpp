// What CUDA's qualifiers mean on the host. Included twice on purpose: before CUDA's headers and after them.
#undef __global__
#define __global__
#undef __device__
#define __device__
#undef __host__
#define __host__
#undef __constant__
#define __constant__
#undef __managed__
#define __managed__
#undef __grid_constant__
#define __grid_constant__
#undef __shared__  // the rewriter replaces every declaration
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#undef __align__
#define __align__(n) __attribute__((aligned(n)))
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __maxnreg__
#define __maxnreg__(...)
#undef __cluster_dims__
#define __cluster_dims__(...)
