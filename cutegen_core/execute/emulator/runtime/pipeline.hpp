// Stands in for CUDA's <cuda_pipeline.h>: its functions are cp.async and its groups. The C++ class of pipelines is not here.
#pragma once
#include "ptx.hpp"
#include "threads.hpp"

inline void __pipeline_memcpy_async(void* to, void const* from, size_t bytes, size_t zeros = 0) {
  auto const address = (unsigned)__cvta_generic_to_shared(to), given = (unsigned)(bytes - zeros);
  emu::ptx("cp.async.ca.shared.global [%0], [%1], %2, %3;", emu::in<'r'>(address), emu::in<'l'>(from),
           emu::in<'r'>((unsigned)bytes), emu::in<'r'>(given));
}
inline void __pipeline_commit() { emu::ptx("cp.async.commit_group;"); }
inline void __pipeline_wait_prior(size_t groups) {
  emu::ptx("cp.async.wait_group %0;", emu::in<'r'>((unsigned)groups));
}
