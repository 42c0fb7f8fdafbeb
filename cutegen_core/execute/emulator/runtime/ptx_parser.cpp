// Reads a PTX statement: declarations, labels, predicates, several instructions, scopes in braces.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ptx_machine.h"

namespace runner::ptx {
namespace {

// Grows by doubling; what a statement becomes is kept until the process ends.
template <class T>
struct List {
  T* items = nullptr;
  int count = 0, room = 0;
  T& add(T const& item) {
    if (count == room) {
      room = room ? room * 2 : 8;
      items = (T*)realloc((void*)items, (size_t)room * sizeof(T));
      if (!items) fail("UNSUPPORTED", "memory", "", "out of memory while reading a PTX statement");
    }
    items[count] = item;
    return items[count++];
  }
};

struct Name {
  char text[48];
  bool predicate;
};

constexpr const char* SPECIAL_NAMES[] = {
    "tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "ctaid.y", "ctaid.z", "nctaid.x", "nctaid.y",
    "nctaid.z", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "lanemask_eq", "lanemask_lt", "lanemask_le",
    "lanemask_gt", "lanemask_ge", "cluster_ctaid.x", "cluster_ctaid.y", "cluster_ctaid.z", "cluster_nctaid.x", "cluster_nctaid.y",
    "cluster_nctaid.z", "clusterid.x", "clusterid.y", "clusterid.z", "nclusterid.x", "nclusterid.y", "nclusterid.z",
    "cluster_ctarank", "cluster_nctarank"};

int special(const char* name) {
  for (int i = 0; i < (int)(sizeof SPECIAL_NAMES / sizeof *SPECIAL_NAMES); ++i)
    if (strcmp(name, SPECIAL_NAMES[i]) == 0) return i;
  if (strcmp(name, "dynamic_smem_size") == 0) return DYNAMIC_SMEM_SIZE;
  if (strcmp(name, "WARP_SZ") == 0) return WARP_SIZE;
  if (strcmp(name, "clock") == 0 || strcmp(name, "clock64") == 0) return CLOCK;
  return UNKNOWN_SPECIAL;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }

struct Reader {
  const char* at;
  int arguments;
  uintptr_t pc, frame;
  List<Instruction> instructions;
  List<Name> registers;
  List<Name> labels;
  List<int> targets;               // instruction a label stands before

  [[noreturn]] void complain(const char* what) const {
    at_frames(pc, frame);
    fail("UNSUPPORTED", "unsupported-ptx", "", "the emulator cannot read this PTX %s: '%.60s'", what, at);
  }

  void skip() {
    for (;;) {
      while (is_space(*at)) ++at;
      if (at[0] == '/' && at[1] == '/') {
        while (*at && *at != '\n') ++at;
      } else if (at[0] == '/' && at[1] == '*') {
        while (*at && !(at[0] == '*' && at[1] == '/')) ++at;
        if (*at) at += 2;
      } else {
        return;
      }
    }
  }

  bool take(char c) {
    skip();
    if (*at != c) return false;
    ++at;
    return true;
  }

  void expect(char c, const char* where) {
    if (!take(c)) complain(where);
  }

  // A name; dots belong to it where `dotted` (special registers, opcodes).
  Name name(bool dotted) {
    Name found = {};
    size_t length = 0;
    while (is_name(*at) || (dotted && (*at == '.' || (at[0] == ':' && at[1] == ':') || (*at == ':' && at[-1] == ':')))) {
      if (length + 1 < sizeof found.text) found.text[length++] = *at;
      ++at;
    }
    return found;
  }

  static int index_of(List<Name> const& list, const char* text) {
    for (int i = list.count - 1; i >= 0; --i)
      if (strcmp(list.items[i].text, text) == 0) return i;
    return -1;
  }

  int label(const char* text) {
    int const known = index_of(labels, text);
    if (known >= 0) return known;
    Name made = {};
    snprintf(made.text, sizeof made.text, "%s", text);
    labels.add(made);
    targets.add(-1);
    return labels.count - 1;
  }

