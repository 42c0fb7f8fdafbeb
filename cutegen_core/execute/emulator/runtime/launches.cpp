// Checks the launches of a plan against the kernels of the image, and puts tensors in the place of their numbers.
#include <string.h>
#include "runner.h"

namespace runner {

namespace {

void check_number(const EmuKernel& kernel, const EmuParameter& wanted, const EmuArgument& given, int index) {
  if (wanted.kind != EmuParameter::INTEGER) return;
  if (given.kind == EmuArgument::FLOATING)
    refuse("LAUNCH_ERROR", "%s: argument %d is a whole number, the plan gives %g", kernel.name, index + 1, given.floating);
  if (wanted.bytes >= 8) return;
  int64_t const span = (int64_t)1 << (8 * wanted.bytes - (wanted.is_signed ? 1 : 0));
  if (given.integer >= span || given.integer < (wanted.is_signed ? -span : 0))
    refuse("LAUNCH_ERROR", "%s: argument %d (%ld) does not fit its %d-bit parameter", kernel.name, index + 1,
           given.integer, 8 * wanted.bytes);
}

void check_argument(const EmuKernel& kernel, Launch& launch, int i) {
  const EmuParameter& wanted = kernel.parameters[i];
  EmuArgument& given = launch.arguments[i];
  if (wanted.kind == EmuParameter::OTHER)
    refuse("UNSUPPORTED", "%s: parameter %d is passed by value and is not a number", kernel.name, i + 1);
  bool const map = given.kind == EmuArgument::TENSOR_MAP;
  if (map != (wanted.kind == EmuParameter::TENSOR_MAP))
    refuse("LAUNCH_ERROR", "%s: parameter %d is %sa tensor map, the plan gives %s", kernel.name, i + 1, map ? "not " : "",
           map ? "one" : "something else");
  if (map) return;
  bool const pointer = given.kind == EmuArgument::POINTER;
  if (pointer != (wanted.kind == EmuParameter::POINTER))
    refuse("LAUNCH_ERROR", "%s: parameter %d is a %s, the plan gives a %s", kernel.name, i + 1,
           wanted.kind == EmuParameter::POINTER ? "pointer" : "number", pointer ? "tensor" : "number");
  if (!pointer) return check_number(kernel, wanted, given, i);
  if (wanted.element[0] && strcmp(wanted.element, launch.argument_dtype[i]) != 0 &&
      !(strcmp(launch.argument_dtype[i], "uint8") == 0 && strcmp(wanted.element, "int8") == 0))
    refuse("LAUNCH_ERROR", "%s: parameter %d points to %s, but %s holds %s", kernel.name, i + 1, wanted.element,
           spec.buffers[launch.argument_buffer[i]].name, launch.argument_dtype[i]);
  given.pointer = spec.buffers[launch.argument_buffer[i]].data;
}

}  // namespace

uint32_t check_launches() {
  size_t known = 0;
  const EmuKernel* const list = kernels(&known);
  uint32_t threads = 1;
  for (int l = 0; l < spec.launch_count; ++l) {
    Launch& launch = spec.launches[l];
    const EmuKernel& kernel = list[launch.kernel];
    if (kernel.count != launch.argument_count)
      refuse("LAUNCH_ERROR", "%s takes %ld arguments, the plan gives %d", kernel.name, kernel.count, launch.argument_count);
    for (int i = 0; i < launch.argument_count; ++i) check_argument(kernel, launch, i);
    uint64_t const block = launch.block.count();
    if (block == 0 || block > MAX_THREADS)
      refuse("LAUNCH_ERROR", "%s: a block of %lu threads (1 to %d are possible)", kernel.name, block, MAX_THREADS);
    if (launch.smem_bytes > DYNAMIC_BYTES - PAGE)
      refuse("LAUNCH_ERROR", "%s: %u bytes of dynamic shared memory are more than any device has", kernel.name, launch.smem_bytes);
    if (launch.cooperative && launch.grid.count() > MAX_TOGETHER)
      refuse("UNSUPPORTED", "%s: a cooperative launch of %lu blocks; the emulator runs up to %d together", kernel.name,
             launch.grid.count(), MAX_TOGETHER);
    if (launch.cluster.count() > MAX_CLUSTER || (launch.clustered() && launch.cooperative))
      refuse("UNSUPPORTED", "%s: the emulator has clusters of up to %d blocks, and none in a cooperative launch", kernel.name, MAX_CLUSTER);
    if (launch.clustered() && has_device_variables())
      refuse("UNSUPPORTED", "%s: the emulator has no clusters of kernels with __device__ variables; use [[scratch]]", kernel.name);
    if (launch.cooperative && has_device_variables())
      refuse("UNSUPPORTED", "%s: the emulator has no cooperative launches of kernels with __device__ variables; use [[scratch]]",
             kernel.name);
    if (block > threads) threads = (uint32_t)block;
  }
  return threads;
}

}  // namespace runner
