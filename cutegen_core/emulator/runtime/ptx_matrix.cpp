// Matrix instructions of a warp.
#include "ptx_machine.h"

namespace runner::ptx {

const Family matrix_family[] = {{}};

}  // namespace runner::ptx