  // `.reg .b32 a, b<4>;`
  void declaration() {
    at += 4;
    skip();
    if (*at != '.') complain("declaration");
    ++at;
    bool const predicate = strcmp(name(true).text, "pred") == 0;
    do {
      skip();
      while (*at == '%') ++at;
      Name declared = name(false);
      declared.predicate = predicate;
      if (!declared.text[0]) complain("declaration");
      if (!take('<')) {
        registers.add(declared);
        continue;
      }
      int const count = atoi(at);
      if (count > MAX_REGISTERS) complain("statement, which declares too many registers");
      while (is_digit(*at)) ++at;
      expect('>', "declaration");
      for (int i = 0; i < count; ++i) {
        Name numbered = {"", predicate};
        snprintf(numbered.text, sizeof numbered.text, "%.40s%d", declared.text, i);
        registers.add(numbered);
      }
    } while (take(','));
    expect(';', "declaration");
    if (registers.count > MAX_REGISTERS) complain("statement, which declares too many registers");
  }

  Operand number() {
    Operand operand = {};
    bool const minus = *at == '-';
    if (minus) ++at;
    if (at[0] == '0' && (at[1] == 'f' || at[1] == 'F' || at[1] == 'd' || at[1] == 'D')) {
      operand.kind = Operand::FLOAT;
      operand.single = at[1] == 'f' || at[1] == 'F';
      char* end;
      uint64_t const bits = strtoull(at + 2, &end, 16);
      at = end;
      if (operand.single) {
        auto const low = (uint32_t)bits;
        float value;
        memcpy(&value, &low, 4);
        operand.floating = value;
      } else {
        memcpy(&operand.floating, &bits, 8);
      }
      if (minus) operand.floating = -operand.floating;
      return operand;
    }
    const char* look = at;
    while (is_digit(*look)) ++look;
    char* end;
    bool const decimal = *look == '.' || ((*look == 'e' || *look == 'E') && look > at && at[1] != 'x');
    if (decimal) {
      operand.kind = Operand::FLOAT;
      operand.floating = strtod(at, &end) * (minus ? -1 : 1);
    } else {
      operand.kind = Operand::INTEGER;
      bool const binary = at[0] == '0' && (at[1] == 'b' || at[1] == 'B');
      auto const value = (int64_t)(binary ? strtoull(at + 2, &end, 2) : strtoull(at, &end, 0));
      operand.integer = minus ? -value : value;
      if (*end == 'U' || *end == 'u') ++end;
    }
    if (end == at) complain("number");
    at = end;
    return operand;
  }

  Operand simple() {
    skip();
    Operand operand = {};
    if (*at == '!') {
      ++at;
      operand = simple();
      operand.negated = !operand.negated;
      return operand;
    }
    if (is_digit(*at) || *at == '-') return number();
    bool const percent = *at == '%';
    while (*at == '%') ++at;
    if (percent && is_digit(*at)) {
      operand.kind = Operand::ARGUMENT;
      while (is_digit(*at)) operand.index = operand.index * 10 + (*at++ - '0');
      if (operand.index >= arguments) complain("operand");
      return operand;
    }
    Name const found = name(true);
    if (!found.text[0]) complain("operand");
    if (strcmp(found.text, "_") == 0) {
      operand.kind = Operand::SINK;
      return operand;
    }
    operand.index = index_of(registers, found.text);
    operand.kind = Operand::REGISTER;
    if (operand.index >= 0) {
      operand.predicate = registers.items[operand.index].predicate;
      return operand;
    }
    operand.index = special(found.text);
    operand.kind = Operand::SPECIAL;
    if (operand.index != UNKNOWN_SPECIAL) return operand;
    if (percent) complain("special register");
    operand.kind = Operand::LABEL;
    operand.index = label(found.text);
    return operand;
  }

  static Operand group(Operand::Kind kind, List<Operand> const& parts, int64_t offset = 0) {
    Operand operand = {};
    operand.kind = kind;
    operand.count = parts.count;
    operand.parts = parts.items;
    operand.integer = offset;
    return operand;
  }

  // What stands between the brackets of `[base + 16, {x, y}, z]`.
  Operand bracket() {
    List<Operand> parts;
    int64_t offset = 0;
    parts.add(simple());
    skip();
    while (*at == '+' || *at == '-') {
      bool const minus = *at == '-';
      ++at;
      skip();
      Operand const added = simple();
      if (added.kind == Operand::INTEGER) offset += minus ? -added.integer : added.integer;
      else if (added.kind == Operand::ARGUMENT && !minus) parts.items[0].parts = new_operand(added);
      else complain("address");
      skip();
    }
    while (take(',')) parts.add(operand());
    expect(']', "address");
    return group(Operand::ADDRESS, parts, offset);
  }

