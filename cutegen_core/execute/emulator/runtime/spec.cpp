// Reads SPEC, the description of one run: lines of a word and what belongs to it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "runner.h"

namespace runner {

Spec spec;

namespace {

// Words hold no spaces; those of a path are written %20, and % is %25.
void decode(char* path) {
  char* out = path;
  for (const char* in = path; *in; ++out) {
    unsigned code = 0;
    bool const coded = *in == '%' && sscanf(in + 1, "%2x", &code) == 1;
    *out = coded ? (char)code : *in;
    in += coded ? 3 : 1;
  }
  *out = 0;
}

void read_buffer(FILE* file) {
  Buffer& buffer = spec.buffers[spec.buffer_count++];
  char path[4096];
  int role, zero;
  if (fscanf(file, "%d %95s %zu %u %d %4095s", &role, buffer.name, &buffer.bytes, &buffer.itemsize, &zero, path) != 6)
    refuse("MACHINE_ERROR", "malformed buffer in the spec");
  decode(path);
  buffer.role = (Role)role;
  buffer.zero = zero;
  buffer.fd = buffer.role == Role::SCRATCH ? -1 : open(path, (buffer.role == Role::INPUT ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (buffer.role != Role::SCRATCH && buffer.fd < 0) refuse("MACHINE_ERROR", "cannot open %s: %s", path, strerror(errno));
}

// NAME BUFFER OFFSET ITEMSIZE TYPE SWIZZLE NAN RANK DIMS... STRIDES... BOX...
void read_tensor_map(FILE* file) {
  int const number = spec.tensor_map_count++;
  TensorMap& map = spec.tensor_maps[number];
  int nan = 0;
  int fields = fscanf(file, "%95s %d %lu %u %7s %d %d %d", map.name, &map.buffer, &map.offset, &map.itemsize, map.type, &map.swizzle, &nan, &map.rank);
  bool right = fields == 8 && map.rank >= 1 && map.rank <= 5 && map.buffer < spec.buffer_count;
  for (int i = 0; right && i < map.rank; ++i) right = fscanf(file, "%lu", &map.dims[i]) == 1;
  for (int i = 1; right && i < map.rank; ++i) right = fscanf(file, "%lu", &map.strides[i]) == 1;
  for (int i = 0; right && i < map.rank; ++i) right = fscanf(file, "%u", &map.box[i]) == 1;
  if (!right) refuse("MACHINE_ERROR", "malformed tensor map in the spec");
  map.fills_nan = nan;
  spec.descriptors[number] = {TENSOR_MAP_MARK, (uint64_t)number, {}};
}

void read_launch(FILE* file) {
  Launch& launch = spec.launches[spec.launch_count++];
  Index3 &g = launch.grid, &b = launch.block, &c = launch.cluster;
  int const got = fscanf(file, "%d %d %u %u %u %u %u %u %u %u %u %u %d", &launch.kernel, &launch.cooperative, &g.x, &g.y, &g.z, &b.x, &b.y, &b.z, &c.x, &c.y, &c.z,
                         &launch.smem_bytes, &launch.argument_count);
  if (got != 13 || launch.argument_count > MAX_ARGUMENTS) refuse("MACHINE_ERROR", "malformed launch in the spec");
  for (int i = 0; i < launch.argument_count; ++i) {
    char kind;
    EmuArgument& argument = launch.arguments[i];
    launch.argument_buffer[i] = -1;
    if (fscanf(file, " %c", &kind) != 1) refuse("MACHINE_ERROR", "malformed argument in the spec");
    int fields = 0;
    if (kind == 'p') fields = fscanf(file, "%d %15s", &launch.argument_buffer[i], launch.argument_dtype[i]) - 1;
    if (kind == 'm') fields = fscanf(file, "%ld", &argument.integer);
    if (kind == 'i') fields = fscanf(file, "%ld", &argument.integer);
    if (kind == 'f') fields = fscanf(file, "%lf", &argument.floating);
    if (fields != 1) refuse("MACHINE_ERROR", "malformed argument in the spec");
    argument.kind = kind == 'p' ? EmuArgument::POINTER : kind == 'i' ? EmuArgument::INTEGER : EmuArgument::FLOATING;
    if (kind == 'm') {
      if (argument.integer < 0 || argument.integer >= spec.tensor_map_count) refuse("MACHINE_ERROR", "malformed argument in the spec");
      argument.kind = EmuArgument::TENSOR_MAP;
      argument.pointer = &spec.descriptors[argument.integer];
    }
    if (kind == 'i') argument.floating = (double)argument.integer;
    if (kind == 'f') argument.integer = (int64_t)argument.floating;
  }
}

}  // namespace

void read_spec(const char* path) {
  FILE* const file = fopen(path, "re");
  if (!file) refuse("MACHINE_ERROR", "cannot open the spec");
  char word[64];
  while (fscanf(file, "%63s", word) == 1) {
    int fields = 1, number = 0;
    if (strcmp(word, "image") == 0) fields = fscanf(file, "%4095s", spec.image), decode(spec.image);
    else if (strcmp(word, "checked") == 0) fields = fscanf(file, "%d", &number), spec.checked = number;
    else if (strcmp(word, "order") == 0) fields = fscanf(file, "%d", &number), spec.order = (Order)number;
    else if (strcmp(word, "seed") == 0) fields = fscanf(file, "%lu", &spec.seed);
    else if (strcmp(word, "timeout_ms") == 0) fields = fscanf(file, "%u", &spec.timeout_ms);
    else if (strcmp(word, "workers") == 0) fields = fscanf(file, "%u", &spec.workers);
    else if (strcmp(word, "poison") == 0) fields = fscanf(file, "%d", &number), spec.poison = (uint8_t)number;
    else if (strcmp(word, "eager") == 0) fields = fscanf(file, "%d", &number), spec.eager = number;
    else if (strcmp(word, "edge") == 0) fields = fscanf(file, "%d", &spec.edge);
    else if (strcmp(word, "talks") == 0) fields = fscanf(file, "%d", &number), spec.talks = number;
    else if (strcmp(word, "open_walls") == 0) fields = fscanf(file, "%d", &number), spec.open_walls = number;
    else if (strcmp(word, "buffer") == 0 && spec.buffer_count < MAX_BUFFERS) read_buffer(file);
    else if (strcmp(word, "tensormap") == 0 && spec.tensor_map_count < MAX_TENSOR_MAPS) read_tensor_map(file);
    else if (strcmp(word, "launch") == 0 && spec.launch_count < MAX_LAUNCHES) read_launch(file);
    else fields = 0;
    if (fields != 1) refuse("MACHINE_ERROR", "the spec has a '%s' the runner cannot read", word);
  }
  fclose(file);
}

}  // namespace runner
