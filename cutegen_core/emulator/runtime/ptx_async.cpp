// cp.async: copies from global to shared memory that arrive later.
#include "ptx_machine.h"

namespace runner::ptx {

const Family async_family[] = {{}};

}  // namespace runner::ptx
