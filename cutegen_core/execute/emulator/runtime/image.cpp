// Loads a compiled candidate: an ELF shared object, mapped and relocated here instead of by the system's loader, so
// that no constructor runs, nothing but the names in `symbols.cpp` can be reached, and addresses are the same every time.
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runner.h"

namespace runner {

namespace {

struct Image {
  uint8_t* base = nullptr;
  size_t bytes = 0;
  const Elf64_Sym* symbols = nullptr;
  const char* strings = nullptr;
  uint32_t symbol_count = 0;
  uint8_t *shared = nullptr, *shared_end = nullptr;
  bool device_variables = false;
  const uint8_t* file = nullptr;      // stays mapped: it says which names lie where
  uint8_t* initial = nullptr;         // what its writable parts held before anything ran
} image;

constexpr size_t MOST_BYTES = 512 << 20;

uint8_t* at(uint64_t address) { return image.base + address; }

const uint8_t* map_file(const char* path, size_t* bytes) {
  int const fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat facts;
  if (fd < 0 || fstat(fd, &facts) != 0) refuse("MACHINE_ERROR", "cannot open %s", path);
  *bytes = (size_t)facts.st_size;
  void* const file = mmap(nullptr, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (file == MAP_FAILED) refuse("MACHINE_ERROR", "cannot map %s", path);
  return (const uint8_t*)file;
}

int protection(uint32_t flags) {
  return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

// Sharing the image keeps `__device__` variables the same for the worker that runs every block and for later launches.
// Static shared variables end where a matrix descriptor's addresses do, and dynamic shared memory begins where these do:
// what a descriptor means is plain unless both together are larger.
void map_segments(const uint8_t* file, const Elf64_Ehdr* header, uint64_t shared_end) {
  auto const* segment = (const Elf64_Phdr*)(file + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i)
    if (segment[i].p_type == PT_LOAD) image.bytes = segment[i].p_vaddr + segment[i].p_memsz;
  image.bytes = (image.bytes + PAGE - 1) / PAGE * PAGE;
  if (image.bytes > MOST_BYTES)
    refuse("UNSUPPORTED", "the kernel file's variables take %zu MiB; the emulator gives %zu", image.bytes >> 20, MOST_BYTES >> 20);
  int const sharing = image.device_variables ? MAP_SHARED : MAP_PRIVATE;
  uintptr_t const end = (shared_end + PAGE - 1) / PAGE * PAGE % DESCRIBED, wanted = IMAGE_BASE + (end ? DESCRIBED - end : 0);
  void* const place = mmap((void*)wanted, image.bytes, PROT_READ | PROT_WRITE,
                           sharing | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (place != (void*)wanted) refuse("MACHINE_ERROR", "cannot map %zu bytes for the compiled kernel", image.bytes);
  image.base = (uint8_t*)place;
  for (int i = 0; i < header->e_phnum; ++i)
    if (segment[i].p_type == PT_LOAD) memcpy(at(segment[i].p_vaddr), file + segment[i].p_offset, segment[i].p_filesz);
}

void protect_segments(const uint8_t* file, const Elf64_Ehdr* header) {
  auto const* segment = (const Elf64_Phdr*)(file + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    if (segment[i].p_type != PT_LOAD) continue;
    uint64_t const low = segment[i].p_vaddr / PAGE * PAGE;
    uint64_t const high = (segment[i].p_vaddr + segment[i].p_memsz + PAGE - 1) / PAGE * PAGE;
    mprotect(at(low), high - low, protection(segment[i].p_flags));
  }
}

uint64_t symbol_address(uint32_t index) {
  const Elf64_Sym& symbol = image.symbols[index];
  if (symbol.st_shndx != SHN_UNDEF) return (uint64_t)at(symbol.st_value);
  const char* const name = image.strings + symbol.st_name;
  void* const address = resolve(name);
  if (!address && ELF64_ST_BIND(symbol.st_info) != STB_WEAK)
    refuse("UNRESOLVED", "%s", name);
  return (uint64_t)address;
}

void relocate(const Elf64_Rela* entries, size_t bytes) {
  for (size_t i = 0; i < bytes / sizeof(Elf64_Rela); ++i) {
    auto* const place = (uint64_t*)at(entries[i].r_offset);
    uint32_t const symbol = ELF64_R_SYM(entries[i].r_info);
    switch (ELF64_R_TYPE(entries[i].r_info)) {
      case R_X86_64_NONE: break;
      case R_X86_64_RELATIVE: *place = (uint64_t)at(entries[i].r_addend); break;
      case R_X86_64_64: *place = symbol_address(symbol) + entries[i].r_addend; break;
      case R_X86_64_GLOB_DAT:
      case R_X86_64_JUMP_SLOT: *place = symbol_address(symbol); break;
      default:
        refuse("REFUSED", "the kernel needs relocation type %u, which device code has no use for",
               (unsigned)ELF64_R_TYPE(entries[i].r_info));
    }
  }
}

struct Dynamic {
  uint64_t values[64] = {};
  explicit Dynamic(const uint8_t* file, const Elf64_Ehdr* header) {
    auto const* segment = (const Elf64_Phdr*)(file + header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i)
      if (segment[i].p_type == PT_DYNAMIC)
        for (auto* entry = (const Elf64_Dyn*)(file + segment[i].p_offset); entry->d_tag != DT_NULL; ++entry)
          if (entry->d_tag < 64) values[entry->d_tag] = entry->d_un.d_val;
  }
};

// Sections are read for two things only: where shared variables lie, and whether there are `__device__` variables.
void read_sections(const uint8_t* file, const Elf64_Ehdr* header, uint64_t* low, uint64_t* high) {
  auto const* section = (const Elf64_Shdr*)(file + header->e_shoff);
  auto const* names = (const char*)(file + section[header->e_shstrndx].sh_offset);
  for (int i = 0; i < header->e_shnum; ++i) {
    const char* const name = names + section[i].sh_name;
    if (strcmp(name, "emu_shared") == 0) {
      *low = section[i].sh_addr;
      *high = section[i].sh_addr + section[i].sh_size;
    } else if (strcmp(name, ".data") == 0 || strcmp(name, ".bss") == 0) {
      image.device_variables |= section[i].sh_size > 0;
    }
  }
}

// Name of the variable that lies at an address of the image, "" when the file names none.
const char* variable_at(uint64_t address) {
  auto const* header = (const Elf64_Ehdr*)image.file;
  auto const* section = (const Elf64_Shdr*)(image.file + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (section[s].sh_type != SHT_SYMTAB) continue;
    auto const* entry = (const Elf64_Sym*)(image.file + section[s].sh_offset);
    auto const* names = (const char*)(image.file + section[section[s].sh_link].sh_offset);
    for (size_t i = 0; i < section[s].sh_size / sizeof *entry; ++i)
      if (ELF64_ST_TYPE(entry[i].st_info) == STT_OBJECT && address >= entry[i].st_value &&
          address < entry[i].st_value + entry[i].st_size)
        return names + entry[i].st_name;
  }
  return "";
}

template <class F>
void each_writable_part(F visit) {
  auto const* header = (const Elf64_Ehdr*)image.file;
  auto const* segment = (const Elf64_Phdr*)(image.file + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i)
    if (segment[i].p_type == PT_LOAD && (segment[i].p_flags & PF_W)) visit(segment[i]);
}

void remember_variables() {
  if (!image.device_variables) return;
  void* const place = mmap(nullptr, image.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) refuse("MACHINE_ERROR", "cannot map %zu bytes for the kernel's variables", image.bytes);
  image.initial = (uint8_t*)place;
  each_writable_part([](const Elf64_Phdr& part) { memcpy(image.initial + part.p_vaddr, at(part.p_vaddr), part.p_filesz); });
}

void* symbol(const char* name) {
  for (uint32_t i = 0; i < image.symbol_count; ++i)
    if (image.symbols[i].st_shndx != SHN_UNDEF && strcmp(image.strings + image.symbols[i].st_name, name) == 0)
      return at(image.symbols[i].st_value);
  return nullptr;
}

}  // namespace

void load_image(const char* path) {
  size_t bytes = 0;
  const uint8_t* const file = map_file(path, &bytes);
  auto const* header = (const Elf64_Ehdr*)file;
  if (bytes < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_type != ET_DYN)
    refuse("MACHINE_ERROR", "%s is not a compiled kernel", path);
  uint64_t low = 0, high = 0;
  read_sections(file, header, &low, &high);
  map_segments(file, header, high);
  image.shared = at(low), image.shared_end = at(high);
  Dynamic const dynamic(file, header);
  image.symbols = (const Elf64_Sym*)at(dynamic.values[DT_SYMTAB]);
  image.strings = (const char*)at(dynamic.values[DT_STRTAB]);
  if (dynamic.values[DT_HASH]) image.symbol_count = ((const uint32_t*)at(dynamic.values[DT_HASH]))[1];
  // The thread checker's own constructor is one pointer; anything more is the candidate's.
  if (dynamic.values[DT_INIT] || dynamic.values[DT_INIT_ARRAYSZ] > (spec.checked ? 8 : 0))
    refuse("REFUSED", "the kernel file has code that runs when it is loaded (a constructor, or a global whose initial "
                      "value must be computed); device code cannot have that");
  relocate((const Elf64_Rela*)at(dynamic.values[DT_RELA]), dynamic.values[DT_RELASZ]);
  relocate((const Elf64_Rela*)at(dynamic.values[DT_JMPREL]), dynamic.values[DT_PLTRELSZ]);
  protect_segments(file, header);
  image.file = file;
  remember_variables();
}

const char* device_variable_at(uintptr_t address) { return variable_at(address - (uintptr_t)image.base); }

void each_device_range(void (*visit)(uintptr_t low, uintptr_t high)) {
  auto const shared_low = (uintptr_t)image.shared, shared_high = (uintptr_t)image.shared_end;
  each_writable_part([&](const Elf64_Phdr& part) {
    auto const low = (uintptr_t)at(part.p_vaddr), high = low + part.p_memsz;
    uintptr_t const cut = shared_low < low ? low : shared_low > high ? high : shared_low;
    uintptr_t const next = shared_high < low ? low : shared_high > high ? high : shared_high;
    if (low < cut) visit(low, cut);
    if (next > cut || cut == low) { if (next < high) visit(next, high); }
  });
}

uint8_t* image_begin() { return image.base; }
size_t image_bytes() { return image.bytes; }
uint8_t* shared_begin() { return image.shared; }
size_t shared_bytes() { return (size_t)(image.shared_end - image.shared); }
bool has_device_variables() { return image.device_variables; }

bool changed_device_variable(char* name, size_t size) {
  uint64_t found = 0;
  if (image.initial)
    each_writable_part([&found](const Elf64_Phdr& part) {
      for (uint64_t a = part.p_vaddr; !found && a < part.p_vaddr + part.p_memsz; ++a)
        if (*at(a) != image.initial[a] && (at(a) < image.shared || at(a) >= image.shared_end)) found = a;
    });
  if (found) snprintf(name, size, "%s", variable_at(found));
  return found != 0;
}

const EmuShared* shared_records(size_t* count) {
  auto* const begin = (const EmuShared*)symbol("emu_shared_records_begin");
  auto* const end = (const EmuShared*)symbol("emu_shared_records_end");
  *count = begin ? (size_t)(*(const EmuShared* const*)end - *(const EmuShared* const*)begin) : 0;
  return begin ? *(const EmuShared* const*)begin : nullptr;
}

const EmuKernel* kernels(size_t* count) {
  auto* const number = (const int64_t*)symbol("emu_kernel_count");
  auto* const list = (const EmuKernel*)symbol("emu_kernels");
  if (!number || !list) refuse("MACHINE_ERROR", "the compiled kernel carries no list of kernels");
  *count = (size_t)*number;
  return list;
}

}  // namespace runner