  // `[%0 + %1]`: the second expression hangs on the first.
  static const Operand* new_operand(Operand const& operand) {
    List<Operand> one;
    return &one.add(operand);
  }

  Operand operand() {
    skip();
    if (take('[')) return bracket();
    List<Operand> parts;
    if (take('{')) {
      do parts.add(simple());
      while (take(','));
      expect('}', "vector");
      return group(Operand::VECTOR, parts);
    }
    Operand const first = simple();
    if (!take('|')) return first;
    parts.add(first);
    parts.add(simple());
    return group(Operand::VECTOR, parts);
  }

  void split(Instruction& instruction, const char* opcode) {
    char* const words = strdup(opcode);
    instruction.opcode = strdup(opcode);
    for (char* word = strtok(words, "."); word && instruction.word_count < MAX_WORDS; word = strtok(nullptr, "."))
      instruction.words[instruction.word_count++] = word;
  }

  void instruction() {
    Instruction made = {};
    if (take('@')) {
      made.predicated = true;
      made.predicate = simple();
      skip();
    }
    const char* const begin = at;
    char opcode[160];
    while (is_name(*at) || *at == '.' || (at[0] == ':' && at[1] == ':') || (at > begin && at[-1] == ':' && *at == ':')) ++at;
    size_t const length = (size_t)(at - begin);
    if (length == 0 || length >= sizeof opcode) complain("instruction");
    memcpy(opcode, begin, length);
    opcode[length] = 0;
    skip();
    // A plain word before a colon is a label.
    if (*at == ':' && !made.predicated && !strchr(opcode, '.')) {
      ++at;
      int const number = label(opcode);  // may move the list
      targets.items[number] = instructions.count;
      return;
    }
    split(made, opcode);
    if (made.word_count == 0) complain("instruction");
    List<Operand> operands;
    if (*at && *at != ';' && *at != '}') {
      do operands.add(operand());
      while (take(','));
    }
    skip();
    if (*at == ';') ++at;
    else if (*at && *at != '}') complain("instruction");
    made.operands = operands.items;
    made.count = operands.count;
    made.execute = find(made);
    if (!made.execute) {
      at_frames(pc, frame);
      unsupported(made);
    }
    instructions.add(made);
  }

  void statement() {
    for (skip(); *at; skip()) {
      if (*at == '{' || *at == '}' || *at == ';') ++at;
      else if (strncmp(at, ".reg", 4) == 0 && is_space(at[4])) declaration();
      else if (*at == '.') complain("directive");
      else instruction();
    }
  }

  // Labels are known by number while reading, by instruction afterwards.
  void resolve_labels() {
    for (int i = 0; i < instructions.count; ++i)
      for (int o = 0; o < instructions.items[i].count; ++o) {
        auto& operand = const_cast<Operand&>(instructions.items[i].operands[o]);
        if (operand.kind != Operand::LABEL) continue;
        operand.index = targets.items[operand.index];
        if (operand.index < 0) {
          at = instructions.items[i].opcode;
          complain("instruction, whose operand is no register and no label");
        }
      }
  }
};

}  // namespace

const Program* parse(const char* text, int argument_count, uintptr_t pc, uintptr_t frame) {
  // `%=` is a number that no other statement has: labels belong to their statement here, so that any will do.
  char* const numbered = strdup(text);
  for (char* at = numbered; (at = strstr(at, "%=")); at += 2) memcpy(at, "00", 2);
  Reader reader = {numbered, argument_count, pc, frame, {}, {}, {}, {}};
  reader.statement();
  reader.resolve_labels();
  auto* const program = (Program*)malloc(sizeof(Program));
  if (!program) fail("UNSUPPORTED", "memory", "", "out of memory while reading a PTX statement");
  *program = {reader.instructions.items, reader.instructions.count, reader.registers.count};
  return program;
}

int type_bits(const char* type) {
  if (strcmp(type, "pred") == 0) return 1;
  const char* c = type;
  while (*c && !is_digit(*c)) ++c;
  if (strncmp(type, "bf16", 4) == 0) c = type + 2;
  if (strncmp(type, "tf32", 4) == 0) return 32;
  int bits = 0;
  for (; is_digit(*c); ++c) bits = bits * 10 + (*c - '0');
  if (*c == 'x' && is_digit(c[1])) bits *= c[1] - '0';
  return bits;
}

}  // namespace runner::ptx
